"""What rules share: the test of the tolerance, the refusal, and the second way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from fairpost.engines.moments import Floats, Moments
from fairpost.errors import ToleranceError

FLOOR = 1e-15
"""A range of biases below this part of the largest share is rounding, and rounding cannot be refined away."""

LOOSE = 1e-3
"""What second moments are good for: three digits of a spread."""


SAFETY = 2.0
"""The error of a second moment or a chance: this many times what the last refinement changed about it.

The stages gain a factor of 3 and more each, so the change alone is the error of the rule before."""
UNSETTLED = 10.0
"""What a refusal had reached has not settled: its last change is no bound yet, this many times it is taken to be one."""


def range_error(bias: Floats, error: Floats) -> tuple[float, float]:
    """Alpha = max bias - min bias, and how far the errors of the biases can move it."""
    alpha = float(np.max(bias) - np.min(bias))
    high = float(np.max(bias + error) - np.min(bias - error))
    return alpha, high - alpha


def moved(now: Floats, before: Floats, size: Floats) -> Floats:
    """How far a refinement moved each value, and its part (by `size`) of the largest move.

    Some values may cross between two rules by accident; a rule's error is about the same part of each.
    """
    change = np.abs(now - before)
    return np.asarray(change + np.max(change) * np.abs(size) / max(float(np.max(np.abs(size))), np.finfo(float).tiny))


def changed(now: Floats, before: Floats, size: Floats) -> Floats:
    """How far each value moved, and as far again as the one that moved farthest for its size, or farthest of all.

    A value may cross from one level to the next by accident, and small shares are as inexact, for their size, as large ones.
    """
    change, size = np.abs(now - before), np.maximum(np.abs(size), np.finfo(float).tiny)
    return np.asarray(change + np.minimum(size * np.max(change / size), np.max(change)))


def reached(bias: Floats, error: Floats, shares: Floats, rtol: float) -> bool:
    """Whether alpha's error is below rtol * alpha, or is rounding of the shares themselves.

    With one distinct pair every bias is 0 by symmetry, and the share has to be known to a part LOOSE.
    """
    alpha, slack = range_error(bias, error)
    if bias.size == 1:
        return bool(slack <= LOOSE * shares[0])
    return bool(np.isfinite(slack) and slack <= max(rtol * alpha, FLOOR * float(np.max(shares))))


def symmetric(found: Moments) -> Moments:
    """The same without the numerical error of a bias that is 0 because all entities are alike."""
    none = np.zeros_like(found.bias)
    return replace(found, bias=none, error=none) if none.size == 1 else found


def refusal(name: str, bias: Floats, error: Floats, rtol: float, why: str = "") -> ToleranceError:
    """The one line that says what was reached, and `why` there is no more."""
    known = UNSETTLED * error
    alpha, slack = range_error(bias, known)
    end = f" ({why})" if why else ""
    if not np.isfinite(slack):
        return ToleranceError(f"{name}: no rule gave a number with a finite error, so alpha is not known{end}")
    return ToleranceError(
        f"{name}: alpha = {alpha:.6g} is known to {slack:.2g} only, which misses the relative tolerance {rtol:g}{end}",
        (bias, known),
    )


def nearer(before: ToleranceError, error: ToleranceError) -> ToleranceError:
    """Of two refusals the one that had come nearer."""
    left, own = (np.max(e.reached[1]) if e.reached is not None else np.inf for e in (before, error))
    return before if left <= own else error


def otherwise(before: ToleranceError, *ways: Callable[[], Moments]) -> Moments:
    """The other ways to a refused answer, in turn; where all fail too, the error that had come nearest."""
    for way in ways:
        try:
            return way()
        except ToleranceError as error:
            before = nearer(before, error)
    raise before from None
