"""The pages as HTML: forms first, the script on top."""

from __future__ import annotations

from functools import lru_cache
from importlib import resources
from typing import Any

from fairpost import __version__
from fairpost.explore import between, tables
from fairpost.explore.session import ROLES, Session
from fairpost.explore.uploads import MOST
from fairpost.hierarchy.rules import RULES
from fairpost.noise import MECHANISMS
from fairpost.problems.programme import NAMES, builtin
from fairpost.report.glossary import TERMS
from fairpost.report.text import clean
from fairpost.results.targets import USUAL_ERROR
from fairpost.rules import PAYING, POSTPROCESSINGS

SAID = {
    "id": ("Id", "one per row, kept as text; leading zeros stay"),
    "count": ("Count", "the numbers that get noise (analyst: that have it)"),
    "weight": ("Weight", "factor of the formula, such as dollars per pupil"),
    "group": ("Group", "such as the state"),
    "label": ("Name", "what people call it; search finds both"),
    "base": ("Base population", "what rates of a programme are of"),
}


def file(name: str) -> str:
    """A template."""
    return resources.files("fairpost.explore").joinpath("files").joinpath(name).read_text(encoding="utf-8")


@lru_cache(maxsize=1)
def _space() -> Any:
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    return Environment(
        loader=FunctionLoader(file), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )


def _render(template: str, **context: object) -> str:
    made = (
        _space()
        .get_template(template)
        .render(version=__version__, **({"confidential": False, "held": False} | context))
    )
    return str(made)


def page(session: Session) -> str:
    """What there is to do next: upload, map, look."""
    if session.source is None:
        return _render("welcome.html", most=f"{MOST >> 20} MB")
    if session.data is None:
        return _mapping(session)
    confidential = session.mode == "officer"
    return _render(
        "live.html" if confidential else "analyst.html",
        confidential=confidential,
        held=True,
        data=session.data,
        name=clean(session.data.name),
        mechanisms=list(MECHANISMS),
        rules=_rules(),
        programmes=[(name, builtin(name).law) for name in NAMES],
        tree_rules=list(RULES),
        usual=f"{USUAL_ERROR:g}",
        low=between.LOW,
        high=between.HIGH,
        terms={t.key: t for t in TERMS},
        words={"unit": "people", "noun": "entities", "currency": "$"}
        | {k: clean(v) for k, v in session.defaults.items() if isinstance(v, str)},
    )


def _rules() -> dict[str, list[tuple[str, str]]]:
    """The rules by what they make."""
    out: dict[str, list[tuple[str, str]]] = {"release": [], "allocation": [], "programme": []}
    for name, kind in POSTPROCESSINGS.items():
        out["allocation" if name in ("baseline", "pos", "pos-threshold") else "release"].append((name, kind.title))
    for name, paying in PAYING.items():
        out["programme"].append((name, paying.title))
    return out


def _mapping(session: Session, line: str | None = None) -> str:
    seen = tables.preview(session.table, **session.reading)
    chosen = {role: str(session.defaults.get(role) or seen["guess"].get(role, "")) for role in ROLES}
    return _render(
        "mapping.html",
        confidential=session.mode == "officer",
        held=True,
        seen=seen,
        roles=[(role, *SAID[role]) for role in ROLES],
        chosen=chosen,
        mode=session.mode,
        line=line,
    )


def entered() -> str:
    """After the link: on to the page, by the browser's own step."""
    return _render("entered.html")


def used() -> str:
    """A link that is used up, or was never one."""
    return _render(
        "message.html",
        title="This link does not work",
        line="A link from `fairpost explore` works once. The terminal shows a new one.",
    )


def failed(line: str) -> str:
    """What went wrong, and the way back."""
    return _render("message.html", title="That did not work", line=line)
