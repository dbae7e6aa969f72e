"""Partial transforms of one noisy value below a threshold, for real or complex s.

For z = c + noise and d = r - c: E[y^k e^{-sy}; y > 0] with y = r - z and k = 0, 1, 2. The part above the threshold is the
mirror image: y = z - r, with -d in the place of d. Only the noise's scale and d enter.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpost.compiled import kernel

LAPLACE = 0
GAUSSIAN = 1


def _weideman(n: int) -> NDArray[np.float64]:
    """Coefficients of Weideman's rational series (SIAM J. Numer. Anal. 31, 1994) for e^{q^2} erfc(q), Re q >= 0."""
    k = np.arange(1 - 2 * n, 2 * n)
    span = np.sqrt(n / np.sqrt(2.0))
    t = span * np.tan(k * np.pi / (4 * n))
    f = np.concatenate([[0.0], np.exp(-t * t) * (span**2 + t * t)])
    return np.ascontiguousarray(np.real(np.fft.fft(np.fft.fftshift(f)))[n:0:-1] / (4 * n))


_TERMS = 40  # the series then has 15 digits for |q| < 7
_SERIES = _weideman(_TERMS)
_SPAN = float(np.sqrt(_TERMS / np.sqrt(2.0)))
_ROOT_HALF_PI = float(np.sqrt(np.pi / 2))
_ROOT_TWO_PI = float(np.sqrt(2 * np.pi))


@kernel(error_model="numpy")
def laplace_below(d: float, beta: float, s: Any) -> Any:
    """Laplace noise of scale beta.

    d <= 0: the excess below r is exponential. d > 0: the part below c is d plus an exponential, and between c and r the density
    is e^{-(d - y)/beta} / (2 beta), whose integral has a removable singularity at s beta = 1.
    """
    q = 1.0 / (1.0 + s * beta)
    bq = beta * q
    if d <= 0.0:
        head = 0.5 * np.exp(d / beta) * q
        return head, head * bq, 2.0 * head * bq * bq
    tail = np.exp(-s * d)
    head = 0.5 * tail * q
    x = d / beta - s * d
    g0, g1, g2 = _growth(x, np.exp(-d / beta) + 0.0 * s, tail)
    f = d / (2.0 * beta)
    return (
        head + f * g0,
        head * (d + bq) + f * d * g1,
        head * (d * d + 2.0 * bq * (d + bq)) + f * d * d * g2,
    )


@kernel(error_model="numpy")
def _growth(x: Any, head: Any, tail: Any) -> Any:
    """head * int_0^1 u^k e^{xu} du for k = 0, 1, 2, given tail = head e^x; by series where |x| < 0.2.

    The recurrence loses a factor 1/|x|^{k+1}: at most two digits here, in the second moment.
    """
    if abs(x) >= 0.2:
        inverse = 1.0 / x
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
def _mills(q: Any) -> Any:
    """I_k(q) = int_0^inf v^k e^{-v^2/2 - qv} dv for k = 0, 1, 2 and Re q >= 0.

    By parts I_1 = 1 - q I_0 and I_2 = I_0 - q I_1; for |q| > 10, where these cancel, the asymptotic series.
    """
    if abs(q) > 10.0:
        inverse = 1.0 / q
        square = inverse * inverse
        t0, t1, t2 = inverse, square, 2.0 * square * inverse
        i0, i1, i2 = t0, t1, t2
        for m in range(18):
            f = -square / (2.0 * (m + 1))
            t0 = t0 * f * ((2 * m + 1) * (2 * m + 2))
            t1 = t1 * f * ((2 * m + 2) * (2 * m + 3))
            t2 = t2 * f * ((2 * m + 3) * (2 * m + 4))
            i0, i1, i2 = i0 + t0, i1 + t1, i2 + t2
        return i0, i1, i2
    z = q * 0.7071067811865476
    inverse = 1.0 / (_SPAN + z)
    ratio = (_SPAN - z) * inverse
    p = _SERIES[0] + 0.0 * z
    for k in range(1, _TERMS):
        p = p * ratio + _SERIES[k]
    i0 = _ROOT_HALF_PI * (2.0 * p * inverse + 0.5641895835477563) * inverse
    i1 = 1.0 - q * i0
    return i0, i1, i0 - q * i1


@kernel(error_model="numpy")
def gaussian_below(d: float, sigma: float, s: Any) -> Any:
    """Normal noise of deviation sigma: sigma^k e^{-x^2/2} I_k(q) / sqrt(2 pi), x = d/sigma, q = s sigma - x.

    For Re q < 0 the whole line minus the mirror image.
    """
    x = d / sigma
    q = s * sigma - x
    if q.real >= 0.0:
        i0, i1, i2 = _mills(q)
        head = np.exp(-0.5 * x * x) / _ROOT_TWO_PI
        return head * i0, sigma * head * i1, sigma * sigma * head * i2
    i0, i1, i2 = _mills(-q)
    head = np.exp(-0.5 * x * x) / _ROOT_TWO_PI
    whole = np.exp(0.5 * s * sigma * (s * sigma - 2.0 * x))
    return (
        whole - head * i0,
        sigma * (head * i1 - whole * q),
        sigma * sigma * (whole * (q * q + 1.0) - head * i2),
    )


@kernel(error_model="numpy")
def below(noise: int, d: float, scale: float, s: Any) -> Any:
    """E[y^k e^{-sy}; y > 0] for k = 0, 1, 2, where y = d - noise."""
    if noise == LAPLACE:
        return laplace_below(d, scale, s)
    return gaussian_below(d, scale, s)
