"""Stated errors of the exact engine against independent truth: never too small, and not so large that they say nothing.

True biases come from integration over directions, one-dimensional integrals, enumeration, closed forms or 30 digits, at tolerances so
loose that the engine stops early and its error is not rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

import mpmath as mp
import numpy as np
import pytest

import fairpost as fp
from fairpost.bounds import sum_law as sumlaw
from fairpost.bounds import theorems as bounds
from fairpost.rules.affine import system as _dual
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
    *[("pos", by_directions, (60.0, 200.0), (1.0, 2.0), noise(4.0)) for noise in (L, G)],
    ("pos", by_directions, (15.0, 50.0), ONE, G(4.0)),
    ("pos", by_directions, (4.0, 20.0, 30.0), (1.0, 1.3, 0.8), G(3.0)),
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
    ) for noise in (L, G) if noise is G or total > 20],  # small totals of few under Laplace noise are left to conditional means
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
