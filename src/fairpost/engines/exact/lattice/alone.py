"""Releases in which one count takes the total: it lies so far above all others that noise does not matter.

v is C for the largest count and 0 for the others, unless the gap to the second one less C is made up by noise: by half of it at
least, of the largest or of another. That is an event of a chance of at most 2 n P(eta > half), and v moves by no more than C in it.
With nobody else kept the shift beside pi_S is T = X_max + (C - sum X)/n - C.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fairpost.engines.exact.lattice.problem import Problem
from fairpost.engines.moments import Moments

NEVER = 1e-18
"""The chance below which the others are left out."""


def alone(problem: Problem) -> Moments | None:
    """The moments, or None where somebody else may get something."""
    x, total, n = problem.x, problem.total, problem.n
    if x.size == 1 or problem.times[-1] > 1:
        return None
    half = 0.5 * (x[-1] - x[-2] - total) - 1
    other = 2 * n * float(problem.noise.sf(half)) if half > 0 else 1.0
    if other > NEVER:
        return None
    v = np.where(np.arange(x.size) == x.size - 1, total, 0.0)
    found = Moments(
        v - x,
        other * total + 2 * np.spacing(x + total),
        (v - x) ** 2,
        (v == 0).astype(np.float64),
        mse_error=other * (total + x) ** 2 + 4 * np.spacing((x + total) ** 2),
        zero_error=np.full(x.size, other),
    )
    if problem.rule is not None:
        return found
    top = float(x[-1])
    shift = top + problem.surplus / n - total
    return replace(found, threshold=shift, threshold_error=4 * other * top + 4 * float(np.spacing(top + total)))
