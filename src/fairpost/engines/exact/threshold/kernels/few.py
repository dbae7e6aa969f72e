"""Releases of `simplex-threshold` at nodes (r, s) of the law of the shift; symbols as in engines/exact/threshold/few.py.

With T_j = g_j + J_0 f_j h_j, W_j = T_j/psi_j and W their sum, entity j's others have W - W_j, and what it gets is

    prod (psi)/psi_j [m_k (1 + W - W_j) + h_j f_j int_0^tau (v - x_j)^k e^{sv} dv + (-x_j)^k h_j F_j (W - W_j)].

The m_k = E[(eta - r)^k e^{s eta}; kept] are sums of a few rows of s with coefficients of (r, j): each row is summed once, and the
coefficients come afterwards.

    Laplace    the tail beyond c, f_j e^{sc} (d^2, 2d, 1) . (1, q, 2 q^2) q with d = c - r, q = 1/(1 - s), or, with its sign, 1/(1 + s) and -q;
               for c <= 0 it is taken from the whole line, whose moments are 1/(1 - s^2) and its derivatives,
    Gaussian   by parts: g, s g + f_j e^{sc}, and so on.
"""

import numpy as np
from numpy.typing import NDArray

from fairpost.compiled import kernel
from fairpost.engines.exact.kernels.rows import (
    FAST,
    add,
    beyond,
    invert,
    multiply,
    multiply_by,
    real,
    scale,
    scale_by_ratios,
    turns,
)

Floats = NDArray[np.float64]


@kernel(error_model="numpy", fastmath=FAST)
def add_releases(
    gaussian: bool,
    r: Floats,
    u: Floats,
    x: Floats,
    tau: float,
    centre: float,
    ahead: Floats,
    turned: Floats,
    fold: Floats,
    tails: Floats,
    line: Floats,
    cdf: Floats,
    density: Floats,
    weight: Floats,
    cut: Floats,
    jump: Floats,
    times: Floats,
    exact: bool,
    out: Floats,
) -> tuple[float, float]:
    """Add to out[0], out[1], out[2]: E[v - x], E[(v - x)^2] and P(v = 0) of every count; returns the sum of all chances, and E[r].

    u has equal steps from 0; parts (real, imaginary) are an axis before that of s. turned[j] is e^{-s (x_j - centre)}; fold = e^{s tau};
    tails[side, k] = fold q (1, q, 2 q^2) above (0) and below (1) c; line[k] what the moments of the whole line are made of; before the
    product stand weight[r], cut[s] and e^{-s ahead[r]}; jump[k]; cdf and density of (r, j). `exact`: times are whole numbers; else they are
    weights of interpolation.
    """
    m, size, n = x.size, u.size, int(times.sum() + 0.5)
    h, g = np.empty((m, 2, size)), np.empty((m, 2, size))
    inverse, w, near = np.empty((m, 2, size)), np.empty((m, 2, size)), np.empty((m if not exact else 0, 2, size))
    work, psi, product, total = np.empty((4, size)), np.empty((2, size)), np.empty((2, size)), np.empty((2, size))
    back = np.empty((2, size))
    whole, mean, step = 0.0, 0.0, u[1] if size > 1 else 0.0
    for i in range(r.size):
        turns(step * (r[i] - centre), back)
        product[0], product[1], total[:] = 1.0, 0.0, 0.0
        for j in range(m):
            c, f, chance = r[i] + tau - x[j], density[i, j], cdf[i, j]
            multiply(back, turned[j], h[j])
            beyond(gaussian, c, f, u, work, psi)
            multiply(h[j], fold, work[:2])
            multiply(work[:2], psi, g[j])
            if c <= 0.0:
                _from(line[0], g[j])
            add(g[j], h[j], chance, psi)
            invert(psi, inverse[j])
            if exact:
                scale(psi, int(times[j]), product, work)
            else:
                multiply(inverse[j], h[j], near[j])
            multiply(h[j], jump[0], work[:2])
            add(g[j], work[:2], f, psi)
            multiply(psi, inverse[j], w[j])
            add(total, w[j], times[j], total)
        if not exact:
            # psi / h = P(dropped) + E[e^{s (z - r)}; kept]: counts that are close, and mostly dropped, have ratios near 1
            scale_by_ratios(near, times, n, product)
        turns(-step * ahead[i], back)
        multiply_by(product, back)
        for k in range(2):
            row = product[k]
            for q in range(size):
                row[q] *= cut[q] * weight[i]
        here = real(product, total)
        whole += here
        mean += r[i] * here
        for j in range(m):
            c, f, d = r[i] + tau - x[j], density[i, j], x[j]
            none, e0, e1, e2 = _edges(product, inverse[j], h[j], w[j], total, jump)
            if gaussian:
                m1, m2 = _gaussian(product, inverse[j], h[j], g[j], w[j], total, fold, u, r[i], c, f)
            else:
                m1, m2 = _laplace(product, inverse[j], h[j], w[j], total, tails[0 if c > 0.0 else 1], line, r[i], c, f)
            out[0, j] += m1 + f * (e1 - d * e0) - d * cdf[i, j] * none
            out[1, j] += m2 + f * (e2 - 2.0 * d * e1 + d * d * e0) + d * d * cdf[i, j] * none
            out[2, j] += cdf[i, j] * none
    return whole, mean


@kernel(error_model="numpy", fastmath=FAST)
def _from(line: Floats, g: Floats) -> None:
    """g = line - g; the line is real."""
    re, im = g[0], g[1]
    for q in range(re.size):
        re[q] = line[q] - re[q]
    for q in range(re.size):
        im[q] = -im[q]


@kernel(error_model="numpy", fastmath=FAST)
def _edges(
    product: Floats, inverse: Floats, h: Floats, w: Floats, total: Floats, jump: Floats
) -> tuple[float, float, float, float]:
    """Sums of Re(own h (W - W_j)) and of Re(own h J_k), own = product / psi_j."""
    p0, p1, i0, i1, h0, h1, w0, w1, t0, t1 = (
        product[0], product[1], inverse[0], inverse[1], h[0], h[1], w[0], w[1], total[0], total[1]
    )  # fmt: skip
    j00, j01, j10, j11, j20, j21 = jump[0, 0], jump[0, 1], jump[1, 0], jump[1, 1], jump[2, 0], jump[2, 1]
    none, e0, e1, e2 = 0.0, 0.0, 0.0, 0.0
    for q in range(p0.size):
        a, b = p0[q] * i0[q] - p1[q] * i1[q], p0[q] * i1[q] + p1[q] * i0[q]
        x, y = a * h0[q] - b * h1[q], a * h1[q] + b * h0[q]
        none += x * (t0[q] - w0[q]) - y * (t1[q] - w1[q])
        e0 += x * j00[q] - y * j01[q]
        e1 += x * j10[q] - y * j11[q]
        e2 += x * j20[q] - y * j21[q]
    return none, e0, e1, e2


@kernel(error_model="numpy", fastmath=FAST)
def _laplace(
    product: Floats,
    inverse: Floats,
    h: Floats,
    w: Floats,
    total: Floats,
    tails: Floats,
    line: Floats,
    r: float,
    c: float,
    f: float,
) -> tuple[float, float]:
    """Sums of Re(own m_k (1 + W - W_j)) for k = 1, 2."""
    p0, p1, i0, i1, h0, h1, w0, w1, t0, t1 = (
        product[0], product[1], inverse[0], inverse[1], h[0], h[1], w[0], w[1], total[0], total[1]
    )  # fmt: skip
    a0, a1, b0, b1, c0, c1 = tails[0, 0], tails[0, 1], tails[1, 0], tails[1, 1], tails[2, 0], tails[2, 1]
    one, two, three = 0.0, 0.0, 0.0
    for q in range(p0.size):
        a, b = p0[q] * i0[q] - p1[q] * i1[q], p0[q] * i1[q] + p1[q] * i0[q]
        u, v = 1.0 + t0[q] - w0[q], t1[q] - w1[q]
        x, y = a * u - b * v, a * v + b * u
        u, v = x * h0[q] - y * h1[q], x * h1[q] + y * h0[q]
        one += u * a0[q] - v * a1[q]
        two += u * b0[q] - v * b1[q]
        three += u * c0[q] - v * c1[q]
    d = c - r
    first, second = f * (d * one + two), f * (d * d * one + 2.0 * d * two + three)
    if c > 0.0:
        return first, second
    l0, l1, l2 = line[0], line[1], line[2]
    one, two, three = 0.0, 0.0, 0.0
    for q in range(p0.size):
        a, b = p0[q] * i0[q] - p1[q] * i1[q], p0[q] * i1[q] + p1[q] * i0[q]
        u, v = 1.0 + t0[q] - w0[q], t1[q] - w1[q]
        x, y = a * u - b * v, a * v + b * u
        one += x * l0[q]
        two -= y * l1[q]
        three += x * l2[q]
    return two - r * one - first, three - 2.0 * r * two + r * r * one - second


@kernel(error_model="numpy", fastmath=FAST)
def _gaussian(
    product: Floats,
    inverse: Floats,
    h: Floats,
    g: Floats,
    w: Floats,
    total: Floats,
    fold: Floats,
    u: Floats,
    r: float,
    c: float,
    f: float,
) -> tuple[float, float]:
    """Sums of Re(own m_k (1 + W - W_j)) for k = 1, 2: E[eta e^{s eta}; kept] = e + s g, of eta^2 c e + g + s (e + s g), e = f e^{sc}."""
    p0, p1, i0, i1, h0, h1, w0, w1, t0, t1 = (
        product[0], product[1], inverse[0], inverse[1], h[0], h[1], w[0], w[1], total[0], total[1]
    )  # fmt: skip
    g0, g1, f0, f1 = g[0], g[1], fold[0], fold[1]
    zeroth, first, second, edge, turned = 0.0, 0.0, 0.0, 0.0, 0.0
    for q in range(p0.size):
        a, b = p0[q] * i0[q] - p1[q] * i1[q], p0[q] * i1[q] + p1[q] * i0[q]
        k, v = 1.0 + t0[q] - w0[q], t1[q] - w1[q]
        x, y = a * k - b * v, a * v + b * k
        k, v = x * g0[q] - y * g1[q], x * g1[q] + y * g0[q]
        zeroth += k
        first -= u[q] * v
        second -= u[q] * u[q] * k
        k, v = x * h0[q] - y * h1[q], x * h1[q] + y * h0[q]
        edge += k * f0[q] - v * f1[q]
        turned -= u[q] * (k * f1[q] + v * f0[q])
    one = f * edge + first
    two = c * f * edge + zeroth + f * turned + second
    return one - r * zeroth, two - 2.0 * r * one + r * r * zeroth
