"""`pos-threshold` where S > 0 is sure: sets and the product against each other, other ways and the rule itself; each of their errors."""

import time
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np
import pytest

import fairpost as fp
from fairpost.engines.exact.pos.inverse import inverse_of
from fairpost.engines.exact.pos.one import one
from fairpost.engines.exact.pos.problem import Problem
from fairpost.engines.exact.threshold import lines, product, sets, sure
from fairpost.engines.exact.threshold.kernels.parts import fallen
from fairpost.errors import ToleranceError
from fairpost.noise import Threshold
from fairpost.rules import PosThreshold

NOISES = (fp.Gaussian(1.0), fp.Laplace(1.0))
X, A = np.array([100.0, 0.3, 2.0, 0.0, 60.0]), np.array([1.0, 0.5, 0.1, 0.01, 0.7])


def problem(x, a, noise, times=None):
    x, a = np.asarray(x, float), np.asarray(a, float)
    times = np.ones(x.size, dtype=np.int64) if times is None else np.asarray(times)
    return Problem.build(x, a, times, a * x / np.sum(times * a * x), noise)


def agree(one_way, other, more=1.0):
    for name in ("bias", "mse", "zero"):
        error = {"bias": "error"}.get(name, f"{name}_error")
        room = more * (getattr(one_way, error) + getattr(other, error))
        assert np.all(np.abs(getattr(one_way, name) - getattr(other, name)) <= room), name


def finest(way, given):
    """The last level with nothing left out."""
    return way.evaluated(5, inverse_of(given, 1e-12), 1e-6, 1e-200)


# ---- one noise -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", NOISES, ids=lambda m: m.name)
@pytest.mark.parametrize("c", [-1.7, 0.3, 2.2])
@pytest.mark.parametrize("s", [0.3 + 0j, 0.4 + 1.1j, -5.0 + 9.0j])
def test_moments_of_what_is_dropped_are_transforms(noise, c, s):
    found = fallen(noise.name == "gaussian", c, s)
    for k in range(3):
        value = found[k] * np.exp(-s * c) + found[k + 3] if c > 0 else found[k + 3]
        assert value == pytest.approx((-1) ** k * complex(noise.lower(c, s, k)), rel=1e-9), k


# ---- against other ways ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", NOISES, ids=lambda m: m.name)
@pytest.mark.parametrize("x", [X, [100.0, 1.2, 0.1, 3.0, 0.4]])
def test_against_the_shares_themselves(noise, x):
    """`sets` has another integrand, takes the true shares off, and 1/S is an integral there."""
    given = problem(x, A, noise)
    found = product.shares(given, 0.9, 1e-6)
    agree(found, sets.shares(given, 0.9, 1e-6))
    assert np.max(found.error) < 1e-6 * np.ptp(found.bias)


def test_against_the_lines_where_all_may_be_dropped():
    given = problem([4.0, 3.5, 5.0, 4.5, 3.0, 4.0, 5.5, 4.2], np.ones(8), NOISES[0])
    assert sure.near_of(given, 0.9, 1e-6).side.far == 0
    agree(product.shares(given, 0.9, 1e-6), lines.shares(given, 0.9, 1e-4))


@pytest.mark.parametrize("noise", NOISES, ids=lambda m: m.name)
def test_against_one_entity_alone(noise):
    given = problem([1.5, 2e3, 5e5, 9e6], [1.0, 0.1, 1e-3, 1e-5], noise)
    agree(product.shares(given, 0.9, 1e-8), one(given, Threshold(0.9), 1e-8))


@pytest.mark.parametrize(("x", "a"), [(X, A), ([100.0, 1.0, 2.0], np.ones(3))])
def test_the_product_is_the_sum_over_the_sets(x, a):
    """No contour, no r and no set in common; all but rounding of Gamma, of squares, chances and of E[r^p e^{-tS}]."""
    given = problem(x, a, NOISES[0])
    near = sure.near_of(given, 0.9, 1e-6)
    by_sets, at_once = finest(sure.few_of(near), given), finest(product.Product(near), given)
    assert near.side.a.size == (3 if len(x) == 5 else 2)
    assert at_once.parts[0] == pytest.approx(by_sets.parts[0], rel=1e-9)
    assert at_once.parts[1] == pytest.approx(by_sets.parts[1], rel=1e-9)
    assert at_once.parts[2] == pytest.approx(by_sets.parts[2], rel=1e-9)
    assert at_once.common == pytest.approx(by_sets.common, rel=1e-9)
    assert at_once.common[0, 0] == pytest.approx(near.some, rel=1e-12)
    before = product.Product(near).evaluated(3, inverse_of(given, 1e-12), 1e-6, None)
    assert before.parts[1] == pytest.approx(by_sets.parts[1], abs=1e-13)  # the atom at r = 0 would leave 2e-12


def test_entities_that_are_alike_are_counted_once():
    x, a = [0.5, 0.5, 0.5, 1.0, 80.0], [0.1, 0.1, 0.1, 1.0, 1.0]
    apart = product.shares(problem(x, a, NOISES[0]), 0.9, 1e-6)
    together = product.shares(problem([0.5, 1.0, 80.0], [0.1, 1.0, 1.0], NOISES[0], times=[3, 1, 1]), 0.9, 1e-6)
    for name in ("bias", "mse", "zero"):
        assert getattr(apart, name)[[0, 3, 4]] == pytest.approx(getattr(together, name), rel=1e-9, abs=1e-13)


@pytest.mark.parametrize(
    ("noise", "x", "a", "tau"),
    [
        (NOISES[0], [0.4, 0.1, 3.0, 0.0, 0.2, 1.0, 0.0, 90.0], [1.0, 0.3, 0.1, 0.03, 0.01, 1e-3, 1e-4, 1.0], 0.9),
        (NOISES[0], [*[0.3] * 12, 300.0], np.ones(13), 0.7),
        (NOISES[1], [0.4, 0.1, 2.0, 90.0], [1.0, 0.3, 0.1, 1.0], 1.0),
        (NOISES[1], [5.0, 1.0, 0.0, 4e5], [0.02, 1.0, 0.3, 1e-3], 2.5),
    ],
)
def test_against_the_rule_itself(noise, x, a, tau):
    runs, rng = 150_000, np.random.default_rng(7)
    x, a = np.asarray(x), np.asarray(a)
    given = problem(x, a, noise)
    found = product.shares(given, tau, 1e-6)
    eta = rng.normal(size=(runs, x.size)) if noise.name == "gaussian" else rng.laplace(size=(runs, x.size))
    share = np.asarray(PosThreshold(weights=a, threshold=Threshold(tau))(x + eta))
    away = share - given.shares
    less = (a * eta - given.shares * (eta @ a)[:, None]) / np.sum(a * x)  # its mean is 0
    for stated, error, drawn in (
        (found.bias, found.error, away - less),
        (found.mse, found.mse_error, away**2),
        (found.zero, found.zero_error, (share == 0) * 1.0),
    ):
        room = error + 5 * drawn.std(axis=0) / runs**0.5 + 12 / runs * np.max(np.abs(away))
        assert np.all(np.abs(stated - drawn.mean(axis=0)) <= room)


@pytest.mark.parametrize("noise", NOISES, ids=lambda m: m.name)
def test_alphas_far_below_the_rounding_of_shares_keep_their_digits(noise):
    """Times E[S] they do not depend on the giant's size, but for what is less by 1/S."""
    scaled = []
    for giant in (1e9, 1e12, 1e13):
        given = problem([giant, 12.0, 9.0, 0.5], [1.0, 1.0, 0.3, 1e-3], noise)
        found = product.shares(given, 0.9, 1e-6)
        assert np.max(found.error) < 1e-6 * np.ptp(found.bias)
        scaled.append(found.bias * given.mean)
    assert scaled[1] == pytest.approx(scaled[2], rel=1e-6)
    assert scaled[0] == pytest.approx(scaled[2], rel=1e-3)


# ---- who and which sets ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", NOISES, ids=lambda m: m.name)
def test_who_is_left_out_adds_no_more_than_is_said(noise):
    far = [5.0, 4.5] if noise.name == "gaussian" else [9.0, 8.5]
    given = problem([1e4, 0.5, 0.3, *far], np.ones(5), noise)
    all_of, some = (sure.near_of(given, 0.9, rtol) for rtol in (1e-12, 9.0))
    assert some.side.a.size < all_of.side.a.size == 4
    whole, part = (finest(sure.few_of(near), given) for near in (all_of, some))
    gamma = np.zeros((2, 5))
    gamma[0, all_of.pairs], gamma[1, some.pairs] = whole.parts[0], part.parts[0]
    away = np.sum(np.abs((gamma[0] - np.mean(gamma[0])) - (gamma[1] - np.mean(gamma[1]))))
    assert 0 < away <= some.missed * sure.largest(given, inverse_of(given, 1e-12))
    zero = np.zeros(5)
    zero[all_of.pairs] = whole.parts[2]
    out = np.setdiff1d(all_of.pairs, some.pairs)
    assert np.all(some.unseen[out] >= zero[out] * (1 - 1e-9))
    assert np.all(some.unseen[some.pairs] == 0)


@pytest.mark.parametrize("noise", NOISES, ids=lambda m: m.name)
def test_the_shift_passes_its_heights_no_more_often(noise):
    v = sets.Side(noise, np.array([1.0, 0.4, 1.0]), np.array([0.2, 0.1, 50.0]), 0.9)
    u = sure.heights(v, 2)
    rng = np.random.default_rng(5)
    eta = rng.normal(size=(200_000, 3)) if noise.name == "gaussian" else rng.laplace(size=(200_000, 3))
    low = np.sum(np.maximum(-v.a * (v.x + eta), 0), axis=1)  # at least k r
    for level, height in zip(sure.DEEP[1:8], u[1:8], strict=True):
        assert np.mean(low > height) <= np.exp(-level) * 1.05 + 1e-5
    assert np.all(np.diff(u) > 0)


def test_sets_that_hardly_ever_happen_are_not_listed():
    given = problem([1e8, 2.4, 12.0, 14.0, 17.0, 19.0, 20.0, 22.0, 24.0, 26.0, 28.0], np.ones(11), NOISES[1])
    near = sure.near_of(given, 1.0, 1e-6)
    few = sure.few_of(near)
    assert near.side.a.size >= 7
    assert len(few.sets) < 100
    found = product.shares(given, 1.0, 1e-6)
    assert np.max(found.error) < 1e-6 * np.ptp(found.bias)
    assert few.missed > near.missed
    assert 0 < few.chance < 1e-6


# ---- errors of levels that are made up ----------------------------------------------------------------------------------------------


@dataclass
class Made:
    """Levels with something added to the last ones."""

    near: sure.Near
    missed: float = 0.0
    levels: int = 6
    change: dict = field(default_factory=dict)
    first: dict = field(default_factory=dict)
    true: sure.Way | None = None

    def evaluated(self, at, inverse, rtol, alpha):
        found = self.true.evaluated(4, inverse, rtol, 1e-200)
        change = self.first if at == 0 else self.change
        return replace(found, **{key: getattr(found, key) + value for key, value in change.items()})


def made(change, first=None, missed=0.0, rtol=0.1, unseen=0.0, square=0.0):
    given = problem([100.0, 0.4, 1.0], [1.0, 1.0, 0.1], NOISES[1])
    near = sure.near_of(given, 0.9, 1e-9)
    true = sure.few_of(near)
    near = replace(near, unseen=near.unseen + unseen)
    way = Made(near, missed, change=change, first=change if first is None else first, true=true)
    return sure.refined(way, replace(inverse_of(given, 1e-12), square=square), rtol), given


@cache
def clean():
    return made({})[0]


def part(row, i, value):
    out = np.zeros((4, 2))
    out[row, i] = value
    return out


def test_every_defect_is_in_the_error_of_the_bias():
    gamma = np.max(np.abs(clean().bias))
    assert np.max(clean().error) < 1e-10 * gamma
    chance, root = np.zeros((2, *finest_common().shape))
    chance[0, 0], root[:, 1] = 1e-4, 1e-5
    some = made({})[1]
    for change, least in (
        ({"common": chance}, 0.5e-4 * gamma),
        ({"common": root}, 0.5e-5 / some.mean),
        ({"left": 1e-6}, 1e-6),
        ({"parts": part(3, 0, 1e6)}, 1e-7),
    ):
        found, _ = made(change)
        assert np.min(found.error) >= least * 0.3, change
        assert np.max(found.error) >= least, change
    found, given = made({}, missed=1e-3)
    assert np.min(found.error) >= 1e-3 / given.mean


def finest_common():
    given = problem([100.0, 0.4, 1.0], [1.0, 1.0, 0.1], NOISES[1])
    return finest(sure.few_of(sure.near_of(given, 0.9, 1e-9)), given).common


def test_a_level_that_moves_is_an_error():
    found, _ = made({}, first={"parts": part(0, 0, 1e-6)})
    assert found.error[1] >= 0.6e-6
    found, _ = made({}, first={"parts": part(1, 1, 1e-7)})
    assert found.mse_error[2] >= 2e-7
    found, _ = made({}, first={"parts": part(2, 1, 1e-4)})
    assert found.zero_error[2] >= 2e-4


def test_what_is_not_seen_is_in_the_errors_of_the_chances():
    found, _ = made({"chance": 1e-4})
    assert np.all(found.zero_error >= 1e-4)
    found, _ = made({}, unseen=np.array([1e-3, 0.0, 0.0]))
    assert found.zero_error[0] >= 1e-3
    assert np.max(clean().zero_error) < 1e-9
    found, given = made({}, square=1e-6)
    assert np.all(found.mse_error >= 2e-6 * given.shares * np.sqrt(found.mse))  # 3e-6 mse would be less for the giant
    assert 2e-6 * given.shares[0] * np.sqrt(found.mse[0]) > 30e-6 * found.mse[0]
    found, _ = made({"left": 1e-5})
    assert np.all(found.mse_error >= 4e-5 * np.sqrt(found.mse))


# ---- refusals -----------------------------------------------------------------------------------------------------------------------


def test_refusals_are_named_and_come_at_once():
    begun = time.process_time()
    with pytest.raises(ToleranceError, match=r"may come near 0"):
        product.shares(problem([1.0, 0.5, 2.0], [1.0, 1.0, 1.0], NOISES[0]), 0.9, 1e-6)
    many = problem([1e6, *np.linspace(0.0, 1.0, 20)], np.append(1.0, 10.0 ** np.linspace(0, -6, 20)), NOISES[1])
    with pytest.raises(ToleranceError, match=r"more than 600 sets of 20 that may be dropped of 21 matter"):
        product.shares(many, 0.9, 1e-6)
    wide = problem(
        np.append(1e6, np.linspace(0.0, 1.0, 2000)), np.append(1.0, 10.0 ** np.linspace(0, -6, 2000)), NOISES[0]
    )
    with pytest.raises(ToleranceError, match=r"2000 pairs that may be dropped need .* nodes"):
        product.Product(sure.near_of(wide, 0.9, 1e-6)).evaluated(1, inverse_of(wide, 1e-6), 1e-6, None)
    assert time.process_time() - begun < 3


def test_terms_that_cancel_are_refused_after_the_first_level():
    """Eight hundred on the ray."""
    given = problem([1e6, 0.0, 0.25, 0.5], np.ones(4), NOISES[0], times=[1, 400, 200, 200])
    with pytest.raises(ToleranceError, match=r"the first rules miss the chance that anybody is dropped"):
        sure.refined(product.Product(sure.near_of(given, 0.75, 1e-6)), inverse_of(given, 1e-6), 1e-6)


# ---- the engine ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", [fp.Gaussian(100.0), fp.Laplace(100.0)], ids=lambda m: m.name)
def test_the_engine_answers_beside_giants(noise):
    few = noise.name == "laplace"
    x = [3, 50, 120, 0, 1e12] if few else [3, 50, 120, 0, 10, 7, 300, 20, 1, 80, 1e12]
    counts = fp.Counts(x, weights=10.0 ** -(np.arange(len(x)) % 4.0))
    found = fp.audit(counts, noise, "pos-threshold", engine="exact")
    assert found.method == "exact"
    assert np.max(found.accuracy.half_width) < 1e-6 * found.alpha.value < 1e-12
