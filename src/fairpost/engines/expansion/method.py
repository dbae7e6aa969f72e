"""Many entities: `simplex`, `pos` and their thresholds under noise of any law, by what all do on average and the first order in 1/n.

Entity i outputs f_i(z_i - r), z = a X, where f_i(u) is 0 up to tau_i, then a ramp s (u - tau_i) up to L_i = s tau_i/(s - 1), then u itself;
tau = 0 is plain clipping, and a jump is a ramp that is steep. r makes the total hold: F(r) = sum_j h_j(r) = 0 with h = f and the total
taken off (a release), or h = f - z (shares, of the total S = sum z; the outputs are divided by S at the end). F falls in r.

*The law of r.* r <= t where F(t) <= 0. F(t) is a sum of independent terms, nearly normal with mean M(t) and variance V(t), so the quantile
of r that belongs to the standard normal q is the root of

    M(t) + q sqrt(V(t)) = 0.                                                                                                    (1)

r itself is not taken to be normal: that it cannot be negative where PoS drops nobody, and its corners at whole numbers, are in M and V.

*What i does to r.* Let t be the root without i, of F - h_i: in the place of (1), to first order in 1/n,

    t_i(q) = t - (E h_i + q Var h_i/(2 sqrt V))/D,   D = -M'(t) less the slope of i.                                              (2)

Given t the others give D (t - r), so that r - t = h_i/D, and g_i = f_i - (z_i - r), what i gets beyond what it would with the same shift
and no clipping, is piecewise linear in its own z_i. With e = D (release) or D + 1 (shares, where z_i is in the total as well) and
b = t D/e its corners and the slopes of g_i and f_i are

    below c_0 = b + tau_i (release), b + tau_i D/e (shares)         -e/D                    0
    between c_0 and c_1 = b + L_i (D + 1)/e                         (s - 1) e/(D + s)       s e/(D + s)
    above c_1                                                       0 (and g_i = 0)         e/(D + 1)

so that E g_i and E f_i^2 given t are short sums of E(c - z_i)_+ and its square, P(f_i = 0) is P(z_i <= c_0), and all are averaged over q.
(Whether others jump while i crosses its own jump does not matter: their jumps come at a rate, and what is left of one when i arrives is
uniform, so that the mean of what i gets there is that of the line.)

*The total is exact.* f_i = z_i - r + g_i sums to it, so r = (sum z - total + sum g)/n and

    E f_i - E z_i = (C - sum x)/n + E g_i - mean E g                 (release; shares without the first term).

*Dividing by S*, of mean S_0: with e_i = f_i - P_i S, kappa^2 = Var[S]/S_0^2 and (e_i, S) nearly normal,

    E[e_i/S] = E[e_i] E[1/S] + Cov(e_i, S)/Var[S] (1 - S_0 E[1/S]),   S_0 E[1/S] = 1 + kappa^2 + 3 kappa^4 + ...,
    E[e_i^2/S^2] = (E e_i^2 (1 + 3 kappa^2) - 4 E e_i Cov(e_i, S)/S_0 + 6 Cov(e_i, S)^2/S_0^2)/S_0^2,
    Cov(f_i, S) = Cov(f_i, z_i at fixed r) - rate_i sum_j Cov(h_j, z_j)/D,   rate_i = E f_i'.

*Errors.* Two corrections were made: for the fluctuation of r (the average over q less its value at q = 0) and for i itself. What is left out
is smaller than they are by the deviation of r, in units of the noise's, and 1/sqrt(D), the size of the skewness of F: MARGIN times that is
stated; and what the average changes when every second q is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np

from fairpost import cancel, fairness
from fairpost.accuracy import Accuracy, Estimate
from fairpost.engines.base import Answer, Part, Refusal
from fairpost.engines.moments import Distinct, Floats, Moments, distinct
from fairpost.noise import Law, Threshold
from fairpost.problems import Proportional
from fairpost.roots import root
from fairpost.rules import PoS, PosThreshold, PostProcessing, Simplex, SimplexThreshold

COVERED = (Simplex, SimplexThreshold, PoS, PosThreshold)
SHARING = 16.0
"""The least D: so many must share the shift."""
CLIPPED = 2.0
"""The least number of entities that move the r of shares."""
RARE = (3.0, 0.25)
"""Shares: N clipped entities leave r at its corner with a chance that falls like e^{-N}. This multiple of e^{-N} to this power is three times
what was seen for N from 2 on."""
LARGEST = 0.35
"""The largest deviation of r, in units of the noise's."""
SPREAD = 0.2
"""The largest relative deviation of S for which 1/S is expanded: S <= 0 is five deviations off."""
STEEP = 1e4
"""A jump of tau is a ramp of the width tau/STEEP about it: off by tau^2/24 STEEP^2 of the slope of the density, and squares keep 8 digits."""
STEP, LATTICE_STEP = 0.5, 0.15
"""Of q: the trapezoidal rule is exact for what is smooth; of a corner it leaves STEP^2/12 of its change of slope."""
FAR = 4.5
"""The largest q: 7e-6 of the mass is beyond, where the second order in r is small as well."""
MARGIN = 1.5
"""The stated error over the size of what is left out: the largest error seen is two fifths of what is stated (`tests/engines/expansion`)."""
TINY = 1e-40
"""Of the noise: below it the tables of whole-number noise end."""
ROUNDING = 1e-12
"""The relative accuracy of the partial transforms, with room for the arithmetic here."""
LOOK = 1.0
"""The step of a first look at the width: good to a percent of the average over r."""
WIDE = 10.0
"""So many times the relative tolerance on alpha may be stated as its error: an expansion has one width, which nothing refines."""
NARROW = 0.02
"""The least width of a ramp under whole-number noise: r is held where many entities meet a narrow one."""


class At(NamedTuple):
    """The entities, each at the same shift r whatever its own noise."""

    r: float
    h: Floats
    """E h_i."""
    variance: Floats
    """Var h_i."""
    rate: Floats
    """E f_i'."""
    noise: Floats
    """E[eta (f_i - u_i)], in squared counts."""
    gain: Floats
    """E g_i."""
    square: Floats
    """E g_i^2, in squared counts."""
    zero: Floats
    """P(f_i = 0)."""
    M: float
    V: float
    D: float


class Means(NamedTuple):
    """Averaged over the law of r; in units of z."""

    gain: Floats
    square: Floats
    """E(f_i - a_i x_i)^2 for independent t and z_i."""
    zero: Floats
    rate: Floats
    noise: Floats


@dataclass(frozen=True, eq=False)
class Field:
    """One problem, one entry for each distinct pair (x, a)."""

    x: Floats
    a: Floats
    times: Floats
    """How often it occurs."""
    truth: Floats
    """P(x)."""
    law: Law
    rule: Threshold
    shares: bool
    excess: float
    """C - sum x of a release."""

    @cached_property
    def ramp(self) -> Threshold:
        """The threshold, a jump as the narrow ramp about it."""
        if self.rule.level == 0 or self.rule.steepness <= STEEP:
            return self.rule
        return Threshold(self.rule.level / (1 + 0.5 / (STEEP - 1)), STEEP)

    @cached_property
    def s(self) -> float:
        """The steepness of the ramp, 1 where there is none."""
        return self.ramp.steepness if self.ramp.level > 0 else 1.0

    @cached_property
    def centre(self) -> At:
        """At the root of M."""
        return self.at(shift(self.x, self.a, self.times, self.excess, self.ramp, self.law))

    @property
    def deviation(self) -> float:
        """Of r, about."""
        return float(np.sqrt(self.centre.V)) / self.centre.D

    @cached_property
    def clipped(self) -> float:
        """How many move the r of shares: (E sum |a g|)^2/sum E (a g)^2, at most the number that is expected not to be kept in full.

        (Whole counts of 0 under little noise get nothing as a rule, but have nothing to move r by; a heavy weight may move it alone.)
        """
        mid, a, n = self.centre, self.a, self.times
        above = a * self.below(mid.r / a - self.x)[1]  # the positive part of a g, from z below r
        return float(np.sum(n * (2 * above - mid.gain)) ** 2 / np.sum(n * a**2 * mid.square))

    def alone(self, c: Floats) -> Floats:
        """Twice what the entity of the largest weight may change about P(eta <= c): its own tails are not those of a normal r."""
        wide = float(np.max(self.a)) * self.law.spread / (self.centre.D * self.a)
        nodes, weights = np.polynomial.laguerre.laggauss(16)
        both = (
            w * (self.law.cdf(c + u * wide) + self.law.cdf(c - u * wide)) for u, w in zip(nodes, weights, strict=True)
        )
        return np.asarray(2 * np.abs(sum(both) / 2 - self.law.cdf(c)))

    @cached_property
    def whole(self) -> float:
        """E S."""
        return float(np.sum(self.times * self.a * self.x))

    @cached_property
    def variance(self) -> float:
        """Var S."""
        return float(np.sum(self.times * self.a**2)) * self.law.variance

    def refused(self, name: str) -> str | None:
        """Why the first order in 1/n says nothing: too few entities, or too much noise."""
        if self.shares and not np.sqrt(self.variance) < SPREAD * self.whole:
            return (
                f"{name}: the weighted sum fluctuates by {np.sqrt(self.variance):.3g} around {self.whole:.3g}, above the part "
                f"{SPREAD:g} up to which 1/S is expanded"
            )
        if not self.shares and not self.excess + float(np.dot(self.times, self.x)) > 0:
            return f"{name}: a total of 0 is no case for an expansion"
        shared = self.centre.D
        if not shared >= SHARING:
            return f"{name}: the expansion needs {SHARING:g} entities that share the shift, got {shared:.3g}"
        if self.shares and not self.clipped >= CLIPPED:
            return f"{name}: the expansion needs {CLIPPED:g} entities that are clipped, got {self.clipped:.3g}"
        scale = float(np.sum(self.times * self.a * self.centre.rate)) / shared * self.law.deviation
        if not self.deviation <= LARGEST * scale:  # (noise next to none has the deviation 0.0)
            return f"{name}: the expansion needs a shift within {LARGEST:g} noise deviations, got {self.deviation / scale:.2g}"
        return None

    def below(self, c: Floats) -> tuple[Floats, Floats, Floats]:
        """P(eta <= c), E(c - eta)_+ and E(c - eta)_+^2, by symmetry from the lower tail."""
        law, tail = self.law, -np.abs(c)
        one, two = -np.asarray(law.lower(tail, 0.0, 1)), np.asarray(law.lower(tail, 0.0, 2))
        return law.cdf(c), np.maximum(c, 0.0) + one, np.where(c > 0, c**2 + law.variance - two, two)

    def at(self, r: float) -> At:
        """With g = f - u, in counts here: -u below the ramp's foot, (s - 1) times the distance to its top on it, 0 above."""
        x, a, s, tau = self.x, self.a, self.s, self.ramp.level
        k = r / a
        c0 = k + tau - x
        P0, G0, H0 = self.below(c0)
        c1, (P1, G1, H1) = (c0 + self.ramp.width, self.below(c0 + self.ramp.width)) if tau > 0 else (c0, (P0, G0, H0))
        gain = s * G0 - (s - 1) * G1
        square = (s - 1) ** 2 * (H1 - H0) + H0 - 2 * tau * s * G0
        noise = s * (c0 * G0 - H0) - (s - 1) * (c1 * G1 - H1)  # E[eta (c - eta)_+] = c G - H
        rate = 1 - P1 + s * (P1 - P0)
        variance = square - gain**2 + (0.0 if self.shares else self.law.variance + 2 * noise)
        variance = a**2 * np.maximum(variance, 0.0)
        h = a * (gain - k) if self.shares else x - k + gain
        M = float(np.sum(self.times * (a * gain - r))) - self.excess
        V, D = float(np.sum(self.times * variance)), float(np.sum(self.times * rate))
        return At(r, h, variance, rate, noise, a * gain, square, P0, M, V, D)

    def quantiles(self, step: float) -> Iterator[tuple[float, At, float]]:
        """q, the entities next to its quantile of r, and the quantile: from the centre outward, a Newton step of (1) each."""
        yield 0.0, self.centre, self.centre.r
        for side in (step, -step):
            near, t = self.centre, self.centre.r
            for k in range(1, int(FAR / step) + 1):
                cancel.check()
                near = self.at(t + side * np.sqrt(near.V) / near.D)
                t = near.r + (near.M + k * side * np.sqrt(near.V)) / near.D
                yield k * side, near, t

    def given(self, t: Floats, D: Floats, apart: float) -> tuple[Floats, Floats, Floats]:
        """E g_i, E(f_i - a_i x_i)^2 and P(f_i = 0), the others' root being t and their slope D; the last over `apart` about t."""
        a, s, due = self.a, self.s, self.a * self.x
        foot, top = a * self.ramp.level, a * (self.ramp.level + self.ramp.width)
        e = D + 1 if self.shares else D
        b = t * D / e
        c0, c1 = b + foot * (D / e), b + top * ((D + 1) / e)
        _, G0, H0 = self.below(c0 / a - self.x)
        _, G1, H1 = self.below(c1 / a - self.x) if self.ramp.level > 0 else (0.0, G0, H0)
        G0, G1, H0, H1 = a * G0, a * G1, a**2 * H0, a**2 * H1
        lost = (s - 1) * e / (D + s)  # the slopes of g on the ramp, and of f there and above
        slope, full = s * e / (D + s), e / (D + 1)
        gain = (lost + e / D) * G0 - lost * G1
        # as if kept in full, with what the two corners change: f(c_1) = top, f(c_0) = 0
        square = full**2 * a**2 * self.law.variance + (full * (due - b) - due) ** 2
        square = square + 2 * (top - due) * (full - slope) * G1 + (slope**2 - full**2) * H1
        square = square - 2 * due * slope * G0 - slope**2 * H0
        return gain, square, self.over(c0 / a - self.x + self.rule.level - self.ramp.level, apart / (2 * a))

    def over(self, c: Floats, w: Floats) -> Floats:
        """P(eta <= c), averaged over c - w to c + w where it jumps there: its integral is E(c - eta)_+."""
        law, found = self.law, np.asarray(self.law.cdf(c))
        if law.discrete:
            at = np.flatnonzero(np.floor(c + w) > np.floor(c - w))
            found[at] = (self.below((c + w)[at])[1] - self.below((c - w)[at])[1]) / (2 * w[at])
        return found

    def averaged(self, step: float) -> tuple[Means, Means, Means]:
        """The average over r, the same from every second q, and the value at the centre."""
        every = both = mid = np.zeros((5, self.x.size))
        all_weights = some_weights = 0.0
        for q, near, t in self.quantiles(step):
            D, deviation = near.D - near.rate, np.sqrt(near.V)
            own = (near.h + q * near.variance / (2 * deviation)) / D
            one = np.stack([*self.given(t - own, D, step * deviation / near.D), near.rate, near.noise])
            w = float(np.exp(-(q**2) / 2))
            every, all_weights = every + w * one, all_weights + w
            if round(q / step) % 2 == 0:
                both, some_weights = both + w * one, some_weights + w
            if q == 0:
                mid = one
        return Means(*(every / all_weights)), Means(*(both / some_weights)), Means(*mid)

    def moments(self, step: float) -> Moments:
        """Of the output, one entry for each pair."""
        n, times = float(np.sum(self.times)), self.times
        mean, half, mid = self.averaged(step)
        half = mean if step > STEP else half  # a first look, for its size
        small = self.deviation / (self.a * self.law.deviation) + 1 / np.sqrt(self.centre.D)
        if self.shares:
            small = small + RARE[0] * np.exp(-RARE[1] * self.clipped)

        def left(value: Floats, coarse: Floats, central: Floats, lead: Floats) -> Floats:
            parts = np.abs(value - central) + np.abs(central - lead)
            return np.asarray(MARGIN * small * parts + np.abs(value - coarse))

        common = float(np.sum(times * mean.gain)) / n
        bias = self.excess / n + mean.gain - common
        error = left(mean.gain, half.gain, mid.gain, self.centre.gain)
        known = float(np.sum(times * error)) / n
        error = (error + known) * (self.x.size > 1)
        error = error + ROUNDING * (np.abs(mean.gain) + np.abs(bias) + self.a * self.law.deviation)
        zero_error = left(mean.zero, half.zero, mid.zero, self.centre.zero) + ROUNDING
        if self.law.discrete:
            # F is whole at a whole r, which has a chance: half of it may lie on either side. And the skewness of F moves what lies below
            few = min(self.clipped, self.centre.D) if self.shares else self.centre.D
            whole = 0.4 * self.a / np.sqrt(self.centre.V) + 0.2 / np.sqrt(few)
            zero_error = zero_error + whole * self.law.density(0.0)
        if self.shares:
            zero_error = zero_error + self.alone(self.centre.r / self.a + self.rule.level - self.x)
        zero_error = np.minimum(zero_error, 1.0)
        second = MARGIN * small**2
        deep = np.maximum(self.centre.r + self.a * (self.rule.level - self.x), 0.0) + 10 * self.a * self.law.deviation
        rounding = 1e-15 * (min(self.s, self.centre.D) * deep) ** 2  # of E(c - z)_+^2 between slopes
        if not self.shares:
            squares = second * mean.square + 2 * np.abs(bias) * error + np.abs(mean.square - half.square) + rounding
            lemma = (common, known) if self.rule.level == 0 else (None, None)  # E[T]
            square = np.maximum(mean.square, 0.0)
            return Moments(
                bias,
                error,
                square,
                mean.zero,
                lemma[0],
                mse_error=squares,
                zero_error=zero_error,
                threshold_error=lemma[1],
            )
        return self.divided(bias, error, mean, second, rounding, zero_error)

    def divided(
        self, bias: Floats, error: Floats, mean: Means, second: Floats, rounding: Floats, zero_error: Floats
    ) -> Moments:
        """By S."""
        a, shares, v, size = self.a, self.truth, self.law.variance, self.variance / self.whole**2
        drift = float(np.sum(self.times * a**2 * mean.noise) / np.sum(self.times * mean.rate))  # Cov(r, S)
        together = a**2 * (v + mean.noise) - mean.rate * drift - shares * self.variance  # Cov(e_i, S)
        series = size * (1 + size * (3 + 15 * size))
        left = 105 * size**4 + size / float(np.sum(self.times))
        found = bias / self.whole * (1 + series) - together / self.variance * series
        error = error / self.whole + left * (np.abs(bias) / self.whole + np.abs(together) / self.variance)
        error = error + 4e-16 * shares
        square = mean.square - 2 * shares * together - shares**2 * self.variance  # E e_i^2
        mse = square * (1 + 3 * size) + (6 * together / self.whole - 4 * bias) * together / self.whole
        squares = (mean.square + shares**2 * self.variance) / self.whole**2
        third = 4 * a * self.law.deviation / self.whole  # Cov(e_i^2, S), its own part
        known = (second + third + 15 * size**2) * squares + 2 * np.abs(found) * error + rounding / self.whole**2
        known = np.minimum(known, 1.0)
        return Moments(
            found, error, np.maximum(mse, 0.0) / self.whole**2, mean.zero, mse_error=known, zero_error=zero_error
        )


def shift(x: Floats, a: Floats, times: Floats, excess: float, rule: Threshold, mechanism: Law) -> float:
    """The shift where all noisy counts are replaced by their means: the root of sum (a gain - r) = C - sum a x, which falls in r."""

    def surplus(r: float) -> float:
        return float(np.sum(times * (a * rule.gain(mechanism, r / a + rule.level - x) - r))) - excess

    low = high = -excess / float(np.sum(times))
    step = float(np.max(a)) * (mechanism.deviation + rule.level) or abs(low)  # noise next to none has the deviation 0.0
    while surplus(low) < 0:
        low, step = low - step, 2 * step
    while surplus(high) > 0:
        high, step = high + step, 2 * step
    return low if low == high else root(surplus, low, high, xtol=1e-300, rtol=1e-15)


@dataclass(frozen=True)
class Many:
    """What is left out is stated as the error, an `expansion`."""

    name: ClassVar[str] = "expansion"
    rules: ClassVar[tuple[type[PostProcessing], ...]] = (Simplex, SimplexThreshold, PoS, PosThreshold)

    def fits(self, part: Part, rtol: float) -> str | None:
        """Why the first order in 1/n says nothing here, or not enough: an error of alpha above `WIDE` times `rtol` of it."""
        with np.errstate(all="ignore"):
            field = _field(part)
            return field if isinstance(field, str) else _too_wide(part.pi.name, field, _looked(field), rtol)

    def evaluate(self, part: Part, rtol: float) -> Answer | Refusal:
        """Its moments. An answer that is wider than was foreseen is refused, and kept in the refusal."""
        with np.errstate(all="ignore"):  # far tails under- and overflow; what is not finite is refused in `answer`
            field = _field(part)
            if isinstance(field, str):
                return Refusal(field)
            found = field.moments(LATTICE_STEP if field.law.discrete else STEP)
            answer = _pairs(part)[1].entities(found).answer(self.name, "expansion", part)
            if isinstance(answer, Refusal):
                return answer
            why = _too_wide(part.pi.name, field, answer.alpha, rtol)
            return answer if why is None else Refusal(why, tried=True, reached=answer)


def _looked(field: Field) -> Estimate:
    """Alpha from a few quantiles of r."""
    found = field.moments(LOOK)
    return fairness.alpha_interval(found.bias, Accuracy("expansion", found.error))


def _too_wide(name: str, field: Field, alpha: Estimate, rtol: float) -> str | None:
    if field.x.size == 1 or TINY * field.law.deviation < alpha.half_width / (WIDE * rtol) <= alpha.value:
        return None
    return f"{name}: the expansion would know alpha = {alpha.value:.3g} to {alpha.half_width:.2g} only"


def _pairs(part: Part) -> tuple[bool, Distinct]:
    """Whether shares are asked for, and the distinct pairs."""
    problem = part.pi.problem
    shares = isinstance(problem, Proportional)
    return shares, distinct(part, problem.a(part.x.size) if isinstance(problem, Proportional) else None)


def _field(part: Part) -> Field | str:
    """The problem, or why the first order in 1/n says nothing about it."""
    pi, law = part.pi, part.mechanism
    if not isinstance(law, Law):
        return f"the law of {law.name} noise is not known; it can be simulated"
    if not isinstance(pi, COVERED):
        return f"there is no expansion for the post-processing {pi.name!r}"
    shares, d = _pairs(part)
    times, rule = d.times.astype(np.float64), pi.rule or Threshold(0.0)
    excess = 0.0 if shares else pi.C - float(np.dot(times, d.x))  # type: ignore[union-attr]  # releases have a total
    if law.discrete and rule.level > 0 and rule.width < NARROW:
        return f"{pi.name}: r stays where a jump meets whole numbers, which the expansion does not follow"
    field = Field(d.x, d.a, times, d.truth, law, rule, shares, excess)
    return field.refused(pi.name) or field
