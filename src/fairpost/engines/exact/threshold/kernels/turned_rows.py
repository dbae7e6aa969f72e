"""Rows along a ray of s of what `kernels/turned.py` multiplies and sums up. Real and imaginary parts lie apart, and each loop writes a row or
two: of more the compiler takes one value at a time. No loop that sums writes, so that sums have the same bits wherever rows lie.

With z = s + t, E = e^{s tau}, g = e^{-t tau} the moments of a jump are J_0 = (E - g)/z, J_1 = (J_0 - g tau)/z and J_2 = (2 J_1 - g tau^2)/z.
What they lose to cancellation where |z| tau is small comes back by the weights ds dt of such nodes: it is a rounding of r f_j at most, and
r f_j is of order 1.
"""

import math

import numpy as np
from numpy.typing import NDArray

from fairpost.compiled import kernel
from fairpost.engines.exact.kernels.rows import FAST, LEAST

Floats = NDArray[np.float64]
Complexes = NDArray[np.complex128]
Counted = NDArray[np.int64]

EVERY = 4
"""Of the nodes of s and of t one in so many is looked at to see where the product has died out."""


@kernel(error_model="numpy", fastmath=FAST)
def still(
    low: int, high: int, before: Floats, front: float, active: Counted, size: Floats, up: Complexes, turn: Floats, times: Counted,
    least: float, bound: Floats,
) -> tuple[int, int]:  # fmt: skip
    """Where, from low to high, the product of |D| + |U| still matters: it falls as t grows. `size` and `bound`: every so many s."""
    first, last = low // EVERY, (high + EVERY - 1) // EVERY
    b, e = bound[first:last], turn[first:last]
    start = before[first:last]
    for q in range(b.size):
        b[q] = start[q] * front
    for g in range(active.size):
        j = active[g]
        d, u, many = size[j, first:last], abs(up[j]), times[j]
        if many == 1:
            for q in range(b.size):
                b[q] *= d[q] + u * e[q]
        else:
            for q in range(b.size):
                b[q] *= (d[q] + u * e[q]) ** many
    one, two = b.size, 0
    for q in range(b.size):
        if not b[q] < least:
            one, two = min(one, q), q + 1
    if two == 0:
        return low, low
    return max(low, (first + one - 1) * EVERY), min(high, (first + two) * EVERY)


@kernel(error_model="numpy", fastmath=FAST)
def factor(
    low: int,
    high: int,
    down: Floats,
    turn: Floats,
    up: complex,
    f: complex,
    end: Floats,
    g: float,
    over: Floats,
    psi: Floats,
    work: Floats,
    v: Floats,
    w: Floats,
) -> None:
    """psi = D + e^{sr} U, v = e^{sr}/psi, and w = (U + f J_0) v. Each loop writes one row: of more the compiler takes one value at a time."""
    d0, d1, e0, e1, o0, o1, z0, z1 = (
        down[0, low:high],
        down[1, low:high],
        turn[0, low:high],
        turn[1, low:high],
        over[0, low:high],
        over[1, low:high],
        end[0, low:high],
        end[1, low:high],
    )
    p0, p1, v0, v1, w0, w1, j0, j1 = (
        psi[0, low:high],
        psi[1, low:high],
        v[0, low:high],
        v[1, low:high],
        w[0, low:high],
        w[1, low:high],
        work[0, low:high],
        work[1, low:high],
    )
    u0, u1, f0, f1 = up.real, up.imag, f.real, f.imag
    for q in range(p0.size):
        p0[q] = d0[q] + u0 * e0[q] - u1 * e1[q]
    for q in range(p0.size):
        p1[q] = d1[q] + u0 * e1[q] + u1 * e0[q]
    for q in range(p0.size):
        j0[q] = 1.0 / (p0[q] * p0[q] + p1[q] * p1[q] + LEAST)
    for q in range(p0.size):
        v0[q] = (e0[q] * p0[q] + e1[q] * p1[q]) * j0[q]
    for q in range(p0.size):
        v1[q] = (e1[q] * p0[q] - e0[q] * p1[q]) * j0[q]
    for q in range(p0.size):
        j0[q] = (z0[q] - g) * o0[q] - z1[q] * o1[q]
    for q in range(p0.size):
        j1[q] = (z0[q] - g) * o1[q] + z1[q] * o0[q]
    for q in range(p0.size):
        w0[q] = (u0 + f0 * j0[q] - f1 * j1[q]) * v0[q] - (u1 + f0 * j1[q] + f1 * j0[q]) * v1[q]
    for q in range(p0.size):
        w1[q] = (u0 + f0 * j0[q] - f1 * j1[q]) * v1[q] + (u1 + f0 * j1[q] + f1 * j0[q]) * v0[q]


@kernel(error_model="numpy", fastmath=FAST)
def take_in(low: int, high: int, psi: Floats, times: int, w: Floats, product: Floats, total: Floats) -> None:
    """product *= psi^times, by squaring psi, and total += times w."""
    p0, p1, x0, x1 = psi[0, low:high], psi[1, low:high], product[0, low:high], product[1, low:high]
    w0, w1, t0, t1, many = w[0, low:high], w[1, low:high], total[0, low:high], total[1, low:high], float(times)
    for q in range(p0.size):
        t0[q] += many * w0[q]
    for q in range(p0.size):
        t1[q] += many * w1[q]
    while times > 0:
        if times & 1:
            for q in range(p0.size):
                x, y = x0[q], x1[q]
                x0[q] = x * p0[q] - y * p1[q]
                x1[q] = x * p1[q] + y * p0[q]
        times >>= 1
        if times > 0:
            for q in range(p0.size):
                x, y = p0[q], p1[q]
                p0[q] = x * x - y * y
                p1[q] = 2.0 * x * y


@kernel(error_model="numpy", fastmath=FAST)
def in_all(low: int, high: int, product: Floats, total: Floats) -> tuple[complex, float]:
    """The sum of product total, and of its sizes."""
    p0, p1, t0, t1 = product[0, low:high], product[1, low:high], total[0, low:high], total[1, low:high]
    re, im, size = 0.0, 0.0, 0.0
    for q in range(p0.size):
        re += p0[q] * t0[q] - p1[q] * t1[q]
        im += p0[q] * t1[q] + p1[q] * t0[q]
    for q in range(p0.size):
        size += math.sqrt((p0[q] * p0[q] + p1[q] * p1[q]) * (t0[q] * t0[q] + t1[q] * t1[q]))
    return complex(re, im), size


@kernel(error_model="numpy", fastmath=FAST)
def zero(low: int, high: int, product: Floats, v: Floats, up: complex, w: Floats, total: Floats) -> float:
    """The sum of Im(product D/psi (W - w)), D/psi = 1 - U v."""
    p0, p1, v0, v1, w0, w1, t0, t1 = (
        product[0, low:high],
        product[1, low:high],
        v[0, low:high],
        v[1, low:high],
        w[0, low:high],
        w[1, low:high],
        total[0, low:high],
        total[1, low:high],
    )
    u0, u1, found = up.real, up.imag, 0.0
    for q in range(p0.size):
        x, y = 1.0 - u0 * v0[q] + u1 * v1[q], -u0 * v1[q] - u1 * v0[q]
        a, b = p0[q] * x - p1[q] * y, p0[q] * y + p1[q] * x
        found += a * (t1[q] - w1[q]) + b * (t0[q] - w0[q])
    return found


@kernel(error_model="numpy", fastmath=FAST)
def own_sums(
    low: int,
    high: int,
    product: Floats,
    v: Floats,
    w: Floats,
    total: Floats,
    end: Floats,
    over: Floats,
    g: float,
    edge: float,
    own: Floats,
) -> tuple[complex, complex, complex]:
    """The sums of own (1 + W - w), own J_1 and own J_2, own = product v."""
    p0, p1, v0, v1, w0, w1, t0, t1 = (
        product[0, low:high],
        product[1, low:high],
        v[0, low:high],
        v[1, low:high],
        w[0, low:high],
        w[1, low:high],
        total[0, low:high],
        total[1, low:high],
    )
    z0, z1, o0, o1, a0, a1 = (
        end[0, low:high],
        end[1, low:high],
        over[0, low:high],
        over[1, low:high],
        own[0, low:high],
        own[1, low:high],
    )
    for q in range(p0.size):
        a0[q] = p0[q] * v0[q] - p1[q] * v1[q]
    for q in range(p0.size):
        a1[q] = p0[q] * v1[q] + p1[q] * v0[q]
    b0, b1, f0, f1, s0, s1 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for q in range(p0.size):
        x, y = 1.0 + t0[q] - w0[q], t1[q] - w1[q]
        b0 += a0[q] * x - a1[q] * y
        b1 += a0[q] * y + a1[q] * x
    for q in range(p0.size):
        x, y = (z0[q] - g) * o0[q] - z1[q] * o1[q] - g * edge, (z0[q] - g) * o1[q] + z1[q] * o0[q]
        m0, m1 = x * o0[q] - y * o1[q], x * o1[q] + y * o0[q]
        f0 += a0[q] * m0 - a1[q] * m1
        f1 += a0[q] * m1 + a1[q] * m0
        x, y = 2.0 * m0 - g * edge * edge, 2.0 * m1
        m0, m1 = x * o0[q] - y * o1[q], x * o1[q] + y * o0[q]
        s0 += a0[q] * m0 - a1[q] * m1
        s1 += a0[q] * m1 + a1[q] * m0
    return complex(b0, b1), complex(f0, f1), complex(s0, s1)
