"""Runs of a histogram with totals first: all cells of all nodes, from the root down, and what is added up.

Arrays of cells are (nodes, cells), so that a family is one stretch of memory. For each cell of each node the sums over runs are of r,
r^2 and e^2, e = v - x, with three controls whose means are exactly 0:

    r = e - k1 c1 - k2 c2 - k3 c3,   c1 = (y - m)_+ - psi(x - m),   c2 = y - u,   c3 = (y' - m')_+ - psi'(x' - m'),   B = E[e] = E[r],

for any constants k, m, m'. u is the unclipped estimate, psi(a) = E[(a + eta)_+]; primes are of the node's total. m = -infinity stands for
c1 = y - x and c3 = u' - x', where the law of a pooled estimate is not at hand; m = infinity for no control. An only child has its parent's r.

The unclipped estimate of a family, given the children's unclipped totals t and the parent's unclipped cells, is the projection without
v >= 0, whose multipliers are closed (see `transport`): u_ck = z_ck - a_c - w_c b_k, a_c = (z_c. - t_c)/K, b_k = (z_.k - u_pk - sum_c a_c)/sum w.
"""

from typing import Any

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
        v[:known] = z[:known]
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
        u[:known] = z[:known]
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
def means_of(offsets: Ints, first: int, x: Floats, m: Floats, kind: int, spreads: Floats, tails: Floats, reach: Ints, psi: Floats) -> None:
    """psi(x - m) of all nodes of one tree; m becomes -infinity on levels above `first`.

    `tails` are the tables of all levels side by side, level l from reach[l] on.
    """
    for level in range(offsets.size - 1):
        table = tails[:, reach[level] : reach[level + 1]]
        for i in range(offsets[level], offsets[level + 1]):
            psi[i] = 0.0
            if level < first:
                m[i] = -np.inf
            elif np.isfinite(m[i]):
                psi[i] = upper1(x[i] - m[i], kind, spreads[level], table)[0]


@kernel(inline="always", error_model="numpy")
def _clipped(y: float, u: float, x: float, m: float, psi: float) -> Any:
    if m == np.inf:
        return 0.0
    if m == -np.inf:
        return u - x
    return (y - m if y > m else 0.0) - psi


@kernel(inline="always", error_model="numpy")
def _controls(
    i: int, k: int, z: Floats, u: Floats, x: Floats, m: Floats, psi: Floats, y_total: Floats, t: Floats, x_total: Floats, m_total: Floats,
    psi_total: Floats,
) -> Any:  # fmt: skip
    """c1, c2, c3 of cell k of node i."""
    y = z[i, k]
    c1 = _clipped(y, y, x[i], m[i], psi[i])
    return c1, y - u[i, k], _clipped(y_total[i], t[i], x_total[i], m_total[i], psi_total[i])


@kernel(error_model="numpy")
def pilot_moments(
    k: int, z: Floats, v: Floats, u: Floats, x: Floats, m: Floats, psi: Floats, y_total: Floats, t: Floats, x_total: Floats,
    m_total: Floats, psi_total: Floats, sums: Floats,
) -> None:  # fmt: skip
    """Sums over pilot runs of e, c, c c' (lower half, row by row), e c, e^2, v - u and its square: 16 rows."""
    for i in range(x.size):
        e = v[i, k] - x[i]
        c1, c2, c3 = _controls(i, k, z, u, x, m, psi, y_total, t, x_total, m_total, psi_total)
        sums[0, i] += e
        sums[1, i] += c1
        sums[2, i] += c2
        sums[3, i] += c3
        sums[4, i] += c1 * c1
        sums[5, i] += c2 * c1
        sums[6, i] += c2 * c2
        sums[7, i] += c3 * c1
        sums[8, i] += c3 * c2
        sums[9, i] += c3 * c3
        sums[10, i] += e * c1
        sums[11, i] += e * c2
        sums[12, i] += e * c3
        sums[13, i] += e * e
        straight = v[i, k] - u[i, k]
        sums[14, i] += straight
        sums[15, i] += straight * straight


@kernel(error_model="numpy")
def fit(sums: Floats, runs: int, ridge: Floats, m: Floats, kappa: Floats) -> None:
    """The coefficients of least squares with an intercept and a ridge, by Cholesky, shrunk.

    A control that hardly ever left its value in the pilot would get a coefficient of chance: the ridge (a row a control, an entry a
    node) is what PRIOR runs of plain noise would add to its squares. Where the controls explain little they are better left alone: all
    are multiplied by (1 - SHRINK rest / (runs explained))_+, the form of James and Stein (1961). Where v - u varied less in the pilot
    than what is left, that is taken: m = -infinity and k = (1, -1, 0). None of this biases anything.
    """
    G, b, kept = np.empty((3, 3)), np.empty(3), np.empty(3)
    for i in range(sums.shape[1]):
        at, explained = 4, 0.0
        for p in range(3):
            b[p] = kept[p] = sums[10 + p, i] - sums[0, i] * sums[1 + p, i] / runs
            for q in range(p + 1):
                G[p, q] = sums[at, i] - sums[1 + p, i] * sums[1 + q, i] / runs
                at += 1
            G[p, p] += PRIOR * ridge[p, i]
        for p in range(3):
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
        for p in range(2, -1, -1):
            for o in range(p + 1, 3):
                b[p] -= G[o, p] * b[o]
            b[p] = b[p] / G[p, p] if G[p, p] > 0.0 else 0.0
            explained += b[p] * kept[p]
        rest = sums[13, i] - sums[0, i] * sums[0, i] / runs - explained
        less = max(1.0 - SHRINK * rest / (runs * explained), 0.0) if explained > 0.0 else 0.0
        left = rest + (1.0 - less) * (1.0 - less) * explained
        if sums[15, i] - sums[14, i] * sums[14, i] / runs <= left:
            m[i], less, b[0], b[1], b[2] = -np.inf, 1.0, 1.0, -1.0, 0.0
        for p in range(3):
            kappa[p, i] = less * b[p]


@kernel(error_model="numpy")
def cell_moments(
    child: Ints, inner: int, k: int, z: Floats, v: Floats, u: Floats, x: Floats, m: Floats, psi: Floats, kappa: Floats, y_total: Floats,
    t: Floats, x_total: Floats, m_total: Floats, psi_total: Floats, r: Floats, out: Floats, planes: Floats,
) -> None:  # fmt: skip
    """Cell k of one run: r and the output of all nodes, and the sums of r, r^2 and e^2."""
    for i in range(r.size):
        out[i] = v[i, k]
        c1, c2, c3 = _controls(i, k, z, u, x, m, psi, y_total, t, x_total, m_total, psi_total)
        r[i] = out[i] - x[i] - kappa[0, i] * c1 - kappa[1, i] * c2 - kappa[2, i] * c3
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
