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


@kernel
def equal_proportions(rows: Floats, seats: int, out: Floats) -> None:
    """Seats by the method of equal proportions (Huntington and Hill), row by row, at least one to each.

    Seats go one by one to the largest x / sqrt(n (n + 1)). All divisor methods give every state the rounding of x / d for some
    d; from any d the seats that are too few (too many) go to the largest (come from the smallest) of these priorities. Of equals
    the first is served first.
    """
    n = rows.shape[1]
    x = np.empty(n)
    for r in range(rows.shape[0]):
        whole = 0.0
        for i in range(n):
            x[i] = max(rows[r, i], 1e-9)
            whole += x[i]
        given = 0
        for i in range(n):
            quota = x[i] * seats / whole
            low = np.floor(quota)
            out[r, i] = max(low + 1.0 if quota >= np.sqrt(low * (low + 1.0)) else low, 1.0)
            given += int(out[r, i])
        while given < seats:
            best, who = -1.0, 0
            for i in range(n):
                priority = x[i] / np.sqrt(out[r, i] * (out[r, i] + 1.0))
                if priority > best:
                    best, who = priority, i
            out[r, who] += 1.0
            given += 1
        while given > seats:
            best, who = np.inf, 0
            for i in range(n):
                if out[r, i] > 1.0:
                    priority = x[i] / np.sqrt(out[r, i] * (out[r, i] - 1.0))
                    if priority <= best:
                        best, who = priority, i
            out[r, who] -= 1.0
            given -= 1
