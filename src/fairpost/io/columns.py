"""Columns of a table: text to numbers and labels, what is allowed in them, missing entries, rows to use.

*Decimals.* 1.234,5 and 1,234.5 can be read in one way each. 1,234 cannot: it is one and a bit where the comma is the decimal
mark, and over a thousand where it separates thousands. So the mark is decided for the whole file, by what was given, else by
entries that allow one reading only; where there are none and an entry needs a decision, it is refused by name. In a
file with commas between its fields the decimal mark is the point (programs that write decimal commas put semicolons
between fields), and a comma inside a number separates thousands.

*Rows to use* (`--where "state == AL"`). A condition is taken apart by a fixed grammar; no code is evaluated.

    COLUMN = VALUE      (or ==)   the entry is this text; of a column of numbers, this number
    COLUMN != VALUE               it is there and is another one
    COLUMN < NUMBER     (<= > >=) it is a number on this side
    COLUMN is missing, COLUMN is not missing

Column and value may stand in quotation marks of any kind; several conditions must all hold.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fairpost.errors import CountsError, InputError, ParameterError, value
from fairpost.io.reading import Skipped, Table, first, listed, suggested
from fairpost.magnitudes import RANGES, meant

if TYPE_CHECKING:
    import polars as pl

Floats = NDArray[np.float64]
MARKERS = ("", "na", "n/a", "nan", "null", "none", "-", "--", ".", "..")
"""How a missing entry is written, in any case."""
MOST_NAMED = 10
"""At most this many rows are named in a note."""


# ---- text to numbers: which mark stands before the decimals, and whether that is clear ----

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


def _text(series: pl.Series) -> pl.Series | None:
    """A column of text as text, categories too; None of anything else."""
    import polars as pl

    if series.dtype in (pl.Categorical, pl.Enum):
        return series.cast(pl.String)
    return series if series.dtype == pl.String else None


def _plain(series: pl.Series) -> pl.Series:
    """A column of text without surrounding blanks and blanks between thousands."""
    text = series.str.strip_chars()
    if not text.str.contains_any(list(BLANKS[1:-1])).any():
        return text
    grouped = text.str.contains(GROUPED).fill_null(False)
    return text.zip_with(~grouped, text.str.replace_all(BLANKS, ""))


def _parsed(series: pl.Series, decimal: str) -> pl.Series:
    """The numbers of a column; null where an entry is missing or is no number."""
    import polars as pl

    if series.dtype.is_numeric():
        return series.cast(pl.Float64)
    given = _text(series)
    if given is None:
        return pl.Series([None] * series.len(), dtype=pl.Float64)
    found = given.str.strip_chars().cast(pl.Float64, strict=False)
    if decimal == "." and not found.null_count():
        return found
    text = _plain(given)
    if decimal == ",":
        marked = text.str.contains_any([".", ","]).fill_null(False)
        fits = text.str.contains(WITH_COMMA).fill_null(False)
        pointed = text.str.replace_all(".", "", literal=True).str.replace(",", ".", literal=True)
        return text.zip_with(~marked, pointed.set(~fits, None)).cast(pl.Float64, strict=False)
    grouped = text.str.contains(THOUSANDS).fill_null(False)
    return text.zip_with(~grouped, text.str.replace_all(",", "")).cast(pl.Float64, strict=False)


Held = tuple[str, str, "pl.Series"]
"""A column of text, what it holds ("count"), and its entries."""


def decided(table: Table, columns: Iterable[tuple[str, str]]) -> Table:
    """The table with its decimal mark, from all columns of numbers, each with what it holds."""
    if table.decimal is not None:
        return table
    held: list[Held] = []
    for column, what in columns:
        text = _text(table.data[column])
        if text is not None and text.str.contains_any([".", ","]).any():
            held.append((column, what, _plain(text)))
    thousands = any(text.str.contains(THOUSANDS).any() for _, _, text in held)
    if table.separator == ",":
        if thousands:
            table.say(f"{table.name}: commas inside numbers separate thousands (--decimal , where they do not)")
        return replace(table, decimal=".")
    commas, points = _first(held, COMMA_ONLY, UNCLEAR_COMMA), _first(held, POINT_ONLY, UNCLEAR_POINT)
    if commas is not None and points is not None:
        raise _both(table, commas, points)
    if commas is not None:
        table.say(f"{table.name}: numbers have decimal commas")
        return replace(table, decimal=",")
    if points is None:
        for pattern in (UNCLEAR_COMMA, *([UNCLEAR_POINT] if table.separator == ";" else [])):
            unclear = _first(held, pattern)
            if unclear is not None:
                raise _unclear(table, *unclear)
    elif thousands:
        table.say(f"{table.name}: commas inside numbers separate thousands")
    return replace(table, decimal=".")


Found = tuple[str, str, int]
"""A column, what it holds, and a row."""


def _first(held: Sequence[Held], pattern: str, but: str | None = None) -> Found | None:
    """The first entry of this look."""
    for column, what, text in held:
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


# ---- one column: numbers, labels, and the first row that breaks a rule ----


def numbers(table: Table, column: str, what: str, least: float | None, *, strictly: bool = False) -> Floats:
    """A column of finite numbers, at least (strictly: above) `least`."""
    series = table.data[column]
    parsed = _parsed(series, table.decimal or ".")
    bad = parsed.is_null() | ~parsed.is_finite().fill_null(False)
    if least is not None:
        bad |= (parsed <= least if strictly else parsed < least).fill_null(False)
    row = first(bad)
    if row is not None:
        marked = " (the decimal mark is a comma)" if table.decimal == "," else ""
        raise table.error([row], column, _broken(what, series[row], parsed[row], least, strictly, marked))
    kind = "noisy count" if least is None else what
    low, high = RANGES[kind]
    row = first((parsed < low) | (parsed > high))
    if row is not None:
        raise table.error([row], column, f"every {what} {meant(kind)}, got {value(series[row])}")
    return np.asarray(parsed.to_numpy(), dtype=np.float64) + 0.0  # -0 is 0


def _broken(what: str, given: object, number: float | None, least: float | None, strictly: bool, marked: str) -> str:
    """Which rule a bad entry breaks."""
    if given is None or (isinstance(given, str) and not given.strip()):
        return f"every {what} must be present, got a missing one"
    if number is None:
        return f"every {what} must be a number, got {value(given)}{marked}"
    if not np.isfinite(number):
        return f"every {what} must be finite, got {value(given)}"
    return f"every {what} must be {'above' if strictly else 'at least'} {least:g}, got {value(given)}"


def words(table: Table, column: str) -> pl.Series:
    """A column as text without surrounding blanks; whole numbers without a decimal point, however they are stored."""
    import polars as pl

    series = table.data[column]
    if series.dtype.is_nested() or series.dtype in (pl.Object, pl.Binary):
        raise InputError(f"{table.name}, column {value(column)}: labels must be text or numbers, got {series.dtype}")
    if series.dtype.is_float():
        series = series.fill_nan(None)
        whole = (series == series.round()) & (series.abs() < 2.0**63)
        if whole.fill_null(True).all():
            series = series.cast(pl.Int64)
    return series.cast(pl.String).str.strip_chars()


def texts(table: Table, column: str, what: str) -> pl.Series:
    """A column of labels as text, none of them empty."""
    labels = words(table, column)
    row = first(labels.is_null() | (labels == "").fill_null(False))
    if row is not None:
        raise table.error([row], column, f"every {what} must be present, got a missing one")
    return labels


def unique(table: Table, column: str, labels: pl.Series, what: str = "ids") -> None:
    """Ids must be unique; the error names the first one that comes again, and both places."""
    if labels.n_unique() == labels.len():
        return
    row = first(~labels.is_first_distinct())
    assert row is not None
    earlier = first(labels == labels[row])
    raise table.error([earlier or 0, row], column, f"{what} must be unique, got {value(labels[row])} twice")


def constant(table: Table, column: str, totals: Floats, groups: pl.Series | None) -> Floats:
    """Totals must be the same in each group (in the whole table, without groups)."""
    import polars as pl

    if groups is None:
        firsts = np.full(totals.size, totals[0])
    else:
        frame = pl.DataFrame({"group": groups, "total": totals})
        firsts = frame.select(pl.col("total").first().over("group"))["total"].to_numpy()
    different = np.flatnonzero(totals != firsts)
    if different.size:
        row = int(different[0])
        where = "the table" if groups is None else f"the group {value(groups[row])}"
        rule = f"the total must be the same in all of {where}, got {float(totals[row])} after {float(firsts[row])}"
        raise table.error([row], column, rule)
    return totals


# ---- missing entries: skipped where that is asked for, named and counted ----


def missing(series: pl.Series) -> pl.Series:
    """Which entries of a column are missing: null, not a number, or one of MARKERS."""
    if series.dtype.is_float():
        return series.is_null() | series.is_nan().fill_null(False)
    text = _text(series)
    if text is None:
        return series.is_null()
    return text.is_null() | text.str.strip_chars().str.to_lowercase().is_in(MARKERS).fill_null(False)


def empty(series: pl.Series) -> bool:
    """Whether a column has no entry at all, only blanks."""
    import polars as pl

    if series.dtype == pl.String:
        return bool((series.str.strip_chars().fill_null("") == "").all())
    return series.null_count() == series.len()


def without_missing(table: Table, columns: Mapping[str, str | None]) -> Table:
    """The rows in which every column of a role has an entry; a note says which ones went, and for the lack of what."""
    import polars as pl

    gone = {role: missing(table.data[column]) for role, column in columns.items() if column is not None}
    lost = pl.Series([False] * table.height)
    for mask in gone.values():
        lost = lost | mask
    if not lost.any():
        return table
    if lost.all():
        needed = f"some row must have all it needs ({', '.join(gone)})"
        raise InputError(f"{table.name}: {needed}, got none of {table.height:,}")
    rows, id = lost.arg_true().to_list(), columns.get("id")
    labels = [None if id is None else table.data[id][row] for row in rows[:MOST_NAMED]]
    places = [
        f"{table.number(r)}" + ("" if x is None else f" ({value(x)})") for r, x in zip(rows, labels, strict=False)
    ]
    named = f"{table.unit}{'s' if len(rows) > 1 else ''} {', '.join(places)}"
    named += f" and {len(rows) - MOST_NAMED:,} more" if len(rows) > MOST_NAMED else ""
    lacks = ", ".join(f"{role} in {int(mask.sum()):,}" for role, mask in gone.items() if mask.any())
    skipped = f"{len(rows):,} of {table.height:,} rows are skipped, with entries missing ({lacks})"
    table.say(Skipped(f"{table.name}: {skipped}: {named}"))
    return table.kept(~lost)


# ---- rows to use ----

QUOTED = r"\"[^\"]*\"|'[^']*'|`[^`]*`"
IS = re.compile(rf"\s*({QUOTED}|.*?\S)\s+is\s+(not\s+)?missing\s*", re.IGNORECASE | re.DOTALL)
COMPARED = re.compile(rf"\s*({QUOTED}|[^=!<>]*[^=!<>\s])\s*(==|=|!=|<=|>=|<|>)\s*(.*?)\s*", re.DOTALL)
ORDER = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
GRAMMAR = "COLUMN = VALUE, COLUMN != VALUE, COLUMN < NUMBER (<=, >, >=), COLUMN is missing, COLUMN is not missing"


@dataclass(frozen=True)
class Condition:
    """One condition, as it was written and taken apart."""

    text: str
    column: str
    sign: str
    """=, !=, <, <=, >, >=, missing or present."""
    value: str = ""

    @property
    def number(self) -> float:
        """The value of a comparison of numbers."""
        try:
            return float(self.value)
        except ValueError:
            raise ParameterError(f"`where` compares numbers in {value(self.text)}, got {value(self.value)}") from None


def condition(text: str) -> Condition:
    """A condition from its text."""
    found = COMPARED.fullmatch(text)
    if found is not None:
        column, sign, wanted = found.groups()
        return Condition(text, _bare(column), "=" if sign == "==" else sign, _bare(wanted))
    found = IS.fullmatch(text)
    if found is not None:
        return Condition(text, _bare(found[1]), "present" if found[2] else "missing")
    raise ParameterError(f"`where` must be {GRAMMAR}, got {value(text)}")


def _bare(text: str) -> str:
    """Without the quotation marks around it."""
    return text[1:-1] if re.fullmatch(QUOTED, text) else text


def selected(table: Table, conditions: Sequence[Condition]) -> Table:
    """The rows for which all conditions hold; at least one."""
    for one in conditions:
        column = table.meant(one.column)
        if column is None:
            raise table.absent("the column of `where`", one.column, None)
        mask = _holds(table, column, one)
        if not mask.any():
            rule = f"some row must fulfil --where {value(one.text)}"
            raise InputError(f"{table.name}: {rule}, got none of {table.height:,}{_offered(table, column, one)}")
        table = table.kept(mask)
    return table


def _holds(table: Table, column: str, one: Condition) -> pl.Series:
    series = table.data[column]
    gone = missing(series)
    if one.sign in ("missing", "present"):
        return gone if one.sign == "missing" else ~gone
    if one.sign in ORDER:
        quiet = decided(replace(table, say=lambda _: None), [(column, "value")])
        inside: pl.Series = ORDER[one.sign](_parsed(series, quiet.decimal or "."), one.number).fill_null(False)
        return inside
    same = series == one.number if series.dtype.is_numeric() else words(table, column) == one.value.strip()
    return (same if one.sign == "=" else ~same).fill_null(False) & ~gone


def _offered(table: Table, column: str, one: Condition) -> str:
    """What the column holds instead."""
    if one.sign != "=" or table.data[column].dtype.is_numeric():
        return ""
    held = words(table, column).drop_nulls().unique(maintain_order=True).to_list()
    return f" ({suggested(one.value, held)}the column has {listed(held)})" if held else ""
