"""pi onto affine sets, the paper's programs (P) and (P_+): A v = b for any sparse A, without and with v >= 0."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairpost.counts import Counts
from fairpost.errors import ParameterError, ToleranceError
from fairpost.postprocess import _dual
from fairpost.postprocess.base import Outcome, PostProcessing, finite_rows, nonnegative_total, same_length

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Affine(PostProcessing):
    """(P): pi(X) = argmin |v - X|_2 subject to A v = b.

    The appendix's closed form, v = X - A' mu with A A' mu = A X - b, for one sparse factor of A A'. Rows may
    depend on each other, as totals on several levels of a hierarchy do, as long as b agrees; where it does not
    agree the constructor raises `InfeasibleError` with the rows that contradict each other. b agrees where it
    does so up to 1e-10 of what a row adds up, so that public totals may carry rounding.

    Parameters
    ----------
    A
        One row an equality and one column an entity: a SciPy sparse matrix or array, or dense numbers.
    b
        The right sides, one a row, in counts.
    """

    name: ClassVar[str] = "affine"
    task: ClassVar[Literal["release", "allocation"]] = "release"

    A: Any
    b: Floats
    _system: _dual.System = field(init=False, repr=False)

    def __post_init__(self) -> None:
        A, b = _checked(self.A, self.b)
        object.__setattr__(self, "A", A)
        object.__setattr__(self, "b", b)
        object.__setattr__(self, "_system", _dual.consistent(_dual.analyse(A, b), self.n))

    @property
    def n(self) -> int:
        """The number of entities, that is of columns of A."""
        return int(self.A.shape[1])

    @classmethod
    def from_counts(cls, counts: Counts, total: float | None = None) -> Self:
        """One equality, the sum over all entities: this makes (P) the paper's pi_S and (P_+) its pi_S+."""
        value = counts.total if total is None else nonnegative_total(total)
        return cls(np.ones((1, counts.n)), np.array([value]))

    def _apply(self, rows: Floats) -> Outcome:
        same_length(rows, self.n)
        out = np.empty_like(rows)
        for i, row in enumerate(rows):
            out[i], residual = self._system.equality(row.copy())
            if not residual <= _dual.ACCEPTED:
                raise ToleranceError(
                    f"A v = b must hold to {_dual.ACCEPTED:g}, got {residual:.1e} in draw {i}"
                )
        return Outcome(out, 0)


@dataclass(frozen=True, eq=False)
class AffineNonnegative(Affine):
    """(P_+): pi(X) = argmin |v - X|_2 subject to A v = b and v >= 0.

    The solution is v = (X - A' mu)_+ with A v = b. Newton's method finds mu (semismooth, globalised by a line
    search: the dual function is convex and piecewise quadratic), then v is refined on its free set until
    A v = b holds to rounding. Entries off that set are 0 exactly, as is an entry that rounding cannot tell
    from 0. The constructor raises `InfeasibleError`, with the contradiction, where no v >= 0 satisfies
    A v = b. Each draw starts from the same point, so a batch gives the same bits however it is split.
    """

    name: ClassVar[str] = "affine-nonnegative"

    def __post_init__(self) -> None:
        super().__post_init__()
        _dual.feasible(self._system, self.n)

    def solve(self, noisy: ArrayLike) -> _dual.Solution:
        """One vector's solution with its multipliers and the errors of the optimality conditions."""
        row = finite_rows(noisy)
        if row.ndim != 1:
            raise ParameterError(f"`solve` takes one vector of noisy counts, got {row.ndim} dimensions")
        same_length(row, self.n)
        return self._system.nonnegative(row.copy())

    def _apply(self, rows: Floats) -> Outcome:
        same_length(rows, self.n)
        out = np.empty_like(rows)
        for i, row in enumerate(rows):
            found = self._system.nonnegative(row.copy())
            if not found.accurate:
                errors = f"{found.residual:.1e} in A v = b and {found.gap:.1e} in the multipliers"
                raise ToleranceError(f"the optimality conditions must hold, draw {i} leaves {errors}")
            out[i] = found.values
        return Outcome(out, 0)


def _checked(A: Any, b: ArrayLike) -> tuple[Any, Floats]:
    """Private read-only copies: A in canonical CSR form, b one-dimensional, every number finite."""
    from scipy import sparse

    try:
        matrix = sparse.csr_array(
            A if sparse.issparse(A) else np.atleast_2d(np.asarray(A)), dtype=np.float64, copy=True
        )
        right = np.array(b, dtype=np.float64)
    except (TypeError, ValueError):
        raise ParameterError(
            "`A` must be a matrix of real numbers and `b` a vector of real numbers"
        ) from None
    if matrix.ndim != 2 or matrix.shape[1] == 0:
        raise ParameterError(
            f"`A` must have one row an equality and at least one column, got shape {matrix.shape}"
        )
    if right.shape != (matrix.shape[0],):
        raise ParameterError(
            f"`b` must have one entry a row of A: {matrix.shape[0]} rows, b has shape {right.shape}"
        )
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    if not np.isfinite(matrix.data).all():
        raise ParameterError(f"every entry of `A` must be finite, got {_first_bad(matrix.data)}")
    if not np.isfinite(right).all():
        raise ParameterError(f"every entry of `b` must be finite, got {_first_bad(right)}")
    for array in (matrix.data, matrix.indices, matrix.indptr, right):
        array.flags.writeable = False
    return matrix, right


def _first_bad(numbers: Floats) -> float:
    return float(numbers[~np.isfinite(numbers)][0])
