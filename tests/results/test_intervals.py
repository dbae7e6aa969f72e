"""Intervals of a result from what holds for all biases together."""

from __future__ import annotations

import numpy as np
import pytest

import fairpost as fp
from fairpost import fairness
from fairpost.accuracy import Accuracy


def test_the_interval_of_the_largest_loss_covers_every_bias_within_its_error() -> None:
    """By brute force over the corners of the box of errors."""
    bias, error = np.array([0.4, -0.3, -0.25, 0.15]), np.array([0.01, 0.02, 0.2, 0.05])
    found = fairness.loss_interval(bias, Accuracy("bound", error))
    corners = np.array(np.meshgrid(*[[b - e, b + e] for b, e in zip(bias, error, strict=True)])).reshape(4, -1)
    losses = np.maximum(0.0, -corners.min(axis=0))
    assert (found.value, found.low, found.high) == pytest.approx((0.3, losses.min(), losses.max()), rel=1e-12)
    assert found.low < found.value < found.high
    gain = fairness.loss_interval(np.array([0.5, 0.1]), Accuracy("bound", np.array([0.2, 0.3])))
    assert (gain.value, gain.low) == (0.0, 0.0)
    assert gain.high == pytest.approx(0.2, rel=1e-12)


def test_the_interval_of_alpha_and_of_the_cost_over_the_corners_of_the_box() -> None:
    bias, error = np.array([0.4, -0.3, -0.25, 0.15]), np.array([0.01, 0.02, 0.2, 0.05])
    corners = np.array(np.meshgrid(*[[b - e, b + e] for b, e in zip(bias, error, strict=True)])).reshape(4, -1)
    alpha, cost = (
        fairness.alpha_interval(bias, Accuracy("bound", error)),
        fairness.cost_interval(bias, Accuracy("bound", error)),
    )
    ranges, costs = np.ptp(corners, axis=0), np.maximum(-corners, 0).sum(axis=0)
    assert (alpha.value, alpha.high) == pytest.approx((0.7, ranges.max()), rel=1e-12)
    assert alpha.low == pytest.approx(ranges.min(), rel=1e-12)
    assert (cost.value, cost.low, cost.high) == pytest.approx((0.55, costs.min(), costs.max()), rel=1e-12)
    times = np.array([1, 3, 2, 5])
    many = fairness.cost_interval(bias, Accuracy("bound", error), times)
    assert many.value == pytest.approx(3 * 0.3 + 2 * 0.25, rel=1e-12)


@pytest.mark.parametrize("engine", ["exact", "monte-carlo"])
def test_intervals_of_a_result_come_from_what_holds_for_all_biases_together(engine: str) -> None:
    """Exact: the error bounds. Simulated: the simultaneous half widths, which are wider than standard errors."""
    counts = fp.Counts([0.0, 2.0, 9.0, 40.0, 70.0], weights=[1, 2, 1, 3, 1])
    settings = {"runs": 2000} if engine == "monte-carlo" else {}
    result = fp.audit(counts, fp.Laplace(5.0), "baseline", engine=engine, budget=1e6, **settings)
    half = result.half_width
    np.testing.assert_array_equal(result.half_width, half)
    if engine == "monte-carlo":
        assert (half > 2 * result.engine.standard_error).all()
    low, value, high = (np.maximum(-(result.bias + s * half), 0).sum() for s in (1, 0, -1))
    cost = result.cost_of_privacy
    assert (cost.share.low, cost.share.value, cost.share.high) == pytest.approx((low, value, high), rel=1e-12)
    assert cost.share.low < cost.share.value < cost.share.high
    assert (cost.amount.low, cost.amount.high) == pytest.approx((1e6 * low, 1e6 * high), rel=1e-12)
    loss = result.largest_loss
    who = loss.id
    assert loss.value == -result.bias.min()
    assert loss.low == pytest.approx(np.max(-(result.bias + half)), rel=1e-12)
    assert loss.high == pytest.approx(np.max(-(result.bias - half)), rel=1e-12)
    assert loss.low < loss.value < loss.high
    assert who == counts.ids[int(np.argmin(result.bias))] == result.alpha_pair[1]
