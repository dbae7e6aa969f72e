"""Numbers with an owner or in two units, and the tables of points: what curves and plans are made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fairpost.accuracy import Accuracy, Estimate
from fairpost.results.base import CONFIDENTIAL, Columns, Floats, Grid, label, number, reason

if TYPE_CHECKING:
    from fairpost.results.documents import Point


@dataclass(frozen=True)
class Extreme(Estimate):
    """A number that one entity attains."""

    id: str | None = None
    """Whose it is; None where nobody is due anything."""

    @classmethod
    def of(cls, found: Estimate, who: str | None) -> Extreme:
        """A number with its owner."""
        return cls(found.value, found.low, found.high, found.kind, who)

    def scaled(self, factor: float) -> Extreme:
        """The same in another unit."""
        return Extreme.of(super().scaled(factor), self.id)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return super().to_dict() | {"id": self.id}


def entry(values: Floats, known: Accuracy, i: int) -> Estimate:
    """One entry of a vector with its interval."""
    return Estimate.around(float(values[i]), float(known.half_width[i]), known.kind)


@dataclass(frozen=True)
class CostOfPrivacy:
    """Definition 5: what must be added to the budget so that nobody expects less than their due."""

    share: Estimate
    """As a share of the budget."""
    amount: Estimate | None
    """In money, where a budget was given."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON: the values, and the intervals around them."""
        share, amount = self.share.to_dict(), self.amount and self.amount.to_dict()
        values = {"share": share["value"], "amount": amount and amount["value"]}
        return values | {"share_interval": share, "amount_interval": amount}

    def __str__(self) -> str:
        """The share of the budget, and the money where there is some."""
        amount = "" if self.amount is None else f" = {number(self.amount.value)}"
        return f"{number(100 * self.share.value)} % of the budget{amount} ({self.share.kind})"


def curve_columns(points: Sequence[Point], mark: str = CONFIDENTIAL) -> Columns:
    """One row per point; alpha, losses and rmse are in the unit that `unit` says, what is relative in parts of 1."""
    costs = [p.cost for p in points]
    return {
        "rule": [p.postprocess for p in points],
        "epsilon": [p.epsilon for p in points],
        "scale": [p.mechanism.spread for p in points],
        "engine": [p.method for p in points],
        "unit": [p.unit for p in points],
        **spread("alpha", [p.alpha for p in points]),
        **spread("total_off", [p.total_off for p in points]),
        **spread("largest_loss", [p.loss for p in points]),
        **spread("largest_relative_loss", [p.relative_loss for p in points]),
        **spread("rmse", [p.rmse for p in points]),
        **spread("relative_rmse", [p.relative_rmse for p in points]),
        "loses_most": [p.loser for p in points],
        "loses_most_relatively": [p.relative_loser for p in points],
        "cost_share": [None if c is None else c.share.value for c in costs],
        "cost_money": [None if c is None or c.amount is None else c.amount.value for c in costs],
        "zero": [p.zero.value for p in points],
        "confidential": [reason(mark)] * len(points),
    }


def spread(name: str, found: Sequence[Estimate | None]) -> Columns:
    """Columns for numbers and the ends of their intervals; an end that nobody knows is an empty field."""
    ends = {"": "value", "_low": "low", "_high": "high"}
    rows = {end: [None if e is None else float(getattr(e, key)) for e in found] for end, key in ends.items()}
    return {f"{name}{end}": [None if v == float("inf") else v for v in values] for end, values in rows.items()}


def point_grid(points: Sequence[Point]) -> Grid:
    """The points as a small table of text."""
    heads = ("post-processing", "epsilon", "noise", "alpha", "total off", "largest loss", "of", "by")
    return heads, [
        (
            p.postprocess,
            "-" if p.epsilon is None else f"{p.epsilon:.4g}",
            f"{p.mechanism.spread:.4g}",
            number(p.alpha.value),
            "-" if p.total_off is None else number(p.total_off.value, signed=True),
            number(p.loss.value),
            label(p.name(p.loser))[:14],
            p.method,
        )
        for p in points
    ]
