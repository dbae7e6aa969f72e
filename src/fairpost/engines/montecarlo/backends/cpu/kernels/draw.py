"""Rows of noise: row t is the noise of run first + t. A kernel for each noise, since a command needs one of them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpost.compiled import kernel
from fairpost.noise.kernels.streams import fill_discrete_gaussian, fill_discrete_laplace, fill_gaussian, fill_laplace

Floats = NDArray[np.float64]


@kernel
def _laplace(out: Floats, spread: float, seed: Any, first: int) -> None:
    for t in range(out.shape[0]):
        fill_laplace(out[t], 0, spread, seed, np.uint64(first + t))


@kernel
def _gaussian(out: Floats, spread: float, seed: Any, first: int) -> None:
    for t in range(out.shape[0]):
        fill_gaussian(out[t], 0, spread, seed, np.uint64(first + t))


@kernel
def _discrete_laplace(out: Floats, spread: float, seed: Any, first: int) -> None:
    for t in range(out.shape[0]):
        fill_discrete_laplace(out[t], 0, spread, seed, np.uint64(first + t))


@kernel
def _discrete_gaussian(out: Floats, spread: float, seed: Any, first: int) -> None:
    for t in range(out.shape[0]):
        fill_discrete_gaussian(out[t], 0, spread, seed, np.uint64(first + t))


DRAWS = (_laplace, _gaussian, _discrete_laplace, _discrete_gaussian)
"""By the code of the noise."""
