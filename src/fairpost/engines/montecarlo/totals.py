"""The merged blocks of a simulation, in order, and their way into a checkpoint."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fairpost.engines.montecarlo.backends.base import Floats, Ints, Partial
from fairpost.rules.control import Control

STATE = ("tally", "sums", "pairs", "ties", "squares", "degenerate", "whole")
"""The arrays that change, by name."""


class Totals:
    """The merged blocks so far."""

    def __init__(self, n: int, controls: list[Control]) -> None:
        from fairpost.engines.montecarlo.backends.cpu.kernels import sums as kernel

        many = len(controls)
        self.labels, self.members = _classes(controls, n)
        widest = self.members.shape[1]
        self.tally = np.zeros(2, dtype=np.int64)
        self.sums = np.zeros((many, -(-n // kernel.PIECE), kernel.PLANES * kernel.PIECE))
        self.pairs = np.zeros((many, 6))
        self.ties = np.zeros((many, 2, widest))
        self.squares = np.zeros((many, 2, n))
        self.degenerate = np.zeros(many, dtype=np.int64)
        self.whole = np.zeros((many, 3))
        """Of the sum of d over all entities, a block at a time: runs, mean, and the sum of squares between blocks."""
        self.offsets = np.stack([c.offset for c in controls])
        self._scratch = np.zeros(widest)

    @property
    def runs(self) -> int:
        """Runs merged so far."""
        return int(self.tally[0])

    @property
    def blocks(self) -> int:
        """Blocks merged so far."""
        return int(self.tally[1])

    def merge(self, part: Partial) -> None:
        """Add the next block, in one compiled call: an interrupt comes before it or after it."""
        from fairpost.engines.montecarlo.backends.cpu.kernels.sums import merge

        whole = self._with(part)
        merge(
            self.tally, self.sums, self.pairs, self.ties, self.squares, self.degenerate, part.runs,
            part.sums, part.pairs, part.degenerate, self.offsets, self.labels, self.members, self._scratch,
        )  # fmt: skip
        self.whole[...] = whole

    def _with(self, part: Partial) -> Floats:
        """`whole` with one more block; it has its own count of runs, should an interrupt come between it and the rest."""
        n = self.labels.shape[1]
        piece = part.sums.shape[2] // 5
        new = part.sums.reshape(len(part.sums), -1, 5, piece)[:, :, 0].reshape(len(part.sums), -1)[:, :n].sum(axis=1)
        done, mean, squares = self.whole.T
        step, runs = new - mean, done + part.runs
        return np.stack([runs, mean + step * (part.runs / runs), squares + step**2 * (done / runs * part.runs)], axis=1)

    def between(self, p: int) -> float:
        """The sum of squares between blocks of the sum over all entities, of post-processing p."""
        return float(self.whole[p, 2])

    def plane(self, p: int, k: int) -> Floats:
        """One quantity of post-processing p: 0 mean d, 1 its squares, 2 mean e, 3 its squares, 4 zeros."""
        piece = self.sums.shape[2] // 5
        return np.asarray(self.sums[p].reshape(-1, 5, piece)[:, k].reshape(-1)[: self.labels.shape[1]])

    def state(self) -> dict[str, NDArray[np.float64] | Ints]:
        """The arrays that change, by name."""
        return {name: getattr(self, name) for name in STATE}


def _classes(controls: list[Control], n: int) -> tuple[Ints, Floats]:
    """The class of each entity and the size of each class, a row per post-processing; no rows where nothing is tied."""
    labels = [np.arange(n) if c.labels is None else c.labels for c in controls]
    widest = max(int(label.max()) + 1 for label in labels)
    if all(int(label.max()) + 1 == n for label in labels):
        return np.empty((0, n), dtype=np.int64), np.empty((0, 0))
    return np.stack(labels), np.stack([np.bincount(label, minlength=widest).astype(np.float64) for label in labels])
