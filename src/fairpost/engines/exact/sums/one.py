"""Releases in which one entity alone may be cut: `simplex` and `simplex-threshold` under each of the four noises.

With nobody cut v = y = x + nu + (C - sum x)/n (Lemma 1). Where the others are kept, all that matters is y of the smallest count: it gets
v = y + (n - 1) r, the others y_j - r. With the edge L = tau and the steepness s (infinite: a jump; L = 0: the simplex)

    r = A (z0 - y)_+ - B (z1 - y)_+,   z0 = L (n - 1)/n,   z1 = sL/(s - 1),   B = (s - 1)/(n - 1 + s),   A = B + 1/(n - 1):

r = -y/(n - 1) and v = 0 up to z0, r = 0 and v = y from z1 on, a line between. So every moment of r is one of a clipped entry of pi_S
(`sum_law`), which needs no integral of its own. With u = E[y], drift = (C - sum x)/n and, the noises of the others being alike,
E[nu_j r] = -E[nu r]/(n - 1),

    bias = drift + (n - 1) E[r],   others drift - E[r],
    mse = Var[nu] + drift^2 + 2 (n - 1) E[(nu + drift) r] + (n - 1)^2 E[r^2],   others Var[nu] + E[(drift - r)^2] + 2 E[nu r]/(n - 1).

A is the event that somebody else is not kept whole, y_j <= r + z1. For every w >= 0 its chance is at most
(n - 1) P(y_2 <= w + z1) + P(r > w), y_2 of the second smallest count and P(r > w) = P(y < -(n - 1) w). By Cauchy-Schwarz
E[|v - what stands here|; A] <= (C + rms) sqrt P(A), since 0 <= v <= C. Where P(A) is far below the bias, but its root is not, Hoelder's
inequality serves: what stands here is at most x + |drift| + |nu| + (n - 1)|r| <= x + |drift| + 2n (z1 + |u| + |nu|) in size, and with
||.||_p the root of a p-th moment, ||nu||_p <= 2 ||eta||_p and E|eta|^p <= 2 p! E[e^{q eta}] / q^p for any q,

    E[|v - what stands here|; A] <= (C + x + |drift| + 2n (z1 + |u| + 2 ||eta||_p)) P(A)^{1 - 1/p}.
"""

from __future__ import annotations

import math

import numpy as np

from fairpost.bounds import sum_law
from fairpost.bounds.theorems import RELATIVE
from fairpost.engines.closed.releases import LATTICE
from fairpost.engines.closed.shares import range_error
from fairpost.engines.moments import Counted, Floats, Moments
from fairpost.noise import Law, Threshold

SCREEN = 1e-12
"""Who is below the edge by its own noise with a larger chance is not all but certain to be kept."""
NEXT_TO_NONE, FAR = 0.3, 40.0
"""Up to which deviation whole numbers are looked at for the shift of the others, and up to which one."""


def one(x: Floats, times: Counted, noise: Law, total: float, rule: Threshold, rtol: float) -> Moments | None:
    """Moments for the distinct counts x in ascending order, each `times` often; None where others may be cut too often."""
    n, edge = int(np.sum(times)), rule.level + rule.width
    drift = math.fsum([total, *(-x * times).tolist()]) / n
    if x.size < 2 or times[0] != 1 or not noise.variance > 0:
        return None
    u, second = float(x[0] + drift), float(x[1] + drift)
    if noise.cdf((edge - second) * n / (n - 1)) > SCREEN:
        return None
    rare = _others(u, second, n, noise, edge)
    bias, mse, error, mse_error = _moments(x, u, n, noise, rule, drift)
    rms = total + x + abs(drift) + np.sqrt(mse)
    error = error + np.minimum(rms * math.sqrt(rare), _lost(total + x + abs(drift), n, edge + abs(u), noise, rare))
    alpha, slack = range_error(bias, error)
    if not slack <= rtol * alpha:
        return None
    low = np.array([u - rule.level * (n - 1) / n])
    zero, unsure = np.zeros(x.size), np.zeros(x.size)
    edge_mass = float(sum_law.at_zero(low, n, noise)[0])
    zero[0] = min(float(sum_law.clipped(low, n, noise, 0)[0]) + edge_mass, 1.0)
    unsure[0] = edge_mass if edge > 0 else 0.0  # at the foot of a ramp v is 0, or in floats some 1e-16 of the count
    shift = float(drift - bias[1])
    return Moments(
        bias,
        error,
        mse,
        zero,
        threshold=shift if edge == 0 else None,
        mse_error=mse_error + 3 * rms**2 * math.sqrt(rare),
        zero_error=LATTICE * zero + rare + unsure,
        threshold_error=float(error[1]) if edge == 0 else None,
    )


def _lost(size: Floats, n: int, depth: float, noise: Law, rare: float) -> Floats:
    """Hoelder's bound at the best of some p; `size` is C + x + |drift|, `depth` z1 + |u|, `rare` P(A)."""
    if rare <= 0.0:
        return np.zeros_like(size)
    q = min(0.5 * noise.strip, 1 / noise.spread)
    p = 2.0 ** np.arange(2, 10)
    log = np.array([math.lgamma(v + 1) for v in p]) + math.log(2) + float(noise.cgf(q))
    norm = np.exp(log / p) / q
    return np.asarray(
        np.min((size[:, None] + 2 * n * (depth + 2 * norm)) * np.exp(math.log(rare) * (1 - 1 / p)), axis=1)
    )


def _moments(
    x: Floats, u: float, n: int, noise: Law, rule: Threshold, drift: float
) -> tuple[Floats, Floats, Floats, Floats]:
    """Bias and mean squared error with the others kept, and their rounding."""
    s, rest = rule.steepness, n - 1.0
    z0, z1 = rule.level * rest / n, rule.level + rule.width
    b = 1.0 if np.isinf(s) else (s - 1) / (rest + s)
    a = b + 1 / rest
    at = np.array([u - z0, u - z1])
    (p, q), (pp, qq) = (sum_law.clipped(at, n, noise, k).tolist() for k in (1, 2))
    r = a * p - b * q
    rr = a * a * pp - 2 * a * b * (pp + (z1 - z0) * p) + b * b * qq
    nu_r = a * ((z0 - u) * p - pp) - b * ((z1 - u) * q - qq)
    variance = sum_law.variance(noise, n)
    bias = np.full(x.size, drift - r)
    bias[0] = drift + rest * r
    mse = np.full(x.size, variance + drift * drift - 2 * drift * r + rr + 2 * nu_r / rest)
    mse[0] = variance + drift * drift + 2 * rest * (nu_r + drift * r) + rest**2 * rr
    # RELATIVE of every term that was added up; none has a factor above 4 (n - 1)^2
    first, second = a * p + b * q, pp + qq + z1 * (p + q)
    error = np.full(x.size, RELATIVE * first + 4e-16 * abs(drift))
    error[0] += rest * RELATIVE * first
    size = variance + drift**2 + 4 * rest**2 * ((a + b) ** 2 * second + (abs(u) + abs(drift)) * first)
    return bias, np.maximum(mse, bias**2), error, np.full(x.size, RELATIVE * size)


def _others(u: float, second: float, n: int, noise: Law, edge: float) -> float:
    """A bound on the chance that somebody else is not kept whole."""
    w = noise.deviation * np.geomspace(1e-3, 60.0, 40)
    if noise.discrete and noise.deviation < NEXT_TO_NONE:  # a deviation that is smaller than any of its values
        w = np.append(w, min(max(second, 0.0), FAR) * np.linspace(0.02, 1.0, 50))
    chance = (n - 1) * sum_law.clipped(second - edge - w, n, noise, 0) + sum_law.clipped(u + (n - 1) * w, n, noise, 0)
    return float(np.min(chance))
