"""Rows without a count, an id or another entry that is needed: skipped where that is asked for, named and counted."""

from __future__ import annotations

from collections.abc import Mapping

from fairpost.errors import InputError, value
from fairpost.io.columns import missing
from fairpost.io.reading import Skipped
from fairpost.io.table import Table, kept

MOST_NAMED = 10
"""At most this many rows are named in a note."""


def without_missing(table: Table, columns: Mapping[str, str | None]) -> Table:
    """The rows in which every column of a role has an entry; a note says which ones went, and for the lack of what."""
    import polars as pl

    roles = {role: column for role, column in columns.items() if column is not None}
    gone = {role: missing(table.data[column]) for role, column in roles.items()}
    lost = pl.Series([False] * table.height)
    for mask in gone.values():
        lost = lost | mask
    if not lost.any():
        return table
    if lost.all():
        raise InputError(
            f"{table.name}: some row must have all it needs ({', '.join(roles)}), got none of {table.height:,}"
        )
    rows = lost.arg_true().to_list()
    lacks = ", ".join(f"{role} in {int(mask.sum()):,}" for role, mask in gone.items() if mask.any())
    skipped = f"{len(rows):,} of {table.height:,} rows are skipped, with entries missing ({lacks})"
    table.say(Skipped(f"{table.name}: {skipped}: {_named(table, rows, roles.get('id'))}"))
    return kept(table, ~lost)


def _named(table: Table, rows: list[int], id: str | None) -> str:
    labels = None if id is None else table.data[id]
    some = [_place(table, row, labels) for row in rows[:MOST_NAMED]]
    more = f" and {len(rows) - MOST_NAMED:,} more" if len(rows) > MOST_NAMED else ""
    return f"{table.unit}{'s' if len(rows) > 1 else ''} {', '.join(some)}{more}"


def _place(table: Table, row: int, labels: object) -> str:
    label = None if labels is None else labels[row]  # type: ignore[index]
    return f"{table.number(row)}" if label is None else f"{table.number(row)} ({value(label)})"
