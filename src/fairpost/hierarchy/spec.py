"""What a block of runs needs, as arrays: picklable, so that a worker elsewhere can have it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairpost.errors import CountsError, ParameterError
from fairpost.hierarchy.levels import LevelNoise
from fairpost.hierarchy.meanfield import mean_field
from fairpost.hierarchy.rules import Pooling, TopDown, TreeRule
from fairpost.hierarchy.tree import Hierarchy

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Labels = NDArray[np.int32]
EDGES = (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 50, 200, 1000)
"""The cells of leaf sizes: exact values where classes would hide, then classes."""
CLASSES = (0, 1, 10, 50, 200)
"""The size classes that are always reported: 0, 1-9, 10-49, 50-199, 200 and more."""
PIECE = 2048
"""Leaves a piece: its sums stay in the second-level cache."""
STRIPE = 2**12
CHUNK = 2**18
"""Leaves at a time where a temporary array of all would cost memory."""
MOST_STRIPES = 64


@dataclass(frozen=True, eq=False)
class Division:
    """One division of leaves into areas: labels of the leaves in tree order, -1 for a leaf in none."""

    names: tuple[str, ...]
    labels: Labels


def division_of(tree: Hierarchy, areas: Any) -> tuple[Division, ...]:
    """Areas as divisions: a mapping from names to masks of leaves (which may overlap), or one label a leaf.

    A label that is None, NaN or empty puts a leaf in no area. Leaves are in the order of the input.
    """
    if areas is None:
        return ()
    if isinstance(areas, Mapping):
        return tuple(_masked(tree, str(name), mask) for name, mask in areas.items())
    import polars as pl

    areas = areas if hasattr(areas, "__len__") else list(areas)
    series: Any = areas
    if not (isinstance(areas, pl.Series) and areas.dtype == pl.String):
        missing = [label is None or label == "" or (isinstance(label, float) and np.isnan(label)) for label in areas]
        series = pl.Series(
            [None if gone else str(label) for label, gone in zip(areas, missing, strict=True)], dtype=pl.String
        )
    if series.len() != tree.n:
        raise CountsError(f"`areas` must have one label a leaf: {tree.n} leaves, {series.len()} labels")
    names = series.filter(series.is_not_null() & (series != "")).unique(maintain_order=True)
    if names.len() == 0:
        raise CountsError("`areas` must put at least one leaf in an area, got none")
    numbers = np.arange(names.len(), dtype=np.int32)
    codes = series.replace_strict(names, numbers, default=-1, return_dtype=pl.Int32).to_numpy()
    return (Division(tuple(names.to_list()), np.ascontiguousarray(tree.into_tree(codes))),)


def _masked(tree: Hierarchy, name: str, mask: ArrayLike) -> Division:
    chosen = tree.into_tree(np.asarray(mask), f"areas[{name!r}]")
    if chosen.dtype != np.bool_ or not chosen.any():
        raise CountsError(f"the area {name!r} must be a mask of leaves with at least one of them")
    return Division((name,), np.where(chosen, 0, -1).astype(np.int32))


@dataclass(frozen=True, eq=False)
class Cells:
    """Cells of leaves (size x group), and the unions of cells that are followed block by block."""

    labels: Labels
    counts: Ints
    """Leaves in each cell."""
    unions: tuple[tuple[str, str, Ints], ...]
    """(kind, name, cells): kind is "size", "value" or "group"."""

    @classmethod
    def of(cls, x: Floats, groups: NDArray[np.int32] | None, names: Sequence[str]) -> Cells:
        """From the leaves' true counts and groups, in tree order."""
        edges = np.array(EDGES[1:], dtype=np.float64)
        size = np.empty(x.size, dtype=np.int32)
        for a in range(0, x.size, CHUNK):
            size[a : a + CHUNK] = np.searchsorted(edges, x[a : a + CHUNK], side="right")
        many, width = (1, len(EDGES)) if groups is None else (len(names), len(EDGES))
        labels = size if groups is None else size + groups.astype(np.int32) * np.int32(width)
        counts = np.zeros(many * width, dtype=np.int64)
        for a in range(0, x.size, CHUNK):
            counts += np.bincount(labels[a : a + CHUNK], minlength=many * width)
        grid = np.arange(many * width).reshape(many, width)
        unions: list[tuple[str, str, Ints]] = []
        for k, edge in enumerate(EDGES[:10]):
            unions.append(("value", str(edge), grid[:, k]))
        for low, high in pairwise([*CLASSES, None]):
            inside = [k for k, e in enumerate(EDGES) if e >= (low or 0) and (high is None or e < high)]
            unions.append(("size", size_label(low or 0, high), grid[:, inside].reshape(-1)))
        if groups is not None:
            unions += [("group", name, grid[g]) for g, name in enumerate(names)]
        held = tuple(u for u in unions if counts[u[2]].any())
        return cls(np.ascontiguousarray(labels), counts, held)

    def sums(self, cells: NDArray[Any]) -> Floats:
        """Each union's sum of what its cells have."""
        return np.array([cells[u[2]].sum() for u in self.unions])

    @property
    def sizes(self) -> Floats:
        """Leaves in each union."""
        return self.sums(self.counts.astype(np.float64))


def size_label(low: int, high: int | None) -> str:
    """0, 1-9, 200+."""
    if high is None:
        return f"{low}+"
    return str(low) if high == low + 1 else f"{low}-{high - 1}"


@dataclass(frozen=True, eq=False, kw_only=True)
class Summed:
    """What is added up over runs: all nodes, cells of leaves, areas."""

    offsets: Ints
    x: Floats
    """True counts of all nodes."""
    offset: Floats
    """The part of the bias that is known: B = offset + E[r], for all nodes."""
    cells: Cells
    divisions: tuple[Division, ...]

    @property
    def n(self) -> int:
        """The number of leaves."""
        return int(self.offsets[-1] - self.offsets[-2])

    @property
    def inner(self) -> int:
        """The number of nodes above the leaves."""
        return int(self.offsets[-2])


@dataclass(frozen=True, eq=False, kw_only=True)
class Spec(Summed):
    """Everything that a block of runs depends on but for the seed."""

    child: Ints
    top: int
    kind: int
    spreads: Floats
    guides: NDArray[np.uint8]
    cuts: Floats
    """Tables of discrete Gaussian noise, a row a level."""
    s2: Floats
    rule: str
    """top-down, pooled or joint."""
    whole: bool
    taus: Floats
    steeps: Floats
    formula: Floats
    """Mean field of the inner nodes; the leaves' is their offset."""
    m: Floats
    P: NDArray[np.float32]
    P_above: NDArray[np.float32]
    V: Floats
    W: Floats
    block: int

    @cached_property
    def layout(self) -> tuple[Stripe, ...]:
        """The parents of leaves in stretches of nearly equal numbers of leaves: the unit of work of a thread.

        They depend on the tree alone, so that sums over leaves are always added in the same order.
        """
        first, last = int(self.offsets[-3]), int(self.offsets[-2])
        many = int(np.clip(self.n // STRIPE, 1, MOST_STRIPES))
        ends = self.offsets[-2] + np.arange(1, many) * self.n // many
        cuts = first + np.searchsorted(self.child[first : last + 1], ends)
        edges = sorted({first, last, *(int(c) for c in cuts)})
        return tuple(self._stripe(a, b) for a, b in pairwise(edges))

    def _stripe(self, p_from: int, p_to: int) -> Stripe:
        a, b = int(self.child[p_from]) - self.inner, int(self.child[p_to]) - self.inner
        rows, areas = np.empty((len(self.divisions), b - a), dtype=np.int32), []
        for k, division in enumerate(self.divisions):
            here, inverse = np.unique(division.labels[a:b], return_inverse=True)
            outside = int(here[0] == -1)
            areas.append(here[outside:].astype(np.int64))
            rows[k] = inverse - outside
        return Stripe((p_from, p_to), rows, max((n.size for n in areas), default=0), tuple(areas))


@dataclass(frozen=True, eq=False)
class Stripe:
    """Neighbouring families of leaves. A stripe has few areas, which have numbers of their own in it."""

    ends: tuple[int, int]
    """Parents first <= p < last."""
    labels: Labels
    """A row a division: the local area of each leaf, -1 for none."""
    width: int
    """The most areas of any division."""
    areas: tuple[Ints, ...]
    """A division each: which areas they are."""


def block_runs(n: int) -> int:
    """Runs a block for n leaves."""
    return 8 if n > 2**22 else 16 if n > 2**20 else 32 if n > 2**17 else 64


def guides_of(noise: LevelNoise) -> tuple[NDArray[np.uint8], Floats]:
    """The tables of discrete Gaussian noise, a row a level; zeros where there is nothing to look up."""
    from fairpost.noise.base import DISCRETE_GAUSSIAN
    from fairpost.noise.kernels import guide

    guides = np.zeros((noise.spreads.size, guide.BINS), dtype=np.uint8)
    cuts = np.zeros((noise.spreads.size, guide.MOST))
    if noise.code == DISCRETE_GAUSSIAN:
        for level, sigma in enumerate(noise.spreads):
            if 0.0 < sigma <= guide.GUIDED:
                guide.guide_of(float(sigma), guides[level], cuts[level])
    return guides, cuts


def specify(
    x: Floats, noise: LevelNoise, rule: TreeRule, groups: tuple[NDArray[np.int32], Sequence[str]] | None, areas: Any
) -> Spec:
    """The specification of a simulation; x of all nodes, groups as codes in tree order and their names."""
    if not rule.clips:
        raise ParameterError(f"a rule to simulate must be top-down, blue-down or joint, got {rule.label}")
    tree = noise.tree
    joint, pooled = not rule.by_families, rule.pools
    field = mean_field(x, noise, TopDown(tree, pool=pooled) if joint else rule)
    offset = field.bias
    if pooled:
        offset = offset.copy()
        offset[: int(tree.offsets[-2])] = 0.0
    taus, steeps = rule.thresholds(noise)
    guides, cuts = guides_of(noise)
    pooling = Pooling.of(noise, leaves=False) if pooled else None
    leaves = x[tree.span(tree.depth)]
    cells = Cells.of(leaves, None if groups is None else groups[0], () if groups is None else groups[1])
    return Spec(
        child=tree.child,
        offsets=tree.offsets,
        top=noise.top,
        x=x,
        kind=noise.code,
        spreads=noise.spreads,
        guides=guides,
        cuts=cuts,
        s2=noise.variances,
        rule="joint" if joint else "pooled" if pooled else "top-down",
        whole=rule.whole,
        taus=taus,
        steeps=steeps,
        offset=offset,
        formula=field.bias[: int(tree.offsets[-2])],
        m=field.thresholds,
        P=field.P,
        P_above=field.P_above,
        V=np.zeros(1) if pooling is None else pooling.V,
        W=np.zeros(1) if pooling is None else pooling.W,
        cells=cells,
        divisions=division_of(tree, areas),
        block=block_runs(tree.n),
    )
