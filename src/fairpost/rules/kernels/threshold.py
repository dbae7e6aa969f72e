"""Keep z_i - r where it is large enough, give 0 otherwise, with r set so that the sum is a target C.

With u = z_i - r, an entity's own threshold t_i >= 0 and a common steepness s >= 1 the amount kept is

    min(u, s (u - t_i)_+)        s finite: a ramp, 0 up to t_i, then steep, u itself from s t_i/(s - 1) on
    u where u > t_i, else 0      s infinite: a jump

Every amount falls as r rises, so their sum G(r) falls strictly where it is above 0 and crosses C once.

Jump: G falls by t_i as entity i drops out at its *edge* w_i = z_i - t_i. Passes over z bracket the crossing until
few edges lie inside; those are sorted and walked. Where C lies inside a jump, r is that edge and the entity there
gets the remainder C - G(r). Entities that share the edge each get the same fraction of their own t_i, so equal
noisy counts get equal amounts, whatever their order. Ramp: G is continuous and piecewise linear; secants in a
bracket, then Newton steps, the last one once it sees as many entities on the ramp and above it as the one before
(these sets are nested in r).

t has one entry per entity, or a single one for all. The loops select between run-time values `zero` and `one`
because LLVM then vectorises the reductions.
"""

import numpy as np
from numpy.typing import NDArray

from fairpost.compiled import kernel
from fairpost.compiled.vectors import wide_vectors
from fairpost.rules.kernels.edges import bracket, gather, top_edge, walk, write
from fairpost.rules.kernels.simplex import BLOCK, REORDER, total_of

Floats = NDArray[np.float64]
ROUNDS = 120  # passes at most; then the amounts are scaled
ROUNDED = 1e-14  # of a sum, relative
FAR = 4.0  # |r| beyond this multiple of C leaves C too few digits: measure from the top edge


@kernel
def _jump(z: Floats, t: Floats, target: float, start: float, out: Floats) -> float:
    """The jump from any finite first guess of r."""
    lo, hi, g, k, inside = bracket(z, t, target, start)
    edges, who = gather(z, t, lo, hi, inside)
    levels = t[who] if t.size > 1 else np.full(who.size, t[0])
    r, first, last = walk(edges, levels, target, hi, g, k)
    cut = edges[first] if first < edges.size else lo
    total = write(z, t, r, cut, out, 0.0)
    if first < last:
        remainder = max(target - total, 0.0)
        fraction = remainder / np.sum(levels[first:last])
        for j in range(first, last):
            out[who[j]] = fraction * levels[j]
        total += remainder
    _settle(out, total, target)
    return r


@kernel(fastmath=REORDER)
def climbed(z: Floats, t: Floats, s: float, r: float, zero: float, one: float) -> tuple[float, float, float]:
    """Ramp: G(r), how many are above the ramp and how many on it."""
    wide_vectors()
    many, common = t.size > 1, t[0]
    total = zero
    full = zero
    partly = zero
    for start in range(0, z.size, BLOCK):
        block, level = z[start : start + BLOCK], t[start : start + BLOCK]
        part = 0.0
        above = 0.0
        positive = 0.0
        for i in range(block.size):
            u = block[i] - r
            steep = s * (u - (level[i] if many else common))
            on = steep > zero
            over = steep >= u
            value = u if over else steep
            part += value if on else zero
            above += (one if over else zero) if on else zero
            positive += one if on else zero
        total += part
        full += above
        partly += positive - above
    return total, full, partly


@kernel(fastmath=REORDER)
def write_ramp(z: Floats, t: Floats, s: float, r: float, out: Floats, zero: float) -> float:
    """Ramp: out = min(u, s (u - t)_+); returns the sum, taken from `out` afterwards as in `edges.write`."""
    wide_vectors()
    many, common = t.size > 1, t[0]
    for i in range(z.size):
        u = z[i] - r
        steep = s * (u - (t[i] if many else common))
        value = u if steep >= u else steep
        out[i] = value if steep > zero else zero
    return total_of(out)


@kernel
def _ramp(z: Floats, t: Floats, s: float, target: float, r: float, out: Floats) -> float:
    """The ramp from any finite first guess of r.

    Once a step changes few numbers the next pass writes: a sum that is C to rounding shows that it was the last.
    """
    lo, hi, g_lo, g_hi, width = -np.inf, np.inf, 0.0, 0.0, np.inf
    few = 4.0 if z.size >= 64 else 0.0
    before, on_before, slow, newton = -np.inf, -np.inf, 0, False
    for _ in range(ROUNDS):
        g, full, partly = climbed(z, t, s, r, 0.0, 1.0)
        if g > target:
            lo, g_lo = r, g
        else:
            hi, g_hi = r, g
        some = full + partly > 0.0
        changed = abs(full - before) + abs(partly - on_before) if some else np.inf
        last = newton and changed == 0.0  # a Newton step that stayed in its piece
        before, on_before = full, partly
        slow = slow + 1 if hi - lo > 0.5 * width else 0
        width = hi - lo if slow == 0 else width
        step = r + (g - target) / (full + s * partly) if some else top_edge(z, t) - target
        newton = some
        if hi - lo < np.inf and not last and (slow > 3 or changed > few or not lo < step < hi):
            part = (g_lo - target) / (g_lo - g_hi) if slow <= 3 and changed > few else 0.5
            step, newton, slow = lo + (hi - lo) * part, False, 0 if slow > 3 else slow
        if newton and changed <= few:
            total = write_ramp(z, t, s, step, out, 0.0)
            if abs(total - target) <= ROUNDED * target:
                return step
        if step == r or last:
            break
        r = step
    _settle(out, write_ramp(z, t, s, step, out, 0.0), target)
    return step


@kernel
def _settle(out: Floats, total: float, target: float) -> None:
    """Scale away a difference beyond the rounding of a sum: a steep ramp can leave one."""
    if total > 0.0 and abs(total - target) > ROUNDED * target:
        factor = target / total
        for i in range(out.size):
            out[i] *= factor


@kernel
def _from_top(z: Floats, t: Floats, s: float, target: float, out: Floats) -> float:
    """Measured from the top edge, so that a small target keeps its digits.

    Jump: a target that the top edge's own jump holds is given there at once. Ramp: nobody is above it while C is
    less than its height at the lowest threshold; then s (w - r)_+ has the sum C, a jump without a threshold.
    """
    top, lowest = top_edge(z, t), t[0]
    for i in range(1, t.size):
        lowest = min(lowest, t[i])
    edges, held = np.empty(z.size), 0.0
    for i in range(z.size):
        level = t[i] if t.size > 1 else t[0]
        edges[i] = z[i] - level - top
        held += level if edges[i] == 0.0 else 0.0
    if s < np.inf and target * (s - 1.0) <= lowest * s:
        return top + _jump(s * edges, np.zeros(1), target, -1.5 * target, out) / s
    if s == np.inf and target <= held:
        for i in range(z.size):
            out[i] = target * ((t[i] if t.size > 1 else t[0]) / held) if edges[i] == 0.0 else 0.0
        return top
    shifted = edges + t
    start = top_edge(shifted, t) - 1.5 * target
    return top + (_ramp(shifted, t, s, target, start, out) if s < np.inf else _jump(shifted, t, target, start, out))


@kernel
def keep(z: Floats, t: Floats, s: float, target: float, out: Floats) -> float:
    """Into `out` what is kept of z, of sum `target` >= 0; returns r, not finite where z is not."""
    r = (total_of(z) - target) / z.size
    if not np.isfinite(r):
        return r
    if target == 0.0:
        out[:] = 0.0
        return top_edge(z, t)
    r = _ramp(z, t, s, target, r, out) if s < np.inf else _jump(z, t, target, r, out)
    return r if abs(r) <= FAR * target else _from_top(z, t, s, target, out)


@kernel
def keep_rows(
    z: Floats, t: Floats, s: float, starts: NDArray[np.int64], targets: Floats, out: Floats, shifts: Floats
) -> None:
    """Each row, and in it each segment starts[g]:starts[g+1], kept to the sum targets[row, g]; r likewise."""
    for row in range(z.shape[0]):
        for g in range(targets.shape[1]):
            a, b = starts[g], starts[g + 1]
            level = t[a:b] if t.size > 1 else t
            shifts[row, g] = keep(z[row, a:b], level, s, targets[row, g], out[row, a:b])
