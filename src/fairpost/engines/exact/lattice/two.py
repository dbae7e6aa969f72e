"""PoS for two entities under whole-number noise of any scale and with any weights, exactly.

Two shares that sum to 1 are projected by clipping (`pos.pair`). With z_j = a_j X_j and S = z_1 + z_2

    share_1 = z_1/S   where z_1 and z_2 are both above 0 or both below,
            = 1       where z_2 has not the sign of S (or is 0): z_2 <= 0 < S or S < 0 <= z_2,
            = a_1/(a_1 + a_2)   where S = 0, by convention.

The first part is int V_1 U_2 dt with 1/S = int e^{-tS} dt, V and U partial transforms of the noise: geometric or theta sums, smooth in log
t. The second is a sum over the values of z_2,

    Q_1 = sum_{z_2 <= 0} P(z_2) P(z_1 > -z_2) + sum_{z_2 >= 0} P(z_2) P(z_1 < -z_2),

and S = 0 is met where -z_2/a_1 is whole, which a float says to 2^-48 of itself: as the rule itself asks. The three parts must add up to 1:
a check of all of them, since the first is an integral over t and the others are sums over masses.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from fairpost.engines.closed.quadrature import exp_sinh
from fairpost.engines.closed.shares import SAFETY, reached, refusal, symmetric
from fairpost.engines.exact.pos.problem import Problem
from fairpost.engines.moments import Floats, Moments
from fairpost.errors import ToleranceError
from fairpost.noise import Law
from fairpost.rules.allocation import NOTHING

ROUNDING = 1e-14
STEPS = (0.125, 0.08, 0.05, 0.03)
"""Of the double-exponential rule in t, in the order of refinement."""
REST = 1e-17
"""The chance of the noises that are left out, to each side."""
POINTS = 2_000_000
"""The most values of one noise."""


def two(problem: Problem, rtol: float) -> Moments:
    """Moments of PoS for n = 2 and whole counts."""
    tie = problem.c.size == 1
    if tie:
        both: dict[str, Any] = {k: np.repeat(getattr(problem, k), 2) for k in ("c", "scale", "shares", "a")}
        problem = replace(problem, times=np.ones(2, dtype=np.int64), **both)
    x = np.rint(problem.c / problem.a)  # c/a has been rounded
    parts = np.array([_alone(problem, x, i) for i in (0, 1)])
    sole, (none, degenerate) = parts[:, 0], np.mean(parts[:, 1:], axis=0)
    p, even = problem.shares, problem.a / np.sum(problem.a)
    before: tuple[Floats, Floats, Floats] | None = None
    for step in STEPS:
        first, second = _atoms(problem, x, step)
        first, second = first + sole + none * even, second + sole + none * even**2
        bias = first - p * np.sum(first)
        if before is not None:
            error = np.abs(bias - before[0]) + abs(np.sum(first) - 1) + 2 * REST + ROUNDING
            kept = slice(0, 1) if tie else slice(None)
            if reached(bias[kept], error[kept], p, rtol):
                mse = np.maximum(second - 2 * p * first + p * p, 0.0)
                spread = SAFETY * (np.abs(second - before[2]) + 2 * p * np.abs(first - before[1])) + 2 * ROUNDING
                found = Moments(
                    bias[kept], error[kept], mse[kept], sole[::-1][kept],
                    degenerate=float(degenerate),
                    nodes=exp_sinh(step)[0].size,
                    mse_error=spread[kept],
                    zero_error=np.full(2, ROUNDING)[kept],
                )  # fmt: skip
                return symmetric(found)
        before = bias, first, second
    raise refusal("pos", bias, error, rtol)


def _atoms(problem: Problem, x: Floats, step: float) -> tuple[Floats, Floats]:
    """E[z_i/S] and E[z_i^2/S^2] where both values have the same sign."""
    size = np.sqrt(problem.mean**2 + problem.variance)
    t, weight = (v / size for v in exp_sinh(step))
    s = -np.multiply.outer(t, problem.a)
    first, second = np.zeros(2), np.zeros(2)
    for centre in (-x, x):
        u0, u1, u2 = (u * problem.a**k for k, u in enumerate(problem.mechanism.uppers(centre, s)))
        first += weight @ (u1 * u0[:, ::-1])
        second += (weight * t) @ (u2 * u0[:, ::-1])
    return first, second


def _alone(problem: Problem, x: Floats, i: int) -> tuple[float, float, float]:
    """Q_i, P(S = 0) and P(S <= 0), by the values of the other entity."""
    noise, j = problem.mechanism, 1 - i
    eta = _noises(noise)
    mass = np.asarray(noise.density(eta))
    place = -(problem.a[j] * (x[j] + eta)) / problem.a[i]  # of X_i where S = 0
    near = np.rint(place)
    met = np.abs(place - near) <= NOTHING * np.abs(place)
    above = noise.sf(np.where(met, near, np.floor(place)) - x[i])
    below = noise.cdf(np.where(met, near, np.ceil(place)) - 1 - x[i])
    sole = mass @ (np.where(place >= 0, above, 0.0) + np.where(place <= 0, below, 0.0))
    none = mass[met] @ np.asarray(noise.density(near[met] - x[i]))
    return float(sole), float(none), float(mass @ below + none)


def _noises(noise: Law) -> Floats:
    """All that matter."""
    reach = np.ceil(noise.spread)
    while noise.sf(reach) > REST:
        reach = np.ceil(1.1 * reach) + 1
    if 2 * reach > POINTS:
        raise ToleranceError(f"pos: {noise.name} noise of scale {noise.spread:g} has too many values")
    return np.arange(-reach, reach + 1)
