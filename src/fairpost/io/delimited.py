"""CSV, TSV and other text with separators. The structure is checked exactly, on the bytes, before Polars splits them into columns.

A file is a sequence of records; a line break inside a quoted field does not end one. With the quotation marks at
positions q_0 < q_1 < ... the file is well formed exactly when every q_2k opens a field (before it: the start, a
separator, a line break, or a mark that it escapes) and every q_2k+1 closes one. Then a position lies inside a quoted
field exactly when an odd number of marks precede it, which gives the records, the number of fields of each and the
line on which each begins, all by sorted search.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpost.errors import InputError, value
from fairpost.io.encoding import clean_text, line_of
from fairpost.io.names import picked
from fairpost.io.reading import NAMES, Reading
from fairpost.io.separators import USUAL, header_of, separator_of
from fairpost.io.source import refuse_signature
from fairpost.io.table import Table, repeated

Positions = NDArray[np.int64]
NEWLINE, QUOTE = 10, 34
BLOCK = 1 << 14


def read_delimited(name: str, data: bytes, kind: str, wanted: Sequence[str], reading: Reading) -> Table:
    """The wanted columns of a CSV, TSV or other text file with separators, as text."""
    reading.refuse(f"{kind.upper()} text", sheet="workbooks", header="workbooks")
    refuse_signature(name, data, f"{kind.upper()} text")
    text = clean_text(name, data, reading.say)
    separator = separator_of(name, text, kind, wanted, reading)
    records = _records(name, text, separator)
    header = header_of(text[: records.ends[0]].decode(), separator)
    twice = repeated(header)
    if twice is not None:
        raise InputError(f"{name}, line 1: column names must be unique, got {value(twice)} twice")
    if records.starts.size == 1:
        raise InputError(f"{name}: there must be at least one row below the header, got none")
    places = {column: header.index(column) for column in picked(header, wanted)}
    return Table(
        name=name,
        columns=tuple(header),
        data=_split(name, text, separator, places, records.starts.size - 1),
        height=int(records.starts.size - 1),
        unit="line",
        number=lambda row: records.line(row + 1),
        hint=_hint(separator, header),
        separator=separator,
        decimal=reading.decimal,
        say=reading.say,
    )


def _split(name: str, text: bytes, separator: str, picked: dict[str, int], height: int) -> dict[str, Any]:
    """The picked columns of the rows. Polars must find as many rows as there are records."""
    if not picked:
        return {}
    import polars as pl

    places = sorted(set(picked.values()))
    frame = pl.read_csv(text, separator=separator, columns=places, infer_schema=False)
    if frame.shape != (height, len(places)):
        raise InputError(f"{name}: could not be read: {height} records, of which {frame.height} could be split")
    return {column: frame.to_series(places.index(place)) for column, place in picked.items()}


@dataclass(frozen=True, eq=False)
class Records:
    """Where each record starts and ends (its line break, or the end), and every line break of the file."""

    starts: Positions
    ends: Positions
    newlines: Positions

    def line(self, record: int) -> int:
        """The line, from 1, on which a record begins."""
        return int(np.searchsorted(self.newlines, self.starts[record])) + 1


def _records(name: str, text: bytes, separator: str) -> Records:
    """The records of a well-formed file; every one has as many fields as the first."""
    codes = np.frombuffer(text, np.uint8)
    codes = codes[:-1] if codes[-1] == NEWLINE else codes
    quotes, newlines = (np.flatnonzero(codes == code) for code in (QUOTE, NEWLINE))
    _check_quotes(name, text, codes, quotes, separator)
    cuts = codes == ord(separator)
    breaks = newlines
    if quotes.size:
        breaks = newlines[_outside(newlines, quotes)]
        places = np.flatnonzero(cuts)
        cuts[places[~_outside(places, quotes)]] = False
    records = Records(np.append(0, breaks + 1), np.append(breaks, codes.size), newlines)
    _check_fields(name, records, _sums(cuts, records) + 1)
    return records


def _outside(positions: Positions, quotes: Positions) -> NDArray[np.bool_]:
    """Which positions lie outside quoted fields: an even number of marks before them."""
    before = np.searchsorted(quotes, positions)
    return np.asarray(before % 2 == 0)


def _sums(cuts: NDArray[np.bool_], records: Records) -> Positions:
    """How many cuts each record has; block by block, because the sum needs eight bytes for each of the text."""
    sums = np.empty(records.starts.size, dtype=np.int64)
    for low in range(0, sums.size, BLOCK):
        starts, ends = records.starts[low : low + BLOCK], records.ends[low : low + BLOCK]
        piece = np.append(cuts[starts[0] : ends[-1]], False)  # so that a blank last record starts inside
        np.add.reduceat(piece, starts - starts[0], dtype=np.int64, out=sums[low : low + BLOCK])
    return sums


def _check_quotes(name: str, text: bytes, codes: NDArray[np.uint8], quotes: Positions, separator: str) -> None:
    boundary = np.array([ord(separator), NEWLINE, QUOTE], dtype=np.uint8)
    opening, closing = quotes[0::2], quotes[1::2]
    inner = opening[opening > 0]
    outer = closing[closing < codes.size - 1]
    strays = np.concatenate([inner[~np.isin(codes[inner - 1], boundary)], outer[~np.isin(codes[outer + 1], boundary)]])
    if strays.size:
        line = line_of(text, int(strays.min()))
        raise InputError(f"{name}, line {line}: quotation marks must enclose a whole field, got one inside a field")
    if opening.size > closing.size:
        line = line_of(text, int(opening[-1]))
        raise InputError(f"{name}, line {line}: a quoted field must be closed, got one that is open to the end")


def _check_fields(name: str, records: Records, fields: Positions) -> None:
    bad = np.flatnonzero((fields != fields[0]) | (records.starts == records.ends))
    if not bad.size:
        return
    record = int(bad[0])
    line = records.line(record)
    if records.starts[record] == records.ends[record]:
        raise InputError(f"{name}, line {line}: a table must have no blank line inside, got one")
    raise InputError(
        f"{name}, line {line}: every row must have as many fields as the header has ({fields[0]}), got {fields[record]}"
    )


def _hint(separator: str, header: list[str]) -> str:
    """A file with one column: what else may stand between its fields."""
    if len(header) > 1:
        return ""
    others = [mark for mark in NAMES if mark != separator and mark in header[0]]
    if not others:
        return "; the header has one column (a SAIPE file? --format saipe)" if header[0].count(" ") > 5 else ""
    usual = {mark: kind for kind, mark in USUAL.items()}
    advice = f"--format {usual[others[0]]}" if others[0] in usual else f"--delimiter {NAMES[others[0]]}"
    return f"; the header has no {NAMES[separator]} but a {NAMES[others[0]]}: give {advice}"
