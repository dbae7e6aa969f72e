"""Shares where S may have either sign: the mean, the mean square and the chance of 0 of each, given the noise of all others.

For S < 0 the rule works on -z; for S = 0, which whole numbers can do, the share is a_i / sum a. On either side the share is o + slope (w - c)/S
in pieces of the own z = w (`shares`): 0 up to c0, then the ramp, then with slope 1. With e = (w - c)/S above a corner c, where the share is o,

    E share = sum over corners of (change of slope) E e,    E share^2 = sum of 2 o (change) E e + (change of (slope - o)^2) E e^2.

Near S = 0 there is no series for 1/S. But with y = eta - d, d the corner in the own noise, and k = S_c/a >= 0 it is e = y/(k + y), and

    E e = P - k R,   E e^2 = P - 2 k R + k^2 R_2,     P = P(y > 0),   R_m = E[(k + y)^-m; y > 0].

Laplace noise (in its scale; D = -d > 0: the peak is above the corner, K = k + D), M = e^k E_1(k) and N = e^-k Ei(k) by Hermite's interpolation:

    D < 0     R = e^-d M(k)/2                 R_2 = e^-d (1/k - M(k))/2
    D >= 0    R = (M(K) + G)/2                R_2 = (G - M(K) + e^-D/k)/2       G = N(K) - e^-D N(k)

Gaussian noise: Gauss-Legendre, for k < 1 from y = 1 on only. Below, phi(d + y) is its Taylor series, c_m y^m with (m + 1) c_{m+1} =
-(d c_m + c_{m-1}), against int_0^1 y^m/(k + y) dy = 1/m - k (the same of m - 1), and R_2 = phi(d)/k - P - (d - k) R by parts.

Whole numbers: term by term until k + y is NEAR; then Euler's and Maclaurin's sum from half a unit below, and where the peak of discrete Laplace
noise is still ahead, what its kink adds. Up to spreads of SMALL all terms. All of these err by less than 1e-7 (tests).
"""

import math

import numpy as np
from numpy.typing import NDArray

from fairpost.compiled import kernel
from fairpost.engines.conditional.kernels.events import E, crossing, events, slope
from fairpost.engines.conditional.kernels.tails import DISCRETE_LAPLACE, GAUSSIAN, LAPLACE, SNAP, below

Floats = NDArray[np.float64]
Places = NDArray[np.int64]
Three = tuple[float, float, float]
ROUNDED = 2.0**-45
"""Of the sum of all |z|: what rounding leaves of S = 0."""
LOW, STEP, HIGH = -21.0, 0.02, 6.0
"""Of log k: where M and N are tabulated; above, their asymptotic series, below, k M and k N are 0."""
REACH = 6.5
"""Deviations of a Gaussian that are integrated."""
NEAR, SMALL = 8.0, 4.0
NOTHING = 1e-12
NARROW = 0.01
"""Scales: a piece that is narrower, and may be steep, is added up by itself: there is at most one whole number, or a trapezium is enough."""
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)
_DENSITY = 1 / math.sqrt(2 * math.pi)


@kernel(error_model="numpy")
def _exponential(k: float, grid: Floats) -> tuple[float, float]:
    """K M(k) and k N(k); `grid` has them and their slopes in log k."""
    at = (math.log(k) - LOW) / STEP if k > 0.0 else -1.0
    if at < 0.0:
        return 0.0, 0.0
    j = int(at)
    if j >= grid.shape[1] - 1:
        v = 1.0 / k
        return 1.0 - v * (1.0 - v * (2.0 - v * (6.0 - 24.0 * v))), 1.0 + v * (1.0 + v * (2.0 + v * (6.0 + 24.0 * v)))
    u = at - j
    w = 1.0 - u
    p, q, f, g = w * w * (1.0 + 2.0 * u), u * u * (1.0 + 2.0 * w), STEP * u * w * w, -STEP * u * u * w
    return (
        p * grid[0, j] + q * grid[0, j + 1] + f * grid[1, j] + g * grid[1, j + 1],
        p * grid[2, j] + q * grid[2, j + 1] + f * grid[3, j] + g * grid[3, j + 1],
    )


@kernel(error_model="numpy")
def _laplace(k: float, d: float, grid: Floats) -> tuple[float, float]:
    """K R and k^2 R_2 in units of the scale."""
    m, n = _exponential(k, grid)
    if d >= 0.0:
        half = 0.5 * math.exp(-d)
        return half * m, half * k * (1.0 - m)
    fall, part = math.exp(d), k / (k - d)
    far, peak = _exponential(k - d, grid)
    rise = part * peak - fall * n
    return 0.5 * (part * far + rise), 0.5 * k * (rise - part * far + fall)


@kernel(error_model="numpy")
def _gaussian(k: float, d: float) -> tuple[float, float]:
    """K R and k^2 R_2 in units of the deviation."""
    start, one, two = max(0.0, -REACH - d), 0.0, 0.0
    density = _DENSITY * math.exp(-0.5 * d * d)
    if k < 1.0:
        start = max(1.0, start)
        c, before = density, 0.0
        moment = math.log1p(1.0 / k) if k > 0.0 else 0.0
        for m in range(26):
            one += c * moment
            c, before = -(d * c + before) / (m + 1), c
            moment = 1.0 / (m + 1) - k * moment
    wide = REACH - d - start
    if wide > 0.0:
        for q in range(_NODES.size):
            y = start + wide * 0.5 * (1.0 + _NODES[q])
            part = _DENSITY * wide * 0.5 * _WEIGHTS[q] * math.exp(-0.5 * (d + y) * (d + y)) / (k + y)
            one += part
            two += part / (k + y)
    if k < 1.0:
        two = density / k - 0.5 * math.erfc(d * math.sqrt(0.5)) - (d - k) * one if k > 0.0 else 0.0
    return k * one, k * k * two


@kernel(error_model="numpy")
def _slopes(r: float, l1: float, l2: float, l3: float) -> tuple[float, float]:
    """F'/24 - 7 f'''/5760 over the density for f = density/Y and density/Y^2; r = 1/Y, l the density's derivatives over it."""
    one = (l1 - r) / 24.0 - 7.0 * (l3 - 3.0 * l2 * r + 6.0 * l1 * r * r - 6.0 * r**3) / 5760.0
    two = (l1 - 2.0 * r) / 24.0 - 7.0 * (l3 - 6.0 * l2 * r + 18.0 * l1 * r * r - 24.0 * r**3) / 5760.0
    return r * one, r * r * two


@kernel(error_model="numpy")
def _whole(code: int, b: float, table: Floats, grid: Floats, k: float, d: float) -> tuple[float, float]:
    """K R and k^2 R_2 of whole numbers."""
    laplace = code == DISCRETE_LAPLACE
    far = 30.0 * b if laplace else 9.0 * b + 1.0
    eta = max(math.floor(d + SNAP) + 1.0, -math.ceil(far))
    top = math.tanh(0.5 / b) if laplace else table[0, 0] - table[1, 0]
    one, two = 0.0, 0.0
    while eta <= far and (b <= SMALL or k + eta - d < NEAR):
        p = top * math.exp(-abs(eta) / b if laplace else -0.5 * (eta / b) ** 2)
        r = 1.0 / (k + eta - d)
        one += p * r
        two += p * r * r
        eta += 1.0
    if b > SMALL and eta <= far:
        c = eta - 0.5
        Y = k + c - d
        t = c / b
        if laplace:
            first, second = _laplace(Y / b, t, grid)
            smooth = 2.0 * b * top
            l = -math.copysign(1.0 / b, c)
            l1, l2, l3 = l, l * l, l**3
            p = top * math.exp(-abs(t))
        else:
            first, second = _gaussian(Y / b, t)
            smooth = top * b / _DENSITY
            l1, l2, l3 = -t / b, (t * t - 1.0) / (b * b), (3.0 * t - t**3) / b**3
            p = top * math.exp(-0.5 * t * t)
        once, twice = _slopes(1.0 / Y, l1, l2, l3)
        one += smooth * first / Y + p * once
        two += smooth * second / (Y * Y) + p * twice
        if laplace and c < 0.0:  # (f'(-0) - f'(+0))/12 and less the third derivatives' part of 720
            r = 1.0 / (k - d)
            kink = 2.0 / b
            one += top * r * (kink / 12.0 - (kink / (b * b) + 6.0 * kink * r * r) / 720.0)
            two += top * r * r * (kink / 12.0 - (kink / (b * b) + 18.0 * kink * r * r) / 720.0)
    return k * one, k * k * two


@kernel(error_model="numpy")
def above(code: int, b: float, table: Floats, grid: Floats, k: float, d: float) -> Three:
    """P(y > 0), E e and E e^2."""
    p = 1.0 - below(code, b, table, d)
    if p < NOTHING:
        return p, 0.0, 0.0
    if code == LAPLACE:
        one, two = _laplace(k / b, d / b, grid)
    elif code == GAUSSIAN:
        one, two = _gaussian(k / b, d / b)
    else:
        one, two = _whole(code, b, table, grid, k, d)
    return p, max(p - one, 0.0), max(p - 2.0 * one + two, 0.0)


@kernel(error_model="numpy")
def side(
    i: int, z: Floats, x: float, a: float, rest: float, tau: float, s: float, guess: int, corners: Floats, at: Places,
    code: int, b: float, table: Floats, grid: Floats,
) -> tuple[float, float, float, float]:  # fmt: skip
    """E share, E share^2, P(share = 0) and P where S > 0; `rest` is the sum of all other z."""
    starts, ends = at[i], at[z.size + i]
    p, r = crossing(corners, s, z[i], starts, ends, 1.0, tau, guess)
    c, ramp, room, held = r + tau, tau > 0.0, tau, 0.0
    positive = 1.0 - below(code, b, table, -rest / a - x)
    over, one, two = above(code, b, table, grid, max(rest + c, 0.0) / a, c / a - x)
    mean, square, zero, o, under = 0.0, 0.0, max(positive - over, 0.0), 0.0, 0.0
    p1, p2, p3 = over, one, two  # at the corner up to which all is added up: o the share, `under` the slope below it
    while True:
        h = slope(p, corners, s, starts, ends)
        rise, width, step, turn = 1.0, np.inf, 0.0, False
        if ramp:
            turn = p == 0 or room <= (h + 1.0) * (corners[E, p - 1] - r)
            step = room / (h + 1.0) if turn else corners[E, p - 1] - r
            rise, width = s * (h + 1.0) / (s + h), step * (s + h) / (s - 1.0)
        here = held / (rest + c) if rest + c > 0.0 else 0.0
        wide = over < NOTHING or width > a * min(NARROW * b, 0.5)
        if wide:
            mean += here * over + (rise - here) * one - o * p1 - (under - o) * p2
            square += here * here * over + 2.0 * here * (rise - here) * one + (rise - here) ** 2 * two
            square -= o * o * p1 + 2.0 * o * (under - o) * p2 + (under - o) ** 2 * p3
        if not ramp or over < NOTHING:
            return mean, square, zero, positive
        end, before = rest + c + width, over
        c, r, held = c + width, r + step, held + rise * width
        over, one, two = above(code, b, table, grid, max(rest + c, 0.0) / a, c / a - x)
        then = held / end if end > 0.0 else 0.0
        if wide:
            o, under, p1, p2, p3 = then, rise, over, one, two
        elif code < DISCRETE_LAPLACE:
            mean += 0.5 * (here + then) * (before - over)
            square += 0.5 * (here * here + then * then) * (before - over)
        elif before > over:
            w = a * (x + math.floor(c / a - x + SNAP))
            share = (held - rise * (c - w)) / (rest + w)
            mean += share * (before - over)
            square += share * share * (before - over)
        if turn:
            ramp = False
        else:
            room, p = room - (h + 1.0) * step, p - 1


@kernel(error_model="numpy")
def points(
    eta: Floats, x: Floats, a: Floats, P: Floats, place: Places, level: float, s: float,
    code: int, b: float, table: Floats, grid: Floats, share: Floats, square: Floats, zero: Floats, negative: Floats,
) -> None:  # fmt: skip
    """Sums over the entities of each place of E share, E (share - P)^2 and P(share = 0); the mean over entities of P(S <= 0)."""
    d = x.size
    size = 2 * d if level > 0.0 else d
    tau, whole = level * a, np.sum(a)
    z, turned = np.empty(d), np.empty(d)
    corners, opposite = np.empty((4, size + 1)), np.empty((4, size + 1))
    at, at_opposite = np.empty(2 * d, dtype=np.int64), np.empty(2 * d, dtype=np.int64)
    for k in range(eta.shape[0]):
        z[:] = a * (x + eta[k])
        S, least, both = np.sum(z), ROUNDED * np.sum(np.abs(z)), False
        events(z, tau, s, 0.0, corners, at)
        guess, _ = crossing(corners, s, 0.0, size, size, 0.0, 0.0, size // 2)
        for i in range(d):
            rest, j = S - z[i], place[i]
            if abs(rest) <= least:
                rest = 0.0
            up, up2, up0, sure = side(i, z, x[i], a[i], rest, tau[i], s, guess, corners, at, code, b, table, grid)
            down, down2, down0, other = 0.0, 0.0, 0.0, 0.0
            if 1.0 - sure > NOTHING:
                if not both:
                    both = True
                    turned[:] = -z
                    events(turned, tau, s, 0.0, opposite, at_opposite)
                down, down2, down0, other = side(
                    i, turned, -x[i], a[i], -rest, tau[i], s, size // 2, opposite, at_opposite, code, b, table, grid
                )
            mean, none = up + down, max(1.0 - sure - other, 0.0) if code >= DISCRETE_LAPLACE else 0.0
            part = a[i] / whole
            mean += none * part
            share[k, j] += mean
            square[k, j] += max(up2 + down2 + none * part * part - 2.0 * P[j] * mean + P[j] * P[j], 0.0)
            zero[k, j] += up0 + down0
            negative[k] += (1.0 - sure) / d
