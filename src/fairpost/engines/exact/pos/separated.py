"""PoS where S > 0 is all but certain, by the form that keeps its accuracy for biases of any size.

With m_i = min(z_i, r) the share is PoS_i = (z_i - m_i)/S, so

    E[PoS_i] - P_i = E[(z_i - P_i S)/S] - E[m_i / S].

The first term has no clipping in it: under the tilt e^{-tS} the mean of z_i - P_i S is e_i - P_i sum e, where e_j is
the shift of the mean of z_j (the true values drop out, as P_i sum c = c_i). The second is 0 unless something is clipped
(then r > 0), and m_i = r - (r - z_i)_+. Both are as small as the bias itself. For the mean squared error,

    (z_i - P_i S - m_i)^2 = (z_i - P_i S)^2 + 2 P_i S m_i - 2 m_i z_i + m_i^2.

1/S is replaced by a sum of exponentials (`pos_inverse`). Its node t = 0 gives P(r > 0) = 1 - P(no z_j < 0), a
check, and P(PoS_i = 0).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fairpost import cancel
from fairpost.engines.closed.shares import SAFETY, moved, reached, refusal
from fairpost.engines.exact.pos.inverse import Inverse, inverse_of
from fairpost.engines.exact.pos.nodes import (
    MANY,
    STAGES,
    Fineness,
    Profile,
    SaddlePoint,
    late_step,
    profile,
    threshold_rule,
)
from fairpost.engines.exact.pos.problem import Problem
from fairpost.engines.exact.pos.ripples import Narrow, Steps, even_steps
from fairpost.engines.moments import Counted, Floats, Moments
from fairpost.errors import ToleranceError
from fairpost.parallel import over_slices

ROUNDING = 1e-13
ASTRAY = 1e-4, 2e-5
"""By how much the first and the second stage may miss the chance that somebody is clipped, among more than MANY entities: those that come to
an end miss it by 2e-5 and 4e-6 at most. Where a few large ones stand out in the density of r, which is not looked at, no stage gets there.
"""
"""Relative rounding of the sums."""
GENERAL = 1e-12
"""The best accuracy of the general method, as a part of a share."""
FEW = 20
"""Among more entities at risk than this the saddle-point approximation shows where the density of r bends."""


@dataclass(frozen=True)
class _AtRisk:
    """The entities that may fall below the threshold, sorted by multiplicity as the kernel wants them."""

    problem: Problem
    index: Counted
    others: Problem
    profile: Profile
    unseen: float
    """About P(PoS_i = 0) of the others, by Markov: the mean excess below a high threshold over its distance."""
    missed: float
    """A bound on what the others' clipping would add to any share."""


@dataclass(frozen=True)
class _Clipping:
    """Sums over the nodes, for the entities at risk; `common` as in the kernel."""

    first: Floats
    square: Floats
    zero: Floats
    common: Floats
    nodes: int
    rippled: bool = False
    """Equal steps among many: what they miss is left of ripples (`pos.ripples`), a number that is small by accident now and then."""


def separated(problem: Problem, rtol: float) -> Moments | None:
    """Moments of PoS, or None where S <= 0 is too likely for this form.

    rho(S) must be as near to 1/S as the tolerance on alpha asks for; without clipping that is known beforehand.
    """
    inverse = inverse_of(problem, 0.02 * rtol)
    if inverse is None:
        return None
    bias, mse = unclipped(problem, inverse)
    enough = 0.1 * rtol * float(np.ptp(bias)) / float(np.sqrt(np.max(mse)))
    if enough < inverse.rms:
        inverse = inverse_of(problem, max(enough, ROUNDING)) or inverse
    found = _refine(problem, inverse, rtol) or _refine(problem, inverse_of(problem, 1e-5 * inverse.rms), rtol)
    if found is None:
        _in_reach_otherwise(problem, inverse, bias, mse, rtol)
    return found


def _in_reach_otherwise(problem: Problem, inverse: Inverse, bias: Floats, mse: Floats, rtol: float) -> None:
    """Refuse before the general method is asked for more digits of a share than it has.

    It takes differences of shares, with an absolute error of GENERAL of the largest at best; alpha is at most the range
    without clipping and twice what clipping can add.
    """
    clipped = _clipping_at_most(problem)
    if rtol * (float(np.ptp(bias)) + 2 * clipped) < GENERAL * float(np.max(problem.shares)):
        error = _without_clipping(problem, inverse, bias, mse, clipped).error
        raise refusal("pos", bias, error, rtol, "the counts are too much alike for more digits")


def _refine(problem: Problem, inverse: Inverse | None, rtol: float) -> Moments | None:
    """Stages of the rule for (r, s) until two agree to the tolerance; None where 1/S is not known well enough."""
    if inverse is None:
        return None
    bias0, mse0 = unclipped(problem, inverse)
    clipped = _clipping_at_most(problem)
    if reached(bias0, np.full_like(bias0, clipped), problem.shares, 0.01 * rtol):
        nothing = _without_clipping(problem, inverse, bias0, mse0, clipped)
        return nothing if reached(bias0, nothing.error, problem.shares, rtol) else None
    risk = _at_risk(problem, rtol)
    exact = -np.expm1(_log_none_clipped(risk.problem))
    previous: tuple[Floats, Floats, Floats] | None = None
    last = 0.0
    for at, stage in enumerate(STAGES):
        clipping = _integrate(risk, inverse, stage)
        fallen = np.zeros_like(bias0)
        fallen[risk.index] = clipping.first
        mean = float(np.sum(problem.times * fallen)) / problem.n
        shift = fallen - mean
        bias = bias0 + shift
        mse = np.maximum(mse0 + _mse_change(problem, risk, inverse, clipping, shift), bias**2)
        defect = abs(clipping.common[0, 0] / exact - 1) + ROUNDING if exact > 0 else 0.0
        astray = problem.n > MANY and at < len(ASTRAY) and defect > ASTRAY[at]
        if astray and not reached(bias, defect * (fallen + mean), problem.shares, 10 * rtol):
            raise ToleranceError(
                f"pos: the first rules miss the chance that somebody is clipped by {defect:.2g}, and finer ones would not reach the tolerance"
            )
        if previous is not None:
            lost = max(defect, last) if clipping.rippled else defect
            rule = moved(bias, previous[0], fallen + mean) + lost * (fallen + mean) + ROUNDING * np.abs(bias0)
            error = rule + np.sqrt(mse) * inverse.rms + inverse.tail + risk.missed
            if reached(bias, error, problem.shares, rtol):
                zero = np.zeros_like(bias)
                zero[risk.index] = np.clip(clipping.zero, 0.0, 1.0)
                spread = (
                    SAFETY * moved(mse, previous[1], mse)
                    + of_clipped(inverse, mse, mse0, problem.shares)
                    + 2 * risk.missed
                )
                chance = np.full_like(bias, min(risk.unseen, 1.0))
                change = moved(clipping.zero, previous[2], clipping.zero)
                # (of steps at any place between two nodes one may be hit by accident, not the worst of all)
                chance[risk.index] = SAFETY * (np.max(change) if clipping.rippled else change)
                chance[risk.index] += (lost + ROUNDING) * clipping.zero
                stated: dict[str, Any] = {"mse_error": spread, "zero_error": chance}
                return Moments(bias, error, mse, zero, nodes=clipping.nodes, **stated)
            if reached(bias, rule, problem.shares, 0.1 * rtol):
                return None
        previous, last = (bias, mse, clipping.zero), defect
    raise refusal("pos", bias, error, rtol)


def unclipped(problem: Problem, inverse: Inverse) -> tuple[Floats, Floats]:
    """E[(z_i - P_i S) rho(S)] and E[(z_i - P_i S)^2 / S^2]."""
    log, mean, variance = problem.tilted(inverse.t)
    weight = inverse.omega * np.exp(log @ problem.times - inverse.t * problem.mean)
    p = problem.shares
    gap = mean - np.multiply.outer(mean @ problem.times, p)
    scatter = (1 - p) ** 2 * variance + p**2 * ((variance @ problem.times)[:, None] - variance)
    return weight @ gap, (weight * inverse.t) @ (gap**2 + scatter)


def _clipping_at_most(problem: Problem) -> float:
    """What clipping can change about a share: |m_i| is at most sum (-z_j)_+, whose mean is taken four times over S."""
    from fairpost.engines.exact.pos.kernels.separated import shortfall

    fallen, _, _ = shortfall(problem.noise, problem.c, problem.scale, problem.times, 0.0)
    return float(4 * fallen / problem.mean)


def _without_clipping(problem: Problem, inverse: Inverse, bias: Floats, mse: Floats, clipped: float) -> Moments:
    """The answer where clipping can be neglected; what it can add is part of the error."""
    error = np.sqrt(mse) * inverse.rms + inverse.tail + clipped + ROUNDING * np.abs(bias)
    zero = problem.mechanism.cdf(-problem.c / problem.a)
    # r > 0 and so a clipped entity needs a negative one; a square moves by at most twice what a share does
    chance = np.full_like(bias, min(float(np.sum(problem.times * zero)), 1.0))
    spread = of_square(inverse, mse) + 2 * clipped
    return Moments(bias, error, mse, zero, mse_error=spread, zero_error=chance)


def of_square(inverse: Inverse, mse: Floats) -> Floats:
    """What the stand-in for 1/S^2 can move a mean squared error by, with rounding.

    By Cauchy-Schwarz, with a fourth moment of at most 6 times the squared second one (Laplace), sqrt 6 < 3.
    """
    return np.asarray(3 * mse * inverse.square + inverse.tail + 10 * ROUNDING * mse)


def of_clipped(inverse: Inverse, mse: Floats, mse0: Floats, shares: Floats) -> Floats:
    """The same where v stands in the place of z; `mse0` is without clipping.

    v^2 - z^2 = (v - z)^2 + 2 (z - P S)(v - z) + 2 P S (v - z): the last is larger than squares, for a share P near 1, and meets both
    stand-ins. The root mean square of (v - z)/S is at most sqrt(mse) + sqrt(mse0).
    """
    lifted = np.sqrt(mse) + np.sqrt(mse0)
    return np.asarray(of_square(inverse, mse + mse0) + 2 * shares * lifted * (inverse.rms + inverse.square))


def _at_risk(problem: Problem, rtol: float) -> _AtRisk:
    """Split the entities by the mean excess below a high threshold.

    Leaving out the clipping of far entities lowers r by at most F = sum_far (r - z_j)_+, and a share changes by at
    most 2 F/S.
    """
    from fairpost.engines.exact.pos.kernels.separated import shortfall, shortfalls

    arrays = (problem.noise, problem.c, problem.scale, problem.times)
    r, step = 0.0, np.inf
    for _ in range(200):  # the gap n r - E[W(r)] is concave in r, so Newton's method climbs to its root
        mean, variance, number = shortfall(*arrays, r)
        step = (mean - problem.n * r) / (problem.n - number)
        r += step
        if step <= 1e-10 * r:
            break
    deviation = float(np.sqrt(variance)) / (problem.n - number)
    width = max(deviation, variance / mean / problem.n) if mean > 0 else 0.0
    # where clipping is rare, E[r] says how rare it is and not where r > 0 lies: a look around starts at the width
    start = max(r, 0.05 * width)
    excess = np.empty_like(problem.c)
    shortfalls(problem.noise, problem.c, problem.scale, r + 12 * width, excess)
    near = problem.times * excess > 1e-4 * rtol / excess.size * np.max(excess)
    missed = 4 * float(np.sum((problem.times * excess)[~near])) / problem.mean
    unseen = float(np.max(excess[~near], initial=0.0)) / max(width, np.finfo(float).tiny)
    index = np.flatnonzero(near)
    index = index[np.argsort(problem.times[index], kind="stable")]
    part, others = problem.part(index), problem.part(np.flatnonzero(~near))
    return _AtRisk(part, index, others, profile(part, float(others.n), start, width), unseen, missed)


def _log_none_clipped(risk: Problem) -> float:
    """log P(no z_j < 0)."""
    return float(np.sum(risk.times * np.log1p(-risk.mechanism.cdf(-risk.c / risk.a))))


def _integrate(risk: _AtRisk, inverse: Inverse, stage: Fineness) -> _Clipping:
    """The sums over r > 0, on two threads where there is enough to do."""
    log, _, _ = risk.others.tilted(inverse.t)
    far_log = log @ risk.others.times - inverse.t * risk.others.mean
    tilts = (inverse.t, inverse.omega, far_log)
    step = late_step(risk.problem, stage)
    if risk.problem.n > MANY:
        even = even_steps(risk.problem, float(risk.others.n), risk.profile, stage)
        if even is not None:
            return _among_many(risk, even, step, tilts, stage)
    near = SaddlePoint.of(risk.problem, float(risk.others.n), risk.profile, stage.drop)
    stand_in = near if risk.problem.n > FEW else lambda r: _untilted(risk, step, r)
    r, weight = threshold_rule(risk.profile, stand_in, None if near.c.size == 0 else np.empty(0), stage)

    def work(nodes: slice) -> _Clipping:
        return _accumulated(risk, (r[nodes], weight[nodes], step), tilts)

    if r.size * risk.problem.c.size < 2000:
        return work(slice(None))
    halves = [
        slice(0, None, 2),
        slice(1, None, 2),
    ]  # neighbours cost the same; the same two sums on any number of threads
    found = over_slices(lambda part: [work(half) for half in halves[part]], 2)
    one, two = (half for part in found for half in part)
    return _Clipping(
        one.first + two.first,
        one.square + two.square,
        one.zero + two.zero,
        one.common + two.common,
        one.nodes + two.nodes,
    )


def _among_many(risk: _AtRisk, even: Steps, step: float, tilts: tuple[Floats, ...], stage: Fineness) -> _Clipping:
    """Equal steps of y, each by itself, and what they miss of narrow entities."""
    r, weight = even.r, even.weight

    def some(part: slice) -> list[_Clipping]:
        return [_accumulated(risk, (r[i : i + 1], weight[i : i + 1], step), tilts) for i in range(r.size)[part]]

    each = [one for found in over_slices(some, r.size) for one in found]
    first, square, zero, common = (
        np.sum([getattr(one, name) for one in each], axis=0) for name in ("first", "square", "zero", "common")
    )
    narrow = Narrow.of(risk.problem, risk.profile, stage.drop)
    if narrow.index.size > 0:
        n = float(risk.problem.n + risk.others.n)
        heights = np.array([one.common[:, 0] for one in each])
        plain, once, twice = narrow.missed(even, n, heights[:, 0], heights @ tilts[1], heights @ (tilts[0] * tilts[1]))
        zero[narrow.index] += plain[0]
        first[narrow.index] += once[1]
        square[narrow.index] -= twice[2]
    return _Clipping(first, square, zero, common, sum(one.nodes for one in each), rippled=True)


def _accumulated(risk: _AtRisk, rule: tuple[Floats, Floats, float], tilts: tuple[Floats, ...]) -> _Clipping:
    """The kernel's sums for a rule (r, weight, step along the contour) and nodes t."""
    from fairpost.engines.exact.pos.kernels.separated import accumulate

    size = risk.problem.c.size
    sums = (np.zeros(size), np.zeros(size), np.zeros(size), np.zeros((tilts[0].size, 3)))
    nodes = accumulate(*_entities(risk), *rule, *tilts, *sums)  # type: ignore[call-arg]
    return _Clipping(*sums, nodes=nodes)


def _entities(risk: _AtRisk) -> tuple[Any, ...]:
    """Those at risk as the kernel wants them, and how far its contours may bend."""
    part = risk.problem
    left = 0.4 if part.gaussian else 1.0
    return part.noise, part.c, part.scale, part.times, float(risk.others.n), part.low, left


def _untilted(risk: _AtRisk, step: float, r: Floats) -> Floats:
    """A stand-in for the rule in r: the integrand at t = 0, E[(r - z_i)_+] for each entity and E[r]."""
    from fairpost.engines.exact.pos.kernels.separated import accumulate

    size, entities = risk.problem.c.size, _entities(risk)
    out, moments, unused = np.zeros((r.size, size + 1)), np.zeros((1, 3)), np.zeros((2, size))
    one, nil = np.ones(1), np.zeros(1)
    for i in range(r.size):
        cancel.check()
        moments[:] = 0.0
        accumulate(*entities, r[i : i + 1], one, step, nil, one, nil, out[i, :-1], *unused, moments)  # type: ignore[call-arg]
        out[i, -1] = moments[0, 1]
    return out


def _mse_change(problem: Problem, risk: _AtRisk, inverse: Inverse, clipping: _Clipping, shift: Floats) -> Floats:
    """2 P_i E[m_i/S] + E[(m_i^2 - 2 m_i z_i)/S^2], where E[m_i/S] = -shift_i.

    At risk: m^2 - 2 m z = -r^2 + 2 r y - y^2 - 2 r p with y = (r - z)_+, p = (z - r)_+. Else m = r, and with the
    tilted mean c + e of z it is r^2 - 2 r (c + e); its part in c meets 2 P E[r/S] = 2 c E[r/S] / E[S].
    """
    first, second = clipping.common[:, 1], clipping.common[:, 2]
    squared = inverse.omega * inverse.t
    _, mean, _ = problem.tilted(inverse.t)
    out = np.asarray(
        squared @ second
        - 2 * problem.c * np.sum((squared - inverse.omega / problem.mean) * first)
        - 2 * (squared * first) @ mean
    )
    at = risk.index
    out[at] = -2 * problem.shares[at] * shift[at] + clipping.square - squared @ second
    return out
