"""Formulas as MathML when the site is built: no script, no fonts and no network where the page is read."""

from __future__ import annotations

import html
import re
from typing import Any

from latex2mathml.converter import convert

INLINE = re.compile(r'<span class="arithmatex">\\\((.+?)\\\)</span>', re.DOTALL)
DISPLAY = re.compile(r'<div class="arithmatex">\s*\\\[(.+?)\\\]\s*</div>', re.DOTALL)
SIZES = re.compile(r"\\(?:big|Big|bigg|Bigg)[lr]?(?![a-zA-Z])")
"""Sizes of brackets: MathML stretches them by itself."""
LOOKS = {
    "<mo>&#x0002F;</mo>": '<mo lspace="0" rspace="0">&#x0002F;</mo>',  # a/b and |u| without gaps
    '<mo stretchy="false">&#x0007C;</mo>': '<mo stretchy="false" lspace="0" rspace="0">&#x0007C;</mo>',
    '<mn mathvariant="bold">1</mn>': "<mn>&#x1D7CF;</mn>",  # browsers know bold by the character only
}


def _mathml(tex: str, display: str) -> str:
    made = convert(SIZES.sub("", html.unescape(tex)), display=display)
    for plain, better in LOOKS.items():
        made = made.replace(plain, better)
    return made


def on_page_content(content: str, **_: Any) -> str:
    """Replace what `pymdownx.arithmatex` has marked (called by MkDocs for each page)."""
    content = DISPLAY.sub(lambda m: f'<div class="formula">{_mathml(m[1], "block")}</div>', content)
    return INLINE.sub(lambda m: _mathml(m[1], "inline"), content)
