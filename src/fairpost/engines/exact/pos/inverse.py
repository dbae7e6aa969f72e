"""PoS: 1/S as a sum of few exponentials, where S > 0 is all but certain.

rho(S) = sum_k omega_k e^{-t_k S} with the nodes of Gauss-Radau-Laguerre in t E[S]: n nodes agree with 1/S to degree
2n - 2 about E[S]. By Cauchy-Schwarz the bias of a share moves by at most sqrt(mse_i) rms(S rho(S) - 1), and S
beyond a Chernoff distance adds its probability.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fairpost import cancel
from fairpost.engines.closed.quadrature import radau
from fairpost.engines.exact.pos.problem import Chernoff, Problem
from fairpost.engines.moments import Floats


@dataclass(frozen=True)
class Inverse:
    """rho(S) = sum omega e^{-tS} in the place of 1/S."""

    t: Floats
    omega: Floats
    rms: float
    """A bound on the root mean square of S rho(S) - 1 where S is within the Chernoff distance."""
    square: float
    """The same of S^2 sum omega t e^{-tS} - 1, what stands for 1/S^2 in the mean squared error."""
    tail: float
    """What S outside the distance can add to any bias."""

    def __call__(self, s: Floats) -> Floats:
        """rho at each S."""
        return np.asarray(np.exp(-np.multiply.outer(s, self.t)) @ self.omega)


def inverse_of(problem: Problem, tolerance: float) -> Inverse | None:
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
        cancel.check()
        u, weight = radau(size)
        inverse = Inverse(u / mean, weight / mean, 0.0, 0.0, 32 * np.exp(-level))
        if inverse.t[-1] > bound.tilt[np.argmin((level + bound.log) / bound.tilt)]:
            return None  # e^{-tS} would be largest where S is least
        f = [np.abs(s * inverse(s) - 1) for s in (mean - x, mean + x)]
        rms = float(np.sqrt(np.sum(chance * np.maximum(*f) ** 2)))
        if rms <= tolerance:
            two = Inverse(inverse.t, inverse.omega * inverse.t, 0.0, 0.0, 0.0)
            g = [np.abs(s * s * two(s) - 1) for s in (mean - x, mean + x)]
            square = float(np.sqrt(np.sum(chance * np.maximum(*g) ** 2)))
            return Inverse(inverse.t, inverse.omega, rms, square, inverse.tail)
    return None


def fitted(
    problem: Problem, rtol: float, moments: Callable[[Inverse], tuple[Floats, Floats]], least: float
) -> tuple[Inverse, Floats, Floats] | None:
    """1/S as near as a tolerance on alpha asks for, and the bias and mean squared error that `moments` finds with it.

    What the stand-in can move a bias by, rms sqrt(mse), is to be below a tenth of rtol alpha, or `least` of the deviation.
    """
    inverse = inverse_of(problem, 0.02 * rtol)
    if inverse is None:
        return None
    bias, mse = moments(inverse)
    enough = 0.1 * rtol * float(np.ptp(bias)) / float(np.sqrt(np.max(mse)))
    if enough < inverse.rms:
        inverse = inverse_of(problem, max(enough, least)) or inverse
        bias, mse = moments(inverse)
    return inverse, bias, mse
