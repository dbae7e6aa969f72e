"""Shares of S > 0: the mean, the mean square and the chance of 0 of each output, given the noise of all others.

Given the others, H their sum (`events`), A(r) = H - r - S_-i, S_-i the sum of their z: the own z = a (x + eta) runs with r:

    z < c0 = r0 + tau, A(r0) = tau    the output is 0; z = H(r) - S_-i, r > r0: g = r - z has the slope -(1 + 1/h), a corner at each event
    up to A(r1) = 0                   z = r + tau + (tau - A)/(s - 1): g rises by (h + 1)(s - 1)/(s + h), the output by s (h + 1)/(s + h)
    above                             r = r1; g = 0, the output rises by 1

Entities that are never cut add their number to h and their sum N to S, and nothing else: A is free of it. E over N by nodes.

E[g / S] is the sum over corners c of (slope above less slope below) E[(c - z)_+ / S]. With S_c = S at z = c and S_m = S at the mean of z

    c below the mean    v = (c - z)_+ : sum over k of E v^k / S_c^k
    c above             v = (z - c)_+ : - sum over k of (-1)^k E v^k / S_c^k, and all of E[(c - z)/S] = (c - mean) (1 + e)/S_m + e,
                        e = sum of mu_2l / S_m^2l

asymptotic series: their last term, the least, is what they leave. Squares: f = (output - P S)/S, as for releases, with
E[v^m / S^2] = sum over l of (l + 1) (-+)^l E v^(m + l) / S_c^(l + 2), m = 0 where f jumps. Corners with S below one scale of the own noise are
left out: they matter as rarely as S is negative.
"""

import math

import numpy as np
from numpy.typing import NDArray

from fairpost.compiled import kernel
from fairpost.engines.conditional.kernels.events import E, crossing, events, slope
from fairpost.engines.conditional.kernels.tails import DISCRETE_LAPLACE, SNAP, below, tail

Floats = NDArray[np.float64]
Places = NDArray[np.int64]
NOTHING = 1e-9
"""Of the first corner: later ones add up to no more than the last that is looked at."""
NARROW = 0.01
"""Scales: for squares a piece that is narrower, and may be steep, is a jump. The square of its slope would multiply what the series leave."""


@kernel(error_model="numpy")
def inverse_powers(S: float, nodes: Floats, last: int, J: Floats) -> float:
    """J[k] = E (S + N)^-k; returns S at the lowest node."""
    for k in range(last + 1):
        J[k] = 0.0
    for q in range(nodes.shape[1]):
        part, over = nodes[1, q], 1.0 / (S + nodes[0, q])
        for k in range(last + 1):
            J[k] += part
            part *= over
    return float(S + nodes[0, 0])


@kernel(error_model="numpy")
def series(t: Floats, a: float, J: Floats, sign: float, last: int) -> tuple[float, float]:
    """Sum over k >= 1 of sign^(k - 1) a^k t_k J_k, to its least term where that comes before the last, and that term."""
    total, power, least = 0.0, 1.0, np.inf
    for k in range(1, last + 1):
        power *= a
        term = power * t[k] * J[k]
        if term > least:
            break
        total += term if k % 2 == 1 or sign > 0 else -term
        least = term
    return total, least


@kernel(error_model="numpy")
def square_series(
    t: Floats, a: float, J: Floats, sign: float, last: int, P: float, under: tuple[float, float], over: tuple[float, float]
) -> float:  # fmt: skip
    """What a corner adds to E f^2: output less P S_c and slope of f below it and above it, with as many terms of 1/S each."""
    (out1, s1), (out2, s2) = under, over
    jump2, jump1 = sign * (out1 * out1 - out2 * out2), sign * 2.0 * P * (out1 - out2)
    bend2, bend1, bends = 2.0 * (out2 * s2 - out1 * s1), 2.0 * P * (s2 - s1), sign * (s1 * s1 - s2 * s2)
    total, power, least = 0.0, 1.0, np.inf
    for l in range(last - 1):
        two = power * a * a * t[l + 2] * J[l + 2]
        if (l + 1) * two > least:
            break
        least = (l + 1) * two
        term = bends * two + power * a * t[l + 1] * (bend2 * J[l + 2] - bend1 * J[l + 1])
        term += power * t[l] * (jump2 * J[l + 2] - jump1 * J[l + 1])
        total += (l + 1) * (term if l % 2 == 0 or sign > 0 else -term)
        power *= a
    return total


@kernel(error_model="numpy")
def one(
    i: int, z: Floats, x: float, a: float, P: float, rest: float, tau: float, s: float, guess: int, corners: Floats, at: Places,
    code: int, b: float, table: Floats, moments: Floats, nodes: Floats, last: int,
) -> tuple[float, float, float, float]:  # fmt: skip
    """E g / S, E f^2, P(output = 0) and the least terms of entity i; `rest` is the sum of all other z at N = 0."""
    t, J = np.empty(last + 1), np.empty(last + 1)
    starts, ends = at[i], at[z.size + i]
    p, r = crossing(corners, s, z[i], starts, ends, 1.0, tau, guess)
    c0, p0, mu = r + tau, p, a * x
    zero = below(code, b, table, c0 / a - x)
    # at the mean of z: (1 + e)/S_m and e
    whole, e = 0.0, 0.0
    for q in range(nodes.shape[1]):
        over = 1.0 / (rest + mu + nodes[0, q])
        o, part, term, power = over * over, 0.0, np.inf, 1.0
        for l in range(2, last + 1, 2):
            power *= a * a * o
            if moments[l] * power >= term:
                break
            term = moments[l] * power
            part += term
        whole += nodes[1, q] * over * (1.0 + part)
        e += nodes[1, q] * part
    mean, left, square, first = 0.0, 0.0, 0.0, 0.0
    # from c0 up
    ramp, room, c, f = tau > 0.0, tau, c0, -P * (rest + c0)
    h = slope(p, corners, s, starts, ends)
    of_g, of_f = -(1.0 + 1.0 / h) if h > 0.0 else -1.0, -P
    f_mean, f_slope, centred = f - of_f * (c - mu), of_f, c / a - x >= 0.0
    under, slope_under = f, of_f  # f below the corner, where pieces that are narrow have been left out
    while True:
        h = slope(p, corners, s, starts, ends)
        g_up, f_up, step, width, turn = 0.0, 1.0 - P, 0.0, np.inf, False
        if ramp:
            turn = p == 0 or room <= (h + 1.0) * (corners[E, p - 1] - r)
            step = room / (h + 1.0) if turn else corners[E, p - 1] - r
            width = step * (s + h) / (s - 1.0)
            g_up, f_up = (h + 1.0) * (s - 1.0) / (s + h), s * (h + 1.0) / (s + h) - P
        wide = width > NARROW * a * b
        y, S = c / a - x, rest + c
        sign = 1.0 if y < 0.0 else -1.0
        if inverse_powers(S, nodes, last, J) > a * b:
            tail(code, b, table, abs(y), last, t)
            value, least = series(t, a, J, sign, last)
            if y >= 0.0:
                value += (c - mu) * whole + e
            mean += (g_up - of_g) * value
            left += (g_up - of_g) * least
            if c == c0:
                first = abs((g_up - of_g) * value)
            if wide:
                square += square_series(t, a, J, sign, last, P, (under + P * S, slope_under), (f + P * S, f_up))
        of_g, of_f = g_up, f_up
        if not ramp:
            break
        if not centred and (c + width) / a - x >= 0.0:
            centred, f_slope = True, f_up if wide else slope_under
            f_mean = (f if wide else under) + f_slope * (mu - c)
        if code >= DISCRETE_LAPLACE and not wide:  # a whole number on it counts as below the next corner
            eta = math.floor((c + width) / a - x + SNAP)
            if eta > math.floor(y + SNAP):
                z_there = a * (x + eta)
                there = f + f_up * (z_there - c)
                if abs(z_there - c - width) > SNAP * a or sign > 0.0:
                    mass = below(code, b, table, eta) - below(code, b, table, eta - 1.0)
                    line = under + slope_under * (z_there - c)
                    inverse_powers(rest + z_there, nodes, last, J)
                    square += mass * (there * there - line * line) * J[2]
        under = f + f_up * width if wide else under + slope_under * width
        slope_under = f_up if wide else slope_under
        c, f, r = c + width, f + f_up * width, r + step
        if turn:
            ramp = False
        else:
            room, p = room - (h + 1.0) * step, p - 1
    if not centred:
        f_mean, f_slope = f + of_f * (mu - c), of_f
    for q in range(nodes.shape[1]):
        over, y = 1.0 / (rest + mu + nodes[0, q]), f_mean - P * nodes[0, q]
        power = nodes[1, q] * over * over
        for l in range(0, last - 1, 2):
            square += (l + 1) * power * (y * y * moments[l] + f_slope * f_slope * a * a * moments[l + 2])
            power *= a * over
            square -= 2 * (l + 2) * power * y * f_slope * a * moments[l + 2]
            power *= a * over
    # from c0 down
    p, c, r = p0, c0, c0 - tau
    h = slope(p, corners, s, starts, ends)
    while p > 0 and h > 0.0:
        c -= h * (corners[E, p - 1] - r)
        p, r, before = p - 1, corners[E, p - 1], h
        h = slope(p, corners, s, starts, ends)
        if h == 0.0:
            break
        if h == before:
            continue
        y = c / a - x
        if inverse_powers(rest + c, nodes, last, J) < a * b:
            break
        tail(code, b, table, abs(y), last, t)
        value, least = series(t, a, J, 1.0 if y < 0.0 else -1.0, last)
        if y >= 0.0:
            value += (c - mu) * whole + e
        mean += (1.0 / h - 1.0 / before) * value
        left += (1.0 / h - 1.0 / before) * least
        if value <= NOTHING * first:
            break
    return mean, square, zero, abs(left)


@kernel(error_model="numpy")
def points(
    eta: Floats, x: Floats, a: Floats, P: Floats, place: Places, lines: int, known: float, level: float, s: float,
    code: int, b: float, table: Floats, moments: Floats, nodes: Floats, last: int,
    g: Floats, square: Floats, zero: Floats, left: Floats, shift: Floats,
) -> None:  # fmt: skip
    """For each row of noise the sums over the entities of each place, and r; `lines` that are never cut have the sum known + N."""
    d = x.size
    size = 2 * d if level > 0.0 else d
    tau, z = level * a, np.empty(d)
    corners, at = np.empty((4, size + 1)), np.empty(2 * d, dtype=np.int64)
    for k in range(eta.shape[0]):
        z[:] = a * (x + eta[k])
        S = known + np.sum(z)
        events(z, tau, s, lines, corners, at)
        guess, shift[k] = crossing(corners, s, 0.0, size, size, 0.0, 0.0, size // 2)
        for i in range(d):
            j = place[i]
            mean, squared, none, least = one(
                i, z, x[i], a[i], P[j], S - z[i], tau[i], s, guess, corners, at,
                code, b, table, moments, nodes, last,
            )  # fmt: skip
            g[k, j] += mean
            square[k, j] += squared
            zero[k, j] += none
            left[k, j] += least
