"""Where real data are: the extract that comes with the tests, and whole files where a machine has them.

`FAIRPOST_DATA` names the folder of the whole files; without it there are none.
"""

from __future__ import annotations

import csv
from functools import lru_cache
from pathlib import Path

from support.places import DATA


class Missing(Exception):
    """A file of real data that this machine does not have."""


def path_of(name: str) -> Path:
    """The file of this name: the tests' own, else the whole one."""
    for folder in DATA:
        if (folder / name).exists():
            return folder / name
    raise Missing(f"{name} is not here (set FAIRPOST_DATA to the folder that holds it)")


@lru_cache(maxsize=8)
def rows_of(name: str) -> tuple[dict[str, str], ...]:
    """Its rows, as text by column."""
    with path_of(name).open(newline="", encoding="utf-8") as file:
        return tuple(csv.DictReader(file))


def path_or_skip(name: str) -> Path:
    """Its path; where it is absent the test is skipped by name."""
    import pytest

    try:
        return path_of(name)
    except Missing as error:
        pytest.skip(str(error))


def rows_or_skip(name: str) -> tuple[dict[str, str], ...]:
    """Its rows; where it is absent the test is skipped by name."""
    path_or_skip(name)
    return rows_of(name)
