"""Releases of few entities under whole-number noise: a total that the largest take, many cells, and what is known of their work."""

from __future__ import annotations

import time

import numpy as np
import pytest

import fairpost as fp
from fairpost.engines.exact.lattice import cells, largest
from fairpost.engines.exact.lattice import release as lattice
from fairpost.engines.exact.lattice.problem import Problem
from fairpost.engines.exact.simplex.moments import simplex
from fairpost.engines.exact.threshold.moments import simplex_threshold
from fairpost.errors import ToleranceError
from fairpost.noise import DiscreteGaussian, DiscreteLaplace, Laplace, Threshold
from support.engines import enumerated

TOPS = [
    ([0.0, 2.0, 2.0], 1.0, DiscreteGaussian(1.2), 3.0),
    ([0.0, 1.0, 3.0], 1.4, DiscreteLaplace(0.4), 0.4),
    ([0.0, 0.0, 0.0], 0.7, DiscreteLaplace(0.5), 0.3),
]


@pytest.mark.parametrize(("x", "total", "noise", "tau"), TOPS)
def test_the_largest_share_a_small_total(x: list[float], total: float, noise: fp.noise.Law, tau: float) -> None:
    """Against every vector of noises."""
    u, times = np.unique(x, return_counts=True)
    found = largest.largest(Problem(noise, u, times * 1.0, total, Threshold.ramp(tau)), 1e-6)
    assert found is not None
    bias, mse, zero, _ = enumerated(np.array(x), noise, total, Threshold.ramp(tau))
    at = np.searchsorted(x, u)
    assert np.all(np.abs(found.bias - bias[at]) <= found.error + 1e-12)
    assert np.all(np.abs(found.mse - mse[at]) <= found.mse_error + 1e-11)
    assert np.all(np.abs(found.zero - zero[at]) <= found.zero_error + 1e-12)
    assert np.all(found.error < 1e-12)


@pytest.mark.parametrize("noise", [DiscreteLaplace(0.3), DiscreteLaplace(0.8), DiscreteGaussian(1.3)])
def test_the_largest_of_many(noise: fp.noise.Law, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against whole cells: 136 entities, more than the nodes of u are exact for, and many of them at the top (the first noise)."""
    x, times, tau = np.array([0.0, 1.0, 2.0, 7.0]), np.array([80, 40, 15, 1]), noise.best_threshold().level
    found = lattice.release(x, times, noise, 0.9, Threshold.ramp(tau), 1e-6)
    monkeypatch.setattr(lattice, "largest", lambda *_: None)
    other = lattice.release(x, times, noise, 0.9, Threshold.ramp(tau), 1e-6)
    assert found.nodes == 0 < other.nodes
    for value, error in (("bias", "error"), ("mse", "mse_error"), ("zero", "zero_error")):
        gap = np.abs(getattr(found, value) - getattr(other, value))
        assert np.all(gap <= getattr(found, error) + getattr(other, error))


def test_what_the_rule_of_u_misses_is_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two nodes cannot integrate a polynomial of the degree 199: the sum of all shares says so."""
    x, times = np.array([0.0, 1.0]), np.array([100, 100])
    problem = Problem(DiscreteLaplace(0.3), x, times * 1.0, 0.9, Threshold.ramp(0.2))
    right = largest.largest(problem, 1e-6)
    assert right is not None
    monkeypatch.setattr(largest, "ORDERS", (2, 3))
    assert largest.largest(problem, 1e-6) is None
    rough = largest.largest(problem, 1e9)
    assert rough is not None
    for value, error in (("bias", "error"), ("mse", "mse_error")):
        gap = np.abs(getattr(rough, value) - getattr(right, value))
        assert np.max(gap) > 1e-6
        assert np.all(gap <= getattr(rough, error))


def test_when_more_than_the_largest_share() -> None:
    """No threshold, a total above it, and more values than can be listed."""
    x, times = np.array([0.0, 1.0]), np.array([2.0, 1.0])
    assert largest.largest(Problem(DiscreteLaplace(1.0), x, times, 0.9, None), 1e-6) is None
    assert largest.largest(Problem(DiscreteLaplace(1.0), x, times, 1.21, Threshold.ramp(0.2)), 1e-6) is None
    assert largest.largest(Problem(DiscreteLaplace(1.0), x, times, 1.19, Threshold.ramp(0.2)), 1e-6) is not None
    assert largest.largest(Problem(DiscreteLaplace(1e6), x, times, 1.0, Threshold.ramp(9e5)), 1e-6) is None
    assert largest.largest(Problem(DiscreteLaplace(1.0), x, times, 0.9, Threshold.ramp(0.2)), 1e-20) is None


def test_equal_counts_share_by_symmetry() -> None:
    found = largest.largest(
        Problem(DiscreteLaplace(3.0), np.array([4.0]), np.array([6.0]), 2.0, Threshold.ramp(3.0)), 1e-6
    )
    assert found is not None
    assert found.bias == pytest.approx([2.0 / 6 - 4.0], abs=1e-15)


def test_hundreds_of_cells_of_discrete_gaussian_noise() -> None:
    """Six counts that share a large total: contours would have ripples, whole cells have none; beside it continuous noise."""
    x = fp.Counts([6.0, 21.0, 32.0, 40.0, 79.0, 167.0])
    exact = fp.audit(x, DiscreteGaussian(54.2437), "simplex-threshold", engine="exact", total=1725.0)
    every = x.values, np.ones(6, np.int64), fp.Gaussian(54.2437), 1725.0
    near = simplex_threshold(*every, Threshold(DiscreteGaussian(54.2437).best_threshold().level + 0.5))
    assert np.all(np.abs(exact.bias - near.bias) < 2e-2 * exact.alpha.value)
    assert exact.accuracy.half_width.max() < 1e-6 * exact.alpha.value


@pytest.mark.parametrize("b", [3.0, 9.0])
def test_later_levels_are_affordable_where_the_first_one_is(b: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work grows with the safety by no more than the limits do."""
    took: list[tuple[float, float]] = []
    real = cells.affordable

    def seen(name, e, chunks, safety):
        took.append((safety, sum((c.m.size * e.y.size + c.fixed) * c.path.size * c.points for c in chunks)))
        return real(name, e, chunks, safety)

    monkeypatch.setattr(cells, "affordable", seen)
    lattice.release(np.array([0.0, 1.0, 5.0]), np.array([2, 2, 1]), DiscreteLaplace(b), 9.0, None, 1e-6)
    first = took[0]
    assert len(took) > 1
    assert all(work <= 1.1 * first[1] * (safety / first[0]) ** cells.GROWTH for safety, work in took)


def test_too_many_cells_are_refused_at_once() -> None:
    """Before the first of them is summed."""
    begun = time.process_time()
    with pytest.raises(ToleranceError, match="which would take too long"):
        lattice.release(
            np.array([8.0, 10.0, 14.0, 22.0, 81.0]), np.ones(5, np.int64), DiscreteLaplace(23.3), 162.0, Threshold.ramp(22.8), 1e-6
        )  # fmt: skip
    assert time.process_time() - begun < 1.0


def test_eight_entities_and_a_small_total() -> None:
    """Laplace noise: two ways to E[T] agree where contours decay slowly."""
    x, times = np.array([0.0, 13.0, 20.0, 22.0, 24.0, 30.0, 70.0]), np.array([1, 2, 1, 1, 1, 1, 1])
    found = simplex(x, times, Laplace(1e4), 57.0, 1e-4)
    assert float(times @ found.bias) == pytest.approx(57.0 - float(times @ x), abs=1e-6)
    assert np.all(np.diff(found.bias) < 0)
    assert np.ptp(found.bias) < 70.0
    assert np.all(found.error < 1e-5)
