"""The threshold rules where few entities share the shift or S may have either sign, against brute force, other integrals and identities."""

from __future__ import annotations

import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import fairpost as fp
from fairpost.engines.closed.quadrature import legendre
from fairpost.engines.exact.pos.general import general
from fairpost.engines.exact.pos.problem import Problem, chance_negative
from fairpost.engines.exact.simplex.moments import simplex
from fairpost.engines.exact.threshold import counted, few, lines, nodes
from fairpost.engines.exact.threshold import release as jump
from fairpost.engines.exact.threshold.shares import shares as separated
from fairpost.errors import ToleranceError
from fairpost.noise import Threshold
from fairpost.rules import PosThreshold, SimplexThreshold

NOISES = [fp.Laplace(1.0), fp.Gaussian(1.0)]


def problem(x, noise, times=None, a=None) -> Problem:
    x = np.asarray(x, dtype=np.float64)
    times = np.ones(x.size, dtype=np.int64) if times is None else np.asarray(times)
    a = np.ones(x.size) if a is None else np.asarray(a, dtype=np.float64)
    return Problem.build(x, a, times, a * x / np.sum(times * a * x), noise)


def plane(reach: float, cells: int) -> tuple[np.ndarray, np.ndarray]:
    """Midpoints on the plane of vectors of sum 0 in three dimensions, and the area of a cell."""
    edge = (np.arange(cells) + 0.5) / cells * 2 * reach - reach
    u, w = (g.ravel() for g in np.meshgrid(edge, edge))
    one, two = np.array([1.0, -1.0, 0.0]) / np.sqrt(2), np.array([1.0, 1.0, -2.0]) / np.sqrt(6)
    return u[:, None] * one + w[:, None] * two, np.full(u.size, (2 * reach / cells) ** 2)


@pytest.mark.parametrize("noise", NOISES, ids=lambda n: n.name)
@pytest.mark.parametrize(("x", "tau"), [([0.1, 0.4, 1.3], None), ([0.2, 0.2, 2.0], 0.4), ([0.0, 1.5, 1.0], 1.7)])
def test_three_shares_by_brute_force(noise, x, tau) -> None:
    """The rule itself on a grid: midpoints (h^2 of a corner) across the plane, Gauss-Legendre in S on both sides of 0, where shares jump."""
    gaussian = noise.name == "gaussian"
    threshold = noise.best_threshold() if tau is None else Threshold(tau)
    z0, area = plane(7.0 if gaussian else 16.0, 170 if gaussian else 220)
    x = np.asarray(x)
    pi = PosThreshold(threshold=threshold)
    truth = x / x.sum()
    whole, bias, mse, zero = 0.0, np.zeros(3), np.zeros(3), np.zeros(3)
    unit, weight = legendre(5)
    marks = np.array([0, 0.3, 1, 2, 3.5, 5.5, 8, 12]) if gaussian else np.array([0, 0.3, 1, 2, 3.5, 6, 10, 16, 25])
    nodes = (marks[:-1, None] + np.diff(marks)[:, None] * unit).ravel()
    weights = (np.diff(marks)[:, None] * weight).ravel()
    for side in (1.0, -1.0):
        for height, w in zip(side * nodes, weights, strict=True):
            z = z0 + height / 3
            p = np.prod(noise.density(z - x), axis=1) * area * w / np.sqrt(3)
            v = pi(z)
            whole += p.sum()
            bias += p @ (v - truth)
            mse += p @ (v - truth) ** 2
            zero += p @ (v == 0)
    found = lines.shares(problem(x, noise), threshold.level, 1e-5)
    assert abs(whole - 1) < (1e-5 if gaussian else 4e-4)
    # h is 0.08 and 0.15; a corner costs h^2/12 of the density, a tie of two edges, where v jumps, h times a density of some 1e-2
    room = 4e-4 if gaussian else 1.2e-3
    np.testing.assert_allclose(found.bias, bias / whole, atol=room)
    np.testing.assert_allclose(found.mse, mse / whole, atol=room)
    np.testing.assert_allclose(found.zero, zero / whole, atol=6 * room)  # an indicator on a grid, not a corner
    assert np.max(found.error) < 1e-5


@pytest.mark.parametrize("noise", NOISES, ids=lambda n: n.name)
@pytest.mark.parametrize(
    ("x", "total", "tau"), [([0.0, 0.5, 2.0], 3.0, None), ([1.0, 1.0, 4.0], 2.0, 0.6), ([0.0, 3.0, 3.5], 9.0, 1.2)]
)
def test_three_releases_by_brute_force(noise, x, total, tau) -> None:
    """Only differences of noises matter: the density of their plane is summed along the third direction."""
    gaussian = noise.name == "gaussian"
    threshold = noise.best_threshold() if tau is None else Threshold(tau)
    x = np.asarray(x)
    reach, cells = (7.5, 500) if gaussian else (20.0, 800)
    flat, area = plane(reach, cells)
    if gaussian:
        density = np.exp(-np.sum(flat**2, axis=1) / 2) / (2 * np.pi)
    else:  # int over the common part t of prod e^{-|y_j + t|}/2, piecewise an exponential of slope -3, -1, 1, 3
        y = np.sort(-flat, axis=1)
        height = np.exp(-np.sum(np.abs(y[:, :, None] - y[:, None, :]), axis=1))  # at the corners
        density = height[:, 0] / 3 + height[:, 2] / 3
        density += np.abs(height[:, 1] - height[:, 0]) + np.abs(height[:, 2] - height[:, 1])
        density *= np.sqrt(3) / 8
    p = density * area
    v = SimplexThreshold(total, threshold=threshold)(x + flat)
    way = counted if gaussian else few  # near a total of k thresholds lines stay away from a corner of Gaussian noise
    found = way.release(x, np.ones(3, dtype=np.int64), noise, total, threshold.level, 1e-6)
    assert p.sum() == pytest.approx(1, abs=1e-3 if not gaussian else 1e-9)
    p = p / p.sum()
    room = 1e-3 if gaussian else 1.5e-3  # h is 0.03 and 0.05: ties of two edges, where v jumps
    np.testing.assert_allclose(found.bias, p @ (v - x), atol=room)
    np.testing.assert_allclose(found.mse, p @ (v - x) ** 2, rtol=room)
    np.testing.assert_allclose(found.zero, p @ (v == 0), atol=8 * room)


@pytest.mark.parametrize(
    ("noise", "x"),
    [(NOISES[0], [0.0, 0.7, 2.0, 0.3]), (NOISES[1], [0.0, 0.7, 2.0, 0.3]), (NOISES[1], [1.0, 0.2, 0.1, 0.5, 0.9, 3.0])],
    ids=("laplace", "gaussian", "gaussian of six"),
)
def test_without_a_threshold_it_is_pos(noise, x) -> None:
    """tau = 0 against the bent contours of PoS: another integral altogether."""
    found, known = lines.shares(problem(x, noise), 0.0, 1e-6), general(problem(x, noise), 1e-6)
    np.testing.assert_allclose(found.bias, known.bias, atol=float(np.max(found.error + known.error)))
    np.testing.assert_allclose(found.mse, known.mse, atol=2 * float(np.max(found.mse_error + known.mse_error)))
    np.testing.assert_allclose(found.zero, known.zero, atol=float(np.max(found.zero_error + known.zero_error)))


@pytest.mark.parametrize("noise", NOISES, ids=lambda n: n.name)
def test_without_a_threshold_it_is_the_simplex(noise) -> None:
    """tau = 0 against section 3, with a count that is far above the rest."""
    x, total = np.array([0.0, 0.5, 2.0, 900.0]), 904.0
    times = np.array([2, 1, 3, 1])
    found, known = few.release(x, times, noise, total, 0.0, 1e-6), simplex(x, times, noise, total, 1e-6)
    np.testing.assert_allclose(found.bias, known.bias, atol=float(np.max(found.error + known.error)))
    np.testing.assert_allclose(found.mse, known.mse, rtol=1e-6)


def test_many_that_share_the_shift_agree_with_the_bell() -> None:
    """Where S > 0 is all but certain and more than 100 share the shift, saddle-point contours do the same."""
    x, times = np.array([0.0, 1.0, 2.0, 3.0, 5.0, 8.0, 12.0, 20.0]), np.full(8, 25)
    for noise in NOISES:
        tau = noise.best_threshold().level
        p = problem(x, noise, times)
        known = separated(x, np.ones(8), times, p.shares, noise, tau, 1e-6)
        found = lines.shares(p, tau, 1e-5)
        np.testing.assert_allclose(found.bias, known.bias, atol=float(np.max(found.error + known.error)))
        np.testing.assert_allclose(found.zero, known.zero, atol=float(np.max(found.zero_error + known.zero_error)))


def test_few_that_share_the_shift_agree_with_the_bell_of_the_release() -> None:
    """Both cover 90 entities: `few` against the tail integrals of `release`, another form of the same law."""
    for noise in NOISES:
        x, times, total = np.array([0.0, 3.0, 9.0]), np.array([30, 30, 30]), 360.0
        asked = (x, times, noise, total, noise.best_threshold().level, 1e-6)
        known, found = jump.release(*asked), few.release(*asked)
        np.testing.assert_allclose(found.bias, known.bias, atol=float(np.max(found.error + known.error)))
        np.testing.assert_allclose(found.mse, known.mse, atol=float(np.max(found.mse_error + known.mse_error)))
        np.testing.assert_allclose(found.zero, known.zero, atol=float(np.max(found.zero_error + known.zero_error)))


def test_chances_that_do_not_sum_to_1_are_in_every_stated_error(monkeypatch) -> None:
    """A rule that misses 1e-5 of the law at every level alike: refinement changes nothing, so only the sum of all chances tells."""
    plain = few._level
    monkeypatch.setattr(few, "_level", lambda *given: replace(plain(*given), whole=1 + 1e-5))
    found = few.release(np.array([0.0, 1.0, 4.0]), np.array([2, 1, 1]), fp.Gaussian(1.0), 5.0, 0.6, 0.1)
    assert np.all(found.error >= 1e-5 * np.sqrt(found.mse))
    assert np.all(found.mse_error >= 1e-5 * found.mse)
    assert np.all(found.zero_error >= 1e-5)


def test_weights_that_are_alike() -> None:
    """Weights within a factor of 4 against simulation, and a weight common to all changes nothing."""
    noise, x, a = fp.Laplace(3.0), np.array([0.0, 2.0, 5.0, 1.0]), np.array([1.0, 2.0, 3.0, 1.5])
    tau = noise.best_threshold()
    found = lines.shares(problem(x, noise, a=a), tau.level, 1e-4)
    rng = np.random.default_rng(5)
    v = PosThreshold(a, threshold=tau)(x + rng.laplace(0, 3.0, (400_000, 4)))
    truth = a * x / np.sum(a * x)
    np.testing.assert_allclose(found.bias, np.mean(v - truth, axis=0), atol=6 * 0.45 / np.sqrt(4e5))
    np.testing.assert_allclose(found.zero, np.mean(v == 0, axis=0), atol=6 * 0.5 / np.sqrt(4e5))
    same = lines.shares(problem(x, noise, a=7 * np.ones(4)), tau.level, 1e-5)
    once = lines.shares(problem(x, noise), tau.level, 1e-5)
    np.testing.assert_array_equal(same.bias, once.bias)


def test_noise_without_end_makes_all_shares_equal() -> None:
    """Shares are even in z, so the bias is 1/n - P_i but for the square of counts over noise: |x|^2 / sigma^2 sqrt(1/2n), by Cauchy-Schwarz."""
    x = np.array([0.0, 1.0, 2.0, 6.0, 1.0])
    for n_noise in (fp.Gaussian(2000.0), fp.Laplace(3000.0)):
        result = fp.audit(fp.Counts(x), n_noise, "pos-threshold", engine="exact")
        assert np.max(np.abs(result.bias - (0.2 - x / 10))) < 42 / n_noise.spread**2
        assert result.method == "exact"


def test_many_close_counts_are_carried_by_few(monkeypatch) -> None:
    """Fourteen counts within half a noise scale by Chebyshev nodes, against each for itself."""
    x = np.linspace(0.0, 0.45, 14)
    for noise in NOISES:
        p, tau = problem(x, noise), noise.best_threshold().level
        carried = lines.shares(p, tau, 1e-5)
        with monkeypatch.context() as patch:
            patch.setattr(lines, "FEW", 1000)  # nobody is carried
            each = lines.shares(p, tau, 1e-4)
        np.testing.assert_allclose(carried.bias, each.bias, atol=float(np.max(carried.error + each.error)))


def test_whole_number_noise_as_an_expansion() -> None:
    """Three entities and a sum of either sign under whole-number noise, simulated with NumPy's own draws."""
    noise, x = fp.DiscreteLaplace(160.0), np.array([0.0, 40.0, 260.0])
    result = fp.audit(fp.Counts(x), noise, "pos-threshold", engine="expansion")
    rng, q = np.random.default_rng(11), -np.expm1(-1 / 160)
    eta = rng.geometric(q, (300_000, 3)) - rng.geometric(q, (300_000, 3))
    v = PosThreshold().for_mechanism(noise)(x + eta)
    assert np.all(
        np.abs(result.bias - np.mean(v - x / 300, axis=0)) <= result.accuracy.half_width + 6 * 0.45 / np.sqrt(3e5)
    )
    assert np.all(
        np.abs(result.zero - np.mean(v == 0, axis=0)) <= result.zero_accuracy.half_width + 6 * 0.5 / np.sqrt(3e5)
    )
    assert result.alpha.half_width < 0.02 * result.alpha.value


def test_what_is_left_is_refused_at_once() -> None:
    """Weights over orders of magnitude with a sum of either sign: before the work."""
    x, a = np.array([6.0, 0.0, 3.0, 4.0, 10.0, 0.0] * 2), 10.0 ** np.linspace(0, 5.5, 12)
    began = time.process_time()
    with pytest.raises(fp.ToleranceError, match="may come near 0"):
        fp.audit(fp.Counts(x, weights=a), fp.Laplace(600.0), "pos-threshold", engine="exact")
    assert time.process_time() - began < 1


def test_pos_with_noise_of_very_different_scales() -> None:
    """Gaussian noise of three sizes: what is never above the threshold once drowned the rest (shares of 6e6). Here against simulation."""
    x, a = np.array([0.0, 0.0, 1.0]), np.array([23938.0, 375.4, 28.24])
    result = fp.audit(fp.Counts(x, weights=a), fp.Gaussian(7.86), "pos", engine="exact")
    v = fp.rules.PoS(a)(x + np.random.default_rng(3).normal(0, 7.86, (300_000, 3)))
    np.testing.assert_allclose(result.bias, np.mean(v, axis=0) - [0, 0, 1], atol=6 * 0.2 / np.sqrt(3e5))
    np.testing.assert_allclose(result.zero, np.mean(v == 0, axis=0), atol=6 * 0.5 / np.sqrt(3e5))


def test_a_line_of_too_many_steps_is_refused_before_it_is_made(monkeypatch):
    """A giant among few: millions of steps took twenty seconds to be refused."""

    def never(*given):
        raise AssertionError("a line was made")

    monkeypatch.setattr(nodes, "weights", never)
    x = np.array([1.3194e11, 13193.0, 4078.0, 950.0, 3557.0, 2000.0])
    whole = Problem.build(x, np.ones(6), np.ones(6, dtype=np.int64), x / x.sum(), fp.Gaussian(706.6))
    with pytest.raises(ToleranceError, match="would take too long"):
        lines.shares(whole, 700.0, 1e-6)
    with pytest.raises(ToleranceError, match="steps each, which would take too long"):
        nodes.line(
            nodes.Values(fp.Gaussian(1.0), x / 706.6, np.ones(6), np.ones(6), 1.0, True),
            5.0,
            1.0,
            0.0,
            1.0,
            nodes.LEVELS[0],
            1.0,
        )


# ---- errors of levels that are made up: no integral, so that each term stands alone


FIRST, SECOND, ZERO = np.array([0.2, 0.3, 0.5]), np.array([0.08, 0.15, 0.35]), np.array([1e-3, 0.4, 0.2])


def made(monkeypatch, *levels, x=(0.1, 0.4, 1.3), **inverse):
    """What `shares` states of given levels, each (first, second, zero, chance), of which each sign has half; the last one stays."""
    given, left, of = problem(x, NOISES[1]), [], lines.inverse_of
    signs = 2 if chance_negative(given) > 1e-14 else 1
    for level in levels:
        left += [lines.Sums(*(part / signs for part in level))] * signs

    def plan(*_):
        one = left.pop(0) if len(left) > signs else left[-1]
        return SimpleNamespace(work=0.0, sums=lambda: one), lambda sums: sums

    monkeypatch.setattr(lines, "_plan", plan)
    if inverse:
        none = {"rms": 0.0, "square": 0.0, "tail": 0.0}
        monkeypatch.setattr(lines, "inverse_of", lambda *asked: replace(of(*asked), **{**none, **inverse}))
    return lines.shares(given, 0.9, 1e-2), given.shares


def test_a_share_that_moved_is_in_its_error_and_in_that_of_its_square(monkeypatch) -> None:
    """From one to another: no chance is missed, and refinement alone tells. (v - p)^2 moves by 2 p as much."""
    d = 1e-4
    found, p = made(monkeypatch, (FIRST + np.array([0, d, -d]), SECOND, ZERO, 1.0), (FIRST, SECOND, ZERO, 1.0))
    assert np.all(found.error[1:] >= d)
    assert np.all(found.mse_error[1:] >= 2 * p[1:] * d)
    assert np.max(found.error) < 10 * d


@pytest.mark.parametrize(("shares", "chance"), [(1, 1), (1, 0), (0, 1)])
def test_what_all_levels_miss_alike_is_in_every_error(monkeypatch, shares, chance) -> None:
    """Nothing moves; either the chance is not 1, or the shares are not the chance, or both miss the same and agree."""
    d = 1e-4
    level = FIRST * (1 - shares * d), SECOND, ZERO, 1 - chance * d
    found, _ = made(monkeypatch, level, level)
    assert np.all(found.error >= 0.9 * d * FIRST)
    assert np.all(found.mse_error >= d)
    assert np.all(found.zero_error >= d)


def test_what_did_not_move_has_been_rounded(monkeypatch) -> None:
    level = FIRST, SECOND, ZERO, 1.0
    found, _ = made(monkeypatch, level, level)
    least = 100 * np.finfo(float).eps  # hundreds of terms
    assert np.all(found.error >= least * FIRST)
    assert np.all(found.mse_error >= 2 * least)
    assert np.all(found.zero_error >= least)


def test_squares_and_chances_that_moved_count_twice(monkeypatch) -> None:
    """What moved may be as far again from the truth; of the one that is small beside the rest, so that its part of others is nothing."""
    d, last = np.array([1e-4, 0.0, 0.0]), (FIRST, SECOND, ZERO, 1.0)
    found, _ = made(monkeypatch, (FIRST, SECOND, ZERO + d, 1.0), last)
    assert found.zero_error[0] >= 2e-4 > 1e-4 > found.mse_error[0]
    found, _ = made(monkeypatch, (FIRST, SECOND + d, ZERO, 1.0), last)
    assert found.mse_error[0] >= 2e-4 > 1e-4 > found.zero_error[0]


@pytest.mark.parametrize("name", ["rms", "square", "tail"])
def test_what_stands_for_one_over_s_is_in_the_errors(monkeypatch, name) -> None:
    """Where S > 0 is certain: rms sqrt(mse) of a bias (Cauchy-Schwarz), the like of a square, and S too far away."""
    level, d = (FIRST, SECOND, ZERO, 1.0), 1e-4
    found, _ = made(monkeypatch, level, level, x=(40.0, 50.0, 60.0), **{name: d})
    bias, mse = {"rms": (np.sqrt(found.mse), 0), "square": (0 * found.mse, found.mse), "tail": (1 + 0 * found.mse, 1)}[
        name
    ]
    assert np.all(found.error >= d * bias)
    assert np.all(found.error < 2 * d * bias + 1e-10)
    assert np.all(found.mse_error >= d * mse)


def test_rules_that_miss_the_chance_by_far_are_given_up(monkeypatch) -> None:
    level = FIRST, SECOND, ZERO, 0.9
    with pytest.raises(ToleranceError, match=r"miss the chance of a positive sum by 0\.1"):
        made(monkeypatch, level, level)


@pytest.mark.parametrize("noise", NOISES, ids=lambda n: n.name)
def test_panels_of_r_end_at_sharp_corners_and_follow_small_weights(noise) -> None:
    """Weights of r below a place where panels end sum to the way to it; near an edge a panel is 1.5 scales long."""
    c, a, level = np.array([0.5, 0.3, 0.9]), np.array([1.0, 1e-3, 1e-9]), nodes.Level(1.4, 15.0, 8, 6, 6, 1e-6)
    v = nodes.Values(noise, c, a, np.ones(3), 0.7, True)
    corner = c - a * 0.7
    r, weight = nodes.panels(v, -0.5, 2.0, 5.0, level)
    assert np.sum(weight) == pytest.approx(2.5, rel=1e-12)
    way = np.array([np.sum(weight[r < place]) for place in corner]) - 0.5
    ends = np.abs(way - corner) < 1e-12
    assert ends[2]
    assert noise.name == "gaussian" or np.all(ends)
    assert 3 * level.order <= np.count_nonzero(np.abs(r - corner[1]) < 3e-3) <= 6 * level.order


@pytest.mark.parametrize("noise", NOISES, ids=lambda n: n.name)
@pytest.mark.parametrize("many", [False, True])
def test_no_panel_of_r_runs_across_a_small_edge(noise, many) -> None:
    """Noise is even, so that from far below its edge the chance to be kept has the way to the edge for an integral.

    A panel once began far before such an edge and ended far beyond it: chances were off by more than was stated.
    """
    a = np.append(1.0, np.geomspace(3e-2, 1e-5, 45 if many else 4))
    c = np.append(9.0, np.linspace(3.0, 4.0, a.size - 1))
    v = nodes.Values(noise, c, a, np.ones(a.size), 0.7, True)
    r, weight = nodes.panels(v, -0.5, 6.0, 0.2, nodes.Level(2.4, 19.0, 8, 7, 8, 1e-6))
    found = weight @ noise.sf(v.cut(r)[:, 1:])
    np.testing.assert_allclose(found, (c - a * 0.7)[1:] + 0.5, rtol=0, atol=2e-6)


def test_weights_within_a_factor_of_four_are_alike() -> None:
    v = Problem.build(np.ones(3), np.array([1.0, 1.0, 0.5]), np.ones(3, dtype=np.int64), np.ones(3) / 3, NOISES[0])
    assert [replace(v, a=np.array([1.0, s, 0.5])).alike for s in (0.25, 0.249, 1.0)] == [True, False, True]
