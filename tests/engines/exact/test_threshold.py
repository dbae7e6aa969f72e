"""The threshold rules exactly under continuous noise: the identity, brute force, simulation, and tau = 0."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from scipy import integrate, special

import fairpost as fp
from fairpost import errors
from fairpost.engines import Exact, MonteCarlo
from fairpost.engines.exact.pos.moments import pos
from fairpost.engines.exact.simplex.moments import simplex
from fairpost.engines.exact.threshold import few, two
from fairpost.engines.exact.threshold import largest as two_largest
from fairpost.engines.exact.threshold.largest import largest
from fairpost.engines.exact.threshold.moments import simplex_threshold
from fairpost.engines.exact.threshold.release import growth, release
from fairpost.engines.exact.threshold.release import release as jump
from fairpost.engines.exact.threshold.shares import shares
from fairpost.noise import Threshold
from fairpost.rules import PosThreshold, SimplexThreshold
from support import mechanisms
from support.engines import answer, supports, within

MANY = np.array([0.0, 1.0, 2.0, 3.0, 5.0, 8.0, 13.0, 21.0, 60.0])
TIMES = np.array([30, 20, 20, 15, 15, 10, 10, 5, 5])


def test_the_identity_behind_the_integral() -> None:
    """out_i > v for v >= tau just where H_{-i}(X_i - v) < C - v, and below tau where i stands at its jump; every draw of 3 entities."""
    tau, total, x = 1.3, 9.0, np.array([0.0, 2.0, 7.0])
    noisy = x + np.random.default_rng(0).laplace(size=(20_000, 3))
    out = SimplexThreshold(total, threshold=Threshold(tau))(noisy)

    def others(i: int, t: np.ndarray) -> np.ndarray:
        u = np.delete(noisy, i, axis=1) - t[:, None]
        return np.where(u > tau, u, 0.0).sum(axis=1)

    for i in range(3):
        at_edge = total - others(i, noisy[:, i] - tau)
        for v in (0.0, 0.2, 0.9, 1.3, 2.0, 5.0):
            kept = others(i, noisy[:, i] - max(v, tau)) < total - max(v, tau)
            said = kept if v >= tau else kept | ((at_edge > v) & (at_edge < tau))
            np.testing.assert_array_equal(out[:, i] > v + 1e-12, said)


def test_three_entities_by_brute_force() -> None:
    """Gaussian noise, n = 3: the definition on a grid of the two differences, on which v depends alone.

    Between corners, and on either side of ties (where the remainder changes hands: the mean of both sides), the midpoint rule
    with spacing h is off by about h^2/24 times the jumps of the slopes: below 4e-5 here.
    """
    x, total, tau, h = np.array([0.0, 1.0, 3.0]), 4.0, 0.75, 0.02
    d = np.arange(-8.0, 8.0, h) + h / 2
    d1, d2 = (g.ravel() for g in np.meshgrid(d, d, indexing="ij"))
    density = np.exp(-(d1**2 - d1 * d2 + d2**2) / 3) / (2 * np.pi * np.sqrt(3)) * h * h
    pi, noisy = SimplexThreshold(total, threshold=Threshold(tau)), x + np.stack([d1, d2, np.zeros_like(d1)], axis=1)
    aside = np.array([1e-9, 0.0, 0.0])
    v = (pi(noisy + aside) + pi(noisy - aside)) / 2
    found = simplex_threshold(x, np.ones(3, dtype=np.int64), fp.Gaussian(1.0), total, Threshold(tau))
    np.testing.assert_allclose(found.bias, density @ (v - x), atol=8e-5)
    np.testing.assert_allclose(found.mse, density @ (v - x) ** 2, atol=4e-4)
    np.testing.assert_allclose(
        found.zero, density @ (v < 1e-6), atol=2e-3
    )  # an indicator: the boundary's length times h


@pytest.mark.parametrize("noise", [fp.Laplace(2.0), fp.Gaussian(2.5)], ids=lambda m: m.name)
@pytest.mark.parametrize("excess", [0.0, -60.0, 45.0])
def test_without_a_threshold_it_is_the_projection(noise: fp.noise.Law, excess: float) -> None:
    total = float(MANY @ TIMES) + excess
    ours, known = release(MANY, TIMES, noise, total, 0.0, 1e-6), simplex(MANY, TIMES, noise, total)
    assert (np.abs(ours.bias - known.bias) <= ours.error + known.error).all()
    np.testing.assert_allclose(ours.mse, known.mse, rtol=1e-8)
    np.testing.assert_allclose(ours.zero, known.zero, atol=1e-9)


@pytest.mark.parametrize("noise", [fp.Laplace(4.0), fp.Gaussian(5.0)], ids=lambda m: m.name)
def test_shares_without_a_threshold_are_pos(noise: fp.noise.Law) -> None:
    truth = MANY / (MANY @ TIMES)
    times, one = 4 * TIMES, np.ones(MANY.size)
    ours = shares(MANY, one, times, truth / 4, noise, 0.0, 1e-6)
    known = pos(MANY, one, times, truth / 4, noise)
    assert (np.abs(ours.bias - known.bias) <= ours.error + known.error).all()
    assert (np.abs(ours.mse - known.mse) <= ours.mse_error + 1e-6 * known.mse).all()
    np.testing.assert_allclose(ours.zero, known.zero, atol=1e-6)  # what the other rule's chances are good for


@pytest.mark.parametrize("noise", [fp.Laplace(3.0), fp.Gaussian(3.0)], ids=lambda m: m.name)
@pytest.mark.parametrize("excess", [0.0, -150.0])
def test_simulation_agrees(noise: fp.noise.Law, excess: float) -> None:
    counts = fp.Counts(np.repeat(MANY, TIMES))
    total = float(counts.values.sum()) + excess
    within(Exact(), counts, noise, SimplexThreshold(total), 20_000, 3)


def test_a_total_below_the_threshold() -> None:
    """C <= tau: the largest noisy count takes all."""
    counts = fp.Counts([0.0, 1.0, 1.0, 2.0, 3.0, 5.0])
    pi = SimplexThreshold(6.0, threshold=Threshold(12.0))
    for noise in (fp.Laplace(1.0), fp.Gaussian(1.5)):
        exact, drawn = (answer(e, counts, noise, pi) for e in (Exact(), MonteCarlo(runs=20_000, seed=9)))
        assert (np.abs(exact.bias - drawn.bias) <= exact.accuracy.half_width + drawn.accuracy.half_width).all()
        assert (np.abs(exact.zero - drawn.zero) <= 6 * np.sqrt(exact.zero * (1 - exact.zero) / 20_000)).all()
        square = (6 - counts.values) ** 2 * (1 - exact.zero) + counts.values**2 * exact.zero
        np.testing.assert_allclose(exact.mse, square, rtol=1e-12)


@pytest.mark.parametrize("noise", [fp.Laplace(2.0), fp.Gaussian(3.0)], ids=lambda m: m.name)
@pytest.mark.parametrize(
    ("x", "total", "tau"), [([0.0, 2.5], 9.0, 5.0), ([1.0, 40.0], 41.0, 30.0), ([3.0, 3.0], 2.2, 2.0)]
)
def test_two_share_a_total_of_up_to_twice_the_threshold(
    noise: fp.noise.Law, x: list[float], total: float, tau: float
) -> None:
    """Against the difference of two noises (`two`): a close second, a giant, equal counts."""
    values, times = np.unique(x, return_counts=True)
    ours = largest(values, times.astype(float), noise, total, tau, 1e-6)
    known = two.release(values, times, noise, total, tau, 1e-9)
    assert (np.abs(ours.bias - known.bias) <= ours.error + known.error).all()
    assert ours.error.max() < 1e-10
    np.testing.assert_allclose(ours.mse, known.mse, rtol=1e-10)
    np.testing.assert_allclose(ours.zero, known.zero, atol=1e-12)
    assert (ours.mse_error < 1e-8 * (1 + ours.mse)).all()
    assert (ours.zero_error < 1e-10).all()


@pytest.mark.parametrize("noise", [fp.Laplace(2.0), fp.Gaussian(2.5)], ids=lambda m: m.name)
@pytest.mark.parametrize("total", [5.0, 9.0, 11.0])
def test_a_coarse_rule_for_the_two_largest_says_so(monkeypatch, noise: fp.noise.Law, total: float) -> None:
    """Too few nodes: the chances do not sum to 1, and by what they miss it every number is off; alpha is refused."""
    given = np.array([0.0, 1.0, 4.0]), np.array([2.0, 1.0, 1.0]), noise, total, 6.0
    known = largest(*given, 1e-6)
    for order in (2, 3, 4):
        monkeypatch.setattr(two_largest, "ORDERS", ((0.0, order),))
        rough = largest(*given, 10.0)
        assert np.abs(rough.bias - known.bias).max() > 1e-8
        assert (np.abs(rough.bias - known.bias) <= rough.error).all()
        assert (np.abs(rough.mse - known.mse) <= rough.mse_error).all()
        assert (np.abs(rough.zero - known.zero) <= rough.zero_error).all()
    if total > 6:
        with pytest.raises(errors.ToleranceError, match="alpha"):
            largest(*given, 1e-9)


@pytest.mark.parametrize("total", [50.0, 70.0, 79.0])
def test_a_giant_among_a_million(total: float) -> None:
    """The giant's mean by the law of the largest of the others and SciPy: the rounding of a million terms is not in it."""
    sigma, n, giant, tau = 3.0, 1e6, 60.0, 40.0
    w = total - tau
    found = largest(np.array([0.0, giant]), np.array([n, 1.0]), fp.Gaussian(sigma), total, tau, 1e-6)

    def missing(m: float) -> float:  # E[Y] and the density of the largest of the others at m; the giant is the largest
        a, b = ((v - giant) / sigma for v in (m, m + w))
        first = (m + w - giant) * (special.ndtr(b) - special.ndtr(a))
        inner = first - sigma * (np.exp(-a * a / 2) - np.exp(-b * b / 2)) / np.sqrt(2 * np.pi)
        z = m / sigma
        return inner * n * np.exp(-z * z / 2 + (n - 1) * special.log_ndtr(z)) / (sigma * np.sqrt(2 * np.pi))

    lost = integrate.quad(missing, 8.0, 32.0, epsabs=1e-13, limit=200)[0]
    assert abs(found.bias[1] - (total - giant - lost)) <= found.error[1]
    assert abs(found.bias[0] - lost / n) <= 1e-16 + 1e-10 * lost / n
    assert found.error.max() < 3e-12


def test_hundreds_share_a_total_just_above_the_threshold() -> None:
    """Few share the shift among many: no bell, and too many for upright lines. The rule itself, applied to noise, agrees."""
    counts = fp.Counts(np.arange(300.0))
    exact = answer(Exact(), counts, fp.Gaussian(3e4), pi := SimplexThreshold(2.6e4, threshold=Threshold(2.2e4)))
    drawn = answer(MonteCarlo(runs=20_000, seed=5), counts, fp.Gaussian(3e4), pi)
    room = exact.accuracy.half_width + drawn.accuracy.half_width
    assert (np.abs(exact.bias - drawn.bias) <= room).all()
    assert np.max(exact.accuracy.half_width) < 1e-6 * np.ptp(exact.bias)
    v = pi(counts.values + np.random.default_rng(3).normal(0.0, 3e4, (8000, 300)))
    for stated, values in ((exact.mse, (v - counts.values) ** 2), (exact.zero, v == 0)):
        runs = np.mean(values, axis=1)
        assert abs(np.mean(stated) - np.mean(runs)) < 5 * np.std(runs) / np.sqrt(8000)
    # nobody sees the third largest: three entities by lines agree
    x, times = np.array([0.0, 1.0, 2.0]), np.ones(3, dtype=np.int64)
    ours, known = (way(x, times, fp.Laplace(2.0), 3.0, 1.6, 1e-6) for way in (release, few.release))
    assert (np.abs(ours.bias - known.bias) <= ours.error + known.error).all()
    assert (np.abs(ours.mse - known.mse) <= ours.mse_error + known.mse_error).all()
    assert (np.abs(ours.zero - known.zero) <= ours.zero_error + known.zero_error).all()


@pytest.mark.parametrize("noise", [fp.Laplace(4.0), fp.Gaussian(5.0)], ids=lambda m: m.name)
@pytest.mark.parametrize("weighted", [False, True])
def test_shares_agree_with_simulation(noise: fp.noise.Law, weighted: bool) -> None:
    x = np.repeat(MANY, 4 * TIMES)
    weights = np.where(np.arange(x.size) % 2 == 0, 1.0, 1.7) if weighted else None
    counts = fp.Counts(x, weights=weights)
    within(Exact(rtol=1e-5), counts, noise, PosThreshold(weights), 20_000, 4)


def test_school_districts_against_the_expansion() -> None:
    """Two ways to one number: the expansion's stated error holds, and is small."""
    counts = mechanisms.saipe()
    for noise in (fp.Laplace(10.0), fp.Gaussian(14.0)):
        for rule in ("simplex-threshold", "pos-threshold"):
            exact, rough = (fp.audit(counts, noise, rule, engine=engine) for engine in ("exact", "expansion"))
            assert (np.abs(exact.bias - rough.bias) <= exact.half_width + rough.half_width).all()
            assert rough.half_width.max() < 1e-4 * np.ptp(exact.bias)


def _integrand(x: complex, power: int, u: float) -> complex:
    return u**power * np.exp(x * u)


def test_growth_is_its_integral() -> None:
    for x in (1e-7 + 0j, 9e-4j, 1.1e-3 + 2e-4j, 0.3 - 2j, -4 + 1j):
        zeroth, first = growth(np.array([x]))
        for value, power in ((zeroth[0], 0), (first[0], 1)):
            both = integrate.quad_vec(partial(_integrand, x, power), 0, 1, epsabs=1e-14)[0]
            assert value == pytest.approx(both, abs=2e-13)


def test_what_is_certain_and_what_is_refused() -> None:
    rule, noise = Threshold(2.0), fp.Laplace(2.0)
    alone = simplex_threshold(np.array([5.0]), np.array([1]), noise, 7.0, rule)
    assert alone.bias[0] == 2.0
    assert alone.mse[0] == 4.0
    nothing = simplex_threshold(np.array([1.0, 5.0]), np.array([1, 1]), noise, 0.0, rule)
    np.testing.assert_array_equal(nothing.bias, [-1.0, -5.0])
    np.testing.assert_array_equal(nothing.zero, 1.0)
    counts = fp.Counts(np.repeat(MANY, TIMES))
    assert "continuous noise only" in supports(Exact(), counts, fp.DiscreteLaplace(2.0), PosThreshold())
    a = 10.0 ** np.linspace(0, 6, 12)
    with pytest.raises(errors.ToleranceError, match="may come near 0"):
        answer(Exact(), fp.Counts(np.arange(12.0), weights=a), fp.Laplace(50.0), PosThreshold(a))


def test_a_range_of_biases_below_rounding_has_an_error_above_it() -> None:
    """Six counts and a total far above them: nobody is ever cut, and what the contours leave of that is not nothing."""
    x, times = np.array([3e-4, 5e-4, 0.0218, 0.034, 0.5407, 78.4699]), np.ones(6, dtype=np.int64)
    found = jump(x, times, fp.Laplace(1.0), 395.336, 1.0, 1e-4)
    drift = (395.336 - x.sum()) / 6
    assert np.ptp(found.bias) > 1e-14  # ... of 1e-27
    assert (np.abs(found.bias - drift) <= found.error).all()
    assert found.error.max() < 1e-11
