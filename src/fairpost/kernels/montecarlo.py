"""One block of runs: noise, thresholds and sums over runs, for every built-in post-processing on the same noise.

Per run r and entity i, with X = x + eta, a post-processing has an error e = pi(X)_i - base_i and the part d = e - L of
it that is left when a linear function L of the noise, whose mean is exactly 0, is taken away. Every built-in one has
one of three forms, with a few numbers a run (`par`):

    LINEAR  none, sum                     d = 0                          L = eta - s        s = mean of eta, or 0
    CLIP    nonnegative, sum-clipped,     d = q - min(X, m)              L = eta - s        q = s - shift
            simplex                       (q = m = 0, q = m, and m = q + T of Lemma 2)
    SHARE   baseline, pos                 d = (g z - m)_+ v + k w - w (X - x u)             u = sum w eta
            with w = a / sum a x, z = w X, so that P(x) = w x and L = w (eta - x u); BL has m = 0 and v = 1 / sum (z)_+;
            PoS has v = 1 / |S|, S = sum z = 1 + u, g = sign S; k = 1 / sum w in a draw without information (else 0)

The form of d keeps its digits where pi(X) - pi_S(X) would cancel. Sums over runs are taken of e - c and d - c, where c
is the first run's value, and of their squares: deviations are of the size of the spread, so that no variance cancels.

Rows are drawn a few at a time and then added up piece by piece, so that the sums stay in the nearest cache. Each
entity's sums run over the runs in order: the size of the pieces changes no bit.
"""

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from fairpost.kernels.philox import wide_vectors
from fairpost.kernels.simplex import excess, newton, total_of
from fairpost.kernels.streams import fill_discrete_gaussian, fill_discrete_laplace, fill_gaussian, fill_laplace

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LAPLACE, GAUSSIAN, DISCRETE_LAPLACE, DISCRETE_GAUSSIAN = 0, 1, 2, 3
NONE, SUM, NONNEGATIVE, SUM_CLIPPED, SIMPLEX, BASELINE, POS = 0, 1, 2, 3, 4, 5, 6
MEAN_D, M2_D, MEAN_E, M2_E, ZEROS = 0, 1, 2, 3, 4
"""What a block holds of each post-processing and entity: mean and sum of squared deviations of d and e, runs with 0."""
_PIECE = 512


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


@njit(cache=True, nogil=True)
def _weighted(eta: Floats, x: Floats, w: Floats, z: Floats) -> None:
    wide_vectors()
    for i in range(z.size):
        z[i] = w[i] * (x[i] + eta[i])


@njit(cache=True, nogil=True)
def _threshold(z: Floats, target: float, start: float, guess: float) -> Any:
    """The m with sum (z - m)_+ = target, from a guess (the run before) or else from `start`; `start` where none is clipped."""
    m, active = newton(z, target, guess, 0.0)
    if active == 0.0 and guess != start:
        m, active = newton(z, target, start, 0.0)
    return start if active == z.size else m


@njit(cache=True, nogil=True, error_model="numpy")
def _release(code: int, eta: Floats, z: Floats, shift: float, target: float, par: Floats) -> None:
    """par = (q, m, s) of one run; par[1] holds the guess for m (NaN: none)."""
    if code == NONE or code == NONNEGATIVE:
        par[:3] = 0.0
        return
    mean = total_of(eta) / eta.size
    q = mean - shift
    guess = par[1]
    par[0], par[1], par[2] = q, q, mean
    if code == SIMPLEX:
        par[1] = _threshold(z, target, q, guess if np.isfinite(guess) else q)


@njit(cache=True, nogil=True, error_model="numpy")
def _share(code: int, z: Floats, whole: float, par: Floats) -> int:
    """par = (g, m, v, k, u) of one run; par[1] holds the guess for m (NaN: none). Returns 1 for a degenerate draw."""
    total = total_of(z)
    guess = par[1] if par[0] == 1.0 and np.isfinite(par[1]) else 0.0
    sign = -1.0 if code == POS and total < 0.0 else 1.0
    size = abs(total) if code == POS else excess(z, 0.0, 0.0, 1.0)[0]
    par[0], par[1], par[3], par[4] = sign, 0.0, 0.0, total - 1.0
    if size == 0.0:
        par[2], par[3] = 0.0, 1.0 / whole
        return 1
    par[2] = 1.0 / size
    if code == POS:
        if sign < 0.0:
            z *= -1.0
        par[1] = _threshold(z, size, 0.0, guess if sign > 0.0 else 0.0)
        if sign < 0.0:
            z *= -1.0
            return 1
    return 0


@njit(cache=True, nogil=True)
def _linear_errors(eta: Floats, par: Floats, d: Floats, e: Floats) -> None:
    wide_vectors()
    mean = par[2]
    for i in range(eta.size):
        d[i] = 0.0
        e[i] = eta[i] - mean


@njit(cache=True, nogil=True)
def _clip_errors(eta: Floats, x: Floats, par: Floats, d: Floats, e: Floats) -> None:
    wide_vectors()
    q, m, mean = par[0], par[1], par[2]
    for i in range(eta.size):
        X = x[i] + eta[i]
        left = q - (X if X < m else m)
        d[i] = left
        e[i] = (eta[i] - mean) + left


@njit(cache=True, nogil=True)
def _share_errors(eta: Floats, x: Floats, w: Floats, par: Floats, d: Floats, e: Floats) -> None:
    wide_vectors()
    sign, m, v, k, u = par[0], par[1], par[2], par[3], par[4]
    for i in range(eta.size):
        X = x[i] + eta[i]
        over = sign * (w[i] * X) - m
        share = (over if over > 0.0 else 0.0) * v + k * w[i]
        e[i] = share - w[i] * x[i]
        d[i] = share - w[i] * (X - x[i] * u)


@njit(cache=True, nogil=True)
def _linear_zeros(eta: Floats, x: Floats, par: Floats, zeros: Floats, one: float) -> None:
    wide_vectors()
    q = par[0]
    for i in range(eta.size):
        zeros[i] += one if x[i] + eta[i] == q else 0.0


@njit(cache=True, nogil=True)
def _clip_zeros(eta: Floats, x: Floats, par: Floats, zeros: Floats, one: float) -> None:
    wide_vectors()
    m = par[1]
    for i in range(eta.size):
        zeros[i] += one if x[i] + eta[i] <= m else 0.0


@njit(cache=True, nogil=True)
def _share_zeros(eta: Floats, x: Floats, w: Floats, par: Floats, zeros: Floats, one: float) -> None:
    wide_vectors()
    sign, m = par[0], par[1]
    if par[3] > 0.0:
        return
    for i in range(eta.size):
        zeros[i] += one if sign * (w[i] * (x[i] + eta[i])) <= m else 0.0


@njit(cache=True, nogil=True)
def _add(value: Floats, centre: Floats, total: Floats, squares: Floats) -> None:
    wide_vectors()
    for i in range(value.size):
        u = value[i] - centre[i]
        total[i] += u
        squares[i] += u * u


@njit(cache=True, nogil=True)
def add_errors(d: Floats, e: Floats, centres: Floats, sums: Floats, lo: int, first: bool) -> None:
    """Entities lo, lo + 1, ... of one run into their sums; the first run of a block sets the centres."""
    hi = lo + d.size
    if first:
        centres[0, lo:hi] = d
        centres[1, lo:hi] = e
    _add(d, centres[0, lo:hi], sums[0, lo:hi], sums[1, lo:hi])
    _add(e, centres[1, lo:hi], sums[2, lo:hi], sums[3, lo:hi])


@njit(cache=True, nogil=True)
def _add_piece(
    code: int, rows: Floats, x: Floats, w: Floats, par: Floats, lo: int, centres: Floats, sums: Floats, first: bool
) -> None:
    """All rows of a batch for the entities of one piece."""
    hi = min(lo + _PIECE, x.size)
    d, e = np.empty(hi - lo), np.empty(hi - lo)
    here, weight, zeros = x[lo:hi], w[lo:hi], sums[ZEROS, lo:hi]
    for t in range(rows.shape[0]):
        eta = rows[t, lo:hi]
        if code <= SUM:
            _linear_errors(eta, par[t], d, e)
            _linear_zeros(eta, here, par[t], zeros, 1.0)
        elif code <= SIMPLEX:
            _clip_errors(eta, here, par[t], d, e)
            _clip_zeros(eta, here, par[t], zeros, 1.0)
        else:
            _share_errors(eta, here, weight, par[t], d, e)
            _share_zeros(eta, here, weight, par[t], zeros, 1.0)
        add_errors(d, e, centres, sums, lo, first and t == 0)


@njit(cache=True, nogil=True)
def _pair_difference(eta: Floats, x: Floats, who: Ints, split: int, par: Floats) -> tuple[float, float]:
    """The mean of d over who[:split] less that over who[split:], and the same of e, for the form CLIP."""
    q, m, mean = par[0], par[1], par[2]
    d, e = 0.0, 0.0
    for k in range(who.size):
        i = who[k]
        left = q - min(x[i] + eta[i], m)
        weight = 1.0 / split if k < split else -1.0 / (who.size - split)
        d += weight * left
        e += weight * (eta[i] - mean + left)
    return d, e


@njit(cache=True, nogil=True)
def _add_pair(d: float, e: float, pair: Floats, first: bool) -> None:
    """pair = (centre, sum, squares) of d, then of e."""
    if first:
        pair[0], pair[3] = d, e
    for k, value in ((0, d), (3, e)):
        u = value - pair[k]
        pair[k + 1] += u
        pair[k + 2] += u * u


@njit(cache=True, nogil=True, error_model="numpy")
def _solve(
    codes: Ints, which: Ints, shifts: Floats, targets: Floats, x: Floats, weights: Floats, whole: Floats,
    eta: Floats, z: Floats, par: Floats, degenerate: Ints,
) -> None:  # fmt: skip
    """The numbers of one run for each post-processing; on entry par holds those of the run before (NaN: none)."""
    filled = -1
    for p in range(codes.size):
        if which[p] != filled and codes[p] >= SIMPLEX:
            filled = which[p]
            _weighted(eta, x, weights[filled], z)
        if codes[p] <= SIMPLEX:
            _release(codes[p], eta, z, shifts[p], targets[p], par[p])
        else:
            degenerate[p] += _share(codes[p], z, whole[which[p]], par[p])


@njit(cache=True, nogil=True)
def simulate(
    kind: int, spread: float, seed: Any, first: int, runs: int, x: Floats, codes: Ints, which: Ints, shifts: Floats,
    targets: Floats, weights: Floats, whole: Floats, who: Ints, split: int, paired: Ints,
    rows: Floats, z: Floats, centres: Floats, sums: Floats, pairs: Floats, degenerate: Ints,
) -> None:  # fmt: skip
    """Runs first, ..., first + runs - 1 of every post-processing p, added into sums[p], pairs[p] and degenerate[p].

    rows (batch, n), z (n) and centres (post-processings, 2, n) are work space; sums, pairs and degenerate come in as 0.
    """
    par = np.full((rows.shape[0], codes.size, 5), np.nan)
    last = np.full((codes.size, 5), np.nan)
    for begin in range(0, runs, rows.shape[0]):
        batch = min(rows.shape[0], runs - begin)
        for t in range(batch):
            draw(kind, rows[t], spread, seed, np.uint64(first + begin + t))
            par[t] = last
            _solve(codes, which, shifts, targets, x, weights, whole, rows[t], z, par[t], degenerate)
            last[:] = par[t]
            for p in range(codes.size):
                if paired[p]:
                    d, e = _pair_difference(rows[t], x, who, split, par[t, p])
                    _add_pair(d, e, pairs[p], begin + t == 0)
        for lo in range(0, x.size, _PIECE):
            for p in range(codes.size):
                _add_piece(
                    codes[p], rows[:batch], x, weights[which[p]], par[:batch, p], lo, centres[p], sums[p], begin == 0
                )  # fmt: skip


@njit(cache=True, nogil=True)
def add_rows(d: Floats, e: Floats, zero: NDArray[np.bool_], centres: Floats, sums: Floats, first: bool) -> None:
    """Rows of d and e of any post-processing into its sums; `first` where the first row is the first run of the block."""
    for t in range(d.shape[0]):
        add_errors(d[t], e[t], centres, sums, 0, first and t == 0)
        for i in range(zero.shape[1]):
            sums[ZEROS, i] += 1.0 if zero[t, i] else 0.0


@njit(cache=True, nogil=True)
def finish(centres: Floats, sums: Floats, runs: int) -> None:
    """Sums about a centre to the mean and the sum of squared deviations from it, in place."""
    for p in range(sums.shape[0]):
        for k in range(2):
            for i in range(sums.shape[2]):
                total = sums[p, 2 * k, i]
                sums[p, 2 * k, i] = centres[p, k, i] + total / runs
                sums[p, 2 * k + 1, i] = max(sums[p, 2 * k + 1, i] - total * (total / runs), 0.0)


@njit(cache=True, nogil=True)
def finish_pairs(pairs: Floats, runs: int) -> None:
    """(centre, sum, squares) to (mean, sum of squared deviations, 0), in place."""
    for p in range(pairs.shape[0]):
        for k in (0, 3):
            total = pairs[p, k + 1]
            pairs[p, k] += total / runs
            pairs[p, k + 1] = max(pairs[p, k + 2] - total * (total / runs), 0.0)
            pairs[p, k + 2] = 0.0


@njit(cache=True, nogil=True, inline="always")
def _merged(mean: float, m2: float, done: float, new_mean: float, new_m2: float, more: float) -> Any:
    """Chan, Golub and LeVeque 1979: the mean and sum of squared deviations of two samples together."""
    step = new_mean - mean
    return mean + step * (more / (done + more)), m2 + new_m2 + step * step * (done / (done + more) * more)


@njit(cache=True, nogil=True)
def _class_means(mean: Floats, label: Ints, times: Floats, out: Floats) -> None:
    out[:] = 0.0
    for i in range(label.size):
        out[label[i]] += mean[i]
    for c in range(out.size):
        out[c] /= times[c]


@njit(cache=True, nogil=True)
def merge(
    tally: Ints, sums: Floats, pairs: Floats, ties: Floats, degenerate: Ints,
    more: int, new_sums: Floats, new_pairs: Floats, new_degenerate: Ints, labels: Ints, times: Floats, scratch: Floats,
) -> None:  # fmt: skip
    """A block of `more` runs into the totals. tally = (runs, blocks) changes in the same call: all or nothing.

    ties[p] = (mean, sum of squares between blocks) of the mean of d over the entities of each class; labels[p, i] is
    the class of entity i and times[p] the number of entities of each class.
    """
    done, extra = float(tally[0]), float(more)
    for p in range(sums.shape[0]):
        _class_means(new_sums[p, MEAN_D], labels[p], times[p], scratch)
        for c in range(scratch.size):
            ties[p, 0, c], ties[p, 1, c] = _merged(ties[p, 0, c], ties[p, 1, c], done, scratch[c], 0.0, extra)
        for k in (MEAN_D, MEAN_E):
            for i in range(sums.shape[2]):
                sums[p, k, i], sums[p, k + 1, i] = _merged(
                    sums[p, k, i], sums[p, k + 1, i], done, new_sums[p, k, i], new_sums[p, k + 1, i], extra
                )
        sums[p, ZEROS] += new_sums[p, ZEROS]
        for k in (0, 3):
            pairs[p, k], pairs[p, k + 1] = _merged(
                pairs[p, k], pairs[p, k + 1], done, new_pairs[p, k], new_pairs[p, k + 1], extra
            )
        degenerate[p] += new_degenerate[p]
    tally[0] += more
    tally[1] += 1
