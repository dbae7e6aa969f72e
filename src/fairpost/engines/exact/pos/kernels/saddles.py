"""The law of the threshold r of PoS at its saddle points: where the contours of `separated` and `general` cross the axis.

Entities at risk come as arrays (c, scale, times); the `far` others are never below the threshold r. Symbols as in `engines.exact.pos`.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpost.compiled import kernel
from fairpost.engines.exact.pos.kernels.noise import below, gaussian_below, laplace_below

Floats = NDArray[np.float64]
Counted = NDArray[np.int64]


@kernel(error_model="numpy")
def decays(noise: Any, c: Floats, scale: Floats, r: float) -> Floats:
    """e^{-|r - c|/scale}, for Laplace noise."""
    out = np.empty(c.size)
    if noise is None:
        for j in range(c.size):
            out[j] = math.exp(-abs(r - c[j]) / scale[j])
    return out


@kernel(error_model="numpy")
def slope_from(
    b: Floats, times: Counted, above: Floats, far: float, r: float, s: float
) -> tuple[float, float, float, float]:
    """With F = e^{snr} prod psi^times, psi = above + b[0]: log F, K, and two derivatives of log(F K).

    Rows of `b`: E[y^k e^{-sy}; y > 0], y = r - z, for k = 0, 1, 2. K is the number above the threshold where at least
    one is below: sum times above/psi - n prod above/psi. Where few are below that cancels, and
    n (1 - prod above/psi) - sum times below/psi is used.
    """
    n = far
    value, mean, spread, k1, k2 = 0.0, 0.0, 0.0, 0.0, 0.0
    k0, fallen, log_none = far, 0.0, 0.0
    for j in range(times.size):
        inverse = 1.0 / (above[j] + b[0, j])
        y, square, share = b[1, j] * inverse, b[2, j] * inverse, times[j] * above[j] * inverse
        n += times[j]
        value -= times[j] * math.log(inverse)
        log_none -= times[j] * math.log1p(min(b[0, j] / above[j], 1e300))
        mean += times[j] * y
        spread += times[j] * (square - y * y)
        fallen += times[j] * b[0, j] * inverse
        k0 += share
        k1 += share * y
        k2 += share * (2.0 * y * y - square)
    log_none = min(
        log_none, 0.0
    )  # (weights of interpolation, some negative, do not serve this sum; the place of a contour needs it roughly)
    none = math.exp(log_none)
    k0 = k0 - n * none if none < 0.5 else -n * math.expm1(log_none) - fallen
    k1 = (k1 - n * none * mean) / k0
    k2 = (k2 - n * none * (mean * mean - spread)) / k0
    return value + s * n * r, k0, n * r - mean + k1, max(spread + k2 - k1 * k1, 1e-3 * spread)


@kernel(error_model="numpy")
def slope(
    noise: Any,
    c: Floats,
    scale: Floats,
    times: Counted,
    above: Floats,
    decay: Floats,
    far: float,
    r: float,
    s: float,
) -> tuple[float, float, float, float]:
    """As `slope_from`, with the transforms taken here; Laplace noise: decay = e^{-|r - c|/scale}."""
    b = np.empty((3, c.size))
    for j in range(c.size):
        if noise is None:
            b[0, j], b[1, j], b[2, j] = laplace_below(r - c[j], scale[j], s, decay[j])
        else:
            b[0, j], b[1, j], b[2, j] = gaussian_below(r - c[j], scale[j], s)
    return slope_from(b, times, above, far, r, s)


@kernel(error_model="numpy")
def saddle(
    noise: Any,
    c: Floats,
    scale: Floats,
    times: Any,
    above: Floats,
    far: float,
    r: float,
    start: float,
    low: float,
    near: float,
) -> tuple[float, float, float, float]:
    """The minimum of the convex log(F K) over s > low, to `near` of its width: s, log F, K, the second derivative.

    Where one entity is clipped once in a long while, log(F K) is like s n r - log s: flat to the right, and Newton's
    method from there lands far to the left, where Gaussian transforms grow like e^{s^2 sigma^2 / 2} beyond what doubles
    hold. Such a step is taken back; the next one is nine tenths of a width long, from s to s/10 in that example.
    """
    high = np.inf
    s = last = start
    decay = decays(noise, c, scale, r)
    reach = 0.0
    value, number, first, second = slope(noise, c, scale, times, above, decay, far, r, s)
    for _ in range(100):
        if not (math.isfinite(value) and math.isfinite(first) and math.isfinite(second)):
            if reach == 0.0:
                break
            low, s = max(low, s), last - reach
            reach *= 0.5
            value, number, first, second = slope(noise, c, scale, times, above, decay, far, r, s)
            continue
        if abs(first) <= near * math.sqrt(second):
            break
        last, reach = s, 0.9 / math.sqrt(second)
        if first > 0.0:
            high = s
        else:
            low = s
        s -= first / second
        if not low < s < high:
            s = 0.5 * (low + high)
        value, number, first, second = slope(noise, c, scale, times, above, decay, far, r, s)
    return s, value, number, second


@kernel(error_model="numpy")
def survivors(noise: Any, c: Floats, scale: Floats, r: float, t: float, up: Floats, lift: Floats) -> None:
    """up = E[e^{-t(z - r)}; z > r] and lift = E[(z - r) e^{-t(z - r)}; z > r]."""
    for j in range(c.size):
        up[j], lift[j], _ = below(noise, c[j] - r, scale[j], t)


@kernel(error_model="numpy")
def threshold_density(
    noise: Any, c: Floats, scale: Floats, times: Counted, far: float, low: float, never: float, r: Floats, out: Floats
) -> None:
    """The logarithm of the density of r by the saddle-point approximation, to place the nodes; smooth in r.

    Who is above r with a chance below `never` is not there (see `general`).
    """
    up, lift = np.empty(c.size), np.empty(c.size)
    s = 0.0
    for i in range(r.size):
        survivors(noise, c, scale, r[i], 0.0, up, lift)
        for j in range(c.size):
            up[j] = up[j] if up[j] >= never else 0.0
        s, value, number, second = saddle(noise, c, scale, times, up, far, r[i], s, low, 1e-10)
        out[i] = value + math.log(number) - 0.5 * math.log(2.0 * math.pi * second)
