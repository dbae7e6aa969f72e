"""Sums over runs: their layout, general rows into them, and the merging of blocks.

A block's sums have the shape (post-processings, pieces, PLANES * PIECE): for PIECE entities the mean and the sum of squared
deviations of d and of e, and the number of runs with 0 (for d and e see `simulate`).
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpost.compiled import kernel

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

PIECE = 256
"""Entities per piece."""
MEAN_D, M2_D, MEAN_E, M2_E, ZEROS = 0, PIECE, 2 * PIECE, 3 * PIECE, 4 * PIECE
"""Where a piece holds which quantity."""
PLANES = 5
CENTRE = 5 * PIECE  # while a block runs
WORK_PLANES = 6


@kernel
def add_rows(d: Floats, e: Floats, zero: NDArray[np.bool_], sums: Floats, first: bool) -> None:
    """Rows of d and e of any post-processing into its sums; `first` where row 0 is the first run of the block."""
    n = d.shape[1]
    for k in range(sums.shape[0]):
        lo, piece = k * PIECE, sums[k]
        for t in range(d.shape[0]):
            for i in range(min(PIECE, n - lo)):
                if first and t == 0:
                    piece[i + CENTRE] = d[t, lo + i]
                u, v = d[t, lo + i] - piece[i + CENTRE], e[t, lo + i] - piece[i + CENTRE]
                piece[i + MEAN_D] += u
                piece[i + M2_D] += u * u
                piece[i + MEAN_E] += v
                piece[i + M2_E] += v * v
                piece[i + ZEROS] += 1.0 if zero[t, lo + i] else 0.0


@kernel(inline="always")
def _merged(mean: Any, m2: Any, done: Any, new_mean: Any, new_m2: Any, more: Any) -> Any:
    """Chan, Golub and LeVeque 1979: the mean and sum of squared deviations of two samples together."""
    step = new_mean - mean
    return mean + step * (more / (done + more)), m2 + new_m2 + step * step * (done / (done + more) * more)


@kernel
def _merge_ties(
    ties: Floats, sums: Floats, label: Ints, count: Floats, scratch: Floats, done: float, more: float
) -> None:
    """The block's mean of d over each class of equal entities into ties = (mean, sum of squares between blocks)."""
    scratch[:] = 0.0
    for i in range(label.size):
        scratch[label[i]] += sums[i // PIECE, i % PIECE + MEAN_D]
    for c in range(scratch.size):
        mean = scratch[c] / max(count[c], 1.0)
        ties[0, c], ties[1, c] = _merged(ties[0, c], ties[1, c], done, mean, 0.0, more)


@kernel
def _merge_squares(squares: Floats, sums: Floats, offset: Floats, done: float, more: float) -> None:
    """The block's mean of (e + offset)^2, its mean squared error, into (mean, sum of squares between blocks)."""
    for i in range(offset.size):
        piece, j = sums[i // PIECE], i % PIECE
        mean = piece[j + M2_E] / more + (piece[j + MEAN_E] + offset[i]) ** 2
        squares[0, i], squares[1, i] = _merged(squares[0, i], squares[1, i], done, mean, 0.0, more)


@kernel
def merge(
    tally: Ints, sums: Floats, pairs: Floats, ties: Floats, squares: Floats, degenerate: Ints, more: int,
    new_sums: Floats, new_pairs: Floats, new_degenerate: Ints, offsets: Floats, labels: Ints, counts: Floats,
    scratch: Floats,
) -> None:  # fmt: skip
    """A block of `more` runs into the totals. tally = (runs, blocks) changes in the same call: all or nothing.

    offsets[p, i] is the part of the bias of entity i that is known, labels[p, i] its class under
    post-processing p, and counts[p] the number of entities of each class.
    """
    done, extra = float(tally[0]), float(more)
    for p in range(sums.shape[0]):
        for k in range(sums.shape[1]):
            old, new = sums[p, k], new_sums[p, k]
            for i in range(PIECE):
                old[i + MEAN_D], old[i + M2_D] = _merged(
                    old[i + MEAN_D], old[i + M2_D], done, new[i + MEAN_D], new[i + M2_D], extra
                )
                old[i + MEAN_E], old[i + M2_E] = _merged(
                    old[i + MEAN_E], old[i + M2_E], done, new[i + MEAN_E], new[i + M2_E], extra
                )
                old[i + ZEROS] += new[i + ZEROS]
        for k in (0, 3):
            pairs[p, k], pairs[p, k + 1] = _merged(
                pairs[p, k], pairs[p, k + 1], done, new_pairs[p, k], new_pairs[p, k + 1], extra
            )
        if labels.shape[0] > 0:
            _merge_ties(ties[p], new_sums[p], labels[p], counts[p], scratch, done, extra)
        _merge_squares(squares[p], new_sums[p], offsets[p], done, extra)
        degenerate[p] += new_degenerate[p]
    tally[0] += more
    tally[1] += 1
