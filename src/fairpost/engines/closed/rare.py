"""At most one entity is clipped at a time: closed formulas for releases and shares, and the chance that it is otherwise.

Let y be what everybody would have with nobody clipped, of sum C: y = X + (C - sum X)/n for a release, z = a X for shares (C = S). With
out_j = y_j - r + g_j the g_j is what clipping gives or takes, 0 where j is kept in full, and sum out = C makes r the mean of the g. If i
alone may be clipped, r hangs on y_i alone. With the edge L_i = a_i tau, the steepness s (infinite: a jump) and the top of the ramp z1,

    r = A (z0 - y_i)_+ - B (z1 - y_i)_+,   z0 = L_i (n - 1)/n,   z1 = s L_i/(s - 1),   B = (s - 1)/(n - 1 + s),   A = B + 1/(n - 1):

-y_i/(n - 1) and nothing kept up to z0, 0 from z1 on, a line between (tau = 0: B = 0, A = 1/(n - 1)). g_i = n r, and where at most one is
clipped at a time r is the sum of these over i. For a release the moments of r are those of a clipped entry of pi_S (`sum_law`); for shares
1/S = sum omega e^{-tS} (`closed.total`) leaves partial transforms of the own noise.

Two clipped at a time. For every w: either two of the X_j are at or below w + top, the end of the ramp, or r > w for the shift r of the rule.
No rule keeps more than u_+, so r > w needs sum (X_j - w)_+ > C, and by Chernoff with any q > 0, F_j = P(X_j < w) and drift = (C - sum x)/n

    P(r > w) <= prod_j (F_j + e^{K(q) + q (x_j - w)}) e^{-qC} = e^{n (K(q) - q (w + drift))} prod_j (1 + F_j e^{-K(q) - q (x_j - w)}).

For shares r > w with at most one z_j <= w + L_j needs z_i < -(n - 1) w. The same with a set of entities that may all be clipped, and nobody
beside them: no safe one at or below w + top, and for shares some z_i of the set below -n_s w/k, k of them and n_s safe ones.

What that can do. u_+ again: r <= max_K (sum_K X - C)/|K| <= n |drift| + sum |eta_j| (shares: sum a_j |eta_j|), and |g_i| <= (r - X_i)_+ + top.
By Hoelder, with E|eta|^p <= 2 p! E[e^{q eta}]/q^p, on an event of the chance P

    E[|g_i|; P] <= (n |drift| + (n + 1) ||eta||_p + top) P^{1 - 1/p},     for shares over S, which is E[S]/4 at least (`inverse.tail`),

and a bias moves by at most four times that: by g and by what stands here for it, in i and in the mean. Floor: errors below 1e-12 of the
noise are as good as 0.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from fairpost.bounds import sum_law
from fairpost.bounds.theorems import RELATIVE
from fairpost.engines.closed.shares import range_error
from fairpost.engines.closed.total import ROUNDING, SURE, Inverse, Total
from fairpost.engines.moments import Distinct, Floats, Moments
from fairpost.noise import Law, Threshold

FLOOR = 1e-12
"""Of the noise's deviation, in the unit of the answer: below it an alpha is as good as 0."""
DIGITS = 1e-3
"""What anybody needs of an alpha."""
OFTEN = 1e-3
"""A chance of more than that is not rare, whatever the tolerance."""
NEGLIGIBLE = 1e-4
"""Of what an error may be: who adds less is not looked at."""
LOOKS = 64
"""Pairs that are always looked at: in the bound on r their factors are taken as they are."""
AT_EDGE = 1e-9
"""Whole counts lie at the foot of a ramp with a chance, in floats a little beside it."""


@dataclass(frozen=True, eq=False)
class Rare:
    """The distinct (x, a), ascending in x, the noise and the rule; `total` is C of a release, None for shares."""

    d: Distinct
    law: Law
    rule: Threshold
    total: float | None

    @cached_property
    def n(self) -> int:
        """Entities."""
        return int(np.sum(self.d.times))

    @cached_property
    def drift(self) -> float:
        """(C - sum x)/n; shares have none."""
        return 0.0 if self.total is None else math.fsum([self.total, *(-self.d.x * self.d.times).tolist()]) / self.n

    @cached_property
    def top(self) -> float:
        """Where the ramp ends, in counts."""
        return self.rule.level + self.rule.width

    @cached_property
    def line(self) -> tuple[float, float, float]:
        """z0 in counts, A and B."""
        n, s = float(self.n), self.rule.steepness
        b = 0.0 if self.rule.level == 0 else 1.0 if np.isinf(s) else (s - 1) / (n - 1 + s)
        return self.rule.level * (n - 1) / n, b + 1 / (n - 1), b

    @cached_property
    def problem(self) -> Total:
        """S of shares, in units of the largest weight."""
        return Total(self.a * self.d.x, self.a, self.d.times, self.d.truth, self.law)

    @cached_property
    def a(self) -> Floats:
        """Weights, the largest of them 1."""
        return np.asarray(self.d.a / np.max(self.d.a))

    @cached_property
    def unit(self) -> float:
        """From a_j counts to the unit of the answer."""
        return 1.0 if self.total is not None else 1.0 / self.problem.mean

    # -- what errors may be --

    @cached_property
    def expected(self) -> float:
        """About alpha, with a shift that is not random; for tau = 0, where shares add nothing of their own, at most alpha (Jensen)."""
        bias = self.rule.gain(self.law, self.rule.level - self.d.x - self.drift) * self.a * self.unit
        if self.total is None:
            square = (self.a * self.unit) ** 2 * self.law.variance
            bias = bias - square + self.problem.shares * float(square @ self.d.times)
        return float(np.ptp(bias))

    def allowed(self, rtol: float, alpha: float) -> float:
        """What the error of alpha may be: all of the floor only where alpha is below it, and three digits of it above."""
        floor = FLOOR * self.law.deviation * self.unit
        return max(rtol * alpha, floor if alpha <= floor else DIGITS * floor)

    def lost(self, chance: float, power: int = 1) -> float:
        """What an event of this chance can do to a bias (`power` 1) or a mean squared error (2)."""
        if chance <= 0:
            return 0.0
        q, p = min(0.5 * self.law.strip, 1 / self.law.spread), 2.0 ** np.arange(2, 11)
        log = np.array([math.lgamma(v + 1) for v in p]) + math.log(2) + float(self.law.cgf(q))
        weight = float(self.a @ self.d.times) + power
        size = self.n * abs(self.drift) + weight * np.exp(log / p) / q + self.top
        size = 4 * size * (self.unit if self.total is not None else 4 * self.unit)
        return float(np.min(size**power * np.exp(math.log(chance) * (1 - power / p))))

    def reached(self, found: Moments, rtol: float) -> Moments:
        """The same, or what was reached where that is short of the tolerance. Entities that are all alike have the same bias."""
        if self.d.x.size == 1:
            bias = np.full(1, self.drift)
            found = replace(found, bias=bias, error=np.spacing(np.abs(bias)) * (self.total is not None))
        alpha, slack = range_error(found.bias, found.error)
        if slack <= self.allowed(rtol, alpha) + 1e-15 * abs(self.drift):
            return found
        return Moments.missed("few at risk", found.bias, found.error / 10, rtol)

    # -- chances --

    @cached_property
    def shifts(self) -> Floats:
        """w: from a thousandth of the least noise (a sum of many moves little) to 60 deviations; whole numbers move by 1."""
        least, most = 1e-3 * float(np.min(self.a)) * self.law.deviation, 60 * max(self.law.deviation, self.law.discrete)
        return np.asarray(-self.drift + np.geomspace(least, most, 80))

    def _below(self, w: Floats) -> Floats:
        """P(X_j <= r + top) for r = w: rows w, columns pairs."""
        return np.asarray(self.law.cdf(np.divide.outer(w, self.a) + (self.top - self.d.x)))

    @cached_property
    def low(self) -> Floats:
        """The same for all shifts."""
        return self._below(self.shifts)

    def often(self, most: int) -> bool:
        """Whether more than `most` entities are clipped together too often for any tolerance: cheap, for all that is not rare."""
        each = np.sort(np.repeat(self._below(self.shifts[:1])[0], np.minimum(self.d.times, most + 1)))[::-1]
        return bool(each.size > most and each[most] > OFTEN)

    @cached_property
    def _beyond(self) -> Floats:
        """P(r > w) of a release; log(1 + F e^-...) <= F where x >= w."""
        x, times, law, w = self.d.x, self.d.times, self.law, self.shifts
        q = np.geomspace(1e-3 / law.spread, 60.0 / law.spread if np.isinf(law.strip) else 0.999 * law.strip, 60)
        log, gap = np.asarray(law.cgf(q)), np.subtract.outer(w, x[:LOOKS])
        under = np.log(law.cdf(gap))[:, None] + gap[:, None] * q[:, None] - log[:, None]
        swell = np.logaddexp(0.0, under) @ times[:LOOKS] + (self.low[:, LOOKS:] @ times[LOOKS:])[:, None]
        power = np.min(self.n * (log - np.multiply.outer(w + self.drift, q)) + swell, axis=1)
        known = w < (x[LOOKS] if x.size > LOOKS else np.inf)
        return np.where(known, np.exp(np.minimum(power, 0.0)), 1.0)

    def _chance(self, near: Floats, some: slice, many: int) -> float:
        """The least over w of `near`, the chance at the edge, and P(r > w), with `many` entities of the pairs `some` clipped at a time."""
        if self.total is not None:
            return min(float(np.min(near + self._beyond)), 1.0)
        reach = np.multiply.outer(self.shifts, (self.n - many) / max(many, 1) / self.a[some])
        return min(float(np.min(near + self.law.cdf(-reach - self.d.x[some]) @ self.d.times[some])), 1.0)

    @cached_property
    def two(self) -> float:
        """The chance that two are clipped at a time. Of two entities one is kept in full where C is more than the ends of both ramps."""
        least = 0.25 * self.problem.mean if self.total is None else self.total
        if self.n == 2 and float(self.a @ self.d.times) * self.top < least:
            return 0.0
        each, times = self.low * self.d.times, self.d.times
        pairs = np.sum(each[:, 1:] * np.cumsum(each, axis=1)[:, :-1], axis=1) + self.low**2 @ (times * (times - 1) / 2)
        return self._chance(pairs, slice(None), 1)

    def outside(self, k: int) -> float:
        """The chance that somebody beside the first k pairs is clipped."""
        if k == self.d.x.size:
            return 0.0
        return self._chance(self.low[:, k:] @ self.d.times[k:], slice(k), int(np.sum(self.d.times[:k])))

    def sure(self, tolerance: float) -> bool:
        """Whether S > 0 is certain enough; so it is for a release."""
        if self.total is not None:
            return True
        return self.problem.sure > SURE and 32 * math.exp(-self.problem.sure) <= tolerance


# -- a release ---------------------------------------------------------------------------------------------------------------


def _clipped(q: Rare, k: int, cut: float, some: int) -> Floats:
    """E[(cut - y)_+^k] of the first pairs, 0 for the others."""
    out = np.zeros(q.d.x.size)
    out[:some] = sum_law.clipped(q.d.x[:some] + q.drift - cut, q.n, q.law, k)
    return out


def release(q: Rare, rtol: float) -> Moments:
    """bias = drift + (n - 1) E[r_i] - sum over the others of E[r_j]; squares likewise, E[nu_j r_i] = -E[nu_i r_i]/(n - 1)."""
    n, times, (z0, a, b), z1 = float(q.n), q.d.times, q.line, q.top
    least = NEGLIGIBLE * q.allowed(rtol, q.expected)
    some = bisect_left(range(times.size), True, key=lambda k: q.lost(q.outside(k)) <= least)
    some = max(some, min(LOOKS, times.size))  # digits below the floor, where they cost nothing
    v0, v1, vv0, vv1 = (_clipped(q, k, z, some) for k in (1, 2) for z in (z0, z1))
    u, size = np.abs(q.d.x + q.drift), a * v0 + b * v1
    r, cross = a * v0 - b * v1, 2 * a * b * (vv0 + (z1 - z0) * v0)
    rr = a * a * vv0 - cross + b * b * vv1
    nu_r = a * ((z0 - q.d.x - q.drift) * v0 - vv0) - b * ((z1 - q.d.x - q.drift) * v1 - vv1)
    mean, other = float(times @ r), rr - 2 * q.drift * r + 2 * nu_r / (n - 1)
    square = 2 * (n - 1) * (nu_r + q.drift * r) + (n - 1) ** 2 * rr - other + float(times @ other)
    # RELATIVE of every term that was added up
    second = 2 * n * n * (a * a * vv0 + cross + b * b * vv1 + (z1 + u + abs(q.drift)) * size + a * vv0 + b * vv1)
    rounding = RELATIVE * (n * size + float(times @ size)), RELATIVE * (second + float(times @ second) / n)
    zero = _clipped(q, 0, z0, some)
    zero[:some] += sum_law.at_zero(q.d.x[:some] + q.drift - z0, q.n, q.law)
    return release_answer(q, n * r - mean, square, zero, mean, rounding, q.two + q.outside(some), rtol)


def release_answer(
    q: Rare, d: Floats, square: Floats, zero: Floats, mean: float, rounding: tuple[Floats, Floats], missed: float, rtol: float
) -> Moments:  # fmt: skip
    """From E[g_j] less its mean, what clipping adds to the mean square, and P(out_j = 0)."""
    plain, lost = q.top == 0, q.lost(missed)
    base, bias = sum_law.variance(q.law, q.n) + q.drift**2, q.drift + d
    found = Moments(
        bias,
        rounding[0] + 4e-16 * abs(q.drift) + lost,
        np.maximum(base + square, bias**2),
        np.clip(zero, 0.0, 1.0),
        threshold=mean if plain else None,
        mse_error=rounding[1] + RELATIVE * base + q.lost(missed, 2),
        zero_error=RELATIVE * zero + missed,
        threshold_error=RELATIVE * mean + lost if plain else None,
        kind="bound",
    )
    return q.reached(found, rtol)


# -- shares ------------------------------------------------------------------------------------------------------------------


def _tilted(q: Rare, t: Floats, cut: float, k: int) -> Floats:
    """E[v^k e^{-t a eta}], v = a (cut - X)_+: rows nodes, columns pairs."""
    c, s = cut - q.d.x, -np.multiply.outer(t, q.a)
    value = np.real(q.law.lower(np.broadcast_to(c, s.shape), s, k)) * np.exp(s * c)
    return np.asarray(np.where(q.law.cdf(c) > 0, (-q.a) ** k * value, 0.0))


def _weighed(q: Rare, inverse: Inverse) -> tuple[Floats, Floats, Floats]:
    """E[r e^{-tS}] times omega, of r^2 and of z r: rows nodes, columns pairs."""
    p, (z0, a, b), z1 = q.problem, q.line, q.top
    v0, vv0, v1, vv1 = (_tilted(q, inverse.t, z, k) for z in (z0, z1) for k in (1, 2))
    log = p.tilted(inverse.t)[0]
    own = inverse.omega[:, None] * np.exp((log @ p.times)[:, None] - log - (inverse.t * p.mean)[:, None])
    second = a * a * vv0 - 2 * a * b * (vv0 + q.a * (z1 - z0) * v0) + b * b * vv1
    cross = a * (q.a * z0 * v0 - vv0) - b * (q.a * z1 * v1 - vv1)
    return own * (a * v0 - b * v1), own * second, own * cross


def _share_moments(q: Rare, inverse: Inverse) -> tuple[Floats, Floats]:
    p, n = q.problem, float(q.n)
    bias, mse = p.unclipped(inverse)
    first, second, cross = _weighed(q, inverse)
    rho, mean = np.sum(first, axis=0), p.tilted(inverse.t)[1]
    lift = n * rho - float(p.times @ rho)
    others = (first @ p.times)[:, None] - first
    square = (n - 1) * (2 * cross + (n - 1) * second) + (second @ p.times)[:, None] - second - 2 * (p.c + mean) * others
    bias = bias + lift
    return bias, np.maximum(mse + inverse.t @ square - 2 * p.shares * lift, bias**2)


def shares(q: Rare, rtol: float) -> Moments:
    """bias = E[(z_i - P_i S)/S] + n E[r_i/S] - sum over all of E[r_j/S]."""
    cut = q.line[0] - q.d.x
    zero = q.law.cdf(cut + AT_EDGE * (1 + np.abs(cut)) if q.law.discrete else cut)
    return share_answer(q, lambda inverse: _share_moments(q, inverse), lambda: zero, q.two, rtol)


def share_answer(
    q: Rare,
    moments: Callable[[Inverse], tuple[Floats, Floats]],
    zero: Callable[[], Floats],
    missed: float,
    rtol: float,
) -> Moments:
    """From bias and mean square with a stand-in for 1/S, and then P(out_j = 0), with the errors of the stand-in and of what is missed."""
    known = q.problem.fitted(rtol, moments)
    if known is None:
        return Moments.unknown(q.d.x.size, "few at risk: the weighted sum may come near 0")
    inverse, bias, mse = known
    p = q.problem
    rounding = ROUNDING * (np.abs(bias) + float(np.ptp(bias)))
    found = Moments(
        bias,
        np.sqrt(mse) * inverse.rms + inverse.tail + q.lost(missed) + rounding,
        mse,
        np.clip(zero(), 0.0, 1.0),
        degenerate=p.chance_negative,
        mse_error=inverse.of_clipped(mse, p.unclipped(inverse)[1], p.shares) + q.lost(missed, 2),
        zero_error=np.full_like(bias, missed + ROUNDING + inverse.tail),
        kind="bound",
    )
    return q.reached(found, rtol)
