"""The table of an audit: one row an entity, for `--csv`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fairpost.errors import InputError
from fairpost.result import CONFIDENTIAL, AuditResult

if TYPE_CHECKING:
    import polars as pl

Floats = NDArray[np.float64]
TRUTH = {"release": "true_count", "allocation": "true_share"}
"""The name of the true value P(x) of each task."""


def entities_csv(results: Sequence[AuditResult]) -> str:
    """One row per entity: id, count, weight, group (where there are groups), the true values, then columns per result.

    These are, after the name of the post-processing (with _ for -): _bias; _half_width (every bias lies within bias +-
    half_width; for simulation all of them together, with the stated confidence); _accuracy, what the half-width is:
    "bound" on the numerical error, error that an "expansion" states, or simulated "interval"; _standard_error, for
    simulation only; _standard_deviation; _zero (the probability of receiving 0); and, for an allocation with a budget,
    _money. Biases are in counts for a release and in shares of 1 for an allocation. Numbers have as many digits as give
    the same float again. The last column, `confidential`, says in every row that the table was computed from true
    counts. The table can be read back as counts.
    """
    import polars as pl

    _check(results)
    counts = results[0].counts
    columns: dict[str, pl.Series] = {
        "id": pl.Series(counts.ids, dtype=pl.String),
        "count": _numbers(counts.values),
        "weight": _numbers(counts.weights),
    }
    if counts.groups is not None:
        columns["group"] = pl.Series(counts.groups, dtype=pl.String)
    columns |= {TRUTH[result.task]: _numbers(result.truth) for result in results}
    for name, result in zip(_names(results), results, strict=True):
        columns[f"{name}_bias"] = pl.Series(result.bias)
        columns[f"{name}_half_width"] = pl.Series(result.half_width)
        columns[f"{name}_accuracy"] = pl.Series([result.accuracy] * counts.n, dtype=pl.String)
        if result.sample is not None:
            columns[f"{name}_standard_error"] = pl.Series(result.error)
        columns[f"{name}_standard_deviation"] = pl.Series(result.deviation)
        columns[f"{name}_zero"] = pl.Series(result.zero)
        if result.task == "allocation" and result.money is not None:
            columns[f"{name}_money"] = pl.Series(result.money)
    frame = pl.DataFrame(columns)
    mark = pl.lit(CONFIDENTIAL.partition(": ")[2]).alias("confidential")
    return frame.with_columns(mark).write_csv()


def _check(results: Sequence[AuditResult]) -> None:
    if not results:
        raise InputError("there must be at least one result, got none")
    truths: dict[str, Floats] = {}
    for result in results:
        if result.counts is not results[0].counts and result.counts.ids != results[0].counts.ids:
            raise InputError("the results of one table must be about the same entities, got others")
        if not np.array_equal(truths.setdefault(result.task, result.truth), result.truth):
            raise InputError(f"the results of one table must have the same {TRUTH[result.task]}s, got others")


def _names(results: Sequence[AuditResult]) -> list[str]:
    """The post-processings; one that comes again gets a number: pos, pos_2."""
    names: list[str] = []
    for result in results:
        base = name = result.postprocess.replace("-", "_")
        number = 1
        while name in names:
            number += 1
            name = f"{base}_{number}"
        names.append(name)
    return names


def _numbers(values: Floats) -> pl.Series:
    """Whole numbers without a decimal point, where all of them are whole."""
    import polars as pl

    whole = np.all((values == np.round(values)) & (np.abs(values) < 2.0**53))
    return pl.Series(values.astype(np.int64) if whole else values)
