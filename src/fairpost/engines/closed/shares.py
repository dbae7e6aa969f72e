"""When a tolerance on alpha is reached, and what a refinement moved."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fairpost.engines.moments import Floats, Moments

FLOOR = 1e-15
"""A range of biases below this part of the largest share is rounding, and rounding cannot be refined away."""

LOOSE = 1e-3
"""What second moments are good for: three digits of a spread."""


SAFETY = 2.0
"""The error of a second moment or a chance: this many times what the last refinement changed about it.

The stages gain a factor of 3 and more each, so the change alone is the error of the rule before."""


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
