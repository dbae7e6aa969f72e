"""The shares of `pos-threshold` at nodes (r, s, t) of the law of the shift; symbols as in engines/exact/threshold/lines.py.

With T_j = U_j + f_j J_0, W_j = T_j/psi_j and W their sum, entity j's others have W - W_j, and what it gets is

    prod (psi)/psi_j [V_j (1 + W - W_j) + f_j J_1].

Only D_j, W_j and the product depend on s: the rows are summed once, and V_j and f_j come afterwards.
"""

import numpy as np
from numpy.typing import NDArray

from fairpost.compiled import kernel
from fairpost.engines.exact.kernels.rows import (
    FAST,
    LEAST,
    add,
    beyond,
    copy,
    multiply,
    multiply_by,
    real,
    scale,
    scale_by_ratios,
    turns,
)  # fmt: skip

Floats = NDArray[np.float64]


@kernel(error_model="numpy", fastmath=FAST)
def add_shares(
    gaussian: bool,
    r: Floats,
    u: Floats,
    a: Floats,
    centre: float,
    number: float,
    cut: Floats,
    edge: Floats,
    kept: Floats,
    turned: Floats,
    fold: Floats,
    before: Floats,
    weight: Floats,
    jump: Floats,
    which: NDArray[np.int64],
    omega: Floats,
    times: Floats,
    exact: bool,
    out: Floats,
) -> float:
    """Add to out[0], out[1], out[2]: E[share], E[share^2] and P(share = 0) of every pair; returns P(S > 0).

    u has equal steps from 0; parts (real, imaginary) are an axis before that of s. cut[r, j] is where j's noise ends for it to be dropped,
    edge[r, j] the density of z_j there, kept[k, r, j, t] = E[(z - r)^k e^{-t(z - r)}; kept], turned[j] = e^{s (c_j - centre)} times the noise's
    transform, fold[w] = e^{s a tau} and jump[k, w, t] with w = which[j] (one for each threshold), before[s] and weight[r] what stands before
    the product beside e^{s number r}, omega[k, t] the weights of shares and squares. The first t is 0: the two chances come from it alone.
    `exact`: times are whole numbers; else they are weights of interpolation.
    """
    m, size, n = times.size, u.size, int(times.sum() + 0.5)
    dropped, inverse, w = np.empty((m, 2, size)), np.empty((m, 2, size)), np.empty((m, 2, size))
    work, row, total = np.empty((4, size)), np.empty((2, size)), np.empty((2, size))
    phase, product, mine = np.empty((2, size)), np.empty((2, size)), np.empty((m, size))
    chance, step = 0.0, u[1] if size > 1 else 0.0
    for j in range(m):
        for q in range(size):
            mine[j, q] = a[j] * u[q]
    for i in range(r.size):
        turns(step * number * r[i], phase)
        multiply_by(phase, before)
        phase *= weight[i]
        turns(-step * (r[i] - centre), row)
        for j in range(m):
            beyond(gaussian, cut[i, j], edge[i, j] * a[j], mine[j], work, dropped[j])
            multiply_by(dropped[j], fold[which[j]])
            if cut[i, j] > 0.0:
                multiply(row, turned[j], work[:2])
                add(work[:2], dropped[j], -1.0, dropped[j])
        for k in range(omega.shape[1]):
            copy(phase, product)
            total[:] = 0.0
            for j in range(m):
                _factor(dropped[j], kept[0, i, j, k], edge[i, j], jump[0, which[j], k], inverse[j], w[j])
                add(total, w[j], times[j], total)
                if exact:
                    _times(dropped[j], kept[0, i, j, k], int(times[j]), product, work)
            if not exact:
                scale_by_ratios(inverse, times, n, product)
            if k == 0:
                chance += real(product, total)
                for j in range(m):
                    out[2, j] += _none(product, inverse[j], dropped[j], w[j], total)
                continue
            for j in range(m):
                f = edge[i, j]
                both, one, two = _sums(product, inverse[j], w[j], total, jump[1, which[j], k], jump[2, which[j], k])
                out[0, j] += omega[0, k] * (kept[1, i, j, k] * both + f * one)
                out[1, j] += omega[1, k] * (kept[2, i, j, k] * both + f * two)
    return chance


@kernel(error_model="numpy", fastmath=FAST)
def _factor(dropped: Floats, up: float, f: float, jump: Floats, inverse: Floats, w: Floats) -> None:
    """1/psi, psi = dropped + up, and (up + f jump)/psi."""
    d0, d1, i0, i1, w0, w1, j0, j1 = dropped[0], dropped[1], inverse[0], inverse[1], w[0], w[1], jump[0], jump[1]
    for q in range(d0.size):
        x, y = d0[q] + up, d1[q]
        over = 1.0 / (x * x + y * y + LEAST)
        i0[q] = x * over
        i1[q] = -y * over
    for q in range(d0.size):
        w0[q] = (up + f * j0[q]) * i0[q] - f * j1[q] * i1[q]
    for q in range(d0.size):
        w1[q] = (up + f * j0[q]) * i1[q] + f * j1[q] * i0[q]


@kernel(error_model="numpy", fastmath=FAST)
def _times(dropped: Floats, up: float, exponent: int, product: Floats, work: Floats) -> None:
    """product *= (dropped + up)^exponent."""
    d0, d1, re, im = dropped[0], dropped[1], product[0], product[1]
    if exponent == 1:
        for q in range(re.size):
            x, y, a = re[q], im[q], d0[q] + up
            re[q], im[q] = x * a - y * d1[q], x * d1[q] + y * a
        return
    psi = np.empty((2, re.size))
    for q in range(re.size):
        psi[0, q], psi[1, q] = d0[q] + up, d1[q]
    scale(psi, exponent, product, work)


@kernel(error_model="numpy", fastmath=FAST)
def _none(product: Floats, inverse: Floats, dropped: Floats, w: Floats, total: Floats) -> float:
    """The sum of Re(own D (W - W_j)), own = product / psi_j."""
    p0, p1, i0, i1, d0, d1, w0, w1, t0, t1 = (
        product[0], product[1], inverse[0], inverse[1], dropped[0], dropped[1], w[0], w[1], total[0], total[1]
    )  # fmt: skip
    found = 0.0
    for q in range(p0.size):
        a, b = p0[q] * i0[q] - p1[q] * i1[q], p0[q] * i1[q] + p1[q] * i0[q]
        found += (a * d0[q] - b * d1[q]) * (t0[q] - w0[q]) - (a * d1[q] + b * d0[q]) * (t1[q] - w1[q])
    return found


@kernel(error_model="numpy", fastmath=FAST)
def _sums(
    product: Floats, inverse: Floats, w: Floats, total: Floats, first: Floats, second: Floats
) -> tuple[float, float, float]:
    """The sums of Re(own (1 + W - W_j)), Re(own J_1) and Re(own J_2)."""
    p0, p1, i0, i1, w0, w1, t0, t1 = (
        product[0], product[1], inverse[0], inverse[1], w[0], w[1], total[0], total[1]
    )  # fmt: skip
    f0, f1, s0, s1 = first[0], first[1], second[0], second[1]
    both, one, two = 0.0, 0.0, 0.0
    for q in range(p0.size):
        a, b = p0[q] * i0[q] - p1[q] * i1[q], p0[q] * i1[q] + p1[q] * i0[q]
        both += a * (1.0 + t0[q] - w0[q]) - b * (t1[q] - w1[q])
        one += a * f0[q] - b * f1[q]
        two += a * s0[q] - b * s1[q]
    return both, one, two
