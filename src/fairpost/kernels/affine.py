"""Sparse L D L' of A_F A_F' and Newton's method on the dual of (P_+): the set-up is in `postprocess/_dual.py`.

F is the set of free variables. Rows of A are scaled to norms near 1 and ordered for little fill. A column that
meets many rows would fill A_F A_F'; such columns are *kept* as extra unknowns u instead, which leaves

    [ A_S A_S' + ridge   A_K ] [mu]   [g]
    [ A_K'               -I  ] [ u] = [0]      (S: sparse columns, K: kept columns; eliminate u to see it),

quasi-definite, so that L D L' exists in every order; rows come first, kept columns last.
"""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

RIDGE = 1e-11  # relative to each diagonal entry of A_F A_F'; refinement removes its effect
SHORT, COARSER, COARSEST = (
    1e-3,
    1e4,
    1.0,
)  # after a step below SHORT the ridge grows by COARSER, to COARSEST at most
CLOSE, NEAR = (
    1e-15,
    1e-13,
)  # Newton ends at the relative residual CLOSE, or below NEAR where it falls no further
SNAP, ROUND, FAR = 1e-11, 1e-15, 1e-4  # zero: up to SNAP of its noisy count and ROUND of what its rows add up


class Matrix(NamedTuple):
    """A by rows and by columns (row numbers ascending in each column)."""

    row_start: Ints
    row_column: Ints
    row_value: Floats
    column_start: Ints
    column_row: Ints
    column_value: Floats
    is_kept: Bools  # one a column
    kept: Ints  # the kept columns


class Factor(NamedTuple):
    """L by columns with unit diagonal, and D; `start` and `parent` are the symbolic part, shared by all factors."""

    start: Ints
    parent: Ints
    row: Ints
    value: Floats
    filled: Ints  # entries of each column of L in use
    pivot: Floats


@njit(cache=True, nogil=True)
def symbolic(start: Ints, row: Ints) -> tuple[Ints, Ints]:
    """Elimination tree and column starts of L, from the pattern of the full symmetric matrix (by columns)."""
    size = start.size - 1
    parent, count, mark = np.full(size, -1), np.zeros(size + 1, np.int64), np.full(size, -1)
    for k in range(size):
        mark[k] = k
        for p in range(start[k], start[k + 1]):
            i = row[p]
            while i < k and mark[i] != k:
                if parent[i] < 0:
                    parent[i] = k
                count[i + 1] += 1
                mark[i] = k
                i = parent[i]
    return parent, np.cumsum(count)


@njit(cache=True, nogil=True)
def new_factor(start: Ints, parent: Ints) -> Factor:
    """Room for one factor."""
    size, entries = parent.size, start[-1]
    return Factor(
        start,
        parent,
        np.empty(entries, np.int64),
        np.empty(entries),
        np.zeros(size, np.int64),
        np.empty(size),
    )


@njit(cache=True, nogil=True, inline="always")
def _reach(i: int, k: int, top: int, parent: Ints, path: Ints, mark: Ints) -> int:
    """Adds to path[top:] the rows between i and k in the elimination tree, in an order that solves with L allow."""
    length = 0
    while mark[i] != k:
        path[length] = i
        length += 1
        mark[i] = k
        i = parent[i]
    while length > 0:
        top -= 1
        length -= 1
        path[top] = path[length]
    return top


@njit(cache=True, nogil=True, inline="always")
def _eliminate(k: int, pivot: float, path: Ints, line: Floats, L: Factor) -> float:
    """Row k of L from row k of the matrix in `line`; returns the pivot. `line` is zero again afterwards."""
    start, row, value, filled, pivots = L.start, L.row, L.value, L.filled, L.pivot
    for i in path:
        entry, line[i] = line[i], 0.0
        end = start[i] + filled[i]
        for p in range(start[i], end):
            line[row[p]] -= value[p] * entry
        row[end], value[end] = k, entry / pivots[i]
        filled[i] += 1
        pivot -= value[end] * entry
    return pivot


@njit(cache=True, nogil=True)
def factorise(A: Matrix, free: Bools, ridge: float, L: Factor) -> None:
    """Up-looking L D L', one row at a time; a row of A without free variables gets the pivot `ridge`."""
    row_start, row_column, row_value, column_start, column_row, column_value, is_kept, kept = A
    m, size, parent = row_start.size - 1, L.parent.size, L.parent
    line, path, mark = np.zeros(size), np.empty(size, np.int64), np.full(size, -1)
    L.filled[:] = 0
    for k in range(m):
        mark[k], top = k, size
        for p in range(row_start[k], row_start[k + 1]):
            j = row_column[p]
            if free[j] and not is_kept[j]:
                for q in range(column_start[j], column_start[j + 1]):
                    i = column_row[q]
                    if i > k:
                        break
                    line[i] += row_value[p] * column_value[q]
                    top = _reach(i, k, top, parent, path, mark)
        diagonal, line[k] = line[k], 0.0
        floor = ridge * diagonal if diagonal > 0.0 else ridge
        L.pivot[k] = max(_eliminate(k, diagonal + floor, path[top:], line, L), floor)
    for k in range(m, size):
        mark[k], top = k, size
        j = kept[k - m]
        if free[j]:
            for q in range(column_start[j], column_start[j + 1]):
                line[column_row[q]] = column_value[q]
                top = _reach(column_row[q], k, top, parent, path, mark)
        L.pivot[k] = min(_eliminate(k, -1.0, path[top:], line, L), -1.0)


@njit(cache=True, nogil=True)
def solve(L: Factor, g: Floats) -> Floats:
    """mu with (A_F A_F' + ridge) mu = g."""
    size = L.parent.size
    x = np.zeros(size)
    x[: g.size] = g
    for i in range(size):
        for p in range(L.start[i], L.start[i] + L.filled[i]):
            x[L.row[p]] -= L.value[p] * x[i]
    for i in range(size - 1, -1, -1):
        x[i] /= L.pivot[i]
        for p in range(L.start[i], L.start[i] + L.filled[i]):
            x[i] -= L.value[p] * x[L.row[p]]
    return x[: g.size]


@njit(cache=True, nogil=True)
def combine(A: Matrix, mu: Floats) -> Floats:
    """A' mu."""
    out = np.zeros(A.is_kept.size)
    for j in range(out.size):
        for q in range(A.column_start[j], A.column_start[j + 1]):
            out[j] += A.column_value[q] * mu[A.column_row[q]]
    return out


@njit(cache=True, nogil=True)
def _two_product(a: float, b: float) -> tuple[float, float]:
    """A product and its rounding error (Dekker)."""
    p = a * b
    t = 134217729.0 * a
    high_a = t - (t - a)
    t = 134217729.0 * b
    high_b = t - (t - b)
    low_a, low_b = a - high_a, b - high_b
    return p, ((high_a * high_b - p) + high_a * low_b + low_a * high_b) + low_a * low_b


@njit(cache=True, nogil=True)
def residual(A: Matrix, b: Floats, v: Floats) -> Floats:
    """b - A v with twice the working precision inside, so that totals of 1e9 leave the last bits of v visible."""
    out = np.empty(b.size)
    for k in range(b.size):
        total, carry = b[k], 0.0
        for p in range(A.row_start[k], A.row_start[k + 1]):
            term, error = _two_product(-A.row_value[p], v[A.row_column[p]])
            new = total + term
            part = new - total
            carry += ((total - (new - part)) + (term - part)) + error
            total = new
        out[k] = total + carry
    return out


@njit(cache=True, nogil=True)
def refine(A: Matrix, b: Floats, free: Bools, L: Factor, v: Floats, rounds: int) -> Floats:
    """Moves the free part of v along A_F' until A v = b to rounding, in place; returns b - A v.

    v_F stays in y_F + range(A_F'), so that what it converges to is the projection of y_F onto A_F v_F = b.
    """
    left = residual(A, b, v)
    size = np.abs(left).max() if left.size else 0.0
    for _ in range(rounds):
        if size == 0.0:
            break
        change = combine(A, solve(L, left))
        trial = np.where(free, v + change, 0.0)
        after = residual(A, b, trial)
        before, size_after = size, np.abs(after).max()
        if not size_after < before:
            break
        v[:] = trial
        left, size = after, size_after
        if size_after > 0.25 * before:
            break
    return left


@njit(cache=True, nogil=True)
def _scales(A: Matrix, b: Floats, free: Bools, size: Floats) -> tuple[Floats, Floats]:
    """What rounding errors are relative to: one scale a row, one a column.

    R_i = |b_i| + |A_iF| size_F is what row i adds up; a column takes the largest R of its rows, a row the
    largest of its columns, because an error in one row moves the variables that it shares with others. FAR
    stands for errors that come a longer way.
    """
    own, rows, columns = np.abs(b), np.zeros(b.size), np.zeros(size.size)
    for k in range(b.size):
        for p in range(A.row_start[k], A.row_start[k + 1]):
            j = A.row_column[p]
            if free[j]:
                own[k] += abs(A.row_value[p]) * size[j]
    own = np.maximum(own, FAR * own.max())
    for j in range(size.size):
        for q in range(A.column_start[j], A.column_start[j + 1]):
            columns[j] = max(columns[j], own[A.column_row[q]])
    for k in range(b.size):
        for p in range(A.row_start[k], A.row_start[k + 1]):
            rows[k] = max(rows[k], columns[A.row_column[p]])
    return rows, columns


@njit(cache=True, nogil=True)
def _slack(A: Matrix, y: Floats, mu: Floats) -> tuple[Floats, Floats]:
    """w = y - A' mu, and the sizes of the terms that each entry is the difference of."""
    w, size = y.copy(), np.abs(y)
    for j in range(y.size):
        for q in range(A.column_start[j], A.column_start[j + 1]):
            term = A.column_value[q] * mu[A.column_row[q]]
            w[j] -= term
            size[j] += abs(term)
    return w, size


@njit(cache=True, nogil=True)
def relative(left: Floats, scale: Floats) -> float:
    """max |left| / scale, where 0 / 0 is 0."""
    worst = 0.0
    for k in range(left.size):
        if left[k] != 0.0:
            worst = max(worst, abs(left[k]) / scale[k]) if scale[k] > 0.0 else np.inf
    return worst


@njit(cache=True, nogil=True)
def _along(w: Floats, s: Floats, slope: float, t: float) -> tuple[float, float]:
    """phi'(t) and phi(t) - phi(0) on mu + t d, where s = A' d and slope = phi'(0); only like signs are added."""
    derivative, change = slope, t * slope
    for j in range(w.size):
        u = w[j] - t * s[j]
        if w[j] > 0.0 and u > 0.0:
            derivative += t * s[j] * s[j]
            change += 0.5 * (t * s[j]) ** 2
        elif w[j] > 0.0:
            derivative += s[j] * w[j]
            change += w[j] * (t * s[j] - 0.5 * w[j])
        elif u > 0.0:
            derivative -= s[j] * u
            change += 0.5 * u * u
    return derivative, change


@njit(cache=True, nogil=True)
def search(w: Floats, s: Floats, slope: float) -> float:
    """A step: 1 where that is good enough, else where phi' has lost nine tenths of its size."""
    t, low, low_value, high, high_value = 1.0, 0.0, slope, np.inf, 0.0
    for trial in range(100):
        derivative, change = _along(w, s, slope, t)
        if abs(derivative) <= -0.1 * slope:
            break
        if t == 1.0 and abs(derivative) <= -0.9 * slope and change <= 1e-4 * slope:
            break
        if derivative < 0.0:
            low, low_value = t, derivative
        else:
            high, high_value = t, derivative
        if high == np.inf:
            t *= 4.0
        elif trial % 3 == 2:
            t = 0.5 * (low + high) if low > 0.0 else 0.01 * high
        else:
            t = low + (high - low) * min(max(-low_value / (high_value - low_value), 0.05), 0.95)
    return t


@njit(cache=True, nogil=True)
def newton(A: Matrix, b: Floats, y: Floats, mu: Floats, L: Factor, limit: int) -> int:
    """Minimises phi(mu) = |(y - A' mu)_+|^2 / 2 + b' mu from mu, in place; returns the steps, `limit` where unfinished.

    phi is convex, once differentiable and piecewise quadratic; its Hessian is A_F A_F' with F = {y - A' mu > 0}.
    A full step inside one piece ends there. Where A_F A_F' is singular the ridge turns the step into the
    flat directions and the line search limits it.
    """
    ridge, settled, last, free = RIDGE, False, np.inf, np.zeros(y.size, np.bool_)
    for step in range(limit):
        w, size = _slack(A, y, mu)
        settled = settled and np.array_equal(w > 0.0, free)
        free = w > 0.0
        g = -residual(A, b, np.where(free, w, 0.0))
        error = relative(g, _scales(A, b, free, size)[0])
        if error <= CLOSE or ((settled or error <= NEAR) and error > 0.25 * last):
            return step
        last = error
        factorise(A, free, ridge, L)
        d = solve(L, g)
        t = search(w, combine(A, d), -np.dot(g, d))
        mu += t * d
        settled = t == 1.0 and ridge == RIDGE
        if t < SHORT:
            ridge = min(ridge * COARSER, COARSEST)
        elif t >= 1.0:
            ridge = max(ridge / COARSER, RIDGE)
    return limit


@njit(cache=True, nogil=True)
def polish(A: Matrix, b: Floats, y: Floats, mu: Floats, L: Factor, snap: bool) -> tuple[Floats, float]:
    """v on the free set that mu shows: A v = b to rounding, exact zeros elsewhere; and the relative residual.

    With `snap`, what rounding cannot tell from zero is zero. Entries that the refinement makes negative join
    the zeros, which happens at ties only.
    """
    w = y - combine(A, mu)
    v = np.maximum(w, 0.0)
    floor = ROUND * _scales(A, b, w > 0.0, np.abs(y) + v)[1] if snap else np.zeros(y.size)
    v = np.where(w > floor + SNAP * np.abs(y) if snap else w > 0.0, w, 0.0)
    for _ in range(8):
        free = v > 0.0
        factorise(A, free, RIDGE, L)
        left = refine(A, b, free, L, v, 6)
        if np.array_equal(v > floor, free):
            return v, relative(left, _scales(A, b, free, np.abs(y) + v)[0])
        v = np.where(v > floor, v, 0.0)
    return v, np.inf


@njit(cache=True, nogil=True)
def equality(A: Matrix, b: Floats, y: Floats, whole: Factor) -> tuple[Floats, float]:
    """(P): the projection of y onto A v = b with every variable free, and its relative residual."""
    v, free = y.copy(), np.ones(y.size, np.bool_)
    left = refine(A, b, free, whole, v, 8)
    return v, relative(left, _scales(A, b, free, np.abs(y) + np.abs(v))[0])


@njit(cache=True, nogil=True)
def nonnegative(
    A: Matrix, b: Floats, y: Floats, whole: Factor, limit: int
) -> tuple[Floats, Floats, float, float, int]:
    """(P_+): v, mu, the relative residual of A v = b, that of v = (y - A' mu)_+, and Newton's steps.

    Newton starts at the multipliers of (P), because (P_+) has the same solution at y and at the solution of (P).
    """
    mu, L = solve(whole, -residual(A, b, y)), new_factor(whole.start, whole.parent)
    steps = newton(A, b, y, mu, L, limit)
    v, primal = polish(A, b, y, mu, L, True)
    if not primal <= NEAR:
        other, residue = polish(A, b, y, mu, L, False)
        if residue < primal:
            v, primal = other, residue
    gap = np.abs(v - np.maximum(y - combine(A, mu), 0.0)).max()
    scale = max(np.abs(y).max(), v.max())
    return v, mu, primal, gap / scale if gap > 0.0 else 0.0, steps
