"""Runs of a histogram with totals first: all cells of all nodes, from the root down, and what is added up.

Arrays of cells are (nodes, cells), so that a family is one stretch of memory. For each cell of each node the sums over runs are of r,
r^2 and e^2, e = v - x, with four controls whose means are exactly 0:

    r = e - sum_j k_j c_j,   c = ((y - m)_+ - psi(x - m),   y - u,   u - x,   (y' - m')_+ - psi'(x' - m')),   B = E[e] = E[r],

for any constants k, m, m'. u is the unclipped estimate, psi(a) = E[(a + eta)_+]; primes are of the node's total. Where m is infinite that
control is 0; m' = -infinity stands for the linear one, u' - x', where the law of a pooled estimate is not at hand. An only child has
its parent's r.

The unclipped estimate of a family, given the children's unclipped totals t and the parent's unclipped cells, is the projection without
v >= 0, whose multipliers are closed (see `transport`): u_ck = z_ck - a_c - w_c b_k with a_c = (z_c. - t_c)/K and
b_k = (z_.k - u_pk - sum_c a_c)/sum w.
"""

import numpy as np
from numpy.typing import NDArray

from fairpost.compiled import kernel
from fairpost.hierarchy.kernels.families import project
from fairpost.hierarchy.kernels.meanfield import upper1
from fairpost.hierarchy.kernels.transport import transport

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
NEW = 1e-9  # the part of a control's variance that the ones before it must leave
PRIOR, SHRINK = 2.0, 8.0  # see `fit`


@kernel
def _copy(z: Floats, out: Floats) -> None:
    """The first rows of out = z. (Between arrays `out[:] = z` would compile messages about shapes, for seconds.)"""
    for i in range(z.shape[0]):
        for k in range(z.shape[1]):
            out[i, k] = z[i, k]


@kernel(error_model="numpy")
def cells_down(
    child: Ints, offsets: Ints, top: int, z: Floats, w: Floats, T: Floats, v: Floats, mu: Floats, vec: Floats, Z: Floats, S: Floats,
    at: Ints, worst: Floats,
) -> int:  # fmt: skip
    """Cells of every node from those of the exact levels (or a root's measurement) and the totals T; w: variances by node.

    mu = the multipliers, NaN where there are none. worst = what a column is off at most, relative to its parent's total (or 1), and
    the parent. Returns Newton's steps in all.
    """
    steps, found = 0, np.zeros(1)
    worst[0], worst[1] = 0.0, 0.0
    if top >= 0:
        known = offsets[top + 1]
        _copy(z[:known], v)
        mu[:known] = np.nan
    else:
        mu[0] = project(z[0], T[0], v[0])
    for level in range(max(top, 0), offsets.size - 2):
        for p in range(offsets[level], offsets[level + 1]):
            a, b = child[p], child[p + 1]
            if b - a == 1:
                v[a], mu[a] = v[p], np.nan
                continue
            steps += transport(z[a:b], w[a:b], T[a:b], v[p], v[a:b], mu[a:b], vec, Z, S, at, found)
            off = found[0] / max(T[p], 1.0)
            if not off <= worst[0]:  # NaN too
                worst[0], worst[1] = off, p
    return steps


@kernel(error_model="numpy")
def cells_linear(child: Ints, offsets: Ints, top: int, z: Floats, w: Floats, t: Floats, u: Floats) -> None:
    """The unclipped estimate of every cell, given that of the totals."""
    many = z.shape[1]
    if top >= 0:
        known = offsets[top + 1]
        _copy(z[:known], u)
    else:
        excess = (z[0].sum() - t[0]) / many
        for k in range(many):
            u[0, k] = z[0, k] - excess
    for level in range(max(top, 0), offsets.size - 2):
        for p in range(offsets[level], offsets[level + 1]):
            a, b = child[p], child[p + 1]
            rows, weight = 0.0, 0.0
            for c in range(a, b):
                rows += (z[c].sum() - t[c]) / many
                weight += w[c]
            for k in range(many):
                column = -u[p, k]
                for c in range(a, b):
                    column += z[c, k]
                u[a, k] = (column - rows) / weight  # b_k, until the last child is done
            for c in range(b - 1, a - 1, -1):
                excess = (z[c].sum() - t[c]) / many
                for k in range(many):
                    u[c, k] = z[c, k] - excess - w[c] * u[a, k]


@kernel(error_model="numpy")
def means_of(
    offsets: Ints, first: int, above: float, x: Floats, m: Floats, kind: int, spreads: Floats, tails: Floats, reach: Ints, psi: Floats
) -> None:  # fmt: skip
    """psi(x - m) of all nodes of one tree, 0 where m is infinite; m becomes `above` on levels above `first`.

    `tails` are the tables of all levels side by side, level l from reach[l] on.
    """
    for level in range(offsets.size - 1):
        table = tails[:, reach[level] : reach[level + 1]]
        for i in range(offsets[level], offsets[level + 1]):
            psi[i] = 0.0
            if level < first:
                m[i] = above
            elif np.isfinite(m[i]):
                psi[i] = upper1(x[i] - m[i], kind, spreads[level], table)[0]


@kernel(inline="always", error_model="numpy")
def _controls(
    i: int, k: int, z: Floats, u: Floats, x: Floats, m: Floats, psi: Floats, y_total: Floats, t: Floats, x_total: Floats, m_total: Floats,
    psi_total: Floats, c: Floats,
) -> None:  # fmt: skip
    """The controls of cell k of node i."""
    y, yt, mt = z[i, k], y_total[i], m_total[i]
    c[0] = (y - m[i] if y > m[i] else 0.0) - psi[i]
    c[1] = y - u[i, k]
    c[2] = u[i, k] - x[i]
    c[3] = t[i] - x_total[i] if mt == -np.inf else (yt - mt if yt > mt else 0.0) - psi_total[i]


@kernel(error_model="numpy")
def pilot_moments(
    k: int, z: Floats, v: Floats, u: Floats, x: Floats, m: Floats, psi: Floats, y_total: Floats, t: Floats, x_total: Floats,
    m_total: Floats, psi_total: Floats, sums: Floats,
) -> None:  # fmt: skip
    """Sums over pilot runs of e, c, c c' (lower half, row by row), e c, e^2, v - u and its square: 22 rows."""
    c = np.empty(4)
    for i in range(x.size):
        e, straight = v[i, k] - x[i], v[i, k] - u[i, k]
        _controls(i, k, z, u, x, m, psi, y_total, t, x_total, m_total, psi_total, c)
        sums[0, i] += e
        at = 5
        for p in range(4):
            sums[1 + p, i] += c[p]
            sums[15 + p, i] += e * c[p]
            for q in range(p + 1):
                sums[at, i] += c[p] * c[q]
                at += 1
        sums[19, i] += e * e
        sums[20, i] += straight
        sums[21, i] += straight * straight


@kernel(error_model="numpy")
def fit(sums: Floats, runs: int, ridge: Floats, kappa: Floats) -> None:
    """The coefficients of least squares with an intercept and a ridge, by Cholesky, shrunk.

    A control that hardly ever left its value in the pilot would get a coefficient of chance: the ridge (a row a control, an entry a
    node) is what PRIOR runs of plain noise would add to its squares. Where the controls explain little they are better left alone: all
    are multiplied by (1 - SHRINK rest / (runs explained))_+, the form of James and Stein (1961). Where v - u varied less in the pilot
    than what is left, that is taken: k = (0, 0, 1, 0). None of this biases anything.
    """
    G, b, kept = np.empty((4, 4)), np.empty(4), np.empty(4)
    for i in range(sums.shape[1]):
        at, explained = 5, 0.0
        for p in range(4):
            b[p] = kept[p] = sums[15 + p, i] - sums[0, i] * sums[1 + p, i] / runs
            for q in range(p + 1):
                G[p, q] = sums[at, i] - sums[1 + p, i] * sums[1 + q, i] / runs
                at += 1
            G[p, p] += PRIOR * ridge[p, i]
        for p in range(4):
            size = G[p, p]
            for q in range(p + 1):
                for o in range(q):
                    G[p, q] -= G[p, o] * G[q, o]
                if q < p:
                    G[p, q] = G[p, q] / G[q, q] if G[q, q] > 0.0 else 0.0
                else:
                    G[p, p] = np.sqrt(G[p, p]) if G[p, p] > NEW * size else 0.0
            for o in range(p):
                b[p] -= G[p, o] * b[o]
            b[p] = b[p] / G[p, p] if G[p, p] > 0.0 else 0.0
        for p in range(3, -1, -1):
            for o in range(p + 1, 4):
                b[p] -= G[o, p] * b[o]
            b[p] = b[p] / G[p, p] if G[p, p] > 0.0 else 0.0
            explained += b[p] * kept[p]
        rest = sums[19, i] - sums[0, i] * sums[0, i] / runs - explained
        less = max(1.0 - SHRINK * rest / (runs * explained), 0.0) if explained > 0.0 else 0.0
        left = rest + (1.0 - less) * (1.0 - less) * explained
        straight = sums[21, i] - sums[20, i] * sums[20, i] / runs <= left
        for p in range(4):
            kappa[p, i] = less * b[p] if not straight else 1.0 if p == 2 else 0.0


@kernel(error_model="numpy")
def cell_moments(
    child: Ints, inner: int, k: int, z: Floats, v: Floats, u: Floats, x: Floats, m: Floats, psi: Floats, kappa: Floats, y_total: Floats,
    t: Floats, x_total: Floats, m_total: Floats, psi_total: Floats, r: Floats, out: Floats, planes: Floats,
) -> None:  # fmt: skip
    """Cell k of one run: r and the output of all nodes, and the sums of r, r^2 and e^2."""
    c = np.empty(4)
    for i in range(r.size):
        out[i] = v[i, k]
        _controls(i, k, z, u, x, m, psi, y_total, t, x_total, m_total, psi_total, c)
        r[i] = out[i] - x[i] - kappa[0, i] * c[0] - kappa[1, i] * c[1] - kappa[2, i] * c[2] - kappa[3, i] * c[3]
    for p in range(inner):
        if child[p + 1] - child[p] == 1:
            r[child[p]] = r[p]
    for i in range(r.size):
        e = out[i] - x[i]
        planes[0, i] += r[i]
        planes[1, i] += r[i] * r[i]
        planes[2, i] += e * e


@kernel
def add_multipliers(mu: Floats, sums: Floats, many: Floats) -> None:
    """The finite ones, and how many there were."""
    for i in range(mu.shape[0]):
        for k in range(mu.shape[1]):
            if np.isfinite(mu[i, k]):
                sums[i, k] += mu[i, k]
                many[i, k] += 1.0
