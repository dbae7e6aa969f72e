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

import os
import re
from collections.abc import Iterator, Sequence

from fairpost.errors import InputError, value
from fairpost.io.frames import Cells, sheet, text
from fairpost.io.reading import Reading, Table, picked
from fairpost.io.source import inner_suffix, refuse_signature

COLUMNS = ("leaid", "state", "name", "pop", "pop_5_17", "poor_5_17")
EXCEL = (".xls", ".xlsx")
NATION = "00"


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
    import polars as pl

    other = "other files"
    reading.refuse("a SAIPE file", delimiter=other, decimal=other, sheet=other, header=other)
    excel = inner_suffix(path) in EXCEL
    rows, numbers = [], []
    for number, (state, district, *rest) in _from_workbook(name, data) if excel else _from_text(name, data):
        fips = state.zfill(2)
        if fips != NATION:
            rows.append((fips + district.zfill(5), fips, *rest))
            numbers.append(number)
    if not rows:
        raise InputError(f"{name}: there must be at least one school district, got none")
    columns = dict(zip(COLUMNS, zip(*rows, strict=True), strict=True))
    found = {c: pl.Series(c, columns[c], dtype=pl.String) for c in picked(COLUMNS, wanted)}
    unit = "row" if excel else "line"
    return Table(name, COLUMNS, found, len(rows), unit, numbers.__getitem__, decimal=".", say=reading.say)


def _from_text(name: str, data: bytes) -> Iterator[tuple[int, list[str]]]:
    """The number of each line that is not blank, and its fields."""
    refuse_signature(name, data, "the SAIPE fixed-width text (Excel: a name that ends in .xls or .xlsx)")
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
        yield number, [field.strip() for field in fields]


def _fitting(
    raw: bytes, layouts: Sequence[re.Pattern[str]]
) -> tuple[tuple[str, ...], tuple[re.Pattern[str], ...]] | None:
    """The fields of a line and its layout; columns may be counted in bytes or in characters of UTF-8."""
    texts = [raw.decode("latin-1")]
    if not raw.isascii():
        texts.append(raw.decode("utf-8", errors="replace"))
    for layout in layouts:
        for line in texts:
            match = layout.fullmatch(line)
            if match is not None and all(re.fullmatch(" *[^ ]+", number) for number in match.groups()[3:]):
                return match.groups(), (layout,)
    return None


def _from_workbook(name: str, data: bytes) -> Iterator[tuple[int, list[str]]]:
    """The first sheet: titles, one row of column names (the third row in every year so far), then the districts."""
    _, cells = sheet(name, data)
    top, places = _heading(name, cells)
    for number, row in enumerate(cells[top + 1 :], start=top + 2):
        fields = [text(row[place]) or "" for place in places]
        state, district, _, *counts = fields
        if not state and not district and not any(counts):  # a blank row or a note below the table
            continue
        if not (re.fullmatch("[0-9]{1,2}", state) and re.fullmatch("[0-9]{1,5}", district)):
            raise InputError(
                f"{name}, row {number}: every district must have a state code of 2 digits and an id of 5, "
                f"got {value(state)} and {value(district)}"
            )
        yield number, fields


def _heading(name: str, cells: Cells) -> tuple[int, list[int]]:
    """The row (from 0) that names the columns, and where the six of them stand."""
    for top, names in enumerate(cells[:10]):
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
