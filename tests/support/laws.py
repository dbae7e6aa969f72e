"""The four kinds of noise, from their definitions, in NumPy: masses or densities, P(eta <= c), quantiles, moments.

Discrete laws are tables from -reach to reach, summed from the left, so that the lower tail keeps its relative accuracy.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import erfcx, log_ndtr, ndtr, ndtri
from scipy.stats import norm

KINDS = ("laplace", "gaussian", "discrete-laplace", "discrete-gaussian")


@dataclass(frozen=True)
class Law:
    """Noise of one entity."""

    kind: str
    scale: float

    @property
    def discrete(self) -> bool:
        """Whether it is of whole numbers."""
        return self.kind.startswith("discrete")

    @cached_property
    def table(self) -> tuple[np.ndarray, np.ndarray]:
        """Whole numbers and their masses."""
        far = 120 * self.scale if self.kind == "discrete-laplace" else 22 * self.scale
        k = np.arange(-int(far + 12), int(far + 12) + 1, dtype=float)
        log = -np.abs(k) / self.scale if self.kind == "discrete-laplace" else -(k**2) / (2 * self.scale**2)
        mass = np.exp(log)
        return k, mass / mass.sum()

    @cached_property
    def below(self) -> np.ndarray:
        """P(eta <= k) on the table."""
        return np.cumsum(self.table[1])

    @cached_property
    def moments(self) -> tuple[float, float]:
        """E eta^2, E eta^4."""
        b = self.scale
        if self.kind == "laplace":
            return 2 * b**2, 24 * b**4
        if self.kind == "gaussian":
            return b**2, 3 * b**4
        k, mass = self.table
        return float(mass @ k**2), float(mass @ k**4)

    @property
    def variance(self) -> float:
        """E eta^2."""
        return self.moments[0]

    def cdf(self, c):
        """P(eta <= c)."""
        c, b = np.asarray(c, dtype=float), self.scale
        if self.kind == "gaussian":
            return ndtr(c / b)
        if self.kind == "laplace":
            return np.where(c < 0, 0.5 * np.exp(np.minimum(c, 0) / b), 1 - 0.5 * np.exp(-np.maximum(c, 0) / b))
        k, _ = self.table
        place = np.floor(c + 1e-9) - k[0]
        return np.where(place < 0, 0.0, self.below[np.clip(place, 0, k.size - 1).astype(int)])

    def quantile(self, u):
        """The least c with P(eta <= c) >= u."""
        u, b = np.asarray(u, dtype=float), self.scale
        if self.kind == "gaussian":
            return b * ndtri(u)
        if self.kind == "laplace":
            return np.where(u < 0.5, b * np.log(2 * np.minimum(u, 0.5)), -b * np.log(2 * np.minimum(1 - u, 0.5)))
        k, _ = self.table
        return k[np.minimum(np.searchsorted(self.below, u), k.size - 1)]

    def short(self, c):
        """P(eta <= c), E(c - eta)_+ and E(c - eta)_+^2."""
        c, b = np.asarray(c, dtype=float), self.scale
        if self.kind == "gaussian":
            t = c / b
            p, d = np.exp(log_ndtr(t)), norm.pdf(t)
            # far below, t P + d cancels: by Mills' ratio m, 1 - t m, and beyond 30 deviations by their series
            v = np.maximum(-t, 1.0)
            m, s = np.sqrt(np.pi / 2) * erfcx(v / np.sqrt(2)), 1 / v**2
            one_far = np.where(v < 30, 1 - v * m, s * (1 - 3 * s * (1 - 5 * s * (1 - 7 * s))))
            two_far = np.where(v < 30, (1 + v * v) * m - v, 2 * s / v * (1 - 6 * s * (1 - 7.5 * s)))
            one, two = np.where(t < -2, d * one_far, t * p + d), np.where(t < -2, d * two_far, (1 + t * t) * p + t * d)
            return p, b * one, b * b * two
        if self.kind == "laplace":
            e, f = np.exp(np.minimum(c, 0) / b) / 2, np.exp(-np.maximum(c, 0) / b) / 2
            up = c > 0
            return (
                np.where(up, 1 - f, e), np.where(up, c + b * f, b * e),
                np.where(up, c**2 + 2 * b * b * (1 - f), 2 * b * b * e),
            )  # fmt: skip
        k, _mass = self.table
        g1 = np.concatenate([[0.0], np.cumsum(self.below)[:-1]])
        # E(k - eta)_+^2 = sum over j < k of (2 (k - j) - 1) P(eta <= j)
        g2 = np.concatenate([[0.0], np.cumsum(2 * g1[1:] - self.below[:-1])])
        at = np.clip(np.floor(c + 1e-9) - k[0], 0, k.size - 1).astype(int)
        u = c - k[at]
        low = c + 1e-9 < k[0]
        p, one, two = self.below[at], g1[at] + u * self.below[at], g2[at] + 2 * u * g1[at] + u * u * self.below[at]
        return tuple(np.where(low, 0.0, v) for v in (p, one, two))


def best_threshold(law: Law) -> tuple[float, float]:
    """The level and the steepness that a threshold rule has where none is given (docs/threshold.md)."""
    if law.kind == "laplace":
        return law.scale, np.inf
    if law.kind == "discrete-laplace":
        q = np.exp(-1 / law.scale)
        return q / (1 - q), q / (1 - q) + 1
    mills = 0.7517915247  # tau = P(eta > tau) / p(tau), by mpmath.findroot
    if law.kind == "gaussian":
        return mills * law.scale, np.inf
    if law.scale >= 16:
        return mills * law.scale - 0.5, mills * law.scale + 0.5
    level = _least_range(law)
    level = round(level) if abs(level - round(level)) < 1e-6 else level  # a corner lies on the whole number itself
    return level, level + 1


def _least_range(law: Law) -> float:
    """The level whose ramp of width 1 has the least range of E[kept] - x over all x >= 0 without a shift."""
    from scipy.optimize import minimize_scalar

    k, mass = law.table

    def width(level: float) -> float:
        # E[kept] is piecewise linear in x with corners where x + k = level or level + 1
        x = np.concatenate([[0.0], np.ceil(level) - level + np.arange(0, int(14 * law.scale + level + 8))])
        x = np.unique(
            np.concatenate([[0.0], level - np.floor(level) + np.arange(0, int(14 * law.scale + level + 8)), x])
        )
        u = x[:, None] + k
        kept = np.where(u > level, np.minimum(u, (level + 1) * (u - level)), 0.0)
        gain = kept @ mass - x
        return float(gain.max() - gain.min())

    grid = np.arange(0.0, law.scale + 1, 0.02)
    start = grid[int(np.argmin([width(t) for t in grid]))]
    found = minimize_scalar(
        width, bounds=(max(start - 0.03, 0), start + 0.03), method="bounded", options={"xatol": 1e-10}
    )
    return float(found.x)
