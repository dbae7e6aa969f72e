"""One noise on either side of an edge c, under a tilt: what a kept entity and a dropped one add (`engines/exact/threshold/sets.py`)."""

import math
from typing import Any

import numpy as np

from fairpost.compiled import kernel
from fairpost.engines.closed.kernels.mills import first_three, first_two, of_real

ROOT = math.sqrt(2.0 * math.pi)
NEAR = 0.5
"""Below this |1 - p| |c| the integral of v^k e^{(1-p)v} is a series."""
TERMS = 24


@kernel(error_model="numpy")
def kept(gaussian: bool, c: float, p: float) -> tuple[float, float, float, float]:
    """Of E[e^{-p(eta - c)}; eta > c], p >= 0: its value, the means of eta - c and (eta - c)^2 under it, the density at c over it.

    The last three are ratios: they stay where the first underflows.
    """
    if gaussian:
        q = c + p
        if q >= 0.0:
            i0, i1, i2 = of_real(q)
            return math.exp(-0.5 * c * c) / ROOT * i0, i1 / i0, i2 / i0, 1.0 / i0
        b0, b1, b2 = of_real(-q)
        g = math.exp(-0.5 * q * q) / ROOT
        whole = 1.0 - g * b0
        return (
            math.exp(p * (c + 0.5 * p)) * whole,
            (g * b1 - q) / whole,
            (1.0 + q * q - g * b2) / whole,
            g / whole,
        )
    d = 1.0 / (1.0 + p)
    if c >= 0.0:
        return 0.5 * math.exp(-c) * d, d, 2.0 * d * d, 1.0 + p
    # beyond 0 as above, seen from m = -c; between, int_0^m v^k e^{(1-p)v - m} dv
    m, rate = -c, 1.0 - p
    lead = min(p, 1.0) * m
    far, near = math.exp(lead - p * m), math.exp(lead - m)
    k0, k1, k2 = far * d, far * d * (m + d), far * d * (m * m + 2.0 * m * d + 2.0 * d * d)
    if abs(rate) * m < NEAR:
        s0, s1, s2, term = 0.0, 0.0, 0.0, near * m
        for j in range(TERMS):
            s0 += term / (j + 1)
            s1 += term / (j + 2)
            s2 += term / (j + 3)
            term *= rate * m / (j + 1)
        k0, k1, k2 = k0 + s0, k1 + m * s1, k2 + m * m * s2
    else:
        h0 = (far - near) / rate
        h1 = (m * far - h0) / rate
        k0, k1, k2 = k0 + h0, k1 + h1, k2 + (m * m * far - 2.0 * h1) / rate
    return 0.5 * math.exp(-lead) * k0, k1 / k0, k2 / k0, near / k0


@kernel(error_model="numpy")
def density(gaussian: bool, c: float) -> float:
    """Of the noise at c."""
    return math.exp(-0.5 * c * c) / ROOT if gaussian else 0.5 * math.exp(-abs(c))


@kernel(error_model="numpy")
def dropped(gaussian: bool, c: float, s: Any) -> Any:
    """E[e^{-s(c - eta)}; eta < c] = e^{-sc} whole + edge for c > 0, and edge alone below: (whole, edge)."""
    if gaussian:
        if c > 0.0:
            return np.exp(0.5 * s * s), -density(True, c) * _mills(c - s)
        return 0j, density(True, c) * _mills(s - c)
    if c > 0.0:
        return 1.0 / (1.0 - s * s), -density(False, c) / (1.0 - s)
    return 0j, density(False, c) / (1.0 + s)


@kernel(error_model="numpy")
def _mills(q: Any) -> Any:
    """int_0^inf e^{-v^2/2 - qv} dv of any complex q."""
    if q.real >= 0.0:
        return first_two(q)[0]
    return ROOT * np.exp(0.5 * q * q) - first_two(-q)[0]


@kernel(error_model="numpy")
def fallen(gaussian: bool, c: float, s: Any) -> Any:
    """E[(c - eta)^k e^{-s(c - eta)}; eta < c], k = 0, 1, 2, as in `dropped`: three times whole, three times edge."""
    f = density(gaussian, c)
    if gaussian:
        if c > 0.0:
            m, d = np.exp(0.5 * s * s), c - s
            e0, e1, e2 = _mills_three(d)
            return m, d * m, (d * d + 1.0) * m, -f * e0, f * e1, -f * e2
        e0, e1, e2 = _mills_three(s - c)
        return 0j, 0j, 0j, f * e0, f * e1, f * e2
    if c > 0.0:
        m, o = 1.0 / (1.0 - s * s), 1.0 / (1.0 - s)
        m1, m2 = 2.0 * s * m * m, 2.0 * m * m * (1.0 + 4.0 * s * s * m)
        return m, c * m - m1, c * (c * m - 2.0 * m1) + m2, -f * o, f * o * o, -2.0 * f * o * o * o
    o = 1.0 / (1.0 + s)
    return 0j, 0j, 0j, f * o, f * o * o, 2.0 * f * o * o * o


@kernel(error_model="numpy")
def _mills_three(q: Any) -> Any:
    """int_0^inf v^k e^{-v^2/2 - qv} dv of any complex q, k = 0, 1, 2."""
    if q.real >= 0.0:
        return first_three(q)
    whole = ROOT * np.exp(0.5 * q * q)
    e0, e1, e2 = first_three(-q)
    return whole - e0, e1 - q * whole, (1.0 + q * q) * whole - e2
