"""A few runs of the post-processings that give shares, into their sums; for the form and its numbers see `forms`."""

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
from fairpost.engines.montecarlo.backends.cpu.kernels.solve import SIMPLEX, share, total_of, weighted
from fairpost.engines.montecarlo.backends.cpu.kernels.sums import CENTRE, M2_D, M2_E, MEAN_D, MEAN_E, PIECE, ZEROS

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@kernel(inline="always")
def _error(eta: Any, x: Any, w: Any, g: Any, par: Any) -> Any:
    """d, e and whether the output is 0, in a draw with information."""
    z = w * (x + eta)
    over = fma(par[0], z, -par[4])
    share = over if over > 0.0 else 0.0
    d, e = fma(w * x, par[3], share - z), share - w * x
    return fma(g, e - d, d), e, share == 0.0


@kernel
def _add(
    rows: Floats, t: int, lo: int, x: Floats, w: Floats, g: Floats, par: Floats, times: Floats, sums: Floats
) -> None:
    """Four runs at once, each counted times[t] = 1 or 0; see `releases._add`."""
    wide_vectors()
    n, f = x.size, (times[t], times[t + 1], times[t + 2], times[t + 3])
    r0, r1, r2, r3 = rows[t, lo:], rows[t + 1, lo:], rows[t + 2, lo:], rows[t + 3, lo:]
    p0, p1, p2, p3 = numbers(par[t]), numbers(par[t + 1]), numbers(par[t + 2]), numbers(par[t + 3])
    for i in range(n):
        d0, e0, o0 = _error(r0[i], x[i], w[i], g[i], p0)
        d1, e1, o1 = _error(r1[i], x[i], w[i], g[i], p1)
        d2, e2, o2 = _error(r2[i], x[i], w[i], g[i], p2)
        d3, e3, o3 = _error(r3[i], x[i], w[i], g[i], p3)
        put(sums, i, MEAN_D, M2_D, d0, d1, d2, d3, f)
        put(sums, i, MEAN_E, M2_E, e0, e1, e2, e3, f)
        sums[i + ZEROS] += (count(o0, f[0]) + count(o1, f[1])) + (count(o2, f[2]) + count(o3, f[3]))


@kernel
def _centre(eta: Floats, x: Floats, w: Floats, g: Floats, par: Floats, sums: Floats) -> None:
    """The first run of a block sets the centres of one piece: its d."""
    p = numbers(par)
    for i in range(x.size):
        d, _, _ = _error(eta[i], x[i], w[i], g[i], p)
        sums[i + CENTRE] = d


@kernel
def _add_lost(eta: Floats, x: Floats, w: Floats, g: Floats, par: Floats, sums: Floats) -> None:
    """A draw without information: shares w / sum w."""
    for i in range(x.size):
        share = par[2] * w[i]
        d, e = (share - w[i] * (x[i] + eta[i])) + w[i] * x[i] * par[3], share - w[i] * x[i]
        u, v = fma(g[i], e - d, d) - sums[i + CENTRE], e - sums[i + CENTRE]
        sums[i + MEAN_D] += u
        sums[i + M2_D] += u * u
        sums[i + MEAN_E] += v
        sums[i + M2_E] += v * v


@kernel
def _add_rows(
    rows: Floats, batch: int, x: Floats, w: Floats, g: Floats, par: Floats, times: Floats, sums: Floats, first: bool
) -> None:
    """The rows into the sums of one post-processing, piece by piece; of those that are runs the ones without information apart."""
    lost = False
    counted(times, batch)
    for t in range(batch):
        if par[t, 2] > 0.0:
            times[t], lost = 0.0, True
    for k in range(sums.shape[0]):
        lo, hi = k * PIECE, min((k + 1) * PIECE, x.size)
        if first:
            _centre(rows[0, lo:hi], x[lo:hi], w[lo:hi], g[lo:hi], par[0], sums[k])
        for t in range(0, rows.shape[0], 4):
            _add(rows, t, lo, x[lo:hi], w[lo:hi], g[lo:hi], par, times, sums[k])
        if lost:
            for t in range(batch):
                if par[t, 2] > 0.0:
                    _add_lost(rows[t, lo:hi], x[lo:hi], w[lo:hi], g[lo:hi], par[t], sums[k])


@kernel
def add_shares(
    first: bool, runs: int, rows: Floats, x: Floats, left: Floats, codes: Ints, which: Ints, weights: Floats, whole: Floats,
    z: Floats, last: Floats, sums: Floats, degenerate: Ints,
) -> None:  # fmt: skip
    """The first `runs` of the rows of noise into sums[p] and degenerate[p] of every share p; `first` where they begin a block.

    rows has a multiple of 4 rows, left[p] is the part of L that is left in, z is work space, which[p] is p's row of `weights`, `whole`
    their sums, and last[p] has the numbers of the run before (NaN: none).
    """
    par, times = np.empty((codes.size, BATCH, NUMBERS)), np.empty(BATCH)
    for begin in range(0, runs, BATCH):
        here = rows[begin : begin + BATCH]
        size, batch = here.shape[0], min(BATCH, runs - begin)
        for t in range(size):
            filled, total = -1, 0.0
            for p in range(codes.size):
                if codes[p] <= SIMPLEX:
                    continue
                if t < batch:
                    if which[p] != filled:
                        filled = which[p]
                        weighted(here[t], x, weights[filled], z)
                        total = total_of(z)
                    degenerate[p] += share(codes[p], z, total, whole[which[p]], last[p])
                keep(par[p], t, last[p])
        for p in range(codes.size):
            if codes[p] > SIMPLEX:
                _add_rows(here, batch, x, weights[which[p]], left[p], par[p], times, sums[p], first and begin == 0)
