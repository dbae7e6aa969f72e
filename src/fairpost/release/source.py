"""True counts for a release, read in a mode in which an error names the rule and the row, and never a value.

The readers of the package quote what they found ("got '12x'"), which is right everywhere else. Here their sentences are
not repeated: an error is rebuilt from a fixed list of rules and from the place. A sentence that is not on the list
becomes "could not be read". The new error is raised outside the handler of the old one, so that it carries no context.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpost.errors import CountsError, FairpostError, InputError, ParameterError
from fairpost.release.guard import refuse_dask
from fairpost.release.noise import EDGE, Whole

Floats = NDArray[np.float64]
ROLES = ("weight", "group", "group_total")
"""What a column can be in a release, besides the ids, the counts and the levels of a tree."""
RULES = (
    "no such file",
    "must be a file, got a directory",
    "no permission to read the file",
    "every count must be present",
    "every count must be a number",
    "every count must be finite",
    "every weight must be present",
    "every weight must be a number",
    "every weight must be finite",
    "every weight must be above 0",
    "every total must be a number",
    "every total must be at least 0",
    "every id must be present",
    "every group must be present",
    "ids must be unique",
    "the total must be the same in all of",
    "column names must be unique",
    "there must be at least one row below the header",
    "the file must have a header and at least one row",
    "quotation marks must enclose a whole field",
    "a quoted field must be closed",
    "every row must have as many fields as the header",
    "a table must have no blank line inside",
    "text must be UTF-8 or Latin-1",
    "every count must have a clear decimal mark",
    "every weight must have a clear decimal mark",
    "every total must have a clear decimal mark",
    "numbers must have one decimal mark in the whole table",
    "some row must fulfil --where",
    "some row must have all it needs",
    "the sheet must be one of",
    "the sheet must have a header and at least one row",
    "must be an Excel workbook",
    "text must not hold the byte 0",
    "the gzip data must be complete",
    "the gzip data must be whole",
    "must be gzip data",
    "the name must end in",
)
"""Rules of the readers whose first words hold no value."""
MISSING = re.compile(r"the (id|count|weight|group|total|label) column must be one of")
PLACE = re.compile(r", ((?:line|row)s? \d+(?: and \d+)?)(?=[,:])")


@dataclass(frozen=True, eq=False, repr=False)
class Source:
    """What a release reads: true counts as whole numbers, and what is public beside them."""

    x: Whole
    ids: tuple[str, ...]
    groups: tuple[str, ...] | None
    weights: Floats | None
    totals: Floats | None
    """For each entity the public total of its group, out of a column."""


def declared(public: Sequence[str], columns: Mapping[str, Any], levels: Sequence[str] = ()) -> dict[str, Any]:
    """Which column plays which part, all of them public: what is published, weighed, grouped or filtered by is no secret.

    A condition on another column, or the count's, would make the list of rows depend on the data, and so would rows that are
    dropped because they lack a count.
    """
    from fairpost.io.where import condition

    if columns.get("drop_missing"):
        raise ParameterError(
            "a release drops no row for what it lacks (the list of rows must not depend on the data), got --drop-missing"
        )
    given = columns.get("where") or ()
    conditions = [condition(text) for text in ([given] if isinstance(given, str) else given)]
    id, count = str(columns.get("id") or "id"), str(columns.get("count") or "count")
    parts = {role: str(columns[role]) for role in ROLES if columns.get(role)}
    asked = [(role.replace("_", "-"), name) for role, name in parts.items()]
    asked += [("levels", name) for name in levels] + [("where", one.column) for one in conditions]
    for role, name in [("id", id), *asked]:
        if name.strip().casefold() == count.strip().casefold():
            raise ParameterError(f"the column of the counts is not public, and --{role} names it: {name!r}")
        if name not in public and name != id:
            listed = ", ".join(map(repr, public)) or "none"
            raise ParameterError(
                f"--{role} must name a column that the ledger lists as public ({listed}; `fairpost budget create --public`), "
                f"got {name!r}"
            )
    found: dict[str, Any] = {"id": id, **parts}
    if levels:
        found["levels"] = list(levels)
    if conditions:
        found["where"] = [one.text for one in conditions]
    return found


def undeclared(public: Sequence[str], source: Source, used: dict[str, Any]) -> None:
    """Weights and groups that were there without being named, by their own names."""
    for role, there in (("group", source.groups), ("weight", source.weights)):
        if there is None or role in used:
            continue
        if role not in public:
            raise ParameterError(
                f"the counts come with a column {role!r}, which the ledger does not list as public: leave it out (the "
                "ledger's list is made by `fairpost budget create --public`)"
            )
        used[role] = role


def read_source(given: Any, **columns: Any) -> Source:
    """True counts from a file, a data frame or `Counts`."""
    refuse_dask(given)
    from fairpost.counts import Counts

    if isinstance(given, Counts):
        weights = None if bool(np.all(given.weights == 1)) else given.weights
        groups = None if given.groups is None else tuple(given.groups)
        return Source(_whole(given.values, "the counts"), tuple(given.ids), groups, weights, None)
    name = str(given) if isinstance(given, str) or hasattr(given, "__fspath__") else "data frame"
    found, told = None, None
    notes: list[str] = []
    try:
        from fairpost.io import read_rows  # the one place where this room meets the readers

        found = read_rows(given, **(columns | {"say": notes.append}))
    except FairpostError as error:
        told = _told(name, str(error), type(error))
    if found is None:
        assert told is not None
        raise told
    _say(notes, name, columns.get("say"))
    weights = None if bool(np.all(found.weights == 1)) else found.weights
    return Source(_whole(found.values, name), found.ids, found.groups, weights, found.totals)


def _say(notes: list[str], name: str, say: Callable[[str], None] | None) -> None:
    """What was skipped on request is passed on; what was found and not told is refused: a charge cannot be taken back."""
    from fairpost.io.reading import Skipped, noted

    for note in notes:
        if not isinstance(note, Skipped):
            plain = re.sub("'[^']*'", "...", note.removeprefix(f"{name}: "))
            raise InputError(
                f"{name}: a release guesses nothing (give the option, or save the file as it says): {plain}"
            )
        (say or noted)(note)


def _told(name: str, said: str, kind: type[FairpostError]) -> FairpostError:
    """The error again, without any value: the file, the place and the rule, where they are known to hold none."""
    made = kind if issubclass(kind, InputError) else InputError
    place = PLACE.search(said)
    where = f"{name}{f', {place[1]}' if place else ''}"
    column = MISSING.search(said)
    if column is not None and column[1] == "label":
        return made(f"{where}: a column of --levels is not there (columns are not listed here)")
    if column is not None:
        return made(
            f"{where}: the {column[1]} column is not there (name it with --{column[1]}; columns are not listed here)"
        )
    rule = next((r for r in RULES if f": {r}" in said), None)
    if rule is None:
        return made(f"{where}: could not be read (what was found is not repeated here)")
    return made(f"{where}: {rule}{'' if ', got' in rule else ' (the value is not shown)'}")


def _whole(values: Floats, name: str) -> Whole:
    """Whole numbers from 0 to 2^52; the first row that is none is named, its value is not."""
    for broken, rule in (
        (values < 0, "every count must be at least 0"),
        (values != np.floor(values), "every count must be a whole number (put real values on a grid first)"),
        (values >= EDGE, "every count must be below 2^52"),
    ):
        if broken.any():
            raise CountsError(f"{name}, row {int(np.argmax(broken)) + 1}: {rule} (the value is not shown)")
    if float(np.sum(values)) >= EDGE:
        raise CountsError(f"{name}: the counts must be below 2^52 together, and are not (the sum is not shown)")
    return values.astype(np.int64)


def name_of(counts: Any) -> str:
    """A file's name without folder and ending, else nothing."""
    return Path(counts).name.partition(".")[0] if isinstance(counts, (str, os.PathLike)) else ""
