"""True counts for a release, of a table or of a hierarchy, read in a mode in which an error names the rule and the row, and never a value.

The readers of the package quote what they found ("got '12x'"), which is right everywhere else. Here their sentences are
not repeated: an error is rebuilt from a fixed list of rules and from the place. A sentence that is not on the list
becomes "could not be read". The new error is raised outside the handler of the old one, so that it carries no context.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from fairpost.counts import Counts
from fairpost.errors import CountsError, FairpostError, InputError, ParameterError
from fairpost.hierarchy.labels import Prefixes
from fairpost.hierarchy.tree import Hierarchy, length_of, lengths_of
from fairpost.release.guard import refuse_dask
from fairpost.release.noise import EDGE, Whole

if TYPE_CHECKING:
    from fairpost.release.ledger import Terms

Floats = NDArray[np.float64]
T = TypeVar("T")
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
    """Of the rows, or of a tree's leaves in the order of the input."""
    ids: tuple[str, ...]
    """None of a tree, which has its own."""
    groups: tuple[str, ...] | None = None
    weights: Floats | None = None
    totals: Floats | None = None
    """For each entity the public total of its group, out of a column."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """The column that plays each role, as the source spells it."""
    tree: Hierarchy | None = None

    def in_order(self) -> Source:
        """Rows in the order of their ids (of numbers, if all are), leaves in that of the tree: a file's may come from its counts."""
        if self.tree is not None:
            return replace(self, tree=replace(self.tree, order=None), x=self.tree.into_tree(self.x))
        ids = self.ids
        numbers = all(id.isdecimal() for id in ids)
        order = sorted(range(len(ids)), key=(lambda i: (len(ids[i]), ids[i])) if numbers else ids.__getitem__)
        weights = None if self.weights is None else self.weights[order]
        totals = None if self.totals is None else self.totals[order]
        groups = None if self.groups is None else tuple(map(self.groups.__getitem__, order))
        return Source(self.x[order], tuple(map(ids.__getitem__, order)), groups, weights, totals, self.columns)

    def nodes(self) -> list[Whole]:
        """The true counts of every level of the tree, root first, as whole numbers; sums are below 2^52, so exact in floats."""
        assert self.tree is not None
        return [part.astype(np.int64) for part in self.tree.split(self.tree.sums(self.x))]


def declared(terms: Terms, columns: Mapping[str, Any], levels: Sequence[str] = ()) -> dict[str, Any]:
    """Which column plays which part, all of them public: what is published, weighed, grouped or filtered by is no secret.

    A condition on another column, or the count's, would make the list of rows depend on the data, and so would rows that are
    dropped because they lack a count.
    """
    from fairpost.io.columns import condition

    if columns.get("drop_missing"):
        raise ParameterError(
            "a release drops no row for what it lacks (the list of rows must not depend on the data), got --drop-missing"
        )
    given = columns.get("where") or ()
    conditions = [condition(text) for text in ([given] if isinstance(given, str) else given)]
    id, count = columns.get("id", "id"), columns.get("count")
    parts = {role: str(columns[role]) for role in ROLES if columns.get(role) is not None}
    found: dict[str, Any] = ({} if id is None else {"id": str(id)}) | parts
    if levels:
        found["levels"] = list(levels)
    if conditions:
        found["where"] = [one.text for one in conditions]
    _apart(found, "count" if count is None else str(count))
    for role, name in _played(found):
        if name not in terms.public and name != id:
            raise ParameterError(
                f"--{role} must name a column that the ledger lists as public ({_listed(terms)}; `fairpost budget create --public`), "
                f"got {name!r}"
            )
    return found


def undeclared(terms: Terms, columns: Mapping[str, str], used: dict[str, Any]) -> None:
    """The same for what the source decided: the column of the ids, columns that nobody named, and which column has the counts.

    `columns`: the column of each role, as the source spells it. A ledger of before did not name the column of the ids.
    """
    public, id = terms.public, columns.get("id")
    if id is not None and not terms.old and _folded(id) not in map(_folded, public):
        raise ParameterError(
            f"the ids must be a column that the ledger lists ({_listed(terms)}; `fairpost budget create --id`), got {id!r}"
        )
    for role in ("group", "weight"):
        if role in columns and role not in used:
            if columns[role] not in public:
                raise ParameterError(
                    f"the counts come with a column {columns[role]!r} ({role}), which the ledger does not list as public: leave it "
                    "out (the ledger's list is made by `fairpost budget create --public`)"
                )
            used[role] = columns[role]
    if "count" in columns:
        _apart(used | ({"id": columns["id"]} if "id" in columns else {}), columns["count"])


def _folded(name: str) -> str:
    return name.strip().casefold()


def _listed(terms: Terms) -> str:
    return ", ".join(map(repr, terms.public)) or "none"


def _played(used: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Option and column, for every part but that of the ids."""
    from fairpost.io.columns import condition

    parts = [(role.replace("_", "-"), used[role]) for role in ROLES if role in used]
    parts += [("levels", name) for name in used.get("levels", ())]
    return parts + [("where", condition(text).column) for text in used.get("where", ())]


def _apart(used: Mapping[str, Any], count: str) -> None:
    """The column of the counts plays no other part."""
    ids = [("id", used["id"])] if "id" in used else []
    for role, name in [*ids, *_played(used)]:
        if _folded(name) == _folded(count):
            raise ParameterError(f"the column of the counts is not public, and --{role} names it: {name!r}")


def read_source(given: Any, levels: Any = None, **columns: Any) -> Source:
    """True counts of rows, or of the leaves of a tree, from a file, a data frame or `Counts`.

    `levels`: a `Hierarchy` (then the counts may be numbers), prefixes (name to length) or columns (names).
    """
    refuse_dask(given)
    if levels is None:
        return _rows(given, columns)
    if isinstance(levels, Hierarchy):
        return _of_tree(given, levels, {k: v for k, v in columns.items() if v is not None})
    columns, shape = {k: v for k, v in columns.items() if v is not None}, levels_of(levels)
    names, id = shape if isinstance(shape, list) else [], columns.get("id") or "id"
    if isinstance(given, (str, os.PathLike)):
        from fairpost.io.tables import read_leaves  # where this room meets the reader of hierarchies

        words = columns | {"id": id, "count": columns.get("count") or "count", "labels": names, "least": 0.0}
        leaves, name = quietly(str(given), lambda: read_leaves(given, **words)), str(given)
        tree = tree_of(leaves.ids, [leaves.labels[c] for c in names], shape, id, name)
        return Source(_whole(leaves.values, name), (), columns=leaves.columns, tree=tree)
    import polars as pl

    source = _rows(given, columns)
    if names and isinstance(given, Counts):
        raise ParameterError("levels by columns need a file or a data frame with them, got Counts")
    if names and columns.get("where"):
        raise ParameterError("a data frame with columns of levels is filtered before its release, got `where`")
    labels = []
    for name in names:
        try:
            labels.append(pl.Series([None if v is None else str(v) for v in given[name]], dtype=pl.String))
        except Exception:  # a data frame library's own exception
            raise InputError(f"a level must be a column of the data frame, got {name!r}") from None
    ids = pl.Series(source.ids, dtype=pl.String)
    return _leaves(source, tree_of(ids, labels, shape, id, "the counts"))


def _rows(given: Any, columns: Mapping[str, Any]) -> Source:
    from fairpost.io.reading import Options

    known = ("id", "count", "weight", "group", "keep", *Options.__annotations__)
    if unknown := sorted(set(columns) - {*known, "total"}):  # the column of totals comes from `api` under this name
        raise ParameterError(f"`release` has no argument {unknown[0]!r}; of a file it takes {', '.join(known[:-1])}")
    if isinstance(given, Counts):
        refuse_columns(columns)
        return _source(given, given.groups, "the counts", None, {})
    name = name_in_errors(given)
    notes: list[str] = []

    def read() -> Any:
        from fairpost.io import read_rows  # the one place where this room meets the readers

        return read_rows(given, **{**columns, "say": notes.append})

    found = quietly(name, read)
    _say(notes, name, columns.get("say"))
    return _source(found, found.groups, name, found.totals, found.columns)


def _source(found: Any, groups: Any, name: str, totals: Floats | None, columns: Mapping[str, str]) -> Source:
    """With its columns: what has no column goes by its role, and weights that are all 1 are none."""
    weights = None if bool(np.all(found.weights == 1)) else found.weights
    there = {"group": groups is not None, "weight": weights is not None}
    roles = {role: columns.get(role, role) for role, held in there.items() if held}
    roles |= {role: c for role, c in columns.items() if role not in there}
    groups = None if groups is None else tuple(groups)
    return Source(_whole(found.values, name), tuple(found.ids), groups, weights, totals, roles)


def _of_tree(given: Any, tree: Hierarchy, columns: Mapping[str, Any]) -> Source:
    if not (isinstance(given, (Counts, str, os.PathLike)) or hasattr(given, "columns")):
        values = np.asarray(given)
        if values.shape != (tree.n,) or values.dtype.kind not in "iuf":
            raise InputError(f"the counts must be one number for each of {tree.n} leaves, and are not")
        refuse_columns(columns)
        return Source(_whole(values.astype(np.float64), "the counts"), (), tree=tree)
    source = _rows(given, columns)
    if source.x.size != tree.n:
        raise InputError(f"the counts must be one for each of {tree.n} leaves, got {source.x.size}")
    numbered = isinstance(given, Counts) and source.ids == tuple(map(str, range(tree.n)))  # no ids were given
    if not numbered and list(source.ids) != tree.ids(tree.depth):
        raise InputError("the ids must be those of the hierarchy, in its order, and are not")
    return _leaves(source, tree)


def _leaves(source: Source, tree: Hierarchy) -> Source:
    """Rows as the leaves of a tree, which has their ids; groups and weights have no part."""
    return Source(source.x, (), columns={k: v for k, v in source.columns.items() if k in ("id", "count")}, tree=tree)


def refuse_columns(columns: Mapping[str, Any]) -> None:
    """What has its rows and parts already is not read by columns: the statement would name what was not used."""
    said = next((k for k, v in columns.items() if k != "say" and v not in (None, False, (), [])), None)
    if said is not None:
        raise ParameterError(
            f"`{said}` is for files and data frames; counts in memory have their ids, groups and weights, got it"
        )


def name_in_errors(given: Any) -> str:
    """What an error calls a source."""
    return str(given) if isinstance(given, str) or hasattr(given, "__fspath__") else "data frame"


def quietly(name: str, work: Callable[[], T]) -> T:
    """The work of a reader or of a tree, whose errors quote what they found; here they name rule and row alone."""
    try:
        return work()
    except FairpostError as error:
        told = _told(name, str(error), type(error))
    raise told


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


# -- hierarchies -------------------------------------------------------------------------------------------------------


def levels_of(levels: Any) -> dict[str, int] | list[str]:
    """`state:2,county:5`, a mapping from names to lengths of prefixes, or names of columns."""
    if isinstance(levels, str):
        parts = [part.strip() for part in levels.split(",")]
        if all(parts) and not any(":" in part for part in parts):
            return parts
        pairs = [part.rpartition(":") for part in parts]
        names = [name.strip() for name, _, _ in pairs]
        if not all(names) or any(length_of(length) is None for _, _, length in pairs) or len(set(names)) < len(names):
            raise ParameterError(
                f"levels must be NAME:LENGTH,... with names that differ, or NAME,... for columns, got {levels!r}"
            )
        return {name: int(length) for name, (_, _, length) in zip(names, pairs, strict=True)}
    if isinstance(levels, Mapping) and levels:
        lengths_of(levels)
        return dict(levels)
    if isinstance(levels, Sequence) and levels and all(isinstance(name, str) for name in levels):
        return list(levels)
    raise ParameterError(f"levels must be prefixes (name to length), columns (names) or a Hierarchy, got {levels!r}")


def label_columns(levels: Any) -> list[str]:
    """The columns that levels above the leaves are made from; prefixes are parts of the ids."""
    if isinstance(levels, Hierarchy):
        return [] if isinstance(levels.labels, Prefixes) else list(levels.names[1:-1])
    found = None if levels is None else levels_of(levels)
    return found if isinstance(found, list) else []


def tree_of(ids: Any, labels: list[Any], levels: dict[str, int] | list[str], id: str, name: str) -> Hierarchy:
    """The tree; a row that does not fit is named by its number, and nothing in it is shown."""
    if isinstance(levels, dict):
        width = list(levels.values())[-1]
        wrong = (ids.str.len_chars() != width) | (ids.str.len_bytes() != width)
        if wrong.any():
            raise InputError(
                f"{name}, row {int(wrong.arg_max() or 0) + 1}: every id must have the {width} ASCII characters of level "
                f"{list(levels)[-1]!r} (the value is not shown)"
            )
        return quietly(name, lambda: Hierarchy.from_geoids(ids, levels))
    for level, column in zip(levels, labels, strict=True):
        gone = column.is_null() | (column == "").fill_null(True)
        if gone.any():
            raise InputError(
                f"{name}, row {int(gone.arg_max() or 0) + 1}: every leaf must have a label on level {level!r} (all leaves "
                "lie equally deep), and this one has none"
            )
    return quietly(name, lambda: Hierarchy.from_labels(labels, [*levels, id], ids=ids))
