"""Runs of the simulation: noise, families and sums over runs.

B_c = offset_c + E[r_c] exactly, whatever the constants m (mean field's thresholds) and P are. A run with threshold M gives

    r_c = kept(y_c - M) - kept(y_c - m) + P_c q,   q = (sum_c y_c - lin_p)/n,   offset_c = psi(x_c - m) - x_c,

with lin the unclipped estimate, whose mean is the truth; so the last two terms have exactly known means, psi and 0. An only
child has what its parent has: r = v_p - lin_p - offset. Nodes above the leaves of a pooled rule take r = v - u, u the unclipped
least-squares estimate, and offset 0. The sums over runs are of r, r^2 and e^2, e = v - x (with rounding: + f(1 - f), f the
fraction of v, which is what the unbiased rounding adds to the expected square).

Families of leaves are worked on in pieces that stay in the cache, run after run, and a piece adds its sums to the planes once
a block. Whoever works on a piece, its sums are added in the order of the runs.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpost.compiled import kernel
from fairpost.compiled.vectors import wide_vectors
from fairpost.hierarchy.kernels.draw import draw
from fairpost.hierarchy.kernels.families import REORDER, family, kept, threshold, total_of
from fairpost.noise.kernels.guide import Guides

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Ints = NDArray[np.int64]
Labels = NDArray[np.int32]


@kernel(fastmath=REORDER)
def _add_truth(y: Floats, x: Floats) -> float:
    """y += x; returns the sum of y, taken afterwards: the order of a sum in a loop that writes depends on where memory lies."""
    wide_vectors()
    for i in range(y.size):
        y[i] += x[i]
    return total_of(y)


@kernel(inline="always")
def _both(y: Any, x: Any, P: Any, M: Any, m: Any, q: Any, zero: Any) -> Any:
    """r and e of one leaf, clipped at 0."""
    d, b = y - M, y - m
    v = d if d > zero else zero
    return v - (b if b > zero else zero) + P * q, v - x


@kernel(error_model="numpy")
def _moments(
    work: Floats, i: Any, x: Floats, P: Singles, a: Any, n: Any, M0: float, M1: float, m: float, q0: float, q1: float,
    zero: float,
) -> None:  # fmt: skip
    """The sums of one family in two runs at once, which halves the traffic.

    Places are unsigned offsets (family at i in `work`, at a among the leaves): a slice costs a count of references each, and a
    signed place a test for being negative.
    """
    wide_vectors()
    y0, y1, R, RR, EE = work[0], work[1], work[4], work[5], work[6]
    for j in range(n):
        truth, chance = x[a + j], P[a + j]
        r0, e0 = _both(y0[i + j], truth, chance, M0, m, q0, zero)
        r1, e1 = _both(y1[i + j], truth, chance, M1, m, q1, zero)
        R[i + j] += r0 + r1
        RR[i + j] += r0 * r0 + r1 * r1
        EE[i + j] += e0 * e0 + e1 * e1


@kernel(error_model="numpy")
def given_moments(
    v: Floats, y: Floats, x: Floats, P: Singles, offset: Floats, m: float, q: float, gain: float, tau: float, steep: float,
    whole: bool, r: Floats, R: Floats, RR: Floats, EE: Floats,
) -> None:  # fmt: skip
    """The sums of one family whose outputs v are known; r of the run stays in `r`. gain = v_p - lin_p of an only child."""
    if y.size == 1:
        r[0] = gain - offset[0]
    elif m == np.inf:
        for i in range(v.size):
            r[i] = v[i]
    elif steep == 1.0:
        for i in range(y.size):
            b = y[i] - m
            r[i] = v[i] - (b if b > 0.0 else 0.0) + P[i] * q
    else:
        for i in range(y.size):
            r[i] = v[i] - kept(y[i] - m, tau, steep) + P[i] * q
    for i in range(y.size):
        e = v[i] - x[i]
        R[i] += r[i]
        RR[i] += r[i] * r[i]
        EE[i] += e * e
    if whole:
        for i in range(y.size):
            f = v[i] - np.floor(v[i])
            EE[i] += f * (1.0 - f)


@kernel
def _scatter(v: Floats, x: Floats, r: Floats, labels: Labels, sums: Floats) -> None:
    """r and e of the leaves of one run into the sums of their areas (label -1: in none)."""
    for i in range(v.size):
        at = labels[i]
        if at >= 0:
            sums[0, at] += r[i]
            sums[1, at] += v[i] - x[i]


@kernel(error_model="numpy")
def _plain_pair(
    work: Floats, i: int, j: int, x: Floats, P: Singles, a: int, target0: float, target1: float, straight0: float,
    straight1: float, m: float,
) -> bool:  # fmt: skip
    """One family of two or more in two runs, clipped at 0; False where a target is 0 or lost in rounding, nothing added."""
    if target0 <= 0.0 or target1 <= 0.0 or m == np.inf:
        return False
    n, y0, y1 = j - i, work[0, i:j], work[1, i:j]
    s0, s1 = total_of(y0), total_of(y1)
    q0, q1 = (s0 - straight0) / n, (s1 - straight1) / n
    M0 = threshold(y0, target0, m + q0, (s0 - target0) / n)
    M1 = threshold(y1, target1, m + q1, (s1 - target1) / n)
    if max(M0, M1) == np.inf:
        return False
    _moments(work, np.uint64(i), x, P, np.uint64(a), np.uint64(n), M0, M1, m, q0, q1, 0.0)
    return True


@kernel(error_model="numpy")
def _any_family(
    y: Floats, x: Floats, P: Singles, offset: Floats, target: float, straight: float, m: float, tau: Floats, steep: float,
    whole: bool, v: Floats, r: Floats, R: Floats, RR: Floats, EE: Floats,
) -> None:  # fmt: skip
    """One family in one run, any case."""
    q = (total_of(y) - straight) / y.size
    family(y, target, tau, steep, v)
    given_moments(v, y, x, P, offset, m, q, target - straight, tau[0], steep, whole, r, R, RR, EE)


@kernel
def _piece(
    t: int, pairs: bool, child: Ints, start: int, end: int, level_first: int, leaf0: int, x: Floats, offset: Floats, m: Floats,
    P: Singles, tau: Floats, steep: float, whole: bool, plain: bool, V: Floats, lin: Floats, work: Floats,
) -> None:  # fmt: skip
    """The families start <= p < end in run t of the block, and with `pairs` in the next one."""
    low = child[start] - leaf0
    for p in range(start, end):
        a, b = child[p] - leaf0, child[p + 1] - leaf0
        i, j, at = a - low, b - low, p - level_first
        if plain and pairs and b - a > 1:
            done = _plain_pair(work, i, j, x, P, a, V[t, at], V[t + 1, at], lin[t, at], lin[t + 1, at], m[p])
            if done:
                continue
        for k in range(2 if pairs else 1):
            _any_family(
                work[k, i:j], x[a:b], P[a:b], offset[a:b], V[t + k, at], lin[t + k, at], m[p], tau, steep, whole,
                work[2, i:j], work[3, i:j], work[4, i:j], work[5, i:j], work[6, i:j],
            )  # fmt: skip


@kernel
def _add(y: Floats, x: Floats) -> None:
    wide_vectors()
    for i in range(y.size):
        y[i] += x[i]


@kernel(error_model="numpy")
def leaf_stripe(
    kind: int, spread: float, guide: Guides, cuts: Floats, seed: Any, first_run: int, child: Ints, level_first: int, p_from: int,
    p_to: int, leaf0: int, x: Floats, offset: Floats, m: Floats, P: Singles, tau: Floats, steep: float, whole: bool, V: Floats,
    lin: Floats, piece: int, work: Floats, planes: Floats, cells: Labels, cell_sums: Floats, areas: Labels, area_sums: Floats,
) -> None:  # fmt: skip
    """Leaves below the parents p_from <= p < p_to, for the runs of a block (rows of V and lin, the parents' values).

    x, offset and planes are of all leaves, from node `leaf0` on; V and lin begin at parent `level_first`. `areas` has one
    row of labels a division into areas, of the leaves of this stripe and local to it, and area_sums[k, t] two rows of sums.
    work: two rows of measurements, outputs, r, and the sums of r, r^2, e^2.
    """
    runs, many, begin = V.shape[0], areas.shape[0], child[p_from] - leaf0
    plain = steep == 1.0 and not whole and many == 0
    start = p_from
    while start < p_to:
        end = start + 1
        while end < p_to and child[end + 1] - child[start] <= piece:
            end += 1
        low, high = child[start] - leaf0, child[end] - leaf0
        size = high - low
        work[4:7, :size] = 0.0
        t = 0
        while t < runs:
            pairs = plain and t + 1 < runs
            for k in range(2 if pairs else 1):
                draw(kind, work[k, :size], leaf0 + low, spread, guide, cuts, seed, np.uint64(first_run + t + k))
                _add(work[k, :size], x[low:high])
            _piece(
                t, pairs, child, start, end, level_first, leaf0, x, offset, m, P, tau, steep, whole, plain, V, lin, work
            )  # fmt: skip
            for k in range(many):
                labels = areas[k, low - begin : high - begin]
                _scatter(work[2, :size], x[low:high], work[3, :size], labels, area_sums[k, t])
            t += 2 if pairs else 1
        for i in range(size):
            planes[0, low + i] += work[4, i]
            planes[1, low + i] += work[5, i]
            planes[2, low + i] += work[6, i]
            cell_sums[cells[low + i]] += work[4, i]
        start = end


@kernel
def leaf_totals(
    kind: int, spread: float, guide: Guides, cuts: Floats, seed: Any, first_run: int, child: Ints,
    level_first: int, p_from: int, p_to: int, leaf0: int, x: Floats, piece: int, y_all: Floats, S: Floats,
) -> None:  # fmt: skip
    """The sums of the measurements of families of leaves, for the runs of a block: what pooling needs of the leaves."""
    start = p_from
    while start < p_to:
        end = start + 1
        while end < p_to and child[end + 1] - child[start] <= piece:
            end += 1
        low, high = child[start] - leaf0, child[end] - leaf0
        for t in range(S.shape[0]):
            draw(kind, y_all[: high - low], leaf0 + low, spread, guide, cuts, seed, np.uint64(first_run + t))
            for p in range(start, end):
                a, b = child[p] - leaf0, child[p + 1] - leaf0
                S[t, p - level_first] = _add_truth(y_all[a - low : b - low], x[a:b])
        start = end


@kernel(error_model="numpy")
def joint_leaves(
    child: Ints, first: int, last: int, leaf0: int, y: Floats, v: Floats, u: Floats, x: Floats, offset: Floats, m: Floats,
    P: Singles, whole: bool, r: Floats, planes: Floats,
) -> None:  # fmt: skip
    """The sums of all leaves in one run of the joint rule; y, v, u and r are of all nodes, the others of leaves."""
    for p in range(first, last):
        a, b = child[p], child[p + 1]
        i, j = a - leaf0, b - leaf0
        total = 0.0
        for c in range(a, b):
            total += y[c]
        q = (total - u[p]) / (b - a)
        given_moments(
            v[a:b], y[a:b], x[i:j], P[i:j], offset[i:j], m[p], q, v[p] - u[p], 0.0, 1.0, whole,
            r[i:j], planes[0, i:j], planes[1, i:j], planes[2, i:j],
        )  # fmt: skip


@kernel
def sum_cells(values: Floats, cells: Labels, out: Floats) -> None:
    """The values of each cell added up."""
    for i in range(values.size):
        out[cells[i]] += values[i]


@kernel
def scatter_areas(v: Floats, x: Floats, r: Floats, areas: Labels, area_sums: Floats) -> None:
    """One run's sums of all divisions into areas."""
    for k in range(areas.shape[0]):
        _scatter(v, x, r, areas[k], area_sums[k])


@kernel(error_model="numpy")
def finish(planes: Floats, offset: Floats, runs: int) -> None:
    """Sums of r, r^2 and e^2 to bias, standard error and mean squared error, in place."""
    for i in range(planes.shape[1]):
        mean = planes[0, i] / runs
        variance = max(planes[1, i] / runs - mean * mean, 0.0) * (runs / (runs - 1.0))
        planes[0, i] = offset[i] + mean
        planes[1, i] = np.sqrt(variance / runs)
        planes[2, i] /= runs


@kernel(error_model="numpy")
def extremes(bias: Floats, error: Floats, factor: float, constant: float, formula: Floats, out: Floats) -> Any:
    """Places of the largest and the smallest bias; out: max b + h, min b + h, max b - h, min b - h, mean (b - formula)^2 - mean error^2.

    h = factor error + constant. `formula` may be empty.
    """
    most, least, gap = 0, 0, 0.0
    out[0], out[1], out[2], out[3] = -np.inf, np.inf, -np.inf, np.inf
    for i in range(bias.size):
        b, h = bias[i], factor * error[i] + constant
        most = i if b > bias[most] else most
        least = i if b < bias[least] else least
        out[0], out[1] = max(out[0], b + h), min(out[1], b + h)
        out[2], out[3] = max(out[2], b - h), min(out[3], b - h)
        if formula.size > 0:
            gap += (b - formula[i]) ** 2 - error[i] ** 2
    out[4] = gap / bias.size
    return most, least
