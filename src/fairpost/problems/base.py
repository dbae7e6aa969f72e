"""P: what a problem knows. It is the one owner of the truth, of its unit and of the words for it.

A post-processing *answers* a problem (`pi.problem`); engines, results, reports and sentences ask it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from fairpost.counts import Counts

Floats = NDArray[np.float64]
Unit = Literal["people", "share", "decision", "money", "seats"]


class Problem(ABC):
    """A map from true counts to what each entity is due. Subclasses are frozen dataclasses."""

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
