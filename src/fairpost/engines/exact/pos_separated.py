"""PoS where S > 0 is all but certain, by the form that keeps its accuracy for biases of any size.

With m_i = min(z_i, r) the share is PoS_i = (z_i - m_i)/S, so

    E[PoS_i] - P_i = E[(z_i - P_i S)/S] - E[m_i / S].

The first term has no clipping in it: under the tilt e^{-tS} the mean of z_i - P_i S is e_i - P_i sum e, where e_j is the shift of
the mean of z_j (the true values drop out, as P_i sum c = c_i). The second is 0 unless something is clipped (then r > 0), and m_i =
r - (r - z_i)_+. Both are as small as the bias itself. Squared, (z_i - P_i S - m_i)^2 = (z_i - P_i S)^2 + 2 P_i S m_i - 2 m_i z_i + m_i^2.

1/S is replaced by rho(S) = sum_k omega_k e^{-t_k S}, Gauss-Radau-Laguerre in t E[S]: with n nodes it agrees with 1/S to degree
2n - 2 about E[S]. By Cauchy-Schwarz the bias moves by at most sqrt(mse_i) * rms(S rho(S) - 1), and S beyond a
Chernoff distance adds its probability. The node t = 0 gives P(r > 0) = 1 - P(no z_j < 0), a check, and P(PoS_i = 0).
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from fairpost.engines.exact.pos_nodes import STAGES, Fineness, Profile, profile, sharp_points, threshold_rule
from fairpost.engines.exact.pos_problem import Chernoff, Problem
from fairpost.engines.exact.rules import radau
from fairpost.engines.exact.shares import Counted, reached
from fairpost.engines.moments import Floats, Moments

ROUNDING = 1e-13
"""Relative rounding of the sums."""


@dataclass(frozen=True)
class _Inverse:
    """rho(S) = sum omega e^{-tS} in the place of 1/S."""

    t: Floats
    omega: Floats
    rms: float
    """A bound on the root mean square of S rho(S) - 1 where S is within the Chernoff distance."""
    tail: float
    """What S outside the distance can add to any bias."""

    def __call__(self, s: Floats) -> Floats:
        return np.asarray(np.exp(-np.multiply.outer(s, self.t)) @ self.omega)


@dataclass(frozen=True)
class _AtRisk:
    """The entities that may fall below the threshold, sorted by multiplicity as the kernel wants them."""

    problem: Problem
    index: Counted
    others: Problem
    profile: Profile
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


def separated(problem: Problem, rtol: float) -> Moments | None:
    """Moments of PoS, or None where S <= 0 is too likely for this form or the tolerance is out of its reach."""
    tolerance = 0.02 * rtol
    for _ in range(2):
        inverse = _inverse(problem, tolerance)
        if inverse is None:
            return None
        moments = _refine(problem, inverse, rtol)
        if moments is not None:
            return moments
        tolerance *= 1e-5
    return None


def _inverse(problem: Problem, tolerance: float) -> _Inverse | None:
    """The smallest rule whose error is below the tolerance.

    The mean square of f = S rho(S) - 1 is summed over shells: |S - E S| > x_k has probability <= 2 e^{-l_k}.
    """
    mean = problem.mean
    bound = Chernoff.of(problem)
    level = min(60.0, bound.level(0.75 * mean))
    if level < 20:
        return None
    levels = np.append(np.arange(1.0, level, 3.0), level)
    x = np.minimum([bound.distance(float(l)) for l in levels], 0.75 * mean)
    chance = np.append(1.0, 2 * np.exp(-levels[:-1]))
    for size in range(3, 24):
        u, weight = radau(size)
        inverse = _Inverse(u / mean, weight / mean, 0.0, 32 * np.exp(-level))
        if inverse.t[-1] > bound.tilt[np.argmin((level + bound.log) / bound.tilt)]:
            return None  # e^{-tS} would be largest where S is least
        f = [np.abs(s * inverse(s) - 1) for s in (mean - x, mean + x)]
        rms = float(np.sqrt(np.sum(chance * np.maximum(*f) ** 2)))
        if rms <= tolerance:
            return _Inverse(inverse.t, inverse.omega, rms, inverse.tail)
    return None


def _refine(problem: Problem, inverse: _Inverse, rtol: float) -> Moments | None:
    """Stages of the rule for (r, s) until two agree to the tolerance."""
    bias0, mse0 = _unclipped(problem, inverse)
    nothing = _without_clipping(problem, inverse, bias0, mse0)
    if reached(bias0, nothing.error, problem.shares, 0.01 * rtol):
        return nothing
    risk = _at_risk(problem, rtol)
    exact = -np.expm1(_log_none_clipped(risk.problem))
    previous: Floats | None = None
    for stage in STAGES:
        clipping = _integrate(risk, inverse, stage)
        shift = np.zeros_like(bias0)
        shift[risk.index] = clipping.first
        shift -= np.sum(problem.times * shift) / problem.n
        bias = bias0 + shift
        if previous is not None:
            mse = mse0 + _mse_change(problem, risk, inverse, clipping, shift)
            defect = abs(clipping.common[0, 0] / exact - 1) + ROUNDING if exact > 0 else 0.0
            error = np.abs(bias - previous) + defect * np.abs(shift) + ROUNDING * np.abs(bias0)
            error += np.sqrt(mse) * inverse.rms + inverse.tail + risk.missed
            if reached(bias, error, problem.shares, rtol):
                zero = np.zeros_like(bias)
                zero[risk.index] = np.clip(clipping.zero, 0.0, 1.0)
                return Moments(bias, error, mse, zero, nodes=clipping.nodes)
        previous = bias
    return None


def _unclipped(problem: Problem, inverse: _Inverse) -> tuple[Floats, Floats]:
    """E[(z_i - P_i S) rho(S)] and E[(z_i - P_i S)^2 / S^2]."""
    log, mean, variance = problem.tilted(inverse.t)
    weight = inverse.omega * np.exp(log @ problem.times - inverse.t * problem.mean)
    p = problem.shares
    gap = mean - np.multiply.outer(mean @ problem.times, p)
    scatter = (1 - p) ** 2 * variance + p**2 * ((variance @ problem.times)[:, None] - variance)
    return weight @ gap, (weight * inverse.t) @ (gap**2 + scatter)


def _without_clipping(problem: Problem, inverse: _Inverse, bias: Floats, mse: Floats) -> Moments:
    """The answer where clipping can be neglected: |m_i| <= sum (-z_j)_+, whose mean bounds the change of a share."""
    from fairpost.kernels.exact_pos import shortfall

    fallen, _, _ = shortfall(problem.noise, problem.c, problem.scale, problem.times, 0.0)
    error = np.sqrt(mse) * inverse.rms + inverse.tail + 4 * fallen / problem.mean + ROUNDING * np.abs(bias)
    return Moments(bias, error, mse, problem.mechanism.cdf(-problem.c / problem.a))


def _at_risk(problem: Problem, rtol: float) -> _AtRisk:
    """Split the entities by the mean excess below a high threshold.

    Leaving out the clipping of far entities lowers r by at most F = sum_far (r - z_j)_+, and a share changes by at most 2 F/S.
    """
    from fairpost.kernels.exact_pos import shortfall, shortfalls

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
    excess = np.empty_like(problem.c)
    shortfalls(problem.noise, problem.c, problem.scale, r + 12 * width, excess)
    near = problem.times * excess > 1e-4 * rtol / excess.size * np.max(excess)
    missed = 4 * float(np.sum((problem.times * excess)[~near])) / problem.mean
    index = np.flatnonzero(near)
    index = index[np.argsort(problem.times[index], kind="stable")]
    part, others = problem.part(index), problem.part(np.flatnonzero(~near))
    return _AtRisk(part, index, others, profile(part, float(others.n), r, width), missed)


def _log_none_clipped(risk: Problem) -> float:
    """log P(no z_j < 0)."""
    return float(np.sum(risk.times * np.log1p(-risk.mechanism.cdf(-risk.c / risk.a))))


def _integrate(risk: _AtRisk, inverse: _Inverse, stage: Fineness) -> _Clipping:
    """The sums over r > 0, on two threads where there is enough to do."""
    from fairpost.kernels.exact_pos import accumulate

    part, far = risk.problem, float(risk.others.n)
    r, weight = threshold_rule(risk.profile, sharp_points(part), stage)
    log, _, _ = risk.others.tilted(inverse.t)
    far_log = log @ risk.others.times - inverse.t * risk.others.mean

    def work(nodes: slice) -> _Clipping:
        sums = (np.zeros(part.c.size), np.zeros(part.c.size), np.zeros(part.c.size), np.zeros((inverse.t.size, 3)))
        entities = (part.noise, part.c, part.scale, part.times, far, part.low, 0.4 if part.gaussian else 1.0)
        rule = (r[nodes], weight[nodes], stage.step, inverse.t, inverse.omega, far_log)
        return _Clipping(*sums, nodes=accumulate(*entities, *rule, *sums))

    if r.size * part.c.size < 2000:
        return work(slice(None))
    with ThreadPoolExecutor(2) as pool:
        one, two = pool.map(work, (slice(0, None, 2), slice(1, None, 2)))
    return _Clipping(
        one.first + two.first,
        one.square + two.square,
        one.zero + two.zero,
        one.common + two.common,
        one.nodes + two.nodes,
    )


def _mse_change(problem: Problem, risk: _AtRisk, inverse: _Inverse, clipping: _Clipping, shift: Floats) -> Floats:
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
