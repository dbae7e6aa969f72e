"""max(H, lambda G) with the sum 1."""

import numpy as np
from numpy.typing import NDArray

from fairpost.compiled import kernel

Floats = NDArray[np.float64]


@kernel
def hold(G: Floats, H: Floats, out: Floats) -> None:
    """Row by row max(H, lambda G) with sum 1; where the H alone are 1 or more, H / sum H. Rows without any G stay.

    From all free, lambda = (1 - sum of the held H) / (sum of the free G) falls from step to step and more entities are
    held, so that it ends after finitely many.
    """
    for r in range(G.shape[0]):
        least, whole = 0.0, 0.0
        for i in range(G.shape[1]):
            least += H[r, i]
            whole += G[r, i]
        if whole <= 0.0:
            continue
        if least >= 1.0:
            for i in range(G.shape[1]):
                out[r, i] = H[r, i] / least
            continue
        factor, before = 1.0 / whole, np.inf
        while factor < before:
            before = factor
            rest, free = 1.0, 0.0
            for i in range(G.shape[1]):
                if H[r, i] > factor * G[r, i]:
                    rest -= H[r, i]
                else:
                    free += G[r, i]
            if free > 0.0:
                factor = min(factor, rest / free)
        for i in range(G.shape[1]):
            out[r, i] = max(H[r, i], factor * G[r, i])
