"""The law of one entry of pi_S under discrete noise (the companion of `sum_law`).

Split nu = beta eta_i - G with beta = 1 - 1/n and G = S/n, S the sum of the other n - 1 noises, a whole number. Given
eta_i = j the entry is v - G, v = u + beta j, and

    E[(v - G)_-^k] = (v)_-^k + gain(v):

the first term is clipping v itself, which the table of masses sums; the second is what the spread of G adds, and it
lives on the j with v near 0. gain(v) follows from the tails of S at n |v|.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpost import cancel
from fairpost.errors import ToleranceError
from fairpost.noise import Law

Floats = NDArray[np.float64]
REACH = 13.0  # deviations: e^{-13^2/2} = 2e-37
FEW = 40  # below this n the transform of a sum of discrete Laplace noises decays too slowly to be cut off
MOST = 4e6  # points of a table or a sum: a second, and some hundred megabytes
LEAST = 1e-6  # of the tilted variance: below it (a noise next to none) rounding decides its sign, and the window is 16 anyway
APART = 0.25  # of Var[S]: below it the saddle of P(S = m) is too far from that of P(S > m) for one line to serve both
LOST = -41.5  # log 1e-18: a term that is less than this part of the whole is left out
MASS = 3  # row of `_tails` that holds P(S = m); rows 0, 1, 2 hold E[(S - m)_+^k]


def tail_of_entry(u: Floats, n: int, mechanism: Law, k: int) -> Floats:
    """E[(u + nu)_-^k] for u >= 0 and n >= 2.

    For n = 2, nu is half the difference of two noises, which has the law of their sum: a tail of a sum itself.
    """
    if n == 2:
        return np.asarray(_tail_of_sum(2 * u, 3, mechanism, k)[0] / 2**k)
    beta = (n - 1) / n
    w = _on_lattice(n * u)
    cut = -w / (n - 1)
    below = mechanism.lower(np.ceil(cut) - 1, 0.0, 0) if k == 0 else (-beta) ** k * mechanism.lower(cut, 0.0, k)
    owner, v, mass, first = _near_zero(w, n, mechanism)
    seen = _seen(
        np.abs(v) * n, n, mechanism, k, np.log(mass) - k * np.log(n) - np.log(np.maximum(below, 1e-320))[owner]
    )
    tail, atom = np.zeros_like(v), np.zeros_like(v)
    tail[seen], atom[seen] = _tail_of_sum(np.abs(v[seen]) * n, n, mechanism, k)
    gain = tail / n**k
    if k == 2:  # far below 0 the gain is Var[G], whatever v
        spread = mechanism.variance * (n - 1) / n**2
        gain = np.where(v < 0, spread - gain, gain)
        below = below + spread * mechanism.cdf(first - 1)
    if k == 0:
        gain = np.where(v < 0, -gain - atom, gain)
    return np.asarray(below + np.bincount(owner, mass * gain, u.size))


def _seen(m: Floats, n: int, mechanism: Law, k: int, weight: Floats) -> NDArray[np.bool_]:
    """Whether E[(S - m)_+^k] (and P(S = m), for k = 0) times e^weight is above 1e-18, by Chernoff's bound.

    (S - m)_+^k <= k! c^{-k} e^{c (S - m)} for every c > 0; c = m / Var[S] is close to the best, and half the strip is never too large.
    """
    variance = mechanism.variance * (n - 1)
    if variance == 0:
        return np.ones(m.shape, dtype=bool)
    c = np.clip(m / variance, 1e-3 / np.sqrt(variance), 0.5 * min(mechanism.strip, 40 / mechanism.spread))
    bound = (n - 1) * np.real(mechanism.cgf(c)) - c * m + np.log((1.0, 1.0, 2.0)[k]) - k * np.log(c)
    return np.asarray(bound + weight > LOST)


def mass_at_zero(u: Floats, n: int, mechanism: Law) -> Floats:
    """P(u + nu = 0) for u >= 0 and n >= 2."""
    if n == 2:
        return np.asarray(_tail_of_sum(2 * u, 3, mechanism, 0)[1])
    owner, v, mass, _ = _near_zero(_on_lattice(n * u), n, mechanism)
    atom = _tail_of_sum(np.abs(v) * n, n, mechanism, 0)[1]
    return np.asarray(np.bincount(owner, mass * atom, u.size), dtype=np.float64)


def _near_zero(w: Floats, n: int, mechanism: Law) -> tuple[NDArray[np.int64], Floats, Floats, Floats]:
    """For each u = w/n the whole numbers j for which v = u + beta j = (w + (n - 1) j)/n is within reach of G.

    Returns, flat, (index of u, v, P(eta = j)), and the first j of each u.

    Conditioned on y < 0 the most likely v is at most u / n for Gaussian tails and of the order of the spread of G
    for Laplace tails, so the reach is measured from there; few noises of Laplace tails need 40 scales.

    The number of j must not grow with the count. Gaussian: |j| > 39 sigma has no mass in doubles. Laplace: with x = n v/b
    a term is at most e^{-x (n-2)/(n-1)} times a polynomial of degree n - 2, gone (e^-45) at (45 + 3n)(n-1)/(n-2).
    """
    u, beta, spread = w / n, (n - 1) / n, mechanism.deviation * np.sqrt(n - 1) / n
    reach = max(REACH * spread, 40 / mechanism.strip / n)
    reach += 2.0  # a small noise is far from normal: keep its nearest whole numbers
    first = np.ceil((-u - reach) / beta)
    last = np.floor((-u + u / n + reach) / beta)
    if np.isinf(mechanism.strip):
        first = np.maximum(first, -np.ceil(39 * mechanism.spread))
    else:
        gone = (45 + 3 * n) * (n - 1) / (n - 2) * mechanism.spread / n + reach
        last = np.minimum(last, np.floor((-u + gone) / beta))
    times = np.maximum(last - first + 1, 0)
    _affordable(float(np.sum(times)))
    times = times.astype(np.int64)
    owner = np.repeat(np.arange(u.size), times)
    j = first[owner] + np.arange(times.sum()) - np.repeat(np.cumsum(times) - times, times)
    mass = mechanism.density(j)
    kept = mass > 0
    return owner[kept], ((w[owner] + (n - 1) * j) / n)[kept], mass[kept], first


def _affordable(points: float) -> None:
    if points > MOST:
        raise ToleranceError(f"the law of a sum of whole noises needs {points:.2g} points, more than {MOST:.0e}")


def _tail_of_sum(m: Floats, n: int, mechanism: Law, k: int) -> tuple[Floats, Floats]:
    """E[(S - m)_+^k] and P(S = m) at each m >= 0, from the tails at the whole number below m."""
    m = _on_lattice(m)
    whole, inverse = np.unique(np.floor(m), return_inverse=True)
    rows = _tails(whole, n, mechanism)[:, inverse]
    gap = m - np.floor(m)
    tail = (rows[0], rows[1] - gap * rows[0], rows[2] - 2 * gap * rows[1] + gap**2 * rows[0])[k]
    return tail, np.where(gap == 0, rows[MASS], 0.0)


def _on_lattice(m: Floats) -> Floats:
    """m is n times a sum of a count and a multiple of 1/n: within 1e-9 of a whole number it is one."""
    near = np.round(m)
    return np.where(np.abs(m - near) < 1e-9 * np.maximum(1.0, m), near, m)


def _tails(m: Floats, n: int, mechanism: Law) -> Floats:
    """Rows E[(S - m)_+^k], k = 0, 1, 2, and P(S = m) at ascending whole numbers m >= 0.

    Three ways: a closed form for few discrete Laplace noises; inversion at each m; and where there are many m, inversion
    at 96 Chebyshev points, since the logarithms are analytic in m on the scale of the deviation of S.
    """
    if m.size == 0:
        return np.empty((4, 0))
    # a sum of discrete Gaussians is sub-Gaussian (Canonne et al. 2020): past 39 deviations e^-760, 0 in doubles
    within = int(np.searchsorted(m, 39 * mechanism.spread * np.sqrt(n - 1))) if np.isinf(mechanism.strip) else m.size
    if within < m.size:
        return np.concatenate([_tails(m[:within], n, mechanism), np.zeros((4, m.size - within))], axis=1)
    if np.isfinite(mechanism.strip) and n < FEW:
        return _few_laplace(m, n, mechanism)
    if m.size <= 200 or mechanism.deviation * np.sqrt(n - 1) < 20:
        return _one_by_one(m, n, mechanism)
    from scipy.interpolate import BarycentricInterpolator

    points = (1 - np.cos(np.pi * (np.arange(96) + 0.5) / 96)) / 2 * m[-1]
    found = _by_inversion(points, n, mechanism)
    if not (found > 0).all():  # so far out that a float cannot hold the tail: there is no logarithm
        return _one_by_one(m, n, mechanism)
    logs = np.log(found)
    tails = []
    for row in logs:
        cancel.check()
        tails.append(BarycentricInterpolator(points, row)(m))
    return np.asarray(np.exp(np.array(tails)))


def _one_by_one(m: Floats, n: int, mechanism: Law) -> Floats:
    found = []
    for part in np.split(m, range(256, m.size, 256)):
        cancel.check()
        found.append(_by_inversion(part, n, mechanism))
    return np.concatenate(found, axis=1)


def _few_laplace(m: Floats, n: int, mechanism: Law) -> Floats:
    """A sum S of N = n - 1 discrete Laplace noises, in closed form: N terms for each m, however large it is.

    E[z^S] = ((1 - q)^2 / ((1 - qz)(1 - q/z)))^N, q = e^{-1/b}. For m >= 0 the pole z = 1/q alone counts; with
    w = (1 - qz)/(1 - q) the factor at it is (1 + q)^{-N} w^{-N} (1 + q^2 w / (1 + q - w))^N, whose expansion
    sum_i A_i w^i has positive terms only. So with the negative binomial masses f_j(x) = C(x + j - 1, j - 1) (1 - q)^j q^x

        P(S = m) = (1 + q)^{-N} sum_{j=1}^{N} A_{N-j} f_j(m).

    Pascal's rule gives the tails T_j^k = sum_{x > m} (x - m)^k f_j(x) from those of j - 1 (T_0 = 0), positive again:

        T_j^0 = T_{j-1}^0 + q/(1-q) f_j(m),    T_j^1 = T_{j-1}^1 + q/(1-q) (f_j(m) + T_j^0),
        T_j^2 = T_{j-1}^2 + q/(1-q) (f_j(m) + T_j^0 + 2 T_j^1)

    The f_j are taken
    from the last one downwards, which is 1, and their size e^log is put back at the end.
    """
    from scipy.special import gammaln

    many, rate = n - 1, 1.0 / float(mechanism.spread)
    q, rest = float(np.exp(-rate)), float(-np.expm1(-rate))
    one = np.concatenate([[1.0], q * q / (1 + q) ** np.arange(1, many)])
    mix = np.array([1.0])
    for _ in range(many):
        mix = np.convolve(mix, one)[:many]
    masses = [np.ones_like(m)]
    for j in range(many, 1, -1):
        masses.append(masses[-1] * (j - 1) / ((m + j - 1) * rest))
    log = np.sum(np.log(m + np.arange(1, many)[:, None]), axis=0) - float(gammaln(many))
    log += many * (np.log(rest) - np.log1p(q)) - rate * m
    rows, tail = np.zeros((4, m.size)), np.zeros((3, m.size))
    for j in range(1, many + 1):
        f, weight = masses[many - j], mix[many - j]
        tail[0] += q / rest * f
        tail[1] += q / rest * (f + tail[0])
        tail[2] += q / rest * (f + tail[0] + 2 * tail[1])
        rows[:3] += weight * tail
        rows[MASS] += weight * f
    return np.asarray(rows * np.exp(log))


def _by_inversion(m: Floats, n: int, mechanism: Law) -> Floats:
    """With m0 = m + 1 the first whole number above m,

        E[(S - m)_+^k] = (1/2 pi) int_{-pi}^{pi} e^{(n-1) K(z) - z m0} sum_{i >= 0} (1 + i)^k e^{-z i} dw,   z = c + i w,

    for any c > 0 inside the strip. c is put at the saddle point, where nothing cancels. The trapezoidal rule over the
    period is exact but for wrap-around, which a period of 60 tilted deviations makes smaller than 1e-16.
    """
    z, log, weight = _line(m + 1, n, mechanism)
    wave, ratio, stem = np.exp(log), np.exp(-z), 1 / -np.expm1(-z)
    terms = [wave * stem, wave * stem**2, wave * (1 + ratio) * stem**3]
    rows = [np.sum(term.real * weight, axis=1) for term in terms]
    # P(S = m) has the factor e^z, which overflows where e^log underflows: one exponential of the sum
    log = log + z
    if mechanism.variance * (n - 1) < APART:
        _, log, weight = _line(m, n, mechanism)
    rows.append(np.sum(np.exp(log).real * weight, axis=1))
    return np.maximum(rows, 0.0)


def _line(m0: Floats, n: int, mechanism: Law) -> tuple[NDArray[Any], NDArray[Any], Floats]:
    """The points z for each m0, (n-1) K(z) - z m0 there, and the weights of the rule."""
    c, deviation = _saddle(m0, n, mechanism)
    period = np.ceil(60 * deviation + 16)
    step = 2 * np.pi / period
    cut = np.ceil(REACH / deviation / step) if n >= FEW or mechanism.deviation > 2 else period
    half = int(np.max(np.minimum(np.ceil(period / 2), cut)))
    turn = np.arange(-half, half + 1)
    inside = (2 * np.abs(turn) <= period[:, None]) * np.where(2 * np.abs(turn) == period[:, None], 0.5, 1.0)
    z = c[:, None] + 1j * step[:, None] * turn
    return z, (n - 1) * mechanism.cgf(z) - z * m0[:, None], inside / period[:, None]


def _saddle(m0: Floats, n: int, mechanism: Law) -> tuple[Floats, Floats]:
    """The minimum c of (n-1) K(c) - c m0 - log(1 - e^{-c}) and the deviation (second derivative)^{1/2} there.

    Derivatives of K by the complex step (first) and a central difference of it (second: it sets a window only).
    """
    # K'(c) is close to sigma^2 c for the Gaussian, which bounds its saddle; the Laplace strip bounds the other
    high = np.full(m0.shape, min(mechanism.strip, (np.max(m0) / (n - 1) + 2) / mechanism.spread**2 + 2))
    low = np.zeros_like(high)

    def slope(c: Floats) -> Floats:
        return (n - 1) * mechanism.cgf(c + 1e-30j).imag / 1e-30 - m0 - 1 / np.expm1(np.minimum(c, 700.0))

    for _ in range(50):
        c = (low + high) / 2
        left = slope(c) < 0
        low, high = np.where(left, c, low), np.where(left, high, c)
    c = (low + high) / 2
    h = 1e-4 * np.minimum(c, np.minimum(mechanism.strip, 1e300) - c)
    second = (slope(c + h) - slope(c - h)) / (2 * h)
    return c, np.sqrt(np.maximum(second, LEAST))
