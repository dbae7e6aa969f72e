"""Shares under whole-number noise near S = 0, where they jump: how much of the lattice is left there.

Just above S = 0 all goes to the largest z, just below to the smallest, so a share jumps by up to 1 across the plane sum a_j X_j = 0, and
where S = 0 it is a convention of its own. In units of the largest weight a_1 = 1 the density of S at 0 is known (Gaussian noise) or at most
P(S <= 0)/b, since S has a log-concave law whose tail falls by 1/b at most, and at most 1/deviation, as every log-concave density.

*Uneven weights.* Sum over the noise of the largest weight first. Its jump lies at X_1 = -R, R = sum_{j > 1} a_j X_j, and by Euler and
Maclaurin the sum differs from the integral by p_1 times the saw-tooth of R, sum_m sin(2 pi m R)/(pi m). In the mean over the noise of
another entity j that is a sum of e^{2 pi i m a_j u} over whole u, times the masses p_j p_1 and by who is the largest: one hump, cut at two
places at most. By partial summation it is at most its variation, some times the largest mass p(0), over 2 |sin(pi m a_j)|. So of wave m
there is left

    h_m = min(1, EDGES p(0)/|sin(pi m a_j)|),   j the entity for which it is least,

and by Vaaler the waves after the M-th are at most (1 + 2 sum_{m <= M} (1 - m/(M + 1)) h_m)/(2M + 2). With equal or commensurable weights
h_m is 1 for some m, as it must be: S has a lattice. The other noises come when that of entity 1 has a density, which is a_1 b/a_j of their
steps wide.

*Ties.* Where the two largest z differ by less than S both have shares, which turn with slopes of 1/S, and by 1 at most. With y = b a_2/a_1,
the second weight's noise in steps of the first, the two are so near with a chance of S/y, a second derivative is 1/S^2, and the integral
over S from 1 to y gives TIES (1 + log(1 + y))/y. Every other corner has 1/S in place of 1/size as well: 2 log(1 + size) times the density
more.

Where nothing spreads R (y below 1) all of the mass of X_1 = -R may be on the wrong side: LOST times the density, and never more than that.

*Equal weights* and whole counts: S is whole, P(S = 0) is a sum of its transform over one period (`at_zero`), and in place of the mean of
both sides, (P(largest) + P(smallest))/2, stands the convention 1/n. Swapping the values of two entities with counts that differ by d
changes the chance of a draw with the same S by a factor of e^{2d/b} at most (Laplace) or e^{d (X - X')/sigma^2} (Gaussian, where X - X' is
about sigma sqrt(2 log n) for the largest of n), so that each chance is within that factor of 1/n (`unlike`). EVEN is the most. Squares are
1/n^2 by convention and 1/n in the mean of both sides: all of P(S = 0).

EDGES, TIES, LOST and EVEN are about twice the largest parts that were seen against exact sums: n = 2 at scales from 5 to 2000
(`lattice.two`), with weights drawn over four orders, rational ones, and those that are nearly rational or equal; n = 3 at scales up to 36.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fairpost.engines.moments import Floats
from fairpost.noise import Law

STEPS, QUIET = 20_000, 40.0
"""The most steps of y for P(S = 0), and how far the transform must have fallen where they end."""
WAVES, OTHERS = 200, 100
"""So many waves are looked at, and so many weights that may spread them."""
EDGES, TIES, LOST, EVEN = 3.0, 0.15, 1.25, 0.8


@dataclass(frozen=True)
class Sum:
    """S = sum a X in units of the largest weight."""

    a: Floats
    mean: float
    deviation: float

    @classmethod
    def of(cls, x: Floats, weights: Floats, noise: Law) -> Sum:
        """From counts and weights, one entry per entity."""
        a = weights / np.max(weights)
        return cls(a, float(np.sum(a * x)), float(np.sqrt(np.sum(a**2) * noise.variance)))

    @property
    def ratio(self) -> float:
        """Deviation over mean."""
        return self.deviation / self.mean if self.mean > 0 else math.inf

    def density(self, noise: Law, below: float) -> float:
        """A bound on the density of S at 0, `below` the chance of S <= 0."""
        if np.isinf(noise.strip):
            return math.exp(-0.5 / self.ratio**2) / (math.sqrt(2 * math.pi) * self.deviation)
        return min(below / noise.spread, 1 / self.deviation)

    def bend(self, zero: Floats, truth: Floats, noise: Law) -> Floats:
        """What 1/S, which bends, makes of a change of the variance by the part 1/b^2; the Gaussian variance does not change."""
        if np.isinf(noise.strip):
            return np.zeros_like(truth)
        size = max(self.mean, self.deviation)
        ours, own = truth * min(self.ratio, 1.0) ** 2, noise.variance * (self.a / size) ** 2
        more = min(4 * self.ratio + float(np.sum(zero)), 1.0)  # of what the lead order leaves out
        return np.asarray(np.abs(ours - own) + more * (ours + own))


def at_zero(law: Law, n: int, mean: float) -> float:
    """P(S = 0), S = mean + the sum of n whole noises, by equal steps in y over (-pi, pi): what is mean +- N away wraps round.

    N is twice 14 deviations and E[S], or 45 scales more where few Laplace noises have longer tails: 1e-16 is left out.
    """
    deviation = float(np.sqrt(n * law.variance))
    tail = 0.0 if np.isinf(law.strip) else 45 * law.spread
    half = math.ceil(mean + 14 * deviation + tail) + 8
    y = np.pi / half * np.arange(min(half, STEPS) + 1)
    # (the transform of discrete Gaussian noise is that of continuous to e^{-pi^2 sigma^2/2}, and its masses are too many)
    log = n * (-0.5 * (law.spread * y) ** 2 if np.isinf(law.strip) else np.asarray(law.cgf(1j * y)).real)
    if y.size <= half and log[-1] > -QUIET:
        return math.inf
    weight = np.where((y == 0) | (y == np.pi), 0.5, 1.0)
    return float(np.sum(weight * np.exp(log) * np.cos(y * mean))) / half


def ripples(weights: Floats, noise: Law) -> float:
    """What part of the density of S at 0 whole numbers may move near S = 0, by waves and by ties (see above)."""
    a = np.sort(weights / np.max(weights))[::-1][1 : 1 + OTHERS]
    if a.size == 0:
        return 1.0
    m = np.arange(1.0, WAVES + 1)
    across = np.max(np.abs(np.sin(np.pi * np.multiply.outer(m, a))), axis=1)
    h = np.minimum(EDGES * float(noise.density(0.0)) / np.maximum(across, 1e-300), 1.0)
    waves = np.sum(h / (np.pi * m)) + (1 + 2 * np.sum((1 - m / (WAVES + 1)) * h)) / (2 * WAVES + 2)
    return float(waves) + ties(noise.spread * float(a[0]))


def ties(y: float) -> float:
    """The part by ties at the top, y the second weight's noise scale in units of the first."""
    return float(TIES * (1 + np.log1p(y)) / max(y, 1e-300))


def unlike(x: Floats, noise: Law) -> float:
    """How far, at S = 0 and with equal weights, the chance of being the largest or the smallest is from 1/n (see above)."""
    n, apart = x.size, float(np.ptp(x)) / noise.spread
    log = apart * (np.sqrt(2 * np.log(n)) + 1) + apart**2 if np.isinf(noise.strip) else 2 * apart
    return float(np.expm1(min(log, 50.0))) / n


def near_zero(s: Sum, x: Floats, law: Law, noise: Law, below: float, turns: Floats) -> tuple[float, Floats, Floats]:
    """What may change near S = 0 about a chance, every mean share and its square; `turns`: what corners change about z_i, at most."""
    dense = s.density(noise, below)
    steep = 2 * turns * np.log1p(max(s.mean, s.deviation))
    if np.ptp(s.a) == 0 and (x == np.floor(x)).all():
        lost = min(dense, at_zero(law, x.size, s.mean) + 1e-15)
        near = lost * np.minimum(unlike(x, noise) + ties(noise.spread) + steep, EVEN)
        return lost, near, np.full_like(near, lost)
    near = dense * np.minimum(ripples(s.a, noise) + steep, LOST)
    return LOST * dense, near, near
