"""The factor of one entity under each of the four noises: E[e^{-tH}] with tilted mean and variance, H = w (g(x + eta) - centre)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from fairpost.engines.moments import Floats
from fairpost.noise import DiscreteGaussian, Law
from fairpost.noise.base import DISCRETE_GAUSSIAN, DISCRETE_LAPLACE, GAUSSIAN, LAPLACE
from fairpost.problems.programme import Kinks

POWERS = 20
"""Powers of the tilt in a table's series: at |c| <= 1 the next is below 1e-18."""
SHORT = 64
"""Below so many entities the discrete Gaussian is summed plainly."""


@dataclass(frozen=True, eq=False)
class Paid:
    """Kinked payments w g(x + eta) of n entities."""

    x: Floats
    w: Floats
    kinks: Kinks
    law: Law

    def weighted(self, w: Floats) -> Self:
        """The same with other weights."""
        return replace(self, w=w)

    def refined(self, attempt: int) -> Self:
        """Itself: the factors are closed."""
        return self

    def factors(self, t: Floats, centre: Floats | None) -> tuple[Floats, Floats, Floats]:
        """log E[e^{-tH}], tilted mean and variance of H, nodes by entities; centre None: 0."""
        shape = (t.size, self.x.size)
        out = np.empty(shape), np.empty(shape), np.empty(shape)
        k, law = self.kinks, self.law
        zero = np.zeros(self.x.size) if centre is None else centre
        rest = (self.eta, k.start, k.at, k.value, k.slope, self.x, zero, self.w, t, *out)
        if law.code in (LAPLACE, DISCRETE_LAPLACE):
            from fairpost.engines.closed.programme.kernels.halves import laplace_factors

            laplace_factors(law.discrete, law.spread, *rest)
        elif law.code == GAUSSIAN:
            from fairpost.engines.closed.programme.kernels.gaussian import gaussian_factors

            gaussian_factors(law.spread, *rest)
        else:
            self._table(t, rest)
        return out

    def _table(self, t: Floats, rest: tuple[Any, ...]) -> None:
        from fairpost.engines.closed.programme.kernels.table import series_factors, table_factors

        assert self.law.code == DISCRETE_GAUSSIAN
        assert isinstance(self.law, DiscreteGaussian)
        mass, reach = self.law._masses()
        steep = np.max(np.abs(self.kinks.slope * self.w[self.kinks.owner]), initial=0.0)
        if self.x.size >= SHORT and t[-1] * steep * reach <= 1.0:
            series_factors(_tails(self.law), reach, *rest)
        else:
            table_factors(mass, reach, *rest)

    @property
    def eta(self) -> Floats:
        """Where each kink begins, in terms of the noise."""
        return self.kinks.from_noise(self.x, self.law.discrete)

    def zero(self) -> Floats:
        """P(g(x + eta) = 0): the mass below the first kink, of pieces that are 0, and of lattice points where a line is 0."""
        k, eta = self.kinks, self.eta
        below = self.law.cdf(eta - 1) if self.law.discrete else self.law.cdf(eta)
        last = np.zeros(k.at.size, dtype=bool)
        last[k.start[1:] - 1] = True
        above = np.where(last, 1.0, np.append(below[1:], 1.0))
        dead = np.where((k.value == 0) & (k.slope == 0), above - below, 0.0)
        if self.law.discrete:
            with np.errstate(divide="ignore", invalid="ignore"):
                root = k.at - k.value / k.slope
                place = np.where(k.slope != 0, root - self.x[k.owner], 0.0)
            end = np.where(last, np.inf, np.append(eta[1:], np.inf))
            hit = (k.slope != 0) & (place >= eta) & (place < end)
            dead += np.where(hit, self.law.density(np.where(hit, place, 0.0)), 0.0)
        return below[k.start[:-1]] + np.bincount(k.owner, dead, self.x.size)


@lru_cache(maxsize=2)
def _tails(law: DiscreteGaussian) -> NDArray[np.float64]:
    """tails[m, d] = sum_{j >= d} (j / reach)^m p(j), d = 0, ..., reach + 1."""
    mass, reach = law._masses()
    j = np.arange(reach + 1) / reach
    terms = mass[reach:] * j ** np.arange(POWERS + 3)[:, None]
    out = np.zeros((POWERS + 3, reach + 2))
    out[:, :-1] = np.cumsum(terms[:, ::-1], axis=1)[:, ::-1]
    return out
