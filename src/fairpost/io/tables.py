"""The readers: counts and what belongs to them, from files and data frames."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
from numpy.typing import NDArray

from fairpost.counts import Counts
from fairpost.errors import InputError, value
from fairpost.io import frames, saipe
from fairpost.io.columns import constant, empty, numbers, texts, unique
from fairpost.io.decimals import decided
from fairpost.io.delimited import read_delimited
from fairpost.io.missing import without_missing
from fairpost.io.names import absent, meant
from fairpost.io.reading import Options, Reading
from fairpost.io.source import STDIN, kind_of, kind_of_stdin, load, name_of
from fairpost.io.table import Table, listed, translated
from fairpost.io.where import condition, selected
from fairpost.io.workbook import read_workbook

if TYPE_CHECKING:
    import polars as pl

Floats = NDArray[np.float64]
Roles = dict[str, str | None]
"""What a column is for, and the name that was given for it."""
OPTIONAL = ("weight", "group")
"""Columns that are used where they are there, without being named (a group column without any entry is not)."""
KEEP = "keep:"
"""How the role of a column begins that outputs carry along."""
NUMBERS = ("count", "weight", "total", "base", "budget")
"""Roles whose columns hold numbers."""


@dataclass(frozen=True, eq=False, repr=False)
class Rows:
    """The rows of a file, checked: whether the numbers are true or noisy, confidential or public, only the caller knows."""

    ids: tuple[str, ...]
    values: Floats
    """The counts: finite, below 0 only where the caller allows it."""
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
    columns: Mapping[str, str] = field(default_factory=dict)
    """The column that plays each role, as the source spells it."""

    def __len__(self) -> int:
        return int(self.values.size)

    def __repr__(self) -> str:
        return f"Rows(n={len(self)}, sum={float(np.sum(self.values)):g})"


@dataclass(frozen=True, eq=False, repr=False)
class Labels:
    """A list of rows without counts: ids, columns of labels as text, and what else the source has."""

    name: str
    id: str
    """The column of the ids, as the source spells it."""
    ids: tuple[str, ...]
    labels: Mapping[str, tuple[str, ...]]
    """By the names that were asked for."""
    columns: tuple[str, ...]
    """Every column of the source."""

    def __len__(self) -> int:
        return len(self.ids)


def read_labels(source: Any, *, id: str = "id", columns: Sequence[str] = (), **reading: Unpack[Options]) -> Labels:
    """Unique ids and columns of labels, none of them empty, from a file, a data frame or a mapping of columns."""
    if isinstance(source, Mapping):
        import polars as pl

        source = pl.DataFrame({name: [str(v) for v in column] for name, column in source.items()})
    roles: Roles = {"id": id, **{f"{KEEP}{column}": column for column in columns}}
    table, found = _table(source, roles, Reading.of(**reading))
    with translated(table.name):
        at = str(found["id"])
        ids = texts(table, at, "id")
        unique(table, at, ids)
        labels = {c: tuple(texts(table, str(found[f"{KEEP}{c}"]), "label").to_list()) for c in columns}
        return Labels(table.name, at, tuple(ids.to_list()), labels, tuple(table.columns))


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
    **reading: Unpack[Options],
) -> Counts:
    """True counts from a file or a data frame.

    Parameters
    ----------
    source
        A path to CSV, TSV, other text with separators (.txt), any of them gzipped (.gz), an Excel workbook (.xlsx, .xls),
        Parquet, or the Census SAIPE school-district text or Excel file (format="saipe"); "-" for text on the standard
        input; or a pandas, Polars or Arrow data frame.
    id
        The column of the ids, kept as text: leading zeros stay, surrounding blanks go. None: the row numbers, from 1.
    count, weight, group
        Columns; case does not matter where no name is spelled exactly so. Without a name, `weight` and `group` are used if
        present. In a SAIPE file the id is the seven-digit leaid, the group the state's FIPS code, and the count
        poor_5_17 unless pop or pop_5_17 is named.
    base
        The column of the population that each count is a part of, for programmes with rates.
    label, keep
        The column of what people call each entity, and columns that tables and JSON carry along.
    **reading
        `format`: "csv", "tsv", "txt", "xlsx", "parquet" or "saipe"; by default the end of the file's name decides.
        `delimiter`: "comma", "semicolon", "tab" or "pipe"; by default found in the header.
        `decimal`: "." or ","; by default found in the numbers, and refused where they do not tell.
        `sheet`, `header`: of a workbook, the sheet by name or number and the row with the names of the columns; by default
        the first sheet and the row that has the names.
        `where`: rows to use, such as "state = AL" or "count is not missing"; a list: all conditions hold.
        `drop_missing`: skip rows that lack an entry; by default they are an error.
        `say`: a function for notes about what was found or skipped; by default the log "fairpost", which prints on stderr.

    """
    roles = {"id": id, "count": count, "weight": weight, "group": group, "base": base, **carried(label, keep)}
    return _counts(_read(source, roles, Reading.of(**reading), least=0.0))


def carried(label: str | None, keep: Sequence[str]) -> Roles:
    """The roles of the label and of the columns that are kept."""
    return {"label": label} | {f"{KEEP}{name}": name for name in keep}


def _counts(rows: Rows) -> Counts:
    """True counts from checked rows."""
    return Counts(rows.values, rows.ids, rows.weights, rows.groups, base=rows.base, names=rows.names, kept=rows.kept)


def read_rows(
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
    **reading: Unpack[Options],
) -> Rows:
    """Counts that may be negative, as noisy ones are; the rest as in `read_counts`.

    `total` names a column with the total of each group: the same number in the whole group (in the whole file, where
    there are no groups), finite and at least 0.
    """
    roles = {"id": id, "count": count, "weight": weight, "group": group, "total": total, "base": base}
    return _read(source, roles | carried(label, keep), Reading.of(**reading), least=None)


def read_group_budgets(source: Any, given: str, **columns: Any) -> tuple[Counts, dict[str, float]]:
    """True counts as in `read_counts`, and the budget of each group.

    `given` is a column of the same file, with one number in the whole group, or else the name of a file with the columns
    group and budget.
    """
    rows, budgets = _with_budgets(source, given, 0.0, **columns)
    return _counts(rows), budgets


def read_row_budgets(source: Any, given: str, **columns: Any) -> tuple[Rows, dict[str, float]]:
    """Counts as in `read_rows`, and the budget of each group."""
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
    **reading: Unpack[Options],
) -> tuple[Rows, dict[str, float]]:
    how = Reading.of(**reading)
    roles = {"id": id, "count": count, "weight": weight, "group": group, "base": base, **carried(label, keep)}
    table, columns = _table(source, roles, how, maybe={"total": given})
    with translated(table.name):
        rows = _rows(table, columns, least)
    if rows.groups is None:
        raise InputError(f"{table.name}: budgets by group need a column of groups (name it with --group), got none")
    if rows.totals is not None:
        return rows, dict(zip(rows.groups, rows.totals.tolist(), strict=True))
    if given != STDIN and not os.path.exists(given):
        raise InputError(
            f"budgets by group must be a column of {table.name} ({listed(table.columns)}) or a file, got {value(given)}"
        )
    return rows, _budgets(given, how)


def read_column(
    source: Any,
    column: str,
    what: str,
    *,
    id: str | None = "id",
    count: str = "count",
    weight: str | None = None,
    group: str | None = None,
    base: str | None = None,
    **reading: Unpack[Options],
) -> Floats:
    """One more column of numbers of at least 0, for the rows that `read_counts` gives."""
    roles = {"id": id, "count": count, "weight": weight, "group": group, "base": base}
    quiet = replace(Reading.of(**reading), say=_silent)  # what there is to say was said when the counts were read
    table, columns = _table(source, roles, quiet, maybe={"budget": column})
    with translated(table.name):
        found = columns["budget"]
        if found is None:
            raise absent(table, what, column, None)
        return numbers(table, found, what, 0.0)


def _silent(note: str) -> None:
    """Say nothing."""


def _budgets(path: str, how: Reading) -> dict[str, float]:
    """The columns group and budget of a file."""
    table, columns = _table(path, {}, Reading.of(say=how.say), maybe={"group": "group", "budget": "budget"})
    with translated(table.name):
        for role, column in columns.items():
            if column is None:
                raise InputError(f"{table.name}: a file of budgets has the columns group and budget, got no {role}")
        group, budget = str(columns["group"]), str(columns["budget"])
        labels = texts(table, group, "group")
        unique(table, group, labels, "groups")
        return dict(zip(labels.to_list(), numbers(table, budget, "budget", 0.0).tolist(), strict=True))


def _read(source: Any, roles: Roles, how: Reading, least: float | None) -> Rows:
    table, columns = _table(source, roles, how)
    with translated(table.name):
        return _rows(table, columns, least)


def _table(source: Any, roles: Roles, how: Reading, maybe: Roles | None = None) -> tuple[Table, Roles]:
    """The rows to use, with their decimal mark, and the column of each role; `maybe`: roles whose column need not be there."""
    conditions = [condition(text) for text in how.where]
    is_path = isinstance(source, (str, os.PathLike))
    name = name_of(os.fspath(source)) if is_path else frames.NAME
    wanted = [one.column for one in conditions] + [c for c in (maybe or {}).values() if c is not None]
    with translated(name):
        if is_path:
            table, roles = _from_file(source, name, roles, how, wanted)
        else:
            table = frames.read_frame(source, _wanted(roles, wanted), how)
        columns = {role: _column(table, roles, role) for role in roles}
        columns |= {role: meant(table, str(column)) for role, column in (maybe or {}).items()}
        table = selected(table, conditions)
        if how.drop_missing:
            table = without_missing(table, {role: column for role, column in columns.items() if KEEP not in role})
        held = [(column, role) for role, column in columns.items() if role in NUMBERS and column is not None]
        return decided(table, held), columns


def _from_file(
    path: str | os.PathLike[str], name: str, roles: Roles, how: Reading, more: list[str]
) -> tuple[Table, Roles]:
    kind = None if path == STDIN else kind_of(path, how.format)
    data = load(path)
    kind = kind_of_stdin(data, how.format) if kind is None else kind
    if kind == "saipe":
        roles = saipe.roles_of(roles)
        return saipe.read_saipe(path, name, data, _wanted(roles, more), how), roles
    if kind == "parquet":
        return frames.read_parquet(name, data, _wanted(roles, more), how), roles
    if kind == "xlsx":
        return read_workbook(name, data, _wanted(roles, more), how), roles
    return read_delimited(name, data, kind, _wanted(roles, more), how), roles


def _wanted(roles: Roles, more: list[str]) -> list[str]:
    """The columns to read: those that are named, and the optional ones."""
    names = [role if chosen is None and role in OPTIONAL else chosen for role, chosen in roles.items()]
    return list(dict.fromkeys([*(name for name in names if name is not None), *more]))


def _column(table: Table, roles: Roles, role: str) -> str | None:
    """The name of the column that plays a role; None where nothing was named and there is no default."""
    chosen = roles.get(role)
    if chosen is not None:
        found = meant(table, chosen)
        if found is None:
            what = role.partition(":")[0]
            raise absent(table, f"the {what} column", chosen, what)
        return found
    found = meant(table, role) if role in OPTIONAL else None
    if found is None or (role == "group" and empty(table.data[found])):
        return None
    if found != role:
        table.say(f"{table.name}: the column {value(found)} gives the {role}s")
    return found


def _rows(table: Table, columns: Roles, least: float | None) -> Rows:
    """Every column checked: numbers, ids that are there and unique, groups that are there, totals that agree."""
    id, count, weight, group, total, base = (
        columns.get(role) for role in ("id", "count", "weight", "group", "total", "base")
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
    bases = None if base is None else numbers(table, base, "base", least)
    label = columns.get("label")
    names = None if label is None else tuple(texts(table, label, "label").to_list())
    kept = {c: table.data[c].to_list() for role, c in columns.items() if role.startswith(KEEP) and c is not None}
    for array in (values, weights, totals, bases):
        if array is not None:
            array.flags.writeable = False
    return Rows(
        ids=tuple(ids),
        values=values,
        weights=weights,
        groups=None if groups is None else tuple(groups.to_list()),
        totals=totals,
        base=bases,
        names=names,
        kept=kept,
        columns={role: c for role, c in columns.items() if c is not None},
    )
