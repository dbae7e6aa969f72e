"""`fairpost allocate`: shares of a budget from noisy counts alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
import numpy as np

from fairpost.allocate import ALLOCATIONS, by_law
from fairpost.allocate import allocate as shares_of
from fairpost.budgets import Budget
from fairpost.cli import options as o
from fairpost.cli import screen
from fairpost.cli.laws import law_of
from fairpost.cli.outputs import Outputs, now
from fairpost.cli.recipes import allocate_lines
from fairpost.io import Rows, read_rows
from fairpost.io.files import columns_csv
from fairpost.io.tables import read_row_budgets
from fairpost.noise import Law
from fairpost.report.numbers import PERCENT, Unit, money
from fairpost.results import Allocation
from fairpost.results.allocation import ESTIMATED, allocation_columns, allocation_data
from fairpost.rules import PAYING

if TYPE_CHECKING:
    from rich.console import Console

TOP = 10
"""Rows on the screen."""


@click.command()
@o.FILE
@o.COLUMNS
@o.LABEL
@o.KEEP
@o.NOISE
@click.option(
    "--postprocess",
    multiple=True,
    type=click.Choice([*ALLOCATIONS, *PAYING]),
    metavar="NAME",
    help=f"{', '.join(ALLOCATIONS)}; with --programme: {', '.join(PAYING)}. Repeatable.  "
    "[default: all three, pos-threshold only where the noise is given; with --programme: as-written]",
)
@o.LAW
@click.option(
    "--budget", type=float, help="Money to share; by group it is split by the shares of the groups' noisy sums."
)
@click.option(
    "--group-budget",
    metavar="FILE|COL",
    help="Instead: the budget of each group, as a CSV of group,budget or a column of FILE.",
)
@click.option("--by-group", is_flag=True, help="Each group shares its own budget.")
@click.option("--confidence", type=float, default=0.95, show_default=True, help="How surely an interval covers.")
@click.option("--simultaneous", is_flag=True, help="Intervals that cover all entities together.")
@click.option("--replicates", type=int, default=10, show_default=True, help="Bootstrap draws for the error of a bias.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the bootstrap.")
@o.JSON
@o.CSV
@o.HTML
@o.WORDS
@o.NOUN
@o.FORCE
def allocate(file: str, **given: Any) -> int:
    """Shares of a budget from a FILE of noisy counts: all that an outside analyst has.

    With the noise (public: --epsilon or --scale ...) each entity also gets an interval for the share that the true
    counts would give it, and an estimate of the bias of each rule. Both are made from noisy counts only.

    \b
    Example: $6.5 billion by published noisy counts, made at epsilon 0.1
      fairpost allocate noisy.csv --budget 6.5e9 --epsilon 0.1 \\
          --csv shares.csv
    """
    o.check_numbers(given)
    mechanism = o.maybe_noise(given)
    outputs = Outputs(given, [file], public=True)
    noisy, budget = _read(file, given)
    law = law_of(file, given, budget)
    found = _allocate(noisy, mechanism, given, budget) if not law else _by_law(noisy, mechanism, given, budget, law)
    outputs.write(
        lambda: _show(found, given["currency"]),
        json=lambda: allocation_data(found, neighbours=o.neighbours_of(given), replicates=given["replicates"]),
        csv=lambda: columns_csv(allocation_columns(found)),
        html=lambda: _page(found, file, given, mechanism, law),
    )
    return 0


def _page(found: list[Allocation], file: str, given: o.Given, mechanism: Law | None, law: dict[str, Any]) -> str:
    from fairpost.report import allocation_page

    return allocation_page(
        found,
        command=o.command_line(),
        made=now(),
        title=given["title"],
        unit=given["unit"],
        currency=given["currency"],
        noun=given["noun"],
        source=o.source_of(file),
        lines=allocate_lines(file, given, mechanism, [a.how for a in found], law),
    )


def _read(file: str, given: o.Given) -> tuple[Rows, Budget | None]:
    """The noisy counts, and the money to share: one budget, or one per group."""
    if given["group_budget"] is None:
        return read_rows(file, **o.columns(given), **o.names(given)), given["budget"]
    return read_row_budgets(file, given["group_budget"], **o.columns(given), **o.names(given))


def _allocate(noisy: Rows, mechanism: Law | None, given: o.Given, budget: Budget | None) -> list[Allocation]:
    """Every rule that was asked for."""
    rules = given["postprocess"] or tuple(k for k in ALLOCATIONS if k != "pos-threshold" or mechanism is not None)
    settings = {k: given[k] for k in ("confidence", "simultaneous", "replicates", "seed")} if mechanism else {}
    found = []
    with screen.progress("estimating biases") as report:
        for k, how in enumerate(rules):
            found.append(
                shares_of(
                    noisy.values,
                    noisy.weights,
                    how,
                    mechanism,
                    budget=budget,
                    ids=noisy.ids,
                    groups=noisy.groups,
                    by_group=given["by_group"],
                    names=noisy.names,
                    kept=noisy.kept,
                    estimate_bias=mechanism is not None,
                    **settings,
                )
            )
            report(k + 1, len(rules))
    return found


def _by_law(
    noisy: Rows, mechanism: Law | None, given: o.Given, budget: Budget | None, law: dict[str, Any]
) -> list[Allocation]:
    """Under a programme: its weights are public, its counts are noisy, its base is either."""
    settings = {k: given[k] for k in ("confidence", "simultaneous", "replicates", "seed")} if mechanism else {}
    asked = {k: law[k] for k in ("last", "base_noise") if k in law} | {"by_group": given["by_group"]}
    return [
        by_law(noisy, law["programme"], how, mechanism, budget=budget, **asked, **settings)
        for how in given["postprocess"] or ("as-written",)
    ]


def _show(found: list[Allocation], currency: str) -> None:
    first = found[0]
    out, unit = screen.console(), screen.SHARES if first.budget is None else money(currency)
    factor = 1.0 if first.budget is None else first.budget
    heads = ["id" if first.names is None else "name", "noisy count", *(a.how for a in found)]
    if first.interval is not None:
        heads.append(f"{100 * first.interval.confidence:g} % interval of the true value")
    rows = []
    for i in np.argsort(-first.shares, kind="stable")[:TOP]:
        cells = [first.name(i), f"{first.noisy[i]:,.6g}"]
        cells += [unit.show(float(a.shares[i]) * factor) for a in found]
        if first.interval is not None:
            sides = ((first.interval.low, -1), (first.interval.high, 1))
            cells.append(" to ".join(unit.show(float(e[i]) * factor, toward=side) for e, side in sides))
        rows.append(tuple(cells))
    title = f"The {min(TOP, first.n)} largest of {first.n:,}"
    screen.show(out, screen.Grid(title, tuple(heads), rows))
    if first.groups is not None:
        _show_groups(out, found, unit, factor)
    if first.budgets is not None and first.budget is not None:
        screen.say(out, screen.whose(first.budgets, first.budget, currency))
    for a in found:
        _show_bias(out, a, unit, factor)
    for a in found:
        if a.missing is not None:
            screen.say(out, f"{a.how}: no estimate of the bias: {a.missing}.")
    if first.interval is None and first.missing is None:
        screen.say(
            out,
            "No intervals and no estimates of bias: the noise was not given (--epsilon, --scale, --sigma or --rho).",
        )
    negative = int(np.count_nonzero(first.noisy < 0))
    part = PERCENT.show(negative / first.n, 1e-5)
    screen.say(out, f"{negative:,} of {first.n:,} noisy counts are negative ({part}).")


def _show_groups(out: Console, found: list[Allocation], unit: Unit, factor: float) -> None:
    """What the groups get that get most, by every rule."""
    tables = [a.by_group() for a in found]
    first = tables[0]
    ranked = sorted(first, key=lambda g: -first[g][2])[: screen.GROUPS]
    rows = [
        (g, f"{first[g][0]:,}", f"{first[g][1]:,.6g}", *(unit.show(table[g][2] * factor) for table in tables))
        for g in ranked
    ]
    many = f"The {screen.GROUPS} of {len(first):,} groups that get most" if len(first) > screen.GROUPS else "By group"
    screen.show(out, screen.Grid(many, ("group", "n", "noisy sum", *(a.how for a in found)), rows))


def _show_bias(out: Console, a: Allocation, unit: Unit, factor: float) -> None:
    if a.bias is None:
        return
    p = a.bias
    worst, best = int(np.argmin(p.bias)), int(np.argmax(p.bias))
    ends = (
        f"{a.name(i)} {unit.show(float(p.bias[i]) * factor, float(p.error[i]) * factor, signed=True)} "
        f"± {unit.show(float(p.error[i]) * factor, toward=1)}"
        for i in (best, worst)
    )
    where = " of sharing inside the groups" if a.grouped else ""
    screen.say(out, f"{a.how}: the largest and smallest bias{where}, {ESTIMATED}: {', '.join(ends)}.")
