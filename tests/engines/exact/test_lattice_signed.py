"""Shares under whole-number noise where the sum may be of either sign: against sums over all noises, other integrals and simulation."""

from dataclasses import replace

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


@pytest.mark.parametrize(
    ("x", "noise", "tau"),
    [
        ([0.0, 0.0, 3.0], fp.DiscreteGaussian(1.4), 0.0),
        ([1.0, 2.0, 4.0], fp.DiscreteLaplace(0.7), 0.0),
        ([0.0, 1.0, 2.0], fp.DiscreteLaplace(0.5), 2.0),
    ],
)
def test_a_coarse_rule_says_so(monkeypatch, x: list[float], noise: fp.noise.Law, tau: float) -> None:
    """What is left out is stated, where two rules differ by it and where they do not."""
    problem = problem_of(np.array(x), noise)
    with np.errstate(all="ignore"):
        known = signed.shares(problem, tau, 1e-6)
        for left in ((3.0, 5.0), (5.0, 3.0), (8.0, 11.0)):
            monkeypatch.setattr(signed, "LEFT", left)
            rough = signed.shares(problem, tau, 100.0)
            for name in ("bias", "mse", "zero"):
                away = np.abs(getattr(rough, name) - getattr(known, name))
                assert away.max() > 1e-9
                assert (away <= getattr(rough, "error" if name == "bias" else f"{name}_error")).all()


@pytest.mark.parametrize(("x", "room"), [([1.0, 5.0, 2.0], 1e-15), ([0.0, 10.0, 0.0], 1e-14)])
def test_errors_hold_where_two_rules_happen_to_agree(x: list[float], room: float) -> None:
    noise = fp.DiscreteGaussian(0.8)
    with np.errstate(all="ignore"):
        found = signed.shares(problem_of(np.array(x), noise), 0.0, 1e-6)
    _, at = np.unique(x, return_inverse=True)
    assert (np.abs(found.bias[at] - summed(np.array(x), noise, 0.0)[0]) <= found.error[at] + room).all()


def test_a_fault_of_either_kind_is_stated(monkeypatch) -> None:
    """Shares that do not add up to their chance, though both rules have them so; and what one rule alone has."""
    problem, real = problem_of(np.array([1.0, 2.0, 4.0]), fp.DiscreteLaplace(0.4)), signed._side

    def both(f, values, cells, left):
        side = real(f, values, cells, left)
        return replace(side, first=side.first + 1e-6)

    shift = np.array([1e-6, -1e-6, 0.0])

    def one(f, values, cells, left):
        side = real(f, values, cells, left)
        if left == signed.ROUGH[0]:
            return side
        return replace(side, first=side.first + shift, second=side.second + 1e-5, zero=side.zero + 1e-7)

    with np.errstate(all="ignore"):
        known = signed.shares(problem, 0.0, 1e-2)
        for fault in (both, one):
            monkeypatch.setattr(signed, "_side", fault)
            found = signed.shares(problem, 0.0, 1e-2)
            assert np.abs(found.bias - known.bias).max() > 1e-6
            for name, error in (("bias", "error"), ("mse", "mse_error"), ("zero", "zero_error")):
                assert (np.abs(getattr(found, name) - getattr(known, name)) <= getattr(found, error)).all()


def test_the_masses_are_all_but_what_is_left_out() -> None:
    problem = problem_of(np.full(40, 2.0), fp.DiscreteGaussian(1.4))
    for left in np.arange(6.0, 27.0):
        field, values = signed._field(problem, 0.0, left, "pos")
        assert 40 * (1 - np.sum(field.mass)) <= 2 * np.exp(-left)
        assert np.sum(fp.DiscreteGaussian(1.4 * np.sqrt(40)).density(values - 80)) >= 1 - 2.1 * np.exp(-left)
