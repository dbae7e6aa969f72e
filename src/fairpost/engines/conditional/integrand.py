"""Bias, mean square and P(0) of each entity given uniforms for the noise of the others: what points are averaged over.

z = a (x + eta), phi_j what the rule keeps of z_j - r, sum phi_j(z_j - r) = C for a release, = S = sum z for shares; g_i = phi_i(z_i - r) - (z_i - r), 0 where
i is kept in full. Outputs z_i - r + g_i add up, so

    release         B_i = (C - sum x)/n + E g_i - mean of E g
    shares, S > 0   B_i = E[(z_i - P_i S)/S] + E[g_i/S] - mean of E[g/S]

the first terms being numbers or integrals of one dimension. Given the noise of all others E g_i is a short sum (`kernels.release`, `kernels.shares`).

**Who is drawn.** Entities that are never below the top of their ramp have g = 0. Those whose sum of E[(c - z)_+ + L; z < c], c the top at an r that is reached
once in 1e9, stays below a tolerance, enter by the sum of their noises alone: in a release by one more uniform, in shares through 1/S only, where Gauss nodes of that sum are exact
to its ninth power. What is left out is part of `remainder`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import roots_legendre

from fairpost.engines.base import Part
from fairpost.engines.conditional.kernels import release, shares
from fairpost.engines.conditional.law import ORDER, Tails
from fairpost.engines.moments import Distinct, distinct
from fairpost.noise import Law
from fairpost.rules import PoS, PosThreshold, Simplex, SimplexThreshold

Floats = NDArray[np.float64]
STEEP = 1e6
"""A jump is a ramp of this steepness: about the same place in smooth noise, from it on where noise and edges may be whole numbers."""


@dataclass(frozen=True, eq=False)
class Block:
    """What K points say: one row for each."""

    bias: Floats
    """B_i - offset_i of each distinct pair, adding up to 0 over entities."""
    square: Floats
    """E[(output - P)^2 | others]."""
    zero: Floats
    """P(output = 0 | others)."""
    threshold: Floats
    """T of Lemma 2 for `simplex`, else 0."""
    controls: Floats
    """Control variates of mean 0."""
    degenerate: Floats
    """The chance of S <= 0."""


@dataclass(frozen=True, eq=False)
class Problem:
    """One rule on entities that share one problem, its numbers in the unit of z."""

    pairs: Distinct
    law: Tails
    level: float
    """tau of a weight of 1; 0 without a threshold."""
    steepness: float
    total: float | None
    """C; None for shares."""

    @classmethod
    def of(cls, part: Part) -> Problem | str:
        """The numbers of a part, or why there are none."""
        pi, law = part.pi, Tails.of(part.mechanism)
        if isinstance(law, str):
            return law
        if part.x.size == 1:
            return f"{pi.name} of one entity gives it everything"
        level, s = 0.0, 1.0
        if isinstance(pi, SimplexThreshold | PosThreshold) and pi.rule.level > 0:
            level, s = pi.rule.level, pi.rule.steepness
        if s > STEEP:
            level, s = level if law.discrete else level * (1 - 0.5 / STEEP), STEEP
        if isinstance(pi, Simplex | SimplexThreshold):
            if pi.C == 0:
                return f"{pi.name} to the total 0 gives nothing to anybody"
            return cls(distinct(part), law, level, s, pi.C)
        if isinstance(pi, PoS | PosThreshold):
            weights = None if pi.weights is None else np.asarray(pi.weights, dtype=np.float64)
            return cls(distinct(part, weights), law, level, s, None)
        return f"{pi.name} has no conditional means"

    @property
    def n(self) -> int:
        """Entities."""
        return self.pairs.inverse.size

    @property
    def top(self) -> float:
        """L of a weight of 1: where a ramp ends."""
        return self.steepness * self.level / (self.steepness - 1) if self.level > 0 else 0.0


    def terms(self) -> int:
        """Of the series of 1/S: as many as have something to say for the largest weight and an S at 6 deviations below its mean."""
        pairs, a = self.pairs, float(np.max(self.pairs.a))
        variance = self.law.moments[2] * float(pairs.times @ pairs.a**2)
        low = float(pairs.times @ (pairs.a * pairs.x)) - 6 * np.sqrt(variance)
        sizes = self.law.table[0, 1:] * (a / max(low, a * self.law.b)) ** np.arange(ORDER)
        enough = np.flatnonzero((sizes < 1e-14 * sizes[0]) | (np.append(np.diff(sizes), 1.0) > 0))
        return max(int(enough[0]) + 1, 4)


class Integrand:
    """The conditional means of one problem; pure, and every row of u by itself."""

    def __init__(self, problem: Problem, offset: Floats, remainder: float) -> None:
        pairs = problem.pairs
        self.problem, self.offset, self.times, self.inverse = problem, offset, pairs.times, pairs.inverse
        self.place = np.repeat(np.arange(pairs.x.size), pairs.times)
        """The pair of each entity that is drawn."""
        self.x, self.a = pairs.x[self.place], pairs.a[self.place]
        self.remainder = np.full(pairs.x.size, remainder)
        self.last = ORDER if problem.total is not None else problem.terms()

    @property
    def dimension(self) -> int:
        """Uniforms of a point."""
        return self.x.size

    def __call__(self, u: Floats) -> Block:
        """What the rows of u say."""
        problem, law, k = self.problem, self.problem.law, len(u)
        eta = law.quantile(u)
        g, square, zero, left = (np.zeros((k, self.times.size)) for _ in range(4))
        shift = np.empty(k)
        if problem.total is not None:
            release.points(
                eta, self.x, self.place, np.zeros(k), 0, problem.total, problem.level, problem.steepness,
                law.code, law.b, law.table, law.moments[2], g, square, zero, shift,
            )  # fmt: skip
        else:
            shares.points(
                eta, self.x, self.a, problem.pairs.truth, self.place, 0, 0.0, problem.level, problem.steepness,
                law.code, law.b, law.table, law.moments, np.zeros(1), np.ones(1), self.last, g, square, zero, left, shift,
            )  # fmt: skip
        mean = np.sum(g, axis=1) / problem.n
        bias = g / self.times - mean[:, None]
        T = mean if problem.total is not None and problem.level == 0 else np.zeros(k)
        return Block(bias, square / self.times, zero / self.times, T, np.empty((k, 0)), np.zeros(k))


def integrand_of(part: Part, tolerance: float | None = None) -> Integrand | str:
    """The conditional means of a part, or why there are none; `tolerance` is what may be left out, in the unit of the output.

    Without one it is 1e-7 of the noise's deviation in that unit.
    """
    problem = Problem.of(part)
    if isinstance(problem, str):
        return problem
    x, a, times = problem.pairs.x, problem.pairs.a, problem.pairs.times
    unit = 1.0 if problem.total is not None else float(np.max(a)) / max(float(times @ (a * x)), np.finfo(float).tiny)
    allowed = 1e-7 * part.mechanism.deviation * unit if tolerance is None else tolerance
    if problem.total is not None:
        return Integrand(problem, np.full(x.size, (problem.total - float(times @ x)) / problem.n), 0.0)
    assert isinstance(part.mechanism, Law)
    offset, negative = of_sum(problem.pairs, part.mechanism)
    if negative > allowed:
        return f"{part.pi.name}: the sum of the noisy counts is not surely positive"
    return Integrand(problem, offset, negative)


def of_sum(pairs: Distinct, noise: Law) -> tuple[Floats, float]:
    """E[(z_i - P_i S)/S] for each pair, and a bound on P(S <= 0).

    With S = s + D and K the cumulant function of the noise, 1/S = int_0^inf e^{-tS} dt makes it the integral of
    e^{-ts + sum K(t a_j)} (P_i sum a_j K'(t a_j) - a_i K'(t a_i)). It ends where its first factor is least, which is Chernoff's bound on P(S <= 0).
    """
    s = float(pairs.times @ (pairs.a * pairs.x))
    a, group = np.unique(pairs.a, return_inverse=True)
    times = np.bincount(group, weights=pairs.times)

    def falls(t: float) -> float:
        return float(times @ (a * noise.cumulants(t * a)[1])) - s

    low, high = 0.0, min(noise.strip / a[-1], 2 * s / (float(times @ a**2) * noise.variance) if s > 0 else np.inf)
    if s <= 0 or not np.isfinite(high):
        return np.zeros(pairs.x.size), 1.0
    while np.isinf(noise.strip) and falls(high) < 0:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if falls(middle) < 0 else (low, middle)
    least = float(times @ noise.cumulants(low * a)[0]) - low * s
    node, weight = roots_legendre(64)
    end = min(low, 50 / s)
    t, dt = end / 2 * (node + 1), end / 2 * weight
    K, slope = np.zeros(t.size), np.empty((t.size, a.size))
    for k in range(t.size):
        cgf, slope[k], _ = noise.cumulants(t[k] * a)
        K[k] = float(times @ cgf)
    part = dt * np.exp(K - t * s)
    own = a * (part @ slope)
    return pairs.truth * float(times @ own) - own[group], float(np.exp(least))
