"""What takes the place of 1/s where H lives on a lattice and t runs through a whole cell [m, m + 1).

Simplex. With S = sum (X_j - m)_+ and K = #{X_j > m}, H(m + u) = S - uK on the cell, and the root T passes it as far as
R = min((S - C)_+ / K, 1): int_0^1 P(T > m + u) du = E[R]. For K = k the sum over S is geometric: with C = C0 + d, C0 whole, 0 <= d < 1,

    sum_S R e^{-sS} = e^{-s C0} A_1(s) (1 - e^{-sk})/k,   A_r(s) = sum_{j >= 1} (j - d)^r e^{-sj},

and (1 - e^{-sk})/k = s int_0^1 e^{-suk} du, so that the sum over k is a product again:

    E[R] = int_0^1 du (1/2 pi i) int e^{-sC} [e^{sd} s A_1(s)] prod_j E[e^{s (X_j - m - u)_+}] ds,   |Im s| <= pi.

It is the integral of continuous noise with e^{sd} s A_1(s) = 1/s - s/12 + ... (d = 0) in place of 1/s, over one period: exact for any n.
Likewise int_0^1 u P(T > m + u) du = E[R^2]/2 has e^{sd} s^2 A_2(s)/2 and the weight u, but for a remainder e^{-sk}(s A_2 - 2 A_1)/(2k),
which is
regular at 0, where it is B_2(1 - d)/(2k): among many entities it is bounded, among few computed (`cells`). P(T >= m) = P(S >= C) has e^{-s
(ceil C - C)}/(1 - e^{-s}).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from fairpost.engines.exact.sums.contours import Kernel
from fairpost.engines.exact.sums.factors import Complexes


def passed(total: float) -> Kernel:
    """e^{sd} s A_1(s), A_1 = 1/(4 sinh^2(s/2)) - d/(e^s - 1)."""
    d = total - math.floor(total)

    def form(s: Complexes, which: slice) -> Complexes:
        return np.asarray(np.exp(s * d) * s * (0.25 / np.sinh(s / 2) ** 2 - d / np.expm1(s)))

    return Kernel(form, 1.0)


def squared(total: float) -> Kernel:
    """e^{sd} s^2 A_2(s) / 2, A_2 = cosh(s/2)/(4 sinh^3(s/2)) - 2 d / (4 sinh^2(s/2)) + d^2/(e^s - 1)."""
    d = total - math.floor(total)

    def form(s: Complexes, which: slice) -> Complexes:
        half = np.sinh(s / 2)
        second = 0.25 * np.cosh(s / 2) / half**3 - 0.5 * d / half**2 + d * d / np.expm1(s)
        return np.asarray(np.exp(s * d) * s * s * second / 2)

    return Kernel(form, 1.0)


def at_least(total: float) -> Kernel:
    """P(S >= C) for whole S."""
    gap = math.ceil(total) - total

    def form(s: Complexes, which: slice) -> Complexes:
        return np.asarray(np.exp(-s * gap) / -np.expm1(-s))

    return Kernel(form, 1.0)


def remainder(total: float) -> Callable[[Complexes, slice], Complexes]:
    """e^{sd} (s A_2 - 2 A_1), regular at 0."""
    d = total - math.floor(total)

    def form(s: Complexes, which: slice) -> Complexes:
        half = np.sinh(s / 2)
        tail = 1 / np.expm1(s)
        first = 0.25 / half**2 - d * tail
        second = 0.25 * np.cosh(s / 2) / half**3 - 0.5 * d / half**2 + d * d * tail
        return np.asarray(np.exp(s * d) * (s * second - 2 * first))

    return form
