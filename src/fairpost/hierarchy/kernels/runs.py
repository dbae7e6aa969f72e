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
from fairpost.hierarchy.kernels.families import REORDER, family, kept, threshold
from fairpost.hierarchy.kernels.rules import gls_down, pool_up, pooled_down

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Ints = NDArray[np.int64]
Labels = NDArray[np.int32]


@kernel(fastmath=REORDER)
def _add_truth(y: Floats, x: Floats) -> float:
    """y += x; returns the sum of y."""
    wide_vectors()
    total = 0.0
    for i in range(y.size):
        value = y[i] + x[i]
        y[i] = value
        total += value
    return total


@kernel(error_model="numpy")
def _moments(
    y: Floats, x: Floats, P: Singles, M: float, m: float, q: float, R: Floats, RR: Floats, EE: Floats, zero: float
) -> None:
    """The sums of one family in one run, clipped at 0."""
    wide_vectors()
    for i in range(y.size):
        d, b = y[i] - M, y[i] - m
        v = d if d > zero else zero
        r = v - (b if b > zero else zero) + P[i] * q
        e = v - x[i]
        R[i] += r
        RR[i] += r * r
        EE[i] += e * e


@kernel(error_model="numpy")
def _given_moments(
    v: Floats, y: Floats, x: Floats, P: Singles, offset: Floats, m: float, q: float, gain: float, tau: float, steep: float,
    whole: bool, r: Floats, R: Floats, RR: Floats, EE: Floats,
) -> None:  # fmt: skip
    """The sums of one family whose outputs v are known; r of the run stays in `r`. gain = v_p - lin_p of an only child."""
    for i in range(y.size):
        if y.size == 1:
            r[i] = gain - offset[i]
        elif m == np.inf:
            r[i] = v[i]
        else:
            r[i] = v[i] - kept(y[i] - m, tau, steep) + P[i] * q
        e = v[i] - x[i]
        f = v[i] - np.floor(v[i])
        R[i] += r[i]
        RR[i] += r[i] * r[i]
        EE[i] += e * e + (f * (1.0 - f) if whole else 0.0)


@kernel
def _scatter(v: Floats, x: Floats, r: Floats, labels: Labels, sums: Floats) -> None:
    """r and e of the leaves of one run into the sums of their areas (label -1: in none)."""
    for i in range(v.size):
        at = labels[i]
        if at >= 0:
            sums[0, at] += r[i]
            sums[1, at] += v[i] - x[i]


@kernel(error_model="numpy")
def leaf_stripe(
    kind: int, spread: float, seed: Any, first_run: int, child: Ints, level_first: int, p_from: int, p_to: int, leaf0: int,
    x: Floats, offset: Floats, m: Floats, P: Singles, tau: Floats, steep: float, whole: bool, V: Floats, lin: Floats,
    piece: int, work: Floats, planes: Floats, cells: Labels, cell_sums: Floats, areas: Labels, area_sums: Floats,
) -> None:  # fmt: skip
    """Leaves below the parents p_from <= p < p_to, for the runs of a block (rows of V and lin, the parents' values).

    x, offset and planes are of all leaves, from node `leaf0` on; V and lin begin at parent `level_first`. `areas` has one
    row of labels a division into areas, of the leaves of this stripe and local to it, and area_sums[k, t] two rows of sums.
    """
    runs, many, begin_leaf = V.shape[0], areas.shape[0], child[p_from] - leaf0
    y_all, v_all, r_all, R_all, RR_all, EE_all = work[0], work[1], work[2], work[3], work[4], work[5]
    plain = steep == 1.0 and not whole and many == 0
    start = p_from
    while start < p_to:
        end = start + 1
        while end < p_to and child[end + 1] - child[start] <= piece:
            end += 1
        low, high = child[start] - leaf0, child[end] - leaf0
        size = high - low
        R_all[:size], RR_all[:size], EE_all[:size] = 0.0, 0.0, 0.0
        for t in range(runs):
            draw(kind, y_all[:size], leaf0 + low, spread, seed, np.uint64(first_run + t))
            for p in range(start, end):
                a, b = child[p] - leaf0, child[p + 1] - leaf0
                i, j = a - low, b - low
                y, truth, chance = y_all[i:j], x[a:b], P[a:b]
                R, RR, EE = R_all[i:j], RR_all[i:j], EE_all[i:j]
                total = _add_truth(y, truth)
                target, guide = V[t, p - level_first], lin[t, p - level_first]
                q = (total - guide) / y.size
                if plain and y.size > 1 and target > 0.0 and m[p] < np.inf:
                    begin = (total - target) / y.size
                    M = threshold(y, target, m[p] + q, begin)
                    if M < np.inf:
                        _moments(y, truth, chance, M, m[p], q, R, RR, EE, 0.0)
                        continue
                family(y, target, tau, steep, v_all[i:j])
                _given_moments(
                    v_all[i:j], y, truth, chance, offset[a:b], m[p], q, target - guide, tau[0], steep, whole,
                    r_all[i:j], R, RR, EE,
                )  # fmt: skip
            for k in range(many):
                labels = areas[k, low - begin_leaf : high - begin_leaf]
                _scatter(v_all[:size], x[low:high], r_all[:size], labels, area_sums[k, t])
        for i in range(size):
            planes[0, low + i] += R_all[i]
            planes[1, low + i] += RR_all[i]
            planes[2, low + i] += EE_all[i]
            cell_sums[cells[low + i]] += R_all[i]
        start = end


@kernel
def leaf_totals(
    kind: int, spread: float, seed: Any, first_run: int, child: Ints, level_first: int, p_from: int, p_to: int, leaf0: int,
    x: Floats, piece: int, y_all: Floats, S: Floats,
) -> None:  # fmt: skip
    """The sums of the measurements of families of leaves, for the runs of a block: what pooling needs of the leaves."""
    start = p_from
    while start < p_to:
        end = start + 1
        while end < p_to and child[end + 1] - child[start] <= piece:
            end += 1
        low, high = child[start] - leaf0, child[end] - leaf0
        for t in range(S.shape[0]):
            draw(kind, y_all[: high - low], leaf0 + low, spread, seed, np.uint64(first_run + t))
            for p in range(start, end):
                a, b = child[p] - leaf0, child[p + 1] - leaf0
                S[t, p - level_first] = _add_truth(y_all[a - low : b - low], x[a:b])
        start = end


@kernel
def _draw_upper(kind: int, spreads: Floats, offsets: Ints, x: Floats, seed: Any, run: Any, y: Floats) -> None:
    """Measurements of all inner nodes."""
    for level in range(offsets.size - 2):
        a, b = offsets[level], offsets[level + 1]
        draw(kind, y[a:b], a, spreads[level], seed, run)
        for i in range(a, b):
            y[i] += x[i]


@kernel(error_model="numpy")
def _upper_families(
    child: Ints, offsets: Ints, top: int, y: Floats, x: Floats, offset: Floats, m: Floats, P: Singles, taus: Floats,
    steeps: Floats, whole: bool, v: Floats, lin: Floats, r: Floats, planes: Floats,
) -> None:  # fmt: skip
    """One run from the top down to the parents of leaves, each family on its own."""
    level0 = max(top, 0)
    for i in range(offsets[level0 + 1]):
        v[i] = x[i]
        lin[i] = x[i]
    if top < 0:
        v[0], lin[0] = max(y[0], 0.0), y[0]
        _given_moments(
            v[:1], y[:1], x[:1], P[:1], offset[:1], np.inf, 0.0, v[0] - y[0], 0.0, 1.0, whole,
            r[:1], planes[0, :1], planes[1, :1], planes[2, :1],
        )  # fmt: skip
    for level in range(level0, offsets.size - 3):
        tau, steep = taus[level + 1 : level + 2], steeps[level + 1]
        for p in range(offsets[level], offsets[level + 1]):
            a, b = child[p], child[p + 1]
            total = 0.0
            for c in range(a, b):
                total += y[c]
            q = (total - lin[p]) / (b - a)
            for c in range(a, b):
                lin[c] = y[c] - q
            family(y[a:b], v[p], tau, steep, v[a:b])
            _given_moments(
                v[a:b], y[a:b], x[a:b], P[a:b], offset[a:b], m[p], q, v[p] - lin[p], tau[0], steep, whole,
                r[a:b], planes[0, a:b], planes[1, a:b], planes[2, a:b],
            )  # fmt: skip


@kernel
def _linear_moments(v: Floats, u: Floats, x: Floats, whole: bool, planes: Floats) -> None:
    """Sums with the control u, whose mean is the truth."""
    for i in range(v.size):
        r, e, f = v[i] - u[i], v[i] - x[i], v[i] - np.floor(v[i])
        planes[0, i] += r
        planes[1, i] += r * r
        planes[2, i] += e * e + (f * (1.0 - f) if whole else 0.0)


@kernel
def upper_block(
    kind: int, spreads: Floats, seed: Any, first_run: int, child: Ints, offsets: Ints, top: int, x: Floats, offset: Floats,
    m: Floats, P: Singles, taus: Floats, steeps: Floats, whole: bool, pooled: bool, s2: Floats, Vs: Floats, W: Floats,
    work: Floats, S: Floats, V: Floats, lin: Floats, planes: Floats,
) -> None:  # fmt: skip
    """Inner nodes for the runs of a block: the values of the parents of leaves go into V and lin, a row a run.

    work has five rows, one entry an inner node; with `pooled` S holds the sums over families of leaves.
    """
    last = offsets.size - 3
    a, b = offsets[last], offsets[last + 1]
    y, v, u, z, sums = work[0], work[1], work[2], work[3], work[4]
    for t in range(V.shape[0]):
        _draw_upper(kind, spreads, offsets, x, seed, np.uint64(first_run + t), y)
        if pooled:
            sums[a:b] = S[t]
            pool_up(child, offsets, s2, W, y, z, sums, True)
            gls_down(child, offsets, Vs, W, z, sums, u, last)
            pooled_down(child, offsets, top, z, Vs, taus, steeps, v, last)
            _linear_moments(v, u, x[:b], whole, planes)
        else:
            _upper_families(
                child, offsets, top, y, x, offset, m, P, taus, steeps, whole, v, u, z, planes
            )  # fmt: skip
        V[t] = v[a:b]
        lin[t] = u[a:b]


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
        _given_moments(
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
