"""Partial transforms E[y^k e^{-sy}; y > 0], k = 0, 1, 2, of one noisy value on one side of the threshold.

y = d - noise is its distance from the threshold; d = r - c below, c - r above (both laws are symmetric). s is real or complex. Where d > 0
they are like e^{-sd}, which far out on a contour is beyond doubles: all three come times lift = e^{(s - s0) d}, s0 where the contour
crosses the axis (1 and s for a real s; Gaussian noise: any lift). `noise` is None for Laplace, 1 for Gaussian noise: a type of its own
each, so that what one noise does not use is not compiled for it.
"""

import math
from typing import Any

import numpy as np

from fairpost.compiled import kernel
from fairpost.engines.closed.kernels.mills import first_three

_ROOT_TWO_PI = math.sqrt(2 * math.pi)


@kernel(error_model="numpy")
def partial(noise: Any, d: float, scale: float, s: Any, decay: float, lift: Any, s0: float) -> Any:
    """The three; decay = e^{-|d|/scale} (not used for Gaussian noise). For d <= 0 lift is 1."""
    if noise is None:
        return _laplace(d, scale, s, decay, lift, s0)
    return _gaussian(d / scale, scale, s, lift)


@kernel(error_model="numpy")
def _laplace(d: float, b: float, s: Any, decay: float, lift: Any, s0: float) -> Any:
    """d <= 0: the excess is exponential. d > 0: the far half is d plus an exponential; between the centre and the threshold the density
    is e^{-(d - y)/b} / (2b), whose integral has a removable singularity at sb = 1.
    """
    q = _inverse(1.0 + s * b)
    bq = b * q
    if d <= 0.0:
        head = 0.5 * decay * q
        return head, head * bq, 2.0 * head * bq * bq
    tail = math.exp(-s0 * d)
    head = 0.5 * tail * q
    g0, g1, g2 = _growth(d / b - s * d, decay * lift, tail)
    f = d / (2.0 * b)
    return (
        head + f * g0,
        head * (d + bq) + f * d * g1,
        head * (d * d + 2.0 * bq * (d + bq)) + f * d * d * g2,
    )


@kernel(error_model="numpy")
def _inverse(z: Any) -> Any:
    """1/z for |z| within 1e+-150: a complex division that need not look which part is larger."""
    return np.conj(z) * (1.0 / (z.real * z.real + z.imag * z.imag))


@kernel(error_model="numpy")
def _growth(x: Any, head: Any, tail: Any) -> Any:
    """head * int_0^1 u^k e^{xu} du for k = 0, 1, 2, given tail = head e^x; by series where |x| < 0.2.

    The recurrence loses a factor 1/|x|^{k+1}: at most two digits here, in the second moment.
    """
    if abs(x) >= 0.2:
        inverse = _inverse(x)
        g0 = (tail - head) * inverse
        g1 = (tail - g0) * inverse
        return g0, g1, (tail - 2.0 * g1) * inverse
    term, g0, g1, g2 = head, 0.0 * x, 0.0 * x, 0.0 * x
    for m in range(10):
        g0 += term * (1.0 / (m + 1))
        g1 += term * (1.0 / (m + 2))
        g2 += term * (1.0 / (m + 3))
        term *= x * (1.0 / (m + 1))
    return g0, g1, g2


@kernel(error_model="numpy")
def _gaussian(x: float, sigma: float, s: Any, lift: Any) -> Any:
    """sigma^k e^{-x^2/2} I_k(q) / sqrt(2 pi), q = s sigma - x (`mills`); for Re q < 0 the whole line less the mirror image."""
    q = s * sigma - x
    head = math.exp(-0.5 * x * x) / _ROOT_TWO_PI * lift
    if q.real >= 0.0:
        i0, i1, i2 = first_three(q)
        return head * i0, sigma * head * i1, sigma * sigma * head * i2
    i0, i1, i2 = first_three(-q)
    whole = np.exp(0.5 * s * sigma * (s * sigma - 2.0 * x)) * lift
    return (
        whole - head * i0,
        sigma * (head * i1 - whole * q),
        sigma * sigma * (whole * (q * q + 1.0) - head * i2),
    )
