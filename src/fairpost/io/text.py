"""CSV, TSV and other text with separators: bytes to clean text, the separator, the records, the columns.

*Encoding.* A file that is not UTF-8 is taken for Latin-1 where nothing speaks against it. In Latin-1 the bytes 0x80 to 0x9f are
control characters that no table has; where they occur the file is Windows-1252, which is Latin-1 but for these. A file
that also holds letters in UTF-8 is neither: one of its bytes is damaged, and it is refused.

*Records.* The structure is checked exactly, on the bytes, before Polars splits them into columns. A file is a sequence of
records; a line break inside a quoted field does not end one. With the quotation marks at positions q_0 < q_1 < ... the file is
well formed exactly when every q_2k opens a field (before it: the start, a separator, a line break, or a mark that it
escapes) and every q_2k+1 closes one. Then a position lies inside a quoted field exactly when an odd number of marks
precede it, which gives the records, the number of fields of each and the line on which each begins, all by sorted search.
"""

from __future__ import annotations

import codecs
import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fairpost.errors import InputError
from fairpost.io.reading import NAMES, Reading, Say, Table, folded, listed, picked, refuse_repeated
from fairpost.io.source import refuse_signature

if TYPE_CHECKING:
    import polars as pl

Positions = NDArray[np.int64]
NEWLINE, QUOTE = 10, 34
BLOCK = 1 << 14
USUAL = {"csv": ",", "tsv": "\t"}
"""The separator that a format is named after."""
QUOTED = re.compile(r'"(?:[^"]|"")*"')
BEGINNING = 1 << 16
"""Bytes of a file in which its header lies."""
LOOKED_AT = 50
"""Records that are compared in number of fields, where the header allows two separators."""
MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
SEQUENCE = re.compile(rb"[\xc3-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")
"""A letter beyond Latin-1's first block in UTF-8: in Latin-1 a capital with an accent before a sign, which no word has."""


def read_delimited(name: str, data: bytes, kind: str, wanted: Sequence[str], reading: Reading) -> Table:
    """The wanted columns of a CSV, TSV or other text file with separators, as text."""
    reading.refuse(f"{kind.upper()} text", sheet="workbooks", header="workbooks")
    refuse_signature(name, data, f"{kind.upper()} text")
    text = clean_text(name, data, reading.say)
    separator = separator_of(name, text, kind, wanted, reading)
    records = _records(name, text, separator)
    header = _header(text[: records.ends[0]].decode(), separator)
    refuse_repeated(f"{name}, line 1", header)
    height = records.starts.size - 1
    if height == 0:
        raise InputError(f"{name}: there must be at least one row below the header, got none")
    places = {column: header.index(column) for column in picked(header, wanted)}
    return Table(
        name=name,
        columns=tuple(header),
        data=_split(name, text, separator, places, height),
        height=height,
        unit="line",
        number=lambda row: records.line(row + 1),
        hint=_hint(separator, header),
        separator=separator,
        decimal=reading.decimal,
        say=reading.say,
    )


def _header(text: str, separator: str) -> list[str]:
    """The names of the columns, without surrounding blanks."""
    fields = next(csv.reader([" ".join(text.splitlines())], delimiter=separator))
    return [field.strip() for field in fields]


def _split(name: str, text: bytes, separator: str, places: dict[str, int], height: int) -> dict[str, pl.Series]:
    """The columns at these places. Polars must find as many rows as there are records."""
    if not places:
        return {}
    import polars as pl

    used = sorted(set(places.values()))
    frame = pl.read_csv(text, separator=separator, columns=used, infer_schema=False)
    if frame.shape != (height, len(used)):
        raise InputError(f"{name}: could not be read: {height} records, of which {frame.height} could be split")
    return {column: frame.to_series(used.index(place)) for column, place in places.items()}


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


# ---- bytes to clean text ----


def clean_text(name: str, data: bytes, say: Say) -> bytes:
    """UTF-8 without a byte-order mark, lines ended by line feeds, no blank line at the end; checked."""
    data = _unmarked(name, data)
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n")
        data = data if b"\n" in data else data.replace(b"\r", b"\n")
    zero = data.find(b"\0")
    if zero >= 0:
        raise InputError(
            f"{name}, line {_line_of(data, zero)}: text must not hold the byte 0, got one (a binary file?)"
        )
    if not data.isascii():
        data = _decoded(name, data, say)
    end = len(data)
    while end and not data[(start := data.rfind(b"\n", 0, end) + 1) : end].strip():
        end = max(start - 1, 0)
    if not end:
        raise InputError(f"{name}: the file must have a header and at least one row, got blanks only")
    return data if len(data) - end <= 1 else data[:end]  # a copy only where it is needed


def _unmarked(name: str, data: bytes) -> bytes:
    """What a byte-order mark says is done, and the mark goes."""
    mark, encoding = next((found for found in MARKS if data.startswith(found[0])), (b"", "utf-8"))
    if encoding == "utf-8":
        return data[len(mark) :]
    try:
        return data.decode(encoding).encode()
    except UnicodeError as error:
        said = f"must be {encoding.upper()}, as its first bytes say, got text that is not ({error})"
        raise InputError(f"{name}: {said}") from None


def _decoded(name: str, data: bytes, say: Say) -> bytes:
    """UTF-8 as it is; Latin-1 or Windows-1252, which is said, where it cannot be UTF-8."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        sequence = SEQUENCE.search(data)
        if sequence is not None:
            beside = f" beside UTF-8 in line {_line_of(data, sequence.start())}"
            raise _not_text(name, data, error.start, " throughout", beside) from None
    else:
        return data
    encoding, called = ("cp1252", "Windows-1252") if re.search(rb"[\x80-\x9f]", data) else ("latin-1", "Latin-1")
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        raise _not_text(name, data, error.start, " (save the file as UTF-8)") from None
    say(f"{name}: the text is not UTF-8 and was read as {called}")
    return text.encode()


def _not_text(name: str, data: bytes, place: int, more: str, beside: str = "") -> InputError:
    where = f"{name}, line {_line_of(data, place)}"
    return InputError(f"{where}: text must be UTF-8 or Latin-1{more}, got the byte 0x{data[place]:02x}{beside}")


def _line_of(data: bytes, position: int) -> int:
    """The line, from 1, of a position."""
    return data.count(b"\n", 0, position) + 1


# ---- what stands between the fields: as given, or found in the header, and then said ----


def separator_of(name: str, text: bytes, kind: str, wanted: Sequence[str], reading: Reading) -> str:
    """The separator of a text; that of its format is not worth a word."""
    if reading.delimiter is not None:
        return reading.delimiter
    usual = USUAL.get(kind)
    if reading.format == "tsv":
        return "\t"
    allowed = (",", ";") if reading.format == "csv" else tuple(NAMES)
    start = text[:BEGINNING].decode(errors="ignore")
    bare = QUOTED.sub("", start).partition("\n")[0]
    there = [mark for mark in allowed if mark in bare]
    found = _best(name, start, there, usual, wanted) if there else usual or ","
    if there and found != usual:
        reading.say(f"{name}: {NAMES[found]}s stand between the fields (--delimiter says otherwise)")
    return found


def _best(name: str, start: str, there: list[str], usual: str | None, wanted: Sequence[str]) -> str:
    """Of the separators in a header: by the wanted names that it gives, then by rows of equal length; else no guess."""
    if len(there) == 1:
        return there[0]
    ranks = {mark: _rank(start, mark, wanted) for mark in there}
    top = max(ranks.values())
    best = [mark for mark in there if ranks[mark] == top]
    if len(best) == 1:
        return best[0]
    if top[0] == 0 and usual in best:
        return str(usual)
    names = [NAMES[mark] for mark in best]
    columns = listed(_header(start.partition("\n")[0], best[0]))
    raise InputError(
        f"{name}, line 1: it must be clear what stands between the fields, got {' and '.join(names)} "
        f"(--delimiter {'|'.join(names)}; columns: {columns})"
    )


def _rank(start: str, mark: str, wanted: Sequence[str]) -> tuple[int, bool]:
    """How many wanted columns there would be, and whether the first records would have as many fields as the header."""
    lines = start.split("\n")
    if len(start) >= BEGINNING - 8 and len(lines) > 1:
        lines = lines[:-1]  # cut in the middle, perhaps
    try:
        records = [r for r in islice(csv.reader([f"{line}\n" for line in lines], delimiter=mark), LOOKED_AT) if r]
    except csv.Error:
        return 0, False
    head = {folded(field) for field in records[0]} if records else set()
    return len(head & {folded(w) for w in wanted}), all(len(r) == len(records[0]) for r in records)


# ---- records ----


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
    return np.asarray(np.searchsorted(quotes, positions) % 2 == 0)


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
        line = _line_of(text, int(strays.min()))
        raise InputError(f"{name}, line {line}: quotation marks must enclose a whole field, got one inside a field")
    if opening.size > closing.size:
        line = _line_of(text, int(opening[-1]))
        raise InputError(f"{name}, line {line}: a quoted field must be closed, got one that is open to the end")


def _check_fields(name: str, records: Records, fields: Positions) -> None:
    bad = np.flatnonzero((fields != fields[0]) | (records.starts == records.ends))
    if not bad.size:
        return
    record = int(bad[0])
    blank = records.starts[record] == records.ends[record]
    rule = (
        "a table must have no blank line inside, got one"
        if blank
        else f"every row must have as many fields as the header has ({fields[0]}), got {fields[record]}"
    )
    raise InputError(f"{name}, line {records.line(record)}: {rule}")
