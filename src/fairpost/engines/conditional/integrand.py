"""Bias, mean square and P(0) of each entity given uniforms for the noise of the others: what points are averaged over.

With z, r and g as in `problem`, outputs are z_i - r + g_i and add up, so

    release         B_i = (C - sum x)/n + E g_i - mean of E g
    shares, S > 0   B_i = E[(z_i - P_i S)/S] + E[g_i/S] - mean of E[g/S]

the first terms being numbers or integrals of one dimension. Given the noise of all others E g_i is a short sum (`kernels.release`,
`kernels.shares`).

**Who is drawn.** Entities that are never below the top of their ramp have g = 0. Those whose sum of E[(c - z)_+ + L; z < c], c the top at
an r 6 deviations high, stays below a tolerance, enter by the sum of their noises alone: in a release by one more uniform, in shares
through 1/S only, where Gauss nodes of that sum are exact to its ninth power. What is left out is part of `remainder`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fairpost.engines.base import Part
from fairpost.engines.conditional.controls import Controls, Poles
from fairpost.engines.conditional.kernels import release, shares, signed
from fairpost.engines.conditional.law import ORDER, exponentials
from fairpost.engines.conditional.problem import Problem, of_sum
from fairpost.engines.conditional.sums import nodes_of_sum, quantile_of_sum
from fairpost.noise import Law

Floats = NDArray[np.float64]
LEAST, SURE, BAD, NEVER = 1e-5, 1e-4, 1e-3, 1e-12
"""What may be left out: of alpha, by not drawing an entity (a bound that is far too high), by taking S for positive, by the last terms of 1/S;
of the noise's deviation, what no reader sees."""
KERNEL = 1e-7
"""Of the largest share: what the own integral of a whole share leaves."""
SPREAD = 0.1
"""Where S fluctuates by more of itself, whole shares are as smooth as what clipping does to them, for a fifth of the work."""
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


class Integrand:
    """The conditional means of one problem where all that is needed is S > 0; pure, and every row of u by itself."""

    cost: ClassVar[float] = 1.0
    """The work that one entity makes at a point."""

    def __init__(self, problem: Problem, noise: Law, allowed: float, offset: Floats, negative: float) -> None:
        pairs = problem.pairs
        self.problem, self.offset, self.times, self.inverse = problem, offset, pairs.times, pairs.inverse
        scale = 1.0 if problem.total is not None else 1 / problem.spread[0]
        adds, chance = problem.below_top()
        order = np.argsort(adds, kind="stable")[:-1]  # somebody is drawn
        kept = order[np.cumsum(adds[order]) * scale <= allowed]
        self.safe = np.zeros(adds.size, dtype=bool)
        """Pairs that are not drawn: a sum of one would be no gain."""
        self.safe[kept] = np.sum(pairs.times[kept]) > 1
        self.near = np.flatnonzero(self.safe & (chance > NEVER))
        """Of them those that receive 0 now and then."""
        self.place = np.repeat(np.arange(adds.size), np.where(self.safe, 0, pairs.times))
        """The pair of each entity that is drawn."""
        self.x, self.a = pairs.x[self.place], pairs.a[self.place]
        self.lines = int(np.sum(pairs.times[self.safe]))
        self.left_out = (float(np.sum(adds[self.safe])) + problem.blunt) * scale + negative
        self.last, self.dimension, drawn_sum = ORDER, self.x.size, 0.0
        if problem.total is None:
            self.last = problem.terms()
            self.known = float(np.sum((pairs.times * pairs.a * pairs.x)[self.safe]))
            self.nodes = nodes_of_sum(problem.law, pairs.a[self.safe], pairs.times[self.safe].astype(np.float64))
        elif self.lines:
            self.sum_of_others = quantile_of_sum(noise, problem.law, self.lines)
            self.dimension += 1  # the sum of the others first
            drawn_sum = problem.law.moments[2] * self.lines
        self.controls = Controls(problem, self.x, self.a, drawn_sum)

    @cached_property
    def remainder(self) -> Floats:
        """What each bias may be off by beside the points: who is not drawn, S <= 0, jumps as ramps, the last terms of 1/S at some points."""
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
        others, eta = np.zeros(k), law.quantile(u[:, self.dimension - self.x.size :])
        if problem.total is None:
            shares.points(
                eta, self.x, self.a, pairs.truth, self.place, self.lines, self.known, problem.level, problem.steepness,
                law.code, law.b, law.table, law.moments, self.nodes, self.last, g, square, zero, left, shift,
            )  # fmt: skip
            squares = self._safe_squares(np.sum(eta * self.a, axis=1), shift)
        else:
            if self.lines:
                others = self.sum_of_others(u[:, 0])
            missing = problem.total - problem.spread[0] - others
            release.points(
                eta, self.x, self.place, missing, self.lines, problem.total, problem.level, problem.steepness,
                law.code, law.b, law.table, law.moments[2], g, square, zero, shift,
            )  # fmt: skip
            # eta_i - r, where the mean of eta_i is that of all who are not drawn
            squares = (law.moments[2] - 2 * shift * others / max(self.lines, 1) + shift**2)[:, None]
        square[:, self.safe] = squares * self.times[self.safe]
        c = shift[:, None] / pairs.a[self.near] + problem.level - pairs.x[self.near]
        zero[:, self.near] = law.cdf(c) * self.times[self.near]
        return g, square, zero, left, self.controls(eta, others)

    def _safe_squares(self, D: Floats, r: Floats) -> Floats:
        """E[V^2 / (S + N)^2], V = a_i eta_i - P_i (D + N) - r, for those who are not drawn, N their sum and D that of the drawn noise.

        E[V^2 (1 - 2N/S + 3N^2/S^2 - 4N^3/S^3 + 5N^4/S^4)]/S^2, from N^3 on as if noise were normal.
        """
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


class Direct:
    """The same for whole shares, whose S may have either sign: all are drawn, the own noise is integrated on either side of S = 0."""

    cost: ClassVar[float] = 0.5

    def __init__(self, problem: Problem, noise: Law) -> None:
        pairs = problem.pairs
        self.problem, self.times, self.inverse = problem, pairs.times, pairs.inverse
        self.place = np.repeat(np.arange(pairs.x.size), pairs.times)
        self.x, self.a = pairs.x[self.place], pairs.a[self.place]
        self.dimension = self.x.size
        self.offset = np.zeros(pairs.x.size)
        self.remainder = np.full(pairs.x.size, problem.blunt / max(problem.spread) + KERNEL * np.max(pairs.truth))
        self.controls = Controls(problem, self.x, self.a, 0.0) if np.isfinite(problem.root()) else None
        self.poles = Poles(problem, noise)

    def __call__(self, u: Floats) -> Block:
        """What the rows of u say."""
        problem, pairs, law, k = self.problem, self.problem.pairs, self.problem.law, len(u)
        eta = law.quantile(u)
        (share, square, zero), negative = (np.zeros((k, self.times.size)) for _ in range(3)), np.zeros(k)
        signed.points(
            eta, self.x, self.a, pairs.truth, self.place, problem.level, problem.steepness,
            law.code, law.b, law.table, exponentials(), share, square, zero, negative,
        )  # fmt: skip
        controls = [self.poles(np.sum(eta * self.a, axis=1))]
        if self.controls is not None:
            controls.append(self.controls(eta, np.zeros(k)))
        bias = share / self.times - pairs.truth
        known = np.concatenate(controls, axis=1)
        return Block(bias, square / self.times, zero / self.times, np.zeros(k), known, negative)


def integrand_of(part: Part, tolerance: float | None = None) -> Integrand | Direct | str:
    """The conditional means of a part, or why there are none; `tolerance` is what may be left out by not drawing, in the unit of the output.

    Without one it is `LEAST` of the mean field's alpha. By taking S for positive ten times as much may be, by the last terms of 1/S a hundred
    times.
    """
    problem, noise = Problem.of(part), part.mechanism
    if isinstance(problem, str):
        return problem
    assert isinstance(noise, Law)
    x, (need, deviation) = problem.pairs.x, problem.spread
    if problem.total is None and need == 0:
        return Direct(problem, noise)
    unit = 1.0 if problem.total is not None else 1 / need
    if tolerance is None:
        tolerance = max(LEAST * unit * float(np.ptp(problem.lift(problem.root()))), NEVER * unit * noise.deviation)
    if problem.total is not None:
        return Integrand(problem, noise, tolerance, np.full(x.size, (problem.total - need) / problem.n), 0.0)
    far = SURE / LEAST * tolerance
    if deviation > SPREAD * need and KERNEL * np.max(problem.pairs.truth) <= far:
        return Direct(problem, noise)
    offset, negative = of_sum(problem.pairs, noise)
    if negative > far:
        return Direct(problem, noise)
    made = Integrand(problem, noise, tolerance, offset, negative)
    return made if np.max(made.remainder) - problem.blunt * unit <= BAD / LEAST * tolerance else Direct(problem, noise)
