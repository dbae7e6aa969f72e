"""A block of runs: the unit of work that threads, a cluster and a checkpoint share, and the totals that blocks add up to.

Run r draws from stream (seed, r) alone. A block adds its runs up in order, stripes of leaves are fixed by the tree, and blocks are
added to the totals in order, so every bit is the same on any number of threads, on a cluster and after a resumption.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairpost.hierarchy.spec import PIECE, Spec

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Map = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]


class Block(NamedTuple):
    """Runs first, ..., first + runs - 1."""

    first: int
    runs: int


@dataclass(frozen=True, eq=False)
class Upper:
    """The inner nodes of a block: the values of the parents of leaves, a row a run, and the sums of all inner nodes."""

    V: Floats
    lin: Floats
    planes: Floats


@dataclass(frozen=True, eq=False)
class Partial:
    """What a block adds to the totals; `leaves` is None where the leaves' sums were added in place, `upper` likewise."""

    runs: int
    upper: Floats | None
    leaves: Floats | None
    cells: Floats
    areas: tuple[Floats, ...]
    """A division each: sums over runs of r, r^2, e, e^2 and r e of its areas."""


class Totals:
    """The blocks so far."""

    def __init__(self, spec: Spec) -> None:
        self.tally = np.zeros(2, dtype=np.int64)
        self.upper = np.zeros((3, spec.inner))
        self.leaves = np.zeros((3, spec.n))
        self.unions = np.zeros((2, len(spec.cells.unions)))
        self.areas = [np.zeros((5, len(d.names))) for d in spec.divisions]

    @property
    def runs(self) -> int:
        """Runs so far."""
        return int(self.tally[0])

    @property
    def blocks(self) -> int:
        """Blocks so far."""
        return int(self.tally[1])

    def add(self, spec: Spec, part: Partial) -> None:
        """The next block. Unions keep the mean over runs and the squares between blocks (Chan, Golub and LeVeque 1979)."""
        done, more = float(self.tally[0]), float(part.runs)
        if part.upper is not None:
            self.upper += part.upper
        if part.leaves is not None:
            self.leaves += part.leaves
        step = spec.cells.sums(part.cells) / more - self.unions[0]
        self.unions[0] += step * (more / (done + more))
        self.unions[1] += step * step * (done / (done + more) * more)
        for held, new in zip(self.areas, part.areas, strict=True):
            np.add(held, new, out=held)
        self.tally += (part.runs, 1)

    def state(self) -> dict[str, Any]:
        """The arrays that change, by name."""
        return {
            "tally": self.tally,
            "upper": self.upper,
            "leaves": self.leaves,
            "unions": self.unions,
            **{f"areas{k}": held for k, held in enumerate(self.areas)},
        }


def upper_part(spec: Spec, seed: int, block: Block, each: Map = map) -> Upper:
    """The inner nodes of a block; pooled rules first add up the leaves, stripe by stripe."""
    from fairpost.hierarchy.kernels.runs import leaf_totals
    from fairpost.hierarchy.kernels.upper import upper_block

    first, last = int(spec.offsets[-3]), int(spec.offsets[-2])
    shape = (block.runs, last - first)
    S = np.zeros((1, 1))
    if spec.rule == "pooled":
        S = np.empty(shape)

        def stripe(ends: tuple[int, int]) -> None:
            leaf_totals(
                spec.kind, float(spec.spreads[-1]), spec.guides[-1], spec.cuts[-1], np.uint64(seed), block.first,
                spec.child, first, *ends, spec.inner,
                spec.x[spec.inner :], PIECE, np.empty(_widest(spec, *ends)), S,
            )  # fmt: skip

        list(each(stripe, [s.ends for s in spec.layout]))
    V, lin, planes = np.empty(shape), np.empty(shape), np.zeros((3, spec.inner))
    upper_block(
        spec.kind, spec.spreads, spec.guides, spec.cuts, np.uint64(seed), block.first, spec.child, spec.offsets, spec.top, spec.x, spec.offset,
        spec.m, spec.P_above, spec.taus, spec.steeps, spec.whole, spec.rule == "pooled", spec.s2, spec.V, spec.W,
        np.empty((5, spec.inner)), S, V, lin, planes,
    )  # fmt: skip
    return Upper(V, lin, planes)


def _widest(spec: Spec, a: int, b: int) -> int:
    """Room for a piece of one stripe: PIECE leaves, or its largest family."""
    return max(PIECE, int(np.diff(spec.child[a : b + 1]).max()))


def leaf_part(spec: Spec, seed: int, block: Block, upper: Upper, planes: Floats, each: Map = map) -> Partial:
    """The leaves of a block: their sums are added to `planes` in place, the rest is returned."""
    from fairpost.hierarchy.kernels import runs as kernel

    first = int(spec.offsets[-3])
    local = spec.layout

    def stripe(k: int) -> tuple[Floats, Floats]:
        (a, b), labels, width = local[k].ends, local[k].labels, local[k].width
        cells = np.zeros(spec.cells.counts.size)
        sums = np.zeros((len(spec.divisions), block.runs, 2, width))
        kernel.leaf_stripe(
            spec.kind, float(spec.spreads[-1]), spec.guides[-1], spec.cuts[-1], np.uint64(seed), block.first,
            spec.child, first, a, b, spec.inner,
            spec.x[spec.inner :], spec.offset[spec.inner :], spec.m, spec.P, spec.taus[-1:], float(spec.steeps[-1]),
            spec.whole, upper.V, upper.lin, PIECE, np.empty((7, _widest(spec, a, b))), planes, spec.cells.labels, cells,
            labels, sums,
        )  # fmt: skip
        return cells, sums

    cells = np.zeros(spec.cells.counts.size)
    runs = [np.zeros((block.runs, 2, len(d.names))) for d in spec.divisions]
    for k, (more, sums) in enumerate(each(stripe, range(len(local)))):
        cells += more
        for d, names in enumerate(local[k].areas):
            runs[d][:, :, names] += sums[d][:, :, : names.size]
    return Partial(block.runs, upper.planes, None, cells, tuple(_over_runs(held) for held in runs))


def _over_runs(sums: Floats) -> Floats:
    """Sums of r, r^2, e, e^2 and r e over the runs of a block."""
    r, e = sums[:, 0], sums[:, 1]
    return np.stack([part.sum(axis=0) for part in (r, r * r, e, e * e, r * e)])


def joint_part(spec: Spec, seed: int, block: Block) -> Partial:
    """A block of the joint rule, which sees all nodes at once."""
    from fairpost.hierarchy.kernels import draw, rules
    from fairpost.hierarchy.kernels import runs as kernel
    from fairpost.hierarchy.kernels.upper import linear_moments

    first, last, nodes = int(spec.offsets[-3]), spec.inner, spec.x.size
    y, v, u, z = (np.empty(nodes) for _ in range(4))
    V = np.concatenate([spec.V, np.full(spec.n, spec.s2[-1])])
    S, work, K = np.empty(last), np.empty((4, last)), np.empty(last - first, dtype=np.int64)
    upper, leaves, r = np.zeros((3, last)), np.zeros((3, spec.n)), np.empty(spec.n)
    runs = [np.zeros((block.runs, 2, len(d.names))) for d in spec.divisions]
    for t in range(block.runs):
        draw.draw_nodes(
            spec.kind,
            spec.spreads,
            spec.guides,
            spec.cuts,
            spec.offsets,
            np.uint64(seed),
            np.uint64(block.first + t),
            y,
        )
        y += spec.x
        z[last:] = y[last:]
        rules.pool_up(spec.child, spec.offsets, spec.s2, spec.W, y, z, S, False)
        rules.gls_down(spec.child, spec.offsets, V, spec.W, z, S, u, spec.offsets.size - 3)
        rules.joint(spec.child, spec.offsets, spec.top, spec.s2, y, v, work, K)
        linear_moments(v[:last], u[:last], spec.x[:last], spec.whole, upper)
        kernel.joint_leaves(
            spec.child,
            first,
            last,
            last,
            y,
            v,
            u,
            spec.x[last:],
            spec.offset[last:],
            spec.m,
            spec.P,
            spec.whole,
            r,
            leaves,
        )
        for d, division in enumerate(spec.divisions):
            kernel.scatter_areas(v[last:], spec.x[last:], r, division.labels[None], runs[d][t][None])
    cells = np.zeros(spec.cells.counts.size)
    kernel.sum_cells(leaves[0], spec.cells.labels, cells)
    return Partial(block.runs, upper, leaves, cells, tuple(_over_runs(held) for held in runs))


def run_block(spec: Spec, seed: int, block: Block) -> Partial:
    """One block on its own, leaves included: what a worker of a cluster does."""
    if spec.rule == "joint":
        return joint_part(spec, seed, block)
    planes = np.zeros((3, spec.n))
    part = leaf_part(spec, seed, block, upper_part(spec, seed, block), planes)
    return Partial(part.runs, part.upper, planes, part.cells, part.areas)
