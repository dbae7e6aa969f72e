"""PoS with nothing assumed about S: three or more entities, S of either sign.

For S < 0 the values -z have the sum -S > 0 and the same projection, so one problem serves both signs. For S > 0

    E[PoS_i; S > 0] = atom + int_0^inf dr int_0^inf dt (1/2 pi i) int ds e^{snr} prod psi (V_i/psi_i) (K - U_i/psi_i + 1).

The atom is r = 0, nothing clipped, where PoS_i = z_i/S: int dt V_i prod_{j != i} U_j at r = 0. The t-integral takes the
double-exponential rule, made for the decay like t^-2 that E[e^{-tS}] has from S near 0; each (r, t) has its own contour in s. Each side is
refined by itself. The sums of its shares must be P(S > 0) or P(S < 0), which a contour integral of one dimension knows.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np

from fairpost.engines.exact.pos_nodes import STAGES, Fineness, Profile, density, profile, sharp_points, threshold_rule
from fairpost.engines.exact.pos_problem import Problem, chance_negative
from fairpost.engines.exact.rules import Rule, exp_sinh, legendre
from fairpost.engines.exact.shares import range_error, reached, refusal
from fairpost.engines.moments import Floats, Moments

FEW = 60
"""Up to this many entities the side S < 0 under Laplace noise takes its own kernel."""
ROUNDING = 1e-13


@dataclass(frozen=True)
class _Sums:
    """E[PoS_i], E[PoS_i^2] and P(PoS_i = 0) on one side of S = 0."""

    first: Floats
    second: Floats
    zero: Floats
    nodes: int

    def __add__(self, other: _Sums) -> _Sums:
        return _Sums(
            self.first + other.first,
            self.second + other.second,
            self.zero + other.zero,
            self.nodes + other.nodes,
        )


class _Side:
    """One sign of S, at its present stage of refinement."""

    def __init__(self, problem: Problem, chance: float) -> None:
        self.problem, self.chance = problem, chance
        self.shape = _locate(problem)
        self.atom = _atom(problem)
        self.stage = 0
        self.sums = self._evaluate()
        self.error = np.full_like(problem.c, np.inf)

    def _evaluate(self) -> _Sums:
        few = not self.problem.gaussian and self.problem.n <= FEW and bool(np.any(self.problem.c < 0))
        points = _mirror_kinks(self.problem) if few else sharp_points(self.problem)
        rule = threshold_rule(self.shape, points, STAGES[self.stage])
        return self.atom + (_mirror if few else _plain)(self.problem, rule, STAGES[self.stage])

    @property
    def mass(self) -> float:
        """The sum of all shares."""
        return float(np.sum(self.problem.times * self.sums.first))

    def refine(self) -> bool:
        """The next stage; the error is its distance from the last one and the defect of the sum. False: no more."""
        if self.stage + 1 == len(STAGES):
            return False
        self.stage += 1
        previous, self.sums = self.sums, self._evaluate()
        self.error = np.abs(self.sums.first - previous.first) + abs(self.mass - self.chance)
        return True


def general(problem: Problem, rtol: float) -> Moments:
    """Moments of PoS; ToleranceError where the stages end before the tolerance is met."""
    order = np.argsort(problem.times, kind="stable")  # as the kernels want it
    back = np.argsort(order)
    problem = problem.part(order)
    negative = chance_negative(problem)
    sides = [_Side(problem, 1 - negative)]
    sides[0].refine()
    omitted = negative
    p = problem.shares
    while True:
        total = sum((side.sums for side in sides[1:]), sides[0].sums)
        bias = total.first - p * sum(side.mass for side in sides)
        error = sum((side.error for side in sides), omitted + ROUNDING * (p + np.abs(bias)))
        if reached(bias, error, p, rtol):
            break
        alpha, _ = range_error(bias, error)
        if len(sides) == 1 and omitted > 0.01 * rtol * alpha:
            sides.append(_Side(replace(problem, c=-problem.c), negative))
            sides[1].refine()
            omitted = 0.0
        elif not max(sides, key=lambda side: float(np.max(side.error))).refine():
            raise refusal("pos", bias, error, rtol)
    mse = total.second - 2 * p * total.first + p * p
    zero = np.clip(total.zero, 0.0, 1.0)
    return Moments(bias[back], error[back], mse[back], zero[back], degenerate=negative, nodes=total.nodes)


def _locate(problem: Problem) -> Profile:
    """The density of r, from the highest point of a wide grid."""
    widest = float(np.max(problem.scale))
    r = np.geomspace(1e-3 * widest / problem.n, 30 * widest * np.sqrt(problem.n), 40)
    top = float(r[np.argmax(density(problem, 0.0, r))])
    return profile(problem, 0.0, top, 0.3 * top)


def _atom(problem: Problem) -> _Sums:
    """Nothing clipped: E[z_i/S] and E[z_i^2/S^2] over the event that every z_j > 0."""
    t, weight = _inverse_rule(problem, 0.05)
    x, s = problem.c / problem.a, -np.multiply.outer(t, problem.a)
    u0, u1, u2 = (problem.mechanism.upper(-x, s, k) * problem.a**k for k in range(3))
    with np.errstate(divide="ignore"):
        log = np.log(u0)
    others = np.where(u0 > 0, np.exp((log @ problem.times)[:, None] - np.maximum(log, -700)), 0.0)
    return _Sums(weight @ (u1 * others), (weight * t) @ (u2 * others), np.zeros_like(x), 0)


def _inverse_rule(problem: Problem, step: float) -> Rule:
    """1/S = int e^{-tS} dt in units of the root mean square of S."""
    size = np.sqrt(problem.mean**2 + problem.variance)
    t, weight = exp_sinh(step)
    return t / size, weight / size


def _halves(work: Callable[[slice], _Sums]) -> _Sums:
    """Every second node on each of two threads."""
    with ThreadPoolExecutor(2) as pool:
        one, two = pool.map(work, (slice(0, None, 2), slice(1, None, 2)))
    return one + two


def _plain(problem: Problem, rule: Rule, stage: Fineness) -> _Sums:
    """The integral over r > 0 by bent contours."""
    from fairpost.kernels.exact_pos_general import accumulate_general

    t, weight = _inverse_rule(problem, stage.tail)
    entities = (problem.noise, problem.c, problem.scale, problem.times, problem.low, _lean(problem))

    def work(nodes: slice) -> _Sums:
        r = (rule[0][nodes], rule[1][nodes], stage.step)
        first, second, kept, zero = (np.zeros_like(problem.c) for _ in range(4))
        used = accumulate_general(*entities, *r, t, weight, first, second)
        accumulate_general(*entities, *r, np.zeros(1), np.ones(1), kept, zero)
        return _Sums(first, second, zero, used)

    return _halves(work)


def _lean(problem: Problem) -> float:
    """The tangent of the contour's bend.

    Laplace values centred at or above 0 allow 45 degrees, below 0 the kinks forbid any. Gaussian transforms grow like e^{s^2 sigma^2/2} beyond
    45 degrees, and by e^{(lean c/sigma)^2/2} on the way where c < 0.
    """
    below = np.minimum(problem.c, 0.0)
    if not problem.gaussian:
        return 0.0 if np.any(below < 0) else 1.0
    return float(min(0.4, 4 / np.sqrt(np.sum(problem.times * (below / problem.scale) ** 2) + 1)))


def _mirror_kinks(problem: Problem) -> Floats:
    """Where n r meets the kink of one or two entities' shortfall: (n - k) r = sum of k of the -c_j."""
    d, n = np.unique(-problem.c), problem.n
    kinks = d / (n - 1)
    if 2 < n <= 6:
        kinks = np.append(kinks, np.add.outer(d, d) / (n - 2))
    return np.unique(kinks)


def _mirror(problem: Problem, rule: Rule, stage: Fineness) -> _Sums:
    """The integral over r > 0 for few Laplace values centred below 0."""
    from fairpost.kernels.exact_pos_mirror import accumulate_mirror

    index = np.repeat(np.arange(problem.c.size), problem.times)
    c, scale = -problem.c[index], problem.scale[index]
    t, weight = _rational_rule(problem, stage)

    def work(nodes: slice) -> _Sums:
        sums = tuple(np.zeros(c.size) for _ in range(4))
        used = accumulate_mirror(c, scale, rule[0][nodes], rule[1][nodes], 0.9 * stage.step, t, weight, *sums)
        first, second, _, zero = (np.bincount(index, s) / problem.times for s in sums)
        return _Sums(first, second, zero, used)

    return _halves(work)


def _rational_rule(problem: Problem, stage: Fineness) -> Rule:
    """t = 0, then a rule for products of 1/(1 + t beta): polynomials in w = 1/(1 + t beta) where all beta are equal."""
    least, most = float(np.min(problem.scale)), float(np.max(problem.scale))
    if most > 10 * least:
        t, weight = _inverse_rule(problem, stage.tail)
    else:
        beta = np.sqrt(least * most)
        w, weight = legendre(int(9 / stage.spacing))
        t, weight = (1 / w - 1) / beta, weight / (beta * w * w)
    return np.append(0.0, t), np.append(1.0, weight)
