"""`pos-threshold` under Gaussian noise where S > 0 is all but certain, any number that may be dropped: all sets in one product.

In the symbols of `sure`, multiplied out over who is dropped and who is kept at r, E[g_i e^{-tS}] is

    int dr (1/2 pi i) int ds [first order in eps of] e^{s far r} E[e^{-t(z - r)}; far] (1 + far eps) G_i prod_{j != i} Psi_j,
    Psi_j = e^{sr} (1 + eps) U_j + e^{s(r + tau_j)} p_j(s) + eps e^{sr} f_j int_0^{tau_j} e^{-tv} e^{s(tau_j - v)} dv,
    G_i = e^{s(r + tau_i)} E[(w_i - tau_i) e^{-s w_i}] + eps e^{sr} f_i int_0^{tau_i} (v - tau_i) e^{-tv} e^{s(tau_i - v)} dv:

eps counts those who are kept, the Jacobian, or puts one of them at its edge. The term in which nobody is dropped is an atom at r = 0
and is taken off.

Whatever the set, its terms have e^{sy}, transforms e^{s^2 a^2/2} and what is bounded where Re s <= 0, with y = (n - |B|) r + sum_B a_j x_j +
tau_E: those of B are dropped anywhere, those of E at their edges. For r > 0 every y > 0: with s turned left by an angle all terms fall,
and r stays real. For r < 0 y has either sign. But under Gaussian noise everything is entire in r: let -r go along a ray that turns back
by twice the angle by which s turns. Then e^{-s n |r| e^{-i psi}} and e^{s tau} fall both, equal steps of log s and log |r| converge
geometrically whatever the weights, and no set is ever listed. The density at an edge grows by e^{(tau - x)^2 sin^2 psi/(2 cos 2 psi)} at
most on the ray, where x < tau: next to nothing. All of the ray has one point where s leaves the real axis; the lower half planes are
conjugates. Laplace noise has corners at r = a_j (x_j - tau), and no ray passes one.

Many entities on a ray make large terms that cancel; the chance that anybody is dropped, which is known, and the sum of what was added
say so, and the former refuses after the first level.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fairpost import cancel
from fairpost.engines.closed.quadrature import on_panels
from fairpost.engines.closed.shares import otherwise
from fairpost.engines.exact.pos.inverse import Inverse, inverse_of
from fairpost.engines.exact.pos.problem import Problem
from fairpost.engines.exact.sums.factors import Complexes
from fairpost.engines.exact.threshold.sets import LEVELS, Level, panels
from fairpost.engines.exact.threshold.sure import Near, Sums, few_of, near_of, refined
from fairpost.engines.moments import Counted, Floats, Moments
from fairpost.errors import ToleranceError
from fairpost.parallel import over_slices

Rule = tuple[Complexes, Complexes, Floats, float, float]

FEW, RARE = 3, 1e-3
"""Sets come first where so few may be dropped, or seldom anybody: the product is known to some part of 1, each set to a part of itself."""
TURN, RAY = math.pi / 8, math.pi / 12
"""How far s turns, in the middle of where it may, for r > 0 and along the ray: -r turns back by twice the second, and as much again is left to
where Gaussian densities grow."""
FOOT = 0.8
"""Where s crosses the real axis, over the deviation of all that may be dropped."""
TINY = 1e-9
"""The shortest panel of r, as a part of the largest weight over n."""
WORK = 5e6
"""The most (r, s, pair) values with three tilts of the first level, some 0.2 microseconds each; the third level has four times as many."""


@dataclass(frozen=True)
class Product:
    """The nodes of r, and the pairs that may be dropped."""

    near: Near
    levels: int = len(LEVELS)

    @property
    def missed(self) -> float:
        """Of the others."""
        return self.near.missed

    @cached_property
    def pairs(self) -> tuple[Counted, Counted, Counted]:
        """Distinct pairs: the first of each, how often, and the place of everybody among them."""
        _, first, place, times = np.unique(self.near.pairs, return_index=True, return_inverse=True, return_counts=True)
        return first, times, place

    @cached_property
    def scale(self) -> float:
        """Of s."""
        v = self.near.side
        return 1 / math.sqrt(float(np.sum(v.a**2)))

    @cached_property
    def least(self) -> float:
        """Below this |r| nothing changes."""
        v = self.near.side
        return max(0.3 * float(np.min(v.a)), TINY * float(np.max(v.a))) / v.n

    def ahead(self, level: Level) -> Rule:
        """r > 0: nodes, weights, the scale of s at each, how far s turns and its step."""
        v = self.near.side
        edge = v.a * (v.x - v.tau)
        places, widths = np.append(0.0, edge[edge > 0]), np.append(self.least, v.a[edge > 0])
        r, weight = on_panels(panels(0.0, self.near.top, np.zeros(0), places, widths), level.order)
        return r + 0j, weight + 0j, np.minimum(self.scale, 0.5 / (FOOT * v.n * r)), TURN, level.step

    def back(self, level: Level) -> Rule:
        """r < 0, along the ray: |r| = e^{y - e^{-y}} of its least, equal steps of y."""
        v, step = self.near.side, level.step * RAY / TURN
        far = min(
            level.quiet / (v.n * FOOT * self.scale * math.cos(2 * RAY)),
            float(np.max(v.a)) * (v.tau + math.sqrt(2 * level.quiet / math.cos(4 * RAY))),
        )
        y = np.arange(-math.log(level.quiet), math.log(far / self.least), step)
        size = self.least * np.exp(y - np.exp(-y))
        turn = np.exp(-2j * RAY)
        return -size * turn, size * (1 + np.exp(-y)) * step * turn, np.full(y.size, self.scale), RAY, step

    def evaluated(self, at: int, inverse: Inverse, rtol: float, alpha: float | None) -> Sums:
        """One level."""
        from fairpost.engines.exact.threshold.kernels.product import add_product

        v, level, unit = self.near.side, LEVELS[at], self.near.problem.mechanism.spread
        first, times, place = self.pairs
        t, omega, log_far = inverse.t * unit, inverse.omega * unit, self.near.log_far(inverse)
        rules, work = (self.ahead(level), self.back(level)), 0.0
        for r, _, rho, turn, step in rules:
            steps = np.log(2 * level.quiet / (v.n * np.abs(r) * rho * math.sin(turn)) + 20.0) / step
            work += float(np.sum(steps)) * first.size * (1 + t.size) / 4
        if at < 2 and work > WORK:
            raise ToleranceError(
                f"pos-threshold: few share the shift, and {first.size} pairs that may be dropped need {work:.2g} nodes: too long a time"
            )
        count = 16
        parts, common = np.zeros((count, 4, first.size)), np.zeros((count, t.size, 3))

        def some(which: slice) -> None:
            for i in range(*which.indices(count)):
                cancel.check()
                for r, weight, rho, turn, step in rules:
                    add_product(
                        v.a[first], v.x[first], times, v.tau, v.far, log_far, t, omega, r[i::count], weight[i::count], rho[i::count],
                        FOOT, turn, step, level.quiet, parts[i], common[i],
                    )  # fmt: skip

        over_slices(some, count, None)
        return Sums(parts.sum(axis=0)[:, place], common.sum(axis=0))


def shares(problem: Problem, tau: float, rtol: float) -> Moments:
    """Moments of `pos-threshold` where S > 0 is all but certain: by sets, or under Gaussian noise by the product."""
    inverse = inverse_of(problem, 0.02 * rtol)
    if inverse is None:
        raise ToleranceError("pos-threshold: the sum of noisy counts may come near 0; the exact integral needs S > 0")
    near = near_of(problem, tau, rtol)

    def by_sets() -> Moments:
        return refined(few_of(near), inverse, rtol)

    if not problem.gaussian:
        return by_sets()

    def by_product() -> Moments:
        return refined(Product(near), inverse, rtol)

    rare = near.side.a.size <= FEW or near.some < RARE
    first, second = (by_sets, by_product) if rare else (by_product, by_sets)
    try:
        return first()
    except ToleranceError as error:
        return otherwise(error, second)
