"""`pos-threshold` under continuous noise where few entities may be dropped, for any weights and either sign of S: set by set.

z_j = a_j (x_j + eta_j) in units of the noise, tau_j = a_j tau. Where just those of A are dropped and k others are kept, the sum of z_j - r
over the kept ones is S, so that k r = -sum_A z_j. With w_j = r + tau_j - z_j >= 0 for those of A

    sum_A w_j = n r + tau_A = Y_A(r),   tau_A = sum_A tau_j:

r has the density k c_A(Y_A), c_A the convolution of the one-sided densities of w_j at this r, and the kept ones are free above r + tau_j.
Where r stands at the edge of e, z_e = r + tau_e, e gets v = Y_{A+e} - sum_A w_j, 0 < v < tau_e. With 1/S = int e^{-tS} dt,
U_j = E[e^{-t(z_j - r)}; kept], f_e the density of z_e at its edge, p_j(s) the transform of w_j and

    Q_m(A, Y) = (1/2 pi i) int e^{sY} prod_A p_j(s) / (s + t)^m ds = int_0^Y v^{m-1}/(m-1)! e^{-tv} c_A(Y - v) dv,

v < tau_e is all v less those above tau_e, and since Y_{A+e} - tau_e = Y_A all of it can be sorted by where Y_A > 0:

    E[e^{-tS}] = sum_A int dr prod_K U [k Q_0(A, Y_A) + sum_{e in A} f_e Q_1(A - e, Y_A)]
                              - sum_{e in K} f_e e^{-t tau_e} prod_{K-e} U Q_1(A, Y_A).

Each A has its own beginning r = -tau_A/n, where it rises like a power, and its own panels: near places where an edge or the middle of a
sum of noises comes by they are as short as that noise, and longer with the distance; Laplace noise has its corners there. Shares put
E[z_i - r] under the tilt in the place of U_i, and Q_2 for v. Both signs of S: the other one with -z.

**The contour.** For m_j = r + tau_j - a_j x_j > 0 p_j = e^{-s m_j} M_j(s) - u_j(s): the whole transform less the part beyond. The product
is a sum over subsets B of terms with e^{s (Y - m_B)}. Where Y > m_B the contour bends to the left, else to the right; both cross the axis
right of the poles -t and left of the first pole of M_j, every term is bounded there, and both ways it falls exponentially whatever the
weights: Laplace noise has poles on the real axis only, and e^{s^2/2} falls within 45 degrees of upright. Equal steps of log s and of log t
converge geometrically.

**Errors.** What the last level changed; the chance of S of either sign, which must be 1, and the sum of the shares, which must be that
chance; what was left out: at r a set adds at most prod_A F_j prod_K (1 - F_j) times k min_A f/F_j + sum_A f_e/F_e + sum_K f_e/(1 - F_e),
in the first f the largest density.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fairpost import cancel
from fairpost.engines.closed.quadrature import on_panels
from fairpost.engines.closed.shares import SAFETY, changed, moved, range_error, reached, refusal
from fairpost.engines.exact.pos.problem import Problem, chance_negative
from fairpost.engines.moments import Counted, Floats, Moments
from fairpost.errors import ToleranceError
from fairpost.noise import Law
from fairpost.parallel import over_slices

MOST, LARGEST = 8, 40
"""The most entities that may be dropped, and the most in all."""
NEVER = 1e-18
"""Who is dropped with a smaller chance never is."""
SURE = 37.0
"""Sums of noises go no further than where Chernoff's bound is e^-SURE."""
HALVINGS = 60
WORK = 1.0e7
"""The most steps of contours on one level, some half a microsecond each."""
STEPS = 9.0
"""Of one contour, over the step: by and large."""
GROWTH = 3.2
"""How much more the third level takes than the first: a refusal comes before any work."""
LEFT_OUT = 0.05
"""The part of the tolerance that may be left out; before alpha is known it is taken to be FIRST."""
FIRST = 0.1
ROUGH = 1e-5
"""A larger tolerance begins with the first levels."""
ROUNDING = 1e-13
OUTLOOK = 60.0
"""What a further level may gain; more than two are not hoped for."""


@dataclass(frozen=True)
class Level:
    """One refinement: nodes on a panel of r, steps of the contour and of log t, and e^-quiet is nothing."""

    order: int
    step: float
    tilt: float
    quiet: float


LEVELS = (
    Level(4, 0.28, 0.5, 18.0),
    Level(5, 0.2, 0.45, 21.0),
    Level(7, 0.15, 0.38, 26.0),
    Level(9, 0.11, 0.32, 31.0),
    Level(12, 0.085, 0.28, 36.0),
    Level(15, 0.07, 0.25, 38.0),
)


@dataclass(frozen=True)
class Side:
    """One sign of S: every entity by itself, in units of the noise."""

    noise: Law
    a: Floats
    x: Floats
    tau: float
    rare: float = 1.0
    """The chance that anybody is dropped: what is less likely by NEVER does not matter."""
    far: int = 0
    """So many more are never dropped."""

    @property
    def n(self) -> int:
        """How many there are."""
        return int(self.a.size) + self.far

    @property
    def gaussian(self) -> bool:
        """Gaussian noise, or else Laplace."""
        return bool(np.isinf(self.noise.strip))

    def cut(self, r: Floats) -> Floats:
        """Where the noise of each ends for it to be dropped."""
        return np.asarray(r[:, None] / self.a + self.tau - self.x)

    def reach(self, some: Counted) -> float:
        """How far the noises of some go below 0 in all."""
        a = self.a[some]
        if a.size == 0:
            return 0.0
        t = np.geomspace(0.05, 20.0, 40) / math.sqrt(float(np.sum(a * a)))
        t = t[t * np.max(a) < self.noise.strip]
        log = np.asarray(self.noise.cgf(np.multiply.outer(t, a))).sum(axis=1)
        return float(np.min((SURE - math.log(self.rare) + log) / t))

    def limit(self, some: Counted) -> float:
        """Beyond this r those are not dropped alone: their sum would have to be -k r."""
        k = self.n - some.size
        return (self.reach(some) - float(np.sum(self.a[some] * self.x[some]))) / k if k else -math.inf

    def droppable(self) -> Counted:
        """Who may be dropped: at r = 0, or at the largest r that those before leave possible."""
        found = np.zeros(0, dtype=np.int64)
        while True:
            k = self.n - found.size
            if k == 0:
                return found
            low = float(np.sum(np.minimum(self.a * self.x, 0.0)[found]))
            top = (self.reach(found) - low) / k
            more = np.flatnonzero(self.noise.cdf(self.cut(np.array([top]))[0]) > NEVER * self.rare)
            if more.size == found.size:
                return more
            found = more


@dataclass(frozen=True)
class Dropped:
    """A set of dropped entities and its panels of r."""

    side: Side
    inside: Counted
    others: Counted
    limit: float
    limits: Floats
    """Of the set without each of its entities."""

    @cached_property
    def edges(self) -> Floats:
        """The ends of the panels; none where the set does not matter."""
        v, own = self.side, self.inside
        jump = v.tau * float(np.sum(v.a[own]))
        low, high = -jump / v.n, max(self.limit, float(np.max(self.limits)))
        if high <= low:
            return np.zeros(0)
        some = (np.arange(1, 1 << own.size)[:, None] >> np.arange(own.size)) & 1 == 1
        some = some[some.sum(axis=1) < v.n]
        free = v.n - some.sum(axis=1)
        middle = (some @ (v.a[own] * (v.tau - v.x[own])) - jump) / free
        near = np.all((v.cut(middle)[:, own] > -3.0) | ~some, axis=1)
        places = np.append(v.a * (v.x - v.tau), middle[near])
        widths = np.append(v.a, (np.sqrt(some @ v.a[own] ** 2) / free)[near])
        marks = np.concatenate([places, [0.0, self.limit], self.limits])
        return panels(low, high, marks, places, widths)

    def nodes(self, order: int) -> tuple[Floats, Floats, Floats]:
        """r, weights, and bounds of what each adds."""
        if self.edges.size == 0:
            return np.zeros(0), np.zeros(0), np.zeros(0)
        r, weight = on_panels(self.edges, order)
        v, (own, rest) = self.side, (self.inside, self.others)
        c = v.cut(r)
        below, above = v.noise.cdf(c) + 1e-300, v.noise.sf(c) + 1e-300
        at = v.noise.density(c) / v.a
        chance = np.exp(np.sum(np.log(below[:, own]), axis=1) + np.sum(np.log(above[:, rest]), axis=1))
        peak = float(v.noise.density(0.0))
        regular = (v.n - own.size) * np.min(peak / v.a[own] / below[:, own], axis=1) * (r < self.limit)
        edge = np.sum(at[:, own] / below[:, own] * (r[:, None] <= self.limits), axis=1)
        after = np.sum(at[:, rest] / above[:, rest], axis=1) * (r < self.limit)
        return r, weight, weight * chance * (regular + edge + after)


def panels(low: float, high: float, marks: Floats, places: Floats, widths: Floats) -> Floats:
    """Ends of panels that are as short as the width of each place nearby, and longer with the distance; every mark is an end."""
    inner = np.unique(marks[(marks > low) & (marks < high)])
    edges = np.concatenate([[low], inner, [high]])
    edges = edges[np.append(True, np.diff(edges) > 1e-14 * (high - low))]
    for _ in range(HALVINGS):
        left, right = edges[:-1, None], edges[1:, None]
        far = np.maximum(np.maximum(places - right, left - places), 0.0)
        long = np.diff(edges) > np.min(widths + far, axis=1)
        if not np.any(long):
            break
        edges = np.sort(np.concatenate([edges, 0.5 * (edges[:-1] + edges[1:])[long]]))
    return edges


def sets(side: Side) -> list[Dropped]:
    """Every set of those who may be dropped; refused where they are too many."""
    may = side.droppable()
    if may.size > MOST or side.a.size > LARGEST:
        raise ToleranceError(
            f"pos-threshold: the sum of noisy counts may come near 0 or few share the shift, and with uneven weights sets of dropped "
            f"entities are listed for at most {MOST} of {LARGEST}, got {may.size} of {side.n}"
        )
    return [dropped(side, may[(mask >> np.arange(may.size)) & 1 == 1]) for mask in range(1, 1 << may.size)]


def dropped(side: Side, own: Counted) -> Dropped:
    """The set of these."""
    limits = np.array([side.limit(np.delete(own, i)) if own.size > 1 else 0.0 for i in range(own.size)])
    return Dropped(side, own, np.setdiff1d(np.arange(side.a.size), own), side.limit(own), limits)


@dataclass(frozen=True)
class Sums:
    """E[share], E[share^2] and P(share = 0) of every entity, the chance of it all, and what was left out."""

    parts: Floats
    chance: float
    left: float


def chosen(rules: list[tuple[Floats, Floats, Floats]], room: float) -> tuple[list[tuple[Floats, Floats]], float]:
    """Nodes and weights without those that add least, as far as there is room; and what is left out."""
    bounds = np.sort(np.concatenate([b for _, _, b in rules])) if rules else np.zeros(0)
    small = int(np.searchsorted(np.cumsum(bounds), room))
    least = bounds[small] if small < bounds.size else math.inf
    return [(r[b >= least], weight[b >= least]) for r, weight, b in rules], float(np.sum(bounds[:small]))


def affordable(every: list[Dropped], nodes: list[tuple[Floats, Floats]], level: Level, limit: float) -> None:
    """Refuse what is too much work."""
    work = sum(r.size * (1 + 2.0**one.inside.size / 20) for one, (r, _) in zip(every, nodes, strict=True))
    if (work := STEPS / level.step * work) > limit:
        raise ToleranceError(
            f"pos-threshold: {len(every)} sets of dropped entities need {work:.2g} steps, which would take too long"
        )


def evaluated(sides: list[Side], lists: list[list[Dropped]], level: Level, room: float, limit: float = WORK) -> Sums:
    """One level; what adds least is left out as far as there is room. Refused where it is too much work."""
    from fairpost.engines.exact.threshold.kernels.sets import add_none, add_set

    every = [one for some in lists for one in some]
    nodes, missed = chosen([one.nodes(level.order) for one in every], room)
    affordable(every, nodes, level, limit)
    n = sides[0].n
    parts, chances = np.zeros((len(every), 3, n)), np.zeros(len(every))

    def some(which: slice) -> None:
        for at in range(*which.indices(len(every))):
            cancel.check()
            one, (r, weight) = every[at], nodes[at]
            v = one.side
            if r.size:
                chances[at] = add_set(
                    v.gaussian, v.a, v.x, v.tau, one.inside, one.others, r, weight, one.limit, one.limits,
                    level.step, level.tilt, level.quiet, parts[at],
                )  # fmt: skip

    over_slices(some, len(every), None)
    whole, chance = parts.sum(axis=0), float(chances.sum())
    for v in sides:
        chance += add_none(v.gaussian, v.a, v.x, v.tau, level.tilt, level.quiet, whole)
    return Sums(whole, chance, missed)


def shares(problem: Problem, tau: float, rtol: float) -> Moments:
    """Moments of `pos-threshold` for three or more entities of which few may be dropped."""
    unit = problem.mechanism.spread
    each = np.repeat(np.arange(problem.c.size), problem.times)
    first = np.searchsorted(each, np.arange(problem.c.size))
    a, noise = problem.a[each], problem.mechanism.scaled(1.0)
    negative = chance_negative(problem)
    both = negative > 1e-14
    sides = [
        Side(noise, a, sign * problem.c[each] / a / unit, tau / unit) for sign in ((1.0, -1.0) if both else (1.0,))
    ]
    lists = [sets(side) for side in sides]
    p, sure = problem.shares, 1.0 if both else 1.0 - negative
    before: tuple[Floats, Floats] | None = None
    alpha = FIRST
    levels = LEVELS if rtol > ROUGH else LEVELS[1:]
    for at, level in enumerate(levels):
        cancel.check()
        found = evaluated(sides, lists, level, LEFT_OUT * rtol * alpha, WORK / GROWTH if at == 0 else WORK)
        now = found.parts[:, first]
        mass = float(np.sum(problem.times * now[0]))
        bias = now[0] - p * mass
        mse = np.maximum(now[1] - 2 * p * now[0] + p * p, bias**2)
        if before is not None:
            lost = abs(found.chance - sure) + abs(mass - found.chance) + 2 * negative * (not both)
            sizes = problem.times * (p + now[0])  # whose share moves by more than its own, others move by as much
            error = changed(bias, before[1], p + now[0]) + lost * np.minimum(p + now[0], np.sum(sizes) - (p + now[0]))
            error += ROUNDING * (p + now[0]) + found.left  # a set that was left out may be about a small share
            lost += found.left
            if reached(bias, error, p, rtol):
                change = SAFETY * moved(now[2], before[0][2], now[2]) + lost + ROUNDING
                spread = SAFETY * moved(now[1], before[0][1], now[1]) + 2 * p * error + lost + ROUNDING
                return Moments(
                    bias,
                    error,
                    mse,
                    np.clip(now[2], 0.0, 1.0),
                    degenerate=negative,
                    mse_error=np.asarray(spread),
                    zero_error=np.minimum(change, 1.0),
                )
            alpha, slack = range_error(bias, error)
            if slack > rtol * alpha * OUTLOOK ** min(len(levels) - 1 - at, 2):
                break
        alpha, before = range_error(bias, 0 * bias)[0], (now, bias)
    raise refusal("pos-threshold", bias, error, rtol)
