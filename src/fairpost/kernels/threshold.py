"""Keep z_i - r where it is large enough, give 0 otherwise, with r set so that the kept amounts sum to a target C.

With u = z_i - r, an entity's own threshold t_i >= 0 and a common ramp ratio s, the amount kept is

    jump   u where u > t_i, else 0                                                     (continuous noise)
    ramp   0 for u <= t_i, s (u - t_i) for t_i < u <= t_i + d_i, u above, s d_i = t_i + d_i    (whole-number noise)

Every amount falls as r rises, so the sum G(r) falls strictly where it is above 0 and has one crossing of C.

jump: G falls by t_i as entity i drops out at its *edge* w_i = z_i - t_i. Passes over z bracket the crossing until few
edges lie inside, those are sorted and walked. Where C lies inside a jump, r is that edge and the entity there gets
the remainder C - G(r); entities that share the edge each get the same fraction of their own t_i, so equal noisy
counts get equal amounts, whatever their order. ramp: G is continuous and piecewise linear; Newton steps inside a bracket,
final once two steps see the same numbers of entities on the ramp and above it (those sets are nested in r).

The loops select between run-time values `zero` and `one` because LLVM then vectorises the reductions.
"""

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from fairpost.kernels.simplex import total_of
from fairpost.kernels.vectors import wide_vectors

Floats = NDArray[np.float64]
REORDER: Any = {"reassoc", "nsz", "contract", "arcp"}  # sums may be reordered; NaN and infinity keep their meaning
BLOCK = 8192  # partial sums a block long keep the rounding error of a sum near that of pairwise summation
CHUNK = 64  # entries looked at together when the edges inside a bracket are gathered
FEW = 48  # edges that are worth sorting rather than one more pass
ROUNDS = 60  # passes at most before every edge left in the bracket is sorted
FAR = 1e3  # |r| beyond this multiple of C leaves C too few digits: measure from the top edge


@njit(cache=True, nogil=True, fastmath=REORDER)
def kept(z: Floats, t: Floats, r: float, zero: float, one: float) -> tuple[float, float]:
    """G(r) and how many are kept, for the jump; call with zero = 0.0, one = 1.0."""
    wide_vectors()
    many, common = t.size > 1, t[0]
    total = zero
    active = zero
    for start in range(0, z.size, BLOCK):
        block, level = z[start : start + BLOCK], t[start : start + BLOCK]
        part = 0.0
        count = 0.0
        for i in range(block.size):
            d = block[i] - r
            above = block[i] - (level[i] if many else common) > r
            part += d if above else zero
            count += one if above else zero
        total += part
        active += count
    return total, active


@njit(cache=True, nogil=True, fastmath=REORDER)
def write(z: Floats, t: Floats, r: float, cut: float, out: Floats, zero: float) -> float:
    """out = z - r where the edge lies above `cut`, else 0; returns the sum."""
    wide_vectors()
    many, common = t.size > 1, t[0]
    total = zero
    for start in range(0, z.size, BLOCK):
        block, level, put = z[start : start + BLOCK], t[start : start + BLOCK], out[start : start + BLOCK]
        part = 0.0
        for i in range(block.size):
            d = block[i] - r
            d = d if d > zero else zero  # r may pass an edge of an entity with t = 0 by rounding
            value = d if block[i] - (level[i] if many else common) > cut else zero
            put[i] = value
            part += value
        total += part
    return total


@njit(cache=True, nogil=True)
def top_edge(z: Floats, t: Floats) -> float:
    """max w."""
    top = -np.inf
    for i in range(z.size):
        top = max(top, z[i] - t[i])
    return top


@njit(cache=True, nogil=True, fastmath=REORDER)
def _between(z: Floats, t: Floats, lo: float, hi: float, zero: float, one: float) -> float:
    """How many edges lie in (lo, hi]."""
    wide_vectors()
    count = zero
    for i in range(z.size):
        w = z[i] - t[i]
        count += (one if w > lo else zero) - (one if w > hi else zero)
    return count


@njit(cache=True, nogil=True)
def gather(z: Floats, t: Floats, lo: float, hi: float, size: int) -> tuple[Floats, NDArray[np.int64]]:
    """The edges in (lo, hi] and whose they are, from the highest edge down."""
    edges, who = np.empty(size), np.empty(size, np.int64)
    found = 0
    for start in range(0, z.size if size > 0 else 0, CHUNK):
        block, level = z[start : start + CHUNK], t[start : start + CHUNK]
        if _between(block, level, lo, hi, 0.0, 1.0) == 0.0:
            continue
        for i in range(block.size):
            w = block[i] - level[i]
            if lo < w <= hi:
                edges[found], who[found] = w, start + i
                found += 1
    order = np.argsort(-edges)
    return edges[order], who[order]


@njit(cache=True, nogil=True)
def bracket(z: Floats, t: Floats, target: float, r: float) -> tuple[float, float, float, float, int]:
    """lo and hi with G(lo) > C >= G(hi) and few edges between: (lo, hi, G(hi), kept at hi, edges between).

    A step (G - C)/K from the right of the crossing cannot fall short of it, since every entity that comes in adds to
    G. Between two ends the line through them, moved towards the end that has stood longer: by a few edges, so that
    both ends close in on the crossing.
    """
    lo, hi, g_lo, g_hi, k_lo, k_hi = -np.inf, np.inf, np.inf, 0.0, 0.0, 0.0
    same, last = 0, 0
    for _ in range(ROUNDS):
        g, k = kept(z, t, r, 0.0, 1.0)
        side = 1 if g > target else -1
        same = same + 1 if side == last else 0
        last = side
        if side == 1:
            lo, g_lo, k_lo = r, g, k
        else:
            hi, g_hi, k_hi = r, g, k
        if lo == -np.inf and k == 0.0:
            r = top_edge(z, t) - target * 1.0000001
        elif lo == -np.inf or hi == np.inf:
            r += 1.02 * (g - target) / k
        else:
            inside = k_lo - k_hi
            if inside <= FEW:
                break
            width = hi - lo
            r = lo + width * (g_lo - target) / (g_lo - g_hi)
            near = r - lo if side == 1 else hi - r
            push = (0.25 * width / np.sqrt(inside) + 0.02 * near) * 2.0**same
            r = min(r + push, 0.5 * (r + hi)) if side == 1 else max(r - push, 0.5 * (lo + r))
            if not lo < r < hi:
                break
    return lo, hi, g_hi, k_hi, int(k_lo - k_hi)


@njit(cache=True, nogil=True)
def walk(edges: Floats, levels: Floats, target: float, r: float, g: float, k: float) -> tuple[float, int, int]:
    """From G(r) = g <= C with k kept, down the sorted edges to the crossing: (r, first and last edge of the jump).

    first == last: the crossing lies between edges, and every edge before `first` is kept.
    """
    at = 0
    while at < edges.size:
        w = edges[at]
        if k > 0.0 and g + k * (r - w) >= target:
            break
        g += k * (r - w)
        r = w
        end, drop = at, 0.0
        while end < edges.size and edges[end] == w:
            drop += levels[end]
            end += 1
        if g + drop >= target:
            return w, at, end
        g += drop
        k += end - at
        at = end
    return r - (target - g) / k, at, at


@njit(cache=True, nogil=True)
def keep_jump(z: Floats, t: Floats, target: float, start: float, out: Floats) -> float:
    """out = what is kept of z above the thresholds t, of sum C > 0; returns r. `start` is any finite guess of r."""
    lo, hi, g, k, inside = bracket(z, t, target, start)
    edges, who = gather(z, t, lo, hi, inside)
    levels = t[who]
    r, first, last = walk(edges, levels, target, hi, g, k)
    cut = edges[first] if first < edges.size else lo
    total = write(z, t, r, cut, out, 0.0)
    if first < last:
        fraction = max(target - total, 0.0) / np.sum(levels[first:last])
        for j in range(first, last):
            out[who[j]] = fraction * levels[j]
    return r
