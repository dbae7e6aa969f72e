"""The files that a command was asked for: checked before the work, written whole at the end, or none of them."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from datetime import datetime
from os import PathLike
from pathlib import PurePath
from typing import Any

from msgspec import structs

import fairpost as fp
from fairpost.cli import screen
from fairpost.cli.options import Given, command_line, source_of
from fairpost.errors import ParameterError
from fairpost.io import check_free, write_whole
from fairpost.io.files import without_formulas
from fairpost.study.parts import Words

STDOUT = "-"
"""The name that means the standard output; the input of this name is the standard input."""

OTHERS = frozenset([".xlsx", ".xlsm", ".xlsb", ".xls", ".ods", ".parquet", ".gz", ".zip", ".pdf"])
"""Endings of formats that are written nowhere."""
Content = Callable[[], str]


class Outputs:
    """Where JSON, CSV and HTML go: to files, and one of them, if wanted, to stdout, which is then not for the screen.

    Files are for their owner alone; `public` is for what is made from noisy counts, which have been published. `parquet`:
    the table may also be a Parquet file, by its name. --save is one of them: it appears with the answer, or not at all.
    """

    def __init__(self, given: Given, inputs: list[str], *, public: bool = False, parquet: bool = False) -> None:
        self.public = public
        paths = {kind: given.get(kind.replace("-", "_")) for kind in ("json", "csv", "csv-groups", "html", "save")}
        self.study: Any = given.get("study")
        if paths["save"] == STDOUT:
            raise ParameterError("--save writes a file, got -")
        piped = [kind for kind, path in paths.items() if path == STDOUT]
        if len(piped) > 1:
            raise ParameterError(f"one output can go to stdout, got {' and '.join(f'--{k} -' for k in piped)}")
        self.to_stdout = piped[0] if piped else None
        self.paths: dict[str, str] = {k: p for k, p in paths.items() if p is not None and p != STDOUT}
        for kind, path in self.paths.items():
            _check_ending(kind, path, parquet and kind == "csv")
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
        show: Callable[[], object] | None = None,
        *,
        json: Callable[[], dict[str, Any]],
        csv: Content | None = None,
        csv_groups: Content | None = None,
        html: Content | None = None,
    ) -> None:
        """Make and write what was asked for; `show`: the screen, where stdout is free for it."""
        made: dict[str, Content | None] = {"json": lambda: as_json(json()), "html": html}
        made |= {"csv": self._table(csv), "csv-groups": self._table(csv_groups)}
        wanted = [kind for kind in self.paths if kind != "save"]
        piped = None if self.to_stdout is None else made[self.to_stdout]
        said = show if piped is None else lambda: to_stdout(_made(piped))
        self.deliver(said, {kind: _made(made[kind]) for kind in wanted})

    def deliver(self, said: Callable[[], object] | None, contents: Mapping[str, Any]) -> None:
        """What goes to stdout, then the files, by kind. Where nobody reads stdout any more (or it is full), the files are whole."""
        contents = {**contents, **({"save": self.study.save(self.paths["save"])} if "save" in self.paths else {})}
        failed: OSError | None = None
        try:
            if said is not None:
                said()
        except OSError as error:
            failed = error
        if contents:
            files: dict[str | PathLike[str], Any] = {self.paths[kind]: made for kind, made in contents.items()}
            write_whole(files, self.force, private=not self.public)
            screen.remark(f"wrote {', '.join(self.paths[kind] for kind in contents)}")
        if failed is not None:
            raise failed

    def _table(self, csv: Content | None) -> Content | None:
        if csv is None or not self.safe:
            return csv
        return lambda: without_formulas(csv())


def _check_ending(kind: str, path: str, parquet: bool) -> None:
    """A name that promises another format than the one that is written is refused."""
    ending = PurePath(path).suffix.lower()
    if ending in OTHERS and not (parquet and ending == ".parquet"):
        form = kind.partition("-")[0]
        also = " or .parquet" if parquet else ""
        raise ParameterError(f"--{kind} writes {form.upper()} into a file that ends in .{form}{also}, got {path!r}")


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


def page_words(words: Words, file: str, lines: str) -> dict[str, Any]:
    """What every page shows beside its results: the command, the date, the words, the Python lines."""
    return structs.asdict(words) | {"command": command_line(), "made": now(), "source": source_of(file), "lines": lines}
