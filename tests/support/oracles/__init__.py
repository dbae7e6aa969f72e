"""Independent ways to the moments of a rule; each returns `Found`. Nothing here knows fairpost."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass
class Found:
    """Of one group: biases and what else is known, with absolute errors."""

    bias: np.ndarray
    error: np.ndarray
    """Of each bias (0 where only rounding is left)."""
    source: str
    mse: np.ndarray | None = None
    mse_error: float = 0.0
    zero: np.ndarray | None = None
    zero_error: float = 0.0
    T: float | None = None
    T_error: float = 0.0
    apart: float | None = None
    """The error of max B - min B, where it is known better than the biases' own."""
