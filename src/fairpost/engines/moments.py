"""What a method finds: one entry for each entity, or for each distinct (count, weight) pair, with its own errors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpost import fairness
from fairpost.accuracy import Accuracy, Estimate, Kind
from fairpost.counts import distinct_pairs
from fairpost.engines.base import Answer, Part, Reached, Refusal

Floats = NDArray[np.float64]
Counted = NDArray[np.int64]
LOOSE = 1e-3
"""What a second moment or a chance is good for where a method does not say: refinement stops when they move less."""
ROUNDING = 1e-12
UNSETTLED = 10.0
"""The last change of a refinement that did not end is no error yet; this many times it is taken to be one."""


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
    kind: Kind = "estimate"
    """In which sense the errors are meant."""
    short: str | None = None
    """One line, where the tolerance was missed; then bias and error are what was reached, and nothing else is known."""

    @classmethod
    def missed(cls, name: str, bias: Floats, error: Floats, rtol: float) -> Moments:
        """What was reached, and the line that says so. It has not settled, so its last change is taken `UNSETTLED` times."""
        known = UNSETTLED * error
        alpha = float(np.max(bias) - np.min(bias))
        slack = float(np.max(bias + known) - np.min(bias - known)) - alpha
        if not np.isfinite(slack):
            said = f"{name}: no rule gave a number with a finite error, so alpha is not known"
        else:
            said = f"{name}: alpha = {alpha:.6g} is known to {slack:.2g} only, which misses the relative tolerance {rtol:g}"
        none = np.full_like(bias, np.nan)
        return cls(bias, known, none, none, short=said)

    @classmethod
    def unknown(cls, n: int, why: str) -> Moments:
        """Nothing was reached for n entities."""
        none = np.full(n, np.inf)
        return cls(none, none, none, none, short=why)

    def at(self, inverse: NDArray[np.int64]) -> Moments:
        """From one entry per distinct pair to one entry per entity."""
        arrays = ("bias", "error", "mse", "zero", "mse_error", "zero_error")
        given: dict[str, Any] = {name: getattr(self, name) for name in arrays}
        for name, values in given.items():
            given[name] = None if values is None else values[inverse]
        return replace(self, **given)

    def answer(self, method: str, kind: Kind, part: Part) -> Answer | Refusal:
        """The answer about a part, one entry per entity; a moment that is no number is a refusal, so that another method may try."""
        if self.short is not None:
            return Refusal(self.short, tried=True, reached=reached(method, kind, self.bias, self.error))
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


Work = Callable[[float], Moments]
"""What a method has to do about a part once nothing stands against it, given the relative tolerance on alpha."""


@dataclass(frozen=True, eq=False)
class Distinct:
    """The distinct (count, weight) pairs, ascending: what each occurs how often, and which pair each entity has."""

    x: Floats
    a: Floats
    times: Counted
    inverse: NDArray[np.int64]
    truth: Floats
    """P(x) of each pair."""

    def entities(self, found: Moments) -> Moments:
        """Each entity has the moments of its pair."""
        return found.at(self.inverse)


def distinct(part: Part, weights: Floats | None = None) -> Distinct:
    """The distinct pairs of a part; without weights, its distinct counts."""
    a = np.ones(part.x.size) if weights is None else weights
    x, a, times, inverse = distinct_pairs(part.x, a)
    truth = np.empty(x.size)
    truth[inverse] = part.truth
    return Distinct(x, a, times, inverse, truth)


def reached(method: str, kind: Kind, bias: Floats, error: Floats) -> Reached | None:
    """What a refusal has in hand, where it is finite."""
    if not np.isfinite(bias).all() or not np.isfinite(error).all():
        return None
    known, ends = Accuracy(kind, error), fairness.alpha(bias)
    return Reached(method, bias, known, fairness.alpha_interval(bias, known), (ends.most, ends.least))
