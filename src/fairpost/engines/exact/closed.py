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
from fairpost.engines.evaluation import Asked, Distinct, Work
from fairpost.engines.exact.registry import EXACT
from fairpost.engines.moments import Moments
from fairpost.noise import Law
from fairpost.rules import Nonnegative, Sum, SumClipped, Unchanged

Floats = NDArray[np.float64]
ROUNDING = 1e-12
"""The relative accuracy of `Law.lower` (6e-13 against mpmath) with room for the arithmetic here."""
LATTICE = 1e-10
"""The relative accuracy of P(y = 0) and P(y < 0) of an entry of pi_S: sums over a lattice of some thousand points."""


def unchanged(x: Floats, mechanism: Law) -> Moments:
    """Noisy counts as they are: unbiased, Var[eta]."""
    nothing = np.zeros_like(x)
    zero = mechanism.density(-x) if mechanism.discrete else nothing
    mse = np.full_like(x, mechanism.variance)
    return Moments(nothing, nothing, mse, zero, mse_error=ROUNDING * mse, zero_error=ROUNDING * zero)


def nonnegative(x: Floats, mechanism: Law) -> Moments:
    """(x)_+: each entity alone."""
    n1, n2 = -mechanism.lower(-x, 0.0, 1), mechanism.lower(-x, 0.0, 2)
    zero = mechanism.cdf(-x)
    mse, mse_error = _mse(mechanism.variance, 0.0, x, n1, n2, ROUNDING)
    return Moments(n1, ROUNDING * n1, mse, zero, mse_error=mse_error, zero_error=ROUNDING * zero)


def keeps_sum(x: Floats, n: int, shift: float, mechanism: Law) -> Moments:
    """pi_S: unbiased when C = sum x (Lemma 1)."""
    bias = np.full_like(x, shift)
    error = np.full_like(x, 4e-16 * (abs(shift) + float(x.max()))) * (shift != 0)
    mse = np.full_like(x, sum_law.variance(mechanism, n) + shift**2)
    zero = sum_law.at_zero(x + shift, n, mechanism)
    mse_error = ROUNDING * mse + 2 * abs(shift) * error
    return Moments(bias, error, mse, zero, mse_error=mse_error, zero_error=LATTICE * zero)


def sum_clipped(x: Floats, n: int, shift: float, mechanism: Law) -> Moments:
    """(pi_S)_+: one entry of pi_S, clipped; the terms of Theorem 1."""
    u = x + shift
    n1, n2 = sum_law.clipped(u, n, mechanism, 1), sum_law.clipped(u, n, mechanism, 2)
    mse, mse_error = _mse(sum_law.variance(mechanism, n), shift, x, n1, n2, RELATIVE)
    zero = np.minimum(sum_law.clipped(u, n, mechanism, 0) + sum_law.at_zero(u, n, mechanism), 1.0)
    error = RELATIVE * n1 + 4e-16 * abs(shift)
    return Moments(shift + n1, error, mse, zero, mse_error=mse_error, zero_error=LATTICE * zero)


def _mse(variance: float, shift: float, x: Floats, n1: Floats, n2: Floats, part: float) -> tuple[Floats, Floats]:
    """Var + shift^2 - N_2 - 2 x N_1, and its error: `part` of the sum of what is added and taken away."""
    mse = variance + shift**2 - n2 - 2 * x * n1
    return np.maximum(mse, 0.0), part * (variance + shift**2 + np.abs(n2) + 2 * x * n1)


@EXACT.register(Unchanged)
def _unchanged(pi: Unchanged, asked: Asked) -> Work:
    d, law = asked.distinct(), asked.law()
    return d.entities(lambda: unchanged(d.x, law))


@EXACT.register(Nonnegative)
def _nonnegative(pi: Nonnegative, asked: Asked) -> Work:
    d, law = asked.distinct(), asked.law()
    return d.entities(lambda: nonnegative(d.x, law))


def _shift(d: Distinct, total: float) -> tuple[int, float]:
    """n and (C - sum x) / n."""
    n = int(np.sum(d.times))
    return n, (total - float(np.dot(d.times, d.x))) / n


@EXACT.register(Sum)
def _sum(pi: Sum, asked: Asked) -> Work:
    d, law = asked.distinct(), asked.law()
    return d.entities(lambda: keeps_sum(d.x, *_shift(d, pi.C), law))


@EXACT.register(SumClipped)
def _sum_clipped(pi: SumClipped, asked: Asked) -> Work:
    d, law = asked.distinct(), asked.law()
    return d.entities(lambda: sum_clipped(d.x, *_shift(d, pi.C), law))
