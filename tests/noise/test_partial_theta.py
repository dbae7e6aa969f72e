"""Partial transforms of discrete Gaussian noise without a table, against sums of every term."""

from __future__ import annotations

import math

import numpy as np
import pytest

import fairpost as fp
from fairpost.noise import partial_theta

SIGMAS = [0.3, 1.0, 3.9, 4.0, 5.0, 12.0, 60.0]


def terms(sigma: float, m: float, s: float, j: int) -> float:
    """sum_{l >= 0} l^j e^{sl} P(eta = m + l), positive terms added without rounding (fsum); each has |exponent| ulp."""
    reach = math.ceil(16 * sigma) + 60
    norm = math.fsum(math.exp(-((k / sigma) ** 2) / 2) for k in range(-reach, reach + 1))
    last = int(max(reach, reach + sigma**2 * s) - min(m, 0)) + 1
    return math.fsum(l**j * math.exp(s * l - ((m + l) / sigma) ** 2 / 2) for l in range(last)) / norm


@pytest.mark.parametrize("sigma", SIGMAS)
def test_every_term(sigma: float) -> None:
    """Both ways, at cuts from -12 to 8 sigma and tilts from -10/sigma to 1/(2 sigma), and at the border between them.

    Mills' ratio of the second moment loses q^4 ulp for q < 10, some 1e-12; exponents of up to 100 lose 1e-14.
    """
    rng = np.random.default_rng(7)
    m = np.round(rng.uniform(-12, 8, 120) * sigma)
    s = np.concatenate([rng.uniform(-0.5, 0.5, 60), -(10 ** rng.uniform(-4, 1, 60))]) / sigma
    border = m[:20] / sigma**2 - partial_theta.STEEP
    s[:20] = np.where(np.abs(border) * sigma < 10, border + rng.choice([-1e-6, 1e-6], 20), s[:20])
    law = fp.DiscreteGaussian(sigma)
    found = partial_theta.partial_sums(sigma, law._log_norm(), m, s)
    for j in range(3):
        known = np.array([terms(sigma, a, b, j) for a, b in zip(m, s, strict=True)])
        assert found[j] == pytest.approx(known, rel=4e-12, abs=1e-300), j


@pytest.mark.parametrize("sigma", SIGMAS)
def test_many_tilts_at_once_equal_one_at_a_time(sigma: float) -> None:
    """Many take this way, one takes the table; cuts off the whole numbers, and far outside."""
    law = fp.DiscreteGaussian(sigma)
    c = np.concatenate([np.linspace(-9, 6, 40) * sigma, [-40 * sigma, -3.0, 0.0, 2.5]])
    s = -np.geomspace(1e-4, 3, c.size) / sigma
    for k in range(3):
        for many, one in ((law.upper(c, s, k), law.upper), (law.uppers(c, s)[k], law.upper)):
            assert many == pytest.approx(
                [float(one(a, b, k)) for a, b in zip(c, s, strict=True)], rel=4e-12, abs=1e-300
            )
        for many in (law.lower(-c, -s, k), law.lowers(-c, -s)[k]):
            assert many == pytest.approx(
                [float(law.lower(-a, -b, k)) for a, b in zip(c, s, strict=True)], rel=4e-12, abs=1e-300
            )


def test_complex_tilts_stay_with_the_table() -> None:
    law = fp.DiscreteGaussian(5.0)
    c, s = np.arange(-20.0, 20.0), -0.1 + 0.2j * np.ones(40)
    assert law.upper(c, s, 1) == pytest.approx([complex(law.upper(a, s[0], 1)) for a in c], rel=1e-13)


@pytest.mark.parametrize("k", [0, 1, 2])
def test_laplace_without_a_tilt_is_the_limit_of_tilts(k: int) -> None:
    law, c = fp.Laplace(3.0), np.array([-80.0, -3.0, -1e-9, 0.0, 1e-9, 2.0, 90.0])
    assert law.upper(c, 0.0, k) == pytest.approx(law.upper(c, np.zeros(c.size), k), rel=1e-13)
    assert law.lower(c, 0.0, k) == pytest.approx(law.lower(c, np.zeros(c.size), k), rel=1e-13)
