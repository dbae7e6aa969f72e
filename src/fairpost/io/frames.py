"""What has columns already: data frames, Parquet files and plain workbooks, as a `Table`.

Data frames come in by narwhals, so pandas, Polars, Arrow, DuckDB and whatever it learns are one case. An index of pandas is a
column: under its name, and as the ids where no column has their name and the index does more than number the rows.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fairpost.errors import InputError, value
from fairpost.io.reading import Reading, Table, folded, picked, refuse_repeated
from fairpost.io.source import decoded

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw
    import polars as pl

NAME = "data frame"
ARROW = ("__arrow_c_stream__", "__arrow_c_array__")
"""How other frames hand themselves over."""
Cells = list[list[Any]]
SEARCHED = 50
"""Rows of a sheet among which the names of the columns are looked for."""


def read_frame(source: Any, wanted: Sequence[str], reading: Reading) -> Table:
    """The wanted columns of a data frame. A series is a frame whose column count it is; its rows are numbered for want of an index."""
    reading.refuse(f"a {type(source).__name__}", format="files", delimiter="files", sheet="files", header="files")
    import narwhals.stable.v2 as nw
    import polars as pl

    if nw.dependencies.is_pandas_like_dataframe(source):
        refuse_repeated(NAME, [str(label) for label in source.columns])
    name, frame = NAME, nw.from_native(source, pass_through=True, allow_series=True)
    series = isinstance(frame, nw.Series)
    if isinstance(frame, nw.Series):
        name = NAME if frame.name in (None, "") else f"series {value(str(frame.name))}"
        frame = frame.alias("count").to_frame()
    if isinstance(frame, nw.LazyFrame):
        frame = frame.collect()
    if not isinstance(frame, nw.DataFrame):
        if not any(hasattr(frame, method) for method in ARROW):
            known = "a path or a data frame (pandas, Polars, Arrow, DuckDB)"
            raise InputError(f"`source` must be {known}, got {type(source).__name__}")
        frame = nw.from_native(pl.DataFrame(frame))
    columns = {str(label): frame.get_column(label) for label in frame.columns} | _index(frame)
    if series:
        columns = {"id": [str(row + 1) for row in range(len(frame))]} | columns
    found = {column: _series(columns[column]) for column in picked(list(columns), wanted)}
    return _table(name, tuple(columns), found, len(frame), reading)


def _index(frame: nw.DataFrame[Any]) -> dict[str, list[Any]]:
    """The index of pandas as columns: every level that has a name, and the ids where no column is called so."""
    import narwhals.stable.v2 as nw

    index, there = nw.maybe_get_index(frame), {folded(str(label)) for label in frame.columns}
    if index is None:
        return {}
    levels = {str(label): index.get_level_values(label).tolist() for label in index.names if label is not None}
    levels = {label: entries for label, entries in levels.items() if folded(label) not in there}
    unnamed = index.nlevels == 1 and not (index.names[0] is None and index.tolist() == list(range(len(frame))))
    if unnamed and "id" not in there | {folded(label) for label in levels}:
        levels["id"] = index.tolist()
    return levels


def _series(column: nw.Series[Any] | list[Any]) -> pl.Series:
    """Of pandas numbers as they are and anything else as text, entry by entry, so that no optional library is needed."""
    import polars as pl

    if not isinstance(column, list):
        if not column.implementation.is_pandas_like():
            return column.to_polars()
        array = column.to_native().to_numpy()
        if array.dtype.kind in "iuf":
            return pl.Series(array if array.dtype.itemsize > 2 else array.astype(float))
        column = column.to_list()
    return pl.Series([_entry(entry) for entry in column], dtype=pl.String)


def _entry(entry: object) -> str | None:
    """An entry as text; None where pandas means that it is missing."""
    if type(entry) is str:
        return entry
    if entry is None or type(entry).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(entry, float):
        if math.isnan(entry):
            return None
        return str(int(entry)) if entry.is_integer() else repr(entry)
    return str(entry)


def _table(name: str, columns: tuple[str, ...], found: dict[str, pl.Series], height: int, reading: Reading) -> Table:
    if height == 0:
        raise InputError(f"{name}: there must be at least one row, got none")
    return Table(name, columns, found, height, decimal=reading.decimal, say=reading.say)


def read_parquet(name: str, data: bytes, wanted: Sequence[str], reading: Reading) -> Table:
    """The wanted columns of a Parquet file."""
    import polars as pl

    reading.refuse("a Parquet file", delimiter="text files", sheet="workbooks", header="workbooks")
    if not (data.startswith(b"PAR1") and data.endswith(b"PAR1") and len(data) >= 12):
        got = "a truncated file" if data.startswith(b"PAR1") else f"a file that begins with {data[:4]!r}"
        raise InputError(f"{name}: must be Parquet, as its name says, got {got}")
    head, body = decoded("parquet", name, data, wanted)
    frame = pl.read_ipc_stream(io.BytesIO(body))
    return _table(name, tuple(head["columns"]), {c: frame[c] for c in frame.columns}, frame.height, reading)


# ---- plain workbooks: one sheet, one row of column names, and the rows below it ----


def read_workbook(name: str, data: bytes, wanted: Sequence[str], reading: Reading) -> Table:
    """The wanted columns of a sheet. Blank rows are skipped."""
    reading.refuse("a workbook", delimiter="text files")
    head, cells = sheet(name, data, None if reading.sheet is None else str(reading.sheet))
    if reading.sheet is None and len(head["sheets"]) > 1:
        reading.say(f"{name}: the first of {len(head['sheets'])} sheets is read, {value(head['sheet'])} (--sheet)")
    top = _top(name, cells, wanted, reading)
    names = [text(cell) or "" for cell in cells[top]]
    refuse_repeated(f"{name}, row {top + 1}", names)
    rows = [r for r in range(top + 1, len(cells)) if _filled(cells[r])]
    if not rows:
        raise InputError(f"{name}: there must be at least one row below row {top + 1} with the names, got none")
    return Table(
        name=name,
        columns=tuple(n for n in names if n),
        data={column: _cells([cells[r][names.index(column)] for r in rows]) for column in picked(names, wanted)},
        height=len(rows),
        number=lambda row: rows[row] + 1,
        decimal=reading.decimal,
        say=reading.say,
    )


def sheet(name: str, data: bytes, wanted: str | None = None) -> tuple[dict[str, Any], Cells]:
    """What is said of a workbook, and the cells of one sheet, row by row."""
    head, body = decoded("workbook", name, data, sheet=wanted)
    return head, json.loads(body)


def _top(name: str, cells: Cells, wanted: Sequence[str], reading: Reading) -> int:
    """The row, from 0, with the names of the columns: as given, else the first that has most of the wanted ones."""
    if reading.header is not None:
        if reading.header > len(cells):
            raise InputError(f"{name}: the header must be a row of the sheet ({len(cells)} rows), got {reading.header}")
        return reading.header - 1
    names = {folded(w) for w in wanted}
    filled = [r for r in range(min(SEARCHED, len(cells))) if _filled(cells[r])]
    if not filled:
        raise InputError(f"{name}: the sheet must have a header and at least one row, got blank cells only")
    hits = {r: len(names & {folded(text(cell) or "") for cell in cells[r]}) for r in filled}
    if max(hits.values()) == 0:  # the widest of the first rows, so that the error lists what it holds
        return max(filled, key=lambda r: (sum(isinstance(cell, str) and bool(cell.strip()) for cell in cells[r]), -r))
    top = max(filled, key=lambda r: (hits[r], -r))
    if top != filled[0]:
        reading.say(f"{name}: the names of the columns are in row {top + 1} (--header)")
    return top


def _filled(row: list[Any]) -> bool:
    return any(text(cell) is not None for cell in row)


def text(cell: object) -> str | None:
    """A cell as text, None where it is blank; whole numbers without a decimal point."""
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return None if cell is None else str(cell).strip() or None


def _cells(cells: list[Any]) -> pl.Series:
    """Numbers where all cells are numbers or blank, else text."""
    import polars as pl

    if all((isinstance(cell, (int, float)) and not isinstance(cell, bool)) or text(cell) is None for cell in cells):
        return pl.Series([None if text(cell) is None else float(cell) for cell in cells], dtype=pl.Float64)
    return pl.Series([text(cell) for cell in cells], dtype=pl.String)
