"""S = sum z_j, all but certain to be above 0: how far it strays, 1/S as a sum of few exponentials, and shares without clipping.

rho(S) = sum omega e^{-tS} has the nodes of Gauss-Radau-Laguerre in t E[S]: n nodes agree with 1/S to degree 2n - 2 about E[S], and
sum omega t e^{-tS} stands for 1/S^2. By Cauchy-Schwarz the bias of a share moves by at most sqrt(mse_i) rms(S rho(S) - 1), and S beyond a
Chernoff distance adds its chance; that is why S > 0 has to be sure.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fairpost import cancel
from fairpost.engines.closed.quadrature import radau
from fairpost.engines.moments import Counted, Floats
from fairpost.noise import Law

SURE = 20.0
"""S <= E[S]/4 has a chance of e^-20 at most."""
ROUNDING = 1e-13
"""Of sums with the nodes of 1/S."""


@dataclass(frozen=True)
class Inverse:
    """rho(S) = sum omega e^{-tS} in the place of 1/S."""

    t: Floats
    omega: Floats
    rms: float
    """A bound on the root mean square of S rho(S) - 1 where S is within the Chernoff distance."""
    square: float
    """The same of S^2 sum omega t e^{-tS} - 1."""
    tail: float
    """What S outside the distance can add to any bias."""

    def of_square(self, mse: Floats) -> Floats:
        """What the stand-in for 1/S^2 can move a mean squared error by, with rounding.

        By Cauchy-Schwarz, with a fourth moment of at most 6 times the squared second one (Laplace), sqrt 6 < 3.
        """
        return np.asarray(3 * mse * self.square + self.tail + 10 * ROUNDING * mse)

    def of_clipped(self, mse: Floats, mse0: Floats, p: Floats) -> Floats:
        """The same with clipping, v for z: v^2 - z^2 = (v - z)^2 + 2 (z - P S)(v - z) + 2 P S (v - z).

        The last is larger than squares, for a share P near 1, and meets both stand-ins. The root mean square of (v - z)/S is at most
        sqrt(mse) + sqrt(mse0), `mse0` being the mean square without clipping.
        """
        lifted = np.sqrt(mse) + np.sqrt(mse0)
        return np.asarray(self.of_square(mse + mse0) + 2 * p * lifted * (self.rms + self.square))


@dataclass(frozen=True, eq=False)
class Total:
    """S of z_j = c_j + a_j eta, each with its multiplicity and its true share P.

    P(S - E[S] >= d) <= e^{K(T) - T d} for every T > 0, and the same below, K on a grid of T.
    """

    c: Floats
    a: Floats
    times: Counted
    shares: Floats
    noise: Law

    @cached_property
    def mean(self) -> float:
        """E[S]."""
        return math.fsum(self.c * self.times)

    @cached_property
    def variance(self) -> float:
        """Var[S]."""
        return float(np.sum(self.times * self.a**2) * self.noise.variance)

    @cached_property
    def _weights(self) -> tuple[Floats, Floats]:
        """The distinct ones, and how often each occurs."""
        weights, place = np.unique(self.a, return_inverse=True)
        return weights, np.bincount(place, self.times).astype(np.float64)

    @cached_property
    def _grid(self) -> tuple[Floats, Floats]:
        """T and K(T), to levels of about 200, or as far as the transform exists."""
        weights, times = self._weights
        deviation = math.sqrt(self.variance)
        high = min(20 / deviation, 0.999 * self.noise.strip / float(weights[-1]))
        tilt = np.geomspace(min(0.2 / deviation, 0.1 * high), high, 60)
        log = np.asarray(self.noise.cgf(np.multiply.outer(tilt, weights)), dtype=np.float64) @ times
        known = np.isfinite(log)  # noise next to none overflows long before 20 of its deviations
        return tilt[known], log[known]

    def level(self, distance: float) -> float:
        """A lower bound on -log P(S - E[S] >= distance)."""
        tilt, log = self._grid
        return float(np.max(tilt * distance - log, initial=0.0))

    @cached_property
    def sure(self) -> float:
        """The same for S <= E[S]/4, 60 at most; 0 where S is nothing."""
        return min(60.0, self.level(0.75 * self.mean)) if self.mean > 0 and self.variance > 0 else 0.0

    @cached_property
    def chance_negative(self) -> float:
        """P(S < 0) = (1 / 2 pi i) int e^{K(T) - T E[S]} dT/T through the saddle point, bent to the right; 0 where it is below e^-100."""
        if self.level(self.mean) > 100 or self._grid[0].size == 0:
            return 0.0
        (tilt, log), (weights, times) = self._grid, self._weights
        start = float(tilt[np.argmin(log - tilt * self.mean - np.log(tilt))])
        _, _, second = self.noise.cumulants(-start * weights)
        curve = float((times * weights**2) @ second)
        if not math.isfinite(curve):  # noise next to none, tilted beyond floats: Chernoff's bound stands for its chance
            return math.exp(-self.level(self.mean))
        width = 1 / math.sqrt(curve + 1 / start**2)
        scale = min(6 * width, 0.8 * start, 0.8 * (self.noise.strip / float(weights[-1]) - start))
        bend, step = min(0.4 * scale, 4 / self.mean), 0.5 * min(0.12, width / scale)
        v = np.arange(0.0, 25.0, step)
        v = v[bend * self.mean * np.cosh(v) + 2 * v < 90]
        path = start + bend * (np.cosh(v) - 1) + 1j * scale * np.sinh(v)
        speed = scale * np.cosh(v) - 1j * bend * np.sinh(v)
        power = np.asarray(self.noise.cgf(-np.multiply.outer(path, weights))) @ times - path * self.mean
        values = (np.exp(power) * speed / path).real
        return float(step / np.pi * (np.sum(values) - values[0] / 2))

    def tilted(self, t: Floats) -> tuple[Floats, Floats, Floats]:
        """Under e^{-tz}: log E[e^{-t(z - c)}], the mean of z - c, the variance; rows t, columns pairs."""
        log, first, second = self.noise.cumulants(-np.multiply.outer(t, self.a))
        return log, first * self.a, second * self.a**2

    def unclipped(self, inverse: Inverse) -> tuple[Floats, Floats]:
        """E[(z_i - P_i S)/S] and E[(z_i - P_i S)^2/S^2]: the true values drop out, as P_i sum c = c_i."""
        times, p = self.times, self.shares
        log, mean, variance = self.tilted(inverse.t)
        weight = inverse.omega * np.exp(log @ times - inverse.t * self.mean)
        gap = mean - np.multiply.outer(mean @ times, p)
        scatter = (1 - p) ** 2 * variance + p**2 * ((variance @ times)[:, None] - variance)
        return weight @ gap, (weight * inverse.t) @ (gap**2 + scatter)

    def inverse(self, tolerance: float) -> Inverse | None:
        """The smallest rule whose error is below the tolerance; None where S may come too near to 0.

        The mean square of f = S rho(S) - 1 is summed over shells: |S - E S| > x_k has a chance of at most 2 e^{-l_k}.
        """
        mean, level = self.mean, self.sure
        if level < SURE:
            return None
        tilt, log = self._grid
        levels = np.append(np.arange(1.0, level, 3.0), level)
        x = np.minimum([float(np.min((l + log) / tilt)) for l in levels], 0.75 * mean)
        chance = np.append(1.0, 2 * np.exp(-levels[:-1]))
        s = np.array([mean - x, mean + x])
        for size in range(3, 24):
            cancel.check()
            u, weight = radau(size)
            t, omega = u / mean, weight / mean
            if t[-1] > tilt[np.argmin((level + log) / tilt)]:
                return None  # e^{-tS} would be largest where S is least
            decay = np.exp(-np.multiply.outer(s, t))
            one, two = (np.max(np.abs(s**k * (decay @ (omega * t ** (k - 1))) - 1), axis=0) for k in (1, 2))
            rms, square = (float(np.sqrt(np.sum(chance * f**2))) for f in (one, two))
            if rms <= tolerance:
                return Inverse(t, omega, rms, square, 32 * math.exp(-level))
        return None

    def fitted(
        self, rtol: float, moments: Callable[[Inverse], tuple[Floats, Floats]]
    ) -> tuple[Inverse, Floats, Floats] | None:
        """1/S as near as a tolerance on alpha asks for, and the bias and mean squared error that `moments` finds with it.

        What the stand-in can move a bias by, rms sqrt(mse), is to be below a tenth of rtol alpha, or `ROUNDING` of the deviation.
        """
        inverse = self.inverse(0.02 * rtol)
        if inverse is None:
            return None
        bias, mse = moments(inverse)
        enough = 0.1 * rtol * float(np.ptp(bias)) / float(np.sqrt(np.max(mse)))
        if enough < inverse.rms:
            inverse = self.inverse(max(enough, ROUNDING)) or inverse
            bias, mse = moments(inverse)
        return inverse, bias, mse
