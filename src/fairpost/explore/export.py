"""What the page hands out: the report, the tables, and the command and the Python lines that make them again."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from typing import Any

from fairpost.explore.choices import Choices
from fairpost.explore.session import Data
from fairpost.explore.work import ShareChoices
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


def file_of(data: Data) -> str:
    """The file as a command names it: its path where there is one, the name of an upload."""
    return os.fspath(data.source)


def command(data: Data, choices: Choices, verb: str = "audit", outputs: Sequence[str] = ()) -> str:
    """The command line that finds the same numbers."""
    words = ["fairpost", verb, file_of(data)]
    for role, column in data.columns.items():
        words += [f"--{role}", column] if role != "base" or choices.programme is not None else []
    words += _reading(data)
    words += _option("mechanism", None if choices.mechanism == "laplace" else choices.mechanism)
    for name in NOISE if verb != "plan" else ("delta",):
        words += _option(name, getattr(choices, name))
    words += _option("sensitivity", None if choices.sensitivity == 1.0 else choices.sensitivity)
    words += [word for rule in choices.rules for word in ("--postprocess", rule)]
    asked: dict[str, Any] = {
        "programme": choices.programme,
        "total": choices.problem["total"],
        "budget": choices.problem["budget"],
    }
    asked |= dict(choices.targets) | {"method": None if choices.method == "auto" else choices.method} | choices.settings
    for name, value in asked.items():
        words += _option(name, value)
    words += ["--by-group"] if choices.by_group else []
    words += ["--any-error"] if choices.any_error and verb == "plan" else []
    usual = {"unit": "people", "currency": "$"} | ({} if verb == "plan" else {"noun": "entities"})
    for name, word in usual.items():
        words += _option(name, None if getattr(choices, name) == word else getattr(choices, name))
    return shlex.join([*words, *outputs])


def _option(name: str, value: Any) -> list[str]:
    """An option with its value; a number has as many digits as give the same float again."""
    if value is None:
        return []
    return [f"--{name.replace('_', '-')}", repr(value) if isinstance(value, (int, float)) else str(value)]


def _said(data: Data) -> dict[str, Any]:
    """What was said about how the table is to be read."""
    return {name: value for name, value in data.reading.items() if name != "say" and value not in (None, False, ())}


def _reading(data: Data) -> list[str]:
    words: list[str] = []
    for name, value in _said(data).items():
        if name == "drop_missing":
            words += ["--drop-missing"]
        else:
            words += [word for one in (value if name == "where" else (value,)) for word in _option(name, one)]
    return words


def python(data: Data, choices: Choices) -> str:
    """The Python lines that find the same numbers."""
    columns = "".join(f", {name}={value!r}" for name, value in (data.columns | _said(data)).items())
    reads = f"fp.read_counts({file_of(data)!r}{columns})"
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


def share_command(data: Data, chosen: ShareChoices, outputs: Sequence[str] = ()) -> str:
    """The command line that finds the same shares."""
    words = ["fairpost", "allocate", file_of(data)]
    for role, column in data.columns.items():
        words += [f"--{role}", column] if role != "base" or chosen.programme is not None else []
    words += _reading(data)
    words += _option("mechanism", None if chosen.mechanism == "laplace" else chosen.mechanism)
    for name in NOISE:
        words += _option(name, getattr(chosen, name))
    words += _option("sensitivity", None if chosen.sensitivity == 1.0 else chosen.sensitivity)
    words += [word for rule in chosen.rules for word in ("--postprocess", rule)]
    words += _option("programme", chosen.programme) + _option("budget", chosen.budget)
    words += ["--group-budget", "budgets.csv", "--by-group"] if chosen.group_budget else []
    words += _option("confidence", None if chosen.confidence == 0.95 else chosen.confidence)
    words += ["--simultaneous"] if chosen.simultaneous else []
    return shlex.join([*words, *outputs])


def share_python(data: Data, chosen: ShareChoices) -> str:
    """The Python lines that find the same shares."""
    law = chosen.programme is not None
    columns = "".join(f", {name}={value!r}" for name, value in (data.columns | _said(data)).items())
    noise = chosen.noise
    made = "None" if noise is None else f"fp.{type(noise).__name__}({noise.parameter}={noise.spread!r})"
    money: dict[str, Any] = {} if chosen.budget is None else {"budget": chosen.budget}
    money = (
        {"budget": dict(chosen.group_budget), "groups": "noisy.groups", "by_group": True}
        if chosen.group_budget
        else money
    )
    sure = {"confidence": chosen.confidence, "simultaneous": chosen.simultaneous} if noise is not None else {}
    more = "".join(
        f", {k}={v if k == 'groups' else repr(v)}" for k, v in (money | sure).items() if k != "groups" or not law
    )
    if law:
        return (
            "import fairpost as fp\nfrom fairpost.allocate import by_law\nfrom fairpost.io import read_rows\n\n"
            f"noisy = read_rows({file_of(data)!r}{columns})\n"
            f"noise = {made}\n"
            f"for how in {list(chosen.rules)!r}:\n"
            f"    print(by_law(noisy, fp.Programme.named({chosen.programme!r}), how, noise{more}))\n"
        )
    return (
        "import fairpost as fp\nfrom fairpost.io import read_rows\n\n"
        f"noisy = read_rows({file_of(data)!r}{columns})\n"
        f"noise = {made}\n"
        f"for how in {list(chosen.rules)!r}:\n"
        f"    print(fp.allocate(noisy.values, noisy.weights, how, noise, ids=noisy.ids{more}))\n"
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
