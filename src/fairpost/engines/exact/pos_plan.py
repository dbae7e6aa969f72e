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


def chance_negative(problem: Problem) -> float:
    """P(S < 0) = (1 / 2 pi i) int e^{K(T)} dT / T with K(T) = log E[e^{-TS}], through the saddle point.

    The path bends right, where e^{-T E[S]} decays. Below e^-100 (by Chernoff's bound) the answer is 0.
    """
    if problem.mean == 0.0:
        return 0.5
    if stray(problem, problem.mean) > 100:
        return 0.0
    noise, mean, high = problem.mechanism, problem.mean, -problem.low
    times, a = problem.times, problem.a

    def slope(t: float) -> float:
        return float(-(times * a) @ cumulants(noise, -t * a)[1]) - mean - 1 / t

    left, right = 0.0, min(high, 2 * mean / problem.variance + 2 / np.sqrt(problem.variance))
    for _ in range(60):
        start = (left + right) / 2
        left, right = (start, right) if slope(start) < 0 else (left, start)
    width = 1 / np.sqrt(float((times * a * a) @ cumulants(noise, -start * a)[2]) + 1 / start**2)
    scale = min(6 * width, 0.8 * start, 0.8 * (high - start))
    bend = min(0.4 * scale, 4 / mean)
    step = 0.5 * min(0.12, width / scale)
    v = np.arange(0.0, 25.0, step)
    v = v[bend * mean * np.cosh(v) + 2 * v < 90]
    path = start + bend * (np.cosh(v) - 1) + 1j * scale * np.sinh(v)
    speed = scale * np.cosh(v) - 1j * bend * np.sinh(v)
    log = np.asarray(noise.cgf(-np.multiply.outer(path, a))) @ times - path * mean
    values = (np.exp(log) * speed / path).real
    return float(step / np.pi * (np.sum(values) - values[0] / 2))


@dataclass(frozen=True)
class Fineness:
    """One stage of refinement."""

    drop: float
    """The window of r ends where its density has fallen by e^-drop."""
    spacing: float
    """The step of r, in units of its scale."""
    step: float
    """The step along the contour in s, as a part of the kernel's own."""
    tail: float
    """The step of the double-exponential rule in t."""


STAGES = (
    Fineness(22, 1.15, 1.1, 0.25),
    Fineness(27, 0.95, 0.88, 0.19),
    Fineness(31, 0.75, 0.7, 0.14),
    Fineness(34, 0.52, 0.52, 0.1),
    Fineness(36, 0.34, 0.36, 0.07),
)


@dataclass(frozen=True)
class Profile:
    """The density of r > 0 on a rough grid (logarithms), to place the nodes."""

    down: Floats
    lower: Floats
    up: Floats
    upper: Floats
    width: float
    """The scale of the density about its top."""

    def window(self, drop: float) -> tuple[float, float]:
        """Where the density is above e^-drop of its top; from 0 where it never falls so far."""
        level = max(np.max(self.lower), np.max(self.upper)) - drop
        return _crossing(self.down, self.lower, level, 0.0), _crossing(self.up, self.upper, level, self.up[-1])


def profile(problem: Problem, far: float, start: float, width: float) -> Profile:
    """Outwards from a typical r in growing steps; `problem` holds the entities at risk, `far` counts the others."""
    away = np.append(0.0, width * 1.5 ** np.arange(-2, 16))
    up, down = start + away, start - away
    down = np.append(down[down > 0], 1e-6 * min(start, width))
    return Profile(down, density(problem, far, down), up, density(problem, far, up), width)


def density(problem: Problem, far: float, r: Floats) -> Floats:
    """The logarithm of the density of r, by the saddle-point approximation."""
    from fairpost.kernels.exact_pos import threshold_density

    out = np.empty_like(r)
    threshold_density(problem.noise, problem.c, problem.scale, problem.times, far, problem.low, r, out)
    return out


def _crossing(r: Floats, log: Floats, level: float, default: float) -> float:
    """Where the density, given outwards from the middle, last falls through the level."""
    above = np.flatnonzero(log >= level)
    last = int(above[-1]) if above.size else 0
    if last + 1 >= r.size:
        return default
    part = (log[last] - level) / (log[last] - log[last + 1])
    return float(r[last] + part * (r[last + 1] - r[last]))


def threshold_rule(low: float, high: float, kinks: Floats, width: float, spacing: float) -> Rule:
    """Nodes and weights for r in (low, high), where the density has the scale `width`.

    Inside r > 0 the density is a bell: equal steps converge geometrically. At 0 it has an end, and at kinks it is
    not smooth: Gauss-Legendre on panels between these, with orders in proportion to their lengths.
    """
    inside = kinks[(kinks > low) & (kinks < high)]
    if low > 0 and inside.size == 0:
        count = int(np.ceil((high - low) / (spacing * width)))
        step = (high - low) / count
        return low + step * (np.arange(count) + 0.5), np.full(count, step)
    ends = np.concatenate([[low], inside, [high]])
    nodes, weights = [], []
    for start, length in zip(ends[:-1], np.diff(ends), strict=True):
        unit, weight = legendre(5 + int(np.ceil(1.5 * length / (spacing * width))))
        nodes.append(start + length * unit)
        weights.append(length * weight)
    return np.concatenate(nodes), np.concatenate(weights)


def laplace_kinks(problem: Problem) -> Floats:
    """Laplace noise has a kink in r at each c_j. Each weighs 1/n^2, so they matter where they are few."""
    if problem.noise or problem.n > 60:
        return np.empty(0)
    return np.unique(problem.c)
