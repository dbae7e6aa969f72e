"""The Census Bureau's SAIPE school-district files: fixed-width text and Excel.

The record layouts that the Bureau documents (positions from 1; the state code 00 is the national total):

    files of        state  district  name   population  aged 5-17  poor, 5-17  tag
    1995            1-2    5-9       11-45  47-54       56-63      65-72       74-
    2002 to 2007    1-2    4-8       10-74  76-83       85-92      94-101      103-
    recent years    1-2    4-8       10-81  83-90       92-99      101-108     110-

The three numbers are right-aligned. A name may hold anything, so a line is read by position, and the positions are
verified: a layout fits only where both codes are digits, the columns between fields are blank and each number ends in
its last column. No line fits two layouts, because the last columns of the numbers differ.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fairpost.errors import InputError, value
from fairpost.io.guarded import decoded
from fairpost.io.names import picked
from fairpost.io.reading import Reading
from fairpost.io.source import inner_suffix, refuse_signature
from fairpost.io.table import Table

if TYPE_CHECKING:
    import polars as pl

COLUMNS = ("leaid", "state", "name", "pop", "pop_5_17", "poor_5_17")
EXCEL = (".xls", ".xlsx")
NATION = "00"
Row = tuple[str, str, str, str, str, str]


def _layout(gap: int, width: int) -> re.Pattern[str]:
    """State and district with `gap` blanks between them, a name of `width` columns, three numbers of 8, a tag."""
    return re.compile(rf"([ \d]\d) {{{gap}}}([ \d]{{4}}\d) (.{{{width}}}) (.{{8}}) (.{{8}}) (.{{8}})(?: .*)?")


LAYOUTS: tuple[re.Pattern[str], ...] = (_layout(1, 72), _layout(1, 65), _layout(2, 35))


def roles_of(roles: dict[str, str | None]) -> dict[str, str | None]:
    """The readers' default columns in a SAIPE file: leaid, poor_5_17 and, for the groups, state."""
    defaults = {("id", "id"): "leaid", ("count", "count"): "poor_5_17", ("group", None): "state"}
    return {role: defaults.get((role, chosen), chosen) for role, chosen in roles.items()}


def read_saipe(path: str | os.PathLike[str], name: str, data: bytes, wanted: Sequence[str], reading: Reading) -> Table:
    """The wanted columns of a SAIPE file, text or Excel by the end of its name."""
    other = "other files"
    reading.refuse("a SAIPE file", delimiter=other, decimal=other, sheet=other, header=other)
    if inner_suffix(path) in EXCEL:
        found = _from_workbook(name, data, wanted)
    else:
        refuse_signature(name, data, "the SAIPE fixed-width text (Excel: a name that ends in .xls or .xlsx)")
        found = _from_text(name, data, wanted)
    return replace(found, decimal=".", say=reading.say)


def _from_text(name: str, data: bytes, wanted: Sequence[str]) -> Table:
    rows: list[Row] = []
    lines: list[int] = []
    layouts = LAYOUTS
    for number, raw in enumerate(data.removeprefix(b"\xef\xbb\xbf").splitlines(), start=1):
        if not raw.strip(b" \t\x1a"):
            continue
        found = _fitting(raw, layouts)
        if found is None:
            raise InputError(
                f"{name}, line {number}: every line must follow the SAIPE record layout (state, district, name, three "
                f"right-aligned numbers, tag), got {value(raw.decode('latin-1'))}"
            )
        fields, layouts = found
        state, district, label, *numbers = (field.strip() for field in fields)
        if state.zfill(2) != NATION:
            rows.append(_row(state, district, label, *numbers))
            lines.append(number)
    return _table(name, rows, wanted, "line", lines.__getitem__)


def _fitting(
    raw: bytes, layouts: Sequence[re.Pattern[str]]
) -> tuple[tuple[str, ...], tuple[re.Pattern[str], ...]] | None:
    """The fields of a line and its layout; columns may be counted in bytes or in characters of UTF-8."""
    texts = [raw.decode("latin-1")]
    if not raw.isascii():
        texts.append(raw.decode("utf-8", errors="replace"))
    for layout in layouts:
        for text in texts:
            match = layout.fullmatch(text)
            if match is not None and all(re.fullmatch(" *[^ ]+", number) for number in match.groups()[3:]):
                return match.groups(), (layout,)
    return None


def _row(state: str, district: str, label: str, *numbers: str) -> Row:
    fips = state.zfill(2)
    pop, pop_5_17, poor = numbers
    return fips + district.zfill(5), fips, label, pop, pop_5_17, poor


def _table(name: str, rows: list[Row], wanted: Sequence[str], unit: str, number: Callable[[int], int]) -> Table:
    import polars as pl

    if not rows:
        raise InputError(f"{name}: there must be at least one school district, got none")
    columns = dict(zip(COLUMNS, zip(*rows, strict=True), strict=True))
    found: dict[str, pl.Series] = {c: pl.Series(c, columns[c], dtype=pl.String) for c in picked(COLUMNS, wanted)}
    return Table(name, COLUMNS, found, len(rows), unit, number)


def _from_workbook(name: str, data: bytes, wanted: Sequence[str]) -> Table:
    """The first sheet: titles, one row of column names (the third row in every year so far), then the districts."""
    _, body = decoded("workbook", name, data)
    sheet: list[list[Any]] = json.loads(body)
    top, places = _heading(name, sheet)
    rows: list[Row] = []
    numbers: list[int] = []
    for number, cells in enumerate(sheet[top + 1 :], start=top + 2):
        state, district, label, *counts = (_cell(cells[place]) for place in places)
        if not state and not district and not any(counts):  # a blank row or a note below the table
            continue
        if not (re.fullmatch("[0-9]{1,2}", state) and re.fullmatch("[0-9]{1,5}", district)):
            raise InputError(
                f"{name}, row {number}: every district must have a state code of 2 digits and an id of 5, "
                f"got {value(state)} and {value(district)}"
            )
        if state.zfill(2) != NATION:
            rows.append(_row(state, district, label, *counts))
            numbers.append(number)
    return _table(name, rows, wanted, "row", numbers.__getitem__)


def _heading(name: str, sheet: list[list[Any]]) -> tuple[int, list[int]]:
    """The row (from 0) that names the columns, and where the six of them stand."""
    for top, names in enumerate(sheet[:10]):
        places = _places(names)
        if places is not None:
            return top, places
    raise InputError(
        f"{name}: one of the first rows must name the SAIPE columns (State FIPS Code, District ID, Name, "
        "Estimated Total Population, ...), got none that does"
    )


def _places(names: Sequence[object]) -> list[int] | None:
    """Where state, district, name and the three numbers stand, by words of the column names; None: not a header."""
    words = [set(re.findall(r"[a-z]+|\d+", str(cell).lower())) for cell in names]
    rules: tuple[tuple[set[str], set[str]], ...] = (
        ({"fips"}, set()),
        ({"district", "id"}, set()),
        ({"name"}, set()),
        ({"total", "population"}, {"poverty"}),
        ({"population", "5", "17"}, {"poverty"}),
        ({"5", "17", "poverty"}, set()),
    )
    places = []
    for present, absent in rules:
        fitting = [i for i, cell in enumerate(words) if present <= cell and not absent & cell]
        if len(fitting) != 1:
            return None
        places.append(fitting[0])
    return places


def _cell(cell: object) -> str:
    """A cell as text; whole numbers without a decimal point."""
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return "" if cell is None else str(cell).strip()
