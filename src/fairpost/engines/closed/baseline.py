"""The baseline BL_i = a_i (X_i)_+ / sum_j a_j (X_j)_+, exactly.

With Y_j = a_j (X_j)_+, S = sum Y_j and 1/S = int_0^inf e^{-tS} dt, every expectation is one integral over t
of a product over entities. Let M_j(t) = E[e^{-t Y_j}], and let l_j, v_j be mean and variance of Y_j under the
tilt e^{-t Y_j} / M_j. Under the tilt the entities stay independent, so for S > 0

    E[Y_i/S - P_i]         = int   prod M  (l_i - P_i sum l)                                          dt
    E[(Y_i/S - P_i)^2]     = int t prod M ((l_i - P_i sum l)^2 + (1 - P_i)^2 v_i + P_i^2 (sum v - v_i)) dt.

Since P_i sum_j a_j x_j = a_i x_i, the true values drop out of l_i - P_i sum l: only e_i = l_i - a_i x_i enters, which
is of the size of the noise. So a bias of 1e-8 of a share is as accurate as one of 0.1.
When S = 0 (all clipped) the output is a_i / sum a.

Two rules. S concentrated (standard deviation below a tenth of the mean): Gauss-Laguerre in t E[S]; n nodes are
exact for 1/S expanded to degree 2n - 1 about E[S]. Otherwise the double-exponential rule. Either is refined until
two successive ones agree; their difference is the error estimate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fairpost.engines.base import Part
from fairpost.engines.closed.quadrature import Rule
from fairpost.engines.closed.ratio import ROUNDING, Summed, attempts, integrate
from fairpost.engines.closed.shares import SAFETY, moved, reached, symmetric
from fairpost.engines.closed.tilts import clipped_tilts
from fairpost.engines.moments import Counted, Floats, Moments, Work, distinct
from fairpost.noise import Law
from fairpost.noise.base import LAPLACE
from fairpost.rules import Baseline


@dataclass(frozen=True)
class _Problem:
    x: Floats
    a: Floats
    times: Floats
    shares: Floats
    mechanism: Law
    mean: float
    """E[S]."""
    centred: bool
    """Whether means are taken less a x (S concentrated, so t a spread is small) or as they are."""


def baseline(pi: Baseline, part: Part, law: Law) -> Work:
    """BL for the distinct pairs (x, a); in shares of 1."""
    d = distinct(part, pi.problem.a(part.x.size))
    return lambda rtol: d.entities(_shares(d.x, d.a, d.times, d.truth, law, rtol))


def _shares(x: Floats, a: Floats, times: Counted, shares: Floats, mechanism: Law, rtol: float) -> Moments:
    """Moments for pairs with multiplicities `times` and true shares P, refined until alpha is known to rtol of itself."""
    counts = times.astype(np.float64)
    empty, zero = _clipped(mechanism.cdf(-x), counts)
    if counts.sum() == 1:
        none = np.zeros(1)
        return Moments(none, none, none, none, degenerate=empty, mse_error=none, zero_error=none, kind="bound")
    a = a / np.max(a)
    fallback = a / np.sum(counts * a) - shares
    mean, deviation = _sum_moments(x, a, counts, mechanism)
    if not mean > 0:
        return Moments.unknown(x.size, "baseline: counts and noise are too far apart for floats (E[S] is 0 in floats)")
    previous: tuple[Floats, Floats] | None = None
    for centred, rule in attempts(deviation / mean):
        found = _integrate(_Problem(x, a, counts, shares, mechanism, mean, centred), rule)
        bias = found.bias + empty * fallback
        if previous is not None:
            error = moved(bias, previous[0], bias) + found.rounding
            if reached(bias, error, shares, rtol):
                mse = found.mse + empty * fallback**2
                spread = SAFETY * moved(found.mse, previous[1], found.mse) + 10 * ROUNDING * mse
                chance = 5 * ROUNDING * zero + 1e-14 * mechanism.cdf(-x) * (1 - np.log(max(empty, 1e-300)))
                stated: dict[str, Any] = {"mse_error": spread, "zero_error": chance}
                return symmetric(Moments(bias, error, mse, zero, degenerate=empty, nodes=rule[0].size, **stated))
        previous = bias, found.mse
    return Moments.missed("baseline", bias, error, rtol)


def _clipped(below: Floats, times: Floats) -> tuple[float, Floats]:
    """P(every X_j <= 0), and P(X_i <= 0, some other X_j > 0): the chance that BL_i = 0."""
    with np.errstate(divide="ignore"):
        logs = np.log(below)
    every = float(np.sum(times * logs))
    others = np.subtract(every, logs, out=np.full_like(logs, -np.inf), where=below > 0)
    return float(np.exp(every)), below * -np.expm1(others)


def _sum_moments(x: Floats, a: Floats, times: Floats, mechanism: Law) -> tuple[float, float]:
    """E[S] and its standard deviation."""
    first, second = (mechanism.upper(-x, 0.0, k) for k in (1, 2))
    spread = np.maximum(second - first**2, 0.0)
    return float(np.sum(times * a * first)), float(np.sqrt(np.sum(times * a * a * spread)))


def _integrate(problem: _Problem, rule: Rule) -> Summed:
    """The two integrals above with the given rule in u = t E[S], and the rounding that their sums carry."""
    t, weight = rule[0] / problem.mean, rule[1] / problem.mean
    return integrate(t, weight, *_factors(problem, t), problem.shares, problem.times)


def _factors(problem: _Problem, t: Floats) -> tuple[Floats, Floats, Floats]:
    """sum_j log M_j for each node t; tilted means and variances of Y, rows nodes and columns pairs."""
    beta = problem.a * problem.mechanism.spread
    if problem.centred and problem.mechanism.code == LAPLACE and t[-1] * beta.max() <= 0.5:
        from fairpost.engines.closed.kernels.baseline import laplace_factors

        log_product = np.empty(t.size)
        mean, variance = np.empty((t.size, beta.size)), np.empty((t.size, beta.size))
        laplace_factors(problem.a * problem.x, beta, problem.times, t, log_product, mean, variance)
        return log_product, mean, variance
    log, mean, variance = clipped_tilts(problem.mechanism, problem.x, np.multiply.outer(t, problem.a), problem.centred)
    return log @ problem.times, mean * problem.a, variance * problem.a**2
