"""One noisy count clipped at m, tilted by e^{sp}: p = (x + eta - m)_+, with b = 1 or sigma = 1.

c = m - x is the clip point on the noise scale and d = max(-c, 0). `kind` is None for Laplace, 1 for Gaussian noise: a type of its own each,
so that what one noise does not use is not compiled for it.
"""

import math
from typing import Any

import numpy as np

from fairpost.compiled import kernel
from fairpost.engines.closed.kernels.mills import first_two

_ROOT2 = math.sqrt(2.0)
_ROOT_2PI = math.sqrt(2.0 * math.pi)
_DEEP, _DEEP_NORMAL = 600.0, 38.0  # a clip point so far below the count that its probability underflows


@kernel(error_model="numpy")
def tails(kind: Any, c: Any) -> Any:
    """P(eta <= c), and P(eta > c) (Laplace) or the density at c (Gaussian)."""
    if kind is None:
        half = 0.5 * math.exp(-abs(c))
        return (half, 1.0 - half) if c <= 0 else (1.0 - half, half)
    return 0.5 * math.erfc(-c / _ROOT2), math.exp(-0.5 * c * c) / _ROOT_2PI


@kernel(error_model="numpy")
def log_below(kind: Any, c: Any) -> Any:
    """log P(eta <= c), also where the probability is below any double."""
    if kind is None:
        return c - math.log(2.0) if c <= 0 else math.log1p(-0.5 * math.exp(-c))
    if c < -30.0:
        square = 1.0 / (c * c)
        return -0.5 * c * c - math.log(-c * _ROOT_2PI) + math.log1p(-square * (1.0 - 3.0 * square))
    return math.log(tails(kind, c)[0])


@kernel(error_model="numpy")
def excess(kind: Any, gap: Any) -> Any:
    """P(eta > gap), E[(eta - gap)_+] and E[(eta - gap)_+^2] for gap >= 0."""
    if kind is None:
        tail = 0.5 * math.exp(-gap)
        return tail, tail, 2.0 * tail
    tail, density = 0.5 * math.erfc(gap / _ROOT2), math.exp(-0.5 * gap * gap) / _ROOT_2PI
    first = density - gap * tail
    return tail, first, tail - gap * first


@kernel(error_model="numpy")
def whole_line(kind: Any, s: Any) -> Any:
    """Noise that is never clipped: M = E[e^{s eta}], log M and M'/M; and (Laplace) 1/(1 - s), 1/(1 + s)."""
    if kind is None:
        up, down = 1.0 / (1.0 - s), 1.0 / (1.0 + s)
        return up * down, -np.log((1.0 - s) * (1.0 + s)), 2.0 * s * up * down, up, down
    return np.exp(0.5 * s * s), 0.5 * s * s, s, s, s


@kernel(error_model="numpy")
def factor(kind: Any, c: Any, below: Any, above: Any, s: Any, line: Any) -> Any:
    """E[e^{sp}], E[e^{sp}; p > 0] and E[p e^{sp}], all times e^{-lift}; e^{-lift}; and the lift, s d or 0.

    Laplace, c > 0: p is exponential with probability h = e^{-c}/2. c <= 0: the whole line, M = 1/(1 - s^2), less
    the part below c, h e^{-sd}/(1 + s) with h = e^c/2, which becomes h e^{-sd} at p = 0.
    Gaussian: density(c) I_k(c - s) from `mills`, or the whole line, M = e^{s^2/2}, less its mirror image. There the
    lift is 0 far out on a contour that leans right: e^{sd} M is small there, and e^{-sd} would underflow.
    Where c is so low that clipping underflows, the whole line is left (and e^{-lift}, not to be used, is 0).
    """
    whole, _, mean, up, down = line
    if kind is None:
        if c < -_DEEP:
            return whole, whole, whole * (mean - c), 0j, -s * c
        if c > 0:
            part = above * up
            return 1.0 + s * part, part, part * up, 1.0 + 0j, 0j
        shift = np.exp(s * c)
        part = below * shift * down
        return whole + s * part, whole - part, whole * (mean - c) + part * down, shift, -s * c
    if c < -_DEEP_NORMAL:
        return whole, whole, whole * (mean - c), 0j, -s * c
    rise = s * (0.5 * s - c)
    lifted = c <= 0 and (rise.real > 0 or s.real < 0)
    shift, lift = (np.exp(s * c), -s * c) if lifted else (1.0 + 0j, 0j)
    q = c - s
    if q.real >= 0:
        zeroth, first = first_two(q)
        kept = shift * (above * zeroth)
        return shift * below + kept, kept, shift * (above * first), shift, lift
    zeroth, first = first_two(-q)
    full = whole if lifted else np.exp(rise)
    kept = full - shift * (above * zeroth)
    return kept + shift * below, kept, shift * (above * first) - q * full, shift, lift


@kernel(error_model="numpy")
def polar(p: Any) -> Any:
    """log|p|, the angle, and 1/p (p = 0: a mass below any double, and 0)."""
    square = p.real * p.real + p.imag * p.imag
    if 1e-200 < square < 1e200:
        return 0.5 * math.log(square), math.atan2(p.imag, p.real), p.conjugate() * (1.0 / square)
    size = abs(p)
    if size == 0.0:
        return -1000.0, 0.0, 0j
    return math.log(size), math.atan2(p.imag, p.real), (p.conjugate() * (1.0 / size)) * (1.0 / size)
