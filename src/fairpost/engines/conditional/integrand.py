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
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import roots_legendre

from fairpost.engines.base import Part
from fairpost.engines.conditional.controls import Controls
from fairpost.engines.conditional.kernels import release, shares, signed
from fairpost.engines.conditional.kernels.tails import SNAP
from fairpost.engines.conditional.law import ORDER, Tails
from fairpost.engines.conditional.sums import nodes_of_sum, quantile_of_sum
from fairpost.engines.moments import Distinct, distinct
from fairpost.noise import Law
from fairpost.rules import PoS, PosThreshold, Simplex, SimplexThreshold

Floats = NDArray[np.float64]
STEEP = 1e6
"""A jump is a ramp of this steepness: about the same place in smooth noise, from it on where noise and edges may be whole numbers."""

LEAST, NEVER = 1e-4, 1e-13
"""Of alpha, and of the noise's deviation: what may be left out, a tenth of three digits, and what no reader sees."""
LOOKS = 16
"""Points at which the last terms of 1/S are looked at."""


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

    @property
    def spread(self) -> tuple[float, float]:
        """Mean and deviation of S."""
        p = self.pairs
        return float(p.times @ (p.a * p.x)), float(np.sqrt(self.law.moments[2] * (p.times @ p.a**2)))

    def terms(self) -> int:
        """Of the series of 1/S: as many as have something to say for the largest weight and an S at 6 deviations below its mean."""
        a, (mean, deviation) = float(np.max(self.pairs.a)), self.spread
        sizes = self.law.table[0, 1:] * (a / max(mean - 6 * deviation, a * self.law.b)) ** np.arange(ORDER)
        enough = np.flatnonzero((sizes < 1e-14 * sizes[0]) | (np.append(np.diff(sizes), 1.0) > 0))
        return max(int(enough[0]) + 1, 4)

    def lift(self, r: float) -> Floats:
        """E g of each pair at a fixed r."""
        c = r / self.pairs.a - self.pairs.x
        top = self.law.partial(c + self.top, 1)[0][:, 1]
        if self.level == 0:
            return self.pairs.a * top
        s = self.steepness
        return self.pairs.a * (s * self.law.partial(c + self.level, 1)[0][:, 1] - (s - 1) * top)

    def held(self, r: float, deviations: float = 0.0) -> float:
        """E sum phi(z - r) - C, for shares E sum (phi(z - r) - z), and so many deviations more (those of jumps at the top of each ramp)."""
        p, law, L = self.pairs, self.law, self.top
        c = r / p.a + L - p.x
        low, F = law.partial(c, 2)[0], law.cdf(c)
        one, two = low[:, 1], low[:, 2]
        jump = one - L * F  # E g of a jump, in own units
        mean = float(p.times @ (self.lift(r) - r))
        variance = two - 2 * L * one + L * L * F - jump**2
        if self.total is not None:
            mean += self.spread[0] - self.total
            variance += law.moments[2] + 2 * (c * one - two - L * (c * F - one))
        return mean + deviations * float(np.sqrt(max(p.times @ (p.a**2 * variance), 0.0)))

    def root(self, deviations: float = 0.0) -> float:
        """The r at which `held` is 0: it falls; infinite where it does not become 0."""
        p = self.pairs
        far = float(np.max(p.a)) * (self.top + 60 * self.law.b)
        low, high = -far, float(np.max(p.a * p.x)) + far
        if self.total is not None:
            low -= max(self.total - self.spread[0], 0.0)
        if self.held(high, deviations) > 0:
            return np.inf
        for _ in range(50):
            middle = (low + high) / 2
            low, high = (middle, high) if self.held(middle, deviations) > 0 else (low, middle)
        return high

    def safe(self, allowed: float) -> tuple[NDArray[np.bool_], float]:
        """The pairs whose entities are never below the top of their ramp, but for `allowed`, in the unit of z; and what they do add.

        r is taken for 6 of its deviations above the mean field's.
        """
        p, r = self.pairs, self.root(6.0)
        safe = np.zeros(p.x.size, dtype=bool)
        if r == np.inf:
            return safe, 0.0
        tails, F = self.law.partial(r / p.a + self.top - p.x, 1)[0], self.law.cdf(r / p.a + self.top - p.x)
        adds = p.times * p.a * (tails[:, 1] + self.top * F)
        order = np.argsort(adds, kind="stable")[:-1]  # somebody is drawn
        kept = order[np.cumsum(adds[order]) <= allowed]
        if np.sum(p.times[kept]) > 1:
            safe[kept] = True
        return safe, float(np.sum(adds[safe]))


class Integrand:
    """The conditional means of one problem where all that is needed is S > 0; pure, and every row of u by itself."""

    def __init__(self, problem: Problem, noise: Law, allowed: float, offset: Floats, negative: float) -> None:
        pairs = problem.pairs
        self.problem, self.offset, self.times, self.inverse = problem, offset, pairs.times, pairs.inverse
        scale = 1.0 if problem.total is not None else 1 / problem.spread[0]
        self.safe, added = problem.safe(allowed / scale)
        """Pairs that are not drawn."""
        self.place = np.repeat(np.arange(pairs.x.size), np.where(self.safe, 0, pairs.times))
        """The pair of each entity that is drawn."""
        self.x, self.a = pairs.x[self.place], pairs.a[self.place]
        self.lines = int(np.sum(pairs.times[self.safe]))
        self.missing = 0.0 if problem.total is None else problem.total - problem.spread[0]
        self.known = float(np.sum((pairs.times * pairs.a * pairs.x)[self.safe]))
        self.last = ORDER if problem.total is not None else problem.terms()
        self.sum_of_others = (
            quantile_of_sum(noise, problem.law, self.lines) if problem.total is not None and self.lines else None
        )
        self.nodes = nodes_of_sum(problem.law, pairs.a[self.safe], pairs.times[self.safe].astype(np.float64))
        others = problem.law.moments[2] * self.lines if problem.total is not None else 0.0
        self.controls = Controls(
            problem.law,
            self.x,
            self.a,
            problem.root(),
            problem.level,
            problem.top,
            problem.steepness,
            problem.total is None,
            others,
        )
        self.left_out = added * scale + negative
        self.dimension = self.x.size + (self.sum_of_others is not None)
        """Uniforms of a point: the sum of the others first, then those who are drawn."""

    @cached_property
    def remainder(self) -> Floats:
        """What each bias may be off by beside the points: who is not drawn, S <= 0, and the last terms of 1/S at some points."""
        if self.problem.total is not None:
            return np.full(self.times.size, self.left_out)
        left = self._moments(np.random.Generator(np.random.PCG64(0)).random((LOOKS, self.dimension)))[3].mean(axis=0)
        return np.asarray(left / self.times + np.sum(left) / self.problem.n + self.left_out)

    def __call__(self, u: Floats) -> Block:
        """What the rows of u say."""
        g, square, zero, _, controls = self._moments(u)
        mean = np.sum(g, axis=1) / self.problem.n
        bias = g / self.times - mean[:, None]
        none = np.zeros(len(u))
        T = mean if self.problem.total is not None and self.problem.level == 0 else none
        return Block(bias, square / self.times, zero / self.times, T, controls, none)

    def _moments(self, u: Floats) -> tuple[Floats, Floats, Floats, Floats, Floats]:
        """For each row and pair the sums over its entities of E g (over S), of squares and of P(0), what 1/S leaves; the controls."""
        problem, pairs, law, k = self.problem, self.problem.pairs, self.problem.law, len(u)
        g, square, zero, left = (np.zeros((k, self.times.size)) for _ in range(4))
        shift = np.empty(k)
        if problem.total is not None:
            others = np.zeros(k) if self.sum_of_others is None else self.sum_of_others(u[:, 0])
            eta = law.quantile(u[:, self.dimension - self.x.size :])
            release.points(
                eta, self.x, self.place, self.missing - others, self.lines, problem.total, problem.level, problem.steepness,
                law.code, law.b, law.table, law.moments[2], g, square, zero, shift,
            )  # fmt: skip
            if self.lines:  # eta_i - r, eta_i being the mean of the others given their sum
                mean_square = law.moments[2] - 2 * shift * others / self.lines + shift**2
                square[:, self.safe] = mean_square[:, None] * self.times[self.safe]
                zero[:, self.safe] = (
                    law.cdf((shift[:, None] + problem.level - pairs.x)[:, self.safe]) * self.times[self.safe]
                )
            return g, square, zero, left, self.controls(eta, others)
        eta = law.quantile(u)
        shares.points(
            eta, self.x, self.a, pairs.truth, self.place, self.lines, self.known, problem.level, problem.steepness,
            law.code, law.b, law.table, law.moments, self.nodes, self.last, g, square, zero, left, shift,
        )  # fmt: skip
        if self.lines:
            square[:, self.safe] = self._safe_squares(eta @ self.a, shift) * self.times[self.safe]
            zero[:, self.safe] = (
                law.cdf((shift[:, None] / pairs.a + problem.level - pairs.x)[:, self.safe]) * self.times[self.safe]
            )
        return g, square, zero, left, self.controls(eta, np.zeros(k))

    def _safe_squares(self, D: Floats, r: Floats) -> Floats:
        """E[(a_i eta_i - P_i (D + N) - r)^2 / (S + N)^2] for those who are not drawn, N their sum: E[V^2 (1 - 2N/S + 3N^2/S^2 - ...)]/S^2, V - E V and N as if normal from N^3 on."""
        p, m = self.problem.pairs, self.problem.law.moments
        a, P, kappa = p.a[self.safe], p.truth[self.safe], m[4] - 3 * m[2] ** 2
        powers = [float(p.times[self.safe] @ a**k) for k in (2, 4)]
        n, cov = m[2] * powers[0], m[2] * (a**2 - P * powers[0])
        own = m[2] * (a**2 * (1 - 2 * P) + P**2 * powers[0])
        q, o = P * D[:, None] + r[:, None], 1 / (self.problem.spread[0] + D)[:, None]
        second = q**2 * n + own * n + 2 * cov**2 + kappa * (a**4 * (1 - 2 * P) + P**2 * powers[1])
        fourth = 3 * n**2 * (q**2 + own) + 12 * cov**2 * n
        return np.asarray(
            o**2 * (q**2 + own + 4 * q * cov * o + 3 * second * o**2 + 24 * q * n * cov * o**3 + 5 * fourth * o**4)
        )


class Signed:
    """The same for shares whose S may have either sign: all are drawn, the entity of the largest weight on both sides of S = 0."""

    def __init__(self, problem: Problem) -> None:
        pairs = problem.pairs
        self.problem, self.times, self.inverse = problem, pairs.times, pairs.inverse
        self.place = np.repeat(np.arange(pairs.x.size), pairs.times)
        self.x, self.a = pairs.x[self.place], pairs.a[self.place]
        self.one = int(np.argmax(self.a))
        self.dimension = self.x.size
        self.offset, self.remainder = np.zeros(pairs.x.size), np.zeros(pairs.x.size)

    def __call__(self, u: Floats) -> Block:
        """What the rows of u say."""
        problem, law, one, k = self.problem, self.problem.law, self.one, len(u)
        eta = law.quantile(u)
        z = self.a * (self.x + eta)
        at = -(np.sum(np.delete(z, one, axis=1), axis=1) / self.a[one] + self.x[one])  # S = 0 for this noise of `one`
        whole = np.round(at)
        tie = law.discrete & (np.abs(at - whole) <= SNAP * (1 + np.abs(at)))
        before = np.where(tie, whole - 1, at)
        chance = np.zeros((k, 3))
        chance[:, 1] = law.cdf(before)
        chance[:, 0] = law.cdf(-np.where(tie, whole, np.ceil(at) - 1) - 1 if law.discrete else -at)
        chance[:, 2] = np.where(tie, law.cdf(whole) - law.cdf(before), 0.0)
        v = u[:, one]
        noise = np.stack([-law.quantile((1 - v) * chance[:, 0]), law.quantile(v * chance[:, 1])], axis=1)
        sides = self.a[one] * (self.x[one] + noise)
        share, square, zero = (np.zeros((k, self.times.size)) for _ in range(3))
        P = problem.pairs.truth
        signed.points(
            z, sides, chance, one, self.a, P, self.place, problem.level, problem.steepness, share, square, zero
        )
        none = np.zeros(k)
        return Block(
            share / self.times - P,
            square / self.times,
            zero / self.times,
            none,
            np.empty((k, 0)),
            chance[:, 1] + chance[:, 2],
        )


def integrand_of(part: Part, tolerance: float | None = None) -> Integrand | Signed | str:
    """The conditional means of a part, or why there are none; `tolerance` is what may be left out, in the unit of the output.

    Without one it is `LEAST` of the mean field's alpha: by not drawing an entity, and by taking S for positive.
    """
    problem, noise = Problem.of(part), part.mechanism
    if isinstance(problem, str):
        return problem
    assert isinstance(noise, Law)
    x, times, need = problem.pairs.x, problem.pairs.times, problem.spread[0]
    if problem.total is None and need == 0:
        return Signed(problem)
    unit = 1.0 if problem.total is not None else 1 / need
    if tolerance is None:
        tolerance = max(LEAST * unit * float(np.ptp(problem.lift(problem.root()))), NEVER * unit * noise.deviation)
    if problem.total is not None:
        return Integrand(
            problem, noise, tolerance, np.full(x.size, (problem.total - float(times @ x)) / problem.n), 0.0
        )
    offset, negative = of_sum(problem.pairs, noise)
    return Integrand(problem, noise, tolerance, offset, negative) if negative <= tolerance else Signed(problem)


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
