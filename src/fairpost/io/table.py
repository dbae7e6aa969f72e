"""What every reader returns, and how a place in a file or a value is named in an error (always on one line)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from fairpost.errors import CountsError, FairpostError, InputError, value

if TYPE_CHECKING:
    import polars as pl

MOST_COLUMNS = 20
"""At most this many column names are listed in a message."""


@dataclass(frozen=True)
class Table:
    """The columns that were asked for, out of a file or a data frame."""

    name: str
    """The file as the user named it, or "data frame"."""
    columns: tuple[str, ...]
    """Every column there is."""
    data: Mapping[str, pl.Series]
    """The columns that were asked for and are there."""
    height: int
    """The number of rows."""
    unit: str = "row"
    """What `number` counts: lines of a text file, rows of anything else."""
    number: Callable[[int], int] = lambda row: row + 1
    """Row (from 0) to the number that the user sees."""
    hint: str = ""
    """What to try when a column is not there."""
    separator: str | None = None
    """What stands between the fields of a text file."""
    decimal: str | None = None
    """The mark before decimals, . or , where that is decided."""
    say: Callable[[str], None] = lambda note: None
    """Where notes about the reading go."""

    def error(self, rows: Sequence[int], column: str, rule: str) -> CountsError:
        """The error for these rows (from 0) of a column."""
        numbers = [str(self.number(row)) for row in rows]
        place = f"{self.unit} {numbers[0]}" if len(numbers) == 1 else f"{self.unit}s {' and '.join(numbers)}"
        return CountsError(f"{self.name}, {place}, column {value(column)}: {rule}")


def kept(table: Table, mask: pl.Series) -> Table:
    """The rows that the mask keeps; each knows its number as before."""
    rows = mask.arg_true().to_list()
    data = {column: series.filter(mask) for column, series in table.data.items()}
    return replace(table, data=data, height=len(rows), number=lambda row: table.number(rows[row]))


def shown(path: object) -> str:
    """A file's name as given; quoted where it holds something that cannot be printed on one line."""
    name = str(path)
    return name if name.isprintable() and name else repr(name)


def listed(names: Sequence[str]) -> str:
    """The names of columns, for a message."""
    more = len(names) - MOST_COLUMNS
    return ", ".join(map(value, names[:MOST_COLUMNS])) + (f" and {more} more" if more > 0 else "")


def repeated(names: Sequence[str]) -> str | None:
    """The first name that stands twice; columns without a name do not count."""
    seen: set[str] = set()
    for name in names:
        if name and name in seen:
            return name
        seen.add(name)
    return None


def one_line(error: BaseException) -> str:
    """The message of a library's exception, on one line."""
    text = " ".join(str(error).split()) or type(error).__name__
    text = "".join(c if c.isprintable() else "?" for c in text)
    return text if len(text) <= 200 else f"{text[:200]}..."


@contextmanager
def translated(name: str) -> Iterator[None]:
    """Whatever a library raises on strange input becomes an `InputError` that names the file.

    A panic of a Rust library is a BaseException by design; only its name tells it from an interrupt.
    """
    try:
        yield
    except FairpostError:
        raise
    except BaseException as error:
        if isinstance(error, Exception) or type(error).__name__ == "PanicException":
            raise InputError(f"{name}: could not be read: {one_line(error)}") from None
        raise


def first(mask: Any) -> int | None:
    """The position of the first True of a Boolean series, None where there is none."""
    place = mask.arg_max() if mask.any() else None
    return None if place is None else int(place)
