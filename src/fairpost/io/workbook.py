"""Plain Excel workbooks: one sheet, one row of column names, and the rows below it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fairpost.errors import InputError, value
from fairpost.io.guarded import decoded
from fairpost.io.names import folded, picked
from fairpost.io.reading import Reading
from fairpost.io.table import Table, repeated

if TYPE_CHECKING:
    import polars as pl

Cells = list[list[Any]]
SEARCHED = 50
"""Rows among which the names of the columns are looked for."""


def read_workbook(name: str, data: bytes, wanted: Sequence[str], reading: Reading) -> Table:
    """The wanted columns of a sheet. Rows without any entry are no rows."""
    reading.refuse("a workbook", delimiter="text files")
    head, body = decoded("workbook", name, data, sheet=None if reading.sheet is None else str(reading.sheet))
    cells: Cells = json.loads(body)
    if reading.sheet is None and len(head["sheets"]) > 1:
        reading.say(f"{name}: the first of {len(head['sheets'])} sheets is read, {value(head['sheet'])} (--sheet)")
    top = _top(name, cells, wanted, reading)
    names = [text(cell) or "" for cell in cells[top]]
    twice = repeated(names)
    if twice is not None:
        raise InputError(f"{name}, row {top + 1}: column names must be unique, got {value(twice)} twice")
    rows = [r for r in range(top + 1, len(cells)) if any(not _blank(cell) for cell in cells[r])]
    if not rows:
        raise InputError(f"{name}: there must be at least one row below row {top + 1} with the names, got none")
    found = {column: _series([cells[r][names.index(column)] for r in rows]) for column in picked(names, wanted)}
    return Table(
        name=name,
        columns=tuple(n for n in names if n),
        data=found,
        height=len(rows),
        number=lambda row: rows[row] + 1,
        decimal=reading.decimal,
        say=reading.say,
    )


def _top(name: str, cells: Cells, wanted: Sequence[str], reading: Reading) -> int:
    """The row, from 0, with the names of the columns: as given, else the first that has most of the wanted ones."""
    if reading.header is not None:
        if reading.header > len(cells):
            raise InputError(f"{name}: the header must be a row of the sheet ({len(cells)} rows), got {reading.header}")
        return reading.header - 1
    names = {folded(w) for w in wanted}
    filled = [r for r in range(min(SEARCHED, len(cells))) if any(not _blank(cell) for cell in cells[r])]
    if not filled:
        raise InputError(f"{name}: the sheet must have a header and at least one row, got blank cells only")
    hits = {r: len(names & {folded(text(cell) or "") for cell in cells[r]}) for r in filled}
    if max(hits.values()) == 0:  # the widest of the first rows, so that the error lists what it holds
        return max(filled, key=lambda r: (sum(isinstance(cell, str) and bool(cell.strip()) for cell in cells[r]), -r))
    top = max(filled, key=lambda r: (hits[r], -r))
    if top != filled[0]:
        reading.say(f"{name}: the names of the columns are in row {top + 1} (--header)")
    return top


def _blank(cell: object) -> bool:
    return cell is None or (isinstance(cell, str) and not cell.strip())


def text(cell: object) -> str | None:
    """A cell as text, None where it is blank; whole numbers without a decimal point."""
    if _blank(cell):
        return None
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return str(cell).strip()


def _series(cells: list[Any]) -> pl.Series:
    """Numbers where all cells are numbers or blank, else text."""
    import polars as pl

    if all(_blank(cell) or (isinstance(cell, (int, float)) and not isinstance(cell, bool)) for cell in cells):
        return pl.Series([None if _blank(cell) else float(cell) for cell in cells], dtype=pl.Float64)
    return pl.Series([text(cell) for cell in cells], dtype=pl.String)
