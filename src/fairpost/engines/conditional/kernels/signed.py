"""Shares where S may have either sign: the others drawn, the own noise at points that are spread evenly over its law.

For S < 0 the rule works on -z; for S = 0, which whole numbers can do, the share is a_i / sum a. On either side the share is a function of the
own z with few pieces (`shares`): 0 below c0, on the ramp from c0 to z1, (z - r1)/S above. Near S = 0 there is no series for 1/S, so that
the own noise is not integrated but averaged over.
"""

import numpy as np
from numpy.typing import NDArray

from fairpost.compiled import kernel
from fairpost.engines.conditional.kernels.events import E, crossing, events, slope

Floats = NDArray[np.float64]
Places = NDArray[np.int64]
ROUNDED = 2.0**-45
"""Of the sum of all |z|: what rounding leaves of S = 0."""
DUST = 1e-12
"""Of the sum of all shares: what rounding leaves of 0."""


@kernel(error_model="numpy")
def side(
    i: int,
    w: Floats,
    rest: float,
    z: Floats,
    tau: float,
    s: float,
    corners: Floats,
    at: Places,
    least: float,
    out: Floats,
) -> None:
    """The share of entity i for each of its own w, ascending, where rest + w > least; z holds its drawn one."""
    starts, ends = at[i], at[z.size + i]
    p, r = crossing(corners, s, z[i], starts, ends, 1.0, tau, corners.shape[1] // 2)
    c, ramp, room, held = r + tau, tau > 0.0, tau, 0.0
    for q in range(w.size):
        whole = rest + w[q]
        if whole <= least:
            continue
        while ramp and w[q] > c:  # to the end of the piece that holds w, or of the ramp
            h = slope(p, corners, s, starts, ends)
            turn = p == 0 or room <= (h + 1.0) * (corners[E, p - 1] - r)
            step = room / (h + 1.0) if turn else corners[E, p - 1] - r
            width, rise = step * (s + h) / (s - 1.0), s * (h + 1.0) / (s + h)
            if w[q] <= c + width:
                break
            c, r, held = c + width, r + step, held + rise * width
            if turn:
                ramp = False
            else:
                room, p = room - (h + 1.0) * step, p - 1
        if w[q] <= c:
            out[q] = 0.0
        elif ramp:
            out[q] = (held + rise * (w[q] - c)) / whole
        else:
            out[q] = (w[q] - r) / whole


@kernel(error_model="numpy")
def points(
    eta: Floats, own: Floats, mass: Floats, x: Floats, a: Floats, P: Floats, place: Places, level: float, s: float,
    share: Floats, square: Floats, zero: Floats,
) -> None:  # fmt: skip
    """Sums over the entities of each place of E share, E (share - P)^2 and P(share = 0); own[k, i] are own noises, ascending."""
    d, many = x.size, own.shape[2]
    size = 2 * d if level > 0.0 else d
    tau, whole = level * a, np.sum(a)
    z, turned, w, out = np.empty(d), np.empty(d), np.empty(many), np.empty(many)
    corners, opposite = np.empty((4, size + 1)), np.empty((4, size + 1))
    at, at_opposite = np.empty(2 * d, dtype=np.int64), np.empty(2 * d, dtype=np.int64)
    for k in range(eta.shape[0]):
        z[:] = a * (x + eta[k])
        turned[:] = -z
        S, least = np.sum(z), ROUNDED * np.sum(np.abs(z))
        events(z, tau, s, 0.0, corners, at)
        events(turned, tau, s, 0.0, opposite, at_opposite)
        for i in range(d):
            rest, j = S - z[i], place[i]
            w[:] = a[i] * (x[i] + own[k, i])
            out[:] = a[i] / whole
            if rest + w[many - 1] > least:
                side(i, w, rest, z, tau[i], s, corners, at, least, out)
            if rest + w[0] < -least:
                w[:] = -w[::-1].copy()
                out[:] = out[::-1].copy()
                side(i, w, -rest, turned, tau[i], s, opposite, at_opposite, least, out)
                out[:] = out[::-1].copy()
            for q in range(many):
                share[k, j] += mass[k, i, q] * out[q]
                square[k, j] += mass[k, i, q] * (out[q] - P[j]) ** 2
                if out[q] <= DUST:
                    zero[k, j] += mass[k, i, q]
