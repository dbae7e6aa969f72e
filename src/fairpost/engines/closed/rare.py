"""At most one entity is clipped at a time: closed formulas for releases and shares, and the chance that it is otherwise.

Let y be what everybody would have with nobody clipped, of sum C: y = X + (C - sum X)/n for a release, z = a X for shares (C = S). With
out_j = y_j - r + g_j the g_j is what clipping gives or takes, 0 where j is kept in full, and sum out = C makes r the mean of the g. If i
alone may be clipped, r hangs on y_i alone. With the edge L_i = a_i tau, the steepness s (infinite: a jump) and the top of the ramp z1,

    r = A (z0 - y_i)_+ - B (z1 - y_i)_+,   z0 = L_i (n - 1)/n,   z1 = s L_i/(s - 1),   B = (s - 1)/(n - 1 + s),   A = B + 1/(n - 1):

-y_i/(n - 1) and nothing kept up to z0, 0 from z1 on, a line between (tau = 0: B = 0, A = 1/(n - 1)). g_i = n r, and where at most one is
clipped at a time r is the sum of these over i. For a release the moments of r are those of a clipped entry of pi_S (`sum_law`); for shares
1/S = sum omega e^{-tS} (`pos.inverse`) leaves partial transforms of the own noise.

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
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from fairpost.bounds import sum_law
from fairpost.bounds.theorems import RELATIVE
from fairpost.engines.closed.shares import range_error
from fairpost.engines.exact.pos.inverse import Inverse, fitted
from fairpost.engines.exact.pos.problem import Chernoff, Problem, chance_negative
from fairpost.engines.exact.pos.separated import of_clipped, unclipped
from fairpost.engines.moments import Counted, Distinct, Floats, Moments
from fairpost.noise import Law, Threshold

FLOOR = 1e-12
"""Of the noise's deviation, in the unit of the answer: below it an alpha is as good as 0."""
DIGITS = 1e-3
"""What anybody needs of an alpha."""
ROUNDING = 1e-13
"""Of sums with the nodes of 1/S."""
OFTEN = 1e-3
"""A chance of more than that is not rare, whatever the tolerance."""
UNDERFLOW = 1e-290
"""Who is clipped less often has no bias that a float can hold."""
AT_EDGE = 1e-9
"""Whole counts lie at the foot of a ramp with a chance, where floats give their rounding instead of 0."""


@dataclass(frozen=True, eq=False)
class Rare:
    """The distinct (x, a), ascending in x, the noise and the rule; `total` is C of a release, None for shares."""

    d: Distinct
    law: Law
    rule: Threshold
    total: float | None

    @cached_property
    def n(self) -> int:
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
    def problem(self) -> Problem:
        """Of shares."""
        return Problem.build(self.d.x, self.d.a, self.d.times, self.d.truth, self.law)

    @cached_property
    def a(self) -> Floats:
        """Weights, the largest of them 1."""
        return self.d.a / np.max(self.d.a)

    @cached_property
    def unit(self) -> float:
        """From a_j counts to the unit of the answer."""
        return 1.0 if self.total is not None else 1.0 / self.problem.mean

    def allowed(self, rtol: float, alpha: float) -> float:
        """What the error of alpha may be: all of the floor only where alpha is below it, and three digits of it above."""
        floor = FLOOR * self.law.deviation * self.unit
        return max(rtol * alpha, floor if alpha <= floor else DIGITS * floor)

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
        """P(r > w) of a release."""
        d, law, w = self.d, self.law, self.shifts
        most = 60.0 / law.spread if np.isinf(law.strip) else 0.999 * law.strip
        q = np.geomspace(1e-3 / law.spread, most, 60)
        log, gap = np.asarray(law.cgf(q)), np.subtract.outer(w, d.x)
        far = d.x > w[-1] + 60 / most  # there log(1 + F e^-...) <= F
        under = np.log(law.cdf(gap[:, ~far]))[:, None, :] + gap[:, None, ~far] * q[:, None] - log[:, None]
        swell = np.logaddexp(0.0, under) @ d.times[~far] + (law.cdf(gap[:, far]) @ d.times[far])[:, None]
        power = self.n * (log - np.multiply.outer(w + self.drift, q)) + swell
        return np.exp(np.minimum(np.min(power, axis=1), 0.0))

    def _chance(self, near: Floats, some: slice, many: int) -> float:
        """The least over w of `near`, the chance of those near the edge, and P(r > w), where the entities `some`, `many` at a time, are clipped."""
        if self.total is not None:
            beyond = self._beyond
        else:
            reach = np.multiply.outer(self.shifts, (self.n - many) / many / self.a[some])
            beyond = self.law.cdf(-reach - self.d.x[some]) @ self.d.times[some]
        return min(float(np.min(near + beyond)), 1.0)

    @cached_property
    def two(self) -> float:
        """The chance that two are clipped at a time. Of two entities one has more than the end of the ramp, where C is more than both ends."""
        if self.n == 2 and float(self.a @ self.d.times) * self.top < (0.25 * self.problem.mean if self.total is None else self.total):
            return 0.0
        each, times = self.low * self.d.times, self.d.times
        pairs = np.sum(each[:, 1:] * np.cumsum(each, axis=1)[:, :-1], axis=1) + self.low**2 @ (times * (times - 1) / 2)
        return self._chance(pairs, slice(None), 1)

    def outside(self, k: int) -> float:
        """The chance that somebody beside the first k pairs is clipped."""
        if k == self.d.x.size:
            return 0.0
        return self._chance(self.low[:, k:] @ self.d.times[k:], slice(k), int(np.sum(self.d.times[:k])))

    def lost(self, chance: float, power: int = 1) -> float:
        """What an event of this chance can do to a bias (`power` 1) or a mean squared error (2)."""
        if chance <= 0:
            return 0.0
        q = min(0.5 * self.law.strip, 1 / self.law.spread)
        p = 2.0 ** np.arange(2, 11)
        log = np.array([math.lgamma(v + 1) for v in p]) + math.log(2) + float(self.law.cgf(q))
        weight = float(self.a @ self.d.times) + 1 + (power - 1)
        size = self.n * abs(self.drift) + weight * np.exp(log / p) / q + self.top
        size = 4 * size * (self.unit if self.total is not None else 4 * self.unit)
        return float(np.min(size**power * np.exp(math.log(chance) * (1 - power / p))))

    def clipped_bias(self) -> Floats:
        """E[g_i] if the shift were not random: what says beforehand how large alpha is."""
        return self.rule.gain(self.law, self.rule.level - self.d.x - self.drift) * self.a * self.unit

    def expected(self) -> float:
        """About alpha; for tau = 0 at most alpha, by Jensen's inequality, where shares add nothing of their own."""
        bias = self.clipped_bias()
        if self.total is None:
            p = self.problem
            square = p.a**2 * self.law.variance / p.mean**2
            bias = bias - square + p.shares * float(square @ p.times)
        return float(np.ptp(bias))

    def sure(self, tolerance: float) -> str | None:
        """Why S > 0 is not certain enough; None where it is, and for a release."""
        if self.total is not None:
            return None
        p = self.problem
        if not (p.mean > 0 and p.variance > 0):
            return "the noise is too far from the counts for floats"
        level = Chernoff.of(p).level(0.75 * p.mean)
        return None if level > 20 and 32 * math.exp(-min(level, 60.0)) <= tolerance else "S may come near 0"

    def reached(self, found: Moments, rtol: float) -> Moments:
        """The same, or what was reached where that is short of the tolerance. Entities that are all alike have the same bias."""
        if self.d.x.size == 1:
            bias = np.full(1, self.drift)
            found = replace(found, bias=bias, error=np.spacing(np.abs(bias)) * (self.total is not None))
        alpha, slack = range_error(found.bias, found.error)
        if slack <= self.allowed(rtol, alpha) + 4e-16 * abs(self.drift):
            return found
        return Moments.missed("few clipped", found.bias, found.error / 10, rtol)


def _line(rule: Threshold, n: float) -> tuple[float, float]:
    """A and B."""
    if rule.level == 0:
        return 1 / (n - 1), 0.0
    b = 1.0 if np.isinf(rule.steepness) else (rule.steepness - 1) / (n - 1 + rule.steepness)
    return b + 1 / (n - 1), b


# -- a release ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Shift:
    """The moments of r if this entity alone is clipped, 0 for who is not: E[r], E[r^2], E[nu r], and the sizes that were subtracted."""

    r: Floats
    rr: Floats
    nu_r: Floats
    size: Floats
    second: Floats


def _shift(q: Rare) -> _Shift:
    n, rule, u = float(q.n), q.rule, q.d.x + q.drift
    a, b = _line(rule, n)
    z0, z1 = rule.level * (n - 1) / n, q.top
    some = q.law.cdf(0.5 * (q.top - u) * n / (n - 1)) > UNDERFLOW  # of y the noise is sharper: half the way is certain
    rows = np.zeros((4, u.size))
    for row, (k, z) in zip(rows, ((1, z0), (1, z1), (2, z0), (2, z1)), strict=True):
        row[some] = sum_law.clipped(u[some] - z, q.n, q.law, k)
    first, later, squares, later_squares = rows
    r = a * first - b * later
    cross = squares + (z1 - z0) * first
    rr = a * a * squares - 2 * a * b * cross + b * b * later_squares
    nu_r = a * ((z0 - u) * first - squares) - b * ((z1 - u) * later - later_squares)
    size, second = a * first + b * later, a * a * squares + 2 * a * b * cross + b * b * later_squares
    return _Shift(r, rr, nu_r, size, second + (abs(z1) + np.abs(u)) * size + a * squares + b * later_squares)


def release(q: Rare, rtol: float) -> Moments:
    """bias = drift + (n - 1) E[r_i] - sum over the others of E[r_j]; squares likewise, E[nu_j r_i] = -E[nu_i r_i]/(n - 1)."""
    n, drift, times, missed = float(q.n), q.drift, q.d.times, q.two
    s = _shift(q)
    mean = float(times @ s.r)
    bias = drift + (n * s.r - mean)
    own = 2 * (n - 1) * (s.nu_r + drift * s.r) + (n - 1) ** 2 * s.rr
    other = s.rr - 2 * drift * s.r + 2 * s.nu_r / (n - 1)
    base = sum_law.variance(q.law, q.n) + drift**2
    mse = base + own - other + float(times @ other)
    rounded = RELATIVE * (n * s.size + float(times @ s.size)) + 4e-16 * abs(drift)
    error = rounded + q.lost(missed)
    second = 2 * n * n * (s.second + abs(drift) * s.size)
    mse_error = RELATIVE * (base + second + float(times @ second) / n) + q.lost(missed, 2)
    low = q.d.x + drift - q.rule.level * (n - 1) / n
    zero, foot = np.zeros(low.size), np.zeros(low.size)
    some = q.law.cdf(0.5 * (q.top - q.d.x - drift) * n / (n - 1)) > UNDERFLOW
    foot[some] = sum_law.at_zero(low[some], q.n, q.law)
    zero[some] = sum_law.clipped(low[some], q.n, q.law, 0) + foot[some]
    plain = q.top == 0
    return q.reached(
        Moments(
            bias,
            error,
            np.maximum(mse, bias**2),
            np.clip(zero, 0.0, 1.0),
            threshold=mean if plain else None,
            mse_error=mse_error,
            zero_error=RELATIVE * zero + (0.0 if plain else foot) + missed,
            threshold_error=RELATIVE * mean + q.lost(missed) if plain else None,
            kind="bound",
        ),
        rtol,
    )


# -- shares ------------------------------------------------------------------------------------------------------------------


def _tilted_shift(q: Rare, t: Floats) -> tuple[Floats, Floats, Floats]:
    """E[r e^{-t a eta}], of r^2 and of z r: rows nodes, columns pairs."""
    a, n, rule = q.a, float(q.n), q.rule
    one, two = _line(rule, n)
    s = -np.multiply.outer(t, a)

    def clipped(cut: float) -> tuple[Floats, Floats]:
        """E[v e^{-t a eta}] and of v^2, v = a (cut - X)_+."""
        c = cut - q.d.x
        some = q.law.cdf(np.minimum(c, 0.0)) > UNDERFLOW
        at, tilt = c[some], s[:, some]
        out = np.zeros((2, t.size, c.size))
        for k in (1, 2):
            value = np.real(q.law.lower(np.broadcast_to(at, tilt.shape), tilt, k))
            out[k - 1][:, some] = (-a[some]) ** k * value * np.exp(tilt * at)
        return out[0], out[1]

    z0, z1 = rule.level * (n - 1) / n, q.top
    (v0, vv0), (v1, vv1) = clipped(z0), clipped(z1)
    wide = a * (z1 - z0)
    first = one * v0 - two * v1
    second = one**2 * vv0 - 2 * one * two * (vv0 + wide * v0) + two**2 * vv1
    cross = one * (a * z0 * v0 - vv0) - two * (a * z1 * v1 - vv1)
    return first, second, cross


def _share_moments(q: Rare, inverse: Inverse) -> tuple[Floats, Floats]:
    p, n = q.problem, float(q.n)
    bias, mse = unclipped(p, inverse)
    log, mean, _ = p.tilted(inverse.t)
    own = inverse.omega[:, None] * np.exp((log @ p.times)[:, None] - log - (inverse.t * p.mean)[:, None])
    first, second, cross = (own * v for v in _tilted_shift(q, inverse.t))
    rho = np.sum(first, axis=0)
    lift = n * rho - float(p.times @ rho)
    twice = inverse.t[:, None]
    others = (first @ p.times)[:, None] - first
    square = (n - 1) * (2 * cross + (n - 1) * second) + (second @ p.times)[:, None] - second - 2 * (p.c + mean) * others
    bias = bias + lift
    return bias, np.maximum(mse + np.sum(twice * square, axis=0) - 2 * p.shares * lift, bias**2)


def shares(q: Rare, rtol: float) -> Moments:
    """bias = E[(z_i - P_i S)/S] + n E[r_i/S] - sum over all of E[r_j/S]."""
    cut = q.rule.level * (q.n - 1) / q.n - q.d.x
    foot = np.asarray(q.law.density(np.rint(cut))) * (np.abs(cut - np.rint(cut)) <= AT_EDGE * (1 + np.abs(cut)))
    zero = q.law.cdf(cut)
    unsure = foot if q.law.discrete and q.top > 0 else 0 * foot
    return share_answer(q, lambda inverse: _share_moments(q, inverse), q.two, zero, unsure, rtol)


def share_answer(q: Rare, moments, missed: float, zero: Floats, unsure: Floats, rtol: float) -> Moments:
    """From bias and mean square with a stand-in for 1/S: with its errors, and those of an event of the chance `missed`."""
    known = fitted(q.problem, rtol, moments, ROUNDING)
    if known is None:
        return Moments.unknown(q.d.x.size, "S may come near 0")
    inverse, bias, mse = known
    p = q.problem
    error = np.sqrt(mse) * inverse.rms + inverse.tail + q.lost(missed) + ROUNDING * (np.abs(bias) + float(np.ptp(bias)))
    before = unclipped(p, inverse)[1]
    return q.reached(
        Moments(
            bias,
            error,
            mse,
            zero,
            degenerate=chance_negative(p),
            mse_error=of_clipped(inverse, mse, before, p.shares) + q.lost(missed, 2),
            zero_error=unsure + missed + ROUNDING + inverse.tail,
            kind="bound",
        ),
        rtol,
    )


# -- for the engine that simulates ---------------------------------------------------------------------------------------------


def known_part(x: Floats, a: Floats, times: Counted, law: Law, rule: Threshold, total: float | None) -> Floats | None:
    """E psi0_i for each distinct (x, a), x ascending: psi0_i is the conditional mean, given all other noises, of g_i (a release) or g_i/S
    (shares, total None) with all others kept in full; it hangs on the sum of their noises alone.

    So E[g_i] = known_part_i + E[psi_i - psi0_i], and only the difference, which is 0 in most draws where clipping is rare, is simulated. None
    where S may come near 0. Where clipping is not rare psi0_i is a control and no more: do not take it with the coefficient 1.
    """
    q = Rare(Distinct(x, a, times, np.arange(x.size), a * x / float((a * x) @ times)), law, rule, total)
    if total is not None:
        return float(q.n) * _shift(q).r
    known = fitted(q.problem, 1e-9, lambda inverse: _share_moments(q, inverse), ROUNDING)
    if known is None:
        return None
    inverse, p = known[0], q.problem
    log = p.tilted(inverse.t)[0]
    own = inverse.omega[:, None] * np.exp((log @ p.times)[:, None] - log - (inverse.t * p.mean)[:, None])
    return float(q.n) * np.sum(own * _tilted_shift(q, inverse.t)[0], axis=0)
