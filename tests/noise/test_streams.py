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

from fairpost.noise import MECHANISMS, DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace, Mechanism, Stream
from fairpost.noise.kernels import streams, transforms

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
    """Of the definition below, which the draws are compared with."""
    c, k, expected = (tuple(int(part, 16) for part in text.split()) for text in (counter, key, answer))
    assert slow_philox(c, k) == expected


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
        [2.0 ** (-64 * rng.random(4000)), rng.uniform(0.6, 1, 4000), 1 - 2.0 ** (-53 * rng.random(2000)), special]
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
def test_draws_are_their_definition(name, spread, oracle, rtol) -> None:
    drawn = MECHANISMS[name](float(spread)).sample(600, Stream(SEED, RUN))
    np.testing.assert_allclose(drawn, oracle(float(spread), 0, 600), rtol=rtol, atol=0)


def test_how_many_draws_the_rejection_sends_back() -> None:
    """Of a million 1,150: those that are not the whole number nearest to the Gaussian of the same words."""
    sigma, at = float(np.nextafter(6.0, 7)), Stream(SEED, 2**40 + 3)
    once = np.rint(sigma * Gaussian(1.0).sample(2**20, at))
    assert 1000 < (DiscreteGaussian(sigma).sample(2**20, at) != once).sum() < 1300


def _reached(draw: Callable[[np.ndarray], None], size: float) -> float:
    """P(|draw| >= size) exactly, as a share of all words: |draw| falls as the word's upper 63 bits rise."""
    low, high = -1, 2**63 - 1  # the last k that reaches `size` lies in [low, high]
    while low < high:
        middle = (low + high + 1) // 2
        out = np.array([middle << 1], dtype=np.uint64).view(np.float64)
        draw(out)
        low, high = (middle, high) if abs(out[0]) >= size else (low, middle - 1)
    return (low + 1) * 2.0**-63


# Below: half a grid point is 2^-64; u and the counted share have 53 bits (2^-53 of each).
HALF_POINT = 2.0**-64


EXPONENTIAL = [("exponential", 1.0, t) for t in (1e-6, 0.5, 1.0, 5.0, 20.0, 30.0, 36.0, 40.0, 44.0)]
GEOMETRIC = [("discrete-laplace", b, depth) for b in (0.01, 0.3, 1.0, 25.0, 1e6) for depth in (0, 0.3, 3, 30)]
LATTICE = [("discrete-gaussian", sigma, depth) for sigma in (0.05, 0.3, 1.0, 6.0) for depth in (0, 0.5, 3, 8)]


@pytest.mark.parametrize(("name", "spread", "depth"), [*EXPONENTIAL, *GEOMETRIC, *LATTICE])
def test_tails_by_counting_words(name: str, spread: float, depth: float) -> None:
    """Against the law in 40 digits, with the bound that each sampler states and the roundings of this test."""
    k = depth if name == "exponential" else max(1, round(depth * spread))
    with mpmath.workdps(40):
        wide = mpmath.mpf(spread)
        if name == "exponential":
            p = _reached(lambda out: streams._exponential(out, 1.0), k)
            exact, units = mpmath.exp(-k), 3 + 4 * k  # a logarithm off by 2 units moves t by at most 4 2^-53 of itself
        elif name == "discrete-laplace":
            shift = -np.log1p(0.5 * np.expm1(-1 / spread))
            p = _reached(lambda out: streams._geometric(out, spread, shift), k)
            exact, units = 2 * mpmath.exp(-k / wide) / (1 + mpmath.exp(-1 / wide)), 3 + 7 * k / spread
        else:
            p = _reached(lambda out: streams._lattice_tails(out, spread), k)
            weight = [mpmath.exp(-((mpmath.mpf(j) / spread) ** 2) / 2) for j in range(200)]
            exact = 2 * mpmath.fsum(weight[k:]) / (2 * mpmath.fsum(weight) - 1)
            # the exponent is off by 3 2^-53 of itself; ten roundings for the exponentials, the sums and the quotient
            units = 10 + 3 * (k / spread) ** 2 / 2
    assert p == pytest.approx(float(exact), rel=units * 2.0**-53, abs=HALF_POINT)


# --------------------------------------------------------------------------------------------- the streams


@given(
    name=st.sampled_from(sorted(FILLS)),
    spread=st.sampled_from([0.05, 0.3, 2.0, 6.0, 9.0, 1e6]),
    start=st.integers(0, 5000),
    n=st.integers(0, 3000),
    seed=st.integers(0, 2**64 - 1),
    run=st.integers(0, 2**64 - 1),
)
@settings(max_examples=60)
def test_any_stretch_can_be_drawn_alone(name: str, spread: float, start: int, n: int, seed: int, run: int) -> None:
    """Few draws go through levels, 512 and more through a table: the same bits. Blocks of a simulation start anywhere."""
    whole = MECHANISMS[name](spread).sample(8000, Stream(seed, run))
    part = np.empty(n)
    FILLS[name](part, start, spread, np.uint64(seed), np.uint64(run))
    np.testing.assert_array_equal(part.view(np.uint64), whole[start : start + n].view(np.uint64))


@pytest.mark.parametrize("name", FILLS)
def test_threads_and_order_do_not_matter(name: str) -> None:
    def draw(run: int) -> np.ndarray:
        return MECHANISMS[name](9.0).sample(5001, Stream(5, run))

    with ThreadPoolExecutor(2) as pool:
        rows = list(pool.map(draw, range(12)))
    np.testing.assert_array_equal(rows[::-1], [draw(r) for r in reversed(range(12))])


def test_seeds_and_runs_differ_in_every_draw() -> None:
    """8,000 of 2^63 sizes: a repeat has a probability of 4e-12."""
    keys = [(s, r) for s in (0, 1, 2**32, 2**63) for r in (0, 1, 2**32, 2**63)]
    drawn = np.abs([Laplace(1.0).sample(500, Stream(*key)) for key in keys])
    assert np.unique(drawn).size > drawn.size - 3  # sizes are rounded to doubles


@pytest.mark.parametrize("spread", [1e-6, 1e-3, 1.0, 1e6, 1e12])
@pytest.mark.parametrize("name", FILLS)
def test_every_scale_gives_finite_numbers(name: str, spread: float) -> None:
    made, last = MECHANISMS[name](spread), Stream(2**64 - 1, 2**64 - 1)
    out = made.sample(4099, last)
    assert out.shape == (4099,)
    assert np.isfinite(out).all()
    assert np.abs(out).max() <= 45 * spread
    assert made.sample(0, last).size == 0
    assert made.sample(1, last)[0] == out[0]
    if made.discrete:
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


AT = Stream(7, 3)


def stretched(by: float) -> Callable[[Mechanism, np.ndarray], np.ndarray]:
    return lambda m, x: type(m)(by * m.spread).sample(x.size, AT)


def echoed(lag: int) -> Callable[[Mechanism, np.ndarray], np.ndarray]:
    """One draw in 50 repeats the one `lag` before it."""
    again = np.arange(N) % 50 == lag
    return lambda m, x: np.where(again, np.roll(x, lag), x)


def shared(at: Stream) -> Callable[[Mechanism, np.ndarray], np.ndarray]:
    """One draw in 100 is that of another stream."""
    return lambda m, x: np.where(np.arange(N) % 100, x, m.sample(N, at))


FAULTS = {
    "fit": stretched(1.03),
    "variance": stretched(1.01),
    "signs": lambda m, x: np.where(np.arange(N) % 100, x, np.abs(x)),
    "tail 1e-2": stretched(1.03),
    "tail 1e-3": stretched(1.04),
    "tail 1e-4": lambda m, x: np.clip(x, *np.quantile(np.abs(x), 1 - 1.5e-4) * np.array([-1, 1])),
    "neighbours": echoed(1),
    "next but one": echoed(2),
    "next run": shared(Stream(AT.seed, AT.run + 1)),
    "next seed": shared(Stream(AT.seed + 1, AT.run)),
}


@pytest.mark.parametrize(
    "mechanism", [Laplace(25.0), Gaussian(25.0), DiscreteLaplace(25.0), DiscreteGaussian(25.0)], ids=str
)
@pytest.mark.parametrize("name", CHECKS)
def test_a_wrong_sampler_is_caught(mechanism: Mechanism, name: str) -> None:
    """The power of each check at the level in use: a scale off by 1 to 4 %, one draw in 50 or 100 that is not its own, a tail cut."""
    wrong = FAULTS[name](mechanism, mechanism.sample(N, AT))
    assert CHECKS[name](mechanism, wrong, AT) < LEVEL
