"""Whole-number releases at the ends of the range: a noise next to none, two entities, counts of a thousand million, cuts far above a count."""

from __future__ import annotations

import math

import numpy as np
import pytest

import fairpost as fp
from fairpost.engines.exact.lattice import pair as two
from fairpost.engines.exact.lattice import ramps, sparse
from fairpost.engines.exact.lattice import release as lattice
from fairpost.engines.exact.lattice.problem import Problem
from fairpost.engines.exact.lattice.release import release
from fairpost.engines.exact.sums.factors import parts
from fairpost.engines.exact.sums.window import Family, find_window
from fairpost.noise import DiscreteGaussian, DiscreteLaplace, Threshold
from fairpost.rules import Simplex, SimplexThreshold


def problem(x, noise, total, tau=None) -> Problem:
    u, times = np.unique(np.asarray(x, dtype=np.float64), return_counts=True)
    return Problem(noise, u, times.astype(np.float64), total, None if tau is None else Threshold.ramp(tau))


def listed(p: Problem, reach: int) -> tuple[np.ndarray, ...]:
    """Bias, mean squared error and P(v = 0) from every noise vector: differences from v without noise, so that rare ones keep their digits."""
    x = np.repeat(p.x, p.times.astype(int))
    k = np.arange(-reach, reach + 1.0)
    grid = np.stack([g.ravel() for g in np.meshgrid(*[k] * x.size, indexing="ij")], axis=1)
    mass = np.prod(np.asarray(p.noise.density(grid)), axis=1)
    rule = Simplex(p.total) if p.rule is None else SimplexThreshold(p.total, threshold=p.rule)
    still, v = rule(x[None])[0], rule(x + grid)
    away = still - x
    zero = (still < 1e-9) + mass @ ((v < 1e-9) * 1.0 - (still < 1e-9))
    found = away + mass @ (v - still), away**2 + mass @ ((v - x) ** 2 - away**2), zero
    at = np.searchsorted(x, p.x)
    return tuple(values[at] for values in found)


def lifted(p: Problem, reach: int) -> float:
    """E[T] of Lemma 2: y - v where v > 0."""
    x = np.repeat(p.x, p.times.astype(int))
    k = np.arange(-reach, reach + 1.0)
    grid = np.stack([g.ravel() for g in np.meshgrid(*[k] * x.size, indexing="ij")], axis=1)
    mass = np.prod(np.asarray(p.noise.density(grid)), axis=1)
    y = x + grid + (p.total - np.sum(x + grid, axis=1, keepdims=True)) / x.size
    return float(mass @ np.max(y - Simplex(p.total)(x + grid), axis=1))


@pytest.mark.parametrize(
    ("x", "total", "tau"),
    [
        ([0, 1, 4], 5.0, None),
        ([0, 0, 3], 3.0, None),
        ([0, 2, 3], 3.5, None),
        ([1, 1, 4], 6.0, 0.3),
        ([0, 2, 5], 5.0, 0.3),
        ([1, 2, 2], 9.0, 0.1),
    ],
)
@pytest.mark.parametrize("noise", [DiscreteGaussian(0.11), DiscreteLaplace(0.02)])
def test_a_noise_next_to_none_is_listed_one_at_a_time(x, total, tau, noise) -> None:
    p = problem(x, noise, total, tau)
    found = sparse.sparse(p, 1e-6)
    bias, mse, zero = listed(p, 2)
    assert (np.abs(found.bias - bias) <= found.error + 1e-15 * np.abs(bias)).all()
    assert (np.abs(found.mse - mse) <= found.mse_error + 1e-12 * mse).all()
    assert (np.abs(found.zero - zero) <= found.zero_error).all()
    if total == sum(x) and min(x) == 0:  # nothing but the noise makes a bias
        assert 0 < np.ptp(found.bias) < 1e-15
        assert 2 * found.error.max() < 1e-6 * np.ptp(found.bias)
    if tau is None:
        lift = lifted(p, 2)
        assert abs(found.threshold - lift) <= found.threshold_error + 1e-15 * (1 + lift)


@pytest.mark.parametrize("tau", [None, 0.3])
def test_two_noises_and_far_ones_are_in_the_error(monkeypatch, tau) -> None:
    """A noise that is not next to none: what the list misses is in the error, of the biases, the squares and the chances."""
    monkeypatch.setattr(sparse, "RARE", 1.0)
    p = problem([0, 1, 4], DiscreteLaplace(0.3), 5.0, tau)
    known = listed(p, 14)
    for beyond, part in ((1e-25, 3e-3), (1.0, 1e-3)):  # all that one noise can be; one step of it alone
        monkeypatch.setattr(sparse, "BEYOND", beyond)
        found = sparse.sparse(p, 1e9)
        errors = (found.error, found.mse_error, found.zero_error)
        for values, error, true in zip((found.bias, found.mse, found.zero), errors, known, strict=True):
            assert (np.abs(values - true) <= error).all()
        assert np.max(np.abs(found.bias - known[0])) > part * found.error.max()
        assert sparse.sparse(p, 1e-6) is None  # the tolerance is missed


def test_what_is_too_much_for_the_list_is_left_to_others() -> None:
    assert sparse.sparse(problem(np.arange(9000.0), DiscreteGaussian(0.05), 5e6), 1e-6) is None
    assert sparse.sparse(problem([0, 1], DiscreteLaplace(1.0), 1.0), 1e-6) is None


@pytest.mark.parametrize("tau", [None, 0.7, 2.0])
@pytest.mark.parametrize("noise", [DiscreteLaplace(1.3), DiscreteGaussian(1.6)])
@pytest.mark.parametrize(("x", "total"), [([0, 3], 3.0), ([2, 2], 4.0), ([0, 3], 1.5), ([1, 9], 12.2), ([5, 6], 0.7)])
def test_two_entities_are_summed_over_their_difference(x, total, noise, tau) -> None:
    p = problem(x, noise, total, tau)
    found = two.pair(p, 1e-6)
    bias, mse, zero = listed(p, 60 if noise.name == "discrete-laplace" else 14)
    assert (np.abs(found.bias - bias) <= found.error + 1e-13).all()
    assert (np.abs(found.mse - mse) <= found.mse_error + 1e-12).all()
    assert (np.abs(found.zero - zero) <= found.zero_error + 1e-13).all()


@pytest.mark.parametrize("noise", [DiscreteLaplace(7.0), DiscreteGaussian(9.0), DiscreteGaussian(0.4)])
def test_the_difference_of_two_noises(noise) -> None:
    k = np.arange(-400.0, 401.0)
    mass = np.asarray(noise.density(k))
    d = np.array([0.0, 1.0, 2.0, 7.0, -12.0, 31.0])
    known = [float(mass @ np.asarray(noise.density(k - v))) for v in d]
    assert two.masses(problem([0, 1], noise, 1.0), d) == pytest.approx(known, rel=1e-12)


def test_two_entities_far_from_the_cut_keep_their_digits() -> None:
    """P(D) beyond the cut falls by the same factor with every step: alpha does too, but for a factor in |d|."""
    noise, small = DiscreteLaplace(3.0), []
    for low in (200.0, 230.0):
        found = two.pair(problem([low, 1000.0], noise, low + 1000.0), 1e-6)
        assert 2 * found.error.max() < 1e-9 * np.ptp(found.bias)
        small.append(float(np.ptp(found.bias)))
    assert small[1] / small[0] == pytest.approx(math.exp(-20.0) * 460 / 400, rel=0.02)
    assert small[1] < 1e-50
    assert two.pair(problem([0, 1, 2], noise, 3.0), 1e-6) is None


@pytest.mark.parametrize("noise", [DiscreteLaplace(1.7), DiscreteGaussian(1.2)])
@pytest.mark.parametrize("tau", [None, 0.8])
def test_a_giant_is_a_count_that_is_never_cut(noise, tau) -> None:
    """Whether it is 900 or 9e8: tilted by itself the second is no number, and its multiples of the threshold would round."""
    found = []
    for giant in (900.0, 9e8):
        x, times = np.array([0.0, 2.0, 3.0, giant]), np.array([2, 1, 1, 1])
        found.append(release(x, times, noise, float(x @ times), None if tau is None else Threshold.ramp(tau), 1e-6))
    small, large = found
    assert (np.abs(small.bias - large.bias) <= small.error + large.error).all()
    assert large.error.max() < 1e-8
    assert (np.abs(small.zero - large.zero) <= small.zero_error + large.zero_error).all()
    assert (np.abs(small.mse - large.mse)[:3] <= (small.mse_error + large.mse_error)[:3]).all()


def test_a_window_of_giants_and_of_next_to_no_noise() -> None:
    for x, noise in (([0.0, 3.0, 8e8], DiscreteGaussian(6.0)), ([0.0, 3.0, 40.0], DiscreteGaussian(0.15))):
        p = problem(x, noise, float(np.sum(x)))
        win = find_window(Family(noise, p.x, p.times, p.surplus, p.places))
        assert np.isfinite(win.marks).all()
        assert win.low < 0 < win.high
        assert win.scale > 0.1  # a whole number moves the root by a third at the least


def test_beyond_its_reach_nothing_is_kept() -> None:
    found = parts(DiscreteGaussian(0.4), np.array([[300.0, 2.0]]), np.array([[-20.0]]))
    assert np.isfinite(found.kept).all()
    assert found.kept[0, 0] == 0
    assert found.first[0, 0] == 0


def test_only_the_fraction_of_the_total_matters_beside_the_threshold() -> None:
    ramp = ramps.Ramp.of(0.37, 7e8 + 0.25)
    assert ramp.total == 0.25
    s, a, j = np.array([[[0.3 + 1j]]]), np.array([[4.0]]), np.array([1.0])
    for ours, plain in zip(
        ramps._ratios(s, a, j, ramp, 0.0), ramps._ratios(s, a, j, ramps.Ramp(0.37, 7.25), 0.0), strict=True
    ):
        assert ours == pytest.approx(plain, rel=1e-13)


def test_ripples_that_are_too_large_are_seen_at_once(monkeypatch) -> None:
    """They are the same at every level: the first one says so."""
    seen, level = [], lattice._level
    monkeypatch.setattr(lattice, "_level", lambda *given: seen.append(level(*given)) or seen[-1])
    monkeypatch.setattr(lattice, "_few", lambda *_: (_ for _ in ()).throw(fp.ToleranceError("not here")))
    x, times = np.arange(0.0, 8.0), np.array([12, 9, 9, 8, 8, 6, 6, 6])
    with pytest.raises(fp.ToleranceError, match="is known to"):
        release(x, times, DiscreteLaplace(1.2), 250.5, Threshold.ramp(0.5), 1e-12)
    assert len(seen) == 1


def test_too_many_shifts_are_refused_before_the_work(monkeypatch) -> None:
    monkeypatch.setattr(lattice, "SHIFTS", 100)
    monkeypatch.setattr(lattice, "invert", None)
    x, times = np.arange(0.0, 8.0), np.array([12, 9, 9, 8, 8, 6, 6, 6])
    with pytest.raises(fp.ToleranceError, match="too long"):
        release(x, times, DiscreteLaplace(1.2), 250.0, None, 1e-6)
