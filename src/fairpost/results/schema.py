"""The JSON schemas of the commands: one per command, with a number that grows when a reader must change.

New keys may come at any time under the same number; what a key means and that it is there do not change.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from fairpost.errors import InputError, ParameterError

VERSIONS: dict[str, int] = {"audit": 1, "sweep": 2, "plan": 2, "project": 1, "allocate": 1}
"""The commands with `--json`, and the number of the schema of each."""


def name_of(command: str) -> str:
    """What stands under `schema` in the JSON of a command."""
    return f"fairpost/{command}/{VERSIONS[command]}"


def schema(command: str) -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of what `fairpost COMMAND --json` writes, as a dictionary."""
    from importlib.resources import files

    if command not in VERSIONS:
        raise ParameterError(f"a schema is of one of {', '.join(VERSIONS)}, got {command!r}")
    found: dict[str, Any] = json.loads((files(__package__) / "schemas" / f"{command}.json").read_text("utf-8"))
    return found


def document(command: str) -> dict[str, Any]:
    """How the JSON of a command begins."""
    from fairpost import __version__

    return {"version": __version__, "schema": name_of(command)}


def checked_schema(data: Mapping[str, Any], command: str) -> None:
    """An error where a document is not of this command, or of another version."""
    got = data.get("schema") if isinstance(data, Mapping) else None
    if got != name_of(command):
        raise InputError(f"the JSON of `fairpost {command}` must say schema {name_of(command)!r}, got {got!r}")
