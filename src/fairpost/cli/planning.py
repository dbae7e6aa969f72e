"""`fairpost plan` and `fairpost sweep`: the harm against epsilon."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from typing import TYPE_CHECKING, Any

import click

from fairpost.allocate import ALLOCATIONS
from fairpost.budgets import Budget, GroupBudgets, whole
from fairpost.cli import options as o
from fairpost.cli import screen
from fairpost.cli.auditing import default_choice
from fairpost.cli.outputs import Outputs, now
from fairpost.counts import Counts
from fairpost.errors import ParameterError, UnsupportedError
from fairpost.io.rows import columns_csv
from fairpost.noise import MECHANISMS, mechanism_of
from fairpost.plan import grid
from fairpost.plan import plan as find
from fairpost.plan import sweep as look
from fairpost.report.numbers import PERCENT, money
from fairpost.results import CONFIDENTIAL, Plan, Point, Refused
from fairpost.results.curves import TARGETS, curve_columns
from fairpost.results.schema import document
from fairpost.rules import PAYING, POSTPROCESSINGS, PostProcessing

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

FIRST = o.together(o.FILE, o.COLUMNS, o.MECHANISM, o.PROMISE, RANGE)
LAST = o.together(o.POSTPROCESS, o.PROBLEM, o.ENGINE, o.JSON, o.CSV, o.HTML, o.WORDS, o.FORCE)


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
    }


@click.command()
@FIRST
@LAST
def sweep(file: str, **given: Any) -> int:
    """Alpha, the largest loss and the cost of privacy against epsilon, from a FILE of true counts.

    \b
    Example: two ways to share $6.5 billion, at 13 levels of privacy
      fairpost sweep districts.csv --epsilons 0.001 1 --points 13 \\
          --budget 6.5e9 --postprocess baseline --postprocess pos \\
          --html sweep.html
    """
    o.check_numbers(given)
    spreads, outputs = spreads_of(given), Outputs(given, [file])
    counts, budget = o.counts_of(file, given)
    law = o.law_of(file, given, budget)
    same, cash = _same(given, budget, law), _Cash.of(counts, budget, given, law)
    chosen = given["postprocess"] or default_choice(budget, law)
    with screen.progress("levels of noise") as report:
        found = look(
            counts,
            [MECHANISMS[given["mechanism"]](s) for s in spreads],  # type: ignore[call-arg]
            chosen,
            progress=report,
            **same,
        )
    points, refused = found.points, found.refused
    if not points:
        raise UnsupportedError(f"the engine refused every level of noise: {refused[0].reason}")
    if not outputs.to_stdout:
        _show(points, refused, cash, f"{counts.n:,} entities, {given['mechanism']} noise")
    data = {"mark": CONFIDENTIAL, "counts": {"n": counts.n, "total": counts.total}} | cash.to_dict()
    outputs.write(
        json=lambda: document("sweep") | data | found.to_dict(),
        csv=lambda: columns_csv(found.columns()),
        html=lambda: _page(points, given, cash, None),
    )
    return 0


@click.command()
@FIRST
@click.option("--max-alpha", type=float, help="Target: alpha at most this, in counts or shares of 1.")
@click.option("--max-loss", type=float, help="Target: no entity expects to lose more; in money with --budget.")
@click.option(
    "--max-cost", type=float, help="Target: cost of privacy at most this; in money with --budget, else a share."
)
@LAST
def plan(file: str, **given: Any) -> int:
    """The smallest epsilon (the largest scale or sigma) that keeps the harm below a limit, from true counts.

    The limit is checked against the upper end of each interval. Without --postprocess every usual candidate is tried.

    \b
    Example: the most privacy at which no district loses more than $500
      fairpost plan districts.csv --max-loss 500 --budget 6.5e9 \\
          --postprocess pos --html plan.html
    """
    o.check_numbers(given)
    target, limit = _target(given)
    spreads, outputs = spreads_of(given), Outputs(given, [file])
    counts, budget = o.counts_of(file, given)
    law = o.law_of(file, given, budget)
    same, cash = _same(given, budget, law), _Cash.of(counts, budget, given, law)
    plans: dict[str, Plan] = {}
    chosen = given["postprocess"] or default_choice(budget, law)
    for which in chosen:
        with screen.progress(which) as report:
            plans[which] = find(
                counts,
                MECHANISMS[given["mechanism"]],
                which,
                target=target,
                limit=limit,
                spreads=spreads,
                progress=report,
                **same | _unused(which, chosen),
            )
    if not any(p.curve for p in plans.values()):
        raise UnsupportedError("; ".join(f"{which}: {p.message}" for which, p in plans.items()))
    if not outputs.to_stdout:
        _show_plans(plans, cash, given["mechanism"])
    data = {"mark": CONFIDENTIAL, "counts": {"n": counts.n, "total": counts.total}} | cash.to_dict()
    outputs.write(
        json=lambda: (
            document("plan") | data | {"target": target, "limit": limit, "plans": [p.to_dict() for p in plans.values()]}
        ),
        csv=lambda: columns_csv(curve_columns(tuple(x for p in plans.values() for x in p.curve))),
        html=lambda: _page(tuple(x for p in plans.values() for x in p.curve), given, cash, (target, limit, plans)),
    )
    return 0 if any(p.found for p in plans.values()) else 3


def _unused(which: str, chosen: Sequence[str]) -> dict[str, None]:
    """What this candidate does not look at and another one does: a total, a budget."""
    known: dict[str, type[PostProcessing]] = {**POSTPROCESSINGS, **PAYING}
    some, own = [known[name] for name in chosen], known[which]
    total = not own.keeps_total and any(kind.keeps_total for kind in some)
    share = (*ALLOCATIONS, *PAYING)
    budget = which not in share and any(name in share for name in chosen)
    return {name: None for name, drop in (("total", total), ("budget", budget)) if drop}


def _target(given: o.Given) -> tuple[str, float]:
    wanted = {k: given[f"max_{k}"] for k in ("alpha", "loss", "cost") if given[f"max_{k}"] is not None}
    if len(wanted) != 1:
        said = ", ".join(f"--max-{k}" for k in wanted) or "none"
        raise ParameterError(f"a plan has exactly one target of --max-alpha, --max-loss and --max-cost, got {said}")
    return next(iter(wanted.items()))


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

    def to_dict(self) -> dict[str, Any]:
        return {"budget": self.total, "group_budgets": None if self.budgets is None else self.budgets.to_dict()}


def _rounded(number: float, rounding: str) -> str:
    """Six digits, rounded one way: what is printed can be given back to a command and is on that side.

    The shortest decimals that read as the number stand for it, so that 0.2 stays 0.2.
    """
    return f"{float(Context(prec=6, rounding=rounding).create_decimal(repr(number))):.6g}"


def _cells(p: Point, cash: _Cash) -> tuple[str, ...]:
    """A row of the table; of an allocation with a budget everything is in money. Epsilon is rounded up, noise down:

    a plan's printed epsilon, or its noise, meets the target that the exact one meets.
    """
    unit, factor = screen.COUNTS if p.task == "release" else screen.SHARES, 1.0
    if p.task == "allocation" and cash.total is not None:
        unit, factor = money(cash.currency), cash.total
    cost = p.cost
    return (
        p.postprocess,
        "-" if p.epsilon is None else _rounded(p.epsilon, ROUND_CEILING),
        _rounded(p.mechanism.spread, ROUND_FLOOR),
        screen.shown(unit, p.alpha.scaled(factor)),
        f"{screen.shown(unit, p.loss)} {p.loser}",
        "-" if cost is None else screen.shown(unit, cost.amount) if cost.amount else screen.shown(PERCENT, cost.share),
        unit.show(p.rmse * factor),
        PERCENT.show(p.zero, 1e-5),
        p.method,
    )


HEAD = ("post-processing", "epsilon", "noise", "alpha", "largest loss", "cost of privacy", "RMSE", "P(0)", "by")


def _show(points: tuple[Point, ...], refused: tuple[Refused, ...], cash: _Cash, title: str) -> None:
    out = screen.console()
    rows = [_cells(p, cash) for p in sorted(points, key=lambda p: p.postprocess)]
    screen.show(out, screen.Grid(title, HEAD, rows, keys=2))
    for r in refused:
        screen.say(out, f"{r.postprocess} at {r.mechanism.parameter} {r.mechanism.spread:g}: {r.reason}")
    _show_end(out, cash, [p.task for p in points])


def _show_plans(plans: dict[str, Plan], cash: _Cash, noise: str) -> None:
    out = screen.console()
    rows = [_cells(p.found, cash) for p in plans.values() if p.found is not None]
    if rows:
        screen.show(out, screen.Grid(f"The most noise that meets the target, {noise}", HEAD, rows, keys=2))
    for which, p in plans.items():
        screen.say(out, f"{which}: {p.message}.")
    _show_end(out, cash, [x.task for p in plans.values() for x in p.curve])


def _show_end(out: Console, cash: _Cash, tasks: Sequence[str]) -> None:
    if cash.words:
        screen.say(out, cash.words)
    screen.say(out, screen.explanation(cash.total is not None and "release" not in tasks), style="dim")
    screen.say(out, CONFIDENTIAL, style="bold")


def _page(
    points: tuple[Point, ...], given: o.Given, cash: _Cash, wanted: tuple[str, float, dict[str, Plan]] | None
) -> str:
    from fairpost.report import curves_page

    x = "epsilon" if all(p.epsilon is not None for p in points) else MECHANISMS[given["mechanism"]].parameter
    target, found, message = None, [], None
    if wanted is not None:
        quantity, limit, plans = wanted
        in_money = cash.total is not None and quantity != "alpha" and points[0].task == "allocation"
        amount = money(given["currency"]).show(limit) if in_money else f"{limit:g}"
        target = (quantity, limit, f"{TARGETS[quantity]} at most {amount}")
        found = [p.found for p in plans.values() if p.found is not None]
        message = " ".join(f"{which}: {p.message}." for which, p in plans.items() if not p.plain) or None
    return curves_page(
        points,
        x=x,
        target=target,
        found=found,
        message=message,
        command=o.command_line(),
        made=now(),
        title=given["title"],
        unit=given["unit"],
        currency=given["currency"],
        budgets=cash.words,
    )
