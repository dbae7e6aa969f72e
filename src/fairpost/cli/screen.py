"""The screen: progress bars, tables and text in as many columns as there are, and what an audit says. Progress goes to stderr.

Columns are folded, and lines broken between words, never digits. A table that is too wide is cut into several, each with the columns
that name a row; where not even one more column fits beside these, every row becomes a block of lines.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from fairpost import palette
from fairpost.accuracy import Estimate
from fairpost.report.numbers import PERCENT, Unit, count, half, money
from fairpost.report.text import clean
from fairpost.report.verdicts import (
    COUNTS,
    PARTS,
    SHARES,
    named,
    programme_lines,
    relative_lines,
    total_line,
    total_unit,
    unit_of,
    verdict_lines,
)
from fairpost.results import Frontier, Point
from fairpost.results.audit import Audit
from fairpost.results.base import name_by_id

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

__all__ = ["COUNTS", "SHARES", "Grid", "console", "remark", "say", "show", "unit_of", "verdict_lines"]

PIPED = 150
"""Columns where there is no terminal and COLUMNS does not say."""
LEAST = 20
"""No screen has fewer columns than this."""
WORD = re.compile(r"(?:[^ \u00a0]|(?<=\d)[ \u00a0](?=[%×])|(?<=×)[ ](?=10))+")
"""What stays on one line: a word, or a number with its "%" or its "× 10"."""


@dataclass(frozen=True)
class Grid:
    """A table: the first columns, which name a row, are text, the others are numbers."""

    title: str
    heads: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    keys: int = 1

    def columns(self, which: Sequence[int]) -> Table:
        """Some of the columns, as a table whose lines do not break."""
        from rich import box
        from rich.table import Table
        from rich.text import Text

        made = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for k in which:
            made.add_column(Text(self.heads[k]), justify="left" if k == 0 else "right", no_wrap=True)
        for row in self.rows:
            made.add_row(*(Text(clean(row[k]), style=_style(row[k]) if k == 0 else "") for k in which))
        return made


def _style(label: str) -> str:
    """A rule has its own colour, the one that it has in the pages; on a terminal only."""
    return palette.look(label).light if label in palette.SLOTS else ""


def console(*, stderr: bool = False) -> Console:
    """Where results (remarks) go. Without a terminal: as wide as COLUMNS says, and no colours but where FORCE_COLOR asks for them."""
    from rich.console import Console

    class Piped(Console):
        def on_broken_pipe(self) -> None:
            """The reader went away: told as it is, where rich would end the program with exit code 1."""
            raise BrokenPipeError

    said = os.environ.get("COLUMNS", "")
    if said.isdigit() and not said.isdecimal():  # rich takes "²" for a number and falls over it
        del os.environ["COLUMNS"]
    screen = Piped(highlight=False, stderr=stderr)
    if screen.file.isatty():  # `is_terminal` is also true of a file where FORCE_COLOR is set
        return screen
    return Piped(highlight=False, stderr=stderr, width=max(int(said), LEAST) if said.isdecimal() else PIPED)


def show(out: Console, grid: Grid) -> None:
    """The table, in as many parts as the screen needs."""
    parts = _parts(out, grid)
    if parts is None:
        _stacked(out, grid)
        return
    say(out, grid.title, style="italic")
    for part in parts:
        out.print(grid.columns(part))


def _parts(out: Console, grid: Grid) -> list[list[int]] | None:
    """The fewest parts that fit, of even numbers of columns where that fits too; None where a column does not."""
    keys, rest = list(range(grid.keys)), list(range(grid.keys, len(grid.heads)))
    filled: list[list[int]] = []
    at = 0
    while at < len(rest):
        sizes = range(len(rest) - at, 0, -1)
        wide = next((n for n in sizes if _width(out, grid, keys + rest[at : at + n]) <= out.width), 0)
        if wide == 0:
            return None
        filled.append(keys + rest[at : at + wide])
        at += wide
    cuts = [round(k * len(rest) / len(filled)) for k in range(len(filled) + 1)]
    even = [keys + rest[low:high] for low, high in pairwise(cuts)]
    return even if all(_width(out, grid, part) <= out.width for part in even) else filled


def _width(out: Console, grid: Grid, which: Sequence[int]) -> int:
    from rich.measure import Measurement

    return Measurement.get(out, out.options.update(max_width=10**6), grid.columns(which)).maximum


def _stacked(out: Console, grid: Grid) -> None:
    """Every row as a block: its name, then one line per column."""
    from rich.cells import cell_len

    say(out, grid.title, style="italic")
    wide = max(cell_len(head) for head in grid.heads)
    for row in grid.rows:
        out.print()
        say(out, ", ".join([row[0], *(f"{grid.heads[k]} {row[k]}" for k in range(1, grid.keys))]))
        for head, cell in zip(grid.heads[grid.keys :], row[grid.keys :], strict=True):
            say(out, cell, lead=f"  {head.ljust(wide)}  ")
    out.print()


def say(out: Console, line: str, *, style: str | None = None, lead: str = "") -> None:
    """One line of text behind `lead`, broken between words where it is too long; what follows is indented."""
    from rich.text import Text

    for part in wrapped(line, out.width, lead):
        out.print(Text(part), style=style, soft_wrap=True)


def remark(line: str) -> None:
    """On stderr: what was done besides the results."""
    say(console(stderr=True), line)


def wrapped(line: str, width: int, lead: str = "") -> list[str]:
    """A line as lines of at most `width` columns, the first behind `lead`; only a word longer than a line is cut."""
    from rich.cells import cell_len, chop_cells

    line = clean(line)
    if cell_len(lead + line) <= width:
        return [lead + line]
    start = lead + " " * (len(line) - len(line.lstrip(" ")))
    after = " " * min(max(len(start), 2), width // 2)
    lines, current = [], start
    for word in WORD.findall(line):
        longer = current + (" " if current.strip() and current != lead else "") + word
        if cell_len(longer) > width and current.strip():
            lines.append(current)
            longer = after + word
        while cell_len(longer) > width:
            first = chop_cells(longer, width)[0]
            lines.append(first)
            longer = after + longer[len(first) :]
        current = longer
    return [*lines, current]


# -- what an audit says ---------------------------------------------------------------------------------------------

GROUPS = 5
"""Groups on the screen, those that gain or lose most; all of them are in the files."""
WIDE = 32
"""A name longer than this is shortened in a table."""
DUE = "Of its due: what the entity that loses most loses, in percent of what it is due"
RARE = 1e-12
"""A chance of degenerate draws below this is not worth a line."""


@contextmanager
def progress(what: str) -> Iterator[Callable[..., None]]:
    """A bar with rate and time left, on a terminal that can redraw: call it with (done, most), and a new label where there is one.

    `most` None: nobody knows.
    """
    screen = console(stderr=True)
    if (
        not screen.file.isatty() or screen.is_dumb_terminal
    ):  # not even a bar that is off: one of an older Rich ends with an empty line
        yield lambda done, most, label=what: None
        return
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        Task,
        TextColumn,
        TimeRemainingColumn,
    )
    from rich.text import Text

    class Rate(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(f"{task.speed:,.0f}/s" if task.speed and task.speed >= 1 else "")

    look = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), Rate(), TimeRemainingColumn())
    with Progress(*look, console=screen, transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, most, label=what: bar.update(task, completed=done, total=most, description=label)


def shown(unit: Unit, estimate: Estimate, *, signed: bool = False) -> str:
    """The value, and its interval where that is wide enough to see."""
    error = half(estimate)
    if error <= 1e-3 * abs(estimate.value):
        return unit.show(estimate.value, error, signed=signed)
    width = (estimate.high - estimate.low) / 10
    low, high = (unit.show(e, width, toward=to, signed=signed) for e, to in ((estimate.low, -1), (estimate.high, 1)))
    return f"{unit.show(estimate.value, width, signed=signed)} ({low} to {high})"


def comparison(results: Sequence[Audit], currency: str) -> Grid:
    """One row per post-processing: the harm, and its price beside it, both in money where there is some."""
    mechanism = results[0].mechanism
    heads = (
        "post-processing",
        "alpha",
        "total off",
        "gains most",
        "loses most",
        "of its due",
        "cost of privacy",
        "RMSE",
        "P(0)",
        "by",
    )
    return Grid(
        f"{mechanism.name} noise, {mechanism.parameter} {mechanism.spread:g}",
        heads,
        [_compared(r, currency) for r in results],
    )


def _compared(r: Audit, currency: str) -> tuple[str, ...]:
    unit, factor = unit_of(r, currency)
    return (
        r.postprocess,
        shown(unit, r.alpha.scaled(factor)),
        total_off(r, currency),
        *(
            f"{cut(name_by_id(r.counts, label), label)} {bias}"
            for label, bias in zip(r.alpha_pair, ends(r, currency), strict=True)
        ),
        _relative(r),
        cost(r, currency),
        error(unit, r.moments.rmse.scaled(factor)),
        PERCENT.show(r.moments.mean_zero.value, 1e-5),
        f"{r.engine.runs:,} runs" if r.method == "monte-carlo" else r.method,
    )


def total_off(r: Audit, currency: str) -> str:
    """By how much the total is off, with its sign; 0 where it is kept."""
    unit, factor = total_unit(r, currency)
    return shown(unit, r.total_off.scaled(factor), signed=True)


def cut(name: str, label: str) -> str:
    """A name for a table, shortened; an id, which must stay whole, where there are no names."""
    return name if name == label or len(name) <= WIDE else f"{name[: WIDE - 1].rstrip()}…"


def _relative(r: Audit) -> str:
    """What the entity that loses most loses, in percent of what it is due; "-" where nothing is due."""
    found = None if r.problem.unit == "decision" else r.relative.of(r.counts.ids.index(r.alpha_pair[1]))
    return "-" if found is None else shown(PARTS, found, signed=True)


def error(unit: Unit, rmse: Estimate) -> str:
    """A root mean squared error with no more digits than its accuracy supports."""
    return unit.show(rmse.value, half(rmse) / 10)


def groups(result: Audit, currency: str) -> Grid | None:
    """What the groups gain or lose that do so most, and who in each loses most; None where there are no groups."""
    found = sorted(result.groups, key=lambda g: -abs(g.bias.value))
    if not found:
        return None
    unit, factor = unit_of(result, currency)

    def signed(bias: Estimate) -> str:
        return unit.show(bias.value * factor, half(bias) * factor / 10, signed=True)

    rows = [
        (
            g.group,
            f"{g.n:,}",
            count(g.due) if result.problem.task == "release" else unit.show(g.due * factor),
            signed(g.bias),
            "-" if g.relative is None else shown(PARTS, g.relative, signed=True),
            shown(unit, g.alpha.scaled(factor)),
            f"{cut(name_by_id(result.counts, g.worst), g.worst)} {signed(g.worst_bias)}",
            "-" if g.worst_relative is None else shown(PARTS, g.worst_relative, signed=True),
        )
        for g in found[:GROUPS]
    ]
    many = f"the {GROUPS} of {len(found):,} groups that gain or lose most" if len(found) > GROUPS else "by group"
    heads = ("group", "n", "due", "bias", "of due", "alpha inside", "smallest bias", "of its due")
    return Grid(f"{result.postprocess}, {many}", heads, rows)


def path(found: Frontier, currency: str) -> Grid:
    """Fairness against accuracy at five thresholds, then the named rules."""
    unit = {"money": money(currency), "share": SHARES}.get(found.unit, COUNTS)
    last = len(found.path) - 1
    steps = [found.path[k] for k in sorted({round(last * q / 4) for q in range(5)})]
    rows = [(f"threshold {t.threshold:.4g}", *_tradeoff(unit, t.point)) for t in steps]
    rows += [(p.postprocess, *_tradeoff(unit, p)) for p in found.named]
    return Grid(
        f"Fairness against accuracy: {found.rule} as its threshold grows", ("rule", "alpha", "RMSE", "P(0)", "by"), rows
    )


def _tradeoff(unit: Unit, p: Point) -> tuple[str, ...]:
    return shown(unit, p.alpha), error(unit, p.rmse), PERCENT.show(p.zero.value, 1e-5), p.method


def ends(result: Audit, currency: str) -> tuple[str, str]:
    """The biases of alpha's pair, in money where there is some, with no more digits than their error supports."""
    unit, factor = unit_of(result, currency)
    places = [result.counts.ids.index(label) for label in result.alpha_pair]
    biases = [(float(result.bias[i]) * factor, float(result.accuracy.half_width[i]) * factor / 10) for i in places]
    most, least = (unit.show(bias, error, signed=True) for bias, error in biases)
    return most, least


def cost(result: Audit, currency: str) -> str:
    """The cost of privacy: money, or a share of the budget."""
    found = result.cost_of_privacy
    if found is None:
        return "-"
    whole = "one group's budget, over all groups" if result.rule.grouped else "the budget"
    return shown(money(currency), found.amount) if found.amount else f"{shown(PERCENT, found.share)} of {whole}"


def sentences(result: Audit, currency: str) -> list[str]:
    """What the numbers of one result mean."""
    most, least = ends(result, currency)
    gainer, loser = (named(result, label) for label in result.alpha_pair)
    lines = [f"{result.postprocess}: in expectation {gainer} gets {most} and {loser} {least}, compared with the truth."]
    if result.rule.bounds is not None:
        b = result.rule.bounds
        least, most = COUNTS.show(b.lower, toward=-1), COUNTS.show(b.theorem, toward=1)
        sharper = "" if b.sharper is None else f"; with E[T], Lemma 3 gives at most {COUNTS.show(b.sharper, toward=1)}"
        lines.append(f"  Theorem 1: alpha is between {least} and {most}{sharper}.")
        if b.says_little(result.alpha.value):
            lines.append(f"  {loose(result)}")
    lines += [f"  {line}" for line in relative_lines(result, currency)]
    if result.cost_of_privacy is not None:
        amount = cost(result, currency)
        lines.append(f"  It would take {amount} more for nobody to expect less than their due (cost of privacy).")
    lines += [f"  {line}" for line in programme_lines(result, currency)]
    off = total_line(result, currency)
    lines += [f"  {off[:1].upper()}{off[1:]}."] if off else []
    if result.rule.degenerate > RARE:
        rate = PERCENT.show(result.rule.degenerate)
        each = " per group, on average over groups," if result.rule.grouped else ""
        lines.append(f"  {rate} of the draws{each} are degenerate and take the documented convention.")
    if result.engine.variance_reduction is not None and result.engine.variance_reduction > 1:
        lines.append(f"  Control variates cut the variance by {result.engine.variance_reduction:,.3g} times.")
    if result.engine.note:
        lines.append(f"  {result.engine.note}.")
    return lines


def loose(result: Audit) -> str:
    """Why Theorem 1 says little where its upper bound is far above alpha."""
    b, alpha = result.rule.bounds, result.alpha
    assert b is not None
    if b.theorem >= b.spread:
        why = "its upper bound is the difference between the largest and the smallest count"
    elif alpha.value > 0:
        why = f"its upper bound is {b.theorem / alpha.value:,.0f} times alpha"
    else:
        why = "its upper bound is far above alpha"
    return f"Theorem 1 says little here: {why}. Alpha is {shown(COUNTS, alpha)}."


def whose(budgets: Mapping[str, Any], total: float, currency: str) -> str:
    """The groups' budgets in words; `budgets`: their `rule` and `amounts`."""
    amounts, unit = budgets["amounts"], money(currency)
    least, most = min(amounts, key=amounts.__getitem__), max(amounts, key=amounts.__getitem__)
    ends = f"{least} with {unit.show(amounts[least])} to {most} with {unit.show(amounts[most])}"
    return f"By group: {unit.show(total)} in all, {budgets['rule']}; {len(amounts):,} groups, from {ends}."


def explanation(in_money: bool, due: str = DUE) -> str:
    """What the columns mean; `due`: the one about what is due."""
    unit = ", in money" if in_money else ""
    return (
        f"alpha: the largest difference between two entities' biases{unit}. Total off: what all results add up to in "
        f"expectation, less the true total. {due}. "
        f"RMSE: root mean squared error per entity{unit}. P(0): the mean chance of receiving 0."
    )
