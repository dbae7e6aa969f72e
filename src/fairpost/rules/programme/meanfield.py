"""Payments as if the factor of reduction were fixed: what simulation of a programme may subtract.

Pro rata pays G_i / S with S = sum G, whose relative fluctuation is small. With mu = E S

    G_i / S = G_i / mu - (E G_i / mu) (S - mu) / mu + d_i,

where d is of second order. The mean of the first is known, that of the second is 0. With hold-harmless the payment
max(H_i, lambda G_i) is kinked in the entity's own count once lambda is fixed at the value that spends the appropriation in
expectation; a group minimum likewise multiplies a group's payments by a fixed factor. So every mean E m_i is a sum over kinks of a
jump times P(eta >= kink) and a change of slope times E(eta - kink)+, and L = m - E m is what the engine subtracts. For
entities that are held in every run m does not follow the payment; a pilot of other runs than the simulation's tells where
subtracting it adds variance, and there it is left out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fairpost.counts import Counts
from fairpost.noise import Stream
from fairpost.noise.base import Law
from fairpost.problems.programme import Kinks
from fairpost.problems.programme.sharing import minima
from fairpost.roots import root
from fairpost.rules.control import JUMPS, Control

if TYPE_CHECKING:
    from fairpost.rules.programme.base import Paying

Floats = NDArray[np.float64]
PILOT, PILOT_SEED = 64, 2**63 + 5
"""Runs that guard the coefficient, from a seed of their own."""


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
    """Payments m_i(z_i) at a fixed factor, their means, and what they should be."""

    pi: Paying
    x: Floats
    law: Law
    truth: Floats
    factor: float
    """lambda: the factor of reduction; 1 / E S where nobody is held."""
    mean: Floats
    """E m_i."""
    raise_by: Floats
    """The fixed factor of each entity's group under a minimum, else 1."""
    payments: Kinks | None
    """With hold-harmless: max(H, lambda G) as kinks."""

    @property
    def bias(self) -> Floats:
        """E m - P: the mean-field answer."""
        return np.asarray(self.mean - self.truth)

    def rows(self, noise: Floats) -> Floats:
        """m of each row of noise, less its mean."""
        z = self.x + noise
        if self.payments is not None:
            return np.asarray(self.payments(z) - self.mean)
        G = self.pi.kinks(z) * self.pi.programme.a(self.x.size) * self.factor
        whole = G.sum(axis=1, keepdims=True) - 1.0
        plain = self.mean / self.raise_by
        return np.asarray((G - plain - plain * whole) * self.raise_by)

    def control(self, counts: Counts) -> Control:
        """Subtracted where a pilot says that it helps. The scale of the unseen is ten deviations of what is left."""
        linear = _Guarded(self, np.ones(self.x.size))
        noise = np.stack([self.law.sample(self.x.size, Stream(PILOT_SEED, r)) for r in range(PILOT)])
        e = self.pi._apply(self.x + noise).values
        L = self.rows(noise)
        helps = np.var(e - L, axis=0) <= np.var(e, axis=0)
        left = np.where(helps, np.std(e - L, axis=0), np.std(e, axis=0))
        scale = JUMPS * np.maximum(left, 1e-3 * np.std(e, axis=0) + 1e-6 * np.max(left))
        return Control(np.zeros(self.x.size), replace(linear, coefficient=helps * 1.0), scale, None)


@dataclass(frozen=True, eq=False)
class _Guarded:
    field: MeanField
    coefficient: Floats

    def __call__(self, noise: Floats) -> Floats:
        return self.field.rows(noise) * self.coefficient


def mean_field(pi: Paying, x: Floats, law: Law) -> MeanField:
    """The mean field of a programme that shares an appropriation of 1."""
    programme, base = pi.programme, pi.programme.base
    assert base is not None
    weighted = pi.kinks.scaled(programme.a(x.size))
    worth = programme.entitled(x, base)
    truth = programme.shared(x[None, :], worth[None, :], base).values[0]
    EG = expected(weighted, x, law)
    factor, ones = 1.0 / float(EG.sum()), np.ones(x.size)
    if programme.hold_harmless is not None:
        return _held(pi, x, law, truth, weighted, factor)
    mean, lift = EG * factor, ones
    if programme.minimum is not None:
        parts = programme.states
        assert parts is not None
        from fairpost.problems.programme.kernels.sharing import hold

        sums = parts.sums(parts.gather(mean[None, :]))
        paid = sums.copy()
        hold(sums, np.where(sums > 0, minima(programme, x[None, :]), 0.0), paid)
        by_group = np.divide(paid, sums, out=np.zeros_like(sums), where=sums > 0)
        lift = parts.scatter(parts.spread(by_group))[0]
        mean = mean * lift
    return MeanField(pi, x, law, truth, factor, mean, lift, None)


def _held(pi: Paying, x: Floats, law: Law, truth: Floats, G: Kinks, most: float) -> MeanField:
    """lambda with sum E max(H, lambda G) = 1; it is at most 1 / E S. Where the H alone spend all, they are reduced ratably."""

    def excess(factor: float) -> float:
        return float(expected(_larger(pi, G, factor), x, law).sum()) - 1.0

    spare = excess(0.0)
    factor = 0.0 if spare >= 0 else root(excess, 0.0, most, xtol=1e-15 * most, rtol=1e-14)
    made = _larger(pi, G, factor)
    if spare >= 0:
        made = made.scaled(np.full(G.n, 1.0 / (1.0 + spare)))
    return MeanField(pi, x, law, truth, factor, expected(made, x, law), np.ones(x.size), made)


def _larger(pi: Paying, G: Kinks, factor: float) -> Kinks:
    """max(H, factor G) as kinks, H the steps of hold-harmless from the threshold on."""
    from fairpost.problems.programme.kernels.kinks import larger

    programme, base = pi.programme, pi.programme.base
    assert base is not None
    assert programme.hold_harmless is not None
    rate = programme.hold_harmless.rate
    bounds = np.ascontiguousarray(np.stack([bound.of(base) for bound, _ in rate], axis=1))
    parts = np.array([part for _, part in rate])
    last = programme._last(base.size)
    room = 3 * (G.at.size + G.n * (len(rate) + 1))
    start = np.empty(G.n + 1, dtype=np.int64)
    at, value, slope = np.empty(room), np.empty(room), np.empty(room)
    threshold = programme.threshold(base)
    used = larger(
        threshold, bounds, parts, last, G.start, G.at, G.value * factor, G.slope * factor, start, at, value, slope
    )
    return Kinks(start, at[:used].copy(), value[:used].copy(), slope[:used].copy())
