"""Two entities under whole-number noise: the release depends on the difference of two noises alone, and is summed over it.

With X_1 - X_2 = D, v of the smaller is, for D >= 1 and the ramp from tau to tau + 1 (tau = 0: the simplex),

    less(D) = max(0, min((C - D)/2, (1 + tau)(C - D - tau)/(2 + tau))),

both kept whole, the smaller on the ramp (the larger is then beyond it) and cut; equal counts share. Nobody cut is v_1 = y_1 = (C + D)/2, and

    bias_1 = (C - x_1 - x_2)/2 + sum_{D >= 1} (P(D) - P(-D)) h(D),   h(D) = (C - D)/2 - less(D):

h is 0 up to where the ramp begins, and a bias of any size keeps its digits. The difference of two discrete Laplace noises, q = e^{-1/b}, and of
two discrete Gaussian ones, by even and odd numbers, have the masses

    ((1 - q)/(1 + q))^2 q^|d| (|d| + (1 + q^2)/(1 - q^2)),      e^{-d^2/4 sigma^2} (sum_k e^{-(k + (d mod 2)/2)^2/sigma^2}) / Z^2.

They are summed as far as e^-REACH of what matters is left, from the centre of D or, where that is later, from where h begins.
"""

from __future__ import annotations

import math

import numpy as np

from fairpost.engines.closed.shares import range_error
from fairpost.engines.exact.lattice.problem import Problem
from fairpost.engines.moments import Floats, Moments

REACH = 46.0
NEAR = 1e-9
"""What a sum of multiples of the threshold may be off a whole number and be one."""
ROUNDING = 4e-15
POINTS = 4_000_000
"""The most differences that are summed over to each side."""


def masses(problem: Problem, d: Floats) -> Floats:
    """P(eta_1 - eta_2 = d)."""
    b = problem.noise.spread
    if np.isfinite(problem.noise.strip):
        fall = math.exp(-1 / b)
        far = np.abs(d)
        return np.asarray(math.tanh(0.5 / b) ** 2 * np.exp(-far / b) * (far + (1 + fall**2) / -math.expm1(-2 / b)))
    k = np.arange(-math.ceil(8 * b) - 2.0, math.ceil(8 * b) + 3.0)
    even, odd = (float(np.sum(np.exp(-(((k + half) / b) ** 2)))) for half in (0.0, 0.5))
    return np.asarray(
        np.exp(-((d / (2 * b)) ** 2)) * np.where(d % 2 == 0, even, odd) * float(problem.noise.density(0.0)) ** 2
    )


def pair(problem: Problem, rtol: float) -> Moments | None:
    """Moments for two entities; None for any other number, and where the tolerance is missed."""
    if problem.n != 2:
        return None
    c, tau, b = problem.total, problem.tau, problem.noise.spread
    both = np.repeat(problem.x, problem.times.astype(np.int64))
    m, drift = float(both[1] - both[0]), problem.surplus / 2
    # two noises: a tail of Laplace noise has a factor |d|, one of Gaussian noise is N(0, 2 sigma^2)
    reach = math.ceil(b * (REACH + 8) if np.isfinite(problem.noise.strip) else b * 2 * math.sqrt(REACH)) + 2
    if reach > POINTS:
        return None
    begin = max(c - 2 * (tau + 1.0 if problem.rule is not None else tau), 0.0)
    lower, excess, spread, zero, lift = np.zeros(2), np.zeros(2), np.zeros(2), np.zeros(2), 0.0

    def less(d: Floats) -> Floats:
        kept = np.minimum((c - d) / 2, (1 + tau) * (c - d - tau) / (2 + tau))
        return np.where(d > 0, np.maximum(kept, 0.0), c / 2)

    for side in (1.0, -1.0):  # the second is the larger, or the first
        first = max(math.floor(begin), math.floor(side * m) - reach, 1)
        d = np.arange(first, max(first, side * m) + reach + 1.0)
        p = masses(problem, side * d - m)
        h = (c - d) / 2 - less(d)
        excess += side * float(p @ h) * np.array([-1.0, 1.0])
        lower += float(p @ np.abs(h))
        lift -= float(p @ h)
    d = np.arange(math.floor(m) - reach, math.floor(m) + reach + 1.0)
    p, gap = masses(problem, d - m), np.abs(d)
    v = np.where(d[:, None] * np.array([-1.0, 1.0]) < 0, less(gap)[:, None], c - less(gap)[:, None])
    spread = p @ (v - both) ** 2
    zero = p @ ((v <= 0) | (((c - gap - tau) * (1 + tau) < NEAR)[:, None] & (d[:, None] * np.array([-1.0, 1.0]) < 0)))
    lost = math.exp(-REACH)
    bias = drift + excess
    error = (ROUNDING + lost) * lower + np.spacing(abs(drift))
    alpha, slack = range_error(bias, error)
    if slack > max(rtol * alpha, 1e-13 * (problem.noise.deviation + abs(drift))):
        return None
    if m == 0:
        bias, error = np.full(2, drift), np.full(2, np.spacing(abs(drift)))
    at = np.cumsum(problem.times).astype(np.int64) - 1
    size = (c + np.max(both)) ** 2
    plain = problem.rule is None
    return Moments(
        bias,
        error,
        np.maximum(spread, bias**2),
        np.clip(zero, 0.0, 1.0),
        threshold=lift if plain else None,
        mse_error=ROUNDING * spread + lost * size,
        zero_error=ROUNDING + lost + 0 * zero,
        threshold_error=(ROUNDING + lost) * float(lower[0]) if plain else None,
    ).at(at)
