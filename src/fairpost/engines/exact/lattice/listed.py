"""Whole-number noise that takes few values: every noise that matters is listed, and the rule itself is applied to it.

E[f(x + eta)] = sum p(eta) f(x + eta) over all vectors of noises that are likely enough where there are few of them (few entities), or over
those with at most one noise that is not 0 (a noise next to none). What is left out has a known chance Q. A share then differs from the true
one by at most 1, and PoS by at most 4 sum_j a_j |eta_j| / sum a x: the projection does not expand, and

    |z_i/S - P_i| <= (a_i |eta_i| + P_i sum a |eta|)/S,   S >= sum a x / 2   or else   sum a |eta| > sum a x / 2.

The chance of a vector falls with one whole number, its *size* q: sum |eta| (discrete Laplace) or sum eta^2 (discrete Gaussian). So the likely
ones are a ball, q <= R: of four noises one twelfth of the cube that holds as much. The law of q is that of one noise, folded n times: it says
before the work how many vectors a ball has and what lies outside. Entities with equal count and weight are exchangeable: of their noises those
in ascending order are listed, each as often as it has orders.

A short list says what alpha is at least, and with it what the last one may leave out. No list is kept: a kernel walks the ball and applies the
rule to each vector. Any weights are covered, since nothing but the rule is used.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from fairpost import cancel
from fairpost.engines.closed.shares import range_error
from fairpost.engines.evaluation import Distinct
from fairpost.engines.moments import Floats, Moments
from fairpost.noise import Law
from fairpost.rules import PoS, PosThreshold
from fairpost.rules.threshold import DUST

POINTS = 8e7
"""The most noises, times entities: some two seconds."""
QUICK = 1.5e7
"""So many of them are listed for more digits than were asked for, and to see how small alpha is."""
MOST = 60
"""The most entities of which a ball is walked."""
SINGLE = 3e6
"""The same for one noise at a time."""
TABLE = 2e8
"""The most steps of folding a law."""
ROUGH = (1e-2, 1e-5, 1e-11, 1e-18, 1e-28)
"""The chances that the first lists leave out, which say how small alpha is."""
FINE = 1e-11
"""What a quick list leaves out."""
REST = 1e-16
"""What a table of sizes leaves out, unless less is asked for."""
Rule = PoS | PosThreshold


@dataclass
class _Sums:
    bias: Floats
    mse: Floats
    zero: Floats
    degenerate: float = 0.0
    dust: float = 0.0
    """The chance of a share that is 0 but for rounding (at the foot of a ramp), at most."""

    @classmethod
    def of(cls, n: int) -> _Sums:
        return cls(np.zeros(n), np.zeros(n), np.zeros(n))


@dataclass(frozen=True)
class Ball:
    """The sizes q of n noises: how many vectors have each, their chance, and what lies beyond."""

    noise: Law
    n: int
    times: tuple[int, ...] = ()
    """How many entities are equal; none given: all differ."""
    rest: float = REST
    """What lies beyond the table."""

    @cached_property
    def square(self) -> bool:
        """The size is a sum of squares."""
        return bool(np.isinf(self.noise.strip))

    @cached_property
    def _furthest(self) -> int:
        return _reach(self.noise, self.n, self.rest)

    @property
    def steps(self) -> float:
        """What folding the law takes."""
        return max(self.n, self.n**2 / 6) * float(self._furthest) ** (3 if self.square else 2)

    def fewest(self, left: float) -> float:
        """So many vectors, in order, at the least hold all but `left`: none has more than P(0)^n, once for each order of equal entities."""
        log = self.n * math.log(float(self.noise.density(0.0))) + sum(math.lgamma(m + 1) for m in self.times)
        return (1 - left) * math.exp(min(-log, 700.0))

    def deeper(self, left: float) -> Ball:
        """One that can leave out so little, where that can be folded."""
        more = replace(self, rest=0.01 * left)
        return self if left > 10 * self.rest or more.steps > TABLE else more

    @cached_property
    def _folded(self) -> tuple[Floats, Floats]:
        """For q = 0, 1, ...: the number of vectors, and their chance; as far as `rest` is left."""
        k = np.arange(self._furthest + 1)
        mass = np.asarray(self.noise.density(k.astype(np.float64)))
        size = k * k if self.square else k
        many, chance = np.ones(1), np.ones(1)
        for _ in range(self.n):
            more, with_it = np.zeros((2, many.size + int(size[-1])))
            for q, p in zip(size.tolist(), mass.tolist(), strict=True):
                signs = 2.0 if q > 0 else 1.0
                more[q : q + many.size] += signs * many
                with_it[q : q + many.size] += signs * p * chance
            many, chance = more, with_it
        return many, chance

    @cached_property
    def _beyond(self) -> Floats:
        """For each q: the chance of a larger size, and that part of E[sum |eta|]; sum |eta| <= (n sum eta^2)^(1/2)."""
        _, chance = self._folded
        q = np.arange(chance.size)
        length = np.sqrt(self.n * q) if self.square else q
        after = np.cumsum(np.stack([chance, chance * length])[:, ::-1], axis=1)[:, ::-1]
        # what lies beyond the table: any noise beyond its reach (`rest` in all), and the others with it
        rest = self.rest * np.array([1.0, (self.n + 1) * float(length[-1])])
        return np.asarray(np.append(after[:, 1:], np.zeros((2, 1)), axis=1) + rest[:, None])

    def radius(self, most: float, each: float = math.inf) -> int:
        """The least one that leaves out at most `most`, of the chance or of E[sum |eta|] times `each`; -1 where there is none."""
        left, size = self._beyond
        inside = np.minimum(left, each * size if each < math.inf else left) <= most
        return int(np.argmax(inside)) if inside.any() else -1

    def vectors(self, radius: int) -> float:
        """How many there are."""
        return float(np.sum(self._folded[0][: radius + 1]))

    @cached_property
    def _in_order(self) -> Floats:
        """For q = 0, 1, ...: the number of vectors in which equal entities have ascending noises.

        rows[j]: j of the equals have a noise that is not 0. Each value, taken up by all of them in turn, may come again.
        """
        if max(self.times, default=1) == 1:
            return self._folded[0]
        many = np.zeros(self._folded[0].size)
        many[0] = 1.0
        reach = math.isqrt(many.size - 1) if self.square else many.size - 1
        for times in self.times:
            rows = np.zeros((times + 1, many.size))
            rows[0] = many
            for k in range(1, min(reach, self._furthest) + 1):
                size = k * k if self.square else k
                for _ in range(2):
                    for j in range(1, times + 1):
                        rows[j, size:] += rows[j - 1, :-size]
            many = np.sum(rows, axis=0)
        return many

    def orders(self, radius: int) -> float:
        """How many vectors are walked; infinitely many without a radius."""
        return float(np.sum(self._in_order[: radius + 1])) if radius >= 0 else math.inf

    def left(self, radius: int) -> tuple[float, float]:
        """The chance that is left out, and what is left out of E[sum |eta|]."""
        left, size = self._beyond[:, radius]
        return float(left), float(size)


@dataclass(frozen=True)
class Listing:
    """Which noises are listed: those of a ball, or one noise at a time up to `reach`."""

    ball: Ball | None
    reach: int


def listing(d: Distinct, n: int, noise: Law, rtol: float) -> Listing | None:
    """What can be listed in a few seconds; None where neither can, whatever alpha is."""
    ball, most = Ball(noise, n, tuple(int(m) for m in d.times)), _allowed(d, 1.0, rtol)
    if (
        n <= MOST
        and ball.fewest(most) * n <= POINTS
        and ball.steps < TABLE
        and ball.orders(ball.radius(most)) * n <= POINTS
    ):
        return Listing(ball, 0)
    far = _reach(noise, n, 1e-11)
    if (2.0 * far + 1) * d.x.size * n <= SINGLE and n * (1 - float(noise.density(0.0))) < 1e-3:
        return Listing(None, far)
    return None


def _allowed(d: Distinct, alpha: float, rtol: float) -> float:
    """What may be left out of a bias; where all are alike every bias is 0 and a few digits of the error are enough."""
    return 0.45 * rtol * alpha if d.x.size > 1 else 1e-6


def listed(
    rule: Rule, plan: Listing, d: Distinct, x: Floats, truth: Floats, a: Floats, noise: Law, rtol: float, smooth: bool
) -> Moments | None:
    """Moments of shares, one entry per entity, or None where the list misses the tolerance; `smooth`: the bound for PoS holds."""
    each = 4 * float(np.max(a)) / float(np.sum(a * x)) if smooth and np.any(a * x) else math.inf
    if plan.ball is None:
        sums, left, size = _single(rule, d, x, truth, a, noise, plan.reach)
        return _moments(sums, left, size, each, truth, rtol)
    ball, given = plan.ball, (rule, d, x, truth, a)
    radius = ball.radius(FINE if d.x.size > 1 else _allowed(d, 0.0, rtol), each)
    if ball.orders(radius) * x.size <= QUICK:
        found = _moments(_all(*given, ball, radius), *ball.left(radius), each, truth, rtol)
        if found is not None:
            return found
    left = _allowed(d, _least_alpha(*given, ball), rtol)
    ball = ball.deeper(left)
    radius = ball.radius(left, each)
    if ball.orders(radius) * x.size > POINTS:
        return None
    return _moments(_all(*given, ball, radius), *ball.left(radius), each, truth, rtol)


def _least_alpha(rule: Rule, d: Distinct, x: Floats, truth: Floats, a: Floats, ball: Ball) -> float:
    """What alpha is at least, from a short list; 0 where none shows that it is above 0."""
    for left in ROUGH:
        at = ball.deeper(left)
        radius = at.radius(left)
        if at.orders(radius) * x.size > QUICK:
            break
        found = float(np.ptp(_all(rule, d, x, truth, a, at, radius).bias))
        if found > 4 * left:
            return found - 2 * left
    return 0.0


def _moments(sums: _Sums, left: float, size: float, each: float, truth: Floats, rtol: float) -> Moments | None:
    """`left` and `size`: the chance that is left out, and that part of E[sum |eta|]."""
    n, most = truth.size, min(left, each * size)
    error = np.full(n, most) + 3e-14 * np.sqrt(sums.mse) + 4e-16 * truth
    alpha, slack = range_error(sums.bias, error)
    if slack > max(rtol * alpha, 1e-15 * float(np.max(truth))) and np.ptp(sums.bias) > 0:
        return None
    return Moments(
        sums.bias,
        error,
        sums.mse,
        np.minimum(sums.zero, 1.0),
        degenerate=sums.degenerate,
        mse_error=np.full(n, most) + 1e-13 * sums.mse,
        zero_error=np.full(n, left + sums.dust) + 1e-13 * sums.zero,
    )


def _reach(noise: Law, n: int, left: float) -> int:
    """The least reach, to 5 %, beyond which some noise lies with a chance below `left`; 20,000 where it is larger."""
    reach = 1
    while reach < 20_000 and 2 * n * float(noise.sf(float(reach))) > left:
        reach = math.ceil(1.05 * reach + 0.5)
    return reach


def _all(pi: Rule, d: Distinct, x: Floats, truth: Floats, a: Floats, ball: Ball, radius: int) -> _Sums:
    """Every vector of noises in the ball, of exchangeable ones in ascending order."""
    from fairpost.engines.exact.lattice.kernels.ball import walk

    n, order = x.size, np.argsort(d.inverse, kind="stable")
    label = d.inverse[order]
    equals = np.arange(n) - np.searchsorted(label, label)
    reach = math.isqrt(radius) if ball.square else radius
    mass = np.asarray(ball.noise.density(np.arange(reach + 1.0)))
    level, steepness = (0.0, 0.0) if pi.rule is None else (pi.rule.level, pi.rule.steepness)
    given = (x[order], a[order], truth[order], level * a[order], steepness)
    found, degenerate = np.zeros((4, n)), 0.0
    for start in range(-reach, reach + 1):
        cancel.check()
        part = np.zeros((4, n))
        degenerate += walk(start, radius, ball.square, mass, equals, *given, part)
        found += part
    sums = np.empty_like(found)
    sums[:, order] = found
    for values in sums:
        values[:] = (np.bincount(d.inverse, values) / np.bincount(d.inverse))[d.inverse]
    return _Sums(sums[0], sums[1], sums[2], degenerate, float(np.max(sums[3])))


def _single(
    rule: Rule, d: Distinct, x: Floats, truth: Floats, a: Floats, noise: Law, reach: int
) -> tuple[_Sums, float, float]:
    """At most one noise that is not 0: one entity of every distinct pair stands for all of them."""
    n = x.size
    k = np.concatenate([np.arange(-reach, 0.0), np.arange(1.0, reach + 1)])
    p0 = float(noise.density(0.0))
    chance = np.asarray(noise.density(k)) * p0 ** (n - 1)
    sums = _Sums.of(n)
    away = rule(x) - truth
    sums.bias += p0**n * away
    sums.mse += p0**n * away**2
    sums.zero += p0**n * (away + truth <= DUST)
    sums.degenerate += p0**n * float(x @ a <= 0)
    first = np.unique(d.inverse, return_index=True)[1]
    for pair, i in enumerate(first):
        cancel.check()
        rows = np.tile(x, (k.size, 1))
        rows[:, i] += k
        v = rule(rows)
        others = np.flatnonzero(d.inverse == pair)
        many = float(others.size)
        for out, value in (
            (sums.bias, v - truth),
            (sums.mse, (v - truth) ** 2),
            (sums.zero, (v <= DUST).astype(float)),
        ):
            total = chance @ value
            own = float(total[i])
            # the entity itself, its equals (who see one of many - 1 others perturbed), and everybody else
            twin = float(total[others[others != i][0]]) if many > 1 else 0.0
            total = many * total
            total[others] = own + (many - 1) * twin
            np.add(out, total, out=out)
        sums.degenerate += many * float(chance @ (rows @ a <= 0))
    p = 1 - p0
    left = (n * p) ** 2 + n * 2 * float(noise.sf(float(reach)))
    mean = 2 * float(noise.upper(0.0, 0.0, 1))
    size = n * (n - 1) * p * mean * 2 + n * (
        2 * float(noise.upper(float(reach), 0.0, 1)) + 2 * reach * float(noise.sf(float(reach)))
    )
    return sums, left, size
