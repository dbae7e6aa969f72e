"""From results to JSON: the entry of one audit, and the counts that all entries of a document share."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fairpost.counts import Counts
from fairpost.partition import Partition

if TYPE_CHECKING:
    from fairpost.results.audit import Audit

Floats = NDArray[np.float64]


def audit_entry(r: Audit, *, entities: bool) -> dict[str, Any]:
    """One entry of `results`."""
    cost = r.cost_of_privacy
    out: dict[str, Any] = {
        "postprocess": r.postprocess,
        "title": r.title,
        "signed": r.signed,
        "problem": r.problem.name,
        "task": r.task,
        "by_group": r.grouped,
        "group_budgets": None if r.budgets is None else r.budgets.to_dict(),
        "method": r.method,
        "accuracy": r.accuracy.kind,
        "accuracies": {
            "bias": r.accuracy.kind,
            "mean_squared_error": r.mse_accuracy.kind,
            "zero": r.zero_accuracy.kind,
        },
        "runs": r.runs,
        "seed": r.seed,
        "confidence": r.confidence,
        "interrupted": r.interrupted,
        "alpha": r.alpha.to_dict(),
        "alpha_pair": list(r.alpha_pair),
        "bounds": None if r.bounds is None else asdict(r.bounds),
        "cost_of_privacy": None if cost is None else cost.to_dict(),
        "wrong": r.wrong,
        "price": r.price,
        "expected_T": None if r.expected_T is None else r.expected_T.to_dict(),
        "degenerate": r.degenerate,
        "variance_reduction": r.variance_reduction,
        "note": r.note,
        "groups": _groups(r),
        "mark": r.mark,
    }
    return out | ({"entities": _entities(r)} if entities else {})


def _groups(r: Audit) -> list[dict[str, Any]] | None:
    """What each group gains as a whole; the mean squared error is per entity, as everywhere.

    All biases lie in their intervals together, so their sum lies within the sum of the half-widths.
    """
    if r.counts.groups is None:
        return None
    parts = Partition.of(r.counts.groups)
    columns = {
        "group": list(parts.labels),
        "n": parts.sizes.tolist(),
        "bias": parts.sums(parts.gather(r.bias)).tolist(),
        "half_width": parts.sums(parts.gather(r.half_width)).tolist(),
        "root_mean_squared_error": np.sqrt(parts.sums(parts.gather(r.mse)) / parts.sizes).tolist(),
    }
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _entities(r: Audit) -> list[dict[str, Any]]:
    columns: dict[str, Any] = {
        "id": list(r.counts.ids),
        "due": r.truth.tolist(),
        "bias": r.bias.tolist(),
        "half_width": r.half_width.tolist(),
        "accuracy": [r.accuracy.kind] * r.counts.n,
        "standard_error": [None] * r.counts.n if r.standard_error is None else r.standard_error.tolist(),
        "standard_deviation": r.deviation.tolist(),
        "mean_squared_error": r.mse.tolist(),
        "mean_squared_error_half_width": _finite(r.mse_accuracy.half_width),
        "zero": r.zero.tolist(),
        "zero_half_width": _finite(r.zero_accuracy.half_width),
    }
    if r.wrong_chance is not None:
        columns["wrong"] = r.wrong_chance.tolist()
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _finite(values: Floats) -> list[float | None]:
    """JSON has no infinity: None where nothing is known."""
    return [v if np.isfinite(v) else None for v in values.tolist()]


def counts_data(counts: Counts) -> list[dict[str, Any]]:
    """x with all that belongs to it; `reading.counts_from` is the inverse."""
    columns: dict[str, Any] = {
        "id": list(counts.ids),
        "count": counts.values.tolist(),
        "weight": counts.weights.tolist(),
        "group": counts.groups,
        "name": counts.names,
        "base": None if counts.base is None else counts.base.tolist(),
    }
    columns = {name: values for name, values in columns.items() if values is not None}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
