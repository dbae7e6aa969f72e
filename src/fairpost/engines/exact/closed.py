"""Release post-processings whose moments need no quadrature of their own: none, (x)_+, pi_S and (pi_S)_+.

With X = x + eta, N_k = E[(.)_-^k] of the quantity that is clipped, and pi_S unbiased up to shift = (C - sum x)/n:

    (x)_+      bias N_1,            mean squared error  Var[eta] - N_2 - 2 x N_1
    (pi_S)_+   bias shift + N_1,    mean squared error  Var[nu] + shift^2 - N_2 - 2 x N_1

since clipping adds (.)_- and y (y)_- = -(y)_-^2.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fairpost.bounds import sum_law as sumlaw
from fairpost.bounds.theorems import RELATIVE
from fairpost.engines.moments import Moments
from fairpost.noise import Mechanism

Floats = NDArray[np.float64]
ROUNDING = 1e-12
"""The relative accuracy of `Mechanism.lower` (6e-13 against mpmath) with room for the arithmetic here."""


def unchanged(x: Floats, mechanism: Mechanism) -> Moments:
    """Noisy counts as they are: unbiased, Var[eta]."""
    nothing = np.zeros_like(x)
    chance = mechanism.density(-x) if mechanism.discrete else nothing
    return Moments(nothing, nothing, np.full_like(x, mechanism.variance), chance)


def nonnegative(x: Floats, mechanism: Mechanism) -> Moments:
    """(x)_+: each entity alone."""
    n1, n2 = -mechanism.lower(-x, 0.0, 1), mechanism.lower(-x, 0.0, 2)
    mse = mechanism.variance - n2 - 2 * x * n1
    return Moments(n1, ROUNDING * n1, np.maximum(mse, 0.0), mechanism.cdf(-x))


def keeps_sum(x: Floats, n: int, shift: float, mechanism: Mechanism) -> Moments:
    """pi_S: unbiased when C = sum x (Lemma 1)."""
    bias = np.full_like(x, shift)
    mse = np.full_like(x, sumlaw.variance(mechanism, n) + shift**2)
    return Moments(
        bias,
        np.full_like(x, 4e-16 * (abs(shift) + float(x.max()))) * (shift != 0),
        mse,
        sumlaw.at_zero(x + shift, n, mechanism),
    )


def sum_clipped(x: Floats, n: int, shift: float, mechanism: Mechanism) -> Moments:
    """(pi_S)_+: one entry of pi_S, clipped; the terms of Theorem 1."""
    u = x + shift
    n1, n2 = sumlaw.clipped(u, n, mechanism, 1), sumlaw.clipped(u, n, mechanism, 2)
    mse = sumlaw.variance(mechanism, n) + shift**2 - n2 - 2 * x * n1
    zero = sumlaw.clipped(u, n, mechanism, 0) + sumlaw.at_zero(u, n, mechanism)
    return Moments(shift + n1, RELATIVE * n1 + 4e-16 * abs(shift), np.maximum(mse, 0.0), np.minimum(zero, 1.0))
