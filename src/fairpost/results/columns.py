"""Columns that the tables of results share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpost.counts import Counts
from fairpost.results.base import Columns

Floats = NDArray[np.float64]


def about(counts: Counts) -> Columns:
    """The columns of the counts; whole numbers without a decimal point."""
    named: Columns = {
        "id": list(counts.ids),
        "count": whole_numbers(counts.values),
        "weight": whole_numbers(counts.weights),
        "group": None if counts.groups is None else list(counts.groups),
        "name": None if counts.names is None else list(counts.names),
        "base": None if counts.base is None else whole_numbers(counts.base),
    }
    return {name: values for name, values in named.items() if values is not None}


def whole_numbers(values: Floats) -> NDArray[Any]:
    """As integers, where all of them are whole."""
    whole = np.all((values == np.round(values)) & (np.abs(values) < 2.0**53))
    return values.astype(np.int64) if whole else values


def reason(mark: str) -> str:
    """What stands in the column `confidential` of every table."""
    return mark.partition(": ")[2] or mark


def beside(counts: Counts, columns: Columns) -> Columns:
    """The columns with those that are kept behind the counts' own."""
    return with_kept(counts.kept, columns, list(about(counts)))


def with_kept(kept: Mapping[str, Sequence[Any]], columns: Columns, own: Sequence[str]) -> Columns:
    """The kept columns behind those that `own` names; one whose name is taken is called kept_NAME."""
    carried: Columns = {}
    for name, values in kept.items():
        free = name
        while free in columns or free in carried:
            free = f"kept_{free}"
        carried[free] = list(values)
    head = {name: columns[name] for name in own if name in columns}
    return head | carried | {name: values for name, values in columns.items() if name not in head}


def or_none(values: Floats) -> list[float | None]:
    """A column in which NaN is an empty field."""
    return [None if np.isnan(v) else v for v in values.tolist()]
