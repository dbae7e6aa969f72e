"""`fairpost allocate` and `fairpost project`: what can be made from noisy counts alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from msgspec import structs

from fairpost.cli import options as o
from fairpost.cli import screen
from fairpost.cli.outputs import Outputs, page_words, to_stdout
from fairpost.cli.screen import remark
from fairpost.io.files import columns_csv, without_formulas
from fairpost.report.numbers import PERCENT, Unit, money
from fairpost.results import Allocation, Projection
from fairpost.results.allocation import ESTIMATED, allocation_columns, allocation_data
from fairpost.study.noisy import AllocateStudy, ProjectStudy

if TYPE_CHECKING:
    from rich.console import Console

TOP = 10
"""Rows on the screen."""


@o.asks(AllocateStudy)
def allocate(study: AllocateStudy, given: o.Given) -> int:
    """Shares of a budget from a FILE of noisy counts: all that an outside analyst has.

    With the noise (public: --epsilon or --scale ...) each entity also gets an interval for the share that the true
    counts would give it, and an estimate of the bias of each rule. Both are made from noisy counts only.

    \b
    Example: $6.5 billion by published noisy counts, made at epsilon 0.1
      fairpost allocate noisy.csv --budget 6.5e9 --epsilon 0.1 \\
          --csv shares.csv
    """
    outputs = Outputs(given, [study.data.file], public=True)
    loaded = study.load(o.note)
    with screen.progress("estimating biases") as report:
        found = study.find(loaded, report)

    def page() -> str:
        from fairpost.report import allocation_page

        return allocation_page(list(found), **page_words(study.words, study.data.file, study.python()))

    outputs.write(
        lambda: _show(found, study.words.currency),
        json=lambda: allocation_data(
            list(found), neighbours=study.noise.neighbours, replicates=study.intervals.replicates
        ),
        csv=lambda: columns_csv(allocation_columns(list(found))),
        html=page,
    )
    return 0


def _show(found: Sequence[Allocation], currency: str) -> None:
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
        screen.say(out, screen.whose(first.budgets.to_dict(), first.budget, currency))
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


def _show_groups(out: Console, found: Sequence[Allocation], unit: Unit, factor: float) -> None:
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


@o.asks(ProjectStudy)
def project(study: ProjectStudy, given: o.Given) -> int:
    """Noisy counts to counts that are not negative and add up, from a FILE of noisy counts.

    Nothing private is used and no privacy is spent. The counts go to --csv, or to stdout. `simplex-threshold` needs
    the noise (--epsilon or --scale ...), which is public.

    \b
    Example: tracts that add up to their counties' totals, in whole numbers
      fairpost project tracts.csv --group county \\
          --group-total county_total --round --csv clean.csv
    """
    if given["levels"] is not None:
        from fairpost.cli.tree_release import project_levels

        return project_levels(study.data.file, given)
    outputs = Outputs(given, [study.data.file], public=True)
    found = study.find(study.load(o.note))
    if outputs.to_stdout != "json":
        _summary(found, study)

    def counts() -> None:
        text = found.to_csv()
        to_stdout(without_formulas(text) if outputs.safe else text)

    def page() -> str:
        from fairpost.report import projection_page

        drawn = structs.replace(study, problem=structs.replace(study.problem, seed=found.seed))
        return projection_page(found, **page_words(study.words, study.data.file, drawn.python()))

    outputs.write(
        counts if "csv" not in outputs.paths else None,
        json=found.to_dict,
        csv=found.to_csv,
        html=page,
    )
    return 0


def _summary(found: Projection, study: ProjectStudy) -> None:
    c, r = found.changes, found.rounding
    remark(
        f"{found.postprocess}: {found.n:,} counts; {c['negative_before']:,} were negative, "
        f"{c['negative_after']:,} are; {c['zero_after']:,} are 0; the sum went from {c['noisy_sum']:,.12g} to {c['sum']:,.12g}."
    )
    remark(f"The largest change is {c['largest_change']['change']:+,.6g}, of {found.name(found.farthest)}.")
    if found.totals is not None and len(found.totals) > 1:
        own = "the totals of the column" if study.problem.group_total else "the sums of their noisy counts"
        remark(f"{len(found.totals):,} groups keep {own}{_nearest(found, study)}.")
    elif found.totals is not None and study.data.group is not None and study.problem.total is not None:
        remark("The total is of all entities; groups are labels (--group-total gives them totals).")
    if r is not None:
        remark(
            f"Rounding moved {r['rounded_up']:,} counts up and {r['rounded_down']:,} down, none by more than "
            f"{r['largest_change']:.3g}, each without bias; every total is kept (seed {r['seed']})."
        )


def _nearest(found: Projection, study: ProjectStudy) -> str:
    return ", to the nearest whole number" if found.rounded is not None and not study.problem.group_total else ""
