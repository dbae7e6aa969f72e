"""Whether A v = b has a solution at all, of any sign or with v >= 0; the proof where it has none.

A proof is a weight for each row, z: the weighted rows have coefficients A' z = 0 (v of any sign) or A' z >= 0
(v >= 0, Farkas), and their right sides add up to b' z < 0, which no such v can meet.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fairpost.errors import InfeasibleError, ToleranceError
from fairpost.rules.affine.dual import System, analyse

if TYPE_CHECKING:
    from fairpost.rules.affine.kernels.ldl import Factor

Floats = NDArray[np.float64]

CONSISTENT = 1e-10  # b may contradict itself by this part of what a row adds up: public totals carry rounding
FIRST = 60  # Newton's steps before a proof is looked for


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
    """A proof that no v >= 0 solves the system, or None.

    Rows that a candidate hardly uses are left out and the rest is tried again: what contradicts itself in
    some of the rows does so in all.
    """
    A, b = system.sparse(), system.b
    for e in (1e-2, 1e-4, 1e-6):
        rows = np.arange(b.size)
        while rows.size:
            part = analyse(A[rows], b[rows])
            weights = part.original(_elastic(part, e))
            z = np.zeros(b.size)
            z[rows] = weights
            if _proves(system, z, signed=False):
                return z
            used = np.abs(weights) > 1e-3 * np.abs(weights).max()
            if used.all():
                break
            rows = rows[used]
    z = _by_simplex(A, b)
    return z if _proves(system, z, signed=False) else None


def _elastic(system: System, e: float) -> Floats:
    """A candidate: the smallest residual z = A v - b over v >= 0, which is a proof unless it is 0.

    The program min |v|^2 + |p|^2 + |q|^2 with A v + e (p - q) = b and v, p, q >= 0 always has a solution, and
    its A v - b tends to z as e falls. On the free set A_F' z = 0 is then restored to rounding.
    """
    from scipy import sparse

    from fairpost.rules.affine.kernels import ldl
    from fairpost.rules.affine.kernels import newton as affine

    A, eye = system.sparse(), sparse.eye_array(system.b.size)
    elastic = analyse(sparse.csr_array(sparse.hstack([A, e * eye, -e * eye])), system.b)
    v = elastic.nonnegative(np.zeros(A.shape[1] + 2 * system.b.size)).values[: A.shape[1]]
    free = (v > 0).astype(np.float64)
    factor = ldl.new_factor(system.whole.start, system.whole.parent)
    ldl.factorise(system.matrix, free, affine.RIDGE, factor)
    return _clear(system, A @ v - system.b, free, factor)


def _by_simplex(A: Any, b: Floats) -> Floats:
    """The last resort, slow where A is large: min b' z subject to A' z >= 0 and |z_i| <= 1, by HiGHS."""
    from scipy.optimize import linprog

    found = linprog(b, A_ub=-A.T, b_ub=np.zeros(A.shape[1]), bounds=(-1.0, 1.0), method="highs-ds")
    return np.zeros(b.size) if found.x is None else np.asarray(found.x)


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
