"""The output folder: what is in it, and how it is written whole or not at all."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairpost import whole
from fairpost.errors import InputError

if TYPE_CHECKING:
    from fairpost.paper.figures import Drawing
    from fairpost.paper.reproduce import Findings

ABOUT = "about.json"
"""Says how the folder was made and lists its files."""


def contents(found: Findings, drawn: tuple[Drawing, ...]) -> dict[str, bytes]:
    """Every file of the folder by its path inside it."""
    from fairpost.paper.page import comparison_table, page

    pictures = {f"figures/{name}": data for d in drawn for name, data in d.files().items()}
    files = {"index.html": page(found, drawn, pictures).encode()}
    for table in (*found.tables, comparison_table(found.comparisons)):
        files[f"tables/{table.name}.csv"] = table.csv().encode()
        files[f"tables/{table.name}.md"] = f"{table.markdown()}\n{found.mark}\n".encode()
    files |= pictures
    files[ABOUT] = (json.dumps(_about(found, sorted([*files, ABOUT])), indent=1) + "\n").encode()
    return files


def _about(found: Findings, names: list[str]) -> dict[str, Any]:
    from fairpost import __version__

    return {
        "made_by": "fairpost paper",
        "version": __version__,
        "data": found.data.label,
        "synthetic": found.data.synthetic,
        "quick": found.quick,
        "seed": found.seed,
        "runs": {"hawaii": found.runs.hawaii, "shares": found.runs.shares},
        "mark": found.mark,
        "files": names,
    }


def check(target: Path, *, force: bool) -> Path:
    """The target as an absolute path, or an error that says why it cannot be written."""
    place = target.expanduser().absolute()
    if not place.exists() and not place.is_symlink():
        return place
    if not place.is_dir() or place.is_symlink():
        raise InputError(f"{target}: must be a folder or not exist, it is something else")
    held = {str(path.relative_to(place).as_posix()) for path in place.rglob("*") if not path.is_dir()}
    if not held:
        return place
    if not force:
        raise InputError(
            f"{target}: the folder must be empty, it has {len(held)} files (force replaces an earlier run)"
        )
    foreign = sorted(held - _own(place))
    if foreign:
        raise InputError(
            f"{target}: only what an earlier run has written is replaced, got {foreign[0]!r} in the folder"
        )
    return place


def _own(place: Path) -> set[str]:
    """The files that an earlier run says it has written."""
    try:
        about = json.loads((place / ABOUT).read_text(encoding="utf-8"))
        return set(about["files"]) if about["made_by"] == "fairpost paper" else set()
    except (OSError, ValueError, KeyError, TypeError):
        return set()


def write(place: Path, files: Mapping[str, bytes], *, force: bool) -> None:
    """All files into a folder beside the target, then one renaming: the target is whole or absent; for the owner alone."""
    part, old = whole.beside(place, "part", "old")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        whole.sweep(place.parent)
        _fill(part, files)
        check(place, force=force)
        if place.exists():
            os.replace(place, old)
        try:
            os.replace(part, place)
        except BaseException:  # an interrupt too: the old folder is somebody's work
            if old.exists() and not place.exists():
                os.replace(old, place)
            raise
    except OSError as error:
        raise InputError(f"{place}: cannot be written: {error.strerror or error}") from None
    finally:
        for leftover in (part, old):
            shutil.rmtree(leftover, ignore_errors=True)


def _fill(folder: Path, files: Mapping[str, bytes]) -> None:
    folder.mkdir(mode=0o700)
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(mode=0o700, exist_ok=True)
        whole.fill(path, data)
