"""The files that a command was asked for: checked before the work, written whole at the end, or none of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from os import PathLike
from typing import Any

import click

import fairpost as fp
from fairpost.cli.options import Given, command_line
from fairpost.io import check_free, write_whole

Content = Callable[[], str]


class Outputs:
    """Where JSON, CSV and HTML go."""

    def __init__(self, given: Given, inputs: list[str]) -> None:
        paths = {"json": given.get("json_"), "csv": given.get("csv_"), "html": given.get("html")}
        self.to_stdout = paths["json"] == "-"
        self.paths: dict[str, str] = {k: p for k, p in paths.items() if p is not None and p != "-"}
        self.force = bool(given.get("force"))
        check_free(self.paths.values(), self.force, inputs)

    def write(
        self, *, json: Callable[[], dict[str, Any]], csv: Content | None = None, html: Content | None = None
    ) -> None:
        """Make and write what was asked for."""
        made: dict[str, Content | None] = {"json": lambda: as_json(json()), "csv": csv, "html": html}
        files: dict[str | PathLike[str], Any] = {path: _made(made[kind]) for kind, path in self.paths.items()}
        if self.to_stdout:
            click.echo(as_json(json()), nl=False)
        if files:
            write_whole(files, self.force)
            click.echo(f"wrote {', '.join(self.paths.values())}", err=True)


def _made(content: Content | None) -> str:
    assert content is not None
    return content()


def as_json(data: dict[str, Any]) -> str:
    """Full precision, the version first, and the command that made it."""
    whole = {"version": fp.__version__, "command": command_line()} | data
    return json.dumps(whole, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def now() -> str:
    """The date and the time to the minute."""
    return datetime.now().astimezone().isoformat(sep=" ", timespec="minutes")
