"""From results to JSON: the entry of one audit, and the counts that all entries of a document share."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fairpost.accuracy import Estimate
from fairpost.counts import Counts
from fairpost.results.columns import or_none

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
        "base_noise": None if r.base_noise is None else r.base_noise.describe(),
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
        "total_off": r.total_off.to_dict() | {"kept": None if r.kept is None else list(r.kept)},
        "bounds": None if r.bounds is None else asdict(r.bounds),
        "cost_of_privacy": None if cost is None else cost.to_dict(),
        "wrong": r.wrong,
        "price": r.price,
        "rmse": r.rmse.to_dict(),
        "relative_rmse": None if r.relative_rmse is None else r.relative_rmse.to_dict(),
        "largest_loss": _loss(*r.largest_loss, r),
        "largest_relative_loss": _loss(*r.largest_relative_loss, r),
        "outcome": r.outcome,
        "verdicts": [v.to_dict() for v in r.verdicts],
        "expected_T": None if r.expected_T is None else r.expected_T.to_dict(),
        "degenerate": r.degenerate,
        "variance_reduction": r.variance_reduction,
        "note": r.note,
        "groups": None if r.counts.groups is None else [g.to_dict() for g in r.groups],
        "mark": r.mark,
    }
    return out | ({"entities": _entities(r)} if entities else {})


def _loss(found: Estimate, who: str | None, r: Audit) -> dict[str, Any]:
    return found.to_dict() | {"id": who, "name": None if who is None else r.name_of(who)}


def _entities(r: Audit) -> list[dict[str, Any]]:
    columns: dict[str, Any] = {
        "id": list(r.counts.ids),
        "due": r.truth.tolist(),
        "bias": r.bias.tolist(),
        "half_width": r.half_width.tolist(),
        "relative_bias": or_none(r.relative),
        "relative_half_width": or_none(r.relative_half_width),
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
    rows = zip(*counts.kept.values(), strict=True)
    kept = [dict(zip(counts.kept, row, strict=True)) for row in rows] if counts.kept else None
    columns: dict[str, Any] = {
        "id": list(counts.ids),
        "count": counts.values.tolist(),
        "weight": counts.weights.tolist(),
        "group": counts.groups,
        "name": counts.names,
        "base": None if counts.base is None else counts.base.tolist(),
        "kept": kept,
    }
    columns = {name: values for name, values in columns.items() if values is not None}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
