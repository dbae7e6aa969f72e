"""What `sweep` and `plan` return: the quantities of an audit against the noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fairpost.accuracy import Estimate
from fairpost.errors import ParameterError
from fairpost.noise import Mechanism
from fairpost.results.audit import Audit
from fairpost.results.base import CONFIDENTIAL, Columns, Grid, Result, known, label, noise_words, number
from fairpost.results.columns import reason
from fairpost.results.cost import CostOfPrivacy
from fairpost.results.figures import Series, drawn
from fairpost.results.reading import mechanism_from, one_line

if TYPE_CHECKING:
    import plotly.graph_objects as go

TARGETS = {"alpha": "alpha", "loss": "the largest expected loss", "cost": "the cost of privacy"}
"""What a curve shows and a plan limits, in words."""


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
            "task": self.task,
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

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Point:
        """The inverse of `to_dict`."""
        with one_line("a point of a curve"):
            cost, (most, least) = data["cost_of_privacy"], data["alpha_pair"]
            return cls(
                mechanism=mechanism_from(data["mechanism"]),
                alpha=Estimate.from_dict(data["alpha"]),
                alpha_pair=(most, least),
                cost=None if cost is None else CostOfPrivacy.from_dict(cost),
                loss=Estimate.from_dict(data["largest_loss"]),
                loser=data["largest_loss"]["id"],
                **{k: data[k] for k in ("epsilon", "postprocess", "task", "method", "rmse", "zero", "note")},
            )

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


@dataclass(frozen=True, repr=False)
class Curve(Result):
    """The harm against the noise: what a sweep found, and where the engine refused."""

    points: tuple[Point, ...]
    refused: tuple[Refused, ...]
    mark: str = CONFIDENTIAL

    def columns(self) -> Columns:
        """One row per point: the table of `--csv`."""
        return curve_columns(self.points, self.mark)

    def to_dict(self) -> dict[str, Any]:
        """`points` and `refused` in the JSON of `fairpost sweep`."""
        return {"points": [p.to_dict() for p in self.points], "refused": [r.to_dict() for r in self.refused]}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Curve:
        """The inverse of `to_dict`; a whole document of `fairpost sweep` will do."""
        with one_line("this sweep"):
            points = tuple(Point.from_dict(p) for p in data["points"])
            return cls(points, tuple(Refused.from_dict(r) for r in data["refused"]))

    def plot(self, quantity: str = "alpha") -> go.Figure:
        """The quantity (alpha, loss or cost) against epsilon, or against the noise where epsilon is not known."""
        return _figure(f"{self._head()}; {self.mark}", quantity, self.points, None)

    def _head(self) -> str:
        rules = dict.fromkeys(p.postprocess for p in self.points)
        return f"Curve of {', '.join(rules) or 'nothing'}: {len(self.points):,} points, {len(self.refused):,} refused"

    def _facts(self) -> list[tuple[str, str]]:
        return [("refused", f"{r.postprocess} at {r.mechanism.spread:g}: {r.reason}") for r in self.refused[:2]]

    def _grid(self) -> Grid:
        return _grid(self.points)


@dataclass(frozen=True, repr=False)
class Plan(Result):
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
    mark: str = CONFIDENTIAL

    @property
    def postprocess(self) -> str:
        """The name of pi."""
        return self.curve[0].postprocess if self.curve else self.refused[0].postprocess

    def columns(self) -> Columns:
        """One row per point of the curve: the table of `--csv`."""
        return curve_columns(self.curve, self.mark)

    def to_dict(self) -> dict[str, Any]:
        """The entry of `plans` in the JSON of `fairpost plan`."""
        return {
            "postprocess": self.postprocess,
            "found": None if self.found is None else self.found.to_dict(),
            "message": self.message,
            "plain": self.plain,
            "curve": [p.to_dict() for p in self.curve],
            "refused": [r.to_dict() for r in self.refused],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], target: str, limit: float) -> Plan:
        """The inverse of `to_dict`; the document has target and limit once, for all plans."""
        with one_line("this plan"):
            return cls(
                target=target,
                limit=limit,
                found=None if data["found"] is None else Point.from_dict(data["found"]),
                curve=tuple(Point.from_dict(p) for p in data["curve"]),
                refused=tuple(Refused.from_dict(r) for r in data["refused"]),
                message=data["message"],
                plain=data["plain"],
            )

    def plot(self) -> go.Figure:
        """The target against epsilon (or the noise), with its limit."""
        return _figure(f"{self._head()}; {self.mark}", self.target, self.curve, self.limit)

    def _head(self) -> str:
        return f"Plan for {self.postprocess}: {TARGETS[self.target]} at most {number(self.limit)}"

    def _facts(self) -> list[tuple[str, str]]:
        facts = [("answer", self.message)]
        if self.found is not None:
            p, reached = self.found, self.found.quantity(self.target)
            epsilon = "" if p.epsilon is None else f", epsilon {number(p.epsilon)}"
            facts.append(("most noise", f"{noise_words(p.mechanism)}{epsilon}"))
            if reached is not None:
                facts.append(("reached", known(reached)))
            facts.append(("loses most", f"{label(p.loser)} {number(-p.loss.value)}"))
        return facts

    def _grid(self) -> Grid:
        return _grid(self.curve)


def curve_columns(points: Sequence[Point], mark: str = CONFIDENTIAL) -> Columns:
    """One row per point."""
    costs = [p.cost for p in points]
    columns: Columns = {
        "postprocess": [p.postprocess for p in points],
        "epsilon": [p.epsilon for p in points],
        "spread": [p.mechanism.spread for p in points],
        "method": [p.method for p in points],
    }
    for name, found in (("alpha", [p.alpha for p in points]), ("largest_loss", [p.loss for p in points])):
        columns |= {f"{name}{end}": [getattr(e, k) for e in found] for end, k in ENDS}
    return columns | {
        "loses_most": [p.loser for p in points],
        "cost_share": [None if c is None else c.share.value for c in costs],
        "cost_amount": [None if c is None or c.amount is None else c.amount.value for c in costs],
        "rmse": [p.rmse for p in points],
        "zero": [p.zero for p in points],
        "confidential": [reason(mark)] * len(points),
    }


ENDS = (("", "value"), ("_low", "low"), ("_high", "high"))


def _grid(points: Sequence[Point]) -> Grid:
    heads = ("post-processing", "epsilon", "noise", "alpha", "largest loss", "of", "by")
    return heads, [
        (
            p.postprocess,
            "-" if p.epsilon is None else f"{p.epsilon:.4g}",
            f"{p.mechanism.spread:.4g}",
            number(p.alpha.value),
            number(p.loss.value),
            label(p.loser)[:14],
            p.method,
        )
        for p in points
    ]


def _figure(title: str, quantity: str, points: Sequence[Point], limit: float | None) -> go.Figure:
    if quantity not in TARGETS:
        raise ParameterError(f"`quantity` must be one of {', '.join(TARGETS)}, got {quantity!r}")
    promised = bool(points) and all(p.epsilon is not None for p in points)
    series = []
    for name in dict.fromkeys(p.postprocess for p in points):
        some = [(p, p.quantity(quantity)) for p in points if p.postprocess == name]
        shown = [(p, e) for p, e in some if e is not None]
        x = [p.epsilon if promised else p.mechanism.spread for p, _ in shown]
        found = [e for _, e in shown]
        labels = [f"{name}, {noise_words(p.mechanism)}" for p, _ in shown]
        ends = [[getattr(e, k) for e in found] for k in ("value", "low", "high")]
        series.append(Series(name, x, ends[0], labels, ends[1], ends[2], joined=True))  # type: ignore[arg-type]
    return drawn(title, "epsilon" if promised else "noise", TARGETS[quantity], series, limit=limit)
