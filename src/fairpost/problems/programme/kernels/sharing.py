"""Seats by the method of equal proportions."""

import numpy as np
from numpy.typing import NDArray

from fairpost.compiled import kernel

Floats = NDArray[np.float64]


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
