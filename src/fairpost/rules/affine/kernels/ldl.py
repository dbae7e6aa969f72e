"""Sparse L D L' of A_F A_F', where F is the set of free variables, and products with A.

Variables with the same column in A form a class and stand side by side, so A is held with one column per class, and
A_F A_F' = sum over the classes of (free variables of the class) a a'. Rows of A come scaled to norms near 1 and in
an order with little fill (`postprocess/_dual.py`). A column that meets many rows would fill A_F A_F'; such columns
are *kept* as extra unknowns u instead, which leaves

    [ A_S A_S' + ridge   A_K ] [mu]   [g]
    [ A_K'               -I  ] [ u] = [0]      (S: sparse columns, K: kept columns; eliminate u to see it),

quasi-definite, so that L D L' exists in every order; rows come first, kept columns last.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairpost.compiled import kernel

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


class Matrix(NamedTuple):
    """A with one column per class, by rows and by columns (row numbers ascending in each column)."""

    row_start: Ints
    row_column: Ints
    row_value: Floats
    column_start: Ints
    column_row: Ints
    column_value: Floats
    first: Ints  # the variables of class c are first[c]:first[c + 1]
    is_kept: Bools  # one per class
    kept: Ints  # the kept classes


class Factor(NamedTuple):
    """D, and L by columns without its unit diagonal; `start` and `parent` depend on the pattern alone."""

    start: Ints
    parent: Ints
    row: Ints
    value: Floats
    filled: Ints  # entries of each column of L in use
    pivot: Floats


@kernel
def symbolic(start: Ints, row: Ints) -> tuple[Ints, Ints]:
    """The elimination tree and the column starts of L, from the symmetric pattern by columns."""
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
    for k in range(size):
        count[k + 1] += count[k]
    return parent, count


@kernel
def new_factor(start: Ints, parent: Ints) -> Factor:
    """Room for one factor."""
    size, entries = parent.size, start[-1]
    row, value = np.empty(entries, np.int64), np.empty(entries)
    return Factor(start, parent, row, value, np.zeros(size, np.int64), np.empty(size))


@kernel(inline="always")
def _reach(i: int, k: int, top: int, parent: Ints, path: Ints, mark: Ints) -> int:
    """Adds the rows from i up to k in the elimination tree to path[top:], in an order for a solve."""
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


@kernel(inline="always")
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


@kernel
def factorise(A: Matrix, weight: Floats, ridge: float, L: Factor) -> None:
    """Up-looking L D L' into L, one row at a time; `weight` is the number of free variables of each class.

    `ridge` is relative to each diagonal entry; a row without free variables gets it as its pivot.
    """
    row_start, row_column, row_value, column_start, column_row, column_value, _, is_kept, kept = A
    m, size, parent = row_start.size - 1, L.parent.size, L.parent
    line, path, mark = np.zeros(size), np.empty(size, np.int64), np.full(size, -1)
    for k in range(size):
        L.filled[k] = 0
    for k in range(m):
        mark[k], top = k, size
        for p in range(row_start[k], row_start[k + 1]):
            c = row_column[p]
            if weight[c] > 0.0 and not is_kept[c]:
                for q in range(column_start[c], column_start[c + 1]):
                    i = column_row[q]
                    if i > k:
                        break
                    line[i] += weight[c] * row_value[p] * column_value[q]
                    top = _reach(i, k, top, parent, path, mark)
        diagonal, line[k] = line[k], 0.0
        floor = ridge * diagonal if diagonal > 0.0 else ridge
        L.pivot[k] = max(_eliminate(k, diagonal + floor, path[top:], line, L), floor)
    for k in range(m, size):
        mark[k], top = k, size
        c = kept[k - m]
        if weight[c] > 0.0:
            for q in range(column_start[c], column_start[c + 1]):
                line[column_row[q]] = np.sqrt(weight[c]) * column_value[q]
                top = _reach(column_row[q], k, top, parent, path, mark)
        L.pivot[k] = min(_eliminate(k, -1.0, path[top:], line, L), -1.0)


@kernel
def solve(L: Factor, g: Floats) -> Floats:
    """The mu with (A_F A_F' + ridge) mu = g."""
    size = L.parent.size
    x = np.zeros(size)
    for i in range(g.size):
        x[i] = g[i]
    for i in range(size):
        for p in range(L.start[i], L.start[i] + L.filled[i]):
            x[L.row[p]] -= L.value[p] * x[i]
    for i in range(size - 1, -1, -1):
        x[i] /= L.pivot[i]
        for p in range(L.start[i], L.start[i] + L.filled[i]):
            x[i] -= L.value[p] * x[L.row[p]]
    return x[: g.size]


@kernel
def combine(A: Matrix, mu: Floats) -> Floats:
    """The combination A' mu of the rows of A, one number per class."""
    out = np.zeros(A.is_kept.size)
    for c in range(out.size):
        for q in range(A.column_start[c], A.column_start[c + 1]):
            out[c] += A.column_value[q] * mu[A.column_row[q]]
    return out


@kernel
def _two_sum(a: float, b: float) -> tuple[float, float]:
    """A sum and its rounding error (Knuth)."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


@kernel
def _two_product(a: float, b: float) -> tuple[float, float]:
    """A product and its rounding error (Dekker)."""
    p = a * b
    t = 134217729.0 * a
    high_a = t - (t - a)
    t = 134217729.0 * b
    high_b = t - (t - b)
    low_a, low_b = a - high_a, b - high_b
    return p, ((high_a * high_b - p) + high_a * low_b + low_a * high_b) + low_a * low_b


@kernel
def residual(A: Matrix, b: Floats, v: Floats) -> Floats:
    """The residual b - A v, summed in twice the working precision: large totals hide no bits of v."""
    classes = A.is_kept.size
    high, low = np.zeros(classes), np.zeros(classes)
    for c in range(classes):
        total, carry = 0.0, 0.0
        for j in range(A.first[c], A.first[c + 1]):
            if v[j] != 0.0:
                total, error = _two_sum(total, v[j])
                carry += error
        high[c], low[c] = total, carry
    out = np.empty(b.size)
    for k in range(b.size):
        total, carry = b[k], 0.0
        for p in range(A.row_start[k], A.row_start[k + 1]):
            c = A.row_column[p]
            term, error = _two_product(-A.row_value[p], high[c])
            carry += error - A.row_value[p] * low[c]
            total, error = _two_sum(total, term)
            carry += error
        out[k] = total + carry
    return out
