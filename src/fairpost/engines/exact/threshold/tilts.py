"""The law of the shift r of `pos-threshold` (`shares`): its factors under a tilt, where it lies, and the contours' tilts there."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from fairpost import cancel
from fairpost.engines.exact.pos.problem import Problem
from fairpost.engines.exact.simplex.law import Reduced
from fairpost.engines.exact.sums.factors import Complexes, kept_part, log_product, parts
from fairpost.engines.exact.sums.population import Entities, entities
from fairpost.engines.exact.sums.window import Window
from fairpost.engines.mean_field import shift
from fairpost.engines.moments import Counted, Floats
from fairpost.errors import ToleranceError
from fairpost.noise import Law, Threshold
from fairpost.roots import root

SPAN = 9.5
"""The window of r reaches so many standard deviations to each side."""
FAR = 1e-13
"""Beyond it the chances are to be below this."""
FEWEST = 40.0
"""The fewest entities that must share the shift."""


@dataclass(frozen=True)
class Field:
    """The pairs that may be dropped (or their nodes), in units of the noise; n counts every entity."""

    noise: Law
    x: Floats
    a: Floats
    weight: Floats
    giants: Floats
    """Weights a of the entities that are never dropped, and how often."""
    many: Floats
    n: float
    tau: float
    members: Counted
    """Places of the pairs among all of them."""
    reduced: Reduced | None

    @cached_property
    def one_weight(self) -> Floats:
        """The weights, or one of them where all are equal: what then is the same for every pair is computed once."""
        return self.a if self.a.size == 0 or np.ptp(self.a) > 0 else self.a[:1]

    def log(self, t: Floats, s: Complexes) -> Complexes:
        """log E[e^{s (W(t) - n t)}]."""
        return log_of(self, t, s)


class Shared(Protocol):
    """What shares a shift: a sum W(t) of independent terms."""

    @property
    def noise(self) -> Law:
        """Of one entity."""

    @property
    def a(self) -> Floats:
        """The scales of their noises."""

    def log(self, t: Floats, s: Complexes) -> Complexes:
        """log E[e^{s (W(t) - n t)}]."""


@dataclass(frozen=True)
class Tilted:
    """At places t (rows) and s: the product, and for each pair what may stand in the place of its factor."""

    log: Complexes
    one: Complexes
    dropped: Complexes
    far: Floats
    """E[(z - t) e^{-theta z}; kept], which `one` puts in place of the factor; the same at every s."""


def tilted(f: Field, t: Floats, s: Complexes, theta: float) -> Tilted:
    """Every factor is taken times e^{theta a x}: the tilt of the counts themselves is common."""
    a, c = f.one_weight, (t[:, None] / f.a + f.tau - f.x)[:, None, :]
    up = parts(f.noise, c, -theta * a + 0 * c)
    shift = np.exp(-theta * a * c) / up.shift.real
    kept = up.kept.real * shift
    far = (a * f.tau * up.kept.real + a * up.first.real) * shift
    fallen = _fallen(f, c, s, theta)
    psi = kept + fallen
    inverse = 1 / psi
    return Tilted(_product(f, psi, t, s, theta), inverse, fallen * inverse, far)


def log_of(f: Field, t: Floats, s: Complexes) -> Complexes:
    """`log` of `tilted` at theta = 0, alone."""
    c = (t[:, None] / f.a + f.tau - f.x)[:, None, :]
    return _product(f, f.noise.sf(c) + _fallen(f, c, s, 0.0), t, s, 0.0)


def _fallen(f: Field, c: Floats, s: Complexes, theta: float) -> Complexes:
    """e^{-theta a c} E[e^{(s + theta) a p}], p = c - eta; its lift for c > 0 cancels the first factor."""
    a = f.one_weight
    kept, shift = kept_part(f.noise, -c, (s[:, :, None] + theta) * a)
    return np.asarray(np.exp(-s[:, :, None] * (a * f.tau)) * np.exp(-theta * a * c) * (kept / shift))


def _product(f: Field, psi: Complexes, t: Floats, s: Complexes, theta: float) -> Complexes:
    """Its logarithm."""
    log = log_product(psi, f.weight) - s * (f.n * t)[:, None]
    return np.asarray(log + float(np.sum(f.many * np.asarray(f.noise.cgf(-theta * f.giants)))))


def field_of(problem: Problem, tau: float, high: float, low: float, nodes: int) -> Field:
    """In units of the noise. Equal weights: many close counts by Chebyshev nodes."""
    unit = problem.mechanism.spread
    noise = problem.mechanism.scaled(1.0)
    x, level = problem.c / problem.a / unit, tau / unit
    cut = high / problem.a + level - x
    chance = noise.cdf(cut)
    near = chance > 1e-20 / problem.n
    if np.ptp(problem.a) > 0:
        giants, many = np.unique(problem.a[~near], return_inverse=True)
        often = np.bincount(many, problem.times[~near], minlength=giants.size).astype(np.float64)
        weight = problem.times[near].astype(np.float64)
        where = np.flatnonzero(near)
        return Field(noise, x[near], problem.a[near], weight, giants, often, problem.n, level, where, None)
    order = np.argsort(x)
    times = problem.times[order].astype(np.float64)
    found: Entities = entities(noise, x[order], times, 0.0, (low + level, high + level), nodes)
    giants, often = np.ones(1), np.full(1, np.sum(times[found.members :]))
    where = order[: found.members]
    ones = np.ones(found.y.size)
    return Field(noise, found.y, ones, found.weight, giants, often, problem.n, level, where, found.reduced)


def slope(f: Shared, t: Floats, s: Floats) -> tuple[Floats, Floats]:
    """log E[e^{s (W - nt)}] at theta = 0 and its derivative, by differences (only windows and tilts come from it)."""
    step = 1e-4 * np.maximum(np.abs(s), 1e-3)
    log = f.log(t, s[:, None] + step[:, None] * np.array([-1.0, 0.0, 1.0])).real
    return log[:, 1], (log[:, 2] - log[:, 0]) / (2 * step)


def window(problem: Problem, tau: float) -> Window:
    """Where r lies, and the tilts there."""
    unit = problem.mechanism.deviation / problem.mechanism.spread
    rule, times = Threshold(tau), problem.times.astype(np.float64)
    field = shift(problem.c / problem.a, problem.a, times, 0.0, rule, problem.mechanism) / problem.mechanism.spread
    f = field_of(problem, tau, field + 0.7 * unit, field - 0.7 * unit, 20)

    def excess(t: float) -> float:
        return float(slope(f, np.array([t]), np.zeros(1))[1][0])

    low, high = field - 0.02 * unit, field + 0.02 * unit
    if not excess(low) > 0 > excess(high):
        raise ToleranceError("pos-threshold: the mean shift was not found where the mean field has it")
    t0 = root(excess, low, high, xtol=1e-14 * unit, rtol=1e-15)
    gap = 0.02 * unit * float(np.min(f.a))
    shared = (excess(t0 - gap) - excess(t0 + gap)) / (2 * gap)
    small = 1e-3 / math.sqrt(problem.n)
    rate = slope(f, np.full(2, t0), np.array([small, -small]))[1]
    scale = math.sqrt(max(float(rate[0] - rate[1]) / (2 * small), 1e-300)) / shared
    if shared < FEWEST or scale > 0.35 * unit * float(np.max(problem.a)):
        raise ToleranceError(
            f"pos-threshold: {shared:.3g} entities share the shift, which varies by {scale / unit:.2g} noise deviations: too few "
            f"for the exact integral"
        )
    marks = sides(f, t0, scale, "pos-threshold")
    return Window(t0, float(marks[0, 0]), float(marks[-1, 0]), scale, shared, marks)


def sides(f: Shared, t0: float, scale: float, name: str) -> Floats:
    """Marks (t, tau, width) of a window, ascending in t."""
    marks = np.concatenate([_side(f, t0, scale, side, name) for side in (1.0, -1.0)])[:, :3]
    return np.asarray(marks[np.lexsort((marks[:, 1], marks[:, 0]))])


def _side(f: Shared, t0: float, scale: float, side: float, name: str) -> Floats:
    """Marks to one side of t0, as far as the chances are above FAR."""
    for span in (SPAN, 1.5 * SPAN, 2.2 * SPAN, 3.2 * SPAN):
        rows = _saddles(f, t0 + side * scale * np.linspace(0.0, span, 17), side)
        if rows[-1, 3] <= math.log(FAR):
            return rows
    raise ToleranceError(
        f"{name}: the shift has long tails (e^{rows[-1, 3]:.3g} where they are cut), which the exact integral does not cover"
    )


def _saddles(f: Shared, t: Floats, side: float) -> Floats:
    """Columns t, tau, width and the logarithm of the saddle-point estimate."""
    limit = (0.75 if not np.isinf(f.noise.strip) else 8.0) / float(np.max(f.a))
    low, high = np.full(t.size, math.log(1e-7 * limit)), np.full(t.size, math.log(limit))
    for _ in range(9):
        cancel.check()
        middle = 0.5 * (low + high)
        past = side * slope(f, t, side * np.exp(middle))[1] * np.exp(middle) > 1
        low, high = np.where(past, low, middle), np.where(past, middle, high)
    tau = np.exp(0.5 * (low + high))
    log, rate = slope(f, t, side * tau)
    near = slope(f, t, side * 0.99 * tau)[1]
    curvature = np.maximum(side * (rate - near) / (0.01 * tau), 0.0) + 1 / tau**2
    log = log - np.log(tau) - 0.5 * np.log(2 * np.pi * curvature)
    return np.stack([t, side * tau, np.sqrt(curvature), log], axis=1)
