"""`pos-threshold` set by set: against the lines, against one entity alone, against the rule itself; and each of its errors."""

import time
from dataclasses import replace

import mpmath
import numpy as np
import pytest

import fairpost as fp
from fairpost.engines.exact.pos.one import one
from fairpost.engines.exact.pos.problem import Problem, chance_negative
from fairpost.engines.exact.threshold import lines, sets
from fairpost.engines.exact.threshold.kernels.parts import density, dropped, kept
from fairpost.engines.exact.threshold.kernels.sets import add_none, add_set
from fairpost.errors import ToleranceError
from fairpost.noise import Threshold
from fairpost.rules import PosThreshold

NOISES = (fp.Gaussian(1.0), fp.Laplace(1.0))
WIDE = np.array([1.0, 0.3, 0.011, 2e-4, 3e-6])


def problem(x, a, noise, times=None):
    x, a = np.asarray(x, float), np.asarray(a, float)
    times = np.ones(x.size, dtype=np.int64) if times is None else np.asarray(times)
    return Problem.build(x, a, times, a * x / np.sum(times * a * x), noise)


def side(x, a, noise, tau=0.9):
    return sets.Side(noise, np.asarray(a, float), np.asarray(x, float), tau)


def agree(one_way, other):
    for name in ("bias", "mse", "zero"):
        error = {"bias": "error"}.get(name, f"{name}_error")
        room = getattr(one_way, error) + getattr(other, error)
        assert np.all(np.abs(getattr(one_way, name) - getattr(other, name)) <= room), name


# ---- one noise ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gaussian", [True, False])
@pytest.mark.parametrize(
    ("c", "p"), [(0.4, 0.0), (3.0, 2.5), (-2.0, 0.7), (-2.0, 1.0), (-2.0, 1.3), (-0.3, 0.0), (-6.0, 9.0), (-6.0, 2.0)]
)
def test_what_is_kept_is_an_integral(gaussian, c, p):
    law = (
        (lambda y: mpmath.exp(-y * y / 2) / mpmath.sqrt(2 * mpmath.pi))
        if gaussian
        else (lambda y: mpmath.exp(-abs(y)) / 2)
    )
    ends = sorted({c, c + 1, c + 2, c + 4, max(c, 0.0), max(c, 0.0) + 6, max(c, 0.0) + 60})
    m0, m1, m2 = (mpmath.quad(lambda y, k=k: (y - c) ** k * mpmath.exp(-p * (y - c)) * law(y), ends) for k in range(3))
    found = kept(gaussian, c, p)
    assert found == pytest.approx([float(v) for v in (m0, m1 / m0, m2 / m0, law(c) / m0)], rel=2e-12)
    assert density(gaussian, c) == pytest.approx(float(law(c)), rel=1e-14)


@pytest.mark.parametrize("gaussian", [True, False])
def test_ratios_stay_where_the_chance_underflows(gaussian):
    """From c = -70 under a tilt of 30: e^-2450 e^450 (Gaussian), e^-70 (Laplace)."""
    value, first, second, hazard = kept(gaussian, -70.0, 30.0)
    assert value < 1e-29
    assert first == pytest.approx(40.0 if gaussian else 1 / 29 + 0 * value, rel=1e-9)
    assert second == pytest.approx(1601.0 if gaussian else 2 / 29**2, rel=1e-9)
    assert hazard == pytest.approx(0.0 if gaussian else 29.0, abs=1e-300 if gaussian else 1e-6)
    assert kept(gaussian, 45.0, 3.0)[1:] == pytest.approx(kept(gaussian, 45.0 - 1e-12, 3.0)[1:], rel=1e-9)


@pytest.mark.parametrize("noise", NOISES, ids=lambda m: m.name)
@pytest.mark.parametrize("c", [-1.7, -0.2, 0.3, 2.2])
@pytest.mark.parametrize("s", [0.3 + 0j, 0.4 + 1.1j, -0.3 + 2.0j, -5.0 + 9.0j])
def test_what_is_dropped_is_a_transform(noise, c, s):
    whole, edge = dropped(noise.name == "gaussian", c, s)
    found = whole * np.exp(-s * c) + edge if c > 0 else edge
    known = complex(noise.lower(c, s, 0))
    assert found == pytest.approx(known, rel=1e-11)
    if c <= 0:
        assert whole == 0


# ---- against other ways ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("noise", "x", "a"),
    [
        (NOISES[0], [0.3, 1.0, 2.0], [1.0, 1.5, 2.7]),
        (NOISES[0], [0.0, 0.7, 0.1, 3.0], [1.0, 1.0, 1.0, 1.0]),
        (NOISES[1], [0.3, 1.0, 2.0, 1.2, 0.0], [1.0, 1.0, 1.0, 1.0, 1.0]),
        (NOISES[1], [0.3, 1.0, 2.0], [1.0, 1.3, 2.0]),
    ],
)
def test_against_the_lines(noise, x, a):
    """No contour, no set and no t in common."""
    given = problem(x, a, noise)
    by_sets, by_lines = sets.shares(given, 0.9, 1e-6), lines.shares(given, 0.9, 4e-6)
    agree(by_sets, by_lines)
    assert np.max(by_sets.error) < 1e-6 * np.ptp(by_sets.bias)
    assert by_sets.degenerate == chance_negative(given)


@pytest.mark.parametrize("noise", NOISES, ids=lambda m: m.name)
def test_against_one_entity_alone(noise):
    """Only the first may be dropped; weights over five orders. The other way is a sum over its own noise."""
    given = problem([1.5, 2e3, 5e5, 9e6], [1.0, 0.1, 1e-3, 1e-5], noise)
    alone = one(given, Threshold(0.9), 1e-6)
    assert alone is not None
    found = sets.shares(given, 0.9, 1e-6)
    agree(found, alone)
    assert side(given.c / given.a, given.a, noise).droppable().tolist() == [0]


@pytest.mark.parametrize("noise", NOISES, ids=lambda m: m.name)
@pytest.mark.parametrize(
    ("x", "a", "tau"),
    [
        ([0.4, 0.1, 3.0, 0.0, 20.0], WIDE, 0.9),
        ([0.01, 0.02, 0.005], [1.0, 0.05, 1e-4], 0.7),
        ([5.0, 1.0, 0.0, 40.0], [0.02, 1.0, 0.3, 1e-3], 2.5),
        ([0.2, 0.2, 0.2, 0.2], [1.0, 1.0, 1e-2, 1e-2], 0.1),
    ],
)
def test_against_the_rule_itself(noise, x, a, tau):
    runs, rng = 150_000, np.random.default_rng(7)
    x, a = np.asarray(x), np.asarray(a)
    given = problem(x, a, noise)
    found = sets.shares(given, tau, 1e-6)
    eta = rng.normal(size=(runs, x.size)) if noise.name == "gaussian" else rng.laplace(size=(runs, x.size))
    share = np.asarray(PosThreshold(weights=a, threshold=Threshold(tau))(x + eta))
    away = share - given.shares
    for stated, error, drawn in (
        (found.bias, found.error, away),
        (found.mse, found.mse_error, away**2),
        (found.zero, found.zero_error, (share == 0) * 1.0),
    ):
        room = error + 5 * drawn.std(axis=0) / runs**0.5 + 12 / runs * np.max(np.abs(away))
        assert np.all(np.abs(stated - drawn.mean(axis=0)) <= room)
    assert np.max(found.error) <= 1e-6 * np.ptp(found.bias)


@pytest.mark.parametrize("noise", NOISES, ids=lambda m: m.name)
def test_each_sign_has_its_chance_and_its_shares(noise):
    x, level = np.array([0.4, 0.1, 3.0, 0.0]), sets.Level(12, 0.085, 0.28, 36.0)
    given = problem(x, WIDE[:4], noise)
    negative = chance_negative(given)
    for sign, chance in ((1.0, 1 - negative), (-1.0, negative)):
        v = side(sign * x, WIDE[:4], noise)
        found = sets.evaluated([v], [sets.sets(v)], level, 0.0)
        assert found.chance == pytest.approx(chance, abs=2e-9)
        assert np.sum(found.parts[0]) == pytest.approx(chance, abs=2e-9)
        assert np.all(found.parts[1] <= found.parts[0] + 1e-9)
        assert found.left == 0.0


def test_entities_that_are_alike_are_counted_once():
    x, a = [0.5, 0.5, 2.0], [1e-2, 1e-2, 1.0]
    apart = sets.shares(problem(x, a, NOISES[1]), 0.9, 1e-6)
    together = sets.shares(problem([0.5, 2.0], [1e-2, 1.0], NOISES[1], times=[2, 1]), 0.9, 1e-6)
    for name in ("bias", "mse", "zero", "error"):
        assert getattr(apart, name)[[0, 2]] == pytest.approx(getattr(together, name), rel=1e-9, abs=1e-13)


# ---- errors ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", NOISES, ids=lambda m: m.name)
def test_a_set_adds_no_more_than_its_bound(noise):
    v = side([0.4, 0.1, 3.0, 0.0], WIDE[:4], noise)
    for of in sets.sets(v):
        r, weight, bound = of.nodes(3)
        for k in range(0, r.size, 7):
            out = np.zeros((3, 4))
            given = (v.gaussian, v.a, v.x, v.tau, of.inside, of.others, r[k : k + 1], weight[k : k + 1])
            add_set(*given, of.limit, of.limits, 0.1, 0.3, 30.0, out)
            assert np.max(np.abs(out[0])) <= bound[k] * (1 + 1e-6) + 1e-13


def test_what_is_left_out_is_stated():
    v = side([0.4, 0.1, 3.0, 0.0], WIDE[:4], NOISES[1])
    some, level = [sets.sets(v)], sets.Level(9, 0.11, 0.32, 31.0)
    whole, part = (sets.evaluated([v], some, level, room) for room in (0.0, 3e-3))
    assert 1e-3 < part.left <= 3e-3
    away = np.abs(part.parts[0] - whole.parts[0])
    assert 1e-6 < np.max(away) <= part.left
    assert abs(part.chance - whole.chance) <= part.left


def spoiled(monkeypatch, **changes):
    """`evaluated` with something added to its last levels."""
    true, seen = sets.evaluated, []

    def evaluated(*given):
        found = true(*given)
        seen.append(found)
        return replace(found, **{k: getattr(found, k) + v for k, v in changes.items()}) if len(seen) > 1 else found

    monkeypatch.setattr(sets, "evaluated", evaluated)


@pytest.mark.parametrize("changes", [{"chance": 1e-5}, {"left": 1e-5}, {"parts": np.full((3, 3), 1e-5)}])
def test_every_defect_is_in_the_errors(monkeypatch, changes):
    given = problem([0.4, 0.2, 3.0], [1.0, 0.1, 1e-3], NOISES[1])
    clean = sets.shares(given, 0.9, 1e-3)
    spoiled(monkeypatch, **changes)
    found = sets.shares(given, 0.9, 1e-3)
    for name in ("error", "mse_error", "zero_error"):
        more = getattr(found, name) - getattr(clean, name)
        assert np.max(more) > 0.9e-5 * (0.3 if name == "error" else 1.0), name


def test_a_level_that_moves_is_an_error(monkeypatch):
    """The first level alone is off; what the second changed is stated."""
    true, seen = sets.evaluated, []

    def evaluated(*given):
        found = true(*given)
        seen.append(found)
        off = np.zeros_like(found.parts)
        off[0, 0] = off[1, 1] = off[2, 2] = 1e-4
        return replace(found, parts=found.parts + off) if len(seen) == 1 else found

    given = problem([0.4, 0.2, 3.0], [1.0, 0.1, 1e-3], NOISES[1])
    monkeypatch.setattr(sets, "evaluated", evaluated)
    found = sets.shares(given, 0.9, 1e-2)
    assert len(seen) == 2
    assert found.error[0] > 4e-5
    assert found.mse_error[1] > 2e-4
    assert found.zero_error[2] > 2e-4


def test_panels_follow_what_is_near():
    places, widths = np.array([0.0, 1.0, -0.5]), np.array([1e-3, 0.2, 0.05])
    edges = sets.panels(-1.0, 9.0, np.array([0.0, 1.0, 0.3, -7.0]), places, widths)
    assert {-1.0, 0.0, 0.3, 1.0, 9.0} <= set(edges.tolist())
    long = np.diff(edges)
    far = np.maximum(np.maximum(places - edges[1:, None], edges[:-1, None] - places), 0)
    need = np.min(widths + far, axis=1)
    assert np.all(long <= need)
    assert np.count_nonzero(long < 0.1 * need) < 0.2 * long.size  # nor shorter than they have to be


def test_who_may_be_dropped():
    """At r = 0, by the noise of others, or never."""
    a = np.array([1.0, 1e-3, 1e-3, 1.0])
    found = side([0.5, 900.0, 2e5, 400.0], a, NOISES[0]).droppable()
    assert found.tolist() == [0, 1]
    assert side([0.5, 900.0, 2e5, 40.0], a, NOISES[1]).droppable().tolist() == [0, 1, 3]
    assert side([50.0, 900.0, 2e5, 40.0], a, NOISES[0]).droppable().size == 0


@pytest.mark.parametrize("noise", NOISES, ids=lambda m: m.name)
def test_beyond_its_limit_a_set_has_no_chance(noise):
    v = side([0.5, 0.0, 2.0], [1.0, 0.1, 0.01], noise)
    some = np.array([1, 2])
    far = 2 * 0.5 * v.limit(some) + float(np.sum(v.a[some] * v.x[some]))  # k = 1: -sum z = r
    rng = np.random.default_rng(3)
    eta = rng.normal(size=(10**6, 2)) if noise.name == "gaussian" else rng.laplace(size=(10**6, 2))
    low = -np.min(eta @ v.a[some])
    assert low < far < 4.5 * low
    assert v.reach(np.zeros(0, dtype=np.int64)) == 0.0
    assert v.limit(np.arange(3)) == -np.inf


def test_too_many_are_refused_by_name_and_at_once():
    given = problem(np.ones(12), 10.0 ** np.linspace(0, -6, 12), NOISES[0])
    begun = time.process_time()
    with pytest.raises(ToleranceError, match=r"sets of dropped entities are listed for at most 8 of 40, got 12 of 12"):
        sets.shares(given, 0.9, 1e-6)
    with pytest.raises(ToleranceError, match=r"sets of dropped entities need .* steps, which would take too long"):
        sets.shares(problem(np.ones(8), 10.0 ** np.linspace(0, -6, 8), NOISES[0]), 0.9, 1e-9)
    assert time.process_time() - begun < 5  # of which a cold machine compiles nothing: no kernel is asked


# ---- the engine --------------------------------------------------------------------------------------------------------------------


def test_the_engine_answers_uneven_weights_and_a_sum_of_either_sign():
    counts = fp.Counts([3, 1, 10, 2], weights=[1.0, 200.0, 1.5, 3e4])
    found = fp.audit(counts, fp.Gaussian(30.0), "pos-threshold", engine="exact")
    assert found.method == "exact"
    assert np.max(found.accuracy.half_width) < 1e-6 * found.alpha.value
    drawn = fp.audit(counts, fp.Gaussian(30.0), "pos-threshold", engine="monte-carlo", runs=40_000, seed=3)
    assert abs(found.alpha.value - drawn.alpha.value) < 4 * drawn.alpha.half_width


def test_nobody_dropped_is_one_integral():
    """Two giants: the mean of z_1/S by Gauss-Hermite."""
    u, w = np.polynomial.hermite_e.hermegauss(60)
    z1, z2 = 1.0 * (40 + u[:, None]), 0.2 * (300 + u[None, :])
    share = np.sum(w[:, None] * w[None, :] * z1 / (z1 + z2)) / (2 * np.pi)
    square = np.sum(w[:, None] * w[None, :] * (z1 / (z1 + z2)) ** 2) / (2 * np.pi)
    out = np.zeros((3, 2))
    chance = add_none(True, np.array([1.0, 0.2]), np.array([40.0, 300.0]), 0.9, 0.1, 36.0, out)
    assert chance == pytest.approx(1.0, abs=1e-14)
    assert out[:, 0] == pytest.approx([share, square, 0.0], abs=1e-12)
    assert np.sum(out[0]) == pytest.approx(1.0, abs=1e-12)


# ---- errors of levels that are made up: no integral, so that each term stands alone ---------------------------------------------------


FIRST, SECOND, ZERO = np.array([0.6, 0.3, 0.1]), np.array([0.45, 0.2, 0.05]), np.array([0.3, 0.5, 1e-3])


def made(monkeypatch, *levels, rtol=1e-2):
    """What `shares` states of given levels, each (first, second, zero, chance); the last one stays."""
    left = [sets.Sums(np.array(level[:3]), level[3], 0.0) for level in levels]
    monkeypatch.setattr(sets, "evaluated", lambda *_: left.pop(0) if len(left) > 1 else left[0])
    given = problem([0.4, 0.2, 3.0], [1.0, 0.1, 1e-3], NOISES[0])
    return sets.shares(given, 0.9, rtol), given.shares


def test_a_share_that_moved_is_in_its_error_and_in_that_of_its_square(monkeypatch):
    """From one to another: no chance is missed, and refinement alone tells. (v - p)^2 moves by 2 p as much."""
    d = 1e-4
    found, p = made(monkeypatch, (FIRST + np.array([d, -d, 0]), SECOND, ZERO, 1.0), (FIRST, SECOND, ZERO, 1.0))
    assert np.all(found.error[:2] >= d)
    assert np.all(found.mse_error[:2] >= 2 * p[:2] * d)
    assert np.max(found.error) < 10 * d


def test_a_share_that_did_not_move_by_accident_is_as_inexact_as_others_for_its_size(monkeypatch):
    d = 1e-4
    found, p = made(monkeypatch, (FIRST + np.array([d, -d, 0]), SECOND, ZERO, 1.0), (FIRST, SECOND, ZERO, 1.0))
    size = p + FIRST
    assert found.error[2] >= size[2] * d / size[1]


def test_a_set_that_was_left_out_may_be_about_a_small_share(monkeypatch):
    level = sets.Sums(np.array([FIRST, SECOND, ZERO]), 1.0, 1e-4)
    monkeypatch.setattr(sets, "evaluated", lambda *_: level)
    found = sets.shares(problem([0.4, 0.2, 3.0], [1.0, 0.1, 1e-3], NOISES[0]), 0.9, 1e-2)
    assert np.all(found.error >= 1e-4)
    assert np.all(found.mse_error >= 1e-4)
    assert np.all(found.zero_error >= 1e-4)


@pytest.mark.parametrize(("shares", "chance"), [(1, 1), (1, 0), (0, 1)])
def test_what_all_levels_miss_alike_is_in_every_error(monkeypatch, shares, chance):
    """Nothing moves; either the chance is not 1, or the shares are not the chance, or both miss the same and agree."""
    d = 1e-4
    level = FIRST * (1 - shares * d), SECOND, ZERO, 1 - chance * d
    found, _ = made(monkeypatch, level, level)
    assert np.all(found.error >= 0.3 * d * FIRST)
    assert np.all(found.mse_error >= d)
    assert np.all(found.zero_error >= d)


def test_what_did_not_move_has_been_rounded(monkeypatch):
    level = FIRST, SECOND, ZERO, 1.0
    found, _ = made(monkeypatch, level, level)
    least = 100 * np.finfo(float).eps  # hundreds of terms
    assert np.all(found.error >= least * FIRST)
    assert np.all(found.mse_error >= 2 * least)
    assert np.all(found.zero_error >= least)


def test_squares_and_chances_that_moved_count_twice(monkeypatch):
    """What moved may be as far again from the truth; of the one that is small beside the rest, so that its part of others is nothing."""
    d = np.array([0.0, 0.0, 1e-4])
    found, _ = made(monkeypatch, (FIRST, SECOND, ZERO + d, 1.0), (FIRST, SECOND, ZERO, 1.0))
    assert found.zero_error[2] >= 2e-4 > 1e-4 > found.mse_error[2]
    found, _ = made(monkeypatch, (FIRST, SECOND + d, ZERO, 1.0), (FIRST, SECOND, ZERO, 1.0))
    assert found.mse_error[2] >= 2e-4 > 1e-4 > found.zero_error[2]


def test_a_square_is_no_less_than_the_bias_and_a_chance_no_more_than_1(monkeypatch):
    level = FIRST, FIRST**2 - 1e-10, np.array([-1e-12, 0.5, 1 + 1e-12]), 1.0
    found, _ = made(monkeypatch, level, level)
    assert np.all(found.mse >= found.bias**2)
    assert found.zero.tolist() == [0.0, 0.5, 1.0]
    far = FIRST, SECOND, ZERO + 0.9, 1.0
    found, _ = made(monkeypatch, far, (FIRST, SECOND, ZERO, 1.0))
    assert np.max(found.zero_error) == 1.0


@pytest.mark.parametrize(("x", "signs"), [(40.0, 1), (5.0, 2), (0.4, 2)])
def test_a_small_chance_of_the_other_sign_has_its_own_sets(monkeypatch, x, signs):
    given = problem([x, 0.2, 3.0], [1.0, 0.1, 1e-3], NOISES[0])
    assert (chance_negative(given) > 1e-14) == (signs == 2)
    seen = []

    def evaluated(sides, *_):
        seen.append([float(v.x[0]) for v in sides])
        raise ToleranceError("seen")

    monkeypatch.setattr(sets, "evaluated", evaluated)
    with pytest.raises(ToleranceError, match="seen"):
        sets.shares(given, 0.9, 1e-6)
    assert seen == [[x, -x][:signs]]


def test_no_set_of_those_dropped_drops_anybody_else():
    """The first goes far below 0; the second, which may be dropped too, stands above 0 and does not hold it back."""
    v = side([0.0, 8.0, 720.0, *[1e7] * 9], [1.0, 0.3, 1e-3, *[1e-3] * 9], NOISES[0])
    found = v.droppable()
    assert found.tolist() == [0, 1, 2]
    rest = np.setdiff1d(np.arange(v.n), found)
    for mask in range(1, 8):
        top = v.limit(found[(mask >> np.arange(3)) & 1 == 1])
        assert np.all(v.noise.cdf(v.cut(np.array([top]))[0, rest]) <= 1e-18)
    assert v.noise.cdf(v.cut(np.array([v.limit(np.array([0]))]))[0, 2]) > 1e-18
