"""From data and a template to one file: everything inline, nothing fetched.

The page forbids itself to load anything (Content-Security-Policy: default-src 'none') and runs only the two scripts
whose hashes it names, so that text of the user's could not become a program even if it escaped its place.
"""

from __future__ import annotations

import base64
import hashlib
from functools import lru_cache
from importlib import metadata, resources
from typing import Any

from fairpost.report.glossary import TERMS
from fairpost.report.numbers import Html
from fairpost.report.payload import embed


def file(name: str) -> str:
    """A file of this package as text."""
    return resources.files("fairpost.report").joinpath("files").joinpath(name).read_text(encoding="utf-8")


@lru_cache(maxsize=1)
def plotly() -> str:
    """The drawing library, as one script."""
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs())


def digest(script: str) -> str:
    """The name of an inline script in the page's policy."""
    return "'sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() + "'"


def policy(scripts: list[str]) -> str:
    """Nothing is fetched; these scripts run and no others ('unsafe-eval': the drawing library compiles its shaders)."""
    allowed = " ".join(digest(s) for s in scripts)
    return (
        f"default-src 'none'; script-src {allowed} 'unsafe-eval'; style-src 'unsafe-inline'; "
        "img-src data: blob:; form-action 'none'; base-uri 'none'"
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
    scripts = [plotly(), file("report.js")]
    return space.get_template(template).render(
        policy=policy(scripts),
        plotly=Html(scripts[0]),
        script=Html(scripts[1]),
        style=Html(file("report.css") + header(str(context["mark"]))),
        data=Html(embed(data)),
        terms=TERMS,
        version=metadata.version("fairpost"),
        **context,
    )
