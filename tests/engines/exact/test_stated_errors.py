"""Stated errors of the exact engine against independent truth: never too small, and not so large that they say nothing.

Two sorts of tests. A table of cases has true biases by integration over directions, by one-dimensional integrals, by
enumeration, in closed form or in 30 digits, at tolerances so loose that the engine stops early and its error is not
rounding. And for each ingredient of an error a fault is put into the engine that only this ingredient can see: a rule
that is off by the same part at every refinement, a sum that forgets entities, a transform with the accuracy that is
promised and no more. The stated error must cover what the fault does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from scipy.integrate import trapezoid
from scipy.special import ndtr

import fairpost as fp
from fairpost.bounds import sum_law as sumlaw
from fairpost.bounds import theorems as bounds
from fairpost.engines import mean_field
from fairpost.engines.closed.ratio import integrate
from fairpost.engines.exact import baseline, shares
from fairpost.engines.exact.pos import inverse as pos_inverse
from fairpost.engines.exact.pos import moments as pos_moments
from fairpost.engines.exact.pos import opposite as pos_opposite
from fairpost.engines.exact.pos import pair as pos_pair
from fairpost.engines.exact.pos import problem as pos_problem
from fairpost.engines.exact.pos import separated as pos_separated
from fairpost.engines.exact.pos import sets as pos_sets
from fairpost.engines.exact.pos import side as pos_side
from fairpost.engines.exact.simplex import few as simplex_few
from fairpost.engines.exact.simplex import moments as simplex
from fairpost.engines.exact.threshold.moments import pos_threshold as exact_pos_threshold
from fairpost.engines.expansion import threshold as expansion
from fairpost.noise import Threshold
from fairpost.rules.affine import dual as _dual
from fairpost.rules.affine.projection import Affine, AffineNonnegative
from support.oracles.brute import brute_baseline, brute_pos, three, two_deficit
from support.oracles.unclipped import expanded_shares, gaussian_shares, moments_of

L, G = fp.Laplace, fp.Gaussian
HALF_ULP = 2.0**-53
DIRECTIONS = {2: 1e-11, 3: 2e-7}  # what the integral over directions misses, see `test_pos.py`


# ---------------------------------------------------------------------------------------------- true biases


def by_directions(which: str, x: Any, a: Any, noise: Any) -> tuple[np.ndarray, float]:
    rule = brute_pos if which == "pos" else brute_baseline
    return rule(np.array(x), np.array(a), noise)[0], DIRECTIONS[len(x)]


def in_closed_form(_: str, x: Any, a: Any, noise: Any) -> tuple[np.ndarray, float]:
    """Gaussian noise, nothing clipped: 30 digits; clipping adds less than E[(X)_-]/E[S]."""
    below = noise.sigma * np.exp(-0.5 * (np.array(x) / noise.sigma) ** 2)
    return gaussian_shares(x, a, noise.sigma)[0], float(np.sum(np.array(a) * below) / np.dot(a, x)) + 1e-18


def by_moments(_: str, x: Any, a: Any, noise: Any) -> tuple[np.ndarray, float]:
    """Any noise, nothing clipped, S within 1 % of its mean: see `test_unclipped_shares.py`."""
    return expanded_shares(np.array(x), np.array(a), moments_of(noise))[0], 1e-17


def of_two(_: str, x: Any, total: float, noise: Any) -> tuple[np.ndarray, float]:
    """pi_S+ of two counts from its definition, by integrals of one dimension, good to 1e-12 of a deficit."""
    one, two = (two_deficit(type(noise), x, total, i) for i in (0, 1))
    drift = (total - sum(x)) / 2
    return np.array([one - two, two - one]) / 2 + drift, 2e-12 * (one + two) + 2 * HALF_ULP * abs(drift)


def of_three(_: str, x: Any, total: float, noise: Any) -> tuple[np.ndarray, float]:
    """pi_S+ of three counts by Gauss-Legendre in two dimensions, good to 2e-9."""
    return three(type(noise), x, total)[0] + (total - sum(x)) / 3, 4e-9


def one_at_risk(_: str, x: Any, total: float, noise: Any) -> tuple[np.ndarray, float]:
    """pi_S+ with one small count: what clipping adds to it is taken from the others alike; Gaussian, 30 digits."""
    n = len(x)
    with mp.workdps(30):
        s = noise.sigma * mp.sqrt(mp.mpf(n - 1) / n)
        t = mp.mpf(x[0]) / s
        below = float(s * (mp.npdf(t) - t * mp.ncdf(-t)))
    return np.array([below, *[-below / (n - 1)] * (n - 1)]), 1e-15 * below


@dataclass(frozen=True)
class Case:
    which: str
    oracle: Callable[..., tuple[np.ndarray, float]]
    x: tuple[float, ...]
    about: Any
    """Weights, or the total of pi_S+."""
    noise: Any
    rtol: float

    def __str__(self) -> str:
        return f"{self.which}-{self.oracle.__name__}-{self.x}-{self.about}-{self.noise.name}-{self.rtol:g}"


ONE = (1.0, 1.0)
SHARES = [
    # PoS: two entities (closed atoms); sure sums (few exponentials for 1/S); sums of either sign (all nodes)
    *[("pos", by_directions, (3.0, 20.0), ONE, noise(4.0)) for noise in (L, G)],
    *[("pos", by_directions, (1.0, 2.0), (2.0, 0.7), noise(5.0)) for noise in (L, G)],
    *[("pos", by_directions, (60.0, 200.0), (1.0, 2.0), noise(4.0)) for noise in (L, G)],
    *[("pos", by_directions, (15.0, 50.0), ONE, noise(4.0)) for noise in (L, G)],
    *[("pos", by_directions, (0.0, 6.0, 25.0), (1.0, 2.0, 0.7), noise(5.0)) for noise in (L, G)],
    *[("pos", by_directions, (4.0, 20.0, 30.0), (1.0, 1.3, 0.8), noise(3.0)) for noise in (L, G)],
    *[("pos", by_directions, (5.0, 5.0, 9.0), (1.0, 1.0, 3.0), noise(8.0)) for noise in (L, G)],
    ("pos", in_closed_form, (400.0, 500.0, 900.0), (1.0, 3.0, 0.5), G(20.0)),
    ("pos", in_closed_form, (220.0, 200.0, 300.0), (1.0, 9.0, 0.2), G(15.0)),
    ("pos", in_closed_form, (9.0, 8.0, 8.5), (1.0, 2.0, 3.0), G(1.0)),
    ("pos", by_moments, (1200.0, 1500.0, 2700.0), (1.0, 3.0, 0.5), L(16.0)),
    # BL: concentrated sums (Laguerre) and others (double exponential)
    *[("baseline", by_directions, (3.0, 20.0), ONE, noise(4.0)) for noise in (L, G)],
    *[("baseline", by_directions, (1.0, 2.0), (2.0, 0.7), noise(5.0)) for noise in (L, G)],
    *[("baseline", by_directions, (30.0, 50.0), ONE, noise(4.0)) for noise in (L, G)],
    *[("baseline", by_directions, (5.0, 5.0, 9.0), (1.0, 1.0, 3.0), noise(8.0)) for noise in (L, G)],
    ("baseline", in_closed_form, (400.0, 500.0, 900.0), (1.0, 3.0, 0.5), G(20.0)),
    ("baseline", in_closed_form, (8.0, 8.0, 9.0), (1.0, 20.0, 0.01), G(1.0)),
    *[
        ("baseline", by_moments, (1200.0, 1500.0, 2700.0), (1.0, 3.0, 0.5), noise(16.0))
        for noise in (L, fp.DiscreteLaplace)
    ],
]
RELEASES = [
    *[("simplex", of_two, x, total, noise(1.0)) for x, total in (
        ((0.0, 0.5), 0.5), ((0.3, 2.0), 2.3), ((0.1, 0.1001), 0.2001), ((1.0, 2.0), 9.0), ((5.0, 300.0), 305.0),
        ((8.0, 8.5), 16.5), ((0.0, 3.0), 2.0), ((1.0, 2.0), 0.3),
    ) for noise in (L, G)],
    *[("simplex", of_three, x, total, noise(1.0)) for x, total in (
        ((0.0, 0.4, 1.5), 1.9), ((0.5, 1.0, 20.0), 22.0), ((0.0, 3.0, 5.0), 2.0),
    ) for noise in (L, G)],
    ("simplex", one_at_risk, (53.0, 22563.0, 54381.0, 67054.0, 311451.0), 455502.0, G(25.0)),
]  # fmt: skip
CASES = [Case(*case, rtol) for case in SHARES for rtol in ((0.9, 1e-2, 1e-6) if len(case[2]) == 2 else (0.9, 1e-4))]
CASES += [Case(*case, rtol) for case in RELEASES for rtol in (0.9, 1e-9)]


@cache
def true_bias(which: str, oracle: Callable[..., Any], x: Any, about: Any, noise: Any) -> tuple[np.ndarray, float]:
    return oracle(which, x, about, noise)


def audited(case: Case) -> fp.Audit:
    if case.which == "simplex":
        given: dict[str, Any] = {"total": case.about}
        counts = fp.Counts(case.x)
    else:
        given, counts = {}, fp.Counts(case.x, weights=case.about)
    return fp.audit(counts, case.noise, case.which, engine=fp.Exact(rtol=case.rtol), **given)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_true_error_is_below_the_stated_one_which_meets_the_tolerance(case: Case) -> None:
    try:
        result = audited(case)
    except fp.ToleranceError:
        assert case.rtol < 1e-8 and case.x == (0.1, 0.1001)  # noqa: PT018
        return
    bias, slack = true_bias(case.which, case.oracle, case.x, case.about, case.noise)
    assert (np.abs(result.bias - bias) <= result.half_width + slack).all()
    alpha = np.ptp(bias)
    assert result.alpha.low - 2 * slack <= alpha <= result.alpha.high + 2 * slack
    # never so large that the tolerance would not be met (1e-14 of the drift, where that is all there is)
    drift = abs(case.about - sum(case.x)) / len(case.x) if case.which == "simplex" else 0.0
    assert result.alpha.high - result.alpha.value <= max(case.rtol * result.alpha.value, 1e-14 * drift) * (1 + 1e-9)
    # never below what one rounding of the largest bias may do: no double is better than that
    assert result.half_width.max() >= HALF_ULP * np.abs(result.bias).max()


# ---------------------------------------------------------------------------------------------- BL, a fault at a time


def shares_of(which: str, case: tuple[Any, ...], rtol: float) -> tuple[fp.Audit, np.ndarray, float]:
    _, oracle, x, a, noise = case
    bias, slack = true_bias(which, oracle, x, a, noise)
    return audited(Case(which, oracle, x, a, noise, rtol)), bias, slack


CLOSED = ("", in_closed_form, (400.0, 500.0, 900.0), (1.0, 3.0, 0.5), G(20.0))


UNEQUAL = ("", in_closed_form, (200.0, 220.0, 2000.0), (1.0, 1.0, 1.0), G(20.0))


@pytest.mark.parametrize("case", [CLOSED, UNEQUAL])
@pytest.mark.parametrize("who", [0, 1, 2])
def test_baseline_transforms_are_promised_to_2e_13_and_the_error_covers_that(case, who, monkeypatch) -> None:
    """The tilted mean of one entity off by 1.9e-13 of it at every node of every rule: refinement cannot see it."""
    plain = baseline._factors

    def off(problem, t):
        log, mean, variance = plain(problem, t)
        mean = mean.copy()
        mean[:, who] *= 1 + 1.9e-13
        return log, mean, variance

    monkeypatch.setattr(baseline, "_factors", off)
    result, bias, slack = shares_of("baseline", case, 1e-6)
    gap = np.abs(result.bias - bias)
    assert gap.max() > 2 * slack
    assert (gap <= result.half_width + slack).all()
    assert result.half_width.max() <= 1e-9 * np.ptp(bias)


def test_baseline_a_rule_that_is_off_is_seen_by_the_next_one(monkeypatch) -> None:
    """Every second rule is off by 1e-7 for one entity, the others by a tenth of it the other way."""
    plain, calls = baseline._integrate, [0]

    def off(problem, rule):
        found = plain(problem, rule)
        calls[0] += 1
        fault = 1e-7 * np.array([1.0, -0.1, -0.1]) * (-1) ** calls[0]
        return replace(found, bias=found.bias + fault)

    monkeypatch.setattr(baseline, "_integrate", off)
    result, bias, _ = shares_of("baseline", CLOSED, 0.1)
    gap = np.abs(result.bias - bias)
    assert 0.9e-7 < gap.max() <= result.half_width.max()
    assert (gap <= result.half_width).all()
    assert result.half_width.max() <= 4.1e-7  # the change, and its part of the largest one


def test_the_rounding_of_a_share_is_what_rounded_means_can_do_to_it() -> None:
    """Tilted means off by 2e-13 of themselves, with the signs that hurt entity i most: its own one way, all others the other.

    That is reached at the latest where the stated rounding says, and the stated one exceeds it by no more than entity i's
    part of its own sum, which has one sign only. A share of 1e-4 is nearly all its own mean, one of 0.9 nearly all the sum's.
    """
    rng = np.random.default_rng(5)
    t, weight, log = np.array([0.3, 1.1, 2.9]), np.array([0.5, 0.3, 0.2]), np.array([-0.1, -0.4, -1.2])
    mean, variance = rng.normal(size=(3, 4)), rng.uniform(0.5, 2.0, size=(3, 4))
    p, times = np.array([1e-4, 0.9, 0.05, 0.01]), np.array([1.0, 1.0, 1.0, 4.9999])
    plain = integrate(t, weight, log, mean, variance, p, times)
    for i in range(4):
        signs = -np.sign(mean)
        signs[:, i] *= -1
        moved = integrate(t, weight, log, mean * (1 + 1e-3 * signs), variance, p, times).bias[i] - plain.bias[i]
        worst = 2e-13 * abs(moved) / 1e-3
        own = 2e-13 * (weight * np.exp(log)) @ np.abs(mean[:, i])
        assert worst * (1 - 1e-9) <= plain.rounding[i] <= worst + 2 * p[i] * times[i] * own * (1 + 1e-9)


# ---------------------------------------------------------------------------------------------- PoS, a fault at a time

SURE = ("", in_closed_form, (9.0, 8.0, 8.5), (1.0, 2.0, 3.0), G(1.0))
PAIR = ("", by_directions, (1.0, 2.0), (2.0, 0.7), G(5.0))
CLIPPED = ("", by_directions, (15.0, 50.0), ONE, G(4.0))
UNSURE = ("", by_directions, (5.0, 5.0, 9.0), (1.0, 1.0, 3.0), G(8.0))


@pytest.mark.parametrize("part", ["_atoms", "_wrong_signs"])
def test_pair_shares_that_do_not_sum_to_one_tell_their_error(part, monkeypatch) -> None:
    plain = getattr(pos_pair, part)

    def off(*given):
        found = plain(*given)
        return tuple(v * (1 + 1e-5) for v in found) if isinstance(found, tuple) else found * (1 + 1e-5)

    monkeypatch.setattr(pos_pair, part, off)
    result, bias, _ = shares_of("pos", PAIR, 0.1)
    gap = np.abs(result.bias - bias)
    assert gap.max() > 1e-8
    assert (gap <= result.half_width).all()
    assert result.half_width.max() < 1e-5


def test_pair_a_rule_that_is_off_is_seen_by_the_next_one(monkeypatch) -> None:
    """Shares that still sum to 1 and are off by 1e-6, alternately."""
    plain = pos_pair._atoms

    def off(problem, step):
        first, second = plain(problem, step)
        sign = 1 if step in (0.125, 0.05) else -1
        return first + sign * 1e-6 * np.array([1.0, -1.0]), second

    monkeypatch.setattr(pos_pair, "_atoms", off)
    result, bias, _ = shares_of("pos", PAIR, 0.1)
    gap = np.abs(result.bias - bias)
    assert gap.max() > 0.9e-6
    assert (gap <= result.half_width).all()
    assert result.half_width.max() < 2.1e-6


def test_pair_errors_are_never_below_rounding() -> None:
    """Shares of size 1 are sums of 100 and more products: no better than 1e-14."""
    for rtol in (0.5, 1e-6):
        result, _, _ = shares_of("pos", PAIR, rtol)
        assert result.half_width.min() >= 1e-14


@pytest.fixture
def no_sets(monkeypatch):
    """Few Gaussian values are summed set by set: here `general` is meant."""
    monkeypatch.setattr(pos_sets, "served", lambda problem: False)


@pytest.mark.usefixtures("no_sets")
def test_general_sides_whose_shares_miss_their_chance_tell_their_error(monkeypatch) -> None:
    """Everything that a contour gives is off by 1e-2 at every stage: the sum of the shares is not P(S > 0)."""
    for module, part in ((pos_side, "_plain"), (pos_opposite, "_values")):
        right = getattr(module, part)

        def off(*given, right=right):
            found = right(*given)
            return replace(found, first=found.first * 1.01) if hasattr(found, "first") else found * 1.01

        monkeypatch.setattr(module, part, off)
    result, bias, slack = shares_of("pos", UNSURE, 0.5)
    gap = np.abs(result.bias - bias)
    assert gap.max() > 20 * slack
    assert (gap <= result.half_width + slack).all()
    assert result.half_width.max() < 0.02


@pytest.mark.usefixtures("no_sets")
def test_general_a_side_that_is_not_looked_at_counts_with_its_chance() -> None:
    """A loose tolerance leaves S < 0 out, of chance 6e-3: true errors of that size, stated as no less than it."""
    x, a, noise = (0.0, 6.0, 25.0), (1.0, 2.0, 0.7), G(5.0)
    chance = float(ndtr(-np.dot(a, x) / (5.0 * np.linalg.norm(a))))
    result, bias, _ = shares_of("pos", ("", by_directions, x, a, noise), 0.9)
    gap = np.abs(result.bias - bias)
    assert gap.max() > 0.3 * chance  # it was left out
    assert (gap <= result.half_width).all()
    assert chance <= result.half_width.min()
    assert result.half_width.max() <= 1.5 * chance


@pytest.mark.usefixtures("no_sets")
def test_general_a_stage_that_is_off_is_seen_by_the_next_one(monkeypatch) -> None:
    """Shares moved from one entity to another by 1e-5, at every second stage: their sum does not tell."""
    plain, calls = pos_side.Side.evaluate, [0]

    def off(side):
        found, missed = plain(side)
        calls[0] += 1
        fault = 1e-5 * np.array([1.0, -1.0, *[0.0] * (found.first.size - 2)]) * (calls[0] % 2)
        return replace(found, first=found.first + fault / side.problem.times), missed

    monkeypatch.setattr(pos_side.Side, "evaluate", off)
    result, bias, slack = shares_of("pos", UNSURE, 0.1)
    assert (np.abs(result.bias - bias) <= result.half_width + slack).all()
    assert result.half_width.max() >= 1e-5 / 2


@pytest.fixture
def no_shortcut(monkeypatch):
    """Where one entity alone may be clipped there is a sum in the place of the integral: here the integral is meant."""
    monkeypatch.setattr(pos_moments, "one", lambda *given: None)


@pytest.mark.usefixtures("no_shortcut")
def test_separated_an_inverse_that_is_off_tells_its_error(monkeypatch) -> None:
    """rho(S) = (1 + 2e-3)/S, with and without clipping: the bias is off by 2e-3 of it."""
    plain = pos_inverse.radau

    def off(size):
        nodes, weights = plain(size)
        return nodes, weights * (1 + 2e-3)

    monkeypatch.setattr(pos_inverse, "radau", off)
    for case in (SURE, CLIPPED):
        result, bias, _ = shares_of("pos", case, 0.9)
        gap = np.abs(result.bias - bias)
        assert gap.max() > 1e-3 * np.abs(bias).max()
        assert (gap <= result.half_width).all()
        # rms sqrt(mse): what Cauchy-Schwarz gives, and little more
        assert result.half_width.max() <= 1.5 * (2e-3 + 0.02 * 0.9) * np.sqrt(result.mse.max())


@pytest.mark.usefixtures("no_shortcut")
@pytest.mark.parametrize("case", [SURE, CLIPPED])
def test_separated_what_lies_outside_the_chernoff_distance_is_stated(case, monkeypatch) -> None:
    """An inverse that says that S far from its mean may add 1e-5 to a share: so says the bias."""
    plain, tail = pos_separated.inverse_of, [0.0]

    def more(problem, tolerance):
        found = plain(problem, 1e-9)
        return replace(found, tail=found.tail + tail[0])

    monkeypatch.setattr(pos_separated, "inverse_of", more)
    assert shares_of("pos", case, 0.5)[0].half_width.max() < 0.9e-5
    tail[0] = 1e-5
    assert shares_of("pos", case, 0.5)[0].half_width.min() >= 1e-5


@pytest.mark.parametrize("factor", [1.0, 1.3, 3.0])
def test_the_inverse_knows_how_far_it_is_from_1_over_S(factor: float) -> None:
    """Gaussian S: rms and tail against integrals over the density of S, and neither is a hundred times too large."""
    x, a = factor * np.array([9.0, 8.0, 8.5]), np.array([1.0, 2.0, 3.0])
    problem = pos_problem.Problem.build(x, a, np.ones(3, dtype=np.int64), a * x / np.dot(a, x), G(1.0))
    d = float(np.sqrt(problem.variance))
    for tolerance in (1e-2, 1e-6):
        found = pos_inverse.inverse_of(problem, tolerance)
        assert found is not None
        s = np.linspace(problem.mean - 0.75 * problem.mean, problem.mean + 0.75 * problem.mean, 40_001)
        density = np.exp(-0.5 * ((s - problem.mean) / d) ** 2) / (d * np.sqrt(2 * np.pi))
        rms = np.sqrt(trapezoid((s * found(s) - 1) ** 2 * density, s))
        assert rms <= found.rms <= tolerance
        assert found.rms <= 300 * rms  # shells of three units of level: a factor e^{3/2} and the growth of f^2
        reach = 0.75 * problem.mean / d
        outside = 2 * ndtr(-min(reach, np.sqrt(2 * 60)))
        assert outside <= found.tail
        assert found.tail <= 1e-6


def test_the_inverse_counts_draws_near_the_mean_too(monkeypatch) -> None:
    """Off by 2e-3 everywhere: most draws are close to the mean, and the first shell has their chance, nearly 1.

    By the square root of the chances of the shells, 1 + 2/e + 2/e^4 + ..., the bound is at most 1.34 times too large.
    """
    plain = pos_inverse.radau
    x, a = 3 * np.array([9.0, 8.0, 8.5]), np.array([1.0, 2.0, 3.0])
    problem = pos_problem.Problem.build(x, a, np.ones(3, dtype=np.int64), a * x / np.dot(a, x), G(1.0))
    fine = pos_inverse.inverse_of(problem, 1e-9)
    monkeypatch.setattr(
        pos_inverse, "radau", lambda size: (plain(max(size, 12))[0], plain(max(size, 12))[1] * (1 + 2e-3))
    )
    found = pos_inverse.inverse_of(problem, 1e-2)
    assert fine is not None and found is not None  # noqa: PT018
    assert max(fine.rms, fine.square) < 1e-5
    assert 2e-3 <= found.rms <= 1.35 * 2e-3 + 1e-5
    assert 2e-3 <= found.square <= 1.35 * 2e-3 + 1e-5


@pytest.mark.usefixtures("no_shortcut")
def test_separated_neglected_clipping_is_stated(monkeypatch) -> None:
    """With 1/S known to 1e-9, a loose tolerance lets clipping be neglected: a true error, and the only one."""
    plain = pos_separated.inverse_of
    monkeypatch.setattr(pos_separated, "inverse_of", lambda problem, tolerance: plain(problem, 1e-9))
    for noise, x in ((G(4.0), (15.0, 50.0)), (L(1.5), (15.0, 50.0))):
        result, bias, _ = shares_of("pos", ("", by_directions, x, ONE, noise), 0.9)
        gap = np.abs(result.bias - bias)
        assert gap.max() > 1e-7  # it was neglected
        assert (gap <= result.half_width).all()
        assert result.half_width.max() <= 30 * gap.max()


@pytest.mark.usefixtures("no_shortcut")
def test_separated_entities_left_out_of_the_risk_are_stated(monkeypatch) -> None:
    """The smallest count alone is taken to be at risk: what clipping the next one would do is in the error.

    Truth: the same engine with all of them, whose error is a million times smaller (and which other tests check).
    """
    counts = fp.Counts([6.0, 30.0, 160.0, 190.0])
    truth = fp.audit(counts, L(3.0), "pos", engine=fp.Exact(rtol=1e-8))
    plain, inverse = pos_separated._at_risk, pos_separated.inverse_of
    monkeypatch.setattr(pos_separated, "inverse_of", lambda problem, tolerance: inverse(problem, 1e-10))
    monkeypatch.setattr(pos_separated, "_at_risk", lambda problem, rtol: plain(problem, 3e4))
    result = fp.audit(counts, L(3.0), "pos", engine=fp.Exact(rtol=0.9))
    gap = np.abs(result.bias - truth.bias)
    assert gap.max() > 1e5 * truth.half_width.max()
    assert (gap <= result.half_width).all()
    # 2 F/S with F at a threshold that is passed with a chance of about 1e-5
    bound = 2 * 3.0 / 2 * np.exp(-30.0 / 3.0) / 386.0
    assert result.half_width.max() >= bound > gap.max()


@pytest.mark.usefixtures("no_shortcut")
def test_separated_clipping_that_misses_its_chance_tells_its_error(monkeypatch) -> None:
    """All that the kernel sums is off by 1e-2 at every stage: P(something is clipped) has a closed form that tells."""
    plain, inverse = pos_separated._integrate, pos_separated.inverse_of

    def off(*given):
        found = plain(*given)
        return replace(found, first=found.first * 1.01, common=found.common * 1.01)

    monkeypatch.setattr(pos_separated, "inverse_of", lambda problem, tolerance: inverse(problem, 1e-9))
    monkeypatch.setattr(pos_separated, "_integrate", off)
    result, bias, _ = shares_of("pos", ("", by_directions, (6.0, 50.0), ONE, G(4.0)), 0.1)
    gap = np.abs(result.bias - bias)
    assert gap.max() > 1e-6
    assert (gap <= result.half_width).all()
    assert result.half_width.max() <= 10 * gap.max()


@pytest.mark.usefixtures("no_shortcut")
def test_separated_a_stage_that_is_off_is_seen_by_the_next_one(monkeypatch) -> None:
    """The shortfalls alone are off by 1 %, up and down in turn: P(something is clipped) stays as it is."""
    plain, inverse, calls = pos_separated._integrate, pos_separated.inverse_of, [0]

    def off(*given):
        found = plain(*given)
        calls[0] += 1
        return replace(found, first=found.first * (1 + 0.01 * (-1) ** calls[0]))

    monkeypatch.setattr(pos_separated, "inverse_of", lambda problem, tolerance: inverse(problem, 1e-9))
    monkeypatch.setattr(pos_separated, "_integrate", off)
    result, bias, _ = shares_of("pos", ("", by_directions, (6.0, 50.0), ONE, G(4.0)), 0.1)
    gap = np.abs(result.bias - bias)
    assert gap.max() > 1e-6
    assert (gap <= result.half_width).all()
    assert result.half_width.max() <= 10 * gap.max()


# ---------------------------------------------------------------------------------------------- pi_S+, a fault at a time


def test_simplex_a_rule_that_is_off_at_every_level_is_refused(monkeypatch) -> None:
    """Deficits 1 % too large: E[T] comes out by another way, and the two do not agree; three entities have a second way to all of it."""
    three = fp.Counts([0.0, 1.0, 6.0])
    true, plain = fp.audit(three, L(3.0), "simplex", engine="exact"), simplex._deficits

    def off(*given):
        found = plain(*given)
        return replace(found, values=found.values * 1.01, mean=found.mean * 1.01)

    monkeypatch.setattr(simplex, "_deficits", off)
    with pytest.raises(fp.ToleranceError, match=r"two ways to E\[T\] differ by"):
        fp.audit(fp.Counts([0.0, 6.0]), L(3.0), "simplex", engine="exact")
    found = fp.audit(three, L(3.0), "simplex", engine="exact")
    assert np.all(np.abs(found.bias - true.bias) <= found.half_width + true.half_width)


def test_simplex_a_rule_that_is_off_is_seen_by_the_next_one(monkeypatch) -> None:
    plain, calls = simplex._deficits, [0]

    def off(*given):
        found = plain(*given)
        calls[0] += 1
        fault = 1e-9 * (-1) ** calls[0] * np.array([1.0, -1.0])
        return replace(found, values=found.values + fault)

    monkeypatch.setattr(simplex, "_deficits", off)
    bias, _ = of_two("", (0.3, 2.0), 2.3, L(1.0))
    result = fp.audit(fp.Counts([0.3, 2.0]), L(1.0), "simplex", engine=fp.Exact(rtol=0.1))
    gap = np.abs(result.bias - bias)
    assert gap.max() > 0.9e-9
    assert (gap <= result.half_width).all()
    assert result.half_width.max() < 2.1e-9


def test_simplex_a_slow_rule_counts_ten_times(monkeypatch) -> None:
    """Where contours were cut off a level gains about a factor 2, so that what is left is as large as the last change."""
    plain = simplex._deficits
    bias, _ = of_two("", (0.3, 2.0), 2.3, L(1.0))
    left = [1e-9]

    def slow(*given):
        found = plain(*given)
        left[0] *= 0.6
        parts = replace(found.parts, slow=True)
        return replace(found, values=found.values + left[0] * np.array([1.0, -1.0]), parts=parts)

    monkeypatch.setattr(simplex, "_deficits", slow)
    result = fp.audit(fp.Counts([0.3, 2.0]), L(1.0), "simplex", engine=fp.Exact(rtol=0.1))
    gap = np.abs(result.bias - bias)
    assert gap.max() > 2e-10
    assert (gap <= result.half_width).all()


def test_simplex_of_few_what_is_missing_of_the_mass_is_stated(monkeypatch) -> None:
    """Every integral 1e-6 too small, that of 1 too."""
    plain = simplex_few._summed
    monkeypatch.setattr(simplex_few, "_summed", lambda x, total, y, mass: plain(x, total, y, mass * (1 - 1e-6)))
    for x, total, oracle in (((0.0, 3.0), 2.0, of_two), ((0.0, 3.0, 5.0), 2.0, of_three)):
        bias, slack = oracle("", x, total, L(1.0))
        result = fp.audit(fp.Counts(x), L(1.0), "simplex", engine=fp.Exact(rtol=1e-2), total=total)
        gap = np.abs(result.bias - bias)
        assert gap.max() > 1e-7
        assert (gap <= result.half_width + slack).all()
        assert result.half_width.max() <= 1e-5


@pytest.mark.parametrize("n", [2, 3])
def test_simplex_of_few_a_rule_that_is_off_is_seen_by_the_next_one(n: int, monkeypatch) -> None:
    """Everything moved by 1e-6 at the second order alone, with the whole mass 1: the change from the first one tells."""
    name = {2: "_two", 3: "_three"}[n]
    plain, fault = getattr(simplex_few, name), 1e-6 * np.array([1.0, -1.0, 0.0])[:n]

    def off(x, total, order):
        found = plain(x, total, order)
        if order != simplex_few.ORDERS[1]:
            return found
        some = {k: getattr(found, k) + np.abs(fault) for k in ("mse", "zero")}
        return replace(found, bias=found.bias + fault, threshold=found.threshold + 1e-6, **some)

    x, total = np.array([0.0, 3.0, 5.0])[:n], 2.0
    true = simplex_few.few(x, np.ones(n, dtype=np.int64), total, 1e-9, 1.0)
    monkeypatch.setattr(simplex_few, name, off)
    found = simplex_few.few(x, np.ones(n, dtype=np.int64), total, 0.1, 1.0)
    assert found.nodes == simplex_few.ORDERS[1]
    assert np.abs(found.bias - true.bias).max() == pytest.approx(1e-6, rel=1e-2)
    for moment, error in (
        ("bias", "error"),
        ("mse", "mse_error"),
        ("zero", "zero_error"),
        ("threshold", "threshold_error"),
    ):
        gap, stated = np.abs(getattr(found, moment) - getattr(true, moment)), getattr(found, error)
        assert np.all(gap <= stated * (1 + 1e-9) + getattr(true, error)), moment
        assert np.max(stated) <= 2.1e-6, moment


@pytest.mark.parametrize("n", [40, 4000])
def test_simplex_errors_are_never_below_rounding(n: int) -> None:
    """A product over n entities carries sqrt(n) roundings; the largest deficit is known no better than that."""
    counts = fp.Counts(np.tile([0.0, 5.0, 30.0, 90.0], n // 4))
    for noise in (L(8.0), G(8.0)):
        result = fp.audit(counts, noise, "simplex", engine=fp.Exact(rtol=1e-9))
        size = np.abs(result.bias) + result.expected_T.value
        assert (result.half_width >= np.sqrt(n) * HALF_ULP * size).all()


# ---------------------------------------------------------------------------------------------- the expansion


def test_the_expansion_states_what_its_two_ways_to_average_differ_by(monkeypatch) -> None:
    """m(r) wrong at the outer nodes of the fluctuation of r alone: the inner nodes see nothing of it, and the error must say so."""
    x, times = np.array([0.0, 3.0, 9.0, 40.0]), np.array([200, 100, 60, 40])
    noise, rule = G(5.0), G(5.0).best_threshold()
    total, plain, calls = float(x @ times), type(rule).gain, [0]
    true = expansion.simplex_threshold(x, times, noise, total, rule)
    fault = np.array([0.5, -0.5, 0.0, 0.0])

    def off(self, mechanism, c):
        calls[0] += 1  # the first two calls are the nodes at sqrt 3 deviations, the next two those at 1
        return plain(self, mechanism, c) + (fault if calls[0] <= 2 else 0.0)

    r = mean_field.shift(x, np.ones(4), times.astype(np.float64), 0.0, rule, noise)
    monkeypatch.setattr(expansion, "shift", lambda *given: r)
    monkeypatch.setattr(type(rule), "gain", off)
    found = expansion.simplex_threshold(x, times, noise, total, rule)
    gap = np.abs(found.bias - true.bias)
    assert calls[0] == 4
    assert gap.max() > 0.1 > 3 * true.error.max()
    assert (gap <= found.error).all()
    assert found.error.max() < 4 * gap.max()


def test_the_expansion_at_its_limit_has_the_room_that_its_margin_gives() -> None:
    """40,000 empty entities move the shift by a third of a noise deviation, against the exact engine.

    The true error is 0.17 of the stated one there. By the number of entities alone, 1/sqrt(D) = 0.04, it would be 0.75 of it.
    """
    x, times, noise, rule = np.array([0.0, 400.0]), np.array([40_000, 560]), G(5.0), Threshold(17.0)
    p = x / (x @ times)
    exact = exact_pos_threshold(x, np.ones(2), times, p, noise, rule)
    rough = expansion.pos_threshold(x, np.ones(2), times, p, noise, rule)
    gap = np.abs(exact.bias - rough.bias)
    assert (gap > 100 * exact.error).all()
    assert (gap <= 0.25 * rough.error).all()
    assert gap.max() > 0.01 * rough.error.max()


def test_what_is_certain_has_an_error_of_an_ulp() -> None:
    """One entity, or nothing to share, or counts that are never clipped: a bias that is a difference of doubles."""
    one = fp.audit(fp.Counts([0.1]), L(1.0), "simplex", engine="exact", total=0.3)
    never = fp.audit(fp.Counts([5000.1, 6000.2, 9000.3]), G(1.0), "simplex", engine="exact", total=20_030.0)
    nothing = fp.audit(fp.Counts([0.1, 0.7]), L(1.0), "simplex", engine="exact", total=0.0)
    for result, total in ((one, 0.3), (never, 20_030.0)):
        drift = (Fraction(total) - sum(map(Fraction, result.counts.values.tolist()))) / result.counts.n
        for bias, error in zip(result.bias, result.half_width, strict=True):
            assert abs(Fraction(bias) - drift) <= Fraction(error)
            assert 0 < error <= 4 * np.spacing(abs(bias))
    assert (nothing.bias == [-0.1, -0.7]).all()
    assert (nothing.half_width <= np.spacing(np.abs(nothing.bias))).all()


# ---------------------------------------------------------------------------------------------- closed forms


def test_clipping_alone_against_30_digits() -> None:
    """E[(X)_-] is promised to 1e-12 of it."""
    for kind in (L, G):
        x, spread = np.array([0.0, 0.3, 2.0, 7.0, 31.0, 60.0]), 2.7
        result = fp.audit(fp.Counts(x), kind(spread), "nonnegative", engine="exact")
        with mp.workdps(40):
            for v, bias, error in zip(x, result.bias, result.half_width, strict=True):
                t, b = mp.mpf(v) / mp.mpf(spread), mp.mpf(spread)
                truth = b / 2 * mp.exp(-t) if kind is L else b * (mp.npdf(t) - t * mp.ncdf(-t))
                assert abs(mp.mpf(float(bias)) - truth) <= mp.mpf(float(error))
                assert 4 * HALF_ULP * truth <= error <= 1e-11 * truth


def test_a_shift_of_the_total_against_rational_numbers() -> None:
    """pi_S: bias (C - sum x)/n; a small difference of large sums has the rounding of the sums."""
    rng = np.random.default_rng(4)
    worst = 0.0
    for n in (3, 50, 1000):
        x = rng.uniform(0, 1e6, n)
        total = float(np.sum(x)) + 0.7
        result = fp.audit(fp.Counts(x), L(3.0), "sum", engine="exact", total=total)
        drift = float((Fraction(total) - sum(map(Fraction, x.tolist()))) / n)
        gap = np.abs(result.bias - drift).max()
        worst = max(worst, gap / abs(drift))
        assert gap <= result.half_width.min()
        assert 0 < result.half_width.max() <= 1e-15 * x.max()
    assert worst > 1e-12  # far above rounding of the drift itself: the sums' rounding is what counts
    assert (fp.audit(fp.Counts([1, 2, 4]), L(3.0), "sum", engine="exact").half_width == 0).all()


def test_clipping_after_the_sum_against_30_digits() -> None:
    x = np.array([0.0, 2.0, 7.0, 40.0])
    for total in (49.0, 57.0):
        result = fp.audit(fp.Counts(x), G(5.0), "sum-clipped", engine="exact", total=total)
        with mp.workdps(40):
            s, shift = 5 * mp.sqrt(mp.mpf(3) / 4), mp.mpf(total - 49) / 4
            for v, bias, error in zip(x, result.bias, result.half_width, strict=True):
                t = (v + shift) / s
                below = s * (mp.npdf(t) - t * mp.ncdf(-t))
                assert abs(mp.mpf(float(bias)) - shift - below) <= mp.mpf(float(error))
                assert HALF_ULP * (below + shift) <= error <= 1e-10 * below + 1e-15 * shift


def test_the_bounds_state_their_error() -> None:
    x = [0.0] * 5 + [2.0] * 4 + [40.0]
    found = fp.theorem1(fp.Counts(x), G(4.0))
    with mp.workdps(40):
        s = 4 * mp.sqrt(mp.mpf(9) / 10)
        parts = [s * (mp.npdf(v / s) - v / s * mp.ncdf(-v / s)) for v in x]
        lower, whole = parts[0] - parts[-1], mp.fsum(parts)
        assert abs(lower - found.lower) <= found.error
        assert abs(lower + whole - found.theorem) <= found.error
        assert HALF_ULP * (lower + whole) <= found.error <= 1e-10 * (lower + whole)


@pytest.mark.parametrize("signs", [(1, 1), (1, -1), (-1, 1)])
def test_the_bounds_cover_tails_that_are_off_by_what_is_promised(signs, monkeypatch) -> None:
    """Each E[(y_i)_-] is promised to 5e-12 of it. That of the smallest count enters twice, in `lower` and in the sum."""
    for x in ([0.0, 90.0], [0.0, 0.5, 1.0]):
        counts = fp.Counts(x)
        plain = fp.theorem1(counts, G(4.0))
        off = np.array([1 + 4.9e-12 * signs[0], *[1.0] * (len(x) - 2), 1 + 4.9e-12 * signs[1]])
        with monkeypatch.context() as patch:
            patch.setattr(bounds, "clipped", lambda *given, off=off: sumlaw.clipped(*given) * off)
            found = fp.theorem1(counts, G(4.0))
        assert abs(found.lower - plain.lower) <= found.error
        gap = abs(found.lower + found.clipped - plain.lower - plain.clipped)
        assert gap <= found.error
        assert found.error <= 1e-10 * (plain.lower + plain.clipped)


# ---------------------------------------------------------------------------------------------- what all of them share


def test_a_value_that_two_rules_cross_by_accident_has_its_part_of_the_largest_change() -> None:
    now, before = np.array([1.0, 2.0, -4.0]), np.array([1.0, 2.1, -4.2])
    # changes 0, 0.1, 0.2; the largest 0.2 belongs to size 4
    assert shares.moved(now, before, now) == pytest.approx([0.05, 0.2, 0.4], rel=1e-12)
    assert shares.moved(now, now, now).tolist() == [0, 0, 0]
    assert shares.moved(np.zeros(2), np.ones(2), np.zeros(2)).tolist() == [1, 1]


def test_the_error_of_alpha_is_what_errors_of_the_biases_can_do() -> None:
    bias, error = np.array([0.5, 0.2, -0.3]), np.array([0.01, 0.4, 0.02])
    alpha, slack = shares.range_error(bias, error)
    assert alpha == pytest.approx(0.8, rel=1e-12)
    assert alpha + slack == pytest.approx(max(0.51, 0.6) - min(-0.32, -0.2), rel=1e-12)


@pytest.mark.parametrize(
    ("bias", "error", "share", "rtol", "enough"),
    [
        ([0.1, -0.1], [1e-7, 1e-7], 0.5, 1.1e-6, True),
        ([0.1, -0.1], [1e-7, 1e-7], 0.5, 0.9e-6, False),
        ([1e-17, -1e-17], [2e-16, 2e-16], 0.5, 1e-6, True),  # rounding of the shares themselves: 1e-15 of them
        ([1e-17, -1e-17], [3e-16, 3e-16], 0.5, 1e-6, False),
        ([1e-17, -1e-17], [2e-16, 2e-16], 0.3, 1e-6, False),
        ([0.1, -0.1], [np.nan, 1e-9], 0.5, 0.5, False),
        ([0.1, -0.1], [np.inf, 1e-9], 0.5, 0.5, False),
        ([0.0], [1e-4], 0.25, 1e-6, True),  # one pair: a part 1e-3 of the share, twice the error
        ([0.0], [1.3e-4], 0.25, 1e-6, False),
    ],
)
def test_when_a_tolerance_is_reached(bias, error, share, rtol, enough) -> None:
    found = shares.reached(np.array(bias), np.array(error), np.array([share, share / 2]), rtol)
    assert found is enough


# ---------------------------------------------------------------------------------------------- constraints A v = b

TREE = np.array([[1.0] * 8, [1.0, 1.0, 1.0, 0, 0, 0, 0, 0], [0, 0, 0, 1.0, 1.0, 0, 0, 0]])


def test_the_certificate_of_a_projection_says_what_its_conditions_leave(monkeypatch) -> None:
    """Newton's method stopped early: multipliers far from the solution, and a gap that says so."""
    right = np.array([20.0, 4.0, 6.0])
    noisy = np.array([30.0, -20.0, -9.0, 14.0, -30.0, 2.0, -17.0, 40.0])
    system = AffineNonnegative(TREE, right)._system
    worst = 0.0
    for limit in (0, 1, 2, 3000):
        found = system.nonnegative(noisy.copy(), limit)
        wanted = np.maximum(noisy - TREE.T @ found.multipliers, 0.0)
        gap = np.abs(found.values - wanted).max() / max(np.abs(noisy).max(), np.abs(found.values).max())
        assert found.gap == pytest.approx(gap, rel=1e-9, abs=1e-15)
        left = np.max(np.abs(TREE @ found.values - right) / (TREE @ np.abs(found.values) + right))
        assert left <= max(10 * found.residual, 4 * HALF_ULP)
        assert found.accurate == (found.gap <= 1e-9 and found.residual <= 1e-11)
        worst = max(worst, found.gap)
    assert worst > 1e-2
    pi, plain = AffineNonnegative(TREE, right), _dual.System.nonnegative
    monkeypatch.setattr(_dual.System, "nonnegative", lambda self, y: plain(self, y, 0))
    with pytest.raises(fp.ToleranceError, match=r"must hold, draw 0 leaves .* in v = \(X - A' mu\)_\+"):
        pi(noisy)


def test_a_projection_that_misses_its_equalities_is_not_handed_out(monkeypatch) -> None:
    plain = _dual.System.equality

    def off(self, y):
        return plain(self, y)[0], 2e-11

    monkeypatch.setattr(_dual.System, "equality", off)
    with pytest.raises(fp.ToleranceError, match=r"A v = b must hold to 1e-11 .* draw 0: 2.0e-11"):
        Affine(TREE, np.array([20.0, 4.0, 6.0]))(np.zeros(8))


@pytest.mark.parametrize(
    ("residual", "gap", "accurate"),
    [(0.9e-11, 0.9e-9, True), (1.1e-11, 0.0, False), (0.0, 1.1e-9, False), (np.nan, 0.0, False), (0.0, np.nan, False)],
)
def test_when_a_solution_is_accurate(residual, gap, accurate) -> None:
    assert _dual.Solution(np.zeros(1), np.zeros(1), residual, gap, 1).accurate is accurate


def test_a_window_of_r_that_is_no_window_is_refused(monkeypatch):
    """Three Gaussian values whose weights differ by 4e5, left to `general`: one line, no traceback."""
    monkeypatch.setattr(pos_sets, "served", lambda problem: False)
    counts = fp.Counts([0.38655533, 0.65654139, 1.52164967], weights=[8.42796761e05, 1.49693009, 2.07532020])
    with pytest.raises(fp.ToleranceError, match="pos: "):
        fp.audit(counts, fp.Gaussian(10.668198605152142), "pos", engine=fp.Exact())
