"""PoS among thousands: the law of r is a bell with ripples, one for every entity whose noise is narrower than the bell.

**Steps.** Such an entity is above r on one side of its c_j and below on the other, so that the number above, and with it the density of r,
has a step of a part 1/n there. Hundreds of them lie in the bell, and equal steps in r miss 1e-4 of the whole. With symbols as in `pos`,
dpsi_j/dr = -s D_j + t U_j (what crosses r leaves one and enters the other), hence for Phi = snr + sum log psi_j

    dPhi/dr = sn + sum_j (-s D_j + t U_j)/psi_j = (s + t) K,     K = sum_j U_j/psi_j:

the ripples of e^Phi are those of K alone. Take y = n r - E[W(r)] in the place of r, W = sum (r - z_j)_+. Then dy/dr = n - E[#below] is K at
s = t = 0, and of a ripple is left how far U_j/psi_j depends on s and t: these are about one over the deviation of W, so of a narrow
entity that is its own scale over the deviation of W, 1e-3 and less. Equal steps in y miss 1e-7 of the whole.

**Narrow entities themselves.** E[(r - z_i)_+] = rho_i(r) is next to a ramp, and steps longer than its bend miss it by their square. But it is
a known function, and by the same estimate E[(r - z_i)_+ e^{-tS}; r] is rho_i times the density g of y. So to the sum over the steps comes

    int g~ rho_i dy - sum_k h g(y_k) rho_i(r_k),

g~ through g(y_k) by polynomials of log g, then times 1 + u + u^2 so that its first three moments are those of the steps, which have them to
1e-7: for a rho_i that is straight or bends slowly the two cancel. What g~ misses, some 1e-3 at first and then less, is a part of what the
steps had missed, 1e-4. The same for P(z_i < r), the slope of rho_i, and for E[(r - z_i)_+^2], twice its integral. The integral over y is a sum
over FINE cells, where each of the three has a closed mean but the last, which bends slowly (`_cells`: what is left is of the fourth order in
their width). At the ends of cells y has all its bends: the rho_j of narrow entities one by one, and those of the others by polynomials through
the steps. Two stages have other steps, and their difference has all of this in it. What is left of the ripples is small by accident
now and then: the defect of the chance is taken to be the larger one of two stages, the change of P(z_i < r) the largest of all entities.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairpost import cancel
from fairpost.engines.exact.pos.nodes import Fineness, Profile
from fairpost.engines.exact.pos.problem import Problem
from fairpost.engines.moments import Counted, Floats

FINE = 600
"""Cells over the window of r."""
NARROW = 4.0, 0.5
"""An entity is narrow (Laplace noise, with its corner; Gaussian noise) where its scale is below so many cores of the bell ..."""
REACH = 6.0
"""... and its centre so many scales from the window at most."""
POINTS = 6
"""Of a polynomial."""


@dataclass(frozen=True)
class Steps:
    """Equal steps of y."""

    r: Floats
    weight: Floats
    """For integrals over r."""
    y: Floats


def even_steps(problem: Problem, far: float, shape: Profile, stage: Fineness) -> Steps | None:
    """Equal steps of y; None where the density of r is no bell."""
    from fairpost.engines.exact.pos.kernels.separated import shortfall

    (low, high), deviation = shape.window(stage.drop), shape.bell(stage.drop)
    if deviation is None:
        return None
    n = far + float(problem.times.sum())

    def at(place: float) -> tuple[float, float]:
        cancel.check()
        mean, _, number = shortfall(problem.noise, problem.c, problem.scale, problem.times, place)
        return n * place - mean, n - number

    count = int(np.ceil((high - low) / (stage.spacing * deviation)))
    ends = at(low)[0], at(high)[0]
    step = (ends[1] - ends[0]) / count
    middle = np.arange(count, dtype=np.float64) + 0.5
    y, r = np.asarray(ends[0] + step * middle), np.asarray(low + (high - low) / count * middle)
    weight = np.empty(count)
    for i in range(count):
        for _ in range(20):  # Newton's method: y rises, and bends little
            here, number = at(float(r[i]))
            change = (y[i] - here) / number
            r[i] = min(max(r[i] + change, low), high)
            if abs(change) < 1e-13 * high:
                break
        weight[i] = step / number
    return Steps(r, weight, y)


@dataclass(frozen=True)
class Narrow:
    """The narrow entities of a problem, and the cells that see them."""

    problem: Problem
    index: Counted
    """Their places in the problem that they are a part of."""
    edges: Floats

    @classmethod
    def of(cls, problem: Problem, shape: Profile, drop: float) -> Narrow:
        """For the window of a stage."""
        (low, high), (left, right) = shape.window(drop), shape.window(4.5)
        reach = np.maximum(low - problem.c, problem.c - high) / problem.scale
        index = np.flatnonzero((reach < REACH) & (problem.scale < NARROW[int(problem.gaussian)] * (right - left)))
        return cls(problem.part(index), index, np.linspace(low, high, FINE + 1))

    def missed(self, steps: Steps, n: float, *parts: Floats) -> list[Floats]:
        """What the steps miss of E[(r - z_i)^k ...; z_i < r], k = 0, 1, 2, for parts of the whole at each step; n is the number of entities."""
        times, ends, own = self.problem.times, self._below(self.edges), self._below(steps.r)
        others = n * steps.r - steps.y - own[1] @ times
        y = n * self.edges - ends[1] @ times - _through(steps.r, others, self.edges)
        wide = float(self.edges[1] - self.edges[0])
        rise = np.diff(ends, axis=1)
        # means over a cell: each moment is the slope of the next; the last bends slowly
        mean = rise[1] / wide, rise[2] / (2 * wide), 0.5 * (ends[2, 1:] + ends[2, :-1]) - wide / 6 * rise[1]
        out = []
        for part in parts:
            cells, bent = _cells(steps, y, part)
            out.append(np.array([cells @ mean[k] + bent @ rise[k] - part @ own[k] for k in range(3)]))
        return out

    def _below(self, r: Floats) -> Floats:
        """E[(r - z_i)^k; z_i < r] for k = 0, 1, 2 at each r: twice the integral of rho_i is the last."""
        from fairpost.engines.exact.pos.kernels.separated import moments_below

        p, out = self.problem, np.empty((3, r.size, self.index.size))
        moments_below(p.noise, p.c, p.scale, r, out)
        return out


def _cells(steps: Steps, y: Floats, part: Floats) -> tuple[Floats, Floats]:
    """For each cell between neighbouring y the integral of g~, and what multiplies the rise of another function over it.

    With q the value in the middle times the width int g = q + q''/24 and int g f = mean(f) int g + rise(f) q'/12, differences between cells.
    """
    middle, wide = 0.5 * (y[1:] + y[:-1]), np.diff(y)
    q = np.exp(_through(steps.y, np.log(np.maximum(part, np.finfo(float).tiny)), middle)) * wide
    cells, bent = q + np.diff(q, 2, prepend=q[0], append=q[-1]) / 24, np.gradient(q) / 12
    centre, unit = float(np.sum(part * steps.y) / np.sum(part)), float(np.ptp(steps.y)) / 6
    u, known = (middle - centre) / unit, np.vander((steps.y - centre) / unit, 3, increasing=True)
    powers = np.column_stack([np.ones_like(u), u, u * u + (wide / unit) ** 2 / 12])
    rises = np.column_stack([np.zeros_like(u), wide / unit, 2 * u * wide / unit])
    tilt = np.vander(u, 3, increasing=True)
    moments = tilt.T @ (cells[:, None] * powers + bent[:, None] * rises)
    scaled = tilt @ np.linalg.solve(moments.T, known.T @ part)
    return cells * scaled, bent * scaled


def _through(nodes: Floats, values: Floats, at: Floats) -> Floats:
    """Polynomials through POINTS neighbouring nodes each."""
    start = np.clip(np.searchsorted(nodes, at) - POINTS // 2, 0, nodes.size - POINTS)
    which = start[:, None] + np.arange(POINTS)
    near = nodes[which]
    away, factor = at[:, None] - near, np.ones_like(near)
    for i in range(POINTS):
        for j in range(POINTS):
            if i != j:
                factor[:, i] *= away[:, j] / (near[:, i] - near[:, j])
    return np.asarray(np.sum(factor * values[which], axis=1))
