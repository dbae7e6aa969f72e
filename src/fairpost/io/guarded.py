"""Runs `decode.py`, so that a damaged binary file can end that process but not this one."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fairpost.errors import InputError

WHAT = {"parquet": "Parquet", "workbook": "an Excel workbook"}


SECONDS = 60.0
"""How long a decoder may take, with the start of its process."""
MEMORY = 8 << 30
"""Bytes of address space that a decoder may have, where the system can hold it to that."""


def decoded(
    task: str, name: str, data: bytes, wanted: Sequence[str] = (), sheet: str | None = None
) -> tuple[dict[str, Any], bytes]:
    """What the decoder found in the bytes: a head and a body, as `decode.py` describes them."""
    script = str(Path(__file__).with_name("decode.py"))
    about = {"path": sys.path, "wanted": list(wanted), "sheet": sheet, "memory": MEMORY, "seconds": SECONDS}
    given = json.dumps(about)
    command = [sys.executable, "-P", script, task, given]
    try:
        done = subprocess.run(command, input=data, capture_output=True, check=False, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        raise InputError(f"{name}: must be read within {SECONDS:g} s, got a file that takes longer to decode") from None
    if done.returncode != 0:
        reason = done.stderr.decode(errors="replace").strip().splitlines()[-1:] if done.returncode == 1 else []
        because = f" ({_plain(reason[0])})" if reason else ""
        raise InputError(f"{name}: must be {WHAT[task]}, as its name says, got a damaged or another file{because}")
    head, _, body = done.stdout.partition(b"\n")
    found = json.loads(head)
    if "refused" in found:
        raise InputError(f"{name}: {found['refused']}")
    return found, body


def _plain(line: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in line)[:200]
