"""What every result can do: a data frame, a text of one screen, a small table in a notebook, a figure.

A result says what it is about (`_head`), its facts (`_facts`), perhaps a grid (`_grid`) and its columns (`columns`); the
rest is here, once. Polars, pandas and Plotly are imported when they are asked for, so that results need none of them.
"""

from __future__ import annotations

import textwrap
from abc import ABC, abstractmethod
from collections.abc import Sequence
from html import escape
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fairpost.accuracy import Estimate
from fairpost.errors import UnsupportedError
from fairpost.noise import Mechanism

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go
    import polars as pl

Floats = NDArray[np.float64]
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
    def columns(self) -> Columns:
        """The table of this result, column by column."""

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
        """The table of this result as a Polars data frame."""
        polars = needed("polars", "to_frame()")
        made: pl.DataFrame = polars.DataFrame(
            {name: polars.Series(name, values, strict=False) for name, values in self.columns().items()}
        )
        return made

    def to_pandas(self) -> pd.DataFrame:
        """The table of this result as a pandas data frame."""
        made: pd.DataFrame = needed("pandas", "to_pandas()").DataFrame(self.columns())
        return made

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
        facts = "".join(f"<tr><th>{_safe(name)}</th><td>{_safe(text)}</td></tr>" for name, text in self._facts())
        grid = self._grid()
        table = "" if grid is None else _html(grid)
        mark = "" if self.mark is None else f"<p><strong>{_safe(self.mark)}</strong></p>"
        return f"<div><p>{_safe(self._head())}</p><table><tbody>{facts}</tbody></table>{table}{mark}</div>"


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


def needed(module: str, asker: str) -> Any:
    """A library that only some results need, or one line that names it."""
    package = module.partition(".")[0]
    try:
        return import_module(module)
    except ImportError:
        raise UnsupportedError(f"{asker} needs {package}, which is not installed (pip install {package})") from None


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


def _html(grid: Grid, most: int = 50) -> str:
    heads, rows = grid
    more = f"<p>... and {len(rows) - most:,} more</p>" if len(rows) > most else ""

    def line(cells: Sequence[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{_safe(c)}</{tag}>" for c in cells) + "</tr>"

    body = "".join(line(row, "td") for row in rows[:most])
    return f"<table><thead>{line(heads, 'th')}</thead><tbody>{body}</tbody></table>{more}"
