"""pi of a user's own: any Python function from noisy counts to counts or shares."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Self, final

import numpy as np
from numpy.typing import NDArray

from fairpost.counts import Counts
from fairpost.errors import ParameterError, UnsupportedError
from fairpost.rules.base import Outcome, PostProcessing

Floats = NDArray[np.float64]


@final
@dataclass(frozen=True)
class Custom(PostProcessing):
    """A function from one vector of noisy counts to a vector of the same length; simulation alone can judge it.

    Parameters
    ----------
    function
        noisy -> output. It must depend on its argument alone, since several threads may call it at once.
    task
        "release" where the output is counts, "allocation" where it is shares of 1.
    name
        Its name in results.
    linear
        Optional: noise -> the linear part of `function` applied to the noise. The engine subtracts it, which changes
        no expectation (the noise is symmetric and `linear` is odd) and takes away most of the variance.

    """

    function: Callable[[Floats], Floats]
    task: Literal["release", "allocation"] = "release"  # type: ignore[misc]
    name: str = "custom"  # type: ignore[misc]
    linear: Callable[[Floats], Floats] | None = None

    def __post_init__(self) -> None:
        if not callable(self.function) or not (self.linear is None or callable(self.linear)):
            raise ParameterError("a custom post-processing must be a function, and so must its linear part")
        if self.task not in ("release", "allocation"):
            raise ParameterError(f"`task` must be release or allocation, got {self.task!r}")

    @classmethod
    def from_counts(cls, counts: Counts, total: float | None = None, *, by_group: bool = False) -> Self:
        """Not possible: a custom post-processing is built from its function."""
        raise UnsupportedError("a custom post-processing is built from its function, not from counts")

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
                f"{name} must return one number an entity: {row.size} entities, got shape {value.shape}"
            )
        if not np.isfinite(value).all():
            bad = int(np.flatnonzero(~np.isfinite(value))[0])
            raise ParameterError(f"{name} must return finite numbers, got {value[bad]} at position {bad}")
        out[i] = value
    return out
