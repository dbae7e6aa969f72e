"""pi: what a post-processing is. Noisy counts in, feasible counts or shares out; no privacy is spent."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairpost.bounds.theorems import Bounds
from fairpost.counts import Counts
from fairpost.errors import CountsError, ParameterError, UnsupportedError
from fairpost.magnitudes import refuse
from fairpost.noise.base import Mechanism
from fairpost.noise.threshold import Threshold
from fairpost.partition import Partition
from fairpost.problems.base import Problem
from fairpost.rules.control import Control, reach

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Outcome:
    """The output of a post-processing and what happened on the way."""

    values: Floats
    """pi(X): one vector, or one row per draw."""
    degenerate: int
    """How many (draw, group) problems had no regular solution and took the documented convention."""


class PostProcessing(ABC):
    """A map from noisy counts to an output, on one vector or on the rows of a matrix.

    A subclass is a frozen dataclass that holds what the map needs (a total, weights, a matrix) and has `name`, `problem` and
    `_apply`, on validated rows: that is enough to simulate it (or a plain function, see `Custom`). It never sees the true
    counts at call time. Everything else has a default and says more where more is known: how it is built (`from_counts`), how
    it is tuned (`for_mechanism`) and taken apart by group (`alone`, `of_groups`), and what theory says about it (`control`,
    `extremes`, `total_off`, `bounds`). An engine that can evaluate it exactly is registered beside its derivation.
    """

    name: ClassVar[str]
    """The name on the command line and in JSON."""
    title: ClassVar[str] = ""
    """What it does, in a few words."""
    signed: ClassVar[bool] = False
    """Whether outputs can be below 0, which a publication or a budget rarely allows."""
    keeps_total: ClassVar[bool] = False
    """Whether it is built for a public total."""
    needs_noise: ClassVar[bool] = False
    """Whether the map must know which noise was added (`for_mechanism`)."""
    partition: Partition | None = None
    """The groups, where each has a problem of its own."""

    @property
    def rule(self) -> Threshold | None:
        """The threshold, of those that have one."""
        return None

    @property
    def dust(self) -> float:
        """Outputs up to this are 0 but for rounding."""
        return 0.0

    @property
    @abstractmethod
    def problem(self) -> Problem:
        """P: what the output is compared with."""

    @classmethod
    def from_counts(cls, counts: Counts, total: float | None = None, *, by_group: bool = False) -> Self:
        """The post-processing for these entities; the total defaults to the public sum of the counts.

        By group: each group of `counts.groups` keeps its own total (release) or shares 1 (allocation).
        """
        raise UnsupportedError(f"{cls.__name__} is not built from counts alone; give the object itself")

    def check(self, counts: Counts) -> None:
        """An error where this post-processing cannot be about these counts."""
        self.problem.check(counts, self.name)

    def for_mechanism(self, mechanism: Mechanism) -> Self:
        """The post-processing tuned to the noise, where it has something to tune; else itself."""
        return self

    def alone(self, g: int) -> PostProcessing:
        """The post-processing of group g alone, where there is a partition."""
        raise UnsupportedError(f"{self.name} does not work group by group")

    def of_groups(self, groups: Sequence[int]) -> PostProcessing:
        """The same for the members of some groups, where there is a partition."""
        raise UnsupportedError(f"{self.name} does not work group by group")

    def control(self, counts: Counts, mechanism: Mechanism) -> Control:
        """What simulation may subtract without moving an expectation; here nothing."""
        return Control(np.zeros(counts.n), None, reach(self, counts, mechanism), None)

    def extremes(self, counts: Counts, mechanism: Mechanism) -> tuple[int, int] | None:
        """The entities that attain alpha, the largest bias first, where theory knows them before any computation."""
        return None

    def total_off(self, counts: Counts) -> Floats | None:
        """What the outputs add up to in expectation, less what they should, where that is known by construction.

        One entry, or one for each group of the `partition`; None where only the biases tell.
        """
        return None

    def bounds(self, counts: Counts, mechanism: Mechanism, expected_T: float | None = None) -> Bounds | None:
        """Bounds on alpha that hold without simulation, where theory has some."""
        return None

    @abstractmethod
    def _apply(self, rows: Floats) -> Outcome:
        """The map on a C-contiguous, finite matrix of shape (draws, n)."""

    def apply(self, noisy: ArrayLike) -> Outcome:
        """The output together with the number of degenerate draws."""
        rows = finite_rows(noisy)
        outcome = self._apply(np.atleast_2d(rows))
        return outcome if rows.ndim == 2 else Outcome(outcome.values[0], outcome.degenerate)

    def simulated(self, noisy: Floats, seed: int, first: int) -> Outcome:
        """The output of runs first, first + 1, ... of a simulation, one per row; noise besides that of the counts is drawn here."""
        return self.apply(noisy)

    def __call__(self, noisy: ArrayLike) -> Floats:
        """The output alone."""
        return self.apply(noisy).values


def finite_rows(noisy: ArrayLike) -> Floats:
    """`noisy` as a C-contiguous float64 vector or matrix, checked to be finite and non-empty."""
    try:
        rows = np.ascontiguousarray(noisy, dtype=np.float64)
    except (TypeError, ValueError):
        raise CountsError("noisy counts must be numbers in one vector or in the rows of a matrix") from None
    if np.ndim(noisy) not in (1, 2) or rows.size == 0:
        raise CountsError(
            f"noisy counts must be one vector or a matrix with a row per draw, got shape {np.shape(noisy)}"
        )
    if not np.isfinite(np.sum(rows)) and not np.isfinite(rows).all():
        place = tuple(int(i) for i in np.argwhere(~np.isfinite(rows))[0])
        raise CountsError(f"every noisy count must be finite, got {rows[place]} at position {place}")
    return rows


def same_length(rows: Floats, n: int) -> None:
    """An error where the rows do not have one column per entity."""
    if rows.shape[-1] != n:
        raise CountsError(f"noisy counts must have one entry per entity: {n} entities, {rows.shape[-1]} entries")


def nonnegative_total(total: float) -> float:
    """A total C: finite and at least 0."""
    try:
        number = float(total)
    except (TypeError, ValueError):
        raise ParameterError(f"`total` must be a number, got {total!r}") from None
    if not 0 <= number < np.inf:
        raise ParameterError(f"`total` must be at least 0 and finite, got {total!r}")
    refuse("total", number, ParameterError)
    return number
