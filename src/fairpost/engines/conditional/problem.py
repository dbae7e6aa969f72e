"""One rule on entities that share one problem, in the numbers that integrands take: its mean field, who can be cut, and the sum of all.

z = a (x + eta); phi is what the rule keeps of u = z - r: min(u, s (u - tau)_+), u_+ without a threshold, tau = a level. r makes
sum phi_j(z_j - r) the total C of a release, or S = sum z for shares. g = phi(z - r) - (z - r) is 0 from the top L = s tau/(s - 1) of a ramp on.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import roots_legendre

from fairpost.engines.base import Part
from fairpost.engines.conditional.law import ORDER, Tails
from fairpost.engines.moments import Distinct, distinct
from fairpost.noise import Law, Threshold

Floats = NDArray[np.float64]
STEEP = 1e6
"""A jump is a ramp of this steepness: about the same place in smooth noise, from it on where noise and edges may be whole numbers."""


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
        law, pi = Tails.of(part.mechanism), part.pi
        if isinstance(law, str):
            return law
        if law.moments[2] == 0:
            return f"{part.mechanism.name} noise of {law.b:g} changes nothing"
        if part.x.size == 1:
            return f"{pi.name} of one entity gives it everything"
        threshold = getattr(pi, "rule", None) or Threshold(0.0)
        level, s = (threshold.level, threshold.steepness) if threshold.level > 0 else (0.0, 1.0)
        if s > STEEP:
            level, s = level if law.discrete else level * (1 - 0.5 / STEEP), STEEP
        if not pi.keeps_total:
            weights: Floats = pi.problem.a(part.x.size)  # type: ignore[attr-defined]
            return cls(distinct(part, weights), law, level, s, None)
        total = float(pi.C)  # type: ignore[attr-defined]
        return (
            cls(distinct(part), law, level, s, total)
            if total > 0
            else f"{pi.name} to the total 0 gives nothing to anybody"
        )

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

    @property
    def blunt(self) -> float:
        """What a steep ramp in place of a jump can move a bias by, in the unit of z, where z and edges are whole numbers.

        The shift of one who is on the ramp is off by at most L - tau, and with it all others; where nobody moves they may all lean on one.
        """
        if not self.law.discrete or self.steepness < STEEP or self.level == 0:
            return 0.0
        still = float(1 - 2 * self.law.cdf(np.array([-1.0]))[0]) ** self.n
        return float(np.max(self.pairs.a)) * (self.top - self.level) * (1 + self.n * still)

    def terms(self) -> int:
        """Of the series of 1/S: as many as have something to say for the largest weight and an S at 6 deviations below its mean."""
        a, (mean, deviation) = float(np.max(self.pairs.a)), self.spread
        sizes = self.law.table[0, 1:] * (a / max(mean - 6 * deviation, a * self.law.b)) ** np.arange(ORDER)
        last = np.flatnonzero((sizes < 1e-14 * sizes[0]) | (np.append(np.diff(sizes), 1.0) > 0))[0]
        return max(int(last) + 1, 4)

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
        return mean + deviations * float(np.sqrt(max(float(p.times @ (p.a**2 * variance)), 0.0)))

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

    def below_top(self) -> tuple[Floats, Floats]:
        """What the entities of each pair add by being below the top, in the unit of z, and their chance of it: at an r 6 deviations high."""
        p, r = self.pairs, self.root(6.0)
        c = np.minimum(r, 1e300) / p.a + self.top - p.x
        F = self.law.cdf(c)
        return p.times * p.a * (self.law.partial(c, 1)[0][:, 1] + self.top * F), F


def of_sum(pairs: Distinct, noise: Law) -> tuple[Floats, float]:
    """E[(z_i - P_i S)/S] for each pair, and P(S <= 0) as Bahadur and Rao estimate it.

    With S = s + D and K the cumulant function of the noise, 1/S = int_0^inf e^{-tS} dt makes it the integral of
    e^{-ts + sum K(t a_j)} (P_i sum a_j K'(t a_j) - a_i K'(t a_i)). It ends where its first factor is least, at Chernoff's bound on P(S <= 0);
    that over t sqrt(2 pi sum a_j^2 K'') is the estimate.
    """
    s = float(pairs.times @ (pairs.a * pairs.x))
    a, group = np.unique(pairs.a, return_inverse=True)
    times = np.bincount(group, weights=pairs.times)

    def falls(t: float) -> float:
        with np.errstate(over="ignore", invalid="ignore"):  # far beyond the root
            return float(times @ (a * noise.cumulants(t * a)[1])) - s

    low, high = 0.0, min(noise.strip / a[-1], 2 * s / (float(times @ a**2) * noise.variance))
    while np.isinf(noise.strip) and falls(high) < 0:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if falls(middle) < 0 else (low, middle)
    cgf, _, bend = noise.cumulants(low * a)
    chance = np.exp(float(times @ cgf) - low * s) / max(low * np.sqrt(2 * np.pi * float(times @ (a**2 * bend))), 1.0)
    node, weight = roots_legendre(64)
    end = min(low, 50 / s)
    t, dt = end / 2 * (node + 1), end / 2 * weight
    K, slope = np.zeros(t.size), np.empty((t.size, a.size))
    for k in range(t.size):
        cgf, slope[k], _ = noise.cumulants(t[k] * a)
        K[k] = float(times @ cgf)
    part = dt * np.exp(K - t * s)
    own = a * (part @ slope)
    return pairs.truth * float(times @ own) - own[group], float(chance)
