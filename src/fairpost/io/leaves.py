"""The reader for hierarchies: long files whose ids stay in columns instead of becoming a million Python strings."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fairpost.errors import InputError, ParameterError
from fairpost.io.columns import numbers, texts, unique
from fairpost.io.delimited import read_delimited
from fairpost.io.frames import read_parquet
from fairpost.io.source import kind_of, load
from fairpost.io.table import Table, listed, shown, translated, value

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

    def __len__(self) -> int:
        return int(self.values.size)


def read_leaves(
    path: str | os.PathLike[str],
    *,
    id: str = "id",
    count: str = "count",
    labels: Sequence[str] = (),
    optional: Sequence[str] = (),
    format: str | None = None,
    least: float | None = 0.0,
) -> Leaves:
    """Ids (text, unique), counts (at least `least`) and columns of labels from CSV, TSV, either gzipped, or Parquet.

    `optional` columns are read where they are there. Any column may be named twice in different roles.
    """
    name = shown(os.fspath(path))
    with translated(name):
        kind = kind_of(path, format)
        if kind == "saipe":
            raise ParameterError(f"{name}: a hierarchy is read from CSV, TSV or Parquet, got a SAIPE file")
        wanted = list(dict.fromkeys([id, count, *labels, *optional]))
        data = load(path)
        table = read_parquet(name, data, wanted) if kind == "parquet" else read_delimited(name, data, kind, wanted)
        for role, column in (("id", id), ("count", count), *(("label", label) for label in labels)):
            if column not in table.data:
                raise InputError(
                    f"{name}: the {role} column must be one of {listed(table.columns)}, got {value(column)}{table.hint}"
                )
        ids = texts(table, id, "id")
        unique(table, id, ids)
        values = numbers(table, count, "count", least)
        found = {c: _labels(table, c) for c in dict.fromkeys([*labels, *optional]) if c in table.data}
        return Leaves(name, ids, values, found, table)


def _labels(table: Table, column: str) -> pl.Series:
    """Labels as text without surrounding blanks; empty ones become null."""
    import polars as pl

    series = table.data[column]
    series = series if series.dtype == pl.String else series.cast(pl.String)
    series = series.str.strip_chars()
    return series.set(series == "", None) if (series == "").any() else series
