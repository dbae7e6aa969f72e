"""Whole-number noise that takes few values: every noise that matters is listed, and the rule itself is applied to it.

E[f(x + eta)] = sum p(eta) f(x + eta) over all vectors of noises that are likely enough where there are few of them (few entities), or over
those with at most one noise that is not 0 (a noise next to none). What is left out has a known chance Q. A share then differs from the true
one by at most 1, and PoS by at most 4 sum_j a_j |eta_j| / sum a x: the projection does not expand, and

    |z_i/S - P_i| <= (a_i |eta_i| + P_i sum a |eta|)/S,   S >= sum a x / 2   or else   sum a |eta| > sum a x / 2.

The chance of a vector falls with one whole number, its *size* q: sum |eta| (discrete Laplace) or sum eta^2 (discrete Gaussian). So the likely
ones are a ball, q <= R: of four noises one twelfth of the cube that holds as much. The law of q is that of one noise, folded n times: it says
before the work how many vectors a ball has and what lies outside. Entities with equal count and weight are exchangeable: of their noises those
in ascending order are listed, each as often as it has orders.

Any rule and any weights are covered, since nothing but the rule is used.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from fairpost import cancel
from fairpost.engines.evaluation import Distinct
from fairpost.engines.exact.shares import range_error
from fairpost.engines.moments import Counted, Floats, Moments
from fairpost.noise import Law
from fairpost.rules.allocation import NOTHING
from fairpost.rules.threshold import DUST

POINTS = 1.5e7
"""The most noises, times entities: some two seconds."""
QUICK = 4e6
"""So many of them are listed for more digits than were asked for, and to see how small alpha is."""
TABLE = 2e8
"""The most steps of folding a law."""
ROUGH = (1e-2, 1e-5)
"""The chances that the first lists leave out, which say how small alpha is."""
BLOCK = 60_000
MOST = 6
"""The most entities of which a ball is listed."""
Rule = Callable[[Floats], Floats]


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

    def add(self, rule: Rule, rows: Floats, chance: Floats, truth: Floats, weights: Floats) -> None:
        """Some noises and their chances."""
        v = rule(rows)
        away = v - truth
        self.bias += chance @ away
        self.mse += chance @ away**2
        self.zero += chance @ (v <= DUST)
        self.dust += float(np.max(chance @ ((v > 0) & (v <= DUST)), initial=0.0))
        self.degenerate += float(chance @ (rows @ weights <= NOTHING * (np.maximum(rows, 0.0) @ weights)))


@dataclass(frozen=True)
class Ball:
    """The sizes q of n noises: how many vectors have each, their chance, and what lies beyond."""

    noise: Law
    n: int

    @cached_property
    def square(self) -> bool:
        """The size is a sum of squares."""
        return bool(np.isinf(self.noise.strip))

    @cached_property
    def _folded(self) -> tuple[Floats, Floats]:
        """For q = 0, 1, ...: the number of vectors, and their chance; as far as 1e-16 is left."""
        k = np.arange(_reach(self.noise, self.n, 1e-16) + 1)
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
        # what lies beyond the table: any noise beyond its reach (1e-16 in all), and the others with it
        rest = 1e-16 * np.array([1.0, (self.n + 1) * float(length[-1])])
        return np.asarray(np.append(after[:, 1:], np.zeros((2, 1)), axis=1) + rest[:, None])

    def radius(self, most: float, each: float = math.inf) -> int:
        """The least one that leaves out at most `most`, of the chance or of E[sum |eta|] times `each`; -1 where there is none."""
        left, size = self._beyond
        inside = np.minimum(left, each * size if each < math.inf else left) <= most
        return int(np.argmax(inside)) if inside.any() else -1

    def vectors(self, radius: int) -> float:
        """How many there are."""
        return float(np.sum(self._folded[0][: radius + 1]))

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
    reach = _reach(noise, n, 1e-16)
    if n <= MOST and n * float(reach) ** (3 if np.isinf(noise.strip) else 2) < TABLE:
        ball = Ball(noise, n)
        if _orders(d, ball, ball.radius(_allowed(d, 1.0, rtol))) * n <= POINTS:
            return Listing(ball, 0)
    far = _reach(noise, n, 1e-11)
    if (2.0 * far + 1) * d.x.size * n <= POINTS / 5 and n * (1 - float(noise.density(0.0))) < 1e-3:
        return Listing(None, far)
    return None


def _allowed(d: Distinct, alpha: float, rtol: float) -> float:
    """What may be left out of a bias; where all are alike every bias is 0 and a few digits of the error are enough."""
    return 0.45 * rtol * alpha if d.x.size > 1 else 1e-6


def _orders(d: Distinct, ball: Ball, radius: int) -> float:
    """About how many vectors are listed: exchangeable noises in one order."""
    return ball.vectors(radius) / math.prod(math.factorial(int(m)) for m in d.times) if radius >= 0 else math.inf


def listed(
    rule: Rule, plan: Listing, d: Distinct, x: Floats, truth: Floats, a: Floats, noise: Law, rtol: float, smooth: bool
) -> Moments | None:
    """Moments of shares, one entry per entity, or None where the list misses the tolerance; `smooth`: the bound for PoS holds."""
    each = 4 * float(np.max(a)) / float(np.sum(a * x)) if smooth else math.inf
    if plan.ball is None:
        sums, left, size = _single(rule, d, x, truth, a, noise, plan.reach)
        return _moments(sums, left, size, each, truth, rtol)
    ball = plan.ball
    radius = ball.radius(1e-11 if d.x.size > 1 else _allowed(d, 0.0, rtol), each)
    if _orders(d, ball, radius) * x.size > QUICK:
        alpha = _least_alpha(rule, d, x, truth, a, ball)
        radius = ball.radius(_allowed(d, alpha, rtol), each)
        if _orders(d, ball, radius) * x.size > POINTS:
            return None
    return _moments(_all(rule, d, x, truth, a, ball, radius), *ball.left(radius), each, truth, rtol)


def _least_alpha(rule: Rule, d: Distinct, x: Floats, truth: Floats, a: Floats, ball: Ball) -> float:
    """What alpha is at least, from a short list; 0 where none shows that it is above 0."""
    for left in ROUGH:
        radius = ball.radius(left)
        if _orders(d, ball, radius) * x.size > QUICK:
            break
        found = float(np.ptp(_all(rule, d, x, truth, a, ball, radius).bias))
        if found > 4 * left:
            return found - 2 * left
    return 0.0


def _moments(sums: _Sums, left: float, size: float, each: float, truth: Floats, rtol: float) -> Moments | None:
    """`left` and `size`: the chance that is left out, and that part of E[sum |eta|]."""
    n, most = truth.size, min(left, each * size)
    error = np.full(n, most) + 1e-14 * np.sqrt(sums.mse) + 4e-16 * truth
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


def _all(rule: Rule, d: Distinct, x: Floats, truth: Floats, a: Floats, ball: Ball, radius: int) -> _Sums:
    """Every vector of noises in the ball, of exchangeable ones in ascending order."""
    n, order = x.size, np.argsort(d.inverse, kind="stable")
    label = d.inverse[order]
    k = np.arange(-radius, radius + 1) if not ball.square else np.arange(-math.isqrt(radius), math.isqrt(radius) + 1)
    log = np.log(np.asarray(ball.noise.density(k.astype(np.float64))))
    sums, place = _Sums.of(n), np.empty(n, dtype=np.int64)
    place[order] = np.arange(n)
    for noises, times in _in_ball(label, radius, ball.square):
        cancel.check()
        chance = times * np.exp(np.sum(log[noises + k[-1]], axis=1))
        sums.add(rule, x + noises[:, place], chance, truth, a)
    equal = np.bincount(d.inverse)
    for values in (sums.bias, sums.mse, sums.zero):
        values[:] = (np.bincount(d.inverse, values) / equal)[d.inverse]
    return sums


def _in_ball(label: Counted, radius: int, square: bool) -> Iterator[tuple[Counted, Floats]]:
    """Vectors of whole numbers of size at most `radius`, and how many orders each stands for: those with one label ascend."""
    noises, used = np.zeros((1, 0), dtype=np.int64), np.zeros(1, dtype=np.int64)
    run, times = np.zeros(1), np.ones(1)
    for j in range(label.size):
        again = int(np.sum(label[:j] == label[j]))
        last = j == label.size - 1
        for part in _pieces(used, radius, square) if last else [slice(None)]:
            noises2, used2, run2, times2 = _extended(
                noises[part], used[part], run[part], times[part], again, radius, square
            )
            if last:
                yield noises2, times2
        if not last:
            noises, used, run, times = noises2, used2, run2, times2


def _pieces(used: Counted, radius: int, square: bool) -> list[slice]:
    """Slices of which each gives about BLOCK vectors."""
    done = np.cumsum(2 * _room(used, radius, square) + 1)
    ends = np.searchsorted(done, np.arange(BLOCK, int(done[-1]) + BLOCK, BLOCK))
    edges = np.unique(np.concatenate([[0], np.minimum(ends + 1, used.size), [used.size]]))
    return [slice(int(i), int(j)) for i, j in pairwise(edges)]


def _room(used: Counted, radius: int, square: bool) -> Counted:
    """The largest noise that still fits."""
    left = radius - used
    if not square:
        return left
    out = np.sqrt(left.astype(np.float64)).astype(np.int64)
    return np.asarray(out - (out * out > left) + ((out + 1) ** 2 <= left))


def _extended(
    noises: Counted, used: Counted, run: Floats, times: Floats, again: int, radius: int, square: bool
) -> tuple[Counted, Counted, Floats, Floats]:
    """Every vector with every noise that fits; not below the last one where `again` noises have the same label.

    The orders of k equal labels with runs of equal noises are k! / prod (run!): each step multiplies by its k over the length of its run.
    """
    most = _room(used, radius, square)
    least = np.maximum(-most, noises[:, -1]) if again else -most
    many = np.maximum(most - least + 1, 0)
    at = np.repeat(np.arange(used.size), many)
    value = least[at] + np.arange(at.size) - np.repeat(np.cumsum(many) - many, many)
    same = (value == noises[at, -1]) if again else np.zeros(at.size, dtype=bool)
    run = np.where(same, run[at] + 1, 1.0)
    size = value * value if square else np.abs(value)
    return np.column_stack([noises[at], value]), used[at] + size, run, times[at] * ((again + 1) / run)


def _single(
    rule: Rule, d: Distinct, x: Floats, truth: Floats, a: Floats, noise: Law, reach: int
) -> tuple[_Sums, float, float]:
    """At most one noise that is not 0: one entity of every distinct pair stands for all of them."""
    n = x.size
    k = np.concatenate([np.arange(-reach, 0.0), np.arange(1.0, reach + 1)])
    p0 = float(noise.density(0.0))
    chance = np.asarray(noise.density(k)) * p0 ** (n - 1)
    sums = _Sums.of(n)
    sums.add(rule, x[None, :], np.array([p0**n]), truth, a)
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
