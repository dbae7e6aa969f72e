"""Whole numbers without bias: controlled rounding that keeps the total exactly.

Each v_i becomes floor(v_i) or floor(v_i) + 1. Write f_i for the fractions and F_i = f_1 + ... + f_i. With one number u,
uniform on [0, 1), entity i is rounded up where a whole number lies in (F_{i-1} + u, F_i + u]; that has probability
f_i, so E[rounded] = v exactly, and the number rounded up is F_n, a whole number when the total is one. Any run of
neighbours keeps its own sum to within 1, so entities listed state by state keep each state's sum as well (systematic
sampling; the controlled rounding of Cox 1987 in one dimension).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairpost.errors import CountsError, ParameterError
from fairpost.partition import Partition
from fairpost.rules.base import finite_rows

Floats = NDArray[np.float64]
SLACK = 1e-6
"""How far the sum of a group may be from a whole number and still be one, in counts."""
RELATIVE = 1e-14
"""And as a part of the sum: a projection keeps a total to some 45 roundings of a float."""


def round_counts(v: ArrayLike, rng: np.random.Generator, partition: Partition | None = None) -> Floats:
    """`v` >= 0 as whole numbers with the same sum (of each group), E[rounded] = v, and no entry moved by 1 or more."""
    values = finite_rows(v)
    if values.ndim != 1:
        raise CountsError(f"counts to round must be one vector, got {values.ndim} dimensions")
    if (values < 0).any():
        place = int(np.flatnonzero(values < 0)[0])
        raise CountsError(f"a count to round must be at least 0, got {values[place]} at position {place}")
    parts = Partition.whole(values.size) if partition is None else partition
    if parts.n != values.size:
        raise CountsError(f"a partition must have one entry per count: {values.size} counts, {parts.n} entries")
    gathered = parts.gather(values)
    out = np.empty_like(gathered)
    for g, label in enumerate(parts.labels):
        some = slice(int(parts.starts[g]), int(parts.starts[g + 1]))
        out[some] = _round_group(gathered[some], float(rng.random()), label)
    return parts.scatter(out)


def _round_group(v: Floats, u: float, label: str) -> Floats:
    floors = np.floor(v)
    fractions = v - floors
    whole = math.fsum(fractions)  # a running sum of millions drifts by more than SLACK, this one does not
    ups = float(round(whole))
    if abs(whole - ups) > SLACK + RELATIVE * float(np.sum(v)):
        raise ParameterError(
            f"rounding keeps a total only where it is a whole number, got {np.sum(v):.12g} for {label!r}"
        )
    sums = np.cumsum(fractions)
    if sums[-1] > 0:
        sums = sums * (ups / sums[-1])  # moves each fraction by the drift's share of itself, at most about n 1e-16
    sums[-1] = ups
    steps = np.minimum(np.floor(sums + u), ups)  # u next to 1: the sum rounds to ups + 1, which is below it in truth
    return np.asarray(floors + np.diff(steps, prepend=0.0))
