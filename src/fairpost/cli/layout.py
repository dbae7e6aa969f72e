"""Tables and text in as many columns as the screen has: columns are folded, and lines broken between words, never digits.

A table that is too wide is cut into several, each with the columns that name a row; where not even one more column fits
beside these, every row becomes a block of lines.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from fairpost import palette
from fairpost.report.text import clean

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

PIPED = 150
"""Columns where there is no terminal and COLUMNS does not say."""
LEAST = 20
"""No screen has fewer columns than this."""
WORD = re.compile(r"(?:[^ \u00a0]|(?<=\d)[ \u00a0](?=[%×])|(?<=×)[ ](?=10))+")
"""What stays on one line: a word, or a number with its "%" or its "× 10"."""


@dataclass(frozen=True)
class Grid:
    """A table: the first columns, which name a row, are text, the others are numbers."""

    title: str
    heads: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    keys: int = 1

    def columns(self, which: Sequence[int]) -> Table:
        """Some of the columns, as a table whose lines do not break."""
        from rich import box
        from rich.table import Table
        from rich.text import Text

        made = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for k in which:
            made.add_column(Text(self.heads[k]), justify="left" if k == 0 else "right", no_wrap=True)
        for row in self.rows:
            made.add_row(*(Text(clean(row[k]), style=_style(row[k]) if k == 0 else "") for k in which))
        return made


def _style(label: str) -> str:
    """A rule has its own colour, the one that it has in the pages; on a terminal only."""
    return palette.look(label).light if label in palette.SLOTS else ""


def console(*, stderr: bool = False) -> Console:
    """Where results (remarks) go. Without a terminal: as wide as COLUMNS says, and no colours but where FORCE_COLOR asks for them."""
    from rich.console import Console

    class Piped(Console):
        def on_broken_pipe(self) -> None:
            """The reader went away: told as it is, where rich would end the program with exit code 1."""
            raise BrokenPipeError

    said = os.environ.get("COLUMNS", "")
    if said.isdigit() and not said.isdecimal():  # rich takes "²" for a number and falls over it
        del os.environ["COLUMNS"]
    screen = Piped(highlight=False, stderr=stderr)
    if screen.file.isatty():  # `is_terminal` is also true of a file where FORCE_COLOR is set
        return screen
    return Piped(highlight=False, stderr=stderr, width=max(int(said), LEAST) if said.isdecimal() else PIPED)


def show(out: Console, grid: Grid) -> None:
    """The table, in as many parts as the screen needs."""
    parts = _parts(out, grid)
    if parts is None:
        _stacked(out, grid)
        return
    say(out, grid.title, style="italic")
    for part in parts:
        out.print(grid.columns(part))


def _parts(out: Console, grid: Grid) -> list[list[int]] | None:
    """The fewest parts that fit, of even numbers of columns where that fits too; None where a column does not."""
    keys, rest = list(range(grid.keys)), list(range(grid.keys, len(grid.heads)))
    filled: list[list[int]] = []
    at = 0
    while at < len(rest):
        sizes = range(len(rest) - at, 0, -1)
        wide = next((n for n in sizes if _width(out, grid, keys + rest[at : at + n]) <= out.width), 0)
        if wide == 0:
            return None
        filled.append(keys + rest[at : at + wide])
        at += wide
    cuts = [round(k * len(rest) / len(filled)) for k in range(len(filled) + 1)]
    even = [keys + rest[low:high] for low, high in pairwise(cuts)]
    return even if all(_width(out, grid, part) <= out.width for part in even) else filled


def _width(out: Console, grid: Grid, which: Sequence[int]) -> int:
    from rich.measure import Measurement

    return Measurement.get(out, out.options.update(max_width=10**6), grid.columns(which)).maximum


def _stacked(out: Console, grid: Grid) -> None:
    """Every row as a block: its name, then one line per column."""
    from rich.cells import cell_len

    say(out, grid.title, style="italic")
    wide = max(cell_len(head) for head in grid.heads)
    for row in grid.rows:
        out.print()
        say(out, ", ".join([row[0], *(f"{grid.heads[k]} {row[k]}" for k in range(1, grid.keys))]))
        for head, cell in zip(grid.heads[grid.keys :], row[grid.keys :], strict=True):
            say(out, cell, lead=f"  {head.ljust(wide)}  ")
    out.print()


def say(out: Console, line: str, *, style: str | None = None, lead: str = "") -> None:
    """One line of text behind `lead`, broken between words where it is too long; what follows is indented."""
    from rich.text import Text

    for part in wrapped(line, out.width, lead):
        out.print(Text(part), style=style, soft_wrap=True)


def remark(line: str) -> None:
    """On stderr: what was done besides the results."""
    say(console(stderr=True), line)


def wrapped(line: str, width: int, lead: str = "") -> list[str]:
    """A line as lines of at most `width` columns, the first behind `lead`; only a word longer than a line is cut."""
    from rich.cells import cell_len, chop_cells

    line = clean(line)
    if cell_len(lead + line) <= width:
        return [lead + line]
    start = lead + " " * (len(line) - len(line.lstrip(" ")))
    after = " " * min(max(len(start), 2), width // 2)
    lines, current = [], start
    for word in WORD.findall(line):
        longer = current + (" " if current.strip() and current != lead else "") + word
        if cell_len(longer) > width and current.strip():
            lines.append(current)
            longer = after + word
        while cell_len(longer) > width:
            first = chop_cells(longer, width)[0]
            lines.append(first)
            longer = after + longer[len(first) :]
        current = longer
    return [*lines, current]
