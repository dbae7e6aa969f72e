"""Which thresholds m matter in the simplex problem, and where the contours at each m should cross the real axis."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fairpost import cancel
from fairpost.engines.exact.simplex.law import Population, Reduced, log_cdf, reduce
from fairpost.engines.moments import Floats
from fairpost.errors import ToleranceError
from fairpost.roots import root

TILT = (0.75, 30.0)
"""The largest |tau| (the transform of Laplace noise ends at 1)."""
DROP = 36.0
"""The window of m ends where the integrand is e^-DROP of its peak."""
EVEN = 3.0
"""How much less than the deficits (e^-DROP) the window leaves out of the spread where it serves both."""
APART = 8.0
"""The same at the upper end, where the entity that the deficits are without is back in the sum."""
CLOSED = 40
"""Up to this number of entities at risk, m below every count is integrated in closed form (Laplace)."""
NEAR = 1e-6
"""A noiseless threshold this little above the smallest count is taken to be there: rounding of the total puts it
there, and a leaning contour bears it (e^{s NEAR} is 1 until the integrand has died out)."""
NODES = 20
"""Chebyshev nodes for each cell of counts, while the window is sought."""


@dataclass(frozen=True)
class Window:
    """The range of m that matters, and the contours' tilts at some marks in it."""

    skip: int
    """1: sought for the integrals without one entity (deficits); 0: for those with all (spread)."""
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
    spread: bool
    """Whether it serves the spread."""

    @property
    def deficits(self) -> bool:
        """Whether it is for the deficits."""
        return self.skip == 1

    def law(self, population: Population, nodes: int) -> Reduced:
        """The population's law of H(m) inside the window."""
        return reduce(population, self.high, (self.low, self.high), nodes)

    def tilts(self, m: Floats) -> tuple[Floats, Floats]:
        """tau and width at m, interpolated between the marks (every tau on the right side of 0 is valid)."""
        tau, width = np.empty_like(m), np.empty_like(m)
        for here, side in ((m > self.centre, 1.0), (m <= self.centre, -1.0)):
            at, near, wide = self.marks[self.marks[:, 1] * side > 0].T
            tau[here] = side * np.exp(np.interp(m[here], at, np.log(np.abs(near))))
            width[here] = np.exp(np.interp(m[here], at, np.log(wide)))
        return tau, width


def _root(population: Population, skip: int) -> float:
    """The m with E[H(m)] = C (without `skip` copies of the smallest count)."""

    def excess(m: float) -> float:
        return population.moments(m, skip)[0]

    low, high = -1.0, 1.0
    while excess(low) <= 0:
        low *= 2
    while excess(high) >= 0:
        high *= 2
    return root(excess, low, high, xtol=1e-10, rtol=1e-10)


def mark(law: Reduced, m: float, side: float, skip: int) -> tuple[float, float, float]:
    """tau, width, and the logarithm of what is integrated at m: over all entities the largest deficit, or P."""
    from fairpost.engines.exact.simplex.kernels import contour as kernel

    limit = TILT[law.kind]
    if law.kind == 1 and law.giants == 0 and m > law.members[-1]:
        # All counts below m: one excess p = C has its saddle point at c + C. Further right the product still falls, as
        # e^{-sC} alone, but it would grow along a leaning contour.
        limit = min(limit, m - float(law.members[-1]) + law.rest)
    counts = (law.x, law.weight, law.giants, law.rest)
    tau, curvature, log = kernel.saddle(law.kind or None, m, side, limit, *counts, float(skip))
    return tau, math.sqrt(curvature), log


def _march(law: Reduced, centre: float, scale: float, skip: int) -> tuple[Floats, float]:
    """Marks from the centre outwards, both ways, until the integrand has fallen by DROP; and its peak's logarithm."""
    rows, peak = [], -math.inf
    for side in (1.0, -1.0):
        m, stride = centre, scale / 2
        for _ in range(200):
            cancel.check()
            tau, width, log = mark(law, m, side, skip)
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
    if 0 < true - population.x[0] < NEAR:
        true = float(population.x[0])
    _, variance, kept = population.moments(centre, skip)
    scale = min(1.0, math.sqrt(variance) / kept) if kept > 0 else 1.0
    if (
        population.kind == 1 and kept < 1
    ):  # one of many takes the total, and the largest Gaussian value varies by 1 over its height
        scale = min(scale, 1.3 / max(centre - float(population.x[-1]), 1.3))
    high = centre + 11 * scale
    for _ in range(8):
        law = reduce(population, high, (centre - 11 * scale, high), NODES)
        closed = law.kind == 0 and law.x.size > 0 and true <= law.x[0] and float(np.sum(law.weight)) <= CLOSED
        centre = max(centre, true) if closed else centre
        marks, peak = _march(law, centre, scale, skip)
        if marks[-1, 0] <= high:
            break
        high = float(marks[-1, 0])
    low, high = true if closed else float(marks[0, 0]), float(marks[-1, 0])
    spread = skip == 0 or (not closed and _even(population, law, low, high, peak))
    return Window(skip, centre, low, high, scale, kept, true, closed, marks, peak, spread)


def _even(population: Population, law: Reduced, low: float, high: float, peak: float) -> bool:
    """Whether a window for the deficits serves the spread.

    At either end P(eta <= m - x) |P(H > C) - 1{m < centre}| is e^-DROP of its peak for the smallest count, which H is without, and
    P(eta <= m - x) is smallest at the lower end: where it is at least e^-EVEN of the peak there, what the spread needs has fallen by
    DROP - EVEN. H with all entities is larger: at the lower end still less likely to be below C, at the upper end more likely to be above
    it. A total far above the sum puts it out of the window altogether.
    """
    least = float(log_cdf(population.kind, np.array([low - population.x[0]]))[0])
    return peak - least < EVEN and mark(law, high, 1.0, 0)[2] < APART - DROP
