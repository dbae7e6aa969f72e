"""PoS where S may have either sign: thousands of pairs that a few stand for, and few entities by the sets that are kept."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from scipy import integrate

import fairpost as fp
from fairpost.engines.exact.pos import close as closeness
from fairpost.engines.exact.pos import opposite as other
from fairpost.engines.exact.pos.close import close
from fairpost.engines.exact.pos.general import general
from fairpost.engines.exact.pos.moments import pos
from fairpost.engines.exact.pos.nodes import STAGES
from fairpost.engines.exact.pos.opposite import opposite
from fairpost.engines.exact.pos.problem import Problem, chance_negative
from fairpost.engines.exact.pos.side import NEVER, _locate
from fairpost.engines.exact.threshold import lines
from support.oracles.definitions import pair_shares


def built(x, a, noise):
    x, a = np.asarray(x, dtype=np.float64), np.asarray(a, dtype=np.float64)
    times = np.ones(x.size, dtype=np.int64)
    return Problem.build(x, a, times, pair_shares(x, a, times), noise)


def uneven(n, noise, most=1e6):
    """Counts within half a noise scale, weights over orders."""
    rng = np.random.default_rng(2)
    return built(rng.exponential(0.1 * noise.spread, n), np.exp(rng.uniform(0, np.log(most), n)), noise)


# ---- a few stand for many --------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", [fp.Laplace(3.0), fp.Gaussian(2.0)], ids=lambda m: m.name)
def test_a_few_pairs_stand_for_all(monkeypatch, noise):
    """The same with every pair for itself: 160 of them, by some 30 and by 160."""
    problem = uneven(160, noise, most=30.0)
    monkeypatch.setattr(closeness, "PART", 0.8)
    found = general(problem, 1e-3)
    monkeypatch.setattr(closeness, "LEAST", 10**6)
    known = general(problem, 1e-3)
    for value, error in (("bias", "error"), ("mse", "mse_error"), ("zero", "zero_error")):
        room = getattr(found, error) + getattr(known, error)
        assert (np.abs(getattr(found, value) - getattr(known, value)) <= room).all()
    assert found.error.max() < 1e-3 * np.ptp(found.bias)
    assert not np.array_equal(found.bias, known.bias)  # (two ways they were)


def test_hundreds_of_pairs_with_equal_weights():
    """They have another way: upright lines."""
    problem = built(np.arange(600.0) / 1000, np.ones(600), fp.Laplace(300.0))
    found = general(problem, 1e-6)
    known = lines.shares(problem, 0.0, 1e-4)
    assert (np.abs(found.bias - known.bias) <= found.error + known.error).all()
    assert (np.abs(found.mse - known.mse) <= found.mse_error + known.mse_error).all()
    assert (np.abs(found.zero - known.zero) <= found.zero_error + known.zero_error).all()
    assert found.error.max() < 1e-6 * np.ptp(found.bias)


def test_five_thousand_pairs_of_any_weights_are_answered():
    """In the time of some fifty; the shares sum to 1, and a thousand draws agree on the heaviest, a hundred at a time."""
    problem = uneven(5000, fp.Laplace(50.0))
    x, a = problem.c / problem.a, problem.a
    found = pos(x, a, problem.times, problem.shares, problem.mechanism, 1e-4)
    assert found.error.max() < 1e-4 * np.ptp(found.bias)
    assert np.sum(found.bias) == pytest.approx(0.0, abs=1e-12)
    away = fp.PoS(a)(x + np.random.default_rng(6).laplace(0.0, 50.0, (1000, 5000))) - problem.shares
    parts = np.argsort(a)[-700:].reshape(7, 100)
    drawn = np.sum(away[:, parts], axis=2)
    room = 5 * np.std(drawn, axis=0) / np.sqrt(1000)
    assert (np.abs(np.mean(drawn, axis=0) - np.sum(found.bias[parts], axis=1)) <= room).all()


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("noise", [fp.Laplace(3.0), fp.Gaussian(2.0)], ids=lambda m: m.name)
def test_pivots_carry_what_they_were_not_shown(noise, sign):
    """Chances and means above any r of the window, a constant, and their sums, to the tolerance; fewer pivots for a looser one."""
    problem = uneven(800, noise)
    problem = replace(problem, c=sign * problem.c, never=NEVER)
    shape = _locate(problem)
    held = close(problem, shape, STAGES[-1].drop, 0.4)
    before = 0
    for tolerance in (1e-6, 3e-8, 1e-9):
        few, to_all = held.at(tolerance)
        assert before < few.c.size < 130
        before = few.c.size
        assert to_all.shape == (before, 800)
        for r in np.linspace(*shape.window(4.5), 7)[1:-1] * 1.01:
            for k in (0, 1):
                shown, hidden = (p.mechanism.upper((r - p.c) / p.a, 0.0, k) * p.a**k for p in (few, problem))
                assert shown @ to_all == pytest.approx(hidden, abs=300 * tolerance)
                assert few.times @ shown == pytest.approx(np.sum(hidden), abs=1e4 * tolerance)
        assert np.sum(to_all, axis=0) == pytest.approx(1.0, abs=300 * tolerance)
        assert few.n == 800


def test_pairs_that_nobody_stands_for_are_left_alone(monkeypatch):
    """Few pairs; corners of Laplace noise between the counts; pivots whose weights cancel."""
    far = built(np.append(0.0, np.linspace(2.0, 6.0, 170)), np.ones(171), fp.Laplace(1.0))
    far = replace(far, times=np.append(10_000, np.ones(170, dtype=np.int64)))
    far = replace(far, never=NEVER)
    assert close(far, _locate(far), 36.0, 0.4) is None
    other_corners = replace(
        far, c=np.where(np.arange(171) < 160, 0.01 * far.c, far.c)
    )  # ten of them stand for themselves
    few, to_all = close(other_corners, _locate(other_corners), 36.0, 0.4).at(1e-9)
    own = np.arange(160, 171)
    np.testing.assert_array_equal(few.c[:11], far.c[own])
    np.testing.assert_array_equal(to_all[:11, own], np.eye(11))
    assert few.times @ few.c == pytest.approx(other_corners.mean, rel=1e-8)
    monkeypatch.setattr(closeness, "ASTRAY", 1e-9)  # what it was not shown is missed by more
    assert close(other_corners, _locate(other_corners), 36.0, 0.4).at(1e-9) is None
    monkeypatch.undo()
    near = uneven(200, fp.Gaussian(2.0))
    shape = _locate(near)
    assert close(near.part(np.arange(closeness.LEAST)), shape, 36.0, 0.4) is None
    held = close(near, shape, 36.0, 0.4)
    assert held.at(1e-7) is not None
    monkeypatch.setattr(closeness, "MOST_CANCELLED", 0.9)
    assert held.at(1e-7) is None


def test_what_pivots_miss_takes_more_of_them(monkeypatch):
    """T is tried on functions that it was not shown; one that no pivots carry, a thousandth of the largest, is seen."""
    problem, shown, real = uneven(300, fp.Gaussian(2.0)), [], closeness._family
    monkeypatch.setattr(closeness, "_family", lambda *args: shown.append(real(*args)) or shown[-1])
    held = close(problem, _locate(problem), STAGES[-1].drop, 0.4)
    again = {row.tobytes() for row in shown[0]} & {row.tobytes() for row in shown[1]}
    assert len(again) < 0.2 * len(shown[1])  # the constant, and the ends of the window
    row = 1e-3 * np.max(np.abs(held.unseen)) * np.random.default_rng(1).uniform(-1, 1, (1, 300))
    assert held.at(1e-7) is not None
    assert replace(held, unseen=np.vstack([held.unseen, row])).at(1e-7) is None
    sizes = []
    for astray in (30.0, 3.0, 1.0, 0.3, 0.1):
        monkeypatch.setattr(closeness, "ASTRAY", astray)
        found = held.at(1e-7)
        sizes.append(300 if found is None else found[0].c.size)
    assert sizes == sorted(sizes)
    assert len(set(sizes) - {300}) > 1


# ---- few entities, S < 0, Laplace noise ------------------------------------------------------------------


@pytest.mark.parametrize(("x", "a"), [([3.0, 1.0], [1.0, 1e-5]), ([0.0, 4.0], [1.0, 0.3]), ([0.0, 0.0], [1.0, 1.0])])
def test_two_entities_by_their_densities(x, a):
    """Entity 1 has nothing where z_1 has the wrong sign and z_2 outweighs it: one integral, by SciPy."""
    problem = built(x, a, fp.Laplace(2.0))
    found = opposite(problem, chance_negative(problem))
    for i in (0, 1):
        mine, others = problem.c[i], problem.c[1 - i]
        m, o = problem.scale[i], problem.scale[1 - i]

        def integrand(u, mine=mine, others=others, m=m, o=o):  # -z_i = -u, -z_j > u
            gap = u + others
            return np.exp(-abs(mine - u) / m) / (2 * m) * 0.5 * np.exp(-gap / o)

        ends = sorted({0.0, mine, mine + 3 * m, mine + 40 * m, 3 * o, 40 * o})
        whole = sum(integrate.quad(integrand, p, q, epsabs=1e-15)[0] for p, q in pairwise(ends))
        assert found.sums.zero[i] == pytest.approx(whole, rel=1e-9, abs=1e-13)
    assert found.mass == pytest.approx(chance_negative(problem), abs=1e-14)


def test_all_counts_zero():
    """z and -z have the same law: half of what both signs have together, which for equal weights is 1/n."""
    found = opposite(built(np.zeros(3), np.ones(3), fp.Laplace(2.0)), 0.5)
    np.testing.assert_allclose(found.sums.first, 1 / 6, atol=1e-15)
    rng = np.random.default_rng(8)
    v = fp.PoS(np.ones(3))(rng.laplace(size=(200_000, 3)))
    for stated, drawn in ((found.sums.second, v**2), (found.sums.zero, v == 0)):
        np.testing.assert_allclose(
            2 * stated, np.mean(drawn), atol=5 * np.std(np.mean(drawn, axis=1)) / np.sqrt(200_000)
        )


@pytest.mark.parametrize("n", [3, 6, 11])
def test_shares_sum_to_the_chance_of_a_negative_sum(n):
    """Which a contour of one dimension knows, for weights over six orders; zero counts; ties merged and apart; P(v = 0) by draws."""
    rng = np.random.default_rng(n)
    x, a = np.floor(rng.exponential(20.0, n)), np.exp(rng.uniform(0, np.log(1e6), n))
    x[1] = 0.0
    problem = built(x, a, fp.Laplace(15.0))
    negative = chance_negative(problem)
    found = opposite(problem, negative)
    assert found.mass == pytest.approx(negative, abs=1e-13)
    assert found.error.max() < 1e-11
    twice = replace(problem, times=np.append(np.full(n - 1, 1), 2))
    apart = problem.part(np.append(np.arange(n), n - 1))
    one, two = (opposite(p, chance_negative(apart)).sums for p in (twice, apart))
    for name in ("first", "second", "zero"):
        np.testing.assert_allclose(getattr(one, name), getattr(two, name)[:n], atol=1e-13)
    runs = 100_000
    z = -a * (x + rng.laplace(0.0, 15.0, (runs, n)))
    v = fp.PoS(a)(-z / a)[np.sum(z, axis=1) > 0]
    for stated, drawn in ((found.sums.first, v), (found.sums.second, v**2), (found.sums.zero, v == 0)):
        assert (np.abs(stated - np.sum(drawn, axis=0) / runs) <= 5 * np.sqrt(stated / runs) + 12 / runs).all()


def test_a_coarse_rule_says_so(monkeypatch):
    """Steps of v or of t that are too long: what two of them differ by bounds the error."""
    problem = built([1.0, 3.0, 0.0, 8.0], [1.0, 30.0, 200.0, 2.0], fp.Laplace(9.0))
    negative = chance_negative(problem)
    known = opposite(problem, negative)
    for steps in (((0.9, 0.07), (0.7, 0.05)), ((0.16, 0.6), (0.13, 0.5))):
        monkeypatch.setattr(other, "STEPS", steps)
        rough = opposite(problem, negative)
        away = np.abs(rough.sums.first - known.sums.first)
        assert 1e-10 < away.max() < 1e-2
        assert (away <= rough.error).all()
        assert (np.abs(rough.sums.second - known.sums.second) <= rough.second_error).all()
        assert (np.abs(rough.sums.zero - known.sums.zero) <= rough.zero_error).all()


def test_what_both_rules_leave_out_is_seen_in_the_chance(monkeypatch):
    """A range of t that is too short in both rules, which differ by nothing: the shares miss P(S < 0) by more than any of them is off."""
    problem = built([1.0, 3.0, 0.0, 8.0], [1.0, 30.0, 200.0, 2.0], fp.Laplace(9.0))
    negative = chance_negative(problem)
    known = opposite(problem, negative)
    monkeypatch.setattr(other, "REACH", 2.6)
    monkeypatch.setattr(other, "STEPS", ((0.16, 0.05), (0.13, 0.05)))
    rough = opposite(problem, negative)
    away = np.abs(rough.sums.first - known.sums.first)
    assert away.max() > 1e-7
    assert (away <= rough.error).all()
    assert (np.abs(rough.sums.second - known.sums.second) <= rough.second_error).all()


@pytest.mark.parametrize(
    ("x", "a", "scale"),
    [
        ([9.17e11, 0.0, 8.33e10], [7.1e3, 1.22e5, 5.14], 1.04e11),
        ([1.0, 1.0, 1.0, 7.0, 2.0], [40.5, 46.4, 2.2e4, 1.33, 6.5e4], 22788.0),
        ([77.0, 607.0, 1845.0, 141.0], [1.6e5, 6.1e5, 372.0, 2.25], 5135.0),
        (list(range(11)), [3.0**k for k in range(11)], 400.0),
    ],
)
def test_few_laplace_values_of_any_weights_are_answered(x, a, scale):
    x, a = np.array(x, dtype=np.float64), np.array(a)
    found = pos(x, a, np.ones(x.size, dtype=np.int64), a * x / (a @ x), fp.Laplace(scale))
    assert found.error.max() <= 1e-6 * np.ptp(found.bias)
    v = fp.PoS(a)(x + np.random.default_rng(4).laplace(0.0, scale, (100_000, x.size)))
    room = 5 * np.std(v, axis=0) / np.sqrt(len(v)) + 12 / len(v)
    assert (np.abs(np.mean(v, axis=0) - a * x / (a @ x) - found.bias) <= room).all()
