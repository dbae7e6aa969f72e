"""Contour integrals of PoS without any assumption on S: each node t has its own saddle point in s.

Symbols as in `engines.exact.pos`; the arrays hold every entity, sorted by times.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpost.compiled import kernel
from fairpost.engines.exact.pos.kernels.noise import below, below_from, mass_below
from fairpost.engines.exact.pos.kernels.saddles import decays, leave_alone, saddle, slope_from
from fairpost.engines.exact.pos.kernels.separated import contour, product_and_ratios, room

Floats = NDArray[np.float64]
Numbers = NDArray[np.complex128]
Counted = NDArray[np.int64]

ROWS, MORE, TABLE = 512, 2048, 1 << 19
"""The most nodes on one contour, or up to MORE of them while the table has no more than TABLE values: scales over orders of magnitude need
small steps near the saddle, and a small r needs s up to 1/r."""
BELL, UNEVEN, TIGHT = 40, 3.0, 12.5
"""Up to BELL entities whose scales differ by more than UNEVEN have terms of very different widths, those with few below r like e^{snr} alone:
a contour that is wider than TIGHT/nr before it turns leaves its oscillations to the steps."""
FAR = 40.0
"""The last v: s is e^40 widths of the integrand away."""
NEAR = 1.0
"""A contour serves another t while the saddle point is within this many widths of the integrand."""
NOTHING = 1e-18
"""A pair (r, t) is left out where it is this small beside the largest one before it."""


@kernel(error_model="numpy")
def accumulate_general(
    noise: Any,
    c: Floats,
    scale: Floats,
    times: Any,
    low: float,
    never: float,
    lean: float,
    free: float,
    r: Floats,
    weight: Floats,
    step: float,
    t: Floats,
    omega: Floats,
    first: Floats,
    second_sum: Floats,
) -> int:
    """Add the nodes (r, s, t) to the sums; returns how many there were.

    A contour, and what it needs of the transforms, serves every t whose saddle point stays near. It bends to the left by `lean` where
    r > `free`.

    t > 0: first[i] += omega E[p e^{-tS}] and second[i] += omega t E[p^2 e^{-tS}], p = (z_i - r)_+.
    t = 0: first[i] += omega P(z_i > r) and second[i] += omega P(z_i < r).   All over r > 0.
    """
    m = c.size
    n = float(times.sum())
    up, base, reference, centre = np.empty((3, m)), np.empty((3, m)), np.empty(m), np.empty(m)
    rows = min(MORE, max(ROWS, TABLE // m))
    table, g = np.empty((rows, m), dtype=np.complex128), np.empty(m, dtype=np.complex128)
    tight = np.inf if noise is None or n > BELL or np.max(scale) <= UNEVEN * np.min(scale) else TIGHT
    nodes, largest = 0, 0.0
    for i in range(r.size):
        s0, curvature, known = 0.0, 0.0, -1  # the contour in use, and how many of its nodes are in the table
        width, bend, fine = 0.0, 0.0, 0.0
        left, decay = 0.0, base[0]
        for k in range(t.size):
            if not _above(noise, c, scale, r[i], t[k], up):
                continue
            one = _forget(noise, c, scale, r[i], never, up)
            leave_alone(c, scale, times, r[i], -1 if noise is None else one, centre)
            value, number, first_order, second = 0.0, 0.0, 0.0, 0.0
            if known >= 0:
                value, number, first_order, second = slope_from(base, times, up[0], 0.0, r[i], s0)
            if known < 0 or abs(first_order) > NEAR * math.sqrt(second) or not 0.6 < second / curvature < 1.6:
                s0, value, number, second = saddle(noise, centre, scale, times, up[0], 0.0, r[i], s0, low, 0.3)
                if not (math.isfinite(value) and math.isfinite(second) and number > 0.0):
                    s0, known = (
                        0.0,
                        -1,
                    )  # too far out for the transforms, and so for anything to be there: shares must sum to 1
                    continue
                curvature, known, decay = second, 0, decays(noise, centre, scale, r[i])
                space = min(room(noise, centre, scale, r[i], s0, low), tight / (n * r[i]))
                left = lean if r[i] > free else 0.0
                if noise is not None:
                    left = max(left, _bend(c, scale, times, r[i], up[0]))
                width, bend, fine = contour(noise, s0, curvature, space, n * r[i], left, step)
                for j in range(m):
                    base[0, j], base[1, j], base[2, j] = below_from(noise, r[i] - centre[j], scale[j], s0, decay[j])
            kept = _references(up, base, t[k], reference)
            size = weight[i] * omega[k] * math.exp(value) * (number + 1.0) * kept / math.sqrt(second)
            if not size > NOTHING * largest:
                continue
            peak, total = 0.0, 0.0
            last = FAR if left > 0.0 else 4.0 / math.sqrt(step)  # upright, a small part decays slowly: cut off
            for q in range(min(int(last / fine), rows)):
                v = q * fine
                offset = complex(-bend * (math.cosh(v) - 1.0), width * math.sinh(v))
                speed = complex(width * math.cosh(v), bend * math.sinh(v)) * (fine / math.pi * (0.5 if q == 0 else 1.0))
                if q == known:
                    for j in range(m):
                        table[q, j] = mass_below(noise, r[i] - centre[j], scale[j], s0 + offset, decay[j])
                    known += 1
                product, phi = product_and_ratios(up[0], table[q], reference, np.exp(offset * r[i]), times, g)
                product *= speed * (weight[i] * omega[k] * math.exp(value))
                _entities(up, table[q], g, product, phi, t[k], first, second_sum)
                nodes += 1
                total += (product * (phi + 1.0)).real
                size = abs(product * phi)
                peak = max(peak, size)
                if size < 1e-15 * peak:
                    break
            largest = max(largest, abs(total) * kept)
    return nodes


@kernel(error_model="numpy")
def _bend(c: Floats, scale: Floats, times: Any, r: float, up: Floats) -> float:
    """The tangent of a contour's bend under Gaussian noise, by who may be on either side of r; see `pos.side._lean`.

    Who is below r for certain (up = 0) is so in every term: what it does to their slopes the saddle point has balanced, and only what
    terms do not share makes one of them grow on the way. But its own factor grows by e^{(bend (r - c)/scale)^2/2}, which a double must hold.
    """
    total, most = 1.0, 0.4
    for j in range(c.size):
        if up[j] == 0.0:
            most = min(most, 20.0 * scale[j] / (r - c[j]))
        elif c[j] < 0.0:
            total += abs(times[j]) * (c[j] / scale[j]) ** 2
    return min(most, 4.0 / math.sqrt(total))


@kernel(error_model="numpy")
def _above(noise: Any, c: Floats, scale: Floats, r: float, t: float, up: Floats) -> bool:
    """E[p^k e^{-tp}; p > 0], p = z - r, for k = 0, 1, 2; False where S is so far above 1/t that nothing is left."""
    enough = True
    for j in range(c.size):
        up[0, j], up[1, j], up[2, j] = below(noise, c[j] - r, scale[j], t)
        if up[0, j] < 1e-290 and below(noise, r - c[j], scale[j], 0.0)[0] < 1e-290:
            enough = False
    return enough


@kernel(error_model="numpy")
def _forget(noise: Any, c: Floats, scale: Floats, r: float, never: float, up: Floats) -> int:
    """Who is above r with a chance below `never` is not there; returns the only one who is (-1: there are more).

    Its term has a saddle point of its own, far from that of the others where scales are very different: with it the contour suits neither,
    and what is next to 0 is lost in rounding.
    """
    some, one = 0, -1
    for j in range(c.size):
        if up[0, j] < never and below(noise, c[j] - r, scale[j], 0.0)[0] < never:
            up[0, j], up[1, j], up[2, j] = 0.0, 0.0, 0.0
        else:
            some, one = some + 1, j
    return one if some == 1 else -1


@kernel(error_model="numpy")
def _references(up: Floats, base: Floats, t: float, reference: Floats) -> float:
    """1/psi at the saddle point, and the largest E[p e^{-tp}; p > 0]/psi (t = 0: 1, for probabilities)."""
    kept = 1.0 if t == 0.0 else 0.0
    for j in range(reference.size):
        reference[j] = 1.0 / (up[0, j] + base[0, j])
        if t > 0.0:
            kept = max(kept, up[1, j] * reference[j])
    return kept


@kernel(error_model="numpy")
def samples(
    noise: Any,
    c: Floats,
    scale: Floats,
    some: Counted,
    times: Floats,
    low: float,
    never: float,
    left: float,
    r: Floats,
    t: Floats,
    unit: float,
    v: Floats,
    out: Floats,
) -> None:
    """What the integrals have of one entity, out[row, j]: log(psi e^{sr}) and (t + 1/unit) V/psi, real and imaginary parts.

    For each (r, t) on its contour, v widths of the integrand beside the saddle point. `some` of the entities find it, with weights `times`.
    """
    up, row, n = np.empty((3, c.size)), 0, times.sum()
    for i in range(r.size):
        if not _above(noise, c, scale, r[i], t[i], up):
            row += 4 * v.size
            continue
        _forget(noise, c, scale, r[i], never, up)
        decay = decays(noise, c, scale, r[i])
        s0, _, _, second = saddle(noise, c[some], scale[some], times, up[0][some], 0.0, r[i], 0.0, low, 0.6)
        width, bend, _ = contour(
            noise, s0, second, room(noise, c[some], scale[some], r[i], s0, low), n * r[i], left, 1.0
        )
        for q in range(v.size):
            rise = v[q] / (math.sqrt(second) * width)  # sinh v
            s = complex(s0 - bend * (math.sqrt(1.0 + rise * rise) - 1.0), rise * width)
            turn = np.exp(complex(0.0, s.imag * r[i]))
            for j in range(c.size):
                psi = up[0, j] + mass_below(noise, r[i] - c[j], scale[j], s, decay[j])
                log, lift = np.log(psi * turn), (t[i] + 1.0 / unit) * up[1, j] / psi
                out[row, j], out[row + 1, j] = log.real + s.real * r[i], log.imag
                out[row + 2, j], out[row + 3, j] = lift.real, lift.imag
            row += 4


@kernel(error_model="numpy", fastmath={"contract", "reassoc", "arcp", "nsz"})
def _entities(
    up: Floats, b0: Numbers, g: Numbers, product: complex, phi: complex, t: float, first: Floats, second: Floats
) -> None:
    """One node's part for each entity: prod psi ((F/psi)(K - up/psi) + F_above/psi)."""
    for j in range(b0.size):
        rest = phi - up[0, j] * g[j]
        one = product * g[j]
        if t > 0.0:
            both = (one * (rest + 1.0)).real
            first[j] += up[1, j] * both
            second[j] += t * up[2, j] * both
        else:
            first[j] += up[0, j] * (one * (rest + 1.0)).real
            second[j] += (one * rest * b0[j]).real
