"""The numbers of an audit over all its entities, and one post-processing at one level of noise: what curves and plans are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from fairpost import fairness
from fairpost.accuracy import Estimate
from fairpost.noise import Mechanism
from fairpost.results import documents
from fairpost.results.base import CONFIDENTIAL, Columns, Grid, label, number, reason
from fairpost.results.documents import estimate, made, told
from fairpost.results.targets import NONE, Outcome, Targets, Verdict, together

if TYPE_CHECKING:
    from fairpost.results.audit import Audit


@dataclass(frozen=True)
class CostOfPrivacy:
    """Definition 5: what must be added to the budget so that nobody expects less than their due."""

    share: Estimate
    """As a share of the budget."""
    amount: Estimate | None
    """In money, where a budget was given."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON: the values, and the intervals around them."""
        share, amount = self.share, self.amount
        value = None if amount is None else amount.value
        return told(
            documents.CostOfPrivacy, share=share.value, amount=value, share_interval=share, amount_interval=amount
        )

    @classmethod
    def told(cls, data: documents.CostOfPrivacy | None) -> CostOfPrivacy | None:
        """The inverse of `to_dict`."""
        return None if data is None else cls(data.share_interval.estimate, estimate(data.amount_interval))

    def __str__(self) -> str:
        """The share of the budget, and the money where there is some."""
        amount = "" if self.amount is None else f" = {number(self.amount.value)}"
        return f"{number(100 * self.share.value)} % of the budget{amount} ({self.share.kind})"


def attained(found: Estimate, who: str | None) -> dict[str, Any]:
    """A number in JSON, with the id of the entity that attains it."""
    return found.to_dict() | {"id": who}


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

    targets: Targets = NONE
    """What must not be exceeded."""

    @classmethod
    def of(cls, result: Audit, epsilon: float | None = None) -> Point:
        """The point of one result."""
        r, (loss, loser), (relative, due) = result, result.loc.largest_loss, result.loc.largest_relative_loss
        said = dict.fromkeys(i for i in (*r.alpha_pair, loser, due) if i is not None)
        per = 1.0 if r.money is None or r.budget is None else r.budget
        rmse = r.moments.rmse
        return cls(
            mechanism=r.mechanism,
            epsilon=epsilon,
            postprocess=r.postprocess,
            task=r.problem.task,
            method=r.method,
            unit=r.problem.measured_in(r.budget),
            alpha=r.alpha.scaled(per),
            alpha_pair=r.alpha_pair,
            total_off=r.loc.total_off.scaled(per),
            cost=r.cost_of_privacy,
            loss=loss.scaled(per),
            loser=loser,
            relative_loss=relative,
            relative_loser=due,
            rmse=rmse.scaled(per),
            relative_rmse=fairness.relative_estimate(rmse, float(np.mean(r.truth)), r.counts.n),
            zero=r.moments.mean_zero,
            note=r.engine.note,
            names={i: name for i in said if (name := r.loc.name(i)) != i},
            targets=r.targets,
        )

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """Whether each of `targets` is met, with what was reached."""
        return self.targets.judge(self)

    @property
    def outcome(self) -> Outcome | None:
        """All targets together: passes, fails or unsure; None without targets."""
        return together(v.outcome for v in self.verdicts) if self.targets else None

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
        return told(
            documents.Point,
            self,
            accuracy=self.alpha.kind,
            loss=attained(self.loss, self.loser),
            relative_loss=attained(self.relative_loss, self.relative_loser),
        )

    @classmethod
    def told(cls, data: documents.Point) -> Point:
        """The inverse of `to_dict`."""
        loss, relative = data.loss, data.relative_loss
        return made(cls, data, cost=CostOfPrivacy.told(data.cost), loser=loss.id, relative_loser=relative.id)


@dataclass(frozen=True)
class Refused:
    """A level of noise at which the engine could not deliver, and why."""

    mechanism: Mechanism
    epsilon: float | None
    postprocess: str
    reason: str

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return told(documents.Refused, self)

    @classmethod
    def told(cls, data: documents.Refused) -> Refused:
        """The inverse of `to_dict`."""
        return made(cls, data)


ENDS = (("", "value"), ("_low", "low"), ("_high", "high"))


def curve_columns(points: Sequence[Point], mark: str = CONFIDENTIAL) -> Columns:
    """One row per point; alpha, losses and rmse are in the unit that `unit` says, what is relative in parts of 1."""
    costs = [p.cost for p in points]
    columns: Columns = {
        "rule": [p.postprocess for p in points],
        "epsilon": [p.epsilon for p in points],
        "scale": [p.mechanism.spread for p in points],
        "engine": [p.method for p in points],
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
        "cost_money": [None if c is None or c.amount is None else c.amount.value for c in costs],
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
