"""A table as data: cells are text, numbers or estimates; one object becomes CSV, Markdown and HTML."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass

import numpy as np

from fairpost.accuracy import Estimate

Cell = str | int | float | Estimate | None
CLOSE = 1e-4
"""An interval narrower than this, relative to its value, is written as value ± error."""


@dataclass(frozen=True)
class Table:
    """Rows under columns; `estimates` names the columns whose cells carry an interval."""

    name: str
    """The name of its files."""
    title: str
    caption: str
    columns: tuple[str, ...]
    estimates: frozenset[str]
    rows: tuple[tuple[Cell, ...], ...]
    powers: frozenset[str] = frozenset()
    """Columns whose numbers are all written by powers of ten, whatever their size: one notation per column."""

    def column(self, name: str) -> tuple[Cell, ...]:
        """One column, top to bottom."""
        place = self.columns.index(name)
        return tuple(row[place] for row in self.rows)

    def csv(self) -> str:
        """Full precision; an estimate takes three columns: value, low, high."""
        out = io.StringIO()
        write = csv.writer(out, lineterminator="\n")
        write.writerow([f for c in self.columns for f in _fields(c, c in self.estimates)])
        for row in self.rows:
            write.writerow([v for c, cell in zip(self.columns, row, strict=True) for v in self._values(c, cell)])
        return out.getvalue()

    def _values(self, column: str, cell: Cell) -> list[object]:
        if column not in self.estimates:
            return ["" if cell is None else cell]
        if not isinstance(cell, Estimate):
            return ["" if cell is None else cell, "", ""]
        return [cell.value, cell.low, cell.high]

    def markdown(self) -> str:
        """For reading: rounded to what the interval allows."""
        head = f"# {self.title}\n\n{self.caption}\n\n"
        lines = ["| " + " | ".join(self.columns) + " |", "|" + "---|" * len(self.columns)]
        lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in self.shown()]
        return head + "\n".join(lines) + "\n"

    def shown(self) -> tuple[tuple[str, ...], ...]:
        """Every cell as text."""
        by = [c in self.powers for c in self.columns]
        return tuple(tuple(show(cell, power) for cell, power in zip(row, by, strict=True)) for row in self.rows)


def _fields(column: str, estimate: bool) -> list[str]:
    return [column, f"{column} low", f"{column} high"] if estimate else [column]


def show(cell: Cell, power: bool = False) -> str:
    """A cell for reading; `power`: mantissa and power of ten."""
    if cell is None:
        return "–"
    if isinstance(cell, str):
        return cell.replace("E", "e") if power else cell
    if isinstance(cell, Estimate):
        return _interval(cell, power)
    if power:
        return _power(cell, 3)
    if isinstance(cell, int) or abs(cell) >= 1000:
        return f"{cell:,.0f}"
    return f"{cell:.4g}"


def _power(value: float, places: int) -> str:
    return f"{value:.{places}e}" if value else "0"


def half_width(estimate: Estimate) -> float:
    """The larger distance from the value to an end of the interval."""
    return max(estimate.high - estimate.value, estimate.value - estimate.low)


def _interval(e: Estimate, power: bool) -> str:
    half = half_width(e)
    if half <= CLOSE * abs(e.value):
        digits = 8 if half == 0 else int(np.clip(np.ceil(-np.log10(half / abs(e.value))), 4, 8))
        value = _power(e.value, digits - 1) if power else f"{e.value:.{digits}g}"
        return value + (f" ± {half:.0e}" if half > 0 else "")
    value, low, high = (_power(v, 3) if power else f"{v:.4g}" for v in (e.value, e.low, e.high))
    return f"{value} [{low}, {high}]"
