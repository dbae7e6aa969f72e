"""pi_S+ and simplex-threshold under whole-number noise, exactly: enumeration, identities, the published figures, simulation."""

from __future__ import annotations

import numpy as np
import pytest

import cases
import fairpost as fp
from asking import answer, supports
from fairpost import errors
from fairpost.engines import Exact, MonteCarlo
from fairpost.engines.exact.lattice import release as lattice
from fairpost.engines.exact.lattice.alone import alone
from fairpost.engines.exact.lattice.problem import Problem
from fairpost.engines.exact.lattice.release import release
from fairpost.engines.exact.simplex.moments import simplex
from fairpost.engines.exact.sums.factors import parts
from fairpost.engines.expansion.threshold import simplex_threshold as expanded
from fairpost.noise import Threshold
from fairpost.rules import Simplex, SimplexThreshold


def enumerated(x: np.ndarray, noise: fp.noise.Law, total: float) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Bias, mean squared error, P(v = 0) and E[T] from every noise vector with a mass above 1e-19 (what is left out sums to below 1e-13)."""
    reach = int(42 * noise.spread + 2) if np.isfinite(noise.strip) else int(9.5 * noise.spread + 2)
    k = np.arange(-reach, reach + 1.0)
    mass = noise.density(k)
    grid = np.stack([g.ravel() for g in np.meshgrid(*[k] * x.size, indexing="ij")], axis=1)
    weight = np.prod(np.stack([m.ravel() for m in np.meshgrid(*[mass] * x.size, indexing="ij")]), axis=0)
    likely = weight > 1e-19
    v, weight = Simplex(total)(x + grid[likely]), weight[likely]
    y = x + grid[likely] + (total - np.sum(x + grid[likely], axis=1, keepdims=True)) / x.size
    lift = np.max(y - v, axis=1)  # v = (y - T)_+: T where v > 0, and at most T elsewhere
    return weight @ (v - x), weight @ (v - x) ** 2, weight @ (v < 1e-9), float(weight @ lift)


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
def test_two_and_three_entities_are_enumerated(x: list[float], total: float, noise: fp.noise.Law) -> None:
    u, times = np.unique(x, return_counts=True)
    found = simplex(u, times, noise, total)
    bias, mse, zero, lift = enumerated(np.array(x), noise, total)
    assert abs(found.threshold - lift) <= found.threshold_error + 1e-11
    place = np.searchsorted(u, x)
    assert (np.abs(found.bias[place] - bias) <= found.error[place] + 2e-13).all()
    assert (np.abs(found.mse - mse[np.searchsorted(x, u)]) <= found.mse_error + 1e-11).all()
    assert (np.abs(found.zero - zero[np.searchsorted(x, u)]) <= found.zero_error + 1e-13).all()


@pytest.mark.parametrize("noise", [fp.DiscreteLaplace(0.6), fp.DiscreteGaussian(1.1)])
def test_both_ways_over_the_period_agree(noise: fp.noise.Law, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many entities: contours that die out. The same by polynomials over the whole period, which assume nothing."""
    from fairpost.engines.exact.lattice import release as module

    x, times = np.arange(0.0, 8.0), np.array([8, 6, 6, 5, 5, 4, 4, 4])
    bell = release(x, times, noise, 120.5, None, 1e-6)
    monkeypatch.setattr(module, "reach", lambda *_: np.inf)
    whole = release(x, times, noise, 120.5, None, 1e-6)
    assert (np.abs(bell.bias - whole.bias) <= bell.error + whole.error).all()
    assert bell.error.max() < 1e-6 * np.ptp(bell.bias)
    assert (np.abs(bell.zero - whole.zero) <= bell.zero_error + whole.zero_error).all()
    assert (np.abs(bell.mse - whole.mse) <= bell.mse_error + whole.mse_error).all()
    assert abs(bell.threshold - whole.threshold) <= bell.threshold_error + whole.threshold_error


@pytest.mark.parametrize(("scale", "alpha"), [(1.0, 0.428835), (2.0, 0.967152), (4.0, 2.003236), (10.0, 5.128703)])
def test_school_districts(scale: float, alpha: float) -> None:
    """The figures of the two-dimensional lattice sum, which was computed apart; the last digit is theirs."""
    counts = cases.saipe()
    x, times = np.unique(counts.values, return_counts=True)
    found = simplex(x, times, fp.DiscreteLaplace(scale), float(counts.values.sum()))
    assert np.ptp(found.bias) == pytest.approx(alpha, abs=6e-7)
    assert found.error.max() < 1e-6 * alpha


def test_a_large_scale_tends_to_continuous_noise() -> None:
    """School districts at b = 100: inside 60.83 +- 0.07 (simulated), and within 1/(6 b^2) of the continuous value."""
    counts = cases.saipe()
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


def within(engine: Exact, counts: fp.Counts, noise: fp.noise.Law, pi: object, runs: int, seed: int) -> None:
    """Bias within the simulation's simultaneous interval (99 %); spread and chance within six standard errors."""
    exact = answer(engine, counts, noise, pi)
    drawn = answer(MonteCarlo(runs=runs, seed=seed), counts, noise, pi)
    assert (np.abs(exact.bias - drawn.bias) <= exact.accuracy.half_width + drawn.accuracy.half_width).all()
    deviation = np.sqrt(exact.zero * (1 - exact.zero) / runs)
    assert (np.abs(exact.zero - drawn.zero) <= exact.zero_accuracy.half_width + 6 * deviation + 10 / runs).all()
    # squares of Laplace noise have a relative standard deviation of sqrt 5
    assert (np.abs(exact.mse - drawn.mse) <= exact.mse_accuracy.half_width + 6 * exact.mse * np.sqrt(6 / runs)).all()


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
    counts = cases.saipe()
    x, times = np.unique(counts.values, return_counts=True)
    total, rule = float(counts.values.sum()), noise.best_threshold()
    exact, rough = release(x, times, noise, total, rule, 1e-6), expanded(x, times, noise, total, rule)
    assert (np.abs(exact.bias - rough.bias) <= exact.error + rough.error).all()
    assert rough.error.max() < 2e-3 * np.ptp(rough.bias)
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
