"""Fairness against accuracy: alpha and the root mean squared error as the threshold grows from 0 to its best value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fairpost.errors import ParameterError
from fairpost.results.base import CONFIDENTIAL, Columns, Grid, Result, noise_words, number
from fairpost.results.figures import Series, drawn
from fairpost.results.points import Point, curve_columns
from fairpost.results.reading import one_line
from fairpost.results.targets import one_unit

if TYPE_CHECKING:
    import plotly.graph_objects as go


@dataclass(frozen=True)
class Tradeoff:
    """One point of the path: the rule with this threshold."""

    threshold: float
    """tau, in counts: below it a noisy count becomes 0. At 0 the rule is pos (or simplex) itself."""
    point: Point

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {"threshold": self.threshold, "point": self.point.to_dict()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Tradeoff:
        """The inverse of `to_dict`."""
        return cls(data["threshold"], Point.from_dict(data["point"]))


@dataclass(frozen=True, repr=False)
class Frontier(Result):
    """The path from no threshold to the best one, and the named rules beside it; all in one unit."""

    rule: str
    """pos-threshold or simplex-threshold."""
    path: tuple[Tradeoff, ...]
    """By growing threshold; alpha falls and the error grows along it."""
    named: tuple[Point, ...]
    """Rules to compare with, by name."""
    refused: tuple[str, ...] = ()
    """Thresholds that no engine could do, and why."""
    mark: str = CONFIDENTIAL

    def __post_init__(self) -> None:
        if not self.path:
            raise ParameterError(f"a frontier needs at least one point, got none: {'; '.join(self.refused)}")
        points = (*(t.point for t in self.path), *self.named)
        one_unit([(p.postprocess, p.unit) for p in points], "the rules of a frontier")

    @property
    def unit(self) -> str:
        """What alpha and the error are in: money, people, share."""
        return self.path[0].point.unit

    def columns(self) -> Columns:
        """One row per threshold, then one per named rule (without a threshold)."""
        columns = curve_columns([*(t.point for t in self.path), *self.named], self.mark)
        return {"threshold": [*(t.threshold for t in self.path), *(None for _ in self.named)]} | columns

    def to_dict(self) -> dict[str, Any]:
        """`frontier` in the JSON of `fairpost audit --frontier`."""
        return {
            "rule": self.rule,
            "unit": self.unit,
            "path": [t.to_dict() for t in self.path],
            "named": [p.to_dict() for p in self.named],
            "refused": list(self.refused),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Frontier:
        """The inverse of `to_dict`."""
        with one_line("a frontier"):
            path = tuple(Tradeoff.from_dict(t) for t in data["path"])
            return cls(data["rule"], path, tuple(Point.from_dict(p) for p in data["named"]), tuple(data["refused"]))

    def plot(self) -> go.Figure:
        """Alpha against the root mean squared error: a line for the path, a mark for every named rule."""
        points = [t.point for t in self.path]
        labels = [f"{self.rule}, threshold {number(t.threshold)}" for t in self.path]
        series = [_series(self.rule, points, labels, joined=True)]
        series += [_series(p.postprocess, [p], [p.postprocess]) for p in self.named]
        title = f"{self._head()}; {self.mark}"
        return drawn(title, f"root mean squared error ({self.unit})", f"alpha ({self.unit})", series)

    def _head(self) -> str:
        return f"Fairness against accuracy, {self.rule}: {noise_words(self.path[0].point.mechanism)}"

    def _facts(self) -> list[tuple[str, str]]:
        return [("unit", self.unit), *(("refused", line) for line in self.refused[:2])]

    def _grid(self) -> Grid:
        rows = [(number(t.threshold), self.rule, *_cells(t.point)) for t in self.path]
        return ("threshold", "rule", "alpha", "RMSE", "P(0)", "by"), [
            *rows,
            *(("-", p.postprocess, *_cells(p)) for p in self.named),
        ]


def _cells(p: Point) -> tuple[str, ...]:
    return number(p.alpha.value), number(p.rmse.value), f"{100 * p.zero.value:.3g} %", p.method


def _series(name: str, points: list[Point], labels: list[str], *, joined: bool = False) -> Series:
    ends = [[getattr(p.alpha, k) for p in points] for k in ("value", "low", "high")]
    return Series(name, [p.rmse.value for p in points], ends[0], labels, ends[1], ends[2], joined=joined)
