"""PoS: where the nodes of the threshold r lie, from a rough picture of its density."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairpost.engines.exact.pos_problem import Problem
from fairpost.engines.exact.rules import Rule, legendre
from fairpost.engines.moments import Floats


@dataclass(frozen=True)
class Fineness:
    """One stage of refinement."""

    drop: float
    """The window of r ends where its weight has fallen by e^-drop."""
    spacing: float
    """The step of r, in standard deviations."""
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
    """The logarithm of the density of r > 0 on a rough grid, times r^2 beyond its core.

    The square stands for what a large r does to the shares: it comes from a large clipped entity.
    """

    r: Floats
    log: Floats

    @property
    def top(self) -> int:
        """The place of the maximum."""
        return int(np.argmax(self.log))

    def window(self, drop: float) -> tuple[float, float]:
        """Where the weight is above e^-drop of its top; from 0 where it never falls so far below."""
        level = np.max(self.log) - drop
        above = np.flatnonzero(self.log >= level)
        first, last = int(above[0]), int(above[-1])
        low = 0.0 if first == 0 else self._crossing(first, first - 1, level)
        high = float(self.r[-1]) if last + 1 == self.r.size else self._crossing(last, last + 1, level)
        return low, high

    def _crossing(self, inside: int, outside: int, level: float) -> float:
        part = (self.log[inside] - level) / (self.log[inside] - self.log[outside])
        return float(self.r[inside] + part * (self.r[outside] - self.r[inside]))

    @property
    def depth(self) -> Floats:
        """The distance from the top in standard deviations, as a bell with the same heights would have it."""
        return np.asarray(np.sqrt(2 * np.maximum(self.log[self.top] - self.log, 0.0)))

    def bell(self, drop: float) -> float | None:
        """The standard deviation, where the whole window looks like one bell inside r > 0."""
        (low, high), (left, right), top = self.window(drop), self.window(4.5), self.r[self.top]
        core, reach = (right - left) / 6, np.sqrt(2 * drop)
        halves = np.array([(top - low) / reach, (high - top) / reach, (top - left) / 3, (right - top) / 3]) / core
        return float(core) if low > 0 and halves.min() > 0.7 and halves.max() < 1.4 else None

    def breaks(self) -> Floats:
        """Ends of panels: outwards from the top, wherever the depth has changed by 1.5 or the distance fourfold."""
        out = [float(self.r[self.top])]
        for side in (np.arange(self.top + 1, self.r.size), np.arange(self.top - 1, -1, -1)):
            change, last, before = 0.0, 0.0, self.top
            for i in side:
                distance = abs(self.r[i] - self.r[self.top])
                change += abs(self.depth[i] - self.depth[before])
                if change > 1.5 or distance > 4 * last > 0:
                    out.append(float(self.r[i]))
                    change, last = 0.0, distance
                before = int(i)
        return np.unique(out)


def profile(problem: Problem, far: float, start: float, width: float) -> Profile:
    """Outwards from a typical r in growing steps; again around the top, with smaller ones, where it looks sharp.

    `problem` holds the entities at risk, `far` counts the others.
    """
    seen: dict[float, float] = {}
    for _ in range(8):
        _scan(problem, far, start, width, seen)
        r, log = np.array(sorted(seen)), np.array([seen[key] for key in sorted(seen)])
        top = int(np.argmax(log))
        low, high = max(top - 1, 0), min(top + 1, r.size - 1)
        if np.ptp(log[low : high + 1]) < 0.5:
            break
        start, width = float(r[top]), float(r[high] - r[low]) / 2
    _, core = Profile(r, log).window(4.5)
    return Profile(r, log + 2 * np.log(np.maximum(r / core, 1.0)))


def _scan(problem: Problem, far: float, start: float, width: float, seen: dict[float, float]) -> None:
    """Put the logarithm of the density at points outwards from the start into `seen`, until it has fallen by 45."""
    smallest = 1e-6 * min(start, width)
    seen[start] = top = float(density(problem, far, np.array([start]))[0])
    for sign in (1, -1):
        r, step, log = start, width / 4, top
        while r > smallest and log > top - 45 and step < 1e6 * width:
            r = max(r + sign * step, smallest)
            seen[r] = log = float(density(problem, far, np.array([r]))[0])
            top = max(top, log)
            step *= 1.3


def density(problem: Problem, far: float, r: Floats) -> Floats:
    """The logarithm of the density of r, by the saddle-point approximation."""
    from fairpost.kernels.exact_pos import threshold_density

    out = np.empty_like(r)
    threshold_density(problem.noise, problem.c, problem.scale, problem.times, far, problem.low, r, out)
    return np.where(np.isfinite(out), out, -1e300)  # too far out for the transforms


def threshold_rule(shape: Profile, kinks: Floats, stage: Fineness) -> Rule:
    """Nodes and weights for r.

    A bell inside r > 0: equal steps converge geometrically. Otherwise (an end at 0, kinks, long tails) Gauss-Legendre on panels,
    with orders by the deviations they span.
    """
    low, high = shape.window(stage.drop)
    inside = kinks[(kinks > low) & (kinks < high)]
    deviation = shape.bell(stage.drop)
    if deviation is not None and inside.size == 0:
        count = int(np.ceil((high - low) / (stage.spacing * deviation)))
        step = (high - low) / count
        return np.asarray(low + step * (np.arange(count) + 0.5), dtype=np.float64), np.full(
            count, step, dtype=np.float64
        )
    ends = np.unique(np.clip(np.concatenate([[low, high], inside, shape.breaks()]), low, high))
    travel = np.append(0.0, np.cumsum(np.abs(np.diff(shape.depth))))
    spans = np.diff(np.interp(ends, shape.r, travel))
    nodes, weights = [], []
    for start, length, span in zip(ends[:-1], np.diff(ends), spans, strict=True):
        unit, weight = legendre(4 + int(np.ceil(2.5 * span / stage.spacing)))
        nodes.append(start + length * unit)
        weights.append(length * weight)
    return np.concatenate(nodes), np.concatenate(weights)


def sharp_points(problem: Problem) -> Floats:
    """Where a single entity makes the density of r change on a small scale; for few entities only.

    Laplace noise: a kink at each c_j (it weighs 1/n^2). Either noise: within a few scales of c_j where the scale is small.
    """
    if problem.n > 300:
        return np.empty(0)
    small = problem.scale < 0.3 * np.max(problem.scale)
    around = np.add.outer(problem.c[small], [0.0]) + np.multiply.outer(problem.scale[small], [-3, -1, 1, 3])
    points = around.ravel() if problem.gaussian else np.append(around, problem.c)
    return np.unique(points[points > 0])
