"""The projection onto the simplex {v >= 0, sum v = C}, by Newton steps on its threshold.

v_i = (y_i - m)_+ where m is the root of H(m) = sum_i (y_i - m)_+ = C (Lemma 2: m = (sum y - C)/n + T). H is
convex, decreasing and piecewise linear with slope -K(m), K(m) = #{y_i > m}. A Newton step m + (H(m) - C)/K(m)
never passes the root from the left, and once two steps see the same K the active set is final and the step is
exact. Three to six passes over y, no sort, no memory beyond the output. The last pass writes the output and counts
the active entries, which verifies the step that it used.

The loops select between run-time values `zero` and `one` because LLVM then vectorises both reductions.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpost.compiled import kernel
from fairpost.compiled.vectors import wide_vectors

Floats = NDArray[np.float64]
REORDER: Any = {
    "reassoc",
    "nsz",
    "contract",
    "arcp",
}  # sums may be reordered; NaN and infinity keep their meaning
BLOCK = 8192  # partial sums a block long keep the rounding error of a sum near that of pairwise summation


@kernel(fastmath=REORDER)
def total_of(y: Floats) -> float:
    """The sum of y, NaN or infinite where an entry is."""
    wide_vectors()
    total = 0.0
    for start in range(0, y.size, BLOCK):
        block = y[start : start + BLOCK]
        part = 0.0
        for i in range(block.size):
            part += block[i]
        total += part
    return total


@kernel(fastmath=REORDER)
def excess(y: Floats, m: float, zero: float, one: float) -> tuple[float, float]:
    """H(m) = sum (y - m)_+ and K(m) = #{y > m}; call with zero = 0.0, one = 1.0."""
    wide_vectors()
    total = zero
    active = zero
    for start in range(0, y.size, BLOCK):
        block = y[start : start + BLOCK]
        part = 0.0
        count = 0.0
        for i in range(block.size):
            d = block[i] - m
            part += d if d > zero else zero
            count += one if d > zero else zero
        total += part
        active += count
    return total, active


@kernel(fastmath=REORDER)
def write(y: Floats, m: float, out: Floats, zero: float, one: float) -> float:
    """Out = (y - m)_+ (y and out may be the same array); returns K(m)."""
    wide_vectors()
    active = zero
    for i in range(y.size):
        d = y[i] - m
        out[i] = d if d > zero else zero
        active += one if d > zero else zero
    return active


@kernel
def newton(y: Floats, target: float, m: float, settled: float) -> tuple[float, float]:
    """Newton steps from a point m left of the root until K falls by at most `settled`: (m, the K it was made with).

    From the left K never grows but by rounding, when an entry lies on the threshold itself; that ends the steps too.
    """
    before = np.inf
    while True:
        h, active = excess(y, m, 0.0, 1.0)
        if active == 0.0:
            return m, active
        m += (h - target) / active
        if active >= before - settled:
            return m, active
        before = active


@kernel
def project(y: Floats, target: float, out: Floats) -> float:
    """out = the projection of y onto the simplex of sum `target`; returns the threshold m, not finite where y is not.

    Newton's error after a step that changed K by k is about k^2/n entries, so below sqrt(n)/2 the next pass may write;
    it counts K again, and where that differs the steps go on until K stands still.
    """
    n = y.size
    m = (total_of(y) - target) / n
    if not np.isfinite(m):
        return m
    if target == 0.0:
        return _nothing(y, out)
    # a step much longer than the target leaves its rounding in m: the last one must start from the final active set
    early = np.floor(0.5 * np.sqrt(n)) if n >= 64 and abs(m) < target else 0.0
    for settled in (early, 0.0):
        m, active = newton(y, target, m, settled)
        if abs(m) > 4.0 * target:  # digits of m would be lost against the target: measure from the largest entry
            return _from_top(y, target, out)
        if write(y, m, out, 0.0, 1.0) == active:
            break
    return m


@kernel
def _nothing(y: Floats, out: Floats) -> float:
    """The projection onto the single point 0: every entry is at or below the threshold."""
    top = -np.inf
    for i in range(y.size):
        top = max(top, y[i])
        out[i] = 0.0
    return top


@kernel
def _from_top(y: Floats, target: float, out: Floats) -> float:
    """The projection with every entry measured from the largest, so that a tiny target keeps its digits."""
    top = -np.inf
    for i in range(y.size):
        top = max(top, y[i])
    shifted = np.empty(y.size)
    for i in range(y.size):
        shifted[i] = max(y[i] - top, -2.0 * target)  # entries that far below the top are never active
    m, _ = newton(shifted, target, -target, 0.0)
    write(shifted, m, out, 0.0, 1.0)
    return top + m


@kernel
def project_rows(y: Floats, starts: NDArray[np.int64], targets: Floats, out: Floats, thresholds: Floats) -> None:
    """Each row, and in it each segment starts[g]:starts[g+1], onto the simplex of sum targets[row, g]; m likewise."""
    for row in range(y.shape[0]):
        for g in range(targets.shape[1]):
            a, b = starts[g], starts[g + 1]
            thresholds[row, g] = project(y[row, a:b], targets[row, g], out[row, a:b])
