"""Releases in which nobody is cut: counts so far above the noise that clipping is less likely than any number that could matter.

With nobody cut v = y = x + nu + (C - sum x)/n, nu_i = eta_i - mean(eta) (Lemma 1), whose moments are known. A is the event that some y_i is
at or below the edge (0, or where a threshold begins to bite). By Chernoff, with K the cumulant function of the noise,

    log P(A) <= log n + min_s K(s (n-1)/n) + (n-1) K(s/n) - s (min_i x_i + (C - sum x)/n - edge),

and by Cauchy-Schwarz E[|v_i - y_i|; A] <= (C + x_i + |C - sum x|/n + sd(nu)) sqrt P(A), since 0 <= v_i <= C. That is the stated error.
"""

from __future__ import annotations

import math

import numpy as np

from fairpost.engines.moments import Floats, Moments
from fairpost.noise import Law

SURE = -600.0
"""log P(A) below which nothing is integrated: alpha would be below 1e-120 of the counts."""
ENOUGH = -150.0
"""log P(A) below which nobody is cut as far as floating point can say; asked where an integral has no window."""


def log_chance(x: Floats, n: float, noise: Law, surplus: float, edge: float) -> float:
    """An upper bound on log P(A); for whole-number noise also log P(some noise is not 0), which may be all that can happen."""
    distance = float(np.min(x)) + surplus / n - edge
    still = 0.0
    if noise.discrete and distance >= 0:
        with np.errstate(divide="ignore"):
            still = float(np.log(2 * n * noise.sf(0.0)))
    if not (distance > 0 and noise.spread > 0):
        return still
    unit = noise.spread
    top = 60.0 * math.sqrt(n) if np.isinf(noise.strip) else 0.999 * n / (n - 1)
    s = np.geomspace(1e-3, top, 400) / unit
    s = s[s * unit * (n - 1) / n < noise.strip * unit]
    with np.errstate(over="ignore"):
        log = np.asarray(noise.cgf(s * (n - 1) / n)) + (n - 1) * np.asarray(noise.cgf(s / n)) - s * distance
    log = log[np.isfinite(log)]
    return min(math.log(n) + float(np.min(log)), still) if log.size else still


def uncut(x: Floats, n: float, noise: Law, total: float, surplus: float, log: float) -> Moments:
    """The moments with nobody cut, for log P(A) <= log."""
    drift = surplus / n
    variance = noise.variance * (n - 1) / n
    rare, none = math.exp(max(log, -700.0) / 2), np.zeros(x.size)
    zero = np.where(x + drift == 0, 1.0, 0.0)  # then there is no noise to speak of
    reach = total + x + abs(drift) + math.sqrt(variance)
    mse = np.full(x.size, variance + drift**2)
    change = reach * rare
    return Moments(
        np.full(x.size, drift),
        change + np.spacing(abs(drift) + none),
        mse,
        zero,
        threshold=0.0,
        mse_error=9 * reach**2 * rare + 1e-14 * mse,
        zero_error=none + rare,
        threshold_error=float(np.max(change)),
    )
