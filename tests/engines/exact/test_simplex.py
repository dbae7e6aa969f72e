"""The exact moments of pi_S+ against brute force, simulation, closed forms and finer rules."""

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import ndtr
from scipy.stats import norm

import fairpost as fp
from fairpost.engines.exact.simplex import contours as simplex_rule
from fairpost.engines.exact.simplex import law as simplex_law
from fairpost.engines.exact.simplex import moments as module
from fairpost.engines.exact.simplex import window
from fairpost.engines.exact.simplex.moments import simplex
from fairpost.engines.exact.threshold import erlang
from fairpost.errors import ToleranceError
from fairpost.noise import Gaussian, Laplace
from support.oracles.brute import three, two_deficit
from support.rules import projected

HAWAII = np.array([53.0, 22563.0, 54381.0, 67054.0, 311451.0])
NOISES = [Laplace, Gaussian]


def distinct(x):
    values, times = np.unique(np.asarray(x, dtype=np.float64), return_counts=True)
    return values, times.astype(np.int64)


def evaluate(x, mechanism, total=None, rtol=1e-6):
    return simplex(*distinct(x), mechanism, float(np.sum(x)) if total is None else total, rtol)


def alpha(moments):
    return float(np.max(moments.bias) - np.min(moments.bias))


# ---- reference values and closed forms -------------------------------------------------------------------


# One county at risk: alpha = 1.25 B((pi_S)_+)_1 exactly (its clipped excess is taken from the four others), and
# B((pi_S)_+)_1 is a closed form for Gaussian noise; the Laplace value is 1.25 times the published 0.00687027203.
@pytest.mark.parametrize(
    ("mechanism", "value", "digits"),
    [(Laplace(10.0), 1.25 * 0.00687027203, 1e-9), (Gaussian(25.0), 0.08314343362, 1e-10)],
)
def test_hawaii(mechanism, value, digits):
    moments = evaluate(HAWAII, mechanism)
    assert alpha(moments) == pytest.approx(value, rel=digits)
    assert np.ptp(moments.bias[1:]) < 1e-12  # the giants give up the same amount each
    assert moments.zero[1:].max() == 0
    assert 2 * moments.error.max() < 1e-6 * alpha(moments)


def test_hawaii_gaussian_in_closed_form():
    """y_1 ~ N(x_1, s^2): E[(y_1)_-] = s (phi - (x/s) Phi(-x/s)); E[T] is a quarter of it."""
    s = 25.0 * math.sqrt(4 / 5)
    below = s * norm.pdf(53 / s) - 53 * norm.cdf(-53 / s)
    moments = evaluate(HAWAII, Gaussian(25.0))
    assert moments.bias[0] == pytest.approx(below, rel=1e-10)
    assert moments.bias[1] == pytest.approx(-below / 4, rel=1e-10)
    assert moments.threshold == pytest.approx(below / 4, rel=1e-10)
    assert moments.zero[0] == pytest.approx(norm.cdf(-53 / s), rel=1e-9)


@pytest.mark.parametrize("noise", NOISES)
def test_far_tails_keep_relative_accuracy(noise):
    """n = 2 with clipping down to 1e-177: D_1 is a one-dimensional integral of the definition's two tails."""
    for x in ((5.0, 300.0), (8.0, 8.5), (20.0, 21.0)):
        moments = evaluate(x, noise(1.0))
        first, second = (two_deficit(noise, x, sum(x), i) for i in (0, 1))
        assert alpha(moments) == pytest.approx(first - second, rel=1e-9)
        assert moments.threshold == pytest.approx((first + second) / 2, rel=1e-9)


@pytest.mark.parametrize("noise", NOISES)
def test_where_clipping_underflows_the_sum_projection_is_left(noise):
    x = [5000.0, 6000.0, 9000.0]
    moments = evaluate(x, noise(1.0), 20_030.0)
    assert (moments.bias == 10).all()
    assert (moments.zero == 0).all()
    assert moments.threshold == 0
    assert moments.mse == pytest.approx(noise(1.0).variance * 2 / 3 + 100, rel=1e-14)


def test_one_entity_and_a_total_of_zero():
    one = evaluate([7.0], Laplace(3.0), 5.0)
    assert (one.bias[0], one.mse[0], one.zero[0], one.threshold) == (-2, 4, 0, 0)
    none = evaluate([0.0, 3.0, 3.0], Gaussian(2.0), 0.0)
    assert none.bias.tolist() == [0, -3]
    assert none.mse.tolist() == [0, 9]
    assert none.zero.tolist() == [1, 1]
    assert none.threshold is None


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize(("count", "n", "spread"), [(3.0, 2, 5.0), (4.0, 40, 9.0), (1.0, 10**6, 30.0), (900.0, 7, 3.0)])
def test_equal_counts_have_no_bias(noise, count, n, spread):
    moments = simplex(np.array([count]), np.array([n]), noise(spread), count * n)
    assert moments.bias[0] == 0
    assert moments.threshold >= 0
    assert moments.mse[0] <= noise(spread).variance  # a projection contracts, onto a set that holds x


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize(
    ("x", "total"),
    [
        ((0.0, 0.5), 0.5),
        ((0.3, 2.0), 2.3),
        ((1.0, 1.5), 2.5),
        ((0.1, 0.1001), 0.2001),
        ((1.0, 2.0), 9.0),
        ((3.0, 4.0), 6.9),
    ],
)
def test_two_entities(noise, x, total):
    """Differences D_1 - D_2 = bias_1 - bias_2 and E[T] = (D_1 + D_2)/2 by one-dimensional quadrature (1e-12 or better).

    v_1 is y_1 clipped to [0, C], y_1 = x_1 + (C - sum x)/2 + z with z = (eta_1 - eta_2)/2: its moments over z.
    """
    moments = evaluate(x, noise(1.0), total)
    first, second = (two_deficit(noise, x, total, i) for i in (0, 1))
    assert moments.bias[0] - moments.bias[1] == pytest.approx(first - second, rel=1e-6, abs=1e-14)
    assert abs(moments.bias[0] - moments.bias[1] - (first - second)) <= moments.error.sum() + 1e-14
    assert moments.threshold == pytest.approx((first + second) / 2, rel=1e-6)
    for i in (0, 1):
        centre = x[i] + (total - sum(x)) / 2
        cuts = sorted({-25.0, min(-centre, 25.0), 0.0, min(total - centre, 25.0), 25.0})

        def density(z):
            if noise is Gaussian:
                return math.exp(-z * z) / math.sqrt(math.pi)
            return (0.5 + abs(z)) * math.exp(-2 * abs(z))

        def square(z, centre=centre, i=i):
            return (min(max(centre + z, 0.0), total) - x[i]) ** 2 * density(z)

        mse = sum(quad(square, a, b, epsabs=1e-14)[0] for a, b in pairwise(cuts))
        zero = sum(quad(density, a, b, epsabs=1e-14)[0] for a, b in pairwise(cuts) if b <= -centre)
        # quad's own error, 1e-13 of values up to C^2 < 100, beside the stated one; and that one says something
        assert abs(moments.mse[i] - mse) <= moments.mse_error[i] + 1e-11
        assert moments.mse_error[i] <= 1e-4 * mse
        assert abs(moments.zero[i] - zero) <= moments.zero_error[i] + 1e-12
        assert moments.zero_error[i] <= 1e-5
    assert abs(moments.threshold - (first + second) / 2) <= moments.threshold_error + 1e-13
    assert moments.threshold_error <= 1e-5


# The Gauss-Legendre rule is good to 2e-9 here: halving its panels moves no entry by more.
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize(
    ("x", "total"), [((0.0, 0.4, 1.5), 1.9), ((0.0, 0.0, 3.0), 3.0), ((1.0, 2.0, 2.5), 5.5), ((0.5, 1.0, 20.0), 22.0)]
)
def test_three_entities(noise, x, total):
    values, _ = distinct(x)
    moments = evaluate(x, noise(1.0), total)
    at = np.searchsorted(values, x)
    bias, mse, zero = three(noise, x, total)
    assert np.abs(moments.bias[at] - (bias + (total - sum(x)) / 3)).max() < 1e-8
    assert (np.abs(moments.mse[at] - mse) <= moments.mse_error[at] + 2e-8).all()
    assert (np.abs(moments.zero[at] - zero) <= moments.zero_error[at] + 2e-8).all()


# ---- simulation ------------------------------------------------------------------------------------------

SIMULATED = {
    "twenty": (np.array([0.0, 0, 1, 2, 2, 3, 5, 8, 8, 9, 11, 12, 15, 20, 26, 31, 40, 55, 90, 200]), None),
    "all near zero": (np.array([0.0, 1, 1, 2, 3, 4]), None),
    "one giant": (np.array([0.0] * 12 + [3.0, 5.0, 4000.0]), None),
    "total below the sum": (np.arange(16.0) * 4, 420.0),
    "total above the sum": (np.arange(16.0) * 4, 560.0),
}


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("name", SIMULATED)
def test_against_simulation(name, noise):
    """300,000 runs with pi_S as the control variate, so that only clipped runs add variance.

    600 means are compared in all (2 noises, 5 cases, at most 20 counts; bias, mse, zero): |z| < 5.2 for each keeps a
    false alarm below 600 * 2e-7 = 1.2e-4 over all, and the seeds are fixed. An event that the runs may miss moves a
    mean by its size / runs: a dozen of those are let through (P(12 or more | 1 expected) < 1e-9).
    """
    x, total = SIMULATED[name]
    total = float(x.sum()) if total is None else total
    mechanism = noise(10.0)
    rng = np.random.default_rng([7, list(SIMULATED).index(name), NOISES.index(noise)])
    eta = rng.laplace(0, 10, (300_000, x.size)) if noise is Laplace else rng.normal(0, 10, (300_000, x.size))
    y = x + eta - eta.mean(axis=1, keepdims=True) + (total - x.sum()) / x.size
    v = projected(y, total)
    moments = evaluate(x, mechanism, total)
    at = np.searchsorted(np.unique(x), x)
    drift = (total - x.sum()) / x.size
    for sample, value, size in (
        (v - y + drift, moments.bias, 10.0),
        ((v - x) ** 2, moments.mse, 100.0),
        (v == 0, moments.zero, 1.0),
    ):
        mean, error = sample.mean(axis=0), sample.std(axis=0) / math.sqrt(len(sample))
        assert (np.abs(mean - value[at]) <= 5.2 * error + 12 * size / len(sample)).all()


# ---- laws ------------------------------------------------------------------------------------------------


def random_case(rng, regime):
    """Counts and a noise scale from one of the regimes of the design."""
    if regime == "dense":
        x = np.round(np.exp(rng.normal(rng.uniform(1, 4), rng.uniform(0.5, 2), int(rng.integers(50, 400)))))
        return x, float(np.exp(rng.uniform(0, 5)))
    if regime == "rare":
        x = np.round(np.exp(rng.normal(7, 1.2, int(rng.integers(5, 400))))) + 1
        return x, float(x.min() / rng.uniform(2, 15))
    if regime == "small":
        return np.round(rng.uniform(0, 20, int(rng.integers(2, 9)))) + 1, float(np.exp(rng.uniform(-1, 3)))
    if regime == "giants":
        near = np.round(rng.uniform(0, 10, int(rng.integers(2, 30))))
        return np.append(near, np.round(rng.uniform(1e4, 1e6, int(rng.integers(1, 4))))), float(
            np.exp(rng.uniform(-1, 3))
        )
    if regime == "zeros":
        some = np.round(rng.uniform(1, 200, int(rng.integers(1, 20))))
        return np.append(np.zeros(int(rng.integers(2, 200))), some), float(np.exp(rng.uniform(0, 4)))
    if regime == "billion":
        return np.round(rng.uniform(0, 1, int(rng.integers(5, 150))) ** 3 * 1e8), float(np.exp(rng.uniform(2, 14)))
    return np.exp(rng.normal(3, 1, int(rng.integers(80, 200)))), float(np.exp(rng.uniform(0, 4)))  # no ties


REGIMES = ["dense", "rare", "small", "giants", "zeros", "billion", "fractions"]


@pytest.fixture(scope="module")
def cases():
    rng = np.random.default_rng(2024)
    out = []
    for k in range(70):
        x, spread = random_case(rng, REGIMES[k % 7])
        mechanism = NOISES[k // 7 % 2](spread)
        out.append((x, mechanism, evaluate(x, mechanism)))
    return out


def test_sums_order_and_ranges(cases):
    """sum bias = C - sum x = 0; Lemma 3: the bias falls in x; probabilities fall in x; E[T] >= 0; mse >= bias^2."""
    for x, _, moments in cases:
        _, times = distinct(x)
        surplus = math.fsum([float(np.sum(x)), *(-x)])  # what rounding of the total leaves
        scale = moments.threshold + np.abs(moments.bias)
        assert abs(np.sum(times * moments.bias) - surplus) <= 8e-15 * np.sum(times * scale)
        slack = moments.error[1:] + moments.error[:-1]
        assert (np.diff(moments.bias) <= slack).all()
        assert (np.diff(moments.zero) <= 1e-9).all()
        assert moments.threshold >= 0
        assert (moments.mse >= moments.bias**2 * (1 - 1e-6)).all()
        assert moments.nodes == 0 or moments.threshold > 0  # where one alone may be cut there is no integral
        assert moments.zero[0] <= 1


def test_theorem_one_brackets_alpha_under_gaussian_noise(cases):
    """B((pi_S)_+)_i = E[(y_i)_-] with y_i ~ N(x_i, sigma^2 (n-1)/n): Proposition 2's closed form, and Proposition 1's
    sum of negative parts above."""
    checked = 0
    for x, mechanism, moments in cases:
        if not isinstance(mechanism, Gaussian):
            continue
        s = mechanism.sigma * math.sqrt((x.size - 1) / x.size)
        negative = s * norm.pdf(np.sort(x) / s) - np.sort(x) * ndtr(-np.sort(x) / s)
        lower = negative[0] - negative[-1]
        slack = 2 * moments.error.max() + 1e-12 * lower
        assert lower - slack <= alpha(moments) <= min(np.ptp(x), lower + negative.sum()) + slack
        assert moments.threshold <= negative.sum() + slack
        checked += 1
    assert checked == 35


def test_stated_errors_are_honest(cases, monkeypatch):
    """Against a rule with about three times the nodes in m and on each contour, a wider window and no interpolation
    between counts, the change is below the stated error for every entry of every case. (`test_stated_errors.py` has truths
    that owe nothing to the engine.)"""
    monkeypatch.setattr(simplex_law, "FEW", 10**9)
    finer = (simplex_rule.Level(30, 0.1, 1e-16, 30), simplex_rule.Level(36, 0.08, 1e-16, 30))
    monkeypatch.setattr(module, "LEVELS", finer)
    for x, mechanism, moments in cases[:28]:  # every regime under both noises, twice
        truth = evaluate(x, mechanism, rtol=1e-8)
        rounding = 1e-15 * (np.abs(truth.bias) + truth.threshold)  # of the finer rule
        assert (np.abs(moments.bias - truth.bias) <= moments.error + rounding).all()
        assert (2 * moments.error <= 1e-6 * alpha(moments) + 1e-270).all()
        scale = mechanism.variance
        assert (np.abs(moments.mse - truth.mse) <= moments.mse_error + 1e-13 * scale).all()
        assert (moments.mse_error <= 1e-4 * scale).all()
        assert (np.abs(moments.zero - truth.zero) <= moments.zero_error + 1e-14).all()
        assert moments.zero_error.max() < 1e-6
        assert abs(moments.threshold - truth.threshold) <= moments.threshold_error + 1e-13 * truth.threshold


@pytest.mark.parametrize("noise", NOISES)
def test_scaling(noise):
    """Counts, noise and total times k: biases times k, bit for bit where k is a power of 2."""
    x = np.array([0.0, 1, 1, 4, 9, 30, 31, 100])
    one = evaluate(x, noise(6.0))
    two = evaluate(8 * x, noise(48.0))
    assert (two.bias == 8 * one.bias).all()
    assert (two.mse == 64 * one.mse).all()
    assert (two.zero == one.zero).all()
    odd = evaluate(3.7 * x, noise(3.7 * 6.0))
    assert odd.bias == pytest.approx(3.7 * one.bias, rel=1e-9)


@pytest.mark.parametrize("noise", NOISES)
def test_many_distinct_counts_are_interpolated_and_few_are_not(noise, monkeypatch):
    """800 fractions (Chebyshev nodes stand for them) against the same without interpolation."""
    x = np.sort(np.random.default_rng(5).exponential(40, 800))
    fast = evaluate(x, noise(12.0))
    monkeypatch.setattr(simplex_law, "FEW", 10**9)
    plain = evaluate(x, noise(12.0))
    assert np.abs(fast.bias - plain.bias).max() <= fast.error.max() + plain.error.max()
    assert fast.mse == pytest.approx(plain.mse, rel=1e-8)
    assert fast.zero == pytest.approx(plain.zero, abs=1e-9)


@pytest.mark.parametrize("noise", NOISES)
def test_ties_count_once_each(noise):
    """A split of a tie by 1e-9 changes nothing beyond 1e-9: multiplicities and separate counts agree."""
    tied = evaluate(np.array([1.0] * 6 + [3.0] * 5 + [20.0] * 4), noise(4.0))
    split = evaluate(
        np.concatenate([1 + 1e-9 * np.arange(6), 3 + 1e-9 * np.arange(5), 20 + 1e-9 * np.arange(4)]), noise(4.0)
    )
    assert split.bias[[0, 6, 11]] == pytest.approx(tied.bias, abs=1e-7)
    assert split.mse[[0, 6, 11]] == pytest.approx(tied.mse, rel=1e-7)


@pytest.mark.parametrize("noise", NOISES)
def test_a_million_entities(noise):
    rng = np.random.default_rng(3)
    x = np.minimum(np.round(np.exp(rng.normal(5, 1.2, 1_000_000))), 4999)
    moments = evaluate(x, noise(100.0))
    _, times = distinct(x)
    assert abs(np.sum(times * moments.bias)) < 1e-6
    assert 2 * moments.error.max() < 1e-6 * alpha(moments)
    lower = clipped_sum_range(x, noise(100.0))
    assert lower <= alpha(moments) <= lower + moments.threshold  # Lemma 3 with Lemma 2's T


def clipped_sum_range(x, mechanism):
    """B((pi_S)_+)_1 - B((pi_S)_+)_n for n so large that the mean of the noise is 0 to 1e-3 of its scale."""
    below = -mechanism.lower(-np.array([x.min(), x.max()]), 0.0, 1)
    return float(below[0] - below[1]) * (1 - 1e-3)


# ---- refusals --------------------------------------------------------------------------------------------


def test_a_tolerance_beyond_rounding_is_refused_by_name():
    with pytest.raises(ToleranceError, match=r"alpha = .* misses the relative tolerance 1e-18"):
        evaluate([1.0, 2.0, 5.0], Gaussian(2.0), rtol=1e-18)


SMALL_TOTALS = [((0.0, 3.0), 2.0), ((1.0, 2.0), 0.3), ((0.0, 4.0), 3.9), ((0.0, 30.0), 10.0)]


@pytest.mark.parametrize("spread", [1.0, 5.0])
def test_two_counts_and_a_total_below_their_difference(spread):
    """v_1 = clip((X_1 - X_2 + C)/2, 0, C): the deficits by one-dimensional integrals of the two tails."""
    for x, total in SMALL_TOTALS:
        moments = evaluate(np.array(x) * spread, Laplace(spread), total * spread)
        first, second = (two_deficit(Laplace, x, total, i) * spread for i in (0, 1))
        assert alpha(moments) == pytest.approx(first - second, rel=1e-9)
        assert moments.threshold == pytest.approx((first + second) / 2, rel=1e-9)
        assert np.sum(moments.bias) == pytest.approx(spread * (total - sum(x)), rel=1e-12)


@pytest.mark.parametrize(("x", "total"), [((0.0, 3.0, 5.0), 2.0), ((1.0, 1.0, 9.0), 4.0), ((0.0, 8.0, 8.0), 6.0)])
def test_three_counts_and_a_small_total_against_simulation(x, total):
    moments = evaluate(x, Laplace(5.0), total)
    eta = np.random.default_rng(77).laplace(0, 5.0, (200_000, 3))
    v = projected(np.array(x) + eta - (eta.sum(axis=1, keepdims=True) + sum(x) - total) / 3, total)
    at = np.searchsorted(distinct(x)[0], x)
    for sample, value in ((v - x, moments.bias), ((v - x) ** 2, moments.mse), (v == 0, moments.zero)):
        error = sample.std(axis=0) / math.sqrt(len(sample))
        assert (np.abs(sample.mean(axis=0) - value[at]) <= 4.5 * error).all()  # 27 comparisons: 2e-4 for all
    assert moments.error.max() < 1e-9


def test_the_slow_corner_is_answered_by_upright_lines(monkeypatch):
    """Four counts under Laplace noise and a small total: the transform decays slowly and cannot be bent. Against plain draws.

    Sums of exponential variables are asked first, and have no such corner.
    """
    rng = np.random.default_rng(17)
    closed = {
        total: evaluate(x, Laplace(5.0), total)
        for x, total in (((0.0, 1.0, 2.0, 3.0), 2.0), ((0.0, 1.0, 3.0, 6.0), 4.0))
    }
    assert 2 * closed[2.0].error.max() <= 1e-6 * alpha(closed[2.0])

    def refused(*_):
        raise ToleranceError("not here")

    monkeypatch.setattr(erlang, "release", refused)
    upright = evaluate((0.0, 1.0, 3.0, 6.0), Laplace(5.0), 4.0)
    assert (np.abs(upright.bias - closed[4.0].bias) <= upright.error + closed[4.0].error).all()
    with pytest.raises(ToleranceError, match=r"simplex: alpha = .* misses the relative tolerance"):
        evaluate((0.0, 1.0, 2.0, 3.0), Laplace(5.0), 2.0)  # a total of 0.4 noise scales
    for x, total in (((0.0, 1.0, 3.0, 6.0), 4.0), ((0.0, 1.0, 2.0, 3.0), 4.5)):
        found = evaluate(x, Laplace(5.0), total)
        assert 2 * found.error.max() <= 1e-6 * alpha(found)
        z = np.array(x) + rng.laplace(0, 5.0, (400_000, 4))
        v = projected(z, total)
        shift = np.max(z - v, axis=1)
        drift = (total - sum(x)) / 4
        for sample, value in (
            (v - np.array(x), found.bias), ((v - np.array(x)) ** 2, found.mse), (v == 0, found.zero),
            (shift[:, None] + drift, found.threshold),
        ):  # fmt: skip
            error = sample.std(axis=0) / math.sqrt(len(sample))
            assert (np.abs(sample.mean(axis=0) - value) <= 4.5 * error).all()  # 26 comparisons: 2e-4 for all
        assert found.threshold_error < 1e-5


@pytest.mark.parametrize(
    ("x", "total", "scale"), [((0.0, 1.0, 3.0, 3.0, 6.0), 2.0, 5.0), ((0.0, 7.0, 14.0, 900.0), 9.0, 40.0)]
)
def test_upright_lines_in_rows_are_those_of_the_kernel_node_by_node(x, total, scale, monkeypatch):
    """Deficits and spread at every m, giants too, against `contour.invert`; both sum the same terms, so only rounding parts them."""
    values, times = distinct(np.array(x))
    population = simplex_law.Population(
        Laplace(1.0), values / scale, times.astype(float), float(len(x)), (total - sum(x)) / scale
    )
    level, calls = simplex_rule.LEVELS[2], []
    for skip in (1, 0):
        win = window.find_window(population, skip)
        rows = simplex_rule.integrate(population, win, level)
        with monkeypatch.context() as patch:
            patch.setattr(simplex_rule, "_few_and_whole", lambda *given: calls.append(given) is not None)
            plain = simplex_rule.integrate(population, win, level)
        assert len(calls) == 2 - skip
        assert np.count_nonzero(rows.m < win.true) > 100
        # a line ends a little later in rows (after whole parts), where terms are cutoff (1e-15) of the largest
        for name in ("values", "common", "squares"):
            mine, theirs = getattr(rows, name), getattr(plain, name)
            if theirs is not None:
                np.testing.assert_allclose(mine, theirs, atol=2e-13 * max(1.0, float(np.abs(theirs).max())))
        assert rows.slow == plain.slow


# ---- cells of interpolated counts ------------------------------------------------------------------------


def test_no_cell_reaches_over_the_window_of_the_threshold():
    """A million entities put the threshold into a narrow window between two whole counts: counts on either side
    of it belong to different cells, because the factors have a kink at x = m."""
    rng = np.random.default_rng(5)
    x = np.round(np.exp(rng.normal(3, 2, 4000)))
    values, times = distinct(x)
    fine = evaluate(x, Laplace(10.0), rtol=1e-9)
    many = simplex(values, 250 * times, Laplace(10.0), 250 * float(np.sum(x)), 1e-9)
    assert many.threshold == pytest.approx(fine.threshold, rel=1e-3)  # the mean field is the same
    assert 2 * many.error.max() < 1e-10 * alpha(many)
    law = simplex_law.reduce(
        simplex_law.Population(Laplace(1.0), values / 10, 250.0 * times, 250.0 * x.size, 0.0), 0.18, (0.16, 0.18), 20
    )
    for part in law.segments:
        inside = law.members[part.start : part.stop]
        assert part.nodes == 0 or inside[0] > 0.18 or inside[-1] < 0.16


@pytest.mark.parametrize("scale", [3.0, 40.0])
def test_wide_cells_are_as_good_as_narrow_ones(scale, monkeypatch):
    """Fewer nodes, and the same biases within the sum of the stated errors."""
    rng = np.random.default_rng(8)
    x = np.round(np.exp(rng.normal(4, 1.3, 6000)))
    wide = evaluate(x, Laplace(scale), rtol=1e-9)
    monkeypatch.setattr(simplex_law, "CELLS", (((8.0, 1.0),), ((3.0, 1.0),)))
    narrow = evaluate(x, Laplace(scale), rtol=1e-9)
    assert not np.array_equal(wide.bias, narrow.bias)
    assert (np.abs(wide.bias - narrow.bias) <= wide.error + narrow.error).all()
    assert (np.abs(wide.zero - narrow.zero) <= wide.zero_error + narrow.zero_error).all()
    assert (np.abs(wide.mse - narrow.mse) <= wide.mse_error + narrow.mse_error).all()


def test_cells_take_the_fewest_nodes():
    x = np.arange(0.0, 400.0)
    law = simplex_law.reduce(
        simplex_law.Population(Laplace(1.0), x / 10, np.ones(400), 400.0, 0.0), 0.3, (-0.3, 0.3), 20
    )
    assert law.x.size < 60  # one cell of 45 nodes and the few counts in the window, not five of 20
    assert np.sum(law.weight) + law.giants == pytest.approx(400, rel=1e-13)
    cubes = law.at_members(law.x**3)
    assert cubes == pytest.approx(law.members**3, rel=1e-11, abs=1e-9)
    # 5e-17 by the Bessel function; T_45 has the slope 45^2 at the ends, so rounding of its argument is worth 45^2 ulp
    assert np.max(np.abs(law.at_members(np.exp(-law.x)) - np.exp(-law.members))) < 4e-13


@pytest.mark.parametrize("unit", [Laplace(1.0), Gaussian(1.0)])
def test_first_moments_of_the_falling_sum(unit):
    """E[H] - C, Var[H] and E[#{X > m}] from the partial transforms, which have tests of their own."""
    x, times = np.array([0.0, 0.4, 1.5, 4.0, 30.0]), np.array([2.0, 1.0, 3.0, 1.0, 2.0])
    population = simplex_law.Population(unit, x, times, 9.0, 0.7)
    total = 0.7 + float(times @ x)
    for m in (-2.0, 0.4, 0.9, 6.0):
        for skip in (0, 1):
            weight = times - skip * (np.arange(5) == 0)
            zeroth, first, second = (unit.upper(m - x, 0.0, k) for k in range(3))
            known = (weight @ first - total, weight @ (second - first**2), weight @ zeroth)
            assert population.moments(m, skip) == pytest.approx(known, rel=1e-11, abs=1e-12)


@pytest.mark.parametrize("mechanism", [Laplace(5.0), Gaussian(6.0)])
def test_one_window_for_deficits_and_spread_equals_two(mechanism, monkeypatch):
    rng = np.random.default_rng(9)
    x = np.round(np.exp(rng.normal(2.5, 1.2, 500)))
    sought: list[int] = []
    find = module.find_window

    def counted(population, skip):
        sought.append(skip)
        return find(population, skip)

    monkeypatch.setattr(module, "find_window", counted)
    one = evaluate(x, mechanism)
    assert sought == [1]
    monkeypatch.setattr(window, "EVEN", -math.inf)
    two = evaluate(x, mechanism)
    assert sought == [1, 1, 0]
    assert np.array_equal(one.bias, two.bias)
    assert (np.abs(one.mse - two.mse) <= one.mse_error + two.mse_error).all()


def windows_seen(monkeypatch):
    seen, find = [], module.find_window
    monkeypatch.setattr(module, "find_window", lambda *given: seen.append(find(*given)) or seen[-1])
    return seen


def test_a_total_far_above_the_sum_puts_the_spread_out_of_the_deficits_window(monkeypatch):
    """Without one of 80 entities the others share C: the root moves by 3.4 scales, where its law has the width 0.15."""
    seen = windows_seen(monkeypatch)
    x = np.concatenate([np.zeros(60), np.full(20, 90.0)])
    found = evaluate(x, Laplace(1.0), total=float(x.sum()) + 80 * 270.0)
    assert [win.spread for win in seen] == [False, True]
    assert seen[0].high < seen[1].low
    assert found.mse == pytest.approx(np.full(2, 2 * 79 / 80 + 270.0**2), rel=1e-9)  # v = X - mean(eta) + 270
    assert found.threshold < 1e-100


def test_one_of_many_takes_a_small_total():
    """Gaussian noise a hundred times the total: the largest noisy count, which varies by a fraction of the noise. Against the maximum alone."""
    n, total = 400, 0.01
    x = np.concatenate([np.zeros(n // 2), np.full(n // 2, 5e-5)])
    found = evaluate(x, Gaussian(1.0), total=total)
    assert 2 * found.error.max() < 1e-6 * alpha(found)
    # E[v_i] is C P(i is the largest) but for what the second one gets; both halves have nearly the same chance
    # d log P / dx = E[largest of n] at most: some 3.1 in units of the noise
    share = total / n
    assert found.bias == pytest.approx([share, share - 5e-5], abs=share * 5e-5 * 3.5)
    assert found.bias[0] < share < found.bias[1] + 5e-5
    assert np.sum(found.bias) * n / 2 == pytest.approx(total - x.sum(), abs=1e-12)


def test_rounding_of_the_deficits_is_seen_before_the_finest_rules(monkeypatch):
    seen, integrate = [], module.integrate
    monkeypatch.setattr(module, "integrate", lambda *given: seen.append(given) or integrate(*given))
    with pytest.raises(ToleranceError, match="is known to"):
        evaluate(np.arange(30.0), Laplace(1e12))
    assert len(seen) == 2  # 5 where nobody asks for the rounding


def test_where_clipping_is_rare_the_spread_has_a_window_of_its_own(monkeypatch):
    """Far tails: the deficits' integrand lies far above the threshold's law."""
    seen = windows_seen(monkeypatch)
    found = evaluate(np.full(60, 2000.0) + np.arange(60), Gaussian(100.0))
    assert [win.spread for win in seen] == [False, True]
    assert found.mse == pytest.approx(np.full(60, 1e4 * 59 / 60), rel=1e-9)  # nobody is clipped to speak of


def test_two_counts_far_above_the_window():
    """A total of hundreds of scales: nobody is near the lower end, and e^{low - x} is 0."""
    result = fp.audit(fp.Counts([2.0, 25.0]), fp.Laplace(0.143972), "simplex", total=135.0, engine=fp.Exact())
    assert result.alpha.value == 0
    assert 0 <= result.alpha.high < 1e-12
