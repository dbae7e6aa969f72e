"""PoS where S < 0 under Laplace noise, for few entities.

The mirrored values are -c_j + noise, all centred below the threshold r > 0. Their transforms have kinks e^{-s d_j},
d_j = r + c_j, on both sides of the target n r, so that no bent contour serves them all. Along the vertical line the
terms with none, one and two entities below r decay slowly; these have closed forms. They are left out of the
integral and added as they are.
"""

import math

import numpy as np
from numpy.typing import NDArray

from fairpost.compiled import kernel
from fairpost.engines.exact.pos.kernels.noise import below
from fairpost.engines.exact.pos.kernels.saddles import decays, saddle, slope

Floats = NDArray[np.float64]
Numbers = NDArray[np.complex128]


@kernel(error_model="numpy")
def _piece(start: float, stop: float, first: float, last: float) -> float:
    """The integral of e^{l(u)} over (start, stop), l linear with the end values first and last."""
    if stop <= start:
        return 0.0
    rise = abs(last - first)
    mean = 1.0 - rise * (0.5 - rise / 6.0) if rise < 1e-5 else -math.expm1(-rise) / rise
    return (stop - start) * math.exp(max(first, last)) * mean


@kernel(error_model="numpy")
def pair_density(y: float, d1: float, beta1: float, d2: float, beta2: float) -> float:
    """The density at y of u + v, u and v > 0 with densities e^{-|d - u|/beta} / (2 beta)."""
    a = min(max(min(d1, y - d2), 0.0), y)
    b = min(max(max(d1, y - d2), 0.0), y)
    l0 = -abs(d1) / beta1 - abs(d2 - y) / beta2
    la = -abs(d1 - a) / beta1 - abs(d2 - y + a) / beta2
    lb = -abs(d1 - b) / beta1 - abs(d2 - y + b) / beta2
    ly = -abs(d1 - y) / beta1 - abs(d2) / beta2
    return (_piece(0.0, a, l0, la) + _piece(a, b, la, lb) + _piece(b, y, lb, ly)) / (4.0 * beta1 * beta2)


@kernel(error_model="numpy")
def _closed_forms(c: Floats, beta: Floats, r: float, single: Floats, double: Floats) -> None:
    """Densities at n r of one entity's shortfall r - z and of two entities' together."""
    n = c.size
    for j in range(n):
        single[j] = math.exp(-abs(c[j] - (n - 1) * r) / beta[j]) / (2.0 * beta[j])
        double[j, j] = 0.0
        for k in range(j):
            double[j, k] = pair_density(n * r, r + c[j], beta[j], r + c[k], beta[k])
            double[k, j] = double[j, k]


@kernel(error_model="numpy")
def _add_closed(
    up: Floats, single: Floats, double: Floats, weight: float, t: float, first: Floats, second: Floats
) -> None:
    """The terms with one and with two entities below r, exactly."""
    n = up.shape[1]
    product, one, two = 1.0, 0.0, 0.0
    for j in range(n):
        product *= up[0, j]
        one += single[j] / up[0, j]
        for k in range(j):
            two += double[j, k] / (up[0, j] * up[0, k])
    for i in range(n):
        mine = 0.0
        for k in range(n):
            mine += double[i, k] / (up[0, i] * up[0, k])
        kept = (n - 1) * (one - single[i] / up[0, i]) + (n - 2) * (two - mine)
        kept *= weight * product / up[0, i]
        if t > 0.0:
            first[i] += up[1, i] * kept
            second[i] += t * up[2, i] * kept
        else:
            first[i] += up[0, i] * kept
            second[i] += weight * product * ((n - 1) * single[i] / up[0, i] + (n - 2) * mine)


@kernel(error_model="numpy")
def _sums(up: Floats, b0: Numbers, turn: complex, before: Numbers, after: Numbers) -> None:
    """For each i, sums over the entities before and after it.

    Rows 0 to 2: the elementary symmetric sums of orders 0, 1, 2 in b0. Row 3: the product of psi = up + b0.
    Row 4: that product weighted by the number above.

    turn = e^{sr} goes into each entity's factor, so that e^{snr} cannot overflow.
    """
    n = b0.size
    for row in range(5):
        before[row, 0] = after[row, n - 1] = 1.0 if row in (0, 3) else 0.0
    for i in range(1, n):
        _grow(up[i - 1] * turn, b0[i - 1] * turn, before, i - 1, i)
        _grow(up[n - i] * turn, b0[n - i] * turn, after, n - i, n - i - 1)


@kernel(error_model="numpy", inline="always")
def _grow(u: complex, b: complex, sums: Numbers, old: int, new: int) -> None:
    """Take one more entity into the running sums."""
    sums[2, new] = sums[2, old] * u + sums[1, old] * b
    sums[1, new] = sums[1, old] * u + sums[0, old] * b
    sums[0, new] = sums[0, old] * u
    sums[4, new] = sums[4, old] * (u + b) + sums[3, old] * u
    sums[3, new] = sums[3, old] * (u + b)


@kernel(error_model="numpy", inline="always")
def _rest(i: int, n: int, before: Numbers, after: Numbers) -> tuple[complex, complex]:
    """With the number above as weight: entity i above r and three or more others below; i and two or more below."""
    p0 = before[0, i] * after[0, i]
    p1 = before[1, i] * after[0, i] + before[0, i] * after[1, i]
    p2 = before[2, i] * after[0, i] + before[1, i] * after[1, i] + before[0, i] * after[2, i]
    others = before[3, i] * after[3, i]
    counted = before[4, i] * after[3, i] + before[3, i] * after[4, i]
    above = counted + others - n * p0 - (n - 1) * p1 - (n - 2) * p2
    return above, counted - (n - 1) * p0 - (n - 2) * p1


@kernel(error_model="numpy")
def _add_contour(
    up: Floats,
    b0: Numbers,
    null: Numbers,
    turn: complex,
    work: Numbers,
    weight: float,
    t: float,
    first: Floats,
    second: Floats,
) -> float:
    """The terms with three or more entities below r at one node; returns their size.

    `null` is the part -h/(1 - s beta) of b0. It is analytic to the left, so alone it integrates to 0 for n r > 0: the
    same sums with `null` in the place of b0 are taken away, and what is left decays like s^-4.
    """
    n = b0.size
    _sums(up[0], b0, turn, work[0], work[1])
    _sums(up[0], null, turn, work[2], work[3])
    size = 0.0
    for i in range(n):
        above, below = _rest(i, n, work[0], work[1])
        above_null, below_null = _rest(i, n, work[2], work[3])
        kept = (above - above_null) * turn
        size = max(size, abs(kept) * up[0, i])
        if t > 0.0:
            first[i] += weight * up[1, i] * kept.real
            second[i] += weight * t * up[2, i] * kept.real
        else:
            first[i] += weight * up[0, i] * kept.real
            second[i] += weight * (turn * (b0[i] * below - null[i] * below_null)).real
    return size


@kernel(error_model="numpy")
def accumulate_mirror(
    c: Floats,
    beta: Floats,
    r: Floats,
    weight: Floats,
    step: float,
    t: Floats,
    omega: Floats,
    first: Floats,
    second: Floats,
    chance: Floats,
    zero: Floats,
) -> int:
    """Sums as in `accumulate_general` for the mirrored entities -c; t[0] = 0 goes to `chance` and `zero`."""
    n = c.size
    ones = np.ones(n, dtype=np.int64)
    widest = beta[0]
    for j in range(1, n):
        widest = max(widest, beta[j])
    low = -1.0 / widest
    up = np.empty((t.size, 3, n))
    single, double = np.empty(n), np.empty((n, n))
    b0, null = np.empty(n, dtype=np.complex128), np.empty(n, dtype=np.complex128)
    work = np.empty((4, 5, n), dtype=np.complex128)
    s0 = 0.0
    nodes = 0
    for i in range(r.size):
        for j in range(n):
            h = max(0.5 * math.exp(-(r[i] + c[j]) / beta[j]), 1e-100)
            for k in range(t.size):
                q = 1.0 / (1.0 + t[k] * beta[j])
                up[k, 0, j], up[k, 1, j], up[k, 2, j] = h * q, h * beta[j] * q * q, 2.0 * h * beta[j] ** 2 * q**3
        _closed_forms(c, beta, r[i], single, double)
        for k in range(t.size):
            one, two = (first, second) if t[k] > 0.0 else (chance, zero)
            _add_closed(up[k], single, double, weight[i] * omega[k], t[k], one, two)
        if n <= 3:
            continue
        s0, _, _, _ = saddle(0, -c, beta, ones, up[0, 0], 0.0, r[i], s0, low, 0.3)
        s0 = min(max(s0, 0.5 * low), -0.3 * low)  # between the poles of b0 and of `null`
        _, _, _, curvature = slope(0, -c, beta, ones, up[0, 0], decays(0, -c, beta, r[i]), 0.0, r[i], s0)
        # equal steps repeat the density with the period 2 pi/fine: the copies must be past both tails
        period = max(n * r[i] + 20.0 / (-low - s0), 6.0 * math.sqrt(curvature) + 20.0 / (s0 - low))
        fine = step * 2.0 * math.pi / period
        peak, quiet = 0.0, 0
        for q in range(3000):
            s = complex(s0, q * fine)
            for j in range(n):
                b0[j], _, _ = below(None, r[i] + c[j], beta[j], s)
                null[j] = -0.5 * math.exp(-(r[i] + c[j]) / beta[j]) / (1.0 - s * beta[j])
            turn = np.exp(s * r[i])
            outer = weight[i] * fine / math.pi * (0.5 if q == 0 else 1.0)
            for k in range(t.size):
                one, two = (first, second) if t[k] > 0.0 else (chance, zero)
                size = _add_contour(up[k], b0, null, turn, work, outer * omega[k], t[k], one, two)
                if k == 0:
                    peak = max(peak, size)
                    quiet = quiet + 1 if size < 1e-8 * peak else 0
            nodes += t.size
            if quiet >= 5:
                break
    return nodes
