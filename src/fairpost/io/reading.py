"""How a source is read: what the user said about it, the table that a reader makes of it, and places and names in messages."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from fairpost.errors import CountsError, FairpostError, InputError, ParameterError, value

if TYPE_CHECKING:
    import polars as pl

Say = Callable[[str], None]
FORMATS = ("csv", "tsv", "txt", "xlsx", "parquet", "saipe")
DELIMITERS = {"comma": ",", "semicolon": ";", "tab": "\t", "pipe": "|"}
"""What may stand between the fields of a text file, by name."""
NAMES = {mark: name for name, mark in DELIMITERS.items()}
DECIMALS = (".", ",")
MOST_COLUMNS = 20
"""At most this many column names are listed in a message."""


# ---- what the user said ----


class Options(TypedDict, total=False):
    """The keyword arguments that all readers share; `read_counts` says what they mean."""

    format: str | None
    delimiter: str | None
    decimal: str | None
    sheet: str | int | None
    header: int | None
    where: str | Sequence[str]
    drop_missing: bool
    say: Say | None


class Skipped(str):
    """A note about what was asked for; any other note is about what was found and not told."""

    __slots__ = ()


def noted(note: str) -> None:
    """Where notes go by default: to the log, which Python prints on stderr unless it was told otherwise."""
    logging.getLogger("fairpost").warning("%s", note)


@dataclass(frozen=True)
class Reading:
    """The options, checked."""

    format: str | None = None
    delimiter: str | None = None
    decimal: str | None = None
    sheet: str | int | None = None
    header: int | None = None
    where: tuple[str, ...] = ()
    drop_missing: bool = False
    say: Say = noted

    @classmethod
    def of(cls, **given: Unpack[Options]) -> Reading:
        """From the readers' keyword arguments; None is what was not given."""
        some: dict[str, Any] = {k: v for k, v in given.items() if v is not None}
        where = some.pop("where", ())
        made = cls(where=(where,) if isinstance(where, str) else tuple(where), **some)
        made._check()
        return replace(made, delimiter=DELIMITERS.get(str(made.delimiter), made.delimiter))

    def _check(self) -> None:
        if self.format is not None and self.format not in FORMATS:
            raise ParameterError(f"`format` must be one of {', '.join(FORMATS)}, got {self.format!r}")
        if self.delimiter is not None and self.delimiter not in {*DELIMITERS, *NAMES}:
            raise ParameterError(f"`delimiter` must be one of {', '.join(DELIMITERS)}, got {value(self.delimiter)}")
        if self.decimal is not None and self.decimal not in DECIMALS:
            raise ParameterError(f"`decimal` must be . or , got {value(self.decimal)}")
        header = self.header
        if header is not None and (isinstance(header, bool) or not isinstance(header, int) or header < 1):
            raise ParameterError(f"`header` must be the number of a row, from 1, got {value(header)}")

    def refuse(self, kind: str, **meant: str) -> None:
        """What was given and is for another kind of source: nothing is left aside in silence."""
        for name, what in meant.items():
            if getattr(self, name) is not None:
                raise ParameterError(f"`{name}` is for {what}, got {value(getattr(self, name))} with {kind}")


# ---- what a reader makes of it ----


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
    say: Say = lambda note: None
    """Where notes about the reading go."""

    def error(self, rows: Sequence[int], column: str, rule: str) -> CountsError:
        """The error for these rows (from 0) of a column."""
        numbers = [str(self.number(row)) for row in rows]
        place = f"{self.unit} {numbers[0]}" if len(numbers) == 1 else f"{self.unit}s {' and '.join(numbers)}"
        return CountsError(f"{self.name}, {place}, column {value(column)}: {rule}")

    def kept(self, mask: pl.Series) -> Table:
        """The rows that the mask keeps; each knows its number as before."""
        rows = mask.arg_true().to_list()
        data = {column: series.filter(mask) for column, series in self.data.items()}
        return replace(self, data=data, height=len(rows), number=lambda row: self.number(rows[row]))

    def meant(self, name: str) -> str | None:
        """The column of a name: the one spelled so, else the only one that differs in case alone; None: there is none."""
        if name in self.data:
            return name
        alike = picked(list(self.data), [name])
        if len(alike) > 1:
            raise InputError(
                f"{self.name}: a column must be named as it is spelled, got {value(name)} for {listed(alike)}"
            )
        return alike[0] if alike else None

    def absent(self, role: str, name: str, option: str | None) -> InputError:
        """The error for a column that is not there."""
        near = suggested(name, self.columns)
        how = "" if option is None else f"name it with --{option}"
        advice = f" ({near}{how})".replace("? )", "?)") if near or how else ""
        rule = f"{role} must be one of {listed(self.columns)}"
        return InputError(f"{self.name}: {rule}, got {value(name)}{advice}{self.hint}")


def first(mask: pl.Series) -> int | None:
    """The position of the first True of a Boolean series, None where there is none."""
    return mask.arg_max() if mask.any() else None


# ---- names of columns: case does not matter where no name is exact ----


def folded(name: str) -> str:
    """A name without case and surrounding blanks."""
    return name.strip().casefold()


def picked(columns: Sequence[str], wanted: Iterable[str]) -> list[str]:
    """The columns that any of the wanted names could mean."""
    names = {folded(name) for name in wanted}
    return [column for column in columns if folded(column) in names]


def suggested(name: str, known: Sequence[str]) -> str:
    """Names that are like this one, as the beginning of an advice; "" where none is."""
    spelled = {folded(one): one for one in reversed(known)}
    near = get_close_matches(folded(name), list(spelled), n=3, cutoff=0.6)
    return f"did you mean {' or '.join(value(spelled[one]) for one in near)}? " if near else ""


def refuse_repeated(place: str, names: Sequence[str]) -> None:
    """No name may stand twice; columns without a name do not count."""
    seen: set[str] = set()
    for name in names:
        if name and name in seen:
            raise InputError(f"{place}: column names must be unique, got {value(name)} twice")
        seen.add(name)


# ---- messages: always one line ----


def shown(path: object) -> str:
    """A file's name as given; quoted where it holds something that cannot be printed on one line."""
    name = str(path)
    return name if name.isprintable() and name else repr(name)


def listed(names: Sequence[str]) -> str:
    """The names of columns, for a message."""
    more = len(names) - MOST_COLUMNS
    return ", ".join(map(value, names[:MOST_COLUMNS])) + (f" and {more} more" if more > 0 else "")


def one_line(text: str) -> str:
    """What a library says, on one line of some length."""
    line = "".join(c if c.isprintable() else "?" for c in " ".join(text.split()))
    return line if len(line) <= 200 else f"{line[:200]}..."


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
        kind = type(error).__name__
        if isinstance(error, Exception) or kind == "PanicException":
            raise InputError(f"{name}: could not be read: {one_line(str(error)) or kind}") from None
        raise
