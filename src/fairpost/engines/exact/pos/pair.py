"""PoS for two entities, by integrals of one dimension.

Two shares that sum to 1 are projected by clipping: PoS_1 = z_1/S where both z have the sign of S, else 1 for the
entity whose z has the sign of S and 0 for the other. So E[PoS_1] is two atoms (both above 0, both below) and the
chance that the other has the wrong sign,

    Q_1 = int_0^inf f_2(-u) P(z_1 > u) + f_2(u) P(z_1 < -u) du,

smooth between the centres c_1, c_2 of the two densities.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from fairpost.engines.closed.quadrature import exp_sinh, legendre
from fairpost.engines.closed.shares import SAFETY, reached, refusal, symmetric
from fairpost.engines.exact.pos.problem import Problem, chance_negative
from fairpost.engines.moments import Floats, Moments

ROUNDING = 1e-14


def pair(problem: Problem, rtol: float) -> Moments:
    """Moments of PoS for n = 2."""
    negative = chance_negative(problem)
    tie = problem.c.size == 1
    if tie:
        both: dict[str, Any] = {k: np.repeat(getattr(problem, k), 2) for k in ("c", "scale", "shares", "a")}
        problem = replace(problem, times=np.ones(2, dtype=np.int64), **both)
    alone = _wrong_signs(problem, 32)
    chance = SAFETY * np.abs(alone - _wrong_signs(problem, 24)) + ROUNDING
    p, previous = problem.shares, None
    for step in (0.125, 0.08, 0.05, 0.03):
        first, second = _atoms(problem, step)
        first, second = first + alone, second + alone
        bias = first - p * np.sum(first)
        if previous is not None:
            error = np.abs(bias - previous[0]) + abs(np.sum(first) - 1) + ROUNDING
            kept = slice(0, 1) if tie else slice(None)
            if reached(bias[kept], error[kept], p, rtol):
                mse = second - 2 * p * first + p * p
                spread = SAFETY * (np.abs(second - previous[2]) + 2 * p * np.abs(first - previous[1])) + 3 * chance
                stated: dict[str, Any] = {"mse_error": spread[kept] + ROUNDING, "zero_error": chance[::-1][kept]}
                found = Moments(bias[kept], error[kept], mse[kept], alone[::-1][kept].copy(), **stated)
                return symmetric(replace(found, degenerate=negative, nodes=exp_sinh(step)[0].size))
        previous = bias, first, second
    raise refusal("pos", bias, error, rtol)


def _atoms(problem: Problem, step: float) -> tuple[Floats, Floats]:
    """E[z_i/S] and E[z_i^2/S^2] where both values have the same sign: int V_i U_j dt and int t V2_i U_j dt."""
    size = np.sqrt(problem.mean**2 + problem.variance)
    t, weight = (v / size for v in exp_sinh(step))
    x, s = problem.c / problem.a, -np.multiply.outer(t, problem.a)
    first, second = np.zeros(2), np.zeros(2)
    for centre in (-x, x):
        u0, u1, u2 = (problem.mechanism.upper(centre, s, k) * problem.a**k for k in range(3))
        first += weight @ (u1 * u0[:, ::-1])
        second += (weight * t) @ (u2 * u0[:, ::-1])
    return first, second


def _wrong_signs(problem: Problem, order: int) -> Floats:
    """Q_1 and Q_2 by Gauss-Legendre between the centres and at growing distances from them."""
    away = np.multiply.outer(problem.scale, [-40, -20, -10, -5, -2, 0, 2, 5, 10, 20, 40, 80])
    ends = np.unique(np.concatenate([[0.0], (problem.c[:, None] + away).ravel()]))
    ends = ends[ends >= 0]
    unit, weight = legendre(order)
    u = (ends[:-1, None] + np.diff(ends)[:, None] * unit).ravel()
    weight = np.multiply.outer(np.diff(ends), weight).ravel()
    x, a, noise = problem.c / problem.a, problem.a, problem.mechanism
    out = []
    for one, two in ((0, 1), (1, 0)):
        falls, rises = (noise.density(sign * u / a[two] - x[two]) / a[two] for sign in (-1, 1))
        out.append(weight @ (falls * noise.sf(u / a[one] - x[one]) + rises * noise.cdf(-u / a[one] - x[one])))
    return np.array(out)
