"""Releases: the mean, the mean square and the chance of 0 of each output, given the noise of all others.

Given the others, with H their sum (`events`), C the total and L the top of a ramp, the own z runs with r:

    z < c0 = r0 + tau, H(r0) = C    the output is 0 and r stays; g = r - z
    up to H(r1) = C - L             z = r + tau + (C - H)/s: g rises by h (s - 1)/(s + h), the output by s h/(s + h), h = -H'
    above                           z = r + C - H: g = 0, the output rises by h/(1 + h)

(C < L has no top: where H ends g stays at C (1 - 1/s) - tau.) Both are piecewise linear in z: E g is the sum over corners c of (slope above
less slope below) E(c - z)_+; with f = output - x, E f^2 is that of the line at the mean of z and, for each corner, v the distance beyond
it, 2 f(c) (change of slope) E v + (change of slope^2) E v^2.
"""

import numpy as np
from numpy.typing import NDArray

from fairpost.compiled import kernel
from fairpost.engines.conditional.kernels.events import E, crossing, events, slope
from fairpost.engines.conditional.kernels.tails import below, tail

Floats = NDArray[np.float64]
Places = NDArray[np.int64]
NOTHING = 1e-17
"""Deviations that a corner can add where nothing is left of it."""


@kernel(error_model="numpy")
def one(
    i: int, z: Floats, x: float, C: float, missing: float, tau: float, s: float, guess: int, corners: Floats, at: Places,
    code: int, b: float, table: Floats, variance: float,
) -> tuple[float, float, float]:  # fmt: skip
    """E g, E f^2 and P(output = 0) of entity i; `missing` is C less the sum of all z."""
    t = np.empty(3)
    starts, ends = at[i], at[z.size + i]
    p, r = crossing(corners, s, z[i], starts, ends, 0.0, missing + z[i], guess)
    ramp = tau > 0.0
    left = s * tau / (s - 1.0) if ramp else 0.0
    c, f = r + tau, -x
    of_g, of_f = -1.0, 0.0  # slopes below the corner
    mean, square, centred = 0.0, 0.0, c - x >= 0.0
    if centred:
        square = x * x
    zero = below(code, b, table, c - x)
    while True:
        h = slope(p, corners, s, starts, ends)
        g_up = h * (s - 1.0) / (s + h) if ramp else 0.0
        f_up = s * h / (s + h) if ramp else h / (1.0 + h)
        y = c - x
        if g_up != of_g or f_up != of_f:
            tail(code, b, table, abs(y), 2, t)
            mean += (g_up - of_g) * (t[1] + max(y, 0.0))
            square += 2.0 * f * (f_up - of_f) * t[1] + (f_up * f_up - of_f * of_f) * (t[2] if y >= 0.0 else -t[2])
            if not ramp and y > 0.0 and t[1] < NOTHING * b:
                break
        of_g, of_f = g_up, f_up
        turn = ramp and h > 0.0 and (p == 0 or left <= h * (corners[E, p - 1] - r))
        if h == 0.0 and ramp:
            mean += C * (1.0 - 1.0 / s) - tau
        if h == 0.0 or (p == 0 and not turn):
            if not centred:
                at_mean = f + f_up * (x - c)
                square += at_mean * at_mean + f_up * f_up * variance
            break
        step = left / h if turn else corners[E, p - 1] - r
        width = step * (1.0 + (h / s if ramp else h))
        if not centred and c + width - x >= 0.0:
            centred, at_mean = True, f + f_up * (x - c)
            square += at_mean * at_mean + f_up * f_up * variance
        c, f, r = c + width, f + f_up * width, r + step
        if turn:
            ramp = False
        else:
            left, p = left - h * step, p - 1
    return mean, square, zero


@kernel(error_model="numpy")
def points(
    eta: Floats, x: Floats, place: Places, missing: Floats, lines: int, C: float, level: float, s: float,
    code: int, b: float, table: Floats, variance: float, g: Floats, square: Floats, zero: Floats, shift: Floats,
) -> None:  # fmt: skip
    """For each row of noise the sums over the entities of each place, and r.

    `missing` is C less all true counts and less the sum of the noise of `lines` that are never cut.
    """
    d = x.size
    size = 2 * d if level > 0.0 else d
    tau, z = np.full(d, level), np.empty(d)
    corners, at = np.empty((4, size + 1)), np.empty(2 * d, dtype=np.int64)
    for k in range(eta.shape[0]):
        z[:] = x + eta[k]
        events(z, tau, s, lines, corners, at)
        short = missing[k] - np.sum(eta[k])
        guess, shift[k] = crossing(corners, s, 0.0, size, size, 0.0, short, size // 2)
        for i in range(d):
            mean, squared, none = one(
                i, z, x[i], C, short, level, s, guess, corners, at, code, b, table, variance
            )  # fmt: skip
            g[k, place[i]] += mean
            square[k, place[i]] += squared
            zero[k, place[i]] += none
