"""P: what a problem knows, and the two that need no law: the counts themselves, and shares in proportion to them.

A problem is the one owner of the truth, of its unit and of the words for it. A post-processing *answers* a problem
(`pi.problem`); engines, results, reports and sentences ask it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairpost.counts import Counts, positive_weights
from fairpost.errors import CountsError
from fairpost.partition import Partition

Floats = NDArray[np.float64]
Unit = Literal["people", "share", "decision", "money", "seats"]
SAME = 1e-12
"""Two sets of weights are the same where their ratios agree to this part: shares do not depend on a common factor."""


class Problem(ABC):
    """A map from true counts to what each entity is due. Subclasses are frozen dataclasses with `truth` and the words below."""

    name: ClassVar[str]
    """The name in JSON."""
    task: ClassVar[Literal["release", "allocation"]]
    """Whether the answer is counts, or shares of a budget."""
    unit: ClassVar[Unit]
    """What one unit of the truth is."""
    column: ClassVar[str]
    """The name of the truth in tables."""
    words: ClassVar[str]
    """What is asked, in a few words."""

    decides: ClassVar[bool] = False
    """Whether noise can leave an entity out that is due something, or let in one that is not."""

    @property
    def shares(self) -> bool:
        """Whether the answer is shares of a budget, so that there is a cost of privacy."""
        return self.task == "allocation"

    def measured_in(self, budget: float | None) -> str:
        """What limits, curves and plans are in: money where a budget is shared, else the unit of the truth."""
        return "money" if self.shares and budget is not None else self.unit

    @abstractmethod
    def truth(self, counts: Counts) -> Floats:
        """P(x), one number per entity."""

    def check(self, counts: Counts, asker: str) -> None:
        """An error where this problem is not about these counts; `asker` is the post-processing that answers it."""
        return


@final
@dataclass(frozen=True)
class Release(Problem):
    """The counts themselves: P(x) = x, in the unit of the counts."""

    name: ClassVar[str] = "release"
    task: ClassVar[Literal["release", "allocation"]] = "release"
    unit: ClassVar[Unit] = "people"
    column: ClassVar[str] = "true_count"
    words: ClassVar[str] = "release of counts"

    def truth(self, counts: Counts) -> Floats:
        """The true counts."""
        return counts.values


@final
@dataclass(frozen=True, eq=False)
class Proportional(Problem):
    """Shares of 1, a_i x_i / sum_j a_j x_j: over all entities, or over each group of a partition.

    Where every count (of the group) is 0 the shares are a_i / sum_j a_j, the convention of the post-processings.
    """

    weights: ArrayLike | None = None
    """a, one per entity; None: 1 for every entity."""
    partition: Partition | None = None
    name: ClassVar[str] = "proportional"
    task: ClassVar[Literal["release", "allocation"]] = "allocation"
    unit: ClassVar[Unit] = "share"
    column: ClassVar[str] = "true_share"
    words: ClassVar[str] = "allocation in proportion to weighted counts"

    def __post_init__(self) -> None:
        if self.weights is not None:
            object.__setattr__(self, "weights", positive_weights(self.weights, np.size(self.weights)))

    def a(self, n: int) -> Floats:
        """The weights of n entities."""
        if self.weights is None:
            return np.ones(n)
        a = np.asarray(self.weights)
        if a.size != n:
            raise CountsError(f"there must be one weight per entity: {n} entities, {a.size} weights")
        return a

    def parts(self, n: int) -> Partition:
        """The groups; one where there is no partition."""
        parts = Partition.whole(n) if self.partition is None else self.partition
        if parts.n != n:
            raise CountsError(f"a partition must have every entity: {n} entities, {parts.n} in the partition")
        return parts

    def truth(self, counts: Counts) -> Floats:
        """The true shares."""
        return self.shares_of(counts.values)[0]

    def shares_of(self, x: Floats) -> tuple[Floats, NDArray[np.bool_]]:
        """The shares that counts x >= 0 give, and for each group whether it has none (every count is 0)."""
        parts, a = self.parts(x.size), self.a(x.size)
        need = parts.gather(a * x)
        nothing = parts.sums(need) == 0
        worth = np.where(parts.spread(nothing), parts.gather(a), need)
        return parts.scatter(np.asarray(worth / parts.spread(parts.sums(worth)))), nothing

    def check(self, counts: Counts, asker: str) -> None:
        """The weights of the rule are those of the counts, up to a common factor."""
        mine, theirs = self.a(counts.n), counts.weights
        ratio = mine / theirs
        off = np.flatnonzero(np.abs(ratio - ratio[0]) > SAME * ratio[0])
        if off.size:
            raise CountsError(
                f"{asker} must share by the weights of the counts, got weights {mine[0]:g} and {mine[off[0]]:g} where the "
                f"counts have {theirs[0]:g} and {theirs[off[0]]:g} (positions 0 and {off[0]}); give it `weights`, or choose it by name"
            )
        self.parts(counts.n)
