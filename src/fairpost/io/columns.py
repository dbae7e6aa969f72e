"""One column at a time: text to numbers, what is allowed, and the first row that breaks a rule."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fairpost.errors import InputError, value
from fairpost.io.decimals import parsed as to_numbers
from fairpost.io.table import Table, first
from fairpost.magnitudes import RANGES, meant

if TYPE_CHECKING:
    import polars as pl

Floats = NDArray[np.float64]
MARKERS = ("", "na", "n/a", "nan", "null", "none", "-", "--", ".", "..")
"""How a missing entry is written, in any case."""


def numbers(table: Table, column: str, what: str, least: float | None, *, strictly: bool = False) -> Floats:
    """A column of finite numbers, at least (strictly: above) `least`."""
    import polars as pl

    series = table.data[column]
    parsed = to_numbers(series, table.decimal or ".")
    bad = parsed.is_null() | ~parsed.is_finite().fill_null(False)
    if least is not None:
        bad |= (parsed <= least if strictly else parsed < least).fill_null(False)
    row = first(bad)
    if row is not None:
        marked = " (the decimal mark is a comma)" if table.decimal == "," else ""
        raise table.error([row], column, _broken(what, series[row], parsed[row], least, strictly, marked))
    low, high = RANGES["noisy count" if least is None else what]
    row = first((parsed < low) | (parsed > high))
    if row is not None:
        rule = f"every {what} {meant('noisy count' if least is None else what)}, got {value(series[row])}"
        raise table.error([row], column, rule)
    return np.asarray(parsed.cast(pl.Float64).to_numpy(), dtype=np.float64) + 0.0  # -0 is 0


def _broken(what: str, given: object, number: float | None, least: float | None, strictly: bool, marked: str) -> str:
    """Which rule a bad entry breaks."""
    if given is None or (isinstance(given, str) and not given.strip()):
        return f"every {what} must be present, got a missing one"
    if number is None:
        return f"every {what} must be a number, got {value(given)}{marked}"
    if not np.isfinite(number):
        return f"every {what} must be finite, got {value(given)}"
    return f"every {what} must be {'above' if strictly else 'at least'} {least:g}, got {value(given)}"


def texts(table: Table, column: str, what: str) -> pl.Series:
    """A column of labels as text without surrounding blanks, none of them empty."""
    labels = words(table, column, table.data[column]).str.strip_chars()
    row = first(labels.is_null() | (labels == "").fill_null(False))
    if row is not None:
        raise table.error([row], column, f"every {what} must be present, got a missing one")
    return labels


def words(table: Table, column: str, series: pl.Series) -> pl.Series:
    """Text as it is; whole numbers without a decimal point, however they are stored."""
    import polars as pl

    if series.dtype == pl.String:
        return series
    if series.dtype.is_nested() or series.dtype in (pl.Object, pl.Binary):
        raise InputError(f"{table.name}, column {value(column)}: labels must be text or numbers, got {series.dtype}")
    if series.dtype.is_float():
        series = series.fill_nan(None)
        whole = (series == series.round()) & (series.abs() < 2.0**63)
        if whole.fill_null(True).all():
            series = series.cast(pl.Int64)
    return series.cast(pl.String)


def missing(series: pl.Series) -> pl.Series:
    """Which entries of a column are missing: null, not a number, or one of MARKERS."""
    import polars as pl

    if series.dtype.is_float():
        return series.is_null() | series.is_nan().fill_null(False)
    if series.dtype in (pl.Categorical, pl.Enum):
        series = series.cast(pl.String)
    if series.dtype == pl.String:
        return series.is_null() | series.str.strip_chars().str.to_lowercase().is_in(MARKERS).fill_null(False)
    return series.is_null()


def empty(series: pl.Series) -> bool:
    """Whether a column has no entry at all, only blanks."""
    import polars as pl

    if series.dtype == pl.String:
        return bool((series.str.strip_chars().fill_null("") == "").all())
    return series.null_count() == series.len()


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
