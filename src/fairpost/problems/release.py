"""Data release: P(x) = x."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, final

from fairpost.counts import Counts
from fairpost.problems.base import Floats, Problem, Unit


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
