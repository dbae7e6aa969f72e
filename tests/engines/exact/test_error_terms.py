"""Every term of a stated error by itself: of squares, of chances, of E[T], and of the biases where `test_stated_errors` has no fault for one.

Rules are given numbers by hand, so that what is stated can be added up with the factors of the documentation, written out here: what the
last refinement changed counts twice (ten times where it gains little), each value with its part of the largest change; the defects of
identities, what stands for 1/S and rounding come on top.
"""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from scipy.integrate import trapezoid

import fairpost as fp
from fairpost.accuracy import Accuracy, Estimate
from fairpost.bounds import sum_law
from fairpost.engines.base import Answer
from fairpost.engines.closed.programme import moments as programme
from fairpost.engines.exact import baseline, shares
from fairpost.engines.exact.lattice import listed
from fairpost.engines.exact.lattice import release as lattice_counts
from fairpost.engines.exact.lattice import shares as lattice_shares
from fairpost.engines.exact.pos import general as pos_general
from fairpost.engines.exact.pos import one
from fairpost.engines.exact.pos import pair as pos_pair
from fairpost.engines.exact.pos import separated as pos_separated
from fairpost.engines.exact.pos import uncut as uncut_shares
from fairpost.engines.exact.pos.inverse import Inverse, inverse_of
from fairpost.engines.exact.pos.problem import Chernoff, Problem
from fairpost.engines.exact.pos.side import Sums
from fairpost.engines.exact.simplex import moments as simplex
from fairpost.engines.exact.simplex.law import Population
from fairpost.engines.exact.sums.one import one as release_of_one
from fairpost.engines.exact.sums.uncut import uncut as uncut_counts
from fairpost.engines.exact.threshold import few, largest, release, two
from fairpost.engines.exact.threshold import shares as threshold_shares
from fairpost.engines.expansion import threshold as expansion
from fairpost.noise import Threshold

EPS = 2.0**-52


def near(value: Any, rel: float = 1e-6) -> Any:
    """Without the absolute tolerance of 1e-12 that pytest adds: most of these numbers are smaller."""
    return pytest.approx(value, rel=rel, abs=0.0)


def moved(now: np.ndarray, before: np.ndarray, size: np.ndarray) -> np.ndarray:
    """What changed, and each value's part of the largest change."""
    change = np.abs(now - before)
    return change + change.max() * np.abs(size) / np.abs(size).max()


# ---------------------------------------------------------------------------------------------- shares


def test_baseline_squares_that_moved_count_twice_and_are_rounded(monkeypatch) -> None:
    """The last rule but one is off by 1e-4 for one entity; without a fault 10 times 2e-13 is left."""
    x, a, once = np.array([30.0, 50.0, 90.0]), np.array([1.0, 2.0, 0.5]), np.ones(3, dtype=np.int64)
    given = (x, a, once, a * x / np.dot(a, x), fp.Laplace(8.0))
    plain, seen = baseline._integrate, []
    true = baseline.baseline(*given, 1e-10)
    assert (true.mse_error >= 2e-12 * true.mse * (1 - 1e-9)).all()
    assert (true.mse_error <= 1e-7 * true.mse).all()

    def off(problem: Any, rule: Any) -> Any:
        found = plain(problem, rule)
        seen.append(found.mse * (1 + 1e-4 * np.array([1.0, 0.0, 0.0]) * (len(seen) % 2 == 0)))
        return replace(found, mse=seen[-1])

    monkeypatch.setattr(baseline, "_integrate", off)
    found = baseline.baseline(*given, 0.5)
    assert len(seen) == 2
    assert found.mse_error == near(2 * moved(seen[1], seen[0], seen[1]) + 2e-12 * found.mse, rel=1e-9)


def test_pair_chances_that_moved_count_twice_and_thrice_in_squares(monkeypatch) -> None:
    problem = Problem.build(
        np.array([1.0, 2.0]), np.array([2.0, 0.7]), np.ones(2, dtype=np.int64), np.array([2.0, 1.4]) / 3.4, fp.Gaussian(5.0)
    )  # fmt: skip
    plain = pos_pair._wrong_signs
    alone = plain(problem, 32)
    monkeypatch.setattr(pos_pair, "_wrong_signs", lambda p, order: plain(p, order) * (1 + 1e-4 * (order == 24)))
    found = pos_pair.pair(problem, 1e-9)
    chance = 2 * np.abs(plain(problem, 24) * (1 + 1e-4) - alone) + 1e-14
    assert found.zero_error == near(chance[::-1], rel=1e-6)
    assert found.mse_error == near(3 * chance, rel=1e-3)


def test_either_sign_adds_up_what_both_sides_state() -> None:
    """And the chance of a side that was not looked at, and rounding."""
    p = np.array([0.2, 0.8])
    sides = []
    for k in (1.0, 3.0):
        first, second, zero = np.array([0.1, 0.3]) * k, np.array([0.05, 0.2]) * k, np.array([0.02, 0.01]) * k
        errors = {"error": 1e-6 * k * p, "second_error": 1e-5 * k * p, "zero_error": 1e-4 * k * p}
        sides.append(SimpleNamespace(sums=Sums(first, second, zero, 7), mass=0.4 * k, **errors))
    bias, error = pos_general._joined(sides, p, 0.0)
    assert bias == near([0.4 - 0.2 * 1.6, 1.2 - 0.8 * 1.6])
    assert error - 4e-6 * p == near(1e-13 * (p + np.abs(bias)), rel=1e-6)
    both = pos_general._moments(sides, p, bias, error, 3e-3)
    assert both.mse_error == near(4e-5 * p + 2 * p * 4e-6 * p + 4e-13, rel=1e-12)
    assert both.zero_error == near(4e-4 * p + 1e-13, rel=1e-12)
    bias, error = pos_general._joined(sides[:1], p, 3e-3)
    assert error == near(1e-6 * p + 3e-3, rel=1e-9)
    one = pos_general._moments(sides[:1], p, bias, error, 3e-3)
    assert one.mse_error == near(1e-5 * p + 2 * p * 1e-6 * p + 3e-3, rel=1e-9)
    assert one.zero_error == near(1e-4 * p + 3e-3, rel=1e-9)


def test_what_stands_for_1_over_S_squared_is_in_the_error_of_a_square() -> None:
    mse = np.array([1e-4, 4e-6])
    found = Inverse(np.zeros(1), np.ones(1), rms=0.5, square=2e-3, tail=1e-7)
    assert pos_separated.of_square(found, mse) == near(3 * 2e-3 * mse + 1e-7 + 1e-12 * mse, rel=1e-12)
    exact = replace(found, square=0.0, tail=0.0)
    assert pos_separated.of_square(exact, mse) == near(1e-12 * mse, rel=1e-9)


@pytest.mark.parametrize("name", ["rms", "tail"])
def test_where_clipping_is_integrated_the_stand_in_for_1_over_S_is_in_the_error(name: str) -> None:
    """The same rule with an inverse that says it is exact, and with one that says how far it is off: sqrt(mse) rms, or the tail."""
    x, one = np.array([6.0, 50.0]), np.ones(2, dtype=np.int64)
    problem = Problem.build(x, np.ones(2), one, x / 56, fp.Gaussian(4.0))
    near_enough = pos_separated.inverse_of(problem, 1e-9)
    assert near_enough is not None
    exact = replace(near_enough, rms=0.0, tail=0.0)
    plain, off = (pos_separated._refine(problem, inverse, 0.5) for inverse in (exact, replace(exact, **{name: 1e-5})))
    assert plain is not None and off is not None  # noqa: PT018
    assert off.bias.tolist() == plain.bias.tolist()
    assert (plain.zero > 0).any()  # clipping was integrated
    assert off.error - plain.error == near(1e-5 * (np.sqrt(plain.mse) if name == "rms" else np.ones(2)), rel=1e-3)


def test_the_inverse_looks_at_both_sides_of_the_mean() -> None:
    """1/S bends more below its mean: the shells (1, 2/e, 2/e^4, ...) with what the inverse misses there alone are no more than is stated."""
    x, a = np.array([9.0, 8.0, 8.5]), np.array([1.0, 2.0, 3.0])
    problem = Problem.build(x, a, np.ones(3, dtype=np.int64), a * x / np.dot(a, x), fp.Gaussian(1.0))
    found, chernoff = inverse_of(problem, 1e-4), Chernoff.of(problem)
    assert found is not None
    level = min(60.0, chernoff.level(0.75 * problem.mean))
    levels = np.append(np.arange(1.0, level, 3.0), level)
    away = np.minimum([chernoff.distance(float(v)) for v in levels], 0.75 * problem.mean)
    low, high = (np.abs(s * found(s) - 1) for s in (problem.mean - away, problem.mean + away))
    chance = np.append(1.0, 2 * np.exp(-levels[:-1]))
    assert (low > high).sum() >= 3
    assert found.rms >= math.sqrt(chance @ low**2) * (1 - 1e-9) > math.sqrt(chance @ high**2)


def test_what_a_refusal_had_reached_counts_ten_times() -> None:
    bias, error = np.array([0.1, -0.2]), np.array([1e-3, 2e-3])
    kept = shares.refusal("pos", bias, error, 1e-6).reached
    assert kept is not None
    assert kept[0].tolist() == bias.tolist()
    assert kept[1] == near(10 * error)


def test_a_law_whose_last_rule_moved_says_so(monkeypatch) -> None:
    """Every second rule is off by 1e-6 for one entity: the change, and each one's part of it."""
    counts = fp.Counts([300.0, 520.0, 900.0], base=[1000.0, 2000.0, 3000.0])
    asked = {"programme": "title1-targeted", "engine": fp.Exact(rtol=0.1)}
    true = fp.audit(counts, fp.Laplace(10.0), "as-written", **(asked | {"engine": "exact"}))
    plain, calls = programme.integrate, [0]

    def off(*given: Any) -> Any:
        found = plain(*given)
        calls[0] += 1
        return replace(found, bias=found.bias + 1e-6 * np.array([1.0, -1.0, 0.0]) * (-1) ** calls[0])

    monkeypatch.setattr(programme, "integrate", off)
    found = fp.audit(counts, fp.Laplace(10.0), "as-written", **asked)
    gap = np.abs(found.bias - true.bias)
    assert gap.max() > 0.9e-6
    assert (gap <= found.half_width).all()
    assert (found.half_width[:2] >= 2e-6 * (1 - 1e-3)).all()
    assert found.half_width.max() <= 4.1e-6


def test_parts_of_a_budget_have_the_rounding_of_their_sums() -> None:
    """A part is a quotient of two sums of n positive numbers: (2n + 4) eps of a bias, as the documentation derives it."""
    bias, part = np.array([0.25, -0.5, 0.25]), np.array([0.3, 0.3, 0.7])
    none, sure = np.zeros(3), Estimate(0.75, 0.75, 0.75)
    known = Accuracy("bound", none)
    answer = Answer("exact", bias, known, bias**2, known, none, known, sure, (0, 1))
    found = answer.rescaled(part)
    assert found.accuracy.half_width == near(10 * EPS * np.abs(bias * part), rel=1e-9)
    wide = replace(
        answer, accuracy=Accuracy("bound", np.full(3, 1e-3)), mse_accuracy=Accuracy("bound", np.full(3, 1e-4))
    )
    assert wide.rescaled(part).accuracy.half_width == near(1e-3 * part, rel=1e-9)
    assert wide.rescaled(part).mse_accuracy.half_width == near(1e-4 * part**2, rel=1e-12)


# ---------------------------------------------------------------------------------------------- releases


@pytest.mark.parametrize(("slow", "factor"), [(False, 2.0), (True, 10.0)])
def test_simplex_chances_and_thresholds_that_moved(slow: bool, factor: float, monkeypatch) -> None:
    """P(v = 0) of one count is off at every second level, E[T] too: twice what changed, ten times where a level gains little."""
    plain, seen = simplex._deficits, []

    def off(*given: Any) -> Any:
        found = plain(*given)
        odd = len(seen) % 2 == 0
        zero = found.zero + 1e-7 * np.array([1.0, 0.0]) * odd
        parts = replace(found.parts, slow=slow)
        seen.append(replace(found, zero=zero, mean=found.mean + 1e-9 * odd, parts=parts))
        return seen[-1]

    monkeypatch.setattr(simplex, "_deficits", off)
    found = simplex.simplex(np.array([0.3, 2.0]), np.ones(2, dtype=np.int64), fp.Laplace(1.0), 2.3, 0.1)
    before, now = seen
    change = np.abs(now.zero - before.zero)
    assert found.zero_error == near(factor * (change + change.max() * now.zero), rel=1e-6)
    assert found.threshold_error == near(factor * abs(now.mean - before.mean), rel=1e-4)
    assert found.threshold_error >= factor * 0.9e-9


def test_simplex_squares_that_moved_count_ten_times(monkeypatch) -> None:
    """The second of two rules is off by 5e-7 of itself, below what stops refinement; rounding is 1e-11 of the noise's variance."""
    given = (np.array([0.3, 2.0]), np.ones(2, dtype=np.int64), fp.Laplace(1.0), 2.3)
    true = simplex.simplex(*given, 1e-9)
    assert (true.mse_error >= 2e-11 * (1 - 1e-9)).all()
    plain, calls = simplex._squares, [0]

    def off(*some: Any) -> Any:
        mse, threshold, nodes = plain(*some)
        calls[0] += 1
        return mse * (1 + 5e-7 * np.array([1.0, 0.5]) * (calls[0] % 2 == 0)), threshold, nodes

    monkeypatch.setattr(simplex, "_squares", off)
    found = simplex.simplex(*given, 0.1)
    assert calls[0] == 2
    assert (np.abs(found.mse - true.mse) >= 2e-7 * true.mse).all()
    assert found.mse_error == near(10 * 5e-7 * found.mse, rel=0.05)


def test_simplex_deficits_that_did_not_move_have_been_rounded() -> None:
    """4e-16 of (20 + sqrt n) times a deficit and their mean, and of the drift."""
    population = Population(fp.Laplace(1.0), np.array([0.0, 2.0, 9.0]), np.array([4.0, 4.0, 1.0]), 9.0, 0.9)
    values = np.array([0.7, 0.2, 0.0])
    mean = float(values @ population.times) / 9
    now: Any = SimpleNamespace(values=values, mean=mean, slow=False)
    bias, error = simplex._biases(population, now, now)
    assert bias == near(0.1 + values - mean, rel=1e-12)
    assert error == near(4e-16 * (23 * (values + mean) + 0.1), rel=1e-9)
    before: Any = SimpleNamespace(values=values + np.array([0.0, 3e-7, 0.0]), mean=mean, slow=False)
    assert simplex._biases(population, now, before)[1] == near(np.full(3, 3e-7), rel=1e-6)
    slow: Any = SimpleNamespace(values=values, mean=mean, slow=True)
    assert simplex._biases(population, slow, before)[1] == near(np.full(3, 3e-6), rel=1e-6)


def test_squares_of_clipping_against_40_digits() -> None:
    """Var - N_2 - 2 x N_1 (Laplace: N_1 = b/2 e^-t, N_2 = b^2 e^-t): terms that cancel leave roundings of the largest of them."""
    x, b = np.array([0.0, 0.3, 2.0, 7.0, 31.0]), 2.7
    found = fp.audit(fp.Counts(x), fp.Laplace(b), "nonnegative", engine="exact")
    with mp.workdps(40):
        for v, mse, error in zip(x, found.mse, found.mse_accuracy.half_width, strict=True):
            t, s = mp.mpf(v) / mp.mpf(b), mp.mpf(b)
            truth = 2 * s**2 - s**2 * mp.exp(-t) - v * s * mp.exp(-t)
            assert abs(mp.mpf(float(mse)) - truth) <= mp.mpf(float(error))
            assert 2 * EPS * 2 * b**2 <= error <= 1e-11 * 4 * b**2


def found_by_hand(**more: Any) -> release.Found:
    """One level of `simplex-threshold`: mean deficit 0.5 of four entities, E[r] = mean - drift."""
    deficit, n = np.array([0.9, 0.4, 0.3]), np.array([1.0, 2.0, 1.0])
    mean = float(deficit @ n) / 4
    level = release.Found(deficit, mean, np.array([0.3, 0.1, 0.0]), np.array([1.0, 2.0, 2.5]), mean - 0.1, 9)
    return replace(level, **more)


def test_a_threshold_of_counts_states_what_moved_and_rounding() -> None:
    """The most that any bias moved; 4e-16 of (20 + sqrt n) deficits and means, and of the drift."""
    now = found_by_hand()
    size = now.deficit + now.mean
    rounding = 4e-16 * ((20 + 2) * size + 0.1)
    bias, error, slack = release._biases(now, now, 0.4, 4.0)
    assert bias == near(0.1 + now.deficit - now.mean, rel=1e-12)
    assert error == near(rounding, rel=1e-9)
    before = found_by_hand(deficit=now.deficit + np.array([0.0, 2e-6, -1e-6]))
    bias, error, slack = release._biases(now, before, 0.4, 4.0)
    assert error == near(2e-6 + rounding, rel=1e-9)
    assert slack == near(error[0] + error[2], rel=1e-6)
    stated = release._moments(now, found_by_hand(mse=now.mse + 1e-5, zero=now.zero + 1e-6), bias, error, 0.1, 3.0, "x")
    assert stated.error == near(3 * error, rel=1e-12)
    assert stated.mse_error == near(9 * np.full(3, 1e-5), rel=1e-4)
    assert stated.zero_error == near(np.full(3, 1e-6), rel=1e-4)


def test_a_threshold_of_counts_has_two_ways_to_its_mean_shift() -> None:
    """They may differ by 1e-8 noise scales, or by twice what the mean deficit moved, and no more."""
    now = found_by_hand()
    none = np.zeros(3)
    for gap, known, fine in ((0.9e-8, 0.0, True), (1.2e-8, 0.0, False), (1.9e-3, 1e-3, True), (2.1e-3, 1e-3, False)):
        last, before = replace(now, root=now.root + gap), replace(now, mean=now.mean + known)
        if fine:
            assert release._moments(last, before, none, none, 0.1, 1.0, "x").error.tolist() == [0, 0, 0]
        else:
            with pytest.raises(fp.ToleranceError, match="two ways to the mean shift differ by"):
                release._moments(last, before, none, none, 0.1, 1.0, "x")


@pytest.mark.parametrize("signs", [(1, -1), (-1, 1), (1, 1)])
def test_one_at_risk_of_a_release_covers_tails_that_are_off_by_what_is_promised(
    signs: tuple[int, int], monkeypatch
) -> None:
    """The two clipped entries of pi_S are promised to 5e-12 each; r is their difference, and the entity's own bias n - 1 times it."""
    x, times, rule = np.array([6.0, 300.0]), np.array([1, 4]), Threshold(3.0)
    given = (x, times, fp.Gaussian(4.0), 1206.0, rule, 1e-3)
    true = release_of_one(*given)
    clipped, off = sum_law.clipped, 1 + 4.9e-12 * np.array(signs)

    def tails(u: Any, n: int, noise: Any, k: int = 1) -> Any:
        found = clipped(u, n, noise, k)
        return found * off if k == 1 and np.size(u) == 2 else found

    monkeypatch.setattr(sum_law, "clipped", tails)
    found = release_of_one(*given)
    assert true is not None and found is not None  # noqa: PT018
    gap = np.abs(found.bias - true.bias)
    assert gap[0] > 2 * gap[1] > 1e-14
    assert (gap <= found.error).all()
    assert found.error.max() < 1e-9


def test_the_two_largest_state_what_one_gains_and_the_other_does_not_lose(monkeypatch) -> None:
    """What the second has is what the largest gives up: gains 1e-4 too large do not sum to the losses, and all of the defect is stated."""
    x, times = np.array([3.0, 6.0, 8.0]), np.array([2.0, 1.0, 1.0])
    given = (x, times, fp.Laplace(2.0), 6.0, 4.0)
    plain, true = largest._at, largest.largest(*given, 1e-9)

    def off(*some: Any) -> Any:
        found = plain(*some).copy()
        found[3] *= 1 + 1e-4
        return found

    monkeypatch.setattr(largest, "_at", off)
    found = largest.largest(*given, 0.5)
    gap = found.bias - true.bias
    assert gap.min() > 1e-7
    assert found.error.min() >= times @ gap * (1 - 1e-6)
    assert found.error.max() <= 2 * times @ gap


def test_upright_lines_state_what_the_last_level_moved(monkeypatch) -> None:
    """Biases moved from one count to another by 1e-5 at every second level: their sum and all chances are as they should."""
    x, one = np.array([1.0, 4.0, 9.0]), np.ones(3, dtype=np.int64)
    given = (x, one, fp.Gaussian(2.0), 14.0, 1.0)
    true, plain, calls = few.release(*given, 1e-6), few._level, [0]

    def off(*some: Any) -> Any:
        found = plain(*some)
        calls[0] += 1
        fault = np.outer([1e-5, 0.0, 0.0], [1.0, -1.0, 0.0]) * (calls[0] % 2 == 0)
        return replace(found, values=found.values + fault)

    monkeypatch.setattr(few, "_level", off)
    found = few.release(*given, 1e-2)
    assert calls[0] == 2
    gap = np.abs(found.bias - true.bias)
    assert gap.max() > 1e-5
    assert (gap <= found.error + true.error).all()
    assert (found.error[:2] >= 2e-5).all()


@pytest.mark.parametrize("name", ["rms", "tail"])
def test_one_at_risk_states_what_stands_for_1_over_S(name: str, monkeypatch) -> None:
    x = np.array([3.0, 400.0, 900.0])
    problem = Problem.build(x, np.ones(3), np.ones(3, dtype=np.int64), x / x.sum(), fp.Laplace(4.0))
    plain, errors = one.fitted, []
    for size in (0.0, 1e-5):

        def off(*some: Any, size: float = size) -> Any:
            inverse, bias, mse = plain(*some)
            return replace(inverse, **({"rms": 0.0, "tail": 0.0} | {name: size})), bias, mse

        monkeypatch.setattr(one, "fitted", off)
        found = one.one(problem, Threshold(0.0), 0.5)
        assert found is not None
        errors.append(found.error)
    assert errors[1] - errors[0] == near(1e-5 * (np.sqrt(found.mse) if name == "rms" else np.ones(3)), rel=1e-3)


def test_two_counts_with_a_threshold_state_what_is_missing_and_what_moved(monkeypatch) -> None:
    """A density 1e-6 too small at every order; one that the second order has 1e-6 too large on one side and too small on the other."""
    given = (np.array([3.0, 8.0]), np.ones(2, dtype=np.int64), fp.Laplace(2.0), 11.0, 1.5)
    plain, true = two.on_panels, two.release(*given, 1e-10)
    biases = {}
    for fault in ("mass", "place"):
        calls = [0]

        def off(edges: Any, order: int, fault: str = fault, calls: list[int] = calls) -> Any:
            nodes, weight = plain(edges, order)
            calls[0] += 1
            one_sided = np.sign(nodes + 2.5) * (
                calls[0] == 2
            )  # the difference of the noises is symmetric about (3 - 8)/2
            return nodes, weight * (1 + 1e-6 * (-1.0 if fault == "mass" else one_sided))

        monkeypatch.setattr(two, "on_panels", off)
        found = biases[fault] = two.release(*given, 1e-2)
        assert calls[0] == 2
        gap = np.abs(found.bias - true.bias)
        assert gap.max() > 1e-8
        assert (gap <= found.error).all()
        assert found.error.max() < 1e-4
    assert biases["mass"].error == near(2.0 * np.full(2, 1e-6 * (11.0 / 2 + 8.0 / 2)), rel=1e-2)


def test_two_shares_with_a_threshold_state_what_is_missing_and_what_moved(monkeypatch) -> None:
    """Shares that sum to 1 - 1e-6 at every order; shares that move by 1e-6 from one entity to the other and sum to what they should."""
    x, a = np.array([3.0, 8.0]), np.array([1.0, 2.0])
    problem = Problem.build(x, a, np.ones(2, dtype=np.int64), a * x / 19, fp.Gaussian(3.0))
    true, plain = two.shares(problem, 1.0, 1e-8), two._Side.moments
    for fault in ("mass", "place"):
        calls = [0]

        def off(side: Any, fault: str = fault, calls: list[int] = calls) -> Any:
            first, second, zero = plain(side)
            calls[0] += 1
            if fault == "mass":
                return first * (1 - 1e-6), second, zero
            return first + np.array([1e-6, -1e-6]) * (calls[0] == 3), second, zero

        monkeypatch.setattr(two._Side, "moments", off)
        found = two.shares(problem, 1.0, 1e-2)
        assert calls[0] == 4
        gap = np.abs(found.bias - true.bias)
        assert (gap <= found.error + true.error).all()
        assert found.error == near(np.full(2, 1e-6), rel=0.05)


@pytest.mark.parametrize("fault", ["gamma", "root", "rms", "tail"])
def test_a_threshold_of_shares_states_every_defect(fault: str, monkeypatch) -> None:
    """By hand: Gamma of three pairs that move, E[r/S] beside their mean, and an inverse that is off."""
    x, a, times = np.array([20.0, 50.0, 90.0]), np.ones(3), np.array([3, 2, 1])
    p, noise = x / (x @ times), fp.Gaussian(2.0)
    gamma = np.array([3e-4, 1e-4, 0.0])
    mean = float(gamma @ times) / 6
    rules = [gamma, gamma + np.array([4e-6, 0.0, 0.0]) * (fault == "gamma")]
    root, given = mean + 5e-6 * (fault == "root"), iter(rules)
    inverse = threshold_shares.inverse_of

    def off(problem: Problem, tolerance: float) -> Inverse | None:
        found = inverse(problem, 1e-10)
        assert found is not None
        return replace(found, rms=1e-3 if fault == "rms" else found.rms, tail=1e-6 if fault == "tail" else found.tail)

    def level(*some: Any) -> Any:
        now = next(given)
        return now, np.zeros(3), np.zeros(3), root + float((now - gamma) @ times) / 6

    monkeypatch.setattr(threshold_shares, "inverse_of", off)
    monkeypatch.setattr(threshold_shares, "window", lambda *some: None)
    monkeypatch.setattr(threshold_shares, "_level", level)
    found = threshold_shares.shares(x, a, times, p, noise, 1.0, 0.5)
    if fault == "gamma":
        now, shift = rules[1], 4e-6 * 3 / 6
        change = np.abs(np.array([4e-6, 0.0, 0.0]) - shift)
        size = now + float(now @ times) / 6
        wanted = change + change.max() * size / size.max()
    else:
        wanted = {"root": np.full(3, 5e-6), "rms": 1e-3 * np.sqrt(found.mse), "tail": np.full(3, 1e-6)}[fault]
    assert found.error == near(wanted, rel=1e-3)


def test_shares_that_nobody_is_dropped_from_state_the_chance_that_somebody_is(monkeypatch) -> None:
    x = np.array([20.0, 60.0])
    problem = Problem.build(x, np.ones(2), np.ones(2, dtype=np.int64), x / 80, fp.Laplace(1.5))
    plain = uncut_shares.fitted
    monkeypatch.setattr(
        uncut_shares,
        "fitted",
        lambda *some: (replace(plain(*some)[0], rms=0.0, tail=0.0, square=0.0), *plain(*some)[1:]),
    )
    found = uncut_shares.uncut(problem, 0.0, 0.5)
    chance = (math.exp(-20 / 1.5) + math.exp(-60 / 1.5)) / 2
    assert found is not None
    assert found.error == near(np.full(2, chance), rel=1e-6)
    assert found.mse_error == near(np.full(2, chance), rel=1e-6)
    assert found.zero_error == near(np.full(2, chance), rel=1e-6)


def test_counts_that_nobody_is_cut_from_state_by_cauchy_schwarz_what_a_cut_may_add() -> None:
    """(C + x + |drift| + sd) sqrt P(A), with P(A) = e^-30; nine times its square's size for a square."""
    x, noise = np.array([50.0, 80.0]), fp.Laplace(1.0)
    found = uncut_counts(x, 2.0, noise, 130.5, 0.5, -30.0)
    reach = 130.5 + x + 0.25 + 1.0
    assert found.bias.tolist() == [0.25, 0.25]
    assert found.error == near(reach * math.exp(-15), rel=1e-9)
    assert found.mse_error == near(9 * reach**2 * math.exp(-15), rel=1e-6)
    assert found.zero_error == near(np.full(2, math.exp(-15)), rel=1e-9)
    assert found.threshold_error == near(reach.max() * math.exp(-15), rel=1e-9)


# ---------------------------------------------------------------------------------------------- whole numbers


def test_whole_counts_state_what_moved_the_defect_what_is_left_out_and_rounding() -> None:
    """The defect of the mean root in parts of the mean deficit, beyond its own rounding; each term alone."""
    deficit = np.array([0.9, 0.4, 0.3])
    level = {"deficit": deficit, "mean": 0.5, "root": 0.4, "left": (0.0, 0.0)}
    problem: Any = SimpleNamespace(surplus=0.4, n=4.0, noise=fp.DiscreteLaplace(2.0))
    size, moved_by = deficit + 0.5, np.array([0.0, 2e-6, -1e-6])
    rounding = 4e-16 * (22 * size + 0.1)

    def stated(now: dict[str, Any], before: dict[str, Any] | None = None) -> np.ndarray:
        pair: Any = [SimpleNamespace(**(level | some)) for some in (now, before or {})]
        return lattice_counts._biases(problem, *pair)[1]

    assert stated({}) == near(rounding, rel=1e-6)
    assert stated({}, {"deficit": deficit + moved_by}) == near(2e-6 + rounding, rel=1e-6)
    assert stated({"root": 0.4 + 1e-5}) == near(1e-5 * size / 0.5, rel=1e-6)
    assert stated({"left": (3e-7, 0.0)}) == near(3e-7 + rounding, rel=1e-6)


@pytest.mark.parametrize("fault", ["gamma", "root", "rms", "tail", "left"])
def test_whole_shares_state_every_defect(fault: str) -> None:
    """Rules by hand: Gamma that moves, E[r/S] beside its mean, an inverse that is off, what is left out (4/S of it over a range of 2)."""
    x, times = np.array([20.0, 50.0, 90.0]), np.array([3, 2, 1])
    problem = Problem.build(x, np.ones(3), times, x / (x @ times), fp.DiscreteLaplace(2.0))
    inverse = inverse_of(problem, 1e-8)
    assert inverse is not None
    given = {"rms": 1e-3 if fault == "rms" else 0.0, "tail": 1e-6 if fault == "tail" else 0.0}
    gamma, none = np.array([3e-4, 1e-4, 0.0]), np.zeros(3)
    mean, left = float(gamma @ times) / 6, 1e-4 * (fault == "left")
    first = gamma + np.array([4e-6, -6e-6, 0.0]) * (fault == "gamma")  # 3 and 2 of them: the mean stays
    rules = [lambda g=g: (g, none, none, mean + 5e-6 * (fault == "root"), left) for g in (first, gamma)]
    found = lattice_shares._refined(problem, replace(inverse, **given), 0.5, rules, 2.0, 0.0)
    size = gamma + mean
    change = np.abs(first - gamma)
    wanted = {
        "gamma": change + change.max() * size / size.max(),
        "root": np.full(3, 5e-6),
        "rms": 1e-3 * np.sqrt(found.mse),
        "tail": np.full(3, 1e-6),
        "left": np.full(3, 4 * 1e-4 * 2.0 / (x @ times)),
    }[fault]
    assert found.error == near(wanted, rel=1e-3)


def test_listed_noises_state_what_is_not_listed() -> None:
    """At most the chance, or what a share moves per noise times their part of E[sum |eta|]; 3e-14 of a deviation, 4e-16 of a share."""
    bias, mse, truth = np.array([0.1, -0.1]), np.array([0.04, 0.01]), np.array([0.25, 0.75])
    sums: Any = SimpleNamespace(bias=bias, mse=mse, zero=np.array([0.1, 0.0]), degenerate=0.0, dust=0.0)
    for left, size, each, most in ((1e-6, 1e-3, 1e-2, 1e-6), (1e-3, 1e-6, 1e-1, 1e-7), (0.0, 0.0, 1.0, 0.0)):
        found = listed._moments(sums, left, size, each, truth, 0.5)
        assert found is not None
        assert found.error == near(most + 3e-14 * np.sqrt(mse) + 4e-16 * truth, rel=1e-9)
        assert found.zero_error == near(left + 1e-13 * sums.zero, rel=1e-9)
        assert found.mse_error == near(most + 1e-13 * mse, rel=1e-9)


# ---------------------------------------------------------------------------------------------- the expansion


def test_the_expansion_of_whole_numbers_has_three_times_the_margin() -> None:
    """6 for 2: noise of a large scale is nearly continuous, so that all else is the same."""
    x, times = np.arange(0.0, 400.0, 40.0), np.full(10, 60)
    rule, total = Threshold(40.0, 2.0), float(np.sum(60 * x))
    whole, smooth = (
        expansion.simplex_threshold(x, times, n, total, rule) for n in (fp.DiscreteLaplace(60.0), fp.Laplace(60.0))
    )
    assert whole.bias == pytest.approx(smooth.bias, abs=1e-3 * np.ptp(smooth.bias))
    assert whole.error / smooth.error == near(np.full(10, 3.0), rel=0.05)


def test_the_expansion_states_the_end_of_its_series_of_1_over_S(monkeypatch) -> None:
    """1 + k^2 + 3 k^4 + 15 k^6: with the field exact, what 105 k^8 would change is left, and k^2/n of the whole for n entities."""
    x, times, noise, rule = np.array([4.0, 12.0, 30.0]), np.array([20, 10, 10]), fp.Laplace(9.0), Threshold(4.0)
    p = x / (x @ times)
    plain, seen = expansion._field, []

    def sure(*given: Any, **more: Any) -> Any:
        seen.append(replace(plain(*given, **more), error=np.zeros(3)))
        return seen[-1]

    monkeypatch.setattr(expansion, "_field", sure)
    monkeypatch.setattr(expansion, "_trusted", lambda *given: None)
    found = expansion.pos_threshold(x, np.ones(3), times, p, noise, rule)
    whole, square = float(x @ times), 40 * noise.variance / float(x @ times) ** 2
    series = square + 3 * square**2 + 15 * square**3
    first = seen[0].bias / whole
    second = (first * (1 + series) - found.bias) / series  # Cov(e, S)/Var[S], from the bias itself
    assert 0.1 < math.sqrt(square) < 0.2
    left = 105 * square**4 + square / 40
    assert found.error == near(left * (np.abs(first) + np.abs(second)), rel=1e-6)
    more = series + 105 * square**4
    assert (np.abs(first * (1 + more) - second * more - found.bias) <= found.error).all()


@pytest.mark.parametrize(("noise", "margin"), [(fp.Laplace(20.0), 2.0), (fp.DiscreteLaplace(20.0), 6.0)])
def test_the_expansion_knows_its_squares_to_the_square_of_what_is_small(noise: fp.noise.Law, margin: float) -> None:
    """The deviation of the shift in units of the noise's, and 1/sqrt(D): together squared, times the margin, of every mean squared error."""
    x, times, one = np.arange(0.0, 200.0, 20.0), np.full(10, 60.0), np.ones(10)
    field = expansion._field(x, one, times, 0.0, Threshold(10.0, 2.0), noise, fixed=True)
    small = field.deviation / noise.deviation + 1 / math.sqrt(field.slope)
    assert 0.04 < small < 0.2
    assert field.second == near(np.full(10, margin * small**2), rel=1e-9)
    found = expansion.simplex_threshold(x, times.astype(np.int64), noise, float(times @ x), Threshold(10.0, 2.0))
    assert (found.mse_error >= margin * small**2 * found.bias**2 + 2 * np.abs(found.bias) * found.error).all()


def test_the_expansion_counts_what_the_heaviest_entity_alone_can_do_to_a_chance(monkeypatch) -> None:
    """Twice what its noise changes about P(0), by an integral over it; and that is part of the stated error."""
    c, scale, noise = np.array([-3.0, 0.0, 5.0]), np.array([0.5, 2.0, 1.0]), fp.Gaussian(2.0)
    for at, wide, found in zip(c, scale, expansion._one_other(c, scale, noise), strict=True):
        u = np.linspace(0.0, 40.0, 400_001)
        both = np.exp(-u) * (noise.cdf(at + u * wide) + noise.cdf(at - u * wide)) / 2
        assert found == pytest.approx(2 * abs(trapezoid(both, u) - float(noise.cdf(at))), abs=1e-4)
    assert expansion._one_other(c, scale, noise).max() > 0.01
    x, times = np.arange(0.0, 200.0, 20.0), np.full(10, 60)
    stated = []
    for alone in (0.0, 1e-3):
        monkeypatch.setattr(expansion, "_one_other", lambda c, scale, noise, alone=alone: np.full_like(c, alone))
        found = expansion.simplex_threshold(x, times, fp.Laplace(20.0), float(times @ x), Threshold(10.0))
        stated.append(found.zero_error)
    assert stated[1] - stated[0] == near(np.full(10, 1e-3), rel=1e-9)
