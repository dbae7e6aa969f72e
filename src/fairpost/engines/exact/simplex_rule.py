"""The quadrature of the simplex problem: where m matters, which m to take, and the contour integrals there."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairpost.engines.exact.rules import legendre
from fairpost.engines.exact.simplex_law import Law, Population, reduce
from fairpost.engines.moments import Floats
from fairpost.errors import ToleranceError

LEAN = (math.tan(math.pi / 6), math.tan(math.pi / 12))
"""Tangents of the lean of a contour: 45 degrees under Laplace noise, 15 under Gaussian (e^{s^2/2} grows beyond 45)."""
TILT = (0.75, 30.0)
"""The largest |tau| (the Laplace transform ends at 1)."""
CLOSED = 40
"""Up to this number of entities at risk the part below every count is integrated over m in closed form."""
NODES = 3000
"""The most nodes of one contour."""


@dataclass(frozen=True)
class Level:
    """One refinement: all parts of the rule grow together."""

    order: int
    """Gauss-Legendre nodes on each panel of m."""
    step: float
    """Of the trapezoidal rule along the contour."""
    drop: float
    """The window of m ends where the integrand is e^-drop of its peak."""
    nodes: int
    """Chebyshev nodes for each cell of counts."""


@dataclass(frozen=True)
class Window:
    """The range of m that matters, and the contours' tilts at some marks in it."""

    law: Law
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
    """Whether m < true is integrated in closed form."""
    marks: Floats
    """Columns m, tau, width; ascending."""


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
    return float(brentq(excess, low, high, xtol=1e-12, rtol=1e-12))


def _noiseless(population: Population) -> float:
    """The m with sum_j (x_j - m)_+ = C: the k largest counts exceed it by C in all."""
    x, times = population.x[::-1], population.times[::-1]
    number = np.cumsum(times)
    # with the k largest above m: sum (x_j - m) = C; the right k is the last with m < its smallest count
    above = np.cumsum(times * (x - x[-1]))
    total = population.surplus + float(np.sum(times * (x - x[-1])))  # C - n x_min, from differences
    total += population.n * float(x[-1])
    threshold = (above - total) / number + float(x[-1])
    fits = np.flatnonzero(threshold < x)
    return float(threshold[fits[-1]])


def _mark(law: Law, m: float, side: float, skip: int) -> tuple[float, float, float, float]:
    """tau, width, the logarithm of what the deficits (skip 1) or the spread (skip 0) integrate at m, and of P."""
    from fairpost.kernels import exact_simplex as kernel

    tau, curvature, value = kernel.saddle(
        law.kind, m, side, TILT[law.kind], law.x, law.weight, law.giants, law.rest, float(skip)
    )
    if side > 0 and law.giants == 0:
        from fairpost.mechanisms import Gaussian, Laplace

        unit = Laplace(1.0) if law.kind == 0 else Gaussian(1.0)
        with np.errstate(divide="ignore"):
            everyone = float(np.sum(law.weight * np.log(unit.cdf(m - law.x))))
            value = min(value, float(np.log(-np.expm1(min(everyone, 0.0)))))
    value = min(value, 0.0)
    log = kernel.reach(law.kind, m, tau, value, law.x) if skip else value
    return tau, math.sqrt(curvature), log, value


def _march(law: Law, centre: float, scale: float, skip: int, drop: float) -> Floats:
    """Marks from the centre outwards, both ways, until the integrand has fallen by `drop`."""
    rows, peak = [], -math.inf
    for side in (1.0, -1.0):
        m, stride = centre, scale / 2
        for _ in range(200):
            tau, width, log, value = _mark(law, m, side, skip)
            rows.append((m, tau, width))
            peak = max(peak, log)
            if log < peak - drop:
                break
            m += side * stride
            stride *= 1.2
        else:
            raise ToleranceError("simplex: the range of the threshold could not be bounded")
    return np.array(sorted(rows, key=lambda row: (row[0], row[1])))


def window(population: Population, skip: int, level: Level) -> Window:
    """The window for the deficits (skip 1: one entity apart) or for the spread (skip 0)."""
    centre, true = _root(population, skip), _noiseless(population)
    _, variance, kept = population.moments(centre, skip)
    scale = min(1.0, math.sqrt(variance) / kept) if kept > 0 else 1.0
    high = centre + 12 * scale
    for _ in range(8):
        reach = 11 * scale
        law = reduce(population, high, (centre - reach, centre + reach), level.nodes)
        closed = law.kind == 0 and true <= law.x[0] and float(np.sum(law.weight)) <= CLOSED
        centre = max(centre, true) if closed else centre
        marks = _march(law, centre, scale, skip, level.drop)
        if marks[-1, 0] <= high:
            break
        high = float(marks[-1, 0])
    low = true if closed else float(marks[0, 0])
    return Window(law, centre, low, float(marks[-1, 0]), scale, kept, true, closed, marks)


def panels(win: Window, order: int) -> tuple[Floats, Floats]:
    """Gauss-Legendre nodes and weights in m. Breaks: the centre and, under Laplace noise, the kinks at the
    heaviest counts inside and at the noiseless threshold; a lighter kink is one entity among many."""
    law = win.law
    breaks = [win.low, win.centre, win.high]
    if law.kind == 0:
        heavy = (law.x > win.low) & (law.x < win.high) & (law.weight > 0.02 * win.kept)
        breaks += [float(v) for v in law.x[heavy]]
        if win.low < win.true < win.high:
            breaks.append(win.true)
    u, w = legendre(order)
    nodes, weights = [], []
    edges = sorted(set(breaks))
    for a, b in zip(edges[:-1], edges[1:], strict=True):
        parts = max(1, math.ceil((b - a) / (4.5 * win.scale)))
        width = (b - a) / parts
        for k in range(parts):
            nodes.append(a + width * (k + u))
            weights.append(width * w)
    return np.concatenate(nodes), np.concatenate(weights)


def integrate(win: Window, skip: int, level: Level) -> tuple[Floats, Floats, Floats, Floats, int]:
    """m, its weights, and the contour integrals of `kernels.exact_simplex.invert` there; the number of nodes."""
    from fairpost.kernels import exact_simplex as kernel

    law = win.law
    m, weights = panels(win, level.order)
    tau, width = np.empty_like(m), np.empty_like(m)
    for side in (1.0, -1.0):
        here = m > win.centre if side > 0 else m <= win.centre
        marks = win.marks[win.marks[:, 1] * side > 0]
        tau[here] = side * np.exp(np.interp(m[here], marks[:, 0], np.log(np.abs(marks[:, 1]))))
        width[here] = np.exp(np.interp(m[here], marks[:, 0], np.log(marks[:, 2])))
    upright = (m < win.true) if law.kind == 0 else np.zeros(m.size, dtype=bool)
    out, common = np.zeros((m.size, law.x.size)), np.zeros((m.size, 2))

    def part(rows: slice) -> int:
        return int(
            kernel.invert(
                law.kind, skip == 0, m[rows], tau[rows], width[rows], upright[rows], LEAN[law.kind], level.step,
                math.exp(-level.drop - 2), NODES, law.x, law.weight, law.giants, law.rest, out[rows], common[rows],
            )
        )  # fmt: skip

    if m.size * law.x.size < 4000:
        return m, weights, out, common, part(slice(None))
    with ThreadPoolExecutor(2) as pool:
        return m, weights, out, common, sum(pool.map(part, (slice(0, None, 2), slice(1, None, 2))))


def below(win: Window, skip: int, level: Level) -> tuple[Floats, Floats, Floats, int]:
    """The part m < true in closed form: deficits, spread, the common integrals, and the number of nodes."""
    from fairpost.kernels import exact_simplex_below as kernel

    law = win.law
    deficit, spread, common = np.zeros(law.x.size), np.zeros(law.x.size), np.zeros(2)
    if not win.closed:
        return deficit, spread, common, 0
    tau, width, _, _ = _mark(law, win.low, -1.0, skip)
    times = law.weight.astype(np.int64)
    first = np.concatenate([[0], np.cumsum(times)[:-1]])
    count = kernel.below(
        win.low, tau, 1.0 / width, LEAN[0], level.step / 4, math.exp(-level.drop - 2), NODES,
        np.repeat(law.x, times), first, law.giants, law.rest, deficit, spread, common,
    )  # fmt: skip
    return deficit, spread, common, int(count)


Mask = NDArray[np.bool_]
