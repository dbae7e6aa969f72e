"""Laplace noise (b = 1): the part of the simplex integrals below every true count, with m integrated in closed form.

For m = m1 - r, r > 0, and every x_j >= m1, d_j = x_j - m1, the factors of `kernels.contour` are

    psi_j = e^{s d_j} (M e^{sr} + g_j e^{-r}),   M = 1/(1 - s^2),   g_j = e^{-(1 + s) d_j} s / (2 (1 + s)),

so their product is a polynomial in the two exponentials of r, and the integral over r is a sum of 1/rate. What
is left is one contour integral in s, and where the d_j add up to at most C it may lean right. Few entities are at risk here: whole
arrays over the nodes s are as fast as a kernel, and nothing has to be compiled for them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpost import cancel
from fairpost.engines.moments import Floats

Complexes = NDArray[Any]
BLOCK = 128
"""Nodes at a time."""


@dataclass(frozen=True)
class Contour:
    """A hyperbola that crosses the real axis at tau < 0, with the step and the end of the trapezoidal rule on it."""

    tau: float
    scale: float
    lean: float
    step: float
    cutoff: float
    """It ends where the integrand is this part of its peak."""

    def at(self, start: int) -> tuple[Complexes, Complexes]:
        """A block of nodes s, and ds / (pi s)."""
        t = self.step * np.arange(start, start + BLOCK)
        s = self.tau + self.lean * self.scale * (np.cosh(t) - 1) + 1j * self.scale * np.sinh(t)
        ds = self.lean * self.scale * np.sinh(t) + 1j * self.scale * np.cosh(t)
        q = ds / s * (self.step / math.pi)
        if start == 0:
            q[0] *= 0.5
        return s, q


@dataclass(frozen=True)
class Few:
    """The distinct counts at risk, how often each occurs, the giants and C less their counts; m1 is below all of them."""

    m1: float
    x: Floats
    times: NDArray[np.int64]
    giants: float
    rest: float


@dataclass(frozen=True)
class _Block:
    """At a block of nodes: s, 1/(1 + s), M, g_j (rows), the weight of the rule, and the product of all copies but one of each count."""

    few: Few
    s: Complexes
    v: Complexes
    whole: Complexes
    g: Complexes
    q: Complexes
    base: Complexes

    def rates(self, degree: int, more: float, extra: float) -> Complexes:
        """1 / ((degree - k) - s (giants + k + more) + extra) for each k."""
        k = np.arange(degree + 1)[:, None]
        return np.asarray(1.0 / ((degree - k + extra) - self.s * (self.few.giants + k + more)))

    def without(self) -> Iterator[tuple[int, Complexes]]:
        """For every distinct count the coefficients of the product without one copy of it."""
        yield from _without(self.g, self.whole, list(range(len(self.g))), self.base)

    def product(self) -> Complexes:
        """With all of them."""
        found = self.base
        for g in self.g:
            found = _times(found, g, self.whole)
        return found


def _times(poly: Complexes, g: Complexes, whole: Complexes) -> Complexes:
    """The coefficients (rows) of poly * (whole * y + g)."""
    out = np.empty((poly.shape[0] + 1, poly.shape[1]), dtype=np.complex128)
    np.multiply(poly, g, out=out[:-1])
    out[-1] = 0.0
    out[1:] += whole * poly
    return out


def _without(g: Complexes, whole: Complexes, places: list[int], poly: Complexes) -> Iterator[tuple[int, Complexes]]:
    """All products but one factor, by halves: each half goes into the other."""
    if len(places) == 1:
        yield places[0], poly
        return
    half = len(places) // 2
    for mine, other in ((places[:half], places[half:]), (places[half:], places[:half])):
        whole_of = poly
        for j in other:
            whole_of = _times(whole_of, g[j], whole)
        yield from _without(g, whole, mine, whole_of)


def _blocks(few: Few, path: Contour, mean: float) -> Iterator[_Block]:
    d = few.x - few.m1
    for start in range(0, int(80.0 / path.step), BLOCK):
        cancel.check()
        s, q = path.at(start)
        v = 1 / (1 + s)
        whole = v / (1 - s)
        g = 0.5 * np.exp(-(1 + s) * d[:, None]) * s * v
        base = np.ones((1, s.size), dtype=np.complex128)
        for j, times in enumerate(few.times):
            for _ in range(int(times) - 1):
                base = _times(base, g[j], whole)
        yield _Block(few, s, v, whole, g, q * np.exp(s * mean + few.giants * np.log(whole)), base)


def _ended(now: Floats, largest: float, cutoff: float) -> tuple[int, float, bool]:
    """How many of the nodes count, the largest term so far, and whether the rule ends with the last of them."""
    peak = np.maximum(np.maximum.accumulate(now), largest)
    quiet = np.flatnonzero(now <= cutoff * peak)
    stop = int(quiet[0]) + 1 if quiet.size else now.size
    return stop, float(peak[stop - 1]), bool(quiet.size)


def deficits(few: Few, path: Contour) -> tuple[Floats, int]:
    """Integrals over m < m1 of P(eta <= m - x_i) (P(H_{-i}(m) > C) - 1), and the number of nodes."""
    d = few.x - few.m1
    mean = float(few.times @ d - d[0]) - few.giants * few.m1 - few.rest  # without the smallest: at most 0 on average
    out, largest, nodes = np.zeros(few.x.size), 0.0, 0
    for b in _blocks(few, path, mean):
        terms = np.empty((few.x.size, b.s.size), dtype=np.complex128)
        rates = b.rates(int(np.sum(few.times)) - 1, 0.0, 1.0)
        for i, poly in b.without():
            terms[i] = np.sum(poly * rates, axis=0) * b.q * (0.5 * math.exp(-d[i])) * np.exp(-b.s * (d[i] - d[0]))
        stop, largest, done = _ended(np.max(np.abs(terms), axis=0), largest, path.cutoff)
        out += np.sum(terms.imag[:, :stop], axis=1)
        nodes += stop
        if done:
            break
    return out, nodes


def spread(few: Few, path: Contour) -> tuple[Floats, Floats, int]:
    """Integrals over m < m1 of what `kernels.contour.invert` gives for the spread and in common, and the number of nodes."""
    d = few.x - few.m1
    mean = float(few.times @ d) - few.giants * few.m1 - few.rest
    out, common, largest, nodes = np.zeros(few.x.size), np.zeros(2), 0.0, 0
    for b in _blocks(few, path, mean):
        size = int(np.sum(few.times))
        drift = 2 * b.s * b.whole - few.m1
        terms = np.empty((few.x.size + 2, b.s.size), dtype=np.complex128)
        poly, rate = b.product(), b.rates(size, 0.0, 0.0)
        once, twice = np.sum(poly * rate, axis=0), np.sum(poly * rate**2, axis=0)
        terms[-2], terms[-1] = b.q * once, b.q * (drift * once + twice)
        kept, cut = b.rates(size - 1, 1.0, 0.0), b.rates(size - 1, 0.0, 1.0)
        for i, poly in b.without():
            once, twice = np.sum(poly * kept, axis=0), np.sum(poly * kept**2, axis=0)
            edge = 0.5 * np.exp(-(1 + b.s) * d[i]) * (few.x[i] + b.v) * b.v
            terms[i] = b.q * (b.whole * (drift * once + twice) + edge * np.sum(poly * cut, axis=0))
        stop, largest, done = _ended(np.max(np.abs(terms[:-1]), axis=0), largest, path.cutoff)
        out += np.sum(terms.imag[:-2, :stop], axis=1)
        common += np.sum(terms.imag[-2:, :stop], axis=1)
        nodes += stop
        if done:
            break
    return out, common, nodes
