"""`simplex-threshold` under whole-number noise where few share the total: every cell over a whole period of s, as in `cells`.

At t' = m + f the sum H is U - f G, with S = sum (X_j - m)_+, A = #{X_j > m} and J = #{X_j = m + 1}, those on the ramp,

    U = S + tau A,   G = A + tau J,   and r + tau passes the cell as far as R = min((U - C)_+ / G, 1).

S is whole, and tau A and tau J are known once A and J are. So for each (A, J) the sum over S is closed: with c = C - tau A and
B_k(c) = sum_{S > c} (S - c)^k e^{-sS}

    sum_S R e^{-sS} = (B_1(c) - B_1(c + G)) / G,
    sum_S R^2 e^{-sS} = (B_2(c) - B_2(c + G) - 2 G B_1(c + G)) / G^2,

and the sum over (A, J) comes from points of two circles, one for each:

    prod_j (below_j + w e^{s tau} (kept_j - point_j + w' point_j)),   point_j = e^s P(X_j = m + 1).

No ripple is left out here. With t' in place of t the integrals are those of `release`: an entity that is cut, one that is kept (A is one
more) and one on the ramp (A and J are one more) stand in the place of a factor.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import ClassVar

import numpy as np

from fairpost.engines.exact.lattice import period
from fairpost.engines.exact.lattice.cells import EPS, Chunk, Sums, affordable, tilts, together
from fairpost.engines.exact.lattice.period import Circle, Period
from fairpost.engines.exact.sums.factors import Complexes, parts
from fairpost.engines.exact.sums.population import Entities, Places, line, mass_at
from fairpost.engines.moments import Floats

NEAR = 1e-9
"""What a sum of multiples of the threshold may be off a whole number and be one."""


@dataclass(frozen=True)
class Ramp:
    """The start of the ramp, and the total's fraction: c and C - tau A matter but for a whole number, and a giant total would round them."""

    tau: float
    total: float

    @classmethod
    def of(cls, tau: float, total: float) -> Ramp:
        """For a total of any size."""
        return cls(tau, total - math.floor(total))


@dataclass(frozen=True)
class _Chunk(Chunk):
    """With points for J."""

    edge: Circle
    fixed: ClassVar[float] = 30.0

    @property
    def points(self) -> int:
        """Of both circles."""
        return self.circle.size * self.edge.size


def cells(e: Entities, m: Floats, tau: Floats, safety: float, ramp: Ramp) -> Sums:
    """The integrals over the cells m of t'; where tau < 0 probabilities are taken less 1."""
    full, none = np.full_like(m, ramp.tau), np.zeros_like(m)
    tau, many = tilts(e, (Places(m, full, full + 1), Places(m, full - 1, none)), tau, safety)
    end, kept, edge = _looks(e, m, tau, safety, ramp)
    chunks: list[Chunk] = [
        _Chunk(m[here], path, Circle.around(kept[0][here], kept[1][here]), Circle.around(edge[0][here], edge[1][here]))
        for here, path in together(tau, many, end)
    ]
    found, forms = Sums.empty(e.y.size), lru_cache(1)(partial(_Forms.of, giants=e.giants, ramp=ramp))
    for chunk in affordable("simplex-threshold", e, chunks, safety):
        assert isinstance(chunk, _Chunk)
        _add(e, chunk, ramp, forms(chunk.path, chunk.circle, chunk.edge), found)
    return found


Range = tuple[Floats, Floats]


def _looks(e: Entities, m: Floats, tau: Floats, safety: float, ramp: Ramp) -> tuple[Floats, Range, Range]:
    """For each cell: Im s at which the product has died out in modulus, and the ranges of A and J until then."""
    s = tau[:, None] + 1j * np.concatenate([[0.0], period.LOOKS])
    p = parts(e.noise, (m[:, None] - e.y)[:, None, :], s[:, :, None])
    swell = period.swell(tau)[:, None, None]
    grown = np.exp(swell + tau[:, None, None] * ramp.tau)
    point = mass_at(e, m + 1)[:, None, :] * p.shift * np.exp(s)[:, :, None]
    below, edge = np.abs(p.below), np.abs(point) * grown * np.exp(swell * ramp.tau)
    kept = np.abs(p.kept - point) * grown
    lift = tau * (p.depth[:, 0] @ e.weight - e.rest + e.giants * (ramp.tau - m)) + e.giants * swell[:, 0, 0]
    log = np.log(below + kept + edge) @ e.weight + lift[:, None] + e.giants * line(e.noise, s)[0].real
    alive = log - np.minimum(log[:, :1], 0.0) + safety
    found = []
    for part, rest in ((kept + edge, below), (edge, below + kept)):
        low, high = period.ranges(part, rest, e.weight, alive + math.log(2))
        found.append((np.min(np.where(alive > 0, low, np.inf), axis=1), np.max(np.where(alive > 0, high, 0.0), axis=1)))
    return period.ends(alive[:, 1:]), found[0], found[1]


def _add(e: Entities, chunk: _Chunk, ramp: Ramp, forms: _Forms, found: Sums) -> None:
    """Some more cells."""
    m, path, g, tau = chunk.m, chunk.path, e.giants, ramp.tau
    s, pole, swell = path.s, path.pole, period.swell(path.tau)
    c, rise = m[:, None] - e.y, np.exp(s * tau)[:, None]
    p, still = parts(e.noise, c[:, None, :], s[None, :, None]), parts(e.noise, c, np.zeros((1, 1)))
    mass = mass_at(e, m + 1)
    edge = mass[:, None, :] * p.shift * np.exp(s)[:, None] * rise
    kept, first = p.kept * rise - edge, p.first * rise - edge
    w, other = chunk.circle.w * math.exp(swell), chunk.edge.w * math.exp(swell * tau)
    psi = p.below[..., None, None] + w[:, None] * (kept[..., None, None] + other * edge[..., None, None])
    psi = psi.reshape(*psi.shape[:3], -1)
    log, mean = line(e.noise, s)
    lift = s * (p.depth[:, 0] @ e.weight - e.rest + g * (tau - m))[:, None] + g * (log + swell)
    whole = period.whole(psi, e.weight, lift)
    sums = np.einsum("mskl,msil->mski", forms.rows * whole[:, :, None, :], 1 / psi)
    below = np.maximum(still.below, 1e-300)
    nobody = np.exp(np.log(below) @ e.weight) if g == 0 else np.zeros(m.size)
    less = (float(chunk.below) - pole) * nobody
    chance = np.sum(sums[:, :, 0] * p.shift, axis=1).imag - pole - less[:, None] / below
    beside = np.sum(sums[:, :, 4] * p.shift * (np.exp(s)[:, None] * rise), axis=1).imag - pole
    found.deficit += np.sum(still.below * chance - tau * mass * beside, axis=0)
    zero = np.sum(sums[:, :, 1] * p.shift, axis=1).imag - pole
    found.zero += np.sum(mass_at(e, m) * zero, axis=0)
    steep = 1 + tau
    own = sums[:, :, 3] * kept - 2 * sums[:, :, 2] * (first + (tau - e.y) * kept)
    own += edge * steep * (steep * sums[:, :, 5] - 2 * (steep - e.y) * sums[:, :, 4])
    rest, ahead = still.kept - mass, still.first - mass
    sure = rest - 2 * (ahead + (tau - e.y) * rest) + mass * steep * (steep - 2 * (steep - e.y))
    found.square += np.sum(np.sum(own, axis=1).imag - pole * sure, axis=0)
    root = np.einsum("msl,sl->ms", whole, forms.rows[:, 0])
    found.root += float(np.sum(np.sum(root, axis=1).imag - pole - less))
    if g > 0:
        giant = np.einsum("msl,sl->ms", whole, forms.giant) - 2 * root * (mean + tau - m[:, None])
        found.giant += float(np.sum(np.sum(giant, axis=1).imag - pole * (1 - 2 * (tau - m))))
    size = np.einsum("msl,s->m", np.abs(whole), forms.size) / psi.shape[-1]
    found.left += 8 * EPS * float(size @ np.max(still.below + tau * mass, axis=1))
    found.nodes += m.size * s.size


@dataclass(frozen=True)
class _Forms:
    """The kernels times ds at each s and pair of points."""

    rows: Complexes
    """E[R]; P(U >= C) at f = 0; E[R] and E[R^2] with one more kept; the same with one more on the ramp."""
    giant: Complexes
    """E[R^2]."""
    size: Floats
    """How large the terms of E[R] are, which rounding scales with."""

    @classmethod
    def of(cls, path: Period, circle: Circle, edge: Circle, giants: float, ramp: Ramp) -> _Forms:
        a, j, swell = (circle.k + giants)[:, None], edge.k, float(period.swell(path.tau))
        s, ds = path.s[:, None, None], path.ds[:, None, None]

        def points(values: Complexes) -> Complexes:
            inner = edge.weights(values * ds)
            both = np.swapaxes(circle.weights(np.swapaxes(inner, 1, 2)), 1, 2)
            return np.asarray(both.reshape(both.shape[0], -1))

        once, square, size = _ratios(s, a, j, ramp, swell)
        gap = ramp.total - ramp.tau * a
        start = np.exp(-s * (np.ceil(gap - NEAR) - gap)) / -np.expm1(-s) * np.exp(-swell * (a + ramp.tau * j))
        rows = [once, start]
        for more, on in ((1, 0), (1, 1)):
            one, two, _ = _ratios(s, a + more, j + on, ramp, swell)
            rows += [one * math.exp(swell * (more + ramp.tau * on)), two * math.exp(swell * (more + ramp.tau * on))]
        return cls(np.stack([points(r) for r in rows], axis=1), points(square), size * np.abs(path.ds))


def _ratios(s: Complexes, a: Floats, j: Floats, ramp: Ramp, swell: float) -> tuple[Complexes, Complexes, Floats]:
    """sum_S R e^{-sS} and sum_S R^2 e^{-sS} for each (A, J), over e^{-sc} and times rho^-G; and the largest term of the first at each s."""
    slope = a + ramp.tau * j
    some, g, base = a > 0, np.maximum(slope, 1.0), ramp.total - ramp.tau * a
    low, high = (c - np.floor(c) for c in (base, base + slope))
    near = np.exp(-swell * slope)
    far = np.exp(-s * slope) if swell == 0 else np.exp(-1j * s.imag * slope)  # e^{-sG} rho^-G
    (one, two), (one_end, two_end) = _sums(s, low), _sums(s, high)
    first = (one * near - far * one_end) / g * some
    second = (two * near - far * (two_end + 2 * g * one_end)) / g**2 * some
    return first, second, np.max(np.abs(one / g), axis=(1, 2))


def _sums(s: Complexes, d: Floats) -> tuple[Complexes, Complexes]:
    """e^{sc} B_1(c) and e^{sc} B_2(c), d the fraction of c."""
    half, tail = np.sinh(s / 2), 1 / np.expm1(s)
    lift = np.exp(s * d)
    first = 0.25 / half**2 - d * tail
    second = 0.25 * np.cosh(s / 2) / half**3 - 0.5 * d / half**2 + d * d * tail
    return lift * first, lift * second
