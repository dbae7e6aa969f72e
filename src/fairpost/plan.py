"""How much noise is too much: the quantities of an audit against the noise, and the most noise that meets a target."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from fairpost.audit import Chosen, Engine, compare
from fairpost.budgets import Budget
from fairpost.counts import Counts
from fairpost.errors import ParameterError, ToleranceError, UnsupportedError
from fairpost.fairness import Estimate
from fairpost.mechanisms import Mechanism
from fairpost.result import AuditResult, CostOfPrivacy

Progress = Callable[[int, int], None]
TARGETS = {"alpha": "alpha", "loss": "the largest expected loss", "cost": "the cost of privacy"}
STEP = 1e-6
"""The noise that meets a target is known to this relative accuracy, from below."""


@dataclass(frozen=True)
class Point:
    """What an audit says at one level of noise, without the vectors."""

    mechanism: Mechanism
    epsilon: float | None
    """What this noise promises, where the caller can say."""
    postprocess: str
    task: str
    method: str
    alpha: Estimate
    alpha_pair: tuple[str, str]
    cost: CostOfPrivacy | None
    loss: Estimate
    """The largest expected loss of any entity: in money with a budget, else in counts or shares. 0: nobody loses."""
    loser: str
    rmse: float
    """sqrt of the mean over entities of the mean squared error, in counts or shares."""
    zero: float
    """The mean over entities of the probability of receiving 0."""
    note: str | None

    @classmethod
    def of(cls, result: AuditResult, epsilon: float | None = None) -> Point:
        """The point of one result."""
        loss, loser = result.largest_loss
        return cls(
            mechanism=result.mechanism,
            epsilon=epsilon,
            postprocess=result.postprocess,
            task=result.task,
            method=result.method,
            alpha=result.alpha,
            alpha_pair=result.alpha_pair,
            cost=result.cost_of_privacy,
            loss=loss if result.money is None or result.budget is None else loss.scaled(result.budget),
            loser=loser,
            rmse=result.price["root_mean_squared_error"],
            zero=result.price["mean_probability_of_zero"],
            note=result.note,
        )

    def to_dict(self) -> dict[str, Any]:
        """The point as plain data, for JSON."""
        return {
            "mechanism": self.mechanism.describe(),
            "epsilon": self.epsilon,
            "postprocess": self.postprocess,
            "method": self.method,
            "alpha": asdict(self.alpha),
            "alpha_pair": list(self.alpha_pair),
            "largest_loss": asdict(self.loss) | {"id": self.loser},
            "cost_of_privacy": None if self.cost is None else self.cost.to_dict(),
            "rmse": self.rmse,
            "zero": self.zero,
            "note": self.note,
        }

    def quantity(self, target: str) -> Estimate | None:
        """alpha, the largest loss or the cost of privacy (in money where it is); None where it has no meaning."""
        if target == "cost":
            return None if self.cost is None else self.cost.amount or self.cost.share
        return self.alpha if target == "alpha" else self.loss


@dataclass(frozen=True)
class Refusal:
    """A level of noise at which the engine could not deliver, and why."""

    mechanism: Mechanism
    epsilon: float | None
    postprocess: str
    reason: str


@dataclass(frozen=True)
class Plan:
    """The most noise that meets a target, with the curve that shows it."""

    target: str
    limit: float
    found: Point | None
    """The point with the most noise; None where no noise in the range meets the target."""
    curve: tuple[Point, ...]
    """From little noise to much."""
    refused: tuple[Refusal, ...]
    message: str
    """One sentence."""
    plain: bool
    """Whether the sentence says no more than that the target is met here and not with more noise."""


def grid(least: float, most: float, points: int = 25) -> tuple[float, ...]:
    """Levels of noise from `least` to `most`, evenly spaced in the logarithm."""
    if not 0 < least < most < math.inf:
        raise ParameterError(f"a range of noise must ascend from above 0, got {least!r} to {most!r}")
    if points < 2:
        raise ParameterError(f"a range of noise must have at least 2 points, got {points!r}")
    return tuple(float(s) for s in np.geomspace(least, most, points))


def sweep(
    counts: Counts,
    mechanisms: Sequence[Mechanism],
    postprocesses: Sequence[Chosen],
    *,
    engine: Engine = "auto",
    total: float | None = None,
    budget: Budget | None = None,
    by_group: bool = False,
    epsilon: Callable[[Mechanism], float | None] | None = None,
    progress: Progress | None = None,
) -> tuple[tuple[Point, ...], tuple[Refusal, ...]]:
    """Every post-processing at every mechanism: the points, and where the engine refused."""
    points: list[Point] = []
    refused: list[Refusal] = []
    for k, mechanism in enumerate(mechanisms):
        promise = None if epsilon is None else epsilon(mechanism)
        for which in postprocesses:
            try:
                found = compare(
                    counts, mechanism, [which], engine=engine, total=total, budget=budget, by_group=by_group
                )
                points.append(Point.of(found[0], promise))
            except (ToleranceError, UnsupportedError) as refusal:
                refused.append(Refusal(mechanism, promise, str(which), str(refusal)))
        if progress is not None:
            progress(k + 1, len(mechanisms))
    return tuple(points), tuple(refused)


def plan(
    counts: Counts,
    kind: type[Mechanism],
    postprocess: Chosen,
    *,
    target: str,
    limit: float,
    spreads: Sequence[float],
    engine: Engine = "auto",
    total: float | None = None,
    budget: Budget | None = None,
    by_group: bool = False,
    epsilon: Callable[[Mechanism], float | None] | None = None,
    progress: Progress | None = None,
) -> Plan:
    """The largest noise (smallest epsilon) in the range of `spreads` at which `target` stays at or below `limit`.

    "At or below" is said of the upper end of the interval, so the numerical error is on the safe side. No quantity
    is proven to grow with the noise everywhere, so the whole range is looked at: the answer is the largest noise such
    that the target is met there and at every smaller level of the curve; between two levels the place is found by
    Brent's method. `kind` is the class of the mechanism, made from one spread (b or sigma).
    """
    if target not in TARGETS:
        raise ParameterError(f"`target` must be one of {', '.join(TARGETS)}, got {target!r}")
    if not 0 < limit < math.inf:
        raise ParameterError(f"the limit on {target} must be > 0 and finite, got {limit!r}")

    def at(spreads: Sequence[float], progress: Progress | None = None) -> tuple[tuple[Point, ...], tuple[Refusal, ...]]:
        made = [kind(s) for s in spreads]  # type: ignore[call-arg]
        return sweep(
            counts,
            made,
            [postprocess],
            engine=engine,
            total=total,
            budget=budget,
            by_group=by_group,
            epsilon=epsilon,
            progress=progress,
        )

    def excess(spread: float) -> tuple[float, Point | None]:
        points, _ = at([spread])
        quantity = points[0].quantity(target) if points else None
        return (math.inf, None) if quantity is None else (quantity.high - limit, points[0])

    curve, refused = at(sorted(spreads), progress)
    if not curve:
        why = f"the engine refused every level of noise: {refused[0].reason}"
        return Plan(target, limit, None, (), refused, why, plain=False)
    if curve[0].quantity(target) is None:
        raise ParameterError(f"the cost of privacy is for allocations, got the post-processing {curve[0].postprocess}")
    found, why, plain = _largest(curve, refused, target, limit, excess)
    return Plan(target, limit, found, curve, refused, why, plain)


def _largest(
    curve: tuple[Point, ...],
    refused: tuple[Refusal, ...],
    target: str,
    limit: float,
    excess: Callable[[float], tuple[float, Point | None]],
) -> tuple[Point | None, str, bool]:
    """The point, the sentence, and whether the sentence is the usual one."""
    levels = [(p.mechanism.spread, p) for p in curve] + [(r.mechanism.spread, None) for r in refused]
    levels.sort(key=lambda level: level[0])
    keeps = f"keeps {TARGETS[target]} at or below {limit:g}"
    good = 0
    while good < len(levels) and _meets(levels[good][1], target, limit):
        good += 1
    if good == 0:
        return None, f"no noise in the range {keeps}: the least noise already exceeds it", False
    if good == len(levels):
        return levels[-1][1], f"every noise in the range {keeps}; more may be possible", False
    later = any(_meets(p, target, limit) for _, p in levels[good + 1 :])
    aside = "; more noise meets it again further on, which is left aside" if later else ""
    low, high = levels[good - 1], levels[good]
    if high[1] is None:
        return low[1], f"the engine refuses the next level of noise, so this is the most that is known{aside}", False
    found = _between(low[0], high[0], low[1], excess)
    return found, f"this is the most noise, and the smallest epsilon, that {keeps}{aside}", not later


def _meets(point: Point | None, target: str, limit: float) -> bool:
    quantity = None if point is None else point.quantity(target)
    return quantity is not None and quantity.high <= limit


def _between(
    low: float, high: float, known: Point | None, excess: Callable[[float], tuple[float, Point | None]]
) -> Point | None:
    """The root of `excess` in log noise, approached from the side that meets the target; `known` meets it at `low`."""
    from scipy.optimize import brentq

    best: list[tuple[float, Point | None]] = [(math.log(low), known)]

    def f(u: float) -> float:
        value, point = excess(math.exp(u))
        if value <= 0 and u > best[0][0]:
            best[0] = (u, point)
        return min(value, 1e300)

    root = brentq(f, math.log(low), math.log(high), xtol=STEP / 4, rtol=8.9e-16)
    if best[0][0] < root - STEP / 2:
        f(root - STEP / 2)
    return best[0][1]
