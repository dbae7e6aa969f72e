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
MOST = 2.0**53
"""Totals must be below this: from here on a float does not tell whole numbers apart."""


def round_counts(
    v: ArrayLike, rng: np.random.Generator, partition: Partition | None = None, totals: ArrayLike | None = None
) -> Floats:
    """`v` >= 0 as whole numbers with the same sum (of each group), E[rounded] = v, and no entry moved by 1 or more.

    `totals`: what each group is to add up to, where that is known. From some 1e14 on the sum of floats is off by whole
    numbers, and only the total says which sum was meant; the largest entry takes the difference, which is below its share
    of the roundings.
    """
    values = finite_rows(v)
    if values.ndim != 1:
        raise CountsError(f"counts to round must be one vector, got {values.ndim} dimensions")
    if (values < 0).any():
        place = int(np.flatnonzero(values < 0)[0])
        raise CountsError(f"a count to round must be at least 0, got {values[place]} at position {place}")
    parts = Partition.whole(values.size) if partition is None else partition
    if parts.n != values.size:
        raise CountsError(f"a partition must have one entry per count: {values.size} counts, {parts.n} entries")
    kept = [None] * len(parts.labels) if totals is None else [float(t) for t in np.asarray(totals, dtype=np.float64)]
    if len(kept) != len(parts.labels):
        raise ParameterError(f"there must be one total per group: {len(parts.labels)} groups, {len(kept)} totals")
    gathered = parts.gather(values)
    out = np.empty_like(gathered)
    for g, label in enumerate(parts.labels):
        some = slice(int(parts.starts[g]), int(parts.starts[g + 1]))
        out[some] = _round_group(gathered[some], float(rng.random()), label, kept[g])
    return parts.scatter(out)


def _round_group(v: Floats, u: float, label: str, total: float | None) -> Floats:
    seen = math.fsum(v)  # a running sum of millions drifts by more than SLACK, this one does not
    wanted = seen if total is None else total
    if not max(seen, wanted) < MOST:
        raise ParameterError(
            f"rounding keeps totals below 2**53 = {MOST:.0f}, got {max(seen, wanted):.17g} for {label!r}"
        )
    whole = float(round(wanted))
    slack = SLACK + RELATIVE * seen
    if abs(wanted - whole) > slack:
        raise ParameterError(f"rounding keeps a total only where it is a whole number, got {wanted:.12g} for {label!r}")
    if abs(seen - whole) > slack:
        raise ParameterError(f"counts to round must add up to {wanted:.17g}, got {seen:.17g} for {label!r}")
    if seen != whole and whole > 0:
        v = v.copy()
        v[np.argmax(v)] += whole - seen
    floors = np.floor(v)
    ups = whole - math.fsum(floors)
    sums = np.cumsum(v - floors)
    if sums[-1] > 0:
        sums = sums * (ups / sums[-1])  # moves each fraction by the drift's share of itself, at most about n 1e-16
    sums[-1] = ups
    steps = np.minimum(np.floor(sums + u), ups)  # u next to 1: the sum rounds to ups + 1, which is below it in truth
    return np.asarray(floors + np.diff(steps, prepend=0.0))
