"""`simplex-threshold` under continuous noise, exactly: the integral of pi_S+ with a jump.

v_i = phi(X_i - r), phi(u) = u for u > tau, else 0, and r is where H(t) = sum_j phi(X_j - t), which falls, passes C; where C lies inside
entity i's own jump, r = X_i - tau and it gets the remainder C - H_{-i}(r), between 0 and tau. With g(u) = phi(u) - u,

    v_i - (X_i - r) = g(X_i - r),   so   bias_i = (C - sum x)/n + D_i - mean(D),   D_i = E[g(X_i - r)],   E[r] = mean(D) - (C - sum x)/n.

g(X_i - t) as a function of t is 0 up to the edge X_i - tau, falls by tau there and rises with slope 1 after it. Beyond the edge i adds
nothing to H, so {r > t} = {H_{-i}(t) > C}, which is independent of X_i. At the edge itself the fall is tau where H_{-i} > C,
tau - (C - H_{-i}) where i has the remainder, 0 where H_{-i} < C - tau: in all of them the part of (C - tau, C) that lies below H_{-i}. So

    D_i = int F(t + tau - x_i) P(H_{-i}(t) > C) - f(t + tau - x_i) B_{-i}(t) dt,   B_{-i}(t) = int_{C - tau}^C P(H_{-i}(t) > c) dc

with F and f the noise's distribution function and density. In the same way

    P(v_i = 0) = int f(t + tau - x_i) P(H_{-i}(t) > C) dt,
    E[(v_i - x_i)^2] = E[(phi - x_i)^2] at t0 - 2 int E[(phi - x_i) 1{phi > 0} (1{H > C} - 1{t < t0})] dt
                       - 2 int f(t + tau - x_i) int_{C - tau}^C (C - c - x_i) (P(H_{-i} > c) - 1{t < t0}) dc dt.

Below t0 every probability is taken less 1. H is a sum of independent terms: with y = x - tau and p = (X - tau - t)_+ it is sum (p_j + tau
1{p_j > 0}), and the integrals over c are factors (e^{s tau} - 1)/s of one contour integral (`sums`). For tau = 0 all this is section 3.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from fairpost.engines.closed.quadrature import few_panels, on_panels
from fairpost.engines.closed.shares import range_error, refusal
from fairpost.engines.exact.simplex.contours import Integrals
from fairpost.engines.exact.simplex.law import Reduced
from fairpost.engines.exact.sums.contours import CHANCE, Kernel, Upright, Values, invert, reach
from fairpost.engines.exact.sums.factors import Complexes
from fairpost.engines.exact.sums.population import Entities, Places, Product
from fairpost.engines.exact.sums.uncut import ENOUGH, SURE, log_chance, uncut
from fairpost.engines.exact.sums.window import Family, Window, find_window
from fairpost.engines.exact.threshold import two
from fairpost.engines.exact.threshold.largest import largest, served
from fairpost.engines.moments import Counted, Floats, Moments
from fairpost.errors import ToleranceError
from fairpost.noise import Law

IDENTITY = 1e-8
"""How far two ways to E[r] may differ, in units of the noise scale (or of r)."""


@dataclass(frozen=True)
class Level:
    """One refinement: nodes on a panel of t, the step along a contour, Chebyshev nodes for a cell of counts."""

    order: int
    step: float
    nodes: int


LEVELS = (Level(10, 0.3, 14), Level(14, 0.2, 18), Level(20, 0.13, 22), Level(28, 0.09, 26))


def growth(x: Complexes) -> tuple[Complexes, Complexes]:
    """int_0^1 e^{xu} du and int_0^1 u e^{xu} du. The second cancels as 1e-16/|x|; below 1e-3 a series (x^5/5! < 1e-17) serves."""
    small = np.abs(x) < 1e-3
    safe = np.where(small, 1.0, x)
    grown = np.expm1(safe)
    zeroth = grown / safe
    first = (grown + 1 - zeroth) / safe
    if small.any():
        near = x[small]
        zeroth[small] = 1 + near / 2 * (1 + near / 3 * (1 + near / 4 * (1 + near / 5)))
        first[small] = 1 / 2 + near * (1 / 3 + near * (1 / 8 + near * (1 / 30 + near / 144)))
    return zeroth, first


def kernels(tau: float) -> tuple[Kernel, ...]:
    """1/s, and int_0^tau e^{sv} dv / s, int_0^tau v e^{sv} dv / s."""
    return (
        CHANCE,
        Kernel(lambda s, which: tau * growth(s * tau)[0] / s, tau),
        Kernel(lambda s, which: tau**2 * growth(s * tau)[1] / s, tau**2 / 2),
    )


def panels(win: Window, e: Entities) -> Floats:
    """The edges of the panels in t, with breaks at the centre and (Laplace) at kinks: counts of over 2 % of the kept."""
    few_panels("simplex-threshold", win.low, win.high, win.scale)
    breaks = {win.low, win.centre, win.high}
    if not np.isinf(e.noise.strip):
        heavy = (e.y > win.low) & (e.y < win.high) & (e.weight > 0.02 * win.kept)
        breaks.update(e.y[heavy].tolist())
    parts = [
        np.linspace(a, b, math.ceil((b - a) / (4.5 * win.scale)), endpoint=False) for a, b in pairwise(sorted(breaks))
    ]
    return np.concatenate([*parts, [win.high]])


@dataclass(frozen=True)
class Found:
    """One level's values, one entry per distinct count, in units of the noise."""

    deficit: Floats
    mean: float
    zero: Floats
    mse: Floats
    root: float
    """E[r] by the law of r itself."""
    nodes: int


def release(x: Floats, times: Counted, noise: Law, total: float, tau: float, rtol: float) -> Moments:
    """Moments of `simplex-threshold` for the distinct counts x, each `times` often; Laplace or Gaussian noise."""
    spread, many = noise.spread, times.astype(np.float64)
    n = float(np.sum(many))
    surplus = math.fsum([total, *(-x * times).tolist()]) / spread
    if total <= tau:
        return largest(x, many, noise, total, tau, rtol)
    level = tau / spread
    unit = noise.scaled(1.0)
    rare = log_chance(x / spread, n, unit, surplus, level)
    if rare < SURE:
        return _nobody(x, n, noise, total, surplus * spread, rare)
    if n == 2:
        return two.release(x, times, noise, total, tau, rtol)
    if served(total, tau, noise):
        return largest(x, many, noise, total, tau, rtol)
    y = x / spread - level

    def places(t: Floats) -> Places:
        return Places(t, np.full(t.size, level), None)

    family = Family(unit, y, many, surplus + n * level, places)
    try:
        win = find_window(family)
    except ToleranceError:
        if rare < ENOUGH:
            return _nobody(x, n, noise, total, surplus * spread, rare)
        raise
    before: Found | None = None
    for at in LEVELS:
        now = _level(family, win, level, at)
        if before is not None:
            bias, error, slack = _biases(now, before, surplus, n)
            floor = 1e-13 * (1 + abs(surplus / n))
            if slack <= max(rtol * float(np.ptp(bias)), floor):
                # far tails of the contours are rounded to about that, whatever the levels say
                error = error if slack <= rtol * float(np.ptp(bias)) else np.maximum(error, floor)
                return _moments(now, before, bias, error, surplus / n, spread, noise.name)
        before = now
    raise refusal("simplex-threshold", bias * spread, error * spread, rtol)


def _nobody(x: Floats, n: float, noise: Law, total: float, surplus: float, rare: float) -> Moments:
    return replace(uncut(x, n, noise, total, surplus, rare), threshold=None, threshold_error=None)


def _level(family: Family, win: Window, tau: float, level: Level) -> Found:
    e = family.entities(win.low, win.high, level.nodes)
    edges = panels(win, e)
    t, weight = on_panels(edges, level.order)
    tilt, width = win.tilts(t)
    end = reach(e, family.places(t), tilt, width, math.inf)
    if end == math.inf:
        raise ToleranceError("simplex-threshold: too few entities share the shift for a bell")
    path = Upright(tilt, width, end, level.step)
    values = _values(family, e, t, path, tau)
    return gathered(family, win, e, t, weight, edges, values, tau)


def _values(family: Family, e: Entities, t: Floats, path: Upright, tau: float) -> Values:
    at = family.places(t)

    def extra(found: Product, s: Complexes, which: slice) -> list[tuple[Complexes, Any]]:
        c = t[which][:, None] - e.y
        mean = family.noise.upper(c, 0.0, 1) - e.y * family.noise.upper(c, 0.0, 0)
        own = (found.first - e.y * found.kept) / s[:, :, None]
        return [(own, mean), (1 / s, 1.0), ((found.line - t[which][:, None]) / s, -t[which][:, None])]

    return invert(e, at, path, kernels(tau), extra)


def gathered(
    family: Family, win: Window, e: Entities, t: Floats, weight: Floats, edges: Floats, values: Values, tau: float
) -> Found:  # fmt: skip
    """The sums over t."""
    unit, t0 = family.noise, win.centre
    kind = int(np.isinf(unit.strip))
    law = Reduced(kind, e.y, e.weight, e.giants, e.rest, e.y, ())

    def against(rows: Floats, function: Callable[[Floats], Floats]) -> Floats:
        none = np.zeros(e.y.size)
        return Integrals(law, edges, t, weight, rows, np.zeros((0, 2)), none, np.zeros(2), 0, False).against(function)

    chance, jump, moment = values.without
    c0, x = t0 - e.y, e.y + tau
    below = unit.cdf(c0)
    held = against(jump, unit.density)
    deficit = -unit.lower(c0, 0.0, 1) - tau * below + against(chance, unit.cdf) - held
    zero = below + against(chance, unit.density)
    u0, u1, u2 = (unit.upper(c0, 0.0, k) for k in range(3))
    mse = x**2 * below + e.y**2 * u0 - 2 * e.y * u1 + u2 - 2 * weight @ values.extra[0]
    mse -= 2 * (against(moment, unit.density) - x * held)
    root = t0 + float(weight @ values.extra[1][:, 0])
    size = family.y.size
    giant = unit.variance + t0**2 - 2 * float(weight @ values.extra[2][:, 0])
    out = [np.zeros(size), np.zeros(size), np.full(size, giant)]
    for full, part, like in zip(out, (deficit, zero, mse), (missing, clipped, None), strict=True):
        full[: e.members] = spread_out(e, part, unit, t0, like)
    mean = float(np.sum(family.times * out[0])) / family.n
    return Found(out[0], mean, out[1], out[2], root, values.nodes)


def missing(unit: Law, c: Floats) -> Floats:
    """The deficit without a threshold if the root were at c above the count."""
    return np.asarray(-unit.lower(c, 0.0, 1))


def clipped(unit: Law, c: Floats) -> Floats:
    """P(v = 0) if it were."""
    return unit.cdf(c)


def spread_out(e: Entities, values: Floats, unit: Law, t0: float, like: object) -> Floats:
    """At the members; ratios to what a fixed root t0 would give vary slowly."""
    if e.reduced is None:
        return values
    if not callable(like):
        return e.reduced.at_members(values)
    return e.reduced.at_members(values, lambda y: np.asarray(like(unit, t0 - y)))


def _biases(now: Found, before: Found, surplus: float, n: float) -> tuple[Floats, Floats, float]:
    """The biases, their errors (what the last refinement changed at most, the defect of E[r], rounding), and alpha's."""
    drift = surplus / n
    if now.deficit.size == 1:
        return np.array([drift]), np.spacing(np.array([abs(drift)])), 0.0
    moved = float(np.max(np.abs((now.deficit - now.mean) - (before.deficit - before.mean))))
    bias = drift + now.deficit - now.mean
    rounding = 4e-16 * ((20 + math.sqrt(n)) * (np.abs(now.deficit) + abs(now.mean)) + abs(drift))
    error = moved + rounding
    return bias, error, range_error(bias, error)[1]


def _moments(now: Found, before: Found, bias: Floats, error: Floats, drift: float, spread: float, name: str) -> Moments:
    """In counts. E[r] = mean(D) - drift has to come out."""
    gap = abs(now.root - (now.mean - drift))
    if gap > IDENTITY * max(1.0, abs(now.root)) + 2 * abs(now.mean - before.mean):
        raise ToleranceError(f"simplex-threshold: two ways to the mean shift differ by {gap:.2g} noise scales ({name})")
    mse_error = np.abs(now.mse - before.mse) + 1e-12 * now.mse
    zero_error = np.abs(now.zero - before.zero) + 1e-14
    return Moments(
        bias * spread,
        error * spread,
        now.mse * spread**2,
        np.clip(now.zero, 0.0, 1.0),
        nodes=now.nodes,
        mse_error=mse_error * spread**2,
        zero_error=zero_error,
    )
