"""What stands between the fields of a text file: as given, or found in its header, and then said."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from itertools import islice

from fairpost.errors import InputError
from fairpost.io.names import folded
from fairpost.io.reading import NAMES, Reading
from fairpost.io.table import listed

USUAL = {"csv": ",", "tsv": "\t"}
"""The separator that a format is named after."""
QUOTED = re.compile(r'"(?:[^"]|"")*"')
BEGINNING = 1 << 16
"""Bytes of a file in which its header lies."""
LOOKED_AT = 50
"""Records that are compared in number of fields, where the header allows two separators."""


def header_of(text: str, separator: str) -> list[str]:
    """The names of the columns, without surrounding blanks."""
    fields = next(csv.reader([" ".join(text.splitlines())], delimiter=separator))
    return [field.strip() for field in fields]


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
        reading.say(f"{name}: {_plural(NAMES[found])} stand between the fields (--delimiter says otherwise)")
    return found


def _plural(word: str) -> str:
    return f"{word}s"


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
    raise InputError(
        f"{name}, line 1: it must be clear what stands between the fields, got {' and '.join(NAMES[m] for m in best)} "
        f"(--delimiter {'|'.join(NAMES[m] for m in best)}; columns: {listed(header_of(_first_line(start), best[0]))})"
    )


def _first_line(start: str) -> str:
    return start.partition("\n")[0]


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
