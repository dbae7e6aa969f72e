"""Shares under whole-number noise where the sum may be of either sign: against sums over all noises, other integrals and simulation."""

import numpy as np
import pytest

import fairpost as fp
from fairpost import errors
from fairpost.counts import distinct_pairs
from fairpost.engines.exact.lattice import shares as lattice
from fairpost.engines.exact.lattice import signed
from fairpost.engines.exact.pos.problem import Problem
from fairpost.noise import Threshold
from fairpost.rules import PoS, PosThreshold


def problem_of(x: np.ndarray, noise: fp.noise.Law) -> Problem:
    values, weights, times, _ = distinct_pairs(x, np.ones(x.size))
    return Problem.build(values, weights, times, values / x.sum(), noise)


def summed(x: np.ndarray, noise: fp.noise.Law, tau: float) -> tuple[np.ndarray, ...]:
    """Bias, mean squared error, P(v = 0) and the chance of an odd draw, S <= 0, from every vector of noises."""
    reach = int(36 * noise.spread + 2) if np.isfinite(noise.strip) else int(8.5 * noise.spread + 2)
    k = np.arange(-reach, reach + 1.0)
    eta = np.stack([g.ravel() for g in np.meshgrid(*[k] * x.size, indexing="ij")], axis=1)
    chance = np.prod(np.asarray(noise.density(eta)), axis=1)
    eta, chance = eta[chance > 1e-20], chance[chance > 1e-20]
    v = (PoS() if tau == 0 else PosThreshold(threshold=Threshold.ramp(tau)))(x + eta)
    away = v - x / x.sum()
    return chance @ away, chance @ away**2, chance @ (v < 1e-12), chance @ (np.sum(x + eta, axis=1) <= 0)


@pytest.mark.parametrize(
    ("x", "noise", "tau"),
    [
        ([1.0, 2.0, 4.0], fp.DiscreteLaplace(0.7), 0.0),
        ([0.0, 0.0, 3.0], fp.DiscreteGaussian(1.4), 0.0),  # S < 0 and S = 0 are common
        ([1.0, 2.0, 4.0], fp.DiscreteGaussian(1.4), 1.0),
        ([0.0, 1.0, 2.0], fp.DiscreteLaplace(0.5), 2.0),
        ([2.0, 5.0], fp.DiscreteGaussian(2.0), 1.0),
    ],
)
def test_sums_over_all_noises(x: list[float], noise: fp.noise.Law, tau: float) -> None:
    """Less than 1e-13 is left out of the sums."""
    with np.errstate(all="ignore"):
        found = signed.shares(problem_of(np.array(x), noise), tau, 1e-6)
    *known, odd = summed(np.array(x), noise, tau)
    _, at = np.unique(x, return_inverse=True)
    values, errors_of = (found.bias, found.mse, found.zero), (found.error, found.mse_error, found.zero_error)
    for value, error, want in zip(values, errors_of, known, strict=True):
        assert (np.abs(value[at] - want) <= error[at] + 2e-13).all()
        assert error.max() < 2e-8
    assert found.degenerate == pytest.approx(odd, abs=1e-8)


@pytest.mark.parametrize("noise", [fp.DiscreteLaplace(0.5), fp.DiscreteGaussian(0.9)])
def test_where_the_sum_is_surely_positive_both_ways_agree(noise: fp.noise.Law) -> None:
    problem = problem_of(np.array([0.0, 0.0, 1.0, 2.0, 3.0, 5.0, 24.0]), noise)
    with np.errstate(all="ignore"):
        one, two = lattice.shares(problem, 1e-6), signed.shares(problem, 0.0, 1e-6)
    assert (np.abs(one.bias - two.bias) <= one.error + two.error).all()
    assert (np.abs(one.mse - two.mse) <= one.mse_error + two.mse_error).all()
    assert (np.abs(one.zero - two.zero) <= one.zero_error + two.zero_error).all()


def test_among_twenty_with_a_threshold() -> None:
    """Refused before, by name. Every bias within five standard errors, and alpha is known to the tolerance."""
    x = np.concatenate([np.zeros(7), [1.0, 2.0, 2.0, 4.0, 7.0]])
    noise = fp.DiscreteGaussian(1.5)
    assert noise.best_threshold().level == 1.0
    found = fp.audit(fp.Counts(x), noise, "pos-threshold", engine="exact")
    simulated = fp.audit(fp.Counts(x), noise, "pos-threshold", engine=fp.MonteCarlo(runs=60_000, seed=4))
    assert (np.abs(found.bias - simulated.sample.bias) <= 5 * simulated.sample.standard_error).all()
    assert found.alpha.half_width <= 1e-6 * found.alpha.value
    spread = np.sqrt(found.zero * (1 - found.zero) / 60_000)
    assert (np.abs(found.zero - simulated.zero) <= 5 * spread + 1e-4).all()
    assert found.mse == pytest.approx(simulated.mse, rel=0.06)
    assert found.degenerate == pytest.approx(simulated.degenerate, abs=1e-3)


def test_what_would_take_too_long_is_refused_at_once() -> None:
    for x, scale, words in ((np.arange(40.0), 9.0, "too many values"), (np.arange(30.0) % 7, 3.0, "too long")):
        with pytest.raises(errors.ToleranceError, match=words), np.errstate(all="ignore"):
            signed.shares(problem_of(x, fp.DiscreteLaplace(scale)), 0.0, 1e-6)
