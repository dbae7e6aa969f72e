"""Totals first: the totals over cells are reconciled from the top down, then each family's cells under both constraints.

Each node has K cells, measured with the noise of the cells, and a total, measured with noise of its own. Down the tree, level by level:

1. the totals T_c of the children, by the rule for one count per node (`TopDown`), which does not look at the cells;
2. their cells v_ck >= 0, nearest to the measurements, with sum_k v_ck = T_c and sum_c v_ck = v_pk, the parent's cell (`kernels.transport`).

So the totals are those of a tree of their own, and a cell that is 0 in a parent is 0 in its children. This is the order of the 2020
system, which holds `total` within the smallest tolerance that can be met; here both constraints can always be met, and are.

With `pool` ("blue-down") both passes take least-squares estimates of the levels below as well, with their variances as weights. A
threshold, the joint optimum and rounding are not covered, and refused by name.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairpost.errors import CountsError, ParameterError, ToleranceError, UnsupportedError
from fairpost.hierarchy.levels import LevelNoise
from fairpost.hierarchy.rules import Pooling, TreeRule, _checked
from fairpost.hierarchy.tree import Hierarchy

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
TOLERANCE = 1e-9
"""What a family's cells may be off, relative to its parent's total (or 1): larger is an error, 1e-14 is usual."""
EXACT = 1e-9
"""What exact cells and their exact total may differ by, relative to it."""
COVERED = {"top-down": False, "blue-down": True}
"""The rules, and whether they pool."""


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
