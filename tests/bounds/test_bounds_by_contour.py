"""One entry of pi_S under whole-number noise by one contour: convolved masses, the normal tail, and where it steps back."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import fairpost as fp
from fairpost.bounds import sum_lattice, sum_law


@cache
def masses(n: int, noise: fp.noise.Law) -> tuple[np.ndarray, np.ndarray]:
    """The values of n nu = (n - 1) eta_i - (the others) and their masses: positive terms only."""
    reach = int((40 if np.isfinite(noise.strip) else 10) * noise.spread)
    mass = np.asarray(noise.density(np.arange(-reach, reach + 1.0)))
    others = np.ones(1)
    for _ in range(n - 1):
        others = np.convolve(others, mass)
    found = np.zeros(others.size + 2 * reach * (n - 1))
    for j, p in enumerate(mass):  # the masses are symmetric, so minus the others is plus the others
        found[j * (n - 1) : j * (n - 1) + others.size] += p * others
    return np.arange(found.size) - found.size // 2, found


def convolved(u: float, n: int, noise: fp.noise.Law, k: int) -> float:
    """E[(u + nu)_-^k], or P(u + nu = 0) for k = -1: by symmetry y < 0 is as likely as n nu > n u."""
    at, mass = masses(n, noise)
    over = np.round((at - n * u) * 1e9) / 1e9
    total = float(np.sum(mass * (over == 0 if k < 0 else (over > 0) * np.maximum(over, 0.0) ** k)))
    return total / n ** max(k, 0)


@pytest.mark.parametrize(
    ("noise", "n"), [(fp.DiscreteLaplace(25.0), 16), (fp.DiscreteGaussian(9.0), 2), (fp.DiscreteGaussian(12.0), 5)]
)
@pytest.mark.parametrize("k", [-1, 0, 1, 2])
def test_convolved_masses(noise: fp.noise.Law, n: int, k: int) -> None:
    u = np.array([0.0, 1 / n, 7.0 + 1 / (2 * n), 25.0, 60.0])
    found = sum_law.whole_tail(u, n, noise, k)
    assert found is not None
    for one, value in zip(u, found, strict=True):
        known = convolved(float(one), n, noise, k)
        # wrap-around and copies below e^-38, sums of some 1e4 rounded terms on either side; 1e-20 is left out by the tables
        assert abs(value - known) <= 1e-12 * known + 1e-20, (one, value, known)


def test_the_far_tail_of_a_normal_sum() -> None:
    """For sigma >= 2 the masses of n nu are normal to e^{-2 pi^2 sigma^2}: their own sum, 28 deviations out."""
    noise, n, u = fp.DiscreteGaussian(70.0), 50, 2000.0
    spread = 70.0 * np.sqrt(n * (n - 1))
    m = np.arange(n * u + 1, n * u + 60 * spread / 28)
    log = -((m / spread) ** 2) / 2 - np.log(spread * np.sqrt(2 * np.pi))
    top = log.max()
    for k in (0, 1):
        known = top + np.log(np.sum(np.exp(log - top) * ((m - n * u) / n) ** k))
        found = sum_law.clipped(np.array([u]), n, noise, k)[0]
        assert np.log(found) == pytest.approx(known, abs=1e-9)  # 28^2/2 times the rounding of u, and of 1e6 terms


def test_it_agrees_with_the_tables_where_both_serve() -> None:
    u = np.array([0.0, 3.0, 40.0, 200.0])
    for noise, n in ((fp.DiscreteLaplace(40.0), 50), (fp.DiscreteGaussian(40.0), 7)):
        for k in (0, 1, 2):
            found = sum_law.whole_tail(u, n, noise, k)
            assert found is not None
            assert found == pytest.approx(sum_lattice.tail_of_entry(u, n, noise, k), rel=1e-10)


@pytest.mark.parametrize("noise", [fp.DiscreteGaussian(1e4), fp.DiscreteLaplace(1e4)])
def test_a_large_scale_is_close_to_continuous_noise(noise: fp.noise.Law) -> None:
    """1/12 of the squared lattice spacing against the variance: 1e-9 of it here."""
    like = fp.Gaussian(1e4) if np.isinf(noise.strip) else fp.Laplace(1e4)
    u, n = np.array([0.0, 1e3, 3e4]), 60
    for k in (1, 2):
        assert sum_law.clipped(u, n, noise, k) == pytest.approx(sum_law.clipped(u, n, like, k), rel=1e-7)
