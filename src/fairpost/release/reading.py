"""A statement read back: the mechanism and the rule of a finished release, for an audit without retyping."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from fairpost.errors import InputError
from fairpost.release.statement import KIND, OLD


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

    @property
    def parameter(self) -> str:
        """The option that gives the scale."""
        return {"discrete-laplace": "scale", "discrete-gaussian": "sigma"}[self.mechanism]


def stated(path: str | os.PathLike[str]) -> Stated:
    """The mechanism and the rule of a statement."""
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError:
        raise InputError(f"{path}: must be a statement of a release (JSON), got another file") from None
    try:
        if data["statement"] not in (KIND, OLD):
            raise KeyError
        return _stated(data)
    except (KeyError, TypeError, ValueError, IndexError, ZeroDivisionError):
        raise InputError(f"{path}: must be a statement of a release ({KIND}), got another JSON") from None


def _stated(data: dict[str, Any]) -> Stated:
    privacy, rule = data["privacy"], data["postprocessing"][0]
    value = Fraction(privacy["sensitivity"]["value"])
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
        mechanism=str(privacy["mechanism"]),
        scale=float(privacy["scale"]),
        sensitivity=math.sqrt(value) if squared else float(value),
        delta=float(Fraction(delta)) if delta not in (None, "0") else None,
        postprocess=str(rule["rule"]),
        by_group=bool(rule["by_group"]),
        total=float(rule["total_value"]) if known else None,
        note=note,
        table_sha256=str(data["table"]["sha256"]),
        scales={str(level["name"]): float(level["scale"]) for level in privacy["levels"]},
        levels=None if shape is None else _levels(shape),
        level_sigma=None if shape is None else _sigmas(shape, privacy["levels"]),
        whole=any(step["rule"] == "rounding" for step in data["postprocessing"]),
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
