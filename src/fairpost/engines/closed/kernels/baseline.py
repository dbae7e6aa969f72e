"""Laplace noise clipped at 0 and tilted by e^{-tY}: the factors of the baseline's integral."""

import math

import numpy as np
from numpy.typing import NDArray

from fairpost.compiled import kernel

Floats = NDArray[np.float64]


@kernel(error_model="numpy")
def laplace_factors(
    c: Floats, beta: Floats, times: Floats, t: Floats, log_product: Floats, mean: Floats, variance: Floats
) -> None:
    """For Y = (c + Laplace(beta))_+ under the tilt e^{-tY}, with t beta <= 1/2.

    E[e^{-tY}] = e^{-tc} m(t), m = 1/(1 - u^2) - q u/(1 - u), u = t beta, q = e^{-(1 - u) c/beta} / 2.
    Then the tilted mean is c - m'/m and the tilted variance m''/m - (m'/m)^2. With k = c/beta the derivatives
    in units of beta are m' = 2u/(1 - u^2)^2 - q (k u v + v^2) and
    m'' = (2 + 6u^2)/(1 - u^2)^3 - q (k^2 u v + 2 k v^2 + 2 v^3), v = 1/(1 - u).
    Rows of the outputs are the nodes t: sum of times log(e^{-tc} m), tilted mean minus c, tilted variance.
    """
    for node in range(t.size):
        total = 0.0
        for j in range(c.size):
            u = t[node] * beta[j]
            k = c[j] / beta[j]
            v = 1.0 / (1.0 - u)
            f = v / (1.0 + u)
            q = 0.5 * math.exp(-k / v)
            w = u * v
            excess = u * u * f - q * w
            first = 2.0 * u * f * f - q * (k * w + v * v)
            second = (2.0 + 6.0 * u * u) * f * f * f - q * (k * k * w + 2.0 * v * v * (k + v))
            m = 1.0 + excess
            total += times[j] * (math.log1p(excess) - t[node] * c[j])
            mean[node, j] = -beta[j] * first / m
            variance[node, j] = beta[j] * beta[j] * (second - first * first / m) / m
        log_product[node] = total
