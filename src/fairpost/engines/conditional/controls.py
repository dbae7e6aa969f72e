"""Control variates with exact means: how a point differs from the mean field.

At the root r* of E sum phi_j(z_j - r) = C (for shares of E sum (phi_j - z_j) = 0) three sums over who is drawn, centred: u of what is held
(for shares less z), q of who is below the top, and for shares D of the noise a eta. The controls are these, and their products less
covariances, in units of their deviations.

Where S may have either sign, shares vary most with S itself. Functions of S that bend near 0 have known means too: with the transform
E e^{itS} the real and the imaginary part of

    E 1/(w - iS) = int_0^inf e^{-wt} E e^{itS} dt.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fairpost.engines.closed.quadrature import on_panels
from fairpost.engines.conditional.kernels.tails import SNAP
from fairpost.engines.conditional.problem import Problem
from fairpost.noise import Law

Floats = NDArray[np.float64]
STEEP = 1e3
"""Ramps that are steeper are taken for jumps at their tops here, where differences of the two clippings that make a ramp would cancel."""


WIDTHS = 0.1, 0.3, 1.0
"""Of poles, in deviations of S."""
END, GONE = 360.0, 1e-13
"""Where the transform ends: e^-36 of the least width, or less."""


class Controls:
    """For drawn entities of counts x and weights a; u has besides a sum of variance `others`."""

    def __init__(self, problem: Problem, x: Floats, a: Floats, others: float) -> None:
        r, law, level, top, s = problem.root(), problem.law, problem.level, problem.top, problem.steepness
        shares = problem.total is None
        self.a, self.shares, self.s, self.steep = a, shares, s, s > STEEP or level == 0
        self.edge, self.top, self.height = r / a + level - x, r / a + top - x, top
        upper, at_edge = law.partial(self.top, 2)[1], law.partial(self.edge, 2)[1]
        p, one, two, c, L = law.cdf(-self.top), upper[:, 1], upper[:, 2], self.top, top
        variance = law.moments[2]
        # means of phi, phi^2, phi eta and phi below the top, in own units
        held, square, own, low = one + L * p, two + 2 * L * one + L * L * p, two + (L + c) * one + L * c * p, 0 * one
        if not self.steep:
            first, second, width = at_edge[:, 1], at_edge[:, 2], top - level
            held = s * first - (s - 1) * one
            square = s * s * second + (s - 1) ** 2 * two - 2 * s * (s - 1) * (two + width * one)
            own = s * (second + self.edge * first) - (s - 1) * (two + c * one)
            low = s * (first - one - width * p)
        self.mean_held, self.mean_below = held, 1 - p
        # covariances of (u, q, D)
        below_eta = -(one + c * p)
        vv, ve, vq = square - held**2, own, low - held * (1 - p)
        if shares:
            vv, ve, vq = vv - 2 * own + variance, own - variance, vq - below_eta
        self.covariance = np.array(
            [
                [a**2 @ vv + others, a @ vq, a**2 @ ve],
                [a @ vq, float(np.sum(p * (1 - p))), a @ below_eta],
                [a**2 @ ve, a @ below_eta, variance * float(np.sum(a**2))],
            ]
        )
        self.deviation = np.sqrt(np.maximum(np.diag(self.covariance), 1e-200))

    def __call__(self, eta: Floats, others: Floats) -> Floats:
        """The controls for rows of noise, `others` the rest of u."""
        above = eta >= self.top - SNAP
        if self.steep:
            held = np.where(above, eta - self.top + self.height, 0.0)
        else:
            held = np.minimum(self.s * np.maximum(eta - self.edge, 0.0), eta - self.top + self.height)
            held = np.maximum(held, 0.0)
        u = np.sum((held - self.mean_held - (eta if self.shares else 0.0)) * self.a, axis=1) + others
        q = np.sum(~above - self.mean_below, axis=1)
        sums = [u, q, np.sum(eta * self.a, axis=1)] if self.shares else [u, q]
        sums = [v / d for v, d in zip(sums, self.deviation, strict=False)]
        scale = np.outer(self.deviation, self.deviation)
        many = range(len(sums))
        products = [sums[i] * sums[j] - self.covariance[i, j] / scale[i, j] for i in many for j in many if i <= j]
        return np.stack([*sums, *products], axis=1)


class Poles:
    """For shares of either sign: 1/(w - iS) less its mean, w in deviations of S."""

    def __init__(self, problem: Problem, noise: Law) -> None:
        p, (self.mean, self.deviation) = problem.pairs, problem.spread
        a, group = np.unique(p.a / self.deviation, return_inverse=True)
        times, means, start = np.bincount(group, p.times), np.zeros(len(WIDTHS), np.complex128), 0.0
        while start < END:  # where it has not died of itself
            t, weight = on_panels(np.linspace(start, start + 4.0, 5), 16)
            transform = np.exp(noise.cgf(1j * np.multiply.outer(t, a)) @ times + 1j * t * (self.mean / self.deviation))
            means += [np.sum(weight * transform * np.exp(-w * t)) for w in WIDTHS]
            start += 4.0
            if abs(transform[-1]) * np.exp(-WIDTHS[0] * start) < GONE:
                break
        self.means = means

    def __call__(self, noise: Floats) -> Floats:
        """The controls for rows of sums a eta."""
        values = 1 / (np.array(WIDTHS) - 1j * (self.mean + noise)[:, None] / self.deviation) - self.means
        return np.concatenate([values.real, values.imag], axis=1)
