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


def decoded(task: str, name: str, data: bytes, wanted: Sequence[str] = ()) -> tuple[dict[str, Any], bytes]:
    """What the decoder found in the bytes: a head and a body, as `decode.py` describes them."""
    script = str(Path(__file__).with_name("decode.py"))
    given = json.dumps({"path": sys.path, "wanted": list(wanted)})
    command = [sys.executable, "-P", script, task, given]
    done = subprocess.run(command, input=data, capture_output=True, check=False)
    if done.returncode != 0:
        reason = done.stderr.decode(errors="replace").strip().splitlines()[-1:] if done.returncode == 1 else []
        because = f" ({_plain(reason[0])})" if reason else ""
        raise InputError(f"{name}: must be {WHAT[task]}, as its name says, got a damaged or another file{because}")
    head, _, body = done.stdout.partition(b"\n")
    return json.loads(head), body


def _plain(line: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in line)[:200]
