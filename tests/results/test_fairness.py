"""alpha, cost of privacy and summaries as pure functions of a bias vector."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import fairpost as fp
from fairpost import fairness
from fairpost.accuracy import Accuracy, Estimate

biases = hnp.arrays(np.float64, st.integers(1, 30), elements=st.floats(-5, 5))
errors = st.floats(0, 2)


@given(biases)
def test_alpha_is_the_largest_difference_of_any_pair(bias):
    found = fairness.alpha(bias)
    assert found.value == max(a - b for a in bias for b in bias)
    assert bias[found.most] - bias[found.least] == found.value


@given(biases, errors, st.randoms(use_true_random=False))
def test_intervals_cover_every_bias_within_its_error(bias, size, random):
    truth, known = bias + [random.uniform(-size, size) for _ in bias], Accuracy("bound", np.full(bias.size, size))
    for found, true in (
        (fairness.alpha_interval(bias, known), np.ptp(truth)),
        (fairness.cost_interval(bias, known), np.maximum(-truth, 0).sum()),
        (fairness.loss_interval(bias, known), max(0.0, -truth.min())),
    ):
        assert found.low - 1e-12 <= true <= found.high + 1e-12


def test_intervals_are_the_extremes_over_the_corners_of_the_box():
    """By brute force; lists of times stand for equal entities."""
    bias, error = np.array([0.4, -0.3, -0.25, 0.15]), np.array([0.01, 0.02, 0.2, 0.05])
    corners = np.array(np.meshgrid(*[[b - e, b + e] for b, e in zip(bias, error, strict=True)])).reshape(4, -1)
    times, known = [1, 3, 2, 5], Accuracy("bound", error)
    lost = np.maximum(-corners, 0)
    for found, ends in (
        (fairness.alpha_interval(bias, known), np.ptp(corners, axis=0)),
        (fairness.cost_interval(bias, known), lost.sum(axis=0)),
        (fairness.cost_interval(bias, known, times), times @ lost),
        (fairness.loss_interval(bias, known), lost.max(axis=0)),
    ):
        assert (found.low, found.high) == pytest.approx((ends.min(), ends.max()), rel=1e-12)
    assert fairness.alpha_interval(bias, Accuracy("bound", np.ones(4))).low == 0.0
    gain = fairness.loss_interval(np.array([0.5, 0.1]), Accuracy("bound", np.array([0.2, 0.3])))
    assert (gain.value, gain.low, gain.high) == (0.0, 0.0, pytest.approx(0.2))


@pytest.mark.parametrize("engine", ["exact", "monte-carlo"])
def test_intervals_of_a_result_come_from_what_holds_for_all_biases_together(engine):
    """Exact: the error bounds. Simulated: the simultaneous half widths, which are wider than standard errors."""
    counts = fp.Counts([0.0, 2.0, 9.0, 40.0, 70.0], weights=[1, 2, 1, 3, 1])
    settings = {"runs": 2000} if engine == "monte-carlo" else {}
    result = fp.audit(counts, fp.Laplace(5.0), "baseline", engine=engine, budget=1e6, **settings)
    bias, half, cost = result.bias, result.half_width, result.cost_of_privacy
    assert engine == "exact" or (half > 2 * result.engine.standard_error).all()
    ends = [np.maximum(-(bias + s * half), 0).sum() for s in (1, 0, -1)]
    assert [cost.share.low, cost.share.value, cost.share.high] == pytest.approx(ends, rel=1e-12)
    assert [cost.amount.low, cost.amount.value, cost.amount.high] == pytest.approx(1e6 * np.array(ends), rel=1e-12)
    loss = result.largest_loss
    assert [loss.low, loss.value, loss.high] == pytest.approx(
        [np.max(-(bias + s * half)) for s in (1, 0, -1)], rel=1e-12
    )
    assert ends[0] < ends[1] < ends[2]
    assert loss.low < loss.value < loss.high
    assert loss.id == counts.ids[int(np.argmin(bias))] == result.alpha_pair[1]


def test_cost_of_privacy_counts_losers_only():
    assert fairness.cost_of_privacy([0.3, -0.1, -0.2], budget=1000.0) == pytest.approx(300.0)
    assert fairness.cost_of_privacy([0.3, 0.1]) == 0
    assert fairness.cost_of_privacy_l1([0.3, -0.1, -0.2], 40.0) == pytest.approx(12.0)
    assert fairness.misallocation([0.3, -0.1], 10.0).tolist() == [3.0, -1.0]


def test_groups_are_all_listed_in_order_of_appearance():
    found = fairness.by_group([1.0, -2.0, 3.0, 0.5], ["b", "a", "b", "c"])
    assert [(s.label, s.n, s.total) for s in found] == [("b", 2, 4.0), ("a", 1, -2.0), ("c", 1, 0.5)]
    assert (found[0].mean, found[0].least, found[0].most) == (2.0, 1.0, 3.0)


def test_size_bins_list_empty_ones_too():
    found = fairness.by_size([1.0, 2.0, 4.0], [0, 5, 2000])
    assert [(s.label, s.n) for s in found] == [
        ("[0, 1)", 1), ("[1, 10)", 1), ("[10, 100)", 0), ("[100, 1000)", 0), ("[1000, 10000)", 1),
    ]  # fmt: skip
    assert found[2].mean is None
    assert found[2].total == 0.0
    assert [s.n for s in fairness.by_size([1.0, 2.0], [0, 10], edges=[0, 10, 11])] == [1, 1]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fairness.alpha([]), "not empty"),
        (lambda: fairness.alpha([1.0, np.nan]), "finite"),
        (lambda: fairness.cost_of_privacy([1.0], -1.0), "`budget` must be at least 0 and finite, got -1.0"),
        (lambda: fairness.cost_of_privacy([1.0], "much"), "`budget` must be a number"),
        (lambda: fairness.by_group([1.0], ["a", "b"]), "1 entities, 2 groups"),
        (lambda: fairness.by_size([1.0], [1.0, 2.0]), "1 entities, 2 values"),
        (lambda: fairness.by_size([1.0], [5.0], [0.0, 5.0]), "ascending edges that contain every count"),
        (lambda: fp.Estimate(1.0, 2.0, 3.0), "an interval must contain its value"),
    ],
)
def test_broken_rules(call, message):
    with pytest.raises(fp.InputError, match=message):
        call()


def test_an_estimate_comes_back_from_its_data() -> None:
    for high in (4.5, math.inf):
        one = Estimate(2.5, 1.25, high, "interval")
        data = one.to_dict()
        assert data == {"value": 2.5, "low": 1.25, "high": None if high == math.inf else 4.5, "accuracy": "interval"}
        assert Estimate.from_dict(data) == one
