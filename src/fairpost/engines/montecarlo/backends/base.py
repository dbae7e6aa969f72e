"""The seam: what a backend is asked, and what it returns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpost.counts import Counts
from fairpost.engines.montecarlo.simulation import Block
from fairpost.noise import Mechanism
from fairpost.rules import PostProcessing
from fairpost.rules.control import Control

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Partial:
    """What a block adds to the totals (layout: `cpu.kernels.sums`)."""

    runs: int
    sums: Floats
    pairs: Floats
    degenerate: Ints


@dataclass(frozen=True, eq=False)
class One:
    """One post-processing to simulate."""

    pi: PostProcessing
    truth: Floats
    control: Control

    @property
    def centre(self) -> Floats:
        """P(x) + offset: what the output is compared with, run by run."""
        return self.truth + self.control.offset

    @property
    def left(self) -> Floats:
        """The part of the control that is left in: 1 - its coefficient."""
        known = self.control.coefficient
        return np.zeros(self.truth.size) if known is None else np.asarray(1.0 - known)


@dataclass(frozen=True, eq=False)
class Asked:
    """What is to be simulated: several post-processings on the same noise."""

    counts: Counts
    mechanism: Mechanism
    ones: tuple[One, ...]


class Backend(ABC):
    """Runs blocks."""

    name: str

    @abstractmethod
    def order(self, asked: Asked) -> list[int]:
        """The post-processings in the order in which they are laid out: first those on all entities together that are compiled."""

    def followed(self, spec: Any, p: int) -> tuple[int, int] | None:
        """Two entities whose difference a block follows run by run for post-processing p; None where it follows none.

        An entity of the smallest and one of the largest count, for the first ones in `order`.
        """
        fast = spec.fast
        if p >= fast.codes.size or fast.who.size == 0:
            return None
        return int(fast.who[0]), int(fast.who[fast.split])

    def at_once(self, spec: Any, runs: int) -> int:
        """How many blocks of so many runs are best handed over together. A thread of the processor has enough to do with one."""
        return 1

    @abstractmethod
    def specify(self, asked: Asked) -> Any:
        """Everything a block needs, for post-processings in `order`."""

    @abstractmethod
    def run(self, spec: Any, seed: int, blocks: Sequence[Block]) -> list[Partial]:
        """The sums of each of some blocks of equally many runs, one after the other, for every post-processing on the same noise."""


__all__ = ["Asked", "Backend", "Block", "Floats", "Ints", "One", "Partial"]
