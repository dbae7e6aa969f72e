"""Z = G_p - G'_q, the difference of two sums of p and of q standard exponential variables: tails and partial moments, closed.

E[e^{sZ}] = (1 - s)^-p (1 + s)^-q, which a number of Laplace noises and exponential tails has. At a height y >= 0 the first sum has had i
arrivals, a Poisson number; where i < p the rest of it, G_{p-i}, still has G'_q to beat:

    E[(Z - y)_+^r]/r! = sum_{i < p} e^{-y} y^i/i! R_r(p - i, q),   R_r(a, b) = E[(G_a - G'_b)_+^r]/r!,

and R_r(a, b) is the mean of R_r(a - 1, b) and R_r(a, b - 1), whichever of the two has the next arrival; R_r(a, 0) = E[G_a^r]/r!, R_r(0, b) = 0.
All terms are positive: far tails keep their digits. E[(y - Z)_+^r] has the same sum with R_r(q, p - i), and beside it what happens where the
first sum has ended below y, by the incomplete gamma function. For y < 0 the same holds for -Z.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpost.engines.moments import Floats

Whole = NDArray[np.int64]


@lru_cache(maxsize=32)
def races(r: int, most: int) -> Floats:
    """R_r(a, b) for a and b up to `most`."""
    found = np.zeros((most + 1, most + 1))
    a = np.arange(most + 1.0)
    found[1:, 0] = (np.ones_like(a), a, a * (a + 1) / 2)[r][1:]
    for k in range(1, most + 1):
        for j in range(1, most + 1):
            found[k, j] = 0.5 * (found[k - 1, j] + found[k, j - 1])
    return found


def _beyond(p: Whole, q: Whole, y: Floats, r: int, turned: bool = False) -> Floats:
    """E[(Z - y)_+^r; G_p > y]/r! for y >= 0; turned: E[(y - Z)_+^r; G_p > y]/r!, where the second sum wins."""
    most = int(max(np.max(p, initial=0), np.max(q, initial=0)))
    ahead = races(r, most)
    term, found = np.exp(-y), np.zeros(np.broadcast_shapes(p.shape, q.shape, y.shape))
    for i in range(int(np.max(p, initial=0))):
        rest = np.maximum(p - i, 0)
        found += term * (np.where(p > i, ahead[q, rest], 0.0) if turned else ahead[rest, q])
        term = term * (y / (i + 1))
    return found


def _whole(p: Whole, q: Whole, y: Floats, r: int) -> Any:
    """E[(Z - y)^r]/r!."""
    away = p - q - y
    return (1.0, away, 0.5 * (away * away + p + q))[r]


def _where(p: Whole, q: Whole, y: Floats, above: Callable[..., Floats], below: Callable[..., Floats]) -> Floats:
    """One form where y >= 0 and the other where y < 0; p and q are those of the columns of y, which rarely need both."""
    found = np.empty(y.shape)
    positive = y >= 0
    for form, here in ((above, positive), (below, ~positive)):
        some = here.any(axis=0)
        if some.any():
            values = form(p[some], q[some], y[:, some])
            found[:, some] = np.where(here[:, some], values, found[:, some])
    return found


def upper(p: Whole, q: Whole, y: Floats, r: int) -> Floats:
    """E[(Z - y)_+^r]/r!, with p and q of every column of y; r = 0: P(Z > y)."""

    def above(p: Whole, q: Whole, y: Floats) -> Floats:
        return _beyond(p, q, np.maximum(y, 0.0), r)

    def below(p: Whole, q: Whole, y: Floats) -> Floats:
        return np.asarray(_whole(p, q, y, r) - (-1) ** r * _beyond(q, p, np.maximum(-y, 0.0), r))

    return _where(p, q, y, above, below)


def lower(p: Whole, q: Whole, y: Floats, r: int) -> Floats:
    """E[(y - Z)_+^r]/r!; r = 0: P(Z <= y)."""

    def above(p: Whole, q: Whole, y: Floats) -> Floats:
        from scipy.special import gammainc

        y = np.maximum(y, 0.0)
        # G_p below y: then y - Z is y - G_p and the second sum
        c0, c1, c2 = (np.where(p > 0, gammainc(np.maximum(p, 1) + k, y), 1.0) for k in range(3))
        first, second = y * c0 - p * c1, 0.5 * (y * y * c0 - 2 * y * p * c1 + p * (p + 1) * c2)
        whole = (c0, first + q * c0, second + q * first + 0.5 * q * (q + 1) * c0)[r]
        return np.asarray(whole) + _beyond(p, q, y, r, turned=True)

    def below(p: Whole, q: Whole, y: Floats) -> Floats:
        return _beyond(q, p, np.maximum(-y, 0.0), r)

    return _where(p, q, y, above, below)
