"""Shares Y_i / S of independent payments, S = sum Y: the two integrals that `baseline` derives, with any factors.

Y may be taken less any constants y_i whose shares y_i / sum y are the true P_i: they drop out of l_i - P_i sum l.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fairpost.engines.closed.quadrature import Rule, exp_sinh, laguerre
from fairpost.engines.moments import Floats

SIZES = (3, 5, 8, 12, 18, 27, 40)
"""Gauss-Laguerre rules in the order of refinement."""
STEPS = (0.125, 0.08, 0.05, 0.03, 0.02)
"""Steps of the double-exponential rule in the order of refinement."""
ROUNDING = 2e-13
"""Relative accuracy of the partial transforms."""


@dataclass(frozen=True)
class Summed:
    """Bias and mean squared error of each share, and the rounding that the sums of the bias carry."""

    bias: Floats
    mse: Floats
    rounding: Floats


def attempts(ratio: float, *, signed: bool = False) -> Iterator[tuple[bool, Rule]]:
    """Rules in the order of refinement, for S with standard deviation / mean = ratio; whether they are about the centre.

    Gauss-Laguerre with n nodes misses E[1/S] by about (4 ratio)^{2n}: start where that is small. It is exact for 1/S
    expanded to degree 2n - 1 about E S, so it serves signed payments too; the double-exponential rule needs Y >= 0.
    """
    if ratio < 0.1:
        enough = np.log(1e-9) / (2 * np.log(max(4 * ratio, 1e-3)))
        yield from ((True, laguerre(n)) for n in SIZES if n >= enough - 1)
    if not signed:
        yield from ((False, exp_sinh(step)) for step in STEPS)


def integrate(
    t: Floats, weight: Floats, log_product: Floats, mean: Floats, variance: Floats, p: Floats, times: Floats
) -> Summed:
    """Both integrals from the factors at the nodes t: sum of log M, tilted means and variances (nodes by entities)."""
    weight = weight * np.exp(log_product)
    gap = mean - np.multiply.outer(mean @ times, p)
    scatter = (1 - p) ** 2 * variance + p**2 * ((variance @ times)[:, None] - variance)
    size = weight @ np.abs(mean) + p * (weight @ (np.abs(mean) @ times))
    return Summed(weight @ gap, (weight * t) @ (gap**2 + scatter), ROUNDING * size)
