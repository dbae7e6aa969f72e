"""A table from named columns, as CSV text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def columns_csv(columns: Mapping[str, Any]) -> str:
    """Columns of equal length (arrays, lists or tuples; None: an empty field) as CSV, floats in full precision."""
    import polars as pl

    return pl.DataFrame({name: pl.Series(name, values, strict=False) for name, values in columns.items()}).write_csv()
