"""The sum of the noises of those who are not drawn: its quantile in a release, Gauss nodes of it for 1/S."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicHermiteSpline

from fairpost.engines.conditional.law import Tails
from fairpost.noise import Law
from fairpost.noise.base import GAUSSIAN, LAPLACE

Floats = NDArray[np.float64]
EXACT = 2000.0
"""The largest deviation for which the masses of a sum of whole numbers are listed; above it the law is as good as smooth."""
STEPS = 64
"""A deviation in so many steps: the characteristic function of two Laplace noises is 1e-8 beyond them, that of more noises less."""


def quantile_of_sum(noise: Law, law: Tails, count: int) -> Callable[[Floats], Floats]:
    """Of the sum of `count` noises, by the Fourier sum of its characteristic function."""
    deviation = float(np.sqrt(count * law.moments[2]))
    if count == 1 or deviation == 0:
        return law.quantile
    if law.code == GAUSSIAN:
        return lambda u: np.sqrt(count) * law.quantile(u)
    step = 1.0 if law.discrete and deviation < EXACT else deviation / STEPS
    size = 2 ** int(np.ceil(np.log2(2 * (9 * deviation + 45 * law.b) / step)))
    t = 2 * np.pi / (size * step) * np.arange(size // 2 + 1)
    mass = np.fft.irfft(np.exp(count * np.real(noise.cgf(1j * t))), size)
    mass = np.maximum(np.concatenate([mass[size // 2 :], mass[: size // 2]]), 0.0)
    x = step * np.arange(-(size // 2), size - size // 2)
    below = np.cumsum(mass)
    if step == 1.0 and law.discrete:
        return lambda u: (
            np.where(u < 0.5, 1.0, -1.0) * x[np.searchsorted(below, np.minimum(u, 1 - u)).clip(0, size - 1)]
        )
    below -= 0.5 * mass + np.gradient(mass) / 12  # Euler and Maclaurin
    some = (mass > 1e-13) & (x <= step)
    inverse = CubicHermiteSpline(below[some], x[some], step / mass[some])
    least = below[some][0]

    def quantile(u: Floats) -> Floats:
        found = np.where(u < 0.5, 1.0, -1.0) * inverse(np.clip(np.minimum(u, 1 - u), least, 0.5))
        return found if law.code == LAPLACE else np.round(found)

    return quantile


def nodes_of_sum(law: Tails, a: Floats, times: Floats) -> Floats:
    """Five nodes and, in a second row, weights, exact for the moments of sum a eta up to the ninth; one where there is no noise."""
    m = law.moments
    kappa = (
        m[2],
        m[4] - 3 * m[2] ** 2,
        m[6] - 15 * m[4] * m[2] + 30 * m[2] ** 3,
        m[8] - 28 * m[6] * m[2] - 35 * m[4] ** 2 + 420 * m[4] * m[2] ** 2 - 630 * m[2] ** 4,
    )
    variance = m[2] * float(times @ a**2)
    if variance == 0:
        return np.array([[0.0], [1.0]])
    k4, k6, k8 = (k * float(times @ a**p) / variance ** (p / 2) for k, p in zip(kappa[1:], (4, 6, 8), strict=True))
    # moments of the square y in units of the variance; nodes 0 and the roots of y^2 - p y + q, orthogonal to 1 and y under the weight y
    nu = (1.0, 1.0, k4 + 3, k6 + 15 * k4 + 15, k8 + 28 * k6 + 35 * k4**2 + 210 * k4 + 105)
    p, q = np.linalg.solve([[nu[2], -nu[1]], [nu[3], -nu[2]]], [nu[3], nu[4]])
    y = np.sort(np.roots([1.0, -p, q]).real)
    w = np.linalg.solve([y, y**2], [nu[1], nu[2]])
    node = np.sqrt(y * variance)
    return np.array([[-node[1], -node[0], 0.0, *node], [w[1] / 2, w[0] / 2, 1 - w.sum(), w[0] / 2, w[1] / 2]])
