"""The two readers: true counts, and noisy counts with what an outside analyst knows."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fairpost.counts import Counts
from fairpost.errors import InputError
from fairpost.io import frames, saipe
from fairpost.io.columns import constant, empty, numbers, texts, unique
from fairpost.io.delimited import read_delimited
from fairpost.io.source import STDIN, kind_of, kind_of_stdin, load, name_of
from fairpost.io.table import Table, listed, translated, value

if TYPE_CHECKING:
    import polars as pl

Floats = NDArray[np.float64]
OPTIONAL = ("weight", "group")
"""Columns that are used where they are there, without being named (a group column without any entry is not)."""


@dataclass(frozen=True, eq=False, repr=False)
class Noisy:
    """Noisy counts as they were published, and what belongs to them. Nothing here is confidential."""

    ids: tuple[str, ...]
    values: Floats
    """The noisy counts: finite, may be negative."""
    weights: Floats
    """a, above 0; ones where the file has none."""
    groups: tuple[str, ...] | None
    totals: Floats | None
    """For each entity the total of its group (of the file, without groups), at least 0."""
    base: Floats | None = None
    """The public population that each count is a part of."""
    names: tuple[str, ...] | None = None
    """What people call each entity."""
    kept: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """Columns that outputs carry along."""

    def __len__(self) -> int:
        return int(self.values.size)

    def __repr__(self) -> str:
        return f"Noisy(n={len(self)}, sum={float(np.sum(self.values)):g})"


def read_counts(
    source: Any,
    *,
    id: str | None = "id",
    count: str = "count",
    weight: str | None = None,
    group: str | None = None,
    base: str | None = None,
    label: str | None = None,
    keep: Sequence[str] = (),
    format: str | None = None,
) -> Counts:
    """True counts from a file or a data frame.

    Parameters
    ----------
    source
        A path to CSV, TSV, either gzipped (.gz), Parquet, or the Census SAIPE school-district text or Excel file
        (format="saipe"); "-" for CSV or TSV on the standard input; or a pandas, Polars or Arrow data frame.
    id
        The column of the ids, kept as text: leading zeros stay, surrounding blanks go. None: the row numbers, from 1.
    count, weight, group
        Columns. Without a name, `weight` and `group` are used if present. In a SAIPE file the id is the seven-digit
        leaid, the group the state's FIPS code, and the count poor_5_17 unless pop or pop_5_17 is named.
    base
        The column of the population that each count is a part of, for programmes with rates.
    label, keep
        The column of what people call each entity, and columns that tables and JSON carry along.
    format
        "csv", "tsv", "parquet" or "saipe"; by default the end of the file's name decides.

    """
    roles = {"id": id, "count": count, "weight": weight, "group": group, "base": base, **carried(label, keep)}
    return _counts(_read(source, roles, format, least=0.0))


def carried(label: str | None, keep: Sequence[str]) -> dict[str, str | None]:
    """The roles of the label and of the columns that are kept."""
    return {"label": label} | {f"keep:{name}": name for name in keep}


def _counts(rows: Noisy) -> Counts:
    """True counts from checked rows."""
    return Counts(rows.values, rows.ids, rows.weights, rows.groups, base=rows.base, names=rows.names, kept=rows.kept)


def read_noisy(
    source: Any,
    *,
    id: str | None = "id",
    count: str = "count",
    weight: str | None = None,
    group: str | None = None,
    total: str | None = None,
    base: str | None = None,
    label: str | None = None,
    keep: Sequence[str] = (),
    format: str | None = None,
) -> Noisy:
    """Noisy counts, which may be negative; the rest as in `read_counts`.

    `total` names a column with the total of each group: the same number in the whole group (in the whole file, where
    there are no groups), finite and at least 0.
    """
    roles = {"id": id, "count": count, "weight": weight, "group": group, "total": total, "base": base}
    roles |= carried(label, keep)
    return _read(source, roles, format, least=None)


def read_group_budgets(source: Any, given: str, **columns: Any) -> tuple[Counts, dict[str, float]]:
    """True counts as in `read_counts`, and the budget of each group.

    `given` is a column of the same file, with one number in the whole group, or else the name of a file with the columns
    group and budget.
    """
    rows, budgets = _with_budgets(source, given, 0.0, **columns)
    return _counts(rows), budgets


def read_noisy_budgets(source: Any, given: str, **columns: Any) -> tuple[Noisy, dict[str, float]]:
    """Noisy counts as in `read_noisy`, and the budget of each group."""
    return _with_budgets(source, given, None, **columns)


def _with_budgets(
    source: Any,
    given: str,
    least: float | None,
    *,
    id: str | None = "id",
    count: str = "count",
    weight: str | None = None,
    group: str | None = None,
    base: str | None = None,
    label: str | None = None,
    keep: Sequence[str] = (),
    format: str | None = None,
) -> tuple[Noisy, dict[str, float]]:
    roles = {"id": id, "count": count, "weight": weight, "group": group, "total": given, "base": base}
    roles |= carried(label, keep)
    table, roles = _table(source, roles, format)
    own = given in table.data
    with translated(table.name):
        fields = _fields(table, roles if own else roles | {"total": None}, least)
    if fields.groups is None:
        raise InputError(f"{table.name}: budgets by group need a column of groups (name it with --group), got none")
    if fields.totals is not None:
        return fields, dict(zip(fields.groups, fields.totals.tolist(), strict=True))
    if given != STDIN and not os.path.exists(given):
        raise InputError(
            f"budgets by group must be a column of {table.name} ({listed(table.columns)}) or a file, got {value(given)}"
        )
    return fields, _budgets(given)


def read_column(source: Any, column: str, what: str, *, format: str | None = None) -> Floats:
    """One more column of numbers of at least 0, in the order of the rows."""
    table, _ = _table(source, {"id": None, "count": column}, format)
    with translated(table.name):
        if column not in table.data:
            raise InputError(f"{table.name}: {what} must be one of {listed(table.columns)}, got {value(column)}")
        return numbers(table, column, what, 0.0)


def _budgets(path: str) -> dict[str, float]:
    """The columns group and budget of a file."""
    table, _ = _table(path, {"group": "group", "budget": "budget"}, None)
    with translated(table.name):
        for column in ("group", "budget"):
            if column not in table.data:
                raise InputError(f"{table.name}: a file of budgets has the columns group and budget, got no {column}")
        labels = texts(table, "group", "group")
        unique(table, "group", labels, "groups")
        return dict(zip(labels.to_list(), numbers(table, "budget", "budget", 0.0).tolist(), strict=True))


def _read(source: Any, roles: dict[str, str | None], format: str | None, least: float | None) -> Noisy:
    table, roles = _table(source, roles, format)
    with translated(table.name):
        return _fields(table, roles, least)


def _table(source: Any, roles: dict[str, str | None], format: str | None) -> tuple[Table, dict[str, str | None]]:
    is_path = isinstance(source, (str, os.PathLike))
    name = name_of(os.fspath(source)) if is_path else frames.NAME
    with translated(name):
        if is_path:
            return _from_file(source, name, roles, format)
        if format is not None:
            raise InputError(f"`format` is for files, got {format!r} with a {type(source).__name__}")
        return frames.read_frame(source, _wanted(roles)), roles


def _from_file(
    path: str | os.PathLike[str], name: str, roles: dict[str, str | None], format: str | None
) -> tuple[Table, dict[str, str | None]]:
    kind = None if path == STDIN else kind_of(path, format)
    data = load(path)
    kind = kind_of_stdin(data, format) if kind is None else kind
    if kind == "saipe":
        roles = saipe.roles_of(roles)
        return saipe.read_saipe(path, name, data, _wanted(roles)), roles
    if kind == "parquet":
        return frames.read_parquet(name, data, _wanted(roles)), roles
    return read_delimited(name, data, kind, _wanted(roles)), roles


def _wanted(roles: dict[str, str | None]) -> list[str]:
    """The columns to read: those that are named, and the optional ones."""
    names = [role if chosen is None and role in OPTIONAL else chosen for role, chosen in roles.items()]
    return list(dict.fromkeys(name for name in names if name is not None))


def _column(table: Table, roles: dict[str, str | None], role: str) -> str | None:
    """The name of the column that plays a role; None where nothing was named and there is no default."""
    chosen = roles.get(role)
    if chosen is None:
        here = role in OPTIONAL and role in table.data
        return role if here and not (role == "group" and empty(table.data[role])) else None
    if chosen not in table.data:
        what = role.partition(":")[0]
        raise InputError(
            f"{table.name}: the {what} column must be one of {listed(table.columns)}, got {value(chosen)} "
            f"(name it with --{what}){table.hint}"
        )
    return chosen


def _fields(table: Table, roles: dict[str, str | None], least: float | None) -> Noisy:
    """Every column checked: numbers, ids that are there and unique, groups that are there, totals that agree."""
    id, count, weight, group, total, base = (
        _column(table, roles, role) for role in ("id", "count", "weight", "group", "total", "base")
    )
    assert count is not None
    values = numbers(table, count, "count", least)
    weights = None if weight is None else numbers(table, weight, "weight", 0.0, strictly=True)
    ids: list[str]
    if id is None:
        ids = [str(row + 1) for row in range(table.height)]
    else:
        labels = texts(table, id, "id")
        unique(table, id, labels)
        ids = labels.to_list()
    groups: pl.Series | None = None if group is None else texts(table, group, "group")
    totals = None if total is None else constant(table, total, numbers(table, total, "total", 0.0), groups)
    weights = np.ones(table.height) if weights is None else weights
    bases = None if base is None else numbers(table, base, "base", 0.0)
    label = _column(table, roles, "label")
    names = None if label is None else tuple(texts(table, label, "label").to_list())
    kept = {c: table.data[c].to_list() for r in roles if r.startswith("keep:") and (c := _column(table, roles, r))}
    for array in (values, weights, totals, bases):
        if array is not None:
            array.flags.writeable = False
    return Noisy(
        ids=tuple(ids),
        values=values,
        weights=weights,
        groups=None if groups is None else tuple(groups.to_list()),
        totals=totals,
        base=bases,
        names=names,
        kept=kept,
    )
