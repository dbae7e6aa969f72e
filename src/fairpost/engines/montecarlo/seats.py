"""Seats by equal proportions under noise: the chance that a state's number of seats changes, by simulation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairpost.counts import Counts
from fairpost.engines.montecarlo import intervals
from fairpost.engines.montecarlo.backends.cpu.blocks import draw
from fairpost.errors import CountsError
from fairpost.noise import Mechanism

Floats = NDArray[np.float64]
ROWS = 256


@dataclass(frozen=True, eq=False)
class SeatChanges:
    """What noise does to an apportionment."""

    seats: Floats
    """On the true counts."""
    gained: Floats
    """The share of runs in which the state has more seats than that."""
    lost: Floats
    half_width: Floats
    """Each chance of a change lies within gained + lost +- half_width, all together."""
    any: float
    """The share of runs in which some state's seats change."""
    runs: int
    seed: int
    confidence: float

    @property
    def changed(self) -> Floats:
        """The chance that a state's seats change."""
        return np.asarray(self.gained + self.lost)


def seat_changes(
    counts: Counts,
    mechanism: Mechanism,
    seats: int = 435,
    *,
    runs: int = 20_000,
    seed: int = 0,
    confidence: float = 0.95,
) -> SeatChanges:
    """Apportion `runs` noisy copies of the counts, run r from stream (seed, r), and compare with the true apportionment."""
    from fairpost.problems.programme.kernels.sharing import equal_proportions

    if seats < counts.n:
        raise CountsError(f"there must be a seat for every entity: {counts.n} entities, {seats} seats")
    true = np.empty((1, counts.n))
    equal_proportions(counts.values[None, :].copy(), seats, true)
    gained, lost, some = np.zeros(counts.n), np.zeros(counts.n), 0
    for first in range(0, runs, ROWS):
        many = min(ROWS, runs - first)
        noise, out = np.empty((many, counts.n)), np.empty((many, counts.n))
        draw(mechanism, seed, first, noise)
        equal_proportions(counts.values + noise, seats, out)
        more, less = out > true, out < true
        gained += more.sum(axis=0)
        lost += less.sum(axis=0)
        some += int((more | less).any(axis=1).sum())
    chance = (gained + lost) / runs
    width = intervals.of_chances(chance, runs, 1 - confidence)
    return SeatChanges(true[0], gained / runs, lost / runs, width, some / runs, runs, seed, confidence)
