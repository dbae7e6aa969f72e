"""The threshold r of `simplex` and of `pos`: one root, one law, one contour.

Independent z_j = c_j + noise of scale beta_j. `simplex` keeps (z_j - r)_+ with sum C; `pos`, S = sum z_j > 0, pays (z_j - r)_+ / S with
r >= 0 and sum (z_j - r)_+ = S, that is sum (r - z_j)_+ = n r. In both the distances y_j from r on one side, which moves with s, have a
given sum:

    simplex   above r   sum y = C          = (C - sum c) + sum c
    pos       below r   sum y = n r

The left side less the right falls (rises) in r with the slope K, the number above r. So by the change of variables for the root of a
monotone function, with delta(u) = (1/2 pi i) int e^{su} ds,

    E[f e^{-tS}] = int dr (1/2 pi i) int ds e^{s target(r)} E[f K prod_j ...]

is an integral of products over entities, of psi_j = E[e^{-sy}; moving side] + E[e^{-tp}; other side] (t = 0 for `simplex`) and, with U_j that
of the two that lies above r, K -> sum_k U_k/psi_k; for f = f_i(z_i) it is prod psi ((F_i/psi_i)(K - U_i/psi_i) + F_i^above/psi_i), F_i of
both sides. The line in s goes through the saddle point of the integrand, where nothing cancels however rare clipping is, and turns to where
e^{s target} decays. Who is certain to be above r (`far`) enters through a power of the noise's own transform.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np

from fairpost import cancel
from fairpost.engines.closed.quadrature import on_panels
from fairpost.engines.moments import Counted, Floats
from fairpost.noise import Law
from fairpost.noise.base import GAUSSIAN
from fairpost.parallel import over_slices

AHEAD = 6
"""Points of the rough picture at a time: a saddle point is found faster from its neighbour's."""
FALLEN = 45.0
"""The picture ends where the density is e^-45 of its top."""
DEPTH, FURTHER = 2.0, 4.0
"""A panel ends where the density has changed as a bell does in so many deviations, or so many times as far from the top."""
KINKS = 12, 60
"""Under Laplace noise the integrands have a weak kink (in the third derivative) at every c_j; so many are ends of panels. So many, where their
scales are less than the deviation of r, and the kink is all that is seen of an entity's own law."""
UNSEEN = 0.03
"""Steps h miss about (h/scale)^3/360 of what has such a kink (the Euler-Maclaurin sum of a jump in the third derivative). Where that is less
than this part of the tolerance the kinks are left alone, and three times as much is part of the error."""
SHARE = 8000
"""So many (r, entity) pairs go to the kernel at a time; between two of them the question can be withdrawn."""


@dataclass(frozen=True)
class Root:
    """z_j, each with its multiplicity, and C - sum c (`simplex`; None: `pos`)."""

    c: Floats
    scale: Floats
    times: Counted
    noise: Law
    """With scale 1."""
    surplus: float | None

    @property
    def release(self) -> bool:
        """Whether the sum is given."""
        return self.surplus is not None

    @cached_property
    def n(self) -> int:
        """The number of entities."""
        return int(np.sum(self.times))

    @property
    def kind(self) -> int | None:
        """The kernels' code of the noise."""
        return 1 if self.noise.code == GAUSSIAN else None

    def beside(self, r: float, *, above: bool = False) -> Floats:
        """E[y^k; y > 0] (rows k = 0, 1, 2) of the distances below r, or above it."""
        from fairpost.engines.contour.kernels.root import moments

        out = np.empty((3, self.c.size))
        moments(self.kind, -1.0 if above else 1.0, self.c, self.scale, r, out)
        return out

    @cached_property
    def typical(self) -> tuple[float, float]:
        """The root of E[W(r)] = n r + surplus, W = sum (r - z_j)_+, and the deviation of r about it (or its size, where that is larger)."""
        surplus = 0.0 if self.surplus is None else self.surplus
        r = -surplus / self.n
        for _ in range(200):  # E[W] - n r is convex and falls, so Newton's method climbs to its root
            number, mean, _ = self.beside(r) @ self.times
            step = float((mean - self.n * r - surplus) / (self.n - number))
            r += step
            if not step > 1e-10 * abs(r):
                break
        below, above = self.beside(r), self.beside(r, above=True)
        mean, kept = float(below[1] @ self.times), float(above[0] @ self.times)
        side = above if self.release else below
        width = math.sqrt(float((side[2] - side[1] ** 2) @ self.times)) / kept
        if not self.release and mean > 0:
            width = max(width, float((below[2] - below[1] ** 2) @ self.times) / mean / self.n)
        return r, width

    @cached_property
    def noiseless(self) -> float:
        """`simplex`: the r without noise; from there on e^{s target} decays to the left in every term of the product."""
        if self.surplus is None:
            return 0.0
        x, times = self.c, self.times
        if self.surplus >= -self.n * x[0]:
            return -self.surplus / self.n
        number = np.cumsum(times[::-1])[::-1]
        excess = np.append(np.cumsum((number[1:] * np.diff(x))[::-1])[::-1], 0.0)  # sum_j (x_j - x_k)_+
        over = excess - excess[0] - (self.surplus + self.n * float(x[0]))
        k = int(np.flatnonzero(over > 0)[-1])
        return float(x[k] + over[k] / number[k + 1])

    def at_risk(self, small: float) -> AtRisk:
        """Those whose mean excess below a high threshold, together, is above `small` of the largest one; the others are far.

        A far entity that is left unclipped moves any output by at most twice its excess, which beside the largest one grows with r.
        """
        r, width = self.typical
        excess = self.beside(r + 12 * width)[1]
        near = self.times * excess > small / excess.size * float(np.max(excess))
        index = np.flatnonzero(near)
        index = index[np.argsort(self.times[index], kind="stable")]
        missed = 2 * float(np.sum((self.times * excess)[~near])) / float(np.max(excess, initial=1e-300))
        return AtRisk(self, index, missed)


@dataclass(frozen=True)
class Level:
    """One refinement."""

    spacing: float
    """The step of r, in deviations, where its density is a bell; else ..."""
    order: int
    """... Gauss-Legendre nodes on a panel of r."""
    step: float
    """Along the contour, as a part of the kernel's own."""
    drop: float
    """The window of r ends where the density has fallen by e^-drop ..."""
    cutoff: float
    """... and a contour where its integrand has fallen so far."""


LEVELS = (
    Level(0.95, 5, 1.1, 24, 1e-12),
    Level(0.8, 8, 0.85, 29, 1e-14),
    Level(0.65, 12, 0.66, 33, 1e-15),
    Level(0.52, 18, 0.5, 36, 1e-15),
    Level(0.4, 27, 0.36, 38, 1e-16),
)


@dataclass(frozen=True)
class Sums:
    """What `kernels.root.accumulate` gives: entries of those at risk, and rows t of what all have in common."""

    first: Floats
    mixed: Floats
    square: Floats
    zero: Floats
    common: Floats
    nodes: int
    open: int
    """Contours that ended before their integrand did."""

    def __add__(self, more: Sums) -> Sums:
        return Sums(*(getattr(self, f.name) + getattr(more, f.name) for f in fields(self)))


@dataclass(frozen=True)
class AtRisk:
    """The entities that may be below r, sorted by multiplicity; the others are certain to be above it."""

    root: Root
    index: Counted
    missed: float
    """How far the others may move outputs after all, as a part of the largest E y."""

    @cached_property
    def times(self) -> Counted:
        """Multiplicities."""
        return self.root.times[self.index]

    @cached_property
    def far(self) -> float:
        """The number of the others."""
        return float(self.root.n - int(np.sum(self.times)))

    @cached_property
    def entities(self) -> tuple[Any, ...]:
        """As the kernels want them: side, (c, scale, times), far, target, and where transforms are finite."""
        root, c = self.root, self.root.c[self.index]
        base, lift = (
            (root.surplus + math.fsum(c * self.times), self.far) if root.surplus is not None else (0.0, float(root.n))
        )
        low, high = -np.inf, np.inf
        if root.kind is None:
            low = -1.0 / float(np.max(root.scale if root.release else root.scale[self.index]))
            high = 1.0 / float(np.max(root.scale)) if root.release and self.far > 0 else np.inf
        return root.kind, root.release, c, root.scale[self.index], self.times, self.far, base, lift, low, high

    def log_density(self, r: Floats, least: bool) -> Floats:
        """By the saddle-point approximation; with `least` where at least one is below r."""
        from fairpost.engines.contour.kernels.root import log_density

        cancel.check()
        out = np.empty_like(r)
        log_density(*self.entities, least, r, out)  # type: ignore[call-arg]
        return out

    def integrate(self, rule: tuple[Floats, Floats], level: Level, least: bool, tilts: tuple[Floats, ...]) -> Sums:
        """The sums over the nodes, the same two of them on any number of threads."""
        from fairpost.engines.contour.kernels.root import accumulate

        r, weight = rule
        m, nt = self.index.size, tilts[0].size
        lean = np.full(r.size, 0.4 if self.root.kind else 1.0)
        if self.root.release:
            lean = np.where((r < self.root.noiseless) & (self.root.kind is None), 0.0, 0.7 * lean)
        chunk = 2 * max(1, SHARE // m)

        def work(half: int) -> Sums:
            sums: list[Any] = [*np.zeros((4, m)), np.zeros((nt, 4))]
            nodes, open_, s0 = 0, 0, 0.0
            for start in range(half, r.size, chunk):
                cancel.check()
                some = slice(start, start + chunk - half, 2)
                there = [np.ascontiguousarray(values[some]) for values in (r, weight, lean)]
                rule = (*there, level.step, level.cutoff, *tilts)
                more, cut, s0 = accumulate(*self.entities, least, *rule, s0, *sums)  # type: ignore[call-arg]
                nodes, open_ = nodes + more, open_ + cut
            first, mixed, square, zero, common = sums
            return Sums(first, mixed, square, zero, common, nodes, open_)

        halves = over_slices(lambda some: [work(half) for half in range(2)[some]], 2)
        one, two = (sums for part in halves for sums in part)
        return one + two


@dataclass(frozen=True)
class Window:
    """The logarithm of the density of r at some places, outwards from its top until it is negligible."""

    risk: AtRisk
    rtol: float
    r: Floats
    log: Floats

    @classmethod
    def of(cls, risk: AtRisk, least: bool, rtol: float) -> Window:
        """Again around the top, with smaller steps, where it looks sharp."""
        start, width = risk.root.typical
        if not risk.root.release:
            start = max(start, 0.05 * width)  # where clipping is rare, E[r] says how rare and not where r > 0 lies
        seen: dict[float, float] = {}
        for _ in range(8):
            _scan(risk, least, start, width, seen)
            r, log = np.array(sorted(seen)), np.array([seen[key] for key in sorted(seen)])
            top = int(np.argmax(log))
            low, high = max(top - 1, 0), min(top + 1, r.size - 1)
            if np.ptp(log[low : high + 1]) < 0.5 or not r[high] > r[low]:
                break
            start, width = float(r[top]), float(r[high] - r[low]) / 2
        if not risk.root.release:  # a large r is that of a large entity, and moves its share as much
            core = float(np.max(r[log > np.max(log) - 4.5]))
            log = log + 2 * np.log(np.maximum(r / core, 1.0))
        return cls(risk, rtol, r, log)

    def ends(self, drop: float) -> tuple[float, float]:
        """Where the density is e^-drop of its top; 0 for `pos` where it never falls so far."""
        level = float(np.max(self.log)) - drop
        above = np.flatnonzero(self.log >= level)
        first, last = int(above[0]), int(above[-1])

        def crossing(inside: int, outside: int) -> float:
            part = (self.log[inside] - level) / (self.log[inside] - self.log[outside])
            return float(self.r[inside] + part * (self.r[outside] - self.r[inside]))

        low = crossing(first, first - 1) if first > 0 else float(self.r[0]) if self.risk.root.release else 0.0
        return low, crossing(last, last + 1) if last + 1 < self.r.size else float(self.r[-1])

    def edges(self, drop: float, start: float = -np.inf) -> Floats:
        """Ends of panels in the window, from `start` on."""
        low, high = self.ends(drop)
        low = max(low, start)
        high = max(high, low)
        depth = np.sqrt(2 * np.maximum(np.max(self.log) - self.log, 0.0))
        top = int(np.argmax(self.log))
        out = [low, float(self.r[top]), high]
        for side in (range(top + 1, self.r.size), range(top - 1, -1, -1)):
            change, last, before = 0.0, 0.0, top
            for i in side:
                distance = abs(float(self.r[i] - self.r[top]))
                change += abs(float(depth[i] - depth[before]))
                if change > DEPTH or distance > FURTHER * last > 0:
                    out.append(float(self.r[i]))
                    change, last = 0.0, distance
                before = i
        if self._missed(self.core / 4) > self.allowed:
            out += self._kinks(low, high)
        return np.unique(np.clip(out, low, high))

    def _kinks(self, low: float, high: float) -> list[float]:
        """The c_j of those with the largest multiplicities over their scales, and the r without noise."""
        root = self.risk.root
        inside = np.flatnonzero((root.c > low) & (root.c < high))
        heavy = inside[np.argsort(root.scale[inside] / root.times[inside], kind="stable")]
        narrow, wide = heavy[root.scale[heavy] < self.core], heavy[root.scale[heavy] >= self.core]
        if wide.size > KINKS[0]:
            wide = wide[root.times[wide] > 0.02 * root.n][: KINKS[0]]
        return [*root.c[narrow[: KINKS[1]]].tolist(), *root.c[wide].tolist(), root.noiseless]

    @cached_property
    def core(self) -> float:
        """The deviation of a bell of that width."""
        left, right = self.ends(4.5)
        return (right - left) / 6

    def bell(self, drop: float) -> float | None:
        """The deviation, where the whole window looks like one bell and so narrow that no entity's own law is seen in it."""
        (low, high), (left, right), top = self.ends(drop), self.ends(4.5), float(self.r[np.argmax(self.log)])
        core, reach = self.core, math.sqrt(2 * drop)
        halves = np.array([(top - low) / reach, (high - top) / reach, (top - left) / 3, (right - top) / 3]) / core
        smooth = core < float(np.min(self.risk.entities[3])) and self._missed(core) <= self.allowed
        inside = low > 0 or self.risk.root.release
        return core if smooth and inside and halves.min() > 0.7 and halves.max() < 1.4 else None

    @property
    def allowed(self) -> float:
        """What of the kinks need not be seen."""
        return UNSEEN * min(self.rtol, 1e-6)

    @property
    def unseen(self) -> float:
        """What was left out of them, as a part of the largest E y."""
        missed = (self._missed(self.core), self._missed(self.core / 4))
        return next((3 * one for one in missed if one <= self.allowed), 0.0)

    def _missed(self, step: float) -> float:
        """What such steps miss of the kinks."""
        scale = self.risk.entities[3]
        return 0.0 if self.risk.root.kind else step**3 / float(np.max(scale) * np.min(scale) ** 2) / 360

    def rule(self, level: Level, start: float = -np.inf) -> tuple[Floats, Floats]:
        """Nodes and weights: for a bell equal steps, which converge geometrically."""
        core = self.bell(level.drop)
        if core is None or start > -np.inf:
            return on_panels(self.edges(level.drop, start), level.order)
        low, high = self.ends(level.drop)
        count = math.ceil((high - low) / (level.spacing * core))
        step = (high - low) / count
        return low + step * (np.arange(count, dtype=np.float64) + 0.5), np.full(count, step, dtype=np.float64)


def _scan(risk: AtRisk, least: bool, start: float, width: float, seen: dict[float, float]) -> None:
    """Put the logarithm of the density at places outwards from the start into `seen`, until it has fallen by FALLEN.

    r of `pos` is above 0, and near 0 its density may fall like a power of r: downwards a step is at most half of r.
    """
    lowest = -np.inf if risk.root.release else 1e-6 * min(start, width)
    seen[start] = top = float(risk.log_density(np.array([start]), least)[0])
    for sign in (1, -1):
        r, step, log = start, width / 4, top
        while r > lowest and log > top - FALLEN and step < 1e6 * width:
            some: list[float] = []
            while len(some) < AHEAD and r > lowest and step < 1e6 * width:
                down = r - step if risk.root.release else max(r - min(step, 0.5 * r), lowest)
                r = r + step if sign > 0 else down
                some.append(r)
                step *= 1.3
            for place, value in zip(some, risk.log_density(np.array(some), least).tolist(), strict=True):
                seen[place] = log = value
                top = max(top, log)
                if log <= top - FALLEN:
                    break
