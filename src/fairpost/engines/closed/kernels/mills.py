"""Mills' ratio and its moments, I_k(q) = int_0^inf v^k e^{-v^2/2 - qv} dv for Re q >= 0: what a normal tail is under a tilt.

I_0 = sqrt(pi/2) e^{q^2/2} erfc(q/sqrt 2); by parts I_1 = 1 - q I_0 and I_2 = I_0 - q I_1. For |q| > 10, where these cancel, the
asymptotic series sum_m (-1/2)^m (k + 2m)! / (m! q^{k + 2m + 1}). erfc of a complex number by Weideman's rational series. One form for
each need.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpost.compiled import kernel

FAR = 10.0
"""|q| beyond which the asymptotic series reaches 1e-15."""
ROOT = math.sqrt(math.pi / 2)
_HALF = 0.7071067811865476


def _weideman(n: int) -> tuple[float, NDArray[np.float64]]:
    """Width and coefficients of Weideman's series (SIAM J. Numer. Anal. 31, 1994) for e^{q^2} erfc(q), Re q >= 0."""
    width = math.sqrt(n / math.sqrt(2.0))
    t = width * np.tan(np.arange(1 - 2 * n, 2 * n) * np.pi / (4 * n))
    f = np.concatenate([[0.0], np.exp(-t * t) * (width * width + t * t)])
    return width, np.ascontiguousarray(np.real(np.fft.fft(np.fft.fftshift(f)))[n:0:-1] / (4 * n))


_WIDTH, _SERIES = _weideman(44)  # 15 digits for |q| < 7 from 40 on; an even number, two terms go at a time


@kernel(error_model="numpy")
def first_three(q: Any) -> Any:
    """I_0, I_1 and I_2 of a real or a complex q."""
    if abs(q) > FAR:
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
    z = q * _HALF
    inverse = 1.0 / (_WIDTH + z)
    ratio = (_WIDTH - z) * inverse
    p = _SERIES[0] + 0.0 * z
    for k in range(1, _SERIES.size):
        p = p * ratio + _SERIES[k]
    i0 = ROOT * (2.0 * p * inverse + 0.5641895835477563) * inverse
    i1 = 1.0 - q * i0
    return i0, i1, i0 - q * i1


@kernel(error_model="numpy")
def of_real(q: float) -> tuple[float, float, float]:
    """I_0, I_1 and I_2 of a real q."""
    if q <= FAR:
        j0 = ROOT * math.exp(0.5 * q * q) * math.erfc(q * _HALF)
        j1 = 1.0 - q * j0
        return j0, j1, j0 - q * j1
    v = 1.0 / q
    t0, t1, t2 = v, v * v, 2.0 * v * v * v
    j0, j1, j2 = 0.0, 0.0, 0.0
    for m in range(20):
        j0, j1, j2 = j0 + t0, j1 + t1, j2 + t2
        half = -v * v / (2.0 * (m + 1))
        t0 *= half * (2 * m + 1) * (2 * m + 2)
        t1 *= half * (2 * m + 2) * (2 * m + 3)
        t2 *= half * (2 * m + 3) * (2 * m + 4)
    return j0, j1, j2
