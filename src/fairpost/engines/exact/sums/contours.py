"""Contour integrals of e^{-sC} prod psi_j(s, t), with one entity's factor left out or replaced, at every t of a rule."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

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
    """What multiplies e^{-sC} prod psi_j / psi_i, and its residue at s = 0 (where prod psi = 1)."""

    form: Callable[[Complexes], Complexes]
    residue: float


def one_over_s(s: Complexes) -> Complexes:
    """P(H > C)."""
    return 1 / s


@dataclass(frozen=True)
class Values:
    """At each t (rows): for every kernel and count the integral without that count; with all, what `extra` picked."""

    without: list[Floats]
    extra: list[Floats]
    alive: float
    """The largest part of the peak that was left at the end of a contour."""
    nodes: int


def reach(e: Entities, places: Places, tau: Floats, width: Floats, top: float) -> float:
    """The u at which the product has died out on every contour tau + i (4/width) sinh u; inf where it does not by `top`."""
    foot = product(e, places, tau[:, None].astype(np.complex128))
    for u in (1.6, 2.0, 2.5, 3.0, 3.6, 4.3, 5.0, 6.0):
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
    return np.minimum(np.min(lost, axis=1), 0.0)


Extra = Callable[[Product, Complexes, slice], Sequence[Complexes]]


def invert(
    e: Entities, places: Places, tau: Floats, width: Floats, end: float, step: float, kernels: Sequence[Kernel],
    extra: Extra | None, residues: Callable[[slice], Sequence[Floats]] | None, periodic: bool = False,
) -> Values:  # fmt: skip
    """(1/2 pi i) int kernel(s) e^{-sC} prod_{j != i} psi_j ds for each t, count i and kernel.

    `extra` gives arrays that multiply e^{-sC} prod psi_j ds, and `residues` their residues at s = 0. The contour is
    s = tau + i (4/width) sinh u, by the trapezoidal rule; what the pole at 0 adds to it is taken off again.
    """
    u = np.arange(0.0, end + step, step)
    rows = max(1, BLOCK // (u.size * max(e.y.size, 1)))
    blocks = [slice(a, min(a + rows, tau.size)) for a in range(0, tau.size, rows)]
    without = [np.empty((tau.size, e.y.size)) for _ in kernels]
    made: list[list[Floats]] = [[] for _ in blocks]
    alive = np.zeros(len(blocks))

    def some(which: slice) -> None:
        for at in range(which.start, which.stop):
            b = blocks[at]
            scale = (4 / width[b])[:, None]
            s = tau[b][:, None] + 1j * scale * np.sinh(u)
            found = product(e, places.at(b), s)
            q = np.exp(found.log) * (1j * scale * np.cosh(u) * (step / math.pi))
            q[:, 0] *= 0.5
            alive[at] = np.max(np.abs(q[:, -1]) / np.maximum(np.max(np.abs(q), axis=1), 1e-300))
            ratio = tau[b] * width[b] / 4
            v = np.arcsin(np.clip(ratio, -1.0, 1.0))
            turns = 2 * np.pi * np.abs(v) / step
            pole = np.where(np.abs(ratio) < 1, np.sign(tau[b]) / np.expm1(np.minimum(turns, 700.0)), 0.0)
            for k, kernel in enumerate(kernels):
                weighted = (q * kernel.form(s))[:, None, :]
                without[k][b] = np.matmul(weighted, found.one)[:, 0].imag - pole[:, None] * kernel.residue
            if extra is not None and residues is not None:
                values = [
                    (np.einsum("tl,tlx->tx", q, part) if part.ndim == 3 else np.sum(q * part, axis=1)[:, None]).imag
                    for part in extra(found, s, b)
                ]
                made[at] = [v - pole[:, None] * r for v, r in zip(values, residues(b), strict=True)]

    over_slices(some, len(blocks), None if len(blocks) > 1 else 1)
    joined = [np.concatenate(part) for part in zip(*made, strict=True)] if extra is not None else []
    return Values(without, joined, float(alive.max(initial=0.0)), int(u.size * tau.size))
