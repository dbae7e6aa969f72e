"""A table from named columns, as CSV text, and such a text made harmless for spreadsheets."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from typing import Any

FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""How a field begins that a spreadsheet may take for a formula (OWASP, CSV injection)."""


def columns_csv(columns: Mapping[str, Any]) -> str:
    """Columns of equal length (arrays, lists or tuples; None: an empty field) as CSV, floats in full precision."""
    import polars as pl

    return pl.DataFrame({name: pl.Series(name, values, strict=False) for name, values in columns.items()}).write_csv()


def without_formulas(text: str) -> str:
    """A table in which no field begins like a formula: those that do, and are no numbers, get a ' in front."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for row in csv.reader(io.StringIO(text, newline="")):
        writer.writerow([without_formula(field) for field in row])
    return out.getvalue()


def without_formula(field: str) -> str:
    """One field of such a table."""
    if not field.startswith(FORMULA):
        return field
    try:
        float(field)
    except ValueError:
        return "'" + field
    return field
