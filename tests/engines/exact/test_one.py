"""Shares and releases from which one entity alone may be dropped, against brute force, the other integrals, and Hawaii's five counties."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

import fairpost as fp
from fairpost.engines import Exact
from fairpost.engines.closed.quadrature import legendre
from fairpost.engines.exact.pos import inverse as inverses
from fairpost.engines.exact.pos.one import one
from fairpost.engines.exact.pos.problem import Problem
from fairpost.engines.exact.pos.separated import separated
from fairpost.engines.exact.simplex import moments as simplexes
from fairpost.engines.exact.sums import one as releases
from fairpost.engines.exact.sums.one import one as cut_one
from fairpost.engines.exact.threshold import lines
from fairpost.engines.exact.threshold import moments as thresholds
from fairpost.noise import Threshold
from fairpost.rules import PoS, PosThreshold, Simplex, SimplexThreshold

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


@pytest.mark.parametrize("name", ["pos", "pos-threshold"])
@pytest.mark.parametrize(
    ("small", "a"), [(3.0, (0.3, 0.7, 1.1)), (2.0, (0.1, 0.9, 0.7)), (2.4, (1.0, 1.0, 1.0)), (1.75, (0.3, 0.2, 0.7))]
)
def test_whole_numbers_with_weights_that_round_and_counts_with_fractions(name, small, a):
    """At 0 itself a share is 0, whatever c/a has become in floats; a fraction moves the lattice."""
    x, a, M = np.array([small, 90.0, 70.0]), np.array(a), fp.DiscreteLaplace(1.1)
    found = one(problem(x, M, a), Threshold(0.0) if name == "pos" else M.best_threshold(), 1e-6)
    bias, mse, zero, left = enumerated(x, M, a, name, 28)
    assert np.all(np.abs(found.bias - bias) <= found.error + left + 1e-15)
    np.testing.assert_allclose(found.mse, mse, rtol=1e-6, atol=left)
    np.testing.assert_allclose(found.zero, zero, rtol=1e-9, atol=left + 1e-12)


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
@pytest.mark.parametrize("steep", [np.inf, 3.0])
def test_a_jump_or_a_ramp_by_integration_of_the_rule(tau, x, a, steep):
    """Two Laplace noises of scale 3 beside the small one add up to d with the density (1 + |d|) e^{-|d|} / 4."""
    b, weights, rule = 3.0, np.array([a, 1.0, 1.0]), Threshold(tau, steep)
    M, counts = fp.Laplace(b), np.array([x, 700.0, 800.0])
    found = one(problem(counts, M, weights), rule, 1e-7)
    pi = PosThreshold(weights=weights, threshold=rule)
    u, w = legendre(16)

    def nodes(ends):
        ends = np.unique(ends)
        wide = np.diff(ends)[:, None]
        return (ends[:-1, None] + wide * u).ravel(), (wide * w).ravel()

    z, wz = nodes(np.concatenate([np.linspace(x - 40 * b, x + 40 * b, 41), [2 * tau / 3, tau, tau + rule.width]]))
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


def test_what_the_others_may_add_is_the_error_where_all_else_is_sharp(monkeypatch):
    """With 1/S known to 1e-10 nothing but the second entity's own edge is left of the error."""
    plain = inverses.inverse_of
    monkeypatch.setattr(inverses, "inverse_of", lambda problem, tolerance: plain(problem, 1e-10))
    x, M = np.array([2.0, 20.0, 80.0]), fp.DiscreteLaplace(1.3)
    found = one(problem(x, M), Threshold(0.0), 0.9)
    bias, _, _, left = enumerated(x, M, np.ones(3), "pos", 40)
    off = np.abs(found.bias - bias)
    assert off.max() > 1e3 * left
    assert (off <= found.error + left).all()
    assert found.error.max() < 1e5 * off.max()


@pytest.mark.parametrize("x", [[3.0, 4.0, 500.0], [3.0, 3.0, 500.0], [1.0, 0.5, 2.0]])
def test_two_that_may_be_dropped_are_not_for_it(x):
    M = fp.Laplace(2.0)
    values, times = np.unique(x, return_counts=True)
    given = Problem.build(values, np.ones(values.size), times, values / np.sum(x), M)
    assert one(given, Threshold(2.0), 1e-6) is None


# -- releases ----------------------------------------------------------------------------------------------------


def by_the_rule(x, noise, rule, total, reach):
    """Bias, mean squared error, P(0) and E[T] over every vector of noises up to the reach."""
    pi = SimplexThreshold(total=total, threshold=rule) if rule.level > 0 else Simplex(total=total)
    k = np.arange(-reach, reach + 1.0)
    p = noise.density(k)
    at = np.array(list(product(range(k.size), repeat=x.size)))
    chance, v = np.prod(p[at], axis=1), pi(x + k[at])
    y = x + k[at] + (total - np.sum(x + k[at], axis=1, keepdims=True)) / x.size
    return (
        chance @ (v - x),
        chance @ (v - x) ** 2,
        chance @ (v == 0),
        chance @ np.max(y - v, axis=1),
        abs(1 - chance.sum()),
    )


@pytest.mark.parametrize("noise", ["discrete-laplace", "discrete-gaussian"])
@pytest.mark.parametrize("threshold", [False, True])
@pytest.mark.parametrize("more", [0.0, -1.0, 0.5, -9.0])
def test_whole_releases_by_brute_force(noise, threshold, more):
    x, M = np.array([2.0, 90.0, 130.0]), NOISES[noise](1.3)
    rule, total = M.best_threshold() if threshold else Threshold(0.0), 222.0 + more
    found = cut_one(x, np.ones(3, dtype=np.int64), M, total, rule, 1e-6)
    bias, mse, zero, lifted, left = by_the_rule(x, M, rule, total, 34)
    assert left < 1e-10
    assert np.all(np.abs(found.bias - bias) <= found.error + 200 * left)
    assert np.max(found.error) < 1e-6 * np.ptp(bias)
    assert np.all(np.abs(found.mse - mse) <= found.mse_error + 1e5 * left)
    assert np.max(found.mse_error) < 1e-7 * np.min(mse)
    np.testing.assert_allclose(found.zero, zero, rtol=1e-9, atol=left)
    if threshold:
        assert found.threshold is None
    else:
        assert found.threshold == pytest.approx(lifted, rel=1e-8)


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("tau", [0.0, 2.0, 7.0])
@pytest.mark.parametrize(("small", "more"), [(3.0, 0.0), (3.0, -12.0), (11.0, 4.0), (0.0, 0.0)])
def test_releases_by_the_integrals(noise, tau, small, more, monkeypatch):
    x, times, M = np.array([small, 300.0, 500.0, 800.0]), np.array([1, 2, 1, 3]), NOISES[noise](3.0)
    total, rule = float(np.sum(times * x)) + more, Threshold(tau)
    mine = cut_one(x, times, M, total, rule, 1e-6)
    monkeypatch.setattr(simplexes, "one", lambda *given: None)
    monkeypatch.setattr(thresholds, "cut_one", lambda *given: None)
    other = thresholds.simplex_threshold(x, times, M, total, rule, 1e-6)
    assert np.all(np.abs(mine.bias - other.bias) <= mine.error + other.error)
    assert np.max(mine.error) <= 1e-7 * np.ptp(mine.bias)  # a tenth of the tolerance
    assert np.all(np.abs(mine.mse - other.mse) <= mine.mse_error + other.mse_error)
    assert np.max(mine.mse_error) <= 2e-6 * np.min(mine.mse)
    assert np.all(np.abs(mine.zero - other.zero) <= mine.zero_error + other.zero_error)
    if tau == 0:
        assert abs(mine.threshold - other.threshold) <= mine.threshold_error + other.threshold_error


def test_hawaii_as_a_release():
    """The published value of the paper's counties, and the same under whole numbers and with a threshold."""
    found = {
        (M, rule): fp.audit(HAWAII, M(10.0), rule, engine=Exact()).alpha
        for M in (fp.Laplace, fp.DiscreteLaplace)
        for rule in ("simplex", "simplex-threshold")
    }
    assert found[fp.Laplace, "simplex"].value == pytest.approx(0.00858784004, rel=1e-9)
    assert found[fp.Laplace, "simplex-threshold"].value == pytest.approx(0.00317714677, rel=1e-8)  # by the contours
    assert found[fp.DiscreteLaplace, "simplex"].value == pytest.approx(0.00857845729939, rel=1e-10)  # by the lattice
    assert found[fp.DiscreteLaplace, "simplex-threshold"].value == pytest.approx(0.00325, rel=1e-3)  # brute force above


def test_what_the_others_may_add_is_stated_or_refused():
    """The second count comes near the edge as well: the error covers what enumeration shows, or there is no answer."""
    M, rule = fp.DiscreteLaplace(1.3), Threshold(0.0)
    times = np.ones(3, dtype=np.int64)
    answered = 0
    for second in (60.0, 75.0, 90.0):
        x = np.array([2.0, second, 130.0])
        found = cut_one(x, times, M, float(x.sum()), rule, 0.1)
        if found is None:
            continue
        answered += 1
        bias, _, zero, _, left = by_the_rule(x, M, rule, float(x.sum()), 34)
        assert np.all(np.abs(found.bias - bias) <= found.error + 200 * left)
        assert np.all(np.abs(found.zero - zero) <= found.zero_error + left)
    assert answered > 0
    assert cut_one(np.array([2.0, 9.0, 130.0]), times, M, 141.0, rule, 0.1) is None
    assert cut_one(np.array([2.0, 130.0]), np.array([2, 1]), M, 134.0, rule, 0.1) is None


def test_a_release_states_what_another_that_is_cut_may_add():
    """The lesser of two bounds, and P(A) is at least the chance that the second entity receives 0."""
    x, M = np.array([2.0, 26.0, 130.0]), fp.DiscreteLaplace(1.3)
    found = cut_one(x, np.ones(3, dtype=np.int64), M, 158.0, Threshold(0.0), 0.9)
    _, _, zero, _, _ = by_the_rule(x, M, Threshold(0.0), 158.0, 34)
    assert zero[1] > 1e-16
    assert (found.error >= 158.0 * zero[1]).all()
    assert (found.mse_error >= 158.0**2 * np.sqrt(zero[1])).all()
    assert found.zero_error[1] >= zero[1]
    far = cut_one(np.array([2.0, 90.0, 130.0]), np.ones(3, dtype=np.int64), M, 222.0, Threshold(0.0), 0.1)
    assert found.error.min() > 1e3 * far.error.max()


@pytest.mark.parametrize("noise", [fp.DiscreteLaplace(0.05), fp.DiscreteLaplace(3.0), fp.DiscreteGaussian(2.0)])
def test_hoelders_bound(noise):
    """A sum of |eta|^p is below what stands for it, and an event of a chance of 1e-60 adds no more than its size, p large."""
    k = np.arange(1.0, 400.0)
    alone = releases._lost(np.zeros(1), 1, 0.0, noise, 1.0)[0] / 4  # the least of the norms, at p = 4
    assert alone >= (2 * float(noise.density(k) @ k**4)) ** 0.25
    assert releases._lost(np.array([7.0]), 3, 2.0, noise, 0.0) == 0.0
    lost = releases._lost(np.array([7.0]), 3, 2.0, noise, 1e-60)[0]
    assert 7e-60 < lost < 1e-50
    # a set of one noise: E[sum |eta|; A] for A = {eta = k} of each of 3 entities
    for far in (2.0, 9.0):
        rare = 3 * float(noise.density(far))
        assert releases._lost(np.zeros(1), 3, 0.0, noise, rare)[0] >= 3 * far * float(noise.density(far))


def exactly(x, noise, total, tau, reach):
    """The biases from every vector of noises up to `reach`, the rule solved in fractions: no count is rounded."""
    tau, total, n = Fraction(tau), Fraction(total), len(x)
    out = [Fraction(0)] * n
    for eta in product(range(-reach, reach + 1), repeat=n):
        noisy = [Fraction(v) + e for v, e in zip(x, eta, strict=True)]

        def height(r, noisy=noisy):
            return [min(v - r, (1 + tau) * max(v - r - tau, 0)) if v - r > tau else Fraction(0) for v in noisy]

        places = sorted({v - end for v in noisy for end in (tau, 1 + tau)} | {min(noisy) - total - 2})
        k = max(i for i, r in enumerate(places) if sum(height(r)) >= total)
        low, high = places[k], places[k + 1]
        up, down = sum(height(low)), sum(height(high))
        v = height(low + (high - low) * (up - total) / (up - down) if up > total else low)
        mass = Fraction(float(np.prod(noise.density(np.array(eta, dtype=float)))))
        free = sum(eta)
        out = [
            b + mass * (value - z + Fraction(free, n) - (total - sum(map(Fraction, x))) / n)
            for b, value, z in zip(out, v, noisy, strict=True)
        ]
    return np.array([float(b) for b in out])


@pytest.mark.parametrize(("x", "tau"), [([2, 5, 9], 0.0), ([2, 6, 9], 1e-7), ([2, 5, 7], 0.25)])
def test_a_noise_next_to_none_and_a_bias_of_next_to_nothing(x, tau):
    """Far below the root of the chance that another is cut too: 1e-23 to 1e-36, with nine digits."""
    noise, n = fp.DiscreteLaplace(0.06), np.ones(3, dtype=np.int64)
    found = cut_one(
        np.array(x, dtype=float), n, noise, float(sum(x)), Threshold.ramp(tau) if tau else Threshold(0.0), 1e-6
    )
    bias = exactly(x, noise, sum(x), tau, 5)
    assert np.ptp(found.bias) < 1e-15
    assert np.all(found.error < 1e-6 * np.ptp(found.bias))
    assert np.all(np.abs(found.bias - bias) <= found.error + 1e-6 * np.ptp(bias))


def test_at_the_foot_of_a_ramp_zero_is_unsure():
    """Level 1 and three entities: y = 2/3 is on the lattice, where v is 0 and the rule in floats gives 2e-14."""
    x, M = np.array([2.0, 699.0, 298.0]), fp.DiscreteGaussian(1.822047830680742)
    rule = M.best_threshold()
    assert rule.level == 1.0
    found = cut_one(x, np.ones(3, dtype=np.int64), M, 999.0, rule, 1e-6)
    pi, k = SimplexThreshold(total=999.0, threshold=rule), np.arange(-16, 17.0)
    at = np.array(list(product(range(k.size), repeat=3)))
    chance, v = np.prod(M.density(k)[at], axis=1), pi(x + k[at])[:, 0]
    assert found.zero[0] == pytest.approx(chance @ (v < 1e-9), rel=1e-9)
    assert chance @ (v == 0) < found.zero[0] - 0.01
    assert abs(chance @ (v == 0) - found.zero[0]) <= found.zero_error[0]
    shares = one(problem([1.0, 300.0, 400.0], M), Threshold.ramp(1.5), 1e-6)  # z0 = 1
    assert shares.zero_error[0] == pytest.approx(float(M.density(0.0)), rel=1e-6)
    assert one(problem([1.0, 300.0, 400.0], M), Threshold.ramp(1.4), 1e-6).zero_error[0] < 1e-9


def test_a_whole_number_noise_of_too_many_values_is_left_to_others():
    assert one(problem([5e4, 5e7, 8e7], fp.DiscreteLaplace(1e4)), Threshold(0.0), 1e-6) is None
