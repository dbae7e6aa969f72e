"""Partial transforms of one noisy value below a threshold, for real or complex s.

For z = c + noise and d = r - c: E[y^k e^{-sy}; y > 0] with y = r - z and k = 0, 1, 2. The part above the threshold is the
mirror image: y = z - r, with -d in the place of d. Only the noise's scale and d enter.
`noise` is None for Laplace, 1 for Gaussian noise: a type of its own each, so that what one noise does not use is not compiled for it.
"""

import math
from typing import Any

import numpy as np

from fairpost.compiled import kernel
from fairpost.engines.closed.kernels.mills import first_three, zeroth

_ROOT_TWO_PI = float(np.sqrt(2 * np.pi))


@kernel(error_model="numpy")
def laplace_below(d: float, beta: float, s: Any, decay: float) -> Any:
    """Laplace noise of scale beta; decay = e^{-|d|/beta}.

    d <= 0: the excess below r is exponential. d > 0: the part below c is d plus an exponential, and between c and r the density
    is e^{-(d - y)/beta} / (2 beta), whose integral has a removable singularity at s beta = 1.
    """
    q = _inverse(1.0 + s * beta)
    bq = beta * q
    if d <= 0.0:
        head = 0.5 * decay * q
        return head, head * bq, 2.0 * head * bq * bq
    tail = np.exp(-s * d)
    head = 0.5 * tail * q
    x = d / beta - s * d
    g0, g1, g2 = _growth(x, decay + 0.0 * s, tail)
    f = d / (2.0 * beta)
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
def gaussian_below(d: float, sigma: float, s: Any) -> Any:
    """Normal noise of deviation sigma: sigma^k e^{-x^2/2} I_k(q) / sqrt(2 pi), x = d/sigma, q = s sigma - x.

    For Re q < 0 the whole line minus the mirror image.
    """
    x = d / sigma
    q = s * sigma - x
    if q.real >= 0.0:
        i0, i1, i2 = first_three(q)
        head = np.exp(-0.5 * x * x) / _ROOT_TWO_PI
        return head * i0, sigma * head * i1, sigma * sigma * head * i2
    i0, i1, i2 = first_three(-q)
    head = np.exp(-0.5 * x * x) / _ROOT_TWO_PI
    whole = np.exp(0.5 * s * sigma * (s * sigma - 2.0 * x))
    return (
        whole - head * i0,
        sigma * (head * i1 - whole * q),
        sigma * sigma * (whole * (q * q + 1.0) - head * i2),
    )


@kernel(error_model="numpy")
def below(noise: Any, d: float, scale: float, s: Any) -> Any:
    """E[y^k e^{-sy}; y > 0] for k = 0, 1, 2, where y = d - noise."""
    return below_from(noise, d, scale, s, math.exp(-abs(d) / scale) if noise is None else 0.0)


@kernel(error_model="numpy")
def below_from(noise: Any, d: float, scale: float, s: Any, decay: float) -> Any:
    """The same where decay = e^{-|d|/scale} is known (Laplace noise; not used for Gaussian noise)."""
    if noise is None:
        return laplace_below(d, scale, s, decay)
    return gaussian_below(d, scale, s)


@kernel(error_model="numpy")
def mass_below(noise: Any, d: float, scale: float, s: complex, decay: float) -> Any:
    """The first of the three alone, k = 0, for complex s."""
    if noise is None:
        return laplace_below(d, scale, s, decay)[0]
    x = d / scale
    q = s * scale - x
    head = math.exp(-0.5 * x * x) / _ROOT_TWO_PI
    if q.real >= 0.0:
        return head * zeroth(q) if head > 0.0 else 0j
    whole = np.exp(0.5 * s * scale * (s * scale - 2.0 * x))
    return whole - head * zeroth(-q) if head > 0.0 else whole
