"""From data and a template to one file: everything inline, nothing fetched.

The page forbids itself to load anything (Content-Security-Policy: default-src 'none') and runs only the one script
whose hash it names, so that text of the user's could not become a program even if it escaped its place. The script draws
without a library: Plotly's alone is 4.8 MB (2.0 MB packed), draws 13,000 dots in seconds and once offered to upload them.
"""

from __future__ import annotations

import base64
import hashlib
from functools import lru_cache
from importlib import metadata, resources
from typing import Any

from fairpost import palette
from fairpost.report.glossary import TERMS
from fairpost.report.numbers import Html
from fairpost.report.payload import embed


def file(name: str) -> str:
    """A file of this package as text."""
    return resources.files("fairpost.report").joinpath("files").joinpath(name).read_text(encoding="utf-8")


SCRIPTS = ("core.js", "plot.js", "table.js", "audit.js", "map.js", "curves.js", "entities.js", "levels.js")
"""The pieces of the script, in order; a page that is written whole adds `start.js`."""


@lru_cache(maxsize=2)
def script(*more: str) -> str:
    """The program of every page: the pieces in a scope of their own."""
    return '"use strict";\n(() => {\n' + "\n".join(file(name) for name in (*SCRIPTS, *more)) + "})();\n"


def style() -> str:
    """The style of every page, with the colours of the rules."""
    return palette.sheet() + file("report.css")


def digest(script: str) -> str:
    """The name of an inline script in the page's policy."""
    return "'sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() + "'"


def policy(program: str) -> str:
    """Nothing is fetched; this script runs and no other."""
    return (
        f"default-src 'none'; script-src {digest(program)}; style-src 'unsafe-inline'; img-src data: blob:; "
        "form-action 'none'; base-uri 'none'"
    )


def header(mark: str) -> str:
    """The running header on paper, as style; characters that mean something there are written by number."""
    text = "".join(c if c.isalnum() or c in " :,." else f"\\{ord(c):x} " for c in mark)
    return (
        f'@media print {{ @page {{ @top-center {{ content: "{text}"; font: 600 8pt sans-serif; color: #8a1c00; }} '
        '@bottom-right { content: counter(page) " / " counter(pages); font: 8pt sans-serif; color: #5b5b57; } } }\n'
    )


def render(template: str, data: dict[str, Any], **context: object) -> str:
    """The whole file."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    space = Environment(
        loader=FunctionLoader(file), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    program = script("start.js")
    mark = context["mark"]
    return space.get_template(template).render(
        policy=policy(program),
        script=Html(program),
        style=Html(style() + ("" if mark is None else header(str(mark)))),
        data=Html(embed(data)),
        terms=TERMS,
        version=metadata.version("fairpost"),
        **context,
    )
