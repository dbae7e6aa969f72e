"""The random streams: known answers, draws against their definitions, and the distribution of every sampler.

The statistical tests share ONE false-alarm probability: if the samplers are right, the chance that any of
them fails is at most FALSE_ALARM, by Bonferroni's inequality over all pairs of case and check. The seeds are
fixed, so they pass or fail for good.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit
from scipy import stats

from fairpost.noise import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace, Mechanism, Stream
from fairpost.noise.kernels import philox, streams, transforms
from support import gpu_reference as reference

FILLS = {
    "laplace": streams.fill_laplace,
    "gaussian": streams.fill_gaussian,
    "discrete-laplace": streams.fill_discrete_laplace,
    "discrete-gaussian": streams.fill_discrete_gaussian,
}
SEED, RUN = 0x299F31D0A4093822, 0x0370734413198A2E

# ---------------------------------------------------------------------------------------------- the bits


def slow_philox(counter: tuple[int, ...], key: tuple[int, ...]) -> tuple[int, ...]:
    """Philox4x32-10 in Python integers, from Salmon et al. 2011, section 4.3."""
    (c0, c1, c2, c3), (k0, k1) = counter, key
    for _ in range(10):
        high0, low0 = divmod(0xD2511F53 * c0, 2**32)
        high1, low1 = divmod(0xCD9E8D57 * c2, 2**32)
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = (k0 + 0x9E3779B9) % 2**32, (k1 + 0xBB67AE85) % 2**32
    return c0, c1, c2, c3


def slow_words(start: int, n: int, attempt: int, seed: int, run: int) -> list[int]:
    key, words = (seed % 2**32, seed >> 32), []
    for i in range(start, start + n):
        out = slow_philox((i // 2, attempt, run % 2**32, run >> 32), key)
        words.append(out[2 * (i % 2)] | out[2 * (i % 2) + 1] << 32)
    return words


# Counter, key, answer: the three lines "philox4x32 10" of kat_vectors in D. E. Shaw Research's Random123.
KNOWN_ANSWERS = [
    ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
]


@pytest.mark.parametrize(("counter", "key", "answer"), KNOWN_ANSWERS)
def test_known_answers(counter: str, key: str, answer: str) -> None:
    c, k, expected = (tuple(int(part, 16) for part in text.split()) for text in (counter, key, answer))
    assert slow_philox(c, k) == expected
    words = philox.block_words(c[0], c[1], np.uint64(k[0] | k[1] << 32), np.uint64(c[2] | c[3] << 32))
    assert tuple(part for w in words for part in (int(w) % 2**32, int(w) >> 32)) == expected


@pytest.mark.parametrize("start", [0, 1, 2, 31, 2**33 - 70])
@pytest.mark.parametrize("n", [0, 1, 2, 3, 16, 67])
@pytest.mark.parametrize("attempt", [0, 5])
def test_fill_words_is_the_definition(start: int, n: int, attempt: int) -> None:
    bits = np.zeros(n, dtype=np.uint64)
    philox.fill_words(bits, start, attempt, np.uint64(SEED), np.uint64(RUN))
    assert bits.tolist() == slow_words(start, n, attempt, SEED, RUN)


# ----------------------------------------------------------------------------------------- the arithmetic


@njit(error_model="numpy")
def _logs(x: np.ndarray, out: np.ndarray) -> None:
    for i in range(x.size):
        out[i] = transforms.neg_log(x[i])


def test_neg_log_is_within_two_ulp() -> None:
    rng = np.random.default_rng(1)
    root = math.sqrt(0.5)
    special = [1.0, 0.5, 2.0**-64, root, np.nextafter(root, 0), np.nextafter(1.0, 0), 2.0**-1022, 1e308]
    x = np.concatenate(
        [
            2.0 ** (-64 * rng.random(4000)),
            rng.uniform(0.6, 1, 4000),
            1 - 2.0 ** (-53 * rng.random(2000)),
            special,
        ]
    )
    value = np.empty_like(x)
    _logs(x, value)
    with mpmath.workdps(40):
        exact = [-mpmath.log(mpmath.mpf(float(v))) for v in x]
        errors = [abs(mpmath.mpf(float(v)) - e) / math.ulp(abs(float(e))) for v, e in zip(value, exact, strict=True)]
    # 2 + f, the quotient and the last two sums: half a unit each at most. 1.6 units were observed.
    assert max(errors) < 2


def uniforms(words: list[int]) -> list[float]:
    return [((w >> 1) + 0.5) * 2.0**-63 for w in words]


def slow_normals(start: int, n: int, attempt: int, seed: int, run: int) -> list[float]:
    """Box and Muller with the library's functions; relative error at most 2^-50."""
    out = []
    for i in range(start, start + n):
        w0, w1 = slow_words(i - i % 2, 2, attempt, seed, run)
        radius = math.sqrt(-2 * math.log(uniforms([w0])[0]))
        angle = math.pi / 2 * (((w1 >> 2) - (2**62 if w1 >> 63 else 0)) + 0.5) * 2.0**-62
        pair = [radius * math.cos(angle) * (-1 if w1 & 1 else 1), radius * math.sin(angle)]
        out.append(pair[(i % 2) ^ (w1 >> 1 & 1)])
    return out


def slow_laplace(scale: float, start: int, n: int) -> list[float]:
    words = slow_words(start, n, 0, SEED, RUN)
    return [(-1) ** (w & 1) * -scale * math.log(u) for w, u in zip(words, uniforms(words), strict=True)]


def slow_discrete_laplace(scale: float, start: int, n: int) -> list[float]:
    """|eta| is the largest k with u <= 2 q^k / (1 + q), found by counting."""
    q, out = math.exp(-1 / scale), []
    words = slow_words(start, n, 0, SEED, RUN)
    for w, u in zip(words, uniforms(words), strict=True):
        k = 0
        while u <= 2 * q ** (k + 1) / (1 + q):
            k += 1
        out.append((-1) ** (w & 1) * k)
    return out


def slow_inverted_gaussian(sigma: float, start: int, n: int) -> list[float]:
    """|eta| is the largest k with u <= P(|eta| >= k), from sums of masses."""
    weight = [math.exp(-k * k / (2 * sigma**2)) for k in range(math.ceil(12 * sigma) + 2)]
    total = math.fsum(weight) + math.fsum(weight[1:])
    tail = [2 * math.fsum(weight[k:]) / total for k in range(1, len(weight))]
    words = slow_words(start, n, 0, SEED, RUN)
    sizes = [sum(u <= t for t in tail) for u in uniforms(words)]
    return [(-1) ** (w & 1) * k for w, k in zip(words, sizes, strict=True)]


def growth(k: float, sigma: float) -> float:
    """P(K = k) over the weight of the discrete Gaussian, as a multiple of its value at 0: K is the number nearest to a Gaussian."""
    with mpmath.workdps(30):
        k, sigma, half = mpmath.mpf(k), mpmath.mpf(sigma), mpmath.mpf(1) / 2
        cell, first = (mpmath.ncdf((half - at) / sigma) - mpmath.ncdf((-half - at) / sigma) for at in (abs(k), 0))
        return float(mpmath.exp((k / sigma) ** 2 / 2) * cell / first)


def slow_rejected_gaussian(sigma: float, start: int, n: int) -> list[float]:
    """The first accepted attempt; the variable v that decides has its first 16 bits from the words of Z."""
    out = []
    for i in range(start, start + n):
        attempt = 0
        while True:
            k = round(sigma * slow_normals(i, 1, 2 * attempt, SEED, RUN)[0])
            here, more = slow_words(i, 1, 2 * attempt, SEED, RUN)[0], slow_words(i, 1, 2 * attempt + 1, SEED, RUN)
            v = ((here >> (2 if i % 2 else 0)) % 2**16 + uniforms(more)[0]) / 2**16
            if v < 0.75 or v * growth(k, sigma) <= 1:  # growth(k) <= 1.11 for |k| <= 9.4 sigma
                out.append(float(k))
                break
            attempt += 1
    return out


DEFINITIONS: list[tuple[str, float, Callable[[float, int, int], list[float]], float]] = [
    # name, spread, oracle, relative error (the library's last bits; 0 for whole numbers)
    ("laplace", 25.0, slow_laplace, 2.0**-50),
    ("gaussian", 25.0, lambda s, i, n: [s * z for z in slow_normals(i, n, 0, SEED, RUN)], 2.0**-49),
    ("discrete-laplace", 0.7, slow_discrete_laplace, 0),
    ("discrete-laplace", 25.0, slow_discrete_laplace, 0),
    ("discrete-gaussian", 0.7, slow_inverted_gaussian, 0),
    ("discrete-gaussian", 6.0, slow_inverted_gaussian, 0),
    ("discrete-gaussian", np.nextafter(6.0, 7), slow_rejected_gaussian, 0),
    ("discrete-gaussian", 25.0, slow_rejected_gaussian, 0),
]


@pytest.mark.parametrize(("name", "spread", "oracle", "rtol"), DEFINITIONS)
@pytest.mark.parametrize(("start", "n"), [(0, 600), (1, 301)])
def test_draws_are_their_definition(name, spread, oracle, rtol, start, n) -> None:
    out = np.empty(n)
    FILLS[name](out, start, float(spread), np.uint64(SEED), np.uint64(RUN))
    np.testing.assert_allclose(out, oracle(float(spread), start, n), rtol=rtol, atol=0)


@pytest.mark.parametrize("sigma", [1e-3, 0.3, 1.0, 3.117, 6.0])
def test_a_table_gives_the_bits_of_the_levels(sigma: float) -> None:
    """From 512 draws on there is a table; the same stretch of the stream, fewer draws at a time, goes through the levels."""
    whole, parts = np.empty(50_001), np.empty(50_001)
    streams.fill_discrete_gaussian(whole, 3, sigma, np.uint64(SEED), np.uint64(RUN))
    for i in range(0, parts.size, 511):
        streams.fill_discrete_gaussian(parts[i : i + 511], 3 + i, sigma, np.uint64(SEED), np.uint64(RUN))
    np.testing.assert_array_equal(whole, parts)
    assert not np.signbit(whole[whole == 0]).any()


def test_what_the_rejection_sends_back() -> None:
    """g(s) - 1 against the normal distribution function; the terms left out are 2e-14 at 9.4 sigma and nothing below 7."""
    for sigma in (float(np.nextafter(6.0, 7)), 9.0, 300.0):
        for times, error in ((0.0, 0), (0.3, 1e-15), (1.0, 1e-15), (4.0, 1e-15), (7.0, 1e-15), (9.4, 3e-14)):
            k = round(times * sigma)
            ours = 1.0 + streams._growth(float(k), sigma)
            assert ours == pytest.approx(growth(k, sigma), rel=error, abs=0)
            assert ours <= math.exp((k / sigma**2) ** 2 / 24)


def test_rejection_is_its_definition_in_many_draws() -> None:
    """A million draws, of which 1,150 are sent back: an error of 1 % in that share is seen in some draws."""
    sigma, n, run = float(np.nextafter(6.0, 7)), 2**20, 2**40 + 3
    there = reference.draws(3, sigma, n, SEED, run)
    once = np.rint(sigma * reference.normal(n, SEED, run))
    assert 1000 < (there != once).sum() < 1300
    np.testing.assert_array_equal(streams.discrete_gaussian(n, sigma, SEED, run), there)


def _reached(draw: Callable[[np.ndarray], None], size: float) -> float:
    """P(|draw| >= size) exactly, as a share of all words: |draw| falls as the word's upper 63 bits rise."""
    low, high = -1, 2**63 - 1  # the last k that reaches `size` lies in [low, high]
    while low < high:
        middle = (low + high + 1) // 2
        out = np.array([middle << 1], dtype=np.uint64).view(np.float64)
        draw(out)
        low, high = (middle, high) if abs(out[0]) >= size else (low, middle - 1)
    return (low + 1) * 2.0**-63


# In the three tests below: half a grid point is 2^-64; u and the counted share have 53 bits (2^-53 of each).
HALF_POINT = 2.0**-64


@pytest.mark.parametrize("t", [1e-6, 0.5, 1.0, 5.0, 20.0, 30.0, 36.0, 40.0, 44.0])
def test_exponential_tail_by_counting_words(t: float) -> None:
    p = _reached(lambda out: streams._exponential(out, 1.0), t)
    # A logarithm off by 2 units moves t by at most 4 2^-53 of itself.
    assert p == pytest.approx(float(mpmath.exp(-t)), rel=(3 + 4 * t) * 2.0**-53, abs=HALF_POINT)


@pytest.mark.parametrize("scale", [0.01, 0.3, 1.0, 25.0, 1e6])
@pytest.mark.parametrize("depth", [0, 0.3, 3, 30])
def test_discrete_laplace_tail_by_counting_words(scale: float, depth: float) -> None:
    k = max(1, round(depth * scale))
    shift = -np.log1p(0.5 * np.expm1(-1 / scale))
    p = _reached(lambda out: streams._geometric(out, scale, shift), k)
    with mpmath.workdps(40):
        exact = float(2 * mpmath.exp(-k / mpmath.mpf(scale)) / (1 + mpmath.exp(-1 / mpmath.mpf(scale))))
    # The bound that the sampler states, and two roundings of this test.
    assert p == pytest.approx(exact, rel=(3 + 7 * k / scale) * 2.0**-53, abs=HALF_POINT)


@pytest.mark.parametrize("sigma", [0.05, 0.3, 1.0, 6.0])
@pytest.mark.parametrize("depth", [0, 0.5, 3, 8])
def test_discrete_gaussian_tail_by_counting_words(sigma: float, depth: float) -> None:
    k = max(1, round(depth * sigma))
    p = _reached(lambda out: streams._lattice_tails(out, sigma), k)
    with mpmath.workdps(40):
        weight = [mpmath.exp(-((mpmath.mpf(j) / sigma) ** 2) / 2) for j in range(200)]
        exact = float(2 * mpmath.fsum(weight[k:]) / (2 * mpmath.fsum(weight) - 1))
    # The exponent is off by 3 2^-53 of itself; ten roundings for the exponentials, the sums and the quotient.
    assert p == pytest.approx(exact, rel=(10 + 3 * (k / sigma) ** 2 / 2) * 2.0**-53, abs=HALF_POINT)


# --------------------------------------------------------------------------------------------- the streams


@given(
    name=st.sampled_from(sorted(FILLS)),
    spread=st.sampled_from([0.05, 2.0, 9.0, 1e6]),
    start=st.integers(0, 5000),
    n=st.integers(0, 3000),
    seed=st.integers(0, 2**64 - 1),
    run=st.integers(0, 2**64 - 1),
)
@settings(max_examples=60, deadline=None, derandomize=True)
def test_any_stretch_can_be_drawn_alone(name: str, spread: float, start: int, n: int, seed: int, run: int) -> None:
    whole, part = np.empty(8000), np.empty(n)
    FILLS[name](whole, 0, spread, np.uint64(seed), np.uint64(run))
    FILLS[name](part, start, spread, np.uint64(seed), np.uint64(run))
    np.testing.assert_array_equal(part.view(np.uint64), whole[start : start + n].view(np.uint64))


@pytest.mark.parametrize("name", FILLS)
def test_threads_and_order_do_not_matter(name: str) -> None:
    fill, key = FILLS[name], np.uint64(5)
    rows, again = np.empty((12, 5001)), np.empty((12, 5001))
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda r: fill(rows[r], 3, 9.0, key, np.uint64(r)), reversed(range(12))))
    for r in range(12):
        fill(again[r], 3, 9.0, key, np.uint64(r))
    np.testing.assert_array_equal(rows, again)


def test_a_signed_run_number_is_the_same_run() -> None:
    signed = np.empty(50)
    streams.fill_laplace(signed, 0, 1.0, 5, 3)
    np.testing.assert_array_equal(signed, streams.laplace(50, 1.0, 5, 3))


def test_seeds_runs_and_attempts_differ_in_every_word() -> None:
    keys = [(0, s, r) for s in (0, 1, 2**32, 2**63) for r in (0, 1, 2**32, 2**63)] + [(1, 0, 0), (2, 0, 0)]
    words = np.empty((len(keys), 500), dtype=np.uint64)
    for row, (attempt, seed, run) in zip(words, keys, strict=True):
        philox.fill_words(row, 0, attempt, np.uint64(seed), np.uint64(run))
    assert np.unique(words).size == words.size  # 9,000 of 2^64 words: a repeat has probability 2e-12


@pytest.mark.parametrize("spread", [1e-300, 1e-3, 1.0, 1e6, 1e300])
@pytest.mark.parametrize("name", FILLS)
def test_every_scale_gives_finite_numbers(name: str, spread: float) -> None:
    draw = getattr(streams, name.replace("-", "_"))
    out = draw(4099, spread, 2**64 - 1, 2**64 - 1)
    assert out.shape == (4099,)
    assert np.isfinite(out).all()
    assert np.abs(out).max() <= 45 * spread
    assert draw(0, spread, 1, 1).size == 0
    assert draw(1, spread, 2**64 - 1, 2**64 - 1)[0] == out[0]
    if name.startswith("discrete"):
        assert (out == np.round(out)).all()
        assert not np.signbit(out[out == 0]).any()


# --------------------------------------------------------------------------------------- the distributions

CASES: list[Mechanism] = [
    Laplace(1.0),
    Laplace(25.0),
    Gaussian(1.0),
    Gaussian(25.0),
    DiscreteLaplace(0.3),
    DiscreteLaplace(2.0),
    DiscreteLaplace(1e4),
    DiscreteGaussian(0.4),
    DiscreteGaussian(2.0),
    DiscreteGaussian(6.5),
    DiscreteGaussian(25.0),
    DiscreteGaussian(1e5),
]
N = 1_000_000
FALSE_ALARM = 1e-6


def fit(m: Mechanism, x: np.ndarray) -> float:
    """Kolmogorov and Smirnov's test; for discrete noise chi-square on cells of at least 50 expected draws."""
    if not m.discrete:
        return float(stats.kstest(x, m.cdf, method="asymp").pvalue)
    edges = np.unique(np.round(np.linspace(-7, 7, 141) * max(m.deviation, 1.0)))
    expected = x.size * np.diff(m.cdf(edges), prepend=0.0, append=1.0)
    observed = np.bincount(np.searchsorted(edges, x), minlength=edges.size + 1)
    cell, full = np.zeros(expected.size, dtype=np.int64), 0.0
    for i in range(1, expected.size):  # a new cell where the last is full and enough is left for one more
        full += expected[i - 1]
        opens = full >= 50 and expected[i:].sum() >= 50
        cell[i], full = cell[i - 1] + opens, 0.0 if opens else full
    wanted, seen = np.bincount(cell, expected), np.bincount(cell, observed)
    return float(stats.chi2.sf(np.sum((seen - wanted) ** 2 / wanted), wanted.size - 1))


def _normal(z: float) -> float:
    return float(2 * stats.norm.sf(abs(z)))


def _binomial(count: int, n: int, p: float) -> float:
    return min(1.0, 2 * min(stats.binom.cdf(count, n, p), stats.binom.sf(count - 1, n, p)))


def variance(m: Mechanism, x: np.ndarray) -> float:
    """The mean of eta^2 against the variance, in standard errors."""
    square = x * x
    return _normal((square.mean() - m.variance) / (square.std() / math.sqrt(x.size)))


def tail(m: Mechanism, x: np.ndarray, p: float) -> float:
    """The number of draws beyond a point of probability near p."""
    reach = np.linspace(0, 12, 1201) * max(m.deviation, 1.0)
    cut = float(reach[np.argmax(2 * m.sf(reach) <= p)])
    return _binomial(int(np.sum(np.abs(x) > cut)), x.size, 2 * float(m.sf(cut)))


def apart(x: np.ndarray, y: np.ndarray) -> float:
    """Both the values and the sizes must be uncorrelated; the smaller of two p-values, times 2."""
    pairs = ((x, y), (np.abs(x), np.abs(y)))
    return min(1.0, 2 * min(_normal(np.corrcoef(a, b)[0, 1] * math.sqrt(x.size)) for a, b in pairs))


CHECKS: dict[str, Callable[[Mechanism, np.ndarray, Stream], float]] = {
    "fit": lambda m, x, at: fit(m, x),
    "variance": lambda m, x, at: variance(m, x),
    "signs": lambda m, x, at: _binomial(int(np.sum(x > 0)), int(np.sum(x != 0)), 0.5),
    "tail 1e-2": lambda m, x, at: tail(m, x, 1e-2),
    "tail 1e-3": lambda m, x, at: tail(m, x, 1e-3),
    "tail 1e-4": lambda m, x, at: tail(m, x, 1e-4),
    "neighbours": lambda m, x, at: apart(x[1:], x[:-1]),
    "next but one": lambda m, x, at: apart(x[2:], x[:-2]),
    "next run": lambda m, x, at: apart(x, m.sample(x.size, Stream(at.seed, at.run + 1))),
    "next seed": lambda m, x, at: apart(x, m.sample(x.size, Stream(at.seed + 1, at.run))),
}
LEVEL = FALSE_ALARM / (len(CASES) * len(CHECKS))


@pytest.mark.parametrize("mechanism", CASES, ids=str)
def test_distribution(mechanism: Mechanism) -> None:
    stream = Stream(7, 10 * CASES.index(mechanism))
    x = mechanism.sample(N, stream)
    p = {name: check(mechanism, x, stream) for name, check in CHECKS.items()}
    assert min(p.values()) > LEVEL, p
