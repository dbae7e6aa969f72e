"""`fairpost plan` and `fairpost sweep`: the harm against epsilon."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fairpost.cli import options as o
from fairpost.cli import screen
from fairpost.cli.outputs import Outputs, page_words
from fairpost.errors import UnsupportedError
from fairpost.noise import MECHANISMS
from fairpost.report.numbers import PERCENT, Unit, money
from fairpost.report.verdicts import PARTS
from fairpost.results import CONFIDENTIAL, Curve, Plans, Point
from fairpost.results.curves import Basis
from fairpost.results.plans import rounded
from fairpost.study.study import Loaded
from fairpost.study.true import PlanStudy, SweepStudy

if TYPE_CHECKING:
    from rich.console import Console


@o.asks(SweepStudy)
def sweep(study: SweepStudy, given: o.Given) -> int:
    """Alpha, the largest loss and the cost of privacy against epsilon, from a FILE of true counts.

    \b
    Example: two ways to share $6.5 billion, at 13 levels of privacy
      fairpost sweep districts.csv --epsilons 0.001 1 --points 13 \\
          --budget 6.5e9 --postprocess baseline --postprocess pos \\
          --html sweep.html
    """
    if given["levels"] is not None:
        from fairpost.cli.tree_plans import sweep_levels_of

        return sweep_levels_of(study.data.file, given)
    outputs, loaded = _loaded(study, given)
    with screen.progress("levels of noise") as report:
        found = study.find(loaded, report)
    if not found.points:
        raise UnsupportedError(f"the engine refused every level of noise: {found.refused[0].reason}")
    outputs.write(
        lambda: _show(found, f"{loaded.counts.n:,} entities, {study.noise.name} noise"),
        json=found.to_dict,
        csv=found.to_csv,
        html=lambda: _page(found.points, study, _whose(found.basis), basis=found.basis),
    )
    return 0


@o.asks(PlanStudy)
def plan(study: PlanStudy, given: o.Given) -> int:
    """The smallest epsilon (the largest scale or sigma) that keeps the harm below limits, from true counts.

    Several targets may be given, and all must hold; the answer says which one binds. A limit is checked against the upper
    end of each interval. Without --postprocess every usual candidate is tried. Limits on biases alone are met by noise that
    drowns the counts, so a plan without a limit on the error takes one (see --any-error) and says so.

    \b
    Example: the most privacy at which no district loses more than $500
      fairpost plan districts.csv --max-loss 500 --budget 6.5e9 \\
          --postprocess pos --html plan.html
    """
    if given["levels"] is not None:
        from fairpost.cli.tree_plans import plan_levels

        return plan_levels(study.data.file, given)
    outputs, loaded = _loaded(study, given)
    with screen.progress("levels of noise") as report:
        plans = study.find(loaded, report)
    if not any(p.curve for p in plans):
        raise UnsupportedError("; ".join(f"{p.postprocess}: {p.message}" for p in plans))
    outputs.write(
        lambda: _show_plans(plans, study.noise.name),
        json=plans.to_dict,
        csv=plans.to_csv,
        html=lambda: _page(tuple(x for p in plans for x in p.curve), study, _whose(plans.basis), plans=plans),
    )
    return 0 if any(p.found for p in plans) else 3


def _loaded(study: PlanStudy | SweepStudy, given: o.Given) -> tuple[Outputs, Loaded]:
    """Where the files go, and what was read; a range that is wrong is said before that."""
    study.noise.look()
    outputs, loaded = Outputs(given, [study.data.file]), study.load(o.note)
    o.warn(loaded.counts)
    return outputs, loaded


def _whose(basis: Basis) -> str | None:
    """Whose budget it is, where there are several."""
    if basis.budget is None or basis.group_budgets is None:
        return None
    return screen.whose(basis.group_budgets, basis.budget, basis.currency)


def _cells(p: Point, basis: Basis) -> tuple[str, ...]:
    """A row of the table; of an allocation with a budget everything is in money. Epsilon is rounded up, noise down:

    a plan's printed epsilon, or its noise, meets the target that the exact one meets.
    """
    unit, cost = _unit(p, basis), p.cost
    return (
        p.postprocess,
        "-" if p.epsilon is None else f"{rounded(p.epsilon, DIGITS, up=True):.{DIGITS}g}",
        f"{rounded(p.mechanism.spread, DIGITS, up=False):.{DIGITS}g}",
        screen.shown(unit, p.alpha),
        "-"
        if p.total_off is None
        else screen.shown(screen.COUNTS if p.unit == "decision" else unit, p.total_off, signed=True),
        f"{screen.shown(unit, p.loss)} {p.name(p.loser)}",
        "-" if p.relative_loser is None else f"{screen.shown(PARTS, p.relative_loss)} {p.name(p.relative_loser)}",
        "-" if cost is None else screen.shown(unit, cost.amount) if cost.amount else screen.shown(PERCENT, cost.share),
        screen.error(unit, p.rmse) + ("" if p.relative_rmse is None else f" ({screen.error(PARTS, p.relative_rmse)})"),
        PERCENT.show(p.zero.value, 1e-5),
        p.method,
    )


def _unit(p: Point, basis: Basis) -> Unit:
    """The unit of a point: money, counts, or shares in percent."""
    if p.unit == "money":
        return money(basis.currency)
    return PERCENT if p.unit == "decision" else screen.COUNTS if p.task == "release" else screen.SHARES


DUE = "Largest in % of due: the largest loss relative to what the entity is due"
MEAN = "In brackets: of the mean of what is due."
DIGITS = 6
"""Of epsilon and of the noise in the tables: what is printed can be given back to a command."""
HEAD = (
    "post-processing", "epsilon", "noise", "alpha", "total off", "largest loss", "largest in % of due", "cost of privacy", "RMSE",
    "P(0)", "by",
)  # fmt: skip


def _show(found: Curve, title: str) -> None:
    out = screen.console()
    rows = [_cells(p, found.basis) for p in sorted(found.points, key=lambda p: p.postprocess)]
    screen.show(out, screen.Grid(title, HEAD, rows, keys=2))
    for r in found.refused:
        screen.say(out, f"{r.postprocess} at {r.mechanism.parameter} {r.mechanism.spread:g}: {r.reason}")
    _show_end(out, found.basis, [p.task for p in found.points])


def _show_plans(plans: Plans, noise: str) -> None:
    out = screen.console()
    screen.say(out, f"{plans.verdict}.")
    rows = [_cells(p.found, plans.basis) for p in plans if p.found is not None]
    if rows:
        screen.show(out, screen.Grid(f"The most noise that meets the targets, {noise}", HEAD, rows, keys=2))
    for p in plans:
        screen.say(out, f"{p.postprocess}: {p.message}.")
    _show_end(out, plans.basis, [x.task for p in plans for x in p.curve])


def _show_end(out: Console, basis: Basis, tasks: Sequence[str]) -> None:
    if (whose := _whose(basis)) is not None:
        screen.say(out, whose)
    screen.say(
        out, screen.explanation(basis.budget is not None and "release" not in tasks, DUE) + f" {MEAN}", style="dim"
    )
    screen.say(out, CONFIDENTIAL, style="bold")


def _page(points: tuple[Point, ...], study: PlanStudy | SweepStudy, whose: str | None, **more: Any) -> str:
    from fairpost.report import curves_page

    x = "epsilon" if all(p.epsilon is not None for p in points) else MECHANISMS[study.noise.name].parameter
    words = page_words(study.words, study.data.file, study.python())
    return curves_page(points, x=x, budgets=whose, **words, **more)
