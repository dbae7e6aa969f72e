"""A programme compiled: for each entity a function of its count that is linear between kinks, with jumps.

g(z) = 0 below the first kink, then value_k + slope_k (z - at_k) from at_k up to the next kink. A first kink at minus
infinity (slope 0) is a payment below all others, which only signed payments have.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Kinks:
    """The kinks of n entities, entity i from start[i] to start[i + 1]."""

    start: Ints
    at: Floats
    value: Floats
    slope: Floats

    @property
    def n(self) -> int:
        """The number of entities."""
        return int(self.start.size - 1)

    @property
    def owner(self) -> Ints:
        """The entity of each kink."""
        return np.repeat(np.arange(self.n), np.diff(self.start))

    def __call__(self, z: Floats) -> Floats:
        """g of one vector (one entry per entity), or of the rows of a matrix."""
        from fairpost.problems.programme.kernels.kinks import evaluate

        rows = np.ascontiguousarray(np.atleast_2d(z), dtype=np.float64)
        out = np.empty_like(rows)
        evaluate(rows, self.start, self.at, self.value, self.slope, out)
        return out if np.ndim(z) == 2 else out[0]

    def of(self, who: Ints) -> Kinks:
        """The kinks of some entities."""
        many = np.diff(self.start)[who]
        start = np.concatenate([[0], np.cumsum(many)]).astype(np.int64)
        place = np.arange(start[-1]) - np.repeat(start[:-1], many) + np.repeat(self.start[:-1][who], many)
        return Kinks(start, self.at[place], self.value[place], self.slope[place])

    def scaled(self, factor: Floats) -> Kinks:
        """factor_i g_i."""
        by = factor[self.owner]
        return Kinks(self.start, self.at, self.value * by, self.slope * by)

    def from_noise(self, x: Floats, discrete: bool) -> Floats:
        """For each kink the least noise eta with x + eta >= at; on the lattice x + Z a whole number.

        A kink that excludes its own place lies one ulp above it. The difference at - x would round that ulp away, so the
        whole part of x is taken off after rounding up.
        """
        own = x[self.owner]
        if not discrete:
            return np.asarray(self.at - own)
        whole = np.floor(own)
        return np.asarray(np.ceil(self.at - (own - whole)) - whole)
