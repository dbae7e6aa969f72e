"""The simulation of a hierarchy as a job of the simulator: what a block of runs draws, and what blocks add up to.

A block adds its runs up in order, and stripes of leaves are fixed by the tree. On threads and on a GPU the leaves' sums are added in
place, block by block, so that there is one set of them however many work; elsewhere a block comes with sums of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpost.engines.montecarlo.executors import Results, in_order, within_memory
from fairpost.engines.montecarlo.simulation import Block, Job, Simulation, on
from fairpost.errors import ParameterError, UnsupportedError
from fairpost.hierarchy.spec import PIECE, Spec, Summed

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Map = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]


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

    def __init__(self, spec: Summed) -> None:
        self.cells = spec.cells
        self.tally = np.zeros(2, dtype=np.int64)
        self.upper = np.zeros((3, spec.inner))
        self.leaves = np.zeros((3, spec.n))
        self.unions = np.zeros((2, len(spec.cells.unions)))
        self.areas = [np.zeros((5, len(d.names))) for d in spec.divisions]

    def add(self, part: Partial) -> None:
        """The next block. Unions keep the mean over runs and the squares between blocks (Chan, Golub and LeVeque 1979)."""
        done, more = float(self.tally[0]), float(part.runs)
        if part.upper is not None:
            self.upper += part.upper
        if part.leaves is not None:
            self.leaves += part.leaves
        step = self.cells.sums(part.cells) / more - self.unions[0]
        self.unions[0] += step * (more / (done + more))
        self.unions[1] += step * step * (done / (done + more) * more)
        for held, new in zip(self.areas, part.areas, strict=True):
            np.add(held, new, out=held)
        self.tally += (part.runs, 1)

    def state(self) -> dict[str, Any]:
        """The arrays that change, by name."""
        held = {name: getattr(self, name) for name in ("tally", "upper", "leaves", "unions")}
        return held | {f"areas{k}": sums for k, sums in enumerate(self.areas)}


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
        run = np.uint64(block.first + t)
        draw.draw_nodes(spec.kind, spec.spreads, spec.guides, spec.cuts, spec.offsets, np.uint64(seed), run, y)
        y += spec.x
        z[last:] = y[last:]
        rules.pool_up(spec.child, spec.offsets, spec.s2, spec.W, y, z, S, False)
        rules.gls_down(spec.child, spec.offsets, V, spec.W, z, S, u, spec.offsets.size - 3)
        rules.joint(spec.child, spec.offsets, spec.top, spec.s2, y, v, work, K)
        linear_moments(v[:last], u[:last], spec.x[:last], spec.whole, upper)
        kernel.joint_leaves(
            spec.child, first, last, last, y, v, u, spec.x[last:], spec.offset[last:], spec.m, spec.P, spec.whole, r, leaves
        )  # fmt: skip
        for d, division in enumerate(spec.divisions):
            kernel.scatter_areas(v[last:], spec.x[last:], r, division.labels[None], runs[d][t][None])
    cells = np.zeros(spec.cells.counts.size)
    kernel.sum_cells(leaves[0], spec.cells.labels, cells)
    return Partial(block.runs, upper, leaves, cells, tuple(_over_runs(held) for held in runs))


def run_blocks(spec: Spec, seed: int, blocks: Iterable[Block]) -> list[Partial]:
    """Blocks on their own, leaves included: what a worker of a cluster does."""
    return [_whole_block(spec, seed, block) for block in blocks]


def _whole_block(spec: Spec, seed: int, block: Block) -> Partial:
    if spec.rule == "joint":
        return joint_part(spec, seed, block)
    planes = np.zeros((3, spec.n))
    part = leaf_part(spec, seed, block, upper_part(spec, seed, block), planes)
    return Partial(part.runs, part.upper, planes, part.cells, part.areas)


class TreeJob(Job):
    """One rule on every node of a tree."""

    atomic = False

    def __init__(self, how: Simulation, spec: Spec) -> None:
        if how.backend == "gpu" and how.cluster is not None:
            raise ParameterError("a hierarchy is simulated on a cluster or on this machine's GPU, got both")
        self.how, self.spec, self.totals, self.block = how, spec, Totals(spec), spec.block
        self.device, self.where = _device(how, spec)
        # With the joint rule each thread has the nodes of a whole block of its own, 14 numbers a node; the other rules share them.
        alone = spec.rule == "joint" and how.cluster is None
        self.threads, self.fewer = within_memory(how.threads, 8 * 14 * spec.x.size if alone else 1)
        self.runner: Any = None

    @property
    def tally(self) -> Any:
        """See `Job`."""
        return self.totals.tally

    def about(self) -> Iterable[Any]:
        """See `Job`; the device decides the last bits."""
        s = self.spec
        about = (
            "tree",
            self.device,
            s.top,
            s.kind,
            s.rule,
            s.whole,
            s.child,
            s.offsets,
            s.x,
            s.spreads,
            s.taus,
            s.steeps,
        )
        return *about, s.cells.labels, s.divisions

    def state(self) -> dict[str, Any]:
        """See `Job`. On a GPU the sums of nodes stay there until they are asked for."""
        if self.runner is not None:
            self.runner.fetch(self.totals)
        return self.totals.state()

    def add(self, part: Partial) -> None:
        """See `Job`."""
        self.totals.add(part)

    @contextmanager
    def session(self) -> Iterator[Results]:
        """See `Job`. The joint rule sees all nodes at once: a block per thread."""
        if self.device == "gpu":
            yield from self._on_gpu()
        elif self.how.cluster is not None or self.spec.rule == "joint":
            with on(self.how, self.threads, run_blocks, self.spec) as results:
                yield results
        else:
            with ThreadPoolExecutor(self.threads) as pool:
                yield self._on_threads(pool)

    def _on_threads(self, pool: ThreadPoolExecutor) -> Results:
        """Block by block; the inner nodes of the next one are computed while this one's leaves are."""
        spec, seed = self.spec, int(self.how.seed)

        def each(task: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
            futures = [pool.submit(task, item) for item in items]
            return (future.result() for future in futures)

        def leaves(one: tuple[Block, Upper]) -> Partial:
            return leaf_part(spec, seed, *one, self.totals.leaves, each)

        def pooled(blocks: Iterable[Block]) -> Iterator[tuple[Block, Upper]]:  # its inner nodes need all threads
            return ((block, upper_part(spec, seed, block, each)) for block in blocks)

        ahead = in_order(
            lambda block: pool.submit(upper_part, spec, seed, block),
            lambda block, upper: (block, upper.result()),
            2,
            lambda upper: upper.cancel(),
        )
        uppers: Results = pooled if spec.rule == "pooled" else ahead

        def results(batches: Iterable[tuple[Block, ...]]) -> Iterator[Iterator[Partial]]:
            for one in uppers(block for (block,) in batches):
                taken = [one]
                del one  # nobody holds a block's inner nodes while those after the next one are computed
                yield (leaves(taken.pop()) for _ in range(1))

        return results

    def _on_gpu(self) -> Iterator[Results]:
        """Some blocks at a time."""
        from fairpost.engines.montecarlo.backends.gpu.device import gpu
        from fairpost.hierarchy.gpu.runner import TreeRunner

        self.runner = TreeRunner(self.spec, gpu(), int(self.how.seed), self.totals)
        self.blocks_at_once = self.runner.blocks
        yield lambda batches: (_run_later(self.runner, batch) for batch in batches)
        self.state()
        self.runner = None


def _run_later(runner: Any, blocks: tuple[Block, ...]) -> Iterator[Partial]:
    yield from runner.run(list(blocks))


def _device(how: Simulation, spec: Spec) -> tuple[str, str | None]:
    """cpu or gpu, and a word on it for the note."""
    from fairpost.hierarchy.gpu.runner import covers

    if how.backend != "auto":
        return how.backend, None if how.backend == "cpu" else "on the GPU"
    try:
        if how.cluster is not None:
            raise UnsupportedError("a cluster was asked for")
        covers(spec)
    except UnsupportedError as error:
        return "cpu", f"on the CPU: {error}"
    return "gpu", "on the GPU"


__all__ = ["Block", "Simulation", "TreeJob"]
