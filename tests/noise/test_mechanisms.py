"""M: densities, transforms and calibration, against mpmath and direct sums."""

import dataclasses
import math

import mpmath as mp
import numpy as np
import pytest

import fairpost as fp
from fairpost import errors
from fairpost.noise import MECHANISMS as REGISTRY
from support.mechanisms import CONTINUOUS, MECHANISMS

DISCRETE = {
    "discrete-laplace": fp.DiscreteLaplace(3.0),
    "sharp laplace": fp.DiscreteLaplace(0.3),
    "discrete-gaussian": fp.DiscreteGaussian(4.0),
    "sharp gaussian": fp.DiscreteGaussian(0.4),
}


NODES, PARTS = np.polynomial.legendre.leggauss(60)


@pytest.mark.parametrize("name", CONTINUOUS)
@pytest.mark.parametrize("k", [0, 1, 2])
def test_partial_transforms_against_quadrature(name, k):
    """Relative accuracy 1e-13: 60 nodes on each panel; the exponents are below 100, so the terms are right to 1e-14 and so is their sum."""
    mechanism = CONTINUOUS[name]
    sd, spread = mechanism.deviation, mechanism.spread
    for c in (-7 * sd, -sd, 0.0, 0.5 * sd, 10 * sd):
        points = np.array([c, *([0] if c < 0 else []), *(max(c, 0) + j * sd for j in (1, 3, 6, 12, 25, 60))])
        half = np.diff(points)[:, None] / 2
        u, part = points[:-1, None] + half * (1 + NODES), half * PARTS
        if name == "laplace":
            mass = np.exp(-np.abs(u) / spread) / (2 * spread)
        else:
            mass = np.exp(-((u / spread) ** 2) / 2) / (spread * np.sqrt(2 * np.pi))
        for s in (0.0, -1 / sd, -1 / spread, -1 / spread + 1e-9, -3 / sd):
            exact = float(np.sum(part * (u - c) ** k * np.exp(s * (u - c)) * mass))
            got = float(mechanism.upper(c, s, k))
            assert got == pytest.approx(exact, rel=1e-13, abs=0.0), (c, s)
            assert mechanism.lower(-c, -s, k) * (-1) ** k == pytest.approx(got, rel=1e-15, abs=0.0)


@pytest.mark.parametrize("name", DISCRETE)
def test_cgf_of_discrete_noise_against_sums(name):
    mechanism = DISCRETE[name]
    points = np.arange(-400, 401)
    for s in (0.0, 0.2, -0.2, 0.2 + 0.05j, 0.1j):
        whole = np.sum(mechanism.density(points) * np.exp(s * points))
        assert abs(np.exp(mechanism.cgf(s)) - whole) <= 1e-13 * abs(whole)


@pytest.mark.parametrize("name", MECHANISMS)
def test_moments_tails_and_symmetry(name):
    mechanism = MECHANISMS[name]
    if mechanism.discrete:
        points = np.arange(-300, 301)
        mass = mechanism.density(points)
        assert mass.sum() == pytest.approx(1.0, abs=1e-14)
        assert mechanism.variance == pytest.approx(np.sum(mass * points**2), rel=1e-13)
        assert mechanism.cdf([-2.5, -2, 0, 3.5]) == pytest.approx([mass[points <= t].sum() for t in (-2.5, -2, 0, 3.5)])
        assert mechanism.density(0.5) == 0
    else:
        assert mechanism.upper(-1e9, 0.0, 0) == pytest.approx(1.0, rel=1e-14)
        assert mechanism.upper(0.0, 0.0, 2) * 2 == pytest.approx(mechanism.variance, rel=1e-13)
        assert mechanism.cdf(1.3) == pytest.approx(mechanism.lower(1.3, 0.0, 0), rel=1e-13)
    u = np.array([-7.0, -1.0, 0.0, 2.0, 9.0])
    assert mechanism.cdf(u) + mechanism.sf(u) == pytest.approx(1.0, rel=1e-13)
    assert mechanism.density(u) == pytest.approx(mechanism.density(-u), rel=1e-15)
    assert mechanism.deviation**2 == pytest.approx(mechanism.variance)
    assert mechanism.describe()["name"] == name
    assert REGISTRY[name] is type(mechanism)
    with pytest.raises(dataclasses.FrozenInstanceError):
        mechanism.scale = 1.0


def test_far_tails_keep_relative_accuracy():
    with mp.workdps(40):
        assert fp.Laplace(2.0).cdf(-200.0) == pytest.approx(float(mp.exp(-100) / 2), rel=1e-14)
        assert fp.Gaussian(2.0).cdf(-20.0) == pytest.approx(float(mp.ncdf(-10)), rel=1e-13)
        assert fp.DiscreteLaplace(2.0).cdf(-100.0) == pytest.approx(float(mp.exp(-50) / (1 + mp.exp(-0.5))), rel=1e-13)


@pytest.mark.parametrize("scale", [0.3, 1.0, 7.3, 40.0])
def test_discrete_laplace_sums_against_their_terms(scale):
    """`upper` by geometric sums against the sum of its terms, for tilts on both sides of the ratio 1 and at it.

    Positive terms, at most 4,000 of them, and exponents up to 100: 1e-13 of each.
    """
    noise = fp.DiscreteLaplace(scale)
    rng = np.random.default_rng(5)
    cuts = np.concatenate([[0.0, -1.0, -0.5, 1.0, -40 * scale, 20 * scale], rng.normal(0, 6 * scale, 12)])
    cuts = np.append(cuts, np.round(cuts))
    tilts = np.array([-30.0, -3.0, -1 - 1e-9, -1.0, -1 + 1e-9, -0.4, -1e-7, 0.0, 0.3]) / scale
    i = np.arange(-np.ceil(60 * scale), np.ceil(150 * scale) + 1)
    masses = np.tanh(0.5 / scale) * np.exp(-np.abs(i) / scale)
    for k in range(3):
        found = noise.upper(cuts[:, None], tilts, k)
        for a, c in enumerate(cuts):
            up = i > c
            for b, s in enumerate(tilts):
                terms = (i[up] - c) ** k * np.exp(s * (i[up] - c)) * masses[up]
                assert found[a, b] == pytest.approx(float(np.sum(terms)), rel=1e-12, abs=0.0), (c, s, k)
    assert noise.upper(-1e9, 0.0, 1) == pytest.approx(1e9, rel=1e-12)  # a count of a billion takes no table


@pytest.mark.parametrize("sigma", [0.3, 1.0, 3.9, 4.0, 5.0, 12.0, 60.0])
def test_discrete_gaussian_sums_against_every_term(sigma):
    """Cuts from -12 to 8 sigma and far outside, tilts of either sign, and the border between the two ways to sum.

    fsum adds positive terms without rounding; exponents of up to 100 lose 1e-14 on either side.
    """
    rng = np.random.default_rng(7)
    c = np.concatenate([rng.uniform(-12, 8, 110) * sigma, [-40 * sigma, -3.0, 0.0, 2.5], np.round(rng.normal(0, 3, 6))])
    s = np.concatenate([rng.uniform(-0.5, 0.5, 60), -(10 ** rng.uniform(-4, 1, 60))]) / sigma
    border = (np.floor(c[:20]) + 1) / sigma**2 - 0.9
    s[:20] = np.where(np.abs(border) * sigma < 10, border + rng.choice([-1e-6, 1e-6], 20), s[:20])
    law, reach = fp.DiscreteGaussian(sigma), math.ceil(16 * sigma) + 60
    points = np.arange(-reach - 700, reach + 700 + int(sigma))
    norm = math.fsum(np.exp(-((points / sigma) ** 2) / 2))
    for k in range(3):
        upper, lower = law.upper(c, s, k), law.lower(-c, -s, k)
        for a, b, above, below in zip(c, s, upper, lower, strict=True):
            u = points - a
            known = math.fsum(((u**k) * np.exp(b * u - (points / sigma) ** 2 / 2))[u > 0]) / norm
            assert above == pytest.approx(known, rel=1e-12, abs=1e-300), (a, b, k)
            atom = float(law.density(-a)) if k == 0 else 0.0
            assert below == pytest.approx((-1) ** k * known + atom, rel=1e-12, abs=1e-300), (a, b, k)


def test_a_large_discrete_gaussian_takes_no_table():
    """At sigma = 1e7 its moments are those of the Gaussian to 1/12 of the squared lattice spacing; a table would have 3e8 rows."""
    law, like = fp.DiscreteGaussian(1e7), fp.Gaussian(1e7)
    assert law.variance == pytest.approx(1e14, rel=1e-12)
    assert law.upper(-1e7, 0.0, 1) == pytest.approx(float(like.upper(-1e7 - 0.5, 0.0, 1)), rel=1e-6)
    assert law.cdf(-3e7) == pytest.approx(float(like.cdf(-3e7 + 0.5)), rel=1e-12)


# -- calibration -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: fp.Laplace(0.0), "`scale` must be > 0 and finite, got 0.0"),
        (lambda: fp.Laplace(np.nan), "`scale` must be > 0"),
        (lambda: fp.Laplace("ten"), "`scale` must be a number, got 'ten'"),
        (lambda: fp.Gaussian(-1.0), "`sigma` must be > 0 and finite, got -1.0"),
        (lambda: fp.Gaussian(np.inf), "`sigma` must be > 0 and finite, got inf"),
        (lambda: fp.DiscreteGaussian.from_rho(0.0), "`rho` must be > 0"),
        (lambda: fp.Stream(-1), "`seed` must be a whole number"),
        (lambda: fp.Stream(1, 2**64), "`run` must be a whole number"),
    ],
)
def test_parameters_outside_their_range(make, message):
    with pytest.raises(errors.ParameterError, match=message):
        make()
