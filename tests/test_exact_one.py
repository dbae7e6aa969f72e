"""Shares from which one entity alone may be dropped, against brute force, the integrals of PoS, and Hawaii's five counties."""

from itertools import product

import numpy as np
import pytest

import fairpost as fp
from fairpost.engines import Exact
from fairpost.engines.exact.pos.one import one
from fairpost.engines.exact.pos.problem import Problem
from fairpost.engines.exact.pos.separated import separated
from fairpost.engines.exact.quadrature import legendre
from fairpost.engines.exact.threshold import lines
from fairpost.noise import Threshold
from fairpost.rules import PoS, PosThreshold

HAWAII = np.array([53.0, 22563.0, 54381.0, 67054.0, 311451.0])
NOISES = {
    "laplace": fp.Laplace,
    "gaussian": fp.Gaussian,
    "discrete-laplace": fp.DiscreteLaplace,
    "discrete-gaussian": fp.DiscreteGaussian,
}


def problem(x, noise, a=None):
    x = np.asarray(x, dtype=float)
    a = np.ones(x.size) if a is None else np.asarray(a, dtype=float)
    return Problem.build(x, a, np.ones(x.size, dtype=np.int64), a * x / np.sum(a * x), noise)


def rule_of(name, noise, a):
    pi = PoS(weights=a) if name == "pos" else PosThreshold(weights=a)
    return pi.for_mechanism(noise) if name != "pos" else pi


def enumerated(x, noise, a, name, reach):
    """Bias, mean squared error and P(0) over every vector of noises up to the reach, by the rule itself."""
    pi = rule_of(name, noise, a)
    k = np.arange(-reach, reach + 1.0)
    p = noise.density(k)
    truth = a * x / np.sum(a * x)
    bias, mse, zero, mass = np.zeros(x.size), np.zeros(x.size), np.zeros(x.size), 0.0
    for first in range(k.size):
        rest = list(product(range(k.size), repeat=x.size - 1))
        at = np.column_stack([np.full(len(rest), first), np.array(rest)])
        chance = np.prod(p[at], axis=1)
        v = pi(x + k[at])
        bias += chance @ (v - truth)
        mse += chance @ (v - truth) ** 2
        zero += chance @ (v == 0)
        mass += chance.sum()
    return bias, mse, zero, abs(1 - mass)


@pytest.mark.parametrize("name", ["pos", "pos-threshold"])
@pytest.mark.parametrize("noise", ["discrete-laplace", "discrete-gaussian"])
@pytest.mark.parametrize("a", [(1.0, 1.0, 1.0), (1.0, 0.3, 2.5), (7.0, 4.0, 3.0)])
def test_whole_numbers_by_brute_force(name, noise, a):
    x, a, M = np.array([2.0, 90.0, 70.0]), np.array(a), NOISES[noise](1.3)
    rule = Threshold(0.0) if name == "pos" else M.best_threshold()
    found = one(problem(x, M, a), rule, 1e-6)
    bias, mse, zero, left = enumerated(x, M, a, name, 30)
    assert left < 1e-9
    assert np.all(np.abs(found.bias - bias) <= found.error + left + 1e-15)
    assert np.max(found.error) < 1e-6 * np.ptp(bias)
    np.testing.assert_allclose(found.mse, mse, rtol=1e-6, atol=left)
    np.testing.assert_allclose(found.zero, zero, rtol=1e-9, atol=left + 1e-12)
    assert found.zero[0] > 0.02


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("a", [(1.0, 1.0, 1.0, 1.0), (5.0, 1.0, 0.3, 2.0)])
def test_pos_by_its_own_integral(noise, a):
    M = NOISES[noise](3.0)
    given = problem([4.0, 400.0, 900.0, 500.0], M, a)
    mine, other = one(given, Threshold(0.0), 1e-8), separated(given, 1e-8)
    assert np.all(np.abs(mine.bias - other.bias) <= mine.error + other.error)
    assert np.max(mine.error) <= 1e-8 * np.ptp(mine.bias)
    np.testing.assert_allclose(mine.mse, other.mse, rtol=1e-7)
    np.testing.assert_allclose(mine.zero[0], other.zero[0], rtol=1e-9)


@pytest.mark.parametrize("tau", [2.0, 5.0])
@pytest.mark.parametrize("x", [1.0, 12.0])
@pytest.mark.parametrize("a", [1.0, 3.0])
def test_a_jump_by_integration_of_the_rule(tau, x, a):
    """Two Laplace noises of scale 3 beside the small one add up to d with the density (1 + |d|) e^{-|d|} / 4."""
    b, weights = 3.0, np.array([a, 1.0, 1.0])
    M, counts = fp.Laplace(b), np.array([x, 700.0, 800.0])
    found = one(problem(counts, M, weights), Threshold(tau), 1e-7)
    pi = PosThreshold(weights=weights, threshold=Threshold(tau))
    u, w = legendre(16)

    def nodes(ends):
        ends = np.unique(ends)
        wide = np.diff(ends)[:, None]
        return (ends[:-1, None] + wide * u).ravel(), (wide * w).ravel()

    z, wz = nodes(np.concatenate([np.linspace(x - 40 * b, x + 40 * b, 41), [2 * tau / 3, tau]]))
    d, wd = nodes(np.linspace(-45.0, 45.0, 31))
    pz, pd = wz * np.exp(-np.abs(z - x) / b) / (2 * b), wd * (1 + np.abs(d)) * np.exp(-np.abs(d)) / 4
    rows = np.stack(np.broadcast_arrays(z[:, None], 700.0 + b * d / 2, 800.0 + b * d / 2), axis=-1).reshape(-1, 3)
    p = np.multiply.outer(pz, pd).ravel()
    v, truth = pi(rows)[:, 0], a * x / (a * x + 1500.0)
    assert p.sum() == pytest.approx(1.0, abs=1e-12)
    assert p @ (v - truth) == pytest.approx(found.bias[0], rel=1e-7, abs=1e-14)
    assert p @ (v - truth) ** 2 == pytest.approx(found.mse[0], rel=1e-7)
    assert p @ (v == 0) == pytest.approx(found.zero[0], rel=1e-9)
    assert np.sum(found.bias) == pytest.approx(0.0, abs=1e-12 * np.ptp(found.bias))


@pytest.mark.parametrize(("scale", "alpha", "known"), [(10.0, 1.72037e-8, 9.5e-12), (100.0, 3.52698e-5, 6.5e-10)])
def test_hawaii_by_the_lines_as_far_as_they_reach(scale, alpha, known):
    M = fp.Laplace(scale)
    got = fp.audit(HAWAII, M, "pos-threshold", engine=Exact()).alpha
    assert abs(got.value - alpha) <= known
    with pytest.raises(fp.errors.ToleranceError) as refused:
        lines.shares(problem(HAWAII, M), M.best_threshold().level, 1e-6)
    bias, error = refused.value.reached
    assert abs(float(np.ptp(bias)) - got.value) <= float(np.max(error))
    assert got.high - got.low < 1e-9 * got.value


def test_hawaii_under_whole_numbers_and_groups():
    M = fp.DiscreteLaplace(10.0)
    alone = fp.audit(HAWAII, M, "pos-threshold", engine=Exact())
    assert alone.method == "exact"
    twice = fp.Counts(np.concatenate([HAWAII, 2 * HAWAII]), groups=["a"] * 5 + ["b"] * 5)
    both = fp.audit(twice, M, "pos-threshold", engine=Exact(), by_group=True)
    np.testing.assert_allclose(both.bias[:5], alone.bias, rtol=1e-9)


def test_the_error_says_what_the_others_may_add():
    """At a loose tolerance the second entity's own edge is most of the error, and the truth lies within it."""
    x, a, M = np.array([2.0, 26.0, 80.0]), np.ones(3), fp.DiscreteLaplace(1.3)
    found = one(problem(x, M), Threshold(0.0), 0.05)
    bias, mse, zero, left = enumerated(x, M, a, "pos", 40)
    off = np.max(np.abs(found.bias - bias))
    assert off > 1e3 * left
    assert off > 1e-10  # what was left out is seen
    assert np.all(np.abs(found.bias - bias) <= found.error + left)
    assert np.all(np.abs(found.mse - mse) <= found.mse_error + left)
    assert np.all(np.abs(found.zero - zero) <= found.zero_error + left)
    assert one(problem(x, M), Threshold(0.0), 1e-6) is None


@pytest.mark.parametrize("x", [[3.0, 4.0, 500.0], [3.0, 3.0, 500.0], [1.0, 0.5, 2.0]])
def test_two_that_may_be_dropped_are_not_for_it(x):
    M = fp.Laplace(2.0)
    values, times = np.unique(x, return_counts=True)
    given = Problem.build(values, np.ones(values.size), times, values / np.sum(x), M)
    assert one(given, Threshold(2.0), 1e-6) is None


def test_a_whole_number_noise_of_too_many_values_is_left_to_others():
    assert one(problem([5e4, 5e7, 8e7], fp.DiscreteLaplace(1e4)), Threshold(0.0), 1e-6) is None
