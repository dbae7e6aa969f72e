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
def test_alpha_interval_covers_every_bias_within_its_error(bias, size, random):
    error = np.full(bias.size, size)
    truth = bias + np.array([random.uniform(-size, size) for _ in bias])
    found = fairness.alpha_interval(bias, Accuracy("bound", error))
    assert found.low <= fairness.alpha(truth).value + 1e-12
    assert fairness.alpha(truth).value <= found.high + 1e-12


@given(biases, errors, st.randoms(use_true_random=False))
def test_cost_interval_covers_every_bias_within_its_error(bias, size, random):
    truth = bias + np.array([random.uniform(-size, size) for _ in bias])
    found = fairness.cost_interval(bias, Accuracy("bound", np.full(bias.size, size)))
    assert found.low - 1e-12 <= fairness.cost_of_privacy(truth) <= found.high + 1e-12
    assert found.value == pytest.approx(fairness.cost_of_privacy(bias))


def test_cost_of_privacy_counts_losers_only():
    assert fairness.cost_of_privacy([0.3, -0.1, -0.2], budget=1000.0) == pytest.approx(300.0)
    assert fairness.cost_of_privacy([0.3, 0.1]) == 0
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
