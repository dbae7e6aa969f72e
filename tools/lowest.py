"""The lower bounds of pyproject.toml as pip constraints: `python tools/lowest.py [EXTRA ...] > constraints.txt`.

numpy>=1.26 becomes numpy==1.26.*, so that the newest patch of the oldest release is tested, which is what a user who keeps to
it has. Extras that name the package itself are followed.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path

PROJECT = Path(__file__).parents[1] / "pyproject.toml"
BOUND = re.compile(r"^(?P<name>[\w.-]+)(?:\[[^\]]*\])?\s*>=\s*(?P<version>[\d.]+)")


def lowest(extras: Iterable[str], text: str | None = None) -> list[str]:
    """One constraint per requirement of the package and of these extras, by name."""
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8") if text is None else text)["project"]
    found: dict[str, str] = {}
    for requirement in _requirements(project, extras):
        bound = BOUND.match(requirement)
        if bound is None:
            raise SystemExit(f"tools/lowest.py: {requirement!r} has no lower bound")
        name, version = bound["name"].lower(), bound["version"]
        if name not in found or _order(version) > _order(found[name]):
            found[name] = version
    return [f"{name}=={version}.*" for name, version in sorted(found.items())]


def _requirements(project: dict[str, object], extras: Iterable[str]) -> list[str]:
    wanted, named = list(project["dependencies"]), project["optional-dependencies"]  # type: ignore[call-overload]
    for extra in extras:
        for requirement in named[extra]:  # type: ignore[index]
            own = re.match(rf"{project['name']}\[([\w,-]+)\]$", requirement)
            wanted += _requirements({**project, "dependencies": []}, own[1].split(",")) if own else [requirement]
    return wanted


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


if __name__ == "__main__":
    print("\n".join(lowest(sys.argv[1:])))
