"""How a page was made: the command and the Python lines that make it again."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Any

USUAL: dict[str, Any] = {
    "column": "poor_5_17", "weights": "1", "quick": False, "seed": 0, "id": "leaid", "format": None, "device": "cpu",
}  # fmt: skip
"""What is not said where it is so."""


@dataclass(frozen=True)
class Recipe:
    """Both ways."""

    command: str
    lines: str

    @classmethod
    def of(cls, target: str, saipe: str | None, **given: Any) -> Recipe:
        """From the arguments of `reproduce`."""
        said: dict[str, Any] = {} if saipe is None else {"saipe": saipe}
        said |= {name: value for name, value in given.items() if value != USUAL[name]}
        words = ["fairpost", "paper", "--out", target]
        for name, value in said.items():
            words += [f"--{name}"] if value is True else [f"--{name}", str(value)]
        arguments = ", ".join([repr(target), *(f"{name}={value!r}" for name, value in said.items())])
        lines = f"from fairpost.paper import reproduce\n\nfound = reproduce({arguments})\nprint(found.page)\n"
        return cls(shlex.join(words), lines)
