"""A statement read back: the mechanism and the rule of a finished release, for an audit without retyping."""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from fairpost.errors import InputError
from fairpost.release.statement import KIND


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
        if data["statement"] != KIND:
            raise KeyError
        return _stated(data)
    except (KeyError, TypeError, ValueError, IndexError, ZeroDivisionError):
        raise InputError(f"{path}: must be a statement of a release ({KIND}), got another JSON") from None


def _stated(data: dict[str, Any]) -> Stated:
    privacy, rule = data["privacy"], data["postprocessing"][0]
    if len(privacy["levels"]) != 1:
        raise InputError("an audit by statement is of one level of counts, and the statement has several")
    value = Fraction(privacy["sensitivity"]["value"])
    squared = privacy["sensitivity"]["norm"] == "L2 squared"
    known = rule["total"] in ("public", "exact") and not rule["by_group"]
    note = ""
    if rule["total"] == "the noisy sum":
        note = "the release kept the noisy sum as its total; the audit takes the true sum in its place"
    elif rule["total"] is not None and rule["by_group"]:
        note = "the release kept totals by group; the audit takes the true sums in their place"
    delta = privacy["delta"]
    return Stated(
        mechanism=str(privacy["mechanism"]),
        scale=float(privacy["scale"]),
        sensitivity=math.sqrt(value) if squared else float(value),
        delta=float(Fraction(delta)) if delta not in (None, "0") else None,
        postprocess=str(rule["rule"]),
        by_group=bool(rule["by_group"]),
        total=float(rule["total_value"]) if known else None,
        note=note,
    )
