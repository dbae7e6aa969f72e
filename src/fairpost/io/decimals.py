"""Text to numbers: which mark stands before the decimals, and whether that is clear.

1.234,5 and 1,234.5 can be read in one way each. 1,234 cannot: it is one and a bit where the comma is the decimal mark, and
over a thousand where it separates thousands. So the mark is decided for the whole file, by what was given, else by
entries that allow one reading only; where there are none and an entry needs a decision, it is refused by name. In a
file with commas between its fields the decimal mark is the point (programs that write decimal commas put semicolons
between fields), and a comma inside a number separates thousands.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from fairpost.errors import CountsError, value
from fairpost.io.table import Table, first

if TYPE_CHECKING:
    import polars as pl

BLANKS = "[ '\u00a0\u202f\u2019]"
GROUPED = rf"^[+-]?[0-9]{{1,3}}({BLANKS}[0-9]{{3}})+([.,][0-9]*)?$"
"""12 345,6: blanks or apostrophes that can only separate thousands."""
THOUSANDS = r"^[+-]?[0-9]{1,3}(,[0-9]{3})+(\.[0-9]+)?$"
"""1,234 and 1,234,567.8: with a decimal point, commas that can only separate thousands."""
WITH_COMMA = r"^[+-]?([0-9]*|[0-9]{1,3}(\.[0-9]{3})+)(,[0-9]*)?([eE][+-]?[0-9]+)?$"
"""What a number with a decimal comma looks like."""
UNCLEAR_COMMA = r"^[+-]?[1-9][0-9]{0,2},[0-9]{3}$"
UNCLEAR_POINT = r"^[+-]?[1-9][0-9]{0,2}\.[0-9]{3}$"
COMMA_ONLY = r"^[+-]?([0-9]*|[0-9]{1,3}(\.[0-9]{3})+),[0-9]*([eE][+-]?[0-9]+)?$|^[+-]?[0-9]{1,3}(\.[0-9]{3}){2,}$"
POINT_ONLY = (
    r"^[+-]?[0-9]*\.[0-9]*([eE][+-]?[0-9]+)?$|^[+-]?[0-9]{1,3}(,[0-9]{3})+\.[0-9]*$|^[+-]?[0-9]{1,3}(,[0-9]{3}){2,}$"
)


def is_text(series: pl.Series) -> bool:
    """Whether a column holds text, of whatever kind."""
    import polars as pl

    return series.dtype in (pl.String, pl.Categorical, pl.Enum)


def as_text(series: pl.Series) -> pl.Series:
    """Text as text, categories too."""
    import polars as pl

    return series if series.dtype == pl.String else series.cast(pl.String)


def plain(series: pl.Series) -> pl.Series:
    """A column of text without surrounding blanks and blanks between thousands."""
    text = series.str.strip_chars()
    if not text.str.contains_any(list(BLANKS[1:-1])).any():
        return text
    grouped = text.str.contains(GROUPED).fill_null(False)
    return text.zip_with(~grouped, text.str.replace_all(BLANKS, ""))


def parsed(series: pl.Series, decimal: str = ".") -> pl.Series:
    """The numbers of a column; null where an entry is missing or is no number."""
    import polars as pl

    if series.dtype.is_numeric():
        return series.cast(pl.Float64)
    if not is_text(series):
        return pl.Series([None] * series.len(), dtype=pl.Float64)
    series = as_text(series)
    found = series.str.strip_chars().cast(pl.Float64, strict=False)
    if decimal == "." and not found.null_count():
        return found
    text = plain(series)
    if decimal == ",":
        marked = text.str.contains_any([".", ","]).fill_null(False)
        fits = text.str.contains(WITH_COMMA).fill_null(False)
        pointed = text.str.replace_all(".", "", literal=True).str.replace(",", ".", literal=True)
        return text.zip_with(~marked, pointed.set(~fits, None)).cast(pl.Float64, strict=False)
    grouped = text.str.contains(THOUSANDS).fill_null(False)
    return text.zip_with(~grouped, text.str.replace_all(",", "")).cast(pl.Float64, strict=False)


def separated(series: pl.Series) -> bool:
    """Whether a column has numbers in which commas separate thousands."""
    text = as_text(series)
    return bool(text.str.contains(",", literal=True).any()) and bool(plain(text).str.contains(THOUSANDS).any())


def decided(table: Table, columns: Iterable[tuple[str, str]]) -> Table:
    """The table with its decimal mark, from all columns of numbers, each with what it holds ("count")."""
    if table.decimal is not None:
        return table
    columns = [(column, what) for column, what in columns if is_text(table.data[column])]
    if table.separator == ",":
        if any(separated(table.data[column]) for column, _ in columns):
            table.say(f"{table.name}: commas inside numbers separate thousands (--decimal , where they do not)")
        return replace(table, decimal=".")
    commas, points = (
        _first(table, columns, COMMA_ONLY, UNCLEAR_COMMA),
        _first(table, columns, POINT_ONLY, UNCLEAR_POINT),
    )
    if commas is not None and points is not None:
        raise _both(table, commas, points)
    if commas is not None:
        table.say(f"{table.name}: numbers have decimal commas")
        return replace(table, decimal=",")
    if points is None:
        for pattern in (UNCLEAR_COMMA, *([UNCLEAR_POINT] if table.separator == ";" else [])):
            unclear = _first(table, columns, pattern)
            if unclear is not None:
                raise _unclear(table, *unclear)
    elif any(separated(table.data[column]) for column, _ in columns):
        table.say(f"{table.name}: commas inside numbers separate thousands")
    return replace(table, decimal=".")


Found = tuple[str, str, int]
"""A column, what it holds, and a row."""


def _first(table: Table, columns: list[tuple[str, str]], pattern: str, but: str | None = None) -> Found | None:
    """The first entry of this look."""
    for column, what in columns:
        series = as_text(table.data[column])
        if not series.str.contains_any([".", ","]).any():
            continue
        text = plain(series)
        mask = text.str.contains(pattern) & text.str.contains("[0-9]")
        row = first((mask if but is None else mask & ~text.str.contains(but)).fill_null(False))
        if row is not None:
            return column, what, row
    return None


def _unclear(table: Table, column: str, what: str, row: int) -> CountsError:
    got = value(table.data[column][row])
    advice = "thousands or decimals? --decimal . or --decimal , says which mark stands before decimals"
    return table.error([row], column, f"every {what} must have a clear decimal mark, got {got} ({advice})")


def _both(table: Table, commas: Found, points: Found) -> CountsError:
    column, _, row = points
    other, _, where = commas
    got = f"{value(table.data[column][row])} beside {value(table.data[other][where])}"
    place = f"{table.unit} {table.number(where)}, column {value(other)}"
    rule = f"numbers must have one decimal mark in the whole table, got {got} ({place}); --decimal . or --decimal ,"
    return table.error([row], column, rule)
