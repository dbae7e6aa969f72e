"""`simplex-threshold` with a total of a few thresholds under Gaussian noise: the law of H for each number that is kept."""

from __future__ import annotations

import numpy as np
import pytest

import fairpost as fp
from fairpost.engines.exact.sums.population import Places
from fairpost.engines.exact.sums.window import Family, find_window
from fairpost.engines.exact.threshold import counted, few
from fairpost.engines.exact.threshold.counted import LEVELS, above_cut, release
from fairpost.engines.exact.threshold.largest import largest
from fairpost.engines.exact.threshold.moments import simplex_threshold
from fairpost.engines.exact.threshold.release import release as bell
from fairpost.engines.moments import Moments
from fairpost.errors import ToleranceError
from fairpost.noise import Gaussian, Laplace, Threshold
from fairpost.rules import SimplexThreshold

UNIT = Gaussian(1.0)


def within(one: np.ndarray, other: np.ndarray, error: np.ndarray) -> None:
    """Nowhere farther apart than that."""
    assert np.all(np.abs(one - other) <= error)


def agree(one: Moments, other: Moments) -> None:
    """Two ways, each inside the errors of both."""
    for value, error in (("bias", "error"), ("mse", "mse_error"), ("zero", "zero_error")):
        within(getattr(one, value), getattr(other, value), getattr(one, error) + getattr(other, error))


@pytest.mark.parametrize("total", [1.2, 1.7, 1.99])
def test_up_to_two_thresholds_two_share(total: float) -> None:
    """`largest` has no contour."""
    x, times = np.array([0.0, 0.3, 1.0, 2.5]), np.array([9, 4, 2, 1])
    agree(release(x, times, UNIT, 0.8 * total, 0.8, 1e-6), largest(x, times * 1.0, UNIT, 0.8 * total, 0.8, 1e-9))


def test_many_share_a_bell() -> None:
    """Where the product of all dies out, no k need be taken by itself."""
    x, times = np.array([0.0, 0.5, 1.0, 2.0]), np.array([25, 25, 25, 25])
    agree(release(x, times, UNIT, 58.5, 1.5, 1e-6), bell(x, times, UNIT, 58.5, 1.5, 1e-8))


@pytest.mark.parametrize("total", [2.5, 3.5, 6.6])
def test_upright_lines_between_the_corners(total: float) -> None:
    """With a wide threshold lines reach the tolerance too."""
    x, times = np.array([0.0, 0.4, 1.5, 3.0]), np.array([2, 1, 1, 1])
    lines = few.release(x, times, UNIT, total * 2.0, 2.0, 1e-4)
    agree(release(x, times, UNIT, total * 2.0, 2.0, 1e-6), lines)


@pytest.mark.parametrize("k", [2, 3, 4])
def test_nothing_happens_where_the_total_passes_a_threshold(k: int) -> None:
    """A corner of the order k + 1: 1e-7 on either side moves alpha by its slope at most, in any direction."""
    x, times = np.array([0.0, 0.4, 1.5]), np.array([6, 3, 1])
    near = [release(x, times, UNIT, (k + d) * 0.8, 0.8, 1e-7) for d in (-1e-7, 0.0, 1e-7)]
    below, here, above = (found.bias for found in near)
    within(below + above, 2 * here, sum(found.error for found in near))
    assert np.all(np.abs(above - below) < 2e-7)


def test_against_draws() -> None:
    """All of it: hundreds of entities, a total of 2.1 thresholds; a mean over 200,000 draws."""
    x, times, tau = np.array([0.0, 1.0, 3.0, 14.0]) / 40, np.array([80, 60, 50, 10]), 0.75
    found = simplex_threshold(x, times, UNIT, 2.1 * tau, Threshold(tau))
    every, rng = np.repeat(x, times), np.random.default_rng(5)
    pi, sums = SimplexThreshold(2.1 * tau, threshold=Threshold(tau)), np.zeros((4, 200))
    for _ in range(20):
        v = pi(every + rng.standard_normal((10_000, 200)))
        sums += np.stack([v.sum(0), (v**2).sum(0), ((v - every) ** 2).sum(0), (v == 0).sum(0)])
    mean, square, mse, zero = sums / 200_000
    ends = np.cumsum(times)
    for i, (a, b) in enumerate(zip(ends - times, ends, strict=True)):
        number = 200_000 * times[i]
        spread = np.sqrt(np.mean(square[a:b] - mean[a:b] ** 2) / number)
        assert abs(np.mean(mean[a:b]) - x[i] - found.bias[i]) < 5 * spread
        assert abs(np.mean(mse[a:b]) - found.mse[i]) < 0.02 * found.mse[i]
        assert abs(np.mean(zero[a:b]) - found.zero[i]) < 5 * np.sqrt(found.zero[i] * (1 - found.zero[i]) / number)


def test_the_parts_above_the_cut() -> None:
    """Against a sum over the density, on both sides of the cut and far out on the contour."""
    p = np.linspace(0.0, 30.0, 400_001)
    for c in (-6.0, -0.5, 0.0, 2.0):
        s = np.array([-0.7 + 0.1j, 0.3 + 2.0j, 2.0 + 6.0j])
        f = np.exp(-0.5 * (p + c) ** 2) / np.sqrt(2 * np.pi) * np.exp(np.multiply.outer(s, p))
        kept, first = above_cut(np.array(c), s)
        np.testing.assert_allclose(kept, np.trapezoid(f, p), rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(first, np.trapezoid(f * p, p), rtol=1e-6, atol=1e-9)


def family(x: np.ndarray, times: np.ndarray, total: float, tau: float) -> Family:
    """The falling sum in units of the noise."""
    n = float(times.sum())
    return Family(
        UNIT, x - tau, times * 1.0, total - float(x @ times) + tau * n, lambda t: Places(t, np.full(t.size, tau), None)
    )


def test_what_is_left_out_and_rounded_is_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    """A window that ends too soon below, and coarse rounding, show in the error of every deficit."""
    x, times, total, tau = np.array([0.0, 0.3, 5.0]), np.array([5, 5, 1]), 2.4, 0.8
    given = family(x, times, total, tau)
    win = find_window(given)
    whole = counted._level(given, win, total, tau, LEVELS[2], 1e9)
    short = type(win)(win.centre, win.low + 0.55 * (win.centre - win.low), win.high, win.scale, win.kept, win.marks)
    cut = counted._level(given, short, total, tau, LEVELS[2], 1e9)
    gap = np.abs(cut.deficit - whole.deficit)
    assert gap[2] > 1e-9
    assert np.all(gap <= cut.lost + whole.lost + 1e-12)
    assert np.all(cut.lost < 1e3 * gap.max())
    monkeypatch.setattr(counted, "EPS", 1e-9)
    assert np.all(counted._level(given, win, total, tau, LEVELS[0], 1e9).lost > 1e-9)


def test_refusals() -> None:
    """Laplace noise, too many that may be kept, a count that is never cut, too much work."""
    x, times = np.array([0.0, 1.0]), np.array([4, 4])
    with pytest.raises(ToleranceError, match="can be counted"):
        release(x, times, Laplace(1.0), 3.0, 1.0, 1e-6)
    with pytest.raises(ToleranceError, match="can be counted"):
        release(x, times, UNIT, 40.5, 1.0, 1e-6)
    with pytest.raises(ToleranceError, match="never cut"):
        release(np.array([0.0, 15.0]), np.array([4, 1]), UNIT, 20.0, 1.0, 1e-6)
    with pytest.raises(ToleranceError, match="too long"):
        counted._level(family(x, times, 3.0, 1.0), find_window(family(x, times, 3.0, 1.0)), 3.0, 1.0, LEVELS[0], 1e3)
    with pytest.raises(ToleranceError, match="is known to"):
        release(x / 1e13, times, UNIT, 3.0, 1.0, 1e-9)


def test_lines_keep_away_from_corners() -> None:
    """Near a corner of E[v] in C lines would be off by more than they say, and refuse."""
    x, times = np.array([0.0, 0.4, 1.5, 3.0]), np.array([2, 1, 1, 1])
    assert few._room(few.Values(UNIT, x, times * 1.0, 5.0, 0.0, 2.0), 6.3) == pytest.approx(0.3)
    assert few._room(few.Values(UNIT, x, times * 1.0, 5.0, 0.0, 2.0), 13.0) == pytest.approx(3.0)
    assert few._room(few.Values(UNIT, x, times * 1.0, 5.0, 0.0, 0.0), 6.3) == 6.3
    assert few._room(few.Values(Laplace(1.0), x, times * 1.0, 5.0, 0.0, 2.0), 6.3) == 6.3
    with pytest.raises(ToleranceError, match="too long"):
        few.release(x, times, UNIT, 3.999 * 2.0, 2.0, 1e-6)


def test_the_engine_takes_it() -> None:
    """What was refused: hundreds of small counts, Gaussian noise, a total of two thresholds and a little."""
    x = np.repeat([0.0, 1.0, 2.0, 4.0, 9.0, 14.0], [76, 63, 30, 50, 17, 3])
    result = fp.audit(fp.Counts(x), Gaussian(400.0), "simplex-threshold", engine="exact")
    assert result.method == "exact"
    assert result.accuracy.half_width.max() < 1e-5
