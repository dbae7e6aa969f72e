"""What `sweep` returns, and what the curves of a plan share with it: the quantities of an audit against the noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fairpost.budgets import GroupBudgets
from fairpost.counts import Counts
from fairpost.errors import ParameterError
from fairpost.results.base import CONFIDENTIAL, Columns, Grid, Result, noise_words, number
from fairpost.results.comparison import warnings_of
from fairpost.results.figures import Series, drawn
from fairpost.results.points import Point, Refused, curve_columns, point_grid
from fairpost.results.reading import one_line
from fairpost.results.schema import checked_schema, document
from fairpost.results.targets import TARGETS, Targets, one_unit, unit_of

if TYPE_CHECKING:
    import plotly.graph_objects as go

__all__ = ["TARGETS", "Basis", "Curve", "Point", "Refused", "Targets", "curve_columns"]


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
        """The head of a document."""
        return {
            "counts": {"n": self.n, "total": self.total},
            "budget": self.budget,
            "group_budgets": self.group_budgets,
            "currency": self.currency,
            "warnings": list(self.warnings),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Basis:
        """The inverse of `to_dict`."""
        about = data["counts"]
        rest = (data["budget"], data["group_budgets"], data["currency"], tuple(data["warnings"]))
        return cls(about["n"], about["total"], *rest)

    def amount(self, value: float, unit: str) -> str:
        """A number with its unit: "$500", "2.5 %", "12 people"."""
        if unit == "money":
            return f"{self.currency}{number(value)}"
        return f"{number(value)} %" if unit == "percent" else f"{number(value)} {unit}"


@dataclass(frozen=True, repr=False)
class Curve(Result):
    """The harm against the noise: what a sweep found, and where the engine refused."""

    points: tuple[Point, ...]
    refused: tuple[Refused, ...]
    basis: Basis = field(default_factory=Basis)
    mark: str = CONFIDENTIAL

    def columns(self) -> Columns:
        """One row per point: the table of `--csv`."""
        return curve_columns(self.points, self.mark)

    def to_dict(self) -> dict[str, Any]:
        """The JSON of `fairpost sweep`."""
        return (
            document("sweep")
            | {"mark": self.mark}
            | self.basis.to_dict()
            | {"points": [p.to_dict() for p in self.points], "refused": [r.to_dict() for r in self.refused]}
        )

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Curve:
        """The inverse of `to_dict`: everything that `fairpost sweep --json` writes."""
        checked_schema(data, "sweep")
        with one_line("this sweep"):
            points = tuple(Point.from_dict(p) for p in data["points"])
            refused = tuple(Refused.from_dict(r) for r in data["refused"])
            return cls(points, refused, Basis.from_dict(data), data["mark"])

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
