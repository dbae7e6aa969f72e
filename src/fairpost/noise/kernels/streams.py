"""Noise for simulation: entry i of run r of seed s is a pure function of (s, r, i).

Each `fill_*` kernel writes the draws start, start + 1, ... of one run into `out` and allocates no row, so
that other kernels can call it. It works in pieces that stay in the nearest cache: random words are written
into the memory of `out` itself (`philox.fill_words`) and turned into noise in place, in loops that vectorise
(`transforms`). `out` is contiguous, start >= 0, seed and run are below 2^64 (int64 or uint64).

Since a uniform variable has 63 bits, a distribution function is right to 2^-50, and far out to 2^-64 plus
4e-14 of itself; the tails end at 44.3 scales (Laplace) and 9.4 sigma (Gaussian). Signs are bits of their own,
so every distribution is symmetric to the last bit. Scales from 1e-300 to 1e300 give finite numbers.

For simulation only: noise for a release must come from a secure generator.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpost.compiled import kernel
from fairpost.compiled.vectors import wide_vectors
from fairpost.noise.kernels.guide import BINS, GUIDED, MOST, by_guide, guide_of
from fairpost.noise.kernels.philox import ONE, TWO, block_words, fill_words, whole_pairs, word
from fairpost.noise.kernels.transforms import neg_log, normal_pair, signed, uniform

Floats = NDArray[np.float64]

_PIECE = 2048  # draws: 16 KiB
_TABLE = 512  # from so many draws on a table is quicker than going through the levels


@kernel(error_model="numpy")
def _exponential(out: Floats, scale: float) -> None:
    """Words to Laplace noise, in place."""
    wide_vectors()
    bits = out.view(np.uint64)
    for i in range(out.size):
        w = bits[i]
        out[i] = signed(scale * neg_log(uniform(w)), w)


@kernel(error_model="numpy")
def fill_laplace(out: Floats, start: int, scale: float, seed: Any, run: Any) -> None:
    """Laplace noise of scale b: a fair sign times -b log u."""
    bits, key, stream = out.view(np.uint64), np.uint64(seed), np.uint64(run)
    for i in range(0, out.size, _PIECE):
        fill_words(bits[i : i + _PIECE], start + i, 0, key, stream)
        _exponential(out[i : i + _PIECE], scale)


@kernel(error_model="numpy")
def _geometric(out: Floats, scale: float, shift: float) -> None:
    """Words to discrete Laplace noise, in place; + 0.0 turns -0.0 into 0.0."""
    wide_vectors()
    bits = out.view(np.uint64)
    for i in range(out.size):
        w = bits[i]
        out[i] = signed(np.floor(scale * (neg_log(uniform(w)) + shift)), w) + 0.0


@kernel(error_model="numpy")
def fill_discrete_laplace(out: Floats, start: int, scale: float, seed: Any, run: Any) -> None:
    """Two-sided geometric noise of scale b, by inversion.

    With q = e^{-1/b}, P(|eta| >= k) = 2 q^k / (1 + q) for k >= 1, so that |eta| is the whole part of
    b (log(2 / (1 + q)) - log u), and the sign is fair. Rounding changes P(|eta| >= k) by at most
    (1 + 7 k / b) 2^-53 of itself, and 2^-64.
    """
    shift = -np.log1p(0.5 * np.expm1(-1.0 / scale))
    bits, key, stream = out.view(np.uint64), np.uint64(seed), np.uint64(run)
    for i in range(0, out.size, _PIECE):
        fill_words(bits[i : i + _PIECE], start + i, 0, key, stream)
        _geometric(out[i : i + _PIECE], scale, shift)


@kernel(error_model="numpy")
def _box_muller(out: Floats, sigma: float) -> None:
    """Words to Gaussian noise, in place, pair by pair."""
    wide_vectors()
    bits = out.view(np.uint64)
    for j in range(np.uint64(out.size >> 1)):
        z0, z1 = normal_pair(bits[TWO * j], bits[TWO * j + ONE])
        out[TWO * j], out[TWO * j + ONE] = sigma * z0, sigma * z1


@kernel(error_model="numpy")
def _normal(i: int, attempt: int, seed: Any, run: Any) -> Any:
    """The standard normal variable of draw i alone."""
    w0, w1 = block_words(i >> 1, attempt, seed, run)
    return normal_pair(w0, w1)[i & 1]


@kernel(error_model="numpy")
def fill_gaussian(out: Floats, start: int, sigma: float, seed: Any, run: Any) -> None:
    """Gaussian noise of standard deviation sigma."""
    bits, key, stream = out.view(np.uint64), np.uint64(seed), np.uint64(run)
    first, last = whole_pairs(start, out.size)
    for i in range(first, last, _PIECE):
        end = min(i + _PIECE, last)
        fill_words(bits[i:end], start + i, 0, key, stream)
        _box_muller(out[i:end], sigma)
    if first > 0:
        out[0] = sigma * _normal(start, 0, key, stream)
    if last < out.size:
        out[last] = sigma * _normal(start + last, 0, key, stream)


@kernel(error_model="numpy")
def _lattice_tails(out: Floats, sigma: float) -> None:
    """Words to discrete Gaussian noise, in place, by inversion of P(|eta| >= k).

    |eta| is the largest k with u <= P(|eta| >= k). From the top level down, a u that is reached becomes
    k + 1, which is above every later level (they are below 1); its sign stays. Levels below 2^-64 reach no u.
    """
    wide_vectors()
    bits = out.view(np.uint64)
    for i in range(out.size):
        w = bits[i]
        out[i] = signed(uniform(w), w)
    top, total, tail = int(np.ceil(9.6 * sigma)), 0.0, 0.0
    for k in range(top, 0, -1):
        total += np.exp(-0.5 * (k / sigma) * (k / sigma))
    for k in range(top, 0, -1):
        tail += np.exp(-0.5 * (k / sigma) * (k / sigma))
        level, found = tail / (0.5 + total), k + 1.0
        for i in range(out.size):
            u = out[i]
            out[i] = np.copysign(found, u) if np.abs(u) <= level else u
    for i in range(out.size):
        u = out[i]
        out[i] = np.copysign(np.abs(u) - 1.0, u) if np.abs(u) > 1.0 else 0.0


# Rejection for large sigma. Let K be the whole number nearest to a Gaussian Z of deviation sigma. With s = k / sigma^2,
#     P(K = k) ~ e^{-k^2 / 2 sigma^2} g(s),   g(s) = int e^{-t^2 / 2 sigma^2} cosh(s t) dt / int e^{-t^2 / 2 sigma^2} dt
# over |t| <= 1/2, so K has the law of the discrete Gaussian if it is kept with probability 1 / g(s) <= 1. Of all
# draws 1 / (24 sigma^2) are sent back, 1 in 864 at most. The weight e^{-t^2 / 2 sigma^2} favours small t, where cosh is
# small, and so g(s) <= int cosh(s t) dt = sinh(s/2) / (s/2) <= e^{s^2 / 24}: 1 / g(s) >= 1 - s^2 / 24.
#
# A uniform variable v decides: K is kept if v g(s) <= 1. Attempt j reads Z from the words of 2 j and the first 16
# bits of v from the ends of the same words, which move Z by 2^-46 (a Z beyond 8 sigma, of probability 1e-15, is not
# independent of v). Where these bits leave it open, v has its other bits from the words of 2 j + 1.
#
# g(s) - 1 = (m_1 S + m_2 S^2 + ...) / m_0 with S = s^2 and m_j = int t^{2j} e^{-h t^2} dt / (2j)!, h = 1 / 2 sigma^2, which
# is the sum over i of (-h)^i / i! 4^{-i-j} / (2i + 2j + 1) / (2j)!. For sigma >= 6 and |k| <= 9.4 sigma the
# terms left out are below 3e-17 (i) and 2e-14 (j, where e^{-k^2 / 2 sigma^2} is 1e-19) of g.

_FIRST, _CELLS = np.uint64(0xFFFF), 2.0**16
_STEEP = float(np.sqrt(2.0**16 / 24.0))
_MOMENTS = tuple(
    tuple(
        (-1) ** i / (4 ** (i + j) * (2 * i + 2 * j + 1) * math.factorial(i) * math.factorial(2 * j)) for i in range(6)
    )
    for j in range(7)
)


@kernel(inline="always")
def _cells(w0: Any, w1: Any) -> Any:
    """The first 16 bits of the variables v of a pair; the two lowest bits of w1 are signs."""
    return np.float64(w0 & _FIRST), np.float64((w1 >> TWO) & _FIRST)


@kernel(inline="always")
def _settle(z: Any, cell: Any, steep: Any) -> Any:
    """The draw; infinity where the first bits of v leave it open. `steep` is sqrt(2^16 / 24) / sigma^2."""
    k = np.rint(z)
    y = k * steep
    return k + 0.0 if cell + y * y <= _CELLS - 1.0 else np.inf  # + 0.0: never -0.0


@kernel(error_model="numpy")
def _growth(k: float, sigma: float) -> Any:
    """g(s) - 1 at s = k / sigma^2."""
    s, h = k / sigma / sigma, 0.5 / sigma / sigma
    square, total, moment = s * s, 0.0, 0.0
    for j in range(6, -1, -1):
        total = (total + moment) * square
        moment = _MOMENTS[j][5]
        for i in range(4, -1, -1):
            moment = moment * h + _MOMENTS[j][i]
    return total / moment


@kernel(error_model="numpy")
def _settle_pairs(out: Floats, sigma: float, steep: float) -> None:
    """Words to the outcome of attempt 0, in place, pair by pair."""
    wide_vectors()
    bits = out.view(np.uint64)
    for j in range(np.uint64(out.size >> 1)):
        w0, w1 = bits[TWO * j], bits[TWO * j + ONE]
        z0, z1 = normal_pair(w0, w1)
        c0, c1 = _cells(w0, w1)
        out[TWO * j], out[TWO * j + ONE] = _settle(sigma * z0, c0, steep), _settle(sigma * z1, c1, steep)


@kernel(error_model="numpy")
def _settle_one(i: int, sigma: float, steep: float, seed: Any, run: Any) -> Any:
    """Draw i alone."""
    attempt = 0
    while True:
        w0, w1 = block_words(i >> 1, 2 * attempt, seed, run)
        z, cell = sigma * normal_pair(w0, w1)[i & 1], _cells(w0, w1)[i & 1]
        if np.isfinite(_settle(z, cell, steep)):
            return np.rint(z) + 0.0
        v = (cell + uniform(word(i, 2 * attempt + 1, seed, run))) / _CELLS
        if v + v * _growth(np.rint(z), sigma) <= 1.0:
            return np.rint(z) + 0.0
        attempt += 1


@kernel(inline="always", error_model="numpy")
def _rejection(out: Floats, start: int, sigma: float, seed: Any, run: Any) -> None:
    """Discrete Gaussian noise by rejection: attempt 0 for whole pairs at once, the rest one by one."""
    steep = _STEEP / sigma / sigma
    first, last = whole_pairs(start, out.size)
    out[:first] = np.inf
    fill_words(out.view(np.uint64)[first:last], start + first, 0, seed, run)
    _settle_pairs(out[first:last], sigma, steep)
    out[last:] = np.inf
    for i in range(out.size):
        if not np.isfinite(out[i]):
            out[i] = _settle_one(start + i, sigma, steep, seed, run)


@kernel(error_model="numpy")
def fill_discrete_gaussian(out: Floats, start: int, sigma: float, seed: Any, run: Any) -> None:
    """Discrete Gaussian noise: inversion up to sigma = 6 (level by level, or many draws by a table), rejection above."""
    bits, key, stream = out.view(np.uint64), np.uint64(seed), np.uint64(run)
    by_table = sigma <= GUIDED and out.size >= _TABLE
    guide, cuts = np.empty(BINS if by_table else 0, dtype=np.uint8), np.empty(MOST if by_table else 0)
    if by_table:
        guide_of(sigma, guide, cuts)
    for i in range(0, out.size, _PIECE):
        piece = out[i : i + _PIECE]
        if sigma > GUIDED:
            _rejection(piece, start + i, sigma, key, stream)
            continue
        fill_words(bits[i : i + _PIECE], start + i, 0, key, stream)
        if by_table:
            by_guide(piece, guide, cuts)
        else:
            _lattice_tails(piece, sigma)


def _drawn(fill: Any, n: int, spread: float, seed: int, run: int) -> Floats:
    out = np.empty(n)
    fill(out, 0, float(spread), np.uint64(seed), np.uint64(run))
    return out


def laplace(n: int, scale: float, seed: int, run: int) -> Floats:
    """Laplace noise with scale b: the first n draws."""
    return _drawn(fill_laplace, n, scale, seed, run)


def gaussian(n: int, sigma: float, seed: int, run: int) -> Floats:
    """Gaussian noise with standard deviation sigma: the first n draws."""
    return _drawn(fill_gaussian, n, sigma, seed, run)


def discrete_laplace(n: int, scale: float, seed: int, run: int) -> Floats:
    """Two-sided geometric noise with scale b: the first n draws, floats that are whole numbers."""
    return _drawn(fill_discrete_laplace, n, scale, seed, run)


def discrete_gaussian(n: int, sigma: float, seed: int, run: int) -> Floats:
    """Discrete Gaussian noise with parameter sigma: the first n draws, floats that are whole numbers."""
    return _drawn(fill_discrete_gaussian, n, sigma, seed, run)
