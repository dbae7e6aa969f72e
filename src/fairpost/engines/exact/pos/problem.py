"""PoS: the problem in one place, and how far its sum S can stray."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from fairpost.engines.moments import Counted, Floats
from fairpost.noise import Law

ALIKE = 4.0
"""Weights within this factor are alike."""


@dataclass(frozen=True)
class Problem:
    """z_j = c_j + noise of the given scale, each with its multiplicity; S = sum z_j."""

    c: Floats
    scale: Floats
    """beta_j = a_j b (Laplace) or a_j sigma (Gaussian)."""
    times: Any
    """Whole numbers, or weights of interpolation (`pos.close`)."""
    shares: Floats
    a: Floats
    mechanism: Law
    never: float = 0.0
    """Who is above r with a chance below this is left out; 0 where biases of any size are wanted."""

    @classmethod
    def build(cls, x: Floats, a: Floats, times: Counted, shares: Floats, mechanism: Law) -> Problem:
        """The problem with weights scaled to a largest one of 1; shares do not change."""
        unit = a / np.max(a)
        return cls(unit * x, unit * mechanism.spread, times, shares, unit, mechanism)

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

    @cached_property
    def gaussian(self) -> bool:
        """Gaussian noise, or else Laplace."""
        return bool(np.isinf(self.mechanism.strip))

    @cached_property
    def alike(self) -> bool:
        """Weights of about the same size."""
        return bool(np.max(self.a) <= ALIKE * np.min(self.a))

    @cached_property
    def noise(self) -> int | None:
        """The kernels' code for the noise (`pos.kernels.noise`)."""
        return 1 if self.gaussian else None

    @cached_property
    def n(self) -> int:
        """The number of entities."""
        return round(float(self.times.sum()))

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
        return -np.inf if self.gaussian else -1.0 / float(np.max(self.scale))

    def tilted(self, t: Floats) -> tuple[Floats, Floats, Floats]:
        """Under e^{-tz}: log E[e^{-t(z - c)}], the mean of z - c, the variance; rows nodes, columns pairs."""
        log, first, second = self.mechanism.cumulants(-np.multiply.outer(t, self.a))
        return log, first * self.a, second * self.a**2


@dataclass(frozen=True)
class Chernoff:
    """P(S - E[S] >= d) <= e^{K(T) - T d} for every T > 0, and the same below.

    K(T) = log E[e^{T (S - E S)}], on a grid of T.
    """

    tilt: Floats
    log: Floats

    @classmethod
    def of(cls, problem: Problem) -> Chernoff:
        """The grid reaches levels of about 200, or as far as the transform exists."""
        deviation = float(np.sqrt(problem.variance))
        high = min(20 / deviation, -0.999 * problem.low)
        tilt = np.geomspace(min(0.2 / deviation, 0.1 * high), high, 60)
        weights, place = np.unique(problem.a, return_inverse=True)
        times = np.bincount(place, problem.times)
        return cls(tilt, np.asarray(problem.mechanism.cgf(np.multiply.outer(tilt, weights))) @ times)

    def level(self, distance: float) -> float:
        """A lower bound on -log P(S - E[S] >= distance)."""
        return float(np.max(self.tilt * distance - self.log))

    def distance(self, level: float) -> float:
        """A distance that is passed with probability e^-level at most, to each side."""
        return float(np.min((level + self.log) / self.tilt))


def chance_negative(problem: Problem) -> float:
    """P(S < 0) = (1 / 2 pi i) int e^{K(T)} dT / T with K(T) = log E[e^{-TS}], through the saddle point.

    The path bends right, where e^{-T E[S]} decays. Below e^-100 (by Chernoff's bound) the answer is 0.
    """
    if problem.mean == 0.0:
        return 0.5
    if Chernoff.of(problem).level(problem.mean) > 100:
        return 0.0
    noise, mean, high = problem.mechanism, problem.mean, -problem.low
    if problem.gaussian and not noise.discrete:
        return 0.5 * math.erfc(mean / math.sqrt(2 * problem.variance))
    times, a = problem.times, problem.a
    left, right = 0.0, min(high, 2 * mean / problem.variance + 2 / np.sqrt(problem.variance))
    for _ in range(60):
        start = (left + right) / 2
        falling = -(times * a) @ noise.cumulants(-start * a)[1] < mean + 1 / start
        left, right = (start, right) if falling else (left, start)
    width = 1 / np.sqrt(float((times * a * a) @ noise.cumulants(-start * a)[2]) + 1 / start**2)
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
