"""`pos-threshold` under Gaussian noise on paths of r and s in the complex plane: any weights, either sign of S, more than eight dropped."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import wofz

import fairpost as fp
from fairpost.engines.exact.pos.problem import Problem, chance_negative
from fairpost.engines.exact.threshold import lines, sets, turned
from fairpost.engines.exact.threshold.kernels.turned import add_shares, dropped, kept, power
from fairpost.errors import ToleranceError
from support.oracles.definitions import pair_shares


def built(x, a, times=None):
    x, a = np.asarray(x, dtype=np.float64), np.asarray(a, dtype=np.float64)
    times = np.ones(x.size, dtype=np.int64) if times is None else np.asarray(times)
    return Problem.build(x, a, times, pair_shares(x, a, times), fp.Gaussian(1.0))


def drawn(n, most, high, seed):
    rng = np.random.default_rng(seed)
    return built(rng.uniform(0, high, n), np.exp(rng.uniform(0, math.log(most), n)))


def sides(problem, tau):
    x = problem.c / problem.a
    return [turned.Side(problem.a, sign * x, problem.times, tau) for sign in (1.0, -1.0)]


def both(problem, tau, level):
    """Sums of both sides."""
    up, down = (turned.Plan.of(side, level).sums() for side in sides(problem, tau))
    return up, down


# ---- numbers -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "most", "high", "tau"), [(3, 1e6, 0.5, 0.2), (4, 1.5, 0.1, 0.75), (5, 1e3, 2.5, 0.75), (6, 1e5, 0.3, 3.0)]
)
def test_one_product_is_the_sum_over_sets(n, most, high, tau):
    """Set by set is another integral: real r, other contours."""
    problem = drawn(n, most, high, 5 + n)
    known, found = sets.shares(problem, tau, 1e-7), turned.shares(problem, tau, 1e-7)
    for name, error in (("bias", "error"), ("mse", "mse_error"), ("zero", "zero_error")):
        away = np.abs(getattr(found, name) - getattr(known, name))
        assert (away <= getattr(found, error) + getattr(known, error)).all(), name
        assert away.max() < (1e-6 if name == "mse" else 3e-8), name
    assert found.error.max() < 2e-8
    assert found.mse_error.max() < 3e-6
    assert found.zero_error.max() < 3e-6


def test_many_of_equal_weights_have_upright_lines():
    """Sixteen entities: more than sets are listed for, and a way that has none of the turns."""
    problem = built(np.repeat([0.0, 0.4, 0.9, 2.0], 4) + np.arange(16) / 40, np.ones(16))
    known, found = lines.shares(problem, 0.75, 1e-6), turned.shares(problem, 0.75, 1e-6)
    assert (np.abs(found.bias - known.bias) <= found.error + known.error).all()
    assert (np.abs(found.mse - known.mse) <= found.mse_error + known.mse_error).all()
    assert (np.abs(found.zero - known.zero) <= found.zero_error + known.zero_error).all()
    assert np.ptp(found.bias) > 0.01


def test_uneven_weights_and_draws():
    """Fifteen entities over five orders, against 400,000 draws of the rule as it is written down."""
    problem, tau, rng = drawn(15, 1e5, 1.0, 3), 0.75, np.random.default_rng(8)
    found = turned.shares(problem, tau, 1e-4)
    z = problem.c + problem.a * rng.standard_normal((400_000, 15))
    z *= np.sign(z.sum(axis=1))[:, None]
    edge = problem.a * tau
    order = np.argsort(edge - z, axis=1)  # those with the highest edge are kept first
    sorted_z, sorted_edge = np.take_along_axis(z, order, 1), edge[order]
    total, kept_sum = z.sum(axis=1), np.cumsum(sorted_z, axis=1)
    k = np.arange(1, 16)
    place = sorted_z - sorted_edge  # at the edge of the k-th, the k - 1 before it are kept
    before = np.concatenate([np.zeros((z.shape[0], 1)), kept_sum[:, :-1]], axis=1) - (k - 1) * place
    inside = (before < total[:, None]) & (total[:, None] <= before + sorted_edge)
    jump = np.where(inside.any(axis=1), inside.argmax(axis=1), -1)
    # else a regular root with k kept: between the edges of the k-th and of the next
    root = (kept_sum - total[:, None]) / k
    after = np.concatenate([place[:, 1:], np.full((z.shape[0], 1), -np.inf)], axis=1)
    regular = ((root < place) & (root >= after)).argmax(axis=1)
    rows = np.arange(z.shape[0])
    r = np.where(jump >= 0, place[rows, jump], root[rows, regular])
    v = np.where(z - r[:, None] > edge, z - r[:, None], 0.0)
    at = np.flatnonzero(jump >= 0)
    own = order[at, jump[at]]
    v[at, own] = 0.0
    v[at, own] = total[at] - v[at].sum(axis=1)
    share = v / total[:, None]
    np.testing.assert_allclose(share.sum(axis=1), 1.0, rtol=1e-9)
    spread = share.std(axis=0) / math.sqrt(share.shape[0])
    assert (np.abs(share.mean(axis=0) - problem.shares - found.bias) < 5 * spread + found.error).all()
    wrong = (share - problem.shares) ** 2
    assert (
        np.abs(wrong.mean(axis=0) - found.mse) < 5 * wrong.std(axis=0) / math.sqrt(share.shape[0]) + found.mse_error
    ).all()
    none = (share == 0).mean(axis=0)
    assert (np.abs(none - found.zero) < 5 * np.sqrt(none * (1 - none) / share.shape[0]) + 1e-9 + found.zero_error).all()


def test_pairs_that_repeat_are_as_good_as_listed():
    """Three, two and one of a kind: powers of the factors, by squaring."""
    once = built([0.2, 1.0, 0.5, 0.0], [1.0, 0.1, 3.0, 0.4], [3, 2, 1, 5])
    each = np.repeat(np.arange(4), once.times)
    listed = built((once.c / once.a)[each], once.a[each])
    short, long = turned.shares(once, 0.75, 1e-5), turned.shares(listed, 0.75, 1e-5)
    for name in ("bias", "mse", "zero"):
        np.testing.assert_allclose(getattr(long, name), getattr(short, name)[each], rtol=1e-9, atol=1e-13)


def test_counts_far_above_the_noise_have_panels_of_r():
    """Edges at eight and twelve deviations, S > 0 for sure: one side, and Gauss-Legendre in place of equal steps."""
    problem = built([0.5, 8.0, 12.0, 3.0], [1.0, 0.05, 0.02, 0.3])
    side = sides(problem, 0.75)[0]
    r, _, _ = side.shifts(False, 16.0)
    assert np.ptp(np.diff(np.log(r.real[-60:]))) > 0.01
    known, found = sets.shares(problem, 0.75, 1e-6), turned.shares(problem, 0.75, 1e-6)
    assert (np.abs(found.bias - known.bias) <= found.error + known.error).all()
    assert found.error.max() < 1e-7


# ---- convergence, and what is stated -----------------------------------------------------------------------


@pytest.mark.parametrize(("n", "most", "high"), [(3, 2.0, 1.5), (5, 1e5, 0.2), (12, 1e3, 1.0)])
def test_a_level_is_as_good_as_it_is_made_to_be(n, most, high):
    """The chance of each sign is known; e^-level, by the widths of the strips, times what factors grow there."""
    problem = drawn(n, most, high, 40 + n)
    negative = chance_negative(problem)
    for level in (11.0, 16.0, 21.0):
        up, down = both(problem, 0.75, level)
        allowed = n * math.exp(turned.GROWTH - level)
        assert abs(up.chance - 1 + negative) < allowed
        assert abs(down.chance - negative) < allowed
        assert abs((up.parts + down.parts)[0].sum() - up.chance - down.chance) < allowed


@pytest.mark.parametrize("seed", range(6))
def test_stated_errors_hold(seed):
    """Against a level far beyond; rough tolerances end after two levels."""
    rng = np.random.default_rng(100 + seed)
    problem, tau = (
        drawn(int(rng.integers(3, 7)), 10 ** rng.uniform(0, 6), 10 ** rng.uniform(-2, 0.3), seed),
        10 ** rng.uniform(-0.7, 0.4),
    )
    up, down = both(problem, tau, 28.0)
    best = up.parts + down.parts
    found = turned.shares(problem, tau, 1e-3)
    bias = best[0] - problem.shares * best[0].sum()
    mse = best[1] - 2 * problem.shares * best[0] + problem.shares**2
    assert (np.abs(found.bias - bias) <= found.error).all()
    assert (np.abs(found.mse - mse) <= found.mse_error).all()
    assert (np.abs(found.zero - best[2]) <= found.zero_error).all()


def changed(monkeypatch, change):
    """Sums of the level that decides, changed: after the one that shows alpha, and the first."""
    real, seen = turned.Plan.sums, []

    def sums(self):
        if self.level not in seen:
            seen.append(self.level)
        return change(real(self)) if seen.index(self.level) > 1 else real(self)

    monkeypatch.setattr(turned.Plan, "sums", sums)


def test_what_no_step_of_the_rule_knows_is_stated(monkeypatch):
    problem = drawn(4, 100.0, 0.5, 1)
    plain = turned.shares(problem, 0.75, 1e-3)
    size = problem.shares + plain.bias + problem.shares

    def more(change):
        with monkeypatch.context() as patch:
            changed(patch, change)
            found = turned.shares(problem, 0.75, 1e-3)
        return found.error - plain.error, found.mse_error - plain.mse_error, found.zero_error - plain.zero_error

    def chance(one):
        return turned.Sums(one.parts, one.chance + 1e-5, one.size)

    def opposite(one):  # too large on one side and too small on the other
        return turned.Sums(one.parts, one.chance + (1e-5 if one.chance > 0.5 else -1e-5), one.size)

    def rounding(one):
        return turned.Sums(one.parts, one.chance, one.size + 1e8)

    for change, least in ((chance, 2e-5), (opposite, 1.9e-5), (rounding, 4e8 * turned.ROUNDING * 1.9)):
        error, mse, zero = more(change)
        assert (error > 0.5 * least * np.minimum(size, 0.5 * problem.shares)).all()
        assert (mse > 0.5 * least).all()
        assert (zero > 0.5 * least).all()

    def part(which):
        def change(one):
            moved = one.parts.copy()
            moved[which] *= 1.0001
            return turned.Sums(moved, one.chance, one.size)

        return change

    assert (more(part(0))[0] > 1e-5 * problem.shares * turned.GAIN).all()
    assert more(part(1))[1].max() > 2e-5 * plain.mse.min()
    assert more(part(2))[2].max() > 2e-5


def test_a_sum_that_is_hardly_ever_negative_has_one_side_and_says_so(monkeypatch):
    problem = built([9.0, 7.0, 8.0, 3.0], [1.0, 0.3, 0.02, 0.2])
    negative = chance_negative(problem)
    assert negative < 1e-14
    plain = turned.shares(problem, 0.75, 1e-3)
    monkeypatch.setattr(turned, "chance_negative", lambda _: 1e-15)
    calls = []
    real = turned.Plan.sums
    monkeypatch.setattr(turned.Plan, "sums", lambda self: calls.append(self) or real(self))
    assert turned.shares(problem, 0.75, 1e-3).degenerate == 1e-15
    assert {plan.side.x.min() > 0 for plan in calls} == {True}
    assert plain.zero[3] > 0


# ---- pieces ------------------------------------------------------------------------------------------------


def mills(q):
    return math.sqrt(math.pi / 2) * wofz(1j * q / math.sqrt(2))


@pytest.mark.parametrize("r", [0.0, 0.7, -1.3])
@pytest.mark.parametrize(("t", "a", "x"), [(0.0, 1.0, 0.5), (2.0, 0.6, 3.0), (0.3, 2.0, -1.0)])
def test_the_kept_part(r, t, a, x):
    tau = 0.75
    density = lambda z: math.exp(-0.5 * ((z - a * x) / a) ** 2) / a / math.sqrt(2 * math.pi)  # noqa: E731
    low = r + a * tau
    moments = [
        quad(
            lambda z, k=k: (z - r) ** k * math.exp(-t * (z - r)) * density(z),
            low,
            low + 14 * a + abs(a * x),
            epsabs=1e-14,
        )[0]
        for k in range(3)
    ]
    up, mean, square, hazard = kept(complex(r), t, a, x, tau)
    np.testing.assert_allclose(up, moments[0], rtol=1e-9)
    np.testing.assert_allclose(mean, moments[1] / moments[0], rtol=1e-9)
    np.testing.assert_allclose(square, moments[2] / moments[0], rtol=1e-9)
    np.testing.assert_allclose(hazard, math.exp(-t * a * tau) * density(low) / moments[0], rtol=1e-9)


@pytest.mark.parametrize("c", [0.4 + 0.3j, -2.0 + 0.5j, 3.0 - 1.0j, -1.0 + 0.9j])
@pytest.mark.parametrize("t", [0.0, 1.5])
def test_the_kept_part_at_complex_places_is_one_function(c, t):
    """Both forms of it, in terms of Faddeeva's function."""
    a, x, tau = 0.8, 0.3, 0.75
    r = a * (c - tau + x)
    up, mean, _, hazard = kept(r, t, a, x, tau)
    p = c + t * a
    at = np.exp(-0.5 * c * c - t * a * tau) / math.sqrt(2 * math.pi)
    np.testing.assert_allclose(up, at * mills(p), rtol=1e-12)
    np.testing.assert_allclose(mean, a * tau + a * (1 - p * mills(p)) / mills(p), rtol=1e-11)
    np.testing.assert_allclose(hazard, 1 / (a * mills(p)), rtol=1e-12)


def test_who_is_never_kept_under_a_tilt_has_no_hazard():
    """A giant far above under a large t: 0, and no division by it."""
    up, mean, square, hazard = kept(0.0j, 50.0, 1.0, 900.0, 0.75)
    assert (up, hazard) == (0.0, 0.0)
    assert mean == 850.0
    assert square == 850.0**2 + 1


@pytest.mark.parametrize("c", [0.4, 2.5, -3.0, -1.0 + 0.8j])
def test_the_dropped_part(c):
    s = np.array([0.3j, -0.5 + 2.0j, -1.0 + 8.0j])
    a, x, tau = 0.7, 0.2, 0.75
    r = a * (c - tau + x)
    y, turn, out = s * a, np.exp(s * r), np.zeros((2, 3))
    whole, end = np.exp(y * x + y * y / 2), np.exp(y * tau)
    at = np.exp(-0.5 * c * c + 0j) / math.sqrt(2 * math.pi)
    dropped(complex(c), complex(at), y, whole, end, np.stack([turn.real, turn.imag]), 0, 3, 1, out)
    np.testing.assert_allclose(out[0] + 1j * out[1], whole - end * turn * at * mills(c - y), rtol=1e-11)


@pytest.mark.parametrize("exponent", [1, 2, 3, 7, 40])
def test_powers(exponent):
    assert power(0.9 + 0.3j, exponent) == pytest.approx((0.9 + 0.3j) ** exponent, rel=1e-13)


def test_what_is_left_out_is_as_small_as_it_is_said_to_be():
    """Who is settled, and nodes where the product has died out: the sums without any of it."""
    problem = drawn(9, 1e5, 1.0, 77)
    for side in sides(problem, 0.75):
        plan = turned.Plan.of(side, 11.0)
        found = []
        for quiet in (plan.level + turned.ROOM, 70.0):
            out = np.zeros((3, 9))
            chance = 0.0
            for ray in plan.rays:
                chance += add_shares(
                    *ray, plan.t, plan.omega, side.a, side.x, side.tau, side.times, 1 / side.deviation, quiet, out
                )[0]
            found.append(np.append(out, chance))
        away = np.abs(found[0] - found[1])
        assert 0 < away.max() < 1e-2 * math.exp(-plan.level)


def test_contours_turn_as_far_as_factors_allow():
    few = turned.Side(np.ones(3), np.array([0.1, 0.2, 0.0]), np.ones(3, dtype=np.int64), 0.75)
    assert few.alpha == pytest.approx(turned.MOST / 3)
    assert few.beta == pytest.approx(turned.MOST / 2)
    many = turned.Side(np.ones(3), np.full(3, 0.1), np.full(3, 60), 0.75)
    assert 0 < many.alpha < 0.8 * few.alpha
    assert many.beta == few.beta
    c, turn = 0.75 - many.x, 3 * many.alpha
    grown = 60 * np.sum(0.5 * c**2 * math.sin(turn) ** 2 / math.cos(2 * turn))  # all at their largest, at the same r
    assert grown == pytest.approx(turned.GROWTH, rel=0.1)
    below = turned.Side(np.ones(2), np.array([-4.0, -4.0]), np.ones(2, dtype=np.int64), 0.75)
    turn = 2 * below.beta
    assert 16 * math.sin(turn) ** 2 / math.cos(2 * turn) == pytest.approx(turned.GROWTH, rel=0.02)


# ---- refusals ----------------------------------------------------------------------------------------------


def test_refusals_come_before_the_work(monkeypatch):
    def never(_):
        raise AssertionError("the work has begun")

    monkeypatch.setattr(turned.Plan, "sums", never)
    with pytest.raises(ToleranceError, match=r"\(r, s, t\) would take too long"):
        turned.shares(drawn(390, 1e9, 0.1, 1), 0.75, 1e-6)
    with monkeypatch.context() as patch:
        patch.setattr(turned, "_first", lambda *_: 0.05)
        with pytest.raises(ToleranceError, match=r"has .* nodes, which would take too long"):
            turned.shares(drawn(200, 1e6, 0.1, 1), 0.75, 1e-6)
        patch.setattr(turned, "_first", lambda *_: 1e-9)
        with pytest.raises(ToleranceError, match="alpha is too small for contours"):
            turned.shares(drawn(4, 10.0, 0.1, 1), 0.75, 1e-6)
    with pytest.raises(ToleranceError, match=r"at most 400 pairs.*got 401 pairs"):
        turned.shares(drawn(401, 1e6, 0.1, 1), 0.75, 1e-6)
    with pytest.raises(ToleranceError, match="where their sum may be negative; got 3 pairs and 60 deviations"):
        turned.shares(built([60.0, 0.1, 0.2], [1e-3, 1.0, 0.7]), 0.75, 1e-6)


def test_a_level_that_goes_astray_is_refused(monkeypatch):
    changed(monkeypatch, lambda one: turned.Sums(one.parts * 1.2, one.chance, one.size))
    with pytest.raises(ToleranceError, match=r"is known to .* only"):
        turned.shares(drawn(3, 2.0, 0.5, 1), 0.75, 1e-4)
    monkeypatch.setattr(turned, "_first", lambda *_: 0.1)
    monkeypatch.setattr(turned.Plan, "sums", lambda self: turned.Sums(np.full((3, 3), np.nan), 0.5, 1.0))
    with pytest.raises(ToleranceError, match="too large"):
        turned.shares(drawn(3, 2.0, 0.5, 1), 0.75, 1e-4)


def test_the_engine_takes_it_where_sets_are_too_many():
    x, a = np.arange(12.0) / 8, 3.0 ** np.arange(12)
    counts = fp.Counts(x, weights=a)
    result = fp.audit(counts, fp.Gaussian(1.0), "pos-threshold", engine=fp.Exact(rtol=1e-4))
    assert result.method == "exact"
    assert 0.01 < result.alpha.value < 1
