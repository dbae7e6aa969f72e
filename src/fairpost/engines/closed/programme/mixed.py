"""Programmes whose base population is noisy too: the factor of an entity, averaged over the noise of its base.

An entity is paid w g(x + eta, N + xi) with eta and xi independent, and entities are independent of each other. So the integrals
of `moments` hold as they stand with the factor

    E[e^{-tH}] = E_xi M(t; N + xi),

M(t; y) the kinked factor of the law at the base y (`factors`). Tilted mean and variance follow as for any mixture: with
p_k proportional to the weight of node k times M_k, l = sum p_k l_k and v = sum p_k (v_k + (l_k - l)^2). A noisy base below 0
counts as 0.

On the lattice the average is a sum. Else it is Gauss-Legendre on panels that end where the law changes its form (`events`): twelve nodes
on a panel of half-width h in spreads miss an integrand like e^{-r u} by about 3e-31 (r h)^25, r = 1 + p b_2 / b where kinks pass the
noise of the count with the speed p of the base, so panels grow outwards with the density's fall and shrink with r. Each attempt at
the integral over t has a higher order than the one before, so that what a refinement moves says how good both are. Beyond 37 b_2
(8.5 sigma) there is less than 1e-16 of the mass.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from fairpost import cancel
from fairpost.engines.closed.programme.events import events, steepest
from fairpost.engines.closed.programme.factors import Paid
from fairpost.engines.closed.quadrature import legendre
from fairpost.engines.moments import Floats
from fairpost.noise import Law
from fairpost.parallel import over_slices
from fairpost.problems.programme import Programme

Average = Callable[[Paid, NDArray[np.int64], Floats, NDArray[np.int64]], Floats]
"""From the payments at some nodes, their entities, their weights and where each entity begins to averages per entity."""
PURE, CONCENTRATED = (0.0, 4.0, 9.0, 16.0, 26.0, 37.0), (0.0, 1.5, 3.25, 5.5, 8.5)
"""Ends of panels in spreads of the base's noise: the Laplace pair, the Gaussian pair."""
ORDERS = (8, 12, 16, 24)
"""Nodes on a panel, attempt by attempt."""
SOME = 1 << 16
"""Nodes that are worked on together."""
MOST = 30_000_000
"""Nodes of all entities; more take minutes, and simulation serves."""


@dataclass(frozen=True, eq=False)
class Nodes:
    """The nodes of entity i from start[i] to start[i + 1]: bases and their weights, which sum to 1."""

    start: NDArray[np.int64]
    y: Floats
    q: Floats


@dataclass(frozen=True, eq=False)
class Mixed:
    """Kinked payments w g(x + eta, base + xi) of n entities."""

    x: Floats
    w: Floats
    base: Floats
    programme: Programme
    law: Law
    other: Law
    """The noise of the base."""
    order: int = ORDERS[0]

    @property
    def refusal(self) -> str | None:
        """Why there is no average over the base, known before the work; the panels are counted without the events on them."""
        if self.law.discrete != self.other.discrete:
            return (
                f"{self.programme.name}: noise on whole numbers and other noise on counts and base have no common sum, "
                f"got {self.law.name} and {self.other.name}"
            )
        if self.other.discrete:
            e = self.programme.entitlement
            nodes = self.base.size * (2 * int(np.ceil(self.far)) + 1) if e is not None and e.rates else 0
        else:
            nodes = self.base.size * ORDERS[0] * (2 * self._grid.size - 1)
        if nodes <= MOST:
            return None
        return f"{self.programme.name}: the noise of the base would take {nodes:,} nodes, more than {MOST:,}; it can be simulated"

    def weighted(self, w: Floats) -> Self:
        """The same with other weights."""
        return self._with(w=w)

    def refined(self, attempt: int) -> Self:
        """The same with the order of this attempt."""
        return self._with(order=self.order if self.other.discrete else ORDERS[min(attempt, len(ORDERS) - 1)])

    def _with(self, **other: Any) -> Self:
        """Nodes that are known already and stay the same are kept."""
        found = replace(self, **other)
        if "nodes" in self.__dict__ and found.order == self.order:
            found.__dict__["nodes"] = self.nodes
        return found

    @property
    def far(self) -> float:
        """How far the noise of the base is followed."""
        return (CONCENTRATED if np.isinf(self.other.strip) else PURE)[-1] * self.other.spread

    @cached_property
    def nodes(self) -> Nodes:
        """Where the base is looked at."""
        if self.other.discrete:
            return self._lattice()
        return self._panels()

    @property
    def _grid(self) -> Floats:
        """Ends of panels in spreads of the base's noise, to one side."""
        grid = np.array(CONCENTRATED if np.isinf(self.other.strip) else PURE)
        split = int(np.ceil((1 + steepest(self.programme) * self.other.spread / self.law.spread) / 1.4))
        return np.unique(np.concatenate([np.linspace(a, b, split + 1) for a, b in pairwise(grid)]))

    def _lattice(self) -> Nodes:
        """Whole bases; where only the threshold follows the base, those that ask for the same count together."""
        e, far = self.programme.entitlement, int(np.ceil(self.far))
        k = np.arange(-far, far + 1.0)
        mass = self.other.density(k)
        sizes, bases, weights = [], [], []
        for i in range(self.base.size):
            cancel.check()
            y, q = np.maximum(self.base[i] + k, 0.0), mass
            if e is None or not e.rates:
                least = np.ceil(self.programme.threshold(y) - self.x[i] % 1)
                first = np.flatnonzero(np.diff(least, prepend=-np.inf) > 0)
            else:
                first = np.flatnonzero(np.diff(y, prepend=-np.inf) > 0)
            bases.append(y[first])
            weights.append(np.add.reduceat(q, first) / q.sum())
            sizes.append(first.size)
        return _nodes(sizes, np.concatenate(bases), np.concatenate(weights))

    def _panels(self) -> Nodes:
        """Gauss-Legendre on each panel between events."""
        grid = self._grid
        ends = self.base[:, None] + self.other.spread * np.concatenate([-grid[:0:-1], grid])
        low, high = np.maximum(ends[:, :1], 0.0), ends[:, -1:]
        own = events(self.programme, self.x, float(high.max()))
        edges = np.sort(np.clip(np.concatenate([ends, np.where(np.isnan(own), low, own)], axis=1), low, high), axis=1)
        width = np.diff(edges, axis=1)
        keep = width > 0
        u, v = legendre(self.order)
        left, wide = edges[:, :-1][keep], width[keep]
        y = left[:, None] + wide[:, None] * u
        owner = np.nonzero(keep)[0]
        q = wide[:, None] * v * self.other.density(y - self.base[owner][:, None])
        below = np.asarray(self.other.cdf(-self.base))  # one more node, the base 0
        sizes = self.order * keep.sum(axis=1) + 1
        place = np.cumsum(sizes) - sizes
        flat = np.insert(y.ravel(), place - np.arange(place.size), 0.0)
        mass = np.insert(q.ravel(), place - np.arange(place.size), below)
        return _nodes(sizes, flat, mass / np.repeat(np.add.reduceat(mass, place), sizes))

    def factors(self, t: Floats, centre: Floats | None) -> tuple[Floats, Floats, Floats]:
        """log E[e^{-tH}], tilted mean and variance of H, nodes of t by entities; centre None: 0."""
        zero = np.zeros(self.x.size) if centre is None else centre

        def average(paid: Paid, owner: NDArray[np.int64], q: Floats, first: NDArray[np.int64]) -> Floats:
            log, mean, variance = paid.factors(t, zero[owner])
            where = np.repeat(np.arange(first.size), np.diff(np.append(first, owner.size)))
            top = np.maximum.reduceat(log, first, axis=1)
            p = q * np.exp(log - top[:, where])
            whole = np.add.reduceat(p, first, axis=1)
            centre_of = np.add.reduceat(p * mean, first, axis=1) / whole
            spread = np.add.reduceat(p * (variance + (mean - centre_of[:, where]) ** 2), first, axis=1) / whole
            return np.stack([top + np.log(whole), centre_of, spread])

        log, mean, variance = self._averaged(average)
        return log, mean, variance

    def zero(self) -> Floats:
        """P(nothing is paid)."""

        def average(paid: Paid, owner: NDArray[np.int64], q: Floats, first: NDArray[np.int64]) -> Floats:
            return np.add.reduceat(q * paid.zero(), first)[None, None, :]

        found: Floats = self._averaged(average)[0, 0]
        return found

    def _averaged(self, average: Average) -> Floats:
        """`average` over the nodes of some entities at a time: arrays of shape (kinds, nodes of t, entities), joined."""
        start = self.nodes.start

        def some(part: slice) -> list[Floats]:
            out, a = [], part.start
            while a < part.stop:
                cancel.check()
                b = int(np.searchsorted(start, start[a] + SOME, side="right")) - 1
                b = min(max(b, a + 1), part.stop)
                who = slice(start[a], start[b])
                y, q = self.nodes.y[who], self.nodes.q[who]
                owner = np.repeat(np.arange(a, b), np.diff(start[a : b + 1]))
                paid = Paid(self.x[owner], self.w[owner], self.programme.compile(y), self.law)
                out.append(average(paid, owner, q, start[a:b] - start[a]))
                a = b
            return out

        return np.concatenate([found for part in over_slices(some, self.x.size) for found in part], axis=2)


def _nodes(sizes: NDArray[np.int64] | list[int], y: Floats, q: Floats) -> Nodes:
    return Nodes(np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64), y, q)
