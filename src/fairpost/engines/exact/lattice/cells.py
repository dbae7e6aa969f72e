"""pi_S+ under whole-number noise where few share the total: every cell over a whole period of s.

Where few terms make up S the product does not die out for |Im s| <= pi, and the integrand of `kernels_of_s` must be summed over the whole
period (`period`), with one tau for a cell. prod_j (below_j + w kept_j), w = e^{-su}, is a polynomial in w whose coefficient of w^k has K = k
entities kept; so the integrals over u are closed, h_1(k) = int_0^1 e^{-suk} du and h_2(k) = int_0^1 u e^{-suk} du, and so is the remainder
e^{-sk}/k of E[R^2]. Their sums over k come from points w on the unit circle, as many as K has values that matter.

What is asked of one entity takes the place of its factor, by division: the same rounded factor that was multiplied. With nobody kept (k =
0) S = 0 < C and R = 0: h(0) = 0, where the chance less 1 is -1 below t0.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fairpost import cancel
from fairpost.engines.exact.lattice import period
from fairpost.engines.exact.lattice.kernels_of_s import at_least, passed, remainder, squared
from fairpost.engines.exact.lattice.period import Circle, Period
from fairpost.engines.exact.sums.factors import Complexes, parts
from fairpost.engines.exact.sums.population import Entities, Places, line, mass_at, product
from fairpost.engines.moments import Floats
from fairpost.errors import ToleranceError
from fairpost.noise import Law

WORK = 3e7
"""The most factors, one for each (cell, s, w, count): about a second."""
FIRST, GROWTH = 4.5e7, 1.4
"""For a release: the most at a safety of 20, the first level's, and the power with which work grows with it; so what the first level may
take the others may too, and a refusal comes before the work."""
TABLES = 5e6
"""The most masses of discrete Gaussian noise that are tilted and summed: some seconds."""
BLOCK = 200_000
"""Factors at a time."""
TOGETHER = 8
"""The most cells that have their nodes in common."""
EVERY = slice(None)
EPS = 2.3e-16


@dataclass
class Sums:
    """Integrals over the cells: for the deficits, P(v = 0), the mean squared errors, E[T], and a giant's mean squared error."""

    deficit: Floats
    zero: Floats
    square: Floats
    root: float = 0.0
    giant: float = 0.0
    nodes: int = 0
    left: float = 0.0
    """Rounding, in any deficit: that of the terms that were summed, which are larger than their sum."""

    @classmethod
    def empty(cls, size: int) -> Sums:
        """Nothing yet."""
        return cls(np.zeros(size), np.zeros(size), np.zeros(size))


def table(noise: Law) -> float:
    """How many masses one s takes; discrete Laplace noise has closed sums."""
    return 26 * noise.spread + 3 if np.isinf(noise.strip) else 0.0


@dataclass(frozen=True)
class Chunk:
    """Neighbouring cells with one tau: their steps of s, and the points for K."""

    m: Floats
    path: Period
    circle: Circle
    fixed: ClassVar[float] = 2.0
    """What the kernels take beside the factors, in factors."""

    @property
    def points(self) -> int:
        """How many points for K."""
        return self.circle.size

    @property
    def below(self) -> bool:
        """Below t0 probabilities are taken less 1."""
        return self.path.tau < 0


def cells(e: Entities, m: Floats, tau: Floats, safety: float, total: float) -> Sums:
    """The integrals over the cells m, each with its tau; where tau < 0 probabilities are taken less 1."""
    still = np.zeros_like(m)
    tau, many = tilts(e, (Places(m, still, None), Places(m, still - 1, None)), tau, safety)
    end, low, high = _looks(e, m, tau, safety)
    chunks = [Chunk(m[here], path, Circle.around(low[here], high[here])) for here, path in together(tau, many, end)]
    found = Sums.empty(e.y.size)
    for chunk in affordable("simplex", e, chunks, safety):
        _add(e, chunk, total, found)
    return found


def affordable(name: str, e: Entities, chunks: list[Chunk], safety: float) -> Iterator[Chunk]:
    """The chunks in parts that memory holds; refused where they would take too long."""
    work = sum((c.m.size * e.y.size + c.fixed) * c.path.size * c.points for c in chunks)
    tables = sum(c.path.size for c in chunks) * table(e.noise)
    if work > FIRST * (safety / 20) ** GROWTH or tables > TABLES:
        raise ToleranceError(
            f"{name}: {e.y.size} counts that may be cut have {sum(c.m.size for c in chunks)} cells of the threshold and {work:.2g} factors "
            f"under {e.noise.name} noise of this scale, which would take too long"
        )
    for chunk in chunks:
        rows = max(1, BLOCK // (chunk.path.size * chunk.points * max(e.y.size, 1)))
        for a in range(0, chunk.m.size, rows):
            cancel.check()
            yield replace(chunk, m=chunk.m[a : a + rows])


def tilts(e: Entities, ends: tuple[Places, Places], tau: Floats, safety: float) -> tuple[Floats, Floats]:
    """tau and the steps of every cell, from its two ends."""
    theta = period.grid(e.noise, e.giants + float(np.sum(e.weight)))
    with np.errstate(all="ignore"):  # a tilt that overflows is no bound
        rising, falling = (
            product(e, at, np.tile(sign * theta, (tau.size, 1))).log for at, sign in zip(ends, (1, -1), strict=True)
        )
    tau = period.gentle(theta, np.where(tau[:, None] > 0, rising, falling), tau)
    return tau, period.steps(theta, rising, falling, tau, safety)


def together(tau: Floats, many: Floats, end: Floats) -> Iterator[tuple[NDArray[np.int64], Period]]:
    """Neighbouring cells with one tau, and steps that do for all of them."""
    for value in np.unique(tau):
        group = np.flatnonzero(tau == value)
        for here in np.array_split(group, math.ceil(group.size / TOGETHER)):
            yield here, Period.of(float(value), int(np.max(many[here])), float(np.max(end[here])))


def _looks(e: Entities, m: Floats, tau: Floats, safety: float) -> tuple[Floats, Floats, Floats]:
    """For each cell: Im s at which prod_j (|below_j| + rho |kept_j|) has died out, and the range of K until then."""
    s = tau[:, None] + 1j * np.concatenate([[0.0], period.LOOKS])
    p = parts(e.noise, (m[:, None] - e.y)[:, None, :], s[:, :, None])
    swell = period.swell(tau)
    below, kept = np.abs(p.below), np.abs(p.kept) * np.exp(swell)[:, None, None]
    lift = tau * (p.depth[:, 0] @ e.weight - e.rest - e.giants * m) + e.giants * swell
    log = np.log(below + kept) @ e.weight + lift[:, None] + e.giants * line(e.noise, s)[0].real
    alive = log - np.minimum(log[:, :1], 0.0) + safety
    end = period.ends(alive[:, 1:])
    low, high = period.ranges(kept, below, e.weight, alive)
    low, high = np.where(alive > 0, low, np.inf), np.where(alive > 0, high, 0.0)
    return end, np.min(low, axis=1), np.max(high, axis=1)


def _add(e: Entities, chunk: Chunk, total: float, found: Sums) -> None:
    """Some more cells."""
    m, path, circle, g = chunk.m, chunk.path, chunk.circle, e.giants
    s, pole, swell = path.s, path.pole, period.swell(path.tau)
    w = circle.w * math.exp(swell)
    c = m[:, None] - e.y
    p = parts(e.noise, c[:, None, :], s[None, :, None])
    still = parts(e.noise, c, np.zeros((1, 1)))
    psi = p.below[..., None] + w * p.kept[..., None]
    log, mean = line(e.noise, s)
    lift = s * (p.depth[:, 0] @ e.weight - e.rest - g * m)[:, None] + g * (log + swell)
    whole = period.whole(psi, e.weight, lift)
    forms = _Forms.of(s, path.ds, circle, g, total)
    # what stands in the place of one factor: nothing, or what is kept of it, so that k is one more
    rows = np.stack([forms.once, forms.start, forms.later, forms.square], axis=1)
    sums = np.einsum("mskl,msil->mski", rows * whole[:, :, None, :], 1 / psi)
    nobody = np.exp(np.log(np.maximum(still.below, 1e-300)) @ e.weight) if g == 0 else np.zeros(m.size)
    less = pole + (float(chunk.below) - pole) * nobody
    alone = pole + (float(chunk.below) - pole) * nobody[:, None] / np.maximum(still.below, 1e-300)
    chance = np.sum(sums[:, :, 0] * p.shift, axis=1).imag - alone
    found.deficit += np.sum(still.below * chance, axis=0)
    zero = np.sum(sums[:, :, 1] * p.shift, axis=1).imag - pole
    found.zero += np.sum(mass_at(e, m) * zero, axis=0)
    square = sums[:, :, 3] * p.kept - 2 * sums[:, :, 2] * (p.first - e.y * p.kept)
    found.square += np.sum(np.sum(square, axis=1).imag + 2 * pole * (still.first - (e.y + 0.5) * still.kept), axis=0)
    once = np.einsum("msl,sl->ms", whole, forms.once)
    found.root += float(np.sum(np.sum(once, axis=1).imag - less))
    if g > 0:
        giant = np.einsum("msl,sl->ms", whole, forms.giant) - 2 * once * (mean - m[:, None])
        found.giant += float(np.sum(np.sum(giant, axis=1).imag - 2 * pole * (m + 0.5)))
    size = np.einsum("msl,sl->m", np.abs(whole), np.abs(forms.once))
    found.left += 8 * EPS * float(size @ np.max(still.below, axis=1))
    found.nodes += m.size * s.size


@dataclass(frozen=True)
class _Forms:
    """The kernels times ds at each s and point w: E[R] (once; later: with one more kept), P(S >= C), and E[R^2] (with one more; of a giant)."""

    once: Complexes
    start: Complexes
    later: Complexes
    square: Complexes
    giant: Complexes

    @classmethod
    def of(cls, s: Complexes, ds: Complexes, circle: Circle, giants: float, total: float) -> _Forms:
        main, second, rest, start = (
            (form(s, EVERY) * ds)[:, None]
            for form in (passed(total).form, squared(total).form, remainder(total), at_least(total).form)
        )
        k = circle.k + giants
        one, two, last, flat = period.integrals(s, k)
        more, twice, end, _ = period.integrals(s, k + 1)
        rho, weights = math.exp(period.swell(float(s[0].real))), circle.weights
        return cls(
            weights(main * one),
            weights(start * flat),
            weights(rho * main * more),
            weights(rho * (2 * second * twice + rest * end)),
            weights(2 * second * two + rest * last),
        )
