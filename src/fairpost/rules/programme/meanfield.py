"""Payments as if the factor of reduction were fixed: what simulation of a programme may subtract.

Pro rata pays G_i / S with S = sum G, whose relative fluctuation is small. With mu = E S

    G_i / S = G_i / mu - (E G_i / mu) (S - mu) / mu + d_i,

where d is of second order. The mean of the first is known, that of the second is 0. A group minimum splits the sum: a group that its
minimum lifts is a pool of its own with the part m_s, all others are one pool with what is left, and the same holds pool by pool.
With hold-harmless the payment max(H_i, lambda G_i) is kinked in the entity's own count once lambda is fixed at the value that
spends the appropriation in expectation; with a minimum besides, a lifted group has its own lambda, which spends its minimum.
So every mean E m_i is a sum over kinks of a jump times P(eta >= kink) and a change of slope times E(eta - kink)+, and
L = m - E m is what the engine subtracts. The minimum of a group follows the counts of people, which are put at their means. For
entities that are held in every run m does not follow the payment; a pilot of other runs than the simulation's tells where
subtracting it adds variance, and there it is left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fairpost.noise import Stream
from fairpost.noise.base import Law
from fairpost.partition import Partition
from fairpost.problems.programme import Kinks, Programme
from fairpost.problems.programme.sharing import minima, settle
from fairpost.roots import root
from fairpost.rules.control import JUMPS, Control

if TYPE_CHECKING:
    from fairpost.rules.programme.paying import Paying

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
PILOT, PILOT_SEED = 64, 2**63 + 5
"""Runs that guard the coefficient, from a seed of their own."""
NEVER = 1e-12
"""A chance that no simulation sees, and that moves no result."""
ABOVE = 1.0 + 1e-9
"""A factor that would spend all without floors is an upper end of the true one up to rounding; this much more is one."""


def expected(kinks: Kinks, x: Floats, law: Law) -> Floats:
    """E g(x + eta): over kinks, jump times P(eta >= c) plus change of slope times E(eta - c)+."""
    first = np.zeros(kinks.at.size, dtype=bool)
    first[kinks.start[:-1]] = True
    c = kinks.from_noise(x, law.discrete)
    own, n = kinks.owner, x.size
    low = np.isneginf(kinks.at)
    start = np.where(low, 0.0, np.where(law.discrete, c + x[own], kinks.at))  # the first point of the piece itself
    value = kinks.value + np.where(low | (kinks.slope == 0), 0.0, kinks.slope * (start - np.where(low, 0.0, kinks.at)))
    slope_before = np.where(first, 0.0, np.append(0.0, kinks.slope[:-1]))
    at_before = np.append(0.0, np.where(low, 0.0, kinks.at)[:-1])
    before = np.where(first, 0.0, np.append(0.0, kinks.value[:-1]) + slope_before * (start - at_before))
    reach = np.where(low, -np.inf, c)
    above = np.where(low, 1.0, law.sf(np.where(low, 0.0, reach - 1 if law.discrete else reach)))
    excess = np.where(low, 0.0, law.upper(np.where(low, 0.0, reach), 0.0, 1))
    bend = kinks.slope - slope_before
    mean = (value - before) * above + np.where(bend == 0, 0.0, bend * excess)
    return np.asarray(np.bincount(own, mean, n), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class MeanField:
    """Payments m_i(z_i) at fixed factors, their means, and what they should be."""

    pi: Paying
    x: Floats
    law: Law
    truth: Floats
    factor: Floats
    """The factor of reduction of each entity."""
    mean: Floats
    """E m_i."""
    pools: Partition
    """Who shares one sum: all, or the groups at their minimum each by itself and the others together."""
    payments: Kinks | None
    """With hold-harmless: max(H, lambda G) as kinks."""

    @property
    def bias(self) -> Floats:
        """E m - P: the mean-field answer."""
        return np.asarray(self.mean - self.truth)

    def rows(self, noise: Floats) -> Floats:
        """m of each row of noise, less its mean."""
        paid = self._payments(self.x + noise)
        if self.payments is not None:
            return np.asarray(paid - self.mean)
        G = self.pools.gather(paid)
        mean = self.pools.gather(self.mean)
        parts = self.pools.sums(mean)  # a pool whose law never pays stays at 0
        over = self.pools.sums(G) / np.where(parts > 0, parts, 1.0) - (parts > 0)
        return self.pools.scatter(np.asarray(G - mean - mean * self.pools.spread(over)))

    def control(self, pi: Paying) -> Control | None:
        """Subtracted from the payments of pi where a pilot says that it helps, and where the pilot saw no payment at all.

        None where the pilot saw a run that is due nothing: the sum, which is taken to be near its mean, is then not.
        The scale of the unseen is ten deviations of what is left, and for entities that noise may let in or leave out what such a run
        adds to it: m captures the payment itself, so what remains is a payment times the fluctuation of its pool's sum; noise on the
        base brings such runs of its own, and then the whole payment remains.
        """
        noise = np.stack([self.law.sample(self.x.size, Stream(PILOT_SEED, r)) for r in range(PILOT)])
        seen = pi.simulated(self.x + noise, PILOT_SEED, 0)
        if seen.degenerate:
            return None
        e, L = seen.values, self.rows(noise)
        helps = (np.var(e - L, axis=0) <= np.var(e, axis=0)) | (e == 0).all(axis=0)
        left = np.where(helps, np.std(e - L, axis=0), np.std(e, axis=0))
        scale = JUMPS * np.maximum(left, 1e-3 * np.std(e, axis=0) + 1e-6 * np.max(left))
        scale = np.maximum(scale, self._rare(pi, noise))
        return Control(np.zeros(self.x.size), self.rows, scale, None, helps * 1.0)

    def _rare(self, pi: Paying, noise: Floats) -> Floats:
        """What a run in which an entity is let in or left out may add to what is left; 0 where there is hardly such a run."""
        base, other = pi.programme.base, pi.programme.base_noise
        assert base is not None
        reach = 0.0 if other is None else JUMPS * other.deviation
        ends = [pi.programme.threshold(np.maximum(base + s * reach, 0.0)) for s in (-1.0, 1.0)]
        chances = [self.law.cdf(t - self.x) for t in ends]
        near = np.max([np.minimum(p, 1 - p) for p in chances], axis=0)
        between = (ends[0] <= self.x) & (self.x <= ends[1])
        paid = self._payments((np.maximum(ends[1], self.x) + 3 * self.law.deviation)[None, :])[0]
        m = self.pools.gather(self._payments(self.x + noise))
        parts = self.pools.sums(self.pools.gather(self.mean))
        moves = np.std(self.pools.sums(m) / np.where(parts > 0, parts, 1.0), axis=0)
        part = self.pools.scatter(np.asarray(self.pools.spread(np.minimum(JUMPS * moves, 1.0))))
        return np.where((near > NEVER) | between, paid * (1.0 if other is not None else part), 0.0)

    def _payments(self, z: Floats) -> Floats:
        """m of rows of noisy counts."""
        if self.payments is not None:
            return self.payments(z)
        return np.asarray(self.pi.kinks(z) * self.pi.programme.a(self.x.size) * self.factor)


def mean_field(pi: Paying, x: Floats, law: Law) -> MeanField:
    """The mean field of a programme that shares an appropriation of 1."""
    programme, base = pi.programme, pi.programme.base
    assert base is not None
    weighted = pi.kinks.scaled(programme.a(x.size))
    worth = programme.entitled(x, base)
    truth = programme.shared(x[None, :], worth[None, :], base).values[0]
    EG = expected(weighted, x, law)
    if not EG.sum() > 0:  # the law pays nobody: the shares of every draw are those of the weights
        a, none = programme.a(x.size), np.zeros(x.size)
        return MeanField(pi, x, law, truth, none, a / a.sum(), Partition.whole(x.size), None)
    if programme.hold_harmless is not None:
        return _held(pi, x, law, truth, weighted)
    lift, pools = np.full(x.size, 1.0 / float(EG.sum())), Partition.whole(x.size)
    if programme.minimum is not None:
        lift, pools = _raised(programme, x, law, EG)
    return MeanField(pi, x, law, truth, lift, EG * lift, pools, None)


def _least(programme: Programme, x: Floats, law: Law) -> Floats:
    """The minimum of each group at the mean of the people counted, E max(x + eta, 0)."""
    people = np.asarray(law.upper(-x, 0.0, 1).real, dtype=np.float64)
    return np.asarray(minima(programme, people[None, :])[0])


def _raised(programme: Programme, x: Floats, law: Law, EG: Floats) -> tuple[Floats, Partition]:
    """The factor of each entity under a group minimum, and the pools."""
    parts = programme.states
    assert parts is not None
    sums = parts.sums(parts.gather(EG))
    found = settle(parts.gather(EG)[None, :], np.zeros((1, x.size)), _least(programme, x, law)[None, :], parts)
    by_group = (found.cut * found.factor)[0]
    pool = np.where(found.raised[0] | (sums <= 0), np.arange(1, sums.size + 1), 0)
    return parts.scatter(parts.spread(by_group)), Partition.of([str(k) for k in parts.scatter(parts.spread(pool))])


@dataclass(frozen=True, eq=False)
class _Floors:
    """H: parts of last year's payments from the threshold on, with steps at rates of the base."""

    threshold: Floats
    bounds: Floats
    parts: Floats
    last: Floats

    @classmethod
    def of(cls, programme: Programme, base: Floats) -> _Floors:
        assert programme.hold_harmless is not None
        rate = programme.hold_harmless.rate
        bounds = np.ascontiguousarray(np.stack([bound.of(base) for bound, _ in rate], axis=1))
        return cls(programme.threshold(base), bounds, np.array([part for _, part in rate]), programme._last(base.size))

    def some(self, who: Ints) -> _Floors:
        return _Floors(self.threshold[who], np.ascontiguousarray(self.bounds[who]), self.parts, self.last[who])

    def larger(self, G: Kinks, factor: Floats | float) -> Kinks:
        """max(H, factor G) as kinks."""
        from fairpost.problems.programme.kernels.kinks import larger

        scaled = G.scaled(np.broadcast_to(np.asarray(factor, dtype=np.float64), (G.n,)))
        room = 3 * (G.at.size + G.n * (self.parts.size + 1))
        start = np.empty(G.n + 1, dtype=np.int64)
        at, value, slope = np.empty(room), np.empty(room), np.empty(room)
        kinks = (scaled.start, scaled.at, scaled.value, scaled.slope)
        used = larger(self.threshold, self.bounds, self.parts, self.last, *kinks, start, at, value, slope)
        return Kinks(start, at[:used].copy(), value[:used].copy(), slope[:used].copy())


def _held(pi: Paying, x: Floats, law: Law, truth: Floats, G: Kinks) -> MeanField:
    """lambda with sum_s max(m_s, sum E max(H, lambda G)) = 1 (m = 0 without a minimum), and mu_s of each lifted group.

    lambda is at most 1 / E S. Where the floors alone spend all, they are reduced ratably.
    """
    programme, base = pi.programme, pi.programme.base
    assert base is not None
    H, parts = _Floors.of(programme, base), programme.states or Partition.whole(x.size)
    EG = parts.sums(parts.gather(expected(G, x, law)))
    least = np.where(EG > 0, _least(programme, x, law), 0.0) if programme.minimum is not None else np.zeros(EG.size)

    def sums(factor: float) -> Floats:
        return parts.sums(parts.gather(expected(H.larger(G, factor), x, law)))

    def excess(factor: float) -> float:
        return float(np.maximum(sums(factor), least).sum()) - 1.0

    spare, most = excess(0.0), ABOVE / float(EG.sum())
    found = 0.0 if spare >= 0 else root(excess, 0.0, most, xtol=1e-15 * most, rtol=1e-14)
    by_group = np.full(EG.size, found)
    for s in np.flatnonzero(sums(found) < least):
        who = parts.of_group(int(s))
        by_group[s] = _spends(H.some(who), G.of(who), x[who], law, float(least[s]), ABOVE * float(least[s] / EG[s]))
    factor = parts.scatter(np.asarray(parts.spread(by_group)))
    made = H.larger(G, factor)
    if spare >= 0:
        made = made.scaled(np.full(G.n, 1.0 / (1.0 + spare)))
    return MeanField(pi, x, law, truth, factor, expected(made, x, law), Partition.whole(x.size), made)


def _spends(H: _Floors, G: Kinks, x: Floats, law: Law, target: float, most: float) -> float:
    """mu with sum E max(H, mu G) = target; it is at most target / E S of the group."""

    def excess(factor: float) -> float:
        return float(expected(H.larger(G, factor), x, law).sum()) - target

    return root(excess, 0.0, most, xtol=1e-15 * most, rtol=1e-14)
