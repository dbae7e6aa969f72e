"""What every result can do: data frames, files, one entity, a text of one screen, a small table in a notebook, a figure.

A result says what it is about (`_head`), its facts (`_facts`), perhaps a grid (`_grid`) and its columns (`_columns`); the
rest is here, once. Polars, pandas and Plotly are imported when they are asked for, so that results need none of them.

A column has one meaning wherever it stands, in files and in frames:

    rule, engine, scale     the post-processing; how its biases were found; the noise's parameter, b or sigma
    share, money            of the whole budget; money paid
    bias, bias_money        what an entity gains in expectation, in people or shares of 1; the same in money
    half_width, accuracy    the bias lies within bias +- half_width, in the sense of accuracy ("bound", "interval", ...)
    relative_bias           the bias as a part of what is due: 0.01 is 1 %
    rmse, zero              the root mean squared error; the probability of receiving 0
    confidential            in every row of what was computed from true counts
"""

from __future__ import annotations

import io
import textwrap
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from fairpost import whole
from fairpost.accuracy import Estimate
from fairpost.counts import Counts
from fairpost.documents import json_of
from fairpost.errors import InputError, ParameterError, UnsupportedError, value
from fairpost.noise import Mechanism

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go
    import polars as pl

Floats = NDArray[np.float64]
Name = str | PathLike[str]
Columns = dict[str, Any]
"""Named columns of equal length: arrays or lists."""
Grid = tuple[tuple[str, ...], list[tuple[str, ...]]]
"""Heads and rows, as text."""
WIDE, HIGH = 80, 20
"""A screen: columns and lines of a repr, at most."""
LABEL = 24
"""An id longer than this is shortened on a screen."""
CONFIDENTIAL = "confidential: computed from true counts"


class Result(ABC):
    """A frozen answer."""

    mark: str | None = None
    """What it was computed from, where that must be said."""

    @abstractmethod
    def _columns(self) -> Columns:
        """The table of this result, column by column, as `--csv` writes it."""

    def _long(self) -> Columns:
        """The same with one row per entity and rule, where `_columns` has a row per entity."""
        return self._columns()

    @abstractmethod
    def plot(self) -> go.Figure:
        """A Plotly figure."""

    @abstractmethod
    def _head(self) -> str:
        """What this is, in one line."""

    @abstractmethod
    def _facts(self) -> list[tuple[str, str]]:
        """Name and text, each for one line (a long text for two)."""

    def _grid(self) -> Grid | None:
        """A table beside the facts."""
        return None

    def to_frame(self) -> pl.DataFrame:
        """A Polars data frame, one row per entity and rule."""
        return framed(self._long(), "to_frame()")

    def to_pandas(self) -> pd.DataFrame:
        """The same as a pandas data frame."""
        made: pd.DataFrame = needed("pandas", "to_pandas()").DataFrame(self._long())
        return made

    @property
    def loc(self) -> Entities:
        """One entity by its id: `result.loc["3620580"]`."""
        return Entities(self)

    def to_csv(self, path: Name | None = None) -> str:
        """The table of `--csv` as text, and as a file where one is named."""
        return self._written(framed(self._columns(), "to_csv()").write_csv(), path)

    def to_html(self, path: Name | None = None) -> str:
        """What this is, its facts and every row of the table, as HTML without styles or scripts."""
        columns = framed(self._columns(), "to_html()")
        rows = [tuple("" if v is None else str(v) for v in row) for row in columns.iter_rows()]
        return self._written(self._html((tuple(columns.columns), rows), len(rows)), path)

    def to_excel(self, path: Name) -> None:
        """The table of `--csv` as a workbook; ids and other texts stay texts."""
        needed("xlsxwriter", "to_excel()", "excel")
        from xlsxwriter import Workbook

        made = io.BytesIO()
        options = {
            "in_memory": True,
            "strings_to_numbers": False,
            "strings_to_formulas": False,
            "strings_to_urls": False,
        }
        with Workbook(made, options) as book:
            frame = framed(self._columns(), "to_excel()")
            frame.write_excel(
                book, worksheet="confidential" if self.mark else "fairpost", dtype_formats={}, autofit=True
            )
        whole.write(Path(path), made.getvalue(), private=self.mark is not None)

    def _written(self, text: str, path: Name | None) -> str:
        """The text; its file appears whole or not at all, and is owner-only where it was computed from true counts."""
        if path is not None:
            whole.write(Path(path), text.encode(errors="backslashreplace"), private=self.mark is not None)
        return text

    def __repr__(self) -> str:
        lines = [_cut(one_line(self._head()), WIDE)]
        facts, grid = self._facts(), self._grid()
        left = max((len(name) for name, _ in facts), default=0)
        for name, text in facts:
            lines += _wrapped(f"  {name:<{left}}  ", text)
        last = [] if self.mark is None else [f"  {self.mark}"]
        if grid is not None:
            lines += _drawn(grid, HIGH - len(lines) - len(last))
        return "\n".join([*lines, *last])

    def _repr_html_(self) -> str:
        return self._html(self._grid(), 50)

    def _html(self, grid: Grid | None, most: int) -> str:
        facts = "".join(f"<tr><th>{_safe(name)}</th><td>{_safe(text)}</td></tr>" for name, text in self._facts())
        table = "" if grid is None else _table(grid, most)
        mark = "" if self.mark is None else f"<p><strong>{_safe(self.mark)}</strong></p>"
        return f"<div><p>{_safe(self._head())}</p><table><tbody>{facts}</tbody></table>{table}{mark}</div>"


class Saved:
    """A result whose JSON can be read back."""

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`."""
        raise NotImplementedError

    @classmethod
    def read(cls, path: Name) -> Self:
        """The result of a file that `--json` has written."""
        try:
            return cls.from_dict(json_of(Path(path).read_bytes()))
        except OSError as error:
            raise InputError(f"{path}: cannot be read: {error.strerror}") from None
        except ValueError as error:  # of the JSON, or what `from_dict` does not take
            raise InputError(f"{path}: {error}") from None


class Entities:
    """The entities of a result, by id."""

    def __init__(self, result: Result) -> None:
        self._result = result

    def __getitem__(self, label: str) -> Entity:
        columns = self._result._long()
        ids = columns.get("id")
        if ids is None:
            raise ParameterError(f"a {type(self._result).__name__} has no entities, so `loc` finds none")
        places = [k for k, one in enumerate(ids) if one == label]
        if not places:
            raise ParameterError(f"`loc` takes the id of an entity, as text: there is none with the id {value(label)}")
        return Entity([{name: _scalar(values[k]) for name, values in columns.items()} for k in places])


class Entity(Mapping[str, Any]):
    """One entity: its numbers by the names of the columns, as keys and as attributes; of several rules a list each.

    `entity["pos"]` is what one rule does to it.
    """

    def __init__(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self._rows = rows

    def __getitem__(self, name: str) -> Any:
        if name in self._rows[0]:
            found = [row[name] for row in self._rows]
            return found[0] if all(one == found[0] for one in found[1:]) else found
        found = [row for row in self._rows if row.get("rule") == name]
        if not found:
            raise KeyError(name)
        return Entity(found)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._rows[0]:
            raise AttributeError(f"this entity has no {name!r}, but {', '.join(self._rows[0])}")
        return self[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows[0])

    def __len__(self) -> int:
        return len(self._rows[0])

    def __repr__(self) -> str:
        left = max(map(len, self))
        return "\n".join(f"{name:<{left}}  {_shown(self[name])}" for name in self)


def _scalar(one: Any) -> Any:
    return one.item() if isinstance(one, np.generic) else one


def _shown(one: Any) -> str:
    if isinstance(one, list):
        return ", ".join(map(_shown, one))
    return "-" if one is None else number(one) if isinstance(one, float) else one_line(str(one))


class Numbers(np.lib.mixins.NDArrayOperatorsMixin):
    """A result that is also its numbers: NumPy, arithmetic, length, indices and the methods of arrays see those.

    Subclasses have `_numbers`; what NumPy makes of them is a plain array.
    """

    @property
    def _numbers(self) -> Floats:
        raise NotImplementedError

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        made = np.asarray(self._numbers, dtype=dtype)
        return made.copy() if copy else made

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **given: Any) -> Any:
        plain = [i._numbers if isinstance(i, Numbers) else i for i in inputs]
        return getattr(ufunc, method)(*plain, **given)

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, place: Any) -> Any:
        return self._numbers[place]

    def __getattr__(self, name: str) -> Any:
        """The public methods of an array: sum, round, tolist, shape, ..."""
        if name.startswith("_") or not hasattr(np.ndarray, name):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self._numbers, name)


def needed(module: str, asker: str, extra: str | None = None) -> Any:
    """A library that only some results need, or one line that names it (and the extra of fairpost that brings it)."""
    package = module.partition(".")[0]
    try:
        return import_module(module)
    except ImportError:
        get = package if extra is None else f"'fairpost[{extra}]'"
        raise UnsupportedError(f"{asker} needs {package}, which is not installed (pip install {get})") from None


def framed(columns: Columns, asker: str) -> pl.DataFrame:
    """The columns as a Polars data frame."""
    polars = needed("polars", asker)
    made: pl.DataFrame = polars.DataFrame(
        {name: polars.Series(name, values, strict=False) for name, values in columns.items()}
    )
    return made


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


def name_by_id(counts: Counts, label: str) -> str:
    """What people call the entity with this id."""
    return label if counts.names is None else counts.name(counts.ids.index(label))


def whole_numbers(values: Floats) -> NDArray[Any]:
    """As integers, where all of them are whole."""
    integers = np.all((values == np.round(values)) & (np.abs(values) < 2.0**53))
    return values.astype(np.int64) if integers else values


def reason(mark: str) -> str:
    """What stands in the column `confidential` of every table."""
    return mark.partition(": ")[2] or mark


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
    """A column in which what is no number is an empty field."""
    return [v if np.isfinite(v) else None for v in values.tolist()]


def number(value: float, *, signed: bool = False) -> str:
    """Five significant digits, thousands separated: "12,345", "-0.0017176", "2.5e-45"."""
    body = f"{abs(value):,.5g}" if abs(value) < 1e5 or abs(value) >= 1e15 else f"{abs(value):,.0f}"
    sign = "-" if value < 0 else "+" if signed and value > 0 else ""
    return f"{sign}{body}"


def known(estimate: Estimate, unit: str = "") -> str:
    """A number with its accuracy: "0.5 +- 2e-7 (bound)", or the ends of its interval where that is wide."""
    e, sense = estimate, f"({estimate.kind})"
    value = f"{number(e.value)}{unit}"
    if e.half_width <= 1e-3 * abs(e.value):
        return f"{value} +- {e.half_width:.1g} {sense}"
    return f"{value}, {number(e.low)} to {number(e.high)} {sense}"


def noise_words(mechanism: Mechanism) -> str:
    """The noise in a few words, such as: laplace noise, scale 10."""
    return f"{mechanism.name} noise, {mechanism.parameter} {mechanism.spread:g}"


def label(text: str) -> str:
    """An id, short enough for a screen."""
    return _cut(one_line(text), LABEL)


def one_line(text: str) -> str:
    """Text without line breaks and other characters that do not print."""
    return "".join(c if c.isprintable() else " " for c in text)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."


def _wrapped(first: str, text: str) -> list[str]:
    """At most two lines."""
    found = textwrap.wrap(one_line(text), WIDE - len(first), max_lines=2, placeholder=" ...") or [""]
    return [(first if k == 0 else " " * len(first)) + line for k, line in enumerate(found)]


def _drawn(grid: Grid, most: int) -> list[str]:
    """The grid as lines of at most WIDE columns; columns that do not fit are left out, and so are rows."""
    heads, rows = grid
    shown = rows if len(rows) + 1 <= most else rows[: most - 2]
    cells = [[_cut(one_line(c), LABEL) for c in row] for row in (heads, *shown)]
    widths = [max(len(row[k]) for row in cells) for k in range(len(heads))]
    keep = [k for k in range(len(heads)) if sum(widths[: k + 1]) + 2 * (k + 1) <= WIDE]
    lines = ["".join(f"  {row[k]:<{widths[k]}}" for k in keep).rstrip() for row in cells]
    return lines + ([f"  ... and {len(rows) - len(shown):,} more"] if len(shown) < len(rows) else [])


def _safe(text: str) -> str:
    return escape(one_line(text))


def _table(grid: Grid, most: int) -> str:
    heads, rows = grid
    more = f"<p>... and {len(rows) - most:,} more</p>" if len(rows) > most else ""

    def line(cells: Sequence[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{_safe(c)}</{tag}>" for c in cells) + "</tr>"

    body = "".join(line(row, "td") for row in rows[:most])
    return f"<table><thead>{line(heads, 'th')}</thead><tbody>{body}</tbody></table>{more}"
