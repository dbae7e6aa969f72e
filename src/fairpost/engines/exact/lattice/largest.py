"""`simplex-threshold` under whole-number noise with a total of at most 1 + tau: the largest noisy counts share it, whoever they are.

As t' falls, the J counts X = m + 1 at the top come onto the ramp first, and H = J (1 + tau)(1 - f) passes C <= 1 + tau on it: each of them
has C/J, all others nothing. With p_j and F_j the masses and the distribution function of X_j

    P(i is at the top)        = sum_m p_i(m) prod_{j != i} F_j(m),
    E[1/J; i is at the top]   = sum_m p_i(m) int_0^1 prod_{j != i} (F_j(m - 1) + u p_j(m)) du,
    E[1/J^2; i is at the top] = the same with -log u under the integral,

for u^k integrates to 1/(k + 1) and 1/(k + 1)^2. The product is a polynomial of the degree n - 1 in u: Gauss's rule is exact for few entities,
and for many its error shows in the sum of all E[1/J], which is 1 (as does what lies beyond the last m). With u = y^4 the rule serves the
logarithm too, with an error that a second order shows. No cell, no contour: any scale whose values can be listed.
"""

from __future__ import annotations

import math

import numpy as np

from fairpost import cancel
from fairpost.engines.closed.quadrature import legendre
from fairpost.engines.closed.shares import SAFETY, range_error
from fairpost.engines.exact.lattice.problem import Problem
from fairpost.engines.moments import Floats, Moments

WORK = 3e7
"""The most (m, u, count): about a second."""
REACH = 40.0
"""What lies beyond the values of m that are listed has a chance of e^-REACH at most."""
ORDERS = (24, 32)
"""Nodes of u: both serve the logarithm, the second one the rest."""
BLOCK = 200_000
ROUNDING = 1e-14


def largest(problem: Problem, rtol: float) -> Moments | None:
    """The moments; None where more than the largest may share the total, where it would take too long, and where the tolerance is missed."""
    rule, x, n = problem.rule, problem.x, problem.n
    if rule is None or not problem.total <= 1 + rule.level:
        return None
    width = problem.noise.spread * (REACH + math.log(n) if np.isfinite(problem.noise.strip) else 11 + math.log(n)) + 2
    if 2 * width * x.size * sum(ORDERS) > WORK:
        return None
    m = np.arange(math.floor(float(x[-1]) - width), math.ceil(float(x[-1]) + width) + 1.0)
    found = np.zeros((4, x.size))
    rows = max(1, BLOCK // (x.size * ORDERS[-1]))
    for a in range(0, m.size, rows):
        cancel.check()
        found += _at(problem, m[a : a + rows])
    first, share, square, coarse = found
    c, times = problem.total, problem.times
    lost = SAFETY * abs(float(times @ share) - 1) + ROUNDING
    bias, error = c * share - x, lost * c + np.spacing(x)
    if x.size == 1:  # all counts are equal, and so are the biases
        bias, error = np.array([problem.surplus / n]), np.spacing(np.abs(np.array([problem.surplus / n])))
    alpha, slack = range_error(bias, error)
    if slack > rtol * alpha and x.size > 1:
        return None
    mse = c * c * square - 2 * c * x * share + x * x
    spread = c * c * (SAFETY * np.abs(square - coarse) + lost) + 2 * c * x * lost + ROUNDING * (c + x) ** 2
    return Moments(
        bias,
        error,
        np.maximum(mse, bias**2),
        np.clip(1 - first, 0.0, 1.0),
        mse_error=spread,
        zero_error=np.full(x.size, 2 * lost),
    )


def _at(problem: Problem, m: Floats) -> Floats:
    """What these m add to P(top), E[1/J; top] and E[1/J^2; top], the last at both orders."""
    noise, c = problem.noise, m[:, None] - problem.x
    mass, below = np.asarray(noise.density(c)), np.asarray(noise.cdf(c - 1))
    out = np.zeros((4, problem.x.size))
    out[0] = np.sum(mass * _others(below + mass, problem.times), axis=0)
    for order, row in zip(ORDERS, (3, 2), strict=True):
        y, weight = legendre(order)
        u = y**4
        inside = _others(below[:, None] + u[:, None] * mass[:, None], problem.times)
        out[row] = np.sum(mass * np.einsum("u,mui->mi", -16 * y**3 * np.log(y) * weight, inside), axis=0)
    inside = _others(below[:, None] + y[:, None] * mass[:, None], problem.times)
    out[1] = np.sum(mass * np.einsum("u,mui->mi", weight, inside), axis=0)
    return out


def _others(values: Floats, times: Floats) -> Floats:
    """The product over all but one, for each of them."""
    log = np.log(np.maximum(values, 1e-300))
    return np.exp((log @ times)[..., None] - log)
