"""Contour integrals of e^{-sC} prod psi_j(s, t), with one entity's factor left out or replaced, at every t of a rule."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairpost import cancel
from fairpost.engines.exact.sums.factors import Complexes
from fairpost.engines.exact.sums.population import Entities, Places, Product, product
from fairpost.engines.moments import Floats
from fairpost.parallel import over_slices

QUIET = 36.0
"""A contour ends where the integrand is e^-QUIET of its value on the real axis."""
BLOCK = 400_000
"""Entries of one array of (t, s, count)."""


@dataclass(frozen=True)
class Kernel:
    """What multiplies e^{-sC} prod psi_j / psi_i at s and some of the t, and its residue at s = 0 (where prod psi = 1)."""

    form: Callable[[Complexes, slice], Complexes]
    residue: float


CHANCE = Kernel(lambda s, which: 1 / s, 1.0)
"""P(H > C)."""


@dataclass(frozen=True)
class Values:
    """At each t (rows): for every kernel and count the integral without that count; with all, what `extra` picked."""

    without: list[Floats]
    extra: list[Floats]
    nodes: int


def reach(e: Entities, places: Places, tau: Floats, width: Floats, top: float) -> float:
    """The u at which the product has died out on every contour tau + i (4/width) sinh u; inf where it does not by `top`."""
    foot = product(e, places, tau[:, None].astype(np.complex128))
    for u in (1.6, 2.0, 2.5, 3.0, 3.6, 4.3, 5.0, 6.0):
        cancel.check()
        height = 4 / width * math.sinh(u)
        if np.any(height > top):
            return math.inf
        there = product(e, places, (tau + 1j * height)[:, None])
        if np.all((there.log - foot.log).real - _largest(there, foot) < -QUIET):
            return u
    return math.inf


def _largest(there: Product, foot: Product) -> Floats:
    """The most that leaving one entity out can take away from the decay."""
    with np.errstate(divide="ignore"):
        lost = np.log(np.abs(foot.one[:, 0])) - np.log(np.abs(there.one[:, 0]))
    return np.asarray(np.minimum(np.min(lost, axis=1), 0.0))


@dataclass(frozen=True)
class Upright:
    """A contour for each t, s = tau + i (4/width) sinh u up to u = end: many entities make the product die out like a bell.

    On s(u), u = iv meets s = 0 at sin v = tau width / 4; the rule is off by sign(tau) / (e^{2 pi |v| / step} - 1).
    """

    tau: Floats
    width: Floats
    end: float
    step: float

    @property
    def size(self) -> int:
        """Nodes on one contour."""
        return math.ceil(self.end / self.step) + 1

    def at(self, which: slice) -> tuple[Complexes, Complexes, Floats]:
        """For some of the t: nodes s, weights ds (over pi; the imaginary part is taken), what a pole of residue 1 at s = 0 adds."""
        u = self.step * np.arange(self.size)
        tau, scale = self.tau[which], 4 / self.width[which]
        s = tau[:, None] + 1j * scale[:, None] * np.sinh(u)
        ds = 1j * scale[:, None] * np.cosh(u) * (self.step / math.pi)
        ds[:, 0] *= 0.5
        turns = 2 * np.pi * np.abs(np.arcsin(np.clip(tau / scale, -1.0, 1.0))) / self.step
        extra = np.sign(tau) / np.expm1(np.minimum(turns, 700.0))
        return s, ds, np.where(np.abs(tau) < scale, extra, 0.0)


Extra = Callable[[Product, Complexes, slice], Sequence[tuple[Complexes, Any]]]


def invert(e: Entities, places: Places, path: Upright, kernels: Sequence[Kernel], extra: Extra | None = None) -> Values:
    """(1/2 pi i) int kernel(s) e^{-sC} prod_{j != i} psi_j ds for each t, count i and kernel.

    `extra` gives arrays that multiply e^{-sC} prod psi_j ds, each with its residue at s = 0.
    """
    tau, size = path.tau, path.size
    rows = max(1, BLOCK // (size * max(e.y.size, 1)))
    blocks = [slice(a, min(a + rows, tau.size)) for a in range(0, tau.size, rows)]
    without = [np.empty((tau.size, e.y.size)) for _ in kernels]
    made: list[list[Floats]] = [[] for _ in blocks]

    def some(which: slice) -> None:
        for at in range(which.start, which.stop):
            cancel.check()
            b = blocks[at]
            s, ds, pole = path.at(b)
            found = product(e, places.at(b), s)
            q = np.exp(found.log) * ds
            for k, kernel in enumerate(kernels):
                weighted = (q * kernel.form(s, b))[:, None, :]
                without[k][b] = np.matmul(weighted, found.one)[:, 0].imag - pole[:, None] * kernel.residue
            if extra is not None:
                for part, residue in extra(found, s, b):
                    each = np.matmul(q[:, None, :], part if part.ndim == 3 else part[:, :, None])[:, 0]
                    made[at].append(each.imag - pole[:, None] * residue)

    over_slices(some, len(blocks), None if len(blocks) > 1 else 1)
    joined = [np.concatenate(part) for part in zip(*made, strict=True)] if extra is not None else []
    return Values(without, joined, size * tau.size)
