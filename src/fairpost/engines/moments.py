"""What a method finds: one entry for each entity, or for each distinct (count, weight) pair, with its own errors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpost import fairness
from fairpost.accuracy import Accuracy, Estimate, Kind
from fairpost.engines.base import Answer, Part, Reached, Refusal

Floats = NDArray[np.float64]
Counted = NDArray[np.int64]
LOOSE = 1e-3
"""What a second moment or a chance is good for where a method does not say: refinement stops when they move less."""
ROUNDING = 1e-12


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
    alpha: Estimate | None = None
    """Where it is known better than the biases together."""

    def at(self, inverse: NDArray[np.int64]) -> Moments:
        """From one entry per distinct pair to one entry per entity."""
        arrays = ("bias", "error", "mse", "zero", "mse_error", "zero_error")
        given: dict[str, Any] = {name: getattr(self, name) for name in arrays}
        for name, values in given.items():
            given[name] = None if values is None else values[inverse]
        return replace(self, **given)

    def answer(self, method: str, kind: Kind, part: Part) -> Answer | Refusal:
        """The answer about a part, one entry per entity; a moment that is no number is a refusal, so that another method may try."""
        for what, values in (("bias", self.bias), ("mean squared error", self.mse), ("probability of 0", self.zero)):
            if not np.isfinite(values).all():
                bad = int(np.flatnonzero(~np.isfinite(values))[0])
                said = f"a float cannot hold the {what} of every entity, got {values[bad]} at position {bad}"
                return Refusal(said, tried=True)
        known, ends = Accuracy(kind, self.error), fairness.alpha(self.bias)
        mse_error = LOOSE * self.mse if self.mse_error is None else self.mse_error
        zero_error = np.minimum(LOOSE * self.zero + ROUNDING, 1.0) if self.zero_error is None else self.zero_error
        expected = None
        if self.threshold is not None:
            width = float(np.max(self.error)) if self.threshold_error is None else self.threshold_error
            expected = Estimate.around(self.threshold, width, kind)
        return Answer(
            method=method,
            bias=self.bias,
            accuracy=known,
            mse=self.mse,
            mse_accuracy=Accuracy(kind, mse_error),
            zero=self.zero,
            zero_accuracy=Accuracy(kind, zero_error),
            alpha=fairness.alpha_interval(self.bias, known) if self.alpha is None else self.alpha,
            pair=part.ends or (ends.most, ends.least),
            expected_T=expected,
            degenerate=self.degenerate,
        )


def reached(method: str, kind: Kind, bias: Floats, error: Floats) -> Reached | None:
    """What a refusal has in hand, where it is finite."""
    if not np.isfinite(bias).all() or not np.isfinite(error).all():
        return None
    known, ends = Accuracy(kind, error), fairness.alpha(bias)
    return Reached(method, bias, known, fairness.alpha_interval(bias, known), (ends.most, ends.least))
