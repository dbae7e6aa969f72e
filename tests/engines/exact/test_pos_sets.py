"""PoS of few Gaussian values, set by set: against `general`, against integrals by hand, and what it says of its own error."""

import itertools
import math
import time

import numpy as np
import pytest
from scipy.integrate import quad

import fairpost as fp
from fairpost.engines.exact.pos import moments, sets
from fairpost.engines.exact.pos.general import general
from fairpost.engines.exact.pos.kernels.sets import add_sets
from fairpost.engines.exact.pos.moments import pos
from fairpost.engines.exact.pos.problem import Problem
from fairpost.engines.exact.threshold import sets as with_threshold
from support.oracles.brute import projected_shares
from support.oracles.definitions import pair_shares


def problem(x, a, sigma=1.0):
    x, a = np.asarray(x, dtype=np.float64), np.asarray(a, dtype=np.float64)
    times = np.ones(x.size, dtype=np.int64)
    return Problem.build(x, a, times, pair_shares(x, a, times), fp.Gaussian(sigma))


CASES = [
    ([0.3, 0.1, 0.2], [1.0, 1.2, 1.5]),
    ([0.01, 0.0, 0.4, 0.2, 0.9], [1.0, 30.0, 4e3, 200.0, 1e5]),
    ([0.5, 0.25, 1.0, 2.5], [1.0, 40.0, 9.0, 1e3]),
    ([7.0, 0.0, 1.3, 3.0, 0.4, 0.1], [5.0, 1.0, 60.0, 7.0, 500.0, 900.0]),
    ([2.0, 1.0, 1.0, 0.4, 0.6, 0.2, 0.1], [1.0, 1e5, 30.0, 2e3, 5.0, 3e4, 600.0]),
]


@pytest.mark.parametrize(("x", "a"), CASES)
def test_another_integral_has_the_same_moments(x, a):
    """`general` has one product of all entities in the place of sets, and saddle points in the place of one contour."""
    p = problem(x, a)
    one, two = sets.shares(p, 1e-6), general(p, 1e-5)
    back = np.abs(one.bias - two.bias)
    assert np.all(back <= one.error + two.error)
    assert np.all(np.abs(one.mse - two.mse) <= one.mse_error + two.mse_error)
    assert np.all(np.abs(one.zero - two.zero) <= one.zero_error + two.zero_error)
    assert one.degenerate == two.degenerate


@pytest.mark.parametrize("x", [[0.5, 0.25, 1.0, 2.5], [11.0, 0.3, 40.0, 0.7]])
def test_a_threshold_next_to_none_is_none(x):
    """`pos-threshold` has other contours, one per set and both ways round; a threshold of 1e-10 moves a share by about that."""
    p = problem(x, [1.0, 40.0, 9.0, 1e3])
    found, near = sets.shares(p, 1e-6), with_threshold.shares(p, 1e-10, 1e-5)
    assert np.all(np.abs(found.bias - near.bias) <= found.error + near.error + 1e-6)


def _clipped_density(c, a, r, which):
    """The density of sum (r - z) at n r over z < r for one or two of three entities."""
    at = 3 * r

    def one(j, w):  # of w = r - z
        return math.exp(-0.5 * ((r - w - c[j]) / a[j]) ** 2) / a[j] / math.sqrt(2 * math.pi)

    if len(which) == 1:
        return one(which[0], at)
    i, j = which
    middle = np.clip([r - c[i], at - (r - c[j])], 0.0, at)
    marks = [m + k * min(a[i], a[j]) for m in middle for k in (-6, -2, 0, 2, 6)]
    marks = sorted({0.0, at, *(m for m in marks if 0 < m < at)})
    return sum(
        quad(lambda w: one(i, w) * one(j, at - w), *ends, epsabs=0, epsrel=1e-11)[0]
        for ends in itertools.pairwise(marks)
    )


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("x", [[0.2, 0.1, 0.4], [2.0, 0.5, 4.0], [8.0, 0.0, 6.0]])
@pytest.mark.parametrize("r", [0.02, 0.4, 3.0, 9.0])
def test_chances_at_one_r(x, sign, r):
    """On every way: one product, to the left, to the right; and with those who are on one side for certain."""
    x, a = sign * np.array(x), np.array([1.0, 0.25, 4.0])
    up = [0.5 * math.erfc(at / math.sqrt(2)) for at in r / a - x]
    sum_of, zero = 0.0, np.zeros(3)
    for number in (1, 2):
        for which in itertools.combinations(range(3), number):
            others = [j for j in range(3) if j not in which]
            here = len(others) * _clipped_density(a * x, a, r, which) * math.prod(up[j] for j in others)
            sum_of += here
            zero[list(which)] += here
    out, nil, place = np.zeros((3, 3)), np.zeros(0), np.array([r, 0.0])[::2]
    found = add_sets(a, x, place, np.ones(2)[::2], 0.06, 38.0, nil, nil, out)
    assert found == pytest.approx(sum_of, rel=1e-8, abs=1e-12)
    assert out[2] == pytest.approx(zero, rel=1e-8, abs=1e-12)


def test_every_level_states_what_it_misses(monkeypatch):
    """The error of a pair of levels is above its distance from the finest."""
    for x, a in CASES:
        p = problem(x, a)
        with monkeypatch.context() as patch:
            patch.setattr(sets, "LEVELS", sets.LEVELS[2:])
            best = sets.shares(p, 1e-3)
        rough = sets.shares(p, 1e-3)
        assert np.max(best.error) < 1e-3 * np.max(rough.error)
        assert np.all(np.abs(rough.bias - best.bias) < rough.error)
        assert np.all(np.abs(rough.mse - best.mse) < rough.mse_error)
        assert np.all(np.abs(rough.zero - best.zero) < rough.zero_error)


def _changed(monkeypatch, change):
    real = sets.one_sign
    monkeypatch.setattr(sets, "one_sign", lambda *given: change(*real(*given)))


def test_what_the_chances_and_the_shares_miss_is_stated(monkeypatch):
    p = problem(*CASES[1])
    alpha = float(np.ptp(sets.shares(p, 1e-6).bias))
    with monkeypatch.context() as patch:  # 2e-7 of either sign, 4e-7 in all
        _changed(patch, lambda parts, chance: (parts, chance + 2e-7))
        found = sets.shares(p, 1e-2)
        for stated in (found.error, found.zero_error, found.mse_error):
            assert np.all(stated > 7.9e-7)
        with pytest.raises(fp.ToleranceError, match=r"pos: alpha = .* misses the relative tolerance"):
            sets.shares(p, 7e-7 / alpha)
    with monkeypatch.context() as patch:  # all shares, so that no bias moves
        _changed(patch, lambda parts, chance: (parts * (1 + 1e-5), chance))
        assert np.all(sets.shares(p, 1e-2).error > 1e-5 - 1e-8)


def test_a_sign_that_is_left_out_is_stated(monkeypatch):
    p = problem([1.4, 1.5, 2.0], [1.0, 1.1, 1.3])
    whole = sets.shares(p, 1e-6)
    monkeypatch.setattr(sets, "NEVER", 0.1)
    found = sets.shares(p, 0.9)
    assert 1e-3 < found.degenerate < 1e-2
    for stated in (found.error, found.mse_error, found.zero_error):
        assert np.all(stated >= found.degenerate)
    assert np.all(found.error < 1.1 * found.degenerate)
    assert np.max(np.abs(found.bias - whole.bias)) > 0.01 * found.degenerate
    assert np.all(np.abs(found.bias - whole.bias) <= found.error + whole.error)


def test_a_level_that_is_off_is_seen_by_the_next_one(monkeypatch):
    """Shares moved from one entity to another by 1e-5 at every second level: their sum does not tell."""
    p, calls = problem(*CASES[1]), []
    right = sets.shares(p, 1e-6)

    def moved(parts, chance):
        calls.append(chance)
        fault = np.zeros_like(parts)
        fault[:, 0], fault[:, 1] = 1e-5, -1e-5
        return parts + fault * (len(calls) == 1), chance

    _changed(monkeypatch, moved)
    found = sets.shares(p, 1e-2)
    assert np.all(np.abs(found.bias - right.bias) <= found.error + right.error)
    for stated in (found.error, found.mse_error, found.zero_error):
        assert np.max(stated) > 0.9e-5


def test_orders_between_the_weights_are_answered_at_once():
    """Three equal counts with weights of 1, 3 and 2e5: a nan once, then a refusal. The largest is above or below all others alone."""
    x, a = np.full(3, 51.0), np.array([1.48425621, 3.96089229, 2.88690052e05])
    start = time.process_time()
    found = fp.audit(fp.Counts(x, weights=a), fp.Gaussian(84388.0), "pos", engine="exact")
    assert time.process_time() - start < 20  # (with kernels to compile)
    rng = np.random.default_rng(7)
    draws = rng.normal(0, 84388.0, (400_000, 3)) + x
    total = 0.0
    for part in np.split(draws, 4):
        v = projected_shares(part * a)
        total = total + v.sum(axis=0) / draws.shape[0]
    # of shares within [0, 1] the standard error is 8e-4 at most
    assert np.all(np.abs(total - a / a.sum() - found.bias) < 5e-3)
    assert np.max(found.accuracy.half_width) < 1e-6 * np.ptp(found.bias)


def test_who_is_served(monkeypatch):
    """Few Gaussian values of any weights; fewer where the weights are alike."""
    few, many = np.arange(1.0, 7.0), np.arange(1.0, 12.0)
    assert sets.served(problem(few, np.ones(6)))
    assert not sets.served(problem(many[:7], np.ones(7)))
    assert sets.served(problem(many[:10], 3.0 ** np.arange(10)))
    assert not sets.served(problem(many, 3.0 ** np.arange(11)))
    one = np.ones(3, dtype=np.int64)
    assert not sets.served(Problem.build(few[:3], few[:3], one, few[:3] / 6, fp.Laplace(1.0)))
    monkeypatch.setattr(moments, "general", None)
    x, a = np.array([0.1, 0.2, 0.6]), np.array([1.0, 50.0, 2000.0])
    assert np.ptp(pos(x, a, one, pair_shares(x, a, one), fp.Gaussian(1.0)).bias) > 0.01


def test_more_digits_than_there_are_are_refused_after_two_levels(monkeypatch):
    seen = []
    real = sets.one_sign
    monkeypatch.setattr(sets, "one_sign", lambda *given: seen.append(given[-1]) or real(*given))
    with pytest.raises(fp.ToleranceError, match="misses the relative tolerance 1e-14"):
        sets.shares(problem(*CASES[1]), 1e-14)
    assert len(seen) == 4  # two signs, two levels


def test_ties_stand_for_themselves():
    """Two pairs, one of them three times."""
    x, a = np.array([0.4, 0.1]), np.array([1.0, 300.0])
    times = np.array([3, 1])
    together = sets.shares(Problem.build(x, a, times, pair_shares(x, a, times), fp.Gaussian(1.0)), 1e-6)
    apart = sets.shares(problem([0.4, 0.4, 0.4, 0.1], [1.0, 1.0, 1.0, 300.0]), 1e-6)
    assert together.bias == pytest.approx(apart.bias[[0, 3]], abs=1e-13)
    assert together.mse == pytest.approx(apart.mse[[0, 3]], abs=1e-13)
    assert together.zero == pytest.approx(apart.zero[[0, 3]], abs=1e-13)
