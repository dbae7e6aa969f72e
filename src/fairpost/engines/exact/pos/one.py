"""Shares from which one entity alone may be dropped: `pos`, `pos-threshold` and any weights, under each of the four noises.

Five counties of which one is small: whether it is kept, and the shift r, hang on its own z alone, for the others are kept and S
cancels. What it gets is v = z + (n - 1) r. With its edge L = a tau and the steepness s (infinite: a jump; L = 0: PoS)

    r = -z/(n - 1)   for z <= z0 = L (n - 1)/n (v = 0),     r = 0   for z >= z1 = sL/(s - 1) (v = z),
    r = ((s - 1) z - sL)/(n - 1 + s)   between (on the ramp; s infinite: r = z - L, inside its jump).

So with rho = E[r/S] its bias is what it is without a threshold (`unclipped`) plus (n - 1) rho, that of everybody else less rho; with
1/S = sum omega e^{-tS} the expectation is a sum over the law of one z. In squares v^2 - z^2 is (n - 1) r (2z + (n - 1) r), of the others r^2 -
2 r z_j.

Another entity is dropped or stands at its edge where z_j <= r + a_j e, e the end of its ramp: for every u >= 0 the chance is at most Q = P(r >
u) + sum_j P(z_j <= u + a_j e), and P(r > u) = P(z < -(n - 1) u).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from fairpost.engines.closed.quadrature import on_panels
from fairpost.engines.closed.shares import reached
from fairpost.engines.exact.pos.inverse import Inverse, fitted
from fairpost.engines.exact.pos.problem import Problem, chance_negative
from fairpost.engines.exact.pos.separated import of_clipped, unclipped
from fairpost.engines.moments import Floats, Moments
from fairpost.noise import Law, Threshold

ROUNDING = 1e-13
DEEP = 1e-21
"""The law of z is followed down to this chance of its own at z1."""
ORDER, PANEL = 24, 2.0
"""Gauss-Legendre nodes on a panel, and its length in noise scales."""
WHOLE = 1e-12
"""How far from a whole number, relative to it, a count is one that was divided and multiplied by a weight."""
POINTS = 400_000
"""The most values of a whole-number noise, or scales of a continuous one."""


@dataclass(frozen=True)
class _Own:
    """Values of z up to z1, what they weigh (sums over them are expectations of what is 0 above z1), r, and where v = 0."""

    z: Floats
    p: Floats
    r: Floats
    none: NDArray[np.bool_]
    foot: float
    """The chance of the foot of a ramp, where v is 0, or in floats some 1e-16 of the count."""


def one(problem: Problem, rule: Threshold, rtol: float) -> Moments | None:
    """The moments, or None where more than one may be dropped, or S come near 0, too often for the tolerance."""
    edge = rule.level + rule.width
    x = problem.c / problem.a
    i = int(np.argmin(x))
    if problem.times[i] != 1 or problem.n < 2 or problem.mechanism.cdf(edge - np.min(np.delete(x, i))) > rtol:
        return None
    missed = _others(problem, i, edge)
    if not (missed < 0.1 * rtol and problem.variance > 0):
        return None
    law = _law(problem.mechanism, float(problem.c[i]), float(problem.a[i]), rule, problem.n)
    if law is None:
        return None
    known = fitted(problem, rtol, lambda inverse: _moments(problem, i, law, inverse), ROUNDING)
    if known is None:
        return None
    inverse, bias, mse = known
    error = np.sqrt(mse) * inverse.rms + inverse.tail + missed + ROUNDING * (np.abs(bias) + float(np.ptp(bias)))
    if not reached(bias, error, problem.shares, rtol):
        return None
    zero = np.zeros_like(bias)
    zero[i] = min(float(np.sum(law.p[law.none])), 1.0)
    unsure = np.full_like(bias, missed + ROUNDING)
    unsure[i] += law.foot
    return Moments(
        bias,
        error,
        mse,
        zero,
        degenerate=chance_negative(problem),
        mse_error=of_clipped(inverse, mse, unclipped(problem, inverse)[1], problem.shares) + missed,
        zero_error=unsure,
    )


def _moments(problem: Problem, i: int, law: _Own, inverse: Inverse) -> tuple[Floats, Floats]:
    """Bias and mean squared error of every pair."""
    z, p, r = law.z, law.p, law.r
    n, shares = problem.n, problem.shares
    bias, mse = unclipped(problem, inverse)
    log, mean, _ = problem.tilted(inverse.t)
    others = log @ problem.times - log[:, i] - inverse.t * (problem.mean - problem.c[i])
    own = np.exp(others - inverse.t * problem.c[i])
    tilt = np.exp(-np.multiply.outer(inverse.t, z - problem.c[i])) * p
    first, second, cross = tilt @ r, tilt @ (r * r), tilt @ (r * z)
    rho = float(np.sum(inverse.omega * own * first))
    lift = np.full(bias.size, -rho)
    lift[i] = (n - 1) * rho
    twice = inverse.omega * inverse.t * own
    square = twice @ (second[:, None] - 2 * (problem.c + mean) * first[:, None])
    square[i] = (n - 1) * float(twice @ (2 * cross + (n - 1) * second))
    bias = bias + lift
    return bias, np.maximum(mse + square - 2 * shares * lift, bias**2)


def _others(problem: Problem, i: int, edge: float) -> float:
    """What the others can add to a bias, a square or a chance: they are kept but for this."""
    noise, n = problem.mechanism, problem.n
    rest = np.arange(problem.c.size) != i
    a, c, times = problem.a[rest], problem.c[rest], problem.times[rest]
    own, x = float(problem.a[i]), float(problem.c[i] / problem.a[i])
    found = math.inf
    for u in noise.deviation * own * np.geomspace(1e-3, 60.0, 40):
        chance = float(np.sum(times * noise.cdf((u - c) / a + edge)) + noise.cdf(-(n - 1) * u / own - x))
        # where it happens a share is off by at most 1, and what stands for it here is some (|z| + n u)/S in size
        found = min(found, chance * (4 + 8 * (n * u + (abs(x) + noise.deviation) * own) / problem.mean))
    return found


def _law(noise: Law, c: float, a: float, rule: Threshold, n: int) -> _Own | None:
    """The law of z up to z1."""
    level, s = a * rule.level, rule.steepness
    z0, z1 = level * (n - 1) / n, a * (rule.level + rule.width)
    x, top = c / a, z1 / a
    start = min(top - x, 0.0)
    reach = noise.deviation
    while noise.cdf(start - reach) > DEEP * noise.cdf(start):
        reach *= 1.2
    if noise.discrete:
        x = float(np.rint(x)) if abs(x - np.rint(x)) <= WHOLE * max(1.0, abs(x)) else x  # c/a has been rounded
        low, high = math.floor(start - reach), math.floor(top - x) + 1  # whoever stands at 0 receives 0
        if high - low > POINTS:
            return None
        eta = np.arange(low, high, dtype=np.float64)
        z, p = a * (x + eta), np.asarray(noise.density(eta))
    else:
        ends = sorted({start - reach, z0 / a - x, top - x, min(0.0, top - x)})
        if (ends[-1] - ends[0]) / noise.spread > POINTS:
            return None
        edges = np.unique(np.concatenate([_panels(lo, hi, PANEL * noise.spread) for lo, hi in pairwise(ends)]))
        eta, weight = on_panels(edges, ORDER)
        z, p = a * (x + eta), weight * noise.density(eta)
    steep = z - level if np.isinf(s) else ((s - 1) * z - s * level) / (n - 1 + s)
    none = z <= z0
    foot = float(np.sum(p[np.abs(z - z0) <= 1e-9 * z1])) if noise.discrete and z1 > 0 else 0.0
    return _Own(np.asarray(z), np.asarray(p), np.where(none, -z / (n - 1), steep), none, foot)


def _panels(low: float, high: float, most: float) -> Floats:
    """Ends of panels of at most this length."""
    return np.linspace(low, high, math.ceil((high - low) / most) + 1)
