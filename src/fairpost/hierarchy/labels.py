"""The labels of the nodes: sorted once, kept as the bytes or codes that they came as, turned into text when asked for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpost.errors import CountsError

Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]
SHORT = "; a leaf that ends on a higher level is given as an only child: pad its id to the full length"
SHALLOW = "; a leaf that ends on a higher level is given as an only child: repeat its last label there"
"""The way out of uneven depth. An only child has what its parent has."""
EVERY = slice(None)
NUMBER = 18
"""Ids of at most so many digits are sorted as whole numbers."""


def _empty() -> Ints:
    return np.empty(0, dtype=np.int64)


def codes_of(geoids: Any, level: str, width: int) -> Bytes:
    """Ids as a matrix of bytes, a row an id; every one `width` ASCII characters long."""
    if isinstance(geoids, (str, bytes)):
        raise CountsError(f"ids must be a sequence with one entry a leaf, got the text {geoids!r}")
    if isinstance(geoids, np.ndarray) and geoids.dtype.kind == "S":
        whole = geoids.astype(f"S{max(width, geoids.dtype.itemsize)}", copy=False)
        if not len(whole):
            _refuse([], level, width)
        matrix = np.ascontiguousarray(whole).view(np.uint8).reshape(len(whole), -1)
        if matrix[:, width:].any() or matrix[:, :width].min() == 0:
            _refuse([item.decode("ascii", "replace") for item in geoids], level, width)
        return np.ascontiguousarray(matrix[:, :width])
    items: Sequence[Any] = ()
    if hasattr(geoids, "str") and hasattr(geoids, "null_count"):
        joined = _joined_series(geoids, width)
    else:
        items = geoids.tolist() if hasattr(geoids, "tolist") else list(geoids)
        joined = "".join(items) if _all_of(items, width) else None
    if joined is None or not joined.isascii() or "\0" in joined:
        _refuse(items or list(geoids), level, width)
    assert joined is not None
    return np.frombuffer(joined.encode("ascii"), dtype=np.uint8).reshape(-1, width)


def _joined_series(series: Any, width: int) -> str | None:
    """The text of a Polars series in one piece; None where an entry is missing, not text or of another length."""
    import polars as pl

    if series.dtype != pl.String or series.null_count() or not series.len():
        return None
    lengths = series.str.len_bytes()
    if lengths.min() != width or lengths.max() != width:
        return None
    return str(series.str.join("").item())


def _all_of(items: list[Any], width: int) -> bool:
    return bool(items) and all(type(item) is str and len(item) == width for item in items)


def _refuse(items: Sequence[Any], level: str, width: int) -> None:
    """Name the first id that is not `width` ASCII characters."""
    if not len(items):
        raise CountsError("a hierarchy must have at least one leaf, got none")
    for i, item in enumerate(items):
        if not isinstance(item, str):
            raise CountsError(f"ids must be text (leading zeros count), got {item!r} at position {i}")
        if len(item) != width or not item.isascii() or "\0" in item:
            out = SHORT if len(item) < width else ""
            rule = f"every id must have the {width} ASCII characters of level {level!r}"
            raise CountsError(f"{rule}, got {item!r} at position {i}{out}")
    raise AssertionError("called only where an id is refused")


@dataclass(frozen=True, eq=False)
class Prefixes:
    """Ids that hold the ids of all nodes above them as prefixes."""

    codes: Bytes
    """The leaves' ids, sorted, a row each."""
    lengths: Ints
    starts: Ints = field(default_factory=_empty)
    """The first leaf of each inner node."""
    offsets: Ints = field(default_factory=_empty)

    @classmethod
    def sort(cls, codes: Bytes, lengths: Ints) -> tuple[Prefixes, Ints | None, NDArray[np.uint8], Ints]:
        """The labels, the order (None: as they came), the levels that neighbours share, and the nodes of each level."""
        from fairpost.hierarchy.kernels.prefixes import shared

        same, counts, order = np.empty(len(codes), dtype=np.uint8), np.empty(lengths.size, dtype=np.int64), None
        held = shared(codes, same, lengths, counts)
        if held < len(codes):
            order = _sorted(codes)
            codes = codes[order]
            held = shared(codes, same, lengths, counts)
        if held < len(codes):
            places = sorted((held - 1, held) if order is None else (int(order[held - 1]), int(order[held])))
            label = codes[held].tobytes().decode("ascii")
            raise CountsError(f"ids must be unique, got {label!r} at positions {places[0]} and {places[1]}")
        return cls(codes, lengths), order, same, counts

    def placed(self, starts: Ints, offsets: Ints) -> Prefixes:
        """With the first leaf of each node."""
        return replace(self, starts=starts, offsets=offsets)

    def bytes_of(self, level: int, some: slice = EVERY) -> NDArray[np.bytes_]:
        """The ids of a level in tree order, as a NumPy array of bytes."""
        width, here = (
            int(self.lengths[level - 1]),
            slice(*self.offsets[level : level + 2]) if self.offsets.size else EVERY,
        )
        rows = self.codes[some if level == self.lengths.size else self.starts[here][some]]
        return np.ascontiguousarray(rows[:, :width]).view(f"S{width}").reshape(-1)

    def texts(self, level: int, some: slice = EVERY) -> list[str]:
        """The ids of a level in tree order."""
        whole, width = self.bytes_of(level, some).tobytes().decode("ascii"), int(self.lengths[level - 1])
        return [whole[i : i + width] for i in range(0, len(whole), width)]

    def text(self, level: int, place: int) -> str:
        """One id."""
        return self.texts(level, slice(place, place + 1))[0]


def _sorted(codes: Bytes) -> Ints:
    from fairpost.hierarchy.kernels.prefixes import digits

    n, width = codes.shape
    if width <= NUMBER:
        numbers = np.empty(n, dtype=np.int64)
        if digits(codes, numbers):
            return np.argsort(numbers)
    return np.argsort(codes.view(f"S{width}").reshape(-1), kind="stable")


@dataclass(frozen=True, eq=False)
class Paths:
    """Labels level by level; a node is its path, and its id the path joined by "/"."""

    columns: tuple[Any, ...]
    """One Polars series a level, sorted by path."""
    own_ids: bool
    """Whether leaves have ids of their own instead of a path."""
    starts: Ints = field(default_factory=_empty)
    offsets: Ints = field(default_factory=_empty)

    def placed(self, starts: Ints, offsets: Ints) -> Paths:
        """With the first leaf of each node."""
        return replace(self, starts=starts, offsets=offsets)

    def texts(self, level: int, some: slice = EVERY) -> list[str]:
        """The ids of a level in tree order."""
        import polars as pl

        leaves, parts = level == len(self.columns), self.columns[:level]
        where = (
            np.arange(len(parts[0]))[some]
            if leaves
            else self.starts[self.offsets[level] : self.offsets[level + 1]][some]
        )
        if self.own_ids and leaves:
            parts = parts[-1:]
        frame = pl.DataFrame({str(k): part.gather(where) for k, part in enumerate(parts)})
        return list(frame.select(pl.concat_str(pl.all(), separator="/").alias("id"))["id"].to_list())

    def text(self, level: int, place: int) -> str:
        """One id."""
        return self.texts(level, slice(place, place + 1))[0]


def paths_of(
    columns: Sequence[Iterable[Any]], names: Sequence[str], own_ids: bool
) -> tuple[Paths, Ints | None, NDArray[np.uint8]]:
    """The sorted labels, the order of the rows and the levels that neighbours share."""
    import polars as pl

    series = [_texts(column, name) for column, name in zip(columns, names, strict=True)]
    n = series[0].len()
    for part, name in zip(series, names, strict=True):
        if part.len() != n or n == 0:
            raise CountsError(f"every level must have one label a leaf: {n} leaves, {part.len()} labels of {name!r}")
    if own_ids and series[-1].n_unique() < n:
        again = int(series[-1].is_first_distinct().not_().arg_max() or 0)
        raise CountsError(f"ids must be unique, got {series[-1][again]!r} a second time at position {again}")
    frame = pl.DataFrame({str(k): part for k, part in enumerate(series)}).with_row_index("row")
    keys = [str(k) for k in range(len(series))]
    ordered = frame.sort(keys)
    order = ordered["row"].to_numpy().astype(np.int64)
    same = np.zeros(n, dtype=np.uint8)
    equal = np.ones(n - 1, dtype=bool)
    for key in keys:
        column = ordered[key]
        equal &= (column[1:] == column[:-1]).to_numpy()
        same[1:] += equal
    if equal.any():
        i = int(np.flatnonzero(equal)[0])
        path = "/".join(str(ordered[key][i]) for key in keys)
        places = sorted((int(order[i]), int(order[i + 1])))
        raise CountsError(
            f"every leaf must have a path of its own, got {path!r} at positions {places[0]} and {places[1]}"
        )
    as_came = bool((order == np.arange(n)).all())
    paths = Paths(tuple(ordered[key] for key in keys), own_ids)
    return paths, None if as_came else order, same


def _texts(column: Iterable[Any], name: str) -> Any:
    """One level's labels as a Polars series of text, none missing."""
    import polars as pl

    if isinstance(column, (str, bytes)):
        raise CountsError(f"level {name!r} must be a sequence with one label a leaf, got the text {column!r}")
    if isinstance(column, pl.Series) and column.dtype == pl.String:
        series = column
    else:
        items = column.tolist() if hasattr(column, "tolist") else list(column)
        missing = [item is None or (isinstance(item, float) and np.isnan(item)) for item in items]
        series = pl.Series(
            [None if gone else str(item) for item, gone in zip(items, missing, strict=True)], dtype=pl.String
        )
    gone = series.is_null() | (series == "").fill_null(True)
    if gone.any():
        place = int(gone.arg_max() or 0)
        raise CountsError(
            f"every leaf must have a label on every level (all leaves lie equally deep), "
            f"got none of {name!r} at position {place}{SHALLOW}"
        )
    return series
