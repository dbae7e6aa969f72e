"""Laws of whole numbers, folded: sums of noises, a cell, and what one more entity does to its law of (K, N, V) (`folded`).

All entries are chances, so sums of products keep their relative accuracy. A table has the axes K, N, V: how many are above the ramp, how
many are on it, and the sum of X - m of those above.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairpost.engines.moments import Floats


def summed(masses: Floats, times: int, left: float) -> Floats:
    """The law of a sum of so many symmetric noises, cut where a tail has the chance `left`; a power passes its cuts on."""
    out, power = np.ones(1), masses
    while times:
        if times % 2:
            out = _cut(np.convolve(out, power), left)
        times //= 2
        power = _cut(np.convolve(power, power), left) if times else power
    return out


def _cut(law: Floats, left: float) -> Floats:
    off = int(np.searchsorted(np.cumsum(law), left))
    return law[off : law.size - off]


def _rows(table: Floats) -> Floats:
    return np.ascontiguousarray(table).reshape(-1, table.shape[-1])


def expected(value: Floats, chance: Floats, first: int) -> Floats:
    """The sum over l from `first` on of chance[l] value(V + l), in a table of the same shape."""
    from fairpost.engines.exact.lattice.kernels import fold

    out = np.zeros(value.shape)
    fold.backwards(_rows(value), chance, first, out.reshape(-1, value.shape[-1]))
    return out


@dataclass(frozen=True)
class Steps:
    """What one count does in a cell: the chances to be below and on the ramp, and those of X - m = 0, 1, ..., above it from 2 on."""

    below: float
    ramp: float
    above: Floats

    def forwards(self, law: Floats) -> tuple[Floats, float]:
        """The law of (K, N, V) with one more entity, and the chance that leaves the table."""
        from fairpost.engines.exact.lattice.kernels import fold

        out, size = self.below * law, law.shape[-1]
        out[:, 1:] += self.ramp * law[:, :-1]
        fold.forwards(_rows(law[:-1]), self.above, 2, _rows(out[1:]))
        tail = np.append(np.cumsum(self.above[::-1])[::-1], 0.0)
        room = np.clip(size - np.arange(size), 2, tail.size - 1)
        over = float(np.sum(law[:-1] * tail[room])) + float(np.sum(law[-1])) * float(tail[2])
        return out, over + self.ramp * float(np.sum(law[:, -1]))

    def backwards(self, value: Floats) -> Floats:
        """E[value | one entity less]; `value` has a first axis more."""
        out = self.below * value
        out[:, :, :-1] += self.ramp * value[:, :, 1:]
        out[:, :-1] += expected(value[:, 1:], self.above, 2)
        return out

    def weighted(self, value: Floats, shift: float, power: int) -> Floats:
        """E[(X - m + shift)^power value(V + X - m); X above the ramp]."""
        return expected(value, self.above * (np.arange(self.above.size) + shift) ** power, 2)


@dataclass(frozen=True)
class Cell:
    """One cell: who is at risk in it (each distinct count by its place), the giants, and the table of (K, N, V)."""

    m: int
    risk: list[int]
    giants: Floats
    """How many of each distinct count are never below the ramp."""
    need: float
    """C less what the giants have without noise."""
    shape: tuple[int, int, int]

    @property
    def many(self) -> int:
        """The number of giants."""
        return int(np.sum(self.giants))

    def within(self, many: int) -> NDArray[np.bool_]:
        """Which (K, N) so many entities can make."""
        return np.add.outer(np.arange(self.shape[0]), np.arange(self.shape[1])) <= many

    @property
    def work(self) -> float:
        """How many products it takes: one law forwards, three values backwards and three for what is asked of a count."""
        rows = [float(np.count_nonzero(self.within(j + 1))) for j in range(len(self.risk))]
        asked = [r for r, i, after in zip(rows, self.risk, [*self.risk[1:], -1], strict=False) if i != after]
        return (4 * sum(rows) + 3 * sum(asked)) * (self.shape[2] ** 2 / 2 + 25.0 * self.shape[2]) + 1e6
