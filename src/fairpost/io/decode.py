"""Parquet and Excel, decoded in a process of its own: run as a script, never imported by the package.

A damaged file can make a native decoder ask for more memory than exists, which ends its process without an exception.
So the bytes come on the standard input, and one line of JSON followed by the columns goes to the standard output; if
this process dies, the caller lives and says that the file is damaged.

    python decode.py parquet|workbook '{"path": [...], "wanted": [...]}'
"""

from __future__ import annotations

import io
import json
import sys


def parquet(data: bytes, wanted: list[str]) -> tuple[object, bytes]:
    """The names of all columns and the number of rows; the wanted columns as an Arrow stream."""
    import polars as pl

    columns = list(pl.read_parquet_schema(io.BytesIO(data)))
    frame = pl.read_parquet(io.BytesIO(data), columns=[c for c in columns if c in wanted])
    out = io.BytesIO()
    frame.write_ipc_stream(out)
    return {"columns": columns}, out.getvalue()


def workbook(data: bytes, wanted: list[str]) -> tuple[object, bytes]:
    """The cells of the first sheet, row by row."""
    from python_calamine import CalamineWorkbook

    rows = CalamineWorkbook.from_filelike(io.BytesIO(data)).get_sheet_by_index(0).to_python(skip_empty_area=False)
    return {"rows": len(rows)}, json.dumps(rows, default=str).encode()


def main() -> None:
    """One task, from the standard input to the standard output."""
    given = json.loads(sys.argv[2])
    sys.path[:] = given["path"]
    task = {"parquet": parquet, "workbook": workbook}[sys.argv[1]]
    head, body = task(sys.stdin.buffer.read(), given["wanted"])
    sys.stdout.buffer.write(json.dumps(head).encode() + b"\n" + body)


if __name__ == "__main__":
    main()
