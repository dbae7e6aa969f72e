"""Release post-processings whose moments need no quadrature of their own: none, (x)_+, pi_S and (pi_S)_+.

With X = x + eta, N_k = E[(.)_-^k] of the quantity that is clipped, and pi_S unbiased up to shift = (C - sum x)/n:

    (x)_+      bias N_1,            mean squared error  Var[eta] - N_2 - 2 x N_1
    (pi_S)_+   bias shift + N_1,    mean squared error  Var[nu] + shift^2 - N_2 - 2 x N_1

since clipping adds (.)_- and y (y)_- = -(y)_-^2.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fairpost.bounds import sum_law
from fairpost.bounds.theorems import RELATIVE
from fairpost.engines.base import Part
from fairpost.engines.moments import Distinct, Moments, Work, distinct
from fairpost.noise import Law
from fairpost.rules import Nonnegative, Sum, SumClipped, Unchanged

Floats = NDArray[np.float64]
ROUNDING = 1e-12
"""The relative accuracy of `Law.lower` (6e-13 against mpmath) with room for the arithmetic here."""
LATTICE = 1e-10
"""The relative accuracy of P(y = 0) and P(y < 0) of an entry of pi_S: sums over a lattice of some thousand points."""


def unchanged(pi: Unchanged, part: Part, law: Law) -> Work:
    """Noisy counts as they are: unbiased, Var[eta]."""
    d = distinct(part)

    def work(rtol: float) -> Moments:
        nothing = np.zeros_like(d.x)
        zero = law.density(-d.x) if law.discrete else nothing
        mse = np.full_like(d.x, law.variance)
        wide = ROUNDING * mse, ROUNDING * zero
        return d.entities(_bound(nothing, nothing, mse, zero, wide))

    return work


def nonnegative(pi: Nonnegative, part: Part, law: Law) -> Work:
    """(x)_+: each entity alone."""
    d = distinct(part)

    def work(rtol: float) -> Moments:
        n1, n2 = -law.lower(-d.x, 0.0, 1), law.lower(-d.x, 0.0, 2)
        zero = law.cdf(-d.x)
        mse, mse_error = _mse(law.variance, 0.0, d.x, n1, n2, ROUNDING)
        wide = mse_error, ROUNDING * zero
        return d.entities(_bound(n1, ROUNDING * n1, mse, zero, wide))

    return work


def keeps_sum(pi: Sum, part: Part, law: Law) -> Work:
    """pi_S: unbiased when C = sum x (Lemma 1)."""
    d = distinct(part)

    def work(rtol: float) -> Moments:
        n, shift = _shift(d, pi.C)
        bias = np.full_like(d.x, shift)
        error = np.full_like(d.x, 4e-16 * (abs(shift) + float(d.x.max()))) * (shift != 0)
        mse = np.full_like(d.x, sum_law.variance(law, n) + shift**2)
        zero = sum_law.at_zero(d.x + shift, n, law)
        wide = ROUNDING * mse + 2 * abs(shift) * error, LATTICE * zero
        return d.entities(_bound(bias, error, mse, zero, wide))

    return work


def sum_clipped(pi: SumClipped, part: Part, law: Law) -> Work:
    """(pi_S)_+: one entry of pi_S, clipped; the terms of Theorem 1."""
    d = distinct(part)

    def work(rtol: float) -> Moments:
        n, shift = _shift(d, pi.C)
        u = d.x + shift
        n1, n2 = sum_law.clipped(u, n, law, 1), sum_law.clipped(u, n, law, 2)
        mse, mse_error = _mse(sum_law.variance(law, n), shift, d.x, n1, n2, RELATIVE)
        zero = np.minimum(sum_law.clipped(u, n, law, 0) + sum_law.at_zero(u, n, law), 1.0)
        wide = mse_error, LATTICE * zero
        return d.entities(_bound(shift + n1, RELATIVE * n1 + 4e-16 * abs(shift), mse, zero, wide))

    return work


def _bound(bias: Floats, error: Floats, mse: Floats, zero: Floats, wide: tuple[Floats, Floats]) -> Moments:
    """Moments in closed form, with the errors of the mean square and of the chance of 0."""
    return Moments(bias, error, mse, zero, mse_error=wide[0], zero_error=wide[1], kind="bound")


def _mse(variance: float, shift: float, x: Floats, n1: Floats, n2: Floats, part: float) -> tuple[Floats, Floats]:
    """Var + shift^2 - N_2 - 2 x N_1, and its error: `part` of the sum of what is added and taken away."""
    mse = variance + shift**2 - n2 - 2 * x * n1
    return np.maximum(mse, 0.0), part * (variance + shift**2 + np.abs(n2) + 2 * x * n1)


def _shift(d: Distinct, total: float) -> tuple[int, float]:
    """n and (C - sum x) / n."""
    n = int(np.sum(d.times))
    return n, (total - float(np.dot(d.times, d.x))) / n
