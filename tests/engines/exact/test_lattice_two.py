"""PoS of two entities under whole-number noise: against the rule applied to every pair of noises, and at any scale."""

from __future__ import annotations

import numpy as np
import pytest

import fairpost as fp
from fairpost import errors
from fairpost.engines import Exact
from fairpost.engines.exact.lattice import two as module
from fairpost.engines.exact.lattice.two import two
from fairpost.engines.exact.pos.pair import pair
from fairpost.engines.exact.pos.problem import Problem
from fairpost.rules import PoS


def problem(x: list[float], a: list[float], noise: fp.noise.Law) -> Problem:
    values, weights = np.array(x), np.array(a)
    truth = weights * values / np.sum(weights * values)
    return Problem.build(values, weights, np.ones(2, dtype=np.int64), truth, noise)


def summed(x: list[float], a: list[float], noise: fp.noise.Law) -> tuple[np.ndarray, ...]:
    """Bias, mean squared error, P(v = 0) and P(S <= 0) from every pair of noises."""
    reach = int((8.5 if np.isinf(noise.strip) else 36.0) * noise.spread) + 4
    k = np.arange(-reach, reach + 1.0)
    eta = np.stack([g.ravel() for g in np.meshgrid(k, k, indexing="ij")], axis=1)
    chance = np.prod(np.asarray(noise.density(eta)), axis=1)
    values, weights = np.array(x), np.array(a)
    truth = weights * values / np.sum(weights * values)
    v = PoS(weights)(values + eta)
    total = (values + eta) @ weights
    return chance @ (v - truth), chance @ (v - truth) ** 2, chance @ (v == 0), chance @ (total <= 1e-12)


CASES = [
    ([3.0, 1.0], [1.0, 1.0]),  # S = 0 with every noise of one sign less the other
    ([1.0, 0.0], [1.0, 0.5]),  # commensurable: S = 0 has a chance, and a convention that is not 1/2
    ([0.0, 4.0], [0.3, 2.1]),
    ([2.0, 7.0], [1.0, 0.0137]),  # one weight next to nothing
    ([12.0, 30.0], [0.71, 0.43]),  # hardly ever a sum below 0
]


@pytest.mark.parametrize("noise", [fp.DiscreteLaplace(3.1), fp.DiscreteGaussian(4.3), fp.DiscreteLaplace(0.4)], ids=str)
@pytest.mark.parametrize(("x", "a"), CASES)
def test_every_pair_of_noises(x: list[float], a: list[float], noise: fp.noise.Law) -> None:
    found = two(problem(x, a, noise), 1e-6)
    bias, mse, zero, below = summed(x, a, noise)
    assert found.mse_error is not None
    assert found.zero_error is not None
    assert (np.abs(found.bias - bias) <= found.error + 2e-13).all()
    assert (np.abs(found.mse - mse) <= found.mse_error + 2e-13).all()
    assert (np.abs(found.zero - zero) <= found.zero_error + 2e-13).all()
    assert found.degenerate == pytest.approx(below, abs=1e-12)
    assert np.max(found.error) < 1e-7


@pytest.mark.parametrize("noise", [fp.DiscreteLaplace(4000.0), fp.DiscreteGaussian(9000.0)], ids=str)
def test_a_large_scale_is_near_continuous_noise(noise: fp.noise.Law) -> None:
    """Weights that no lattice has in common leave some 1/b of a percent; weights of 1 and 1/2 leave the convention at S = 0."""
    like = fp.Gaussian(noise.spread) if np.isinf(noise.strip) else fp.Laplace(noise.spread)
    x = [0.4 * noise.spread // 1, 0.1 * noise.spread // 1]
    for ratio, most in ((0.3217, 1e-3), (0.5, 5e-2)):
        one, other = two(problem(x, [1.0, ratio], noise), 1e-5), pair(problem(x, [1.0, ratio], like), 1e-5)
        off = float(np.max(np.abs(one.bias - other.bias)))
        assert off < most / noise.spread + 2 * float(np.max(one.error + other.error))
        if ratio == 0.5:
            assert off > 0.1 * most / noise.spread


def test_two_that_are_alike_have_no_bias() -> None:
    asked = Problem.build(np.array([3.0]), np.ones(1), np.array([2]), np.array([0.5]), fp.DiscreteLaplace(5.0))
    found = two(asked, 1e-6)
    assert found.bias.tolist() == [0.0]
    assert found.zero[0] == pytest.approx(summed([3.0, 3.0], [1.0, 1.0], fp.DiscreteLaplace(5.0))[2][0], abs=1e-12)


def test_the_audit_answers_at_any_scale_and_lists_where_alpha_is_next_to_nothing() -> None:
    counts = fp.Counts([2417.0, 8519.0], weights=[1.0, 3e-4])
    found = fp.audit(counts, fp.DiscreteGaussian(10_000.0), "pos", engine=Exact())
    assert found.method == "exact"
    assert found.alpha.half_width < 1e-6 * found.alpha.value
    least = fp.audit(fp.Counts([1.0, 5.0], weights=[1.0, 0.002]), fp.DiscreteGaussian(0.05), "pos", engine=Exact())
    assert least.alpha.value < 1e-15


def test_too_many_values_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "POINTS", 100)
    with pytest.raises(errors.ToleranceError, match="too many values"):
        two(problem([3.0, 1.0], [1.0, 0.3], fp.DiscreteLaplace(9.0)), 1e-6)


def test_parts_that_do_not_add_up_to_1_tell_their_error(monkeypatch):
    """The integral is off by 1e-3 of itself at every step: no step sees it, the sum of the shares does."""
    x, a, noise = np.array([6.0, 20.0]), np.array([1.0, 2.5]), fp.DiscreteLaplace(9.0)
    problem = Problem.build(x, a, np.ones(2, dtype=np.int64), a * x / np.sum(a * x), noise)
    fine, plain = two(problem, 1e-6), module._atoms
    monkeypatch.setattr(module, "_atoms", lambda *given: tuple(part * 1.001 for part in plain(*given)))
    off = two(problem, 0.9)
    gap = np.abs(off.bias - fine.bias)
    assert gap.max() > 1e-5
    assert (gap <= off.error).all()
