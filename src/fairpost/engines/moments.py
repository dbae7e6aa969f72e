"""What an exact evaluation returns: moments of pi(X), each bias with its own error bound."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Moments:
    """Moments of a post-processed release, one entry for each distinct (count, weight) pair.

    The unit is that of the output: counts for a release, shares of 1 for an allocation.
    """

    bias: Floats
    """B_i = E[pi(X)_i] - P(x)_i."""
    error: Floats
    """A bound on the absolute numerical error of each bias, from the rule's own refinement and identities."""
    mse: Floats
    """E[(pi(X)_i - P(x)_i)^2], the mean squared error."""
    zero: Floats
    """P(pi(X)_i = 0), the chance of receiving nothing."""
    threshold: float | None = None
    """E[T] of Lemma 2, for the projection onto the simplex."""
    degenerate: float = 0.0
    """The probability of a degenerate draw (all counts clipped; weighted sum at or below 0)."""
    accuracy: str = "bound"
    """What `error` is: "bound", a bound on the numerical error; "expansion", what an expansion in 1/n states."""
    nodes: int = 0
    """How many quadrature nodes the last refinement used (0: closed form)."""
