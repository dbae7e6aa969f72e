"""What is lost relative to what is due, with intervals of its own, and the error of all entities."""

import json

import numpy as np
import pytest

import fairpost as fp
from fairpost.accuracy import Estimate
from fairpost.results import Extreme
from support.six_districts import NOISE, X


def test_a_bias_relative_to_what_is_due_has_its_own_interval(found):
    drawn = fp.audit(X, NOISE, "pos", engine="monte-carlo", runs=2000, seed=3)
    exact = found[1]
    due = X.values * X.weights / (X.values * X.weights).sum()
    for r in (exact, drawn):
        assert np.isnan(r.relative[0])
        assert np.isnan(r.relative.half_width[0])
        assert r.relative.of(0) is None
        assert r.relative[1:] == pytest.approx(r.bias[1:] / due[1:], rel=1e-13)
        assert (r.relative.half_width[1:] >= r.half_width[1:] / r.truth[1:]).all()
        assert r.relative.of(3) == Estimate.around(
            float(r.relative[3]), float(r.relative.half_width[3]), r.accuracy.kind
        )
    # simultaneous intervals of simulation hold the exact values (they fail with chance 0.05; the seed is fixed)
    assert (np.abs(drawn.relative - exact.relative)[1:] <= drawn.relative.half_width[1:]).all()
    loss = exact.relative.largest_loss
    assert loss.id == X.ids[1 + int(np.argmin(exact.relative[1:]))] != exact.largest_loss.id
    assert (loss.low, loss.value, loss.high) == pytest.approx([-exact.relative[1:].min()] * 3, rel=1e-5)
    assert loss.low < loss.value < loss.high


def test_where_nobody_is_due_anything_there_is_no_relative_loss():
    r = fp.audit([0, 0, 0], NOISE, "nonnegative")
    assert r.relative.largest_loss == Extreme(0.0, 0.0, 0.0, id=None)
    assert json.loads(json.dumps(r.to_dict()))["largest_relative_loss"]["id"] is None


def test_the_error_of_all_entities_has_an_interval():
    """RMSE: between the roots of the mean of the ends; null in JSON where a simulation knows no upper end."""
    r = fp.audit(X, NOISE, "pos", engine="monte-carlo", runs=20_000, seed=1)
    exact = fp.audit(X, NOISE, "pos", engine="exact")
    assert r.moments.rmse.low <= exact.moments.rmse.value <= r.moments.rmse.high
    width = float(np.mean(r.moments.mse_accuracy.half_width))
    assert r.moments.rmse.high**2 - r.moments.rmse.value**2 == pytest.approx(width, rel=1e-9)
    assert r.moments.mean_zero.low <= exact.moments.mean_zero.value <= r.moments.mean_zero.high <= 1
    short = fp.audit(X, NOISE, "pos", engine="monte-carlo", runs=50)
    assert short.moments.rmse.high == np.inf
    assert short.to_dict()["rmse"]["high"] is None
    assert Estimate.from_dict(short.to_dict()["rmse"]) == short.moments.rmse
