"""The law of H(m) = sum_j (X_j - m)_+ by contour integrals, in units of the noise scale (b = 1 or sigma = 1).

With p_j = (X_j - m)_+, c_j = m - x_j, d_j = max(-c_j, 0) and psi_j(s) = E[e^{s p_j}],

    P(H(m) > C) - 1{Re s < 0} = (1/2 pi i) int e^{-sC} prod_j psi_j(s) ds / s

along any line that crosses the real axis at tau (0 < tau for the first form, tau < 0 for the second). Every
factor is kept as e^{-s d_j} psi_j, which is near 1, and the sum of the d_j joins C in the exponent. Entities
that are never clipped ("giants") have e^{-sd} psi = E[e^{s eta}] and enter through their number alone: `rest`
is C less the sum of their counts.

`kind` is 0 for Laplace and 1 for Gaussian noise. `weight` says how often each x occurs (real: interpolation
nodes stand for many counts). Arrays in, arrays out; no checks.
"""

import math
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_ROOT2 = math.sqrt(2.0)
_ROOT_2PI = math.sqrt(2.0 * math.pi)
_DEEP = (600.0, 38.0)  # a clip point so far below the count that its probability underflows
_FAR = 10.0  # |q| beyond which the asymptotic series of `_mills` reaches 1e-15


def _weideman(n: int) -> tuple[float, Floats]:
    """The constants of Weideman's rational approximation of the Faddeeva function (SIAM J. Numer. Anal. 31, 1994)."""
    width = math.sqrt(n / _ROOT2)
    t = width * np.tan(np.arange(-2 * n + 1, 2 * n) * np.pi / (4 * n))
    f = np.concatenate([[0.0], np.exp(-t * t) * (width * width + t * t)])
    series = np.real(np.fft.fft(np.fft.fftshift(f))) / (4 * n)
    return width, np.ascontiguousarray(series[n:0:-1])


_WIDTH, _SERIES = _weideman(44)


@njit(cache=True, nogil=True, error_model="numpy")
def _mills(q: Any) -> Any:
    """I_0 = int_0^inf e^{-v^2/2 - qv} dv and I_1 = 1 - q I_0 for Re q >= 0, to 2e-14 of I_0."""
    if q.real * q.real + q.imag * q.imag > _FAR * _FAR:
        inverse = 1.0 / q
        square = inverse * inverse
        term, zeroth, first = inverse, 0j, 0j
        for k in range(18):
            zeroth += term
            term *= 2 * k + 1
            first += term
            term = -term * square
        return zeroth, first * inverse
    turned = q / _ROOT2  # w(iq / sqrt 2): -iz is q / sqrt 2
    pole = 1.0 / (_WIDTH + turned)
    ratio = (_WIDTH - turned) * pole
    twice = ratio * ratio
    even, odd = complex(_SERIES[1], 0.0), complex(_SERIES[0], 0.0)  # two chains of products run side by side
    for k in range(2, _SERIES.size, 2):
        odd = odd * twice + _SERIES[k]
        even = even * twice + _SERIES[k + 1]
    total = even + ratio * odd
    zeroth = math.sqrt(math.pi / 2) * pole * (2.0 * total * pole + 1.0 / math.sqrt(math.pi))
    return zeroth, 1.0 - q * zeroth


@njit(cache=True, nogil=True, error_model="numpy")
def _tails(kind: Any, c: Any) -> Any:
    """P(eta <= c), and the upper mass (Laplace: P(eta > c); Gaussian: the density at c)."""
    if kind == 0:
        half = 0.5 * math.exp(-abs(c))
        return (half, 1.0 - half) if c <= 0 else (1.0 - half, half)
    return 0.5 * math.erfc(-c / _ROOT2), math.exp(-0.5 * c * c) / _ROOT_2PI


@njit(cache=True, nogil=True, error_model="numpy")
def _log_below(kind: Any, c: Any) -> Any:
    """log P(eta <= c), also where the probability is below any double."""
    if kind == 1 and c < -30.0:
        square = 1.0 / (c * c)
        return -0.5 * c * c - math.log(-c * _ROOT_2PI) + math.log1p(-square * (1.0 - 3.0 * square))
    return c - math.log(2.0) if kind == 0 and c <= 0 else math.log(_tails(kind, c)[0])


@njit(cache=True, nogil=True, error_model="numpy")
def _whole(kind: Any, s: Any) -> Any:
    """The noise that is never clipped: M = E[e^{s eta}], log M and M'/M; and (Laplace) 1/(1 - s), 1/(1 + s)."""
    if kind == 0:
        up, down = 1.0 / (1.0 - s), 1.0 / (1.0 + s)
        return up * down, -np.log((1.0 - s) * (1.0 + s)), 2.0 * s * up * down, up, down
    return np.exp(0.5 * s * s), 0.5 * s * s, s, s, s


@njit(cache=True, nogil=True, error_model="numpy")
def _factor(kind: Any, c: Any, below: Any, above: Any, s: Any, whole: Any, mean: Any, up: Any, down: Any) -> Any:
    """E[e^{sp}], E[e^{sp}; p > 0] and E[p e^{sp}], all times e^{-lift}; e^{-lift}; and the lift, s d or 0.

    Laplace, c > 0: p is exponential with probability h = e^{-c}/2. c <= 0: the whole line, M = 1/(1 - s^2), less
    the part below c, h e^{-sd}/(1 + s) with h = e^c/2, which becomes h e^{-sd} at p = 0.
    Gaussian: density(c) I_k(c - s) from `_mills`, or the whole line, M = e^{s^2/2}, less its mirror image. There the
    lift is s d only where e^{sd} M is large: far out on a leaning contour it is not, and e^{-sd} would underflow.
    Where c is so low that clipping underflows, the whole line is left (and e^{-lift}, not to be used, is 0).
    """
    if c < -_DEEP[kind]:
        return whole, whole, whole * (mean - c), 0j, -s * c
    if kind == 0:
        if c > 0:
            part = above * up
            return 1.0 + s * part, part, part * up, 1.0 + 0j, 0j
        shift = np.exp(s * c)
        part = below * shift * down
        return whole + s * part, whole - part, whole * (mean - c) + part * down, shift, -s * c
    rise = s * (0.5 * s - c)
    lifted = c <= 0 and (rise.real > 0 or s.real < 0)
    shift, lift = (np.exp(s * c), -s * c) if lifted else (1.0 + 0j, 0j)
    q = c - s
    if q.real >= 0:
        zeroth, first = _mills(q)
        kept = shift * (above * zeroth)
        return shift * below + kept, kept, shift * (above * first), shift, lift
    zeroth, first = _mills(-q)
    line = whole if lifted else np.exp(rise)
    kept = line - shift * (above * zeroth)
    return kept + shift * below, kept, shift * (above * first) - q * line, shift, lift


@njit(cache=True, nogil=True, error_model="numpy")
def _polar(p: Any) -> Any:
    """log|p|, the angle, and 1/p (for p = 0: a mass below any double, and 0)."""
    square = p.real * p.real + p.imag * p.imag
    if 1e-200 < square < 1e200:
        return 0.5 * math.log(square), math.atan2(p.imag, p.real), p.conjugate() * (1.0 / square)
    size = abs(p)
    if size == 0.0:
        return -1000.0, 0.0, 0j
    return math.log(size), math.atan2(p.imag, p.real), (p.conjugate() * (1.0 / size)) * (1.0 / size)


@njit(cache=True, nogil=True, error_model="numpy")
def _product(kind: Any, m: Any, s: Any, x: Any, weight: Any, giants: Any, rest: Any, skip: Any) -> Any:
    """Real part of log(e^{-sC} prod psi_j), without `skip` copies of x[0]; and its derivative in s (real s only)."""
    log, slope = 0.0, 0.0
    whole, line, mean, up, down = _whole(kind, s)
    for j in range(x.size):
        copies = weight[j] - (skip if j == 0 else 0.0)
        c = m - x[j]
        below, above = _tails(kind, c)
        psi, _, first, _, lift = _factor(kind, c, below, above, s, whole, mean, up, down)
        log += copies * (_polar(psi)[0] + lift.real)
        slope += copies * first.real / psi.real
    return log + giants * (line.real - s.real * m) - s.real * rest, slope + giants * (mean.real - m) - rest


@njit(cache=True, nogil=True, error_model="numpy")
def saddle(
    kind: int, m: float, side: float, limit: float, x: Floats, weight: Floats, giants: float, rest: float, skip: float
) -> tuple[float, float, float]:
    """The saddle point tau on the given side of 0 of e^{-sC} prod psi_j / s, to 5 %; the curvature of its
    logarithm there; and the logarithm of the saddle-point estimate of |P(H > C) - 1{side < 0}| (or of P(H > 0)).

    The logarithm is convex in tau, so its slope has one root (or none below `limit`, where tau stays).
    """
    low, high = math.log(1e-9), math.log(limit)
    while high - low > 0.05:
        middle = 0.5 * (low + high)
        tau = math.exp(middle)
        _, slope = _product(kind, m, complex(side * tau, 0.0), x, weight, giants, rest, skip)
        if side * slope * tau > 1.0:
            high = middle
        else:
            low = middle
    tau = math.exp(0.5 * (low + high))
    value, slope = _product(kind, m, complex(side * tau, 0.0), x, weight, giants, rest, skip)
    _, nearer = _product(kind, m, complex(side * 0.999 * tau, 0.0), x, weight, giants, rest, skip)
    curvature = side * (slope - nearer) / (0.001 * tau) + 1.0 / (tau * tau)
    value -= math.log(tau) + 0.5 * math.log(2.0 * math.pi * curvature)
    if side > 0 and giants == 0.0:
        none = 0.0
        for j in range(x.size):
            if j > 0 or weight[0] > skip:
                none += (weight[j] - (skip if j == 0 else 0.0)) * _log_below(kind, m - x[j])
        value = min(value, math.log(-math.expm1(min(none, 0.0))))
    return side * tau, curvature, min(value, 0.0)


@njit(cache=True, nogil=True, error_model="numpy")
def _pole(tau: Any, scale: Any, bend: Any, step: Any) -> Any:
    """What the trapezoidal rule adds because of the pole at s = 0, for a function that is 1 there.

    On s(u), u = iv meets s = 0 at v = v0; the rule is off by sign(tau) / (e^{2 pi |v0| / step} - 1).
    """
    if bend < 0:
        v = tau / scale
    else:
        sine = (tau - bend * scale) / (scale * math.sqrt(1.0 + bend * bend))
        v = math.asin(sine) + math.atan(bend) if abs(sine) <= 1.0 else math.inf
    turns = 2.0 * math.pi * abs(v) / step
    return math.copysign(1.0 / math.expm1(turns), tau) if turns < 700.0 else 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def _contour(t: Any, tau: Any, scale: Any, bend: Any) -> Any:
    """s and ds/dt: a hyperbola that leaves the real axis upright and leans right, or (bend < 0) a line."""
    if bend < 0:
        return complex(tau, scale * t), complex(0.0, scale)
    grow, turn = math.cosh(t), math.sinh(t)
    return complex(tau + bend * scale * (grow - 1.0), scale * turn), complex(bend * scale * turn, scale * grow)


@njit(cache=True, nogil=True, error_model="numpy")
def invert(
    kind: int,
    spread: bool,
    m: Floats,
    tau: Floats,
    width: Floats,
    upright: NDArray[np.bool_],
    lean: float,
    step: float,
    cutoff: float,
    limit: int,
    x: Floats,
    weight: Floats,
    giants: float,
    rest: float,
    out: Floats,
    common: Floats,
) -> int:
    """Contour integrals at each m; returns the number of nodes.

    Deficits (`spread` false): out[k, i] = P(H_{-i}(m) > C) - 1{tau < 0}, H_{-i} without one copy of x[i].
    Spread: out[k, i] = E[(p_i - x_i) 1{p_i > 0} (1{H > C} - 1{tau < 0})]; common[k] holds P(H > C) - 1{tau < 0}
    and E[(eta - m) (1{H > C} - 1{tau < 0})] for a giant.

    `width` is the standard deviation of H under the tilt tau. Where the product has died out 10 widths up, the
    contour is upright; else some entities are likely to be clipped together, the product decays like a power of 1/s, and
    the contour leans right, where e^{-sC} decays: (`lean` is the tangent). `upright` forbids that: then a
    straight line with a smooth cut-off.
    """
    size = x.size
    c, below, above = np.empty(size), np.empty(size), np.empty(size)
    ratio = np.empty(size, np.complex128)
    nodes = 0
    for k in range(m.size):
        for j in range(size):
            c[j] = m[k] - x[j]
            below[j], above[j] = _tails(kind, c[j])
        foot, _ = _product(kind, m[k], complex(tau[k], 0.0), x, weight, giants, rest, 0.0)
        head, _ = _product(kind, m[k], complex(tau[k], 14.0 / width[k]), x, weight, giants, rest, 0.0)
        gap, scale, bend = step, 4.0 / width[k], 0.0
        if upright[k]:
            bend = -1.0
            scale = 2.0 * math.pi / (step * math.sqrt(0.2 / step) * max(14.0 * width[k], 40.0 / (1.0 - abs(tau[k]))))
        elif head - foot > -34.0:
            gap, scale, bend = 0.5 * step, 1.0 / width[k], lean
        largest, quiet = 0.0, 0
        most = int(limit * (0.2 / step) ** 2) if bend < 0 else int(80.0 / gap)
        for l in range(most):
            s, ds = _contour(l * gap, tau[k], scale, bend)
            whole, line, mean, up, down = _whole(kind, s)
            log = giants * (line - s * m[k]) - s * rest
            lift0, scale0 = 0j, 0j
            for j in range(size):
                p, kept, first, shift, lift = _factor(kind, c[j], below[j], above[j], s, whole, mean, up, down)
                size_now, angle, inverse = _polar(p)
                log += weight[j] * (complex(size_now, angle) + lift)
                if spread:
                    ratio[j] = (first - x[j] * kept) * inverse
                    continue
                if j == 0:
                    lift0 = lift
                    scale0 = np.exp(lift) if c[0] > -30.0 and abs(lift.real) < 300.0 else 0j
                ratio[j] = (shift * scale0 if scale0 != 0 else np.exp(lift0 - lift)) * inverse
            q = np.exp(log - lift0) / s * ds * (gap / math.pi)
            if l == 0:
                q *= 0.5
            if bend < 0:
                q *= 0.5 * math.erfc(22.0 * (l / most - 0.75))
            size_now = abs(q) if spread else 0.0
            if spread:
                common[k, 0] += q.imag
                common[k, 1] += (q * (mean - m[k])).imag
            for j in range(size):
                r = q * ratio[j]
                out[k, j] += r.imag
                if not spread and (j == 0 or below[j] > 0.0):
                    size_now = max(size_now, (abs(r.real) + abs(r.imag)) * (below[j] / below[0] if j > 0 else 1.0))
            nodes += 1
            largest = max(largest, size_now)
            quiet = quiet + 1 if size_now < cutoff * largest else 0
            if quiet == 2:
                break
        excess = _pole(tau[k], scale, bend, gap)
        common[k, 0] -= excess
        common[k, 1] += excess * m[k]
        for j in range(size):
            if spread:
                _, kept, first, _, _ = _factor(kind, c[j], below[j], above[j], 0j, 1.0 + 0j, 0j, 1.0 + 0j, 1.0 + 0j)
                out[k, j] -= excess * (first - x[j] * kept).real
            else:
                out[k, j] -= excess
    return nodes


@njit(cache=True, nogil=True, error_model="numpy")
def reach(kind: int, m: float, tau: float, value: float, x: Floats) -> float:
    """The largest log(P(eta <= m - x_j) |P(H_{-j} > C) - 1{tau < 0}|), given `value` for j = 0 from `saddle`."""
    best, reference = -math.inf, 0.0
    s = complex(tau, 0.0)
    whole, _, mean, up, down = _whole(kind, s)
    for j in range(x.size):
        c = m - x[j]
        below, above = _tails(kind, c)
        psi, _, _, _, lift = _factor(kind, c, below, above, s, whole, mean, up, down)
        log = math.log(psi.real) + lift.real
        if j == 0:
            reference = value + log
        best = max(best, _log_below(kind, c) + min(0.0, reference - log))
    return best


@njit(cache=True, nogil=True, error_model="numpy")
def moments(kind: int, m: float, x: Floats, weight: Floats) -> tuple[float, float, float]:
    """Weighted sums of E[p_j] - x_j, Var[p_j] and P(X_j > m).

    (x - m)_+ - x = -min(x, m) holds exactly, so counts of any size leave no rounding behind.
    """
    shift, variance, kept = 0.0, 0.0, 0.0
    for j in range(x.size):
        gap = abs(x[j] - m)
        if kind == 0:
            tail = 0.5 * math.exp(-gap)
            first, second, whole = tail, 2.0 * tail, 2.0
        else:
            tail, density = 0.5 * math.erfc(gap / _ROOT2), math.exp(-0.5 * gap * gap) / _ROOT_2PI
            first, whole = density - gap * tail, 1.0
            second = tail - gap * first
        if x[j] > m:  # the mirror image: p = gap + eta + (gap + eta)_-
            kept += weight[j] * (1.0 - tail)
            second = whole - second - 2.0 * gap * first
        else:
            kept += weight[j] * tail
        shift += weight[j] * (first - min(x[j], m))
        variance += weight[j] * max(second - first * first, 0.0)
    return shift, variance, kept
