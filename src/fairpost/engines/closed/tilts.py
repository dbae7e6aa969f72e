"""A clipped noisy count under an exponential tilt, with no cancellation near s = 0."""

from __future__ import annotations

import numpy as np

from fairpost.engines.moments import Floats
from fairpost.noise import Law


def clipped_tilts(mechanism: Law, x: Floats, s: Floats, centred: bool) -> tuple[Floats, Floats, Floats]:
    """Y = (x + eta)_+ under the tilt e^{-sY}: log E[e^{-sY}], the mean (less x where `centred`), the variance.

    `x` has the shape of the last axis of `s`. Three forms, each where it does not cancel:
    deep (x beyond 60 b or 13 sigma, s not large): clipping is below 1e-26, so the cumulants of the noise serve;
    mild (x > 3 spreads, s not large): the whole line plus what clipping adds, e^{sx} times partial transforms below 0;
    else: partial transforms above 0.
    """
    x, s = np.broadcast_arrays(x, s)
    log, mean, variance = np.empty(s.shape), np.empty(s.shape), np.empty(s.shape)
    depth = np.where(s * mechanism.spread <= 0.5, x / mechanism.spread, 0.0)
    deep = depth > (13.0 if np.isinf(mechanism.strip) else 60.0)
    mild = (depth > 3) & ~deep
    for where, form in ((deep, _whole), (mild, _whole_and_clipped), (~deep & ~mild, _kept)):
        if where.any():
            log[where], mean[where], variance[where] = form(mechanism, x[where], s[where], centred)
    return log, mean, variance


Triple = tuple[Floats, Floats, Floats]


def _whole(mechanism: Law, x: Floats, s: Floats, centred: bool) -> Triple:
    """No clipping: log = K(-s) - s x, mean = x + K'(-s), variance = K''(-s)."""
    log, first, second = mechanism.cumulants(-s)
    return log - s * x, first if centred else first + x, second


def _whole_and_clipped(mechanism: Law, x: Floats, s: Floats, centred: bool) -> Triple:
    """E[(Y - x)^k e^{-s(Y - x)}] as the whole line plus the difference that clipping makes below 0."""
    log, first, second = mechanism.cumulants(-s)
    mass, lift = mechanism.cdf(-x), np.exp(s * x)
    l0, l1, l2 = mechanism.lowers(-x, -s)
    whole = np.exp(log)
    m0 = whole + lift * (mass - l0)
    m1 = (whole * first + lift * (x * (l0 - mass) - l1)) / m0
    m2 = (whole * (second + first**2) + lift * (x * x * (mass - l0) + 2 * x * l1 - l2)) / m0
    return np.log(m0) - s * x, m1 if centred else m1 + x, m2 - m1**2


def _kept(mechanism: Law, x: Floats, s: Floats, centred: bool) -> Triple:
    """E[Y^k e^{-sY}] from the part above 0, with the mass at Y = 0."""
    u0, u1, u2 = mechanism.uppers(-x, -s)
    m0 = mechanism.cdf(-x) + u0
    with np.errstate(divide="ignore"):
        log = np.log(m0)
    m0 = np.maximum(m0, np.finfo(float).tiny)
    mean = u1 / m0
    return log, mean - x if centred else mean, np.maximum(u2 / m0 - mean**2, 0.0)
