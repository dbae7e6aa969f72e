"""The noise of some nodes of one run: node i reads place i of the run's stream, whoever asks and in which order."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpost.compiled import kernel
from fairpost.noise.kernels.streams import fill_discrete_gaussian, fill_discrete_laplace, fill_gaussian, fill_laplace

Floats = NDArray[np.float64]
LAPLACE, GAUSSIAN, DISCRETE_LAPLACE, DISCRETE_GAUSSIAN = 0, 1, 2, 3


@kernel
def draw(kind: int, out: Floats, start: int, spread: float, seed: Any, run: Any) -> None:
    """The noise of the nodes start, start + 1, ... into `out`; 0 where the spread is."""
    if spread == 0.0:
        out[:] = 0.0
    elif kind == DISCRETE_GAUSSIAN:
        fill_discrete_gaussian(out, start, spread, seed, run)
    elif kind == GAUSSIAN:
        fill_gaussian(out, start, spread, seed, run)
    elif kind == LAPLACE:
        fill_laplace(out, start, spread, seed, run)
    else:
        fill_discrete_laplace(out, start, spread, seed, run)


@kernel
def draw_nodes(kind: int, spreads: Floats, offsets: NDArray[np.int64], seed: Any, run: Any, out: Floats) -> None:
    """The noise of every node, level by level."""
    for level in range(spreads.size):
        first = offsets[level]
        draw(kind, out[first : offsets[level + 1]], first, spreads[level], seed, run)
