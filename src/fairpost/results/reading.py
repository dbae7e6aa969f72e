"""From JSON back to results: the pieces of a document of `fairpost audit`, and one line where something is missing."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fairpost.accuracy import Accuracy, Estimate
from fairpost.bounds.theorems import Bounds
from fairpost.budgets import GroupBudgets
from fairpost.counts import Counts
from fairpost.errors import FairpostError, InputError, UnsupportedError
from fairpost.noise import MECHANISMS, Mechanism, Neighbours, Stream
from fairpost.partition import Partition
from fairpost.problems import Problem, Proportional, Release
from fairpost.problems.base import Unit

Floats = NDArray[np.float64]
Data = Mapping[str, Any]
PROMISE = ("epsilon", "delta", "rho", "sensitivity")


@dataclass(frozen=True)
class Described(Mechanism):
    """Noise of somebody's own, as a document describes it: it can be shown, not drawn."""

    name: str = ""  # type: ignore[misc]
    parameter: str = "deviation"  # type: ignore[misc]
    value: float = 0.0
    told_variance: float = 0.0

    @property
    def variance(self) -> float:
        """As the document says."""
        return self.told_variance

    @property
    def spread(self) -> float:
        """As the document says."""
        return self.value

    def sample(self, n: int, stream: Stream) -> Floats:
        """Nobody knows how."""
        raise UnsupportedError(f"the noise {self.name!r} was read from a document, which has no sampler")


@dataclass(frozen=True, eq=False)
class Recorded(Problem):
    """A problem of somebody's own, as a document describes it: what each entity is due."""

    due: Floats
    name: str  # type: ignore[misc]
    task: Literal["release", "allocation"]  # type: ignore[misc]
    unit: Unit  # type: ignore[misc]
    column: str  # type: ignore[misc]
    words: str  # type: ignore[misc]
    decides: bool = False  # type: ignore[misc]

    def truth(self, counts: Counts) -> Floats:
        """As the document says."""
        return self.due


@contextmanager
def one_line(what: str) -> Iterator[None]:
    """Whatever a document lacks becomes one line."""
    try:
        yield
    except FairpostError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        missing = f"it has no {error}" if isinstance(error, KeyError) else " ".join(str(error).split())[:120]
        raise InputError(f"{what} cannot be read back: {missing}") from None


def mechanism_from(data: Data) -> Mechanism:
    """The mechanism of `describe`; one that is not ours can be shown only."""
    name = str(data["name"])
    if name in MECHANISMS:
        return MECHANISMS[name](data[MECHANISMS[name].parameter])  # type: ignore[call-arg]
    own = [key for key in data if key not in ("name", "variance", *PROMISE)] or ["variance"]
    return Described(name, own[0], float(data[own[0]]), float(data["variance"]))


def neighbours_from(data: Data) -> Neighbours:
    """What the promise was about; a pure promise has delta 0, which is none."""
    return Neighbours(data["sensitivity"], data["delta"] or None)


def counts_from(entities: Sequence[Data]) -> Counts:
    """x with all that belongs to it."""

    def column(name: str) -> list[Any] | None:
        return [e[name] for e in entities] if entities and name in entities[0] else None

    return Counts(
        [e["count"] for e in entities],
        ids=[e["id"] for e in entities],
        weights=[e["weight"] for e in entities],
        groups=column("group"),
        names=column("name"),
        base=column("base"),
        kept={name: [e["kept"][name] for e in entities] for name in (entities[0].get("kept") or {})},
    )


def problem_from(data: Data, counts: Counts, truth: Floats) -> Problem:
    """P of one entry of `results`."""
    parts = None if not data["by_group"] or counts.groups is None else Partition.of(counts.groups)
    if data["problem"] == Release.name:
        return Release()
    if data["problem"] == Proportional.name:
        return Proportional(counts.weights, parts)
    like: type[Problem] = Proportional if data["task"] == "allocation" else Release
    decides = data.get("wrong") is not None
    return Recorded(truth, data["problem"], like.task, like.unit, like.column, data["problem"], decides)


def budgets_from(data: Data | None, counts: Counts) -> GroupBudgets | None:
    """Each group's part of the budget."""
    if data is None or counts.groups is None:
        return None
    amounts = {str(group): float(amount) for group, amount in data["amounts"].items()}
    total = sum(amounts.values())
    return GroupBudgets(amounts, np.array([amounts[g] / total for g in counts.groups]), data["rule"])


def bounds_from(data: Data | None) -> Bounds | None:
    """The inverse of `asdict` for bounds."""
    return None if data is None else Bounds(**{f.name: data[f.name] for f in fields(Bounds)})


def audit_fields(data: Data, counts: Counts, mechanism: Mechanism, budget: float | None) -> dict[str, Any]:
    """The arguments of `Audit` from one entry of `results` with entities."""
    rows = data["entities"]
    if [row["id"] for row in rows] != list(counts.ids):
        raise InputError("the entities of a result must be those of the counts, in their order, got others")

    def vector(name: str) -> Floats:
        return np.array([math.inf if row[name] is None else row[name] for row in rows], dtype=np.float64)

    kinds, truth = data["accuracies"], vector("due")
    off = data.get("total_off")
    drawn = any(row["standard_error"] is not None for row in rows)
    most, least = data["alpha_pair"]
    expected = data["expected_T"]
    return {
        "counts": counts,
        "mechanism": mechanism,
        "problem": problem_from(data, counts, truth),
        "truth": truth,
        "bias": vector("bias"),
        "accuracy": Accuracy(data["accuracy"], vector("half_width")),
        "mse": vector("mean_squared_error"),
        "mse_accuracy": Accuracy(kinds["mean_squared_error"], vector("mean_squared_error_half_width")),
        "zero": vector("zero"),
        "zero_accuracy": Accuracy(kinds["zero"], vector("zero_half_width")),
        "alpha": Estimate.from_dict(data["alpha"]),
        "alpha_pair": (most, least),
        "kept": None if off is None or off["kept"] is None else tuple(off["kept"]),
        "drawn_total": Estimate.from_dict(off) if off is not None and off["accuracy"] == "interval" else None,
        "bounds": bounds_from(data["bounds"]),
        "expected_T": None if expected is None else Estimate.from_dict(expected),
        "base_noise": None if data.get("base_noise") is None else mechanism_from(data["base_noise"]),
        "grouped": data["by_group"],
        "budget": budget,
        "budgets": budgets_from(data["group_budgets"], counts),
        "standard_error": vector("standard_error") if drawn else None,
    } | {name: data[name] for name in PLAIN}


PLAIN = (
    "postprocess", "method", "degenerate", "title", "signed", "runs", "seed", "confidence", "variance_reduction",
    "interrupted", "note", "mark",
)  # fmt: skip
"""Fields of an audit that stand in its entry as they are."""
