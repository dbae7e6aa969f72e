"""Contour integrals of PoS where S > 0 is all but certain: the sums over nodes (r, s, t).

Entities at risk come as arrays (c, scale, times) sorted by times; the `far` others are never below the threshold r
and enter through one factor per node t. Symbols as in `engines.exact.pos`.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpost.compiled import kernel
from fairpost.engines.exact.kernels.powers import power
from fairpost.engines.exact.pos.kernels.noise import below, below_from
from fairpost.engines.exact.pos.kernels.saddles import decays, saddle, survivors

Floats = NDArray[np.float64]
Numbers = NDArray[np.complex128]
Counted = NDArray[np.int64]


@kernel(error_model="numpy")
def shortfall(noise: Any, c: Floats, scale: Floats, times: Counted, r: float) -> tuple[float, float, float]:
    """E[W], Var[W] and E[number below r], W = sum (r - z_j)_+."""
    mean, variance, number = 0.0, 0.0, 0.0
    for j in range(c.size):
        b0, b1, b2 = below(noise, r - c[j], scale[j], 0.0)
        mean += times[j] * b1
        variance += times[j] * (b2 - b1 * b1)
        number += times[j] * b0
    return mean, variance, number


@kernel(error_model="numpy")
def shortfalls(noise: Any, c: Floats, scale: Floats, r: float, out: Floats) -> None:
    """E[(r - z_j)_+] for each entity."""
    for j in range(c.size):
        _, out[j], _ = below(noise, r - c[j], scale[j], 0.0)


@kernel(error_model="numpy")
def moments_below(noise: Any, c: Floats, scale: Floats, r: Floats, out: Floats) -> None:
    """out[k, i, j] = E[(r_i - z_j)^k; z_j < r_i] for k = 0, 1, 2."""
    for i in range(r.size):
        for j in range(c.size):
            out[0, i, j], out[1, i, j], out[2, i, j] = below(noise, r[i] - c[j], scale[j], 0.0)


@kernel(error_model="numpy")
def room(noise: Any, c: Floats, scale: Floats, r: float, s0: float, low: float) -> float:
    """How far to the left of s0 the transforms behave.

    Laplace: to the pole. Gaussian: I_0(q) is like 1/q for q > 0 and grows like e^{q^2/2} for q < 0,
    q = s sigma - d/sigma, so about to q = -1.5; an entity with q < -1 at s0 is clipped for certain and its transform
    a bell.
    """
    if noise is None:
        return s0 - low
    out = np.inf
    for j in range(c.size):
        q = s0 * scale[j] - (r - c[j]) / scale[j]
        if q > -1.0:
            out = min(out, (q + 1.5) / scale[j])
    return out


@kernel(error_model="numpy")
def contour(
    noise: Any, s0: float, second: float, space: float, target: float, left: float, step: float
) -> tuple[float, float, float]:
    """The path s(v) = s0 + i width sinh v - bend (cosh v - 1): its width, its bend and the step in v.

    Near the saddle it is straight and the integrand a bell of width 1/sqrt(L''); far out it turns left, where
    e^{s n r} decays, by an angle whose tangent is at most `left`. `space` is what `room` gives. Equal steps in v have the error
    e^{-2 pi w / step}, w the width of the strip of decay: the angle to the vertical on one side, to the singularities
    (Laplace: the negative axis) or to the growth of e^{s^2 sigma^2 / 2} (Gaussian: 45 degrees) on the other.
    """
    sigma = 1.0 / math.sqrt(second)
    width = min(6.0 * sigma, 0.8 * space)
    bend = min(left * width, 4.0 / target)
    return width, bend, step * min(0.2 if noise is None else 0.12, sigma / width)


@kernel(error_model="numpy", fastmath={"contract", "reassoc", "arcp", "nsz"})
def product_and_ratios(
    up: Floats, b0: Numbers, reference: Floats, turn: complex, times: Counted, g: Numbers
) -> tuple[complex, complex]:
    """prod (psi reference turn)^times and sum times up/psi, with psi = up + b0; g receives 1/psi."""
    product = 1.0 + 0.0j
    run = 1.0 + 0.0j
    phi = 0.0 + 0.0j
    count = times[0]
    for j in range(b0.size):
        psi = (up[j] + b0[j]) * reference[j]  # about 1: the square of psi itself may be below what doubles hold
        scale = reference[j] / (psi.real * psi.real + psi.imag * psi.imag)
        inverse = complex(psi.real * scale, -psi.imag * scale)
        g[j] = inverse
        phi += (times[j] * up[j]) * inverse
        if times[j] != count:
            product *= power(run, count)
            run = 1.0 + 0.0j
            count = times[j]
        run *= psi * turn
    return product * power(run, count), phi


@kernel(error_model="numpy")
def _some_below(b0: Numbers, g: Numbers, times: Counted, n: float) -> complex:
    """The number above times 1{at least one is below}, over psi: n (1 - prod up/psi) - sum below/psi.

    The term with none below, n prod up, integrates to 0 along a contour that turns left, since n r > 0. Where clipping
    is rare it is many orders larger than the rest, so it is left out by itself: with e = b0/psi the product of 1 - e over
    the entities is kept as its distance u from 1, u <- u + e - u e; a power by doubling.
    """
    u, fallen = 0.0 + 0.0j, 0.0 + 0.0j
    for j in range(b0.size):
        e = b0[j] * g[j]
        fallen += times[j] * e
        k = times[j]
        while k > 0:
            if k & 1:
                u += e - u * e
            e += e - e * e
            k >>= 1
    return n * u - fallen


@kernel(error_model="numpy")
def accumulate(
    noise: Any,
    c: Floats,
    scale: Floats,
    times: Counted,
    far: float,
    low: float,
    left: float,
    r: Floats,
    weight: Floats,
    step: float,
    t: Floats,
    omega: Floats,
    far_log: Floats,
    first: Floats,
    square: Floats,
    zero: Floats,
    common: Floats,
) -> int:
    """Add the nodes (r, s, t) to the sums; returns how many there were. t[0] = 0.

    first[i]  += sum_k omega_k E[(r - z_i)_+ e^{-t_k S}]
    square[i] += sum_k omega_k t_k E[(2 r y - y^2 - 2 r p) e^{-t_k S}],  y = (r - z_i)_+, p = (z_i - r)_+
    zero[i]   += P(z_i < r)
    common[k, q] += E[r^q e^{-t_k S}], q = 0, 1, 2;   all over r > 0.
    """
    m, nt = c.size, t.size
    n = far + times.sum()
    up, lift = np.empty((nt, m)), np.empty((nt, m))
    b0, b1, b2 = np.empty(m, dtype=np.complex128), np.empty(m, dtype=np.complex128), np.empty(m, dtype=np.complex128)
    g = np.empty(m, dtype=np.complex128)
    reference = np.empty(m)
    s0 = 0.0
    nodes = 0
    for i in range(r.size):
        for k in range(nt):
            survivors(noise, c, scale, r[i], t[k], up[k], lift[k])
        s0, value, _, second = saddle(noise, c, scale, times, up[0], far, r[i], s0, low, 0.3)
        clipped, decay = 0.0, decays(noise, c, scale, r[i])
        for j in range(m):
            head, _, _ = below_from(noise, r[i] - c[j], scale[j], s0, decay[j])
            reference[j] = 1.0 / (up[0, j] + head)
            clipped += times[j] * head * reference[j]
        rare = clipped < 0.1
        space = room(noise, c, scale, r[i], s0, low)
        width, bend, fine = contour(noise, s0, second, space, n * r[i], left, step)
        peak = 0.0
        for q in range(1000):
            v = q * fine
            offset = complex(-bend * (math.cosh(v) - 1.0), width * math.sinh(v))
            speed = complex(width * math.cosh(v), bend * math.sinh(v)) * (fine / math.pi * (0.5 if q == 0 else 1.0))
            turn = np.exp(offset * r[i])
            outer = np.exp(value + offset * (far * r[i])) * speed * weight[i]
            for j in range(m):
                b0[j], b1[j], b2[j] = below_from(noise, r[i] - c[j], scale[j], s0 + offset, decay[j])
            size = 0.0
            for k in range(nt):
                product, phi = product_and_ratios(up[k], b0, reference, turn, times, g)
                product *= np.exp(far_log[k] + t[k] * far * r[i]) * outer
                phi += far
                number = _some_below(b0, g, times, n) if rare else phi
                total = (product * number).real
                size = max(size, abs(product * number))
                common[k, 0] += total
                common[k, 1] += r[i] * total
                common[k, 2] += r[i] * r[i] * total
                _entities(up[k], lift[k], b0, b1, b2, g, product, phi, r[i], t[k], omega[k], first, square, zero)
            nodes += nt
            peak = max(peak, size)
            if size < 1e-15 * peak:
                break
    return nodes


@kernel(error_model="numpy", fastmath={"contract", "reassoc", "arcp", "nsz"})
def _entities(
    up: Floats,
    lift: Floats,
    b0: Numbers,
    b1: Numbers,
    b2: Numbers,
    g: Numbers,
    product: complex,
    phi: complex,
    r: float,
    t: float,
    omega: float,
    first: Floats,
    square: Floats,
    zero: Floats,
) -> None:
    """One node's part of `accumulate` for each entity at risk."""
    f2 = omega * t
    for j in range(up.size):
        one = product * g[j]
        base = one * (phi - up[j] * g[j])
        y = (base * b1[j]).real
        first[j] += omega * y
        if t == 0.0:
            zero[j] += (base * b0[j]).real
        else:
            p = lift[j] * (base + one).real
            square[j] += f2 * (2.0 * r * (y - p) - (base * b2[j]).real)
