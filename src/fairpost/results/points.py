"""One post-processing at one level of noise: what curves and plans are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fairpost.accuracy import Estimate
from fairpost.noise import Mechanism
from fairpost.results.audit import Audit
from fairpost.results.base import CONFIDENTIAL, Columns, Grid, label, number
from fairpost.results.columns import reason
from fairpost.results.cost import CostOfPrivacy
from fairpost.results.reading import mechanism_from, one_line

PLAIN = ("epsilon", "postprocess", "task", "method", "unit", "note", "names")
"""Fields of a point that stand in its JSON as they are."""


@dataclass(frozen=True)
class Point:
    """What an audit says at one level of noise, without the vectors. All quantities are in one unit, `unit`."""

    mechanism: Mechanism
    epsilon: float | None
    """What this noise promises, where the caller can say."""
    postprocess: str
    task: str
    method: str
    unit: str
    """What alpha, loss and rmse are in: money where there is a budget, else people, share, ..."""
    alpha: Estimate
    alpha_pair: tuple[str, str]
    cost: CostOfPrivacy | None
    loss: Estimate
    """The largest expected loss of any entity. 0: nobody loses."""
    loser: str
    relative_loss: Estimate
    """The largest loss relative to what the entity is due (0.01: 1 %), among those that are due something."""
    relative_loser: str | None
    """Whose it is; None where nobody is due anything."""
    rmse: Estimate
    """sqrt of the mean over entities of the mean squared error."""
    zero: Estimate
    """The mean over entities of the probability of receiving 0."""
    note: str | None
    names: Mapping[str, str] = field(default_factory=dict)
    """What people call the entities that this point names, where that is not their id."""
    relative_rmse: Estimate | None = None
    """`rmse` relative to the mean of what is due (0.01: 1 %); None where nobody is due anything."""
    total_off: Estimate | None = None
    """What all outputs add up to in expectation, less what everybody is due; None in a document that does not say."""

    @classmethod
    def of(cls, result: Audit, epsilon: float | None = None) -> Point:
        """The point of one result."""
        (loss, loser), (relative, due) = result.largest_loss, result.largest_relative_loss
        said = dict.fromkeys(i for i in (*result.alpha_pair, loser, due) if i is not None)
        return cls(
            mechanism=result.mechanism,
            epsilon=epsilon,
            postprocess=result.postprocess,
            task=result.task,
            method=result.method,
            unit=result.unit,
            alpha=result.alpha.scaled(result.per),
            alpha_pair=result.alpha_pair,
            total_off=result.total_off.scaled(result.per),
            cost=result.cost_of_privacy,
            loss=loss.scaled(result.per),
            loser=loser,
            relative_loss=relative,
            relative_loser=due,
            rmse=result.rmse.scaled(result.per),
            relative_rmse=result.relative_rmse,
            zero=result.mean_zero,
            note=result.note,
            names={i: name for i in said if (name := result.name_of(i)) != i},
        )

    def name(self, label: str) -> str:
        """What people call the entity with this id."""
        return self.names.get(label, label)

    def quantity(self, target: str) -> Estimate | None:
        """One of `targets.TARGETS` in the unit of its limit (what is relative in percent); None where it has no meaning."""
        if target == "cost":
            return None if self.cost is None else self.cost.amount or self.cost.share
        if target == "relative_loss":
            return self.relative_loss.scaled(100.0)
        if target == "relative_rmse":
            return None if self.relative_rmse is None else self.relative_rmse.scaled(100.0)
        return {"alpha": self.alpha, "loss": self.loss, "rmse": self.rmse}[target]

    def whose(self, target: str) -> str | None:
        """The id of the entity that attains a quantity, where one does."""
        return {"loss": self.loser, "relative_loss": self.relative_loser}.get(target)

    def to_dict(self) -> dict[str, Any]:
        """The point as plain data, for JSON."""
        return {
            "mechanism": self.mechanism.describe(),
            "epsilon": self.epsilon,
            "postprocess": self.postprocess,
            "task": self.task,
            "method": self.method,
            "accuracy": self.alpha.kind,
            "unit": self.unit,
            "alpha": self.alpha.to_dict(),
            "alpha_pair": list(self.alpha_pair),
            "total_off": None if self.total_off is None else self.total_off.to_dict(),
            "largest_loss": self.loss.to_dict() | {"id": self.loser},
            "largest_relative_loss": self.relative_loss.to_dict() | {"id": self.relative_loser},
            "cost_of_privacy": None if self.cost is None else self.cost.to_dict(),
            "rmse": self.rmse.to_dict(),
            "relative_rmse": None if self.relative_rmse is None else self.relative_rmse.to_dict(),
            "zero": self.zero.to_dict(),
            "note": self.note,
            "names": dict(self.names),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Point:
        """The inverse of `to_dict`."""
        with one_line("a point of a curve"):
            cost, (most, least) = data["cost_of_privacy"], data["alpha_pair"]
            return cls(
                mechanism=mechanism_from(data["mechanism"]),
                alpha=Estimate.from_dict(data["alpha"]),
                total_off=None if data.get("total_off") is None else Estimate.from_dict(data["total_off"]),
                alpha_pair=(most, least),
                cost=None if cost is None else CostOfPrivacy.from_dict(cost),
                loss=Estimate.from_dict(data["largest_loss"]),
                loser=data["largest_loss"]["id"],
                relative_loss=Estimate.from_dict(data["largest_relative_loss"]),
                relative_loser=data["largest_relative_loss"]["id"],
                rmse=Estimate.from_dict(data["rmse"]),
                relative_rmse=None if data.get("relative_rmse") is None else Estimate.from_dict(data["relative_rmse"]),
                zero=Estimate.from_dict(data["zero"]),
                **{k: data[k] for k in PLAIN},
            )


@dataclass(frozen=True)
class Refused:
    """A level of noise at which the engine could not deliver, and why."""

    mechanism: Mechanism
    epsilon: float | None
    postprocess: str
    reason: str

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {
            "mechanism": self.mechanism.describe(),
            "epsilon": self.epsilon,
            "postprocess": self.postprocess,
            "reason": self.reason,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Refused:
        """The inverse of `to_dict`."""
        with one_line("a refusal"):
            return cls(mechanism_from(data["mechanism"]), data["epsilon"], data["postprocess"], data["reason"])


ENDS = (("", "value"), ("_low", "low"), ("_high", "high"))


def curve_columns(points: Sequence[Point], mark: str = CONFIDENTIAL) -> Columns:
    """One row per point; alpha, losses and rmse are in the unit that `unit` says, what is relative in parts of 1."""
    costs = [p.cost for p in points]
    columns: Columns = {
        "postprocess": [p.postprocess for p in points],
        "epsilon": [p.epsilon for p in points],
        "spread": [p.mechanism.spread for p in points],
        "method": [p.method for p in points],
        "unit": [p.unit for p in points],
    }
    quantities: dict[str, list[Estimate] | list[Estimate | None]] = {
        "alpha": [p.alpha for p in points],
        "total_off": [p.total_off for p in points],
        "largest_loss": [p.loss for p in points],
        "largest_relative_loss": [p.relative_loss for p in points],
        "rmse": [p.rmse for p in points],
        "relative_rmse": [p.relative_rmse for p in points],
    }
    for name, found in quantities.items():
        columns |= {f"{name}{end}": [None if e is None else _number(getattr(e, k)) for e in found] for end, k in ENDS}
    return columns | {
        "loses_most": [p.loser for p in points],
        "loses_most_relatively": [p.relative_loser for p in points],
        "cost_share": [None if c is None else c.share.value for c in costs],
        "cost_amount": [None if c is None or c.amount is None else c.amount.value for c in costs],
        "zero": [p.zero.value for p in points],
        "confidential": [reason(mark)] * len(points),
    }


def _number(value: float) -> float | None:
    """An end that nobody knows is an empty field."""
    return value if value < float("inf") else None


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
