"""PoS of few Gaussian values, any weights and either sign of S: a sum over who is clipped.

In units of the noise z_j = a_j (x_j + eta_j); S > 0, the other sign with -x. Where just those of D are clipped and k others are kept,
S is the sum of z_j - r over these, so that sum_D z_j = -k r, or

    sum_D (r - z_j) = n r   with every term above 0.

With c_D the density of that sum at this r, and U_j = E[e^{-t(z_j - r)}; z_j > r], V_i = E[(z_i - r) e^{-t(z_i - r)}; z_i > r],

    E[PoS_i; D] = int_0^inf dr k c_D(n r) int_0^inf dt V_i prod_{kept j != i} U_j,

squares with t V_i' in the place of V_i (second moments), chances at t = 0. Nobody clipped is r = 0: int dt V_i prod U_j. In `general`, where
all sets are in one product, terms with one width and terms with another share a contour that suits neither; here

    c_D(n r) = (1/2 pi i) int ds e^{snr} prod_D D_j(s),   D_j(s) = E[e^{-s(r - z_j)}; z_j < r],

has one contour that suits every D. At r > c_j, with m_j = r - c_j, D_j = e^{-s m_j + s^2 a_j^2/2} - u_j(s): the whole transform less the part
beyond r, which is bounded left of the axis; at r < c_j it is the part below r alone, which falls. The product is a sum over subsets B of terms
with e^{s (n r - m_B)}. Those with n r > m_B go round to the left, the others to the right, both at pi/8 from upright: there e^{s^2 a^2/2}
falls, and every term is bounded whatever the weights. The term with empty B is 0, closed to the left. Where all c_j >= 0 every term falls to
the left (m_B <= #B r), and the product need not be taken apart; nor where the x_j < 0 are small: on the way to the left a term grows by at most

    max_s |s| sin(pi/8) sum_B a|x| - |s|^2 cos(pi/4)/2 sum_B a^2 <= sin^2(pi/8) / (2 cos(pi/4)) sum_B x^2 = 0.104 sum_B x^2,

which is next to nothing up to GROWTH of the kernel. Taken apart, the sums over B for all D at once are n steps: W_{D + j} += W_D (-u_j).

**Steps.** s = rho (0.8 -+ sin(pi/8) (cosh v - 1) + i cos(pi/8) sinh v): equal steps of log s but near 0, whatever the scales. To either side
the integrand is bounded for another pi/8 of Im v, so that a step h misses e^{-pi^2/4h}. rho n r <= 5/8: the part right of the axis grows by
e^{1/2}. For t the steps of `between`: e^{-pi^2/h}. All is analytic in r, in noise units at c_j of entity j (its U, V, D) and at -sum_D c_j/k of
a set (its density): panels are as short as the width of each place nearby, and longer with the distance, as in `threshold.sets`; nodes of
Gauss and Legendre then converge geometrically. From REACH deviations of S on nothing is there.

**Sizes.** |D_j| <= 1 on the axis: nothing is larger than the densities themselves, and rounding is a few units of 1e-15 of a share. Who is SURE
deviations from r is on one side of it for certain (1e-19), so that at each r there are 2^m sets of the m others: up to MOST entities.

**Errors.** What the last level changed, and what no step knows: the chances of all sets must sum to P(S > 0) and P(S < 0), and so must the
shares.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fairpost import cancel
from fairpost.engines.closed.quadrature import between, on_panels
from fairpost.engines.closed.shares import SAFETY, moved, range_error, reached, refusal
from fairpost.engines.exact.pos.problem import Problem, chance_negative
from fairpost.engines.exact.threshold.sets import panels
from fairpost.engines.moments import Floats, Moments
from fairpost.parallel import over_slices

MOST, ALIKE = 10, 6
"""The most entities: 1024 sets at every r take half a second. More than ALIKE of about the same weight have one width: `general` is quicker."""
REACH = 9.0
NEAR = -3.0
"""A place of a set matters where its entities are below r, or not further above than this."""
NEVER = 1e-15
"""A sign of S with a smaller chance is left out, and that chance is in the error."""
ROUNDING = 2e-14


@dataclass(frozen=True)
class Level:
    """One refinement: nodes on a panel of r, steps of the contour and of log t, and e^-quiet is nothing."""

    order: int
    step: float
    tilt: float
    quiet: float


LEVELS = (
    Level(6, 0.15, 0.45, 28.0),
    Level(9, 0.11, 0.36, 34.0),
    Level(12, 0.085, 0.3, 38.0),
    Level(16, 0.07, 0.25, 38.0),
)


def served(problem: Problem) -> bool:
    """Few Gaussian values."""
    return problem.gaussian and problem.n <= (ALIKE if problem.alike else MOST)


def edges(a: Floats, x: Floats) -> Floats:
    """The ends of the panels of r."""
    n = a.size
    some = (np.arange(1, (1 << n) - 1)[:, None] >> np.arange(n)) & 1 == 1
    free = n - some.sum(axis=1)
    middle = -(some @ (a * x)) / free
    near = np.all((middle[:, None] / a - x > NEAR) | ~some, axis=1)
    places = np.append(a * x, middle[near])
    widths = np.append(a, (np.sqrt(some @ a**2) / free)[near])
    high = REACH * math.sqrt(float(a @ a)) + float(np.sum(np.maximum(-a * x, 0.0)))
    return panels(0.0, high, np.zeros(0), places, widths)


def one_sign(a: Floats, x: Floats, ends: Floats, level: Level) -> tuple[Floats, float]:
    """E[PoS_i], E[PoS_i^2] and P(PoS_i = 0) where S > 0, and the chance of that."""
    from fairpost.engines.exact.pos.kernels.sets import add_sets, add_shares

    size = math.sqrt(float(a @ x) ** 2 + float(a @ a))
    tilts = between(1 / size, 1 / float(np.min(a)), level.tilt)
    r, weight = on_panels(ends, level.order)
    none, every = np.zeros((3, a.size)), np.zeros(1 << a.size)
    every[-1] = 1.0
    chance = add_shares(a, -x, np.arange(a.size), np.zeros(0, dtype=np.int64), every, *tilts, none)
    halves = [slice(0, None, 2), slice(1, None, 2)]  # the same two sums on any number of threads

    def work(nodes: slice) -> tuple[Floats, float]:
        cancel.check()
        out = np.zeros((3, a.size))
        return out, add_sets(a, x, r[nodes], weight[nodes], level.step, level.quiet, *tilts, out)

    found = over_slices(lambda part: [work(half) for half in halves[part]], 2)
    one, two = (half for part in found for half in part)
    return none + one[0] + two[0], chance + one[1] + two[1]


def shares(problem: Problem, rtol: float) -> Moments:
    """Moments of PoS; ToleranceError where the levels end before the tolerance is met."""
    each = np.repeat(np.arange(problem.c.size), problem.times)
    first = np.searchsorted(each, np.arange(problem.c.size))
    a = problem.a[each]
    x = problem.c[each] / a / problem.mechanism.spread
    negative = chance_negative(problem)
    signs = [(x, 1 - negative), (-x, negative)] if negative > NEVER else [(x, 1 - negative)]
    ends = [edges(a, at) for at, _ in signs]
    p, before = problem.shares, None
    for level in LEVELS:
        cancel.check()
        found = [one_sign(a, at, end, level) for (at, _), end in zip(signs, ends, strict=True)]
        now = np.sum([parts for parts, _ in found], axis=0)[:, first]
        mass = float(np.sum(problem.times * now[0]))
        bias = now[0] - p * mass
        if before is not None:
            lost = sum(abs(chance - known) for (_, chance), (_, known) in zip(found, signs, strict=True))
            lost += sum(abs(float(np.sum(parts[0])) - chance) for parts, chance in found)
            lost += negative * (len(signs) == 1) + ROUNDING
            error = moved(bias, before[0] - p * float(np.sum(problem.times * before[0])), now[0]) + lost
            if reached(bias, error, p, rtol):
                return Moments(
                    bias,
                    error,
                    np.maximum(now[1] - 2 * p * now[0] + p * p, bias**2),
                    np.clip(now[2], 0.0, 1.0),
                    degenerate=negative,
                    mse_error=SAFETY * moved(now[1], before[1], now[1]) + 2 * p * error + lost,
                    zero_error=np.minimum(SAFETY * moved(now[2], before[2], now[2]) + lost, 1.0),
                )
            if rtol * range_error(bias, error)[0] < 2 * ROUNDING:  # no level gets there
                break
        before = now
    raise refusal("pos", bias, error, rtol)
