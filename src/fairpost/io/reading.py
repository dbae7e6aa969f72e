"""How a source is to be read: what the user has said about it, once, for every reader."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypedDict, Unpack

from fairpost.errors import ParameterError, value

Say = Callable[[str], None]
FORMATS = ("csv", "tsv", "txt", "xlsx", "parquet", "saipe")
DELIMITERS = {"comma": ",", "semicolon": ";", "tab": "\t", "pipe": "|"}
"""What may stand between the fields of a text file, by name."""
NAMES = {mark: name for name, mark in DELIMITERS.items()}
DECIMALS = (".", ",")


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
        if isinstance(some.get("where"), str):
            some["where"] = (some["where"],)
        made = cls(**some)
        made._check()
        mark = None if made.delimiter is None else DELIMITERS.get(made.delimiter, made.delimiter)
        return replace(made, where=tuple(made.where), delimiter=mark)

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
