"""Parquet and Excel, decoded in a process of its own: run as a script, never imported by the package.

A damaged file can make a native decoder ask for more memory than exists, which ends its process without an exception.
So the bytes come on the standard input, and one line of JSON followed by the columns goes to the standard output; if
this process dies, the caller lives and says that the file is damaged.

    python decode.py parquet|workbook '{"path": [...], "wanted": [...], "sheet": null, ...}'
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import sys
import zipfile
from typing import IO, Any

Given = dict[str, Any]


def parquet(data: bytes, given: Given) -> tuple[object, bytes]:
    """The names of all columns and the number of rows; the wanted columns, in any case, as an Arrow stream."""
    import polars as pl

    columns = list(pl.read_parquet_schema(io.BytesIO(data)))
    wanted = {name.strip().casefold() for name in given["wanted"]}
    some = [c for c in columns if c.strip().casefold() in wanted]
    frame = (
        pl.read_parquet(io.BytesIO(data), columns=some) if some else pl.DataFrame()
    )  # no columns mean all to an old Polars
    out = io.BytesIO()
    frame.write_ipc_stream(out)
    return {"columns": columns}, out.getvalue()


MOST_CELLS = 10_000_000
"""A workbook with more is refused before its cells are made: one far cell makes a sheet of all that lie before it."""
MOST_UNPACKED = 1 << 30
"""Bytes of all parts of a workbook, unpacked, that are read."""
CELL = re.compile(rb'<(?:\w+:)?c\b[^>]*?\br="([A-Z]{1,3})([0-9]{1,7})"')
ROW = re.compile(rb'<(?:\w+:)?row\b[^>]*?\br="([0-9]{1,7})"')


class Refused(Exception):
    """What is too large, in one line."""


def workbook(data: bytes, given: Given) -> tuple[object, bytes]:
    """The cells of one sheet, row by row: of that name, else of that number (from 1), else the first."""
    from python_calamine import CalamineWorkbook

    if data.startswith(b"PK"):
        _check_sheets(data)
    book = CalamineWorkbook.from_filelike(io.BytesIO(data))
    name = _sheet(book.sheet_names, given.get("sheet"))
    rows = book.get_sheet_by_name(name).to_python(skip_empty_area=False)
    if rows and len(rows) * len(rows[0]) > MOST_CELLS:
        raise Refused(f"a sheet must have at most {MOST_CELLS:,} cells, got {len(rows):,} rows of {len(rows[0]):,}")
    return {"rows": len(rows), "sheet": name, "sheets": book.sheet_names}, json.dumps(rows, default=str).encode()


def _sheet(names: list[str], wanted: str | None) -> str:
    if not names:
        raise Refused("a workbook must have a sheet, got none")
    if wanted is None:
        return names[0]
    if wanted in names:
        return wanted
    alike = [name for name in names if name.strip().casefold() == wanted.strip().casefold()]
    if len(alike) == 1:
        return alike[0]
    if wanted.isascii() and wanted.isdecimal() and 1 <= int(wanted) <= len(names):
        return names[int(wanted) - 1]
    known = ", ".join(repr(name) for name in names[:20])
    raise Refused(f"the sheet must be one of {known} (or its number, from 1), got {wanted[:60]!r}")


def _check_sheets(data: bytes) -> None:
    """The sizes that an .xlsx says, and the farthest cell of each sheet, before anything is laid out."""
    with zipfile.ZipFile(io.BytesIO(data)) as parts:
        size = sum(part.file_size for part in parts.infolist())
        if size > MOST_UNPACKED:
            raise Refused(f"a workbook must unpack to at most {MOST_UNPACKED:,} bytes, got {size:,}")
        for part in parts.infolist():
            if not part.is_dir():  # a sheet may have any name
                with parts.open(part) as file:
                    _check_cells(file)


def _check_cells(file: IO[bytes]) -> None:
    height = width = 0
    tail = b""
    while piece := file.read(1 << 20):
        text = tail + piece
        for column, row in CELL.findall(text):
            number = 0
            for letter in column:
                number = 26 * number + letter - 64
            height, width = max(height, int(row)), max(width, number)
        height = max([height, *(int(row) for row in ROW.findall(text))])
        if height * max(width, 1) > MOST_CELLS:
            raise Refused(f"a sheet must have at most {MOST_CELLS:,} cells, got {height:,} rows of {width:,} columns")
        tail = text[-256:]


def _limit(memory: int, seconds: float) -> None:
    """Hold this process to its memory and its time, where the system can."""
    try:
        import resource
    except ImportError:
        return
    for what, most in (
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_CPU, int(seconds) + 1),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(what)[1]
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(what, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def main() -> None:
    """One task, from the standard input to the standard output."""
    given = json.loads(sys.argv[2])
    sys.path[:] = given["path"]
    _limit(given["memory"], given["seconds"])
    task = {"parquet": parquet, "workbook": workbook}[sys.argv[1]]
    try:
        head, body = task(sys.stdin.buffer.read(), given)
    except Refused as refusal:
        head, body = {"refused": str(refusal)}, b""
    except MemoryError:
        head, body = {"refused": f"must be decoded in {given['memory']:,} bytes of memory, and is not"}, b""
    sys.stdout.buffer.write(json.dumps(head).encode() + b"\n" + body)


if __name__ == "__main__":
    main()
