"""The Laplace pair: a kinked payment under an exponential tilt, piece by piece in closed form.

On one side of 0 and between two kinks the noise has distance d + y from 0, the payment less its centre is h + s y (s: slope
away from 0), and with u the tilt

    int_0^L (h + s y)^k e^{-u (h + s y)} e^{-(d + y)/b} dy = e^{-u h - d/b} (binomially) int_0^L y^m e^{-r y} dy,  r = 1/b + u s,

or, on whole numbers, the sum over y = 0, ..., L - 1 of y^m rho^y with rho = e^{-r}. Where r < 0 the far end is the anchor, so
that no exponential overflows. All integrals and sums are of positive terms; short ones are series or doublings, because the
closed forms cancel there.
"""

import math

import numpy as np
from numpy.typing import NDArray

from fairpost.compiled import kernel

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
NOTHING = 1e-300  # a factor of 0
INVERSE = 1.0 / np.arange(1.0, 15.0)
REACH = 45.0
"""Kinks further away than so many b have mass below 3e-20."""


@kernel(error_model="numpy")
def _integrals(r: float, length: float) -> tuple[float, float, float]:
    """int_0^L y^m e^{-r y} dy for m = 0, 1, 2 and r > 0 (r = 0 with finite L)."""
    x = r * length
    if x > 40.0:
        return 1.0 / r, 1.0 / (r * r), 2.0 / (r * r * r)
    if x < 0.25:  # the first term left out is below x^12/12! = 1.3e-16
        i0, i1, i2, term = 0.0, 0.0, 0.0, 1.0
        for j in range(12):
            i0 += term * INVERSE[j]
            i1 += term * INVERSE[j + 1]
            i2 += term * INVERSE[j + 2]
            term *= -x * INVERSE[j]
        return length * i0, length * length * i1, length * length * length * i2
    e = math.exp(-x)  # i2 loses x^-3 eps / 3, at most 5e-15
    i0 = (1.0 - e) / r
    i1 = (1.0 - e * (1.0 + x)) / (r * r)
    return i0, i1, (2.0 - e * (x * (x + 2.0) + 2.0)) / (r * r * r)


@kernel(error_model="numpy")
def _sums(r: float, length: float) -> tuple[float, float, float]:
    """sum_{y < L} y^m e^{-r y} for m = 0, 1, 2 and r > 0 (r = 0 with finite L)."""
    rho = math.exp(-r)
    x = r * length
    if x > 40.0:
        v = -1.0 / math.expm1(-r)
        return v, rho * v * v, rho * (1.0 + rho) * v * v * v
    if x < 2.0 or length < 8.0:
        s0, s1, s2 = 0.0, 0.0, 0.0
        bit = 1
        while 2 * bit <= length:
            bit *= 2
        done, power, left = 0.0, 1.0, int(length)
        while bit > 0:  # binary digits from the top: twice as many terms, then one more where the digit is 1
            s2 += power * (s2 + 2.0 * done * s1 + done * done * s0)
            s1 += power * (s1 + done * s0)
            s0 += power * s0
            done *= 2.0
            power *= power
            if left & bit:
                s0 += power
                s1 += power * done
                s2 += power * done * done
                done += 1.0
                power *= rho
            bit >>= 1
        return s0, s1, s2
    e = math.exp(-x)
    v = -1.0 / math.expm1(-r)
    s0 = v * (1.0 - e)
    s1 = rho * v * v * (1.0 - e) - length * e * v
    s2 = rho * (1.0 + rho) * v * v * v * (1.0 - e) - e * length * v * (length + 2.0 * rho * v)
    return s0, s1, s2


@kernel(error_model="numpy")
def _half(whole: bool, d: float, length: float, h: float, s: float, u: float, b: float) -> tuple[float, float, float]:
    """One piece: its part of E[H^k e^{-u H}], k = 0, 1, 2, before the factor of the density."""
    r = 1.0 / b + u * s
    if r < 0.0:
        last = length - 1.0 if whole else length
        d, h, s, r = d + last, h + s * last, -s, -r
    e = math.exp(-u * h - d / b)
    if e == 0.0:
        return 0.0, 0.0, 0.0
    i0, i1, i2 = _sums(r, length) if whole else _integrals(r, length)
    return e * i0, e * (h * i0 + s * i1), e * (h * (h * i0 + 2.0 * s * i1) + s * s * i2)


@kernel(error_model="numpy")
def laplace_factors(
    whole: bool, spread: float, eta: Floats, start: Ints, at: Floats, value: Floats, slope: Floats, x: Floats,
    centre: Floats, w: Floats, t: Floats, log: Floats, mean: Floats, variance: Floats,
) -> None:  # fmt: skip
    """For H = w (g(x + eta) - centre) under the tilt e^{-tH}: log E[e^{-tH}], tilted mean and variance.

    `eta` is where kinks begin in terms of the noise (whole numbers on the lattice). Rows of the outputs are nodes t.
    """
    mass = math.tanh(0.5 / spread) if whole else 0.5 / spread
    reach = REACH * spread
    for i in range(x.size):
        first, end = start[i], start[i + 1]
        low = first
        while low < end and eta[low] < -reach:
            low += 1
        high = low
        while high < end and eta[high] <= reach:
            high += 1
        for node in range(t.size):
            u = t[node] * w[i]
            m0, m1, m2 = 0.0, 0.0, 0.0
            for k in range(low - 1, high):  # the piece from kink k on, within reach
                a = eta[k] if k >= first and k >= low else -np.inf
                z = eta[k + 1] if k + 1 < high else np.inf
                v = value[k] - centre[i] if k >= first else -centre[i]
                s = slope[k] if k >= first else 0.0
                here = x[i] - at[k] if s != 0.0 else 0.0
                base = v + s * here  # H at eta = 0, continued along the piece
                if s != 0.0 and a == -np.inf and k < low:
                    a = max(eta[k], -2.0 * reach)
                    if whole:
                        a = math.floor(a)
                if z > 0.0 and z > a:  # the side above 0, with 0 itself
                    near = max(a, 0.0)
                    p0, p1, p2 = _half(whole, near, z - near, base + s * near, s, u, spread)
                    m0, m1, m2 = m0 + p0, m1 + p1, m2 + p2
                if a < 0.0 and z > a:
                    if whole:
                        near = min(z, 0.0) - 1.0
                        length = near - a + 1.0
                    else:
                        near = min(z, 0.0)
                        length = near - a
                    p0, p1, p2 = _half(whole, -near, length, base + s * near, -s, u, spread)
                    m0, m1, m2 = m0 + p0, m1 + p1, m2 + p2
            m0 = max(m0 * mass, NOTHING)
            m1 *= mass / m0
            m2 *= mass / m0
            log[node, i] = math.log(m0)
            mean[node, i] = w[i] * m1
            variance[node, i] = w[i] * w[i] * max(m2 - m1 * m1, 0.0)
