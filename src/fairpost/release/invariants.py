"""What the releases of a ledger keep exactly: its invariants, said once, when the ledger is made.

A promise of differential privacy is about a relation: which data sets are neighbours. What is published without noise
belongs to that relation, and no relation holds for two releases that keep different things. So a ledger has one relation for all
of its releases: two data sets are neighbours if they differ in the records of one unit and agree in every invariant.

What can be exact: nothing; the total of a list of rows; the totals of the parts of one partition; the levels of one tree, down to
one of them. In every case these are the totals T_p of the parts p of one partition of a public list of rows (what lies above in
a tree is their sum). The list is read from a file without counts, so it cannot depend on them, and is bound by a digest for each part.

*What the exact numbers tell together.* They are the T_p and nothing else, each fixed by the first release that uses it. Rows are
whole numbers from 0. In a part of m >= 2 rows, each row can be anything from 0 to T_p, because another one takes the rest; in a part of
one row it is T_p. Parts share no row, so nothing more follows from all of them together. A release is refused where the two ends
differ by less than 2: one row, or T_p of 0 or 1. (A least number of rows, 3 by default, is a courtesy on top, and no proof.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fairpost.errors import InputError, ParameterError
from fairpost.release.chain import canonical, digest

if TYPE_CHECKING:
    from fairpost.hierarchy.tree import Hierarchy

SMALLEST = 3
"""Rows of a part, at least, unless the ledger was made with another number."""
WHOLE = "all"
"""The part that has every row."""
Part = tuple[int, str]
"""How many rows a part has, and the digest of their ids."""


@dataclass(frozen=True)
class Invariants:
    """What is exact, in words and by column."""

    what: str
    """Such as "the total of all rows" or "the totals of the parts of state"."""
    source: str
    """Where the numbers are published, or why they are exact."""
    smallest: int = SMALLEST


@dataclass(frozen=True)
class Claim:
    """What one release keeps exactly: its parts, and the total of each."""

    parts: Mapping[str, Part]
    values: Mapping[str, int]


def parts_of(ids: Sequence[str], groups: Sequence[str] | None) -> dict[str, Part]:
    """The parts of a table: its groups, or one part of all rows."""
    if groups is None:
        return {WHOLE: _part(ids)}
    held: dict[str, list[str]] = {}
    for id, group in zip(ids, groups, strict=True):
        held.setdefault(group, []).append(id)
    return {group: _part(rows) for group, rows in held.items()}


def parts_of_tree(tree: Hierarchy, level: str) -> dict[str, Part]:
    """The parts of a tree: the leaves below each node of a level."""
    k = tree.level(level)
    first = np.arange(tree.span(k).start, tree.span(k).stop)
    for _ in range(k, tree.depth):
        first = tree.child[first]
    edges = [*(first - tree.span(tree.depth).start).tolist(), tree.n]
    leaves = tree.into_tree(np.array(tree.ids(tree.depth), dtype=object))
    found = {node: _part(leaves[a:b].tolist()) for node, a, b in zip(tree.ids(k), edges, edges[1:], strict=False)}
    if len(found) < tree.size(k):
        raise ParameterError(
            f"the nodes of level {level!r} must have names that differ, and two are the same: labels must not hold a /"
        )
    return found


def _part(ids: Sequence[str]) -> Part:
    return len(ids), digest(canonical(sorted(ids)))[:32]


def told(rows: int, total: int) -> bool:
    """Whether the total of a part tells its rows: the least and the largest possible value differ by less than 2."""
    return (total if rows > 1 else 0) < 2


def demand_sizes(parts: Mapping[str, Part], smallest: int) -> None:
    """Every part has so many rows; a part of one row can never be exact."""
    if isinstance(smallest, bool) or not isinstance(smallest, int) or smallest < 2:
        raise ParameterError(f"`smallest_part` must be a whole number from 2, got {smallest!r}")
    small = [name for name, (rows, _) in parts.items() if rows < smallest]
    if small:
        more = f" (and {len(small) - 1:,} more)" if len(small) > 1 else ""
        rows = parts[small[0]][0]
        raise ParameterError(
            f"every part with an exact total must have at least {smallest} rows, or the total tells them: part "
            f"{small[0]!r}{more} has {rows}"
        )


def demand_claim(where: str, claim: Claim, invariants: Invariants | None, bound: Mapping[str, Part]) -> None:
    """A release keeps exactly what its ledger lists, over the rows that the ledger binds, and tells no row by it."""
    if invariants is None:
        raise ParameterError(
            f"{where}: nothing is exact in the releases of this ledger, got a total or a level without noise; what is exact is "
            "said once, by `fairpost budget create`"
        )
    for name, part in claim.parts.items():
        if name not in bound:
            raise ParameterError(
                f"{where}: the releases of this ledger keep exactly {invariants.what}, and nothing else; got {named(name)}"
            )
        if bound[name] != part:
            raise ParameterError(
                f"{where}: {named(name)} must have the rows that the ledger binds ({bound[name][0]:,}), and has others "
                f"({part[0]:,}); rows never move, and new ones go into parts of their own (`fairpost budget append`)"
            )
    for name, total in claim.values.items():
        if told(claim.parts[name][0], total):
            raise ParameterError(f"{where}: {total_of(name)} would tell the count of every row in it (0 or 1 to share)")


def total_of(part: str) -> str:
    """The total of a part, in words."""
    return "the exact total of all rows" if part == WHOLE else f"the exact total of part {part!r}"


def named(part: str) -> str:
    """A part, in words."""
    return "the total of all rows" if part == WHOLE else f"part {part!r}"


# ------------------------------------------------------------------------------------------------ a list of rows


def bound_rows(
    rows: Any, *, id: str, public: Sequence[str], by: str | None, levels: Any, exact: str | None
) -> tuple[str, dict[str, Part], tuple[str, ...]]:
    """What is exact in words, the parts of a list of rows, and the columns that say so."""
    from fairpost.io.tables import read_labels
    from fairpost.release.source import levels_of, name_in_errors, quietly, tree_of

    shape = None if levels is None else levels_of(levels)
    names = [by] if by is not None else list(shape) if isinstance(shape, list) else []
    found = quietly(name_in_errors(rows), lambda: read_labels(rows, id=id, columns=names))
    strange = [c for c in found.columns if c not in {id, found.id, *names, *found.labels, *public}]
    if strange:
        raise InputError(
            f"{found.name}: a list of rows has ids and public columns alone, got the column {strange[0]!r}: leave it out "
            "(a list with counts could be chosen by them), or declare it with --public"
        )
    if by is not None:
        return f"the totals of the parts of {by}", parts_of(found.ids, found.labels[by]), (by,)
    if shape is None:
        return "the total of all rows", parts_of(found.ids, None), ()
    import polars as pl

    columns = [pl.Series(found.labels[c], dtype=pl.String) for c in names]
    tree = tree_of(pl.Series(found.ids, dtype=pl.String), columns, shape, id, found.name)
    level = tree.names[tree.level(str(exact))]
    if level == tree.names[-1]:
        raise ParameterError(f"the level of the leaves, {level!r}, must have noise, got it as exact")
    if level == WHOLE:
        return "the total of all rows", parts_of(found.ids, None), tuple(names)
    shown = ", ".join(tree.names[1 : tree.level(level) + 1])
    return f"the levels of the tree down to {level} ({shown})", parts_of_tree(tree, level), tuple(names)
