"""Laplace noise (b = 1): the part of the simplex integrals below every true count, with m integrated in closed form.

For m = m1 - r, r > 0, and every x_j >= m1, d_j = x_j - m1, the factors of `exact_simplex` are

    psi_j = e^{s d_j} (M e^{sr} + g_j e^{-r}),   M = 1/(1 - s^2),   g_j = e^{-(1 + s) d_j} s / (2 (1 + s)),

so their product is a polynomial in the two exponentials of r, and the integral over r is a sum of 1/rate. What
is left is one contour integral in s, and where the d_j add up to at most C it may lean right.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpost.compiled import kernel
from fairpost.engines.exact.simplex.kernels.contour import contour

Floats = NDArray[np.float64]


@kernel(error_model="numpy")
def _polynomial(g: Any, whole: Any, skip: Any, out: Any) -> Any:
    """Coefficients of prod_{j != skip} (whole * y + g_j); returns the degree."""
    degree = 0
    out[0] = 1.0
    for j in range(g.size):
        if j == skip:
            continue
        degree += 1
        out[degree] = whole * out[degree - 1]
        for k in range(degree - 1, 0, -1):
            out[k] = g[j] * out[k] + whole * out[k - 1]
        out[0] = g[j] * out[0]
    return degree


@kernel(error_model="numpy")
def deficits(
    m1: float,
    tau: float,
    scale: float,
    lean: float,
    step: float,
    cutoff: float,
    x: Floats,
    first: NDArray[np.int64],
    giants: float,
    rest: float,
    out: Floats,
) -> int:
    """Integrals over m < m1 of P(eta <= m - x_i) (P(H_{-i}(m) > C) - 1); returns the number of nodes.

    `x` holds every copy of every count at risk; `first` the place of the first copy of each distinct one. tau < 0.
    """
    d = x - m1
    mean = np.sum(d[1:]) - giants * m1 - rest  # without the smallest: at most 0 on average
    g, coefficient = np.empty(x.size, np.complex128), np.empty(x.size, np.complex128)
    largest, most = 0.0, int(80.0 / step)
    for l in range(most):
        s, ds = contour(l * step, tau, scale, lean)
        v = 1.0 / (1.0 + s)
        whole = v / (1.0 - s)
        for j in range(x.size):
            g[j] = 0.5 * np.exp(-(1.0 + s) * d[j]) * s * v
        q = np.exp(s * mean + giants * np.log(whole)) / s * ds * (step / math.pi)
        if l == 0:
            q *= 0.5
        now = 0.0
        for i in range(first.size):
            at = first[i]
            degree = _polynomial(g, whole, at, coefficient)
            total = 0j
            for k in range(degree + 1):
                total += coefficient[k] / ((degree - k) - s * (giants + k) + 1.0)
            total *= q * (0.5 * math.exp(-d[at])) * np.exp(-s * (d[at] - d[0]))
            out[i] += total.imag
            now = max(now, abs(total))
        largest = max(largest, now)
        if now <= cutoff * largest:
            return l + 1
    return most


@kernel(error_model="numpy")
def spread(
    m1: float,
    tau: float,
    scale: float,
    lean: float,
    step: float,
    cutoff: float,
    x: Floats,
    first: NDArray[np.int64],
    giants: float,
    rest: float,
    out: Floats,
    common: Floats,
) -> int:
    """Integrals over m < m1 of what `exact_simplex.invert` gives for the spread; returns the number of nodes."""
    d = x - m1
    mean = np.sum(d) - giants * m1 - rest
    g, coefficient = np.empty(x.size, np.complex128), np.empty(x.size + 1, np.complex128)
    largest, most = 0.0, int(80.0 / step)
    for l in range(most):
        s, ds = contour(l * step, tau, scale, lean)
        v = 1.0 / (1.0 + s)
        whole = v / (1.0 - s)
        drift = 2.0 * s * whole
        for j in range(x.size):
            g[j] = 0.5 * np.exp(-(1.0 + s) * d[j]) * s * v
        q = np.exp(s * mean + giants * np.log(whole)) / s * ds * (step / math.pi)
        if l == 0:
            q *= 0.5
        degree = _polynomial(g, whole, -1, coefficient)
        once, twice = 0j, 0j
        for k in range(degree + 1):
            rate = 1.0 / ((degree - k) - s * (giants + k))
            once += coefficient[k] * rate
            twice += coefficient[k] * rate * rate
        common[0] += (q * once).imag
        common[1] += (q * ((drift - m1) * once + twice)).imag
        now = abs(q * once)
        for i in range(first.size):
            at = first[i]
            degree = _polynomial(g, whole, at, coefficient)
            clipped, once, twice = 0j, 0j, 0j
            for k in range(degree + 1):
                rate = 1.0 / ((degree - k) - s * (giants + k + 1))
                once += coefficient[k] * rate
                twice += coefficient[k] * rate * rate
                clipped += coefficient[k] / ((degree - k) - s * (giants + k) + 1.0)
            edge = 0.5 * np.exp(-(1.0 + s) * d[at])
            kept = whole * ((drift - m1) * once + twice) + edge * (x[at] + v) * v * clipped
            out[i] += (q * kept).imag
            now = max(now, abs(q * kept))
        largest = max(largest, now)
        if now <= cutoff * largest:
            return l + 1
    return most
