"""How well a number is known, and in which sense.

bound       the error is at most half_width: proved, from rounding, from identities, from tails
estimate    the error is about half_width: what the last refinement of an integral changed, with a margin
expansion   the error is about half_width: the size of the first term that an expansion leaves out
interval    the error is at most half_width with a stated confidence: from simulation
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fairpost.errors import ParameterError

Floats = NDArray[np.float64]
Kind = Literal["bound", "estimate", "expansion", "interval"]
KINDS: tuple[Kind, ...] = ("bound", "estimate", "expansion", "interval")
"""From the strongest sense to the weakest."""


def _known(kind: Kind) -> None:
    if kind not in KINDS:
        raise ParameterError(f"an accuracy must be one of {', '.join(KINDS)}, got {kind!r}")


def weakest(*kinds: Kind) -> Kind:
    """The sense in which numbers of several kinds are known together."""
    return max(kinds, key=KINDS.index)


@dataclass(frozen=True, eq=False)
class Accuracy:
    """How well each entry of a vector is known."""

    kind: Kind
    half_width: Floats
    """Every value lies within value +- half_width, in the sense of `kind`; an interval covers all of them together."""

    def __post_init__(self) -> None:
        _known(self.kind)

    def at(self, places: Any) -> Accuracy:
        """The accuracy of some entries, or of entries repeated."""
        return Accuracy(self.kind, np.asarray(self.half_width[places]))

    def scaled(self, factor: float | Floats) -> Accuracy:
        """The accuracy in another unit (factor >= 0); what is 0 in it is known, also where nothing was."""
        return Accuracy(self.kind, np.where(np.asarray(factor) > 0, self.half_width, 0.0) * factor)


@dataclass(frozen=True)
class Estimate:
    """A number with an interval around it that contains the true value, in the sense of `kind`."""

    value: float
    low: float
    high: float
    kind: Kind = "bound"

    def __post_init__(self) -> None:
        _known(self.kind)
        if not self.low <= self.value <= self.high:
            raise ParameterError(f"an interval must contain its value, got {self.low}, {self.value}, {self.high}")

    @classmethod
    def around(cls, value: float, half_width: float, kind: Kind = "bound") -> Estimate:
        """value +- half_width."""
        return cls(value, value - half_width, value + half_width, kind)

    @property
    def half_width(self) -> float:
        """The larger distance from the value to an end."""
        return max(self.high - self.value, self.value - self.low)

    def scaled(self, factor: float) -> Estimate:
        """The estimate in another unit (factor >= 0)."""
        return Estimate(self.value * factor, self.low * factor, self.high * factor, self.kind)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON, which has no infinity: None for an upper end that nobody knows."""
        high = None if self.high == math.inf else self.high
        return {"value": self.value, "low": self.low, "high": high, "accuracy": self.kind}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Estimate:
        """The inverse of `to_dict`."""
        high = math.inf if data["high"] is None else data["high"]
        return cls(data["value"], data["low"], high, data["accuracy"])
