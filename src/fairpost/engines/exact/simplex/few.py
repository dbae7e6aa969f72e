"""pi_S+ for two and three entities under Laplace noise, by direct integration over differences of noises.

A total C so small that a count would be clipped without noise, C < sum x - n min x, leaves contour integrals
that decay slowly and cannot be bent. For so few entities the definition itself can be integrated: with y the
projection onto {sum v = C} alone, v = pi_S+(X) depends on y, and y on the differences d_j = eta_j - eta_n, j < n.
Their density for scale 1 is

    n = 2   (1 + |d|) e^{-|d|} / 4
    n = 3   e^{-(p3 - p1)} (2 - (2/3)(e^{-(p2 - p1)} + e^{-(p3 - p2)})) / 8

with p1 <= p2 <= p3 the sorted 0, -d_1, -d_2 (the integral over eta_n of a product of three). v is linear between
the lines y_i = 0 and (n = 3) y_i + y_j / 2 = 0, where a second entity is clipped; the density between d_i = 0 and
d_1 = d_2. Gauss-Legendre between all of these.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, pairwise, permutations
from typing import Any

import numpy as np

from fairpost.engines.closed.quadrature import legendre
from fairpost.engines.closed.shares import SAFETY, range_error, refusal
from fairpost.engines.moments import Counted, Floats, Moments

ORDERS = (8, 12, 16)
"""Nodes on a panel, in the order of refinement."""
REACH, LONGEST = 42.0, 2.5
"""The differences matter up to e^-REACH; the longest panel."""

Line = tuple[float, float, float]


@dataclass(frozen=True)
class _Sums:
    """Integrals of 1, T of Lemma 2, v - x, (v - x)^2 and 1{v = 0}."""

    mass: float
    threshold: float
    bias: Floats
    mse: Floats
    zero: Floats


def few(x: Floats, times: Counted, total: float, rtol: float, spread: float) -> Moments:
    """Moments for two or three entities in units of the noise scale; x ascending, each `times` often.

    The error is the last refinement's change and what is missing of the mass 1, times the largest value C. A refusal says what it had
    in counts: `spread` of them are one unit.
    """
    x, one = np.repeat(x, times), np.cumsum(times) - 1
    previous: _Sums | None = None
    for order in ORDERS:
        found = (_two if x.size == 2 else _three)(x, total, order)
        if previous is not None:
            error = np.abs(found.bias - previous.bias) + abs(found.mass - 1) * (total + float(x[-1])) + 1e-14 * total
            alpha, slack = range_error(found.bias, error)
            if slack <= max(rtol * alpha, 1e-13 * total) or x[0] == x[-1]:
                stated = _errors(found, previous, total + float(x[-1]))
                every = Moments(found.bias, error, found.mse, found.zero, found.threshold, nodes=order, **stated)
                return every.at(one)
        previous = found
    raise refusal("simplex", found.bias[one] * spread, error[one] * spread, rtol)


def _errors(found: _Sums, previous: _Sums, size: float) -> dict[str, Any]:
    """What the last refinement changed, with a factor, what is missing of the mass 1, and rounding; values up to `size`."""
    lost = abs(found.mass - 1) + 1e-14
    return {
        "mse_error": SAFETY * np.abs(found.mse - previous.mse) + lost * size**2,
        "zero_error": SAFETY * np.abs(found.zero - previous.zero) + lost,
        "threshold_error": SAFETY * abs(found.threshold - previous.threshold) + lost * size,
    }


def _summed(x: Floats, total: float, y: Floats, mass: Floats) -> _Sums:
    """The rows of y have the sum `total` > 0; v = (y - T)_+, T by sorting."""
    u = -np.sort(-y, axis=1)
    excess = (np.cumsum(u, axis=1) - total) / np.arange(1, y.shape[1] + 1)
    last = np.count_nonzero(u > excess, axis=1) - 1
    t = np.take_along_axis(excess, last[:, None], axis=1)
    v = np.maximum(y - t, 0.0)
    return _Sums(float(mass.sum()), float(mass @ t[:, 0]), mass @ (v - x), mass @ (v - x) ** 2, mass @ (v == 0))


def _panels(points: Floats, order: int) -> tuple[Floats, Floats]:
    """Nodes and weights between sorted points."""
    unit, weight = legendre(order)
    edges = np.unique(np.concatenate([np.linspace(a, b, int((b - a) / LONGEST) + 2) for a, b in pairwise(points)]))
    width = np.diff(edges)[:, None]
    return (edges[:-1, None] + width * unit).ravel(), (width * weight).ravel()


def _inside(points: Floats) -> Floats:
    return np.unique(np.concatenate([[-REACH, REACH], points[np.abs(points) < REACH]]))


def _two(x: Floats, total: float, order: int) -> _Sums:
    centre = (total + x[0] - x[1]) / 2
    d, weight = _panels(_inside(np.array([0.0, -2 * centre, 2 * (total - centre)])), order)
    y = np.stack([centre + d / 2, total - centre - d / 2], axis=1)
    return _summed(x, total, y, weight * (1 + np.abs(d)) * np.exp(-np.abs(d)) / 4)


SLOPES = np.array([[2.0, -1.0], [-1.0, 2.0], [-1.0, -1.0]]) / 3
"""y_i = x_i + (C - sum x)/3 + SLOPES[i] @ (d_1, d_2)."""


def _lines(at: Floats) -> list[Line]:
    """Every line a d_1 + b d_2 + c = 0 on which v or the density has a kink; `at` is y at d = 0."""
    lines = [(*SLOPES[i], at[i]) for i in range(3)]
    lines += [(*(SLOPES[i] + SLOPES[j] / 2), at[i] + at[j] / 2) for i, j in permutations(range(3), 2)]
    return [*lines, (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (1.0, -1.0, 0.0)]


def _corners(lines: list[Line]) -> Iterator[float]:
    """d_1 where two lines meet."""
    for (a, b, c), (d, e, f) in combinations(lines, 2):
        if abs(a * e - b * d) > 1e-9:
            yield (b * f - c * e) / (a * e - b * d)


def _three(x: Floats, total: float, order: int) -> _Sums:
    at = x + (total - float(np.sum(x))) / 3
    lines = _lines(at)
    cuts = np.array([line for line in lines if abs(line[1]) > 1e-9])
    parts = []
    for d1, w1 in zip(*_panels(_inside(np.array(list(_corners(lines)))), order), strict=True):
        d2, w2 = _panels(_inside(-(cuts[:, 0] * d1 + cuts[:, 2]) / cuts[:, 1]), order)
        parts.append((np.full_like(d2, d1), d2, w1 * w2))
    d1, d2, weight = (np.concatenate(part) for part in zip(*parts, strict=True))
    p = np.sort(np.stack([np.zeros_like(d1), -d1, -d2]), axis=0)
    near, far = np.exp(p[0] - p[1]), np.exp(p[1] - p[2])
    density = near * far * (2 - 2 / 3 * (near + far)) / 8
    return _summed(x, total, at + np.stack([d1, d2], axis=1) @ SLOPES.T, weight * density)
