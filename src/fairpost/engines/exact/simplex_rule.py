"""The quadrature of the simplex problem: which m matter, which are taken, and the contour integrals there."""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.polynomial.legendre import legvander

from fairpost.engines.exact.rules import legendre
from fairpost.engines.exact.simplex_law import Law, Population, reduce
from fairpost.engines.moments import Floats
from fairpost.errors import ToleranceError

LEAN = (math.tan(math.pi / 6), math.tan(math.pi / 12))
"""Tangents of a contour's lean: 30 degrees under Laplace, 15 under Gaussian noise (e^{s^2/2} grows beyond 45)."""
TILT = (0.75, 30.0)
"""The largest |tau| (the transform of Laplace noise ends at 1)."""
DROP = 36.0
"""The window of m ends where the integrand is e^-DROP of its peak."""
CLOSED = 40
"""Up to this number of entities at risk, m below every count is integrated in closed form (Laplace)."""
LINE = 1500
"""The most nodes of an upright line."""


@dataclass(frozen=True)
class Level:
    """One refinement: all parts of the rule grow together."""

    order: int
    """Gauss-Legendre nodes on each panel of m."""
    step: float
    """Of the trapezoidal rule along a contour."""
    cutoff: float
    """A contour ends where the integrand is this part of its peak."""
    nodes: int
    """Chebyshev nodes for each cell of counts."""


LEVELS = (
    Level(10, 0.3, 1e-12, 16),
    Level(14, 0.2, 1e-14, 20),
    Level(20, 0.13, 1e-15, 24),
    Level(28, 0.09, 1e-16, 28),
    Level(40, 0.06, 1e-16, 32),
)


@dataclass(frozen=True)
class Window:
    """The range of m that matters, and the contours' tilts at some marks in it."""

    skip: int
    """1: the integrals without one entity (deficits); 0: with all (spread)."""
    centre: float
    """Below it the integrals hold -P(H <= C), above it P(H > C)."""
    low: float
    high: float
    scale: float
    """The standard deviation of the threshold m, at most 1."""
    kept: float
    """The expected number of entities above the threshold."""
    true: float
    """The threshold without noise."""
    closed: bool
    """Whether m < true is integrated in closed form; then low = true."""
    marks: Floats
    """Columns m, tau, width; ascending in m, tau < 0 up to the centre and tau > 0 from there."""
    peak: float
    """The logarithm of the integrand's largest value."""

    def law(self, population: Population, nodes: int) -> Law:
        """The population's law of H(m) inside the window."""
        return reduce(population, self.high, (self.low, self.high), nodes)


def _root(population: Population, skip: int) -> float:
    """The m with E[H(m)] = C (without `skip` copies of the smallest count)."""
    from scipy.optimize import brentq

    def excess(m: float) -> float:
        return population.moments(m, skip)[0]

    low, high = -1.0, 1.0
    while excess(low) <= 0:
        low *= 2
    while excess(high) >= 0:
        high *= 2
    return float(brentq(excess, low, high, xtol=1e-6, rtol=1e-6))


def _mark(law: Law, m: float, side: float, skip: int) -> tuple[float, float, float]:
    """tau, width, and the logarithm of what is integrated at m: over all entities the largest deficit, or P."""
    from fairpost.kernels import exact_simplex as kernel

    tau, curvature, value = kernel.saddle(
        law.kind, m, side, TILT[law.kind], law.x, law.weight, law.giants, law.rest, float(skip)
    )
    log = kernel.reach(law.kind, m, tau, value, law.x) if skip else value
    return tau, math.sqrt(curvature), log


def _march(law: Law, centre: float, scale: float, skip: int) -> tuple[Floats, float]:
    """Marks from the centre outwards, both ways, until the integrand has fallen by DROP; and its peak's logarithm."""
    rows, peak = [], -math.inf
    for side in (1.0, -1.0):
        m, stride = centre, scale / 2
        for _ in range(200):
            tau, width, log = _mark(law, m, side, skip)
            rows.append((m, tau, width))
            peak = max(peak, log)
            if log <= peak - DROP:
                break
            m += side * stride
            stride *= 1.2
        else:
            raise ToleranceError("simplex: no range of the threshold was found outside which it is negligible")
    return np.array(sorted(rows)), peak


def find_window(population: Population, skip: int) -> Window:
    """The window for the deficits (skip 1) or for the spread (skip 0).

    Which counts are giants depends on the window's upper end, which depends on them: a few rounds settle it.
    """
    centre, true = _root(population, skip), population.noiseless(skip)
    _, variance, kept = population.moments(centre, skip)
    scale = min(1.0, math.sqrt(variance) / kept) if kept > 0 else 1.0
    high = centre + 11 * scale
    for _ in range(8):
        law = reduce(population, high, (centre - 11 * scale, high), LEVELS[1].nodes)
        closed = law.kind == 0 and true <= law.x[0] and float(np.sum(law.weight)) <= CLOSED
        centre = max(centre, true) if closed else centre
        marks, peak = _march(law, centre, scale, skip)
        if marks[-1, 0] <= high:
            break
        high = float(marks[-1, 0])
    low = true if closed else float(marks[0, 0])
    return Window(skip, centre, low, float(marks[-1, 0]), scale, kept, true, closed, marks, peak)


def _panels(win: Window, law: Law) -> Floats:
    """The edges of the panels in m, with breaks at the centre and (Laplace) at kinks.

    A kink lies at the noiseless threshold and at every count; one of less than 2 % of the entities is too weak to matter.
    """
    breaks = {win.low, win.centre, win.high}
    if law.kind == 0:
        heavy = (law.x > win.low) & (law.x < win.high) & (law.weight > 0.02 * win.kept)
        breaks.update(law.x[heavy].tolist())
        breaks.add(min(max(win.true, win.low), win.high))
    edges = np.array(sorted(breaks))
    parts = np.ceil(np.diff(edges) / (4.5 * win.scale)).astype(np.int64)
    edges = np.concatenate(
        [np.linspace(a, b, k, endpoint=False) for a, b, k in zip(edges, edges[1:], parts)] + [edges[-1:]]
    )
    return edges


def _tilts(win: Window, m: Floats) -> tuple[Floats, Floats]:
    """tau and width at m, interpolated between the marks (any tau on the right side of 0 is valid)."""
    tau, width = np.empty_like(m), np.empty_like(m)
    for here, side in ((m > win.centre, 1.0), (m <= win.centre, -1.0)):
        marks = win.marks[win.marks[:, 1] * side > 0]
        tau[here] = side * np.exp(np.interp(m[here], marks[:, 0], np.log(np.abs(marks[:, 1]))))
        width[here] = np.exp(np.interp(m[here], marks[:, 0], np.log(marks[:, 2])))
    return tau, width


@dataclass(frozen=True)
class Integrals:
    """What `kernels.exact_simplex.invert` gives at the nodes m, and the closed part below."""

    law: Law
    edges: Floats
    """Of the panels of m."""
    m: Floats
    weight: Floats
    values: Floats
    """One row a node, one column a count of the law."""
    common: Floats
    below: tuple[Floats, Floats]
    """The integrals over m < low of the values (deficits: times P(eta <= m - x)) and of `common`."""
    nodes: int

    def against(self, function: Callable[[Floats], Floats]) -> Floats:
        """For each count the integral of values * function(m - x) over the window.

        Under Laplace noise the function has a kink at m = x, though the values have none there: on the panel with
        x inside, the values are interpolated (they are smooth) and the function is integrated on either side.
        """
        plain = self.weight @ (function(self.m[:, None] - self.law.x) * self.values)
        inside = np.flatnonzero((self.law.x > self.edges[0]) & (self.law.x < self.edges[-1]))
        if self.law.kind == 1 or inside.size == 0:
            return np.asarray(plain)
        order = self.m.size // (self.edges.size - 1)
        u, w = legendre(order)
        x = self.law.x[inside]
        panel = np.searchsorted(self.edges, x, side="right") - 1
        width = np.diff(self.edges)[panel][:, None]
        split = (x - self.edges[panel])[:, None] / width
        rows = panel[:, None] * order + np.arange(order)
        values = self.values[rows, inside[:, None]]
        points = np.concatenate([split * u, split + (1 - split) * u], axis=1)
        weights = np.concatenate([split * w, (1 - split) * w], axis=1) * width
        basis = legvander(2 * points - 1, order - 1) @ np.linalg.inv(legvander(2 * u - 1, order - 1))
        fine = np.sum(weights * function((points - split) * width) * (basis @ values[:, :, None])[:, :, 0], axis=1)
        coarse = np.sum(width * w * function((u - split) * width) * values, axis=1)
        plain[inside] += fine - coarse
        return np.asarray(plain)


def integrate(population: Population, win: Window, level: Level) -> Integrals:
    """The contour integrals at every m of the rule, on two threads where there is work for them."""
    from fairpost.kernels import exact_simplex as kernel

    law = win.law(population, level.nodes)
    edges = _panels(win, law)
    u, w = legendre(level.order)
    m = (edges[:-1, None] + np.diff(edges)[:, None] * u).ravel()
    weight = (np.diff(edges)[:, None] * w).ravel()
    tau, width = _tilts(win, m)
    upright = (m < win.true) & (law.kind == 0)
    values, common = np.zeros((m.size, law.x.size)), np.zeros((m.size, 2))

    def part(rows: slice) -> int:
        mine, shared = np.zeros((m[rows].size, law.x.size)), np.zeros((m[rows].size, 2))
        count = kernel.invert(
            law.kind, win.skip == 0, *(a[rows].copy() for a in (m, tau, width, upright)), LEAN[law.kind], level.step,
            level.cutoff, LINE, law.x, law.weight, law.giants, law.rest, mine, shared,
        )  # fmt: skip
        values[rows], common[rows] = mine, shared
        return int(count)

    if m.size * law.x.size < 4000:
        count = part(slice(None))
    else:  # neighbours have contours of much the same length: every second m to each thread
        with ThreadPoolExecutor(2) as pool:
            count = sum(pool.map(part, (slice(0, None, 2), slice(1, None, 2))))
    tail, tail_common, more = _below(win, law, level)
    return Integrals(law, edges, m, weight, values, common, (tail, tail_common), count + more)


def _below(win: Window, law: Law, level: Level) -> tuple[Floats, Floats, int]:
    """The part m < low in closed form, and the number of nodes."""
    from fairpost.kernels import exact_simplex_below as kernel

    values, common = np.zeros(law.x.size), np.zeros(2)
    if not win.closed:
        return values, common, 0
    tau, width, _ = _mark(law, win.low, -1.0, win.skip)
    times = law.weight.astype(np.int64)
    first = np.concatenate([[0], np.cumsum(times)[:-1]])
    contour = (win.low, tau, 1.0 / width, LEAN[0], level.step / 4, level.cutoff)
    counts = (np.repeat(law.x, times), first, law.giants, law.rest)
    if win.skip:
        return values, common, int(kernel.deficits(*contour, *counts, values))
    return values, common, int(kernel.spread(*contour, *counts, values, common))
