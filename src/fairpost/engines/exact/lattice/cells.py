"""pi_S+ under whole-number noise for few entities: every cell over a whole period of s, with no other quadrature.

Where few terms make up S the product does not die out for |Im s| <= pi, and the integrand of `kernels_of_s` must be summed over the whole
period,
with one tau for a cell. prod_j (below_j + w kept_j), w = e^{-su}, is a polynomial in w whose coefficient of w^k has K = k entities kept;
so the
integrals over u are closed, h_1(k) = int_0^1 e^{-suk} du and h_2(k) = int_0^1 u e^{-suk} du, and so is the remainder e^{-sk}/k of E[R^2].
Equal steps in Im s
are exact but for wrap-around: masses of S at C +- N, N the number of steps, damped by e^{-|tau| N}. All polynomials without one entity come
from halving: the product of one half is multiplied into the other, n^2 log n in all, and nothing is divided.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fairpost import cancel
from fairpost.engines.exact.lattice.kernels_of_s import at_least, passed, remainder, squared
from fairpost.engines.exact.sums.factors import Complexes, parts
from fairpost.engines.exact.sums.population import Entities, line
from fairpost.engines.moments import Floats
from fairpost.errors import ToleranceError
from fairpost.noise import Law

WORK = 6e7
"""The most products of numbers: about 2 s."""
TABLES = 5e6
"""The most masses of discrete Gaussian noise that are tilted and summed: some seconds."""
MOST = 80
"""The most entities that may be cut."""
BLOCK = 40_000
"""(cell, s) pairs at a time."""
EVERY = slice(None)
Polynomial = list[Complexes]


@dataclass
class Sums:
    """Integrals over the cells: for the deficits, P(v = 0), the mean squared errors, E[T], and a giant's mean squared error."""

    deficit: Floats
    zero: Floats
    square: Floats
    root: float = 0.0
    giant: float = 0.0
    nodes: int = 0


def table(noise: Law) -> float:
    """How many masses one s takes; discrete Laplace noise has closed sums."""
    return 26 * noise.spread + 3 if np.isinf(noise.strip) else 0.0


def tilt(e: Entities) -> float:
    """|tau| in units of 1/scale: so far from 0 that few steps do, so near that E[e^{tau (S - C)}], which rounding scales with, stays small."""
    n = e.giants + float(np.sum(e.weight))
    return min(1.0, 2.5 / math.sqrt(n)) if np.isinf(e.noise.strip) else min(0.45, 1.8 / math.sqrt(n))


def steps(e: Entities, safety: float) -> int:
    """How many equal steps of a period keep wrap-around below e^-safety: S has tails like those of n noises together."""
    unit, n = e.noise.spread, e.giants + float(np.sum(e.weight))
    size = tilt(e)
    need = safety / size
    if np.isinf(e.noise.strip):
        need = max(need, n * size * (1 + math.sqrt(1 + 2 * safety / (n * size**2))))
    else:
        while (1 - size) * need - n * math.log(need) + math.lgamma(n + 1) < safety:
            need *= 1.2
    return 2 * math.ceil((need * unit + 24) / 2)


def cells(e: Entities, span: tuple[int, int], t0: int, total: float, safety: float) -> Sums:
    """The integrals over the cells from span[0] to span[1]; below t0 probabilities are taken less 1."""
    half = steps(e, safety) // 2 + 1
    n = int(np.sum(e.weight))
    work = (span[1] - span[0]) * half * (n + 2) ** 2 * math.log2(n + 2)
    blocks = math.ceil((span[1] - span[0]) / max(1, BLOCK // half))
    tables = blocks * 2 * half * table(e.noise)
    if n > MOST or work > WORK or tables > TABLES:
        raise ToleranceError(
            f"simplex: {n} entities that may be cut have {span[1] - span[0]} cells of the threshold with {half} nodes under "
            f"{e.noise.name} noise of this scale, which would take too long"
        )
    y = np.linspace(0.0, math.pi, half)
    size = tilt(e) / e.noise.spread
    ds = np.full(half, 1j / (half - 1))
    ds[0] *= 0.5
    ds[-1] *= 0.5
    none = np.zeros(e.y.size)
    found = Sums(none.copy(), none.copy(), none.copy(), nodes=half * (span[1] - span[0]))
    rows = max(1, BLOCK // half)
    for first in range(span[0], span[1], rows):
        cancel.check()
        m = np.arange(first, min(first + rows, span[1]), dtype=np.float64)
        s = np.where(m < t0, -size, size)[:, None] + 1j * y
        _add(e, m, s, ds, total, found)
    return found


def _add(e: Entities, m: Floats, s: Complexes, ds: Complexes, total: float, found: Sums) -> None:
    """Some more cells."""
    c = m[:, None] - e.y
    p = parts(e.noise, c[:, None, :], s[:, :, None])
    depth = (p.depth[:, 0] @ e.weight)[:, None]
    log, mean = line(e.noise, s)
    q = np.exp(s * (depth - e.rest - e.giants * m[:, None]) + e.giants * log) * ds
    main, later, rest, start = (form(s, EVERY) for form in _forms(total))
    g = e.giants
    h = _Cell(s)
    factors = [(p.below[..., i], p.kept[..., i], int(e.weight[i])) for i in range(e.y.size)]
    whole = [q]
    for below, kept, times in factors:
        for _ in range(times):
            whole = _times(whole, below, kept)
    below_m = np.asarray(parts(e.noise, c, np.zeros((1, 1))).below).real
    mass = np.asarray(e.noise.density(c))
    for i, poly in _without(factors, [q]):
        chance = _passed(poly, h, g, main, start) * p.shift[..., i]
        found.deficit[i] += float(np.sum(below_m[:, i] * np.sum(chance.imag, axis=1)))
        zero = sum(poly) * start * p.shift[..., i]
        found.zero[i] += float(np.sum(mass[:, i] * np.sum(zero.imag, axis=1)))
        kept, first = p.kept[..., i], p.first[..., i]
        one = sum(a * h.once(k + 1 + g) for k, a in enumerate(poly)) * main * (first - e.y[i] * kept)
        two = sum(a * h.twice(k + 1 + g) for k, a in enumerate(poly)) * later * kept
        last = sum(a * h.end(k + 1 + g) for k, a in enumerate(poly)) * rest * kept
        found.square[i] += float(np.sum((-2 * (one - two) + last).imag))
    once = _passed(whole, h, g, main, start)
    found.root += float(np.sum(once.imag))
    if g > 0:
        twice = sum(a * h.twice(k + g) for k, a in enumerate(whole)) * later
        last = sum(a * h.end(k + g) for k, a in enumerate(whole)) * rest
        found.giant += float(np.sum((-2 * (once * (mean - m[:, None]) - twice) + last).imag))


def _passed(poly: Polynomial, h: _Cell, giants: float, main: Complexes, start: Complexes) -> Complexes:
    """E[R] of every k. With nobody kept (k = 0) S = 0 < C and R = 0: the factor s, which k >= 1 divides out, has no period there,
    and the kernel of P(S >= C) serves (0, or -1 below t0).
    """
    if giants > 0:
        return np.asarray(sum(a * h.once(k + giants) for k, a in enumerate(poly)) * main)
    return np.asarray(sum((a * h.once(k) for k, a in enumerate(poly) if k > 0), 0.0) * main + poly[0] * start)


def _forms(total: float) -> tuple:  # type: ignore[type-arg]
    return passed(total).form, squared(total).form, remainder(total), at_least(total).form


class _Cell:
    """h_1(k), h_2(k) and e^{-sk}/k, each made once."""

    def __init__(self, s: Complexes) -> None:
        self._s = s
        self._made: dict[float, tuple[Complexes, Complexes, Complexes]] = {}

    def _of(self, k: float) -> tuple[Complexes, Complexes, Complexes]:
        if k not in self._made:
            z = self._s * k
            e = np.exp(-z)
            if k == 0:
                raise ValueError("with nobody kept there is nothing to integrate over u")
            # |z| >= |tau| k: no cancellation worth a digit beyond those of 1/z^2
            self._made[k] = (-np.expm1(-z) / z, (-np.expm1(-z) - z * e) / z**2, e / k)
        return self._made[k]

    def once(self, k: float) -> Complexes:
        return self._of(k)[0]

    def twice(self, k: float) -> Complexes:
        return self._of(k)[1]

    def end(self, k: float) -> Complexes:
        return self._of(k)[2]


def _times(poly: Polynomial, below: Complexes, kept: Complexes) -> Polynomial:
    """poly * (below + w kept)."""
    low = [a * below for a in poly]
    high = [a * kept for a in poly]
    return [low[0], *(a + b for a, b in zip(low[1:], high[:-1], strict=True)), high[-1]]


Factor = tuple[Complexes, Complexes, int]


def _without(factors: list[Factor], outer: Polynomial, offset: int = 0) -> Iterator[tuple[int, Polynomial]]:
    """For each distinct entity the product without one copy of it."""
    cancel.check()
    if len(factors) == 1:
        below, kept, times = factors[0]
        for _ in range(times - 1):
            outer = _times(outer, below, kept)
        yield offset, outer
        return
    middle = len(factors) // 2
    for mine, others, place in ((factors[:middle], factors[middle:], 0), (factors[middle:], factors[:middle], middle)):
        inner = outer
        for below, kept, times in others:
            for _ in range(times):
                inner = _times(inner, below, kept)
        yield from _without(mine, inner, offset + place)
