"""The quadrature of the simplex problem: nodes in the threshold m, and the contour integrals there."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.polynomial.legendre import legvander
from numpy.typing import NDArray

from fairpost import cancel
from fairpost.engines.closed.quadrature import few_panels, legendre
from fairpost.engines.exact.simplex.law import Population, Reduced
from fairpost.engines.exact.simplex.window import Window, mark
from fairpost.engines.moments import Floats
from fairpost.parallel import cores, over_slices

LEAN = (math.tan(math.pi / 6), math.tan(math.pi / 12))
"""Tangents of a contour's lean: 30 degrees under Laplace, 15 under Gaussian noise (e^{s^2/2} grows beyond 45)."""
LINE = 1500
"""The most nodes of an upright line at the step 0.2."""
ROWS, DEEP, FINE = 60, 200.0, 20
"""The most entities for upright lines in rows, how far above m their counts may lie, and from which order on it is worth a compile."""
WORK = 4000
"""Below this number of (m, count) pairs one thread is faster than several."""
STEP = 8000
"""So many (m, count) pairs go to the kernel at a time; between two of them the question can be withdrawn."""


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
class Integrals:
    """What `kernels.contour.invert` gives at the nodes m, and the closed part below them."""

    law: Reduced
    edges: Floats
    """Of the panels of m."""
    m: Floats
    weight: Floats
    values: Floats
    """One row per node, one column per count of the law: the deficits'."""
    common: Floats
    below: Floats
    """The integrals over m < edges[0] (deficits: times P(eta <= m - x))."""
    below_common: Floats
    nodes: int
    slow: bool
    """Whether some contour ended before its integrand did: then refinement gains little at a time."""
    squares: Floats | None = None
    """The spread's values; None where the window is not for it."""

    def against(self, function: Callable[[Floats], Floats]) -> Floats:
        """For each count the integral of values * function(m - x) over the window.

        Under Laplace noise the function has a kink at m = x, though the values have none there: on the panel with
        x inside, the values are interpolated (they are smooth) and the function is integrated on either side.
        """
        plain = np.asarray(self.weight @ (function(self.m[:, None] - self.law.x) * self.values))
        inside = np.flatnonzero((self.law.x > self.edges[0]) & (self.law.x < self.edges[-1]))
        if self.law.kind == 0 and inside.size > 0:
            plain[inside] += self._either_side(function, inside)
        return plain

    def _either_side(self, function: Callable[[Floats], Floats], inside: NDArray[np.int64]) -> Floats:
        """What splitting the panel at each x adds to the plain rule."""
        order = self.m.size // (self.edges.size - 1)
        u, w = legendre(order)
        x = self.law.x[inside]
        panel = np.searchsorted(self.edges, x, side="right") - 1
        width = np.diff(self.edges)[panel][:, None]
        split = (x - self.edges[panel])[:, None] / width
        values = self.values[panel[:, None] * order + np.arange(order), inside[:, None]]
        points = np.concatenate([split * u, split + (1 - split) * u], axis=1)
        weights = np.concatenate([split * w, (1 - split) * w], axis=1)
        basis = legvander(2 * points - 1, order - 1) @ np.linalg.inv(legvander(2 * u - 1, order - 1))
        between = (basis @ values[:, :, None])[:, :, 0]
        fine = np.sum(weights * function((points - split) * width) * between, axis=1)
        return np.asarray(width[:, 0] * (fine - np.sum(w * function((u - split) * width) * values, axis=1)))


def _panels(win: Window, law: Reduced) -> Floats:
    """The edges of the panels in m, with breaks at the centre and (Laplace) at kinks.

    A kink lies at the noiseless threshold and at every count; one of less than 2 % of the entities is too weak to
    matter.
    """
    few_panels("simplex", win.low, win.high, win.scale)
    breaks = {win.low, win.centre, win.high}
    if law.kind == 0:
        heavy = (law.x > win.low) & (law.x < win.high) & (law.weight > 0.02 * win.kept)
        breaks.update(law.x[heavy].tolist())
        breaks.add(min(max(win.true, win.low), win.high))
    parts = [
        np.linspace(a, b, math.ceil((b - a) / (4.5 * win.scale)), endpoint=False) for a, b in pairwise(sorted(breaks))
    ]
    return np.concatenate([*parts, [win.high]])


def integrate(population: Population, win: Window, level: Level) -> Integrals:
    """The contour integrals at every m of the rule, on all cores where there is work for them."""
    from fairpost.engines.exact.simplex.kernels import contour as kernel

    law = win.law(population, level.nodes)
    edges = _panels(win, law)
    u, w = legendre(level.order)
    width = np.diff(edges)[:, None]
    m, weight = (edges[:-1, None] + width * u).ravel(), (width * w).ravel()
    tau, wide = win.tilts(m)
    upright = (m < win.true) & (law.kind == 0)
    deficits, spread = win.deficits, win.spread
    values, squares, common = (np.zeros((m.size, size)) for size in (law.x.size, law.x.size if spread else 0, 2))
    threads = cores() if m.size * law.x.size > WORK else 1
    step = max(1, STEP // law.x.size)
    mixed = np.argsort(np.arange(m.size) % threads, kind="stable")  # neighbours cost the same: deal them out

    def part(rows: slice) -> tuple[int, int]:
        nodes, slow = 0, 0
        for first in range(rows.start, rows.stop, step):
            cancel.check()
            more, tail = some(slice(first, min(first + step, rows.stop)))
            nodes, slow = nodes + more, slow + tail
        return nodes, slow

    in_rows = upright & (level.order >= FINE and _few_and_whole(law, float(m.min(initial=0.0))))

    def curved(chosen: NDArray[np.int64], mine: list[Floats]) -> tuple[int, int]:
        rule = (LEAN[law.kind], level.step, level.cutoff, LINE)
        counts = (law.x, law.weight, law.giants, law.rest)
        there = (m[chosen], tau[chosen], wide[chosen], upright[chosen])
        return kernel.invert(law.kind or None, deficits, spread, *there, *rule, *counts, *mine)

    def straight(chosen: NDArray[np.int64], mine: list[Floats]) -> tuple[int, int]:
        from fairpost.engines.exact.simplex.kernels.upright import lines

        most, times = int(LINE * 0.2 / level.step), law.weight.astype(np.int64)
        there = (m[chosen], tau[chosen], wide[chosen])
        return lines(
            deficits, spread, *there, level.step, level.cutoff, most, law.x, times, int(law.giants), law.rest, *mine
        )

    def some(rows: slice) -> tuple[int, int]:
        nodes, slow = 0, 0
        for way, which in ((curved, ~in_rows[mixed[rows]]), (straight, in_rows[mixed[rows]])):
            chosen = mixed[rows][which]
            if chosen.size > 0:
                mine = [np.zeros((chosen.size, part.shape[1])) for part in (values, squares, common)]
                more, tail = way(chosen, mine)
                values[chosen], squares[chosen], common[chosen] = mine
                nodes, slow = nodes + more, slow + tail
        return nodes, slow

    nodes, slow = np.sum(over_slices(part, m.size, threads), axis=0)
    below, below_common, more = _below(win, law, level)
    spent = (int(nodes) + more, bool(slow))
    return Integrals(law, edges, m, weight, values, common, below, below_common, *spent, squares if spread else None)


def _few_and_whole(law: Reduced, lowest: float) -> bool:
    """Whether products of the factors themselves serve, without logarithms: so few that they stay far from underflow."""
    whole = bool(np.all(law.weight == np.floor(law.weight))) and float(law.giants).is_integer()
    return whole and float(np.sum(law.weight)) + law.giants <= ROWS and float(law.x[-1]) - lowest < DEEP


def _below(win: Window, law: Reduced, level: Level) -> tuple[Floats, Floats, int]:
    """The part m < low in closed form, and the number of nodes."""
    from fairpost.engines.exact.simplex import below

    if not win.closed:
        return np.zeros(law.x.size), np.zeros(2), 0
    tau, width, _ = mark(law, win.low, -1.0, win.skip)
    # the polynomial's terms cancel where tau is far from 0 and many counts are near: then stay close to 0
    near = float(np.sum(law.weight * np.exp(win.low - law.x)))
    tau = max(tau, -1.0 / near) if near > 0 else tau
    path = below.Contour(tau, min(1.0 / width, -tau), LEAN[0], level.step / 4, level.cutoff)
    few = below.Few(win.low, law.x, law.weight.astype(np.int64), law.giants, law.rest)
    if win.deficits:
        values, nodes = below.deficits(few, path)
        return values, np.zeros(2), nodes
    return below.spread(few, path)
