"""Noise known by a table of masses (the discrete Gaussian): a kinked payment under an exponential tilt."""

import math

import numpy as np
from numpy.typing import NDArray

from fairpost.compiled import kernel

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
NOTHING = 1e-300  # a factor of 0


@kernel(error_model="numpy")
def table_factors(
    mass: Floats, reach: int, eta: Floats, start: Ints, at: Floats, value: Floats, slope: Floats, x: Floats,
    centre: Floats, w: Floats, t: Floats, log: Floats, mean: Floats, variance: Floats,
) -> None:  # fmt: skip
    """Any tilt: the plain sum over the lattice, from -reach to reach."""
    for i in range(x.size):
        first, end = start[i], start[i + 1]
        for node in range(t.size):
            u = t[node] * w[i]
            m0, m1, m2 = 0.0, 0.0, 0.0
            k = first - 1
            for j in range(-reach, reach + 1):
                while k + 1 < end and j >= eta[k + 1]:
                    k += 1
                h = -centre[i]
                if k >= first:
                    h += value[k]
                    if slope[k] != 0.0:
                        h += slope[k] * (x[i] - at[k] + j)
                p = mass[j + reach] * math.exp(-u * h)
                m0, m1, m2 = m0 + p, m1 + p * h, m2 + p * h * h
            m0 = max(m0, NOTHING)
            m1 /= m0
            m2 /= m0
            log[node, i] = math.log(m0)
            mean[node, i] = w[i] * m1
            variance[node, i] = w[i] * w[i] * max(m2 - m1 * m1, 0.0)


@kernel(error_model="numpy")
def _moments(tails: Floats, d: int, end: int, sign: float, c: float) -> tuple[float, float, float]:
    """sum over distances j = d, ..., end - 1 of (sign j / reach)^k e^{-c sign j / reach} p(j), k = 0, 1, 2, by powers of c."""
    a0, a1, a2, term = 0.0, 0.0, 0.0, 1.0
    top = tails.shape[1] - 1
    d, end = min(d, top), min(end, top)
    flip = 1.0
    for m in range(tails.shape[0] - 2):
        a0 += term * flip * (tails[m, d] - tails[m, end])
        a1 += term * flip * sign * (tails[m + 1, d] - tails[m + 1, end])
        a2 += term * flip * (tails[m + 2, d] - tails[m + 2, end])
        term *= -c / (m + 1)
        flip *= sign
        if abs(term) < 1e-19:
            break
    return a0, a1, a2


@kernel(error_model="numpy")
def series_factors(
    tails: Floats, reach: int, eta: Floats, start: Ints, at: Floats, value: Floats, slope: Floats, x: Floats,
    centre: Floats, w: Floats, t: Floats, log: Floats, mean: Floats, variance: Floats,
) -> None:  # fmt: skip
    """Tilts with |t w slope| reach <= 1: e^{-u s j} by its powers, tails[m, d] = sum_{j >= d} (j / reach)^m p(j)."""
    for i in range(x.size):
        first, end = start[i], start[i + 1]
        for node in range(t.size):
            u = t[node] * w[i]
            m0, m1, m2 = 0.0, 0.0, 0.0
            for k in range(first - 1, end):
                a = eta[k] if k >= first else -np.inf
                z = eta[k + 1] if k + 1 < end else np.inf
                a, z = max(a, -reach * 1.0), min(z, reach + 1.0)
                if z <= a:
                    continue
                v = value[k] - centre[i] if k >= first else -centre[i]
                s = slope[k] if k >= first else 0.0
                base = v + s * (x[i] - at[k]) if s != 0.0 else v
                e, rise = math.exp(-u * base), s * reach
                for side in range(2):
                    if side == 0 and z > 0.0:
                        p0, p1, p2 = _moments(tails, int(max(a, 0.0)), int(z), 1.0, u * rise)
                    elif side == 1 and a < 0.0:
                        p0, p1, p2 = _moments(tails, int(max(1.0 - z, 1.0)), int(1.0 - a), -1.0, u * rise)
                    else:
                        continue
                    m0 += e * p0
                    m1 += e * (base * p0 + rise * p1)
                    m2 += e * (base * base * p0 + 2.0 * base * rise * p1 + rise * rise * p2)
            m0 = max(m0, NOTHING)
            m1 /= m0
            m2 /= m0
            log[node, i] = math.log(m0)
            mean[node, i] = w[i] * m1
            variance[node, i] = w[i] * w[i] * max(m2 - m1 * m1, 0.0)
