"""What an integral returns: one entry for each distinct (count, weight) pair, with its own errors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Counted = NDArray[np.int64]


@dataclass(frozen=True)
class Moments:
    """Moments of a post-processed release, in the unit of the output: counts for a release, shares of 1 for an allocation."""

    bias: Floats
    """B_i = E[pi(X)_i] - P(x)_i."""
    error: Floats
    """The absolute numerical error of each bias, from the rule's own refinement and identities."""
    mse: Floats
    """E[(pi(X)_i - P(x)_i)^2], the mean squared error."""
    zero: Floats
    """P(pi(X)_i = 0), the chance of receiving nothing."""
    threshold: float | None = None
    """E[T] of Lemma 2, for the projection onto the simplex."""
    degenerate: float = 0.0
    """The probability of a degenerate draw (all counts clipped; weighted sum at or below 0)."""
    nodes: int = 0
    """How many quadrature nodes the last refinement used (0: closed form)."""
    mse_error: Floats | None = None
    zero_error: Floats | None = None
    threshold_error: float | None = None

    def at(self, inverse: NDArray[np.int64]) -> Moments:
        """From one entry per distinct pair to one entry per entity."""
        arrays = ("bias", "error", "mse", "zero", "mse_error", "zero_error")
        given: dict[str, Any] = {name: getattr(self, name) for name in arrays}
        for name, values in given.items():
            given[name] = None if values is None else values[inverse]
        return replace(self, **given)
