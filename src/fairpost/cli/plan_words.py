"""The words of a plan of releases: what each must be, before anything is read or charged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fairpost.errors import InputError, value

Kind = tuple[str, Callable[[Any], bool]]


def _text(given: Any) -> bool:
    return isinstance(given, str)


def _whole(given: Any) -> bool:
    return isinstance(given, int) and not isinstance(given, bool)


def _amount(given: Any) -> bool:
    return _text(given) or _whole(given)


def _texts(given: Any) -> bool:
    return isinstance(given, list) and all(map(_text, given))


def _amounts(given: Any) -> bool:
    inside = list(given.values()) if isinstance(given, dict) else given
    return _text(given) or (isinstance(inside, list) and all(map(_amount, inside)))


def _levels(given: Any) -> bool:
    return _text(given) or _texts(given) or (isinstance(given, dict) and all(map(_whole, given.values())))


TEXT: Kind = ("a text", _text)
AMOUNT: Kind = ('an amount: a number, or a text such as "1/3"', _amount)
FLAG: Kind = ("true or false", lambda given: isinstance(given, bool))
KINDS: dict[str, Kind] = {
    "name": ("a text or a whole number", _amount),
    "again": ("a text or a whole number", _amount),
    "epsilon": AMOUNT,
    "rho": AMOUNT,
    "total": AMOUNT,
    "entities-per-person": ("a whole number", _whole),
    "round": FLAG,
    "by-group": FLAG,
    "csv-safe": FLAG,
    "accept-weak-protection": FLAG,
    "chosen-from": (
        "a text or a table of texts",
        lambda given: _text(given) or (isinstance(given, dict) and _texts(list(given.values()))),
    ),
    "levels": ("a text, a list of columns or a table of lengths", _levels),
    "split": ("a text, a list or a table of amounts", _amounts),
    "level-sigma": ("a text, a list or a table of amounts", _amounts),
    "exact": ("a text or a list of levels", lambda given: _text(given) or _texts(given)),
}
"""Every other word is a text."""


def check_words(path: str, words: dict[str, Any]) -> None:
    """The first word of a table that is something else is named."""
    for word, given in words.items():
        what, right = KINDS.get(word, TEXT)
        if not right(given):
            raise InputError(f"{path}: {word} must be {what}, got {value(given)}")
