"""`pos-threshold` under continuous noise where S > 0 is all but certain and few entities may be dropped: set by set, without a difference.

`sets` finds the shares themselves, to some 1e-13 of each; where one entity has nearly all, alpha may be smaller than that. But as in `shares`

    E[v_i/S] - P_i = E[(z_i - P_i S)/S] + Gamma_i - mean(Gamma),   Gamma_i = E[g_i/S],   g_i = v_i - (z_i - r),

and g_i = 0 where i is kept: each term has the size of the bias. 1/S is a sum of few e^{-tS} (`pos.inverse`). In the symbols of `sets`, with A
dropped at r, g_i = w_i - tau_i for those of A, v - tau_e at the edge of e, and Y_A - v = sum_A w as there. With

    Q^i_m(A, Y) = (1/2 pi i) int e^{sY} E[(w_i - tau_i) e^{-s w_i}] prod_{A - i} p_j(s) / (s + t)^m ds

a set adds to E[g_i e^{-tS}], i in A and then i kept,

    prod_K U [k Q^i_0(A, Y_A) + sum_{e in A - i} f_e Q^i_1(A - e, Y_A) + f_i (Q_2 - tau_i Q_1)(A - i, Y_A)]
                              - sum_{e in K} f_e e^{-t tau_e} prod_{K-e} U Q^i_1(A, Y_A),
    - f_i e^{-t tau_i} prod_{K-i} U Q_2(A, Y_A).

Who is never dropped is in the product as E[e^{-t(z - r)}] alone, so their number does not matter. For the mean squared error, as in `shares`,
E[(v_i^2 - z_i^2)/S^2]: -(r - g_i)^2 for those of A, -r^2 - 2r (z_i - r) for those who are kept, v^2 - (r + tau_i)^2 at the edge.

**Errors.** What the last level changed; the chance that somebody is dropped, and E[r/S], which must be the mean of Gamma, both known another way: no
step knows either; the stand-in for 1/S (Cauchy and Schwarz); rounding of everything that was added; what was left out, which at r has |g| <= Y_A
+ tau_A, times 1/S where S is least.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fairpost import cancel
from fairpost.engines.exact.pos.inverse import Inverse, inverse_of
from fairpost.engines.exact.pos.problem import Problem, chance_negative
from fairpost.engines.exact.pos.separated import of_square, unclipped
from fairpost.engines.exact.shares import SAFETY, moved, range_error, reached, refusal
from fairpost.engines.exact.threshold.sets import (
    GROWTH,
    LEFT_OUT,
    LEVELS,
    MOST,
    OUTLOOK,
    ROUGH,
    ROUNDING,
    WORK,
    Dropped,
    Level,
    Side,
    affordable,
    chosen,
    subsets,
)
from fairpost.engines.moments import Counted, Floats, Moments
from fairpost.errors import ToleranceError
from fairpost.parallel import over_slices

LEAST = 0.25
"""Where S is below this part of its mean, the stand-in for 1/S has its own bound."""


@dataclass(frozen=True)
class Sums:
    """Gamma, E[(v^2 - z^2)/S^2], P(v = 0) and what went into Gamma, of those who may be dropped; E[r^p e^{-tS}]; what was left out."""

    parts: Floats
    common: Floats
    left: float


@dataclass(frozen=True)
class Few:
    """Those who may be dropped, and their sets; the others through their number and their transform."""

    problem: Problem
    side: Side
    pairs: Counted
    """The pair of each."""
    sets: list[Dropped]
    some: float
    """The chance that anybody is dropped."""

    def bound(self, one: Dropped, order: int, size: float) -> tuple[Floats, Floats, Floats]:
        """Nodes, weights, and bounds of what each adds to Gamma."""
        r, weight, bound = one.nodes(order)
        jump = self.side.tau * float(np.sum(self.side.a[one.inside]))
        return r, weight, bound * size * (np.abs(self.side.n * r) + 2 * jump)

    def evaluated(self, level: Level, inverse: Inverse, room: float | None, limit: float) -> Sums:
        """One level, with room for what is left out."""
        from fairpost.engines.exact.threshold.kernels.sure import add_gamma

        unit, v = self.problem.mechanism.spread, self.side
        t, omega = inverse.t * unit, inverse.omega * unit
        size = float(inverse(np.array([LEAST * self.problem.mean]))[0]) * unit
        rules = [self.bound(one, level.order, size) for one in self.sets]
        if room is None:
            room = 1e-9 * sum(float(np.sum(b)) for _, _, b in rules)
        nodes, left = chosen(rules, room)
        affordable(self.sets, nodes, level, limit)
        times = self.problem.times - np.bincount(self.pairs, minlength=self.problem.c.size)
        log_far = self.problem.tilted(inverse.t)[0] @ times - inverse.t * float(np.sum(times * self.problem.c))
        parts, common = np.zeros((len(nodes), 4, v.a.size)), np.zeros((len(nodes), t.size, 3))

        def some(which: slice) -> None:
            for at in range(*which.indices(len(nodes))):
                cancel.check()
                one, (r, weight) = self.sets[at], nodes[at]
                if r.size:
                    add_gamma(
                        v.gaussian, v.a, v.x, v.tau, one.inside, one.others, r, weight, one.limit, one.limits, level.step, level.quiet,
                        t, omega, v.far, log_far, parts[at], common[at],
                    )  # fmt: skip

        over_slices(some, len(nodes), None)
        return Sums(parts.sum(axis=0), common.sum(axis=0), left)


def few_of(problem: Problem, tau: float) -> Few:
    """Who may be dropped; refused where they are too many."""
    unit, noise = problem.mechanism.spread, problem.mechanism.scaled(1.0)
    x = problem.c / problem.a / unit
    some = -float(np.expm1(np.sum(problem.times * np.log1p(-np.minimum(noise.cdf(tau / unit - x), 1 - 1e-16)))))
    each = np.repeat(np.arange(x.size), problem.times)
    side = Side(noise, problem.a[each], x[each], tau / unit, some)
    may = side.droppable()
    if may.size > MOST:
        raise ToleranceError(
            f"pos-threshold: few share the shift, and sets of dropped entities are listed for at most {MOST}, got {may.size}"
        )
    near = replace(side, a=side.a[may], x=side.x[may], far=side.n - may.size)
    return Few(problem, near, each[may], subsets(near, np.arange(may.size)), some)


def shares(problem: Problem, tau: float, rtol: float) -> Moments:
    """Moments of `pos-threshold` where S > 0 is all but certain and few may be dropped."""
    inverse = inverse_of(problem, 0.02 * rtol)
    if inverse is None:
        raise ToleranceError("pos-threshold: the sum of noisy counts may come near 0; the exact integral needs S > 0")
    few, negative = few_of(problem, tau), chance_negative(problem)
    p, unit = problem.shares, problem.mechanism.spread
    before: tuple[Floats, Floats, Floats] | None = None
    room: float | None = None
    levels = LEVELS if rtol > ROUGH else LEVELS[1:]
    for at, level in enumerate(levels):
        cancel.check()
        found = few.evaluated(level, inverse, room, WORK / GROWTH if at == 0 else WORK)
        gamma, zero, size = np.zeros((3, p.size))
        gamma[few.pairs], zero[few.pairs], size[few.pairs] = found.parts[0], found.parts[2], found.parts[3]
        bias0, mse0 = unclipped(problem, inverse)
        mean = float(np.sum(problem.times * gamma)) / problem.n
        bias = bias0 + gamma - mean
        # who is never dropped: r^2 - 2 r z
        twice, first = inverse.omega * inverse.t * unit, problem.c + problem.tilted(inverse.t)[1]
        square = unit * float(twice @ found.common[:, 2]) - 2 * (twice * found.common[:, 1]) @ first
        square[few.pairs] = found.parts[1]
        mse = np.maximum(mse0 + square - 2 * p * (gamma - mean), bias**2)
        if before is not None:
            root = unit * float(inverse.omega @ found.common[:, 1])
            off = abs(found.common[0, 0] / (few.some - negative) - 1)
            rule = moved(bias, before[0], np.abs(gamma) + abs(mean)) + off * (np.abs(gamma) + abs(mean)) + abs(root - mean)
            rounding = ROUNDING * (np.abs(bias0) + size + float(np.sum(problem.times * size)) / problem.n)
            error = rule + rounding + np.sqrt(mse) * inverse.rms + inverse.tail + found.left
            if reached(bias, error, p, rtol):
                lost = off * few.some + negative + found.left + inverse.tail
                spread = SAFETY * moved(mse, before[1], mse) + of_square(inverse, mse) + 2 * p * error + lost * (mse + np.abs(square))
                change = SAFETY * moved(zero, before[2], zero) + lost + ROUNDING * zero
                return Moments(
                    bias,
                    error,
                    mse,
                    np.clip(zero, 0.0, 1.0),
                    degenerate=negative,
                    mse_error=np.asarray(spread),
                    zero_error=np.minimum(change, 1.0),
                )
            alpha, slack = range_error(bias, error)
            if slack > rtol * alpha * OUTLOOK ** min(len(levels) - 1 - at, 2):
                break
        alpha = range_error(bias, 0 * bias)[0]
        room, before = LEFT_OUT * rtol * alpha, (bias, mse, zero)
        enough = 0.1 * rtol * alpha / float(np.sqrt(np.max(mse)))
        if enough < inverse.rms:
            inverse = inverse_of(problem, max(enough, ROUNDING)) or inverse
    raise refusal("pos-threshold", bias, error, rtol)
