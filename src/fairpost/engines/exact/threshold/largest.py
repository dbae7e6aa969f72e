"""`simplex-threshold` with a total of at most twice the threshold: the two largest noisy counts share it.

H(t) = sum phi(X_j - t) as t falls: the largest count's jump takes H to tau, and H rises with slope 1 from there. For C <= tau the largest
stands inside its jump and takes all. For C <= 2 tau let w = (C - tau)_+ and g the gap to the second largest. Where g >= w, H comes to C
before anybody else jumps, and the largest takes all again. Else the second one's jump, from tau + g to 2 tau + g, passes C: it has
the remainder. So with Y = (w - g)_+

    the largest has C - Y,   the second Y,   all others nothing.

With P = prod F(t - x_j), rho_i = f(t - x_i)/F(t - x_i) and A_k = int_0^w (w - u)^k f(t + u - x) du, the law of the second largest gives

    P(i is the largest) = int P rho_i,
    E[Y^k; Y > 0, i is the largest] = int P (A_ki/F_i) (sum_j rho_j - rho_i),
    E[Y^k; Y > 0, i is the second]  = int P rho_i (sum_j A_kj/F_j - A_ki/F_i),

integrals of one dimension. The chances must sum to 1; both sums of E[Y] are the same at every t, so
that they show rounding alone. With c = t - x and V_k(c) = E[(eta - c)_+^k]

    A_0 = V_0(c) - V_0(c + w),   A_1 = V_1(c + w) - V_1(c) + w V_0(c),   A_2 = V_2(c) - V_2(c + w) - 2w V_1(c) + w^2 V_0(c),

for c > 0, and for c <= 0 from E[(c - eta)_+^k], which is V_k(-c), with the other sign of V_0 and V_2: numbers as large as c would leave a
rounding at every one of n counts, in both sums of E[Y] alike.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from fairpost import cancel
from fairpost.engines.closed.quadrature import legendre
from fairpost.engines.closed.shares import SAFETY, range_error, refusal
from fairpost.engines.moments import Floats, Moments
from fairpost.noise import Law

WIDE = 40.0
"""The largest w in units of the noise: beyond it the panels are many, and other ways serve."""
ORDERS = ((0.3, 16), (0.05, 8), (0.003, 4), (0.0, 3))
"""Nodes on a panel at least so many scales long: what is analytic within about a scale R is missed by (length/4R)^(2 nodes), below 1e-15."""
ROUNDING = 1e-14
BLOCK = 300_000
"""(t, count) values at a time."""


def served(total: float, tau: float, noise: Law) -> bool:
    """Whether at most two share the total, and few panels cover them."""
    return total <= 2 * tau and total - tau <= WIDE * noise.spread


def largest(x: Floats, times: Floats, noise: Law, total: float, tau: float, rtol: float) -> Moments:
    """Moments for the distinct counts x, ascending, each `times` often; C <= 2 tau."""
    unit, n, w = noise.spread, float(np.sum(times)), max(total - tau, 0.0)
    reach = (40 + math.log(n) if not np.isinf(noise.strip) else 9 + math.sqrt(2 * math.log(n))) * unit
    low, high = float(x[-1]) - reach - w, float(x[-1]) + reach
    near = x > low - reach
    found = np.zeros((6, x.size))
    for t, weight in _nodes(x, noise, low, high, w, n):
        cancel.check()
        found[:, near] += _at(t, weight, x[near], times[near], noise, w)
    first, second, loss, gain, loss2, gain2 = found
    # what is lost of the sums, and rounding
    lost = SAFETY * abs(float(np.sum(times * first)) - 1) + ROUNDING
    adrift = abs(float(np.sum(times * (loss - gain)))) + (ROUNDING * (2 * reach + w) if w > 0 else 0.0)
    first = np.clip(first, 0.0, 1.0)
    bias = total * first - loss + gain - x
    error = (lost * total + adrift) * np.ones(x.size) + np.spacing(x)
    alpha, slack = range_error(bias, error)
    if w > 0 and x.size > 1 and slack > rtol * alpha:
        raise refusal("simplex-threshold", bias, error, rtol)
    if w > 0 and x.size == 1:  # all are equal, and share the total
        bias = (np.array([total]) - n * x) / n
        error = np.spacing(np.abs(bias) + x)
    mse = (total - x) ** 2 * first + x**2 * (1 - first) - 2 * (total - x) * loss - 2 * x * gain + loss2 + gain2
    return Moments(
        bias,
        error,
        np.maximum(mse, bias**2),
        np.clip(1 - first - second, 0.0, 1.0),
        mse_error=(4 * lost * (total + x) * (np.maximum(first, 1e-3) + 1e-3) + 4 * adrift) * (total + x),
        zero_error=np.full(x.size, 2 * lost + adrift / unit),
    )


def _nodes(x: Floats, noise: Law, low: float, high: float, w: float, n: float) -> list[tuple[Floats, Floats]]:
    """Nodes and weights in blocks: panels of one noise scale at most, broken at the corners of Laplace noise, c = 0 and c + w = 0.

    The largest of n Gaussian values varies by sigma/sqrt(2 log n): panels of twice that at most.
    """
    corners = np.empty(0) if np.isinf(noise.strip) else np.concatenate([x, x - w])
    breaks = np.unique(np.concatenate([[low, high], corners[(corners > low) & (corners < high)]]))
    unit = noise.spread
    long = unit / max(1.0, math.sqrt(math.log(n) / 2)) if np.isinf(noise.strip) else unit
    edges = np.unique(np.concatenate([np.linspace(a, b, math.ceil((b - a) / long) + 1) for a, b in pairwise(breaks)]))
    wide, most, blocks = np.diff(edges), np.inf, []
    for least, order in ORDERS:
        here = (wide >= least * unit) & (wide < most)
        most = least * unit
        u, v = legendre(order)
        t, weight = (
            (edges[:-1][here][:, None] + wide[here][:, None] * u).ravel(),
            np.multiply.outer(wide[here], v).ravel(),
        )
        rows = max(1, BLOCK // x.size)
        blocks += [(t[i : i + rows], weight[i : i + rows]) for i in range(0, t.size, rows)]
    return blocks


def _at(t: Floats, weight: Floats, x: Floats, times: Floats, noise: Law, w: float) -> Floats:
    """What the nodes t add to: P(largest); P(second, Y > 0); E[Y] of the largest and of the second; E[Y^2] likewise."""
    c = t[:, None] - x
    below = noise.cdf(c)
    with np.errstate(divide="ignore"):
        log = np.maximum(np.log(below), -1e4)
    others = np.exp(np.maximum(log @ times, -1e4)[:, None] - log)  # prod F over all but i
    density = noise.density(c)
    out = np.zeros((6, x.size))
    out[0] = weight @ (density * others)
    if w == 0.0:
        return out
    rho = density / np.maximum(below, np.finfo(float).tiny)
    rest = (rho @ times)[:, None] - rho
    side = np.where(c > 0, 1.0, -1.0)
    (v0, v1, v2), (e0, e1, e2) = (
        (noise.sf(u), noise.upper(u, 0.0, 1), noise.upper(u, 0.0, 2)) for u in (side * c, side * (c + w))
    )
    a0, a1 = side * (v0 - e0), e1 - v1 + side * w * v0
    a2 = side * (v2 - e2 + w * w * v0) - 2 * w * v1
    part0, part1, part2 = others * a0, others * a1, others * a2
    for row, part in ((1, part0), (3, part1), (5, part2)):
        out[row] = weight @ (rho * ((part @ times)[:, None] - part))
    out[2], out[4] = weight @ (part1 * rest), weight @ (part2 * rest)
    return out
