"""The readers: counts and what belongs to them, from files and data frames."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
from numpy.typing import NDArray

from fairpost.counts import Counts, Rows
from fairpost.errors import InputError, ParameterError, value
from fairpost.io.columns import (
    condition,
    constant,
    decided,
    empty,
    numbers,
    selected,
    texts,
    unique,
    without_missing,
    words,
)
from fairpost.io.frames import NAME, read_frame, read_parquet, read_workbook
from fairpost.io.reading import Options, Reading, Table, listed, shown, translated
from fairpost.io.saipe import read_saipe, roles_of
from fairpost.io.source import STDIN, kind_of, kind_of_stdin, load, name_of
from fairpost.io.text import read_delimited

if TYPE_CHECKING:
    import polars as pl

    from fairpost.problems import Programme

Floats = NDArray[np.float64]
Roles = dict[str, str | None]
"""What a column is for, and the name that was given for it; "keep: NAME" and "label: NAME" are carried along."""
OPTIONAL = ("weight", "group")
"""Columns that are used where they are there, without being named (a group column without any entry is not)."""
NUMBERS = ("count", "weight", "total", "base", "budget")
"""Roles whose columns hold numbers."""


class Columns(Options, total=False):
    """The keyword arguments of `read_counts`, for the readers of budgets and of one column more."""

    id: str | None
    count: str
    weight: str | None
    group: str | None
    base: str | None
    label: str | None
    keep: Sequence[str]


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


@dataclass(frozen=True, eq=False, repr=False)
class Leaves:
    """Rows of a file about a hierarchy, column by column: its ids do not become a million Python strings."""

    name: str
    """The file as the user named it."""
    ids: pl.Series
    values: Floats
    labels: dict[str, pl.Series]
    """The columns that were asked for, as text; a missing entry stays null."""
    table: Table
    columns: Mapping[str, str]
    """The columns of ids and counts, as the file spells them."""

    def __len__(self) -> int:
        return int(self.values.size)


# ---- what users call ----


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
        input; or a data frame or series: pandas, Polars, Arrow, a DuckDB relation, whatever narwhals knows.
    id
        The column of the ids, kept as text: leading zeros stay, surrounding blanks go. None: the row numbers, from 1.
        The index of a pandas frame is a column, and gives the ids where no column is called id and it does more than
        number the rows.
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
    roles = {"id": id, "count": count, "weight": weight, "group": group, "base": base, **_carried(label, keep)}
    return _read(source, roles, Reading.of(**reading), least=0.0).counts()


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
    return _read(source, roles | _carried(label, keep), Reading.of(**reading), least=None)


def read_group_budgets(source: Any, given: str, **columns: Unpack[Columns]) -> tuple[Counts, dict[str, float]]:
    """True counts as in `read_counts`, and the budget of each group.

    `given` is a column of the same file, with one number in the whole group, or else the name of a file with the columns
    group and budget.
    """
    rows, budgets = _with_budgets(source, given, 0.0, columns)
    return rows.counts(), budgets


def read_row_budgets(source: Any, given: str, **columns: Unpack[Columns]) -> tuple[Rows, dict[str, float]]:
    """Counts as in `read_rows`, and the budget of each group."""
    return _with_budgets(source, given, None, columns)


def read_column(source: Any, column: str, what: str, **columns: Unpack[Columns]) -> Floats:
    """One more column of numbers of at least 0, for the rows that `read_counts` gives."""
    roles, how = _asked(columns)
    quiet = replace(how, say=lambda note: None)  # what there is to say was said when the counts were read
    table, found = read_table(source, roles, quiet, maybe={"budget": column})
    with translated(table.name):
        there = found["budget"]
        if there is None:
            raise table.absent(what, column, None)
        return numbers(table, there, what, 0.0)


def read_labels(source: Any, *, id: str = "id", columns: Sequence[str] = (), **reading: Unpack[Options]) -> Labels:
    """Unique ids and columns of labels, none of them empty, from a file, a data frame or a mapping of columns."""
    if isinstance(source, Mapping):
        import polars as pl

        source = pl.DataFrame({name: [str(v) for v in column] for name, column in source.items()})
    roles: Roles = {"id": id, **_carried(None, columns)}
    table, found = read_table(source, roles, Reading.of(**reading))
    with translated(table.name):
        at = str(found["id"])
        ids = texts(table, at, "id")
        unique(table, at, ids)
        labels = {c: tuple(texts(table, str(found[f"keep: {c}"]), "label").to_list()) for c in columns}
        return Labels(table.name, at, tuple(ids.to_list()), labels, tuple(table.columns))


def read_leaves(
    source: Any,
    *,
    id: str = "id",
    count: str = "count",
    labels: Sequence[str] = (),
    optional: Sequence[str] = (),
    least: float | None = 0.0,
    **reading: Unpack[Options],
) -> Leaves:
    """Ids (text, unique), counts (at least `least`) and columns of labels, from what `read_counts` reads but SAIPE files.

    `optional` columns are read where they are there. Any column may be named twice in different roles.
    """
    how = Reading.of(**reading)
    if isinstance(source, (str, os.PathLike)) and kind_of(source, how.format) == "saipe":
        raise ParameterError(f"{shown(source)}: a hierarchy is read from CSV, TSV, Excel or Parquet, got a SAIPE file")
    asked: Roles = {f"label: {label}": label for label in labels}
    maybe: Roles = {f"label: {label}": label for label in optional if label not in labels}
    table, found = read_table(source, {"id": id, "count": count, **asked}, how, maybe)
    with translated(table.name):
        at, count_at = str(found["id"]), str(found["count"])
        ids = texts(table, at, "id")
        unique(table, at, ids)
        values = numbers(table, count_at, "count", least)
        entries = {c: words(table, there) for c in (*labels, *optional) if (there := found[f"label: {c}"]) is not None}
        filled = {c: entry.set(entry == "", None) if (entry == "").any() else entry for c, entry in entries.items()}
        return Leaves(table.name, ids, values, filled, table, {"id": at, "count": count_at})


def read_programme(given: str) -> Programme:
    """A law by the name under which it comes with the package, or from a TOML file."""
    from fairpost.problems.programme import NAMES, builtin, from_text

    if given in NAMES:
        return builtin(given)
    if not given.endswith(".toml"):
        raise InputError(f"a programme must be one of {', '.join(NAMES)} or a file that ends in .toml, got {given!r}")
    try:
        text = Path(given).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(f"{shown(given)}: there is no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{shown(given)}: could not be read as text ({type(error).__name__})") from None
    return from_text(text, shown(given))


# ---- from a source to a table, and from a table to rows ----


def _carried(label: str | None, keep: Sequence[str]) -> Roles:
    """The roles of the label and of the columns that are kept."""
    return {"label": label} | {f"keep: {name}": name for name in keep}


def _asked(columns: Columns) -> tuple[Roles, Reading]:
    """The column of each role, and how to read."""
    rest: dict[str, Any] = dict(columns)
    roles = {
        role: rest.pop(role, role if role in ("id", "count") else None) for role in ("id", "count", *OPTIONAL, "base")
    }
    roles |= _carried(rest.pop("label", None), rest.pop("keep", ()))
    return roles, Reading.of(**rest)


def _read(source: Any, roles: Roles, how: Reading, least: float | None) -> Rows:
    table, columns = read_table(source, roles, how)
    with translated(table.name):
        return _rows(table, columns, least)


def _with_budgets(source: Any, given: str, least: float | None, columns: Columns) -> tuple[Rows, dict[str, float]]:
    roles, how = _asked(columns)
    table, found = read_table(source, roles, how, maybe={"total": given})
    with translated(table.name):
        rows = _rows(table, found, least)
    if rows.groups is None:
        raise InputError(f"{table.name}: budgets by group need a column of groups (name it with --group), got none")
    if rows.totals is not None:
        return rows, dict(zip(rows.groups, rows.totals.tolist(), strict=True))
    if given != STDIN and not os.path.exists(given):
        raise InputError(
            f"budgets by group must be a column of {table.name} ({listed(table.columns)}) or a file, got {value(given)}"
        )
    return rows, _budgets(given, how)


def _budgets(path: str, how: Reading) -> dict[str, float]:
    """The columns group and budget of a file."""
    table, columns = read_table(path, {}, Reading.of(say=how.say), maybe={"group": "group", "budget": "budget"})
    with translated(table.name):
        for role, column in columns.items():
            if column is None:
                raise InputError(f"{table.name}: a file of budgets has the columns group and budget, got no {role}")
        group, budget = str(columns["group"]), str(columns["budget"])
        labels = texts(table, group, "group")
        unique(table, group, labels, "groups")
        return dict(zip(labels.to_list(), numbers(table, budget, "budget", 0.0).tolist(), strict=True))


def read_table(source: Any, roles: Roles, how: Reading, maybe: Roles | None = None) -> tuple[Table, Roles]:
    """The rows to use, with their decimal mark, and the column of each role; `maybe`: roles whose column need not be there."""
    conditions, maybe = [condition(text) for text in how.where], maybe or {}
    is_path = isinstance(source, (str, os.PathLike))
    with translated(name_of(os.fspath(source)) if is_path else NAME):
        more = [one.column for one in conditions] + [c for c in maybe.values() if c is not None]
        if is_path:
            table, roles = _from_file(source, roles, how, more)
        else:
            table = read_frame(source, _wanted(roles, more), how)
        columns = {role: _column(table, role, name) for role, name in roles.items()}
        columns |= {role: table.meant(str(column)) for role, column in maybe.items()}
        table = selected(table, conditions)
        if how.drop_missing:
            table = without_missing(table, {role: column for role, column in columns.items() if ":" not in role})
        held = [(column, role) for role, column in columns.items() if role in NUMBERS and column is not None]
        return decided(table, held), columns


def _from_file(path: str | os.PathLike[str], roles: Roles, how: Reading, more: list[str]) -> tuple[Table, Roles]:
    kind = "" if path == STDIN else kind_of(path, how.format)
    data, name = load(path), name_of(os.fspath(path))
    kind = kind or kind_of_stdin(data, how.format)
    if kind == "saipe":
        roles = roles_of(roles)
        return read_saipe(path, name, data, _wanted(roles, more), how), roles
    wanted = _wanted(roles, more)
    if kind in ("parquet", "xlsx"):
        read = read_parquet if kind == "parquet" else read_workbook
        return read(name, data, wanted, how), roles
    return read_delimited(name, data, kind, wanted, how), roles


def _wanted(roles: Roles, more: list[str]) -> list[str]:
    """The columns to read: those that are named, and the optional ones."""
    names = [role if chosen is None and role in OPTIONAL else chosen for role, chosen in roles.items()]
    return list(dict.fromkeys([*(name for name in names if name is not None), *more]))


def _column(table: Table, role: str, chosen: str | None) -> str | None:
    """The name of the column that plays a role; None where nothing was named and there is no default."""
    if chosen is not None:
        found = table.meant(chosen)
        if found is None:
            what = role.partition(":")[0]
            raise table.absent(f"the {what} column", chosen, what)
        return found
    found = table.meant(role) if role in OPTIONAL else None
    if found is None or (role == "group" and empty(table.data[found])):
        return None
    if found != role:
        table.say(f"{table.name}: the column {value(found)} gives the {role}s")
    return found


def _rows(table: Table, columns: Roles, least: float | None) -> Rows:
    """Every column checked: numbers, ids that are there and unique, groups that are there, totals that agree."""
    there = {role: column for role, column in columns.items() if column is not None}

    def floats(role: str, least: float | None) -> Floats | None:
        return numbers(table, there[role], role, least, strictly=role == "weight") if role in there else None

    def labels(role: str) -> pl.Series | None:
        return texts(table, there[role], role) if role in there else None

    values, weights, ids = floats("count", least), floats("weight", 0.0), labels("id")
    assert values is not None
    if ids is not None:
        unique(table, there["id"], ids)
    groups, totals = labels("group"), floats("total", 0.0)
    if totals is not None:
        constant(table, there["total"], totals, groups)
    base, names = floats("base", least), labels("label")
    weights = np.ones(table.height) if weights is None else weights
    for array in (values, weights, totals, base):
        if array is not None:
            array.flags.writeable = False
    return Rows(
        ids=tuple(str(row + 1) for row in range(table.height)) if ids is None else tuple(ids.to_list()),
        values=values,
        weights=weights,
        groups=None if groups is None else tuple(groups.to_list()),
        totals=totals,
        base=base,
        names=None if names is None else tuple(names.to_list()),
        kept={column: table.data[column].to_list() for role, column in there.items() if role.startswith("keep:")},
        columns=there,
    )
