"""PoS where S may have either sign: S < 0 on turned paths, giants among small ones, and the pieces of both."""

import math

import numpy as np
import pytest
from scipy.special import wofz

import fairpost as fp
from fairpost.engines.closed.kernels.mills import zeroth
from fairpost.engines.closed.quadrature import between
from fairpost.engines.exact.pos import turned
from fairpost.engines.exact.pos.general import general
from fairpost.engines.exact.pos.kernels.noise import below, below_from, mass_below
from fairpost.engines.exact.pos.kernels.saddles import leave_alone, slope_from, threshold_density
from fairpost.engines.exact.pos.kernels.separated import product_and_ratios
from fairpost.engines.exact.pos.opposite import opposite
from fairpost.engines.exact.pos.problem import Problem, chance_negative
from fairpost.engines.exact.pos.side import NEVER
from fairpost.engines.exact.threshold import lines
from support.oracles.brute import projected_shares
from support.oracles.definitions import pair_shares


def built(x, a, noise, times=None):
    x, a = np.asarray(x, dtype=np.float64), np.asarray(a, dtype=np.float64)
    times = np.ones(x.size, dtype=np.int64) if times is None else np.asarray(times)
    return Problem.build(x, a, times, pair_shares(x, a, times), noise)


def side(problem, chance=None):
    return turned.Turned(problem, chance_negative(problem) if chance is None else chance, lambda *_: None)


def uneven(n, most=1e6, seed=3):
    rng = np.random.default_rng(seed)
    return built(rng.exponential(0.3, n), np.exp(rng.uniform(0, np.log(most), n)), fp.Laplace(1.0))


# ---- turned paths ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("most", [1.0, 1e3, 1e6])
def test_turned_paths_agree_with_the_sum_over_sets(most):
    """One integral per set of eight entities, and one for all: shares, squares and chances."""
    problem = uneven(8, most)
    known = opposite(problem, chance_negative(problem))
    found = side(problem)
    while found.error.max() > 1e-10:
        assert found.improve(np.inf)
    for name, error in (("first", "error"), ("second", "second_error"), ("zero", "zero_error")):
        away = np.abs(getattr(found.sums, name) - getattr(known.sums, name))
        assert (away <= getattr(found, error) + getattr(known, error)).all()
        assert away.max() < 1e-9


def test_every_stage_states_what_it_misses():
    problem = uneven(14, 1e5, 9)
    found, stages = side(problem), []
    stages.append((found.sums, found.error, found.second_error, found.zero_error))
    while found.improve(np.inf):
        stages.append((found.sums, found.error, found.second_error, found.zero_error))
    best = stages[-1][0]
    assert len(stages) == 3
    assert stages[-1][1].max() < 1e-11
    for sums, *errors in stages[:-1]:
        for name, error in zip(("first", "second", "zero"), errors, strict=True):
            assert (np.abs(getattr(sums, name) - getattr(best, name)) <= error).all()


def test_the_sum_of_shares_is_part_of_the_error():
    """A chance that is off by 1e-5 is not met by the shares, and no step would show it."""
    problem = uneven(13)
    assert side(problem, chance_negative(problem) + 1e-5).error.min() > 0.99e-5


def test_those_who_are_alike_stand_for_each_other():
    x, a, times = np.array([0.1, 0.4, 0.2]), np.array([1.0, 3e4, 50.0]), np.array([1, 5, 9])
    one = side(built(x, a, fp.Laplace(1.0), times))
    all_of_them = side(built(np.repeat(x, times), np.repeat(a, times), fp.Laplace(1.0)))
    for name in ("first", "second", "zero"):
        assert np.repeat(getattr(one.sums, name), times) == pytest.approx(getattr(all_of_them.sums, name), abs=1e-9)


def test_nothing_to_tell_them_apart():
    """x = 0 and equal weights: each has the same part of P(S < 0) = 1/2, as often 0 as by the sides' symmetry."""
    found = side(built(np.full(20, 1e-300), np.ones(20), fp.Laplace(1.0)), 0.5)
    while found.error.max() > 1e-9:
        assert found.improve(np.inf)
    assert found.sums.first == pytest.approx(np.full(20, 0.025), abs=1e-9)


def test_more_entities_than_sets_by_lines():
    rng = np.random.default_rng(4)
    problem = built(rng.exponential(0.2, 24), rng.uniform(1, 3, 24), fp.Laplace(1.0))
    assert turned.served(problem)
    found, known = general(problem, 1e-6), lines.shares(problem, 0.0, 1e-4)
    assert (np.abs(found.bias - known.bias) <= found.error + known.error).all()
    assert (np.abs(found.mse - known.mse) <= found.mse_error + known.mse_error).all()
    assert (np.abs(found.zero - known.zero) <= found.zero_error + known.zero_error).all()


def test_thirty_one_weights_over_orders_are_answered():
    """Refused before: kinks in r that no contour of s could pass. Against 60,000 releases."""
    problem = uneven(31, 4e5, 1)
    found = general(problem, 1e-6)
    assert found.error.max() < 1e-6 * np.ptp(found.bias)
    rng = np.random.default_rng(0)
    z = problem.c + problem.scale * rng.laplace(size=(60_000, problem.c.size))
    v = projected_shares(z)
    room = 6 * v.std(axis=0) / np.sqrt(len(v)) + 1e-6
    assert (np.abs(v.mean(axis=0) - problem.shares - found.bias) <= room).all()


# ---- a giant among small ones, Gaussian noise --------------------------------------------------------------


@pytest.mark.parametrize("x", [(0.1, 0.2, 0.3)])
def test_scales_over_orders_under_gaussian_noise(x):
    """Terms of very different widths along one contour.

    By releases that are spread over all scales of the large one.
    """
    problem = built(x, np.array([1.0, 2e-3, 1e-4]), fp.Gaussian(1.0))
    found = general(problem, 1e-3)
    rng, many = np.random.default_rng(0), 200_000
    v = 24 * (np.arange(many) + rng.random(many)) / many - 12  # all scales of the large one, a part of each
    large = 1e-4 * np.sinh(v)
    weight = 24e-4 * np.cosh(v) * np.exp(-0.5 * large**2) / math.sqrt(2 * math.pi)
    z = problem.c + problem.scale * np.stack([large, *rng.normal(size=(2, many))], axis=1)
    away = weight[:, None] * (projected_shares(z) - np.array([1.0, 0.0, 0.0]))
    mean, room = away.mean(axis=0) + np.array([1.0, 0.0, 0.0]), 6 * away.std(axis=0) / math.sqrt(many)
    assert (np.abs(mean - problem.shares - found.bias) <= room + found.error + 1e-9).all()
    assert room.max() < 6e-4  # (of biases up to 0.05)
    assert found.error.max() < 1e-3 * np.ptp(found.bias)


def test_a_place_beyond_doubles_does_not_spoil_the_next():
    """The density of r starts afresh where the place before had none."""
    problem = built([0.0002, 0.37, 588.0], np.array([1.0, 0.27, 2e-3]), fp.Gaussian(1.0))
    arrays = (problem.noise, -problem.c, problem.scale, problem.times, 0.0, problem.low, NEVER)
    both, alone = np.empty(2), np.empty(1)
    threshold_density(*arrays, np.array([1e-4, 1.5]), both)
    threshold_density(*arrays, np.array([1.5]), alone)
    assert not both[0] > -300  # (or no number at all)
    assert both[1] == pytest.approx(alone[0], abs=1e-12)


def test_the_only_one_above_r_is_never_below():
    c, scale, out = np.array([1.0, -2.0]), np.array([1.0, 3.0]), np.empty(2)
    leave_alone(c, scale, np.array([1, 1]), 5.0, 1, out)
    assert out[0] == 1.0
    assert below(1, 5.0 - out[1], 3.0, -4.0)[0] == 0.0
    for one, times in ((-1, [1, 1]), (1, [1, 2]), (1, [1.0, 1.3])):  # nobody, or more than one
        leave_alone(c, scale, np.array(times), 5.0, one, out)
        assert (out == c).all()


# ---- pieces --------------------------------------------------------------------------------------------------


def test_products_of_what_is_next_to_nothing():
    """psi of 1e-170, whose square no double holds."""
    up, b0, times = np.zeros(3), np.array([3 + 1j, 2 - 1j, 1 + 4j]), np.array([1, 1, 2])
    known, g = np.prod((b0 / np.abs(b0)) ** times), np.empty(3, dtype=np.complex128)
    product, _ = product_and_ratios(up, 1e-170 * b0, 1e170 / np.abs(b0), 1 + 0j, times, g)
    assert product == pytest.approx(known, rel=1e-13)
    assert g * 1e-170 == pytest.approx(1 / b0, rel=1e-13)


@pytest.mark.parametrize("small", [1e-9, 0.3])
@pytest.mark.parametrize("times", [[1, 1, 1, 1], [1, 3, 200, 254], [1, 2, 300, 10**4], [1.5, 2.25, 0.3, 7.0]])
def test_the_slope_of_a_saddle(times, small):
    """log F, K and two derivatives of log(F K), by differences of sums that are written out."""
    times, rng = np.array(times), np.random.default_rng(7)
    above, y, r, far = rng.uniform(0.5, 1, 4), rng.uniform(0.5, 2, (4, 3)), 0.4, 2.0
    weight = small * rng.uniform(0.5, 1, (4, 3))

    def moments(s, k):
        return np.sum(weight * y**k * np.exp(-s * y), axis=1)

    def logs(s):
        psi, n = above + moments(s, 0), far + times.sum()
        log_none = -np.sum(times * np.log1p(moments(s, 0) / above))
        number = -n * math.expm1(log_none) - np.sum(times * moments(s, 0) / psi)
        return np.sum(times * np.log(psi)) + s * n * r, number

    b = np.array([moments(0.7, k) for k in range(3)])
    value, number, first, second = slope_from(b, times, above, far, r, 0.7)
    assert (value, number) == pytest.approx(logs(0.7), rel=1e-6)
    up, down, here = (log + math.log(number) for log, number in (logs(0.7 + d) for d in (1e-3, -1e-3, 0.0)))
    assert first == pytest.approx((up - down) / 2e-3, rel=1e-4)
    floor = 1e-3 * np.sum(times * (b[2] / (above + b[0]) - (b[1] / (above + b[0])) ** 2))
    assert second == pytest.approx(max((up - 2 * here + down) / 1e-6, floor), rel=2e-3)


def test_mills_ratio_alone():
    q = np.concatenate(
        [size * np.exp(1j * np.linspace(-1.57, 1.57, 9)) for size in (0.1, 5, 9.9, 10.1, 21, 61, 999, 1e3, 1e7)]
    )
    known = math.sqrt(math.pi / 2) * wofz(1j * q / math.sqrt(2))
    found = np.array([zeroth(complex(v)) for v in q])
    assert np.max(np.abs(found / known - 1)) < 3e-14


@pytest.mark.parametrize("noise", [None, 1])
@pytest.mark.parametrize("d", [-3.0, -0.1, 0.0, 0.2, 5.0, 60.0])
def test_the_first_moment_alone(noise, d):
    for s in (0.3 + 0.2j, -0.3 + 4j, 2 + 30j, 0.01 - 0.5j):
        decay = math.exp(-abs(d) / 1.3)
        known = below_from(noise, d, 1.3, s, decay)
        assert mass_below(noise, d, 1.3, s, decay) == pytest.approx(known[0], rel=1e-12, abs=1e-300)
        assert below(noise, d, 1.3, s) == pytest.approx(known, rel=1e-12, abs=1e-300)


@pytest.mark.parametrize("ratio", [1.0, 1e3, 1e8])
def test_equal_steps_of_the_logarithm(ratio):
    """int b/(1 + bt)^2/(1 + ct) dt is closed; its scales are 1/b and 1/c."""
    b, c = 1.0, 1 / ratio
    known = 1 / (1 - c) + c * math.log(c) / (1 - c) ** 2 if ratio > 1 else 0.5
    for step, near in ((0.6, 5e-5), (0.48, 1e-6), (0.3, 1e-10)):
        t, weight = between(1 / b, 1 / c, step)
        assert weight @ (b / (1 + b * t) ** 2 / (1 + c * t)) == pytest.approx(known, abs=near)


@pytest.mark.parametrize("one", [-1, 0, 2])
def test_who_is_alone_above_r_is_put_far_above_it(one):
    """Whoever it is, the first too; who stands for several stays where it is."""
    c, scale, times = np.array([1.0, 2.0, 3.0]), np.array([0.5, 1.0, 2.0]), np.array([1.0, 1.0, 1.0])
    out = np.empty(3)
    leave_alone(c, scale, times, 7.0, one, out)
    assert [k for k in range(3) if out[k] != c[k]] == ([] if one < 0 else [one])
    assert one < 0 or out[one] >= 7.0 + 1e29 * scale[one]
    leave_alone(c, scale, 2 * times, 7.0, one, out)
    assert out.tolist() == c.tolist()


def test_what_the_kernel_left_out_and_its_rounding_are_stated(monkeypatch):
    """Two halves that leave out a quarter each and have terms of the size 3e9 each: 1e-15 of every factor, n factors."""
    from fairpost.engines.exact.pos.kernels import turned as kernels

    x, a = np.linspace(0.0, 1.0, 14), np.geomspace(1.0, 50.0, 14)
    problem = Problem.build(x, a, np.ones(14, dtype=np.int64), a * x / np.sum(a * x), fp.Laplace(1.0))
    side = turned.Turned(problem, chance_negative(problem), lambda cost, ahead: None)
    plain = kernels.accumulate_turned
    monkeypatch.setattr(kernels, "accumulate_turned", lambda *given: (plain(*given)[0], 3e9, 0.25))
    assert side.evaluate()[1] == pytest.approx(0.5 + 1e-15 * 14 * 6e9, rel=1e-12)
