"""PoS: the problem in one place, how far S can stray, and where the nodes of r lie."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from fairpost.engines.exact.rules import Rule, legendre
from fairpost.engines.exact.shares import Counted, true_shares
from fairpost.engines.exact.tilts import cumulants
from fairpost.engines.moments import Floats
from fairpost.mechanisms import Gaussian, Mechanism


@dataclass(frozen=True)
class Problem:
    """z_j = c_j + noise of the given scale, each with its multiplicity; S = sum z_j."""

    c: Floats
    scale: Floats
    """beta_j = a_j b (Laplace) or a_j sigma (Gaussian)."""
    times: Counted
    shares: Floats
    a: Floats
    mechanism: Mechanism

    @classmethod
    def build(cls, x: Floats, a: Floats, times: Counted, mechanism: Mechanism) -> Problem:
        """The problem with weights scaled to a largest one of 1; shares do not change."""
        unit = a / np.max(a)
        return cls(unit * x, unit * mechanism.spread, times, true_shares(x, a, times), unit, mechanism)

    def part(self, index: Counted) -> Problem:
        """Some of the entities."""
        return replace(
            self,
            c=self.c[index],
            scale=self.scale[index],
            times=self.times[index],
            shares=self.shares[index],
            a=self.a[index],
        )

    @property
    def noise(self) -> int:
        """The kernels' code for the noise."""
        return int(isinstance(self.mechanism, Gaussian))

    @cached_property
    def n(self) -> int:
        """The number of entities."""
        return int(self.times.sum())

    @cached_property
    def mean(self) -> float:
        """E[S]."""
        return float(np.sum(self.times * self.c))

    @cached_property
    def variance(self) -> float:
        """Var[S]."""
        return float(np.sum(self.times * self.a**2) * self.mechanism.variance)

    @cached_property
    def low(self) -> float:
        """Below this real s the transforms are infinite."""
        return -1.0 / float(np.max(self.scale)) if self.noise == 0 else -np.inf

    def tilted(self, t: Floats) -> tuple[Floats, Floats, Floats]:
        """Under e^{-tz}: log E[e^{-t(z - c)}], the mean of z - c, the variance; rows nodes, columns pairs."""
        log, first, second = cumulants(self.mechanism, -np.multiply.outer(t, self.a))
        return log, first * self.a, second * self.a**2


def stray(problem: Problem, distance: float) -> float:
    """A lower bound on -log P(S - E[S] <= -distance), which holds for >= +distance too (Chernoff).

    Laplace: -log(1 - u^2) <= u^2/(1 - w^2) for u <= w gives log E[e^{T(S - E S)}] <= T^2 V / (2 (1 - w^2)) for
    T <= w / max beta; the best w of a few. Gaussian: T^2 V / 2 for every T.
    """
    v = problem.variance
    if problem.noise:
        return distance**2 / (2 * v)
    best = 0.0
    for w in (0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95):
        spread = v / (1 - w * w)
        tilt = min(distance / spread, w * -problem.low)
        best = max(best, tilt * distance - tilt * tilt * spread / 2)
    return best


def reach(problem: Problem, level: float) -> float:
    """The distance with stray(distance) = level, from above."""
    low, high = 0.0, float(np.sqrt(problem.variance))
    while stray(problem, high) < level:
        low, high = high, 2 * high
    for _ in range(20):
        middle = (low + high) / 2
        low, high = (middle, high) if stray(problem, middle) < level else (low, middle)
    return high


@dataclass(frozen=True)
class Fineness:
    """One stage of refinement of the rules for r and s."""

    drop: float
    """The window of r ends where its density has fallen by e^-drop."""
    spacing: float
    """The step of r in standard deviations, where the window lies inside r > 0."""
    order: int
    """The Gauss-Legendre order of each panel, where the window begins at 0."""
    step: float
    """The step along the contour, as a part of the kernel's own."""


STAGES = (
    Fineness(22, 1.15, 20, 1.1),
    Fineness(27, 0.95, 28, 0.88),
    Fineness(31, 0.75, 40, 0.7),
    Fineness(34, 0.55, 64, 0.52),
    Fineness(36, 0.35, 120, 0.36),
)


def window(problem: Problem, far: float, start: float, width: float, drop: float) -> tuple[float, float]:
    """Where the density of r > 0 is above e^-drop of its top; the lower end is 0 where it never falls so far.

    `problem` holds the entities at risk, `start` a typical r and `width` its scale.
    """
    from fairpost.kernels.exact_pos import threshold_density

    def density(r: Floats) -> Floats:
        out = np.empty_like(r)
        threshold_density(problem.noise, problem.c, problem.scale, problem.times, far, problem.low, r, out)
        return out

    away = width * 1.5 ** np.arange(18)
    up = start + np.concatenate([[0.0], away])
    down = start - np.concatenate([[0.0], away])
    down = np.concatenate([down[down > 0], [1e-6 * min(start, width)]])
    higher, lower = density(up), density(down)
    level = max(np.max(higher), np.max(lower)) - drop
    return _crossing(down, lower, level, 0.0), _crossing(up, higher, level, up[-1])


def _crossing(r: Floats, density: Floats, level: float, default: float) -> float:
    """Where the density, given outwards from the middle, last falls through the level."""
    above = np.flatnonzero(density >= level)
    last = int(above[-1]) if above.size else 0
    if last + 1 >= r.size:
        return default
    part = (density[last] - level) / (density[last] - density[last + 1])
    return float(r[last] + part * (r[last + 1] - r[last]))


def threshold_rule(problem: Problem, low: float, high: float, deviation: float, stage: Fineness) -> Rule:
    """Nodes and weights for r in the window.

    Inside r > 0 the density is a bell: equal steps converge geometrically. At 0 it has an end: Gauss-Legendre.
    Laplace noise has a kink in r at each c_j; where these are few, panels end there.
    """
    if low > 0:
        count = int(np.ceil((high - low) / (stage.spacing * deviation)))
        width = (high - low) / count
        return low + width * (np.arange(count) + 0.5), np.full(count, width)
    kinks = np.unique(problem.c[(problem.c > 0) & (problem.c < high)]) if problem.noise == 0 else np.empty(0)
    ends = np.concatenate([[0.0], kinks if kinks.size <= 8 else [], [high]])
    unit, weight = legendre(stage.order)
    widths = np.diff(ends)
    return (ends[:-1, None] + widths[:, None] * unit).ravel(), np.multiply.outer(widths, weight).ravel()
