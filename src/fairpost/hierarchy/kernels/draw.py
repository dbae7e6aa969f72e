"""The noise of some nodes of one run: node i reads place i of the run's stream, whoever asks and in which order.

The values are those of `fairpost.noise.kernels.streams`, bit for bit. Discrete Gaussian noise of sigma <= 6 is inverted there level by
level, which is quick where vectors are 512 bits wide; here a guide by the upper ten bits of the word names |eta| at once (Chen and
Asau 1974), and only in the few bins that hold a level is the variable compared with it. The table of a sigma is made once
(`guide_of`).
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpost.compiled import kernel
from fairpost.noise.kernels.philox import fill_words
from fairpost.noise.kernels.streams import fill_discrete_gaussian, fill_discrete_laplace, fill_gaussian, fill_laplace
from fairpost.noise.kernels.transforms import signed, uniform

Floats = NDArray[np.float64]
Guides = NDArray[np.uint8]
LAPLACE, GAUSSIAN, DISCRETE_LAPLACE, DISCRETE_GAUSSIAN = 0, 1, 2, 3
BINS = 1024
MOST = 64  # levels that a table holds, the end mark included
GUIDED = 6.0  # the largest sigma with a table
_PIECE = 2048
_OPEN = np.uint8(128)
_SHIFT = np.uint64(54)


@kernel(error_model="numpy")
def guide_of(sigma: float, guide: Guides, cuts: Floats) -> None:
    """cuts[k] = P(|eta| >= k) for k >= 1, then -1; guide[b]: |eta| at the upper end of bin b, + 128 where a cut is inside.

    The same sums in the same order as in `streams`, so that the cuts have the same bits.
    """
    top, total, tail = int(np.ceil(9.6 * sigma)), 0.0, 0.0
    cuts[:] = -1.0
    cuts[0] = 2.0
    for k in range(top, 0, -1):
        total += np.exp(-0.5 * (k / sigma) * (k / sigma))
    for k in range(top, 0, -1):
        tail += np.exp(-0.5 * (k / sigma) * (k / sigma))
        cuts[k] = tail / (0.5 + total)
    for b in range(BINS):
        low, high, k = b / BINS, (b + 1) / BINS, 0
        while cuts[k + 1] >= high:
            k += 1
        guide[b] = np.uint8(k) | (_OPEN if cuts[k + 1] >= low else np.uint8(0))


@kernel(error_model="numpy")
def _by_guide(out: Floats, guide: Guides, cuts: Floats) -> None:
    """Words to discrete Gaussian noise, in place; + 0.0 turns -0.0 into 0.0."""
    bits = out.view(np.uint64)
    for i in range(np.uint64(out.size)):
        w = bits[i]
        found = guide[w >> _SHIFT]
        if found < _OPEN:
            out[i] = signed(np.float64(found), w) + 0.0
        else:
            k, u = np.int64(found) - 128, uniform(w)
            while u <= cuts[k + 1]:
                k += 1
            out[i] = signed(np.float64(k), w) + 0.0


@kernel(error_model="numpy")
def draw(kind: int, out: Floats, start: int, spread: float, guide: Guides, cuts: Floats, seed: Any, run: Any) -> None:
    """The noise of the nodes start, start + 1, ... into `out`; 0 where the spread is."""
    if spread == 0.0:
        out[:] = 0.0
    elif kind == DISCRETE_GAUSSIAN and spread <= GUIDED:
        bits = out.view(np.uint64)
        for i in range(0, out.size, _PIECE):
            fill_words(bits[i : i + _PIECE], start + i, 0, np.uint64(seed), np.uint64(run))
            _by_guide(out[i : i + _PIECE], guide, cuts)
    elif kind == DISCRETE_GAUSSIAN:
        fill_discrete_gaussian(out, start, spread, seed, run)
    elif kind == GAUSSIAN:
        fill_gaussian(out, start, spread, seed, run)
    elif kind == LAPLACE:
        fill_laplace(out, start, spread, seed, run)
    else:
        fill_discrete_laplace(out, start, spread, seed, run)


@kernel
def draw_nodes(
    kind: int,
    spreads: Floats,
    guides: Guides,
    cuts: Floats,
    offsets: NDArray[np.int64],
    seed: Any,
    run: Any,
    out: Floats,
) -> None:
    """The noise of every node, level by level."""
    for level in range(spreads.size):
        first = offsets[level]
        part = out[first : offsets[level + 1]]
        draw(kind, part, first, spreads[level], guides[level], cuts[level], seed, run)
