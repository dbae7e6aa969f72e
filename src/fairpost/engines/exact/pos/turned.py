"""PoS where S < 0 under Laplace noise, for any weights: integrals over (s, r, t) in which both s and r leave the real axis.

Mirrored, the values are z_j = -g_j + beta_j L_j with g_j = a_j x_j >= 0 (as in `pos.opposite`, which sums over the sets of few entities). All
centres are at or below 0, so that above r > 0 there are exponential tails alone. With h_j = e^{-g_j/beta_j}/2 the factors of `pos`,
times e^{sr}, are

    e^{sr} psi_j = b_j + d_j + u_j,                        b_j = e^{-s g_j}/(1 - s^2 beta_j^2),
    d_j = -e_j/(1 - s beta_j),  u_j = e_j/(1 + t beta_j),  e_j = h_j e^{-r (1/beta_j - s)}.

On the real axis of r each g_j is a kink that no path of s may pass: terms with b_j for a set B have e^{-s g_B}, which falls to the right,
and those without have e^{s r}, which falls to the left. But as a function of r every factor is entire. Let s turn right, along

    s = w (i sinh(v - i pi/4) - sin(pi/4)),

through 0 and then at 45 degrees, and for each s let r go along the ray whose argument is opposite to the mean of those of 1/beta_j - s.
These lie within 3 pi/4 of each other, so that every e_j falls along the ray, at pi/8 or more from where it would not. Then all terms fall but
one: that without any b. It is 0, since it alone can be closed to the left, and is taken off:

    E[share_i; S < 0] = atom + int dt int ds/(2 pi i) int dr V_i [ prod' psi (1 + sum' u/psi)  -  the same with every b_j = 0 ],

over all but i, V_i = e_i beta_i/(1 + t beta_i)^2. With b = 0 the factors are -e_j beta_j (s + t) / ((1 - s beta_j) (1 + t beta_j)): product and
sum are closed. Squares have 2 t beta_i/(1 + t beta_i) more. The atom is S < 0 with nobody dropped, h_1 ... h_n.

Size and steps. Re s^2 <= 0 on the path, so |b_j| <= 1, and |e_j| <= 1/2: what is added is about as large as the answer, and rounding is
a small multiple of n times that. Steps in v: moved to the left by pi/4 the path is where b is largest, e^{0.7 w g_B} times 1/(1 - w^2 beta^2/2)
and so on, which w = 1/max(beta, sum g/4, (sum beta^2)^{1/2}/4) keeps to a few units. Steps in u, r = ray e^{u - e^{start - u}}:
e^{-2 pi margin/step} (`rays`). Steps in t are equal ones of log t from the scale of S to the smallest one (`between`): 1/(1 + t beta)
has its poles at a distance pi. All converge geometrically, with other constants each, so a stage has shorter ones of all three. The
error is what the last stage changed, the distance of the sum of shares from P(S < 0), which no step knows, what was left out, and
rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from fairpost.engines.closed.quadrature import between
from fairpost.engines.exact.pos.problem import Problem
from fairpost.engines.exact.pos.side import Refined, Sums, on_halves
from fairpost.engines.exact.sums.factors import Complexes
from fairpost.engines.moments import Floats

MOST = 150
"""The most pairs: work grows like their number, and among more a few stand for all (`pos.close`) on the usual contours."""
STEPS = ((0.2, 22.0, 0.42), (0.16, 26.0, 0.33), (0.125, 31.0, 0.26), (0.095, 35.0, 0.2))
"""Of v; the exponent to which those of r and its range go; of t."""
LAST = 14.0
"""v ends where |s| is e^LAST/min beta. What follows is e^{-2 LAST} of terms that are 2^-n themselves."""
COST, MORE = 1.0, 3.0
"""What one pair at one (s, t) takes for each unit of the exponent of r, in the units of `general`; two stages in terms of the first."""
ROUNDING = 1e-15
"""Of each factor."""


def served(problem: Problem) -> bool:
    """Laplace values, none of them centred below 0."""
    return not problem.gaussian and problem.c.size <= MOST and bool(np.all(problem.c >= 0))


class Turned(Refined):
    """The side S < 0 of a problem, at its present stage of refinement; `chance` is P(S < 0)."""

    def __init__(self, problem: Problem, chance: float, spend: Callable[[float, float], None]) -> None:
        super().__init__(problem, chance, len(STEPS))
        self.spend = spend
        self.begin()

    def evaluate(self) -> tuple[Sums, float]:
        """The sums of the present stage, and what they may miss besides its steps."""
        from fairpost.engines.exact.pos.kernels.turned import accumulate_turned

        problem, (step, gain, tilt) = self.problem, STEPS[self.stage]
        path, speed = _path(problem, step)
        spread = math.sqrt(float(np.sum(problem.times * problem.scale**2)))
        t, omega = between(1 / spread, 1 / float(np.min(problem.scale)), tilt)
        orders = math.log(float(np.max(problem.scale) / np.min(problem.scale)))
        cost = COST * path.size * (gain + orders) * t.size * problem.c.size
        self.spend(cost, MORE * cost if self.stage == 0 else cost)

        def work(part: slice) -> tuple[Floats, int, float, float]:
            out = np.zeros((3, problem.c.size))
            nodes = (path[part], speed[part], gain, np.append(0.0, t), np.append(0.0, omega))
            return out, *accumulate_turned(problem.c, problem.scale, problem.times, *nodes, *out)

        one, two = on_halves(work)
        size, omitted = one[2] + two[2], one[3] + two[3]
        first, second, zero = one[0] + two[0]
        found = Sums(first, second, zero, one[1] + two[1]) + _atom(problem, t, omega)
        return found, omitted + ROUNDING * problem.n * size


def _path(problem: Problem, step: float) -> tuple[Complexes, Complexes]:
    """s at the middles of equal steps in v > 0, and ds/(pi i dv) times the step; the lower half is its mirror image."""
    beta, times = problem.scale, problem.times
    spread = math.sqrt(float(np.sum(times * beta**2)))
    w = 1 / max(float(np.max(beta)), problem.mean / 4, spread / 4)
    v = step * (np.arange(math.ceil((LAST - math.log(w * float(np.min(beta)))) / step)) + 0.5)
    turn = w * math.sqrt(0.5)
    path = turn * (1j * np.sinh(v) + np.cosh(v) - 1)
    return path, turn * (np.cosh(v) - 1j * np.sinh(v)) * (step / math.pi)


def _atom(problem: Problem, t: Floats, omega: Floats) -> Sums:
    """Nobody is dropped: exponential values alone."""
    beta, times = problem.scale, problem.times
    fall = 1 / (1 + np.multiply.outer(t, beta))
    all_kept = np.sum(times * (-math.log(2) - problem.c / beta))
    weight = omega * np.exp(np.log(fall) @ times + all_kept)
    first, second = weight @ (beta * fall), (weight * t) @ (2 * (beta * fall) ** 2)
    return Sums(first, second, np.zeros_like(first), 0)
