"""Theorem 1 and what it is built from: bounds on alpha of the projection pi_S+, with no simulation.

Write y = pi_S(X) and let (y_i)_- be its negative part. Since pi_S is unbiased, B((pi_S)_+)_i = E[(y_i)_-] (for
C = sum x). With x_1 the smallest and x_n the largest count the paper proves

    lower = E[(y_1)_-] - E[(y_n)_-]  <=  alpha  <=  min(x_n - x_1, lower + sum_i E[(y_i)_-])      (Theorem 1)
                                         alpha  <=  lower + E[T]                                    (Lemma 3, sharper)

The proofs need one property of the noise: swapping the noisy values of two entities into the order of their true counts
never makes them less likely. Laplace and Gaussian densities have it, and so has every log-concave mass function when the
counts differ by whole numbers, which covers the two discrete mechanisms.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairpost.bounds.sum_law import clipped
from fairpost.counts import Counts
from fairpost.errors import ParameterError, UnsupportedError
from fairpost.noise import Gaussian, Law, Mechanism, as_mechanism

Floats = NDArray[np.float64]
RELATIVE = 5e-12
"""The relative accuracy of each E[(y_i)_-] (the worst seen against mpmath is 4e-12, at n = 13,184)."""


LOOSE = 10.0
"""An upper bound above so many times alpha is told as one that says little."""


@dataclass(frozen=True)
class Bounds:
    """Bounds on alpha of pi_S+, in counts, with every component."""

    lower: float
    """Theorem 1: B((pi_S)_+)_1 - B((pi_S)_+)_n."""
    upper: float
    """Theorem 1: the smaller of `spread` and lower + `clipped`; with E[T], Lemma 3's where that is smaller."""
    first: float
    """B((pi_S)_+)_1, the bias of clipping at the smallest count."""
    last: float
    """B((pi_S)_+)_n, the bias of clipping at the largest count."""
    clipped: float
    """sum_i E[(pi_S(X)_i)_-], Proposition 1's bound on E[T]."""
    spread: float
    """x_n - x_1, Lemma 4's bound, which holds for any noise scale."""
    theorem: float
    """Theorem 1's upper bound alone."""
    sharper: float | None
    """Lemma 3's upper bound lower + E[T], where an engine supplied E[T]."""
    error: float
    """A bound on the numerical error of `lower` and of lower + `clipped`."""

    def says_little(self, alpha: float) -> bool:
        """Whether Theorem 1's upper bound is the difference of the counts, or LOOSE times alpha: no use as a guarantee."""
        return self.theorem > 0 and (self.theorem >= self.spread or self.theorem > LOOSE * alpha)


def orders_counts(counts: Counts, mechanism: Mechanism) -> bool:
    """Whether the noise is known to have the property that the proofs need, for these counts: the four of the package have it."""
    x = counts.values
    known = isinstance(mechanism, Law) and mechanism.code is not None
    return known and (not mechanism.discrete or bool((x - x[0] == np.round(x - x[0])).all()))


def theorem1(
    counts: Counts, mechanism: Mechanism, total: float | None = None, expected_T: float | None = None
) -> Bounds:
    """Theorem 1's bounds for these counts; `expected_T` = E[T] sharpens the upper one (Lemma 3)."""
    (x, _, times, _), mechanism = counts.distinct, as_mechanism(mechanism)
    if not isinstance(mechanism, Law) or mechanism.code is None:
        raise UnsupportedError(f"Theorem 1 needs noise whose law is known, got {mechanism.name}")
    if not orders_counts(counts, mechanism):
        raise UnsupportedError("Theorem 1 under discrete noise needs counts that differ by whole numbers")
    if total is not None and not 0 < total < np.inf:
        raise ParameterError(f"Theorem 1 needs a `total` above 0, got {total!r}")
    return _bounds(
        x, times, counts.n, mechanism, 0.0 if total is None else (total - counts.total) / counts.n, expected_T
    )


def _bounds(
    x: Floats, times: NDArray[np.int64], n: int, mechanism: Law, shift: float, expected_T: float | None
) -> Bounds:
    tails = clipped(x + shift, n, mechanism)
    total = float(np.sum(np.sort(times * tails)))
    lower = max(float(tails[0] - tails[-1]), 0.0)
    spread = float(x[-1] - x[0])
    theorem = min(spread, lower + total)
    sharper = None if expected_T is None else lower + expected_T
    upper = theorem if sharper is None else min(theorem, sharper)
    error = RELATIVE * (float(tails[0] + tails[-1]) + total)
    return Bounds(
        lower,
        upper,
        float(tails[0]) + shift,
        float(tails[-1]) + shift,
        total,
        spread,
        theorem,
        sharper,
        error,
    )


@dataclass(frozen=True)
class GaussianBracket:
    """Proposition 2: lower = int_{-x_n}^{-x_1} Phi(a t) dt lies between `low` and `high`."""

    integral: float
    low: float
    """Phi(-a x_n) (x_n - x_1)."""
    high: float
    """Phi(-a x_1) (x_n - x_1)."""
    a: float
    """(1/sigma) sqrt(n / (n - 1))."""


def proposition2(counts: Counts, mechanism: Gaussian) -> GaussianBracket:
    """Proposition 2 for these counts: the key component of Theorem 1 under Gaussian noise, and its bracket.

    All three are Phi(-a x_1) times what ratios of Phi give, so neither deep tails nor close counts cancel.
    """
    if not isinstance(as_mechanism(mechanism), Gaussian):
        raise UnsupportedError(f"Proposition 2 is about Gaussian noise, got {mechanism.name}")
    if counts.n < 2:
        raise UnsupportedError("Proposition 2 needs at least two entities, got one")
    from scipy.special import log_ndtr

    first, width = float(counts.values.min()), float(np.ptp(counts.values))
    a = float(np.sqrt(counts.n / (counts.n - 1)) / mechanism.sigma)
    # Phi(a t) falls by e^-72 at least in 12/a: panels of a third of 1/a up to there
    nodes, weights = np.polynomial.legendre.leggauss(16)
    edges = np.linspace(0.0, min(width, 12 / a), 37)
    half = np.diff(edges)[:, None] / 2
    at = np.append((edges[:-1, None] + half * (1 + nodes)).ravel(), width)
    top = float(log_ndtr(-a * first))
    part = np.exp(log_ndtr(-a * (first + at)) - top)
    low, high = float(part[-1]) * width, width
    integral = min(max(float(part[:-1] @ (half * weights).ravel()), low), high)
    size = float(np.exp(top))
    return GaussianBracket(integral * size, low * size, high * size, a)
