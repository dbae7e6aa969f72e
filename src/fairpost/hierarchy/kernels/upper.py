"""Runs of the simulation above the leaves; what is added up stands in `runs`."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpost.compiled import kernel
from fairpost.hierarchy.kernels.draw import draw
from fairpost.hierarchy.kernels.families import family
from fairpost.hierarchy.kernels.rules import gls_down, pool_up, pooled_down
from fairpost.hierarchy.kernels.runs import given_moments
from fairpost.noise.kernels.guide import Guides

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Ints = NDArray[np.int64]


@kernel
def _draw_upper(
    kind: int, spreads: Floats, guides: Guides, cuts: Floats, offsets: Ints, x: Floats, seed: Any, run: Any, y: Floats
) -> None:
    """Measurements of all inner nodes."""
    for level in range(offsets.size - 2):
        a, b = offsets[level], offsets[level + 1]
        draw(kind, y[a:b], a, spreads[level], guides[level], cuts[level], seed, run)
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
        given_moments(
            v[:1], y[:1], x[:1], P[:1], offset[:1], np.inf, 0.0, v[0] - y[0], 0.0, 1.0, whole,
            r[:1], planes[0, :1], planes[1, :1], planes[2, :1],
        )  # fmt: skip
    for level in range(level0, offsets.size - 3):
        tau, steep = taus[level + 1 : level + 2], steeps[level + 1]
        for p in range(offsets[level], offsets[level + 1]):
            a, b = child[p], child[p + 1]
            total, least = 0.0, np.inf
            for c in range(a, b):
                total += y[c]
                least = min(least, y[c])
            q, start = (total - lin[p]) / (b - a), (total - v[p]) / (b - a)
            for c in range(a, b):
                lin[c] = y[c] - q
            if steep != 1.0 or whole or b - a == 1 or least <= start or least <= m[p]:
                family(y[a:b], v[p], tau, steep, v[a:b])
                given_moments(
                    v[a:b], y[a:b], x[a:b], P[a:b], offset[a:b], m[p], q, v[p] - lin[p], tau[0], steep, whole,
                    r[a:b], planes[0, a:b], planes[1, a:b], planes[2, a:b],
                )  # fmt: skip
                continue
            for c in range(a, b):  # nothing is clipped, here and at the constant m
                v[c] = y[c] - start
                rest, e = m[p] - start + P[c] * q, v[c] - x[c]
                planes[0, c] += rest
                planes[1, c] += rest * rest
                planes[2, c] += e * e


@kernel
def linear_moments(v: Floats, u: Floats, x: Floats, whole: bool, planes: Floats) -> None:
    """Sums with the control u, whose mean is the truth."""
    for i in range(v.size):
        r, e, f = v[i] - u[i], v[i] - x[i], v[i] - np.floor(v[i])
        planes[0, i] += r
        planes[1, i] += r * r
        planes[2, i] += e * e + (f * (1.0 - f) if whole else 0.0)


@kernel
def upper_block(
    kind: int, spreads: Floats, guides: Guides, cuts: Floats, seed: Any, first_run: int, child: Ints, offsets: Ints,
    top: int, x: Floats, offset: Floats,
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
        _draw_upper(kind, spreads, guides, cuts, offsets, x, seed, np.uint64(first_run + t), y)
        if pooled:
            for p in range(a, b):
                sums[p] = S[t, p - a]
            pool_up(child, offsets, s2, W, y, z, sums, True)
            gls_down(child, offsets, Vs, W, z, sums, u, last)
            pooled_down(child, offsets, top, z, Vs, taus, steeps, v, last)
            linear_moments(v, u, x[:b], whole, planes)
        else:
            _upper_families(
                child, offsets, top, y, x, offset, m, P, taus, steeps, whole, v, u, z, planes
            )  # fmt: skip
        V[t] = v[a:b]
        lin[t] = u[a:b]
