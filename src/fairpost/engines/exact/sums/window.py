"""Which t matter for the root of H(t) = C, and where the contours at each t cross the real axis."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fairpost.engines.exact.simplex.law import log_cdf
from fairpost.engines.exact.sums.population import Entities, Places, entities, product
from fairpost.engines.moments import Floats
from fairpost.errors import ToleranceError
from fairpost.noise import Law
from fairpost.roots import root

DROP = 36.0
"""The window ends where the integrands are e^-DROP of their peak."""
SEEK = 20
"""Chebyshev nodes for each cell of counts, while the window is sought."""
TILT = (0.75, 8.0)
"""The largest |tau| times the scale: Laplace (its transform ends at 1) and Gaussian."""


@dataclass(frozen=True)
class Family:
    """One rule's falling sum: the noise, the counts that are cut, and the places that belong to t."""

    noise: Law
    y: Floats
    times: Floats
    surplus: float
    """C - sum y."""
    places: Callable[[Floats], Places]

    @property
    def n(self) -> float:
        """The number of entities."""
        return float(np.sum(self.times))

    def entities(self, low: float, high: float, nodes: int) -> Entities:
        """What decides the law of H(t) for t from low to high."""
        ends = self.places(np.array([low, high])).base
        return entities(self.noise, self.y, self.times, self.surplus, (float(ends[0]), float(ends[1]) + 1e-9), nodes)


@dataclass(frozen=True)
class Window:
    """Marks (t, tau, width): ascending, tau < 0 up to the centre and tau > 0 from there."""

    centre: float
    low: float
    high: float
    scale: float
    """The standard deviation of the root."""
    kept: float
    """About how many entities share the shift."""
    marks: Floats

    def tilts(self, t: Floats) -> tuple[Floats, Floats]:
        """tau and width at t, interpolated between the marks."""
        tau, width = np.empty_like(t), np.empty_like(t)
        for here, side in ((t > self.centre, 1.0), (t <= self.centre, -1.0)):
            at, near, wide = self.marks[self.marks[:, 1] * side > 0].T
            tau[here] = side * np.exp(np.interp(t[here], at, np.log(np.abs(near))))
            width[here] = np.exp(np.interp(t[here], at, np.log(wide)))
        return tau, width


def slope(e: Entities, places: Places, s: Floats) -> tuple[Floats, Floats]:
    """log E[e^{s (H - C)}] and its derivative in s, real s, one for each place."""
    found = product(e, places, s[:, None])
    kappa = places.kappa[:, None, None]
    own = found.first + kappa * found.kept
    if found.ramp is not None and places.rho is not None:
        own = own + places.rho[:, None, None] * found.ramp
    rate = own[:, 0] @ e.weight + e.giants * (found.line[:, 0] + places.kappa - places.base) - e.rest
    return np.real(found.log[:, 0]), np.real(rate)


def _saddles(e: Entities, places: Places, side: float, limit: float) -> tuple[Floats, Floats, Floats]:
    """tau on one side of 0 (to 5 %), the width of the tilted H, and the logarithm of the saddle-point estimate."""
    size = places.base.size
    low, high = np.full(size, math.log(1e-7 * limit)), np.full(size, math.log(limit))
    for _ in range(9):
        middle = 0.5 * (low + high)
        tau = np.exp(middle)
        _, rate = slope(e, places, side * tau)
        past = side * rate * tau > 1.0
        low, high = np.where(past, low, middle), np.where(past, middle, high)
    tau = np.exp(0.5 * (low + high))
    log, rate = slope(e, places, side * tau)
    _, near = slope(e, places, side * 0.999 * tau)
    curvature = np.maximum(side * (rate - near) / (0.001 * tau), 0.0) + 1 / tau**2
    log = np.minimum(log - np.log(tau) - 0.5 * np.log(2 * np.pi * curvature), 0.0)
    if side > 0 and e.giants == 0:  # P(H > C) is at most P(H > 0)
        none = _log_cdf(e.noise, places.base[:, None] - e.y) @ e.weight
        log = np.minimum(log, np.log(-np.expm1(np.minimum(none, -1e-300))))
    return side * tau, np.sqrt(curvature), log


def _root(family: Family) -> tuple[float, float, float]:
    """The t with E[H(t)] = C, the standard deviation of the root, and -dE[H]/dt there."""
    rest = family.surplus + float(np.sum(family.y * family.times))
    whole = Entities(family.noise, family.y, family.times, 0.0, rest, None, family.y.size)

    def excess(t: float) -> float:
        return float(slope(whole, family.places(np.array([t])), np.zeros(1))[1][0])

    if family.noise.deviation == 0:
        raise ToleranceError(
            "the noise is so small that its deviation is 0 in floating point: there is nothing to integrate"
        )
    step = 2 * family.noise.deviation + 1e-3
    low = high = -family.surplus / family.n
    while excess(low) <= 0:
        low, step = low - step, 2 * step
    step = 2 * family.noise.deviation + 1e-3
    while excess(high) >= 0:
        high, step = high + step, 2 * step
    t = root(excess, low, high, xtol=max(1e-12 * family.noise.deviation, 1e-300), rtol=1e-14)
    gap = 0.05 * family.noise.deviation
    shared = max((excess(t - gap) - excess(t + gap)) / (2 * gap), 1e-3)
    small = 1e-4 / (1 + abs(family.noise.deviation))
    at = family.places(np.array([t, t]))
    # (a giant count, tilted by itself, is no number, and its variance is that of its noise)
    rate = slope(family.entities(t - gap, t + gap, SEEK), at, np.array([small, -small]))[1]
    variance = max(float(rate[0] - rate[1]) / (2 * small), 1e-12 * family.noise.variance)
    if family.noise.discrete:  # H moves by 1 at the least where it moves, and the root with it
        return t, max(math.sqrt(variance), 1.0) / max(shared, 1.0), shared
    return t, math.sqrt(variance) / shared, shared


def find_window(family: Family) -> Window:
    """Marks from the centre outwards, until what is integrated has fallen by e^-DROP on each side."""
    unit = family.noise.spread
    limit = TILT[int(np.isinf(family.noise.strip))] / unit
    centre, scale, shared = _root(family)
    scale = min(scale, max(family.noise.deviation, 1.0 if family.noise.discrete else 0.0))
    ends = [centre - 11 * scale, centre + 11 * scale]
    stride = 0.5 * 1.2 ** np.arange(8)
    for _ in range(6):
        e = family.entities(ends[0], ends[1], SEEK)
        rows, reached = [], True
        for side in (1.0, -1.0):
            offset, peak = 0.0, [-math.inf, -math.inf]
            grow = 1.0
            for _ in range(12):
                t = centre + side * scale * (offset + np.concatenate([[0.0], np.cumsum(grow * stride)[:-1]]))
                offset += float(np.sum(grow * stride))
                grow *= 1.2**8
                at = family.places(t)
                tau, width, log = _saddles(e, at, side, limit)
                weighted = log + _log_cdf(family.noise, at.base - family.y[0])
                done = np.zeros(t.size, dtype=bool)
                for k, values in enumerate((log, weighted)):
                    top = np.maximum.accumulate(np.maximum(values, peak[k]))
                    peak[k] = float(top[-1])
                    below = values <= top - DROP
                    done = below if k == 0 else done & below
                last = int(np.argmax(done)) + 1 if done.any() else t.size
                rows.append(np.stack([t, tau, width], axis=1)[:last])
                if done.any():
                    break
            else:
                raise ToleranceError("no range of the shift was found outside which it is negligible")
            end = float(rows[-1][-1, 0])
            reached &= side < 0 or end <= ends[1]
            ends[int(side > 0)] = end
        if reached:
            break
    marks = np.concatenate(rows)
    marks = marks[np.lexsort((marks[:, 1], marks[:, 0]))]
    return Window(centre, ends[0], ends[1], scale, shared, marks)


def _log_cdf(noise: Law, c: Floats) -> Floats:
    """log P(eta <= c) of the continuous noise beside this one."""
    return log_cdf(int(np.isinf(noise.strip)), c / noise.spread)
