"""Releases of `simplex-threshold` at nodes (r, s) of the law of the shift; symbols as in engines/exact/threshold/few.py."""

import numpy as np
from numpy.typing import NDArray

from fairpost.compiled import kernel
from fairpost.engines.exact.kernels.mills import first_two
from fairpost.engines.exact.kernels.powers import power

Floats = NDArray[np.float64]
Numbers = NDArray[np.complex128]

LEAST = 1e-290
"""A factor below it is 0, and so is what it stands for."""


@kernel(error_model="numpy", fastmath={"contract", "reassoc", "arcp", "nsz"})
def add_releases(
    gaussian: bool,
    r: Floats,
    u: Floats,
    x: Floats,
    tau: float,
    turned: Numbers,
    cdf: Floats,
    edge: Floats,
    phase: Numbers,
    jump: Numbers,
    times: Floats,
    exact: bool,
    out: Floats,
) -> float:
    """Add to out[0], out[1], out[2]: E[v - x], E[(v - x)^2] and P(v = 0) of every count; returns the sum of all chances.

    turned[s, j] = e^{-s x_j}; cdf and edge of (r, j); phase[r, s] what stands before the product; jump[k, s]. `exact` as in `lines`.
    """
    m, n = x.size, int(times.sum() + 0.5)
    h, g, held = np.empty(m, np.complex128), np.empty(m, np.complex128), np.empty((3, m), np.complex128)
    g0, g1, g2 = held[0], held[1], held[2]
    whole, total = 0.0, np.sum(times * x)
    for i in range(r.size):
        for q in range(u.size):
            s = complex(0.0, u[q])
            back, fold = np.exp(s * r[i]), np.exp(s * tau)
            number, edges, product, enough = 0.0j, 0.0j, 1.0 + 0.0j, True
            for j in range(m):
                h[j] = back * turned[q, j]
                c = r[i] + tau - x[j]
                at = edge[i, j] * h[j] * fold
                g0[j], g1[j], g2[j] = _gaussian(c, s, at) if gaussian else _laplace(c, s, at)
                psi = h[j] * cdf[i, j] + g0[j]
                if abs(psi.real) + abs(psi.imag) < LEAST:
                    enough = False
                    break
                g[j] = 1.0 / psi
                number += times[j] * g0[j] * g[j]
                edges += times[j] * edge[i, j] * h[j] * g[j]
                if exact:
                    product *= power(psi, int(times[j]))
            if not enough:
                continue
            if not exact:
                # psi / h = P(dropped) + E[e^{s (z - r)}; kept]: counts that are close, and mostly dropped, have ratios near 1
                log = 0.0j
                for j in range(1, m):
                    log += times[j] * np.log(g[0] * h[0] / (g[j] * h[j]))
                product = np.exp(log - s * (total - n * r[i])) * power(1.0 / (g[0] * h[0]), n)
            product *= phase[i, q]
            whole += (product * (number + jump[0, q] * edges)).real
            for j in range(m):
                own = product * g[j]
                at = edge[i, j] * h[j]
                others = number - g0[j] * g[j] + jump[0, q] * (edges - at * g[j])
                none = h[j] * cdf[i, j] * others
                one = 1.0 + others
                first = (g1[j] - r[i] * g0[j]) * one + at * (jump[1, q] - x[j] * jump[0, q]) - x[j] * none
                second = (g2[j] - 2.0 * r[i] * g1[j] + r[i] * r[i] * g0[j]) * one + x[j] * x[j] * none
                second += at * (jump[2, q] - 2.0 * x[j] * jump[1, q] + x[j] * x[j] * jump[0, q])
                out[0, j] += (own * first).real
                out[1, j] += (own * second).real
                out[2, j] += (own * none).real
    return whole


@kernel(error_model="numpy")
def _gaussian(c: float, s: complex, at: complex) -> tuple[complex, complex, complex]:
    """E[eta^k e^{s eta}; eta > c] for k = 0, 1, 2; `at` is the density at c times e^{sc}: Mills' ratio at |c| -+ s, by parts."""
    zeroth = np.exp(0.5 * s * s) - at * first_two(s - c)[0] if c < 0.0 else at * first_two(c - s)[0]
    first = at + s * zeroth
    return zeroth, first, c * at + zeroth + s * first


@kernel(error_model="numpy")
def _laplace(c: float, s: complex, at: complex) -> tuple[complex, complex, complex]:
    """E[eta^k e^{s eta}; eta > c] for k = 0, 1, 2; `at` is e^{sc - |c|}/2: a tail, or the whole line less the other tail."""
    if c > 0.0:
        q = 1.0 / (1.0 - s)
        tail = at * q
        return tail, tail * (c + q), tail * (c * c + 2.0 * c * q + 2.0 * q * q)
    q = 1.0 / (1.0 + s)
    left = at * q
    both = 1.0 / (1.0 - s * s)
    return (
        both - left,
        2.0 * s * both * both - left * (c - q),
        (2.0 + 6.0 * s * s) * both * both * both - left * (c * c - 2.0 * c * q + 2.0 * q * q),
    )
