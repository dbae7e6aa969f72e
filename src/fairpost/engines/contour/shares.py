"""`pos`, S = sum z_j all but certain to be above 0: the moments of (z_i - r)_+ / S.

With w_i = min(z_i, r) = r - y_i the share is (z_i - w_i)/S, and the w sum to 0, so

    E[PoS_i] - P_i = E[(z_i - P_i S)/S] + E[y_i/S] - mean(E[y/S]).

The first term has no clipping in it: under the tilt e^{-tS} the mean of z_i - P_i S is e_i - P_i sum e, where e_j is the shift of the mean of
z_j (the true values drop out, as P_i sum c = c_i). Both are as small as the bias itself. For squares, with P S - z = -(z - P S),

    (z_i - P_i S - w_i)^2 = (z_i - P_i S)^2 + 2 P_i S w_i - 2 c_i w_i + (w_i^2 - 2 (z_i - c_i) w_i).

1/S = int e^{-tS} dt is a sum of few exponentials (`closed.total`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from fairpost import cancel
from fairpost.engines.closed.shares import SAFETY, moved, reached, symmetric
from fairpost.engines.closed.total import ROUNDING, Inverse, Total
from fairpost.engines.contour.law import LEVELS, AtRisk, Level, Root, Window
from fairpost.engines.moments import Floats, Moments


@dataclass(frozen=True)
class Shares:
    """The problem: the law of r, and S in the same unit."""

    root: Root
    total: Total


def pos(problem: Shares, inverse: Inverse, rtol: float) -> Moments:
    """In shares of 1. `inverse` is within 2 % of the tolerance where the bias is of the size of the noise; smaller ones need a nearer one."""
    bias, mse = problem.total.unclipped(inverse)
    enough = 0.1 * rtol * float(np.ptp(bias)) / float(np.sqrt(np.max(mse)))
    for tolerance in (enough, 1e-4 * enough):
        nearer = problem.total.inverse(max(tolerance, ROUNDING)) if tolerance < inverse.rms else inverse
        found = _refined(problem, nearer or inverse, rtol)
        if found.short is None or nearer is None or tolerance < ROUNDING:
            break
    return symmetric(replace(found, degenerate=problem.total.chance_negative))


@dataclass(frozen=True)
class _Found:
    """By level: the biases, E[y/S] with its mean (what rounding and refinement are relative to), squares and P(0)."""

    bias: Floats
    size: Floats
    mse: Floats
    zero: Floats
    nodes: int
    open: int


def _refined(problem: Shares, inverse: Inverse, rtol: float) -> Moments:
    """Levels of the rule for (r, s) until two agree to the tolerance."""
    root, p = problem.root, problem.total.shares
    bias0, mse0 = problem.total.unclipped(inverse)
    sure = np.sqrt(mse0) * inverse.rms + inverse.tail + ROUNDING * np.abs(bias0)
    # without clipping: a w is at most sum (-z)_+ in size, whose mean is taken four times over S; and r > 0 needs a negative z
    below = root.beside(0.0)
    fallen = 4 * float(below[1] @ root.times) / problem.total.mean
    if reached(bias0, sure + fallen, p, rtol) and fallen < 0.01 * rtol * float(np.max(np.abs(bias0))):
        spread = inverse.of_square(mse0) + 2 * fallen
        chance = np.full_like(bias0, min(float(below[0] @ root.times), 1.0))
        return Moments(bias0, sure + fallen, mse0, below[0], mse_error=spread, zero_error=chance)
    risk = root.at_risk(1e-4 * min(rtol, 1e-6))
    window = Window.of(risk, True, rtol)
    before: _Found | None = None
    for level in LEVELS:
        now = _at(problem, risk, window, level, inverse, bias0, mse0)
        if now.open:
            return Moments.unknown(root.c.size, "pos: contours do not end")
        if before is not None:
            change = moved(now.bias, before.bias, now.size)
            missed = (risk.missed + window.unseen) * float(np.max(now.size))
            error = (
                change + ROUNDING * (np.abs(bias0) + now.size) + np.sqrt(now.mse) * inverse.rms + inverse.tail + missed
            )
            if reached(now.bias, error, p, rtol):
                spread = (
                    SAFETY * moved(now.mse, before.mse, now.mse) + inverse.of_clipped(now.mse, mse0, p) + 2 * missed
                )
                chance = SAFETY * np.max(np.abs(now.zero - before.zero)) + ROUNDING + risk.missed * np.max(now.zero)
                zero_error = np.full_like(error, chance)
                return Moments(
                    now.bias, error, now.mse, now.zero, nodes=now.nodes, mse_error=spread, zero_error=zero_error
                )
            if reached(now.bias, change, p, 0.1 * rtol):
                break  # it is 1/S that is not near enough
        before = now
    return Moments.missed("pos", now.bias, error, rtol)


def _at(
    problem: Shares, risk: AtRisk, window: Window, level: Level, inverse: Inverse, bias0: Floats, mse0: Floats
) -> _Found:
    """One level."""
    root, t, omega = problem.root, inverse.t, inverse.omega
    two = omega * t
    log, mean, _ = problem.total.tilted(t)
    far = np.ones(root.c.size, dtype=bool)
    far[risk.index] = False
    far_log = log[:, far] @ root.times[far] - t * math.fsum((root.c * root.times)[far])
    weights = np.array([omega, omega / problem.total.mean - two, two])
    cancel.check()
    sums = risk.integrate(window.rule(level), level, True, (t, weights, far_log))
    y, zero = np.zeros(root.c.size), np.zeros(root.c.size)
    y[risk.index], zero[risk.index] = sums.first, np.clip(sums.zero, 0.0, 1.0)
    all_y = float(y @ root.times) / root.n
    shift = y - all_y
    once, twice = sums.common[:, 1], sums.common[:, 2]
    # 2 P E[w/S] - 2 c E[w/S^2], and w^2 - 2 (z - c) w of who is above r
    change = 2 * root.c * float(weights[1] @ once) + two @ twice - 2 * (two * once) @ mean
    at = risk.index
    change[at] = 2 * root.c[at] * (float(weights[1] @ once) - sums.mixed) + sums.square
    bias = bias0 + shift
    return _Found(bias, y + all_y, np.maximum(mse0 + change, bias**2), zero, sums.nodes, sums.open)
