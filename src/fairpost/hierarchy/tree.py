"""The tree: a root, levels of areas below it, leaves (blocks) at the bottom.

Nodes are numbered level by level from the root, which is node 0, and inside a level by their labels, so the children of
one node are neighbours and those of the next node follow them: one array of child ranges says all. The numbers are also
the places of the nodes in a run's stream of noise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairpost.errors import CountsError, ParameterError
from fairpost.hierarchy.labels import Paths, Prefixes, codes_of, paths_of

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
LONGEST = 9999
"""Characters of an id, at most."""
ROOT = "all"
"""The name of the level of the root."""


@dataclass(frozen=True, eq=False, repr=False)
class Hierarchy:
    """A tree whose leaves all lie on its last level; make one with `from_geoids`, `from_labels` or `from_columns`.

    Leaves may come in any order. Inside, they are sorted by label once; what is returned for leaves is in the order in
    which they came, what is returned for levels above in the order of `ids(level)`.
    """

    names: tuple[str, ...]
    """The levels, top first: "all" (the root), then those that were named."""
    offsets: Ints
    """The first node of each level, and the number of nodes."""
    child: Ints
    """The first child of each inner node, and the number of nodes."""
    order: Ints | None
    """The place in the input of each leaf of the tree; None where the input was sorted."""
    labels: Prefixes | Paths = field(repr=False)

    @classmethod
    def from_geoids(cls, geoids: Any, levels: Mapping[str, int]) -> Hierarchy:
        """By prefixes of the ids: `levels={"state": 2, "county": 5, "tract": 11, "block group": 12, "block": 15}`.

        The ids are text (a sequence, a NumPy array or a Polars series), all as long as the last level says. An id of
        another length, one that is not text and one that comes twice are named.
        """
        names, lengths = lengths_of(levels)
        codes = codes_of(geoids, names[-1], int(lengths[-1]))
        labels, order, same, counts = Prefixes.sort(codes, lengths)
        return cls._linked(names, labels, order, same, counts)

    @classmethod
    def from_labels(
        cls,
        labels: Sequence[Iterable[Any]],
        names: Sequence[str] | None = None,
        ids: Iterable[Any] | None = None,
    ) -> Hierarchy:
        """By labels, one sequence a level, coarsest first, each with one entry a leaf.

        A node is its whole path, so that two states may each have a county "001". Without `ids` the last level is that
        of the leaves, and no path may come twice. With `ids` each leaf hangs below its last label. Every leaf has a
        label on every level: a missing one is named.
        """
        columns = list(labels) if ids is None else [*labels, ids]
        given = [f"level {k + 1}" for k in range(len(columns))] if names is None else list(names)
        if names is not None and ids is not None and len(given) == len(columns) - 1:
            given.append("leaf")
        _check_names(given, len(columns))
        paths, order, same = paths_of(columns, given, own_ids=ids is not None)
        counts = [int(np.count_nonzero(same <= level)) for level in range(len(columns))]
        return cls._linked(given, paths, order, same, counts)

    @classmethod
    def _linked(cls, names: Sequence[str], labels: Any, order: Ints | None, same: Any, counts: Any) -> Hierarchy:
        """From the levels that neighbours share, and the nodes of each level."""
        from fairpost.hierarchy.kernels.prefixes import link

        offsets = np.concatenate([[0, 1], 1 + np.cumsum(counts)]).astype(np.int64)
        child, starts = np.empty(offsets[-2] + 1, dtype=np.int64), np.empty(offsets[-2], dtype=np.int64)
        link(same, offsets, child, starts)
        return cls((ROOT, *names), _frozen(offsets), _frozen(child), order, labels.placed(starts, offsets))

    @classmethod
    def from_columns(cls, table: Any, columns: Sequence[str], id: str | None = None) -> Hierarchy:
        """By columns of a data frame or mapping, coarsest first; `id` names the leaves where the columns do not."""
        for column in (*columns, *(() if id is None else (id,))):
            try:
                table[column]
            except Exception as error:  # among them a data frame library's own
                raise ParameterError(f"a level must be a column of the table, got {column!r}") from error
        names = list(columns) if id is None else [*columns, id]
        return cls.from_labels([table[c] for c in columns], names, None if id is None else table[id])

    def __repr__(self) -> str:
        sizes = ", ".join(f"{self.size(k):,} {name}" for k, name in enumerate(self.names[1:], 1))
        return f"Hierarchy({sizes})"

    @property
    def depth(self) -> int:
        """L, the level of the leaves; the root is level 0."""
        return len(self.names) - 1

    @property
    def n(self) -> int:
        """The number of leaves."""
        return self.size(self.depth)

    @property
    def nodes(self) -> int:
        """The number of nodes, root and leaves included."""
        return int(self.offsets[-1])

    def size(self, level: int) -> int:
        """The number of nodes of a level."""
        return int(self.offsets[level + 1] - self.offsets[level])

    def span(self, level: int) -> slice:
        """The nodes of a level."""
        return slice(int(self.offsets[level]), int(self.offsets[level + 1]))

    def level(self, name: str | int) -> int:
        """The number of a level from its name (a number stays, counted from the root)."""
        if isinstance(name, str):
            if name not in self.names:
                raise ParameterError(f"a level must be one of {', '.join(self.names)}, got {name!r}")
            return self.names.index(name)
        if not -len(self.names) <= name < len(self.names):
            raise ParameterError(f"a level must be from 0 to {self.depth}, got {name}")
        return name % len(self.names)

    def ids(self, level: str | int) -> list[str]:
        """The ids of a level as text; of the leaves in the order of the input."""
        k = self.level(level)
        found = [ROOT] if k == 0 else self.labels.texts(k)
        if k < self.depth or self.order is None:
            return found
        out = np.empty(self.n, dtype=object)
        out[self.order] = found
        return list(out)

    def id_of(self, level: int, place: int) -> str:
        """The id of one node; of a leaf by its place in the input."""
        if level == 0:
            return ROOT
        if level == self.depth and self.order is not None:
            place = int(np.flatnonzero(self.order == place)[0])
        return self.labels.text(level, place)

    def parents(self, level: int) -> Ints:
        """For each node of a level (leaves: in tree order) the place of its parent in the level above."""
        above = self.span(level - 1)
        return np.repeat(np.arange(self.size(level - 1)), np.diff(self.child[above.start : above.stop + 1]))

    def into_tree(self, values: ArrayLike, what: str = "values") -> NDArray[Any]:
        """One entry a leaf from the order of the input to that of the tree."""
        array = np.asarray(values)
        if array.shape != (self.n,):
            raise CountsError(f"`{what}` must have one entry a leaf: {self.n} leaves, shape {array.shape}")
        return array if self.order is None else array[self.order]

    def from_tree(self, values: NDArray[Any]) -> NDArray[Any]:
        """One entry a leaf from the order of the tree to that of the input."""
        if self.order is None:
            return values
        out = np.empty_like(values)
        out[self.order] = values
        return out

    def sums(self, values: ArrayLike) -> Floats:
        """Every node's sum over the leaves below it (the leaves in the order of the input), a vector of all nodes."""
        out = np.empty(self.nodes)
        out[self.span(self.depth)] = self.into_tree(values)
        for level in range(self.depth - 1, -1, -1):
            here, below = self.span(level), self.span(level + 1)
            np.add.reduceat(out[below], self.child[here] - below.start, out=out[here])
        return out

    def split(self, nodes: Floats) -> tuple[Floats, ...]:
        """A vector of all nodes level by level, the leaves in the order of the input."""
        parts = [nodes[self.span(level)] for level in range(self.depth)]
        return (*parts, self.from_tree(nodes[self.span(self.depth)]))

    def join(self, levels: Sequence[ArrayLike]) -> Floats:
        """The inverse of `split`; without an entry for the root that is the sum of the next level."""
        given = [np.asarray(part, dtype=np.float64) for part in levels]
        if len(given) == self.depth:
            given = [np.array([given[0].sum()]), *given]
        if len(given) != self.depth + 1:
            raise CountsError(f"there must be one array a level: {self.depth + 1} levels, {len(given)} arrays")
        for k, part in enumerate(given):
            if part.shape != (self.size(k),):
                raise CountsError(
                    f"level {self.names[k]!r} has {self.size(k)} nodes, got an array of shape {part.shape}"
                )
        given[-1] = self.into_tree(given[-1])
        return np.concatenate(given)


def _frozen(array: Ints) -> Ints:
    made = np.ascontiguousarray(array, dtype=np.int64)
    made.flags.writeable = False
    return made


def _check_names(names: Sequence[str], many: int) -> None:
    if len(names) != many or many == 0:
        raise ParameterError(f"there must be one name a level, at least one, got {len(names)} names for {many} levels")
    for k, name in enumerate(names):
        if name == ROOT or name in names[:k] or not name:
            raise ParameterError(f"the names of levels must differ from each other and from {ROOT!r}, got {name!r}")


def length_of(text: str) -> int | None:
    """The length of a prefix as it is typed; None where it is none."""
    digits = text.strip()
    return int(digits) if digits.isascii() and digits.isdecimal() and len(digits) <= len(str(LONGEST)) else None


def lengths_of(levels: Mapping[str, int]) -> tuple[list[str], Ints]:
    """The names of levels by prefixes, and the lengths."""
    names = list(levels)
    _check_names(names, len(names))
    lengths = list(levels.values())
    for k, length in enumerate(lengths):
        if isinstance(length, bool) or not isinstance(length, (int, np.integer)) or not 1 <= length <= LONGEST:
            raise ParameterError(
                f"the prefix of level {names[k]!r} must be a whole number from 1 to {LONGEST}, got {length!r}"
            )
        if k and length <= lengths[k - 1]:
            raise ParameterError(
                f"prefixes must grow from level to level, got {length} for {names[k]!r} after {lengths[k - 1]}"
            )
    return names, np.array(lengths, dtype=np.int64)
