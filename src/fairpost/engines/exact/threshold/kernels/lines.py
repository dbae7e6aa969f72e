"""The shares of `pos-threshold` at nodes (r, s, t) of the law of the shift; symbols as in engines/exact/threshold/lines.py.

The inner loops run over t, in real arithmetic, so that the processor takes several t at a time.
"""

import numpy as np
from numpy.typing import NDArray

from fairpost.compiled import kernel

Floats = NDArray[np.float64]
Numbers = NDArray[np.complex128]

LEAST = 1e-280
"""Added to |psi|^2, so that a factor of 0 (S far above 1/t: nothing is left) has an inverse; what it stands for is 0 too."""


@kernel(error_model="numpy", fastmath={"contract", "reassoc", "arcp", "nsz"})
def add_shares(
    dropped: Numbers,
    kept: Floats,
    edge: Floats,
    phase: Numbers,
    jump: Numbers,
    which: NDArray[np.int64],
    omega: Floats,
    times: Floats,
    exact: bool,
    out: Floats,
) -> float:
    """Add to out[0], out[1], out[2]: E[share], E[share^2] and P(share = 0) of every pair; returns P(S > 0).

    dropped[r, s, j], kept[k, r, j, t] = E[(z - r)^k e^{-t(z - r)}; kept], edge[r, j] the density at the edge, phase[r, s] what stands before
    the product, jump[k, s, w, t] with w = which[j] (one for each threshold), omega[k, t] the weights of shares and squares. The first t is
    0: the two chances come from it alone. `exact`: times are whole numbers; else they are weights of interpolation, and the product is taken
    by the logarithms of ratios to the first factor, which are near 1.
    """
    m, size = times.size, omega.shape[1]
    inverse = np.empty((2, m, size))
    product, number, edges = np.empty((2, size)), np.empty((2, size)), np.empty((2, size))
    chance, n = 0.0, int(times.sum() + 0.5)
    for i in range(dropped.shape[0]):
        for q in range(dropped.shape[1]):
            product[0], product[1], number[:], edges[:] = 1.0, 0.0, 0.0, 0.0
            for j in range(m):
                a, b, f, many = dropped[i, q, j].real, dropped[i, q, j].imag, edge[i, j], times[j]
                w = which[j]
                for k in range(size):
                    up = kept[0, i, j, k]
                    psi = a + up
                    over = 1.0 / (psi * psi + b * b + LEAST)
                    x, y = psi * over, -b * over
                    inverse[0, j, k], inverse[1, j, k] = x, y
                    number[0, k] += many * up * x
                    number[1, k] += many * up * y
                    e = jump[0, q, w, k].real
                    g = jump[0, q, w, k].imag
                    edges[0, k] += many * f * (x * e - y * g)
                    edges[1, k] += many * f * (x * g + y * e)
                if exact:
                    _times(product, a, b, kept[0, i, j], int(many))
            if not exact:
                _times(product, dropped[i, q, 0].real, dropped[i, q, 0].imag, kept[0, i, 0], n)
                _ratios(product, inverse, times)
            c, d = phase[i, q].real, phase[i, q].imag
            for k in range(size):
                x, y = product[0, k], product[1, k]
                product[0, k], product[1, k] = x * c - y * d, x * d + y * c
            chance += _chances(
                product, inverse, number, edges, dropped[i, q], kept[0, i], edge[i], jump[0, q, :, 0], which, out
            )
            for j in range(m):
                f, w = edge[i, j], which[j]
                first, second = 0.0, 0.0
                for k in range(1, size):
                    u, v = inverse[0, j, k], inverse[1, j, k]
                    x, y = product[0, k] * u - product[1, k] * v, product[0, k] * v + product[1, k] * u
                    a, b = jump[0, q, w, k].real, jump[0, q, w, k].imag
                    rest = 1.0 + number[0, k] - kept[0, i, j, k] * u + edges[0, k] - f * (u * a - v * b)
                    turn = number[1, k] - kept[0, i, j, k] * v + edges[1, k] - f * (u * b + v * a)
                    both = x * rest - y * turn
                    one = x * jump[1, q, w, k].real - y * jump[1, q, w, k].imag
                    two = x * jump[2, q, w, k].real - y * jump[2, q, w, k].imag
                    first += omega[0, k] * (kept[1, i, j, k] * both + f * one)
                    second += omega[1, k] * (kept[2, i, j, k] * both + f * two)
                out[0, j] += first
                out[1, j] += second
    return chance


@kernel(error_model="numpy", fastmath={"contract", "reassoc", "arcp", "nsz"})
def _times(product: Floats, a: float, b: float, up: Floats, exponent: int) -> None:
    """Multiply by (a + up + ib)^exponent, by squaring."""
    for k in range(up.size):
        x, y, e = a + up[k], b, exponent
        u, v = product[0, k], product[1, k]
        while e > 0:
            if e & 1:
                u, v = u * x - v * y, u * y + v * x
            x, y = x * x - y * y, 2.0 * x * y
            e >>= 1
        product[0, k], product[1, k] = u, v


@kernel(error_model="numpy")
def _ratios(product: Floats, inverse: Floats, times: Floats) -> None:
    """Multiply by prod (psi_j / psi_0)^times."""
    for k in range(product.shape[1]):
        first = complex(inverse[0, 0, k], inverse[1, 0, k])
        log = 0.0j
        for j in range(1, times.size):
            one = complex(inverse[0, j, k], inverse[1, j, k])
            if one != 0.0:
                log += times[j] * np.log(first / one)
        value = complex(product[0, k], product[1, k]) * np.exp(log)
        product[0, k], product[1, k] = value.real, value.imag


@kernel(error_model="numpy")
def _chances(
    product: Floats,
    inverse: Floats,
    number: Floats,
    edges: Floats,
    dropped: Numbers,
    kept: Floats,
    edge: Floats,
    jump: Numbers,
    which: NDArray[np.int64],
    out: Floats,
) -> float:
    """At t = 0: P(share = 0) into out[2], and P(S > 0)."""
    whole = complex(product[0, 0], product[1, 0])
    all_kept, all_edges = complex(number[0, 0], number[1, 0]), complex(edges[0, 0], edges[1, 0])
    for j in range(edge.size):
        g = complex(inverse[0, j, 0], inverse[1, j, 0])
        rest = all_kept - kept[j, 0] * g + all_edges - jump[which[j]] * edge[j] * g
        out[2, j] += (whole * g * dropped[j] * rest).real
    return float((whole * (all_kept + all_edges)).real)
