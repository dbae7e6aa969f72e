"""A minimum for each group under noise: which groups are at it, and the chance that noise changes that, by simulation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairpost.counts import Counts
from fairpost.engines.montecarlo import intervals
from fairpost.errors import ParameterError
from fairpost.noise import Mechanism, Stream
from fairpost.problems.programme import Programme
from fairpost.problems.programme.sharing import at_minimum

Floats = NDArray[np.float64]
DRAWS = 1 << 18
"""Numbers that are drawn at once."""


@dataclass(frozen=True, eq=False)
class MinimumChanges:
    """What noise does to the set of groups at their minimum."""

    labels: tuple[str, ...]
    true: NDArray[np.bool_]
    """Which groups are at their minimum on the true counts."""
    chance: Floats
    """The share of runs in which each group is."""
    half_width: Floats
    """Each chance lies within it, all together."""
    any: float
    """The share of runs in which the set is another than the true one."""
    runs: int
    seed: int

    @property
    def changed(self) -> Floats:
        """The chance that a group is at its minimum where it should not be, or is not where it should."""
        return np.where(self.true, 1 - self.chance, self.chance)


def minimum_changes(
    counts: Counts,
    mechanism: Mechanism,
    law: Programme,
    *,
    runs: int = 1000,
    seed: int = 0,
    confidence: float = 0.95,
) -> MinimumChanges:
    """The law, applied to the counts (`law.on`), on `runs` noisy copies, run r from stream (seed, r), beside the true ones."""
    if law.minimum is None or law.states is None or law.base is None:
        raise ParameterError(f"{law.name} has no minimum for groups that it is applied to, got none to look at")
    kinks = law.compile()
    true = at_minimum(law, counts.values[None, :], kinks(counts.values[None, :]), law.base)[0]
    seen, some = np.zeros(true.size), 0
    size = max(1, DRAWS // counts.n)
    for first in range(0, runs, size):
        many = range(first, min(first + size, runs))
        rows = counts.values + np.stack([mechanism.sample(counts.n, Stream(seed, r)) for r in many])
        found = at_minimum(law, rows, kinks(rows), law.base)
        seen += found.sum(axis=0)
        some += int((found != true).any(axis=1).sum())
    chance = seen / runs
    width = intervals.of_chances(chance, runs, 1 - confidence)
    return MinimumChanges(law.states.labels, true, chance, width, some / runs, runs, seed)
