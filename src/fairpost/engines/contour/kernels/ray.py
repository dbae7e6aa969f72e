"""Few entities under Laplace noise, r = m1 - u along a ray of the complex plane (`engines.contour.few`): one node s."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpost.compiled import kernel
from fairpost.engines.contour.kernels.root import power

Floats = NDArray[np.float64]
Numbers = NDArray[np.complex128]
NOTHING = 1e-280
"""Where both parts of a factor end in doubles, so does every term."""


@kernel(error_model="numpy")
def along_ray(
    least: bool, c: Floats, d: Floats, times: Any, m1: float, s: complex, s0: float, turn: complex, u: Numbers, weight: Numbers,
    first: Floats, square: Floats, common: Floats,
) -> float:  # fmt: skip
    """Add the node s to the sums (those of `accumulate`; P(z < r) is E y here); returns its size. Without `least` all of them.

    Factors are taken e^{-s0 Re u} times, which bounds them.
    """
    size, n = d.size, times.sum()
    foot, inverse, above = np.empty(size, np.complex128), np.empty(size, np.complex128), np.empty(size, np.complex128)
    y, cut = np.zeros(size, np.complex128), np.zeros(size, np.complex128)
    dense, dense1, dense2, cross = 0j, 0j, 0j, 0j
    m, v = 1.0 / ((1.0 - s) * (1.0 + s)), 1.0 / (1.0 + s)
    for j in range(size):
        foot[j] = 0.5 * np.exp(-(1.0 + s) * d[j])
    for k in range(u.size):
        lift, r = s0 * u[k].real, m1 - u[k]
        whole, fall = m * np.exp(s * u[k] - lift), np.exp(-u[k] - lift)
        product, number = 1.0 + 0.0j, 0j
        for j in range(size):
            tail = foot[j] * fall
            psi = whole + tail * (s * v)
            product *= power(psi, times[j])
            inverse[j] = 1.0 / psi if abs(psi.real) + abs(psi.imag) > NOTHING else 1.0 + 0.0j
            above[j] = (whole - tail * v) * inverse[j]
            number += times[j] * above[j]
        outer = weight[k] * turn * product
        single, every = outer * np.exp((n - 1.0) * lift - u[k]), outer * math.exp(n * lift) if not least else 0j
        for j in range(size):
            one = (number - above[j]) * inverse[j] * foot[j] * single
            y[j] += one
            if not least:
                gap = d[j] + u[k]
                # E[(z - x) e^{s (z - r)}; z > r]: of the whole line, less its part below r
                shift = (2.0 * s * m * whole + foot[j] * fall * (gap + v) * v) * inverse[j]
                cut[j] += one * (r * (2.0 * c[j] - r) - 2.0 * gap - 2.0)
                cut[j] += every * (number - above[j] + 1.0) * (r * r * above[j] - 2.0 * r * shift)
        if not least:
            one = every * number
            dense += one
            dense1 += r * one
            dense2 += r * r * one
            cross += 2.0 * s * m * r * one
    most = abs(dense.imag)
    for j in range(size):
        first[j] += y[j].imag
        square[j] += cut[j].imag
        most = max(most, abs(y[j].imag))
    common[0] += dense.imag
    common[1] += dense1.imag
    common[2] += dense2.imag
    common[3] += cross.imag
    return most
