"""How much noise is too much: the quantities of an audit against the noise, and the most noise that meets a target."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Unpack

import numpy as np
from numpy.typing import ArrayLike

from fairpost import cancel
from fairpost.audit import Asked, Chosen, outcomes
from fairpost.counts import Counts
from fairpost.engines.base import Refusal
from fairpost.errors import Cancelled, ParameterError
from fairpost.noise import Mechanism
from fairpost.results.curves import TARGETS, Curve, Plan, Point, Refused

Progress = Callable[[int, int], None]
STEP = 1e-6
"""The noise that meets a target is known to this relative accuracy, from below."""


def grid(least: float, most: float, points: int = 25) -> tuple[float, ...]:
    """Levels of noise from `least` to `most`, evenly spaced in the logarithm."""
    if not 0 < least < most < math.inf:
        raise ParameterError(f"a range of noise must ascend from above 0, got {least!r} to {most!r}")
    if points < 2:
        raise ParameterError(f"a range of noise must have at least 2 points, got {points!r}")
    return tuple(float(s) for s in np.geomspace(least, most, points))


def sweep(
    counts: Counts | ArrayLike,
    mechanisms: Sequence[Mechanism],
    postprocesses: Sequence[Chosen],
    *,
    epsilon: Callable[[Mechanism], float | None] | None = None,
    progress: Progress | None = None,
    **asked: Unpack[Asked],
) -> Curve:
    """Every post-processing at every mechanism: the points, and where the engine refused. For `asked` see `audit`.

    A question that is withdrawn (`cancel`) raises `Cancelled` with the curve so far.
    """
    x = Counts.of(counts)
    points: list[Point] = []
    refused: list[Refused] = []
    for k, mechanism in enumerate(mechanisms):
        promise = None if epsilon is None else epsilon(mechanism)
        try:
            cancel.check()
            answers = outcomes(x, mechanism, postprocesses, **asked)
        except Cancelled as error:
            error.reaching(lambda _: Curve(tuple(points), tuple(refused)) if points or refused else None)
            raise
        for which, found in zip(postprocesses, answers, strict=True):
            if isinstance(found, Refusal):
                refused.append(Refused(mechanism, promise, str(which), found.reason))
            else:
                points.append(Point.of(found, promise))
        if progress is not None:
            progress(k + 1, len(mechanisms))
    return Curve(tuple(points), tuple(refused))


def plan(
    counts: Counts | ArrayLike,
    kind: type[Mechanism],
    postprocess: Chosen,
    *,
    target: str,
    limit: float,
    spreads: Sequence[float],
    epsilon: Callable[[Mechanism], float | None] | None = None,
    progress: Progress | None = None,
    **asked: Unpack[Asked],
) -> Plan:
    """The largest noise (smallest epsilon) in the range of `spreads` at which `target` stays at or below `limit`.

    "At or below" is said of the upper end of the interval, so the numerical error is on the safe side. No quantity
    is proven to grow with the noise everywhere, so the whole range is looked at: the answer is the largest noise such
    that the target is met there and at every smaller level of the curve; between two levels the place is found by
    Brent's method. `kind` is the class of the mechanism, made from one spread (b or sigma). For `asked` see `audit`.
    """
    if target not in TARGETS:
        raise ParameterError(f"`target` must be one of {', '.join(TARGETS)}, got {target!r}")
    if not 0 < limit < math.inf:
        raise ParameterError(f"the limit on {target} must be > 0 and finite, got {limit!r}")
    x = Counts.of(counts)

    def at(spreads: Sequence[float], progress: Progress | None = None) -> Curve:
        made = [kind(s) for s in spreads]  # type: ignore[call-arg]
        return sweep(x, made, [postprocess], epsilon=epsilon, progress=progress, **asked)

    def excess(spread: float) -> tuple[float, Point | None]:
        try:
            points = at([spread]).points
        except Cancelled as error:
            error.reaching(lambda _: found)
            raise
        quantity = points[0].quantity(target) if points else None
        return (math.inf, None) if quantity is None else (quantity.high - limit, points[0])

    found = at(sorted(spreads), progress)
    curve, refused = found.points, found.refused
    if not curve:
        why = f"the engine refused every level of noise: {refused[0].reason}"
        return Plan(target, limit, None, (), refused, why, plain=False)
    if curve[0].quantity(target) is None:
        raise ParameterError(f"the cost of privacy is for allocations, got the post-processing {curve[0].postprocess}")
    best, why, plain = _largest(curve, refused, target, limit, excess)
    return Plan(target, limit, best, curve, refused, why, plain)


def _largest(
    curve: tuple[Point, ...],
    refused: tuple[Refused, ...],
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
