"""JSON and TOML that strangers wrote: what the text holds, or a `ValueError` of one line.

A parser refuses what breaks the grammar. It also runs out of stack on a thousand open brackets, and takes what no reader means:
NaN, Infinity, 1e999, a whole number that no float holds, a nest that the next recursion cannot follow. All of that ends here.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")
DEEPEST = 100
"""Levels of lists and tables, one in the other."""
LARGEST = 1.7976931348623157e308
"""The largest float."""


def json_of(text: str | bytes) -> Any:
    """What a JSON document holds."""
    return _checked(lambda: json.loads(text))


def toml_of(text: str, *, parse_float: Callable[[str], Any] = float) -> dict[str, Any]:
    """What a TOML document holds."""
    return _checked(lambda: tomllib.loads(text, parse_float=parse_float))


def _checked(parse: Callable[[], T]) -> T:
    """Level by level, so that nothing here recurses."""
    deep = f"lists and tables nest at most {DEEPEST} deep, got more"
    try:
        found = parse()
    except RecursionError:
        raise ValueError(deep) from None
    level: list[Any] = [found]
    for _ in range(DEEPEST + 1):
        if any(isinstance(v, (int, float)) and not -LARGEST <= v <= LARGEST for v in level):
            raise ValueError("numbers must be finite, got one that is not, or that no float holds")
        inside = [v.values() if isinstance(v, dict) else v for v in level if isinstance(v, (dict, list))]
        if not inside:
            return found
        level = [v for one in inside for v in one]
    raise ValueError(deep)
