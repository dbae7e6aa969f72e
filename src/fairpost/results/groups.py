"""What each group gains or loses as a whole: sums of biases, and who in it loses most.

What a rule keeps for each group is known by construction. Else all biases lie in their intervals together (bounds and
simultaneous intervals alike), so the sum over a group lies within the sum of the half-widths (and what its own rounding adds), and
alpha inside a group within the range of its own intervals. What a group is due is the sum of what its entities are due.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fairpost import fairness
from fairpost.accuracy import Estimate
from fairpost.partition import Partition
from fairpost.results.base import Columns

if TYPE_CHECKING:
    from fairpost.results.audit import Audit
    from fairpost.results.measures import Measures

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class GroupOutcome:
    """One group under one post-processing, in the unit of the bias (counts, or shares of the budget)."""

    group: str
    n: int
    """How many entities it has."""
    due: float
    """The sum of what they are due."""
    bias: Estimate
    """What the group as a whole gains in expectation: by how much its total is off."""
    relative: Estimate | None
    """The same relative to `due`; None where nothing is due."""
    alpha: Estimate
    """The largest difference between the biases of two of its entities."""
    worst: str
    """The id of the entity of this group with the smallest bias."""
    worst_bias: Estimate
    worst_relative: Estimate | None
    """Relative to what this entity is due; None where nothing is."""
    rmse: Estimate
    """The root mean squared error per entity of this group."""

    def to_dict(self) -> dict[str, Any]:
        """The entry of `groups` in the JSON of an audit."""
        return {
            "group": self.group,
            "n": self.n,
            "due": self.due,
            "bias": self.bias.value,
            "half_width": self.bias.half_width,
            "relative_bias": None if self.relative is None else self.relative.value,
            "relative_half_width": None if self.relative is None else self.relative.half_width,
            "alpha": self.alpha.to_dict(),
            "worst": self.worst_bias.to_dict()
            | {
                "id": self.worst,
                "relative_bias": None if self.worst_relative is None else self.worst_relative.to_dict(),
            },
            "root_mean_squared_error": self.rmse.value,
            "root_mean_squared_error_interval": self.rmse.to_dict(),
        }


def group_outcomes(r: Measures) -> tuple[GroupOutcome, ...]:
    """Every group, in order of first appearance; empty where the counts have no groups."""
    if r.counts.groups is None:
        return ()
    parts = Partition.of(r.counts.groups)
    kept = r.kept if r.kept is not None and len(r.kept) == len(parts.labels) else [None] * len(parts.labels)
    return tuple(_outcome(r, label, parts.of_group(g), kept[g]) for g, label in enumerate(parts.labels))


def _outcome(r: Measures, label: str, who: Any, kept: float | None) -> GroupOutcome:
    known, bias, truth = r.accuracy.at(who), r.bias[who], r.truth[who]
    due = float(np.sum(truth))
    total = fairness.sum_interval(bias, known) if kept is None else Estimate.around(kept, 0.0)
    worst = int(who[np.argmin(bias)])
    return GroupOutcome(
        group=label,
        n=int(who.size),
        due=due,
        bias=total,
        relative=fairness.relative_estimate(total, due, r.counts.n + who.size),
        alpha=fairness.alpha_interval(bias, known),
        worst=r.counts.ids[worst],
        worst_bias=r.bias_of(worst),
        worst_relative=r.relative_of(worst),
        rmse=fairness.rmse_interval(r.mse[who], r.mse_accuracy.at(who)),
    )


def group_columns(results: Sequence[Audit], names: Sequence[str]) -> Columns:
    """One row per group, with columns for each post-processing: the table of `--csv-groups`."""
    found = [r.groups for r in results]
    first = found[0]
    columns: Columns = {"group": [g.group for g in first], "n": [g.n for g in first]}
    columns |= {f"{r.problem.column}_sum": [g.due for g in some] for r, some in zip(results, found, strict=True)}
    for r, name, some in zip(results, names, found, strict=True):
        columns |= {f"{name}_{key}": values for key, values in _own(r, some).items() if values is not None}
    return columns


def _own(r: Audit, some: Sequence[GroupOutcome]) -> Columns:
    paid = r.money is not None and r.budget is not None
    return {
        "bias": [g.bias.value for g in some],
        "half_width": [g.bias.half_width for g in some],
        "accuracy": [g.bias.kind for g in some],
        "money": [g.bias.value * (r.budget or 0.0) for g in some] if paid else None,
        "relative_bias": [None if g.relative is None else g.relative.value for g in some],
        "relative_half_width": [None if g.relative is None else g.relative.half_width for g in some],
        "alpha": [g.alpha.value for g in some],
        "alpha_low": [g.alpha.low for g in some],
        "alpha_high": [g.alpha.high for g in some],
        "alpha_accuracy": [g.alpha.kind for g in some],
        "loses_most": [g.worst for g in some],
        "loses_most_name": None if r.counts.names is None else [r.name_of(g.worst) for g in some],
        "loses_most_bias": [g.worst_bias.value for g in some],
        "loses_most_relative_bias": [None if g.worst_relative is None else g.worst_relative.value for g in some],
        "rmse": [g.rmse.value for g in some],
    }
