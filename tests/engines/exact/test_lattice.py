"""pi_S+ and simplex-threshold under whole-number noise, exactly: enumeration, identities, the published figures, simulation."""

from __future__ import annotations

import numpy as np
import pytest

import fairpost as fp
from fairpost import errors
from fairpost.engines import Exact
from fairpost.engines.exact.lattice import cells, period, ramps
from fairpost.engines.exact.lattice import release as lattice
from fairpost.engines.exact.lattice.alone import alone
from fairpost.engines.exact.lattice.problem import Problem
from fairpost.engines.exact.lattice.release import release
from fairpost.engines.exact.simplex.moments import simplex
from fairpost.engines.exact.sums.factors import parts
from fairpost.noise import Threshold
from fairpost.rules import Simplex, SimplexThreshold
from support import mechanisms
from support.engines import enumerated, supports, within


@pytest.mark.parametrize(
    ("x", "total", "noise"),
    [
        ([0.0, 3.0], 3.0, fp.DiscreteLaplace(1.0)),
        ([0.0, 3.0], 4.5, fp.DiscreteLaplace(2.0)),
        ([1.0, 6.0], 7.0, fp.DiscreteGaussian(1.5)),
        ([2.0, 2.0], 4.0, fp.DiscreteLaplace(1.0)),
        ([0.0, 1.0, 3.0], 5.3, fp.DiscreteLaplace(0.4)),
        ([0.0, 2.0, 9.0], 11.0, fp.DiscreteGaussian(1.2)),
        ([0.0, 2.0, 9.0], 4.0, fp.DiscreteLaplace(0.4)),
    ],
)
@pytest.mark.parametrize("cells", [False, True])
def test_two_and_three_entities_are_enumerated(
    x: list[float], total: float, noise: fp.noise.Law, cells: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if cells:
        monkeypatch.setattr(lattice, "pair", lambda *_: None)
    u, times = np.unique(x, return_counts=True)
    found = simplex(u, times, noise, total)
    bias, mse, zero, lift = enumerated(np.array(x), noise, total)
    assert abs(found.threshold - lift) <= found.threshold_error + 1e-11
    place = np.searchsorted(u, x)
    assert (np.abs(found.bias[place] - bias) <= found.error[place] + 2e-13).all()
    assert (np.abs(found.mse - mse[np.searchsorted(x, u)]) <= found.mse_error + 1e-11).all()
    assert (np.abs(found.zero - zero[np.searchsorted(x, u)]) <= found.zero_error + 1e-13).all()


@pytest.mark.parametrize(
    ("x", "total", "noise", "tau"),
    [
        ([0.0, 3.0], 3.0, fp.DiscreteLaplace(1.0), 0.7),
        ([0.0, 3.0], 4.5, fp.DiscreteLaplace(2.0), 1.54),
        ([0.0, 3.0], 2.2, fp.DiscreteLaplace(1.0), 1.2),  # their difference is 1 but for rounding
        ([1.0, 6.0], 7.0, fp.DiscreteGaussian(1.5), 1.0),
        ([0.0, 1.0, 3.0], 5.3, fp.DiscreteLaplace(0.4), 0.1),
        ([0.0, 2.0, 9.0], 11.0, fp.DiscreteGaussian(1.2), 0.5),
        ([0.0, 2.0, 9.0], 4.0, fp.DiscreteLaplace(0.4), 2.3),
        ([0.0, 2.0, 2.0], 1.0, fp.DiscreteGaussian(1.2), 3.0),  # a total below the threshold
    ],
)
def test_a_ramp_among_few_is_enumerated(
    x: list[float], total: float, noise: fp.noise.Law, tau: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    for way in ("pair", "largest"):  # two entities, or a total below the threshold, need no cells
        monkeypatch.setattr(lattice, way, lambda *_: None)
    u, times = np.unique(x, return_counts=True)
    found = release(u, times, noise, total, Threshold.ramp(tau), 1e-6)
    bias, mse, zero, _ = enumerated(np.array(x), noise, total, Threshold.ramp(tau))
    at = np.searchsorted(x, u)
    assert found.nodes > 0
    assert (np.abs(found.bias - bias[at]) <= found.error + 2e-13).all()
    assert (np.abs(found.mse - mse[at]) <= found.mse_error + 1e-11).all()
    assert (np.abs(found.zero - zero[at]) <= found.zero_error + 1e-13).all()
    assert found.error.max() < 1e-12
    assert found.mse_error.max() < 1e-6


@pytest.mark.parametrize("noise", [fp.DiscreteLaplace(1.2), fp.DiscreteGaussian(1.1)])
@pytest.mark.parametrize("ramp", [None, Threshold.ramp(0.5), Threshold.ramp(1.0)])
def test_both_ways_over_the_period_agree(
    noise: fp.noise.Law, ramp: Threshold | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many entities: contours that die out. The same by whole cells, which assume nothing and leave no ripples out."""
    x, times, total = np.arange(0.0, 8.0), np.array([12, 9, 9, 8, 8, 6, 6, 6]), 250.5
    seen, few = [], lattice._few
    monkeypatch.setattr(lattice, "_few", lambda *args: seen.append(few(*args)) or seen[-1])
    monkeypatch.setattr(lattice, "RIPPLES", 1e9)
    bell = release(x, times, noise, total, ramp, 1e-6 if ramp is None else 1e-2)
    assert not seen
    monkeypatch.setattr(lattice, "reach", lambda *_: np.inf)
    whole = release(x, times, noise, total, ramp, 1e-6)
    assert seen
    assert (np.abs(bell.bias - whole.bias) <= bell.error + whole.error).all()
    assert whole.error.max() < 1e-6 * np.ptp(bell.bias)
    assert (np.abs(bell.zero - whole.zero) <= bell.zero_error + whole.zero_error).all()
    assert (np.abs(bell.mse - whole.mse) <= bell.mse_error + whole.mse_error).all()
    if ramp is None:
        assert abs(bell.threshold - whole.threshold) <= bell.threshold_error + whole.threshold_error


@pytest.mark.parametrize(
    ("counts", "noise", "total"),
    [
        (
            (13, 11, 10, 9, 10, 9, 9, 8, 8, 8, 8),
            fp.DiscreteLaplace(4.6),
            120.0,
        ),  # some hundred, few above the threshold
        ((30, 20), fp.DiscreteLaplace(0.15), 15.0),  # hardly any noise: one cell holds all of the window
        ((4, 3, 2), fp.DiscreteGaussian(0.35), 5.25),
    ],
)
def test_among_many_of_whom_few_share_the_total(counts: tuple[int, ...], noise: fp.noise.Law, total: float) -> None:
    """Refused before, for their number. Each number within its error of 10,000 simulated runs, and the rule is known to 1e-9."""
    x, times = np.arange(float(len(counts))), np.array(counts)
    found = release(x, times, noise, total, None, 1e-6)
    every = np.repeat(x, times)
    runs = 10_000
    eta = noise.sample(runs * every.size, fp.Stream(8, 0)).reshape(runs, -1)
    v = Simplex(total)(every + eta)
    away = v - every
    less = away - eta + eta.mean(axis=1, keepdims=True)  # less a control whose mean is 0
    place = np.repeat(np.arange(x.size), times)
    for values, stated in ((less, found.bias), (away**2, found.mse), (v < 1e-9, found.zero)):
        each = np.stack([values[:, place == i].mean(axis=1) for i in range(x.size)], axis=1)
        room = 5 * each.std(axis=0) / np.sqrt(runs) + 12 / runs * np.maximum(each.max(axis=0), 1.0)
        assert (np.abs(each.mean(axis=0) - stated) <= room).all()
    assert found.error.max() < 1e-9
    assert found.zero_error.max() < 1e-9


def test_the_number_kept_is_found_on_circles() -> None:
    """sum_k a_k h(k) of a polynomial from points of a circle, whatever the range begins at; and the bound on what is left out."""
    from fairpost.engines.exact.lattice.period import Circle, most, ranges

    rng = np.random.default_rng(2)
    a, h = rng.normal(size=9), rng.normal(size=9)
    for low in (0, 4):
        circle = Circle.around(np.array([low]), np.array([low + 8]))
        assert circle.size == 9
        values = sum(a[k] * circle.w ** (low + k) for k in range(9))
        assert np.sum(values * circle.weights(h.astype(complex))) == pytest.approx(a @ h, abs=1e-13)
    # of 40 events with a chance of 0.1 and of 1e-3
    from scipy.special import bdtr, bdtrc

    for chance in (0.1, 1e-3):
        part, rest = np.full((1, 1, 40), chance), np.full((1, 1, 40), 1 - chance)
        low, high = (float(v[0, 0]) for v in ranges(part, rest, np.ones(40), np.array([[12.0]])))
        below = bdtr(low - 1, 40, chance) if low > 0 else 0.0
        assert bdtrc(high, 40, chance) + below < 2 * np.exp(-12)
        assert high < 24 * chance * 10 + 8
    assert most(np.array([3.0]), np.array([3.0]), np.array([0.0]))[0] == pytest.approx(3.0, abs=1.1)


def test_bernsteins_bound_holds_where_half_are_kept() -> None:
    """Of 400 events with a chance of a half fewer and more are left out than a chance of e^-12 each; the product ends where it is dead."""
    from scipy.special import bdtr, bdtrc

    half = np.full((1, 1, 400), 0.5)
    low, high = (float(v[0, 0]) for v in period.ranges(half, half, np.ones(400), np.array([[12.0]])))
    assert bdtrc(high, 400, 0.5) < np.exp(-12)
    assert bdtr(low - 1, 400, 0.5) < np.exp(-12)
    alive = np.random.default_rng(3).normal(-1.0, 1.0, (50, period.LOOKS.size))
    for row, end in zip(alive, period.ends(alive), strict=True):
        assert end == np.pi or (row[end <= period.LOOKS] <= 0).all()


@pytest.mark.parametrize("ramp", [None, Threshold.ramp(2.0)])
@pytest.mark.parametrize(
    ("x", "times", "scale", "total"),
    [
        ([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0], [12, 9, 9, 8, 8, 6, 6, 6], 1.1, 250.5),
        ([0.0, 1.0, 2.0, 60.0], [3, 2, 1, 2], 1.0, 124.0),  # with giants
    ],
)
def test_whole_cells_leave_out_what_they_say(
    x: list[float],
    times: list[int],
    scale: float,
    total: float,
    ramp: Threshold | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A tenth of e^-safety."""
    given = np.array(x), np.array(times), fp.DiscreteGaussian(scale), total, ramp
    monkeypatch.setattr(lattice, "reach", lambda *_: np.inf)
    monkeypatch.setattr(lattice, "SAFETY", (30.0,) * 4)
    known = release(*given, 1e-6)
    monkeypatch.setattr(lattice, "SAFETY", (12.0,) * 4)
    rough = release(*given, 1e3)
    assert np.abs(rough.bias - known.bias).max() < 0.1 * np.exp(-12)
    assert np.abs(rough.zero - known.zero).max() < 0.1 * np.exp(-12)
    assert np.abs(rough.mse - known.mse).max() < np.exp(-12)


def test_cells_with_nodes_in_common_have_enough_for_each() -> None:
    rng = np.random.default_rng(4)
    tau, many, end = rng.choice([-0.5, 0.3], 40), 2 * np.ceil(rng.uniform(4, 90, 40)), rng.uniform(0.1, np.pi, 40)
    seen = []
    for here, path in cells.together(tau, many, end):
        seen += here.tolist()
        assert (tau[here] == path.tau).all()
        assert (many[here] <= path.steps).all()
        assert (end[here] <= path.s[-1].imag + 1e-12).all()
    assert sorted(seen) == list(range(40))


@pytest.mark.parametrize("ramp", [None, Threshold.ramp(0.5), Threshold.ramp(2.0)])
@pytest.mark.parametrize(("x", "total"), [([0.0, 1.0, 2.0, 40.0], 47.0), ([0.0, 2.0, 9.0], 11.0)])
def test_the_rounding_of_whole_cells_is_stated(
    x: list[float], total: float, ramp: Threshold | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rounding of 1e-9 in the place of 2e-16, put into every product: no deficit is off by more than is said, nor by far less."""
    given = np.array(x), np.ones(len(x), dtype=np.int64), fp.DiscreteLaplace(0.6), total, ramp
    seen, few, real, rng = [], lattice._few, period.whole, np.random.default_rng(0)
    monkeypatch.setattr(lattice, "_few", lambda *args: seen.append(few(*args)) or seen[-1])
    release(*given, 1e-6)
    known = seen[-1]
    for module in (cells, ramps):
        monkeypatch.setattr(module, "EPS", 1e-9)
    monkeypatch.setattr(
        period, "whole", lambda *args: (v := real(*args)) * (1 + 1e-9 * rng.choice([-1.0, 1.0], v.shape))
    )
    found = release(*given, 1e3)
    away = np.abs(seen[-1].deficit - known.deficit).max()
    assert 1e-12 < away <= seen[-1].left[0] < 1e4 * away
    assert (found.error >= seen[-1].left[0]).all()


def test_ripples_give_way_to_whole_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few enough that contours leave ripples of 4e-4 out: refused for them before. They are within them of what has none."""
    x, times, ramp = np.arange(0.0, 8.0), np.array([8, 6, 6, 5, 5, 4, 4, 4]), Threshold.ramp(1.0)
    given = x, times, fp.DiscreteGaussian(1.1), 120.5, ramp
    found = release(*given, 1e-6)
    assert found.error.max() < 1e-9
    monkeypatch.setattr(lattice, "RIPPLES", 1e9)
    rough = release(*given, 1e-2)
    assert 1e-5 < rough.error.max() < 1e-3
    assert (np.abs(rough.bias - found.bias) <= rough.error).all()
    assert (np.abs(rough.mse - found.mse) <= rough.mse_error).all()
    assert np.abs(rough.mse - found.mse).max() > 1e-8  # (which the refinement of contours does not see)


@pytest.mark.parametrize(("scale", "alpha"), [(1.0, 0.428835), (2.0, 0.967152), (4.0, 2.003236), (10.0, 5.128703)])
def test_school_districts(scale: float, alpha: float) -> None:
    """The figures of the two-dimensional lattice sum, which was computed apart; the last digit is theirs."""
    counts = mechanisms.saipe()
    x, times = np.unique(counts.values, return_counts=True)
    found = simplex(x, times, fp.DiscreteLaplace(scale), float(counts.values.sum()))
    assert np.ptp(found.bias) == pytest.approx(alpha, abs=6e-7)
    assert found.error.max() < 1e-6 * alpha


def test_a_large_scale_tends_to_continuous_noise() -> None:
    """School districts at b = 100: inside 60.83 +- 0.07 (simulated), and within 1/(6 b^2) of the continuous value."""
    counts = mechanisms.saipe()
    x, times = np.unique(counts.values, return_counts=True)
    total = float(counts.values.sum())
    found = np.ptp(simplex(x, times, fp.DiscreteLaplace(100.0), total).bias)
    assert abs(found - 60.83) < 0.07
    assert found == pytest.approx(np.ptp(simplex(x, times, fp.Laplace(100.0), total).bias), rel=1 / 6e4)


@pytest.mark.parametrize(
    "noise",
    [fp.Laplace(1.0), fp.Gaussian(1.0), fp.DiscreteLaplace(1.7), fp.DiscreteGaussian(2.3)],
    ids=lambda m: m.name,
)
def test_partial_transforms(noise: fp.noise.Law) -> None:
    """below, kept and first against sums or integrals of the law itself."""
    s = np.array([0.2 + 0.9j, -0.3 + 2.0j, 0.4 + 0.0j])
    fine = np.arange(-400.0, 401.0) if noise.discrete else np.linspace(-60, 60, 240_001)
    for c in (-7.0, -1.0, 0.0, 1.0, 6.0):
        p = parts(noise, np.array([c]), s)
        weight = noise.density(fine) * (1.0 if noise.discrete else fine[1] - fine[0])
        above = fine > c
        shift = np.exp(-s * max(-c, 0.0))
        kept = np.array([np.sum(weight[above] * np.exp(v * (fine[above] - c))) for v in s])
        first = np.array([np.sum(weight[above] * (fine[above] - c) * np.exp(v * (fine[above] - c))) for v in s])
        # the sum over a grid of spacing 5e-4 is off by half a cell at the cut and its square elsewhere
        tolerance = 1e-12 if noise.discrete else 3e-4
        np.testing.assert_allclose(p.kept, kept * shift, atol=tolerance * np.abs(kept * shift).max() * 10)
        np.testing.assert_allclose(p.first, first * shift, atol=tolerance * np.abs(first * shift).max() * 10)
        np.testing.assert_allclose(p.below, noise.cdf(c) * shift, rtol=1e-12)


@pytest.mark.parametrize("noise", [fp.DiscreteLaplace(1.0), fp.DiscreteLaplace(4.0), fp.DiscreteGaussian(3.0)], ids=str)
@pytest.mark.parametrize("threshold", [False, True])
def test_simulation_agrees(noise: fp.noise.Law, threshold: bool) -> None:
    rng = np.random.default_rng(5)
    counts = fp.Counts(np.round(rng.lognormal(1.5, 1.2, 300)))
    total = float(counts.values.sum()) + 7.25
    pi = SimplexThreshold(total) if threshold else Simplex(total)
    within(Exact(rtol=1e-3), counts, noise, pi, 20_000, 11)


@pytest.mark.parametrize(
    "noise", [fp.DiscreteLaplace(1.0), fp.DiscreteLaplace(10.0), fp.DiscreteGaussian(8.0)], ids=str
)
def test_the_ramp_on_school_districts_against_the_expansion(noise: fp.noise.Law) -> None:
    """Two ways to one number, which share no code but the ramp itself."""
    counts = mechanisms.saipe()
    x, back, times = np.unique(counts.values, return_inverse=True, return_counts=True)
    exact = release(x, times, noise, float(counts.values.sum()), noise.best_threshold(), 1e-6).at(back)
    rough = fp.audit(counts, noise, "simplex-threshold", engine="expansion")
    assert (np.abs(exact.bias - rough.bias) <= exact.error + rough.half_width).all()
    assert rough.half_width.max() < 2e-3 * np.ptp(rough.bias)
    np.testing.assert_allclose(exact.mse, rough.mse, rtol=2e-3)


def test_what_has_no_lattice_is_refused_by_name() -> None:
    counts = fp.Counts([0.5, 3.0, 4.0])
    assert "whole counts only, got the count 0.5" in supports(Exact(), counts, fp.DiscreteLaplace(1.0), Simplex(7.5))
    whole = fp.Counts([0.0, 3.0, 4.0])
    jump = SimplexThreshold(7.0, threshold=Threshold(2.0))
    assert "ramp of width 1 only" in supports(Exact(), whole, fp.DiscreteLaplace(1.0), jump)
    ramp = SimplexThreshold(7.0, threshold=Threshold.ramp(2.0))
    assert "covers a jump only" in supports(Exact(), whole, fp.Laplace(1.0), ramp)
    with pytest.raises(errors.ToleranceError, match="too long"):
        release(np.arange(40.0), np.ones(40, dtype=np.int64), fp.DiscreteLaplace(20.0), 780.0, None, 1e-6)


@pytest.mark.parametrize("noise", [fp.DiscreteLaplace(1.5), fp.DiscreteGaussian(2.0)], ids=lambda n: n.name)
@pytest.mark.parametrize(
    ("x", "times", "total"), [([0.0, 3.0, 150.0], [2, 1, 1], 5.0), ([0.0, 40.0, 190.0], [1, 1, 1], 7.0)]
)
def test_one_count_far_above_all_others_takes_the_total(monkeypatch, noise, x, times, total):
    """Without the integral, and as the integral has it; with a threshold, where there is none, as the rule itself has it."""
    given = np.array(x), np.array(times), noise, total
    found = lattice.release(*given, None, 1e-6)
    assert found.nodes == 0
    kept = lattice.release(*given, Threshold.ramp(2.0), 1e-6)
    assert (kept.threshold, kept.bias.tolist()) == (None, found.bias.tolist())
    rows = np.repeat(x, times) + noise.sample(400 * sum(times), fp.Stream(3, 0)).reshape(400, -1)
    v = SimplexThreshold(total, threshold=Threshold.ramp(2.0))(rows)
    assert v[:, -1] == pytest.approx(total, rel=1e-12)
    assert np.all(v[:, :-1] == 0)
    monkeypatch.setattr(lattice, "alone", lambda problem: None)
    known = lattice.release(*given, None, 1e-6)
    assert known.nodes > 0
    assert found.bias == pytest.approx(np.array([0.0, 0.0, total]) - x, abs=1e-12)
    for name, room in (("bias", 1e-11), ("mse", 1e-8), ("zero", 1e-12)):
        assert getattr(found, name) == pytest.approx(getattr(known, name), abs=room)
    assert found.threshold == pytest.approx(known.threshold, abs=1e-10)
    assert found.threshold_error < 1e-10


def test_who_is_not_alone_is_left_to_the_integral():
    """Two largest counts, a gap within the total, a gap that noise may close: 2 n P(eta > half the gap) is 4e-9 there."""
    noise = fp.DiscreteLaplace(1.0)
    for x, times, total in (([0.0, 150.0], [1, 2], 5.0), ([0.0, 150.0], [1, 1], 150.0), ([0.0, 50.0], [1, 1], 5.0)):
        assert alone(Problem(noise, np.array(x), np.array(times, dtype=float), total, None)) is None
    found = alone(Problem(noise, np.array([0.0, 120.0]), np.ones(2), 5.0, None))
    assert found is not None
    assert 0 < found.zero_error[0] < 1e-18


def test_a_giant_and_a_total_far_below_it():
    """Refused before: the window of the shift was sought where floats have no digits left."""
    x = np.append(np.arange(20.0), 2.4e8)
    found = fp.audit(fp.Counts(x), fp.DiscreteLaplace(0.15), "simplex", engine=fp.Exact(), total=7.2e7)
    assert found.bias[-1] == pytest.approx(7.2e7 - 2.4e8, rel=1e-12)
    assert found.bias[:-1] == pytest.approx(-x[:-1], abs=1e-12)
