"""Targets: what a post-processing must not exceed, and whether it does.

A quantity is known to lie between `low` and `high`. With a limit L it

    passes  where high <= L: whatever the true value is, it is within the limit,
    fails   where low > L,
    unsure  otherwise: the limit lies inside the interval, and a sharper method or more runs would tell.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Protocol

from fairpost.accuracy import Estimate
from fairpost.errors import ParameterError
from fairpost.fields import Part, said

Outcome = Literal["passes", "fails", "unsure"]
TARGETS = {
    "alpha": "alpha",
    "loss": "the largest expected loss",
    "relative_loss": "the largest loss relative to what is due",
    "cost": "the cost of privacy",
    "rmse": "the root mean squared error",
    "relative_rmse": "the root mean squared error relative to the mean of what is due",
}
"""What can be limited, in words."""
NEEDS = {"cost": "allocations", "relative_rmse": "entities that are due something"}
"""What has to be there for a quantity to have a meaning."""
USUAL_ERROR = 30.0
"""The limit on the error of a plan that was given none, in percent of the mean of what is due.

Every bias can be kept small by noise that drowns the counts, so limits on biases alone say nothing about use. Statistical
offices mark an estimate as unreliable where its standard error is above some 30 % of it (the rule of the National Center for
Health Statistics); here the error is that of a typical entity, and what it is set against is the mean.
"""
PERCENT = "percent"
UNITS = {PERCENT: " %"}
"""What stands behind a number that was reached, where its unit needs saying."""


class Measured(Protocol):
    """Something with quantities that can be limited: an audit, or a point of a curve."""

    @property
    def postprocess(self) -> str:
        """The name of pi."""

    @property
    def unit(self) -> str:
        """What the quantities are in: people, share, money, ..."""

    def quantity(self, target: str) -> Estimate | None:
        """One of TARGETS in the unit of its limit; None where it has no meaning."""

    def whose(self, target: str) -> str | None:
        """The id of the entity that attains it, where one does."""


@dataclass(frozen=True)
class Verdict:
    """Whether one quantity of one post-processing keeps to its limit."""

    target: str
    limit: float
    unit: str
    """Of the limit and of what was reached: people, share, money, percent (of what is due), ..."""
    reached: Estimate
    who: str | None
    """The id of the entity that attains it, where one does."""

    @property
    def outcome(self) -> Outcome:
        """See the head of this module."""
        if self.reached.high <= self.limit:
            return "passes"
        return "fails" if self.reached.low > self.limit else "unsure"

    @property
    def excess(self) -> float:
        """How far the upper end is above the limit, in parts of the limit."""
        return (self.reached.high - self.limit) / self.limit

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {
            "target": self.target,
            "limit": self.limit,
            "unit": self.unit,
            "outcome": self.outcome,
            "reached": self.reached.to_dict(),
            "id": self.who,
        }


def together(outcomes: Iterable[Outcome]) -> Outcome:
    """All must hold: one that fails fails all, else one that is unsure leaves all unsure."""
    found = set(outcomes)
    return "fails" if "fails" in found else "unsure" if "unsure" in found else "passes"


class Targets(Part, frozen=True, kw_only=True):
    """Limits that must all hold. Money where there is a budget, else the unit of the output (counts, or shares of 1)."""

    max_alpha: Annotated[
        float | None, said("Target: alpha at most this; in money with a budget, else in counts or shares.", above=0)
    ] = None
    """On the largest difference between two entities' biases."""
    max_loss: Annotated[float | None, said("Target: no entity expects to lose more; in the same unit.", above=0)] = None
    """On what any entity expects to lose."""
    max_relative_loss: Annotated[
        float | None,
        said(
            "Target: no entity expects to lose more than so many percent of what it is due.", metavar="PERCENT", above=0
        ),
    ] = None
    """On the same in percent of what the entity is due: 2.5 is 2.5 %."""
    max_cost: Annotated[
        float | None, said("Target: cost of privacy at most this; in money, else a share.", above=0)
    ] = None
    """On the cost of privacy, for allocations; in money with a budget, else as a share of it."""
    max_rmse: Annotated[
        float | None, said("Target: root mean squared error per entity; in the unit of alpha.", above=0)
    ] = None
    """On the root mean squared error per entity."""
    max_relative_rmse: Annotated[
        float | None, said("Target: the same in percent of the mean of what is due.", metavar="PERCENT", above=0)
    ] = None
    """On the same in percent of the mean of what is due: 30 is 30 %."""

    def __bool__(self) -> bool:
        return bool(self.to_dict())

    @property
    def limits(self) -> dict[str, float]:
        """The limits that were given, by what they limit."""
        return {name.removeprefix("max_"): float(limit) for name, limit in self.to_dict().items()}

    @property
    def limits_error(self) -> bool:
        """Whether the error is limited, not the biases alone."""
        return self.max_rmse is not None or self.max_relative_rmse is not None

    def to_dict(self) -> dict[str, Any]:
        """The limits that were given, by their names: plain data, for JSON and for `Targets(**data)`."""
        return {name: getattr(self, name) for name in LIMITS if getattr(self, name) is not None}

    @classmethod
    def of(cls, given: Targets | Mapping[str, float] | None) -> Targets:
        """Targets as they are, from a mapping, or none."""
        if isinstance(given, Targets):
            return given
        for name in given or {}:
            if name not in LIMITS:
                raise ParameterError(f"a target must be one of {', '.join(sorted(LIMITS))}, got {name!r}")
        return cls(**(given or {}))

    def refuse_mixed(self, units: Sequence[tuple[str, str]]) -> None:
        """An error where one limit would mean two things; `units` as in `one_unit`."""
        for target in self.limits:
            one_unit([(rule, unit_of(target, unit)) for rule, unit in units], f"the limit `max_{target}`")

    def judge(self, found: Measured) -> tuple[Verdict, ...]:
        """A verdict for every limit that was given."""
        return tuple(self._one(found, target, limit) for target, limit in self.limits.items())

    def _one(self, found: Measured, target: str, limit: float) -> Verdict:
        reached = found.quantity(target)
        if reached is None:
            raise ParameterError(
                f"{TARGETS[target]} is for {NEEDS[target]}, got the limit `max_{target}` and the post-processing {found.postprocess}"
            )
        return Verdict(target, limit, unit_of(target, found.unit), reached, found.whose(target))

    def excess(self, found: Measured) -> float:
        """How far above its limit the worst quantity is, in parts of the limit: at most 0 where all targets are met."""
        return max(v.excess for v in self.judge(found))

    def binding(self, found: Measured) -> str:
        """The target that is nearest to its limit (or farthest above it)."""
        return max(self.judge(found), key=lambda v: v.excess).target


def unit_of(target: str, unit: str) -> str:
    """The unit of a limit, where quantities are in `unit`."""
    return PERCENT if target.startswith("relative_") else unit


def one_unit(units: Iterable[tuple[str, str]], what: str) -> None:
    """An error where the rules, each with what it is measured in, are not all measured in the same.

    Dollars are not compared with people: neither a limit nor a chart has a meaning for both.
    """
    rules: dict[str, list[str]] = {}
    for rule, unit in units:
        rules.setdefault(unit, []).append(rule)
    if len(rules) > 1:
        found = " and ".join(f"{', '.join(dict.fromkeys(some))} in {unit}" for unit, some in rules.items())
        raise ParameterError(f"{what} must be in one unit, got {found}: ask for them apart")


LIMITS = tuple(f"max_{name}" for name in TARGETS)
"""What can be limited, by the names of the limits."""
NONE = Targets()
"""No limits."""
