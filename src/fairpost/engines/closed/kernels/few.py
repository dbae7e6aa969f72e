"""The rule with few entities that may be clipped and many that are kept, along the sum of the noises of those that are kept.

All kept, out_j = z_j - r. With out = phi(z_j - r) for the few and N the sum of the others' noises, N = nu(r) = start + n_s r - sum phi(z_j - r)
rises with r, in straight pieces: from the top of a ramp (r = z_j - top_j) an entity is on the ramp, from its foot (z_j - level_j) on it is
out; a jump is taken at one r, while nu rises by its level, entities of one edge together. g_j = out_j - (z_j - r) has the slopes

    0 (kept),   -(s - 1) rho (ramp),   rho (out),   -level_j/(sum of levels) (jump),     rho = dr/dnu = 1/(n_s + #kept + s #ramp),

so that d_j = g_j - gamma, gamma = mean g, and d of everybody else, -gamma, vanish below the first corner, and with E over N

    E d = sum over corners of (change of slope) E(N - c)_+,   E d^2 = sum of 2 d(c) (change) E(N - c)_+ + (change of slope^2) E(N - c)_+^2,
    E[N d] = sum of (change) (E(N - c)_+^2 + c E(N - c)_+).
"""

import numpy as np
from numpy.typing import NDArray

from fairpost.compiled import kernel

Floats = NDArray[np.float64]
NEAR = 1e-9  # edges and sums of whole counts that differ by less are the same


@kernel
def count(level: Floats, k: int, most: float, limit: int) -> int:
    """How many (i_1, ..., i_k) have sum level[i] <= most (level rises); more than `limit` are not counted."""
    index = np.zeros(k, np.int64)
    total, found, j = k * level[0], 0, k - 1
    if total > most:
        return 0
    while found <= limit:
        found += 1
        j = k - 1
        while j >= 0:
            total -= level[index[j]]
            index[j] += 1
            if index[j] < level.size and total + level[index[j]] <= most:
                total += level[index[j]]
                break
            index[j] = 0
            total += level[0]
            j -= 1
        if j < 0:
            break
    return found


@kernel
def _next(index: NDArray[np.int64], level: Floats, most: float) -> bool:
    """The next one; False after the last."""
    total = 0.0
    for i in index:
        total += level[i]
    for j in range(index.size - 1, -1, -1):
        total -= level[index[j]]
        index[j] += 1
        if index[j] < level.size and total + level[index[j]] <= most:
            return True
        index[j] = 0
        total += level[0]
    return False


@kernel
def _tails(c: float, low: int, table: Floats) -> tuple[float, float, float]:
    """P(N > c), E(N - c)_+ and E(N - c)_+^2, from the rows at low, low + 1, ...; N has the mean 0, the last row 0s."""
    m = np.floor(c)
    i, u = int(m) - low, c - m
    if i < 0:
        return 1.0, -c, c * c + table[0, 2] - low * low
    if i >= table.shape[0]:
        return 0.0, 0.0, 0.0
    zero, one, two = table[i]
    return zero, max(one - u * zero, 0.0), max(two - u * (2.0 * one - u * zero), 0.0)


@kernel
def _corner(
    nu: float, new: Floats, slope: Floats, value: Floats, size: int, low: int, table: Floats, found: Floats
) -> None:
    """The slopes change at nu; rows of found: E d, E d^2, E[N d]."""
    _, one, two = _tails(nu, low, table)
    for j in range(size):
        change = new[j] - slope[j]
        found[0, j] += change * one
        found[1, j] += 2.0 * value[j] * change * one + (new[j] * new[j] - slope[j] * slope[j]) * two
        found[2, j] += change * (two + nu * one)
        slope[j] = new[j]


@kernel
def _slopes(state: NDArray[np.int64], s: float, safe: int, new: Floats) -> float:
    """d_j for the state of each (0 kept, 1 on the ramp, 2 out), the last entry for everybody else; dnu/dr."""
    k = state.size
    rate = float(safe)
    for j in range(k):
        rate += 1.0 if state[j] == 0 else s if state[j] == 1 else 0.0
    if rate <= 0.0:
        return 0.0
    mean = 0.0
    for j in range(k):
        new[j] = 0.0 if state[j] == 0 else -(s - 1.0) / rate if state[j] == 1 else 1.0 / rate
        mean += new[j] / (safe + k)
    for j in range(k):
        new[j] -= mean
    new[k] = -mean
    return rate


@kernel
def _walk(
    z: Floats, foot: Floats, top: Floats, s: float, safe: int, start: float, low: int, table: Floats, found: Floats,
    room: Floats, state: NDArray[np.int64], order: NDArray[np.int64],
) -> None:  # fmt: skip
    """All corners of one z; rows of found as in `_corner`, row 3 P(out_j = 0). foot = top: a jump, or none at foot 0.

    room, state and order are places to work in; events 2j and 2j + 1 are top and foot of entity j.
    """
    k = z.size
    slope, new, value, place = room[0], room[1], room[2], room[3]
    total, r = 0.0, z[0] - top[0]
    for i in range(k):
        place[2 * i], place[2 * i + 1] = z[i] - top[i], z[i] - foot[i]
        total += z[i]
        r = min(r, place[2 * i])
    for i in range(k + 1):
        slope[i] = value[i] = found[0, i] = found[1, i] = found[2, i] = found[3, i] = 0.0
    rate, end = float(safe + k), float(low + table.shape[0]) + NEAR
    nu = start - total + rate * r
    if nu > end:
        return
    for i in range(2 * k):
        at = i
        while at > 0 and place[order[at - 1]] > place[i]:
            order[at] = order[at - 1]
            at -= 1
        order[at] = i
    for i in range(k):
        state[i] = 0
    for event in order:
        j = event // 2
        ramp = foot[j] < top[j]
        if state[j] == 2 or (not ramp and event % 2 == 0 and foot[j] == 0.0):
            continue
        step = rate * (place[event] - r)
        for i in range(k + 1):
            value[i] += slope[i] * step
        nu, r = nu + step, place[event]
        if nu > end:
            return
        if not ramp and foot[j] > 0.0:
            whole = 0.0
            for i in range(k):
                if state[i] == 0 and foot[i] == top[i] and foot[i] > 0.0 and abs(z[i] - foot[i] - r) <= NEAR:
                    state[i] = 3
                    whole += foot[i]
            for i in range(k):
                new[i] = (-foot[i] / whole if state[i] == 3 else 0.0) + 1.0 / (safe + k)
            new[k] = 1.0 / (safe + k)
            _corner(nu, new, slope, value, k + 1, low, table, found)
            for i in range(k + 1):
                value[i] += slope[i] * whole
            nu += whole
            if nu > end:
                return
        else:
            state[j] = 1 if ramp and event % 2 == 0 else 3
        for i in range(k):
            if state[i] == 3:
                state[i] = 2
                found[3, i] = _tails(nu - NEAR, low, table)[0]
        rate = _slopes(state, s, safe, new)
        if rate <= 0.0:
            return
        _corner(nu, new, slope, value, k + 1, low, table, found)


@kernel
def release(
    x: Floats, noise: Floats, mass: Floats, level: Floats, most: float, foot: Floats, top: Floats, s: float,
    safe: int, start: float, drift: float, low: int, table: Floats, out: Floats,
) -> None:  # fmt: skip
    """Sums over the noises of the few; rows of out: E d_j, E[2 e_j d_j + d_j^2], P(out_j = 0), and the sum of |d|.

    e_j = eta_j - mean(eta) + drift; of everybody else (the last entry) eta_j is N/n_s in the mean.
    """
    k = x.size
    n = safe + k
    index, z, found = np.zeros(k, np.int64), np.empty(k), np.empty((4, k + 1))
    room, state, order = np.empty((4, 2 * k + 1)), np.empty(k, np.int64), np.empty(2 * k, np.int64)
    more = True
    while more:
        p, total = 1.0, 0.0
        for j in range(k):
            p *= mass[index[j]]
            total += noise[index[j]]
            z[j] = x[j] + noise[index[j]]
        _walk(z, foot, top, s, safe, start, low, table, found, room, state, order)
        for j in range(k + 1):
            own = noise[index[j]] if j < k else 0.0
            per = -1.0 / n if j < k else 1.0 / max(safe, 1) - 1.0 / n
            out[0, j] += p * found[0, j]
            out[1, j] += p * (2.0 * ((own - total / n + drift) * found[0, j] + per * found[2, j]) + found[1, j])
            out[2, j] += p * found[3, j]
            out[3, j] += p * abs(found[0, j])
        more = _next(index, level, most)


@kernel
def shares(
    x: Floats, a: Floats, noise: Floats, mass: Floats, level: Floats, most: float, foot: Floats, top: Floats, s: float,
    safe: int, t: Floats, none: Floats, out: Floats,
) -> None:  # fmt: skip
    """Sums over the noises of the few, weighed by e^{-t sum a eta}: out[0] E d_j, out[1] E[2 z_j d_j + d_j^2] (of everybody else E gamma^2).

    none: P(out_j = 0). The shift hangs on the few alone: N is 0, and nu starts at their sum.
    """
    k = x.size
    index, z, found, table = np.zeros(k, np.int64), np.empty(k), np.empty((4, k + 1)), np.zeros((1, 3))
    room, state, order = np.empty((4, 2 * k + 1)), np.empty(k, np.int64), np.empty(2 * k, np.int64)
    more = True
    while more:
        p, total = 1.0, 0.0
        for j in range(k):
            p *= mass[index[j]]
            total += a[j] * noise[index[j]]
            z[j] = a[j] * (x[j] + noise[index[j]])
        _walk(z, foot, top, s, safe, np.sum(z), 0, table, found, room, state, order)
        if np.max(found[1]) > 0.0 or np.max(found[3]) > 0.0:
            for j in range(k):
                none[j] += p * found[3, j]
            for i in range(t.size):
                weight = p * np.exp(-t[i] * total)
                for j in range(k + 1):
                    own = 2.0 * z[j] * found[0, j] if j < k else 0.0
                    out[0, i, j] += weight * found[0, j]
                    out[1, i, j] += weight * (own + found[1, j])
        more = _next(index, level, most)
