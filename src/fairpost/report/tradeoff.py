"""Fairness against accuracy: alpha against the typical error, the rules as points, and the path between them."""

from __future__ import annotations

from typing import Any

from fairpost.report.numbers import CHANCE
from fairpost.report.text import clean
from fairpost.report.views import View
from fairpost.results import Frontier
from fairpost.results.points import Point


def tradeoff_data(views: list[View], frontier: Frontier | None) -> dict[str, Any] | None:
    """For the script: the rules of one unit; None where there is nothing to compare."""
    path = [] if frontier is None else list(frontier.path)
    unit = path[0].point.unit if path else views[-1].result.overall.unit
    some = [v for v in views if v.result.overall.unit == unit and v.resolved]
    if not some or len(some) + len(path) < 2:
        return None
    first = some[0]

    def one(p: Point, extra: str = "") -> dict[str, Any]:
        """A point of the path is in the unit shown already."""
        said = [
            clean(p.postprocess) + extra,
            f"alpha {first.shown.show(p.alpha.value)}",
            f"typical error {first.shown.show(p.rmse.value)}",
            f"chance of 0: {CHANCE.show(p.zero.value)}",
        ]
        return {"x": p.rmse.value, "y": p.alpha.value, "text": said}

    return {
        "unit": first.shown.data(),
        "axis": first.shown.prefix or ("share of the budget" if unit == "share" else first.shown.suffix.strip()),
        "rule": None if frontier is None else clean(frontier.rule),
        "path": [one(t.point, f", threshold {t.threshold:.4g}") for t in path],
        "named": [one(Point.of(v.result)) | {"name": clean(v.name), "place": v.place} for v in some],
    }
