"""A partition of the entities into groups, each with its own total: the building block of hierarchies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpost.errors import CountsError, ParameterError

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Partition:
    """Which entity belongs to which group. Inside, entities are moved so that each group is contiguous."""

    labels: tuple[str, ...]
    """The groups, in order of first appearance; every one has at least one entity."""
    order: NDArray[np.int64]
    """The entities, group by group."""
    starts: NDArray[np.int64]
    """Group g is order[starts[g]:starts[g + 1]]."""

    @classmethod
    def of(cls, groups: Sequence[str]) -> Partition:
        """The partition that the labels, one per entity, describe."""
        if len(groups) == 0:
            raise CountsError("a partition must have at least one entity, got none")
        places: dict[str, int] = {}
        member = np.fromiter((places.setdefault(str(g), len(places)) for g in groups), np.int64, len(groups))
        return cls.of_members(tuple(places), member)

    @classmethod
    def of_members(cls, labels: tuple[str, ...], member: NDArray[np.integer[Any]]) -> Partition:
        """The partition that has entity i in the group labels[member[i]]; every group has one."""
        starts = np.concatenate([[0], np.cumsum(np.bincount(member))]).astype(np.int64)
        return cls(labels, np.argsort(member, kind="stable"), starts)

    @classmethod
    def whole(cls, n: int) -> Partition:
        """One group of n entities."""
        return cls(("all",), np.arange(n), np.array([0, n]))

    @property
    def n(self) -> int:
        """The number of entities."""
        return int(self.order.size)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """The number of entities of each group."""
        return np.diff(self.starts)

    @property
    def member(self) -> NDArray[np.int64]:
        """The number of each entity's group."""
        found = np.empty(self.n, dtype=np.int64)
        found[self.order] = np.repeat(np.arange(len(self.labels)), self.sizes)
        return found

    @property
    def groups(self) -> list[NDArray[np.int64]]:
        """The entities of each group."""
        return [self.of_group(g) for g in range(len(self.labels))]

    def same(self, other: Partition) -> bool:
        """Whether both have the same groups of the same entities, in the same order."""
        members = np.array_equal(self.order, other.order) and np.array_equal(self.starts, other.starts)
        return self.labels == other.labels and members

    def of_group(self, g: int) -> NDArray[np.int64]:
        """The entities of group g."""
        return self.order[self.starts[g] : self.starts[g + 1]]

    def name(self, g: int) -> str:
        """The label of group g on one line of some length."""
        label = " ".join(self.labels[g].split())
        return label if len(label) <= 40 else f"{label[:37]}..."

    def members(self, groups: Sequence[int]) -> NDArray[np.int64]:
        """The entities of some groups, in their own order."""
        return np.sort(np.concatenate([self.of_group(g) for g in groups]))

    def of_groups(self, groups: Sequence[int]) -> Partition:
        """The partition of the members of some groups."""
        return Partition.of([self.labels[g] for g in self.member[self.members(groups)]])

    def gather(self, values: Floats) -> Floats:
        """The last axis moved so that groups are contiguous (no copy where there is one group)."""
        return values if len(self.labels) == 1 else np.ascontiguousarray(values[..., self.order])

    def scatter(self, values: Floats) -> Floats:
        """The inverse of `gather`."""
        if len(self.labels) == 1:
            return values
        out = np.empty_like(values)
        out[..., self.order] = values
        return out

    def sums(self, gathered: Floats) -> Floats:
        """The sum of each group along the last axis of gathered values."""
        if len(self.labels) == 1:
            return np.asarray(np.sum(gathered, axis=-1, keepdims=True))
        return np.asarray(np.add.reduceat(gathered, self.starts[:-1], axis=-1))

    def spread(self, per_group: NDArray[Any]) -> NDArray[Any]:
        """One value per group repeated for each of its entities, in gathered order."""
        return np.repeat(per_group, self.sizes, axis=-1)

    def targets(self, totals: Mapping[str, float] | Sequence[float]) -> Floats:
        """Totals by label, or in the order of `labels`, as an array; each finite and at least 0."""
        if isinstance(totals, Mapping):
            missing = [label for label in self.labels if label not in totals]
            if missing:
                raise ParameterError(f"every group must have a total, got none for {missing[0]!r}")
            totals = [totals[label] for label in self.labels]
        out = np.asarray(totals, dtype=np.float64)
        if out.shape != (len(self.labels),):
            raise ParameterError(f"there must be one total per group: {len(self.labels)} groups, {out.size} totals")
        if not (np.isfinite(out) & (out >= 0)).all():
            bad = int(np.flatnonzero(~(np.isfinite(out) & (out >= 0)))[0])
            raise ParameterError(f"a total must be at least 0 and finite, got {out[bad]} for {self.labels[bad]!r}")
        return out
