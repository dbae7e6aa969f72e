"""The reader for hierarchies: long files whose ids stay in columns instead of becoming a million Python strings."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Unpack

import numpy as np
from numpy.typing import NDArray

from fairpost.errors import ParameterError
from fairpost.io.columns import numbers, texts, unique
from fairpost.io.decimals import decided
from fairpost.io.delimited import read_delimited
from fairpost.io.frames import read_parquet
from fairpost.io.missing import without_missing
from fairpost.io.names import absent, meant
from fairpost.io.reading import Options, Reading
from fairpost.io.source import kind_of, load
from fairpost.io.table import Table, shown, translated
from fairpost.io.where import condition, selected
from fairpost.io.workbook import read_workbook

if TYPE_CHECKING:
    import polars as pl

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class Leaves:
    """Rows of a file about a hierarchy: ids, counts and labels, column by column."""

    name: str
    """The file as the user named it."""
    ids: pl.Series
    values: Floats
    labels: dict[str, pl.Series]
    """The columns that were asked for, as text; a missing entry stays null."""
    table: Table
    columns: Mapping[str, str]
    """The columns of ids and counts, as the file spells them."""

    def __len__(self) -> int:
        return int(self.values.size)


def read_leaves(
    path: str | os.PathLike[str],
    *,
    id: str = "id",
    count: str = "count",
    labels: Sequence[str] = (),
    optional: Sequence[str] = (),
    least: float | None = 0.0,
    **reading: Unpack[Options],
) -> Leaves:
    """Ids (text, unique), counts (at least `least`) and columns of labels from text, Excel or Parquet.

    `optional` columns are read where they are there. Any column may be named twice in different roles. The rest is as in
    `read_counts`.
    """
    how = Reading.of(**reading)
    conditions = [condition(text) for text in how.where]
    name = shown(os.fspath(path))
    with translated(name):
        kind = kind_of(path, how.format)
        if kind == "saipe":
            raise ParameterError(f"{name}: a hierarchy is read from CSV, TSV, Excel or Parquet, got a SAIPE file")
        wanted = list(dict.fromkeys([id, count, *labels, *optional, *(one.column for one in conditions)]))
        table = _READERS.get(kind, _text(kind))(name, load(path), wanted, how)
        columns = {(role, column): meant(table, column) for role, column in _roles(id, count, labels)}
        for (role, column), found in columns.items():
            if found is None:
                raise absent(table, f"the {role} column", column, None)
        table = selected(table, conditions)
        ids_in, count_in = str(columns["id", id]), str(columns["count", count])
        if how.drop_missing:
            table = without_missing(table, {"id": ids_in, "count": count_in})
        table = decided(table, [(count_in, "count")])
        ids = texts(table, ids_in, "id")
        unique(table, ids_in, ids)
        values = numbers(table, count_in, "count", least)
        there = {c: meant(table, c) for c in dict.fromkeys([*labels, *optional])}
        found_labels = {c: _labels(table, at) for c, at in there.items() if at is not None}
        return Leaves(name, ids, values, found_labels, table, {"id": ids_in, "count": count_in})


_READERS: dict[str, Callable[[str, bytes, list[str], Reading], Table]] = {
    "parquet": read_parquet,
    "xlsx": read_workbook,
}


def _text(kind: str) -> Callable[[str, bytes, list[str], Reading], Table]:
    return lambda name, data, wanted, how: read_delimited(name, data, kind, wanted, how)


def _roles(id: str, count: str, labels: Sequence[str]) -> list[tuple[str, str]]:
    return [("id", id), ("count", count), *(("label", label) for label in labels)]


def _labels(table: Table, column: str) -> pl.Series:
    """Labels as text without surrounding blanks; empty ones become null."""
    import polars as pl

    series = table.data[column]
    series = series if series.dtype == pl.String else series.cast(pl.String)
    series = series.str.strip_chars()
    return series.set(series == "", None) if (series == "").any() else series
