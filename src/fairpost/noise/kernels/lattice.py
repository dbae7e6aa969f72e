"""Sums over the masses of discrete noise."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpost.compiled import kernel


@kernel
def _sums(mass: NDArray[np.float64], ratio: Any, out: NDArray[Any]) -> None:
    n = mass.size
    out[0, n] = 0.0
    out[1, n] = 0.0
    out[2, n] = 0.0
    for i in range(n - 1, -1, -1):
        s0, s1, s2 = out[0, i + 1], out[1, i + 1], out[2, i + 1]
        out[0, i] = mass[i] + ratio * s0
        out[1, i] = ratio * (s1 + s0)
        out[2, i] = ratio * (s2 + 2.0 * s1 + s0)


def partial_sums(mass: NDArray[np.float64], s: complex) -> NDArray[Any]:
    """Rows j = 0, 1, 2: S_j(m) = sum_{i >= m} (i - m)^j e^{s (i - m)} mass[i], for m = 0..len(mass)."""
    ratio = np.exp(s)
    out = np.empty((3, mass.size + 1), dtype=ratio.dtype)
    _sums(mass, ratio, out)
    return out
