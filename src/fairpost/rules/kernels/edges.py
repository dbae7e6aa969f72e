"""The edges of the jump of `rules.kernels.threshold`: where G crosses the target, between which of them.

Entity i drops out at its edge w_i = z_i - t_i. Passes over z bracket the crossing until few edges lie inside; those are
gathered, sorted and walked.
"""

import numpy as np
from numpy.typing import NDArray

from fairpost.compiled import kernel
from fairpost.compiled.vectors import wide_vectors
from fairpost.rules.kernels.simplex import BLOCK, REORDER, total_of

Floats = NDArray[np.float64]
CHUNK = 64  # entries looked at together when the edges inside a bracket are gathered
FEW = 48  # edges that are worth sorting rather than one more pass
ROUNDS = 60  # passes at most; then the edges left are sorted


@kernel(fastmath=REORDER, forceinline=True)  # else a copy of it, optimised once more, may be called: other bits
def kept(z: Floats, t: Floats, r: float, zero: float, one: float) -> tuple[float, float]:
    """Jump: G(r) and how many are kept; call with zero = 0.0, one = 1.0."""
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


@kernel(fastmath=REORDER)
def write(z: Floats, t: Floats, r: float, cut: float, out: Floats, zero: float) -> float:
    """Jump: out = z - r where the edge lies above `cut`, else 0; returns the sum, which is taken from `out` afterwards.

    A loop that writes is run one by one where what it reads lies close before (LLVM looks at the addresses), and a sum in it would then
    have another order: bits would depend on where memory lies.
    """
    wide_vectors()
    many, common = t.size > 1, t[0]
    for i in range(z.size):
        d = z[i] - r
        d = d if d > zero else zero  # by rounding r may pass the edge of an entity with t = 0
        out[i] = d if z[i] - (t[i] if many else common) > cut else zero
    return total_of(out)


@kernel
def top_edge(z: Floats, t: Floats) -> float:
    """The highest edge."""
    top = -np.inf
    for i in range(z.size):
        top = max(top, z[i] - (t[i] if t.size > 1 else t[0]))
    return top


@kernel(fastmath=REORDER)
def gather(z: Floats, t: Floats, lo: float, hi: float, size: int) -> tuple[Floats, NDArray[np.int64]]:
    """The `size` edges in (lo, hi] and whose they are, from the highest edge down."""
    wide_vectors()
    edges, who = np.empty(size), np.empty(size, np.int64)
    found, many, common = 0, t.size > 1, t[0]
    for start in range(0, z.size if size > 0 else 0, CHUNK):
        block, level = z[start : start + CHUNK], t[start : start + CHUNK]
        hits = 0
        for i in range(block.size):
            w = block[i] - (level[i] if many else common)
            hits += (w > lo) & (w <= hi)
        for i in range(block.size if hits > 0 else 0):
            w = block[i] - (level[i] if many else common)
            if lo < w <= hi:
                edges[found], who[found] = w, start + i
                found += 1
    _sort(edges, who)
    return edges, who


@kernel
def _sort(edges: Floats, who: NDArray[np.int64]) -> None:
    """Both in place by falling edge: Shell's sort, which for FEW edges is insertion (NumPy's would compile for seconds)."""
    gap = 1
    while gap < edges.size // FEW:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, edges.size):
            w, place, j = edges[i], who[i], i
            while j >= gap and edges[j - gap] < w:
                edges[j], who[j] = edges[j - gap], who[j - gap]
                j -= gap
            edges[j], who[j] = w, place
        gap //= 3


@kernel
def bracket(z: Floats, t: Floats, target: float, r: float) -> tuple[float, float, float, float, int]:
    """Ends with G(lo) > C >= G(hi) and few edges between: (lo, hi, G(hi), kept at hi, edges between).

    A step (G - C)/K from the right of the crossing cannot fall short of it, since every entity that comes in adds
    to G. Between two ends: the line through them, moved past its estimate by about the scatter of the edges, so
    that both ends close in on the crossing.
    """
    lo, hi, g_lo, g_hi, k_lo, k_hi = -np.inf, np.inf, np.inf, 0.0, float(z.size), 0.0
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
        if k == 0.0:
            r = top_edge(z, t) - target
        elif lo == -np.inf or hi == np.inf:
            r += 1.02 * (g - target) / k
        elif k_lo - k_hi <= FEW:
            break
        else:
            width, inside = hi - lo, k_lo - k_hi
            r = lo + width * (g_lo - target) / (g_lo - g_hi)
            push = (0.25 * width / np.sqrt(inside) + 0.02 * (r - lo if side == 1 else hi - r)) * 2.0**same
            r = min(r + push, 0.5 * (r + hi)) if side == 1 else max(r - push, 0.5 * (lo + r))
            if not lo < r < hi:
                break
    if hi == np.inf:
        hi = top_edge(z, t)
    return lo, hi, g_hi, k_hi, int(k_lo - k_hi)


@kernel
def walk(edges: Floats, levels: Floats, target: float, r: float, g: float, k: float) -> tuple[float, int, int]:
    """From G(r) = g <= C with k kept, down the sorted edges to the crossing: r and the jump first:last.

    first == last: the crossing lies between edges, and just the edges before `first` are kept.
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
        if g + drop >= target and drop > 0.0:
            return w, at, end
        g += drop
        k += end - at
        at = end
    return r - (target - g) / k, at, at
