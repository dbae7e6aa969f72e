"""The law of one entry of pi_S, and what clipping it at 0 takes away.

By Lemma 1 an entry of pi_S is y = u + nu with u = x_i + (C - sum x)/n and nu = eta_i - mean(eta). Its transform is
known for every mechanism, log E[e^{s nu}] = K(s (1 - 1/n)) + (n - 1) K(s / n), and nu is symmetric. Every term of
Theorem 1 and every moment of (pi_S)_+ follows from the moments of the clipped part,

    clipped(u, k) = E[(y)_-^k],   k = 0 (the probability of y < 0), 1, 2.

Only u >= 0 is needed: symmetry gives u < 0. All terms below are positive, so deep tails keep their relative accuracy.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairpost import cancel
from fairpost.bounds import sum_lattice
from fairpost.errors import UnsupportedError
from fairpost.noise import Gaussian, Law
from fairpost.noise.base import GAUSSIAN, LAPLACE

Floats = NDArray[np.float64]
BENT, STRAIGHT = 0.4142, 0.0
"""The lean of the path: to the right where the transform has poles on the real axis, upright under Gaussian tails."""
STEP, BLOCK, LONGEST = 1.0 / 16.0, 24, 480
"""Between nodes; how many at a time, as most u are done after a few blocks; how many at most."""
MANY = 10
"""From so many entities on the small argument of K is small."""
ALONE = 41.5
"""What the poles beyond the first one add is left out below e^-ALONE (1e-18) of what the first one gives."""
LARGE = 8.0
"""The least scale of whole-number noise for which a contour is tried."""
GONE = 38.0
"""What lies beyond the first peak is below e^-GONE of it."""


def variance(mechanism: Law, n: int) -> float:
    """Var[nu] = Var[eta] (n - 1)/n."""
    return mechanism.variance * (n - 1) / n


def clipped(u: ArrayLike, n: int, mechanism: Law, k: int = 1) -> Floats:
    """E[(u + nu)_-^k] for each u; k = 0 gives P(u + nu < 0), k = 1 and 2 are in counts and squared counts."""
    mean = np.asarray(u, dtype=np.float64)
    size = np.abs(mean)
    tail = np.zeros_like(size) if n == 1 else tail_of_entry(mechanism, size.ravel(), n, k).reshape(size.shape)
    if k == 0:
        return np.where(mean < 0, 1.0 - tail - at_zero(size, n, mechanism), tail)
    whole = size if k == 1 else size**2 + variance(mechanism, n)
    return np.where(mean < 0, whole - tail if k == 2 else whole + tail, tail)


def tail_of_entry(noise: Law, u: Floats, n: int, k: int) -> Floats:
    """E[(u + nu)_-^k] for u >= 0 and n >= 2; each noise has its own way."""
    if noise.code == GAUSSIAN:  # nu is normal
        return np.asarray(Gaussian(noise.spread * np.sqrt((n - 1) / n)).upper(u, 0.0, k))
    if noise.code == LAPLACE:
        out, beyond = first_pole(noise, u, n, k)
        rest = beyond > -ALONE
        if rest.any():
            out[rest] = by_contour(noise, u[rest], n, k)
        return out
    if noise.code is None:
        raise UnsupportedError(f"the law of an entry of pi_S is not known for {noise.name} noise")
    found = whole_tail(u, n, noise, k)
    return sum_lattice.tail_of_entry(u, n, noise, k) if found is None else found


def at_zero(u: ArrayLike, n: int, mechanism: Law) -> Floats:
    """P(u + nu = 0): 0 for continuous noise and n > 1."""
    size = np.abs(np.asarray(u, dtype=np.float64))
    if n == 1:
        return np.asarray(size == 0, dtype=np.float64)
    if not mechanism.discrete:
        return np.zeros_like(size)
    found = whole_tail(size.ravel(), n, mechanism, -1)
    found = sum_lattice.mass_at_zero(size.ravel(), n, mechanism) if found is None else found
    return found.reshape(size.shape)


# -- by a contour ----------------------------------------------------------------------------------------------
# With W = -u - nu, E[W_+^k] = (k!/2 pi i) int e^{-u s + K_nu(s)} s^{-k-1} ds along any line 0 < Re s < s0, where
# s0 = n / (b (n - 1)) is the nearest pole (none under Gaussian tails). The line is put through the saddle point c (the integrand
# is smallest there on the real axis and largest there on the line, so the integral has the size of its largest value: nothing
# cancels) and bent to the right, s(t) = c + i r sinh t + 0.41 r (cosh t - 1): every other singularity is on the real axis. In t
# the integrand decays exponentially and is analytic in a strip of half-width pi/8 at least (the bend is pi/8: e^{-us}
# decays on one side of it, the near-Gaussian transform on the other), so the trapezoidal rule with step h has an error of
# about e^{-2 pi (pi/8) / h}: 1e-17 for h = 1/16.
#
# Under whole-number noise N = n nu = (n - 1) eta_i - (the sum of the others) is whole, log E[e^{pN}] = K((n - 1) p) + (n - 1) K(p),
# and with w = n u, m0 the first whole number above w and g = m0 - w
#
#     E[(u + nu)_-^k] = n^-k E[(N - w)_+^k] = n^-k (1/2 pi i) int_{|Im p| <= pi} e^{K_N(p) - p m0} sum_{l >= 0} (l + g)^k e^{-pl} dp:
#
# the same integral (s = n p) with k!/s^{k+1} replaced by a closed sum. K((n - 1) p) has the period 2 pi/(n - 1): the integrand has
# a copy of its peak at every multiple of it, which (n - 1) K(p) damps. Where that leaves less than e^-GONE of the peak from
# Im p = pi/(n - 1) on, the first peak is all, and its cost depends neither on the scale nor on the count.


def by_contour(noise: Law, u: Floats, n: int, k: int, gap: Floats | None = None) -> Floats | None:
    """The integral for each u; k = -1 is P(u + nu = 0). `gap`: g, for whole-number noise; None where its copies matter."""
    centre, width = _saddle(u, n, noise, k + 1)
    if gap is not None and _copies(centre, width, n, noise, k + 1) > -GONE:
        return None
    lean = STRAIGHT if np.isinf(noise.strip) else BENT

    def power(s: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(_cgf(s, n, noise) - u[:, None] * s - ((k + 1) * np.log(s) if k >= 0 else 0.0))

    level = power(centre[:, None] + 0j).real
    total, top = np.zeros_like(u), np.zeros_like(u)
    for start in range(0, LONGEST, BLOCK):
        cancel.check()
        t = STEP * np.arange(start, start + BLOCK)
        s = centre[:, None] + width[:, None] * (1j * np.sinh(t) + lean * (np.cosh(t) - 1))
        log = power(s) - level
        values = np.exp(np.where(log.real > -745, log, -800.0)) * (
            width[:, None] * (1j * np.cosh(t) + lean * np.sinh(t))
        )
        if gap is not None:
            values *= _sums(s / n, gap[:, None], k)
        if start == 0:
            values[:, 0] /= 2
        total += np.sum(values.imag, axis=1)
        size = np.abs(values)
        top = np.maximum(top, size[:, 0])
        if gap is not None and np.any((s.imag > np.pi * n / (n - 1)) & (size > 1e-17 * top[:, None])):
            return None  # still alive where the copies begin
        if np.all(size[:, -1] < 1e-19 * top):
            break
    else:
        if gap is not None:
            return None
    factor = (1.0, 1.0, 2.0)[k] if gap is None else 1 / n if k < 0 else 1.0
    found = factor * np.exp(level[:, 0]) * total * STEP / np.pi
    return np.asarray(found if gap is None else np.maximum(found, 0.0))


def _cgf(s: NDArray[Any], n: int, noise: Law) -> NDArray[Any]:
    """K((n - 1) s / n) + (n - 1) K(s / n), complex s.

    Laplace: K(s) = -log(1 - t^2), t = bs. Among many entities t^2 is small and its logarithm is taken n times: log|1 + z| is then
    log1p(2 Re z + |z|^2)/2, which keeps the digits that 1 + z loses. Near the pole of the first term (1 - t)(1 + t) keeps them.
    """
    if noise.code != LAPLACE:
        return np.asarray(noise.cgf(s * ((n - 1) / n)) + (n - 1) * noise.cgf(s / n))
    t = noise.spread * s / n
    own = (n - 1) * t
    one = -np.log((1 - own) * (1 + own))
    if n < MANY:
        return np.asarray(one - (n - 1) * np.log((1 - t) * (1 + t)))
    z = -t * t
    rest = 0.5 * np.log1p(2 * z.real + z.real**2 + z.imag**2) + 1j * np.arctan2(z.imag, 1 + z.real)
    return np.asarray(one - (n - 1) * rest)


def _saddle(u: Floats, n: int, noise: Law, power: int) -> tuple[Floats, Floats]:
    """The minimum c of K_nu(s) - us - power log s, and the width (second derivative)^{-1/2}; the noise taken as continuous.

    Any c inside the strip is right; a step of 1e-18 of it serves every u.
    """
    if np.isinf(noise.strip):
        v = noise.spread**2 * (n - 1) / n
        c = (u + np.sqrt(u * u + 4 * power * v)) / (2 * v)
        return c, 1 / np.sqrt(v + (power / c**2 if power else np.zeros_like(c)))
    b = noise.spread

    def slopes(s: Floats) -> tuple[Floats, Floats]:
        first, second = -u - power / s, power / s**2
        for beta, times in ((b * (n - 1) / n, 1), (b / n, n - 1)):
            left, right = 1 / (1 / beta - s), 1 / (1 / beta + s)  # the two poles of the transform
            first = first + times * (left - right)
            second = second + times * (left**2 + right**2)
        return first, second

    low, high = np.zeros_like(u), np.full_like(u, n / (n - 1) / b)
    c = high / 2
    for _ in range(60):
        left = slopes(c)[0] < 0
        low, high = np.where(left, c, low), np.where(left, high, c)
        c = (low + high) / 2
    return c, 1 / np.sqrt(slopes(c)[1])


def first_pole(noise: Law, u: Floats, n: int, k: int) -> tuple[Floats, Floats]:
    """The residue at s0, and the logarithm of a bound on what the poles at n / b add to it, relative to it.

    With M_G(s) = (1 - (s b / n)^2)^{-(n-1)} and beta = b (n - 1)/n = 1/s0 the integrand is e^{-us} M_G(s) s^{-k-1} / (1 - (s beta)^2).
    Moved over s0 to a line Re s = c, s0 < c < n / b, the integral leaves

        (k!/2) s0^{-k} M_G(s0) e^{-u s0}

    behind (the noise of one entity alone, spread by the others), and on that line |1 + s beta| >= |s| beta, |1 - s beta| >=
    c beta - 1, |M_G(s)| <= M_G(c) and int |s|^{-k-2} |ds| <= pi c^{-k-1}: it is at most k!/2 e^{-uc} M_G(c) c^{-k-1} / (beta (c beta - 1)).
    c is where e^{-uc} M_G(c) is least, if that is beyond s0.
    """
    if n == 2:  # s0 = n / b: no line lies between
        return np.zeros_like(u), np.full_like(u, np.inf)
    b, m = noise.spread, n - 1
    s0, q = n / (b * m), b / n
    spread = m * noise.cgf(s0 / n)
    value = 0.5 * (1.0, 1.0, 2.0)[k] * s0**-k * np.exp(spread - u * s0)
    # u = (n - 1) 2 q^2 c / (1 - q^2 c^2), with the root of a quadratic equation that does not cancel
    c = u / (m * q * q + q * np.sqrt((m * q) ** 2 + u * u))
    inside = (c > 1.05 * s0) & (q * c < 1 - 1e-12)
    c = np.where(inside, c, 1.05 * s0)
    bound = -u * (c - s0) + m * noise.cgf(c / n) - spread - np.log(c / s0 - 1) - (k + 1) * np.log(c / s0)
    return value, np.where(inside, bound, np.inf)


def whole_tail(u: Floats, n: int, noise: Law, k: int) -> Floats | None:
    """E[(u + nu)_-^k] under whole-number noise of a large scale, for u >= 0 and n >= 2; for k = -1 P(u + nu = 0).

    None where the scale is small or the copies of the peak matter.
    """
    if noise.spread < LARGE:
        return None
    w = n * u
    near = np.round(w)
    w = np.where(np.abs(w - near) < 1e-9 * np.maximum(1.0, w), near, w)
    gap = np.floor(w) + 1 - w
    inside = u < (39 if np.isinf(noise.strip) else 700) * noise.spread  # beyond it e^-700: 0 in doubles
    if k < 0:
        inside = inside & (w == near)
    out = np.zeros_like(u)
    if inside.any():
        found = by_contour(noise, w[inside] / n, n, k, gap[inside])
        if found is None:
            return None
        out[inside] = found
    return out


def _sums(p: NDArray[Any], gap: Floats, k: int) -> NDArray[Any]:
    """p^{k+1} e^{-p gap} sum_{l >= 0} (l + gap)^k e^{-pl}, which is k! for p = 0."""
    if k < 0:
        return np.ones_like(p)
    stem, ratio = p / -np.expm1(-p), np.exp(-p)
    zeroth, first = stem, stem**2 * ratio
    if k == 0:
        found = zeroth
    elif k == 1:
        found = first + gap * p * zeroth
    else:
        found = stem**3 * ratio * (1 + ratio) + 2 * gap * p * first + (gap * p) ** 2 * zeroth
    return np.asarray(found * np.exp(-p * gap))


def _copies(c: Floats, width: Floats, n: int, noise: Law, power: int) -> float:
    """The logarithm of what the integrand is at most from Im p = pi/(n - 1) on, over its value at c, at the worst u."""
    edge = np.pi / (n - 1) if n > 2 else np.pi
    many = n - 1 if n > 2 else 2
    here, there = noise.cgf(c / n + 0j).real, noise.cgf(c / n + 1j * edge).real
    drop = many * (there - here) + power * (np.log(np.maximum(c / n, 1e-300)) - math.log(edge))
    return float(np.max(drop + np.log(np.pi * n / width)))
