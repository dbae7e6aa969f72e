"""Gaussian noise: a kinked payment under an exponential tilt, piece by piece.

In units of sigma, from a point c outwards, the payment less its centre is h + s y and the integrand e^{-u h - c^2/2} e^{-q y - y^2/2}
with q = c + u s. So a piece is a difference of two tails with J_m(q) = int_0^inf y^m e^{-q y - y^2/2} dy, where q >= 0; of two tails
below, where q <= 0 at its far end; and else the whole line less a tail on either side, which is where the mode lies within.
"""

import math

import numpy as np
from numpy.typing import NDArray

from fairpost.compiled import kernel
from fairpost.engines.closed.kernels.mills import of_real

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
REACH = 13.0
ROOT = math.sqrt(math.pi / 2)
NOTHING = 1e-300  # a factor of 0
NORM = 1.0 / math.sqrt(2 * math.pi)


@kernel(error_model="numpy")
def _tail(c: float, h: float, s: float, u: float) -> tuple[float, float, float]:
    """The part of E[H^k e^{-uH}] beyond c, outwards: c the signed distance of the point from 0, h the payment there."""
    if not math.isfinite(c):
        return 0.0, 0.0, 0.0
    e = math.exp(-u * h - 0.5 * c * c)
    if e == 0.0:
        return 0.0, 0.0, 0.0
    j0, j1, j2 = of_real(max(c + u * s, 0.0))
    return e * j0, e * (h * j0 + s * j1), e * (h * (h * j0 + 2.0 * s * j1) + s * s * j2)


@kernel(error_model="numpy")
def _piece(a: float, z: float, base: float, s: float, u: float) -> tuple[float, float, float]:
    """From a to z, in units of sigma; `base` the payment at 0, continued along the piece."""
    shift = u * s
    ha = base + s * a if math.isfinite(a) else base
    hz = base + s * z if math.isfinite(z) else base
    if math.isfinite(a) and a + shift >= 0.0:
        p, r = _tail(a, ha, s, u), _tail(z, hz, s, u)
        return p[0] - r[0], p[1] - r[1], p[2] - r[2]
    if math.isfinite(z) and z + shift <= 0.0:
        p, r = _tail(-z, hz, -s, u), _tail(-a, ha, -s, u)
        return p[0] - r[0], p[1] - r[1], p[2] - r[2]
    whole = 2.0 * ROOT * math.exp(-u * base + 0.5 * shift * shift)
    centre = base - s * shift
    p, r = _tail(-a, ha, -s, u), _tail(z, hz, s, u)
    m1, m2 = whole * centre, whole * (centre * centre + s * s)
    return whole - p[0] - r[0], m1 - p[1] - r[1], m2 - p[2] - r[2]


@kernel(error_model="numpy")
def gaussian_factors(
    spread: float, eta: Floats, start: Ints, at: Floats, value: Floats, slope: Floats, x: Floats, centre: Floats,
    w: Floats, t: Floats, log: Floats, mean: Floats, variance: Floats,
) -> None:  # fmt: skip
    """For H = w (g(x + eta) - centre) under the tilt e^{-tH}: log E[e^{-tH}], tilted mean and variance, nodes by entities."""
    for i in range(x.size):
        first, end = start[i], start[i + 1]
        for node in range(t.size):
            u = t[node] * w[i]
            far = REACH * spread
            low = first
            while low < end and eta[low] < -far - u * abs(slope[low]) * spread * spread:
                low += 1
            m0, m1, m2 = 0.0, 0.0, 0.0
            for k in range(low - 1, end):
                a = eta[k] / spread if k >= max(low, first) else -np.inf
                z = eta[k + 1] / spread if k + 1 < end else np.inf
                if a > REACH and a > -np.inf:
                    break
                v = value[k] - centre[i] if k >= first else -centre[i]
                s = slope[k] if k >= first else 0.0
                base = v + s * (x[i] - at[k]) if s != 0.0 else v
                if s != 0.0 and k < low:
                    a = eta[k] / spread
                if z > a:
                    p0, p1, p2 = _piece(a, z, base, s * spread, u)
                    m0, m1, m2 = m0 + p0, m1 + p1, m2 + p2
            m0 = max(m0 * NORM, NOTHING)
            m1 *= NORM / m0
            m2 *= NORM / m0
            log[node, i] = math.log(m0)
            mean[node, i] = w[i] * m1
            variance[node, i] = w[i] * w[i] * max(m2 - m1 * m1, 0.0)
