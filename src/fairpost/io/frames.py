"""Data frames (pandas, Polars, anything with the Arrow interface) and Parquet files, as a `Table`."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fairpost.errors import InputError, value
from fairpost.io.guarded import decoded
from fairpost.io.names import picked
from fairpost.io.reading import Reading
from fairpost.io.table import Table, repeated

if TYPE_CHECKING:
    import polars as pl

NAME = "data frame"
ARROW = ("__arrow_c_stream__", "__arrow_c_array__")


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


def read_frame(source: Any, wanted: Sequence[str], reading: Reading) -> Table:
    """The wanted columns of a data frame."""
    reading.refuse(f"a {type(source).__name__}", format="files", delimiter="files", sheet="files", header="files")
    if type(source).__module__.split(".")[0] == "pandas" and hasattr(source, "columns"):
        return _from_pandas(source, wanted, reading)
    import polars as pl

    frame = source.collect() if isinstance(source, pl.LazyFrame) else source
    if not isinstance(frame, pl.DataFrame):
        if not any(hasattr(frame, method) for method in ARROW):
            raise InputError(
                f"`source` must be a path or a data frame (pandas, Polars, Arrow), got {type(source).__name__}"
            )
        frame = pl.DataFrame(frame)
    found = {c: frame[c] for c in picked(frame.columns, wanted)}
    return _table(NAME, tuple(frame.columns), found, frame.height, reading)


def _table(name: str, columns: tuple[str, ...], found: dict[str, Any], height: int, reading: Reading) -> Table:
    if height == 0:
        raise InputError(f"{name}: there must be at least one row, got none")
    return Table(name, columns, found, height, decimal=reading.decimal, say=reading.say)


def _from_pandas(frame: Any, wanted: Sequence[str], reading: Reading) -> Table:
    labels = list(frame.columns)
    names = [str(label) for label in labels]
    twice = repeated(names)
    if twice is not None:
        raise InputError(f"{NAME}: column names must be unique, got {value(twice)} twice")
    found = {name: _pandas_series(frame[labels[names.index(name)]]) for name in picked(names, wanted)}
    return _table(NAME, tuple(names), found, len(frame), reading)


def _pandas_series(column: Any) -> pl.Series:
    """Numbers as they are; anything else as text, entry by entry, so that no optional library is needed."""
    import polars as pl

    array = column.to_numpy()
    if array.dtype.kind in "iuf":
        return pl.Series(array if array.dtype.itemsize > 2 else array.astype(float))
    return pl.Series([_entry(entry) for entry in column.tolist()], dtype=pl.String)


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
