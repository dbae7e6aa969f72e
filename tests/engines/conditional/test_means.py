"""Conditional means against the rules themselves: the own noise listed or integrated, the others held fixed; tails and sums by definition.

Noise of whole numbers is listed to 45 deviations (Laplace) or 12 (Gaussian); continuous noise takes 8 Gauss-Legendre nodes in pieces of
w = 1/25 of a deviation, out to 27 or 7 of them (beyond: 1e-13): where an output bends inside a piece the rule errs by some (w/8)^2 of the
bend times the density, 2e-5 deviations, and by w/8 at a jump.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import roots_legendre

import fairpost as fp
from fairpost.engines.base import Part, Question
from fairpost.engines.conditional.integrand import Direct, Integrand, integrand_of
from fairpost.engines.conditional.law import Tails
from fairpost.engines.conditional.problem import Problem
from fairpost.engines.conditional.sums import nodes_of_sum, quantile_of_sum
from fairpost.noise import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace, Law, Threshold
from fairpost.rules import PoS, PosThreshold, Simplex, SimplexThreshold
from support.laws import Law as Definition

Floats = NDArray[np.float64]
NOISES = (DiscreteLaplace, DiscreteGaussian, Laplace, Gaussian)
RULES = (Simplex, SimplexThreshold, PoS, PosThreshold)


def part_of(rule: type, noise: Law, x: Floats, a: Floats, threshold: Threshold | None, total: float) -> Part:
    """One rule's question."""
    counts = fp.Counts(x, weights=a)
    pi = rule.from_counts(counts, total) if rule in (Simplex, SimplexThreshold) else rule.from_counts(counts)
    return Question.ask(counts, noise, [pi if threshold is None else replace(pi, threshold=threshold)]).parts(0)[0]


def own_noise(noise: Law) -> tuple[Floats, Floats]:
    """Points and weights."""
    reach = noise.deviation * (45 if "laplace" in noise.name else 12)
    if noise.discrete:
        k = np.arange(-np.ceil(reach), np.ceil(reach) + 1)
        return k, noise.density(k)
    node, weight = roots_legendre(8)
    width = noise.deviation / 25
    edges = np.arange(-reach * 0.6, reach * 0.6, width)
    k = (edges[:, None] + width / 2 * (node + 1)).ravel()
    return k, np.tile(width / 2 * weight, edges.size) * noise.density(k)


def shifts(part: Part, z: Floats, a: Floats, total: Floats) -> Floats:
    """r of each row, by halves."""
    pi = part.pi
    tau, s = (
        (a * pi.rule.level, min(pi.rule.steepness, 1e9))
        if isinstance(pi, SimplexThreshold | PosThreshold)
        else (0 * a, 1.0)
    )
    low, high = z.min(axis=1) - total - tau.max() - 1, z.max(axis=1)
    for _ in range(60):
        middle = (low + high) / 2
        u = z - middle[:, None]
        more = np.where(u > tau, np.minimum(u, s * (u - tau)), 0.0).sum(axis=1) > total
        low, high = np.where(more, middle, low), np.where(more, high, middle)
    return high


def listed(part: Part, noise: Law, eta: Floats, i: int) -> tuple[float, float, float]:
    """E g (over S), E[(output - P)^2] and P(output = 0) of entity i over its own noise, by the rule's own kernel."""
    k, weight = own_noise(noise)
    rows = np.tile(part.x + eta, (k.size, 1))
    rows[:, i] = part.x[i] + k
    out = part.pi._apply(rows).values
    a, S = np.ones(part.x.size), np.ones(k.size)
    if isinstance(part.pi, PoS | PosThreshold):
        a = part.pi.problem.a(part.x.size)
        S = rows @ a
    total = S if isinstance(part.pi, PoS | PosThreshold) else np.full(k.size, part.pi.C)
    r = shifts(part, rows * a, a, total)
    g = out[:, i] - (rows[:, i] * a[i] - r) / S
    zero = out[:, i] <= 1e-10 * out.sum(axis=1)
    return float(weight @ g), float(weight @ (out[:, i] - part.truth[i]) ** 2), float(weight @ zero)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("rule", RULES)
def test_means_squares_and_chances_of_nothing(rule: type, noise: type) -> None:
    """Random counts, weights and ramps; sums of 60 deviations. A jump, a ramp of steepness 1e6, is right to 1e-6, its squares to 1e-4."""
    rng = np.random.default_rng([RULES.index(rule), NOISES.index(noise)])
    shares = rule in (PoS, PosThreshold)
    for case in range(9 if noise in (DiscreteLaplace, DiscreteGaussian) else 3):
        n, law = int(rng.integers(2, 10)), noise(float(rng.choice([1.0, 3.0, 6.5])))
        b = law.deviation
        x = np.floor(rng.exponential(1.5 * b, n)) + (0.37 if case % 4 == 0 else 0.0)
        x[-1] += np.floor(60 * b) if shares else 0.0
        a = np.round(rng.uniform(1, 3, n), 2) if shares and case % 3 else np.ones(n)
        threshold = None
        if rule in (SimplexThreshold, PosThreshold):
            level = float(rng.uniform(0.1, 2) * b)
            ramps = (
                Threshold.ramp(level),
                Threshold(round(level) + 0.3, float(rng.uniform(1.05, 9))),
                Threshold(level),
            )
            threshold = ramps[case % 2 if case % 4 == 0 else case % 3]
        part = part_of(rule, law, x, a, threshold, float(np.floor(x.sum() * rng.choice([0.5, 1.0, 1.3])) + 1))
        made = integrand_of(part, 0.0 if not shares else 1e-9)
        assert isinstance(made, Integrand)
        u = rng.random((1, made.dimension))
        found = made(u)
        order = np.argsort(made.inverse, kind="stable")
        eta = np.empty(n)
        eta[order] = law_of(law).quantile(u)[0]
        every = np.array([listed(part, law, eta, i) for i in range(n)])
        g, square, zero = (np.bincount(made.inverse, weights=v) / made.times for v in every.T)
        unit = b * (float(a.max() / (a @ x)) if shares else 1.0)
        jump = threshold is not None and threshold.steepness == np.inf
        near = (2e-6 if jump else 2e-9) if law.discrete else (5e-3 if jump else 2e-5)
        assert np.abs(found.bias[0] - (g - g @ made.times / n)).max() < near * unit + made.remainder.max()
        assert np.abs(found.square[0] - square).max() < (
            (1e-4 if law.discrete else near) if jump else 10 * near + 1e-6
        ) * (unit**2 + square.max())
        assert np.abs(found.zero[0] - zero).max() < (1e-9 if law.discrete else 3e-3)


def law_of(noise: Law) -> Tails:
    """Its tails."""
    law = Tails.of(noise)
    assert isinstance(law, Tails)
    return law


@pytest.mark.parametrize("scale", [0.6, 3.1])
@pytest.mark.parametrize("noise", NOISES)
def test_tails_and_quantiles(noise: type, scale: float) -> None:
    """Partial moments on both sides of a point, and quantiles far in the tails, against the noise's definition."""
    law, mechanism = law_of(noise(scale)), noise(scale)
    kind = Definition(mechanism.name, scale)
    c = scale * np.array([-20.0, -8.3, -1.5, -0.2, 0.0, 0.7, 4.1])
    below, above = law.partial(c, 3)
    for got, sign in ((below, 1), (above, -1)):
        _, one, two = kind.short(sign * c)
        np.testing.assert_allclose(got[:, 1], one, rtol=1e-9)
        np.testing.assert_allclose(got[:, 2], two, rtol=1e-9)
    np.testing.assert_allclose(law.cdf(c), kind.cdf(c), rtol=1e-11)
    u = 10.0 ** -np.array([0.4, 3.0, 50.0])
    q = law.quantile(u)
    if law.discrete:
        assert (law.cdf(q) >= u * (1 - 1e-12)).all()
        assert (law.cdf(q - 1) < u).all()
    else:
        np.testing.assert_allclose(law.cdf(q), u, rtol=1e-11)
    np.testing.assert_array_equal(law.quantile(1 - u[:1]), -law.quantile(1 - (1 - u[:1])))


@pytest.mark.parametrize("noise", NOISES)
def test_sums_of_noise(noise: type) -> None:
    """The quantile of a sum of three has its variance and fourth moment; nodes have the moments to the eighth."""
    mechanism = noise(2.3)
    law = law_of(mechanism)
    x = quantile_of_sum(mechanism, law, 3)((np.arange(2**16) + 0.5) / 2**16)
    m = law.moments
    fourth = 3 * (m[4] - 3 * m[2] ** 2) + 27 * m[2] ** 2
    assert np.mean(x**2) == pytest.approx(3 * m[2], rel=2e-4)
    assert np.mean(x**4) == pytest.approx(fourth, rel=4e-3)
    node, weight = nodes_of_sum(law, np.ones(1), np.ones(1))
    for k in range(0, 9, 2):
        assert weight @ node**k == pytest.approx(m[k], rel=1e-9)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("threshold", [None, Threshold.ramp(7.0), Threshold(9.3, 1.4), Threshold(5.3)])
def test_whole_shares_of_either_sign(noise: type, threshold: Threshold | None) -> None:
    """Given the others, at whole numbers and weights of all kinds: the own noise listed, by the rule's own kernel."""
    rng = np.random.default_rng([NOISES.index(noise), int(threshold.level if threshold else 0)])
    for n, scale in ((2, 0.8), (3, 3.0), (7, 5.5), (40, 6.5)):
        law = noise(scale)
        x = np.floor(rng.exponential(2 * scale, n))
        a = np.round(rng.uniform(1, 3, n), 2) if n > 2 else np.ones(n)
        part = part_of(PoS if threshold is None else PosThreshold, law, x, a, threshold, 0.0)
        problem = Problem.of(part)
        assert isinstance(problem, Problem)
        made = Direct(problem, law)
        u = rng.random((1, n))
        found, order = made(u), np.argsort(made.inverse, kind="stable")
        eta = np.empty(n)
        eta[order] = law_of(law).quantile(u)[0]
        k, weight = own_noise(law)
        every = np.empty((n, 3))
        for i in range(n):
            rows = np.tile(part.x + eta, (k.size, 1))
            rows[:, i] = part.x[i] + k
            out = part.pi._apply(rows).values[:, i]
            every[i] = weight @ out, weight @ (out - part.truth[i]) ** 2, weight @ (out <= 1e-12)
        share, square, zero = (np.bincount(made.inverse, weights=v) / made.times for v in every.T)
        near = 1e-6 if law.discrete else 2e-3 if threshold is None else 5e-3
        assert np.abs(found.bias[0] + problem.pairs.truth - share).max() < near
        jump = threshold is not None and threshold.steepness == np.inf
        assert np.abs(found.square[0] - square).max() < (1e-4 if jump and law.discrete else near)
        assert np.abs(found.zero[0] - zero).max() < (1e-9 if law.discrete else 5e-3)
        if law.discrete and threshold is not None and threshold.steepness < np.inf:
            assert np.abs(found.bias[0] + problem.pairs.truth - share).max() < 1e-7


@pytest.mark.parametrize("noise", NOISES)
def test_controls_of_whole_shares_have_the_mean_0(noise: type) -> None:
    """Over 2^17 draws, 3 sigma and a half."""
    law = noise(4.0)
    part = part_of(PoS, law, np.array([3.0, 8.0, 0.0, 15.0]), np.array([1.0, 2.0, 1.5, 1.0]), None, 0.0)
    problem = Problem.of(part)
    assert isinstance(problem, Problem)
    u = np.random.default_rng(3).random((2**17, 4))
    values = Direct(problem, law)(u).controls
    assert np.all(np.abs(values.mean(axis=0)) < 3.5 * values.std(axis=0) / 2**8.5)
