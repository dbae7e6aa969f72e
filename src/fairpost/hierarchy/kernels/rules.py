"""The rules on whole vectors of measurements: top-down, pooled (generalised least squares, then down), joint, rounding.

Notation: `child[p] : child[p + 1]` are the children of inner node p, `offsets` the first node of each level, `top` the deepest
exact level (-1: not even the root). V and W are the variances of the pooled estimate z of each node and of the sum of its
children's; both follow from the tree and the noise alone (`variances`).
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpost.compiled import kernel
from fairpost.hierarchy.kernels.families import above, family, weighted_family
from fairpost.noise.kernels.philox import word
from fairpost.noise.kernels.transforms import uniform

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
PASSES = 10_000  # of the joint rule; it ends because its zero set only grows
ROUND = 0x40000000  # the attempt whose words are for rounding: noise never gets that far


@kernel
def _start(y: Floats, offsets: Ints, top: int, out: Floats) -> int:
    """Exact levels as they are, a noisy root clipped; the first level to go down from."""
    if top < 0:
        out[0] = max(y[0], 0.0)
        return 0
    for i in range(offsets[top + 1]):
        out[i] = y[i]
    return top


@kernel
def top_down(child: Ints, offsets: Ints, top: int, y: Floats, taus: Floats, steeps: Floats, out: Floats) -> None:
    """v_c = (y_c - m_p)_+ of sum v_p, from the top down, or with a threshold."""
    for level in range(_start(y, offsets, top, out), offsets.size - 2):
        tau, steep = taus[level + 1 : level + 2], steeps[level + 1]
        for p in range(offsets[level], offsets[level + 1]):
            a, b = child[p], child[p + 1]
            family(y[a:b], out[p], tau, steep, out[a:b])


@kernel(error_model="numpy")
def variances(child: Ints, offsets: Ints, s2: Floats, V: Floats, W: Floats) -> None:
    """V of every node and W of every inner one: V = W s^2 / (W + s^2), s^2 for a leaf; 0 where both are exact."""
    levels = offsets.size - 2
    V[offsets[levels] :] = s2[levels]  # where V has room for leaves
    for level in range(levels - 1, -1, -1):
        own = s2[level]
        for p in range(offsets[level], offsets[level + 1]):
            total = s2[levels] * (child[p + 1] - child[p])
            if level < levels - 1:
                total = 0.0
                for c in range(child[p], child[p + 1]):
                    total += V[c]
            W[p] = total
            V[p] = total * (own / (total + own)) if own > 0.0 and total > 0.0 else 0.0


@kernel(error_model="numpy")
def pool_up(child: Ints, offsets: Ints, s2: Floats, W: Floats, y: Floats, z: Floats, S: Floats, summed: bool) -> None:
    """z of every inner node and S, the sum over its children; `summed`: S of families of leaves is there already.

    z = (y W + S s^2)/(W + s^2), which for an exact level (s = 0) is y.
    """
    last = offsets.size - 3
    for level in range(last, -1, -1):
        own = s2[level]
        for p in range(offsets[level], offsets[level + 1]):
            if level < last or not summed:
                total = 0.0
                for c in range(child[p], child[p + 1]):
                    total += z[c]
                S[p] = total
            z[p] = (y[p] * W[p] + S[p] * own) / (W[p] + own) if own > 0.0 else y[p]


@kernel(error_model="numpy")
def gls_down(child: Ints, offsets: Ints, V: Floats, W: Floats, z: Floats, S: Floats, u: Floats, last: int) -> None:
    """u_c = z_c + (V_c / W)(u_p - S): the unclipped estimate, down to level `last`."""
    u[0] = z[0]
    for level in range(last):
        for p in range(offsets[level], offsets[level + 1]):
            share = (u[p] - S[p]) / W[p] if W[p] > 0.0 else 0.0
            for c in range(child[p], child[p + 1]):
                u[c] = z[c] + V[c] * share


@kernel
def pooled_down(
    child: Ints, offsets: Ints, top: int, z: Floats, V: Floats, taus: Floats, steeps: Floats, out: Floats, last: int
) -> None:
    """Top-down on z with weights V, down to level `last`; leaves have equal weights."""
    leaves = offsets.size - 2
    for level in range(_start(z, offsets, top, out), last):
        tau, steep = taus[level + 1 : level + 2], steeps[level + 1]
        for p in range(offsets[level], offsets[level + 1]):
            a, b = child[p], child[p + 1]
            if level + 1 == leaves:
                family(z[a:b], out[p], tau, steep, out[a:b])
            else:
                weighted_family(z[a:b], V[a:b], out[p], tau, steep, out[a:b])


# The joint optimum, min sum_a (v_a - y_a)^2 / s_a^2 over consistent v >= 0. All leaves are free at first. Repeat: the
# unclipped estimate over the free leaves (a family of leaves enters by their number K and sum S alone), then set those that
# are not positive to 0; stop when none is. Over the leaves the Hessian H_ij = sum of 1/s^2 over common ancestors is
# strictly ultrametric, so its inverse is a Stieltjes matrix (Martinez, Michon and San Martin 1994), the multipliers solve a
# linear complementarity problem with it, and Chandrasekaran's (1970) iteration never takes an index back: the zero set only
# grows, the end is the optimum, and "free" is y > -d with d, one number a family, falling from pass to pass. An exact
# level is the limit s -> 0.


@kernel(error_model="numpy")
def _joint_up(
    child: Ints, offsets: Ints, s2: Floats, y: Floats, d: Floats, K: Ints, z: Floats, V: Floats, S: Floats, W: Floats
) -> bool:
    """Sums over free leaves, then z and V upwards; whether any leaf became 0."""
    last, changed = offsets.size - 3, False
    first, own = offsets[last], s2[last + 1]
    for p in range(first, offsets[last + 1]):
        total, free = above(
            y[child[p] : child[p + 1]], -d[p - first], 0.0, 1.0
        )  # y + d > 0, and no rounding tells them apart
        count = int(free)
        changed = changed or count != K[p - first]
        K[p - first], S[p], W[p] = count, total, count * own
    for level in range(last, -1, -1):
        s = s2[level]
        for p in range(offsets[level], offsets[level + 1]):
            if level < last:
                total, weight = 0.0, 0.0
                for c in range(child[p], child[p + 1]):
                    total += z[c]
                    weight += V[c]
                S[p], W[p] = total, weight
            z[p] = (y[p] * W[p] + S[p] * s) / (W[p] + s) if s > 0.0 else y[p]
            V[p] = W[p] * (s / (W[p] + s)) if s > 0.0 else 0.0
    return changed


@kernel(error_model="numpy")
def joint(child: Ints, offsets: Ints, top: int, s2: Floats, y: Floats, out: Floats, work: Floats, K: Ints) -> int:
    """The joint optimum into `out`; returns the passes. `work` has four rows, one entry an inner node."""
    last = offsets.size - 3
    first = offsets[last]
    z, V, S, W = work[0], work[1], work[2], work[3]
    d = out[offsets[last + 1] :][: K.size]  # the leaves' place is free until the end, and there are enough of them
    d[:] = np.inf
    K[:] = -1
    passes = 0
    while passes < PASSES:
        passes += 1
        if not _joint_up(child, offsets, s2, y, d, K, z, V, S, W):
            break
        out[0] = z[0]
        if top >= 0:
            for i in range(offsets[top + 1]):
                out[i] = y[i]
        for level in range(max(top, 0), last):
            for p in range(offsets[level], offsets[level + 1]):
                share = (out[p] - S[p]) / W[p] if W[p] > 0.0 else 0.0
                for c in range(child[p], child[p + 1]):
                    out[c] = z[c] + V[c] * share
        for p in range(first, offsets[last + 1]):
            count = K[p - first]
            d[p - first] = (out[p] - S[p]) / count if count > 0 else -np.inf
    shifts = d.copy()
    for p in range(first, offsets[last + 1]):
        for c in range(child[p], child[p + 1]):
            v = y[c] + shifts[p - first]
            out[c] = v if v > 0.0 else 0.0
    return passes


@kernel
def top_down_rows(child: Ints, offsets: Ints, top: int, Y: Floats, taus: Floats, steeps: Floats, out: Floats) -> None:
    """`top_down` on every row."""
    for k in range(Y.shape[0]):
        top_down(child, offsets, top, Y[k], taus, steeps, out[k])


@kernel
def pooled_rows(
    child: Ints, offsets: Ints, top: int, s2: Floats, V: Floats, W: Floats, Y: Floats, taus: Floats, steeps: Floats,
    clip: bool, out: Floats, z: Floats, S: Floats,
) -> None:  # fmt: skip
    """Pooled upwards, then down with or without clipping, on every row."""
    leaves = offsets.size - 2
    for k in range(Y.shape[0]):
        y, v = Y[k], out[k]
        z[offsets[leaves] :] = y[offsets[leaves] :]
        pool_up(child, offsets, s2, W, y, z, S, False)
        if clip:
            pooled_down(child, offsets, top, z, V, taus, steeps, v, leaves)
        else:
            gls_down(child, offsets, V, W, z, S, v, leaves)


@kernel
def joint_rows(child: Ints, offsets: Ints, top: int, s2: Floats, Y: Floats, out: Floats, work: Floats, K: Ints) -> int:
    """`joint` on every row; the most passes."""
    most = 0
    for k in range(Y.shape[0]):
        most = max(most, joint(child, offsets, top, s2, Y[k], out[k], work, K))
    return most


# Rounding. With F_i = u + v_1 + ... + v_i child i of a parent becomes floor(F_i) - floor(F_{i-1}); for u uniform on [0, 1) that has
# the mean v_i, moves it by less than 1 and is not negative. The children's sum is floor(u + v_p), so where the parent has become
# P = floor(v_p) + b, u must lie in the part of [0, 1) that gives P: [0, 1 - f) for b = 0, [1 - f, 1) for b = 1, f the fraction
# of v_p. Since b is 1 with probability f, a variable drawn uniformly from that part, fresh for each parent, is uniform on
# [0, 1) over all: every mean is kept, and every sum.


@kernel(error_model="numpy")
def _round_family(v: Floats, out: Floats, P: float, whole: float, w: float) -> None:
    """Children of a parent of real value `whole` that has become P; w is uniform. Only the fraction of F is carried."""
    f = whole - np.floor(whole)
    up = whole < P
    carry = (1.0 - f) + w * f if up else w * (1.0 - f)
    carry = min(carry, 1.0 - 2.0**-53)
    total = 0.0
    for i in range(v.size):
        value = np.floor(v[i])
        carry += v[i] - value
        if carry >= 1.0:
            value += 1.0
            carry -= 1.0
        out[i] = value
        total += value
    left, i = P - total, v.size - 1  # what rounding of doubles leaves, rarely: to the last child that can take it
    while left != 0.0 and i >= 0:
        moved = out[i] + left
        if moved >= 0.0 and abs(moved - v[i]) < 1.0:
            out[i] = moved
            left = 0.0
        i -= 1
    if left != 0.0:
        out[0] += left


@kernel(error_model="numpy")
def round_nodes(child: Ints, offsets: Ints, top: int, v: Floats, out: Floats, seed: Any, run: Any) -> None:
    """Every node of a consistent v >= 0 to whole numbers with all sums kept; levels down to `top` are whole numbers already."""
    key, stream = np.uint64(seed), np.uint64(run)
    if top < 0:
        out[0] = np.floor(v[0] + (1.0 - uniform(word(0, ROUND + 1, key, stream))))
    else:
        for i in range(offsets[top + 1]):
            out[i] = np.round(v[i])
    for level in range(max(top, 0), offsets.size - 2):
        for p in range(offsets[level], offsets[level + 1]):
            a, b = child[p], child[p + 1]
            whole = out[p] if level <= top else v[p]
            _round_family(v[a:b], out[a:b], out[p], whole, 1.0 - uniform(word(p, ROUND, key, stream)))
