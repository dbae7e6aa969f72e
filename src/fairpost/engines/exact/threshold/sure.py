"""`pos-threshold` under continuous noise where S > 0 is all but certain and few entities share the shift, without a difference of shares.

`sets` finds the shares themselves, to some 1e-13 of each; where one entity has nearly all, alpha may be smaller than that. But as in
`shares`

    E[v_i/S] - P_i = E[(z_i - P_i S)/S] + Gamma_i - mean(Gamma),   Gamma_i = E[g_i/S],   g_i = v_i - (z_i - r),

and g_i = 0 where i is kept: each term has the size of the bias. 1/S is a sum of few e^{-tS} (`pos.inverse`). In the symbols of `sets`, with
A dropped at r, g_i = w_i - tau_i for those of A and v - tau_e at the edge of e. With

    Q^i_m(A, Y) = (1/2 pi i) int e^{sY} E[(w_i - tau_i) e^{-s w_i}] prod_{A - i} p_j(s) / (s + t)^m ds

a set adds to E[g_i e^{-tS}], i in A and then i kept,

    prod_K U [k Q^i_0(A, Y_A) + sum_{e in A - i} f_e Q^i_1(A - e, Y_A) + f_i (Q_2 - tau_i Q_1)(A - i, Y_A)]
                              - sum_{e in K} f_e e^{-t tau_e} prod_{K-e} U Q^i_1(A, Y_A),
    - f_i e^{-t tau_i} prod_{K-i} U Q_2(A, Y_A).

Who is never dropped is in the product as E[e^{-t(z - r)}] alone, so their number does not matter. For the mean squared error, as in
`shares`, E[(v_i^2 - z_i^2)/S^2]: -(r - g_i)^2 for those of A, -r^2 - 2r (z_i - r) for those who are kept, v^2 - (r + tau_i)^2 at the edge.

**Who and which sets.** If j is never dropped, the shift r' depends on the others alone; j is dropped where z_j <= r' + tau_j, and since
all others move one way, all shares together move by at most 2 (tau_j + |z_j - r'|)/S. With u_l a place that r' passes with a chance of
e^-l at most and L_j(u) = E[(u + tau_j - z_j)_+]

    sum_l e^-l 2 (2 tau_j F_j + L_j)(u_{l+1})

bounds what j adds, in units of the noise. k r <= sum_j (z_j)_-, whose transform is at most prod (1 + E[e^{-sz}]): Chernoff's bound has
the u_l. Where all of A and perhaps others are dropped, the chance is at most e^-l + prod_A F_j(u_l) for every l, and all |g| together have a
mean of M_l = sum_j 2 tau_j + L_j/F_j or so: sets are listed from the empty one on, and where that is too small neither A nor anything
that contains it is looked at.

**Errors.** What the last level changed; the chance that somebody is dropped, and E[r/S], which must be the mean of Gamma, both known
another way: no step knows either; the stand-in for 1/S (Cauchy and Schwarz); rounding of everything that was added; what was left out,
which at r has |g| <= Y_A + tau_A, times 1/S where S is least. In the mean squared error S times the stand-in for 1/S^2 meets that for 1/S in
2 P_i (v_i - z_i), which over S has a root mean square of at most sqrt(mse) and that without a threshold together.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from fairpost import cancel
from fairpost.engines.closed.shares import SAFETY, moved, range_error, reached, refusal
from fairpost.engines.exact.pos.inverse import Inverse, inverse_of
from fairpost.engines.exact.pos.problem import Problem, chance_negative
from fairpost.engines.exact.pos.separated import of_clipped, unclipped
from fairpost.engines.exact.threshold.sets import (
    GROWTH,
    LEFT_OUT,
    LEVELS,
    OUTLOOK,
    ROUGH,
    ROUNDING,
    WORK,
    Dropped,
    Side,
    affordable,
    chosen,
    dropped,
)
from fairpost.engines.moments import Counted, Floats, Moments
from fairpost.errors import ToleranceError
from fairpost.parallel import over_slices

LEAST = 0.25
"""Where S is below this part of its mean, the stand-in for 1/S has its own bound."""
DEEP = np.append(np.arange(0.0, 12.0, 1.0), np.arange(12.0, 61.0, 3.0))
"""Levels l of the shells of r."""
SHELLS = np.append(0.0, np.exp(-DEEP[:-1])) + np.append(np.zeros(DEEP.size - 1), math.exp(-DEEP[-1]))
"""The chance of the shell that ends at each u_l, at most; what is beyond the last is counted there."""
SMALL = 1e-2
"""Who may be dropped, and which sets: those that add more than this part of the tolerance (over their number)."""
ASTRAY = 0.02
"""By what part a level may miss the chance that anybody is dropped; those that go on to a tolerance miss it by 1e-4."""
LISTED = 600
"""The most sets."""
UNKNOWN = 1e-12
"""Before alpha is known so small a part of all bounds may be left out."""
MOST = 4000
"""The most entities that may be dropped."""


@dataclass(frozen=True)
class Sums:
    """Gamma, E[(v^2 - z^2)/S^2], P(v = 0) and what went into Gamma, of those who may be dropped; E[r^p e^{-tS}]; what was left out."""

    parts: Floats
    common: Floats
    left: float = 0.0
    chance: float = 0.0
    """Of what was left out."""


def heights(side: Side, dropped: int) -> Floats:
    """The u_l, where so many are dropped at most; one is kept, since S > 0."""
    t = np.geomspace(1e-3, 20.0, 60) / float(np.max(side.a))
    t = t[t * float(np.max(side.a)) < 0.999 * side.noise.strip]
    log = np.asarray(side.noise.cgf(np.multiply.outer(t, side.a))) - np.multiply.outer(t, side.a * side.x)
    total = np.sum(np.logaddexp(0.0, log), axis=1)
    return np.asarray(np.min((DEEP[:, None] + total) / t, axis=1) / max(side.n - dropped, 1))


@dataclass(frozen=True)
class Near:
    """Who may be dropped, each by itself and in units of the noise; the others through their number and their transform."""

    problem: Problem
    side: Side
    pairs: Counted
    """The pair of each."""
    cdf: Floats
    """F_j at the u_l."""
    size: Floats
    """What all |g| together come to at most there, on an average: twice M_l."""
    top: float
    """The last u_l."""
    some: float
    """The chance that anybody is dropped."""
    room: float
    """What need not be listed."""
    missed: float
    """What others can add to all the g_i together, in units of the noise."""
    unseen: Floats
    """The chance that one of a pair is dropped, where it is taken to be 0."""

    def log_far(self, inverse: Inverse) -> Floats:
        """log E[e^{-tz}] of the others together."""
        times = self.problem.times - np.bincount(self.pairs, minlength=self.problem.c.size)
        log = self.problem.tilted(inverse.t)[0] @ times
        return np.asarray(log - inverse.t * float(np.sum(times * self.problem.c)))


def near_of(problem: Problem, tau: float, rtol: float) -> Near:
    """Who may be dropped; refused where they are too many."""
    unit, noise = problem.mechanism.spread, problem.mechanism.scaled(1.0)
    x = problem.c / problem.a / unit
    chance = np.minimum(noise.cdf(tau / unit - x), 1 - 1e-16)
    some = -float(np.expm1(np.sum(problem.times * np.log1p(-chance))))
    each = np.repeat(np.arange(x.size), problem.times)
    side = Side(noise, problem.a[each], x[each], tau / unit, some)
    room = SMALL * rtol * float(np.max(chance[each] * side.a))
    may, found = np.zeros(0, dtype=np.int64), -1
    while found < may.size <= MOST:
        found = may.size
        u = heights(side, found)
        cut = side.cut(u)
        cdf, fall = np.asarray(noise.cdf(cut)), np.asarray(-noise.lower(cut, 0.0, 1).real)
        adds = 2 * side.a * (SHELLS @ (2 * side.tau * cdf + fall))
        order = np.argsort(adds)
        may = np.sort(order[np.searchsorted(np.cumsum(adds[order]), room) :])
    if not 0 < may.size <= MOST:
        raise ToleranceError(
            f"pos-threshold: few share the shift, and of {side.n} entities {may.size} may be dropped; the exact integral looks at "
            f"{MOST} at most"
        )
    near = replace(side, a=side.a[may], x=side.x[may], far=side.n - may.size)
    missed = float(np.sum(np.delete(adds, may)))
    unseen = np.zeros(x.size)
    unseen[np.delete(each, may)] = np.delete(SHELLS @ cdf, may)
    ratio = fall[:, may] / np.maximum(cdf[:, may], np.finfo(float).tiny)
    size = 2 * np.sum(side.a[may] * (2 * side.tau + ratio), axis=1)
    return Near(problem, near, each[may], cdf[:, may], size, float(u[-1]), some, room, missed, unseen)


@dataclass(frozen=True)
class Few:
    """Those who may be dropped, and the sets of them that matter."""

    near: Near
    sets: list[Dropped]
    missed: float
    chance: float
    """Of the sets that are not listed."""
    levels: int = len(LEVELS)

    def evaluated(self, at: int, inverse: Inverse, rtol: float, alpha: float | None) -> Sums:
        """One level."""
        from fairpost.engines.exact.threshold.kernels.sure import add_gamma

        problem, v, level = self.near.problem, self.near.side, LEVELS[at]
        unit = problem.mechanism.spread
        t, omega, log_far = inverse.t * unit, inverse.omega * unit, self.near.log_far(inverse)
        rules, chances, size = [], [], largest(problem, inverse)
        for one in self.sets:
            r, weight, bound = one.nodes(level.order)
            rise = np.abs(v.n * r) + 2 * v.tau * float(np.sum(v.a[one.inside]))
            rules.append((r, weight, bound * size * rise))
            chances.append(bound)
        whole = alpha or sum(float(np.sum(bound)) for _, _, bound in rules)  # all alike: alpha is 0
        if not whole > 0:
            raise ToleranceError("pos-threshold: the chance that anybody is dropped is too small for a float")
        both = [(r, w, b + whole / self.near.some * c) for (r, w, b), c in zip(rules, chances, strict=True)]
        nodes, left = chosen(both, whole * (LEFT_OUT * rtol if alpha else UNKNOWN))
        affordable(self.sets, nodes, level, WORK if at > 1 else WORK / GROWTH)
        parts, common = np.zeros((len(nodes), 4, v.a.size)), np.zeros((len(nodes), t.size, 3))

        def some(which: slice) -> None:
            for i in range(*which.indices(len(nodes))):
                cancel.check()
                one, (r, weight) = self.sets[i], nodes[i]
                if r.size:
                    add_gamma(
                        v.gaussian, v.a, v.x, v.tau, one.inside, one.others, r, weight, one.limit, one.limits, level.step, level.quiet,
                        t, omega, v.far, log_far, parts[i], common[i],
                    )  # fmt: skip

        over_slices(some, len(nodes), None)
        return Sums(parts.sum(axis=0), common.sum(axis=0), left, left / whole * self.near.some + self.chance)


def largest(problem: Problem, inverse: Inverse) -> float:
    """The stand-in for 1/S where S is least, in units of the noise."""
    return float(inverse(np.array([LEAST * problem.mean]))[0]) * problem.mechanism.spread


def few_of(near: Near) -> Few:
    """The sets that matter; refused where they are too many."""
    v, lost = near.side, near.missed
    listed = [(np.zeros(0, dtype=np.int64), np.ones(DEEP.size))]
    beyond = np.array([SHELLS[at + 1 :] @ near.size[at + 1 :] for at in range(DEEP.size)])
    found: list[Counted] = []
    chance = 0.0
    while listed:
        own, product = listed.pop()
        for j in range(int(own[-1]) + 1 if own.size else 0, v.a.size):
            here = product * near.cdf[:, j]
            bound = float(np.min(beyond + here * near.size))
            if bound * LISTED < near.room:
                lost += bound
                chance += float(np.min(np.exp(-DEEP) + here))
            else:
                listed.append((np.append(own, j), here))
                found.append(listed[-1][0])
        if len(found) > LISTED:
            raise ToleranceError(
                f"pos-threshold: few share the shift, and more than {LISTED} sets of {v.a.size} that may be dropped of {v.n} matter"
            )
    return Few(near, [dropped(v, own) for own in found], lost, chance)


class Way(Protocol):
    """How Gamma is found."""

    @property
    def near(self) -> Near:
        """Who may be dropped."""

    @property
    def missed(self) -> float:
        """What was not looked at can add to all the g_i together, in units of the noise."""

    @property
    def levels(self) -> int:
        """How many there are."""

    def evaluated(self, at: int, inverse: Inverse, rtol: float, alpha: float | None) -> Sums:
        """One level; what adds little to alpha, as far as that is known, may be left out. Refused where it is too much work."""


def refined(way: Way, inverse: Inverse, rtol: float) -> Moments:
    """Levels until two agree to the tolerance."""
    near, problem = way.near, way.near.problem
    p, unit, negative = problem.shares, problem.mechanism.spread, chance_negative(problem)
    before: tuple[Floats, Floats, Floats] | None = None
    alpha: float | None = None
    for at in range(0 if rtol > ROUGH else 1, way.levels):
        cancel.check()
        found = way.evaluated(at, inverse, rtol, alpha)
        gamma, zero, size = np.zeros((3, p.size))
        gamma[near.pairs], zero[near.pairs], size[near.pairs] = found.parts[0], found.parts[2], found.parts[3]
        bias0, mse0 = unclipped(problem, inverse)
        mean = float(np.sum(problem.times * gamma)) / problem.n
        bias = bias0 + gamma - mean
        # who is never dropped: r^2 - 2 r z
        twice, first = inverse.omega * inverse.t * unit, problem.c + problem.tilted(inverse.t)[1]
        square = unit * float(twice @ found.common[:, 2]) - 2 * (twice * found.common[:, 1]) @ first
        square[near.pairs] = found.parts[1]
        mse = np.maximum(mse0 + square - 2 * p * (gamma - mean), bias**2)
        off = abs(found.common[0, 0] / (near.some - negative) - 1)
        if not off < ASTRAY:
            raise ToleranceError(
                f"pos-threshold: the first rules miss the chance that anybody is dropped by {off:.2g} of itself"
            )
        if before is not None:
            root = unit * float(inverse.omega @ found.common[:, 1])
            rule = (
                moved(bias, before[0], np.abs(gamma) + abs(mean)) + off * (np.abs(gamma) + abs(mean)) + abs(root - mean)
            )
            rounding = ROUNDING * (np.abs(bias0) + size + float(np.sum(problem.times * size)) / problem.n)
            left = found.left + way.missed * largest(problem, inverse)
            error = rule + rounding + np.sqrt(mse) * inverse.rms + inverse.tail + left
            alpha, slack = range_error(bias, error)
            last = slack > rtol * alpha * OUTLOOK ** min(way.levels - 1 - at, 3)
            # what `reached` takes for rounding of the shares is none here, as long as there is a level to come
            if reached(bias, error, p if last or p.size == 1 else 0 * p, rtol):
                lost = off * near.some + negative + inverse.tail + found.chance
                spread = SAFETY * moved(mse, before[1], mse) + of_clipped(inverse, mse, mse0, p) + 2 * p * error
                change = SAFETY * moved(zero, before[2], zero) + lost + near.unseen + ROUNDING * zero
                return Moments(
                    bias,
                    error,
                    mse,
                    np.clip(zero, 0.0, 1.0),
                    degenerate=negative,
                    mse_error=np.asarray(spread + lost * (mse + np.abs(square)) + 4 * left * np.sqrt(mse)),
                    zero_error=np.minimum(change, 1.0),
                )
            if last:
                break
        alpha = range_error(bias, 0 * bias)[0]
        before = (bias, mse, zero)
        enough = 0.1 * rtol * alpha / float(np.sqrt(np.max(mse)))
        if enough < inverse.rms:
            inverse = inverse_of(problem, max(enough, ROUNDING)) or inverse
    raise refusal("pos-threshold", bias, error, rtol)
