"""A v = b made ready (scaled, ordered), and whether it has a solution at all.

A proof that it has none, of any sign or with v >= 0, is a weight for each row, z: the weighted rows have coefficients A' z = 0
(v of any sign) or A' z >= 0 (v >= 0, Farkas), and their right sides add up to b' z < 0, which no such v can meet.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairpost.errors import InfeasibleError, ToleranceError
from fairpost.rules.affine import newton
from fairpost.rules.affine.newton import RIDGE, Equalities

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

    A: Any
    b: Floats
    order: Ints
    """The row of A that stands at each place."""
    scale: Floats
    """What that row was multiplied by."""
    rows: int
    """How many rows A has, the empty ones included."""

    @cached_property
    def equalities(self) -> Equalities:
        """For the solvers."""
        return Equalities(self.A, self.b)

    def equality(self, y: Floats) -> tuple[Floats, float]:
        """(P) for one vector, and its relative residual."""
        return newton.equality(self.equalities, y) if self.b.size else (y.copy(), 0.0)

    def nonnegative(self, y: Floats, limit: int = STEPS) -> Solution:
        """(P_+) for one vector."""
        if not self.b.size:
            return Solution(np.maximum(y, 0.0), np.zeros(self.rows), 0.0, 0.0, 0)
        v, mu, residual, gap, steps = newton.nonnegative(self.equalities, y, limit)
        return Solution(v, self.original(mu), residual, gap, steps)

    def original(self, weights: Floats) -> Floats:
        """Weights of the scaled rows as weights of the rows of A."""
        out = np.zeros(self.rows)
        out[self.order] = weights * self.scale
        return out


def analyse(A: Any, b: Floats) -> System:
    """The system of A (CSR, canonical) and b. An empty row with b_i != 0 is an `InfeasibleError`."""
    filled = np.diff(A.indptr) > 0
    contrary = np.flatnonzero(~filled & (b != 0))
    if contrary.size:
        i = contrary[0]
        raise InfeasibleError(f"no v satisfies A v = b: row {i} of A is empty, b[{i}] must be 0, got {b[i]:g}")
    rows = np.flatnonzero(filled)
    scale = _row_scales(A[rows])
    scaled = A[rows].multiply(scale[:, None]).tocsr()
    place = _ordering(scaled)
    ordered = scaled[place]
    ordered.sort_indices()
    return System(ordered, (b[rows] * scale)[place], rows[place], scale[place], b.size)


def _row_scales(A: Any) -> Floats:
    """A power of 2 for each row that brings its norm near 1; scaling by it is exact."""
    if not A.shape[0]:
        return np.zeros(0)
    exponent = np.frexp(abs(A).max(axis=1).toarray().ravel())[1]
    unit = A.multiply(np.ldexp(1.0, -exponent)[:, None])
    norm = np.sqrt(unit.multiply(unit).sum(axis=1))
    return np.asarray(np.ldexp(1.0, -exponent - np.rint(np.log2(norm)).astype(exponent.dtype)))


def _ordering(A: Any) -> Ints:
    """A minimum-degree order of the rows: SuperLU is asked for its order alone, of a matrix with tame numbers."""
    from scipy import sparse
    from scipy.sparse.linalg import splu

    m = A.shape[0]
    ones = Equalities(sparse.csr_array((np.ones(A.nnz), A.indices, A.indptr), shape=A.shape), np.zeros(m))
    product = ones.normal(~ones.kept, RIDGE)[:m, :m] if m else sparse.csc_array((0, 0))
    if product.nnz >= 0.3 * m * m:
        return np.arange(m)
    dominant = sparse.csc_array(product + sparse.diags_array(product.sum(axis=0)))
    made = splu(dominant, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
    return np.argsort(made.perm_c)


# ------------------------------------------------------------------ proofs that there is no solution


def consistent(system: System, n: int) -> System:
    """The system, where some v of any sign solves it; an `InfeasibleError` where none does.

    The least v in norm is (P) at y = 0. What it leaves, r = b - A v, is the least-squares residual: A' r = 0
    and b' r = |r|^2, so z = -r is a proof unless r is 0. An r of rounding size is taken out of b.
    """
    v, error = system.equality(np.zeros(n))
    if error <= 1e-14:
        return system
    r = system.equalities.residual(v)
    if error <= CONSISTENT:
        return replace(system, b=system.b - r)
    z = _clear(system, -r)
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

    A = system.A
    found = linprog(system.b, A_ub=-A.T, b_ub=np.zeros(A.shape[1]), bounds=(-1.0, 1.0), method="highs-ds")
    if found.x is None:
        return None
    z = np.asarray(found.x)
    return z if _proves(system, z, signed=False) else None


def _clear(system: System, z: Floats) -> Floats:
    """Takes from z its part in the range of A, and entries that are rounding."""
    for _ in range(4):
        z = z - system.equalities.whole(system.A @ (system.A.T @ z))
    return np.where(np.abs(z) > 1e-14 * np.abs(z).max(), z, 0.0)


def _proves(system: System, z: Floats, signed: bool) -> bool:
    """Whether A' z >= 0 (`signed`: = 0) up to rounding in the sums, and b' z < 0 well beyond it."""
    A, b = system.A, system.b
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
