"""PoS with nothing assumed about S: any n, any noise, S of either sign.

Both signs are one problem: for S < 0 the values -z have the sum -S > 0 and the same projection. For S > 0

    E[PoS_i; S > 0] = atom + int_0^inf dr int_0^inf dt (1/2 pi i) int ds e^{s n r} prod psi ((V_i/psi_i)(K - U_i/psi_i + 1)),

the atom being r = 0 (nothing clipped), where PoS_i = z_i/S: int dt V_i prod_{j != i} U_j at r = 0. The t-integral takes the double-exponential
rule, whose decay like t^-2 is that of E[e^{-tS}] near S = 0; each (r, t) has its own contour in s. The sums of the shares
over both signs must be P(S > 0) and P(S < 0), which a contour integral of one dimension gives on its own.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np

from fairpost.engines.exact.pos_plan import (
    STAGES,
    Fineness,
    Problem,
    Profile,
    chance_negative,
    density,
    laplace_kinks,
    profile,
    threshold_rule,
)
from fairpost.engines.exact.rules import Rule, exp_sinh, legendre
from fairpost.engines.exact.shares import reached, refusal
from fairpost.engines.moments import Floats, Moments

FEW = 60
"""Up to this many entities the S < 0 side under Laplace noise takes its own kernel."""
ROUNDING = 1e-13


@dataclass(frozen=True)
class _Side:
    """E[PoS_i], E[PoS_i^2] and P(PoS_i = 0) on one side of S = 0."""

    first: Floats
    second: Floats
    zero: Floats
    nodes: int

    def __add__(self, other: _Side) -> _Side:
        return _Side(
            self.first + other.first,
            self.second + other.second,
            self.zero + other.zero,
            self.nodes + other.nodes,
        )


def general(problem: Problem, rtol: float) -> Moments:
    """Moments of PoS; ToleranceError where the stages end before the tolerance is met."""
    order = np.argsort(problem.times, kind="stable")
    sorted_problem = problem.part(order)
    negative = chance_negative(problem)
    mirrored = replace(sorted_problem, c=-sorted_problem.c)
    skip = negative < 1e-16
    shapes = [(side, _locate(side)) for side in ((sorted_problem,) if skip else (sorted_problem, mirrored))]
    p, previous = sorted_problem.shares, None
    for stage in STAGES:
        sides = [_side(side, shape, stage) for side, shape in shapes]
        both = sum(sides[1:], sides[0])
        masses = [float(np.sum(sorted_problem.times * side.first)) for side in sides]
        bias = both.first - p * sum(masses)
        if previous is not None:
            defect = sum(abs(m - e) for m, e in zip(masses, (1 - negative, negative), strict=False))
            error = np.abs(bias - previous) + defect + ROUNDING * (p + np.abs(bias)) + (negative if skip else 0.0)
            if reached(bias, error, p, rtol):
                back = np.argsort(order)
                mse = both.second - 2 * p * both.first + p * p
                zero = np.clip(both.zero, 0.0, 1.0)
                return Moments(bias[back], error[back], mse[back], zero[back], degenerate=negative, nodes=both.nodes)
        previous = bias
    raise refusal("pos", bias, error, rtol)


def _locate(problem: Problem) -> Profile:
    """The top of the density of r by a grid in the logarithm, then ever closer around it."""
    widest = float(np.max(problem.scale))
    r = np.geomspace(1e-3 * widest / problem.n, 30 * widest * np.sqrt(problem.n), 40)
    for _ in range(4):
        log = density(problem, 0.0, r)
        top = int(np.argmax(log))
        low, high = r[max(top - 1, 0)], r[min(top + 1, r.size - 1)]
        best, r = r[top], np.linspace(low, high, 15)
    return profile(problem, 0.0, float(best), _scale(problem, float(best)))


def _scale(problem: Problem, top: float) -> float:
    """A quarter of the distance above the top over which the density falls by e^-8: a bell's standard deviation."""
    level = density(problem, 0.0, np.array([top]))[0] - 8
    width = 1e-2 * top
    while density(problem, 0.0, np.array([top + width]))[0] > level:
        width *= 1.3
    return width / 4


def _side(problem: Problem, shape: Profile, stage: Fineness) -> _Side:
    """One side: the atom at r = 0 and the integral over r > 0."""
    few = problem.noise == 0 and problem.n <= FEW and bool(np.any(problem.c < 0))
    low, high = shape.window(stage.drop)
    kinks = _mirror_kinks(problem) if few else laplace_kinks(problem)
    rule = threshold_rule(low, high, kinks, shape.width, stage.spacing)
    return _atom(problem) + (_mirror(problem, rule, stage) if few else _plain(problem, rule, stage))


def _atom(problem: Problem) -> _Side:
    """Nothing clipped: E[z_i/S] and E[z_i^2/S^2] over the event that every z_j > 0."""
    t, weight = _inverse_rule(problem, 0.05)
    x, s = problem.c / problem.a, -np.multiply.outer(t, problem.a)
    u0, u1, u2 = (problem.mechanism.upper(-x, s, k) * problem.a**k for k in range(3))
    with np.errstate(divide="ignore"):
        log = np.log(u0)
    others = np.exp(np.minimum((log @ problem.times)[:, None] - log, 0.0), where=log > -np.inf, out=np.zeros_like(log))
    return _Side(weight @ (u1 * others), (weight * t) @ (u2 * others), np.zeros_like(x), 0)


def _inverse_rule(problem: Problem, step: float) -> Rule:
    """1/S = int e^{-tS} dt in units of the root mean square of S."""
    size = np.sqrt(problem.mean**2 + problem.variance)
    t, weight = exp_sinh(step)
    return t / size, weight / size


def _plain(problem: Problem, rule: Rule, stage: Fineness) -> _Side:
    """The integral over r > 0 by the kernel of bent contours."""
    from fairpost.kernels.exact_pos_general import accumulate_general

    t, weight = _inverse_rule(problem, stage.tail)
    entities = (problem.noise, problem.c, problem.scale, problem.times, problem.low, _lean(problem))

    def work(nodes: slice) -> _Side:
        r = (rule[0][nodes], rule[1][nodes], stage.step)
        first, second, kept, zero = (np.zeros_like(problem.c) for _ in range(4))
        used = accumulate_general(*entities, *r, t, weight, first, second)
        accumulate_general(*entities, *r, np.zeros(1), np.ones(1), kept, zero)
        return _Side(first, second, zero, used)

    with ThreadPoolExecutor(2) as pool:
        one, two = pool.map(work, (slice(0, None, 2), slice(1, None, 2)))
    return one + two


def _lean(problem: Problem) -> float:
    """The tangent of the contour's bend.

    Laplace values centred above 0 allow 45 degrees; below 0 the kinks forbid any. Gaussian transforms grow like e^{s^2 sigma^2/2} beyond 45
    degrees, and by e^{(lean c/sigma)^2 / 2} on the way where c < 0.
    """
    below = np.minimum(problem.c, 0.0)
    if problem.noise == 0:
        return 0.0 if np.any(below < 0) else 1.0
    return float(min(0.4, 4 / np.sqrt(np.sum(problem.times * (below / problem.scale) ** 2) + 1)))


def _mirror_kinks(problem: Problem) -> Floats:
    """Where n r meets the kink of one or two entities' shortfall: (n - k) r = sum of k of the -c_j."""
    d, n = np.unique(-problem.c), problem.n
    kinks = d / (n - 1)
    if 2 < n <= 6:
        kinks = np.append(kinks, np.add.outer(d, d) / (n - 2))
    return np.unique(kinks)


def _mirror(problem: Problem, rule: Rule, stage: Fineness) -> _Side:
    """The integral over r > 0 by the kernel for few mirrored Laplace values."""
    from fairpost.kernels.exact_pos_mirror import accumulate_mirror

    index = np.repeat(np.arange(problem.c.size), problem.times)
    c, scale = -problem.c[index], problem.scale[index]
    t, weight = _rational_rule(problem, stage)

    def work(nodes: slice) -> _Side:
        sums = tuple(np.zeros(c.size) for _ in range(4))
        used = accumulate_mirror(c, scale, rule[0][nodes], rule[1][nodes], 0.9 * stage.step, t, weight, *sums)
        first, second, _, zero = (np.bincount(index, s) / problem.times for s in sums)
        return _Side(first, second, zero, used)

    with ThreadPoolExecutor(2) as pool:
        one, two = pool.map(work, (slice(0, None, 2), slice(1, None, 2)))
    return one + two


def _rational_rule(problem: Problem, stage: Fineness) -> Rule:
    """t = 0, then a rule for products of 1/(1 + t beta): polynomials in w = 1/(1 + t beta) where all beta are equal."""
    least, most = float(np.min(problem.scale)), float(np.max(problem.scale))
    if most > 10 * least:
        t, weight = _inverse_rule(problem, stage.tail)
    else:
        beta = np.sqrt(least * most)
        w, weight = legendre(int(16 / stage.spacing))
        t, weight = (1 / w - 1) / beta, weight / (beta * w * w)
    return np.append(0.0, t), np.append(1.0, weight)
