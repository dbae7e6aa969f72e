"""The exact moments of PoS against brute-force integration over directions, and its laws."""

import time
from dataclasses import replace

import numpy as np
import pytest
from mpmath import mp

import fairpost as fp
from fairpost.counts import distinct_pairs
from fairpost.engines.exact.pos import general as pos_general
from fairpost.engines.exact.pos import moments as module
from fairpost.engines.exact.pos.moments import pos
from fairpost.engines.exact.pos.nodes import STAGES
from fairpost.engines.exact.pos.problem import Problem, chance_negative
from fairpost.engines.exact.pos.side import NEVER, _lean, _locate, _untilted
from fairpost.errors import ToleranceError
from support.oracles.brute import brute_pos
from support.oracles.definitions import pair_shares

NOISES = [fp.Laplace, fp.Gaussian]


def evaluate(x, a, mechanism, rtol=1e-6):
    """Moments with one entry per entity."""
    x, a = np.asarray(x, dtype=np.float64), np.asarray(a, dtype=np.float64)
    *pairs, inverse = distinct_pairs(x, a)
    found = pos(*pairs, pair_shares(*pairs), mechanism, rtol)
    return {
        name: getattr(found, name)[inverse] for name in ("bias", "error", "mse", "zero", "mse_error", "zero_error")
    } | {"degenerate": found.degenerate}


# ---- brute force -----------------------------------------------------------------------------------------

# The brute-force rule misses less than this of the total mass: 1e-11 (n = 2); n = 3 has kinks inside panels, 1.1e-7 seen.
BRUTE = {2: 1e-11, 3: 2e-7}
CASES = [
    ((3.0, 20.0), (1.0, 1.0), 4.0),  # P(S < 0) below 1 %
    ((1.0, 2.0), (2.0, 0.7), 5.0),  # 37 %
    ((0.0, 4.0), (1.0, 9.0), 3.0),
    ((0.0, 0.0), (1.0, 2.0), 3.0),  # 50 %, no information: the truth is a / sum a
    ((2.0, 2.0), (1.0, 1.0), 3.0),  # a tie
    ((0.0, 6.0, 25.0), (1.0, 2.0, 0.7), 5.0),
    ((1.0, 2.0, 4.0), (1.0, 1.0, 1.0), 4.0),  # 21 %
    ((0.0, 0.0, 1.0), (1.0, 1.5, 2.0), 4.0),  # 44 %
    ((5.0, 5.0, 9.0), (1.0, 1.0, 3.0), 8.0),
    ((4.0, 20.0, 30.0), (1.0, 1.3, 0.8), 3.0),  # all but sure
]


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize(("x", "a", "spread"), CASES)
def test_brute_force(x, a, spread, noise):
    mechanism = noise(spread)
    found = evaluate(x, a, mechanism)
    bias, mse, zero, negative, mass = brute_pos(x, a, mechanism)
    slack = BRUTE[len(x)]
    assert abs(mass) <= slack
    assert (np.abs(found["bias"] - bias) <= found["error"] + slack).all()
    for name, truth in (("mse", mse), ("zero", zero)):
        assert (np.abs(found[name] - truth) <= found[f"{name}_error"] + slack).all()
        assert (found[f"{name}_error"] <= 1e-5).all()  # of 1: the rules stop at 1e-6 of alpha, which is below 1
    assert found["degenerate"] == pytest.approx(negative, abs=slack)


# ---- laws ------------------------------------------------------------------------------------------------

UNSURE = ((0.0, 3.0, 7.0), (1.0, 2.0, 0.5), 6.0)
SURE = ((0.0, 4.0, 4.0, 9.0, 40.0, 700.0), (1.0, 1.0, 1.0, 2.0, 0.5, 1.0), 6.0)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize(("x", "a", "spread"), [UNSURE, SURE, CASES[1], CASES[6]])
def test_symmetries(x, a, spread, noise):
    """Order, the unit of weights and the common unit of counts and noise do not matter; shares sum to 1."""
    x, a = np.array(x), np.array(a)
    one = evaluate(x, a, noise(spread))
    slack = 2 * one["error"].max() + 1e-14
    order = np.arange(x.size)[::-1]
    for other in (
        {k: v[order] if k != "degenerate" else v for k, v in evaluate(x[order], a[order], noise(spread)).items()},
        evaluate(x, 7.3 * a, noise(spread)),
        evaluate(3.1 * x, a, noise(3.1 * spread)),
    ):
        assert np.abs(other["bias"] - one["bias"]).max() <= slack
        assert other["mse"] == pytest.approx(one["mse"], rel=1e-5)
        assert other["zero"] == pytest.approx(one["zero"], abs=1e-6)
        assert other["degenerate"] == pytest.approx(one["degenerate"], rel=1e-9, abs=1e-12)
    assert abs(one["bias"].sum()) <= one["error"].sum()
    assert (one["mse"] >= one["bias"] ** 2).all()


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("scale", [1.0, 200.0])
def test_ties_merged_are_ties_apart(noise, scale):
    """Counts 1e-9 apart are distinct pairs: what multiplicities give, but for 1e-9 and the stated errors."""
    x, a = scale * np.array([1.0, 1.0, 1.0, 5.0, 5.0]), np.ones(5)
    tied = evaluate(x, a, noise(4.0))
    apart = evaluate(x + 1e-9 * np.arange(5), a, noise(4.0))
    slack = tied["error"].max() + apart["error"].max() + 1e-9
    assert np.abs(tied["bias"] - apart["bias"]).max() <= slack
    assert apart["mse"] == pytest.approx(tied["mse"], rel=1e-5)
    assert tied["bias"][0] == tied["bias"][2]


@pytest.mark.parametrize("noise", NOISES)
def test_one_entity_gets_all_and_equal_ones_have_no_bias(noise):
    one = evaluate([3.0], [2.0], noise(5.0))
    assert (one["bias"], one["error"], one["mse"], one["zero"]) == (0, 0, 0, 0)
    assert one["degenerate"] == pytest.approx(float(noise(5.0).cdf(-3.0)), rel=1e-12)
    for n, count in ((2, 1.0), (3, 0.0), (7, 2.0), (40, 30.0)):
        equal = evaluate(np.full(n, count), np.ones(n), noise(5.0))
        assert (np.abs(equal["bias"]) <= equal["error"] + 1e-16).all()


def test_all_counts_zero_under_unequal_weights():
    """The truth is a / sum a and S is symmetric about 0: its sign is a coin, and shares are noise."""
    x, a = np.zeros(4), np.array([1.0, 2.0, 2.0, 5.0])
    for noise in NOISES:
        found = evaluate(x, a, noise(3.0))
        assert found["degenerate"] == 0.5
        order = np.argsort(a)
        assert (np.diff(found["zero"][order]) <= 1e-6).all()
        assert found["bias"][0] < 0 < found["bias"][3]  # the widest noise wins most often


# ---- the sign of the sum ---------------------------------------------------------------------------------


def test_the_chance_of_a_negative_sum():
    """Gaussian: Phi(-mean/deviation). Laplace: the same by simulation of a million sums."""
    from scipy.special import ndtr

    x, a = np.array([1.0, 4.0, 9.0]), np.array([1.0, 3.0, 0.5])
    times = np.ones(3, dtype=np.int64)
    for sigma in (1.5, 6.0, 400.0):
        exact = ndtr(-np.dot(a, x) / (sigma * np.linalg.norm(a)))
        assert chance_negative(
            Problem.build(x, a, times, pair_shares(x, a, times), fp.Gaussian(sigma))
        ) == pytest.approx(exact, rel=1e-11)
    draws = np.random.default_rng(5).laplace(0, 4.0, (1_000_000, 3)) @ a + np.dot(a, x)
    exact = chance_negative(Problem.build(x, a, times, pair_shares(x, a, times), fp.Laplace(4.0)))
    assert np.mean(draws < 0) == pytest.approx(exact, abs=5 * np.sqrt(exact / 1e6))


def test_both_forms_agree_where_both_serve():
    """A sum ten deviations from 0: the form that neglects S < 0 and the general one."""
    x = np.array([2.0, 5.0, 20.0, 45.0, 60.0])
    problem = Problem.build(x, np.ones(5), np.ones(5, dtype=np.int64), x / x.sum(), fp.Gaussian(6.0))
    one = module.separated(problem, 1e-6)
    two = pos_general.general(problem, 1e-6)
    assert (np.abs(one.bias - two.bias) <= one.error + two.error).all()
    assert two.mse == pytest.approx(one.mse, rel=1e-5)
    assert two.zero == pytest.approx(one.zero, abs=1e-6)


# ---- refusals --------------------------------------------------------------------------------------------


def test_discrete_noise_is_refused_by_name():
    with pytest.raises(fp.UnsupportedError, match="under continuous noise only, not under discrete-laplace"):
        fp.audit(fp.Counts(np.arange(30), weights=1 + np.arange(30)), fp.DiscreteLaplace(2.0), "pos", engine="exact")
    found = fp.audit(np.arange(30), fp.DiscreteLaplace(2.0), "pos", engine="exact")  # equal weights have a lattice
    assert np.sum(found.zero) == pytest.approx(1.58, abs=0.02)


def test_a_budget_of_work_refuses_before_it_computes(monkeypatch):
    monkeypatch.setattr(pos_general, "WORK", 1e3)
    with pytest.raises(fp.ToleranceError, match=r"needs about .* steps here, above the 1e\+03"):
        evaluate([1.0, 2.0, 4.0], np.array([1.0, 1.0, 9.0]), fp.Laplace(4.0))  # equal weights have another way


def test_a_tolerance_out_of_reach_names_what_was_reached():
    with pytest.raises(fp.ToleranceError, match=r"pos: alpha = .* misses the relative tolerance 1e-12"):
        evaluate([1.0, 2.0, 4.0], np.ones(3), fp.Gaussian(4.0), rtol=1e-12)


def _never_clipped(x, sigma):
    """E[X_i/S] - P_i where nothing is clipped: (c_i - P_i E[S]) + (1/n - P_i)(S - E[S]) given S; S is normal."""
    n, whole = x.size, x.sum()
    with mp.workdps(30):
        scale = mp.mpf(sigma) * mp.sqrt(n)
        bell = mp.quad(lambda u: mp.npdf(u) * u * scale / (whole + u * scale), mp.linspace(-12, 12, 25))
        return (1 / n - x / whole) * float(bell)


@pytest.mark.parametrize(
    ("x", "sigma"),
    [
        ([50.0, 80.0, 90.0, 100.0, 200.0], 5.2),
        ([1.0, 2.0], 0.105),
        ([50.0, 80.0, 90.0, 100.0, 200.0], 50 / 8),
        ([50.0, 80.0, 90.0, 100.0, 200.0], 50 / 12),
        ([1.0, 2.0, 2.5], 1 / 9),
    ],
)
def test_gaussian_noise_with_the_least_count_at_8_to_12_sigma(x, sigma):
    """Clipping has probability 1e-15 and less there: the share is X_i/S, and its mean is one integral."""
    x = np.array(x)
    truth = _never_clipped(x, sigma)
    found = pos(x, np.ones(x.size), np.ones(x.size, dtype=np.int64), x / x.sum(), fp.Gaussian(sigma))
    assert np.all(np.abs(found.bias - truth) <= found.error)
    assert np.max(found.error) <= 1e-6 * np.ptp(truth)
    if sigma == 5.2:
        assert np.ptp(found.bias) == pytest.approx(1.444476582e-4, rel=1e-6)


@pytest.mark.parametrize("depth", [4.0, 6.0, 9.0, 11.0])
def test_the_chance_of_rare_clipping_to_full_relative_accuracy(depth):
    """Sum over the nodes (r, s) at t = 0 against P(some z < 0) = 1 - prod Phi(c/sigma), from 1e-4 to 1e-28."""
    from fairpost.engines.exact.pos import separated as way
    from fairpost.engines.exact.pos.inverse import inverse_of
    from fairpost.engines.exact.pos.nodes import STAGES
    from fairpost.engines.exact.pos.problem import Problem

    x, times = np.array([50.0, 51.0, 80.0]), np.array([1, 3, 2])
    problem = Problem.build(x, np.ones(3), times, x / (x @ times), fp.Gaussian(50.0 / depth))
    risk = way._at_risk(problem, 1e-6)
    found = way._integrate(risk, inverse_of(problem, 1e-6), STAGES[2])
    with mp.workdps(60):
        exact = 1 - mp.fprod(mp.ncdf(mp.mpf(c) * depth / 50) ** int(m) for c, m in zip(x, times, strict=True))
    assert found.common[0, 0] == pytest.approx(float(exact), rel=1e-7)  # the stage's rule for r is good to 3e-9


def test_counts_too_much_alike_are_refused_at_once():
    """A range of 1e-11 of a share to six digits: no method has them, and none is tried for seconds."""
    x = np.array([50.0, 50.0 + 1e-7, 50.0 + 2e-7])
    asked = (x, np.ones(3), np.ones(3, dtype=np.int64), x / x.sum(), fp.Gaussian(10.0))
    start = time.process_time()
    with pytest.raises(ToleranceError, match="too much alike"):
        pos(*asked)
    assert time.process_time() - start < 30  # with compilation
    start = time.process_time()
    with pytest.raises(ToleranceError, match="too much alike"):
        pos(*asked)
    assert time.process_time() - start < 1


@pytest.mark.parametrize(
    ("x", "a", "noise"),
    [
        ((0.0, 0.0, 1.0), (23938.0, 375.4, 28.2), fp.Gaussian(7.86)),
        (
            (34.0, 16.0, 36.0, 23.0, 79.0, 33.0),
            (13732.0, 8.0, 384.0, 855549.0, 165732.0, 104640.0),
            fp.Gaussian(10_000.0),
        ),
        ((0.0, 2524.0, 0.0, 894.0), (70.98, 178800.0, 302.4, 122.1), fp.Gaussian(10_000.0)),
        ((0.0, 2524.0, 0.0, 894.0), (70.98, 178800.0, 302.4, 122.1), fp.Gaussian(700.0)),
    ],
    ids=lambda v: getattr(v, "name", None),
)
def test_weights_over_orders_and_a_sum_of_either_sign_are_answered(x, a, noise):
    """Noise far above the counts: answered, not refused, and where plain draws are. Factors of tiny weights underflow on the way."""
    x, a = np.array(x), np.array(a)
    found = fp.audit(fp.Counts(x, weights=a), noise, "pos", engine=fp.Exact(rtol=1e-4))
    rng = np.random.default_rng(9)
    drawn = x + rng.normal(0.0, noise.spread, (200_000, x.size))
    v = fp.PoS(a)(drawn)
    truth = a * x / np.sum(a * x)
    away, runs = v - truth, len(v)
    # deviations are below 1, so E[away^4] <= mse; rare large ones, which no draw may show, are in the mse, and 12/runs is for their number
    compared = (
        (away, found.bias, found.mse),
        (away**2, found.mse, found.mse),
        (v == 0, found.zero, found.zero * (1 - found.zero)),
    )
    for sample, value, variance in compared:
        room = 4.5 * np.sqrt(variance / runs) + 12 / runs  # some 50 comparisons: 4e-4 for all
        assert (np.abs(sample.mean(axis=0) - value) <= room).all()


def test_a_small_r_needs_a_long_contour():
    """Next to r = 0 the density of r is constant; a contour cut off below s = 1/r shows another one (7 digits too many at r = 1e-13).

    It falls by a part of some r/scale of the lightest, 4e-4 of the largest here: 3e-5 at the last r.
    """
    x, a, noise = np.array([0.0, 2524.0, 0.0, 894.0]), np.array([70.98, 178800.0, 302.4, 122.1]), fp.Gaussian(700.0)
    problem = replace(Problem.build(x, a, np.ones(4, dtype=np.int64), a * x / np.sum(a * x), noise), never=NEVER)
    rows = _untilted(problem, STAGES[0])(np.max(problem.scale) * np.array([1e-13, 1e-11, 1e-9, 1e-8]))
    assert rows[:, :4].sum(axis=1) == pytest.approx(rows[-1, :4].sum(), rel=5e-5)


def test_who_is_never_above_r_does_not_move_the_contour():
    """Far above the light ones their own terms would; the density of r is a bell of theirs there, with a tail that falls for good."""
    x, a, noise = np.array([0.0, 2524.0, 0.0, 894.0]), np.array([70.98, 178800.0, 302.4, 122.1]), fp.Gaussian(10_000.0)
    problem = Problem.build(x, a, np.ones(4, dtype=np.int64), a * x / np.sum(a * x), noise)
    wide = float(np.max(problem.scale))
    with_them, without = (_locate(p).window(27.0)[1] / wide for p in (problem, replace(problem, never=NEVER)))
    assert without < 0.02 < with_them


def test_contours_bend_where_no_kink_is_in_the_way():
    """Laplace values below 0 (S < 0): above 1.2 times the sum of their distances; below it factors grow to the left and overflow."""
    a, times = np.array([1.0, 0.25]), np.array([1, 3])
    problem = Problem.build(np.array([8.0, 4.0]), a, times, np.array([0.7, 0.1]), fp.Laplace(2.0))
    assert _lean(problem) == (1.0, 0.0)
    assert _lean(replace(problem, c=-problem.c)) == (1.0, pytest.approx(1.2 * (8.0 + 3 * 1.0)))
    lean, free = _lean(replace(problem, c=-problem.c, mechanism=fp.Gaussian(2.0)))
    assert 0 < lean <= 0.4
    assert free == 0.0
    far = Problem.build(
        np.array([9.17e11, 0.0, 8.33e10]),
        np.array([7.1e3, 1.22e5, 5.1e5]),
        np.ones(3, dtype=np.int64),
        np.ones(3) / 3,
        fp.Laplace(1.04e11),
    )
    mirrored = replace(far, c=-far.c, never=NEVER)
    r = np.geomspace(0.01, 3.0, 60) * np.sum(far.c)
    assert np.isfinite(_untilted(mirrored, STAGES[0])(r)).all()


def test_a_loose_tolerance_may_begin_what_a_tight_one_may_not():
    """The work of all five stages is what a tight one needs; two or three are 0.4 of it."""
    for rtol, most in ((1e-4, 5e8), (1e-5, 5e8), (1e-6, 2e8)):
        pos_general._Budget(rtol)(1e6, 0.99 * most)
        with pytest.raises(ToleranceError, match="steps"):
            pos_general._Budget(rtol)(1e6, 1.01 * most)
    budget = pos_general._Budget(1e-4)
    budget(1.5e8, 1.5e8)
    budget(1e8, 1e8)  # what has begun may take 5e8
    with pytest.raises(ToleranceError, match="steps"):
        budget(2.6e8, 2.6e8)  # what is spent counts whole


@pytest.mark.parametrize(("off", "stages"), [((1.5e-4, 1.5e-4), 1), ((5e-5, 5e-5), 2)])
def test_many_entities_that_go_astray_are_refused_after_a_stage_or_two(monkeypatch, off, stages):
    """The chance that somebody is clipped has a closed form; a first stage off by 1e-4, or a second one by 2e-5, does not get there."""
    from fairpost.engines.exact.pos import separated as way

    rng = np.random.default_rng(3)
    x, a = np.floor(rng.exponential(40.0, 1001)), np.exp(rng.uniform(0, 3, 1001))
    times, noise = np.ones(x.size, dtype=np.int64), fp.Gaussian(30.0)
    plain, calls = way._integrate, []

    def moved(*given):
        found = plain(*given)
        calls.append(1 + off[min(len(calls), 1)])
        return replace(found, first=found.first * calls[-1], common=found.common * calls[-1])

    fine = pos(x, a, times, a * x / np.sum(a * x), noise)
    assert np.ptp(fine.bias) > 0
    monkeypatch.setattr(way, "_integrate", moved)
    with pytest.raises(ToleranceError, match="the first rules miss the chance that somebody is clipped by"):
        pos(x, a, times, a * x / np.sum(a * x), noise)
    assert len(calls) == stages
    calls.clear()
    pos(x, a, times, a * x / np.sum(a * x), noise, 1e-3)  # a loose tolerance has room for it
