"""P: what the counts are used for, and so what a post-processed output is compared with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
from numpy.typing import NDArray

from fairpost.counts import Counts

Floats = NDArray[np.float64]


@final
@dataclass(frozen=True)
class Release:
    """Data release: P(x) = x, in the unit of the counts."""

    name: ClassVar[str] = "release"

    def __call__(self, counts: Counts) -> Floats:
        """The true counts."""
        return counts.values


@final
@dataclass(frozen=True)
class Proportional:
    """Allocation in proportion to weighted counts: P^F(x)_i = a_i x_i / sum_j a_j x_j, shares of 1.

    Where every count is 0 the shares are a_i / sum_j a_j, the convention of the post-processings.
    """

    name: ClassVar[str] = "allocation"

    def __call__(self, counts: Counts) -> Floats:
        """The true shares."""
        need = counts.weights * counts.values
        total = np.sum(need)
        return need / total if total > 0 else counts.weights / np.sum(counts.weights)


PROBLEMS: dict[str, Release | Proportional] = {"release": Release(), "allocation": Proportional()}
"""The problem of each task of a post-processing."""
