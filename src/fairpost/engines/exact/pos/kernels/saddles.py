"""The law of the threshold r of PoS at its saddle points: where the contours of `separated` and `general` cross the axis.

Entities at risk come as arrays (c, scale, times); the `far` others are never below the threshold r. Symbols as in `engines.exact.pos`.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpost.compiled import kernel
from fairpost.engines.exact.pos.kernels.noise import below, below_from

Floats = NDArray[np.float64]
Counted = NDArray[np.int64]

AWAY = 1e30
"""So many scales above r nobody is below it."""


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
        b[0, j], b[1, j], b[2, j] = below_from(noise, r - c[j], scale[j], s, decay[j])
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
    hold. Such a step is taken back; the next one is nine tenths of a width long, from s to s/10 in that example. Likewise to the right, where
    a value far below 0 has a transform that is too small. A saddle point beyond doubles is not found, and what is returned is next to 0.
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
            if s > last:
                high, s = min(high, s), last + reach
            else:
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
    up, lift, centre = np.empty(c.size), np.empty(c.size), np.empty(c.size)
    s = 0.0
    for i in range(r.size):
        survivors(noise, c, scale, r[i], 0.0, up, lift)
        some, one = 0, -1
        for j in range(c.size):
            up[j] = up[j] if up[j] >= never else 0.0
            if up[j] > 0.0:
                some, one = some + 1, j
        leave_alone(c, scale, times, r[i], one if some == 1 and far == 0.0 and noise is not None else -1, centre)
        s, value, number, second = saddle(noise, centre, scale, times, up, far, r[i], s, low, 1e-10)
        out[i] = value + math.log(number) - 0.5 * math.log(2.0 * math.pi * second)
        if not math.isfinite(out[i]):
            s = 0.0  # too far out for the transforms: the next one starts afresh


@kernel(error_model="numpy")
def leave_alone(c: Floats, scale: Floats, times: Any, r: float, one: int, out: Floats) -> None:
    """The centres, with that of entity `one` (-1: of nobody) so far above r that it is never below.

    Where one entity alone can be above r it is, since F K = sum_k U_k prod_{j != k} psi_j has no term without a U: its D is in F and cancels
    from F K. But among smaller ones it grows like e^{s^2 scale^2 / 2} beyond what doubles hold, long before the saddle point of theirs.
    (Under Gaussian noise: a Laplace transform has a pole there, and contours keep to its right.)
    """
    out[:] = c
    if one >= 0 and times[one] == 1.0:
        out[one] = r + AWAY * scale[one]
