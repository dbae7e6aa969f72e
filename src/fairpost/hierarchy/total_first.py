"""Totals first: the totals over cells are reconciled from the top down, then each family's cells under both constraints.

Each node has K cells, measured with the noise of the cells, and a total, measured with noise of its own. Down the tree, level by level:

1. the totals T_c of the children, by the rule for one count per node (`TopDown`), which does not look at the cells;
2. their cells v_ck >= 0, nearest to the measurements, with sum_k v_ck = T_c and sum_c v_ck = v_pk, the parent's cell (`kernels.transport`).

So the totals are those of a tree of their own, and a cell that is 0 in a parent is 0 in its children. This is the order of the 2020
system, which holds `total` within the smallest tolerance that can be met; here both constraints can always be met, and are.

With `pool` ("blue-down") both passes take least-squares estimates of the levels below as well, with their variances as weights. A
threshold, the joint optimum and rounding are not covered, and refused by name.

The audit makes runs of both passes, with the controls of `kernels.cells`. Whatever the controls' constants are, the estimate has
no bias. They come from a pilot, runs of streams that the audit does not use: the thresholds m are the mean multipliers of 16 runs,
the coefficients those of least squares over 48 more (which leaves a variance about 4/43 above the least). The totals' thresholds
are those of mean field.

Run r of seed s draws cell k from stream (s_k, r) and the totals from stream (s_K, r), so the totals' own audit (`audit_hierarchy` with
seed s_K) has the same totals run by run. Blocks are pure functions of their runs and are added in order: the bits do not depend on
threads.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairpost import cancel
from fairpost.engines.montecarlo.executors import Results, within_memory
from fairpost.engines.montecarlo.simulation import Block, Job, Simulation, on, simulate
from fairpost.errors import CountsError, ParameterError, ToleranceError, UnsupportedError
from fairpost.hierarchy.audit import _groups, by_simulation, estimates, note_of
from fairpost.hierarchy.levels import LevelNoise
from fairpost.hierarchy.meanfield import mean_field, tails_of
from fairpost.hierarchy.result import HierarchyAudit
from fairpost.hierarchy.rules import Pooling, TopDown, TreeRule, _checked
from fairpost.hierarchy.simulation import Partial, Totals, _over_runs
from fairpost.hierarchy.spec import Cells, Division, Summed, block_runs, division_of, guides_of
from fairpost.hierarchy.tree import Hierarchy

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
TOLERANCE = 1e-9
"""What a family's cells may be off, relative to its parent's total (or 1): larger is an error, 1e-14 is usual."""
EXACT = 1e-9
"""What exact cells and their exact total may differ by, relative to it."""
COVERED = {"top-down": False, "blue-down": True}
"""The rules, and whether they pool."""
PILOT = (16, 48)
"""Runs from which the controls take their thresholds and their coefficients."""
ELSEWHERE = 2**63
"""The first run of the pilot: an audit has fewer."""


@dataclass(frozen=True, eq=False)
class TotalFirst:
    """The rule: totals first, then cells.

    Parameters
    ----------
    cells
        The noise of every cell.
    totals
        The noise of the totals. They are exact on every level whose cells are.
    pool
        False: "top-down", a level's measurements alone. True: "blue-down".

    """

    cells: LevelNoise
    totals: LevelNoise
    pool: bool = False

    def __post_init__(self) -> None:
        if self.totals.tree is not self.cells.tree:
            raise ParameterError("cells and their totals must be about the same hierarchy, got two")
        if self.totals.top < self.cells.top:
            name = self.tree.names[self.cells.top]
            raise ParameterError(
                f"totals must be exact where cells are, got exact cells and noisy totals on level {name!r}"
            )
        if not (self.cells.measured and self.totals.measured):
            raise UnsupportedError("totals first needs a root that is known or measured, got one that is neither")

    @classmethod
    def of(cls, rule: TreeRule, cells: LevelNoise, totals: LevelNoise) -> TotalFirst:
        """By a rule for one count per node; one that is not covered is named."""
        if rule.label not in COVERED or rule.whole:
            name = f"{rule.label} in whole numbers" if rule.whole else rule.label
            raise UnsupportedError(f"totals first covers {' and '.join(COVERED)}, not {name}: choose one of these")
        if rule.tree is not cells.tree:
            raise ParameterError("a rule and its noise must be about the same hierarchy, got two")
        return cls(cells, totals, COVERED[rule.label])

    @property
    def tree(self) -> Hierarchy:
        """The hierarchy."""
        return self.cells.tree

    def apply(self, totals: ArrayLike, cells: ArrayLike) -> tuple[Floats, Floats]:
        """Measurements of the totals (one a node) and of the cells (nodes x cells) to totals and cells that fit together."""
        y = _checked(self.tree, totals)
        z = np.ascontiguousarray(cells, dtype=np.float64)
        if y.ndim != 1 or z.ndim != 2 or len(z) != self.tree.nodes or z.shape[1] < 1 or not np.isfinite(z).all():
            raise CountsError(
                f"measurements must be finite, a total and a row of cells for each of {self.tree.nodes} nodes, got shape {z.shape}"
            )
        known = int(self.tree.offsets[self.cells.top + 1])
        off = np.flatnonzero(np.abs(z[:known].sum(axis=1) - y[:known]) > EXACT * np.maximum(1.0, np.abs(y[:known])))
        if off.size:
            raise CountsError(
                f"exact cells must add up to their total, got {z[off[0]].sum():.12g} and {y[off[0]]:.12g} for node {off[0]}"
            )
        passes = Passes(self, z.shape[1])
        passes.totals(y)
        for k in range(z.shape[1]):
            passes.take(k, np.ascontiguousarray(z[:, k]))
        passes.down()
        return passes.T, passes.v


class Passes:
    """The two passes, with room for one run. What they leave: T, v, and without v >= 0 t, u; z and the multipliers mu."""

    def __init__(self, rule: TotalFirst, many: int) -> None:
        tree = rule.tree
        self.rule, self.tree = rule, tree
        nodes, inner = tree.nodes, int(tree.offsets[-2])
        self.T, self.t, self.S, self.pooled = np.empty(nodes), np.empty(nodes), np.empty(inner), np.empty(nodes)
        self.z, self.v, self.u, self.mu = (np.empty((nodes, many)) for _ in range(4))
        equal = Pooling(np.ones(nodes), np.diff(tree.child).astype(np.float64))
        self.for_cells = Pooling.of(rule.cells) if rule.pool else equal
        self.for_totals = Pooling.of(rule.totals) if rule.pool else equal
        widest = int(np.diff(tree.child).max(initial=1))
        self.room = (
            np.empty((11, max(widest, many))),
            np.empty(widest * many),
            np.empty(min(widest, many) ** 2),
            np.empty(widest + many, dtype=np.int64),
            np.empty(2),
        )

    def _up(self, noise: LevelNoise, pooling: Pooling, y: Floats) -> Floats:
        """The estimates from below; without pooling the measurements themselves, and the sums over families."""
        from fairpost.hierarchy.kernels.rules import pool_up

        tree = self.tree
        if not self.rule.pool:
            for level in range(tree.depth):
                here, below = tree.span(level), tree.span(level + 1)
                np.add.reduceat(y[below], tree.child[here] - below.start, out=self.S[here])
            return y
        self.pooled[int(tree.offsets[-2]) :] = y[int(tree.offsets[-2]) :]
        pool_up(tree.child, tree.offsets, noise.variances, pooling.W, y, self.pooled, self.S, False)
        return self.pooled

    def totals(self, y: Floats) -> None:
        """The first pass: T and the unclipped t."""
        from fairpost.hierarchy.kernels.rules import gls_down, pooled_down, top_down

        tree, noise, zeros = self.tree, self.rule.totals, np.zeros(len(self.tree.names))
        z = self._up(noise, self.for_totals, y)
        gls_down(tree.child, tree.offsets, self.for_totals.V, self.for_totals.W, z, self.S, self.t, tree.depth)
        if self.rule.pool:
            V = self.for_totals.V
            pooled_down(tree.child, tree.offsets, noise.top, z, V, zeros, zeros + 1.0, self.T, tree.depth)
        else:
            top_down(tree.child, tree.offsets, noise.top, z, zeros, zeros + 1.0, self.T)

    def take(self, k: int, y: Floats) -> None:
        """The measurements of cell k."""
        self.z[:, k] = self._up(self.rule.cells, self.for_cells, y) if self.rule.pool else y

    def down(self) -> None:
        """The second pass: v and mu. A family that is not solved to the tolerance is named."""
        from fairpost.hierarchy.kernels.cells import cells_down

        tree = self.tree
        w = self.for_cells.V
        cells_down(
            tree.child, tree.offsets, self.rule.cells.top, self.z, w, self.T, self.v, self.mu, *self.room
        )  # fmt: skip
        off, p = self.room[-1]
        if not off <= TOLERANCE:
            level = int(np.searchsorted(tree.offsets, int(p), side="right")) - 1
            name = "the root" if level == 0 else repr(tree.labels.text(level, int(p) - int(tree.offsets[level])))
            raise ToleranceError(f"the cells below {name} must fit to {TOLERANCE:g} of its total, got {off:.1e}")

    def linear(self) -> None:
        """Both passes without v >= 0: u of the cells, after t of the totals."""
        from fairpost.hierarchy.kernels.cells import cells_linear

        tree = self.tree
        w = self.for_cells.V
        cells_linear(tree.child, tree.offsets, self.rule.cells.top, self.z, w, self.t, self.u)


def cell_seed(seed: int, cell: int) -> int:
    """A seed for each cell: independent of the others, and of other seeds' cells."""
    return int(np.random.SeedSequence([seed, cell]).generate_state(1, np.uint64)[0])


@dataclass(frozen=True, eq=False)
class Draws:
    """The noise of one tree as the kernels want it."""

    kind: int
    spreads: Floats
    guides: NDArray[np.uint8]
    cuts: Floats

    @classmethod
    def of(cls, noise: LevelNoise) -> Draws:
        """From noise by level."""
        return cls(noise.code, noise.spreads, *guides_of(noise))

    def measure(self, offsets: NDArray[np.int64], x: Floats, seed: int, run: int, out: Floats) -> None:
        """The true counts with the noise of one run."""
        from fairpost.hierarchy.kernels.draw import draw_nodes

        draw_nodes(self.kind, self.spreads, self.guides, self.cuts, offsets, np.uint64(seed), np.uint64(run), out)
        out += x


@dataclass(frozen=True, eq=False)
class CellSpec:
    """Everything that a block depends on but for the seed."""

    rule: TotalFirst
    x: Floats
    """True counts, a row a cell, then the totals."""
    m: Floats
    """Thresholds of the controls, a row a cell, then the totals."""
    psi: Floats
    """The means of what is clipped there."""
    kappa: Floats
    """Coefficients: cells x 4 x nodes."""
    each: tuple[Summed, ...]
    """What the sums of each cell are: sizes, groups, areas."""
    divisions: tuple[Division, ...]
    block: int

    @property
    def many(self) -> int:
        """The number of cells."""
        return len(self.each)


class _Room(Passes):
    """Passes on noise that is drawn."""

    def __init__(self, rule: TotalFirst, x: Floats) -> None:
        super().__init__(rule, len(x) - 1)
        self.x, self.y, self.y_total = x, np.empty(rule.tree.nodes), np.empty(rule.tree.nodes)
        self.cells, self.of_totals = Draws.of(rule.cells), Draws.of(rule.totals)

    def run(self, seed: int, run: int) -> None:
        """One run: totals, cells, and both without v >= 0."""
        offsets, many = self.tree.offsets, len(self.x) - 1
        self.of_totals.measure(offsets, self.x[many], cell_seed(seed, many), run, self.y_total)
        self.totals(self.y_total)
        for k in range(many):
            self.cells.measure(offsets, self.x[k], cell_seed(seed, k), run, self.y)
            self.take(k, self.y)
        self.down()
        self.linear()


def _multipliers(room: _Room, seed: int) -> Floats:
    """The mean multiplier of each cell of each node, a row a cell; infinite where none was finite."""
    from fairpost.hierarchy.kernels.cells import add_multipliers

    sums, many = np.zeros_like(room.mu), np.zeros_like(room.mu)
    for t in range(PILOT[0]):
        cancel.check()
        room.run(seed, ELSEWHERE + t)
        add_multipliers(room.mu, sums, many)
    return np.divide(sums, many, out=np.full_like(sums, np.inf), where=many > 0).T


def _total_thresholds(rule: TotalFirst, x: Floats) -> Floats:
    """Mean field's thresholds, one a node: that of its family."""
    tree = rule.tree
    found = mean_field(x, rule.totals, TopDown(tree, pool=rule.pool)).thresholds
    return np.concatenate([[np.inf], np.repeat(found, np.diff(tree.child))])


def _means(noise: LevelNoise, first: int, above: float, x: Floats, m: Floats, psi: Floats) -> None:
    from fairpost.hierarchy.kernels.cells import means_of

    tables = [tails_of(mechanism) for mechanism in noise.mechanisms]
    reach = np.cumsum([0, *(table.shape[1] for table in tables)])
    means_of(noise.tree.offsets, first, above, x, m, noise.code, noise.spreads, np.hstack(tables), reach, psi)


def _coefficients(room: _Room, seed: int, m: Floats, psi: Floats) -> Floats:
    """Least squares of each cell's error on the controls."""
    from fairpost.hierarchy.kernels.cells import fit, pilot_moments

    many, nodes = len(m) - 1, room.tree.nodes
    sums, kappa = np.zeros((many, 22, nodes)), np.empty((many, 4, nodes))
    for t in range(PILOT[1]):
        cancel.check()
        room.run(seed, ELSEWHERE + PILOT[0] + t)
        for k in range(many):
            pilot_moments(
                k, room.z, room.v, room.u, room.x[k], m[k], psi[k], room.y_total, room.t, room.x[many], m[many], psi[many], sums[k]
            )  # fmt: skip
    sizes = np.diff(room.tree.offsets)
    of_cells, of_totals = (np.repeat(n.variances, sizes) for n in (room.rule.cells, room.rule.totals))
    ridge = np.stack([of_cells, of_cells, of_cells, of_totals])
    for k in range(many):
        fit(sums[k], PILOT[1], ridge, kappa[k])
    return kappa


def specify_cells(rule: TotalFirst, x: Floats, seed: int, groups: Any, areas: Any) -> CellSpec:
    """The specification of a simulation; x: a row a cell (all nodes), then the totals; groups as codes and names."""
    tree, noise = rule.tree, rule.cells
    room, last = _Room(rule, x), len(x) - 1
    m, psi = np.vstack([_multipliers(room, seed), _total_thresholds(rule, x[last])]), np.empty_like(x)
    for k in range(len(x)):
        law, above = (rule.totals, -np.inf) if k == last else (noise, np.inf)
        _means(law, tree.depth if rule.pool else law.top + 1, above, x[k], m[k], psi[k])
    kappa = _coefficients(room, seed, m, psi)
    divisions, inner = division_of(tree, areas), int(tree.offsets[-2])
    divisions, inner, zeros = division_of(tree, areas), int(tree.offsets[-2]), np.zeros(tree.nodes)
    codes, names = (None, ()) if groups is None else groups
    each = tuple(
        Summed(
            offsets=tree.offsets, x=row, offset=zeros, cells=Cells.of(row[inner:], codes, names), divisions=divisions
        )
        for row in x[:last]
    )
    return CellSpec(rule, x, m, psi, kappa, each, divisions, block_runs(tree.n))


def cell_block(spec: CellSpec, seed: int, block: Block) -> tuple[Partial, ...]:
    """The runs of a block: for each cell the sums of its nodes, classes and areas."""
    from fairpost.hierarchy.kernels import runs as kernel
    from fairpost.hierarchy.kernels.cells import cell_moments

    room, tree = _Room(spec.rule, spec.x), spec.rule.tree
    inner, many = int(tree.offsets[-2]), spec.many
    planes = np.zeros((many, 3, tree.nodes))
    areas = [np.zeros((many, block.runs, 2, len(d.names))) for d in spec.divisions]
    r, out = np.empty(tree.nodes), np.empty(tree.nodes)
    for t in range(block.runs):
        room.run(seed, block.first + t)
        for k in range(many):
            x = spec.x[k]
            cell_moments(
                tree.child, inner, k, room.z, room.v, room.u, x, spec.m[k], spec.psi[k], spec.kappa[k], room.y_total, room.t,
                spec.x[many], spec.m[many], spec.psi[many], r, out, planes[k],
            )  # fmt: skip
            for d, division in enumerate(spec.divisions):
                kernel.scatter_areas(
                    out[inner:], x[inner:], r[inner:], division.labels[None], areas[d][k, t][None]
                )  # fmt: skip
    parts = []
    for k in range(many):
        cells = np.zeros(spec.each[k].cells.counts.size)
        kernel.sum_cells(planes[k, 0, inner:], spec.each[k].cells.labels, cells)
        over = tuple(_over_runs(held[k]) for held in areas)
        upper, leaves = np.ascontiguousarray(planes[k, :, :inner]), np.ascontiguousarray(planes[k, :, inner:])
        parts.append(Partial(block.runs, upper, leaves, cells, over))
    return tuple(parts)


def _run_cells(spec: CellSpec, seed: int, blocks: Iterable[Block]) -> list[tuple[Partial, ...]]:
    return [cell_block(spec, seed, block) for block in blocks]


class CellJob(Job):
    """All cells of a tree, with totals first."""

    atomic = False

    def __init__(self, how: Simulation, spec: CellSpec) -> None:
        self.how, self.spec, self.totals, self.block = how, spec, [Totals(one) for one in spec.each], spec.block
        # Each thread has the nodes of a block of its own, nine numbers a cell (measurements, results, multipliers, sums) and some
        # for the totals.
        self.threads, fewer = within_memory(how.threads, 8 * spec.rule.tree.nodes * (9 * spec.many + 16))
        self.fewer = fewer if how.cluster is None else None

    @property
    def tally(self) -> Any:
        """See `Job`."""
        return self.totals[0].tally

    def about(self) -> Iterable[Any]:
        """See `Job`; the controls follow from these and the seed."""
        rule, one = self.spec.rule, self.spec.each[0]
        noise = [(law.kind, law.spreads) for law in (rule.cells, rule.totals)]
        cells = [each.cells.labels for each in self.spec.each]
        return "cells", rule.pool, rule.tree.child, one.offsets, self.spec.x, noise, cells, self.spec.divisions

    def state(self) -> dict[str, Any]:
        """See `Job`."""
        return {f"{k} {name}": array for k, one in enumerate(self.totals) for name, array in one.state().items()}

    def session(self) -> AbstractContextManager[Results]:
        """See `Job`."""
        return on(self.how, self.threads, _run_cells, self.spec)

    def add(self, part: tuple[Partial, ...]) -> None:
        """See `Job`."""
        for totals, one in zip(self.totals, part, strict=True):
            totals.add(one)


def check_simulation(how: Simulation, method: str) -> None:
    """What totals first does not cover is refused by name."""
    if method == "mean-field":
        raise UnsupportedError(
            "mean-field follows one tree per cell, and with totals first the cells of a family depend on each other: simulate it"
        )
    if how.backend == "gpu":
        raise UnsupportedError("totals first is simulated on the CPU, not on the GPU: choose `cpu` or `auto`")


def audit_cells(
    names: list[str], rule: TotalFirst, label: str, x: Floats, groups: Any, areas: Any, how: Simulation
) -> dict[str, HierarchyAudit]:
    """The audit of every cell; x: a row a cell (all nodes), then the totals."""
    spec = specify_cells(rule, x, int(how.seed), _groups(rule.tree, groups), areas)
    job = CellJob(how, spec)
    interrupted = simulate(how, job)
    # What has not happened in the runs moves a cell with its own noise and with that of its total.
    own = rule.cells.variances
    moves = np.where(own > 0, np.sqrt(own + rule.totals.variances), 0.0)
    note = note_of("totals first, then cells under both constraints,", job.runs, interrupted, None, job.fewer)
    return {
        name: by_simulation(
            rule.cells,
            label,
            one,
            sums,
            estimates(one, sums, rule.tree, how.confidence, moves),
            how,
            interrupted,
            note,
        )
        for name, one, sums in zip(names, spec.each, job.totals, strict=True)
    }
