"""PoS with equal weights under whole-number noise: the lattice integral against simulation, continuous noise and itself."""

import math

import numpy as np
import pytest

import fairpost as fp
from fairpost import errors
from fairpost.counts import distinct_pairs
from fairpost.engines.exact.lattice import dropped, period
from fairpost.engines.exact.lattice import shares as lattice
from fairpost.engines.exact.pos.problem import Problem
from fairpost.rules import PoS

COUNTS = np.concatenate([np.zeros(120), np.repeat(np.arange(1.0, 60.0), 3), [200.0, 500.0, 1000.0]])
"""Some hundred may be clipped, and three never are."""


def problem_of(x: np.ndarray, noise: fp.noise.Law) -> Problem:
    values, weights, times, _ = distinct_pairs(x, np.ones(x.size))
    return Problem.build(values, weights, times, values / x.sum(), noise)


def moments(x: np.ndarray, noise: fp.noise.Law, rtol: float = 1e-6):
    with np.errstate(all="ignore"):
        return lattice.shares(problem_of(x, noise), rtol)


@pytest.mark.parametrize("noise", [fp.DiscreteLaplace(1.0), fp.DiscreteLaplace(3.0), fp.DiscreteGaussian(2.5)])
def test_against_simulation(noise: fp.noise.Law) -> None:
    """Each bias, mean squared error and chance of 0 within five standard errors of 60,000 runs."""
    runs = 60_000
    found = fp.audit(fp.Counts(COUNTS), noise, "pos", engine="exact")
    simulated = fp.audit(fp.Counts(COUNTS), noise, "pos", engine=fp.MonteCarlo(runs=runs, seed=1))
    assert found.method == "exact"
    assert (np.abs(found.bias - simulated.sample.bias) <= 5 * simulated.sample.standard_error + found.half_width).all()
    spread = np.sqrt(np.maximum(found.zero * (1 - found.zero), 1 / runs) / runs)
    assert (np.abs(found.zero - simulated.zero) <= 5 * spread).all()
    assert 0.5 < found.zero[0] < 0.75  # a count of 0
    assert found.zero[-1] == 0.0
    # equal counts have equal errors: their mean is known to sqrt(kurtosis/(runs times)), a kurtosis of 12 at most
    _, inverse, times = np.unique(COUNTS, return_inverse=True, return_counts=True)
    mean = np.bincount(inverse, simulated.mse) / times
    assert (np.abs(found.mse - mean[inverse]) <= 5 * math.sqrt(12 / runs) * found.mse).all()
    assert found.alpha.high - found.alpha.value <= 1e-6 * found.alpha.value
    assert found.degenerate == 0.0


def test_whole_numbers_come_near_continuous_noise_as_their_scale_grows() -> None:
    """The two integrals have nothing in common but 1/S. They differ by about the same part of 1/b^2 at 8, 16 and 32.

    By Euler and Maclaurin that part is B_2(u)/2 times densities, u the place of the shift between two whole numbers: at most 1/12 of some.
    """
    x = np.concatenate([np.zeros(400), np.repeat(np.arange(1.0, 400.0), 2), [3000.0]])
    parts, wide = [], []
    for b in (8.0, 16.0, 32.0):
        whole = fp.audit(fp.Counts(x), fp.DiscreteLaplace(b), "pos", engine="exact")
        smooth = fp.audit(fp.Counts(x), fp.Laplace(b), "pos", engine="exact")
        parts.append((whole.bias - smooth.bias) / smooth.alpha.value * b * b)
        wide.append((whole.mse[-1] / smooth.mse[-1] - 1) * b * b)
        stated = fp.audit(fp.Counts(x), fp.DiscreteLaplace(b), "pos", engine="expansion")
        assert (np.abs(whole.bias - stated.bias) <= stated.half_width).all()
        assert (np.abs(whole.zero - stated.zero) <= stated.zero_accuracy.half_width).all()
    largest = [float(np.abs(part).max()) for part in parts]
    assert min(largest) > 0.02
    assert max(largest) < 1 / 12
    # the largest count is never clipped: its error is that of the noise, whose variance is less by 1/12 b^2 of itself
    assert wide == pytest.approx([-1 / 12] * 3, abs=4e-3)


@pytest.mark.parametrize("noise", [fp.DiscreteLaplace(2.2), fp.DiscreteGaussian(1.4)])
def test_what_is_stated_holds_at_every_tolerance(noise: fp.noise.Law) -> None:
    best = moments(COUNTS, noise, 3e-9)
    for rtol in (1e-3, 1e-6):
        rough = moments(COUNTS, noise, rtol)
        assert (np.abs(rough.bias - best.bias) <= rough.error).all()
        assert (np.abs(rough.mse - best.mse) <= rough.mse_error).all()
        assert (np.abs(rough.zero - best.zero) <= rough.zero_error).all()
        assert 2 * rough.error.max() <= rtol * np.ptp(rough.bias)
    assert best.error.max() < 1e-8 * np.ptp(best.bias)
    assert best.mse_error.max() < 2e-3 * best.mse.min()


def test_the_end_of_the_period_is_part_of_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer entities: the product has not died out at |Im s| = pi, and what is left there is stated."""
    x = np.concatenate([np.zeros(45), np.arange(1.0, 60.0), [300.0, 500.0]])
    noise, seen = fp.DiscreteLaplace(1.6), []
    real = lattice._level
    monkeypatch.setattr(lattice, "_level", lambda *args: seen.append(real(*args)) or seen[-1])
    found = moments(x, noise, 1e-5)
    left = seen[-1][4]
    assert 1e-14 < left < math.exp(-14)
    assert found.error.min() >= 4 * left * 0.1 / x.sum()  # the window is wider than 0.1
    assert found.zero_error.min() >= 4 * left
    simulated = fp.audit(fp.Counts(x), noise, "pos", engine=fp.MonteCarlo(runs=200_000, seed=5))
    _, inverse = np.unique(x, return_inverse=True)
    assert (np.abs(found.bias[inverse] - simulated.sample.bias) <= 5 * simulated.sample.standard_error).all()


def test_nodes_stand_for_many_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hundreds of distinct counts go through Chebyshev nodes under discrete Laplace noise: the same without them."""
    x = np.concatenate([np.zeros(60), np.arange(0.0, 300.0)])
    noise = fp.DiscreteLaplace(5.0)
    seen, real = [], lattice.entities
    monkeypatch.setattr(lattice, "entities", lambda *args: seen.append(real(*args)) or seen[-1])
    found = moments(x, noise)
    assert seen[-1].reduced is not None
    assert seen[-1].y.size < 0.7 * seen[-1].members
    monkeypatch.setattr(lattice, "entities", lambda *args: real(*args[:-1], 10**6))
    every = moments(x, noise)
    assert found.bias == pytest.approx(every.bias, abs=1e-9 * np.ptp(every.bias))
    assert found.mse == pytest.approx(every.mse, rel=1e-7)
    assert found.zero == pytest.approx(every.zero, abs=1e-8)


def test_two_ways_to_the_mean_shift() -> None:
    """E[r/S] is the mean of Gamma: 1e-9 of it, where each comes from integrals of its own."""
    problem = problem_of(COUNTS, fp.DiscreteGaussian(2.0))
    inverse = lattice.inverse_of(problem, 1e-8)
    with np.errstate(all="ignore"):
        gamma, _, _, root, _ = lattice._level(problem, lattice._window(problem), inverse, lattice.LEVELS[1])
    assert root == pytest.approx(float(np.sum(problem.times * gamma)) / problem.n, rel=1e-9)


def summed(x: np.ndarray, noise: fp.noise.Law) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Bias, mean squared error and P(v = 0) of three shares from every vector of noises: less than 1e-14 is left out."""
    reach = int(36 * noise.spread + 2) if np.isfinite(noise.strip) else int(8.5 * noise.spread + 2)
    k = np.arange(-reach, reach + 1.0)
    eta = np.stack([g.ravel() for g in np.meshgrid(k, k, k, indexing="ij")], axis=1)
    chance = np.prod(np.asarray(noise.density(eta)), axis=1)
    eta, chance = eta[chance > 1e-20], chance[chance > 1e-20]
    away = PoS()(x + eta) - x / x.sum()
    return chance @ away, chance @ away**2, chance @ (away == -x / x.sum())


@pytest.mark.parametrize(
    ("x", "noise"),
    [
        ([1.0, 2.0, 60.0], fp.DiscreteLaplace(0.7)),  # two may be dropped, often
        ([0.0, 0.0, 50.0], fp.DiscreteGaussian(1.4)),
        ([7.0, 8.0, 90.0], fp.DiscreteLaplace(0.6)),  # hardly ever anybody
        ([9.0, 9.0, 80.0], fp.DiscreteGaussian(2.0)),
    ],
)
def test_three_shares_by_whole_periods(x: list[float], noise: fp.noise.Law) -> None:
    """Against sums over all noises; the parts of the bias that clipping adds are as small as 1e-7 and keep their digits."""
    found, known = moments(np.array(x), noise), summed(np.array(x), noise)
    _, at = np.unique(x, return_inverse=True)
    stated = (found.error, found.mse_error, found.zero_error)
    values = (found.bias, found.mse, found.zero)
    for value, error, want, room in zip(values, stated, known, (2e-14, 2e-14, 2e-14), strict=True):
        assert (np.abs(value[at] - want) <= error[at] + room).all()
    assert found.error.max() < 1e-6 * np.ptp(found.bias)
    assert found.mse_error.max() < 1e-4 * found.mse.max()


@pytest.mark.parametrize(
    ("x", "noise"), [([2.0, 3.0, 30.0], fp.DiscreteLaplace(0.3)), ([5.0, 9.0, 9.0, 80.0], fp.DiscreteGaussian(2.0))]
)
def test_whole_periods_leave_out_what_they_say(x: list[float], noise: fp.noise.Law) -> None:
    """e^-safety of the shift, however seldom there is one."""
    problem = problem_of(np.array(x), noise)
    inverse = lattice.inverse_of(problem, 1e-8)
    with np.errstate(all="ignore"):
        known = dropped.level(problem, inverse, 38.0, 20)[0]
        for safety in (6.0, 14.0):
            rough = dropped.level(problem, inverse, safety, 20)[0]
            assert np.abs(rough - known).max() <= 0.05 * math.exp(-safety) * np.abs(known).max()


@pytest.mark.parametrize("x", [[7.0, 8.0, 90.0], [1.0, 2.0, 60.0]])
def test_the_rounding_of_whole_periods_is_stated(monkeypatch: pytest.MonkeyPatch, x: list[float]) -> None:
    """A rounding of 1e-9 in the place of 2e-16, put into every product."""
    problem, rng, real = problem_of(np.array(x), fp.DiscreteLaplace(0.6)), np.random.default_rng(0), period.whole
    inverse = lattice.inverse_of(problem, 1e-8)
    with np.errstate(all="ignore"):
        known = dropped.level(problem, inverse, 38.0, 20)
        monkeypatch.setattr(dropped, "EPS", 1e-9)
        monkeypatch.setattr(
            period, "whole", lambda *args: (v := real(*args)) * (1 + 1e-9 * rng.choice([-1.0, 1.0], v.shape))
        )
        rough = dropped.level(problem, inverse, 38.0, 20)
    assert 1e-13 < abs(rough[3] - known[3]) * problem.mean <= rough[4] < 1e-7
    assert known[4] < 1e-13


@pytest.mark.parametrize("noise", [fp.DiscreteLaplace(1.0), fp.DiscreteGaussian(2.5)])
def test_whole_periods_and_contours_agree(noise: fp.noise.Law) -> None:
    problem = problem_of(COUNTS, noise)
    inverse = lattice.inverse_of(problem, 2e-8)
    with np.errstate(all="ignore"):
        many, few = lattice._many(problem, inverse, 1e-6), lattice._few(problem, inverse, 1e-6)
    assert (np.abs(many.bias - few.bias) <= many.error + few.error).all()
    assert (np.abs(many.mse - few.mse) <= many.mse_error + few.mse_error).all()
    assert (np.abs(many.zero - few.zero) <= many.zero_error + few.zero_error).all()
    assert few.mse_error.max() < 1e-4 * few.mse.max()  # no remainder


@pytest.mark.parametrize(
    ("x", "noise", "dropped"),
    [
        (COUNTS + 10, fp.DiscreteLaplace(1.0), 4e-3),  # hardly anybody is dropped
        (COUNTS[110:], fp.DiscreteLaplace(0.4), 9.5),
        (np.concatenate([np.zeros(4), np.arange(20.0, 44.0)]), fp.DiscreteLaplace(5.0), 3.0),
        (np.repeat(np.arange(25.0, 40.0), 20), fp.DiscreteLaplace(4.6), 0.2),
    ],
)
def test_few_dropped_against_simulation(x: np.ndarray, noise: fp.noise.Law, dropped: float) -> None:
    """Refused before. The mean number of zeros is about what is said, and every bias within five standard errors."""
    found = fp.audit(fp.Counts(x), noise, "pos", engine="exact")
    simulated = fp.audit(fp.Counts(x), noise, "pos", engine=fp.MonteCarlo(runs=20_000, seed=3))
    assert np.sum(found.zero) == pytest.approx(dropped, rel=0.3)
    assert (np.abs(found.bias - simulated.sample.bias) <= 5 * simulated.sample.standard_error + 1e-9).all()
    assert np.sum(found.zero) == pytest.approx(np.sum(simulated.zero), rel=0.05, abs=2e-3)
    assert found.mse == pytest.approx(simulated.mse, rel=0.2)


def test_groups_and_equal_counts() -> None:
    x = np.concatenate([COUNTS, np.full(400, 2.0)])
    groups = ["one"] * COUNTS.size + ["two"] * 400
    noise = fp.DiscreteLaplace(2.0)
    both = fp.audit(fp.Counts(x, groups=groups), noise, "pos", engine="exact", by_group=True)
    alone = fp.audit(fp.Counts(COUNTS), noise, "pos", engine="exact")
    assert np.array_equal(both.bias[: COUNTS.size], alone.bias)
    assert (both.bias[COUNTS.size :] == 0).all()  # all are alike
    assert both.zero[-1] == pytest.approx(fp.audit(fp.Counts(x[-400:]), noise, "pos").zero[0])


@pytest.mark.parametrize(
    ("x", "noise", "words"),
    [
        (COUNTS * 1000, fp.DiscreteLaplace(900.0), "at most 700 whole numbers"),
        (COUNTS, fp.DiscreteGaussian(150.0), "too many to be summed"),
        (np.concatenate([np.zeros(50), [9.0]]), fp.DiscreteLaplace(3.0), "may come near 0"),
    ],
)
def test_what_has_no_integral_is_refused_by_name(x: np.ndarray, noise: fp.noise.Law, words: str) -> None:
    with pytest.raises(errors.ToleranceError, match=words):
        moments(x, noise)


def test_other_weights_and_fractions_have_no_lattice() -> None:
    noise = fp.DiscreteLaplace(2.0)
    for counts in (fp.Counts(COUNTS, weights=np.linspace(1, 2, COUNTS.size)), fp.Counts(COUNTS + 0.5)):
        with pytest.raises(errors.UnsupportedError, match="continuous noise only"):
            fp.audit(counts, noise, "pos", engine="exact")
