"""The counts of the simplex problem, reduced to what its contour integrals need. The unit is the noise scale.

Counts too large to be clipped where the smallest one is ("giants") enter through their number alone. Where
many distinct counts lie close together, the functions of x in the integrals, analytic in x, are taken at
Chebyshev nodes: a sum over the counts becomes a weighted sum over the nodes, and results are interpolated.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.polynomial.chebyshev import chebvander

from fairpost.engines.moments import Floats
from fairpost.noise import Law

RARE = 1e-18
"""A count is a giant where clipping it is less likely than RARE times clipping the smallest count ..."""
NEVER = 1e-16
"""... and the expected number of clipped giants is below NEVER."""
MANY = 100_000
"""From this number of distinct counts on only the narrowest cells are used: the polynomials at the counts take memory."""
FEW = 64
"""Up to this number of distinct counts each stands for itself."""
CELLS = (((8.0, 1.0), (24.0, 1.6), (48.0, 2.25)), ((3.0, 1.0),))
"""Widths of cells and how many times the nodes of the narrowest they take: Laplace, Gaussian.

Under Laplace noise a factor of a count d above the threshold is e^{-d} and its powers: N Chebyshev nodes on a cell of width w miss it by
2 e^{-a} I_N(a) of its value at the near end, a = w/2 (I_N the modified Bessel function). That is 1e-10 and 2e-14 for 16 and 20 nodes on
the narrowest cell, 3e-11 and 5e-16 for 26 and 32 on the second, 7e-12 and 5e-17 for 36 and 45 on the widest, which is all there is
to it: e^-41 is RARE. Gaussian factors fall too fast for that.
"""


def log_cdf(kind: int, c: Floats) -> Floats:
    """log P(eta <= c), also where the probability is below any double."""
    if kind == 1:
        from scipy.special import log_ndtr

        return np.asarray(log_ndtr(c))
    return np.where(c > 0, np.log1p(-0.5 * np.exp(-np.maximum(c, 0.0))), c - math.log(2.0))


def _excess(kind: int, gap: Floats) -> tuple[Floats, Floats, Floats]:
    """P(eta > gap), E[(eta - gap)_+] and E[(eta - gap)_+^2] for gap >= 0."""
    if kind == 0:
        tail = 0.5 * np.exp(-gap)
        return tail, tail, 2 * tail
    from scipy.special import ndtr

    tail = ndtr(-gap)
    first = np.exp(-0.5 * gap * gap) / math.sqrt(2 * math.pi) - gap * tail
    return tail, first, tail - gap * first


@dataclass(frozen=True)
class Population:
    """The distinct counts x_j (ascending), how often each occurs, and the total, in units of the noise scale."""

    unit: Law
    """The noise with scale 1."""
    x: Floats
    times: Floats
    n: float
    """The number of entities, the sum of `times`."""
    surplus: float
    """C - sum x."""
    _made: dict[tuple[int, int], Floats] = field(default_factory=dict, repr=False, compare=False)

    def waves(self, start: int, stop: int, nodes: int) -> Floats:
        """T_0 to T_{nodes-1} (rows), scaled to the range of x[start:stop], at these counts; kept for the next rule with the same cell."""
        made = self._made.get((start, stop))
        if made is None or len(made) < nodes:
            x = self.x[start:stop]
            middle, half = _range(x)
            made = self._made[start, stop] = np.ascontiguousarray(chebvander((x - middle) / half, nodes - 1).T)
        return made[:nodes]

    @property
    def kind(self) -> int:
        """0 for Laplace, 1 for Gaussian noise."""
        assert self.unit.code is not None
        return self.unit.code

    def moments(self, m: float, skip: int) -> tuple[float, float, float]:
        """E[H(m)] - C, Var[H(m)] and E[#{X_j > m}], without `skip` copies of the smallest count.

        (x - m)_+ - x = -min(x, m) holds exactly, so counts of any size leave no rounding behind.
        """
        gap, above = np.abs(self.x - m), self.x > m
        tail, first, second = _excess(self.kind, gap)
        # above m the mirror image: p = gap + eta + (-gap - eta)_+
        second = np.where(above, self.unit.variance - second - 2 * gap * first, second)
        values = (first - np.minimum(self.x, m), np.maximum(second - first**2, 0.0), np.where(above, 1 - tail, tail))
        shift, variance, kept = (float(np.sum(self.times * v) - skip * v[0]) for v in values)
        return shift - self.surplus - skip * float(self.x[0]), variance, kept

    def noiseless(self, skip: int) -> float:
        """The m with sum_j (x_j - m)_+ = C: C is shared by the counts above m, the largest ones."""
        gone = int(self.times[0] == skip)
        x, times = self.x[gone:], self.times[gone:].copy()
        times[0] -= skip * (1 - gone)
        surplus, n = self.surplus + skip * float(self.x[0]), self.n - skip
        if surplus >= -n * x[0]:
            return -surplus / n
        number = np.cumsum(times[::-1])[::-1]  # of entities from x_k up
        excess = np.append(np.cumsum((number[1:] * np.diff(x))[::-1])[::-1], 0.0)  # sum_j (x_j - x_k)_+
        over = excess - excess[0] - (surplus + n * float(x[0]))  # ... less C
        k = int(np.flatnonzero(over > 0)[-1])
        return float(x[k] + over[k] / number[k + 1])


@dataclass(frozen=True)
class Segment:
    """Counts x[start:stop]; `nodes` Chebyshev nodes stand for them, or they stand for themselves (0)."""

    start: int
    stop: int
    nodes: int

    @property
    def size(self) -> int:
        """How many places the segment takes among the nodes."""
        return self.nodes or self.stop - self.start


@dataclass(frozen=True)
class Reduced:
    """What decides the law of H(m): nodes x with weights, the number of giants, and C less the giants' counts."""

    kind: int
    x: Floats
    weight: Floats
    giants: float
    rest: float
    members: Floats
    """The distinct counts at risk."""
    segments: tuple[Segment, ...]
    waves: tuple[Floats, ...] = ()
    """Of each segment the Chebyshev polynomials at its counts (empty where the counts are the nodes)."""

    def at_members(self, values: Floats, like: Callable[[Floats], Floats] = np.ones_like) -> Floats:
        """A function of x, known at the nodes, at the counts at risk; its ratio to `like` is interpolated."""
        out = np.empty(self.members.size)
        place = 0
        for part, waves in zip(self.segments, self.waves, strict=True):
            here, node = (a[place : place + part.size] for a in (values, self.x))
            place += part.size
            x = self.members[part.start : part.stop]
            if part.nodes:
                scale = np.maximum(like(node), np.finfo(float).tiny)
                coefficients = _to_coefficients(part.nodes) @ (here / scale)
                here = like(x) * np.einsum("km,k->m", waves, coefficients)
            out[part.start : part.stop] = here
        return out


@lru_cache(maxsize=16)
def _to_coefficients(nodes: int) -> Floats:
    """From values at the Chebyshev nodes to Chebyshev coefficients."""
    scale = np.full(nodes, 2.0 / nodes)
    scale[0] = 1.0 / nodes
    return np.asarray(scale[:, None] * chebvander(_chebyshev(nodes), nodes - 1).T)


def _chebyshev(nodes: int) -> Floats:
    return np.cos((np.arange(nodes) + 0.5) * np.pi / nodes)


def _range(x: Floats) -> tuple[float, float]:
    return float(x[-1] + x[0]) / 2, float(x[-1] - x[0]) / 2


def _segments(x: Floats, cell: float, keep: tuple[float, float], nodes: int) -> tuple[Segment, ...]:
    """Cells of width `cell`; one with over 3/2 * `nodes` counts is replaced. x[0] and counts in `keep` stay.

    No cell reaches over `keep`, whether or not a count lies in it.
    """
    inside = (x >= keep[0]) & (x <= keep[1])
    side = (x > keep[1]).astype(np.int64) - (x < keep[0])
    changes = (np.diff(np.floor((x - x[0]) / cell)) != 0) | (np.diff(side) != 0)
    changes &= ~(inside[1:] & inside[:-1])
    changes[:1] = True
    cuts = np.concatenate([[0], np.flatnonzero(changes) + 1, [x.size]])
    parts = []
    for start, stop in pairwise(cuts.tolist()):
        many = 2 * (stop - start) > 3 * nodes and not inside[start]
        parts.append(Segment(start, stop, nodes if many else 0))
    return tuple(parts)


def reduce(population: Population, high: float, keep: tuple[float, float], nodes: int) -> Reduced:
    """The law of H(m) for m up to `high`, with `nodes` Chebyshev nodes for each of the narrowest cells of counts.

    Under Laplace noise a factor has a kink at x = m, so counts inside `keep`, the window of m, stand for themselves.
    """
    clipped = log_cdf(population.kind, high - population.x)
    risk = int(np.sum((clipped > clipped[0] + math.log(RARE)) | (clipped > math.log(NEVER / population.n))))
    members, times = population.x[:risk], population.times[:risk]
    kept = (keep, (np.inf, np.inf))[population.kind]
    parts: tuple[Segment, ...] = (Segment(0, risk, 0),)
    if risk > FEW:
        cells = CELLS[population.kind][: 1 if risk > MANY else None]
        choices = [_segments(members, w, kept, math.ceil(more * nodes)) for w, more in cells]
        parts = min(choices, key=lambda some: sum(part.size for part in some))
    x, weight, waves = [], [], []
    for part in parts:
        here, count = members[part.start : part.stop], times[part.start : part.stop]
        if part.nodes:
            middle, half = _range(here)
            waves.append(population.waves(part.start, part.stop, part.nodes))
            # sums of polynomials, not of BLAS: its threads cost more than they save here
            count = np.einsum("km,m->k", waves[-1], count) @ _to_coefficients(part.nodes)
            here = middle + half * _chebyshev(part.nodes)
        else:
            waves.append(np.empty((0, 0)))
        x.append(here)
        weight.append(count)
    return Reduced(
        kind=population.kind,
        x=np.concatenate(x),
        weight=np.concatenate(weight),
        giants=float(np.sum(population.times[risk:])),
        rest=population.surplus + float(np.sum(members * times)),
        members=members,
        segments=parts,
        waves=tuple(waves),
    )
