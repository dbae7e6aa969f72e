"""The noise under an exponential tilt: cumulants of e^{s eta} for real s, with no cancellation near s = 0."""

from __future__ import annotations

import numpy as np

from fairpost.engines.moments import Floats
from fairpost.noise import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace, Mechanism


def cumulants(mechanism: Mechanism, s: Floats) -> tuple[Floats, Floats, Floats]:
    """K(s) = log E[e^{s eta}], K'(s) and K''(s): the mean and the variance of the tilted noise.

    K' vanishes at 0; each form below keeps its relative accuracy there. |s| is inside the strip.
    """
    log = np.asarray(mechanism.cgf(s), dtype=np.float64)
    match mechanism:
        case Laplace(scale=b):
            f = 1 / ((1 - b * s) * (1 + b * s))
            return log, 2 * b * b * s * f, 2 * b * b * (1 + (b * s) ** 2) * f * f
        case Gaussian(sigma=sigma):
            return log, sigma**2 * s, np.full_like(s, sigma**2)
        case DiscreteLaplace(scale=b):
            up, down = -np.expm1(s - 1 / b), -np.expm1(-s - 1 / b)
            q = np.exp(-1 / b)
            return log, 2 * q * np.sinh(s) / (up * down), q * np.exp(s) / up**2 + q * np.exp(-s) / down**2
        case DiscreteGaussian():
            return (log, *_lattice(mechanism, s))
    raise NotImplementedError(mechanism.name)


def clipped_tilts(mechanism: Mechanism, x: Floats, s: Floats, centred: bool) -> tuple[Floats, Floats, Floats]:
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


def _whole(mechanism: Mechanism, x: Floats, s: Floats, centred: bool) -> Triple:
    """No clipping: log = K(-s) - s x, mean = x + K'(-s), variance = K''(-s)."""
    log, first, second = cumulants(mechanism, -s)
    return log - s * x, first if centred else first + x, second


def _whole_and_clipped(mechanism: Mechanism, x: Floats, s: Floats, centred: bool) -> Triple:
    """E[(Y - x)^k e^{-s(Y - x)}] as the whole line plus the difference that clipping makes below 0."""
    log, first, second = cumulants(mechanism, -s)
    mass, lift = mechanism.cdf(-x), np.exp(s * x)
    l0, l1, l2 = (mechanism.lower(-x, -s, k) for k in range(3))
    whole = np.exp(log)
    m0 = whole + lift * (mass - l0)
    m1 = (whole * first + lift * (x * (l0 - mass) - l1)) / m0
    m2 = (whole * (second + first**2) + lift * (x * x * (mass - l0) + 2 * x * l1 - l2)) / m0
    return np.log(m0) - s * x, m1 if centred else m1 + x, m2 - m1**2


def _kept(mechanism: Mechanism, x: Floats, s: Floats, centred: bool) -> Triple:
    """E[Y^k e^{-sY}] from the part above 0, with the mass at Y = 0."""
    u0, u1, u2 = (mechanism.upper(-x, -s, k) for k in range(3))
    m0 = mechanism.cdf(-x) + u0
    with np.errstate(divide="ignore"):
        log = np.log(m0)
    m0 = np.maximum(m0, np.finfo(float).tiny)
    mean = u1 / m0
    return log, mean - x if centred else mean, np.maximum(u2 / m0 - mean**2, 0.0)


def _lattice(mechanism: DiscreteGaussian, s: Floats) -> tuple[Floats, Floats]:
    """Mean and variance of the tilted discrete Gaussian.

    sigma >= 1: by Poisson summation E[e^{s eta}] is e^{v s^2/2} (1 + d(s)) / (1 + d(0)) with v = sigma^2 and
    d(s) = 2 sum_m e^{-2 pi^2 m^2 v} cos(2 pi m v s). Below 1 the masses themselves, paired about 0.
    """
    v = mechanism.sigma**2
    if mechanism.sigma >= 1:
        m = np.arange(1, 4)
        weight, rate = 2 * np.exp(-2 * np.pi**2 * m**2 * v), 2 * np.pi * m * v
        angle = np.multiply.outer(s, rate)
        d0, d1 = np.cos(angle) @ weight, -np.sin(angle) @ (weight * rate)
        d2 = -np.cos(angle) @ (weight * rate**2)
        return v * s + d1 / (1 + d0), v + d2 / (1 + d0) - (d1 / (1 + d0)) ** 2
    k = np.arange(1, 41)
    mass = 2 * mechanism.density(k)
    lift = np.multiply.outer(s, k)
    whole = mechanism.density(0.0) + np.cosh(lift) @ mass
    first, second = np.sinh(lift) @ (mass * k) / whole, np.cosh(lift) @ (mass * k * k) / whole
    return first, second - first**2
