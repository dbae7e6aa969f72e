"""The two forms that the built-in post-processings have, and how four runs at once go into the sums.

Per run r and entity i, with X = x + eta, a post-processing has an error e = pi(X)_i - base_i and the part d = e - L of
it that is left when a linear function L of the noise, whose mean is exactly 0, is taken away. Every built-in one has
one of two forms, with a few numbers per run (`par`). Where a pilot says so (`pilot`) a part g_i of L is left in: what is summed
as d is d + g_i L.

    release   d = min(q - min(X, m), cap)     L = eta - s      q = s - shift     s = mean of eta (0: no total is kept)
        nonnegative q = m = 0; sum-clipped m = q; simplex m = q + T (Lemma 2); none and sum are linear: m = q, cap = 0
    share     d = (v z - m |v|)_+ - z + w x u                  u = sum w eta
        with w = a / sum a x and z = w X, so that P(x) = w x and L = w (eta - x u); BL has m = 0 and v = 1 / sum (z)_+;
        PoS has v = 1 / S, S = sum z = 1 + u; a draw without information has the shares k w, k = 1 / sum w

The form of d keeps its digits where pi(X) - pi_S(X) would cancel. Sums over runs are taken of d - c and e - c, where c
is the first run's d, and of their squares. d and e have the same mean, so both deviations are of the size of the spread
and no variance cancels.

A few rows of noise are added up piece by piece of PIECE entities, four runs at once, so that the sums stay in the nearest
cache. What is summed in which order depends on the position of a run in its block alone. Noise, releases and shares are
kernels of their own: a first command compiles what it asks for.
"""

from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from fairpost.compiled import kernel
from fairpost.engines.montecarlo.backends.cpu.kernels.sums import CENTRE

Floats = NDArray[np.float64]

BATCH = 64
"""Rows that are added up together at most."""
NUMBERS = 5  # of one run and post-processing


def _emit(_typing: Any, a: Any, b: Any, c: Any) -> Any:
    def codegen(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.fma(*args)

    return types.float64(types.float64, types.float64, types.float64), codegen


fma: Any = intrinsic(_emit)
"""a b + c, rounded once. Written out, because what the compiler fuses by itself depends on the place."""


@kernel(inline="always")
def numbers(par: Floats) -> Any:
    """The numbers of one run as scalars, which stay in registers."""
    return par[0], par[1], par[2], par[3], par[4]


@kernel(inline="always")
def put(sums: Floats, i: int, mean: int, m2: int, v0: Any, v1: Any, v2: Any, v3: Any, times: Any) -> None:
    """Four runs' values of one entity, less the centre, into its sum and sum of squares."""
    c = sums[i + CENTRE]
    u0, u1, u2, u3 = (v0 - c) * times[0], (v1 - c) * times[1], (v2 - c) * times[2], (v3 - c) * times[3]
    sums[i + mean] += (u0 + u1) + (u2 + u3)
    sums[i + m2] += fma(u0, u0, u1 * u1) + fma(u2, u2, u3 * u3)


@kernel(inline="always")
def count(zero: Any, times: Any) -> Any:
    """How often an output is 0."""
    return times if zero else 0.0


@kernel
def keep(par: Floats, t: int, last: Floats) -> None:
    """The numbers of run t. (Between arrays `par[t] = last` would compile messages about shapes, for seconds.)"""
    for k in range(NUMBERS):
        par[t, k] = last[k]


@kernel
def counted(times: Floats, batch: int) -> None:
    """times = 1 for the rows of a batch that are runs, 0 for those that fill it up to a multiple of four."""
    for t in range(times.size):
        times[t] = 1.0 if t < batch else 0.0
