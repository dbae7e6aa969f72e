"""Bytes to clean text: UTF-8, what a byte-order mark says, or else Latin-1, which is said.

A file that is not UTF-8 is taken for Latin-1 where nothing speaks against it. In Latin-1 the bytes 0x80 to 0x9f are control
characters that no table has; where they occur the file is Windows-1252, which is Latin-1 but for these. A file
that also holds letters in UTF-8 is neither: one of its bytes is damaged, and it is refused as before.
"""

from __future__ import annotations

import codecs
import re

from fairpost.errors import InputError
from fairpost.io.reading import Say

MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
SEQUENCE = re.compile(rb"[\xc3-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")
"""A letter beyond Latin-1's first block in UTF-8: in Latin-1 a capital with an accent before a sign, which no word has."""


def clean_text(name: str, data: bytes, say: Say) -> bytes:
    """UTF-8 without a byte-order mark, lines ended by line feeds, no blank line at the end; checked."""
    data = _utf8(name, data)
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n")
        data = data if b"\n" in data else data.replace(b"\r", b"\n")
    zero = data.find(b"\0")
    if zero >= 0:
        raise InputError(f"{name}, line {line_of(data, zero)}: text must not hold the byte 0, got one (a binary file?)")
    if not data.isascii():
        data = _decoded(name, data, say)
    end = len(data)
    while end and not data[(start := data.rfind(b"\n", 0, end) + 1) : end].strip():
        end = max(start - 1, 0)
    if not end:
        raise InputError(f"{name}: the file must have a header and at least one row, got blanks only")
    return data if len(data) - end <= 1 else data[:end]  # a copy only where it is needed


def _utf8(name: str, data: bytes) -> bytes:
    if data.startswith(codecs.BOM_UTF8):
        return data[len(codecs.BOM_UTF8) :]
    for mark, encoding in MARKS:
        if data.startswith(mark):
            try:
                return data.decode(encoding).encode()
            except UnicodeError as error:
                raise InputError(
                    f"{name}: must be {encoding.upper()}, as its first bytes say, got text that is not ({error})"
                ) from None
    return data


def _decoded(name: str, data: bytes, say: Say) -> bytes:
    """UTF-8 as it is; Latin-1 or Windows-1252, which is said, where it cannot be UTF-8."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        where = f"{name}, line {line_of(data, error.start)}"
        got = f"got the byte 0x{data[error.start]:02x}"
        sequence = SEQUENCE.search(data)
        if sequence is not None:
            beside = f"beside UTF-8 in line {line_of(data, sequence.start())}"
            raise InputError(f"{where}: text must be UTF-8 or Latin-1 throughout, {got} {beside}") from None
    else:
        return data
    encoding, called = ("cp1252", "Windows-1252") if re.search(rb"[\x80-\x9f]", data) else ("latin-1", "Latin-1")
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        where = f"{name}, line {line_of(data, error.start)}"
        raise InputError(
            f"{where}: text must be UTF-8 or Latin-1 (save the file as UTF-8), got the byte 0x{data[error.start]:02x}"
        ) from None
    say(f"{name}: the text is not UTF-8 and was read as {called}")
    return text.encode()


def line_of(data: bytes, position: int) -> int:
    """The line, from 1, of a position."""
    return data.count(b"\n", 0, position) + 1
