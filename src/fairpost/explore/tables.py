"""A first look at a table: its columns, ten rows, and a guess at what the columns mean."""

from __future__ import annotations

from typing import Any, Unpack

from fairpost.explore.session import ROLES, Source
from fairpost.io.reading import Options, Reading, Table, translated
from fairpost.io.source import decoded, kind_of, load, name_of
from fairpost.io.tables import read_table
from fairpost.report.text import clean

ROWS = 10
MOST_COLUMNS = 60
"""Columns that are shown."""
GUESSES = {
    "id": ("id", "geoid", "leaid", "code", "fips", "geoid20", "key"),
    "count": ("count", "counts", "poor_5_17", "noisy_count", "value", "pop", "population", "n", "total"),
    "weight": ("weight", "weights", "exp_pp"),
    "group": ("group", "state", "region", "county"),
    "label": ("name", "label", "district", "place"),
    "base": ("base", "pop_5_17", "children"),
}


def preview(source: Source, **reading: Unpack[Options]) -> dict[str, Any]:
    """The columns, the first rows as text, the number of rows, and a guess."""
    how = Reading.of(**reading | {"drop_missing": False})  # which entries are needed is not known yet
    names = _names(source, how)[:MOST_COLUMNS]
    table = _read(source, names, how)
    columns = [name for name in names if name in table.data]
    cells = [["" if v is None else clean(v)[:80] for v in table.data[name].head(ROWS).to_list()] for name in columns]
    return {
        "columns": [clean(name) for name in columns],
        "rows": [list(row) for row in zip(*cells, strict=True)],
        "height": table.height,
        "guess": guess(columns),
    }


def _names(source: Source, how: Reading) -> tuple[str, ...]:
    """Every column there is; of Parquet its schema alone is decoded, in the guarded process."""
    if kind_of(source, how.format) != "parquet":
        return _read(source, (), how).columns
    name = name_of(source)
    with translated(name):
        head, _ = decoded("parquet", name, load(source))
        return tuple(head["columns"])


def _read(source: Source, wanted: tuple[str, ...], how: Reading) -> Table:
    return read_table(source, {f"column {k}": name for k, name in enumerate(wanted)}, how)[0]


def guess(columns: list[str]) -> dict[str, str]:
    """For each role the first column with a usual name; each column once."""
    lower = {name.lower().strip(): name for name in reversed(columns)}
    out: dict[str, str] = {}
    for role in ROLES:
        for name in GUESSES[role]:
            if name in lower and lower[name] not in out.values():
                out[role] = lower[name]
                break
    return out
