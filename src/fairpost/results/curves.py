"""The quantities of an audit against the noise: what `sweep` and `frontier` return, and what plans share with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fairpost.budgets import GroupBudgets
from fairpost.counts import Counts
from fairpost.errors import ParameterError
from fairpost.results import documents
from fairpost.results.audit import warnings_of
from fairpost.results.base import CONFIDENTIAL, Columns, Grid, Result, Saved, noise_words, number
from fairpost.results.documents import Point, Refused, Tradeoff, made, one_line, told
from fairpost.results.figures import Series, drawn
from fairpost.results.points import curve_columns, point_grid
from fairpost.results.targets import TARGETS, one_unit, unit_of

if TYPE_CHECKING:
    import plotly.graph_objects as go


@dataclass(frozen=True)
class Basis:
    """What a curve or a plan was computed from, without the counts themselves."""

    n: int = 0
    total: float = 0.0
    """Of the true counts."""
    budget: float | None = None
    """Money to share, in all."""
    group_budgets: Mapping[str, Any] | None = None
    """With shares by group: `rule` and `amounts`, as in `GroupBudgets.to_dict`."""
    currency: str = "$"
    """The sign of money in sentences."""
    warnings: tuple[str, ...] = ()
    """What about the counts themselves a reader should look at."""

    @classmethod
    def of(cls, counts: Counts, budget: float | None, budgets: GroupBudgets | None, currency: str = "$") -> Basis:
        """The facts about these counts."""
        shared = None if budgets is None else budgets.to_dict()
        return cls(counts.n, counts.total, budget, shared, currency, warnings_of(counts))

    def to_dict(self) -> dict[str, Any]:
        """The head of a document, by field."""
        head = {name: getattr(self, name) for name in ("budget", "group_budgets", "currency", "warnings")}
        return {"counts": {"n": self.n, "total": self.total}} | head

    @classmethod
    def told(cls, data: documents.Basis) -> Basis:
        """The inverse of `to_dict`."""
        budgets = None if data.group_budgets is None else told(documents.GroupBudgets, data.group_budgets)
        return cls(data.counts.n, data.counts.total, data.budget, budgets, data.currency, tuple(data.warnings))

    def amount(self, value: float, unit: str) -> str:
        """A number with its unit: "$500", "2.5 %", "12 people"."""
        if unit == "money":
            return f"{self.currency}{number(value)}"
        return f"{number(value)} %" if unit == "percent" else f"{number(value)} {unit}"


@dataclass(frozen=True, repr=False)
class Curve(Saved, Result):
    """The harm against the noise: what a sweep found, and where the engine refused."""

    points: tuple[Point, ...]
    refused: tuple[Refused, ...]
    basis: Basis = field(default_factory=Basis)
    mark: str = CONFIDENTIAL

    def _columns(self) -> Columns:
        """One row per point: the table of `--csv`."""
        return curve_columns(self.points, self.mark)

    def to_dict(self) -> dict[str, Any]:
        """The JSON of `fairpost sweep`."""
        return documents.document("sweep", self, **self.basis.to_dict())

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Curve:
        """The inverse of `to_dict`: everything that `fairpost sweep --json` writes."""
        read = documents.read_document("sweep", data)
        with one_line("this sweep"):
            return made(cls, read, basis=Basis.told(read))

    def plot(self, quantity: str = "alpha") -> go.Figure:
        """The quantity (one of TARGETS) against epsilon, or against the noise where epsilon is not known."""
        return figure(f"{self._head()}; {self.mark}", quantity, self.points, None)

    def _head(self) -> str:
        rules = dict.fromkeys(p.postprocess for p in self.points)
        return f"Curve of {', '.join(rules) or 'nothing'}: {len(self.points):,} points, {len(self.refused):,} refused"

    def _facts(self) -> list[tuple[str, str]]:
        facts = [("warning", line) for line in self.basis.warnings]
        units = dict.fromkeys(p.unit for p in self.points)
        facts += [("unit", " and ".join(units))] if units else []
        return facts + [("refused", f"{r.postprocess} at {r.mechanism.spread:g}: {r.reason}") for r in self.refused[:2]]

    def _grid(self) -> Grid:
        return point_grid(self.points)


def figure(title: str, quantity: str, points: Sequence[Point], limit: float | None) -> go.Figure:
    """One quantity against epsilon, a line per post-processing; all points must have it in one unit."""
    if quantity not in TARGETS:
        raise ParameterError(f"`quantity` must be one of {', '.join(TARGETS)}, got {quantity!r}")
    promised = bool(points) and all(p.epsilon is not None for p in points)
    units = {p.postprocess: unit_of(quantity, p.unit) for p in points}
    one_unit(units.items(), "the rules of a figure")
    series = []
    for name in dict.fromkeys(p.postprocess for p in points):
        some = [(p, p.quantity(quantity)) for p in points if p.postprocess == name]
        shown = [(p, e) for p, e in some if e is not None]
        x = [p.epsilon if promised else p.mechanism.spread for p, _ in shown]
        found = [e for _, e in shown]
        labels = [f"{name}, {noise_words(p.mechanism)}" for p, _ in shown]
        ends = [[getattr(e, k) for e in found] for k in ("value", "low", "high")]
        series.append(Series(name, x, ends[0], labels, ends[1], ends[2], joined=True))  # type: ignore[arg-type]
    axis = f"{TARGETS[quantity]} ({next(iter(units.values()))})" if units else TARGETS[quantity]
    return drawn(title, "epsilon" if promised else "noise", axis, series, limit=limit)


@dataclass(frozen=True, repr=False)
class Frontier(Saved, Result):
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

    def _columns(self) -> Columns:
        """One row per threshold, then one per named rule (without a threshold)."""
        columns = curve_columns([*(t.point for t in self.path), *self.named], self.mark)
        return {"threshold": [*(t.threshold for t in self.path), *(None for _ in self.named)]} | columns

    def to_dict(self) -> dict[str, Any]:
        """`frontier` in the JSON of `fairpost audit --frontier`."""
        return told(documents.Frontier, self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Frontier:
        """The inverse of `to_dict`."""
        return cls.told(documents.read(documents.Frontier, data, "a frontier"))

    @classmethod
    def told(cls, data: documents.Frontier) -> Frontier:
        """The same of what has been read."""
        return made(cls, data)

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
