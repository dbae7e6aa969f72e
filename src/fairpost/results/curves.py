"""What `sweep` and `plan` return: the quantities of an audit against the noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fairpost.accuracy import Estimate
from fairpost.noise import Mechanism
from fairpost.results.audit import Audit, CostOfPrivacy


@dataclass(frozen=True)
class Point:
    """What an audit says at one level of noise, without the vectors."""

    mechanism: Mechanism
    epsilon: float | None
    """What this noise promises, where the caller can say."""
    postprocess: str
    task: str
    method: str
    alpha: Estimate
    alpha_pair: tuple[str, str]
    cost: CostOfPrivacy | None
    loss: Estimate
    """The largest expected loss of any entity: in money with a budget, else in counts or shares. 0: nobody loses."""
    loser: str
    rmse: float
    """sqrt of the mean over entities of the mean squared error, in counts or shares."""
    zero: float
    """The mean over entities of the probability of receiving 0."""
    note: str | None

    @classmethod
    def of(cls, result: Audit, epsilon: float | None = None) -> Point:
        """The point of one result."""
        loss, loser = result.largest_loss
        return cls(
            mechanism=result.mechanism,
            epsilon=epsilon,
            postprocess=result.postprocess,
            task=result.task,
            method=result.method,
            alpha=result.alpha,
            alpha_pair=result.alpha_pair,
            cost=result.cost_of_privacy,
            loss=loss if result.money is None or result.budget is None else loss.scaled(result.budget),
            loser=loser,
            rmse=result.price["root_mean_squared_error"],
            zero=result.price["mean_probability_of_zero"],
            note=result.note,
        )

    def to_dict(self) -> dict[str, Any]:
        """The point as plain data, for JSON."""
        return {
            "mechanism": self.mechanism.describe(),
            "epsilon": self.epsilon,
            "postprocess": self.postprocess,
            "method": self.method,
            "accuracy": self.alpha.kind,
            "alpha": self.alpha.to_dict(),
            "alpha_pair": list(self.alpha_pair),
            "largest_loss": self.loss.to_dict() | {"id": self.loser},
            "cost_of_privacy": None if self.cost is None else self.cost.to_dict(),
            "rmse": self.rmse,
            "zero": self.zero,
            "note": self.note,
        }

    def quantity(self, target: str) -> Estimate | None:
        """alpha, the largest loss or the cost of privacy (in money where it is); None where it has no meaning."""
        if target == "cost":
            return None if self.cost is None else self.cost.amount or self.cost.share
        return self.alpha if target == "alpha" else self.loss


@dataclass(frozen=True)
class Refused:
    """A level of noise at which the engine could not deliver, and why."""

    mechanism: Mechanism
    epsilon: float | None
    postprocess: str
    reason: str


@dataclass(frozen=True)
class Curve:
    """The harm against the noise: what a sweep found, and where the engine refused."""

    points: tuple[Point, ...]
    refused: tuple[Refused, ...]


@dataclass(frozen=True)
class Plan:
    """The most noise that meets a target, with the curve that shows it."""

    target: str
    limit: float
    found: Point | None
    """The point with the most noise; None where no noise in the range meets the target."""
    curve: tuple[Point, ...]
    """From little noise to much."""
    refused: tuple[Refused, ...]
    message: str
    """One sentence."""
    plain: bool
    """Whether the sentence says no more than that the target is met here and not with more noise."""
