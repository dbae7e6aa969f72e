"""A v = b made ready for the kernels: scaled, ordered, analysed."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairpost.errors import InfeasibleError

if TYPE_CHECKING:
    from fairpost.rules.affine.kernels.ldl import Factor, Matrix

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

ACCEPTED, KKT = 1e-11, 1e-9  # what a solution may leave in A v = b, and in v = (y - A' mu)_+
STEPS = 3000  # of Newton's method, at most; a handful is usual


class Solution(NamedTuple):
    """The solution of (P_+) with its certificate: v = (y - A' mu)_+ and A v = b, up to two errors."""

    values: Floats
    multipliers: Floats
    """The mu of the appendix's Lagrangian, one per row of A."""
    residual: float
    """What A v = b leaves, relative to what a row adds up."""
    gap: float
    """What v = (y - A' mu)_+ leaves, relative to the largest count."""
    steps: int
    """Newton's steps."""

    @property
    def accurate(self) -> bool:
        """Whether both errors are small enough to hand the values out (NaN is not)."""
        return self.residual <= ACCEPTED and self.gap <= KKT


@dataclass(frozen=True, eq=False, repr=False)
class System:
    """The rows of A that are not empty, scaled by powers of 2 to norms near 1, ordered for little fill."""

    matrix: Matrix
    b: Floats
    order: Ints
    """The row of A that stands at each place."""
    scale: Floats
    """What that row was multiplied by."""
    columns: Ints
    """The column of A that stands at each place: equal columns side by side."""
    whole: Factor
    """L D L' of A A'."""
    rows: int
    """How many rows A has, the empty ones included."""

    def equality(self, y: Floats) -> tuple[Floats, float]:
        """(P) for one vector, and its relative residual."""
        from fairpost.rules.affine.kernels import newton as affine

        if not self.b.size:
            return y.copy(), 0.0
        v, residual = affine.equality(self.matrix, self.b, y[self.columns], self.whole)
        return self.placed(v), float(residual)

    def nonnegative(self, y: Floats, limit: int = STEPS) -> Solution:
        """(P_+) for one vector."""
        from fairpost.rules.affine.kernels import newton as affine

        if not self.b.size:
            return Solution(np.maximum(y, 0.0), np.zeros(self.rows), 0.0, 0.0, 0)
        v, mu, residual, gap, steps = affine.nonnegative(self.matrix, self.b, y[self.columns], self.whole, limit)
        return Solution(self.placed(v), self.original(mu), float(residual), float(gap), int(steps))

    def placed(self, v: Floats) -> Floats:
        """Values of the moved columns in the order of A."""
        out = np.empty_like(v)
        out[self.columns] = v
        return out

    def original(self, weights: Floats) -> Floats:
        """Weights of the scaled rows as weights of the rows of A."""
        out = np.zeros(self.rows)
        out[self.order] = weights * self.scale
        return out

    def sparse(self) -> Any:
        """The scaled and ordered rows, with each distinct column once, for SciPy."""
        from scipy import sparse

        parts = (self.matrix.row_value, self.matrix.row_column, self.matrix.row_start)
        return sparse.csr_array(parts, shape=(self.b.size, self.matrix.is_kept.size))


def analyse(A: Any, b: Floats) -> System:
    """The system of A (CSR, canonical) and b. An empty row with b_i != 0 is an `InfeasibleError`."""
    from fairpost.rules.affine.kernels import ldl
    from fairpost.rules.affine.kernels import newton as affine

    filled = np.diff(A.indptr) > 0
    contrary = np.flatnonzero(~filled & (b != 0))
    if contrary.size:
        i = contrary[0]
        raise InfeasibleError(f"no v satisfies A v = b: row {i} of A is empty, b[{i}] must be 0, got {b[i]:g}")
    rows = np.flatnonzero(filled)
    scale = _row_scales(A[rows])
    scaled = A[rows].multiply(scale[:, None]).tocsr()
    member, some = _classes(scaled)
    distinct = scaled[:, some]
    kept = _dense_columns(distinct)
    place, pattern = _ordering(distinct, kept)
    distinct = distinct[place]
    near = _neighbours(distinct)
    place_of = np.argsort(near)
    columns = np.argsort(place_of[member], kind="stable")
    sizes = np.bincount(place_of[member], minlength=near.size)
    matrix = _matrix(distinct[:, near], np.concatenate([[0], np.cumsum(sizes)]), place_of[kept])
    parent, start = ldl.symbolic(pattern.indptr.astype(np.int64), pattern.indices.astype(np.int64))
    whole = ldl.new_factor(start, parent)
    ldl.factorise(matrix, sizes.astype(np.float64), affine.RIDGE, whole)
    return System(matrix, (b[rows] * scale)[place], rows[place], scale[place], columns, whole, b.size)


def _classes(A: Any) -> tuple[Ints, Ints]:
    """Which columns are equal: the class of each column, and one column of each class."""
    by_column = A.tocsc()
    by_column.sort_indices()
    start, index, value = by_column.indptr.tolist(), by_column.indices, by_column.data
    known: dict[bytes, int] = {}
    member = np.empty(A.shape[1], np.int64)
    for j, (p, q) in enumerate(pairwise(start)):
        member[j] = known.setdefault(index[p:q].tobytes() + value[p:q].tobytes(), len(known))
    return member, np.unique(member, return_index=True)[1]


def _row_scales(A: Any) -> Floats:
    """A power of 2 for each row that brings its norm near 1; scaling by it is exact."""
    if not A.shape[0]:
        return np.zeros(0)
    exponent = np.frexp(abs(A).max(axis=1).toarray().ravel())[1]
    unit = A.multiply(np.ldexp(1.0, -exponent)[:, None])
    norm = np.sqrt(unit.multiply(unit).sum(axis=1))
    return np.asarray(np.ldexp(1.0, -exponent - np.rint(np.log2(norm)).astype(exponent.dtype)))


def _dense_columns(A: Any) -> Ints:
    """The few columns that would fill A A'. Where many meet many rows, A is dense and none is kept."""
    m, n = A.shape
    dense = np.flatnonzero(np.bincount(A.indices, minlength=n) > 10.0 + 10.0 * np.sqrt(m))
    return dense if dense.size <= m / 10 else dense[:0]


def _ordering(A: Any, kept: Ints) -> tuple[Ints, Any]:
    """A minimum-degree order of the rows, and the pattern of A_S A_S' in it, bordered by A_K."""
    from scipy import sparse
    from scipy.sparse.linalg import splu

    m, n = A.shape
    ones = sparse.csr_array((np.ones(A.nnz), A.indices, A.indptr), shape=A.shape)
    light = np.ones(n)
    light[kept] = 0.0
    thin = sparse.csr_array(ones @ sparse.diags_array(light))
    thin.eliminate_zeros()
    product = sparse.csc_array(thin @ thin.T + sparse.eye_array(m))
    place = np.arange(m)
    if product.nnz < 0.3 * m * m:  # SuperLU is asked for its order alone; the row sums keep its numbers tame
        dominant = sparse.csc_array(product + sparse.diags_array(product.sum(axis=0)))
        options = {"SymmetricMode": True}
        factor = splu(dominant, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=options)
        place = np.argsort(factor.perm_c)
    pattern: Any = product[place][:, place]
    if kept.size:
        border: Any = ones[place][:, kept]
        pattern = sparse.block_array([[pattern, border], [border.T, sparse.eye_array(kept.size)]])
    return place, sparse.csc_array(pattern)


def _neighbours(A: Any) -> Ints:
    """The columns by the first row that they meet, so that a row finds its own side by side in memory."""
    by_column = A.tocsc()
    by_column.sort_indices()
    first = np.full(A.shape[1], A.shape[0])
    filled = np.flatnonzero(np.diff(by_column.indptr))
    first[filled] = by_column.indices[by_column.indptr[filled]]
    return np.argsort(first, kind="stable")


def _matrix(A: Any, first: Ints, kept: Ints) -> Matrix:
    from fairpost.rules.affine.kernels.ldl import Matrix

    by_row, by_column = A.tocsr(), A.tocsc()
    by_row.sort_indices()
    by_column.sort_indices()
    is_kept = np.zeros(A.shape[1], np.bool_)
    is_kept[kept] = True
    return Matrix(
        by_row.indptr.astype(np.int64),
        by_row.indices.astype(np.int64),
        by_row.data.astype(np.float64),
        by_column.indptr.astype(np.int64),
        by_column.indices.astype(np.int64),
        by_column.data.astype(np.float64),
        first.astype(np.int64),
        is_kept,
        kept.astype(np.int64),
    )
