"""Shares from which nobody is dropped: `pos`, `pos-threshold` and any weights, under each of the four noises.

Where no z_j is below its edge (0, or a_j times where a threshold ends) the share is z_i/S, and E[z_i/S] - P_i is the first term of section 5,
an integral of one dimension over the noise's own cumulants. A is the event that some z_j is not: two shares differ by at most 1, so
P(A) <= sum_j P(eta < edge - x_j) bounds what it can add to a bias, a square or a chance.
"""

from __future__ import annotations

import numpy as np

from fairpost.engines.closed.shares import reached, symmetric
from fairpost.engines.exact.pos.inverse import fitted
from fairpost.engines.exact.pos.problem import Problem, chance_negative
from fairpost.engines.exact.pos.separated import of_square, unclipped
from fairpost.engines.moments import Moments

ROUNDING = 1e-13


def uncut(problem: Problem, edge: float, rtol: float) -> Moments | None:
    """The moments, or None where somebody may be dropped, or S come near 0, too often for the tolerance."""
    noise, cut = problem.mechanism, edge - problem.c / problem.a
    # on a ramp the edge itself keeps all of u, so that only what lies below it is dropped; a whole count of 0 is a share of 0
    chance = noise.cdf(np.ceil(cut) - 1 if noise.discrete else cut)
    nothing = noise.density(cut) if noise.discrete and edge == 0 else np.zeros_like(cut)
    dropped = float(np.sum(problem.times * chance))
    if not dropped < 0.1 * rtol or not problem.variance > 0:  # noise next to none has the variance 0.0
        return None
    known = fitted(problem, rtol, lambda inverse: unclipped(problem, inverse), ROUNDING)
    if known is None:
        return None
    inverse, bias, mse = known
    error = np.sqrt(mse) * inverse.rms + inverse.tail + dropped + ROUNDING * np.abs(bias)
    if not reached(bias, error, problem.shares, rtol):
        return None
    return symmetric(
        Moments(
            bias,
            error,
            mse,
            nothing,
            degenerate=chance_negative(problem),
            mse_error=of_square(inverse, mse) + dropped,
            zero_error=np.full_like(bias, dropped),
        )
    )
