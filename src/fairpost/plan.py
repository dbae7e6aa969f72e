"""How much noise is too much: the quantities of an audit against the noise, and the most noise that meets all targets.

And how much fairness costs: alpha against the error as the threshold of `pos-threshold` (`simplex-threshold`) grows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, overload

import numpy as np
from msgspec import structs
from numpy.typing import ArrayLike

from fairpost import cancel
from fairpost.audit import Asked, Chosen, renamed
from fairpost.budgets import Budget, GroupBudgets
from fairpost.counts import Counts
from fairpost.engines import Conditional, Engine, Exact, Expansion, FirstOf, engine_of
from fairpost.engines.base import Refusal
from fairpost.errors import Cancelled, ParameterError
from fairpost.noise import Law, Mechanism, Threshold, as_kind, as_mechanism, as_mechanisms
from fairpost.problems import Problem, Programme
from fairpost.results.audit import Audit
from fairpost.results.curves import Basis, Curve, Frontier
from fairpost.results.documents import Point, Refused, Tradeoff
from fairpost.results.plans import SHORT, Ending, Plan, Plans, rounded
from fairpost.results.targets import LIMITS, USUAL_ERROR, Targets, one_unit
from fairpost.rules import PostProcessing

Progress = Callable[[int, int], None]
Promise = Callable[[Mechanism], float | None]
STEP = 1e-6
"""The noise that meets a target is known to this relative accuracy, from below; under intervals to their width."""
DUST = 1e-12
"""A number this close to a short one is that one."""


def grid(least: float, most: float, points: int = 25) -> tuple[float, ...]:
    """Levels of noise from `least` to `most`, evenly spaced in the logarithm."""
    if not 0 < least < most < math.inf:
        raise ParameterError(f"a range of noise must ascend from above 0, got {least!r} to {most!r}")
    if points < 2:
        raise ParameterError(f"a range of noise must have at least 2 points, got {points!r}")
    return tuple(float(s) for s in np.geomspace(least, most, points))


@renamed(postprocesses="rules", method="engine")
def sweep(
    counts: Counts | ArrayLike,
    mechanisms: Sequence[Mechanism],
    rules: Sequence[Chosen],
    *,
    engine: str | Engine = "auto",
    total: float | None = None,
    budget: Budget | None = None,
    by_group: bool = False,
    programme: Programme | str | None = None,
    last: ArrayLike | None = None,
    base_noise: Mechanism | str | None = None,
    runs: int | None = None,
    seed: int | None = None,
    rtol: float | None = None,
    confidence: float | None = None,
    epsilon: Promise | None = None,
    progress: Progress | None = None,
    currency: str = "$",
) -> Curve:
    """Every rule at every mechanism: the points, and where the engine refused.

    A question that is withdrawn (`cancel`) raises `Cancelled` with the curve so far.

    Parameters
    ----------
    mechanisms
        The levels of noise.
    counts, rules, engine, total, budget, by_group, programme, last, base_noise, runs, seed, rtol, confidence
        As in `compare`. A curve has no targets; a plan does. All its rules are measured in one unit.
    epsilon
        From a mechanism to its epsilon, such as `Neighbours(sensitivity=2).epsilon`; without one curves speak of noise.
    progress, currency
        Called with (levels done, levels); the sign of money in sentences.

    """
    x, asked = Counts.of(counts), Asked(total, budget, by_group, programme, last, base_noise)
    finder = engine_of(engine, runs=runs, seed=seed, rtol=rtol, confidence=confidence)
    return _Search(x, asked, finder, epsilon, currency).curve(as_mechanisms(mechanisms), rules, progress)


@overload
def plan(  # type: ignore[overload-overlap]  # a name is a sequence of letters too
    counts: Counts | ArrayLike,
    kind: type[Mechanism],
    rule: Chosen,
    *,
    spreads: Sequence[float],
    max_alpha: float | None = None,
    max_loss: float | None = None,
    max_relative_loss: float | None = None,
    max_cost: float | None = None,
    max_rmse: float | None = None,
    max_relative_rmse: float | None = None,
    any_error: bool = False,
    engine: str | Engine = "auto",
    total: float | None = None,
    budget: Budget | None = None,
    by_group: bool = False,
    programme: Programme | str | None = None,
    last: ArrayLike | None = None,
    base_noise: Mechanism | str | None = None,
    runs: int | None = None,
    seed: int | None = None,
    rtol: float | None = None,
    confidence: float | None = None,
    epsilon: Promise | None = None,
    progress: Progress | None = None,
    currency: str = "$",
) -> Plan: ...
@overload
def plan(
    counts: Counts | ArrayLike,
    kind: type[Mechanism],
    rule: Sequence[Chosen],
    *,
    spreads: Sequence[float],
    max_alpha: float | None = None,
    max_loss: float | None = None,
    max_relative_loss: float | None = None,
    max_cost: float | None = None,
    max_rmse: float | None = None,
    max_relative_rmse: float | None = None,
    any_error: bool = False,
    engine: str | Engine = "auto",
    total: float | None = None,
    budget: Budget | None = None,
    by_group: bool = False,
    programme: Programme | str | None = None,
    last: ArrayLike | None = None,
    base_noise: Mechanism | str | None = None,
    runs: int | None = None,
    seed: int | None = None,
    rtol: float | None = None,
    confidence: float | None = None,
    epsilon: Promise | None = None,
    progress: Progress | None = None,
    currency: str = "$",
) -> Plans: ...
@renamed(postprocess="rule", method="engine")
def plan(
    counts: Counts | ArrayLike,
    kind: type[Mechanism],
    rule: Chosen | Sequence[Chosen],
    *,
    spreads: Sequence[float],
    max_alpha: float | None = None,
    max_loss: float | None = None,
    max_relative_loss: float | None = None,
    max_cost: float | None = None,
    max_rmse: float | None = None,
    max_relative_rmse: float | None = None,
    any_error: bool = False,
    engine: str | Engine = "auto",
    total: float | None = None,
    budget: Budget | None = None,
    by_group: bool = False,
    programme: Programme | str | None = None,
    last: ArrayLike | None = None,
    base_noise: Mechanism | str | None = None,
    runs: int | None = None,
    seed: int | None = None,
    rtol: float | None = None,
    confidence: float | None = None,
    epsilon: Promise | None = None,
    progress: Progress | None = None,
    currency: str = "$",
) -> Plan | Plans:
    """The largest noise (smallest epsilon) in the range of `spreads` at which all targets are met.

    "Met" is said of the upper end of each interval, so the numerical error is on the safe side. No quantity is proven to
    grow with the noise everywhere, so the whole range is looked at: the answer is the largest noise such that the targets
    are met there and at every smaller level of the curve; between two levels the place is found by Brent's method.

    Parameters
    ----------
    kind
        The class of the mechanism, made from one spread (b or sigma).
    rule
        One rule gives a `Plan`, a list of them `Plans`, whose `verdict` compares them.
    spreads
        The levels of noise to look at, such as `grid(1, 1000)`.
    max_alpha, max_loss, max_cost, max_rmse
        Limits, in money with a budget, else in counts or shares of 1; for their meaning see `Targets`.
    max_relative_loss
        In percent of what the entity is due: 2.5 is 2.5 %.
    max_relative_rmse, any_error
        The root mean squared error in percent of the mean of what is due. Some rules keep biases small under any noise, so a
        plan without this and without `max_rmse` takes a limit of 30 % (`results.targets.USUAL_ERROR`) and says so; with
        `any_error` it takes none. Decisions have none by default: the error of a decision is its bias.
    counts, engine, total, budget, by_group, programme, last, base_noise, runs, seed, rtol, confidence
        As in `audit`.
    epsilon, progress, currency
        As in `sweep`.

    """
    given = Targets(
        max_alpha=max_alpha,
        max_loss=max_loss,
        max_relative_loss=max_relative_loss,
        max_cost=max_cost,
        max_rmse=max_rmse,
        max_relative_rmse=max_relative_rmse,
    )
    if not given:
        raise ParameterError(f"a plan must have a target of {', '.join(LIMITS)}, got none")
    if any_error and given.limits_error:
        raise ParameterError("`any_error` is for a plan without a limit on the error, got one")
    x, kind = Counts.of(counts), as_kind(kind)
    several = isinstance(rule, Sequence) and not isinstance(rule, str)
    rules: Sequence[Chosen] = rule if several else [rule]  # type: ignore[assignment,list-item]
    asked = Asked(total, budget, by_group, programme, last, base_noise)
    pis = asked.rules(rules, x)
    one_unit(asked.units(pis), "the rules of a plan")
    assumed = not (any_error or given.limits_error) and all(_has_usual_error(pi.problem, x) for pi in pis)
    wanted = structs.replace(given, max_relative_rmse=USUAL_ERROR) if assumed else given
    finder = engine_of(engine, runs=runs, seed=seed, rtol=rtol, confidence=confidence)
    made = [
        _PlanSearch(x, _for_one(asked, pi, pis), finder, epsilon, currency, kind, which, wanted).run(spreads, progress)
        for which, pi in zip(rules, pis, strict=True)
    ]
    found = [replace(p, assumed=assumed, basis=replace(p.basis, budget=asked.whole)) for p in made]
    return Plans(tuple(found)) if several else found[0]


def _has_usual_error(problem: Problem, counts: Counts) -> bool:
    """Not where nothing is due; nor of decisions, whose mean squared error is their bias: d in {0, 1} has E (d - P)^2 = |B|."""
    return problem.unit != "decision" and float(np.mean(problem.truth(counts))) > 0


def _for_one(asked: Asked, own: PostProcessing, pis: Sequence[PostProcessing]) -> Asked:
    """Without what this rule does not look at and another one does: a total."""
    return replace(asked, total=None) if not own.keeps_total and any(pi.keeps_total for pi in pis) else asked


@dataclass(frozen=True, eq=False)
class _Search:
    """One question, under noise of any level."""

    x: Counts
    asked: Asked
    engine: Engine
    epsilon: Promise | None
    currency: str

    def curve(self, mechanisms: Sequence[Mechanism], rules: Sequence[Chosen], progress: Progress | None) -> Curve:
        """Every rule at every mechanism."""
        one_unit(self.asked.units(self.asked.rules(rules, self.x)), "the rules of a curve")
        points: list[Point] = []
        refused: list[Refused] = []
        budgets: GroupBudgets | None = None

        def so_far() -> Curve:
            basis = Basis.of(self.x, self.asked.whole, budgets, self.currency)
            return Curve(tuple(points), tuple(refused), basis)

        for k, mechanism in enumerate(mechanisms):
            promise = None if self.epsilon is None else self.epsilon(mechanism)
            try:
                cancel.check()
                answers = self.asked.outcomes(self.x, mechanism, rules, self.engine)
            except Cancelled as error:
                error.reaching(lambda _: so_far() if points or refused else None)
                raise
            for which, found in zip(rules, answers, strict=True):
                if isinstance(found, Refusal):
                    refused.append(Refused(mechanism, promise, str(which), found.reason))
                else:
                    points.append(Point.of(found, promise))
                    budgets = budgets or found.rule.budgets
            if progress is not None:
                progress(k + 1, len(mechanisms))
        return so_far()


@dataclass(frozen=True, eq=False)
class _PlanSearch(_Search):
    """The search for the most noise at which one rule meets its targets."""

    kind: type[Mechanism]
    which: Chosen
    targets: Targets

    def at(self, spreads: Sequence[float], progress: Progress | None = None) -> Curve:
        made = [self.kind(s) for s in spreads]  # type: ignore[call-arg]
        return self.curve(made, [self.which], progress)

    def excess(self, spread: float) -> tuple[float, Point | None]:
        points = self.at([spread]).points
        return (self.targets.excess(points[0]), points[0]) if points else (math.inf, None)

    def meets(self, point: Point | None) -> bool:
        return point is not None and self.targets.excess(point) <= 0

    def run(self, spreads: Sequence[float], progress: Progress | None) -> Plan:
        seen = self.at(sorted(spreads), progress)
        if not seen.points:
            return Plan(self.targets, None, None, (), seen.refused, "refused", basis=seen.basis)
        self.targets.judge(seen.points[0])  # a target that has no meaning here is refused before the search
        try:
            best, ending, again = self._largest(seen)
            stated = None if best is None else self._stated(best)
        except Cancelled as error:
            error.reaching(lambda _: seen)
            raise
        return Plan(self.targets, best, stated, seen.points, seen.refused, ending, again, seen.basis)

    def _largest(self, seen: Curve) -> tuple[Point | None, Ending, bool]:
        """The point, how the search ended, and whether more noise meets the targets again further on."""
        levels: list[tuple[float, Point | None]] = [(p.mechanism.spread, p) for p in seen.points]
        levels += [(r.mechanism.spread, None) for r in seen.refused]
        levels.sort(key=lambda level: level[0])
        good = 0
        while good < len(levels) and self.meets(levels[good][1]):
            good += 1
        if good == 0:
            return None, "none", False
        if good == len(levels):
            return levels[-1][1], "all", False
        again = any(self.meets(p) for _, p in levels[good + 1 :])
        low, high = levels[good - 1], levels[good]
        if high[1] is None:
            return low[1], "edge", again
        return self._between(low[0], high[0], low[1]), "found", again

    def _between(self, low: float, high: float, known: Point | None) -> Point | None:
        """The root of `excess` in log noise, approached from the side that meets the targets; `known` meets them at `low`."""
        from scipy.optimize import brentq

        best: list[tuple[float, Point | None]] = [(math.log(low), known)]

        def f(u: float) -> float:
            value, point = self.excess(math.exp(u))
            if value <= 0 and u > best[0][0]:
                best[0] = (u, point)
            return min(value, 1e300)

        step = STEP if known is None else max(STEP, self._blur(known))
        root = brentq(f, math.log(low), math.log(high), xtol=step / 4, rtol=8.9e-16)
        if best[0][0] < root - step / 2:
            f(root - step / 2)
        return best[0][1]

    def _blur(self, point: Point) -> float:
        """The half-width of intervals, in parts of the limits: finer than that no noise is told from another."""
        judged = [v for v in self.targets.judge(point) if v.reached.kind == "interval"]
        return max((v.reached.half_width / v.limit for v in judged), default=0.0)

    def _stated(self, best: Point) -> Point:
        """The point at the shortest number on the safe side that meets the targets too; at worst the point itself."""
        for mechanism, epsilon in self._short(best):
            points = self.curve([mechanism], [self.which], None).points
            if points and self.meets(points[0]):
                return structs.replace(points[0], epsilon=epsilon)
        return best

    def _short(self, best: Point) -> Iterator[tuple[Mechanism, float | None]]:
        """Noise of a short epsilon from the one that was found upwards; without one, short noise from it downwards."""
        spread = best.mechanism.spread
        for digits in range(SHORT, 8):
            if best.epsilon is None or self.epsilon is None:
                yield self.kind(_near(spread, digits, up=False)), None  # type: ignore[call-arg]
                continue
            short = _near(best.epsilon, digits, up=True)
            yield self._with_epsilon(short, spread), short

    def _with_epsilon(self, epsilon: float, start: float) -> Mechanism:
        """The least noise (to rounding) that promises `epsilon`, which is at or a little above that of the spread `start`."""

        def keeps(spread: float) -> bool:
            assert self.epsilon is not None
            promise = self.epsilon(self.kind(spread))  # type: ignore[call-arg]
            return promise is not None and promise <= epsilon

        low, high = start / 2, start * (1 + 2 * DUST)  # less noise promises less, more noise more
        while low < (middle := (low + high) / 2) < high:
            low, high = (low, middle) if keeps(middle) else (middle, high)
        return self.kind(high)  # type: ignore[call-arg]


def _near(value: float, digits: int, *, up: bool) -> float:
    """`value` in so many digits, rounded one way; the nearest where it differs by rounding of floats alone."""
    nearest = float(f"{value:.{digits}g}")
    return nearest if abs(nearest - value) <= DUST * value else rounded(value, digits, up=up)


@renamed(postprocess="rule", method="engine")
def frontier(
    counts: Counts | ArrayLike,
    mechanism: Law,
    rule: str = "pos-threshold",
    *,
    points: int = 21,
    beside: Sequence[Audit] | Sequence[Chosen] | None = None,
    engine: Engine | None = None,
    total: float | None = None,
    budget: Budget | None = None,
    by_group: bool = False,
) -> Frontier:
    """Alpha against the root mean squared error as the threshold grows from 0 to the best one for this noise.

    Parameters
    ----------
    counts, mechanism, total, budget, by_group
        As in `audit`.
    rule
        "pos-threshold" (shares, from pos) or "simplex-threshold" (counts, from simplex).
    points
        Levels of the threshold, evenly spaced.
    beside
        Rules to compare with, by name, or audits that are there already. Default: the usual ones of this task.
    engine
        Default: the expansion, which takes some 0.02 s per point, where it refuses the exact engine, then conditional means, each to a
        percent of alpha.

    """
    if rule not in NAMED:
        raise ParameterError(f"a frontier is of {' or '.join(NAMED)}, got {rule!r}")
    if points < 2:
        raise ParameterError(f"a frontier must have at least 2 points, got {points!r}")
    x, best = Counts.of(counts), as_mechanism(mechanism).best_threshold()
    pi: Any = Asked(total, by_group=by_group).rule(rule, x)
    finder = FirstOf((Expansion(), Exact(DRAWN), Conditional(DRAWN))) if engine is None else engine
    path, refused = [], []
    for level in np.linspace(0.0, best.level, points).tolist():
        steep = best.steepness if best.steepness == math.inf else level + 1.0
        one = replace(pi, threshold=Threshold(level, steep))
        (found,) = Asked(budget=budget).outcomes(x, mechanism, [one], finder)
        if isinstance(found, Refusal):
            refused.append(f"threshold {level:.4g}: {found.reason.removeprefix(f'threshold {level:g}: ')}")
        else:
            path.append(Tradeoff(level, Point.of(found)))
    around = _named(x, mechanism, beside or NAMED[rule], Asked(total, budget, by_group))
    return Frontier(rule, tuple(path), around, tuple(refused))


DRAWN = 1e-2
"""The tolerance of a point on the line: it is drawn, and every one states its own accuracy."""
NAMED = {
    "pos-threshold": ("baseline", "pos", "pos-threshold"),
    "simplex-threshold": ("nonnegative", "simplex", "simplex-threshold"),
}
"""The rules that a frontier goes between, and others of the same task."""


def _named(x: Counts, mechanism: Law, beside: Sequence[Any], asked: Asked) -> tuple[Point, ...]:
    if all(isinstance(one, Audit) for one in beside):
        return tuple(Point.of(one) for one in beside)
    found = asked.outcomes(x, mechanism, beside, engine_of("auto"))
    return tuple(Point.of(one) for one in found if isinstance(one, Audit))
