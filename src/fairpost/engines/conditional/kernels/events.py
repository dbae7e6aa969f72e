"""H(r) = sum of phi_j(z_j - r) less the sum of all z: its corners from above, and where it crosses a line without one of its terms.

phi(u) = min(u, s (u - tau)_+) starts at the edge z - tau and is u from the top z - L, L = s tau / (s - 1), on; without a threshold both
are z. `lines` more terms z - r are never cut. Event k lies at corners[E, k], the highest first, where H is corners[H, k]. Piece p lies below p
events: there H falls by corners[FULL, p] + s corners[ON, p] for each unit of r, two whole numbers, so that the slope without one
entity is exact.

Less all z, H is - FULL r - (sum of z that are not full) + (what is on ramps): small numbers, however large the z in full are. What is on a ramp
is forgotten where nobody is, since a steep ramp multiplies the rounding of z.
"""

import numpy as np
from numpy.typing import NDArray

from fairpost.compiled import kernel

Floats = NDArray[np.float64]
Places = NDArray[np.int64]
E, FULL, ON, H = 0, 1, 2, 3


@kernel(error_model="numpy")
def events(z: Floats, tau: Floats, s: float, lines: float, corners: Floats, at: Places) -> None:
    """Into `corners`; at[i] and at[d + i] are the events at which i starts and is kept in full."""
    d, size = z.size, corners.shape[1] - 1
    raw = np.empty(size)
    for j in range(d):
        raw[j] = -(z[j] - tau[j])
        if size > d:
            raw[d + j] = -(z[j] - s * tau[j] / (s - 1.0))
    order = np.argsort(raw)
    full, on, ramps = lines, 0.0, 0.0
    corners[FULL, 0], corners[ON, 0] = full, on
    for k in range(size):
        e = order[k]
        corners[E, k] = -raw[e]
        at[e] = k
        if k > 0:
            ramps += s * on * (raw[e] - raw[order[k - 1]])
        if size == d:
            full += 1.0
            at[d + e] = k
        elif e < d:
            on += 1.0
        else:
            full, on = full + 1.0, on - 1.0
            ramps = ramps - s * (corners[E, at[e - d]] + raw[e]) if on > 0.0 else 0.0
        corners[FULL, k + 1], corners[ON, k + 1], corners[H, k] = full, on, ramps
    short = 0.0
    for k in range(size - 1, -1, -1):
        corners[H, k] -= corners[FULL, k + 1] * corners[E, k] + short
        if order[k] >= size - d:
            short += z[order[k] - (size - d)]


@kernel
def slope(p: int, corners: Floats, s: float, starts: int, ends: int) -> float:
    """How steeply H falls in piece p without the entity whose events these are."""
    full, on = corners[FULL, p], corners[ON, p]
    if p > ends:
        full -= 1.0
    elif p > starts:
        on -= 1.0
    return float(full + s * on)


@kernel
def without(k: int, corners: Floats, s: float, z: float, starts: int, ends: int, lam: float) -> float:
    """H - lam r at event k without the entity whose events these are."""
    r, value = corners[E, k], corners[H, k] - lam * corners[E, k]
    if k >= ends:
        return float(value + r)
    return float(value + z - s * (corners[E, starts] - r)) if k > starts else float(value + z)


@kernel(error_model="numpy")
def crossing(
    corners: Floats, s: float, z: float, starts: int, ends: int, lam: float, level: float, guess: int
) -> tuple[int, float]:
    """The piece and the r where `without` falls to `level`; events from the last on, with z = 0, take nobody out."""
    last = corners.shape[1] - 1
    # the first event k at which it is `level` or more: in steps that double from the guess, then by halves
    low, high, step = 0, last, 1
    k = min(guess, last - 1)
    if without(k, corners, s, z, starts, ends, lam) >= level:
        high = k
        while high - step >= 0:
            k = high - step
            if without(k, corners, s, z, starts, ends, lam) < level:
                low = k + 1
                break
            high, step = k, 2 * step
    else:
        low = k + 1
        while low + step < last:
            k = low + step
            if without(k, corners, s, z, starts, ends, lam) >= level:
                high = k
                break
            low, step = k + 1, 2 * step
    while low < high:
        k = (low + high) // 2
        if without(k, corners, s, z, starts, ends, lam) >= level:
            high = k
        else:
            low = k + 1
    k = max(low - 1, 0)
    fall = slope(low, corners, s, starts, ends) + lam
    r = corners[E, k] + (without(k, corners, s, z, starts, ends, lam) - level) / fall
    if low > 0:
        r = min(r, corners[E, low - 1])
    if low < last:
        r = max(r, corners[E, low])
    return low, r


@kernel
def phi(u: float, tau: float, s: float) -> float:
    """What the rule keeps of u."""
    return 0.0 if u <= tau else min(u, s * (u - tau))
