"""Discrete Gaussian noise of sigma <= 6 by a table: the law inverted at once, word by word.

A guide by the upper ten bits of the word names |eta| (Chen and Asau 1974), and only in the few bins that hold a level P(|eta| >= k) is
the variable compared with it. The values are those of the inversion level by level in `streams`, bit for bit; the table of a sigma
is made once for many draws (`guide_of`).
"""

import numpy as np
from numpy.typing import NDArray

from fairpost.compiled import kernel
from fairpost.noise.kernels.transforms import signed, uniform

Floats = NDArray[np.float64]
Guides = NDArray[np.uint8]
BINS = 1024
MOST = 64  # levels that a table holds, the end mark included
GUIDED = 6.0  # the largest sigma with a table
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
def by_guide(out: Floats, guide: Guides, cuts: Floats) -> None:
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
