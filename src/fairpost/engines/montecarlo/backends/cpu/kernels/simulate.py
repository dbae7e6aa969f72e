"""One block of runs: noise, thresholds and sums over runs, for every built-in post-processing on the same noise.

Per run r and entity i, with X = x + eta, a post-processing has an error e = pi(X)_i - base_i and the part d = e - L of
it that is left when a linear function L of the noise, whose mean is exactly 0, is taken away. Every built-in one has
one of two forms, with a few numbers a run (`par`):

    release   d = min(q - min(X, m), cap)     L = eta - s      q = s - shift     s = mean of eta (0: no total is kept)
        nonnegative q = m = 0; sum-clipped m = q; simplex m = q + T (Lemma 2); none and sum are linear: m = q, cap = 0
    share     d = (v z - m |v|)_+ - z + w x u                  u = sum w eta
        with w = a / sum a x and z = w X, so that P(x) = w x and L = w (eta - x u); BL has m = 0 and v = 1 / sum (z)_+;
        PoS has v = 1 / S, S = sum z = 1 + u; a draw without information has the shares k w, k = 1 / sum w

The form of d keeps its digits where pi(X) - pi_S(X) would cancel. Sums over runs are taken of d - c and e - c, where c
is the first run's d, and of their squares. d and e have the same mean, so both deviations are of the size of the spread
and no variance cancels.

Rows are drawn a few at a time and then added up piece by piece of PIECE entities, four runs at once, so that the sums
stay in the nearest cache. What is summed in which order depends on the position of a run in its block alone.
"""

from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from fairpost.compiled import kernel
from fairpost.compiled.vectors import wide_vectors
from fairpost.engines.montecarlo.backends.cpu.kernels.solve import SIMPLEX, draw, release, share, total_of, weighted
from fairpost.engines.montecarlo.backends.cpu.kernels.sums import CENTRE, M2_D, M2_E, MEAN_D, MEAN_E, PIECE, ZEROS

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

NUMBERS = 5  # of one run and post-processing


def _emit_fma(_typing: Any, a: Any, b: Any, c: Any) -> Any:
    def codegen(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.fma(*args)

    return types.float64(types.float64, types.float64, types.float64), codegen


_fma: Any = intrinsic(_emit_fma)
"""a b + c, rounded once. Written out, because what the compiler fuses by itself depends on the place."""


@kernel(inline="always")
def _numbers(par: Floats) -> Any:
    """The numbers of one run as scalars, which stay in registers."""
    return par[0], par[1], par[2], par[3], par[4]


@kernel(inline="always")
def _release_error(eta: Any, x: Any, par: Any) -> Any:
    """d, e and whether the output is 0, of a release."""
    q, m, mean, cap, floor = par
    X = x + eta
    d = q - (X if m > X else m)
    d = d if d < cap else cap
    return d, (eta - mean) + d, (m >= X) & (floor <= X)


@kernel(inline="always")
def _share_error(eta: Any, x: Any, w: Any, par: Any) -> Any:
    """d, e and whether the output is 0, of a share in a draw with information."""
    z = w * (x + eta)
    over = _fma(par[0], z, -par[4])
    share = over if over > 0.0 else 0.0
    return _fma(w * x, par[3], share - z), share - w * x, share == 0.0


@kernel(inline="always")
def _put(sums: Floats, i: int, mean: int, m2: int, v0: Any, v1: Any, v2: Any, v3: Any, times: Any) -> None:
    """Four runs' values of one entity, less the centre, into its sum and sum of squares."""
    c = sums[i + CENTRE]
    u0, u1, u2, u3 = (v0 - c) * times[0], (v1 - c) * times[1], (v2 - c) * times[2], (v3 - c) * times[3]
    sums[i + mean] += (u0 + u1) + (u2 + u3)
    sums[i + m2] += _fma(u0, u0, u1 * u1) + _fma(u2, u2, u3 * u3)


@kernel(inline="always")
def _count(zero: Any, times: Any) -> Any:
    return times if zero else 0.0


# Four runs at once, each counted times[t] = 1 or 0. All sums of a piece lie in one array, a fixed distance apart, from
# which LLVM sees that they do not overlap.


@kernel
def _add_release(rows: Floats, t: int, lo: int, x: Floats, par: Floats, times: Floats, sums: Floats) -> None:
    wide_vectors()
    n, f = x.size, (times[t], times[t + 1], times[t + 2], times[t + 3])
    r0, r1, r2, r3 = rows[t, lo:], rows[t + 1, lo:], rows[t + 2, lo:], rows[t + 3, lo:]
    p0, p1, p2, p3 = _numbers(par[t]), _numbers(par[t + 1]), _numbers(par[t + 2]), _numbers(par[t + 3])
    for i in range(n):
        d0, e0, o0 = _release_error(r0[i], x[i], p0)
        d1, e1, o1 = _release_error(r1[i], x[i], p1)
        d2, e2, o2 = _release_error(r2[i], x[i], p2)
        d3, e3, o3 = _release_error(r3[i], x[i], p3)
        _put(sums, i, MEAN_D, M2_D, d0, d1, d2, d3, f)
        _put(sums, i, MEAN_E, M2_E, e0, e1, e2, e3, f)
        sums[i + ZEROS] += (_count(o0, f[0]) + _count(o1, f[1])) + (_count(o2, f[2]) + _count(o3, f[3]))


@kernel
def _add_share(rows: Floats, t: int, lo: int, x: Floats, w: Floats, par: Floats, times: Floats, sums: Floats) -> None:
    wide_vectors()
    n, f = x.size, (times[t], times[t + 1], times[t + 2], times[t + 3])
    r0, r1, r2, r3 = rows[t, lo:], rows[t + 1, lo:], rows[t + 2, lo:], rows[t + 3, lo:]
    p0, p1, p2, p3 = _numbers(par[t]), _numbers(par[t + 1]), _numbers(par[t + 2]), _numbers(par[t + 3])
    for i in range(n):
        d0, e0, o0 = _share_error(r0[i], x[i], w[i], p0)
        d1, e1, o1 = _share_error(r1[i], x[i], w[i], p1)
        d2, e2, o2 = _share_error(r2[i], x[i], w[i], p2)
        d3, e3, o3 = _share_error(r3[i], x[i], w[i], p3)
        _put(sums, i, MEAN_D, M2_D, d0, d1, d2, d3, f)
        _put(sums, i, MEAN_E, M2_E, e0, e1, e2, e3, f)
        sums[i + ZEROS] += (_count(o0, f[0]) + _count(o1, f[1])) + (_count(o2, f[2]) + _count(o3, f[3]))


@kernel
def _centre(code: int, eta: Floats, x: Floats, w: Floats, par: Floats, sums: Floats) -> None:
    """The first run of a block sets the centres of one piece: its d."""
    p = _numbers(par)
    for i in range(x.size):
        d, _, _ = _release_error(eta[i], x[i], p) if code <= SIMPLEX else _share_error(eta[i], x[i], w[i], p)
        sums[i + CENTRE] = d


@kernel
def _add_lost(eta: Floats, x: Floats, w: Floats, par: Floats, sums: Floats) -> None:
    """A draw without information: shares w / sum w."""
    for i in range(x.size):
        share = par[2] * w[i]
        u = (share - w[i] * (x[i] + eta[i])) + w[i] * x[i] * par[3] - sums[i + CENTRE]
        v = share - w[i] * x[i] - sums[i + CENTRE]
        sums[i + MEAN_D] += u
        sums[i + M2_D] += u * u
        sums[i + MEAN_E] += v
        sums[i + M2_E] += v * v


@kernel
def _add_batch(
    code: int, rows: Floats, x: Floats, w: Floats, par: Floats, times: Floats, sums: Floats, first: bool
) -> None:
    """All rows of a batch into the sums of one post-processing, piece by piece; rows with times[t] = 0 are left out."""
    usual, lost = np.empty(times.size), False
    for t in range(times.size):
        usual[t] = times[t]
        if code > SIMPLEX and par[t, 2] > 0.0:
            usual[t] = 0.0
            lost = lost or times[t] > 0.0
    for k in range(sums.shape[0]):
        lo, hi = k * PIECE, min((k + 1) * PIECE, x.size)
        here, weight = x[lo:hi], w[lo:hi]
        if first:
            _centre(code, rows[0, lo:hi], here, weight, par[0], sums[k])
        for t in range(0, rows.shape[0], 4):
            if code <= SIMPLEX:
                _add_release(rows, t, lo, here, par, usual, sums[k])
            else:
                _add_share(rows, t, lo, here, weight, par, usual, sums[k])
        if lost:
            for t in range(times.size):
                if usual[t] != times[t]:
                    _add_lost(rows[t, lo:hi], here, weight, par[t], sums[k])


@kernel
def _pair_difference(eta: Floats, x: Floats, who: Ints, split: int, par: Floats) -> tuple[float, float]:
    """The mean of d over who[:split] less that over who[split:], and the same of e, of a release."""
    p, d, e = _numbers(par), 0.0, 0.0
    for k in range(who.size):
        left, error, _ = _release_error(eta[who[k]], x[who[k]], p)
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
def _keep(par: Floats, t: int, last: Floats) -> None:
    """The numbers of run t. (Between arrays `par[:, t] = last` would compile messages about shapes, for seconds.)"""
    for p in range(last.shape[0]):
        for k in range(NUMBERS):
            par[p, t, k] = last[p, k]


@kernel(error_model="numpy")
def _solve(
    codes: Ints, which: Ints, shifts: Floats, targets: Floats, x: Floats, weights: Floats, whole: Floats,
    eta: Floats, z: Floats, par: Floats, degenerate: Ints,
) -> None:  # fmt: skip
    """The numbers of one run for each post-processing; par comes in with those of the run before (NaN: none)."""
    filled, total = -1, 0.0
    for p in range(codes.size):
        if which[p] != filled and codes[p] >= SIMPLEX:
            filled = which[p]
            weighted(eta, x, weights[filled], z)
            total = total_of(z)
        if codes[p] <= SIMPLEX:
            release(codes[p], eta, z, shifts[p], targets[p], par[p])
        else:
            degenerate[p] += share(codes[p], z, total, whole[which[p]], par[p])


@kernel
def simulate(
    kind: int, spread: float, seed: Any, first: int, runs: int, x: Floats, codes: Ints, which: Ints, shifts: Floats,
    targets: Floats, weights: Floats, whole: Floats, who: Ints, split: int,
    rows: Floats, z: Floats, sums: Floats, pairs: Floats, degenerate: Ints,
) -> None:  # fmt: skip
    """Runs first, ..., first + runs - 1 of every post-processing p, added into sums[p], pairs[p] and degenerate[p].

    rows (a multiple of 4, n) and z (n) are work space; rows, sums, pairs and degenerate come in as 0. The pair of
    entities (or of classes) that `who` and `split` name is followed for a release alone.
    """
    size, count = rows.shape[0], codes.size
    par, last, times = np.empty((count, size, NUMBERS)), np.empty((count, NUMBERS)), np.empty(size)
    for p in range(count):
        for k in range(NUMBERS):
            last[p, k] = np.nan
    for begin in range(0, runs, size):
        batch = min(size, runs - begin)
        for t in range(size):
            times[t] = 1.0 if t < batch else 0.0
        for t in range(batch):
            draw(kind, rows[t], spread, seed, np.uint64(first + begin + t))
            _solve(codes, which, shifts, targets, x, weights, whole, rows[t], z, last, degenerate)
            _keep(par, t, last)
            for p in range(count):
                if codes[p] <= SIMPLEX and who.size > 0:
                    d, e = _pair_difference(rows[t], x, who, split, last[p])
                    _add_pair(d, e, pairs[p], begin + t == 0)
        for t in range(batch, size):
            _keep(par, t, last)
        for p in range(count):
            _add_batch(codes[p], rows, x, weights[which[p]], par[p], times, sums[p], begin == 0)
