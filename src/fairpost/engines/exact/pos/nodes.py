"""PoS: where the nodes of the threshold r lie, from a rough picture of its density."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fairpost import cancel
from fairpost.engines.closed.quadrature import Rule, legendre, on_panels
from fairpost.engines.exact.pos.problem import Problem
from fairpost.engines.moments import Floats
from fairpost.errors import ToleranceError


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
    """The step of log t (`quadrature.between`)."""
    order: int
    """Gauss-Legendre nodes on a panel of r."""
    panel: float
    """The relative accuracy to which a panel of r must integrate the stand-in."""
    close: float
    """The relative accuracy to which a few pairs stand for many (`pos.close`)."""


STAGES = (
    Fineness(22, 1.15, 1.1, 0.6, 5, 1e-5, 1e-7),
    Fineness(27, 0.95, 0.88, 0.48, 6, 1e-7, 3e-8),
    Fineness(31, 0.75, 0.7, 0.38, 8, 3e-9, 1e-8),
    Fineness(34, 0.52, 0.52, 0.3, 10, 1e-10, 3e-9),
    Fineness(36, 0.34, 0.36, 0.23, 12, 1e-12, 1e-9),
)
MOST = 300
"""No panel of r is halved any more when there are this many."""
AHEAD = 6
"""Points of the rough picture at a time: the kernel finds a saddle point faster from its neighbour's."""
MANY = 1000
"""Up to this number of entities a single one is seen in the density of r."""
FEW, BELL = 12, 40
"""More entities than BELL have neighbours at every scale, up to FEW may be all alone at theirs."""
SINGLE = 200
"""The most entities whose own shortfall a rule for r looks at."""


def contour_step(problem: Problem, stage: Fineness) -> float:
    """The step along the contour in s, as a part of the kernel's own.

    Under Gaussian noise of very different scales the integrand in s of few entities is no bell, and needs smaller steps. (What they move
    biases by, of 3 to 13 entities: 1e-8 of a share at most in the first stage, 1e-11 in the third; with 50 and more entities the usual
    ones move 1e-13.)
    """
    return 0.3 + 0.45 * stage.step if _uneven(problem) else stage.step


def smooth_step(problem: Problem, stage: Fineness) -> float:
    """The same for a stand-in: what the steps miss is not smooth in r, and panels would be halved for its sake."""
    return 0.2 + 0.25 * stage.step if _uneven(problem) else contour_step(problem, stage)


def late_step(problem: Problem, stage: Fineness) -> float:
    """The same for `separated`, whose contours turn later: up to FEW entities may be all alone at their scales.

    (With 13 to 30 entities the larger of the two moves biases by 1e-9 of their range at most, with 50 and more the usual step by 1e-13.)
    """
    return 0.2 + (0.1 if problem.n <= FEW else 0.5) * stage.step if _uneven(problem) else stage.step


def _uneven(problem: Problem) -> bool:
    few = problem.gaussian and problem.n <= BELL
    return few and float(np.max(problem.scale)) > 3 * float(np.min(problem.scale))


@dataclass(frozen=True)
class Profile:
    """The logarithm of the density of r > 0 on a rough grid, times r^2 beyond its core.

    The square stands for what a large r does to the shares: it comes from a large clipped entity.
    """

    r: Floats
    log: Floats

    @cached_property
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

    @cached_property
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
    """Put the logarithm of the density at points outwards from the start into `seen`, until it has fallen by 45.

    Downwards a step is at most half of r: near 0 the density may fall like a power of r.
    """
    smallest = 1e-6 * min(start, width)
    seen[start] = top = float(density(problem, far, np.array([start]))[0])
    for sign in (1, -1):
        r, step, log = start, width / 4, top
        while r > smallest and log > top - 45 and step < 1e6 * width:
            some: list[float] = []
            while len(some) < AHEAD and r > smallest and step < 1e6 * width:
                r = r + step if sign > 0 else max(r - min(step, 0.5 * r), smallest)
                some.append(r)
                step *= 1.3
            for place, value in zip(some, density(problem, far, np.array(some)).tolist(), strict=True):
                seen[place] = log = value
                top = max(top, log)
                if log <= top - 45:
                    break


def density(problem: Problem, far: float, r: Floats) -> Floats:
    """The logarithm of the density of r, by the saddle-point approximation."""
    from fairpost.engines.exact.pos.kernels.saddles import threshold_density

    cancel.check()
    out = np.empty_like(r)
    threshold_density(problem.noise, problem.c, problem.scale, problem.times, far, problem.low, problem.never, r, out)
    return np.where(np.isfinite(out), out, -1e300)  # too far out for the transforms


StandIn = Callable[[Floats], Floats]
"""What the integrand looks like at each r: one row per node, columns that must be integrated well."""


def threshold_rule(shape: Profile, stand_in: StandIn, kinks: Floats | None, stage: Fineness) -> Rule:
    """Nodes and weights for r; `kinks` are where the density of r is not smooth.

    A bell inside r > 0 without kinks (None): equal steps converge geometrically. Otherwise (an end at 0, long tails)
    Gauss-Legendre on panels, halved until the stand-in has the stage's accuracy.
    """
    low, high = shape.window(stage.drop)
    deviation = shape.bell(stage.drop)
    if deviation is not None and kinks is None:
        count = int(np.ceil((high - low) / (stage.spacing * deviation)))
        step = (high - low) / count
        return low + step * (np.arange(count, dtype=np.float64) + 0.5), np.full(count, step, dtype=np.float64)
    if not low < high:
        raise ToleranceError("pos: the density of the threshold is too narrow for the scale of the counts")
    breaks = shape.breaks() if kinks is None else np.append(kinks, shape.breaks())
    ends = _halved(stand_in, np.unique(np.clip(np.append(breaks, [low, high]), low, high)), stage)
    return on_panels(ends, stage.order)


@dataclass(frozen=True)
class SaddlePoint:
    """A stand-in: the density of r by the saddle-point approximation, alone and times E[(r - z_j)_+] of some entities.

    These are the entities that may bend the integrand: within a few scales of c_j, where these are small. One whose
    scale is as wide as the density of r is smooth there; among more than MANY none is seen. At most SINGLE are taken.
    """

    problem: Problem
    far: float
    c: Floats
    scale: Floats
    peak: float
    core: float

    @classmethod
    def of(cls, problem: Problem, far: float, shape: Profile, drop: float) -> SaddlePoint:
        """For the window that ends where the weight of r has fallen by e^-drop."""
        (low, high), (left, right) = shape.window(drop), shape.window(4.5)
        reach = np.maximum(low - problem.c, problem.c - high) / problem.scale
        smooth = problem.scale > (right - left if problem.gaussian else 4 * (right - left))
        some = np.flatnonzero((reach < 6) & ~smooth & (problem.n <= MANY))
        some = some[:: max(1, some.size // SINGLE)]
        return cls(problem, far, problem.c[some], problem.scale[some], float(np.max(shape.log)), right)

    def __call__(self, r: Floats) -> Floats:
        """Columns: the density, and the density times one entity's shortfall, both in units of a typical r."""
        from fairpost.engines.exact.pos.kernels.separated import shortfalls

        order = np.argsort(r)
        log = np.empty_like(r)
        log[order] = density(self.problem, self.far, r[order])
        height = np.exp(log - self.peak) * (1 + (r / self.core) ** 2)
        if self.c.size == 0:
            return np.asarray(self.core * height[:, None])
        out = np.empty((r.size, 1 + self.c.size))
        for i in range(r.size):
            cancel.check()
            shortfalls(self.problem.noise, self.c, self.scale, r[i], out[i, 1:])
        out[:, 0] = self.core
        return np.asarray(out * height[:, None])


def _halved(stand_in: StandIn, ends: Floats, stage: Fineness) -> Floats:
    """Ends of panels, each halved until the rule on it agrees with the same rule on its halves."""
    unit, weight = legendre(stage.order)

    def integrals(start: Floats, width: Floats) -> Floats:
        values = stand_in((start[:, None] + width[:, None] * unit).ravel())
        return np.asarray(np.einsum("p,k,pkj->pj", width, weight, values.reshape(start.size, unit.size, -1)))

    start, width, done = ends[:-1], np.diff(ends), [ends]
    whole = integrals(start, width)
    size = np.max(np.sum(np.abs(whole), axis=0))
    while sum(part.size for part in done) < MOST:
        cancel.check()
        left, right = np.split(integrals(np.append(start, start + width / 2), np.tile(width / 2, 2)), 2)
        coarse = np.max(np.abs(whole - left - right), axis=1) > stage.panel * size
        if not coarse.any():
            break
        middle = (start + width / 2)[coarse]
        done.append(middle)
        start, width = np.concatenate([start[coarse], middle]), np.tile(width[coarse] / 2, 2)
        whole = np.concatenate([left[coarse], right[coarse]])
    return np.unique(np.concatenate(done))
