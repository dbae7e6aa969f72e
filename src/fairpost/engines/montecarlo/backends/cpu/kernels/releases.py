"""A few runs of the post-processings that release counts, into their sums; for the form and its numbers see `forms`."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpost.compiled import kernel
from fairpost.compiled.vectors import wide_vectors
from fairpost.engines.montecarlo.backends.cpu.kernels.forms import (
    BATCH,
    NUMBERS,
    count,
    counted,
    fma,
    keep,
    numbers,
    put,
)
from fairpost.engines.montecarlo.backends.cpu.kernels.solve import SIMPLEX, release, weighted
from fairpost.engines.montecarlo.backends.cpu.kernels.sums import CENTRE, M2_D, M2_E, MEAN_D, MEAN_E, PIECE, ZEROS

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@kernel(inline="always")
def _error(eta: Any, x: Any, g: Any, par: Any) -> Any:
    """d, e and whether the output is 0."""
    q, m, mean, cap, floor = par
    X, linear = x + eta, eta - mean
    d = q - (X if m > X else m)
    d = d if d < cap else cap
    return fma(g, linear, d), linear + d, (m >= X) & (floor <= X)


@kernel
def _add(rows: Floats, t: int, lo: int, x: Floats, g: Floats, par: Floats, times: Floats, sums: Floats) -> None:
    """Four runs at once, each counted times[t] = 1 or 0.

    All sums of a piece lie in one array, a fixed distance apart, from which LLVM sees that they do not overlap.
    """
    wide_vectors()
    n, f = x.size, (times[t], times[t + 1], times[t + 2], times[t + 3])
    r0, r1, r2, r3 = rows[t, lo:], rows[t + 1, lo:], rows[t + 2, lo:], rows[t + 3, lo:]
    p0, p1, p2, p3 = numbers(par[t]), numbers(par[t + 1]), numbers(par[t + 2]), numbers(par[t + 3])
    for i in range(n):
        d0, e0, o0 = _error(r0[i], x[i], g[i], p0)
        d1, e1, o1 = _error(r1[i], x[i], g[i], p1)
        d2, e2, o2 = _error(r2[i], x[i], g[i], p2)
        d3, e3, o3 = _error(r3[i], x[i], g[i], p3)
        put(sums, i, MEAN_D, M2_D, d0, d1, d2, d3, f)
        put(sums, i, MEAN_E, M2_E, e0, e1, e2, e3, f)
        sums[i + ZEROS] += (count(o0, f[0]) + count(o1, f[1])) + (count(o2, f[2]) + count(o3, f[3]))


@kernel
def _centre(eta: Floats, x: Floats, g: Floats, par: Floats, sums: Floats) -> None:
    """The first run of a block sets the centres of one piece: its d."""
    p = numbers(par)
    for i in range(x.size):
        d, _, _ = _error(eta[i], x[i], g[i], p)
        sums[i + CENTRE] = d


@kernel
def _pair_difference(eta: Floats, x: Floats, g: Floats, who: Ints, split: int, par: Floats) -> tuple[float, float]:
    """The mean of d over who[:split] less that over who[split:], and the same of e."""
    p, d, e = numbers(par), 0.0, 0.0
    for k in range(who.size):
        left, error, _ = _error(eta[who[k]], x[who[k]], g[who[k]], p)
        weight = 1.0 / split if k < split else -1.0 / (who.size - split)
        d += weight * left
        e += weight * error
    return d, e


@kernel
def _add_pair(d: float, e: float, pair: Floats, first: bool) -> None:
    """pair = (centre, sum, squares) of d, then of e."""
    if first:
        pair[0], pair[3] = d, e
    u, v = d - pair[0], e - pair[3]
    pair[1] += u
    pair[2] += u * u
    pair[4] += v
    pair[5] += v * v


@kernel
def add_releases(
    first: bool, runs: int, rows: Floats, x: Floats, left: Floats, codes: Ints, shifts: Floats, targets: Floats, who: Ints,
    split: int, ones: Floats, z: Floats, last: Floats, sums: Floats, pairs: Floats,
) -> None:  # fmt: skip
    """The first `runs` of the rows of noise into sums[p] and pairs[p] of every release p; `first` where they begin a block.

    rows has a multiple of 4 rows, left[p] is the part of L that is left in, z is work space, ones holds 1, and last[p] has the
    numbers of the run before (NaN: none).
    The pair of entities (or of classes) that `who` and `split` name is followed.
    """
    par, times = np.empty((codes.size, BATCH, NUMBERS)), np.empty(BATCH)
    for begin in range(0, runs, BATCH):
        here = rows[begin : begin + BATCH]
        size, batch = here.shape[0], min(BATCH, runs - begin)
        counted(times, batch)
        for t in range(size):
            filled = False
            for p in range(codes.size):
                if codes[p] > SIMPLEX:
                    continue
                if t < batch:
                    if codes[p] == SIMPLEX and not filled:
                        filled = True
                        weighted(here[t], x, ones, z)
                    release(codes[p], here[t], z, shifts[p], targets[p], last[p])
                    if who.size > 0:
                        d, e = _pair_difference(here[t], x, left[p], who, split, last[p])
                        _add_pair(d, e, pairs[p], first and begin + t == 0)
                keep(par[p], t, last[p])
        for p in range(codes.size):
            if codes[p] > SIMPLEX:
                continue
            for k in range(sums.shape[1]):
                lo, hi = k * PIECE, min((k + 1) * PIECE, x.size)
                if first and begin == 0:
                    _centre(here[0, lo:hi], x[lo:hi], left[p, lo:hi], par[p, 0], sums[p, k])
                for t in range(0, size, 4):
                    _add(here, t, lo, x[lo:hi], left[p, lo:hi], par[p], times, sums[p, k])
