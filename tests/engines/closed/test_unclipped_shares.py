"""Shares where nothing is clipped: closed forms and moments to eighth order against the exact engine."""

from __future__ import annotations

import numpy as np
import pytest

import fairpost as fp
from support.oracles.unclipped import expanded_shares, gaussian_shares, moments_of

CONCENTRATED = [
    ([400.0, 500.0, 900.0], [1.0, 3.0, 0.5], 20.0),  # S within 2 % of its mean: few Laguerre nodes
    ([220.0, 200.0, 300.0], [1.0, 9.0, 0.2], 15.0),
]


@pytest.mark.parametrize(("x", "a", "sigma"), CONCENTRATED)
@pytest.mark.parametrize("which", ["baseline", "pos"])
def test_shares_where_nothing_is_clipped_by_their_closed_form(x, a, sigma, which) -> None:
    """P(X_i < 0) is below 1e-24. The bias is good to its stated error, the mean square to that of the bias (1e-6)."""
    bias, mse = gaussian_shares(x, a, sigma)
    found = fp.audit(fp.Counts(x, weights=a), fp.Gaussian(sigma), which, engine="exact")
    assert (np.abs(found.bias - bias) <= found.half_width).all()
    assert found.mse == pytest.approx(mse, rel=1e-6)


@pytest.mark.parametrize(
    ("kind", "which"),
    [
        (fp.Laplace, "baseline"),
        (fp.Laplace, "pos"),
        (fp.DiscreteLaplace, "baseline"),  # pos is not evaluated exactly under discrete noise
        (fp.DiscreteGaussian, "baseline"),
    ],
)
def test_shares_where_nothing_is_clipped_by_their_moments(kind, which) -> None:
    """E[z_i/S] expanded in (S - E S)/E S to eighth order, with the moments of the noise: no transform, no quadrature.

    S has a deviation of 1 % of its mean (Laplace): the tenth moment adds 1e4 * 0.01^10 = 1e-16 of a share's noise, and
    counts of 75 scales are never clipped (e^-75).
    """
    x, a = np.array([1200.0, 1500.0, 2700.0]), np.array([1.0, 3.0, 0.5])
    noise = kind(16.0)
    bias, mse = expanded_shares(x, a, moments_of(noise))
    found = fp.audit(fp.Counts(x, weights=a), noise, which, engine="exact")
    assert (np.abs(found.bias - bias) <= found.half_width + 1e-17).all()
    assert found.mse == pytest.approx(mse, rel=1e-6)
