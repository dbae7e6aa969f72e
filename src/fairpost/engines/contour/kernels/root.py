"""The law of the threshold r: its saddle points, its density, and the sums over the nodes (r, s, t).

Symbols as in `engines.contour.law`: those at risk come as arrays (c, scale, times), sorted by times; the `far` others are always above r.
`release` says which side moves with s (above; for shares below), target = base + lift r. Arrays in, arrays out; no checks.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpost.compiled import kernel
from fairpost.engines.contour.kernels.partial import partial

Floats = NDArray[np.float64]
Numbers = NDArray[np.complex128]
Counted = NDArray[np.int64]

NODES = 3000
"""The most nodes on one contour."""
OUT = 4.0
"""An upright contour ends here at the latest, e^4/2 widths up: only a bell is integrated along it."""


@kernel(error_model="numpy")
def moments(noise: Any, sign: float, c: Floats, scale: Floats, r: float, out: Floats) -> None:
    """out[k, j] = E[y_j^k; y_j > 0] for y = sign (r - z) and k = 0, 1, 2."""
    for j in range(c.size):
        d = sign * (r - c[j])
        decay = math.exp(-abs(d) / scale[j])
        out[0, j], out[1, j], out[2, j] = partial(noise, d, scale[j], 0.0, decay, 1.0, 0.0)


@kernel(error_model="numpy")
def _line(noise: Any, s: Any) -> Any:
    """Of noise of scale 1, which is never cut: log E[e^{-s eta}] and its first two derivatives."""
    if noise is None:
        v = 1.0 / ((1.0 - s) * (1.0 + s))
        return -np.log((1.0 - s) * (1.0 + s)), 2.0 * s * v, 2.0 * (1.0 + s * s) * v * v
    return 0.5 * s * s, s, 1.0 + 0.0 * s


@kernel(error_model="numpy")
def _exponent(
    noise: Any, release: bool, least: bool, c: Floats, scale: Floats, times: Counted, far: float, target: float, r: float,
    still: Floats, decay: Floats, s: float,
) -> tuple[float, float, float, float]:  # fmt: skip
    """log F with F = e^{s target} prod psi^times, K, and two derivatives of log(F K) for real s.

    K is the number above; with `least`, where at least one is below: sum U/psi - n prod U/psi, and where that cancels
    n (1 - prod U/psi) - sum D/psi.
    """
    value, mean, spread = s * target, 0.0, 0.0
    if release and far > 0.0:
        log, first, second = _line(noise, s)
        value, mean, spread = value + far * log, -far * first, far * second
    sign = -1.0 if release else 1.0
    n, k0, k1, k2 = far, far, 0.0, 0.0
    fallen, log_none, g1, g2 = 0.0, 0.0, 0.0, 0.0
    for j in range(times.size):
        m0, m1, m2 = partial(noise, sign * (r - c[j]), scale[j], s, decay[j], 1.0, s)
        w, inverse = times[j], 1.0 / (m0 + still[j])
        y, moved, held = m1 * inverse, m0 * inverse, still[j] * inverse
        v = m2 * inverse - y * y
        above, below = (moved, held) if release else (held, moved)
        n += w
        value -= w * math.log(inverse)
        mean += w * y
        spread += w * v
        k0 += w * above
        k1 += sign * w * held * y
        k2 += sign * w * held * (y * y - v)
        if least:
            fallen += w * below
            log_none += w * (math.log1p(-below) if below < 0.5 else math.log(above))
            if release:
                ratio = held / moved
                g1 -= w * ratio * y
                g2 -= w * (ratio * (y * y - v) + ratio * ratio * y * y)
            else:
                g1 += w * y
                g2 -= w * v
    none = math.exp(min(log_none, 0.0)) if least else 0.0
    if none > 0.0:
        k0 = k0 - n * none if none < 0.5 else -n * math.expm1(log_none) - fallen
        k1 -= n * none * g1
        k2 -= n * none * (g1 * g1 + g2)
    k0 = max(k0, 1e-300)
    k1, k2 = k1 / k0, k2 / k0
    return value, k0, target - mean + k1, max(spread + k2 - k1 * k1, 1e-3 * spread)


@kernel(error_model="numpy")
def _saddle(
    noise: Any, release: bool, least: bool, c: Floats, scale: Floats, times: Counted, far: float, target: float, low: float,
    high: float, near: float, r: float, still: Floats, decay: Floats, start: float,
) -> tuple[float, float, float, float]:  # fmt: skip
    """The minimum of the convex log(F K) over low < s < high, to `near` of its width: s, log F, K, the second derivative.

    Where one entity is clipped once in a long while log(F K) is like s target - log s, flat to the right: Newton's step from there lands far to
    the left, where Gaussian transforms are beyond doubles. Such a step is taken back, and the next one is nine tenths of a width long.
    """
    s = last = start
    reach = 0.0
    value, number, first, second = _exponent(noise, release, least, c, scale, times, far, target, r, still, decay, s)
    for _ in range(100):
        if not (math.isfinite(value) and math.isfinite(first) and math.isfinite(second)):
            if reach == 0.0:
                break
            if s > last:
                high, s = min(high, s), last + reach
            else:
                low, s = max(low, s), last - reach
            reach *= 0.5
        else:
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
        value, number, first, second = _exponent(
            noise, release, least, c, scale, times, far, target, r, still, decay, s
        )
    return s, value, number, second


@kernel(error_model="numpy")
def log_density(
    noise: Any, release: bool, c: Floats, scale: Floats, times: Counted, far: float, base: float, lift: float, low: float,
    high: float, least: bool, r: Floats, out: Floats,
) -> float:  # fmt: skip
    """The logarithm of the density of r by the saddle-point approximation, at neighbouring r; returns the last saddle point."""
    still, decay = np.empty(c.size), np.empty(c.size)
    sign = -1.0 if release else 1.0
    s = 0.0
    for i in range(r.size):
        for j in range(c.size):
            d = sign * (r[i] - c[j])
            decay[j] = math.exp(-abs(d) / scale[j])
            still[j] = partial(noise, -d, scale[j], 0.0, decay[j], 1.0, 0.0)[0]
        s, value, number, second = _saddle(
            noise, release, least, c, scale, times, far, base + lift * r[i], low, high, 0.03, r[i], still, decay, s
        )
        out[i] = value + math.log(number) - 0.5 * math.log(2.0 * math.pi * second)
        if not math.isfinite(out[i]):
            out[i], s = -1e300, 0.0  # too far out for the transforms: the next one starts afresh
    return s


@kernel(error_model="numpy")
def _room(noise: Any, sign: float, c: Floats, scale: Floats, low: float, high: float, r: float, s: float) -> float:
    """How far from s the transforms behave.

    Laplace: to the poles. Gaussian: I_0(q) is like 1/q for q > 0 and grows like e^{q^2/2} for q < 0, so about to q = -1.5; who has q < -1
    at s is on that side for certain, and its transform a bell.
    """
    if noise is None:
        return min(s - low, high - s)
    out = np.inf
    for j in range(c.size):
        q = s * scale[j] - sign * (r - c[j]) / scale[j]
        if q > -1.0:
            out = min(out, (q + 1.5) / scale[j])
    return out


@kernel(error_model="numpy")
def power(z: complex, k: int) -> complex:
    """By squaring."""
    out = 1.0 + 0.0j
    while k > 0:
        if k & 1:
            out *= z
        z *= z
        k >>= 1
    return out


@kernel(error_model="numpy", fastmath={"contract", "reassoc", "arcp", "nsz"})
def _product(
    moving: Numbers, still: Floats, lift: Numbers, reference: Floats, share: complex, times: Counted, g: Numbers
) -> tuple[complex, complex]:
    """prod (psi reference share)^times, psi = moving + still lift, and sum times still lift/psi; g receives 1/psi and lift/psi."""
    product, run, held = 1.0 + 0.0j, 1.0 + 0.0j, 0.0 + 0.0j
    count = times[0]
    for j in range(times.size):
        psi = (moving[j] + still[j] * lift[j]) * reference[j]  # about 1: psi^2 may be below what doubles hold
        square = psi.real * psi.real + psi.imag * psi.imag
        size = (
            reference[j] / square if square > 0.0 else 0.0
        )  # far out both sides may be below doubles, and every term with them
        g[0, j] = complex(psi.real * size, -psi.imag * size)
        g[1, j] = g[0, j] * lift[j]
        held += (times[j] * still[j]) * g[1, j]
        if times[j] != count:
            product *= power(run, count)
            run = 1.0 + 0.0j
            count = times[j]
        run *= psi * share
    return product * power(run, count), held


@kernel(error_model="numpy")
def accumulate(
    noise: Any, release: bool, c: Floats, scale: Floats, times: Counted, far: float, base: float, lift: float, low: float,
    high: float, least: bool, r: Floats, weight: Floats, lean: Floats, step: float, cutoff: float, t: Floats, omega: Floats,
    far_log: Floats, start: float, first: Floats, mixed: Floats, square: Floats, zero: Floats, common: Floats,
) -> tuple[int, int, float]:  # fmt: skip
    """Add the nodes to the sums; returns how many there were, how many contours ended before their integrand did, and the last saddle
    point, where the next call may start. t[0] = 0.

    With E_k f = E[f e^{-t_k S}], y = (r - z_i)_+, w = min(z_i, r), over all r of the rule:
    first[i] += sum_k omega[0, k] E_k y,   mixed[i] += sum_k omega[1, k] E_k y,   zero[i] += P(z_i < r),
    square[i] += sum_k omega[2, k] E_k[w^2 - 2 (z_i - c_i) w],   common[k] += E_k(1, r, r^2, r (z - c) of one of the far).
    """
    m, nt = c.size, t.size
    sign = -1.0 if release else 1.0
    n = far + times.sum()
    decay, reference = np.empty(m), np.empty(m)
    still = np.empty((nt, 3, m))
    moving, g = np.empty((3, m), dtype=np.complex128), np.empty((2, m), dtype=np.complex128)
    turn = np.empty(m, dtype=np.complex128)
    s0, nodes, open_ = start, 0, 0
    for i in range(r.size):
        target = base + lift * r[i]
        for j in range(m):
            d = sign * (r[i] - c[j])
            decay[j] = math.exp(-abs(d) / scale[j])
            for k in range(nt):
                still[k, 0, j], still[k, 1, j], still[k, 2, j] = partial(noise, -d, scale[j], t[k], decay[j], 1.0, t[k])
        s0, value, _, second = _saddle(
            noise, release, least, c, scale, times, far, target, low, high, 0.3, r[i], still[0, 0], decay, s0
        )
        if not (math.isfinite(value) and math.isfinite(second)):
            s0 = 0.0
            continue
        lifted, part = target, 1.0
        for j in range(m):
            d = sign * (r[i] - c[j])
            reference[j] = 1.0 / (still[0, 0, j] + partial(noise, d, scale[j], s0, decay[j], 1.0, s0)[0])
            lifted -= times[j] * max(d, 0.0)
        if lifted < 0.0 and noise is not None:  # the product is lifted as a whole by no more than e^{s target}
            part = max(target, 0.0) / (target - lifted)
            lifted = min(target, 0.0)
        # s(v) = s0 + i width sinh v - bend (cosh v - 1): straight near the saddle, then it turns to where e^{s target} decays. Equal steps
        # of v converge like e^{-2 pi w/step}, w the angle to the vertical or to where the transforms grow
        sigma = 1.0 / math.sqrt(second)
        width = min(6.0 * sigma, 0.8 * _room(noise, sign, c, scale, low, high, r[i], s0))
        bend = lean[i] * width
        fine = step * min(0.2 if noise is None else 0.12, sigma / width)
        level = 0.0
        if release and far > 0.0:
            level = far * _line(noise, s0)[0]
        peak, quiet = 0.0, 0
        for q in range(NODES):
            v = q * fine
            offset = complex(-bend * (math.cosh(v) - 1.0), width * math.sinh(v))
            speed = complex(width * math.cosh(v), bend * math.sinh(v)) * (fine / math.pi * (0.5 if q == 0 else 1.0))
            power, drift = value + 0j, 0j
            if release and far > 0.0:
                log, drift, _ = _line(noise, s0 + offset)
                power += far * log - level
            share = np.exp(offset * (lifted / (n - far)))
            outer = np.exp(power) * speed * weight[i]
            for j in range(m):
                d = sign * (r[i] - c[j])
                turn[j] = np.exp(offset * (part * d)) if d > 0.0 else 1.0 + 0.0j
                moving[0, j], moving[1, j], moving[2, j] = partial(
                    noise, d, scale[j], s0 + offset, decay[j], turn[j], s0
                )
            size = 0.0
            for k in range(nt):
                product, held = _product(moving[0], still[k, 0], turn, reference, share, times, g)
                product *= np.exp(far_log[k] + t[k] * far * r[i]) * outer
                number = n - held if release else held + far
                one = product * number
                size = max(size, abs(one))
                common[k, 0] += one.real
                common[k, 1] += r[i] * one.real
                common[k, 2] += r[i] * r[i] * one.real
                common[k, 3] -= r[i] * (one * drift).real
                if release:
                    _add_release(moving, still[k], g, product, number, r[i], c, omega[:, k], first, square, zero)
                else:
                    _add_shares(
                        moving, still[k], g, product, number, r[i], c, omega[:, k], k == 0, first, mixed, square, zero
                    )
            nodes += 1
            peak = max(peak, size)
            quiet = quiet + 1 if size <= cutoff * peak else 0
            if quiet == 2 or (lean[i] == 0.0 and v > OUT):
                break
        open_ += quiet < 2
    return nodes, open_, s0


@kernel(error_model="numpy", fastmath={"contract", "reassoc", "arcp", "nsz"})
def _add_release(
    above: Numbers, below: Floats, g: Numbers, product: complex, number: complex, r: float, c: Floats, omega: Floats, first: Floats,
    square: Floats, zero: Floats,
) -> None:  # fmt: skip
    """One node: below r, w^2 - 2 (z - c) w = r (2c - r) - 2 (c - r) y - y^2; above it, with p = z - r, r^2 - 2 r (p - (c - r))."""
    for j in range(c.size):
        others = product * (number - above[0, j] * g[0, j])
        base, gap = (others * g[1, j]).real, c[j] - r
        cut = r * (2.0 * c[j] - r) * below[0, j] - 2.0 * gap * below[1, j] - below[2, j]
        kept = r * r * above[0, j] - 2.0 * r * (above[1, j] - gap * above[0, j])
        first[j] += omega[0] * base * below[1, j]
        zero[j] += base * below[0, j]
        square[j] += omega[2] * (base * cut + ((others + product) * g[0, j] * kept).real)


@kernel(error_model="numpy", fastmath={"contract", "reassoc", "arcp", "nsz"})
def _add_shares(
    below: Numbers, above: Floats, g: Numbers, product: complex, number: complex, r: float, c: Floats, omega: Floats, chance: bool,
    first: Floats, mixed: Floats, square: Floats, zero: Floats,
) -> None:  # fmt: skip
    """The same where the side below has the transforms in s."""
    for j in range(c.size):
        others = product * (number - above[0, j] * g[1, j])
        base, gap = others * g[0, j], c[j] - r
        y = (base * below[1, j]).real
        kept = r * r * above[0, j] - 2.0 * r * (above[1, j] - gap * above[0, j])
        first[j] += omega[0] * y
        mixed[j] += omega[1] * y
        square[j] += omega[2] * (
            r * (2.0 * c[j] - r) * (base * below[0, j]).real
            - 2.0 * gap * y
            - (base * below[2, j]).real
            + kept * ((others + product) * g[1, j]).real
        )
        if chance:
            zero[j] += (base * below[0, j]).real
