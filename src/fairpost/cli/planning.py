"""`fairpost plan` and `fairpost sweep`: the harm against epsilon."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from fairpost.budgets import Budget, GroupBudgets, whole
from fairpost.cli import options as o
from fairpost.cli import screen, tree_plans
from fairpost.cli.auditing import default_choice
from fairpost.cli.laws import law_of
from fairpost.cli.outputs import Outputs, now
from fairpost.cli.recipes import plan_lines, sweep_lines
from fairpost.counts import Counts
from fairpost.errors import ParameterError, UnsupportedError
from fairpost.io.rows import columns_csv
from fairpost.noise import MECHANISMS, mechanism_of
from fairpost.plan import grid
from fairpost.plan import plan as find
from fairpost.plan import sweep as look
from fairpost.report.numbers import PERCENT, Unit, money
from fairpost.report.verdicts import PARTS
from fairpost.results import CONFIDENTIAL, Curve, Plans, Point
from fairpost.results.plans import rounded
from fairpost.results.targets import LIMITS, USUAL_ERROR

if TYPE_CHECKING:
    from rich.console import Console

EPSILONS = (0.001, 10.0)

RANGE = o.together(
    click.option(
        "--epsilons", nargs=2, type=float, metavar="LOW HIGH", help="The range of epsilon.  [default: 0.001 10]"
    ),
    click.option("--spreads", nargs=2, type=float, metavar="LOW HIGH", help="Instead: the range of scale or sigma."),
    click.option("--points", type=int, default=25, show_default=True, help="Levels of noise on the curve."),
)

FIRST = o.together(o.FILE, o.COLUMNS, o.LABEL, o.MECHANISM, o.PROMISE, RANGE)
LAST = o.together(o.POSTPROCESS, o.PROBLEM, o.ENGINE, o.JSON, o.CSV, o.HTML, o.WORDS, o.NOUN, o.FORCE)


def spreads_of(given: o.Given) -> tuple[float, ...]:
    """The levels of noise, from little to much."""
    if given["spreads"]:
        if given["epsilons"]:
            raise ParameterError("a range is given by --epsilons or by --spreads, got both")
        least, most = given["spreads"]
        return grid(least, most, given["points"])
    low, high = given["epsilons"] or EPSILONS
    if not 0 < low < high < float("inf"):
        raise ParameterError(f"--epsilons must ascend from above 0, got {low:g} {high:g}")
    about = o.neighbours_of(given)
    ends = [mechanism_of(given["mechanism"], epsilon=e, neighbours=about).spread for e in (high, low)]
    return grid(ends[0], ends[1], given["points"])


def _same(given: o.Given, budget: Budget | None, law: dict[str, Any]) -> dict[str, Any]:
    """What both hand on as it is."""
    return law | {
        "engine": o.engine_of(given),
        "total": given["total"],
        "budget": budget,
        "by_group": given["by_group"],
        "epsilon": o.neighbours_of(given).epsilon,
        "currency": given["currency"],
    }


@click.command()
@FIRST
@LAST
@tree_plans.SWEEP
def sweep(file: str, **given: Any) -> int:
    """Alpha, the largest loss and the cost of privacy against epsilon, from a FILE of true counts.

    \b
    Example: two ways to share $6.5 billion, at 13 levels of privacy
      fairpost sweep districts.csv --epsilons 0.001 1 --points 13 \\
          --budget 6.5e9 --postprocess baseline --postprocess pos \\
          --html sweep.html
    """
    if given["levels"] is not None:
        return tree_plans.sweep_levels_of(file, given)
    tree_plans.alone(given)
    o.check_numbers(given)
    spreads, outputs = spreads_of(given), Outputs(given, [file])
    counts, budget = o.counts_of(file, given)
    law = law_of(file, given, budget)
    chosen = given["postprocess"] or default_choice(budget, law)
    with screen.progress("levels of noise") as report:
        found = look(
            counts,
            [MECHANISMS[given["mechanism"]](s) for s in spreads],  # type: ignore[call-arg]
            chosen,
            progress=report,
            **_same(given, budget, law),
        )
    if not found.points:
        raise UnsupportedError(f"the engine refused every level of noise: {found.refused[0].reason}")
    cash = _Cash.of(counts, budget, given, law)
    outputs.write(
        lambda: _show(found, cash, f"{counts.n:,} entities, {given['mechanism']} noise"),
        json=found.to_dict,
        csv=lambda: columns_csv(found.columns()),
        html=lambda: _page(
            found.points, file, given, cash, lines=sweep_lines(file, given, spreads, chosen, law), basis=found.basis
        ),
    )
    return 0


@click.command()
@FIRST
@o.LIMITS
@click.option(
    "--any-error",
    is_flag=True,
    help=f"No limit on the error. Without this, --max-rmse and --max-relative-rmse it is {USUAL_ERROR:g} % of the mean of what is due.",
)
@LAST
@tree_plans.PLAN
def plan(file: str, **given: Any) -> int:
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
        return tree_plans.plan_levels(file, given)
    tree_plans.alone(given)
    o.check_numbers(given)
    targets = o.targets_of(given)
    if not targets:
        limits = ", ".join(f"--{name.replace('_', '-')}" for name in LIMITS)
        raise ParameterError(f"a plan must have a target of {limits}, got none")
    spreads, outputs = spreads_of(given), Outputs(given, [file])
    counts, budget = o.counts_of(file, given)
    law = law_of(file, given, budget)
    chosen = given["postprocess"] or default_choice(budget, law)
    with screen.progress("levels of noise") as report:
        plans = find(
            counts,
            MECHANISMS[given["mechanism"]],
            chosen,
            spreads=spreads,
            progress=report,
            any_error=given["any_error"],
            **targets.to_dict(),
            **_same(given, budget, law),
        )
    if not any(p.curve for p in plans):
        raise UnsupportedError("; ".join(f"{p.postprocess}: {p.message}" for p in plans))
    cash = _Cash.of(counts, budget, given, law)
    outputs.write(
        lambda: _show_plans(plans, cash, given["mechanism"]),
        json=plans.to_dict,
        csv=lambda: columns_csv(plans.columns()),
        html=lambda: _page(
            tuple(x for p in plans for x in p.curve),
            file,
            given,
            cash,
            lines=plan_lines(file, given, spreads, chosen, law),
            plans=plans,
        ),
    )
    return 0 if any(p.found for p in plans) else 3


@dataclass(frozen=True, eq=False)
class _Cash:
    """The money of a plan or sweep: how it is written, how much there is, and each group's part."""

    currency: str
    total: float | None
    budgets: GroupBudgets | None

    @classmethod
    def of(cls, counts: Counts, budget: Budget | None, given: o.Given, law: dict[str, Any]) -> _Cash:
        total = None if budget is None else whole(budget)
        return cls(given["currency"], total, o.group_budgets(counts, budget, given, law))

    @property
    def words(self) -> str | None:
        """Whose budget it is, where there are several."""
        found = self.total is not None and self.budgets is not None
        return screen.whose(self.budgets, self.total, self.currency) if found else None  # type: ignore[arg-type]


def _cells(p: Point, cash: _Cash) -> tuple[str, ...]:
    """A row of the table; of an allocation with a budget everything is in money. Epsilon is rounded up, noise down:

    a plan's printed epsilon, or its noise, meets the target that the exact one meets.
    """
    unit, cost = _unit(p, cash), p.cost
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


def _unit(p: Point, cash: _Cash) -> Unit:
    """The unit of a point: money, counts, or shares in percent."""
    if p.unit == "money":
        return money(cash.currency)
    return PERCENT if p.unit == "decision" else screen.COUNTS if p.task == "release" else screen.SHARES


DUE = "Largest in % of due: the largest loss relative to what the entity is due"
MEAN = "In brackets: of the mean of what is due."
DIGITS = 6
"""Of epsilon and of the noise in the tables: what is printed can be given back to a command."""
HEAD = (
    "post-processing", "epsilon", "noise", "alpha", "total off", "largest loss", "largest in % of due", "cost of privacy", "RMSE",
    "P(0)", "by",
)  # fmt: skip


def _show(found: Curve, cash: _Cash, title: str) -> None:
    out = screen.console()
    rows = [_cells(p, cash) for p in sorted(found.points, key=lambda p: p.postprocess)]
    screen.show(out, screen.Grid(title, HEAD, rows, keys=2))
    for r in found.refused:
        screen.say(out, f"{r.postprocess} at {r.mechanism.parameter} {r.mechanism.spread:g}: {r.reason}")
    _show_end(out, cash, [p.task for p in found.points])


def _show_plans(plans: Plans, cash: _Cash, noise: str) -> None:
    out = screen.console()
    screen.say(out, f"{plans.verdict}.")
    rows = [_cells(p.found, cash) for p in plans if p.found is not None]
    if rows:
        screen.show(out, screen.Grid(f"The most noise that meets the targets, {noise}", HEAD, rows, keys=2))
    for p in plans:
        screen.say(out, f"{p.postprocess}: {p.message}.")
    _show_end(out, cash, [x.task for p in plans for x in p.curve])


def _show_end(out: Console, cash: _Cash, tasks: Sequence[str]) -> None:
    if cash.words:
        screen.say(out, cash.words)
    screen.say(
        out, screen.explanation(cash.total is not None and "release" not in tasks, DUE) + f" {MEAN}", style="dim"
    )
    screen.say(out, CONFIDENTIAL, style="bold")


def _page(points: tuple[Point, ...], file: str, given: o.Given, cash: _Cash, **more: Any) -> str:
    from fairpost.report import curves_page

    x = "epsilon" if all(p.epsilon is not None for p in points) else MECHANISMS[given["mechanism"]].parameter
    return curves_page(
        points,
        x=x,
        command=o.command_line(),
        made=now(),
        title=given["title"],
        unit=given["unit"],
        currency=given["currency"],
        noun=given["noun"],
        budgets=cash.words,
        source=o.source_of(file),
        **more,
    )
