"""The files that a command was asked for: checked before the work, written whole at the end, or none of them."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from datetime import datetime
from os import PathLike
from typing import Any

import fairpost as fp
from fairpost.cli import screen
from fairpost.cli.options import Given, command_line
from fairpost.errors import ParameterError
from fairpost.io import check_free, write_whole
from fairpost.io.rows import without_formulas

STDOUT = "-"
"""The name that means the standard output; the input of this name is the standard input."""

Content = Callable[[], str]


class Outputs:
    """Where JSON, CSV and HTML go: to files, and one of them, if wanted, to stdout, which is then not for the screen.

    Files are for their owner alone; `public` is for what is made from noisy counts, which have been published.
    """

    def __init__(self, given: Given, inputs: list[str], *, public: bool = False) -> None:
        self.public = public
        options = {"json": "json_", "csv": "csv_", "csv-groups": "csv_groups", "html": "html"}
        paths = {kind: given.get(option) for kind, option in options.items()}
        piped = [kind for kind, path in paths.items() if path == STDOUT]
        if len(piped) > 1:
            raise ParameterError(f"one output can go to stdout, got {' and '.join(f'--{k} -' for k in piped)}")
        self.to_stdout = piped[0] if piped else None
        self.paths: dict[str, str] = {k: p for k, p in paths.items() if p is not None and p != STDOUT}
        self.force = bool(given.get("force"))
        self.safe = bool(given.get("csv_safe"))
        inputs = [*inputs, *(given[k] for k in ("statement", "group_budget") if given.get(k))]
        state = given.get("checkpoint")
        check_free(
            self.paths.values(),
            self.force,
            [path for path in inputs if path != STDOUT],
            states=[] if state is None else [state],
        )

    def write(
        self,
        *,
        json: Callable[[], dict[str, Any]],
        csv: Content | None = None,
        csv_groups: Content | None = None,
        html: Content | None = None,
    ) -> None:
        """Make and write what was asked for."""
        made: dict[str, Content | None] = {"json": lambda: as_json(json()), "html": html}
        made |= {"csv": self._table(csv), "csv-groups": self._table(csv_groups)}
        files: dict[str | PathLike[str], Any] = {path: _made(made[kind]) for kind, path in self.paths.items()}
        if self.to_stdout:
            to_stdout(_made(made[self.to_stdout]))
        if files:
            write_whole(files, self.force, private=not self.public)
            screen.remark(f"wrote {', '.join(self.paths.values())}")

    def _table(self, csv: Content | None) -> Content | None:
        if csv is None or not self.safe:
            return csv
        return lambda: without_formulas(csv())


def to_stdout(text: str) -> None:
    """As UTF-8, whatever the terminal speaks."""
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode(errors="backslashreplace"))
    sys.stdout.buffer.flush()


def _made(content: Content | None) -> str:
    assert content is not None
    return content()


def as_json(data: dict[str, Any]) -> str:
    """Full precision, the version first, and the command that made it."""
    whole = {"version": fp.__version__, "command": command_line()} | data
    text = json.dumps(whole, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    return text.encode(errors="backslashreplace").decode()


def now() -> str:
    """The date and the time to the minute."""
    return datetime.now().astimezone().isoformat(sep=" ", timespec="minutes")
