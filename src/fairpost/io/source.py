"""From a file's name to its bytes: which format it is, and whether the bytes are what the name says.

The bytes of Parquet files and workbooks are taken apart by `decode.py` in a process of its own, which a damaged file may end.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import stat
import subprocess
import sys
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from fairpost.errors import InputError
from fairpost.io.reading import FORMATS, one_line, shown

SUFFIXES = {
    ".csv": "csv", ".tsv": "tsv", ".tab": "tsv", ".txt": "txt", ".parquet": "parquet", ".pq": "parquet",
    ".xlsx": "xlsx", ".xlsm": "xlsx", ".xls": "xlsx",
}  # fmt: skip
SIGNATURES = {
    b"\x1f\x8b": "gzip data (its name should end in .gz)",
    b"PAR1": "Parquet",
    b"PK\x03\x04": "a zip archive or an Excel workbook",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook",
}
"""How files of a known kind begin."""
MOST = 4 << 30
"""Bytes of an input, as it comes and unpacked."""
RATIO, FREE = 200, 64 << 20
"""Gzip data may unpack to so many times its size (tables of counts: 3 to 30 times), and to FREE bytes in any case."""
SECONDS = 60.0
"""How long a decoder may take, with the start of its process."""
MEMORY = 8 << 30
"""Bytes of address space that a decoder may have, where the system can hold it to that."""
DECODED = {"parquet": "Parquet", "workbook": "an Excel workbook"}
STDIN = "-"
"""The name that means the standard input."""


@dataclass(frozen=True, eq=False, repr=False)
class Held(os.PathLike[str]):
    """A file that is in memory alone, as an upload is: every reader takes it in place of a path, and none writes it down."""

    name: str
    data: bytes

    def __fspath__(self) -> str:
        return self.name

    def __str__(self) -> str:
        return self.name


def kind_of(path: str | os.PathLike[str], given: str | None) -> str:
    """The format of a file: as given, else by the end of its name."""
    if given is not None:
        return given
    suffix = inner_suffix(path)
    if suffix not in SUFFIXES:
        raise InputError(
            f"{shown(path)}: the name must end in {', '.join(SUFFIXES)}, with or without .gz, or the format be given "
            f"(--format {'|'.join(FORMATS)}), got the ending {suffix!r}"
        )
    return SUFFIXES[suffix]


def kind_of_stdin(data: bytes, given: str | None) -> str:
    """The format of the standard input: as given, else TSV where the header has a tab and no comma, else CSV."""
    header = data.partition(b"\n")[0]
    return given or ("tsv" if b"\t" in header and b"," not in header else "csv")


def inner_suffix(path: str | os.PathLike[str]) -> str:
    """The end of the name, without .gz, in lower case."""
    name = Path(path).name.lower()
    return Path(name.removesuffix(".gz")).suffix


def name_of(path: str | os.PathLike[str]) -> str:
    """How a source is called in messages."""
    return "standard input" if path == STDIN else shown(path)


def load(path: str | os.PathLike[str]) -> bytes:
    """Everything in a file (-: on the standard input), unpacked where it is gzip data by its name; never empty."""
    name = name_of(path)
    try:
        data = _bytes(name, path)
    except FileNotFoundError:
        raise InputError(f"{name}: no such file") from None
    except IsADirectoryError:
        raise InputError(f"{name}: must be a file, got a directory") from None
    except PermissionError:
        raise InputError(f"{name}: no permission to read the file") from None
    except (OSError, ValueError) as error:  # ValueError: a name with the character 0
        raise InputError(f"{name}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if data and (os.fspath(path).lower().endswith(".gz") or (path == STDIN and data.startswith(b"\x1f\x8b"))):
        data = _unpacked(name, data)
    if not data:
        raise InputError(f"{name}: the file must have a header and at least one row, got an empty file")
    return data


def _bytes(name: str, path: str | os.PathLike[str]) -> bytes:
    if isinstance(path, Held):
        return path.data
    return _within(name, sys.stdin.buffer) if path == STDIN else _regular(name, path)


def _regular(name: str, path: str | os.PathLike[str]) -> bytes:
    """The bytes of a regular file; a pipe would block and a device has no end (`-` reads the standard input)."""
    mode = os.stat(path).st_mode
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise InputError(f"{name}: must be a regular file, got a pipe or a device (- reads the standard input)")
    with open(path, "rb") as file:
        return _within(name, file)


def _within(name: str, file: BinaryIO) -> bytes:
    data = file.read(MOST + 1)
    if len(data) > MOST:
        raise InputError(f"{name}: an input must have at most {MOST:,} bytes, got more")
    return data


def _unpacked(name: str, data: bytes) -> bytes:
    if not data.startswith(b"\x1f\x8b"):
        raise InputError(f"{name}: must be gzip data, as its name says, got a file that begins with {data[:4]!r}")
    limit = min(MOST, max(RATIO * len(data), FREE))
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            text = file.read(limit + 1)
    except EOFError:
        raise InputError(f"{name}: the gzip data must be complete, got a truncated file") from None
    except (OSError, zlib.error) as error:
        raise InputError(f"{name}: the gzip data must be whole, got a damaged file ({error})") from None
    if len(text) > limit:
        raise InputError(
            f"{name}: gzip data must unpack to at most {limit:,} bytes ({RATIO} times its size, {FREE:,} at least), got more"
        )
    return text


def refuse_signature(name: str, data: bytes, expected: str) -> None:
    """Text is expected, so the beginning of a known binary format is an error."""
    for signature, what in SIGNATURES.items():
        if data.startswith(signature):
            raise InputError(f"{name}: must be {expected}, got {what}")


def decoded(
    task: str, name: str, data: bytes, wanted: Sequence[str] = (), sheet: str | None = None
) -> tuple[dict[str, Any], bytes]:
    """What the decoder found in the bytes: a head and a body, as `decode.py` describes them."""
    script = str(Path(__file__).with_name("decode.py"))
    about = {"path": sys.path, "wanted": list(wanted), "sheet": sheet, "memory": MEMORY, "seconds": SECONDS}
    command = [sys.executable, "-P", script, task, json.dumps(about)]
    try:
        done = subprocess.run(command, input=data, capture_output=True, check=False, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        raise InputError(f"{name}: must be read within {SECONDS:g} s, got a file that takes longer to decode") from None
    if done.returncode != 0:
        reason = done.stderr.decode(errors="replace").strip().splitlines()[-1:] if done.returncode == 1 else []
        because = f" ({one_line(reason[0])})" if reason else ""
        raise InputError(f"{name}: must be {DECODED[task]}, as its name says, got a damaged or another file{because}")
    head, _, body = done.stdout.partition(b"\n")
    found = json.loads(head)
    if "refused" in found:
        raise InputError(f"{name}: {found['refused']}")
    return found, body
