"""Text of users that can be shown anywhere. Nothing heavy is imported here: the last line of a command may need it."""

from __future__ import annotations

import re

STEERING = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
"""Control characters (C0, DEL, C1), line breaks, and what changes the direction of the text around it (bidi)."""


def clean(text: object) -> str:
    """Text that can be written as UTF-8: lone surrogates and STEERING characters become U+FFFD."""
    if isinstance(text, str) and text.isprintable():  # nearly all of them: nothing that steers is printable
        return str(text)
    return STEERING.sub("�", str(text).encode("utf-8", "replace").decode("utf-8"))


def clean_lines(text: str) -> str:
    """The same for text of several lines."""
    return "\n".join(clean(line) for line in text.split("\n"))
