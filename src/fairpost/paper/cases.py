"""The small cases on which statements are demonstrated: five counts, seven districts, one draw of noise each."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fairpost.counts import Counts
from fairpost.noise import Gaussian, Laplace, Law, Mechanism, Stream

Floats = NDArray[np.float64]
FIVE = Counts([1.0, 2.0, 5.0, 12.0, 30.0])
"""Counts of which two are often clipped."""
NOISES: tuple[Law, ...] = (Laplace(scale=3.0), Gaussian(sigma=4.0))
SEVEN = Counts([0.0, 1.0, 3.0, 8.0, 20.0, 45.0, 120.0], weights=[2.0, 1.0, 1.5, 1.0, 2.0, 1.0, 1.2])
"""Districts with weights."""


def noisy(counts: Counts, mechanism: Mechanism, run: int = 0) -> Floats:
    """One noisy draw, always the same."""
    return np.asarray(counts.values + mechanism.sample(counts.n, Stream(1, run)))


def draws(counts: Counts, mechanism: Mechanism, runs: int) -> Floats:
    """One noisy draw per row."""
    return np.stack([noisy(counts, mechanism, run) for run in range(runs)])
