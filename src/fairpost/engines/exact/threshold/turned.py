"""`pos-threshold` under Gaussian noise for any weights and either sign of S: r and s in the complex plane, all sets in one product.

z_j = a_j (x_j + eta_j) in units of the noise, tau_j = a_j tau; D_j, U_j, V_i, f_j, J_k as in `lines`, where it is shown that

    E[v_i/S; S > 0] = int dt int dr (1/2 pi i) int ds e^{snr} prod psi / psi_i [V_i (1 + K_i + J_0 L_i) + f_i J_1],   psi_j = D_j + U_j,

and likewise for the square, for P(v_i = 0) and for P(S > 0), which is known. With weights over orders of magnitude the product has
structure at the scale of every weight, and for real r its terms e^{s Y}, Y = nr + tau_A for a set A that is dropped (`sets`), have places Y
of either sign: s can turn neither way. But everything is analytic in r, and the path of r may turn too.

**r < 0** goes along r = -rho e^{-i 2 alpha}, and s = w e^{i (pi/2 + alpha)} (the lower half of its line is the conjugate). Then Re(s n r) =
-n w rho sin(alpha), Re(s tau_A) = -w tau_A sin(alpha): every term falls, whatever its set, and so do the whole transforms e^{s^2 a^2/2}, within
45 degrees of upright. **r > 0** may stay real: Y = nr + tau_A > 0, and s turns left by beta, half way to where e^{s^2 a^2/2}
no longer falls. The two rays of r meet in 0, where e^{snr} = 1 for any s, so each may have its own turn.

**What does not fall.** At r = 0 the factor e^{snr} is gone, and of J_0 = (e^{s tau} - e^{-t tau})/(s + t) the second part, v = tau_e, does not
fall with s. Beside any D_j it does, by that. So just where nobody else is dropped terms are left that fall like 1, 1/s, 1/s^2, 1/s^3:

    e^{snr} prod U [nu_i (n - (h - h_i)/(s+t)) - h_i (tau_i/(s+t) + 1/(s+t)^2)],   nu_i = V_i/U_i, h_e = e^{-t tau_e} f_e/U_e, h their sum.

They are taken off under the integral and added as what they are: n e^{snr} is n delta(nr), so that nobody is dropped and r = 0, a sum over t
alone; and (1/2 pi i) int e^{sy}/(s+t)^{k+1} ds is y^k/k! e^{-ty} for y = nr > 0 and 0 for r < 0, an integral over the real r of its ray. (In
place of 1/(s+t), which has its pole at 0 for t = 0, stands 1/(s+t+kappa) with as many terms of its series as leave 1/s^4.)

**Nodes.** log |r|, log |s| and log t in equal steps, their lower ends drawn out doubly exponentially: structure at every scale costs the
logarithm of the weights' ratio. The integrand is analytic and bounded while each ray turns as far as the next limit: s and r by alpha each for
r < 0, by beta for r > 0, and t, since e^{-tS} is bounded wherever Re t > 0, by 90 degrees less alpha or beta, where it meets -s. So a step
2 pi d/L, d that angle, leaves e^-L. Where t is large S is below 1/t: what the nodes from t on add falls like 1/t, and a step 2 pi d/(L - log t)
is enough.
For r < 0 a Gaussian density at r + tau_j, c = (r + tau_j)/a_j - x_j, grows up to exp(c_0^2/2 sin^2(3 alpha)/cos(6 alpha)), where
c_0 = tau - x_j, at the end of r's strip, 3 alpha; for x_j < 0 whole transforms grow as much, with x_j for c_0, at the end of s's, 2 beta.
alpha and beta keep what all factors together grow by at one scale below e^GROWTH. Where counts lie many deviations above 0 the edges of r > 0
are narrow in log r, and Gauss-Legendre on panels that are short there takes the place of equal steps.

**Errors.** What the last level changed, which is the error of the level before: a level gains e^-5. The chance of S > 0 and of S < 0, which no
step of the rule knows, and the sum of the shares, which must be that chance. Rounding by the sum of the sizes of what was added.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fairpost import cancel
from fairpost.engines.closed.quadrature import on_panels
from fairpost.engines.closed.shares import SAFETY, changed, moved, range_error, reached, refusal
from fairpost.engines.exact.pos.problem import Problem, chance_negative
from fairpost.engines.exact.sums.factors import Complexes
from fairpost.engines.exact.threshold.sets import panels
from fairpost.engines.moments import Counted, Floats, Moments
from fairpost.errors import ToleranceError
from fairpost.parallel import over_slices

FIRST, STEP, LEVELS, FINEST = 4.4, 5.0, 4, 36.0
"""Level L aims at e^-L. The second of LEVELS levels, STEP apart, aims at e^-FIRST times what is needed: it states 4 GAIN e^STEP e^-L or so.
Beyond FINEST is rounding."""
ROUGHLY, ROUGHLY_WORK = 6.0, 0.02
"""A level that shows alpha, and the part of WORK that it may take."""
GAIN = math.exp(-2.0)
"""What of the last change is the error of the last level. It should be e^-5; e^-2 holds if strips are 0.4 times as wide as they are made."""
GROWTH, MOST = 4.0, math.radians(42.0)
"""How far a density may grow (in its logarithm) at the end of r's strip, and the most that strip may turn."""
ROOM, SLOW = 8.0, 4.0
"""What is left out is smaller by e^-ROOM; steps of log t grow by (level + ROOM + SLOW)/SLOW at the most."""
NEAR = 3.0
"""Edges up to so many deviations are smooth in log r."""
WORK, VISITED, CROWD = 8e8, 0.4, 20
"""The most (r, s, t, pair) values on the second level, some 15 ns each. About VISITED of all matter, and less than that, by the root of their
number, where there are more pairs than CROWD."""
LARGEST = 400
"""The most pairs."""
LEAST = math.radians(2.0)
"""Contours that turn less would take too many steps."""
BLOCK = 8
ROUNDING = 1e-15
LOW = 8.0
"""Counts so many deviations above the threshold stay there."""
OUTLOOK = 4.0
"""What a further level is hoped to gain, in its logarithm; 5 is what it is made for."""


@dataclass(frozen=True)
class Side:
    """One sign of S: the distinct pairs in units of the noise, and how often each is there."""

    a: Floats
    x: Floats
    times: Counted
    tau: float

    @cached_property
    def n(self) -> int:
        """How many there are."""
        return int(self.times.sum())

    @cached_property
    def deviation(self) -> float:
        """The standard deviation of S."""
        return math.sqrt(float(np.sum(self.times * self.a**2)))

    @cached_property
    def alpha(self) -> float:
        """How far s turns with r < 0; r turns twice as far, and its strip as far again: densities at r + tau_j grow there."""
        c, v = self.tau - self.x, np.multiply.outer(self.scales, 1 / self.a)
        return self._bounded(lambda turn: c * v * math.cos(turn) - 0.5 * (v * v * math.cos(2 * turn) + c * c)) / 3

    @cached_property
    def beta(self) -> float:
        """How far s turns where r > 0 stays real; its strip as far again: whole transforms E[e^{sz}] grow there."""
        v = np.multiply.outer(1 / self.scales, self.a)
        return self._bounded(lambda turn: -self.x * v * math.sin(turn) - 0.5 * v * v * math.cos(2 * turn)) / 2

    @cached_property
    def scales(self) -> Floats:
        """Places of r, or of 1/s."""
        low, high = float(np.min(self.a)), float(np.max(self.a))
        return np.geomspace(0.1 * low, 20.0 * high, 8 + math.ceil(6 * math.log(200 * high / low)))

    def _bounded(self, growth: Callable[[float], Floats]) -> float:
        """The largest angle at which the factors, each where it grows, together grow by less than e^GROWTH."""

        def fits(turn: float) -> bool:
            return bool(np.max(np.maximum(growth(turn), 0.0) @ self.times) <= GROWTH)

        if fits(MOST):
            return MOST
        low, high = 0.0, MOST
        while high - low > 1e-3:
            turn = 0.5 * (low + high)
            low, high = (turn, high) if fits(turn) else (low, turn)
        return low

    @cached_property
    def smallest(self) -> float:
        """The smallest threshold."""
        return self.tau * float(np.min(self.a))

    def tilts(self, level: float) -> tuple[Floats, Floats]:
        """t and its weights; 0 first, without a weight."""
        size = math.hypot(float(np.sum(self.times * self.a * self.x)), self.deviation)
        step = 2 * math.pi * (0.5 * math.pi - max(self.alpha, self.beta)) / level
        most = level + ROOM + SLOW
        low = math.log(0.05 * self.deviation / size)
        low -= 0.5 * low * low / most
        high = 0.5 * (most - SLOW * SLOW / most)
        y = np.arange(low - math.log(level + ROOM), high + step, step)
        root, down = np.sqrt(1 - 2 * np.minimum(y, high) / most), np.exp(low - y)
        t = np.exp(most * (1 - root) - down) / self.deviation
        return np.append(0.0, t), np.append(0.0, t * (1 / root + down) * step)

    def contour(self, turn: float, top: float, level: float) -> tuple[Complexes, Complexes]:
        """s and ds/pi for r up to a top."""
        low = math.log(0.02 / (self.n * top + self.tau * float(np.sum(self.times * self.a)) + self.deviation))
        high = math.log((level + ROOM) / (self.smallest * math.sin(turn)))
        size, weight = equal_steps(low, high, 2 * math.pi * turn / level, level)
        ray = np.exp(1j * (math.pi / 2 + turn))
        return size * ray, weight * ray / math.pi

    def shifts(self, back: bool, level: float) -> tuple[Complexes, Complexes, float]:
        """r and dr below 0 or above it, and how far |r| goes."""
        reach, m = math.sqrt(2 * (level + ROOM)), self.a * self.x
        low = math.log(0.1 * min(self.smallest, float(np.min(self.a))) / self.n)
        if back:
            wide = reach / math.sqrt(math.cos(4 * self.alpha))
            top = max(float(np.max(self.a * (self.tau + wide) - m)), self.smallest)
            r, weight = equal_steps(low, math.log(top), 2 * math.pi * self.alpha / level, level)
            ray = np.exp(-2j * self.alpha)
            return -r * ray, weight * ray, top
        top = reach * self.deviation + float(np.sum(self.times * np.maximum(-m, 0.0)))
        edges = m - self.tau * self.a
        if np.max((self.x - self.tau)[edges < top], initial=0.0) <= NEAR:
            r, weight = equal_steps(low, math.log(top), 2 * math.pi * self.beta / level, level)
        else:
            ends = panels(0.0, top, edges, np.append(edges, 0.0), np.append(self.a, math.exp(low)))
            r, weight = on_panels(ends, round(level / 2))
        return r.astype(np.complex128), weight.astype(np.complex128), top


def equal_steps(low: float, high: float, step: float, level: float) -> tuple[Floats, Floats]:
    """Equal steps of log u, and du; the lower end drawn out doubly exponentially."""
    y = np.arange(low - math.log(level + ROOM), high + step, step)
    down = np.exp(low - y)
    u = np.exp(y - down)
    return u, u * (1 + down) * step


@dataclass(frozen=True)
class Plan:
    """One side on one level."""

    side: Side
    level: float
    t: Floats
    omega: Floats
    rays: tuple[tuple[Complexes, Complexes, Complexes, Complexes], ...]
    """r, dr, s, ds of r > 0 and of r < 0."""

    @classmethod
    def of(cls, side: Side, level: float) -> Plan:
        """All nodes."""
        t, weight = side.tilts(level)
        rays = []
        for back in (False, True):
            r, dr, top = side.shifts(back, level)
            rays.append((r, dr, *side.contour(side.alpha if back else side.beta, top, level)))
        return cls(side, level, t, np.stack([weight, weight * t]), tuple(rays))

    @property
    def work(self) -> float:
        """How many values matter, by and large."""
        m = self.side.a.size
        every = float(sum(r.size * s.size for r, _, s, _ in self.rays) * self.t.size * m)
        return VISITED * every * math.sqrt(min(1.0, CROWD / m))

    def sums(self) -> Sums:
        """The kernel's sums over all of them."""
        from fairpost.engines.exact.threshold.kernels.turned import add_none, add_shares

        v, parts = self.side, np.zeros((3, self.side.a.size))
        found = Sums(parts, add_none(self.t, self.omega, v.a, v.x, v.tau, v.times, parts), 0.0)
        for r, dr, s, ds in self.rays:
            blocks = [slice(i, i + BLOCK) for i in range(0, r.size, BLOCK)]

            def one(b: slice, r: Complexes = r, dr: Complexes = dr, s: Complexes = s, ds: Complexes = ds) -> Sums:
                cancel.check()
                out = np.zeros_like(parts)
                chance, size = add_shares(
                    r[b], dr[b], s, ds, self.t, self.omega, v.a, v.x, v.tau, v.times, 1 / v.deviation, self.level + ROOM, out
                )  # fmt: skip
                return Sums(out, chance, size)

            def some(which: slice, blocks: list[slice] = blocks, one: Callable[[slice], Sums] = one) -> list[Sums]:
                return [one(b) for b in blocks[which]]

            for part in over_slices(some, len(blocks), None):
                for more in part:
                    found += more
        return found


@dataclass(frozen=True)
class Sums:
    """E[share], E[share^2] and P(share = 0) of every pair on one side of S = 0, its chance, and the size of what was added to that."""

    parts: Floats
    chance: float
    size: float

    def __add__(self, other: Sums) -> Sums:
        return Sums(self.parts + other.parts, self.chance + other.chance, self.size + other.size)


def _size(problem: Problem, unit: float, tau: float) -> float:
    """What alpha may be where S > 0 is sure: what those who may be dropped are to it."""
    low = problem.c < (tau + LOW * unit) * problem.a
    return min(1.0, unit * float(np.sum((problem.times * problem.a)[low])) / problem.mean)


def _first(sides: list[Side], p: Floats) -> float:
    """Alpha from a level that takes next to no time: what it says how far to go is worth more."""
    plans = [Plan.of(side, ROUGHLY) for side in sides]
    if sum(plan.work for plan in plans) > ROUGHLY_WORK * WORK:
        raise ToleranceError("pos-threshold: the integral over (r, s, t) would take too long")
    return max(float(np.ptp(sum(plan.sums().parts[0] for plan in plans) - p)), math.exp(-ROUGHLY))


def shares(problem: Problem, tau: float, rtol: float) -> Moments:
    """Moments of `pos-threshold` under Gaussian noise for three or more entities."""
    unit, negative = problem.mechanism.spread, chance_negative(problem)
    x, both = problem.c / problem.a / unit, negative > 1e-14
    sides = [Side(problem.a, sign * x, problem.times, tau / unit) for sign in ((1.0, -1.0) if both else (1.0,))]
    chances = (1 - negative, negative)[: len(sides)]
    if problem.c.size > LARGEST or min(min(side.alpha, side.beta) for side in sides) < LEAST:
        raise ToleranceError(
            f"pos-threshold: contours in the complex plane need at most {LARGEST} pairs, and counts within some 20 noise deviations where "
            f"their sum may be negative; got {problem.c.size} pairs and {float(np.max(x)):.3g} deviations"
        )
    p = problem.shares
    alpha = _size(problem, unit, tau) if len(sides) == 1 else _first(sides, p)
    need = FIRST + math.log1p(problem.n / CROWD) - math.log(rtol * max(alpha, 1e-300))
    levels = [level for level in (need + STEP * k for k in range(-1, LEVELS - 1)) if level < FINEST]
    if len(levels) < 2:
        raise ToleranceError(
            "pos-threshold: alpha is too small for contours in the complex plane, which give shares and not differences"
        )
    last = sum(Plan.of(side, levels[1]).work for side in sides)
    if last > WORK:
        raise ToleranceError(
            f"pos-threshold: the integral over (r, s, t) has {last:.2g} nodes, which would take too long"
        )
    before: tuple[Floats, Floats] | None = None
    error = np.full(p.size, np.inf)
    for at, level in enumerate(levels):
        cancel.check()
        plans = [Plan.of(side, level) for side in sides]
        found = [plan.sums() for plan in plans]
        now = sum((one.parts for one in found[1:]), found[0].parts)
        chance = sum(one.chance for one in found)
        mass = float(np.sum(problem.times * now[0]))
        bias = now[0] - p * mass
        mse = np.maximum(now[1] - 2 * p * now[0] + p * p, bias**2)
        if not np.all(np.isfinite(now)):
            raise ToleranceError("pos-threshold: the terms of the integral over (r, s, t) are too large")
        if before is not None:
            lost = sum(abs(one.chance - sure) for one, sure in zip(found, chances, strict=True)) + abs(mass - chance)
            lost += 2 * negative * (not both) + ROUNDING * problem.n * sum(one.size for one in found)
            error = GAIN * changed(bias, before[1], p + now[0]) + lost * (p + now[0])
            if reached(bias, error, p, rtol):
                return Moments(
                    bias,
                    error,
                    mse,
                    np.clip(now[2], 0.0, 1.0),
                    degenerate=negative,
                    mse_error=SAFETY * moved(now[1], before[0][1], now[1]) + 2 * p * error + lost,
                    zero_error=np.minimum(SAFETY * moved(now[2], before[0][2], now[2]) + lost, 1.0),
                )
            alpha, slack = range_error(bias, error)
            if not 0 < slack / max(alpha, 1e-300) < 1:
                break
            more = math.ceil(math.log(slack / (rtol * alpha)) / OUTLOOK)
            if at + more >= len(levels) or sum(Plan.of(side, levels[at + more]).work for side in sides) > 3 * WORK:
                break
        before = now, bias
    raise refusal("pos-threshold", bias, error, rtol)
