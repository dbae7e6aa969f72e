"""Shares where S may have either sign: all are drawn, one of them on both sides of S = 0.

Given all others, the sign of S is that of one noise below or above a point: both sides are drawn, with their chances. For S < 0 the rule
works on -z; for S = 0, which whole numbers can do, the share is a_i / sum a.
"""

import math

import numpy as np
from numpy.typing import NDArray

from fairpost.compiled import kernel
from fairpost.engines.conditional.kernels.events import crossing, events, phi

Floats = NDArray[np.float64]
Places = NDArray[np.int64]
DUST = 1e-13
"""Of the sum of all shares: what rounding leaves of 0."""


@kernel(error_model="numpy")
def points(
    z: Floats, sides: Floats, chance: Floats, one: int, a: Floats, P: Floats, place: Places, level: float, s: float,
    share: Floats, square: Floats, zero: Floats,
) -> None:  # fmt: skip
    """Sums over the entities of each place of outputs, squared errors and zeros.

    sides[k] are the two z of entity `one`, chance[k] the chances of S > 0, S < 0 and S = 0.
    """
    d = a.size
    size = 2 * d if level > 0.0 else d
    tau, v, even = level * a, np.empty(d), a / np.sum(a)
    corners, at = np.empty((4, size + 1)), np.empty(2 * d, dtype=np.int64)
    for k in range(z.shape[0]):
        for side in range(3):
            p = chance[k, side]
            if p == 0.0:
                continue
            S, r = 1.0, math.nan
            if side < 2:
                v[:] = z[k]
                v[one] = sides[k, side]
                if side == 1:
                    v[:] = -v
                S = np.sum(v)
                events(v, tau, s, 0, corners, at)
                r = crossing(corners, s, 0.0, size, size, 0.0, 0.0, size // 2)[1]
            for i in range(d):
                out, j = even[i] if side == 2 else phi(v[i] - r, tau[i], s) / S, place[i]
                share[k, j] += p * out
                square[k, j] += p * (out - P[j]) ** 2
                zero[k, j] += p if out <= DUST else 0.0
