"""Text of users that can be shown anywhere. Nothing heavy is imported here: the last line of a command may need it."""

from __future__ import annotations

import re
import unicodedata

STEERING = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
"""Control characters (C0, DEL, C1), line breaks, and what changes the direction of the text around it (bidi)."""

RAISED = re.compile("[⁰¹²³⁴-⁹⁻]+")
"""An exponent."""
NEAREST = str.maketrans({"−": "-", "–": "-", "×": "x", "±": "+-", "∞": "inf"})
"""Signs of ours that have no ASCII in them."""


def clean(text: object) -> str:
    """Text that can be written as UTF-8: lone surrogates and STEERING characters become U+FFFD."""
    if isinstance(text, str) and text.isprintable():  # nearly all of them: nothing that steers is printable
        return str(text)
    return STEERING.sub("�", str(text).encode("utf-8", "replace").decode("utf-8"))


def clean_lines(text: str) -> str:
    """The same for text of several lines."""
    return "\n".join(clean(line) for line in text.split("\n"))


def plain(text: str) -> str:
    """The nearest ASCII, for a screen that has no more: 10⁻⁵ is 10^-5, é is e, and ? is what nothing is near to."""
    near = unicodedata.normalize("NFKD", RAISED.sub(r"^\g<0>", text)).translate(NEAREST)
    return "".join(c if c.isascii() else "" if unicodedata.combining(c) else "?" for c in near)
