"""pi of a user's own: any Python function from noisy counts to counts or shares."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, final

import numpy as np
from numpy.typing import NDArray

from fairpost.counts import Counts
from fairpost.errors import ParameterError
from fairpost.noise import Mechanism
from fairpost.problems import Problem, Release
from fairpost.rules.base import Outcome, PostProcessing
from fairpost.rules.control import Control, reach

Floats = NDArray[np.float64]
NEAR = 1e-9
"""A sum this near to 1 is 1."""


@final
@dataclass(frozen=True, eq=False)
class Custom(PostProcessing):
    """A function from one vector of noisy counts to a vector of the same length; simulation alone can judge it.

    Parameters
    ----------
    function
        noisy -> output. It must depend on its argument alone, since several threads may call it at once.
    problem
        P, what the output is compared with: `problems.Release()` where the output is counts, `Proportional(weights)` where it is
        shares of 1, or a problem of your own. Default: the counts, which is refused where the output adds up to 1.
    name
        Its name in results.
    linear
        Optional: noise -> the linear part of `function` applied to the noise. The engine subtracts it, which changes
        no expectation (the noise is symmetric and `linear` is odd) and takes away most of the variance.

    """

    function: Callable[[Floats], Floats]
    problem: Problem | None = None  # type: ignore[assignment]
    name: str = "custom"  # type: ignore[misc]
    linear: Callable[[Floats], Floats] | None = None
    stated: bool = field(init=False, default=True)
    """Whether the problem was given, not assumed."""
    signed: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not callable(self.function) or not (self.linear is None or callable(self.linear)):
            raise ParameterError("a custom post-processing must be a function, and so must its linear part")
        if self.problem is not None and not isinstance(self.problem, Problem):
            raise ParameterError(
                f"`problem` must be a problem such as Release() or Proportional(), got {self.problem!r}"
            )
        object.__setattr__(self, "stated", self.problem is not None)
        object.__setattr__(self, "problem", Release() if self.problem is None else self.problem)

    def control(self, counts: Counts, mechanism: Mechanism) -> Control:
        """The user's linear part, tried on one vector: it must be odd, or its mean would not be 0."""
        if self.linear is None:
            return super().control(counts, mechanism)
        probe = np.cos(np.arange(1.0, counts.n + 1.0))[None, :]
        there, back = self.linear_rows(probe), self.linear_rows(-probe)
        if np.abs(there + back).max() > 1e-9 * max(np.abs(there).max(), 1e-300):
            raise ParameterError(f"the linear part of {self.name} must change sign with the noise, it does not")
        return Control(np.zeros(counts.n), self.linear_rows, reach(self, counts, mechanism, self.linear_rows), None)

    def check(self, counts: Counts) -> None:
        """An error where nobody said which problem the function answers and its output on the counts adds up to 1."""
        super().check(counts)
        if self.stated or counts.n < 2 or abs(counts.total - 1) <= NEAR:
            return
        value = self(counts.values)
        if value.min() >= 0 and abs(float(value.sum()) - 1) <= NEAR:
            raise ParameterError(
                f"the output of {self.name} adds up to 1 where the counts add up to {counts.total:g}: say which problem it "
                "answers, Custom(f, problem=Proportional(weights)) for shares, or problems.Release() for counts"
            )

    def _apply(self, rows: Floats) -> Outcome:
        return Outcome(_row_by_row(self.function, rows, self.name), 0)

    def linear_rows(self, noise: Floats) -> Floats:
        """The linear part of each row of noise."""
        assert self.linear is not None
        return _row_by_row(self.linear, noise, f"the linear part of {self.name}")


def _row_by_row(function: Callable[[Floats], Floats], rows: Floats, name: str) -> Floats:
    out = np.empty_like(rows)
    for i, row in enumerate(rows):
        value = np.asarray(function(row.copy()), dtype=np.float64)
        if value.shape != row.shape:
            raise ParameterError(
                f"{name} must return one number per entity: {row.size} entities, got shape {value.shape}"
            )
        if not np.isfinite(value).all():
            bad = int(np.flatnonzero(~np.isfinite(value))[0])
            raise ParameterError(f"{name} must return finite numbers, got {value[bad]} at position {bad}")
        out[i] = value
    return out
