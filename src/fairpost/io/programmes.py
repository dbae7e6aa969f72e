"""Laws from files."""

from __future__ import annotations

from pathlib import Path

from fairpost.errors import InputError
from fairpost.io.table import shown
from fairpost.problems.programme import NAMES, Programme, builtin, from_text


def read_programme(given: str) -> Programme:
    """A law by the name under which it comes with the package, or from a TOML file."""
    if given in NAMES:
        return builtin(given)
    path = Path(given)
    if not given.endswith(".toml"):
        raise InputError(f"a programme must be one of {', '.join(NAMES)} or a file that ends in .toml, got {given!r}")
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(f"{shown(given)}: there is no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{shown(given)}: could not be read as text ({type(error).__name__})") from None
    return from_text(text, shown(given))
