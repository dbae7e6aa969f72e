"""Tables, sentences and progress bars. Colours only on a terminal; progress on stderr, results on stdout."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fairpost.fairness import Estimate
from fairpost.report.numbers import PERCENT, Unit, half, money
from fairpost.result import AuditResult

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

COUNTS = Unit(digits=5)
SHARES = Unit(100.0, "", " %", 5)
RARE = 1e-12
"""A chance of degenerate draws below this is not worth a line."""
PIPED = 150
"""Columns where there is no terminal."""


def console() -> Console:
    """Where results go."""
    from rich.console import Console

    screen = Console(highlight=False, soft_wrap=False)
    return screen if screen.is_terminal else Console(highlight=False, width=PIPED)


def table(title: str, *columns: str) -> Table:
    """A table whose first column is text and whose others are numbers."""
    from rich import box
    from rich.table import Table

    made = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for k, name in enumerate(columns):
        made.add_column(name, justify="left" if k == 0 else "right", overflow="fold")
    return made


def plain(text: str) -> str:
    """User text without rich's markup."""
    from rich.markup import escape

    return escape(text)


@contextmanager
def progress(what: str) -> Iterator[Callable[..., None]]:
    """A bar with rate and time left, on a terminal: call it with (done, most), and a new label where there is one."""
    from rich.console import Console
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

    screen = Console(stderr=True)
    look = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), Rate(), TimeRemainingColumn())
    with Progress(*look, console=screen, transient=True, disable=not screen.is_terminal) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, most, label=what: bar.update(task, completed=done, total=most, description=label)


def unit_of(result: AuditResult, currency: str = "$") -> tuple[Unit, float]:
    """How the biases of a result are shown, and the factor from bias to that unit."""
    if result.money is not None and result.budget is not None:
        return money(currency), result.budget
    return (SHARES if result.task == "allocation" else COUNTS), 1.0


def shown(unit: Unit, estimate: Estimate) -> str:
    """The value, and its interval where that is wide enough to see."""
    error = half(estimate)
    if error <= 1e-3 * abs(estimate.value):
        return unit.show(estimate.value, error)
    width = (estimate.high - estimate.low) / 10
    low, high = unit.show(estimate.low, width, toward=-1), unit.show(estimate.high, width, toward=1)
    return f"{unit.show(estimate.value, width)} ({low} to {high})"


def comparison(results: tuple[AuditResult, ...], currency: str) -> Table:
    """One row a post-processing: the harm, and its price beside it."""
    mechanism = results[0].mechanism
    heads = ("post-processing", "alpha", "gains most", "loses most", "cost of privacy", "RMSE", "P(0)", "by")
    made = table(f"{mechanism.name} noise, {mechanism.parameter} {mechanism.spread:g}", *heads)
    for r in results:
        own = COUNTS if r.task == "release" else SHARES
        made.add_row(
            r.postprocess,
            shown(own, r.alpha),
            *(f"{plain(label)} {bias}" for label, bias in zip(r.alpha_pair, ends(r, currency), strict=True)),
            cost(r, currency),
            own.show(r.price["root_mean_squared_error"]),
            PERCENT.show(r.price["mean_probability_of_zero"], 1e-5),
            r.method if r.runs is None else f"{r.runs:,} runs",
        )
    return made


def ends(result: AuditResult, currency: str) -> tuple[str, str]:
    """The biases of alpha's pair, in money where there is some, with no more digits than their error supports."""
    unit, factor = unit_of(result, currency)
    places = [result.counts.ids.index(label) for label in result.alpha_pair]
    biases = [(float(result.bias[i]) * factor, float(result.half_width[i]) * factor / 10) for i in places]
    most, least = (unit.show(bias, error, signed=True) for bias, error in biases)
    return most, least


def cost(result: AuditResult, currency: str) -> str:
    """The cost of privacy: money, or a share of the budget."""
    found = result.cost_of_privacy
    if found is None:
        return "-"
    whole = "one group's budget, over all groups" if result.grouped else "the budget"
    return shown(money(currency), found.amount) if found.amount else f"{shown(PERCENT, found.share)} of {whole}"


def sentences(result: AuditResult, currency: str) -> list[str]:
    """What the numbers of one result mean."""
    most, least = ends(result, currency)
    gainer, loser = result.alpha_pair
    lines = [f"{result.postprocess}: in expectation {gainer} gets {most} and {loser} {least}, compared with the truth."]
    if result.bounds is not None:
        b = result.bounds
        sharper = "" if b.sharper is None else f"; with E[T], Lemma 3 gives at most {COUNTS.show(b.sharper)}"
        lines.append(f"  Theorem 1: alpha is between {COUNTS.show(b.lower)} and {COUNTS.show(b.theorem)}{sharper}.")
    if result.cost_of_privacy is not None:
        amount = cost(result, currency)
        lines.append(f"  It would take {amount} more for nobody to expect less than their due (cost of privacy).")
    if result.degenerate > RARE:
        rate = PERCENT.show(result.degenerate)
        lines.append(f"  {rate} of the draws are degenerate and take the documented convention.")
    if result.sample is not None and result.sample.reduction is not None and result.sample.reduction > 1:
        lines.append(f"  Control variates cut the variance by {result.sample.reduction:,.3g} times.")
    if result.note:
        lines.append(f"  {result.note}.")
    return lines


EXPLANATION = (
    "alpha: the largest difference between two entities' biases. RMSE: root mean squared error an entity. "
    "P(0): the mean chance of receiving 0."
)
