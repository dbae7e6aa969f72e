"""Pages about noisy counts alone: what `allocate` and `project` share. Nothing true was looked at, so they carry no mark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpost.report.findings import Finding
from fairpost.report.numbers import Html, Unit, count, html, tagged
from fairpost.report.page import render
from fairpost.report.payload import MOST, pack
from fairpost.report.text import clean, clean_lines

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Column:
    """One column of the table, one number per entity."""

    key: str
    name: str
    values: Floats
    unit: Unit | None
    """None: a count, with every digit that it has."""
    signed: bool = False

    def show(self, value: float) -> Html:
        """One number, or a sum of them."""
        return html("{x}", x=count(value)) if self.unit is None else tagged(self.unit, value, signed=self.signed)

    def data(self, rows: NDArray[np.int64]) -> dict[str, Any]:
        """For the script."""
        return {
            "key": self.key,
            "name": clean(self.name),
            "unit": None if self.unit is None else self.unit.data(),
            "signed": self.signed,
            "values": pack(self.values[rows], "f8"),
        }


@dataclass(frozen=True)
class Series:
    """One rule in a picture: the keys of its columns."""

    name: str
    place: int
    y: str
    low: str | None = None
    high: str | None = None


@dataclass(frozen=True)
class Drawing:
    """A picture against the noisy count."""

    title: str
    axis: str
    unit: Unit
    signed: bool
    series: tuple[Series, ...]
    caption: str

    def data(self) -> dict[str, Any]:
        """For the script."""
        return {
            "axis": clean(self.axis),
            "unit": self.unit.data(),
            "signed": self.signed,
            "series": [vars(s) | {"name": clean(s.name)} for s in self.series],
        }


@dataclass(frozen=True)
class Summary:
    """A small table of its own, as text."""

    key: str
    title: str
    text: str
    heads: tuple[str, ...]
    rows: list[tuple[str, ...]]


@dataclass(frozen=True, eq=False)
class Content:
    """What one page is made of."""

    title: str
    lead: Html
    findings: list[Finding]
    drawings: list[Drawing]
    columns: list[Column]
    ids: Sequence[str]
    names: Sequence[str] | None
    groups: Sequence[str] | None
    sort: str
    facts: list[tuple[str, Html]]
    across: tuple[str, str] = ("noisy", "noisy count")
    """The column that pictures have on their horizontal axis, and its title there."""
    between: str = "true"
    """What lies between the low and the high end of a series."""
    mark: str | None = None
    """What the page was computed from, where that must be said."""
    tables: Sequence[Summary] = ()


def entities_page(content: Content, noun: str, command: str | None, made: str | None, lines: str | None) -> str:
    """One self-contained HTML file about these entities."""
    sorted_by = next(c for c in content.columns if c.key == content.sort)
    order = np.argsort(-np.abs(sorted_by.values), kind="stable")[:MOST]
    rows = np.sort(order).astype(np.int64)
    groups = None
    if content.groups is not None:
        places = {g: k for k, g in enumerate(dict.fromkeys(content.groups))}
        of = np.array([places[content.groups[i]] for i in rows])
        groups = {"names": [clean(g) for g in places], "of": pack(of, "i4")}
    data = {
        "page": "entities",
        "noun": noun,
        "ids": [clean(content.ids[i]) for i in rows],
        "names": None if content.names is None else [clean(content.names[i]) for i in rows],
        "groups": groups,
        "columns": [c.data(rows) for c in content.columns],
        "sort": content.sort,
        "between": content.between,
        "across": {"key": content.across[0], "name": clean(content.across[1])},
        "drawings": [d.data() for d in content.drawings],
    }
    return render(
        "entities.html",
        data,
        title=clean(content.title),
        mark=content.mark,
        lead=content.lead,
        made=None if made is None else clean(made),
        command=None if command is None else clean(command),
        lines=None if lines is None else clean_lines(lines),
        findings=content.findings,
        drawings=content.drawings,
        left=len(content.ids) - rows.size,
        noun=noun,
        named=content.names is not None,
        grouped=_sums(content),
        tables=content.tables,
        facts=content.facts,
    )


def _sums(content: Content) -> dict[str, Any] | None:
    """The sums of each group; None without groups."""
    if content.groups is None:
        return None
    places = {g: k for k, g in enumerate(dict.fromkeys(content.groups))}
    of = np.fromiter((places[g] for g in content.groups), np.int64, len(content.groups))
    some = [c for c in content.columns if not c.key.startswith(("low", "high", "error"))]
    sums = [np.bincount(of, c.values) for c in some]
    number = np.bincount(of)
    rows = [
        (
            clean(g),
            k,
            f"{number[k]:,}",
            [c.show(float(s[k])) for c, s in zip(some, sums, strict=True)],
        )
        for g, k in places.items()
    ]
    return {"heads": [clean(c.name) for c in some], "rows": rows}
