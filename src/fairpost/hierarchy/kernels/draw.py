"""The noise of some nodes of one run: node i reads place i of the run's stream, whoever asks and in which order.

The values are those of `fairpost.noise.kernels.streams`, bit for bit; discrete Gaussian noise of sigma <= 6 comes from a table that is made
once for a level (`fairpost.noise.kernels.guide`).
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpost.compiled import kernel
from fairpost.noise.kernels.guide import GUIDED, Guides, by_guide
from fairpost.noise.kernels.philox import fill_words
from fairpost.noise.kernels.streams import fill_discrete_gaussian, fill_discrete_laplace, fill_gaussian, fill_laplace

Floats = NDArray[np.float64]
LAPLACE, GAUSSIAN, DISCRETE_LAPLACE, DISCRETE_GAUSSIAN = 0, 1, 2, 3
_PIECE = 2048


@kernel(error_model="numpy")
def draw(kind: int, out: Floats, start: int, spread: float, guide: Guides, cuts: Floats, seed: Any, run: Any) -> None:
    """The noise of the nodes start, start + 1, ... into `out`; 0 where the spread is."""
    if spread == 0.0:
        out[:] = 0.0
    elif kind == DISCRETE_GAUSSIAN and spread <= GUIDED:
        bits = out.view(np.uint64)
        for i in range(0, out.size, _PIECE):
            fill_words(bits[i : i + _PIECE], start + i, 0, np.uint64(seed), np.uint64(run))
            by_guide(out[i : i + _PIECE], guide, cuts)
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
    kind: int, spreads: Floats, guides: Guides, cuts: Floats, offsets: NDArray[np.int64], seed: Any, run: Any,
    out: Floats,
) -> None:  # fmt: skip
    """The noise of every node, level by level."""
    for level in range(spreads.size):
        first = offsets[level]
        part = out[first : offsets[level + 1]]
        draw(kind, part, first, spreads[level], guides[level], cuts[level], seed, run)
