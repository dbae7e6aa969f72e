"""pi for data release: none, (x)_+, pi_S, (pi_S)_+ and pi_S+.

All but `none` and `nonnegative` keep a public total C: one for all entities, or one for each group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairpost.counts import Counts
from fairpost.errors import CountsError
from fairpost.rules.base import Outcome, PostProcessing, finite_rows, nonnegative_total, same_length
from fairpost.rules.partition import Partition
from fairpost.rules.simplex import thresholds_of_rows

Floats = NDArray[np.float64]


@final
@dataclass(frozen=True)
class Unchanged(PostProcessing):
    """No post-processing: the noisy counts as they are. Unbiased; may be negative, sums to C in expectation only."""

    name: ClassVar[str] = "none"
    task: ClassVar[Literal["release"]] = "release"

    @classmethod
    def from_counts(cls, counts: Counts, total: float | None = None, *, by_group: bool = False) -> Self:
        """The same for any counts."""
        return cls()

    def _apply(self, rows: Floats) -> Outcome:
        return Outcome(rows.copy(), 0)


@final
@dataclass(frozen=True)
class Nonnegative(PostProcessing):
    """(x)_+ = max(x, 0): clip each noisy count at 0; the total is not kept and grows in expectation."""

    name: ClassVar[str] = "nonnegative"
    task: ClassVar[Literal["release"]] = "release"

    @classmethod
    def from_counts(cls, counts: Counts, total: float | None = None, *, by_group: bool = False) -> Self:
        """The same for any counts."""
        return cls()

    def _apply(self, rows: Floats) -> Outcome:
        return Outcome(np.maximum(rows, 0.0), 0)


@dataclass(frozen=True, eq=False)
class _KeepsTotal(PostProcessing):
    """What the three that keep a total share.

    `total` is C for all entities, or with a `partition` one total a group (by label, or in the order of its labels).
    """

    total: float | Mapping[str, float] | Sequence[float]
    partition: Partition | None = None
    task: ClassVar[Literal["release"]] = "release"

    def __post_init__(self) -> None:
        if self.partition is None:
            if isinstance(self.total, (Mapping, Sequence, np.ndarray)):
                raise CountsError("several totals need a `partition` that says which entity has which")
            object.__setattr__(self, "total", nonnegative_total(self.total))
        else:
            given = [self.total] if isinstance(self.total, (int, float)) else self.total
            object.__setattr__(self, "total", tuple(self.partition.targets(given).tolist()))

    @classmethod
    def from_counts(cls, counts: Counts, total: float | None = None, *, by_group: bool = False) -> Self:
        """C is the sum of the counts, or `total`; by group, each group's own sum."""
        if not by_group:
            return cls(counts.total if total is None else total)
        if counts.groups is None:
            raise CountsError("totals by group need counts with groups, got counts without")
        if total is not None:
            raise CountsError("totals by group are the groups' own sums; build the post-processing with other totals")
        partition = Partition.of(counts.groups)
        return cls(partition.sums(partition.gather(counts.values)).tolist(), partition)

    def _parts(self, n: int) -> tuple[Partition, Floats]:
        partition = Partition.whole(n) if self.partition is None else self.partition
        return partition, np.atleast_1d(np.asarray(self.total, dtype=np.float64))

    def _apply(self, rows: Floats) -> Outcome:
        partition, totals = self._parts(rows.shape[1])
        same_length(rows, partition.n)
        return Outcome(partition.scatter(self._on_groups(partition.gather(rows), partition, totals)), 0)

    def _on_groups(self, rows: Floats, partition: Partition, totals: Floats) -> Floats:
        raise NotImplementedError


def _shifted(rows: Floats, partition: Partition, totals: Floats) -> Floats:
    """Lemma 1: pi_S(X)_i = X_i + (C - sum_j X_j)/n, by group."""
    return np.asarray(rows + partition.spread((totals - partition.sums(rows)) / partition.sizes))


@final
@dataclass(frozen=True, eq=False)
class Sum(_KeepsTotal):
    """pi_S: the nearest v with sum v = C (program P_S, Lemma 1). Unbiased; may be negative."""

    name: ClassVar[str] = "sum"

    def _on_groups(self, rows: Floats, partition: Partition, totals: Floats) -> Floats:
        return _shifted(rows, partition, totals)


@final
@dataclass(frozen=True, eq=False)
class SumClipped(_KeepsTotal):
    """(pi_S)_+ = max(pi_S, 0): the total is lost again; the paper's bounds are built from its bias."""

    name: ClassVar[str] = "sum-clipped"

    def _on_groups(self, rows: Floats, partition: Partition, totals: Floats) -> Floats:
        return np.maximum(_shifted(rows, partition, totals), 0.0)


@final
@dataclass(frozen=True, eq=False)
class Simplex(_KeepsTotal):
    """pi_S+: the nearest v >= 0 with sum v = C (program P_S+): (pi_S(X) - T)_+ with the one T >= 0 of Lemma 2."""

    name: ClassVar[str] = "simplex"

    def _on_groups(self, rows: Floats, partition: Partition, totals: Floats) -> Floats:
        out = np.empty_like(rows)
        thresholds_of_rows(rows, partition.starts, np.broadcast_to(totals, (len(rows), totals.size)), out)
        return out

    def T(self, noisy: ArrayLike) -> Floats:
        """The threshold T >= 0 of Lemma 2: one a group, for a matrix one row a draw."""
        given = finite_rows(noisy)
        rows = np.atleast_2d(given)
        partition, totals = self._parts(rows.shape[1])
        same_length(rows, partition.n)
        rows = partition.gather(rows)
        targets = np.broadcast_to(totals, (len(rows), totals.size))
        m = thresholds_of_rows(rows, partition.starts, targets, np.empty_like(rows))
        T = np.maximum(m - (partition.sums(rows) - totals) / partition.sizes, 0.0)
        return T if given.ndim == 2 else T[0]
