"""A statement read back: the mechanism and the rule of a finished release, for an audit without retyping."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairpost.documents import json_of
from fairpost.errors import InputError, value
from fairpost.release.amounts import amount, share
from fairpost.release.statement import KIND, OLD

PARAMETERS = {"discrete-laplace": "scale", "discrete-gaussian": "sigma"}
"""The mechanisms of releases, and the option that gives the scale of each."""


@dataclass(frozen=True)
class Stated:
    """What an audit needs of a statement."""

    mechanism: str
    scale: float
    """b of the discrete Laplace, sigma of the discrete Gaussian."""
    sensitivity: float
    delta: float | None
    postprocess: str
    by_group: bool
    total: float | None
    """The public or exact total; None: the rule kept the noisy sum, or group totals."""
    note: str
    table_sha256: str
    scales: Mapping[str, float]
    """Of each level that has noise; of a single table the one above."""
    levels: str | None = None
    """Of a release of levels: the option --levels."""
    level_sigma: str | None = None
    """And the noise of each level, root first; 0: exact, or public."""
    whole: bool = False
    """Whether the counts were rounded."""
    safe: bool = False
    """Whether a ' stands in the table before text like a formula."""

    @property
    def parameter(self) -> str:
        """The option that gives the scale."""
        return PARAMETERS[self.mechanism]


def stated(path: str | os.PathLike[str]) -> Stated:
    """The mechanism and the rule of a statement."""
    with _as_statement(path):
        data = json_of(_text(path))
        if data["statement"] not in (KIND, OLD):
            raise KeyError
        return _stated(data)


def _text(path: str | os.PathLike[str]) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}") from None


@contextmanager
def _as_statement(path: str | os.PathLike[str]) -> Iterator[None]:
    """Errors with the name of the file."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError):
        raise InputError(f"{path}: must be a statement of a release ({KIND}), got another file") from None


def _stated(data: dict[str, Any]) -> Stated:
    privacy, rule = data["privacy"], data["postprocessing"][0]
    mechanism, sensitivity = privacy["mechanism"], amount(privacy["sensitivity"]["value"], "sensitivity")
    if mechanism not in PARAMETERS:
        raise InputError(f"`mechanism` must be one of {', '.join(PARAMETERS)}, got {value(mechanism)}")
    squared = privacy["sensitivity"]["norm"] == "L2 squared"
    known = rule["total"] in ("public", "exact") and not rule["by_group"]
    note = ""
    if rule["total"] == "the noisy sum":
        note = "the release kept the noisy sum as its total; the audit takes the true sum in its place"
    elif rule["total"] is not None and rule["by_group"]:
        note = "the release kept totals by group; the audit takes the true sums in their place"
    delta = privacy["delta"]
    shape = privacy.get("hierarchy")
    if shape is None and len(privacy["levels"]) != 1:
        raise KeyError("hierarchy")
    return Stated(
        mechanism=mechanism,
        scale=float(amount(privacy["scale"], "scale")),
        sensitivity=math.sqrt(sensitivity) if squared else float(sensitivity),
        delta=float(amount(delta, "delta")) if delta not in (None, "0") else None,
        postprocess=str(rule["rule"]),
        by_group=bool(rule["by_group"]),
        total=float(share(rule["total_value"], "total_value")) if known else None,
        note=note,
        table_sha256=str(data["table"]["sha256"]),
        scales={str(level["name"]): float(amount(level["scale"], "scale")) for level in privacy["levels"]},
        levels=None if shape is None else _levels(shape),
        level_sigma=None if shape is None else _sigmas(shape, privacy["levels"]),
        whole=any(step["rule"] == "rounding" for step in data["postprocessing"]),
        safe="text" in data["table"],
    )


def _levels(shape: dict[str, Any]) -> str:
    """The option: prefixes as they are; columns, the last of which is the id's."""
    if shape["by"] == "prefixes":
        return ",".join(f"{name}:{length}" for name, length in zip(shape["names"], shape["lengths"], strict=True))
    if shape["by"] != "columns":
        raise InputError("a hierarchy by paths of labels is audited in Python (fairpost.audit), got its statement")
    return ",".join(shape["names"][:-1])


def _sigmas(shape: dict[str, Any], levels: list[dict[str, Any]]) -> str:
    scales = {level["name"]: level["scale"] for level in levels}
    return ",".join(scales.get(name, "0") for name in ("all", *shape["names"]))
