"""Outputs: tables as text; nothing is overwritten without being asked for; all files are written, whole, or none."""

from __future__ import annotations

import csv
import io
import os
import shutil
import stat
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairpost import whole
from fairpost.errors import FairpostError, InputError
from fairpost.io.reading import shown
from fairpost.whole import Content

if TYPE_CHECKING:
    from fairpost.results.audit import Audit

Name = str | os.PathLike[str]
FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""How a field begins that a spreadsheet may take for a formula (OWASP, CSV injection)."""


# ---- tables ----


def columns_csv(columns: Mapping[str, Any]) -> str:
    """Columns of equal length (arrays, lists or tuples; None: an empty field) as CSV, floats in full precision."""
    import polars as pl

    return pl.DataFrame({name: pl.Series(name, values, strict=False) for name, values in columns.items()}).write_csv()


def entities_csv(results: Sequence[Audit]) -> str:
    """The table of audits, one row per entity (`results.comparison.wide`), as CSV. It can be read back as counts."""
    from fairpost.results.comparison import wide

    return columns_csv(wide(results))


def without_formulas(text: str) -> str:
    """A table in which no field begins like a formula: those that do, and are no numbers, get a ' in front."""
    out = io.StringIO()
    rows = csv.reader(io.StringIO(text, newline=""))
    csv.writer(out, lineterminator="\n").writerows([without_formula(field) for field in row] for row in rows)
    return out.getvalue()


def without_formula(field: str) -> str:
    """One field of such a table."""
    if not field.startswith(FORMULA):
        return field
    try:
        float(field)
    except ValueError:
        return "'" + field
    return field


# ---- files ----


def check_free(
    paths: Iterable[Name], force: bool = False, inputs: Iterable[Name] = (), *, states: Iterable[Name] = ()
) -> None:
    """Every output can be written where it is asked for; to be called before any long work.

    Each must be a file in a folder that exists, be named once, be no input, and not exist unless `force` is set. `states`
    are files that a command goes on from and writes anew: they may exist.
    """
    taken = {_target(path): f"the input {shown(path)}" for path in inputs}
    for path, may in (*((p, force) for p in paths), *((p, True) for p in states)):
        target = _target(path)
        if target in taken:
            raise InputError(f"{shown(path)}: an output must have a place of its own, got that of {taken[target]}")
        taken[target] = f"another output, {shown(path)}"
        _check_place(path, target, may)


def _target(path: Name) -> Path:
    """The file that a name means; links are followed, so that a link stays a link."""
    try:
        return Path(os.path.realpath(path))
    except (OSError, ValueError) as error:
        raise InputError(f"{shown(path)}: cannot be a file's name: {error}") from None


def _check_place(path: Name, target: Path, force: bool) -> None:
    try:
        found = target.stat()
    except FileNotFoundError:
        found = None
    except OSError as error:
        raise InputError(f"{shown(path)}: cannot be written: {error.strerror}") from None
    if found is not None and not stat.S_ISREG(found.st_mode):
        kind = "a directory" if stat.S_ISDIR(found.st_mode) else "a device or a pipe"
        raise InputError(f"{shown(path)}: an output must be a file, got {kind}")
    if found is not None and not force:
        raise InputError(f"{shown(path)}: nothing is overwritten without --force, and the file exists")
    if not target.parent.is_dir():
        raise InputError(f"{shown(path)}: the folder of an output must exist, got {shown(target.parent)}")
    if not os.access(target.parent, os.W_OK | os.X_OK):
        raise InputError(f"{shown(path)}: no permission to write in {shown(target.parent)}")


def write_whole(outputs: Mapping[Name, Content], force: bool = False, *, private: bool = True) -> None:
    """Write every output, or none; `private`: for the owner alone (mode 0600), whatever file was there before.

    Each is written to a temporary file beside its place and brought to the disk; then all are renamed. On any failure
    (an error of a writer, a full disk, an interrupt) what was renamed is taken back and no temporary file stays. What is
    not private and replaces a file gets that file's mode.
    """
    check_free(outputs, force)
    moves = [_Move(path, content, private) for path, content in outputs.items()]
    for folder in {move.target.parent for move in moves}:
        whole.sweep(folder)
    try:
        for move in moves:
            move.write()
        for move in moves:
            move.replace(force)
    except BaseException:
        for move in reversed(moves):
            move.undo()
        raise
    finally:
        for move in moves:
            move.clean()


class _Move:
    """One output on its way: written beside its place, then moved there, with the old file kept until all are done."""

    def __init__(self, path: Name, content: Content, private: bool) -> None:
        self.path, self.content, self.target, self.private = path, content, _target(path), private
        self.fresh, self.old = whole.beside(self.target, "tmp", "old")
        self.moved = False

    def write(self) -> None:
        try:
            whole.fill(self.fresh, self.content, private=self.private)
        except OSError as error:
            raise self._failed(error) from None

    def replace(self, force: bool) -> None:
        try:
            if self.target.exists():
                if not force:
                    raise InputError(f"{shown(self.path)}: nothing is overwritten without --force, and the file exists")
                self._keep()
            self.moved = True
            self.fresh.replace(self.target)
        except OSError as error:
            raise self._failed(error) from None

    def _keep(self) -> None:
        """A second name for the old file (a copy, where the file system has no links)."""
        if not self.private:
            shutil.copymode(self.target, self.fresh)
        try:
            os.link(self.target, self.old)
        except OSError:
            whole.fill(self.old, self.target.read_bytes())  # for the owner alone from its first moment
            shutil.copystat(self.target, self.old)

    def undo(self) -> None:
        """Put the old file back, or leave nothing where there was nothing."""
        if not self.moved or self.fresh.exists():
            return
        with suppress(OSError):
            if self.old.exists():
                self.old.replace(self.target)
            else:
                self.target.unlink()

    def clean(self) -> None:
        for path in (self.fresh, self.old):
            with suppress(OSError):
                path.unlink()

    def _failed(self, error: OSError) -> FairpostError:
        return FairpostError(f"{shown(self.path)}: cannot be written: {error.strerror or type(error).__name__}")
