"""A v = b made ready for the kernels: scaled, ordered, analysed, and refuted where it has no solution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairpost.errors import InfeasibleError, ToleranceError

if TYPE_CHECKING:
    from fairpost.kernels.affine import Factor, Matrix

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

CONSISTENT = (
    1e-10  # A v = b counts as solvable where the best v leaves less than this part of what a row adds up
)
ACCEPTED, KKT = 1e-11, 1e-9  # what a solution may leave in A v = b, and in v = (y - A' mu)_+
FIRST, STEPS = 60, 3000  # Newton's steps before a search for a contradiction, and at most


class Solution(NamedTuple):
    """The solution of (P_+) with its certificate: v = (y - A' mu)_+ and A v = b up to the two errors."""

    values: Floats
    multipliers: Floats  # mu, one a row of A
    residual: float  # of A v = b, relative to what a row adds up
    gap: float  # of v = (y - A' mu)_+, relative to the largest count
    steps: int  # of Newton's method

    @property
    def accurate(self) -> bool:
        """Whether both errors are small enough to hand the values out (NaN is not)."""
        return self.residual <= ACCEPTED and self.gap <= KKT


@dataclass(frozen=True, eq=False, repr=False)
class System:
    """The rows of A that are not empty: each scaled by a power of 2 to a norm near 1, in an order with little fill."""

    matrix: Matrix
    b: Floats
    order: Ints
    """The row of A that stands at each place."""
    scale: Floats
    """What that row was multiplied by."""
    whole: Factor
    """L D L' of A A'."""
    rows: int
    """How many rows A has, the empty ones included."""

    def equality(self, y: Floats) -> tuple[Floats, float]:
        """(P) for one vector, and its relative residual."""
        from fairpost.kernels import affine

        if not self.b.size:
            return y.copy(), 0.0
        v, residual = affine.equality(self.matrix, self.b, y, self.whole)
        return v, float(residual)

    def nonnegative(self, y: Floats, limit: int = STEPS) -> Solution:
        """(P_+) for one vector."""
        from fairpost.kernels import affine

        if not self.b.size:
            return Solution(np.maximum(y, 0.0), np.zeros(self.rows), 0.0, 0.0, 0)
        v, mu, residual, gap, steps = affine.nonnegative(self.matrix, self.b, y, self.whole, limit)
        return Solution(v, self.original(mu), float(residual), float(gap), int(steps))

    def original(self, weights: Floats) -> Floats:
        """Weights of the scaled rows as weights of the rows of A."""
        out = np.zeros(self.rows)
        out[self.order] = weights * self.scale
        return out

    def sparse(self) -> Any:
        """The scaled and ordered matrix for SciPy."""
        from scipy import sparse

        parts = (self.matrix.row_value, self.matrix.row_column, self.matrix.row_start)
        return sparse.csr_array(parts, shape=(self.b.size, self.matrix.is_kept.size))


def analyse(A: Any, b: Floats) -> System:
    """The system of a sparse A in canonical CSR form and b. An empty row with b_i != 0 is an `InfeasibleError`."""
    from scipy import sparse

    from fairpost.kernels import affine

    filled = np.diff(A.indptr) > 0
    for i in np.flatnonzero(~filled & (b != 0)):
        raise InfeasibleError(
            f"no v satisfies A v = b: row {i} of A is empty, b[{i}] must be 0, got {b[i]:g}"
        )
    rows = np.flatnonzero(filled)
    if not rows.size:
        empty = np.zeros(0)
        return System(None, empty, rows, empty, None, b.size)  # type: ignore[arg-type]
    scale = _row_scales(A)[rows]
    scaled = sparse.csr_array(sparse.diags_array(scale) @ A[rows])
    kept = _dense_columns(scaled)
    place, pattern = _ordering(scaled, kept)
    scaled = scaled[place]
    matrix = _matrix(scaled, kept)
    parent, start = affine.symbolic(pattern.indptr.astype(np.int64), pattern.indices.astype(np.int64))
    whole = affine.new_factor(start, parent)
    affine.factorise(matrix, np.ones(A.shape[1], np.bool_), affine.RIDGE, whole)
    return System(matrix, (b[rows] * scale)[place], rows[place], scale[place], whole, b.size)


def _row_scales(A: Any) -> Floats:
    """A power of 2 for each row that brings its norm near 1, so that scaling is exact; 1 for an empty row."""
    largest = abs(A).max(axis=1).toarray().ravel()
    exponent = np.frexp(largest)[1]
    unit = A.multiply(np.ldexp(1.0, -exponent)[:, None]).tocsr()
    norm = np.sqrt(np.maximum(unit.multiply(unit).sum(axis=1), 0.25))
    return np.ldexp(1.0, -exponent - np.rint(np.log2(norm)).astype(exponent.dtype))


def _dense_columns(A: Any) -> Ints:
    """The columns that would fill A A': a few that meet many rows. Many such columns mean a dense A; none is kept."""
    m, n = A.shape
    dense = np.flatnonzero(np.bincount(A.indices, minlength=n) > 10.0 + 10.0 * np.sqrt(m))
    return dense if dense.size <= m / 10 else dense[:0]


def _ordering(A: Any, kept: Ints) -> tuple[Ints, Any]:
    """An order of the rows by minimum degree, and the pattern to factorise: A_S A_S' in it, bordered by A_K."""
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
    if product.nnz < 0.3 * m * m:
        dominant = product + sparse.diags_array(product.sum(axis=0))
        options = {"SymmetricMode": True}
        factor = splu(dominant.tocsc(), permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=options)
        place = np.argsort(factor.perm_c)
    border = ones[place][:, kept]
    blocks = [[product[place][:, place], border], [border.T, sparse.eye_array(kept.size)]]
    return place, sparse.csc_array(sparse.block_array(blocks) if kept.size else blocks[0][0])


def _matrix(A: Any, kept: Ints) -> Matrix:
    from fairpost.kernels.affine import Matrix

    by_row, by_column = A.tocsr(), A.tocsc()
    by_row.sort_indices()
    by_column.sort_indices()
    is_kept = np.zeros(A.shape[1], np.bool_)
    is_kept[kept] = True
    parts = [
        array
        for form in (by_row, by_column)
        for array in (
            form.indptr.astype(np.int64),
            form.indices.astype(np.int64),
            form.data.astype(np.float64),
        )
    ]
    return Matrix(*parts, is_kept, kept.astype(np.int64))


def consistent(system: System, n: int) -> System:
    """The system, where some v (of any sign) solves it; an `InfeasibleError` where none does.

    The least v in norm is (P) at y = 0. What it leaves is the least-squares residual z = b - A v, which A'
    maps to 0: where z is not rounding, z' A v = 0 and z' b = |z|^2 > 0 contradict each other. Rounding in b
    itself (public totals of fractions) is taken out of b, which leaves a system that has solutions.
    """
    from fairpost.kernels import affine

    v, residual = system.equality(np.zeros(n))
    if residual <= 1e-14:
        return system
    z = affine.residual(system.matrix, system.b, v)
    if residual <= CONSISTENT:
        return System(system.matrix, system.b - z, system.order, system.scale, system.whole, system.rows)
    weights = _clear(system, -z, np.ones(n, np.bool_), system.whole)
    if not _contradicts(system, weights, signed=True):
        raise ToleranceError(
            f"the rows of A are too nearly dependent to solve A v = b: {residual:.1e} of a row is left"
        )
    raise InfeasibleError(_message(system, weights, "no v satisfies", "coefficients 0"))


def feasible(system: System, n: int) -> None:
    """An `InfeasibleError` where no v >= 0 solves a consistent system.

    A v that (P_+) returns shows that there is one. Where Newton's method runs away, or its solution lies far
    beyond the least v of any sign, a Farkas vector z decides: A' z >= 0 and b' z < 0 leave no room for v >= 0.
    """
    least, _ = system.equality(np.zeros(n))
    found = system.nonnegative(least, FIRST)
    if found.accurate and found.values.max() <= 1e3 * np.abs(least).max():
        return
    weights = _refute(system, n)
    if weights is not None:
        raise InfeasibleError(_message(system, weights, "no v >= 0 satisfies", "coefficients >= 0"))
    if not system.nonnegative(least, STEPS).accurate:
        raise ToleranceError(
            "neither a v >= 0 with A v = b nor a proof that there is none was found in double precision"
        )


def _refute(system: System, n: int) -> Floats | None:
    """A Farkas vector for the scaled rows, or None.

    Rows that the candidate hardly uses are left out and the rest is tried again: what contradicts itself in
    some of the rows does so in all.
    """
    from scipy import sparse

    A, b = system.sparse(), system.b
    for e in (1e-2, 1e-4, 1e-6):
        rows = np.arange(b.size)
        while rows.size:
            part = analyse(sparse.csr_array(A[rows]), b[rows])
            weights = part.original(_elastic(part, n, e))
            z = np.zeros(b.size)
            z[rows] = weights
            if _contradicts(system, z, signed=False):
                return z
            used = np.abs(weights) > 1e-3 * np.abs(weights).max()
            if used.all():
                break
            rows = rows[used]
    z = _by_simplex(A, b)
    return z if _contradicts(system, z, signed=False) else None


def _by_simplex(A: Any, b: Floats) -> Floats:
    """The last resort, slow where A is large: min b' z subject to A' z >= 0 and |z_i| <= 1, by HiGHS."""
    from scipy.optimize import linprog

    found = linprog(b, A_ub=-A.T, b_ub=np.zeros(A.shape[1]), bounds=(-1.0, 1.0), method="highs-ds")
    return np.zeros(b.size) if found.x is None else np.asarray(found.x)


def _elastic(system: System, n: int, e: float) -> Floats:
    """A candidate for a Farkas vector: the smallest residual z = A v - b over v >= 0.

    The program min |v|^2 + |p|^2 + |q|^2 with A v + e (p - q) = b and v, p, q >= 0 always has a solution, and
    its A v - b tends to z as e falls. On the free set A_F' z = 0 is then restored to rounding.
    """
    from scipy import sparse

    from fairpost.kernels import affine

    eye = sparse.eye_array(system.b.size)
    elastic = analyse(sparse.csr_array(sparse.hstack([system.sparse(), e * eye, -e * eye])), system.b)
    v = elastic.nonnegative(np.zeros(n + 2 * system.b.size)).values[:n]
    factor = affine.new_factor(system.whole.start, system.whole.parent)
    affine.factorise(system.matrix, v > 0, affine.RIDGE, factor)
    return _clear(system, -affine.residual(system.matrix, system.b, v), v > 0, factor)


def _clear(system: System, z: Floats, free: NDArray[np.bool_], factor: Factor) -> Floats:
    """z without its part in the range of A_F and without entries that are rounding."""
    from fairpost.kernels import affine

    zero = np.zeros(z.size)
    for _ in range(4):
        image = np.where(free, affine.combine(system.matrix, z), 0.0)
        z = z + affine.solve(factor, affine.residual(system.matrix, zero, image))
    return np.where(np.abs(z) > 1e-14 * np.abs(z).max(), z, 0.0)


def _contradicts(system: System, z: Floats, signed: bool) -> bool:
    """Whether A' z >= 0 (`signed`: = 0) and b' z < 0, up to rounding in the sums."""
    A = system.sparse()
    image, size = A.T @ z, abs(A).T @ np.abs(z)
    zero = np.abs(image) if signed else np.maximum(-image, 0.0)
    return bool(
        (zero <= 1e-12 * size + 1e-13 * size.max()).all()
        and system.b @ z < -1e-9 * (np.abs(system.b) @ np.abs(z))
    )


def _message(system: System, z: Floats, claim: str, left: str) -> str:
    """The contradiction in one line: the rows with the largest weights, and what they add up to."""
    weights = system.original(z)
    weights /= np.abs(weights).max()
    weights[np.abs(weights) < 1e-9] = 0.0
    rows = np.argsort(-np.abs(weights), kind="stable")[: np.count_nonzero(weights)]
    shown = np.sort(rows[:4])
    names = " + ".join(f"{weights[i]:.4g} x row {i}" for i in shown)
    more = f" + {rows.size - 4} more rows" if rows.size > 4 else ""
    back = np.zeros(system.rows)
    back[system.order] = system.b / system.scale
    return f"{claim} A v = b: {names}{more} gives {left} on the left and {back @ weights:.6g} on the right"
