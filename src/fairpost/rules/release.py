"""pi for data release: none, (x)_+, pi_S, (pi_S)_+ and pi_S+.

All but `none` and `nonnegative` keep a public total C: one for all entities, or one for each group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairpost.bounds.theorems import Bounds, orders_counts, theorem1
from fairpost.counts import Counts
from fairpost.errors import CountsError, UnsupportedError
from fairpost.noise import Mechanism
from fairpost.partition import Partition
from fairpost.problems import Release
from fairpost.rules.base import Outcome, PostProcessing, finite_rows, nonnegative_total, same_length
from fairpost.rules.control import CLIPS, JUMPS, Centred, Control, chance_of, change_of, itself, labels_of, members
from fairpost.rules.simplex import thresholds_of_rows

Floats = NDArray[np.float64]


class Releasing(PostProcessing):
    """What the releases share: the problem is the counts themselves."""

    @property
    def problem(self) -> Release:
        """The counts themselves."""
        return Release()


class _EachAlone(Releasing):
    """Maps of each noisy count by itself: L = eta."""

    @classmethod
    def from_counts(cls, counts: Counts, total: float | None = None, *, by_group: bool = False) -> Self:
        """The same for any counts."""
        return cls()


@final
@dataclass(frozen=True)
class Unchanged(_EachAlone):
    """No post-processing: the noisy counts as they are. Unbiased; may be negative, sums to C in expectation only."""

    name: ClassVar[str] = "none"
    title: ClassVar[str] = "noisy counts as they are"
    signed: ClassVar[bool] = True

    def total_off(self, counts: Counts) -> Floats:
        """Nobody has a bias."""
        return np.zeros(1)

    def control(self, counts: Counts, mechanism: Mechanism) -> Control:
        """Nothing is left: d = 0."""
        return Control(np.zeros(counts.n), itself, np.zeros(counts.n), labels_of(counts.values))

    def _apply(self, rows: Floats) -> Outcome:
        return Outcome(rows.copy(), 0)


@final
@dataclass(frozen=True)
class Nonnegative(_EachAlone):
    """(x)_+ = max(x, 0): clip each noisy count at 0; the total is not kept and grows in expectation."""

    name: ClassVar[str] = "nonnegative"
    title: ClassVar[str] = "clip at zero"

    def control(self, counts: Counts, mechanism: Mechanism) -> Control:
        """L = eta."""
        unseen = np.full(counts.n, change_of(mechanism))
        return Control(
            np.zeros(counts.n), itself, unseen, labels_of(counts.values), chance=chance_of(mechanism, counts.n)
        )

    def extremes(self, counts: Counts, mechanism: Mechanism) -> tuple[int, int]:
        """E[(X_i)_-] falls in x_i."""
        return smallest_and_largest(counts)

    def _apply(self, rows: Floats) -> Outcome:
        return Outcome(np.maximum(rows, 0.0), 0)


def smallest_and_largest(counts: Counts) -> tuple[int, int]:
    """The positions of the smallest and of the largest count (the first, where there are ties)."""
    return int(np.argmin(counts.values)), int(np.argmax(counts.values))


@dataclass(frozen=True, eq=False)
class KeepsTotal(Releasing):
    """What the ones that keep a total share.

    `total` is C for all entities, or with a `partition` one total per group (by label, or in the order of its labels).
    """

    total: float | Mapping[str, float] | Sequence[float]
    partition: Partition | None = None
    keeps_total: ClassVar[bool] = True
    jump: ClassVar[float] = JUMPS
    """How many changes of the noise one run may add to what the control leaves."""

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

    def parts(self, n: int) -> tuple[Partition, Floats]:
        """The groups of n entities (one without a partition), and the total of each."""
        partition = Partition.whole(n) if self.partition is None else self.partition
        same_length(np.empty(n), partition.n)
        return partition, np.atleast_1d(np.asarray(self.total, dtype=np.float64))

    @property
    def C(self) -> float:
        """The total, where there is one for all entities."""
        if self.partition is not None:
            raise UnsupportedError(f"{self.name} has a total per group, not one")
        return float(self.total)  # type: ignore[arg-type]

    def total_off(self, counts: Counts) -> Floats | None:
        """Every output adds up to C."""
        partition, totals = self.parts(counts.n)
        return np.asarray(totals - partition.sums(partition.gather(counts.values)))

    def alone(self, g: int) -> Self:
        """The same with the total of group g."""
        return replace(self, total=np.asarray(self.total)[g].item(), partition=None)

    def of_groups(self, groups: Sequence[int]) -> Self:
        """The same with the totals of some groups."""
        assert self.partition is not None
        total = np.asarray(self.total)[list(groups)].tolist()
        return replace(self, total=total, partition=self.partition.of_groups(groups))

    def control(self, counts: Counts, mechanism: Mechanism) -> Control:
        """L = eta - its group's mean, offset = (C - sum x) / n of the group: pi_S is unbiased."""
        partition, totals = self.parts(counts.n)
        shift = (totals - partition.sums(partition.gather(counts.values))) / partition.sizes
        offset = partition.scatter(np.asarray(partition.spread(shift)))
        unseen = np.full(counts.n, self.jump * change_of(mechanism))
        labels, chance = labels_of(counts.values, members(self.partition)), chance_of(mechanism, counts.n)
        return Control(offset, Centred(partition), unseen, labels, kept=partition, chance=chance)

    def _apply(self, rows: Floats) -> Outcome:
        partition, totals = self.parts(rows.shape[1])
        return Outcome(partition.scatter(self._on_groups(partition.gather(rows), partition, totals)), 0)

    def _on_groups(self, rows: Floats, partition: Partition, totals: Floats) -> Floats:
        raise NotImplementedError


def _shifted(rows: Floats, partition: Partition, totals: Floats) -> Floats:
    """Lemma 1: pi_S(X)_i = X_i + (C - sum_j X_j)/n, by group."""
    return np.asarray(rows + partition.spread((totals - partition.sums(rows)) / partition.sizes))


@final
@dataclass(frozen=True, eq=False)
class Sum(KeepsTotal):
    """pi_S: the nearest v with sum v = C (program P_S, Lemma 1). Unbiased; may be negative."""

    name: ClassVar[str] = "sum"
    title: ClassVar[str] = "shift to the known total"
    signed: ClassVar[bool] = True
    jump: ClassVar[float] = 0.0

    def _on_groups(self, rows: Floats, partition: Partition, totals: Floats) -> Floats:
        return _shifted(rows, partition, totals)


@final
@dataclass(frozen=True, eq=False)
class SumClipped(KeepsTotal):
    """(pi_S)_+ = max(pi_S, 0): the total is lost again; the paper's bounds are built from its bias."""

    name: ClassVar[str] = "sum-clipped"
    title: ClassVar[str] = "shift to the known total, then clip at zero"
    jump: ClassVar[float] = CLIPS

    def total_off(self, counts: Counts) -> None:
        """What is clipped is added."""

    def control(self, counts: Counts, mechanism: Mechanism) -> Control:
        """As for those that keep the total, which this one loses."""
        return replace(super().control(counts, mechanism), kept=None)

    def extremes(self, counts: Counts, mechanism: Mechanism) -> tuple[int, int] | None:
        """E[(y_i)_-] falls in x_i, where the entities share one total."""
        return smallest_and_largest(counts) if self.partition is None else None

    def _on_groups(self, rows: Floats, partition: Partition, totals: Floats) -> Floats:
        return np.maximum(_shifted(rows, partition, totals), 0.0)


@final
@dataclass(frozen=True, eq=False)
class Simplex(KeepsTotal):
    """pi_S+: the nearest v >= 0 with sum v = C (program P_S+): (pi_S(X) - T)_+ with the one T >= 0 of Lemma 2."""

    name: ClassVar[str] = "simplex"
    title: ClassVar[str] = "closest counts with the known total and none below zero"
    jump: ClassVar[float] = CLIPS

    def extremes(self, counts: Counts, mechanism: Mechanism) -> tuple[int, int] | None:
        """Lemma 3, where the entities share one total: see `bounds.theorems` for the condition on the noise."""
        known = self.partition is None and orders_counts(counts, mechanism)
        return smallest_and_largest(counts) if known else None

    def bounds(self, counts: Counts, mechanism: Mechanism, expected_T: float | None = None) -> Bounds | None:
        """Theorem 1: the projection onto one simplex with a positive total."""
        if self.partition is not None or self.C == 0 or not orders_counts(counts, mechanism):
            return None
        return theorem1(counts, mechanism, self.C, expected_T)

    def _on_groups(self, rows: Floats, partition: Partition, totals: Floats) -> Floats:
        out = np.empty_like(rows)
        thresholds_of_rows(rows, partition.starts, np.broadcast_to(totals, (len(rows), totals.size)), out)
        return out

    def T(self, noisy: ArrayLike) -> Floats:
        """The threshold T >= 0 of Lemma 2: one per group, for a matrix one row per draw."""
        given = finite_rows(noisy)
        rows = np.atleast_2d(given)
        partition, totals = self.parts(rows.shape[1])
        rows = partition.gather(rows)
        targets = np.broadcast_to(totals, (len(rows), totals.size))
        m = thresholds_of_rows(rows, partition.starts, targets, np.empty_like(rows))
        T = np.maximum(m - (partition.sums(rows) - totals) / partition.sizes, 0.0)
        return T if given.ndim == 2 else T[0]
