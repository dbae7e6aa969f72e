"""pi for allocation: shares of a budget from noisy counts, by the baseline BL and by the projection PoS.

Both give non-negative shares that sum to 1 over all entities, or over each group where a partition is given.

Degenerate draws. Where the noisy counts hold no information about shares (BL: every noisy count is clipped; PoS: the
weighted sum is exactly 0, so that P^F is undefined) the share is a_i / sum_j a_j, what the formula gives when all counts
are equal. Where the weighted sum is negative P^F(X) is defined, with every sign turned round, and Theorem 2's program
has a solution: its projection, which is returned. All these draws are counted.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairpost.counts import Counts, positive_weights
from fairpost.errors import CountsError
from fairpost.rules.base import Outcome, PostProcessing, same_length
from fairpost.rules.partition import Partition
from fairpost.rules.simplex import thresholds_of_rows

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class _Shares(PostProcessing):
    """What the two share: weights a (default 1 for every entity) and an optional partition."""

    weights: ArrayLike | None = None
    partition: Partition | None = None
    task: ClassVar[Literal["allocation"]] = "allocation"

    def __post_init__(self) -> None:
        if self.weights is not None:
            object.__setattr__(self, "weights", positive_weights(self.weights, np.size(self.weights)))

    @classmethod
    def from_counts(cls, counts: Counts, total: float | None = None, *, by_group: bool = False) -> Self:
        """The weights of the counts; by group, shares that sum to 1 in each group. A total plays no part."""
        if by_group and counts.groups is None:
            raise CountsError("shares by group need counts with groups, got counts without")
        return cls(counts.weights, Partition.of(counts.groups) if by_group and counts.groups is not None else None)

    def _apply(self, rows: Floats) -> Outcome:
        n = rows.shape[1]
        a = np.ones(n) if self.weights is None else np.asarray(self.weights)
        same_length(rows, a.size)
        partition = Partition.whole(n) if self.partition is None else self.partition
        same_length(rows, partition.n)
        a = partition.gather(a)
        shares, lost, odd = self._on_groups(partition.gather(rows) * a, partition)
        if lost.any():
            equal = a / partition.spread(partition.sums(a))
            shares = np.where(partition.spread(lost), equal, shares)
        return Outcome(partition.scatter(shares), int(np.count_nonzero(lost | odd)))

    @abstractmethod
    def _on_groups(self, z: Floats, partition: Partition) -> tuple[Floats, NDArray[np.bool_], NDArray[np.bool_]]:
        """Shares from z = a X in gathered order; which (draw, group) have none; which are otherwise odd."""


@final
@dataclass(frozen=True, eq=False)
class Baseline(_Shares):
    """BL (Definition 3): a_i (X_i)_+ / sum_j a_j (X_j)_+, clip first and then apply the formula."""

    name: ClassVar[str] = "baseline"

    def _on_groups(self, z: Floats, partition: Partition) -> tuple[Floats, NDArray[np.bool_], NDArray[np.bool_]]:
        z = np.maximum(z, 0.0)
        sums = partition.sums(z)
        lost = sums == 0
        return z / partition.spread(np.where(lost, 1.0, sums)), lost, np.zeros_like(lost)


@final
@dataclass(frozen=True, eq=False)
class PoS(_Shares):
    """PoS (Definition 4): the projection of P^F(X) onto the probability simplex.

    Theorem 2: the unique minimiser of the range of v - P^F(X) over the simplex. With S = sum_j a_j X_j > 0 it is the
    projection of z = a X onto {v >= 0, sum v = S}, divided by S, which needs no division by a small S before the end.
    """

    name: ClassVar[str] = "pos"

    def _on_groups(self, z: Floats, partition: Partition) -> tuple[Floats, NDArray[np.bool_], NDArray[np.bool_]]:
        sums = partition.sums(z)
        lost, turned = sums == 0, sums < 0
        if turned.any():
            z = z * partition.spread(np.where(turned, -1.0, 1.0))
        size = np.where(lost, 1.0, np.abs(sums))
        out = np.empty_like(z)
        thresholds_of_rows(z, partition.starts, size, out)
        return out / partition.spread(size), lost, turned
