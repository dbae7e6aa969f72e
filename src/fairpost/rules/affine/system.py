"""A v = b made ready for the kernels (scaled, ordered, analysed), and whether it has a solution at all.

A proof that it has none, of any sign or with v >= 0, is a weight for each row, z: the weighted rows have coefficients A' z = 0
(v of any sign) or A' z >= 0 (v >= 0, Farkas), and their right sides add up to b' z < 0, which no such v can meet.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairpost.errors import InfeasibleError, ToleranceError

if TYPE_CHECKING:
    from fairpost.rules.affine.kernels.ldl import Factor, Matrix

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

ACCEPTED, KKT = 1e-11, 1e-9  # what a solution may leave in A v = b, and in v = (y - A' mu)_+
STEPS = 3000  # of Newton's method, at most; a handful is usual

CONSISTENT = 1e-10  # b may contradict itself by this part of what a row adds up: public totals carry rounding
FIRST = 60  # Newton's steps before a proof is looked for


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


# ------------------------------------------------------------------ proofs that there is no solution


def consistent(system: System, n: int) -> System:
    """The system, where some v of any sign solves it; an `InfeasibleError` where none does.

    The least v in norm is (P) at y = 0. What it leaves, r = b - A v, is the least-squares residual: A' r = 0
    and b' r = |r|^2, so z = -r is a proof unless r is 0. An r of rounding size is taken out of b.
    """
    from fairpost.rules.affine.kernels import ldl

    v, error = system.equality(np.zeros(n))
    if error <= 1e-14:
        return system
    r = ldl.residual(system.matrix, system.b, v[system.columns])
    if error <= CONSISTENT:
        return replace(system, b=system.b - r)
    z = _clear(system, -r, np.diff(system.matrix.first).astype(np.float64), system.whole)
    if not _proves(system, z, signed=True):
        raise ToleranceError(f"rows of A are too nearly dependent: A v = b leaves {error:.1e} of what a row adds up")
    raise InfeasibleError(_message(system, z, "no v satisfies", "coefficients 0"))


def feasible(system: System, n: int) -> None:
    """An `InfeasibleError` where no v >= 0 solves a consistent system.

    A solution of (P_+) shows that there is one. Where Newton's method runs away, or ends far beyond the least
    v of any sign, a proof decides.
    """
    least, _ = system.equality(np.zeros(n))
    found = system.nonnegative(least, FIRST)
    if found.accurate and found.values.max() <= 1e3 * np.abs(least).max():
        return
    z = _refute(system)
    if z is not None:
        raise InfeasibleError(_message(system, z, "no v >= 0 satisfies", "coefficients >= 0"))
    if not system.nonnegative(least).accurate:
        raise ToleranceError("neither a v >= 0 with A v = b nor a proof that there is none was found")


def _refute(system: System) -> Floats | None:
    """A proof that no v >= 0 solves the system, or None: min b' z subject to A' z >= 0 and |z_i| <= 1, by HiGHS."""
    from scipy.optimize import linprog

    A = system.sparse()
    found = linprog(system.b, A_ub=-A.T, b_ub=np.zeros(A.shape[1]), bounds=(-1.0, 1.0), method="highs-ds")
    if found.x is None:
        return None
    z = np.asarray(found.x)
    return z if _proves(system, z, signed=False) else None


def _clear(system: System, z: Floats, weight: Floats, factor: Factor) -> Floats:
    """Takes from z its part in the range of A_F, and entries that are rounding."""
    from fairpost.rules.affine.kernels import ldl

    A = system.sparse()
    for _ in range(4):
        z = z - ldl.solve(factor, A @ (weight * (A.T @ z)))
    return np.where(np.abs(z) > 1e-14 * np.abs(z).max(), z, 0.0)


def _proves(system: System, z: Floats, signed: bool) -> bool:
    """Whether A' z >= 0 (`signed`: = 0) up to rounding in the sums, and b' z < 0 well beyond it."""
    A, b = system.sparse(), system.b
    image, size = A.T @ z, abs(A).T @ np.abs(z)
    wrong = np.abs(image) if signed else np.maximum(-image, 0.0)
    small = bool((wrong <= 1e-12 * size + 1e-13 * size.max()).all())
    return small and bool(b @ z < -1e-9 * (np.abs(b) @ np.abs(z)))


def _message(system: System, z: Floats, claim: str, left: str) -> str:
    """The proof in one line: the rows with the largest weights, and what all of them add up to."""
    weights = system.original(z)
    weights /= np.abs(weights).max()
    weights[np.abs(weights) < 1e-9] = 0.0
    rows = np.argsort(-np.abs(weights), kind="stable")[: np.count_nonzero(weights)]
    names = " + ".join(f"{weights[i]:.4g} x row {i}" for i in np.sort(rows[:4]))
    more = f" + {rows.size - 4} more rows" if rows.size > 4 else ""
    right = weights[system.order] @ (system.b / system.scale)
    return f"{claim} A v = b: {names}{more} gives {left} on the left and {right:.6g} on the right"
