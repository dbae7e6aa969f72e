"""pi onto affine sets, the programs (P) and (P_+): A v = b for any sparse A, without and with v >= 0."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairpost.counts import Counts
from fairpost.errors import CountsError, ParameterError, ToleranceError
from fairpost.noise import Mechanism
from fairpost.parallel import over_slices
from fairpost.problems import Release
from fairpost.rules.affine.system import ACCEPTED, Solution, System, analyse, consistent, feasible
from fairpost.rules.affine.tree import Tree
from fairpost.rules.base import Outcome, PostProcessing, finite_rows, nonnegative_total, same_length
from fairpost.rules.control import CLIPS, Control, change_of

Floats = NDArray[np.float64]
AGREE = 1e-10
"""Totals that agree to this part are the same: b may carry rounding."""


@dataclass(frozen=True, eq=False)
class _Moved:
    """The projection of x + noise onto A v = b, less that of x."""

    system: System
    x: Floats
    centre: Floats

    def __call__(self, noise: Floats) -> Floats:
        return np.stack([self.system.equality(self.x + row)[0] for row in noise]) - self.centre


@dataclass(frozen=True, eq=False)
class _OnAffineSet(PostProcessing):
    """What (P) and (P_+) share: A and b, checked, and their factor, made once."""

    A: Any
    b: Floats
    _system: System = field(init=False, repr=False)
    keeps_total: ClassVar[bool] = True
    jump: ClassVar[float] = 0.0
    """How many changes of the noise one run may add to what the control leaves."""

    def __post_init__(self) -> None:
        A, b = _checked(self.A, self.b)
        object.__setattr__(self, "A", A)
        object.__setattr__(self, "b", b)
        object.__setattr__(self, "_system", consistent(analyse(A, b), self.n))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.A, self.b)  # a factor cannot be handed to another process

    @property
    def problem(self) -> Release:
        """The counts themselves."""
        return Release()

    def control(self, counts: Counts, mechanism: Mechanism) -> Control:
        """L = the projection of x + eta onto A v = b, less that of x; offset = the latter less x."""
        same_length(counts.values, self.n)
        centre = self._system.equality(counts.values.copy())[0]
        unseen = np.full(counts.n, self.jump * change_of(mechanism))
        return Control(centre - counts.values, _Moved(self._system, counts.values, centre), unseen, None)

    def total_off(self, counts: Counts) -> Floats | None:
        """Known where the sum of all entities is a combination of the rows of A: a shift of all of them then changes nothing."""
        zero, one = (self._system.equality(np.full(self.n, v))[0] for v in (0.0, 1.0))
        kept = float(np.sum(zero))
        if np.max(np.abs(one - zero)) > AGREE:
            return None
        off = kept - counts.total
        return np.array([0.0 if abs(off) <= AGREE * max(kept, counts.total) else off])

    @property
    def n(self) -> int:
        """The number of entities, that is of columns of A."""
        return int(self.A.shape[1])

    @classmethod
    def from_counts(cls, counts: Counts, total: float | None = None, *, by_group: bool = False) -> Self:
        """One equality, the sum over all entities: (P) is then the paper's pi_S and (P_+) its pi_S+.

        By group: one equality per group, its own sum.
        """
        if not by_group:
            value = counts.total if total is None else nonnegative_total(total)
            return cls(np.ones((1, counts.n)), np.array([value]))
        if counts.groups is None:
            raise CountsError("totals by group need counts with groups, got counts without")
        if total is not None:
            raise CountsError("totals by group are the groups' own sums; give A and b for other totals")
        A, b = Tree.from_labels([counts.groups]).over_leaves(counts.values)
        return cls(A[1:], b[1:])

    def _apply(self, rows: Floats) -> Outcome:
        same_length(rows, self.n)
        out = np.empty_like(rows)

        def work(part: slice) -> None:
            for i in range(part.start, part.stop):
                out[i] = self._draw(rows[i].copy(), i)

        over_slices(work, len(rows))
        return Outcome(out, 0)

    def _draw(self, y: Floats, i: int) -> Floats:
        raise NotImplementedError


@final
@dataclass(frozen=True, eq=False)
class Affine(_OnAffineSet):
    """(P): pi(X) = argmin |v - X|_2 subject to A v = b.

    The appendix's closed form, v = X - A' mu with A A' mu = A X - b, from one sparse factor of A A'. Rows may
    depend on each other, as totals on several levels of a hierarchy do, as long as b agrees (to 1e-10 of what
    a row adds up, so that public totals may carry rounding). Where it does not, the constructor raises
    `InfeasibleError` with the rows that contradict each other.

    A has one row per equality and one column per entity: a SciPy sparse matrix, or dense numbers. b has the
    right sides, in counts.
    """

    name: ClassVar[str] = "affine"
    title: ClassVar[str] = "closest values with the known sums"
    signed: ClassVar[bool] = True

    def _draw(self, y: Floats, i: int) -> Floats:
        v, residual = self._system.equality(y)
        if not residual <= ACCEPTED:
            raise ToleranceError(f"A v = b must hold to {ACCEPTED:g} of what a row adds up, draw {i}: {residual:.1e}")
        return v


@final
@dataclass(frozen=True, eq=False)
class AffineNonnegative(_OnAffineSet):
    """(P_+): pi(X) = argmin |v - X|_2 subject to A v = b and v >= 0, with A and b as for `Affine`.

    The solution is v = (X - A' mu)_+ with A v = b. Newton's method finds mu (semismooth, with a line search:
    the dual function is convex and piecewise quadratic), then v is refined on its free set until A v = b
    holds to rounding. Entries off that set are 0 exactly, as is an entry that rounding cannot tell from 0.
    Where no v >= 0 satisfies A v = b the constructor raises `InfeasibleError` with the proof. Every draw is
    solved from its own start, so that a batch gives the same bits however it is split.
    """

    name: ClassVar[str] = "affine-nonnegative"
    title: ClassVar[str] = "closest counts with the known sums and none below zero"
    jump: ClassVar[float] = CLIPS

    def __post_init__(self) -> None:
        super().__post_init__()
        feasible(self._system, self.n)

    def solve(self, noisy: ArrayLike) -> Solution:
        """One vector's solution with its multipliers and the errors of the optimality conditions."""
        y = finite_rows(noisy)
        if y.ndim != 1:
            raise CountsError(f"`solve` takes one vector of noisy counts, got {y.ndim} dimensions")
        same_length(y, self.n)
        return self._system.nonnegative(y.copy())

    def _draw(self, y: Floats, i: int) -> Floats:
        found = self._system.nonnegative(y)
        if not found.accurate:
            errors = f"{found.residual:.1e} in A v = b, {found.gap:.1e} in v = (X - A' mu)_+"
            raise ToleranceError(f"the optimality conditions of (P_+) must hold, draw {i} leaves {errors}")
        return found.values


def _checked(A: Any, b: ArrayLike) -> tuple[Any, Floats]:
    """Private read-only copies: A in canonical CSR form, b one-dimensional, every number finite."""
    from scipy import sparse

    if not sparse.issparse(A):
        A = np.asarray(A)
    if A.ndim != 2 or A.shape[1] == 0:
        raise ParameterError(f"`A` must have a row per equality and a column per entity, got shape {A.shape}")
    right = np.asarray(b)
    if A.dtype.kind not in "iufb" or right.dtype.kind not in "iufb":
        raise ParameterError(f"`A` and `b` must be real numbers, got types {A.dtype} and {right.dtype}")
    if right.shape != (A.shape[0],):
        raise ParameterError(f"`b` must have one entry per row of A: {A.shape[0]} rows, b has shape {right.shape}")
    matrix: Any = sparse.csr_array(A, copy=True).astype(np.float64)
    right = right.astype(np.float64)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    for name, numbers in (("A", matrix.data), ("b", right)):
        if not np.isfinite(numbers).all():
            bad = numbers[~np.isfinite(numbers)][0]
            raise ParameterError(f"every entry of `{name}` must be finite, got {bad}")
    for array in (matrix.data, matrix.indices, matrix.indptr, right):
        array.flags.writeable = False
    return matrix, right
