"""pi for allocation: shares of a budget from noisy counts, by the baseline BL and by the projection PoS.

Both give non-negative shares that sum to 1 over all entities, or over each group where a partition is given.

Degenerate draws. Where the noisy counts hold no information about shares (BL: every noisy count is clipped; PoS: the
weighted sum is 0, or would be but for rounding, so that P^F is undefined) the share is a_i / sum_j a_j, what the formula gives
when all counts are equal. Where the weighted sum is negative P^F(X) is defined, with every sign turned round, and Theorem 2's
program has a solution: its projection, which is returned. All these draws are counted.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairpost.counts import Counts, positive_weights
from fairpost.errors import CountsError
from fairpost.noise import Mechanism
from fairpost.partition import Partition
from fairpost.problems import Proportional
from fairpost.rules.base import Outcome, PostProcessing, same_length
from fairpost.rules.control import CLIPS, JUMPS, Control, Linearised, chance_of, change_of, labels_of, members
from fairpost.rules.simplex import thresholds_of_rows

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Allocating(PostProcessing):
    """What the allocations share: weights a (default 1 for every entity) and an optional partition."""

    weights: ArrayLike | None = None
    partition: Partition | None = None
    jump: ClassVar[float] = JUMPS
    """How many changes of the noise one run may add to what the control leaves."""

    def __post_init__(self) -> None:
        if self.weights is not None:
            object.__setattr__(self, "weights", positive_weights(self.weights, np.size(self.weights)))

    @classmethod
    def from_counts(cls, counts: Counts, total: float | None = None, *, by_group: bool = False) -> Self:
        """The weights of the counts; by group, shares that sum to 1 in each group. A total plays no part."""
        if by_group and counts.groups is None:
            raise CountsError("shares by group need counts with groups, got counts without")
        return cls(counts.weights, Partition.of(counts.groups) if by_group and counts.groups is not None else None)

    @property
    def problem(self) -> Proportional:
        """Shares in proportion to weighted counts, with these weights in these groups."""
        return Proportional(self.weights, self.partition)

    def alone(self, g: int) -> Self:
        """The same with the weights of group g."""
        return replace(self.of_groups([g]), partition=None)

    def of_groups(self, groups: Sequence[int]) -> Self:
        """The same with the weights of some groups."""
        assert self.partition is not None
        who = self.partition.members(groups)
        weights = None if self.weights is None else np.asarray(self.weights)[who]
        return replace(self, weights=weights, partition=self.partition.of_groups(groups))

    def total_off(self, counts: Counts) -> Floats:
        """Shares add up to 1, of degenerate draws too."""
        return np.zeros(len(self.problem.parts(counts.n).labels))

    def control(self, counts: Counts, mechanism: Mechanism) -> Control:
        """The linearised share; Var L_i = Var[eta] (w_i^2 (1 - 2 P_i) + P_i^2 sum_j w_j^2), of the entity's group.

        A rare change of one count moves its own share by as much as L, and that of the others by what they give up for it.
        """
        problem, n = self.problem, counts.n
        parts, a = problem.parts(n), problem.a(n)
        x, weight = parts.gather(counts.values), parts.gather(a)
        need = parts.spread(parts.sums(weight * x))
        w = np.where(need > 0, weight / np.where(need > 0, need, 1.0), 0.0)
        share = w * x
        variance = w * w * (1 - 2 * share) + share**2 * parts.spread(parts.sums(w * w))
        change, most = change_of(mechanism), np.maximum.reduceat(weight, parts.starts[:-1])
        shared = self.for_mechanism(mechanism)._given_up(weight * x, change, most, parts)
        own = self.jump * change * np.sqrt(np.maximum(variance, 0.0))
        scale = np.where(need > 0, np.maximum(own, shared / np.where(need > 0, need, 1.0)), 1.0)
        chance = chance_of(mechanism, n)
        labels = labels_of(counts.values, a, members(self.partition))
        return Control(
            np.zeros(n), Linearised(parts, w, share), parts.scatter(scale), labels, kept=parts, chance=chance
        )

    def _given_up(self, z: Floats, change: float, most: Floats, partition: Partition) -> Floats:
        """What each entity gives up of its z where the largest weight `most` of a group changes; here nothing but through the sum."""
        return np.zeros_like(z)

    def _apply(self, rows: Floats) -> Outcome:
        n, problem = rows.shape[1], self.problem
        same_length(rows, problem.a(n).size)
        parts = problem.parts(n)
        a = parts.gather(problem.a(n))
        shares, lost, odd = self._on_groups(parts.gather(rows) * a, parts)
        if lost.any():
            equal = a / parts.spread(parts.sums(a))
            shares = np.where(parts.spread(lost), equal, shares)
        return Outcome(parts.scatter(shares), int(np.count_nonzero(lost | odd)))

    @abstractmethod
    def _on_groups(self, z: Floats, partition: Partition) -> tuple[Floats, NDArray[np.bool_], NDArray[np.bool_]]:
        """Shares from z = a X in gathered order; which (draw, group) have none; which are otherwise odd."""


@final
@dataclass(frozen=True, eq=False)
class Baseline(Allocating):
    """BL (Definition 3): a_i (X_i)_+ / sum_j a_j (X_j)_+, clip first and then apply the formula."""

    name: ClassVar[str] = "baseline"
    title: ClassVar[str] = "clip at zero, then share in proportion"
    jump: ClassVar[float] = CLIPS

    def _on_groups(self, z: Floats, partition: Partition) -> tuple[Floats, NDArray[np.bool_], NDArray[np.bool_]]:
        z = np.maximum(z, 0.0)
        sums = partition.sums(z)
        lost = sums == 0
        return z / partition.spread(np.where(lost, 1.0, sums)), lost, np.zeros_like(lost)


NOTHING = 2.0**-48
"""A sum that is so small beside its positive part is 0 but for rounding."""


def without_information(z: Floats, sums: Floats, partition: Partition) -> NDArray[np.bool_]:
    """Where the weighted sum of a group is 0: whole counts cancel, their weighted parts do so to their last bits.

    Each z is right to a rounding, and so is every partial sum; a sum of whole numbers below 10^14 that is not 0 is larger.
    """
    sizes = np.abs(sums)
    if not (sizes <= NOTHING * z.shape[1] * np.max(np.abs(z), initial=0.0)).any():
        return np.zeros(sums.shape, dtype=bool)
    return np.asarray(sizes <= NOTHING * partition.sums(np.maximum(z, 0.0)))


class Projecting(Allocating):
    """What the projections of P^F(X) share: with S = sum_j a_j X_j they keep z = a X to the sum |S|, and divide by it.

    That needs no division by a small S before the end.
    """

    def _on_groups(self, z: Floats, partition: Partition) -> tuple[Floats, NDArray[np.bool_], NDArray[np.bool_]]:
        sums = partition.sums(z)
        lost = without_information(z, sums, partition)
        turned = (sums < 0) & ~lost
        if turned.any():
            z = z * partition.spread(np.where(turned, -1.0, 1.0))
        size = np.where(lost, 1.0, np.abs(sums))
        return self._kept(z, partition, size) / partition.spread(size), lost, turned

    @abstractmethod
    def _kept(self, z: Floats, partition: Partition, targets: Floats) -> Floats:
        """What is kept of z, in gathered order, of the sum targets[row, g] in each group."""


@final
@dataclass(frozen=True, eq=False)
class PoS(Projecting):
    """PoS (Definition 4): the projection of P^F(X) onto the probability simplex.

    Theorem 2: the unique minimiser of the range of v - P^F(X) over the simplex. With S > 0 it is the projection of z = a X onto
    {v >= 0, sum v = S}, divided by S.
    """

    name: ClassVar[str] = "pos"
    title: ClassVar[str] = "share first, then project the shares"
    jump: ClassVar[float] = CLIPS

    def _given_up(self, z: Floats, change: float, most: Floats, partition: Partition) -> Floats:
        """The same r of everybody who has as much: z less its projection onto the sum that is left."""
        left = np.maximum(partition.sums(z) - change * most, 0.0)
        return np.asarray(z - self._kept(z[None], partition, left[None])[0])

    def _kept(self, z: Floats, partition: Partition, targets: Floats) -> Floats:
        out = np.empty_like(z)
        thresholds_of_rows(z, partition.starts, targets, out)
        return out
