"""PoS on one side of S = 0: E[PoS_i; S > 0] for values z of any sign, by integrals over (r, s, t).

With the symbols of `pos`,

    E[PoS_i; S > 0] = atom + int dr int dt (1/2 pi i) int ds e^{snr} prod psi (V_i/psi_i) (K - U_i/psi_i + 1),

V_i = E[(z_i - r) e^{-t(z_i - r)}; z_i > r], over r > 0 and t > 0. The atom is r = 0, nothing clipped, where
PoS_i = z_i/S: int dt V_i prod_{j != i} U_j at r = 0. The t-integral takes the double-exponential rule, made for the
decay like t^-2 that E[e^{-tS}] has from S near 0; each (r, t) has its own contour in s, through the saddle point and bent to the left as far as
the values allow. Laplace values centred below 0, as S < 0 has them, have kinks that forbid any bend: see `pos.turned` and, for
few, `pos.opposite`.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from fairpost import cancel
from fairpost.engines.closed.quadrature import Rule, between
from fairpost.engines.closed.shares import SAFETY, moved
from fairpost.engines.exact.pos.close import close
from fairpost.engines.exact.pos.nodes import (
    STAGES,
    Fineness,
    Profile,
    SaddlePoint,
    StandIn,
    contour_step,
    density,
    profile,
    smooth_step,
    threshold_rule,
)
from fairpost.engines.exact.pos.problem import Problem
from fairpost.engines.moments import Floats
from fairpost.errors import ToleranceError

T = TypeVar("T")

FEW = 60
"""Up to this many Laplace values centred below 0 have kinks that are seen in the density of r."""
EACH = 16.0
"""Nodes on the contour of one pair (r, t): a guess, until the first stage has counted them."""

PLAIN = ((35.0, 10.0), (55.0, 14.0))
"""Laplace, Gaussian: about how many r the first stage has, and how many times its cost all stages of both signs take."""
LOST = 1e-2
"""By how much the first two stages may miss the sum of the shares; those that go on to a tolerance miss it by some 1e-6."""
NEVER = 1e-15
"""Who is above r with a smaller chance is left out: the method has an absolute accuracy of some 1e-13 of a share, and this is above
what anybody so unlikely has."""
MARGIN = 1.2
"""See `_lean`: e^{-0.2 |s| sum |c|} is next to 0 long before e^{|s| sum |c|} is beyond a double."""
NOTHING = -46.0
"""The logarithm of a chance that adds nothing to a share: 1e-20."""


@dataclass(frozen=True)
class Sums:
    """E[PoS_i], E[PoS_i^2] and P(PoS_i = 0) on one side of S = 0."""

    first: Floats
    second: Floats
    zero: Floats
    nodes: int

    def __add__(self, other: Sums) -> Sums:
        return Sums(
            self.first + other.first,
            self.second + other.second,
            self.zero + other.zero,
            self.nodes + other.nodes,
        )

    def at(self, to_all: Floats) -> Sums:
        """Carried from a few pairs to all (`pos.close`)."""
        return Sums(self.first @ to_all, self.second @ to_all, self.zero @ to_all, self.nodes)


class Refined:
    """One sign of S, at its present stage of refinement; `chance` is its probability."""

    def __init__(self, problem: Problem, chance: float, stages: int) -> None:
        self.problem, self.chance, self.stages = problem, chance, stages
        self.stage, self.gain = 0, 0.0
        self.error = np.full_like(problem.c, np.inf)

    def evaluate(self) -> tuple[Sums, float]:
        """The sums of the present stage, and what they may miss that no other stage shows."""
        raise NotImplementedError

    def begin(self) -> None:
        """The first two stages; the error is then the distance of the second from the first."""
        self.sums, _ = self.evaluate()
        self._doubt()
        self.refine()
        self._doubt()

    def _doubt(self) -> None:
        """Refuse at once where the shares do not even sum to about what they must: no stage mends that."""
        if not abs(self.mass - self.chance) <= LOST:
            raise ToleranceError(
                f"pos: a sum of noisy counts that may be negative: the first rules miss the sum of the shares by "
                f"{abs(self.mass - self.chance):.2g}, and finer ones would not reach the tolerance"
            )

    @property
    def mass(self) -> float:
        """The sum of all shares."""
        return float(np.sum(self.problem.times * self.sums.first))

    @property
    def outlook(self) -> float:
        """The error that the finest stage would have if each still gains what the last one did."""
        return float(np.max(self.error)) * self.gain ** (self.stages - 1 - self.stage)

    def refine(self) -> None:
        """The next stage; the error is its distance from the last one and the defect of the sum."""
        self.stage += 1
        previous, before = self.sums, float(np.max(self.error))
        self.sums, unseen = self.evaluate()
        lost = abs(self.mass - self.chance) + unseen
        self.error = moved(self.sums.first, previous.first, self.sums.first) + lost
        self.second_error = SAFETY * moved(self.sums.second, previous.second, self.sums.second) + lost
        self.zero_error = SAFETY * moved(self.sums.zero, previous.zero, self.sums.zero) + lost
        now = float(np.max(self.error))
        self.gain = now / before if np.isfinite(before) and before > 0 else 0.0

    def improve(self, need: float) -> bool:
        """Refine; False where there is no finer stage, or an error of `need` is not in sight."""
        if self.stage + 1 < self.stages and self.outlook <= need:
            self.refine()
            return True
        return False


class Side(Refined):
    """One sign of S, by contours that bend as far as the values allow."""

    def __init__(self, problem: Problem, chance: float, spend: Callable[[float, float], None]) -> None:
        problem = replace(problem, never=NEVER)
        super().__init__(problem, chance, len(STAGES))
        self.spend = spend
        self.shape, self.atom = _locate(problem), _atom(problem)
        self.close = close(problem, self.shape, STAGES[-1].drop, _lean(problem)[0])
        few = not problem.gaussian and problem.n <= FEW
        self.kinked = few and bool(np.any(problem.c < 0))
        self.each = EACH
        self.begin()

    def evaluate(self) -> tuple[Sums, float]:
        """By a few pairs that stand for all, where there are many."""
        stage = STAGES[self.stage]
        problem, to_all = self._pairs(stage)
        nodes, times = PLAIN[int(problem.gaussian)]
        tilts = _inverse_rule(problem, stage.tail)
        if self.stage == 0:  # decided before the work: the rule for r alone takes a second among many pairs
            self.spend(0.0, times * nodes * tilts[0].size * self.each * problem.c.size)
        near: StandIn = SaddlePoint.of(problem, 0.0, self.shape, stage.drop)
        rule = threshold_rule(self.shape, near if self.kinked else _untilted(problem, stage), None, stage)
        pairs = rule[0].size * tilts[0].size
        cost = pairs * self.each * problem.c.size
        self.spend(cost, times * cost if self.stage == 0 else cost)
        found = _plain(problem, rule, tilts, stage)
        self.each = found.nodes / pairs
        return self.atom + (found if to_all is None else found.at(to_all)), 0.0

    def _pairs(self, stage: Fineness) -> tuple[Problem, Floats | None]:
        """Those who stand for all at a stage, and what carries their answers to all (None: every pair stands for itself)."""
        found = None if self.close is None else self.close.at(stage.close)
        return (self.problem, None) if found is None else found


def _locate(problem: Problem) -> Profile:
    """The density of r, from the highest point of a wide grid."""
    widest = float(np.max(problem.scale))
    r = np.geomspace(1e-3 * widest / problem.n, 30 * widest * np.sqrt(problem.n), 40)
    top = float(r[np.argmax(density(problem, 0.0, r))])
    return profile(problem, 0.0, top, 0.3 * top)


def _atom(problem: Problem) -> Sums:
    """Nothing clipped: E[z_i/S] and E[z_i^2/S^2] over the event that every z_j > 0; 0 where that never happens."""
    none = np.zeros_like(problem.c)
    with np.errstate(divide="ignore"):
        if np.log(problem.mechanism.sf(-problem.c / problem.a)) @ problem.times < NOTHING:
            return Sums(none, none, none, 0)
    t, weight = _inverse_rule(problem, 0.2)
    x, s = problem.c / problem.a, -np.multiply.outer(t, problem.a)
    u0, u1, u2 = (problem.mechanism.upper(-x, s, k) * problem.a**k for k in range(3))
    with np.errstate(divide="ignore"):
        log = np.log(u0)
    others = np.where(u0 > 0, np.exp((log @ problem.times)[:, None] - np.maximum(log, -700)), 0.0)
    return Sums(weight @ (u1 * others), (weight * t) @ (u2 * others), np.zeros_like(x), 0)


def _inverse_rule(problem: Problem, step: float) -> Rule:
    """1/S = int e^{-tS} dt: from the root mean square of S down to the smallest scale, one value alone."""
    size, least = np.sqrt(problem.mean**2 + problem.variance), float(np.min(problem.scale))
    return between(1 / size, 1 / least, step)


def on_halves(work: Callable[[slice], T]) -> tuple[T, T]:
    """Every second node on each of two threads."""
    with ThreadPoolExecutor(2) as pool:
        one, two = pool.map(work, (slice(0, None, 2), slice(1, None, 2)))
    return one, two


def _plain(problem: Problem, rule: Rule, tilts: Rule, stage: Fineness) -> Sums:
    """The integral over r > 0 by bent contours."""
    from fairpost.engines.exact.pos.kernels.general import accumulate_general

    t, weight = tilts
    entities = (problem.noise, problem.c, problem.scale, problem.times, problem.low, problem.never, *_lean(problem))

    def work(nodes: slice) -> Sums:
        r = (rule[0][nodes], rule[1][nodes], contour_step(problem, stage))
        first, second, kept, zero = (np.zeros_like(problem.c) for _ in range(4))
        used = accumulate_general(*entities, *r, t, weight, first, second)
        accumulate_general(*entities, *r, np.zeros(1), np.ones(1), kept, zero)
        return Sums(first, second, zero, used)

    one, two = on_halves(work)
    return one + two


def _untilted(problem: Problem, stage: Fineness) -> StandIn:
    """The integrand without the t-integral: for each r its density, over z_i > r and over z_i < r."""
    from fairpost.engines.exact.pos.kernels.general import accumulate_general

    entities = (problem.noise, problem.c, problem.scale, problem.times, problem.low, problem.never, *_lean(problem))
    once = (np.ones(1), smooth_step(problem, stage), np.zeros(1), np.ones(1))

    def stand_in(r: Floats) -> Floats:
        out = np.zeros((r.size, 2, problem.c.size))
        for i in range(r.size):
            cancel.check()
            accumulate_general(*entities, r[i : i + 1], *once, *out[i])
        return out.reshape(r.size, -1)

    return stand_in


def _lean(problem: Problem) -> tuple[float, float]:
    """The tangent of the contour's bend, and above which r it may bend.

    Laplace values centred at or above 0 allow 45 degrees. Below 0 each has a kink: with those of a set A the integrand has terms in
    e^{s ((n - #A) r - sum_A |c|)}, which decay to the left where r > sum |c| (one at least is kept), and soon enough for no factor to
    overflow on the way where it is MARGIN times that. Gaussian transforms grow like
    e^{s^2 sigma^2/2} beyond 45 degrees, and by e^{(lean c/sigma)^2/2} on the way where c < 0.
    """
    below = np.minimum(problem.c, 0.0)
    if not problem.gaussian:
        return 1.0, -MARGIN * float(np.sum(problem.times * below))
    return float(min(0.4, 4 / np.sqrt(np.sum(problem.times * (below / problem.scale) ** 2) + 1))), 0.0
