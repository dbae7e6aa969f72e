"""The law of one entry of pi_S under whole-number noise of a large scale, by one contour integral (the companion of sum_lattice).

N = n nu = (n - 1) eta_i - (the sum of the others) is whole, log E[e^{pN}] = K((n - 1) p) + (n - 1) K(p), and with w = n u, m0 the first
whole number above w and g = m0 - w

    E[(u + nu)_-^k] = n^-k E[(N - w)_+^k] = n^-k (1/2 pi i) int_{|Im p| <= pi} e^{K_N(p) - p m0} sum_{l >= 0} (l + g)^k e^{-pl} dp:

the integral of continuous noise (`sum_law`, s = n p) with k!/s^{k+1} replaced by a closed sum. K((n - 1) p) has the period
2 pi/(n - 1): the integrand has a copy of its peak at every multiple of it, which (n - 1) K(p) damps. Where that leaves less than e^-GONE of the
peak from Im p = pi/(n - 1) on, the first peak is all, and its cost depends neither on the scale nor on the count.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpost import cancel
from fairpost.noise import Law

Floats = NDArray[np.float64]
LARGE = 8.0
"""The least scale that is tried."""
GONE = 38.0
"""What lies beyond the first peak is below e^-GONE of it."""
STEP, LONGEST = 1.0 / 16.0, 400
BENT, STRAIGHT = 0.4142, 0.0
"""The lean of the path: to the right where the transform has poles on the real axis, upright under Gaussian tails."""


def tail_of_entry(u: Floats, n: int, noise: Law, k: int) -> Floats | None:
    """E[(u + nu)_-^k] for u >= 0, n >= 2 and k = 0, 1, 2; for k = -1 P(u + nu = 0). None where the copies matter."""
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
        found = _integral(w[inside] / n, gap[inside], n, noise, k)
        if found is None:
            return None
        out[inside] = found
    return out


def _integral(u: Floats, gap: Floats, n: int, noise: Law, k: int) -> Floats | None:
    c, width = _saddle(u, n, noise, k + 1)
    if _copies(c, width, n, noise, k + 1) > -GONE:
        return None
    lean = STRAIGHT if np.isinf(noise.strip) else BENT

    def power(s: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(noise.cgf(s * ((n - 1) / n)) + (n - 1) * noise.cgf(s / n) - u[:, None] * s)

    level = power(c[:, None] + 0j).real[:, 0] - (k + 1) * np.log(c if k >= 0 else np.ones_like(c))
    total, top = np.zeros_like(u), np.zeros_like(u)
    for start in range(0, LONGEST, 24):
        cancel.check()
        t = STEP * np.arange(start, start + 24)
        s = c[:, None] + width[:, None] * (1j * np.sinh(t) + lean * (np.cosh(t) - 1))
        log = power(s) - level[:, None]
        if k >= 0:
            log = log - (k + 1) * np.log(s)
        values = np.exp(np.where(log.real > -745, log, -800.0)) * (
            width[:, None] * (1j * np.cosh(t) + lean * np.sinh(t))
        )
        values *= _sums(s / n, gap[:, None], k)
        if start == 0:
            values[:, 0] /= 2
        total += np.sum(values.imag, axis=1)
        top = np.maximum(top, np.abs(values[:, 0]))
        size, beyond = np.abs(values), s.imag > np.pi * n / (n - 1)
        if beyond.any() and np.any(size[beyond] > (1e-17 * top[:, None] + 0 * size)[beyond]):
            return None  # still alive where the copies begin
        if np.all(size[:, -1] < 1e-18 * top):
            scale = 1 / n if k < 0 else 1.0
            return np.asarray(np.maximum(scale * np.exp(level) * total * STEP / np.pi, 0.0))
    return None


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


def _saddle(u: Floats, n: int, noise: Law, power: int) -> tuple[Floats, Floats]:
    """The minimum c of K_nu(s) - us - power log s, and the width (second derivative)^{-1/2}; the noise taken as continuous."""
    if np.isinf(noise.strip):
        v = noise.spread**2 * (n - 1) / n
        c = (u + np.sqrt(u * u + 4 * power * v)) / (2 * v)
        return c, 1 / np.sqrt(v + (power / c**2 if power else np.zeros_like(c)))
    b = noise.spread

    def slopes(s: Floats) -> tuple[Floats, Floats]:
        first, second = -u - power / s, power / s**2
        for beta, times in ((b * (n - 1) / n, 1), (b / n, n - 1)):
            left, right = 1 / (1 / beta - s), 1 / (1 / beta + s)
            first = first + times * (left - right)
            second = second + times * (left**2 + right**2)
        return first, second

    low, high = np.zeros_like(u), np.full_like(u, n / (n - 1) / b)
    c = high / 2
    for _ in range(80):
        left = slopes(c)[0] < 0
        low, high = np.where(left, c, low), np.where(left, high, c)
        c = (low + high) / 2
    return c, 1 / np.sqrt(slopes(c)[1])


def _copies(c: Floats, width: Floats, n: int, noise: Law, power: int) -> float:
    """The logarithm of what the integrand is at most from Im p = pi/(n - 1) on, over its value at c, at the worst u."""
    edge = np.pi / (n - 1) if n > 2 else np.pi
    many = n - 1 if n > 2 else 2
    here, there = noise.cgf(c / n + 0j).real, noise.cgf(c / n + 1j * edge).real
    drop = many * (there - here) + power * (np.log(np.maximum(c / n, 1e-300)) - math.log(edge))
    return float(np.max(drop + np.log(np.pi * n / width)))
