"""What the two allocation mechanisms share: the true shares, and the test of the tolerance."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fairpost.engines.moments import Floats
from fairpost.errors import ToleranceError

Counted = NDArray[np.int64]

FLOOR = 1e-14
"""A range of biases below this part of the largest share is rounding, and rounding cannot be refined away."""


def true_shares(x: Floats, a: Floats, times: Counted) -> Floats:
    """P_i = a_i x_i / sum a x; all counts 0: each counts as equal, a_i / sum a."""
    worth = a * (x if np.any(x > 0) else np.ones_like(x))
    return np.asarray(worth / np.sum(times * worth))


def range_error(bias: Floats, error: Floats) -> tuple[float, float]:
    """Alpha = max bias - min bias, and how far the errors of the biases can move it."""
    alpha = float(np.max(bias) - np.min(bias))
    high = float(np.max(bias + error) - np.min(bias - error))
    return alpha, high - alpha


def reached(bias: Floats, error: Floats, shares: Floats, rtol: float) -> bool:
    """Whether alpha's error is below rtol * alpha, or is rounding of the shares themselves."""
    alpha, slack = range_error(bias, error)
    return bool(np.isfinite(slack) and slack <= max(rtol * alpha, FLOOR * float(np.max(shares))))


def refusal(name: str, bias: Floats, error: Floats, rtol: float) -> ToleranceError:
    """The one line that says what was reached."""
    alpha, slack = range_error(bias, error)
    return ToleranceError(
        f"{name}: alpha = {alpha:.6g} is known to {slack:.2g} only, which misses the relative tolerance {rtol:g}"
    )
