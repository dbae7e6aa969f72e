"""The published values, each with its place in the paper, and whether ours agree."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

Value = float | bool | tuple[float, ...]
ROUNDING = 1e-12
"""Relative rounding of the arithmetic that leads to a value without a stated error."""


@dataclass(frozen=True)
class Computed:
    """A value of ours with a bound on its error (0 for a statement)."""

    value: Value
    error: float = 0.0


@dataclass(frozen=True)
class Published:
    """One value printed in the paper."""

    key: str
    place: Mapping[str, str]
    """Section, item, and for a table row and column."""
    quantity: str
    unit: str
    printed: str
    """As printed."""
    value: Value
    half_unit: float
    """Half of the last printed digit: the tolerance by which the paper rounds."""
    status: str
    """What is on record: "agrees" or "differs"."""
    reason: str | None
    """Why it differs, one paragraph."""

    @property
    def where(self) -> str:
        """The place in words."""
        return ", ".join(self.place[k] for k in ("item", "row", "column") if k in self.place)


@dataclass(frozen=True)
class Comparison:
    """A published value beside ours."""

    published: Published
    computed: Computed

    @property
    def agrees(self) -> bool:
        """Whether ours lies within the paper's rounding plus our own error; a statement must be as published."""
        theirs, ours = self.published.value, self.computed.value
        if isinstance(theirs, bool) or isinstance(ours, bool):
            return theirs is ours
        a, b = np.atleast_1d(np.asarray(theirs, float)), np.atleast_1d(np.asarray(ours, float))
        slack = self.published.half_unit + self.computed.error + ROUNDING * float(np.abs(a).max())
        return bool(a.shape == b.shape and (np.abs(a - b) <= slack).all())

    @property
    def status(self) -> str:
        """Either "agrees" or "differs"."""
        return "agrees" if self.agrees else "differs"

    @property
    def as_recorded(self) -> bool:
        """Whether the status is the one on record."""
        return self.status == self.published.status


@cache
def published() -> Mapping[str, Published]:
    """Every published value by key, in the order of the paper."""
    raw = _file()
    return {v["key"]: _entry(v, raw["reasons"]) for v in raw["values"]}


def citation() -> str:
    """The paper."""
    return str(_file()["paper"])


@cache
def _file() -> Any:
    return json.loads(files("fairpost.paper").joinpath("published.json").read_text(encoding="utf-8"))


def _entry(v: dict[str, Any], reasons: Mapping[str, str]) -> Published:
    value = tuple(v["value"]) if isinstance(v["value"], list) else v["value"]
    reason = None if v["reason"] is None else reasons[v["reason"]]
    return Published(**{**v, "value": value, "reason": reason})


def compare_all(computed: Mapping[str, Computed]) -> tuple[Comparison, ...]:
    """Every published value beside ours; a missing or an unknown key is an error in the package."""
    known = published()
    if set(known) != set(computed):
        raise KeyError(f"published and computed values differ in {sorted(set(known) ^ set(computed))}")
    return tuple(Comparison(p, computed[key]) for key, p in known.items())
