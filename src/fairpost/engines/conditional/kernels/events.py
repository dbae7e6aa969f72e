"""H(r) = sum of phi_j(z_j - r): its corners from above, and where it crosses a line without one of its terms.

phi(u) = min(u, s (u - tau)_+) starts at the edge z - tau and is u from the top L = s tau / (s - 1) on; without a threshold both are z.
Piece p lies below p events: r from E[p] to E[p - 1]. There H falls by full[p] + s on[p] for each unit of r, `full` and `on` being whole numbers, so that the
slope without one entity is exact. H[p] is the value at E[p]; what is on a ramp is added up by itself and forgotten at its top, since a steep ramp
multiplies the rounding of z.
"""

import numpy as np
from numpy.typing import NDArray

from fairpost.compiled import kernel

Floats = NDArray[np.float64]
Places = NDArray[np.int64]


@kernel
def phi(u: float, tau: float, s: float) -> float:
    """What the rule keeps of u."""
    return 0.0 if u <= tau else min(u, s * (u - tau))


@kernel(error_model="numpy")
def events(
    z: Floats,
    tau: Floats,
    s: float,
    lines: float,
    offset: float,
    E: Floats,
    full: Floats,
    on: Floats,
    H: Floats,
    at: Places,
) -> None:
    """Into E, full, on, H; at[i] and at[d + i] are the events at which i starts and is kept in full.

    `lines` more terms z - r are never cut; offset is the sum of their z.
    """
    d, size = z.size, E.size
    raw = np.empty(size)
    for j in range(d):
        raw[j] = -(z[j] - tau[j])
        if size > d:
            raw[d + j] = -(z[j] - s * tau[j] / (s - 1.0))
    order = np.argsort(raw)
    full[0], on[0] = lines, 0.0
    whole, partly = offset + lines * raw[order[0]], 0.0
    for k in range(size):
        e = order[k]
        E[k] = -raw[e]
        at[e] = k
        if k > 0:
            whole += full[k] * (E[k - 1] - E[k])
            partly += s * on[k] * (E[k - 1] - E[k])
        full[k + 1], on[k + 1] = full[k], on[k]
        if size == d:
            full[k + 1] += 1.0
            at[d + e] = k
        elif e < d:
            on[k + 1] += 1.0
        else:
            full[k + 1] += 1.0
            on[k + 1] -= 1.0
            whole += z[e - d] - E[k]
            partly = partly - s * (E[at[e - d]] - E[k]) if on[k + 1] > 0.0 else 0.0
        H[k] = whole + partly


@kernel
def slope(p: int, full: Floats, on: Floats, s: float, starts: int, ends: int) -> float:
    """Of H in piece p, without the entity whose events these are."""
    if p > ends:
        return full[p] - 1.0 + s * on[p]
    return full[p] + s * (on[p] - 1.0) if p > starts else full[p] + s * on[p]


@kernel
def without(k: int, E: Floats, H: Floats, s: float, z: float, starts: int, ends: int, lam: float) -> float:
    """H - lam r at E[k] without the entity whose events these are."""
    value = H[k] - lam * E[k]
    if k >= ends:
        return value - (z - E[k])
    return value - s * (E[starts] - E[k]) if k > starts else value


@kernel(error_model="numpy")
def crossing(
    E: Floats,
    full: Floats,
    on: Floats,
    H: Floats,
    s: float,
    z: float,
    starts: int,
    ends: int,
    lam: float,
    level: float,
    guess: int,
) -> tuple[int, float]:
    """The piece and the r where H(r) - lam r without the entity whose events these are falls to `level`; events beyond the last take nobody out."""
    last = E.size
    # the first event k at which the value is `level` or more: in steps that double from the guess, then by halves
    low, high, step = 0, last, 1
    k = min(guess, last - 1)
    if without(k, E, H, s, z, starts, ends, lam) >= level:
        high = k
        while high - step >= 0:
            k = high - step
            if without(k, E, H, s, z, starts, ends, lam) < level:
                low = k + 1
                break
            high, step = k, 2 * step
    else:
        low = k + 1
        while low + step < last:
            k = low + step
            if without(k, E, H, s, z, starts, ends, lam) >= level:
                high = k
                break
            low, step = k + 1, 2 * step
    while low < high:
        k = (low + high) // 2
        if without(k, E, H, s, z, starts, ends, lam) >= level:
            high = k
        else:
            low = k + 1
    k = max(low - 1, 0)
    r = E[k] + (without(k, E, H, s, z, starts, ends, lam) - level) / (slope(low, full, on, s, starts, ends) + lam)
    if low > 0:
        r = min(r, E[low - 1])
    if low < last:
        r = max(r, E[low])
    return low, r
