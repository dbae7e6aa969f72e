"""A command two ways: called in this process, which costs little, and as a process of its own, which is what a user has."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from click.testing import CliRunner

from fairpost.cli import main


@dataclass(frozen=True)
class Done:
    """What is left of a command."""

    returncode: int
    stdout: str
    stderr: str


def call(*words: object, cwd: Path | None = None, stdin: str | None = None, columns: int | None = None) -> Done:
    """In this process: the same function that a process calls, with streams that are no terminal."""
    given = [str(w) for w in words]
    width = None if columns is None else str(columns)
    with mock.patch.object(sys, "argv", ["fairpost", *given]), contextlib.chdir(cwd or Path.cwd()):
        done = CliRunner(env={"COLUMNS": width}).invoke(main, given, input=stdin, prog_name="fairpost")
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return Done(done.exit_code, done.stdout_bytes.decode(), done.stderr_bytes.decode())


def process(*words: object, cwd: Path | None = None, stdin: str | None = None, columns: int | None = None) -> Done:
    """As a process of its own."""
    wide = {k: v for k, v in os.environ.items() if k != "COLUMNS"}
    wide |= {} if columns is None else {"COLUMNS": str(columns)}
    command = [sys.executable, "-m", "fairpost", *map(str, words)]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=cwd, input=stdin, timeout=250, check=False, env=wide
    )
    return Done(done.returncode, done.stdout, done.stderr)
