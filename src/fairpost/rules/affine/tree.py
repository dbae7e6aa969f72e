"""Hierarchies as A v = b: the nation, its states, their counties, and the entities (leaves) below them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairpost.errors import CountsError
from fairpost.rules.base import nonnegative_total

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False, repr=False)
class Tree:
    """The inner nodes above n leaves, level by level from the root; make one with `Tree.from_labels`."""

    nodes: tuple[tuple[str, ...], ...]
    """Each inner node as its labels from the coarsest level on: () is the root, ("NY", "Kings") a county."""
    parent: Ints
    """The node above each node; -1 above the root."""
    leaf_parent: Ints
    """The node above each leaf."""

    @classmethod
    def from_labels(cls, levels: Sequence[Iterable[Any]], n: int | None = None) -> Tree:
        """The tree of n leaves with one label per level, coarsest level first: `[states, counties]`.

        Labels are text. A node is its whole path, so that two states may each have a county "001". Without
        any level there is the root alone, and n is needed.
        """
        columns = [_labels(level, depth) for depth, level in enumerate(levels)]
        size = len(columns[0]) if columns else n
        lengths = [len(column) for column in columns]
        if size is None or size < 1 or {*lengths, size if n is None else n} != {size}:
            raise CountsError(f"every level must have one label per leaf, got {lengths} labels per level, n = {n}")
        nodes: list[tuple[str, ...]] = [()]
        above, at = [-1], np.zeros(size, dtype=np.int64)
        for column in columns:
            at = _descend(column, at, nodes, above)
        return cls(tuple(nodes), np.array(above, dtype=np.int64), at)

    def __repr__(self) -> str:
        return f"Tree({len(self.nodes)} nodes above {self.leaf_parent.size} leaves)"

    @property
    def n(self) -> int:
        """The number of leaves."""
        return int(self.leaf_parent.size)

    def membership(self) -> Any:
        """The sparse matrix with a row per node and a column per leaf: 1 where the leaf lies below the node."""
        from scipy import sparse

        rows, columns = [], []
        at, leaves = self.leaf_parent, np.arange(self.n)
        while leaves.size:
            rows.append(at)
            columns.append(leaves)
            up = self.parent[at]
            at, leaves = up[up >= 0], leaves[up >= 0]
        place = (np.concatenate(rows), np.concatenate(columns))
        return sparse.csr_array((np.ones(place[0].size), place), shape=(len(self.nodes), self.n))

    def totals(self, values: ArrayLike) -> Floats:
        """What the leaves below each node sum to."""
        return np.asarray(self.membership() @ self._leaves(values))

    def over_leaves(self, values: ArrayLike) -> tuple[Any, Floats]:
        """A and b over the leaves alone: below each node they sum to its public total, taken from `values`.

        Above the deepest level the equalities follow from those below them; the programs allow that.
        """
        return self.membership(), self.totals(values)

    def over_nodes(self, total: float) -> tuple[Any, Floats]:
        """A and b over leaves and nodes together (leaves first, then `nodes`), for noise on every level.

        One equality per node, sum of its children = node, and a last one, root = `total`, all that is public.
        """
        from scipy import sparse

        k, n = len(self.nodes), self.n
        inner = np.arange(1, k)
        rows = np.concatenate([self.leaf_parent, self.parent[1:], np.arange(k), [k]])
        columns = np.concatenate([np.arange(n), n + inner, n + np.arange(k), [n]])
        entries = np.concatenate([np.ones(n + k - 1), -np.ones(k), [1.0]])
        b = np.zeros(k + 1)
        b[k] = nonnegative_total(total)
        return sparse.csr_array((entries, (rows, columns)), shape=(k + 1, n + k)), b

    def expand(self, values: ArrayLike) -> Floats:
        """Leaves and the totals of the nodes in one vector, in the order of `over_nodes`."""
        leaves = self._leaves(values)
        return np.concatenate([leaves, self.totals(leaves)])

    def _leaves(self, values: ArrayLike) -> Floats:
        leaves = np.asarray(values, dtype=np.float64)
        if leaves.shape != (self.n,):
            raise CountsError(f"`values` must have one entry per leaf: {self.n} leaves, shape {leaves.shape}")
        return leaves


def tree_constraints(levels: Sequence[Iterable[Any]], values: ArrayLike) -> tuple[Any, Floats]:
    """A and b that hold every node of a hierarchy of leaves at its public total.

    `levels` has one sequence of labels per level, coarsest first (`[states, counties]`), `values` one public
    count per leaf. `Tree` offers the same with the names of the rows, and the form with a variable a node.
    """
    return Tree.from_labels(levels, np.size(values)).over_leaves(values)


def _labels(level: Iterable[Any], depth: int) -> list[str]:
    if isinstance(level, (str, bytes)):
        raise CountsError(f"level {depth} must be a sequence with one label per leaf, got the text {level!r}")
    labels = list(level)
    for i, label in enumerate(labels):
        if label is None or (isinstance(label, float) and np.isnan(label)):
            raise CountsError(f"every label must be present, got {label!r} at position {i} of level {depth}")
    return [label if type(label) is str else str(label) for label in labels]


def _descend(column: list[str], at: Ints, nodes: list[tuple[str, ...]], above: list[int]) -> Ints:
    """One level down: adds the nodes of this level in order of appearance; returns the node of each leaf."""
    known: dict[tuple[int, str], int] = {}
    out = np.empty_like(at)
    for i, key in enumerate(zip(at.tolist(), column, strict=True)):
        if key not in known:
            known[key] = len(nodes)
            nodes.append((*nodes[key[0]], key[1]))
            above.append(key[0])
        out[i] = known[key]
    return out
