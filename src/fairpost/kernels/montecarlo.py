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
from numba import njit, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from fairpost.kernels.streams import fill_discrete_gaussian, fill_discrete_laplace, fill_gaussian, fill_laplace
from fairpost.kernels.vectors import wide_vectors

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LAPLACE, GAUSSIAN, DISCRETE_LAPLACE, DISCRETE_GAUSSIAN = 0, 1, 2, 3
NONE, SUM, NONNEGATIVE, SUM_CLIPPED, SIMPLEX, BASELINE, POS = 0, 1, 2, 3, 4, 5, 6

PIECE = 256
"""Entities a piece. A block's sums have the shape (post-processings, pieces, PLANES * PIECE)."""
MEAN_D, M2_D, MEAN_E, M2_E, ZEROS = 0, PIECE, 2 * PIECE, 3 * PIECE, 4 * PIECE
"""Where a piece holds the mean and the sum of squared deviations of d and of e, and the number of runs with 0."""
PLANES = 5
_CENTRE = 5 * PIECE  # while a block runs
WORK_PLANES = 6
NUMBERS = 5  # of one run and post-processing
_LANES = 64
_STRETCH = 4 * _LANES


def _emit_fma(_typing: Any, a: Any, b: Any, c: Any) -> Any:
    def codegen(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.fma(*args)

    return types.float64(types.float64, types.float64, types.float64), codegen


_fma: Any = intrinsic(_emit_fma)
"""a b + c, rounded once. Written out, because what the compiler fuses by itself depends on the place."""


@njit(cache=True, nogil=True)
def draw(kind: int, out: Floats, spread: float, seed: Any, run: Any) -> None:
    """The noise of one run."""
    if kind == LAPLACE:
        fill_laplace(out, 0, spread, seed, run)
    elif kind == GAUSSIAN:
        fill_gaussian(out, 0, spread, seed, run)
    elif kind == DISCRETE_LAPLACE:
        fill_discrete_laplace(out, 0, spread, seed, run)
    else:
        fill_discrete_gaussian(out, 0, spread, seed, run)


@njit(cache=True, nogil=True)
def draw_rows(kind: int, out: Floats, spread: float, seed: Any, first: int) -> None:
    """Row t is the noise of run first + t."""
    for t in range(out.shape[0]):
        draw(kind, out[t], spread, seed, np.uint64(first + t))


# Sums over entities. A sum that the compiler may reorder (fastmath) has other last bits when it is compiled in another
# place, such as in a second process that loads it from the cache. So the order is written down: STRETCH entries at a
# time are added as four rows to running sums, one a column, which vectorises as it stands on any processor.


@njit(cache=True, nogil=True, inline="always")
def _over(d: Any) -> Any:
    return (d, 1.0) if d > 0.0 else (0.0, 0.0)


@njit(cache=True, nogil=True)
def _short_total(y: Floats) -> Any:
    """`total_of` where every lane has one entry at most."""
    total = 0.0
    for i in range(y.size):
        total += y[i]
    return total


@njit(cache=True, nogil=True)
def _short_excess(y: Floats, m: float) -> Any:
    """`excess` where every lane has one entry at most."""
    total, count = 0.0, 0.0
    for i in range(y.size):
        d, c = _over(y[i] - m)
        total += d
        count += c
    return total, count


@njit(cache=True, nogil=True)
def total_of(y: Floats) -> Any:
    """The sum of y."""
    wide_vectors()
    if y.size <= _LANES:
        return _short_total(y)
    lanes, whole = np.zeros(_LANES), y.size - y.size % _STRETCH
    for start in range(0, whole, _STRETCH):
        part = y[start : start + _STRETCH]
        for k in range(_LANES):
            lanes[k] += (part[k] + part[k + _LANES]) + (part[k + 2 * _LANES] + part[k + 3 * _LANES])
    for start in range(whole, y.size, _LANES):
        part = y[start : start + _LANES]
        for k in range(part.size):
            lanes[k] += part[k]
    total = 0.0
    for k in range(min(_LANES, y.size)):
        total += lanes[k]
    return total


@njit(cache=True, nogil=True)
def _weighted(eta: Floats, x: Floats, w: Floats, z: Floats) -> None:
    """z = w (x + eta)."""
    wide_vectors()
    for i in range(z.size):
        z[i] = w[i] * (x[i] + eta[i])


@njit(cache=True, nogil=True)
def excess(y: Floats, m: float) -> Any:
    """sum (y - m)_+ and the number of entries above m."""
    wide_vectors()
    if y.size <= _LANES:
        return _short_excess(y, m)
    lanes, whole = np.zeros(2 * _LANES), y.size - y.size % _STRETCH
    for start in range(0, whole, _STRETCH):
        part = y[start : start + _STRETCH]
        for k in range(_LANES):
            d0, c0 = _over(part[k] - m)
            d1, c1 = _over(part[k + _LANES] - m)
            d2, c2 = _over(part[k + 2 * _LANES] - m)
            d3, c3 = _over(part[k + 3 * _LANES] - m)
            lanes[k] += (d0 + d1) + (d2 + d3)
            lanes[k + _LANES] += (c0 + c1) + (c2 + c3)
    for start in range(whole, y.size, _LANES):
        part = y[start : start + _LANES]
        for k in range(part.size):
            d, c = _over(part[k] - m)
            lanes[k] += d
            lanes[k + _LANES] += c
    total, count = 0.0, 0.0
    for k in range(min(_LANES, y.size)):
        total += lanes[k]
        count += lanes[k + _LANES]
    return total, count


@njit(cache=True, nogil=True)
def _newton(z: Floats, target: float, m: float) -> Any:
    """Newton steps on sum (z - m)_+ = target from m: the root and how many entries lie above the last point.

    The first step lands at or left of the root and the others climb to it, until two see the same entries. Where the
    root lies on an entry rounding can change the set for ever: a step that does not climb ends it too.
    """
    before, step = -1.0, 0
    while True:
        h, active = excess(z, m)
        if active == 0.0:
            return m, active
        new = m + (h - target) / active
        if active == before or (step > 0 and new <= m):
            return new, active
        m, before, step = new, active, step + 1


@njit(cache=True, nogil=True)
def _threshold(z: Floats, target: float, start: float, guess: float) -> Any:
    """The m with sum (z - m)_+ = target, from a guess or else from `start`; exactly `start` where none is clipped."""
    m, active = _newton(z, target, guess)
    if active == 0.0 and guess != start:
        m, active = _newton(z, target, start)
    return start if active == z.size else m


@njit(cache=True, nogil=True, error_model="numpy")
def _release(code: int, eta: Floats, z: Floats, shift: float, target: float, par: Floats) -> None:
    """par = (q, m, s, cap, floor) of one run; par[1] comes in as a guess for m (NaN: none).

    The output is 0 where floor <= X <= m.
    """
    keeps = code not in (NONE, NONNEGATIVE)
    linear = code <= SUM
    mean = total_of(eta) / eta.size if keeps else 0.0
    q = mean - shift
    guess = par[1]
    par[0], par[1], par[2] = q, q, mean
    par[3], par[4] = 0.0 if linear else np.inf, q if linear else -np.inf
    if code == SIMPLEX:
        par[1] = _threshold(z, target, q, guess if np.isfinite(guess) else q)


@njit(cache=True, nogil=True, error_model="numpy")
def _share(code: int, z: Floats, total: float, whole: float, par: Floats) -> int:
    """par = (v, m, k, u, b = m |v|) of one run; par[1] comes in as a guess for m. Returns 1 for a degenerate draw."""
    guess = par[1] if par[0] > 0.0 else 0.0
    turned = code == POS and total < 0.0
    size = abs(total) if code == POS else excess(z, 0.0)[0]
    lost = size == 0.0
    m = 0.0
    if code == POS and not lost:
        m = _threshold(-z, size, 0.0, 0.0) if turned else _threshold(z, size, 0.0, guess)
    v = 0.0 if lost else 1.0 / size
    par[0], par[1], par[2], par[3], par[4] = -v if turned else v, m, 1.0 / whole if lost else 0.0, total - 1.0, m * v
    return 1 if turned or lost else 0


@njit(cache=True, nogil=True, inline="always")
def _numbers(par: Floats) -> Any:
    """The numbers of one run as scalars, which stay in registers."""
    return par[0], par[1], par[2], par[3], par[4]


@njit(cache=True, nogil=True, inline="always")
def _release_error(eta: Any, x: Any, par: Any) -> Any:
    """d, e and whether the output is 0, of a release."""
    q, m, mean, cap, floor = par
    X = x + eta
    d = q - (X if m > X else m)
    d = d if d < cap else cap
    return d, (eta - mean) + d, (m >= X) & (floor <= X)


@njit(cache=True, nogil=True, inline="always")
def _share_error(eta: Any, x: Any, w: Any, par: Any) -> Any:
    """d, e and whether the output is 0, of a share in a draw with information."""
    z = w * (x + eta)
    over = _fma(par[0], z, -par[4])
    share = over if over > 0.0 else 0.0
    return _fma(w * x, par[3], share - z), share - w * x, share == 0.0


@njit(cache=True, nogil=True, inline="always")
def _put(sums: Floats, i: int, mean: int, m2: int, v0: Any, v1: Any, v2: Any, v3: Any, times: Any) -> None:
    """Four runs' values of one entity, less the centre, into its sum and sum of squares."""
    c = sums[i + _CENTRE]
    u0, u1, u2, u3 = (v0 - c) * times[0], (v1 - c) * times[1], (v2 - c) * times[2], (v3 - c) * times[3]
    sums[i + mean] += (u0 + u1) + (u2 + u3)
    sums[i + m2] += _fma(u0, u0, u1 * u1) + _fma(u2, u2, u3 * u3)


@njit(cache=True, nogil=True, inline="always")
def _count(zero: Any, times: Any) -> Any:
    return times if zero else 0.0


# Four runs at once, each counted times[t] = 1 or 0. All sums of a piece lie in one array, a fixed distance apart, from
# which LLVM sees that they do not overlap.


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def _centre(code: int, eta: Floats, x: Floats, w: Floats, par: Floats, sums: Floats) -> None:
    """The first run of a block sets the centres of one piece: its d."""
    p = _numbers(par)
    for i in range(x.size):
        d, _, _ = _release_error(eta[i], x[i], p) if code <= SIMPLEX else _share_error(eta[i], x[i], w[i], p)
        sums[i + _CENTRE] = d


@njit(cache=True, nogil=True)
def _add_lost(eta: Floats, x: Floats, w: Floats, par: Floats, sums: Floats) -> None:
    """A draw without information: shares w / sum w."""
    for i in range(x.size):
        share = par[2] * w[i]
        u = (share - w[i] * (x[i] + eta[i])) + w[i] * x[i] * par[3] - sums[i + _CENTRE]
        v = share - w[i] * x[i] - sums[i + _CENTRE]
        sums[i + MEAN_D] += u
        sums[i + M2_D] += u * u
        sums[i + MEAN_E] += v
        sums[i + M2_E] += v * v


@njit(cache=True, nogil=True)
def _add_batch(
    code: int, rows: Floats, x: Floats, w: Floats, par: Floats, times: Floats, sums: Floats, first: bool
) -> None:
    """All rows of a batch into the sums of one post-processing, piece by piece; rows with times[t] = 0 are left out."""
    usual, lost = times.copy(), code > SIMPLEX
    for t in range(times.size):
        if lost and par[t, 2] > 0.0:
            usual[t] = 0.0
    lost = lost and usual.sum() < times.sum()
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


@njit(cache=True, nogil=True)
def _pair_difference(eta: Floats, x: Floats, who: Ints, split: int, par: Floats) -> tuple[float, float]:
    """The mean of d over who[:split] less that over who[split:], and the same of e, of a release."""
    p, d, e = _numbers(par), 0.0, 0.0
    for k in range(who.size):
        left, error, _ = _release_error(eta[who[k]], x[who[k]], p)
        weight = 1.0 / split if k < split else -1.0 / (who.size - split)
        d += weight * left
        e += weight * error
    return d, e


@njit(cache=True, nogil=True)
def _add_pair(d: float, e: float, pair: Floats, first: bool) -> None:
    """pair = (centre, sum, squares) of d, then of e."""
    if first:
        pair[0], pair[3] = d, e
    u, v = d - pair[0], e - pair[3]
    pair[1] += u
    pair[2] += u * u
    pair[4] += v
    pair[5] += v * v


@njit(cache=True, nogil=True, error_model="numpy")
def _solve(
    codes: Ints, which: Ints, shifts: Floats, targets: Floats, x: Floats, weights: Floats, whole: Floats,
    eta: Floats, z: Floats, par: Floats, degenerate: Ints,
) -> None:  # fmt: skip
    """The numbers of one run for each post-processing; par comes in with those of the run before (NaN: none)."""
    filled, total = -1, 0.0
    for p in range(codes.size):
        if which[p] != filled and codes[p] >= SIMPLEX:
            filled = which[p]
            _weighted(eta, x, weights[filled], z)
            total = total_of(z)
        if codes[p] <= SIMPLEX:
            _release(codes[p], eta, z, shifts[p], targets[p], par[p])
        else:
            degenerate[p] += _share(codes[p], z, total, whole[which[p]], par[p])


@njit(cache=True, nogil=True)
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
    par = np.full((count, size, NUMBERS), np.nan)
    last = np.full((count, NUMBERS), np.nan)
    times = np.zeros(size)
    for begin in range(0, runs, size):
        batch = min(size, runs - begin)
        for t in range(size):
            times[t] = 1.0 if t < batch else 0.0
        for t in range(batch):
            draw(kind, rows[t], spread, seed, np.uint64(first + begin + t))
            _solve(codes, which, shifts, targets, x, weights, whole, rows[t], z, last, degenerate)
            par[:, t] = last
            for p in range(count):
                if codes[p] <= SIMPLEX and who.size > 0:
                    d, e = _pair_difference(rows[t], x, who, split, last[p])
                    _add_pair(d, e, pairs[p], begin + t == 0)
        for t in range(batch, size):
            par[:, t] = last
        for p in range(count):
            _add_batch(codes[p], rows, x, weights[which[p]], par[p], times, sums[p], begin == 0)


@njit(cache=True, nogil=True)
def add_rows(d: Floats, e: Floats, zero: NDArray[np.bool_], sums: Floats, first: bool) -> None:
    """Rows of d and e of any post-processing into its sums; `first` where row 0 is the first run of the block."""
    n = d.shape[1]
    for k in range(sums.shape[0]):
        lo, piece = k * PIECE, sums[k]
        for t in range(d.shape[0]):
            for i in range(min(PIECE, n - lo)):
                if first and t == 0:
                    piece[i + _CENTRE] = d[t, lo + i]
                u, v = d[t, lo + i] - piece[i + _CENTRE], e[t, lo + i] - piece[i + _CENTRE]
                piece[i + MEAN_D] += u
                piece[i + M2_D] += u * u
                piece[i + MEAN_E] += v
                piece[i + M2_E] += v * v
                piece[i + ZEROS] += 1.0 if zero[t, lo + i] else 0.0


@njit(cache=True, nogil=True)
def _settle(piece: Floats, mean: int, m2: int, runs: int) -> None:
    for i in range(PIECE):
        total = piece[i + mean]
        piece[i + mean] = piece[i + _CENTRE] + total / runs
        piece[i + m2] = max(piece[i + m2] - total * (total / runs), 0.0)


@njit(cache=True, nogil=True)
def finish(sums: Floats, pairs: Floats, runs: int) -> None:
    """Sums about a centre to the mean and the sum of squared deviations from it, in place; pairs likewise.

    The memory of `sums` then begins with (post-processings, pieces, PLANES * PIECE), without the centres.
    """
    flat, place = sums.reshape(-1), 0
    for p in range(sums.shape[0]):
        for k in range(sums.shape[1]):
            _settle(sums[p, k], MEAN_D, M2_D, runs)
            _settle(sums[p, k], MEAN_E, M2_E, runs)
            for i in range(PLANES * PIECE):  # place never passes what is still to be read
                flat[place] = sums[p, k, i]
                place += 1
        for k in (0, 3):
            total = pairs[p, k + 1]
            pairs[p, k] += total / runs
            pairs[p, k + 1] = max(pairs[p, k + 2] - total * (total / runs), 0.0)
            pairs[p, k + 2] = 0.0


@njit(cache=True, nogil=True, inline="always")
def _merged(mean: Any, m2: Any, done: Any, new_mean: Any, new_m2: Any, more: Any) -> Any:
    """Chan, Golub and LeVeque 1979: the mean and sum of squared deviations of two samples together."""
    step = new_mean - mean
    return mean + step * (more / (done + more)), m2 + new_m2 + step * step * (done / (done + more) * more)


@njit(cache=True, nogil=True)
def _merge_ties(
    ties: Floats, sums: Floats, label: Ints, count: Floats, scratch: Floats, done: float, more: float
) -> None:
    """The block's mean of d over each class of equal entities into ties = (mean, sum of squares between blocks)."""
    scratch[:] = 0.0
    for i in range(label.size):
        scratch[label[i]] += sums[i // PIECE, i % PIECE + MEAN_D]
    for c in range(scratch.size):
        mean = scratch[c] / max(count[c], 1.0)
        ties[0, c], ties[1, c] = _merged(ties[0, c], ties[1, c], done, mean, 0.0, more)


@njit(cache=True, nogil=True)
def merge(
    tally: Ints, sums: Floats, pairs: Floats, ties: Floats, degenerate: Ints, more: int,
    new_sums: Floats, new_pairs: Floats, new_degenerate: Ints, labels: Ints, counts: Floats, scratch: Floats,
) -> None:  # fmt: skip
    """A block of `more` runs into the totals. tally = (runs, blocks) changes in the same call: all or nothing.

    labels[p, i] is the class of entity i under post-processing p and counts[p] the number of entities of each class.
    """
    done, extra = float(tally[0]), float(more)
    for p in range(sums.shape[0]):
        for k in range(sums.shape[1]):
            old, new = sums[p, k], new_sums[p, k]
            for i in range(PIECE):
                old[i + MEAN_D], old[i + M2_D] = _merged(
                    old[i + MEAN_D], old[i + M2_D], done, new[i + MEAN_D], new[i + M2_D], extra
                )
                old[i + MEAN_E], old[i + M2_E] = _merged(
                    old[i + MEAN_E], old[i + M2_E], done, new[i + MEAN_E], new[i + M2_E], extra
                )
                old[i + ZEROS] += new[i + ZEROS]
        for k in (0, 3):
            pairs[p, k], pairs[p, k + 1] = _merged(
                pairs[p, k], pairs[p, k + 1], done, new_pairs[p, k], new_pairs[p, k + 1], extra
            )
        if labels.shape[0] > 0:
            _merge_ties(ties[p], new_sums[p], labels[p], counts[p], scratch, done, extra)
        degenerate[p] += new_degenerate[p]
    tally[0] += more
    tally[1] += 1
