"""A hierarchy of true counts for a release: read without a word about values, and kept so that it can be rebuilt.

What is kept of a tree is what it was made from: the leaves' ids, and beside them the labels of each level where it has columns.
Ids of prefixes stay bytes from file to file, so that millions of them never become Python's objects.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fairpost.counts import Counts
from fairpost.errors import InputError, ParameterError
from fairpost.hierarchy.labels import Prefixes
from fairpost.hierarchy.tree import Hierarchy, length_of, lengths_of
from fairpost.release.guard import refuse_dask
from fairpost.release.kept import packed, series, unpacked
from fairpost.release.noise import Whole
from fairpost.release.request import Shape
from fairpost.release.source import _whole, quietly, read_source, refuse_columns

NEWLINE = ord("\n")


@dataclass(frozen=True, eq=False, repr=False)
class TreeSource:
    """What a release of levels reads: the tree, and the true counts of its leaves in the order of the input."""

    tree: Hierarchy
    x: Whole
    columns: Mapping[str, str] = field(default_factory=dict)
    """The columns of ids and counts, as the source spells them."""

    def in_order(self) -> TreeSource:
        """Leaves in the order of the tree, that of their labels: the order of a file may come from its counts."""
        return replace(self, tree=replace(self.tree, order=None), x=self.tree.into_tree(self.x))

    def nodes(self) -> list[Whole]:
        """The true counts of every level, root first, as whole numbers; sums are below 2^52, so exact in floats."""
        return [part.astype(np.int64) for part in self.tree.split(self.tree.sums(self.x))]


def read_tree(given: Any, levels: Any, columns: Mapping[str, Any]) -> TreeSource:
    """Counts of leaves and their tree: by a `Hierarchy`, by prefixes (name to length) or by columns (names).

    `given`: a file, a data frame, `Counts`, or numbers where the tree is there already.
    """
    refuse_dask(given)
    if isinstance(levels, Hierarchy):
        return _ready(given, levels, columns)
    shape = levels_of(levels)
    if isinstance(given, (str, os.PathLike)):
        return _from_file(given, shape, columns)
    return _from_table(given, shape, columns)


def levels_of(levels: Any) -> dict[str, int] | list[str]:
    """`state:2,county:5`, a mapping from names to lengths of prefixes, or names of columns."""
    if isinstance(levels, str):
        parts = [part.strip() for part in levels.split(",")]
        if all(parts) and not any(":" in part for part in parts):
            return parts
        pairs = [part.rpartition(":") for part in parts]
        names = [name.strip() for name, _, _ in pairs]
        if not all(names) or any(length_of(length) is None for _, _, length in pairs) or len(set(names)) < len(names):
            raise ParameterError(
                f"levels must be NAME:LENGTH,... with names that differ, or NAME,... for columns, got {levels!r}"
            )
        return {name: int(length) for name, (_, _, length) in zip(names, pairs, strict=True)}
    if isinstance(levels, Mapping) and levels:
        lengths_of(levels)
        return dict(levels)
    if isinstance(levels, Sequence) and levels and all(isinstance(name, str) for name in levels):
        return list(levels)
    raise ParameterError(f"levels must be prefixes (name to length), columns (names) or a Hierarchy, got {levels!r}")


def label_columns(levels: Any) -> list[str]:
    """The columns that levels above the leaves are made from; prefixes are parts of the ids."""
    if isinstance(levels, Hierarchy):
        return [] if isinstance(levels.labels, Prefixes) else list(levels.names[1:-1])
    found = levels_of(levels)
    return found if isinstance(found, list) else []


def _ready(given: Any, tree: Hierarchy, columns: Mapping[str, Any]) -> TreeSource:
    if not (isinstance(given, (Counts, str, os.PathLike)) or hasattr(given, "columns")):
        values = np.asarray(given)
        if values.shape != (tree.n,) or values.dtype.kind not in "iuf":
            raise InputError(f"the counts must be one number for each of {tree.n} leaves, and are not")
        refuse_columns(columns)
        return TreeSource(tree, _whole(values.astype(np.float64), "the counts"))
    source = read_source(given, **columns)
    if source.x.size != tree.n:
        raise InputError(f"the counts must be one for each of {tree.n} leaves, got {source.x.size}")
    numbered = isinstance(given, Counts) and source.ids == tuple(map(str, range(tree.n)))  # no ids were given
    if not numbered and list(source.ids) != tree.ids(tree.depth):
        raise InputError("the ids must be those of the hierarchy, in its order, and are not")
    return TreeSource(tree, source.x, source.columns)


def _from_file(path: Any, levels: dict[str, int] | list[str], columns: Mapping[str, Any]) -> TreeSource:
    from fairpost.io.tables import read_leaves  # where this room meets the reader of hierarchies

    labels = levels if isinstance(levels, list) else []
    id = columns.get("id") or "id"
    rest = {word: value for word, value in columns.items() if word not in ("id", "count")}
    named: dict[str, Any] = {"id": id, "count": columns.get("count") or "count", "labels": labels, "least": 0.0}
    leaves = quietly(str(path), lambda: read_leaves(path, **named, **rest))
    x = _whole(leaves.values, str(path))
    return TreeSource(tree_of(leaves.ids, [leaves.labels[c] for c in labels], levels, id, str(path)), x, leaves.columns)


def _from_table(given: Any, levels: dict[str, int] | list[str], columns: Mapping[str, Any]) -> TreeSource:
    import polars as pl

    source = read_source(given, **columns)
    names = levels if isinstance(levels, list) else []
    if names and isinstance(given, Counts):
        raise ParameterError("levels by columns need a file or a data frame with them, got Counts")
    if names and columns.get("where"):
        raise ParameterError("a data frame with columns of levels is filtered before its release, got `where`")
    labels = []
    for name in names:
        try:
            labels.append(pl.Series([None if v is None else str(v) for v in given[name]], dtype=pl.String))
        except Exception:  # a data frame library's own exception
            raise InputError(f"a level must be a column of the data frame, got {name!r}") from None
    ids = pl.Series(source.ids, dtype=pl.String)
    return TreeSource(tree_of(ids, labels, levels, columns.get("id") or "id", "the counts"), source.x, source.columns)


def tree_of(ids: Any, labels: list[Any], levels: dict[str, int] | list[str], id: str, name: str) -> Hierarchy:
    """The tree; a row that does not fit is named by its number, and nothing in it is shown."""
    if isinstance(levels, dict):
        width = list(levels.values())[-1]
        wrong = (ids.str.len_chars() != width) | (ids.str.len_bytes() != width)
        if wrong.any():
            raise InputError(
                f"{name}, row {int(wrong.arg_max() or 0) + 1}: every id must have the {width} ASCII characters of level "
                f"{list(levels)[-1]!r} (the value is not shown)"
            )
        return quietly(name, lambda: Hierarchy.from_geoids(ids, levels))
    for level, column in zip(levels, labels, strict=True):
        gone = column.is_null() | (column == "").fill_null(True)
        if gone.any():
            raise InputError(
                f"{name}, row {int(gone.arg_max() or 0) + 1}: every leaf must have a label on level {level!r} (all leaves "
                "lie equally deep), and this one has none"
            )
    return quietly(name, lambda: Hierarchy.from_labels(labels, [*levels, id], ids=ids))


# ------------------------------------------------------------------------------------------------ kept and rebuilt


def stored(tree: Hierarchy, exact: str | None) -> tuple[Shape, list[bytes]]:
    """How the tree is rebuilt: its shape, and packed labels in the order of the input, the leaves' ids first."""
    names, kept = tree.names[1:], tree.labels
    if isinstance(kept, Prefixes):
        lengths = tuple(int(n) for n in kept.lengths)
        return Shape(names, "prefixes", lengths, exact), [_packed_codes(tree.from_tree(kept.codes))]
    columns = [packed(_as_came(tree, column)) for column in kept.columns]
    if kept.own_ids:
        return Shape(names, "columns", (), exact), [columns[-1], *columns[:-1]]
    return Shape(names, "paths", (), exact), [packed(tree.ids(tree.depth)), *columns]


def _as_came(tree: Hierarchy, column: Any) -> list[str]:
    values = np.array(column.to_list(), dtype=object)
    return list(tree.from_tree(values))


def _packed_codes(codes: Any) -> bytes:
    """What `packed` makes of these ids, without a Python object for each."""
    n, width = codes.shape
    if (codes == NEWLINE).any() or codes[0, 0] == ord('"'):
        return packed([row.tobytes().decode("ascii") for row in codes])
    lines = np.full((n, width + 1), NEWLINE, dtype=np.uint8)
    lines[:, :width] = codes
    return lines.tobytes()[:-1]


def rebuilt(shape: Shape, labels: Sequence[bytes], n: int) -> Hierarchy:
    """The tree of a kept file with n leaves."""
    if shape.by != "prefixes":
        found = [series(blob, str(k), n) for k, blob in enumerate(labels)]
        return Hierarchy.from_labels(found[1:], shape.names, ids=found[0] if shape.by == "columns" else None)
    levels = dict(zip(shape.names, shape.lengths, strict=True))
    blob, width = labels[0], shape.lengths[-1]
    if blob.startswith(b'"'):
        return Hierarchy.from_geoids(list(unpacked(blob, n)), levels)
    lines = np.frombuffer(blob + b"\n", dtype=np.uint8).reshape(n, width + 1)
    return Hierarchy.from_geoids(np.ascontiguousarray(lines[:, :width]).view(f"S{width}").reshape(n), levels)
