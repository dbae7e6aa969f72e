"""What the page hands out: the report, the tables, and the command and the Python lines that make them again."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from typing import Any

from fairpost.explore.choices import Choices
from fairpost.explore.session import Data
from fairpost.results.audit import Audit

KINDS = ("report", "csv", "json", "command", "python")
NAMES = {
    "report": ("fairpost-report.html", "text/html"),
    "csv": ("fairpost-biases.csv", "text/csv"),
    "json": ("fairpost-audit.json", "application/json"),
    "command": ("fairpost-command.sh", "text/plain"),
    "python": ("fairpost_lines.py", "text/plain"),
}
NOISE = ("epsilon", "scale", "sigma", "rho", "delta")
ENGINE = ("runs", "seed", "confidence")


def file_of(data: Data) -> str:
    """The file as a command names it: its path where there is one, the name of an upload."""
    return os.fspath(data.source)


def command(data: Data, choices: Choices, verb: str = "audit", outputs: Sequence[str] = ()) -> str:
    """The command line that finds the same numbers."""
    words = ["fairpost", verb, file_of(data)]
    for role, column in data.columns.items():
        if role != "base" or choices.programme is not None:
            words += [f"--{role}", column]
    if data.format is not None:
        words += ["--format", data.format]
    if choices.mechanism != "laplace":
        words += ["--mechanism", choices.mechanism]
    for name in NOISE if verb != "plan" else ("delta",):
        words += _option(name, getattr(choices, name))
    if choices.sensitivity != 1.0:
        words += _option("sensitivity", choices.sensitivity)
    for rule in choices.rules:
        words += ["--postprocess", rule]
    words += _option("programme", choices.programme)
    words += _option("total", choices.problem["total"]) + _option("budget", choices.problem["budget"])
    if choices.by_group:
        words.append("--by-group")
    for name, limit in choices.targets.items():
        words += _option(name, limit)
    if choices.method != "auto":
        words += ["--method", choices.method]
    for name in ENGINE:
        words += _option(name, choices.settings.get(name))
    for name, usual in (("unit", "people"), ("noun", "entities"), ("currency", "$")):
        if getattr(choices, name) != usual and not (name == "noun" and verb == "plan"):
            words += [f"--{name}", getattr(choices, name)]
    return shlex.join([*words, *outputs])


def _option(name: str, value: Any) -> list[str]:
    """An option with its value; a number has as many digits as give the same float again."""
    if value is None:
        return []
    return [f"--{name.replace('_', '-')}", repr(value) if isinstance(value, (int, float)) else str(value)]


def python(data: Data, choices: Choices) -> str:
    """The Python lines that find the same numbers."""
    columns = "".join(f", {role}={column!r}" for role, column in data.columns.items())
    reads = f"fp.read_counts({file_of(data)!r}{columns}{'' if data.format is None else f', format={data.format!r}'})"
    noise = choices.noise
    asked = {k: v for k, v in choices.problem.items() if v not in (None, False)}
    asked |= {"engine": choices.method} if choices.method != "auto" else {}
    asked |= choices.settings | ({"targets": dict(choices.targets)} if choices.targets else {})
    more = "".join(f", {k}={v!r}" for k, v in asked.items())
    return (
        "import fairpost as fp\n\n"
        f"counts = {reads}\n"
        f"noise = fp.{type(noise).__name__}({noise.parameter}={noise.spread!r})\n"
        f"results = fp.compare(counts, noise, {list(choices.rules)!r}{more})\n"
        "print(results)\n"
    )


def report(data: Data, choices: Choices, results: Sequence[Audit], made: str) -> str:
    """The report: one HTML file, as `fairpost audit --html` writes it."""
    from fairpost.report import audit_page

    return audit_page(
        results,
        command=command(data, choices, outputs=("--html", "report.html")),
        made=made,
        unit=choices.unit,
        noun=choices.noun,
        currency=choices.currency,
        neighbours=choices.neighbours,
        source=data.name,
        lines=python(data, choices),
    )
