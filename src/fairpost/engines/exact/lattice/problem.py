"""A release under whole-number noise in one place: its counts, its total and its ramp."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fairpost.engines.exact.sums.population import Places
from fairpost.engines.moments import Floats
from fairpost.noise import Law, Threshold


@dataclass(frozen=True)
class Problem:
    """The distinct whole counts, how often each occurs, the total, and the ramp (None: pi_S+)."""

    noise: Law
    x: Floats
    times: Floats
    total: float
    rule: Threshold | None

    @property
    def n(self) -> float:
        """The number of entities."""
        return float(np.sum(self.times))

    @property
    def tau(self) -> float:
        """The start of the ramp; 0 without one."""
        return 0.0 if self.rule is None else self.rule.level

    @property
    def name(self) -> str:
        """The rule's."""
        return "simplex" if self.rule is None else "simplex-threshold"

    @property
    def surplus(self) -> float:
        """C - sum x."""
        return math.fsum([self.total, *(-self.x * self.times).tolist()])

    def places(self, t: Floats) -> Places:
        """Of t = T, or of t' = r + tau."""
        base = np.floor(t)
        rest = t - base
        if self.rule is None:
            return Places(base, -rest, None)
        return Places(base, self.tau - rest, (1 + self.tau) * (1 - rest))

    def start(self, t0: float) -> tuple[Floats, Floats, Floats]:
        """Deficit, P(v = 0) and E[(v - x)^2] of every count if the root were t0."""
        noise, x, c = self.noise, self.x, t0 - self.x
        if self.rule is None:
            u0, u1, u2 = (noise.upper(c, 0.0, k) for k in range(3))
            return -noise.lower(c, 0.0, 1), noise.cdf(c), x**2 * noise.cdf(c) + u2 - 2 * x * u1 + x**2 * u0
        at = self.places(np.array([t0]))
        kappa = float(at.kappa[0])
        rho = 0.0 if at.rho is None else float(at.rho[0])
        cut = at.base[0] - x
        one = noise.density(cut + 1)
        u0, u1, u2 = (noise.upper(cut, 0.0, k) - one for k in range(3))
        far = kappa - x
        mse = x**2 * noise.cdf(cut) + u2 + 2 * far * u1 + far**2 * u0 + (rho - x) ** 2 * one
        return self.rule.gain(noise, c), noise.cdf(cut), mse
