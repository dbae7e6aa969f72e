"""Noise for simulation: entry i of run r of seed s is a pure function of (s, r, i).

Each `fill_*` kernel writes the draws start, start + 1, ... of one run into `out` and allocates nothing, so
that other kernels can call it. It works in pieces that stay in the nearest cache: random words are written
into the memory of `out` itself (`philox.fill_words`) and turned into noise in place, in loops that vectorise
(`transforms`). `out` is contiguous, start >= 0, seed and run are below 2^64 (int64 or uint64).

Since a uniform variable has 63 bits, a distribution function is right to 2^-50, and far out to 2^-64 plus
4e-14 of itself; the tails end at 44.3 scales (Laplace) and 9.4 sigma (Gaussian). Signs are bits of their own,
so every distribution is symmetric to the last bit. Scales from 1e-300 to 1e300 give finite numbers.

For simulation only: noise for a release must come from a secure generator.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpost.compiled import kernel
from fairpost.compiled.vectors import wide_vectors
from fairpost.noise.kernels.philox import (
    HALF,
    LOW,
    ONE,
    TWO,
    block_words,
    fill_words,
    philox,
    whole_pairs,
    word,
)
from fairpost.noise.kernels.transforms import neg_log, normal_pair, signed, uniform

Floats = NDArray[np.float64]

_PIECE = 2048  # draws: 16 KiB
_INVERSION = 6.0  # the largest sigma for which the discrete Gaussian is inverted level by level


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


# Rejection for large sigma. Let Z be Gaussian and K = ceil(|Z|) with the sign of Z, kept with probability
# e^{-x}, x = (K^2 - Z^2) / 2 sigma^2. At every k != 0 it then has the weight of the discrete Gaussian,
#     int_{k-1}^{k} e^{-z^2 / 2 sigma^2} e^{-(k^2 - z^2) / 2 sigma^2} dz = e^{-k^2 / 2 sigma^2}.
# Only 0 is missing, of weight 1 against sigma sqrt(2 pi) for all of Z: so first of all the draw is 0 with
# probability `zero` = 1 / (1 + sigma sqrt(2 pi)). Nearly the same share of draws is sent back. Attempt j
# reads Z from the words of 2 j, and from those of 2 j + 1 one uniform variable v for both decisions: 0 if
# v <= zero, else K if a = (v - zero) / (1 - zero) <= e^{-x}.


@kernel(inline="always")
def _proposal(z: Any, v: Any, zero: Any, half: Any) -> Any:
    """K without its sign, the variable a and the exponent x; `half` is 1 / 2 sigma^2."""
    size = np.abs(z)
    k = np.ceil(size)
    return k, (v - zero) * (1.0 / (1.0 - zero)), (k - size) * (k + size) * half


@kernel(inline="always")
def _settle(z: Any, v: Any, zero: Any, half: Any) -> Any:
    """The draw; NaN if sent back; infinity if 1 - x <= e^{-x} <= 1 - x + x^2 / 2 leave it open."""
    k, a, x = _proposal(z, v, zero, half)
    value = np.inf if a <= (1.0 - x) + 0.5 * x * x else np.nan
    value = np.copysign(k, z) if a <= 1.0 - x else value
    return value + 0.0 if a > 0.0 else 0.0  # + 0.0: never -0.0


@kernel(error_model="numpy")
def _settle_pairs(out: Floats, start: int, zero: float, half: float, seed: Any, run: Any) -> None:
    """Gaussian noise to the outcome of attempt 0, in place, pair by pair."""
    wide_vectors()
    base, again, low, high = np.uint64(start >> 1), np.uint64(1), run & LOW, run >> HALF
    for j in range(np.uint64(out.size >> 1)):
        w0, w1 = philox((base + j) & LOW, again, low, high, seed)
        z0, z1 = out[TWO * j], out[TWO * j + ONE]
        out[TWO * j] = _settle(z0, uniform(w0), zero, half)
        out[TWO * j + ONE] = _settle(z1, uniform(w1), zero, half)


@kernel(error_model="numpy")
def _settle_one(i: int, attempt: int, sigma: float, zero: float, half: float, seed: Any, run: Any) -> Any:
    """Draw i alone, from the given attempt on."""
    value = np.nan
    while np.isnan(value):
        z = sigma * _normal(i, 2 * attempt, seed, run)
        v = uniform(word(i, 2 * attempt + 1, seed, run))
        value = _settle(z, v, zero, half)
        if np.isinf(value):
            k, a, x = _proposal(z, v, zero, half)
            value = np.copysign(k, z) if x <= neg_log(a) else np.nan
        attempt += 1
    return value


@kernel(inline="always", error_model="numpy")
def _rejection(out: Floats, start: int, sigma: float, seed: Any, run: Any) -> None:
    """Discrete Gaussian noise by rejection: attempt 0 for whole pairs at once, the rest one by one."""
    zero, half = 1.0 / (1.0 + sigma * np.sqrt(2.0 * np.pi)), 0.5 / sigma / sigma
    first, last = whole_pairs(start, out.size)
    out[:first] = np.inf
    fill_gaussian(out[first:last], start + first, sigma, seed, run)
    _settle_pairs(out[first:last], start + first, zero, half, seed, run)
    out[last:] = np.inf
    for i in range(out.size):
        if not np.isfinite(out[i]):
            attempt = 1 if np.isnan(out[i]) else 0
            out[i] = _settle_one(start + i, attempt, sigma, zero, half, seed, run)


@kernel(error_model="numpy")
def fill_discrete_gaussian(out: Floats, start: int, sigma: float, seed: Any, run: Any) -> None:
    """Discrete Gaussian noise: inversion up to sigma = 6 (level by level), rejection above."""
    bits, key, stream = out.view(np.uint64), np.uint64(seed), np.uint64(run)
    for i in range(0, out.size, _PIECE):
        piece = out[i : i + _PIECE]
        if sigma > _INVERSION:
            _rejection(piece, start + i, sigma, key, stream)
        else:
            fill_words(bits[i : i + _PIECE], start + i, 0, key, stream)
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
