"""One HTML page that reads like the paper's experimental section; everything inline, nothing fetched."""

from __future__ import annotations

import base64
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from fairpost.paper.published import Comparison, Computed, citation
from fairpost.paper.tables import Table

if TYPE_CHECKING:
    from markupsafe import Markup

    from fairpost.paper.figures import Drawing
    from fairpost.paper.reproduce import Findings

WORDS = {
    "alpha": "α", "epsilon": "ε", "sigma": "σ", "lambda": "λ", "eta": "η", "pi": "π", "Phi": "Φ",
}  # fmt: skip
SUB = r"<sub>\1</sub>"
RULES: tuple[tuple[str, str], ...] = (
    (r"\bpi_(S\+|S\b|\+)", r"π" + SUB),
    (r"\(P\^F\)|P\^F", "P<sup>F</sup>"),
    (r"\)_\+", ")<sub>+</sub>"),
    (r"\)_-", ")<sub>−</sub>"),
    (r"(?<![A-Za-z0-9_])([A-Za-z])_([A-Za-z0-9]+)\b", r"\1<sub>\2</sub>"),
    (r"\|\|_1", "‖<sub>1</sub>"),
    (r"\|\|", "‖"),
    (r"\^\(([^()]*)\)", r"<sup>\1</sup>"),
    (r"\^2\b", "²"),
    (r"&lt;=", "≤"),
    (r"&gt;=", "≥"),
    (r"(?<=\d) x (?=\d|lower)", " × "),
    (r"(?<=\d)[eE]\+?(-?)0*(\d+)\b", r" × 10<sup>\1\2</sup>"),
    (r"<sup>-", "<sup>−"),
    (r"(?<![\d.,])1 × 10<sup>", "10<sup>"),
    (r"(?<![\w-])-(?=\d)", "−"),
)
"""From the plain notation of the tables to a readable page; applied to text that is already escaped."""


def pretty(text: object) -> Markup:
    """Plain notation as HTML: pi_S+ becomes π with an index, alpha becomes α, <= becomes ≤, 3e-07 a power of ten."""
    from markupsafe import Markup, escape

    out = str(escape(text))
    for pattern, replacement in RULES:
        out = re.sub(pattern, replacement, out)
    out = re.sub(r"\b(" + "|".join(WORDS) + r")\b", lambda m: WORDS[m[1]], out)
    return Markup(out)


def cell(text: str) -> Markup:
    """A cell of a table: its interval or error stands under the value."""
    from markupsafe import Markup

    return Markup(re.sub(r" (\[[^\]]*\]|± .*)$", r"<br><small>\1</small>", str(pretty(text))))


def comparison_table(found: tuple[Comparison, ...]) -> Table:
    """Every published value beside ours."""
    rows = tuple(
        (
            c.published.key,
            c.published.place["section"],
            c.published.where,
            c.published.quantity,
            c.published.unit,
            c.published.printed,
            ours(c.computed),
            c.status,
            "" if c.agrees else (c.published.reason or ""),
        )
        for c in found
    )
    return Table(
        "comparisons",
        "Every published value beside ours",
        "A value agrees where it lies within the paper's rounding plus our own error; a statement agrees where it holds here as published.",
        ("key", "section", "place", "quantity", "unit", "published", "ours", "status", "reason"),
        frozenset(),
        rows,
    )


def ours(computed: Computed) -> str:
    """Our value for reading."""
    value = computed.value
    if isinstance(value, bool):
        return "holds" if value else "does not hold"
    if isinstance(value, tuple):
        return "(" + ", ".join(f"{v + 0.0:.6g}" for v in value) + ")"
    text = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.6g}"
    return f"{text} ± {computed.error:.0e}" if computed.error > 0 else text


def _reasons(found: tuple[Comparison, ...]) -> list[tuple[str, list[Comparison]]]:
    """The values that differ, by reason."""
    groups: dict[str, list[Comparison]] = {}
    for c in found:
        if not c.agrees:
            groups.setdefault(
                c.published.reason or "No reason is on record: with other data this value agrees or differs.", []
            ).append(c)
    return list(groups.items())


def page(found: Findings, drawn: tuple[Drawing, ...], pictures: Mapping[str, bytes]) -> str:
    """The page."""
    from jinja2 import Environment, StrictUndefined

    from fairpost import __version__

    space = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    space.filters |= {"pretty": pretty, "cell": cell}
    package = files("fairpost.paper")
    template = space.from_string(package.joinpath("page.html").read_text(encoding="utf-8"))
    encoded = {d.name: base64.b64encode(pictures[f"figures/{d.name}.png"]).decode() for d in drawn}
    agree = sum(c.agrees for c in found.comparisons)
    return template.render(
        style=package.joinpath("page.css").read_text(encoding="utf-8"),
        citation=citation(),
        version=__version__,
        found=found,
        table={t.name: t for t in found.tables},
        figure={d.name: d for d in drawn},
        image=encoded,
        agree=agree,
        differ=len(found.comparisons) - agree,
        reasons=_reasons(found.comparisons),
        comparisons=found.comparisons,
        ours=ours,
        hold=sum(d.holds for d in found.theorems),
    )


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
