"""What noisy counts alone can say: intervals cover, the plug-in's stated error is true, rounding is unbiased."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fairpost as fp
from fairpost.datasets import synthetic_districts
from fairpost.errors import CountsError, ParameterError
from fairpost.estimate import plug_in, share_interval

MECHANISMS = [fp.Laplace(20.0), fp.Gaussian(25.0), fp.DiscreteLaplace(20.0), fp.DiscreteGaussian(25.0)]
NAMES = [m.name for m in MECHANISMS]


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=NAMES)
def test_intervals_cover_every_entity_as_often_as_promised(mechanism):
    """Each of 40 by itself, and all of them at once where that is asked for."""
    rng = np.random.default_rng(5)
    x = np.concatenate([np.zeros(3), np.round(rng.pareto(1.1, 37) * 30)])
    a = rng.uniform(0.5, 20, x.size)
    share, repeats, together = a * x / np.sum(a * x), 400, 0
    covered = np.zeros(x.size)
    for r in range(repeats):
        y = x + mechanism.sample(x.size, fp.Stream(11, r))
        each, all_ = (share_interval(y, mechanism, a, confidence=0.9, simultaneous=how) for how in (False, True))
        covered += (each.low <= share) & (share <= each.high)
        together += bool(((all_.low <= share) & (share <= all_.high)).all())
    # 41 binomials at 0.9 or more: 4.5 standard errors below 0.9 has a chance of 41 * 3.4e-6.
    assert min(together, *covered) / repeats >= 0.9 - 4.5 * np.sqrt(0.09 / repeats)


def test_intervals_where_the_noise_drowns_everything():
    found = share_interval([-500.0, -300.0], fp.Laplace(10.0))
    assert (found.low == 0).all()
    assert ((found.high >= found.low) & (found.high <= 1)).all()
    alone = share_interval([50.0], fp.Laplace(1.0))
    assert alone.low[0] == 1.0 == alone.high[0]


@pytest.mark.parametrize("how", ["baseline", "pos", "pos-threshold"])
def test_the_plug_in_and_its_stated_error(how):
    """Over entities, the true error of the estimate and the stated one agree within a factor of 2."""
    counts, mechanism = synthetic_districts(1500), fp.Laplace(50.0)
    true = fp.audit(counts, mechanism, how).bias
    errors, stated = [], []
    for r in range(2):
        found = plug_in(counts.values + mechanism.sample(counts.n, fp.Stream(3, r)), mechanism, how=how, replicates=3)
        errors.append(np.sqrt(np.mean((found.bias - true) ** 2)))
        stated.append(np.sqrt(np.mean(found.error**2)))
    assert 0.5 < np.mean(errors) / np.mean(stated) < 2
    assert "noisy" in found.mark


@pytest.mark.parametrize("how", ["baseline", "pos"])
def test_the_bootstrap_by_its_definition_and_from_its_seed(how):
    """New noise of (seed, k) on the plugged-in counts, plugged in again: the root mean square of what the biases then differ by."""
    y, mechanism = np.array([41.0, -2.5, 7.25, 90.0, 18.0]), fp.Laplace(2.0)
    x = fp.project_simplex(y, y.sum())
    bias = fp.audit(x, mechanism, how, engine="exact").bias
    errors = []
    for seed in (0, 4):
        again = []
        for k in range(3):
            z = x + mechanism.sample(5, fp.Stream(seed, k))
            again.append(fp.audit(fp.project_simplex(z, z.sum()), mechanism, how, engine="exact").bias)
        found = plug_in(y, mechanism, how=how, engine="exact", replicates=3, seed=seed)
        np.testing.assert_allclose(found.bias, bias, rtol=1e-12)
        np.testing.assert_allclose(found.error, np.sqrt(np.mean((np.array(again) - bias) ** 2, axis=0)), rtol=1e-9)
        errors.append(found.error)
    assert (errors[0] != errors[1]).all()


def test_no_estimate_where_the_sum_is_not_positive():
    with pytest.raises(CountsError, match="sum above 0"):
        plug_in([-5.0, 2.0], fp.Laplace(1.0))


@pytest.mark.parametrize("bad", [dict(confidence=0.0), dict(confidence=1.0)])
def test_bad_confidence_is_named(bad):
    with pytest.raises(ParameterError, match="confidence"):
        share_interval([1.0, 2.0], fp.Laplace(1.0), **bad)


# ---- rounding: counts that are projected already are changed by it alone ------------------------------------------


def rounded(v, seed, **more):
    """Of counts from 0 with their own total the projection is themselves."""
    return fp.project(v, round=True, seed=seed, **more).rounded


@settings(deadline=None, max_examples=100)
@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=50), st.integers(0, 2**32))
def test_rounding_keeps_the_total_and_moves_nothing_by_one(raw, seed):
    v = np.array(raw)
    v[0] += np.ceil(v.sum()) - v.sum()
    found = rounded(v, seed)
    assert (found == np.round(found)).all()
    assert (found >= 0).all()
    assert np.abs(found - v).max() < 1 + 1e-6
    assert found.sum() == np.round(v.sum())


def test_rounding_is_unbiased():
    v = np.array([0.1, 0.25, 3.65, 7.0, 0.5, 0.5])
    repeats = 8_000
    mean = np.mean([rounded(v, seed) for seed in range(repeats)], axis=0)
    # A fraction f has variance f (1 - f) <= 1/4; five standard errors for each of six.
    assert np.abs(mean - v).max() <= 5 * 0.5 / np.sqrt(repeats)
    assert mean[3] == 7.0


def test_rounding_by_group_keeps_each_total():
    for seed in range(50):
        found = rounded([0.3, 1.5, 0.3, 2.5, 0.4], seed, groups=list("ababa"))
        assert (found[[0, 2, 4]].sum(), found[[1, 3]].sum()) == (1, 4)
