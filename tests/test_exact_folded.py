"""Releases with a threshold under whole-number noise among few entities: every noise listed, the other engine, one entity at risk."""

from __future__ import annotations

import numpy as np
import pytest

import fairpost as fp
from fairpost import errors
from fairpost.engines.exact.lattice import folded
from fairpost.engines.exact.lattice.problem import Problem
from fairpost.engines.exact.lattice.release import release as contours
from fairpost.engines.exact.lattice.steps import Steps, expected, summed
from fairpost.engines.exact.sums.one import one
from fairpost.noise import Threshold
from fairpost.rules import SimplexThreshold


def problem(x: list[float], noise: fp.noise.Law, total: float, rule: Threshold | None) -> Problem:
    u, times = np.unique(np.array(x), return_counts=True)
    return Problem(noise, u, times.astype(float), total, rule)


def enumerated(
    x: list[float], noise: fp.noise.Law, total: float, rule: Threshold, reach: int
) -> tuple[np.ndarray, ...]:
    """The rule applied to every vector of noises up to the reach."""
    k = np.arange(-reach, reach + 1.0)
    rows = np.stack(np.meshgrid(*[k] * len(x), indexing="ij"), axis=-1).reshape(-1, len(x))
    chance = np.prod(noise.density(rows), axis=1)
    rows, chance = rows[chance > 1e-21], chance[chance > 1e-21]
    v = SimplexThreshold(total, threshold=rule)(np.array(x) + rows)
    return chance @ (v - x), chance @ (v - x) ** 2, chance @ (v <= 1e-12)


@pytest.mark.parametrize(
    ("x", "total", "noise", "rule"),
    [
        ([0.0, 3.0], 3.0, fp.DiscreteLaplace(0.6), None),
        ([0.0, 3.0, 9.0], 12.0, fp.DiscreteLaplace(0.5), None),
        ([0.0, 3.0, 3.0], 4.5, fp.DiscreteGaussian(1.2), None),
        ([0.0, 40.0, 90.0], 130.0, fp.DiscreteLaplace(0.5), None),  # two giants
        ([0.0, 40.0, 90.0], 20.0, fp.DiscreteLaplace(0.5), None),  # two that sink
        ([2.0, 2.0, 2.0], 6.0, fp.DiscreteGaussian(1.0), None),
        ([0.0, 1.0, 5.0], 7.25, fp.DiscreteLaplace(0.5), Threshold.ramp(2.5)),
        ([1.0, 2.0, 2.0, 2.0], 3.6, fp.DiscreteGaussian(0.7), Threshold.ramp(0.2)),  # 3 * 1.2 is 3.6 but for rounding
        ([1.0, 2.0, 4.0], 0.75, fp.DiscreteGaussian(1.1), Threshold.ramp(1.0)),  # the top of a ramp is never reached
    ],
)
def test_two_to_four_entities_are_enumerated(x, total, noise, rule) -> None:
    rule = rule or noise.best_threshold()
    found = folded.release(problem(x, noise, total, rule), 1e-6)
    bias, mse, zero = enumerated(x, noise, total, rule, 19 if np.isfinite(noise.strip) else 11 if len(x) < 4 else 7)
    place = np.unique(x, return_inverse=True)[1]
    left = 1e-13 * max(1.0, total)  # of the enumeration: e^-38 at b = 0.5, and its rounding
    assert (np.abs(found.bias[place] - bias) <= found.error[place] + left).all()
    assert (np.abs(found.mse[place] - mse) <= found.mse_error[place] + left * max(1.0, total)).all()
    assert (np.abs(found.zero[place] - zero) <= found.zero_error[place] + left).all()
    assert found.error.max() < 2e-14 * max(1.0, total + max(x))
    assert found.zero_error.max() < 1e-12


@pytest.mark.parametrize(
    ("noise", "total"),
    [(fp.DiscreteLaplace(1.0), 37.0), (fp.DiscreteGaussian(2.0), 20.0), (fp.DiscreteLaplace(0.7), 60.5)],
)
def test_without_a_threshold_it_is_the_other_engine(noise: fp.noise.Law, total: float) -> None:
    x, times = np.array([0.0, 1.0, 2.0, 5.0, 7.0, 20.0]), np.array([1, 1, 2, 1, 1, 1])
    found = folded.release(Problem(noise, x, times.astype(float), total, None), 1e-6)
    other = contours(x, times, noise, total, None, 1e-6)
    assert (np.abs(found.bias - other.bias) <= found.error + other.error).all()
    assert (np.abs(found.mse - other.mse) <= found.mse_error + other.mse_error).all()
    assert (np.abs(found.zero - other.zero) <= found.zero_error + other.zero_error).all()
    assert abs(found.threshold - other.threshold) <= found.threshold_error + other.threshold_error
    assert found.threshold_error < 1e-12


@pytest.mark.parametrize("noise", [fp.DiscreteLaplace(0.6), fp.DiscreteLaplace(0.35), fp.DiscreteGaussian(1.5)])
def test_a_small_alpha_keeps_its_digits(noise: fp.noise.Law) -> None:
    """One entity at risk is a sum over its own law (`sums.one`); alpha is below 1e-6 of the noise there."""
    x, times, rule = np.array([9.0, 300.0]), np.array([1, 5]), noise.best_threshold()
    known = one(x, times, noise, 1509.0, rule, 1e-6)
    assert known is not None
    found = folded.release(Problem(noise, x, times.astype(float), 1509.0, rule), 1e-6)
    alpha = float(np.ptp(found.bias))
    assert 1e-16 < alpha < 1e-5
    assert found.error.max() <= 1e-6 * alpha
    assert alpha == pytest.approx(float(np.ptp(known.bias)), rel=1e-7, abs=0.0)
    assert found.zero[0] == pytest.approx(float(known.zero[0]), rel=1e-7)
    assert found.mse == pytest.approx(known.mse, rel=1e-9)


def test_the_size_of_a_giant_does_not_matter() -> None:
    """What is at risk sees its noise alone; its own error has that of the others' sum and of the shift."""
    noise = fp.DiscreteGaussian(1.3)
    near, far = (
        folded.release(problem([0.0, 0.0, 2.0, g, 2 * g], noise, 3 * g + 2, noise.best_threshold()), 1e-6)
        for g in (60.0, 3e9)
    )
    assert far.bias == pytest.approx(near.bias, abs=1e-13)
    assert far.zero == pytest.approx(near.zero, abs=1e-13)
    assert far.mse == pytest.approx(near.mse, rel=1e-12)
    assert near.mse[2] < noise.variance  # what sums to a total varies less


def test_what_is_left_out_is_stated() -> None:
    """With much left out the error says so, and it is not far above what is missing."""
    noise = fp.DiscreteLaplace(1.5)
    p = problem([0.0, 1.0, 4.0, 4.0], noise, 9.0, noise.best_threshold())
    best = folded.release(p, 1e-6)
    for allowed in (1e-2, 1e-4, 1e-7):
        found, far, _ = folded._folded(p, allowed)
        assert 0 < far <= 30 * allowed
        assert (np.abs(found.bias - best.bias) <= found.error).all()
        assert (np.abs(found.mse - best.mse) <= found.mse_error).all()
        assert (np.abs(found.zero - best.zero) <= found.zero_error).all()
        assert np.abs(found.zero - best.zero).max() > 1e-6 * found.zero_error.max()
    assert best.error.max() < 1e-12


def test_what_would_take_too_long_is_refused_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    noise = fp.DiscreteLaplace(1.0)
    with pytest.raises(errors.ToleranceError, match="folding more than 150 entities"):
        folded.release(problem([0.0] * 151, noise, 20.0, Threshold.ramp(1.0)), 1e-6)
    with pytest.raises(errors.ToleranceError, match="folding a law under discrete-laplace noise of this scale"):
        folded.release(problem([0.0, 1.0], fp.DiscreteLaplace(90.0), 1.0, Threshold.ramp(1.0)), 1e-6)
    small = problem([0.0, 1.0, 2.0], noise, 3.0, Threshold.ramp(1.0))
    monkeypatch.setattr(folded, "WORK", 2e7)  # enough for the cells that are sure to come, not for all
    with pytest.raises(errors.ToleranceError, match="folding the law of every cell"):
        folded.release(small, 1e-6)
    monkeypatch.setattr(folded, "WORK", 1e6)
    with pytest.raises(errors.ToleranceError, match="folding the law of 3 entities"):
        folded.release(small, 1e-6)


def test_the_engine_folds_where_contours_fail() -> None:
    """Cases that were refused: equal counts, a total near the threshold, and a ramp that is all but none."""
    equal = fp.audit(fp.Counts([1.0] * 8), fp.DiscreteLaplace(2.0217), "simplex-threshold", engine="exact")
    assert equal.alpha.value == 0
    assert equal.half_width.max() < 1e-300
    drawn = fp.audit(
        fp.Counts([1.0] * 8), fp.DiscreteLaplace(2.0217), "simplex-threshold", engine=fp.MonteCarlo(runs=40_000, seed=4)
    )
    # a mean of eight is known to 1 % of the standard error of a run, here some 3 of mse and 0.5 of P(0), over 200
    assert equal.mse[0] == pytest.approx(float(np.mean(drawn.mse)), abs=0.06)
    assert equal.zero[0] == pytest.approx(float(np.mean(drawn.zero)), abs=0.004)
    noise = fp.DiscreteLaplace(0.05)
    steep = fp.audit(fp.Counts([0.0, 1.0, 3.0]), noise, "simplex-threshold", engine="exact")
    bias, mse, zero = enumerated([0.0, 1.0, 3.0], noise, 4.0, noise.best_threshold(), 3)
    assert steep.bias == pytest.approx(bias, rel=1e-5)
    assert steep.mse == pytest.approx(mse, rel=1e-5)
    assert steep.zero == pytest.approx(zero, abs=1e-14)


def test_one_entity_more_in_a_law() -> None:
    """Forwards what is added, backwards what is expected of it: the same sum, and nothing is lost but what is said."""
    rng = np.random.default_rng(3)
    law, value = rng.random((3, 2, 9)), rng.random((1, 3, 2, 9))
    above = np.concatenate([[9.0, 9.0], rng.random(11)])  # (what is below 2 plays no part)
    step = Steps(0.3, 0.2, above)
    after, over = step.forwards(law)
    full = np.zeros((4, 3, 21))
    full[:3, :2, :9] += 0.3 * law
    full[:3, 1:, :9] += 0.2 * law
    for k in range(2, 13):
        full[1:, :2, k : k + 9] += above[k] * law
    assert after == pytest.approx(full[:3, :2, :9], rel=1e-13)
    assert over == pytest.approx(float(full.sum() - full[:3, :2, :9].sum()), rel=1e-12)
    assert float(np.sum(law * step.backwards(value)[0])) == pytest.approx(float(np.sum(after * value[0])), rel=1e-12)
    weighted = step.weighted(value, -1.5, 2)
    assert weighted[0, 1, 1, 4] == pytest.approx(
        sum(above[k] * (k - 1.5) ** 2 * value[0, 1, 1, 4 + k] for k in (2, 3, 4))
    )
    assert expected(value, above, 0)[0, 0, 0, 8] == pytest.approx(above[0] * value[0, 0, 0, 8])


def test_sums_of_noises() -> None:
    noise = fp.DiscreteLaplace(0.8)
    one_of = noise.density(np.arange(-40, 41.0))
    law = summed(one_of, 5, 1e-12)
    k = np.arange(law.size) - law.size // 2
    assert law.size < 5 * one_of.size
    assert float(law.sum()) == pytest.approx(1, abs=1e-10)
    assert float(law @ k**2) == pytest.approx(5 * noise.variance, rel=1e-8)
    assert summed(one_of, 0, 1e-12).tolist() == [1.0]
