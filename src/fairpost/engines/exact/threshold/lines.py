"""`pos-threshold` under continuous noise and equal weights for any sign of S and any number of entities: integrals over (r, s, t).

z_j = c_j + eta_j in units of the noise, phi(u) = u for u > tau, else 0. Where S = sum z > 0, r is where H(r) = sum phi(z_j - r) passes S,
entity i gets v_i = phi(z_i - r), or v between 0 and tau where r stands at its edge z_i - tau, and its share is v_i/S. For S < 0 the same
holds with -z. H(r) - S = W(r) - nr, W the sum of r - z_j over those that are dropped, z_j <= r + tau; a regular root has the Jacobian K =
n - #dropped, and at the edge of m W without m is nr + tau - v. S itself is what the kept ones add up to, so S > 0 needs no condition.
With 1/S = int e^{-tS} dt

    psi_j = E[e^{s (z_j - r)}; dropped] + E[e^{-t (z_j - r)}; kept] = D_j + U_j,   V_i = E[(z_i - r) e^{-t (z_i - r)}; kept],
    J_k = int_0^tau v^k e^{-tv} e^{s (tau - v)} dv,   f_m the density of z_m at r + tau,
    K_i = sum_{j != i} U_j/psi_j,   L_i = sum_{m != i} f_m/psi_m,

    E[v_i/S; S > 0] = int dt int dr (1/2 pi i) int ds e^{snr} prod psi / psi_i [V_i (1 + K_i + J_0 L_i) + f_i J_1];

the square has t dt, V_i with (z_i - r)^2, and J_2; P(v_i = 0, S > 0) has t = 0 alone and D_i (K_i + J_0 L_i); P(S > 0), which is known, K
+ J_0 L.

The law of W has jumps, so that the product decays slowly along Re s = 0. But r and v do not care where z begins: if the equation is
disturbed by y, W - nr = y, the shares are those of z - y/n in place of z. So a cut-off chi(Im s), the transform of a law of y, replaces
F(0) by the mean of F(-y/n), F(d) the integral for counts c + d. F is smooth: analytic under Gaussian noise, where its transform falls as
e^{-w^2/2n}; under Laplace noise piecewise so, with corners of an order 2n. A chi that is 1 up to a frequency Y and falls smoothly then
leaves what F has beyond w = nY, and no more: 1e-8 for some w = 25. Along Re s = 0 everything is bounded, equal steps in s are exact but
for masses of W - nr at multiples of 2 pi/step, which Chernoff's bound puts out of reach, and panels of r follow the phase.

As t grows E[v e^{-tS}] falls like 1/t^2 with a series in 1/t: Gauss-Legendre in 1/(1 + t sd/2) takes a dozen nodes. Many close counts are
carried by Chebyshev nodes: log psi and the answers are smooth in c.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fairpost import cancel
from fairpost.engines.closed.quadrature import Rule, legendre
from fairpost.engines.closed.shares import SAFETY, moved, range_error, reached, refusal, symmetric
from fairpost.engines.exact.pos.inverse import Inverse, inverse_of
from fairpost.engines.exact.pos.problem import Problem, chance_negative
from fairpost.engines.exact.sums.factors import Complexes
from fairpost.engines.exact.threshold.nodes import (
    LEVELS,
    SMOOTH,
    Level,
    Values,
    apart,
    chebyshev,
    jumps,
    line,
    panels,
    window,
)
from fairpost.engines.moments import Floats, Moments
from fairpost.errors import ToleranceError
from fairpost.parallel import over_slices

CLOSE, FEW = 0.5, 10
"""More distinct counts than FEW, within CLOSE noise scales, are carried by Chebyshev nodes."""
WORK, MOST = 1.2e8, 1.2e9
"""The most (r, s, t, count) values (some 6 ns each) for the two levels that a refusal needs, and for one level after them."""
ASTRAY = 0.05
"""By how much a level may miss the chance of a positive sum; those that go on to a tolerance miss it by 1e-6."""
NEVER = 1e-18
"""Who is kept with a smaller chance (over n) is always dropped."""
BLOCK = 400_000
"""(r, s, count) and (r, t, count) values at a time."""
ROUNDING = 1e-13
OUTLOOK = 8.0
"""What a further level gains at the least, in its two steps of a factor 1.4: 1.4^6 is the slowest (three Laplace noises)."""


@dataclass(frozen=True)
class Sums:
    """E[share], E[share^2] and P(share = 0) on one side of S = 0, and its chance."""

    first: Floats
    second: Floats
    zero: Floats
    chance: float

    def __add__(self, other: Sums) -> Sums:
        return Sums(
            self.first + other.first, self.second + other.second, self.zero + other.zero, self.chance + other.chance
        )


def shares(problem: Problem, tau: float, rtol: float) -> Moments:
    """Moments of `pos-threshold` for three or more entities whose weights are alike."""
    name, unit = "pos-threshold" if tau > 0 else "pos", problem.mechanism.spread
    times = problem.times.astype(np.float64)
    values = Values(problem.mechanism.scaled(1.0), problem.c / unit, problem.a, times, tau / unit, True)
    negative, inverse = chance_negative(problem), inverse_of(problem, 0.02 * rtol)
    chances = (1 - negative, negative if negative > 1e-14 else 0.0)
    p, spent = problem.shares, 0.0
    before: tuple[Sums, Floats] | None = None
    known: tuple[Floats, Floats] | None = None
    for at, level in enumerate(LEVELS):
        cancel.check()
        plans = [
            _plan(replace(values, c=sign * values.c), level, inverse, unit)
            for sign, chance in zip((1.0, -1.0), chances, strict=True)
            if chance > 0
        ]
        spent += (cost := sum(plan.work for plan, _ in plans))
        if (at < 2 and spent + (2.5 * cost if at == 0 else 0.0) > WORK) or cost > MOST:
            why = f"the integral over (r, s, t) has {cost:.2g} nodes, which would take too long"
            raise ToleranceError(f"{name}: {why}") if known is None else refusal(name, *known, rtol, why)
        sides = [carry(plan.sums()) for plan, carry in plans]
        now = sides[0] if len(sides) == 1 else sides[0] + sides[1]
        mass = float(np.sum(times * now.first))
        bias = now.first - p * mass
        if abs(now.chance - sum(chances)) > ASTRAY:
            raise ToleranceError(
                f"{name}: the first rules miss the chance of a positive sum by {abs(now.chance - sum(chances)):.2g}"
            )
        if before is not None:
            lost = (
                abs(now.chance - sum(chances))
                + (0.0 if inverse else abs(mass - now.chance))
                + 2 * negative * (len(sides) == 1)
            )
            mse = np.maximum(now.second - 2 * p * now.first + p * p, bias**2)
            inexact = 0.0 if inverse is None else inverse.rms * np.sqrt(mse) + inverse.tail
            error = moved(bias, before[1], now.first) + (lost + ROUNDING) * (p + now.first) + inexact
            known = bias, error
            if reached(bias, error, p, rtol):
                return symmetric(_moments(now, before[0], p, bias, error, mse, lost, inverse, negative))
            alpha, slack = range_error(bias, error)
            if problem.c.size > 1 and slack > rtol * alpha * OUTLOOK ** (len(LEVELS) - 1 - at):
                break
        before = now, bias
    raise refusal(name, bias, error, rtol)


def _moments(
    now: Sums,
    before: Sums,
    p: Floats,
    bias: Floats,
    error: Floats,
    mse: Floats,
    lost: float,
    inverse: Inverse | None,
    negative: float,
) -> Moments:
    """With the errors of the squares and chances."""
    square = 0.0 if inverse is None else 3 * mse * inverse.square + inverse.tail
    spread = SAFETY * moved(now.second, before.second, now.second) + 2 * p * error + lost + ROUNDING + square
    chance = SAFETY * moved(now.zero, before.zero, now.zero) + lost + ROUNDING
    stated: dict[str, Any] = {"mse_error": np.asarray(spread), "zero_error": np.minimum(chance, 1.0)}
    return Moments(bias, error, mse, np.clip(now.zero, 0.0, 1.0), degenerate=negative, **stated)


@dataclass(frozen=True)
class Plan:
    """The nodes of one side at one level."""

    values: Values
    """Those who may be kept."""
    dropped: Values
    """Those who never are: their factors do not depend on t."""
    n: float
    r: Rule
    u: Floats
    """Im s."""
    cut: Floats
    """What each has for a weight: the cut-off, the step, 1/pi."""
    t: Rule

    @property
    def work(self) -> float:
        """How many values the kernel goes through; a logarithm each counts eight, a factor D two (Laplace) or eight."""
        each = self.t[0].size * (1.0 if self.values.exact else 8.0) + (8.0 if self.values.gaussian else 2.0)
        return float(self.r[0].size * self.u.size) * each * self.values.c.size

    def sums(self) -> Sums:
        """The kernel's sums over all nodes."""
        from fairpost.engines.exact.threshold.kernels.lines import add_shares

        v, (r, weight), (t, omega) = self.values, self.r, self.t
        u, s, number = self.u, 1j * self.u, self.n - self.dropped.n
        levels, which = np.unique(v.a * v.tau, return_inverse=True)
        jump = apart(np.stack([np.stack(jumps(s, t, level), axis=0) for level in levels], axis=1).swapaxes(2, 3))
        fold = apart(np.exp(np.multiply.outer(levels, s)))
        centre = 0.5 * (r[0] + r[-1])  # neither r nor the counts near it lie far from it, whatever their size
        turned = apart(np.exp(np.multiply.outer(v.c - centre, s)) * _whole(v, u))
        weights, before = np.stack([omega, omega * t]), apart(self.cut * self._never())
        rows = max(1, BLOCK // (max(u.size, 3 * t.size) * v.c.size))
        blocks = [slice(i, min(i + rows, r.size)) for i in range(0, r.size, rows)]

        def some(part: slice) -> tuple[Floats, float]:
            out, chance = np.zeros((3, v.c.size)), 0.0
            for b in blocks[part]:
                cancel.check()
                c = v.cut(r[b])
                kept, edge = _kept(v, c, t), np.asarray(v.noise.density(c) / v.a)
                chance += add_shares(
                    v.gaussian, r[b], u, v.a, centre, number, c, edge, kept, turned, fold, before, weight[b], jump, which, weights,
                    v.times, v.exact, out,
                )  # fmt: skip
            return out, chance

        found = over_slices(some, len(blocks), None if len(blocks) > 1 else 1)
        out = np.sum([one for one, _ in found], axis=0)
        return Sums(out[0], out[1], out[2], sum(chance for _, chance in found))

    def _never(self) -> Complexes:
        """prod E[e^{s z}] over those who are never kept; their e^{-sr} meet the n r of the phase."""
        d = self.dropped
        if d.c.size == 0:
            return np.ones(self.u.size, dtype=np.complex128)
        turn = self.u * float(np.sum(d.times * d.c))
        square = np.multiply.outer(self.u, d.a) ** 2
        log = -0.5 * square if d.gaussian else -np.log1p(square)
        return np.asarray(np.exp(log @ d.times + 1j * turn))


def _kept(v: Values, c: Floats, t: Floats) -> Floats:
    """E[(z - r)^k e^{-t(z - r)}; kept] of (k, r, count, t)."""
    a, edge = v.a, v.a * v.tau
    u0, u1, u2 = (v.noise.upper(c[:, :, None], -np.multiply.outer(a, t), k) * (a**k)[:, None] for k in range(3))
    one, two = edge[:, None], (edge**2)[:, None]
    return np.stack([u0, u1 + one * u0, u2 + 2 * one * u1 + two * u0]) * np.exp(-np.multiply.outer(edge, t))


def _whole(v: Values, u: Floats) -> Floats:
    """E[e^{s a eta}], one row per count."""
    square = np.multiply.outer(v.a, u) ** 2
    return np.asarray(np.exp(-0.5 * square) if v.gaussian else 1 / (1 + square))


def _plan(v: Values, level: Level, inverse: Inverse | None, unit: float) -> tuple[Plan, Callable[[Sums], Sums]]:
    """The nodes, and what carries their values to the counts."""
    n, size = v.n, v.c.size
    mean, square = float(np.sum(v.times * v.c)), v.noise.variance * float(np.sum(v.times * v.a**2))
    top = level.frequency * v.frequency()
    width = top / SMOOTH
    reach = 2 * math.sqrt(level.quiet) / width
    low, high = window(v, level.quiet)
    low, high = low - reach / n, high + reach / n
    u, cut = line(v, top, width, low, high, level, reach)
    may = v.noise.sf(v.cut(low)) > NEVER / n
    near, never = v.part(may), v.part(~may)
    carry = None
    if near.c.size > FEW and float(np.ptp(near.c)) <= CLOSE and np.ptp(near.a) == 0:
        x, carry = chebyshev(near.c, level.nodes)
        near = replace(near, c=x, a=np.full(x.size, near.a[0]), times=near.times @ carry, exact=False)
    if inverse is not None:
        t: Rule = (inverse.t * unit, inverse.omega * unit)
    else:
        w, weight = legendre(level.tilts)
        t = (
            2 * (1 / w - 1) / math.hypot(mean, math.sqrt(square)),
            2 * weight / (w * w) / math.hypot(mean, math.sqrt(square)),
        )
    t = (np.append(0.0, t[0]), np.append(0.0, t[1]))

    def spread(found: Sums) -> Sums:
        """To all counts; who is never kept has nothing."""
        out = np.zeros((3, size))
        out[2] = found.chance
        out[:, may] = [
            values if carry is None else carry @ values for values in (found.first, found.second, found.zero)
        ]
        return Sums(out[0], out[1], out[2], found.chance)

    return Plan(near, never, n, panels(near, low, high, u[-1], level), u, cut, t), spread
