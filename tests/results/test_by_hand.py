"""What a result says about itself, and its files: results made by hand, so that every number has one place only."""

import csv
import io
from dataclasses import asdict

import numpy as np
import pytest

import fairpost as fp
from fairpost import fairness
from fairpost.accuracy import Accuracy
from fairpost.budgets import GroupBudgets
from fairpost.io import entities_csv
from fairpost.problems import Release
from support.results_by_hand import BASELINE, POS, replace


def estimate(e):
    return {"value": e.value, "low": e.low, "high": e.high, "accuracy": e.kind}


class Deciding(Release):
    decides = True


# ---- entities of results made by hand -----------------------------------------------------------------------------


def read(text):
    return list(csv.DictReader(io.StringIO(text)))


def about(v):
    return pytest.approx(v, rel=1e-12, abs=1e-15)


def interval(value, half, kind):
    return {"value": about(value), "low": about(value - half), "high": about(value + half), "accuracy": kind}


def test_a_rule_that_comes_twice_gets_a_number():
    rows = read(entities_csv((POS, BASELINE, POS, POS)))
    names = [c for c in rows[0] if c.endswith("_bias") and not c.endswith("relative_bias")]
    assert names == ["pos_bias", "baseline_bias", "pos_2_bias", "pos_3_bias"]
    assert [float(r["pos_3_bias"]) for r in rows] == POS.bias.tolist()


def test_intervals_of_what_follows_from_the_biases():
    bias, width = np.array([0.5, -0.2, -0.05, 0.3]), np.array([0.01, 0.02, 0.07, 0.4])
    alpha = fairness.alpha_interval(bias, Accuracy("bound", width))
    # the highest the largest can be is 0.7 (the last), the lowest the smallest can be -0.22; the surest: 0.49 and -0.18
    assert estimate(alpha) == pytest.approx({"value": 0.7, "low": 0.67, "high": 0.92, "accuracy": "bound"})
    assert fairness.alpha_interval(bias, Accuracy("bound", np.ones(4))).low == 0.0
    cost = fairness.cost_interval(bias, Accuracy("bound", width))  # sums of losses at bias + width, bias, bias - width
    assert estimate(cost) == pytest.approx({"value": 0.25, "low": 0.18, "high": 0.22 + 0.12 + 0.1, "accuracy": "bound"})
    assert fairness.cost_interval(bias, Accuracy("bound", width), [1, 3, 2, 5]).value == pytest.approx(0.7)
    loss = fairness.loss_interval(bias, Accuracy("bound", width))
    assert estimate(loss) == pytest.approx({"value": 0.2, "low": 0.18, "high": 0.22, "accuracy": "bound"})
    assert fairness.loss_interval(np.array([0.5, 0.1]), Accuracy("bound", np.array([0.1, 0.3]))).low == 0.0
    assert fairness.loss_interval(np.array([0.5, 0.1]), Accuracy("bound", np.array([0.1, 0.3]))).high == pytest.approx(
        0.2
    )
    found = fairness.alpha(bias)
    assert (found.most, found.least, found.value) == (0, 1, pytest.approx(0.7))
    assert fairness.cost_of_privacy(bias, 40.0) == pytest.approx(10.0)
    assert fairness.cost_of_privacy_l1([0.3, -0.1, -0.2], 40.0) == pytest.approx(12.0)
    assert fairness.misallocation(bias, 40.0) == pytest.approx([20.0, -8.0, -2.0, 12.0])
    assert asdict(fairness.Estimate(2.0, 1.0, 5.0).scaled(3.0)) == {
        "value": 6.0,
        "low": 3.0,
        "high": 15.0,
        "kind": "bound",
    }


# ---- what only some results have ------------------------------------------------------------------------------------


def test_the_kinds_of_accuracy_keep_their_places():
    n = BASELINE.counts.n
    mixed = replace(
        BASELINE,
        mse_accuracy=Accuracy("expansion", np.full(n, 0.1)),
        zero_accuracy=Accuracy("interval", np.full(n, 0.2)),
    )
    assert mixed.to_dict()["accuracies"] == {"bias": "bound", "mean_squared_error": "expansion", "zero": "interval"}


def test_budgets_of_groups_and_noise_on_the_base_are_told():
    plain = BASELINE.to_dict()
    assert (plain["group_budgets"], plain["base_noise"]) == (None, None)
    budgets = GroupBudgets({"north": 1.0, "south": 2.0, "west": 1.0}, np.ones(5), "as given")
    told = replace(BASELINE, budgets=budgets, base_noise=fp.Gaussian(3.0)).to_dict()
    assert told["group_budgets"] == {"rule": "as given", "amounts": {"north": 1.0, "south": 2.0, "west": 1.0}}
    assert told["base_noise"] == fp.Gaussian(3.0).describe()


def test_a_wrong_decision_stands_with_its_entity():
    """Who is due something is wrong where the result is 0, who is due nothing where it is not."""
    law = replace(fp.audit([0, 4, 90], fp.Laplace(4.0), "nonnegative"), problem=Deciding())
    zero = law.moments.zero
    assert [row["wrong"] for row in law.to_dict(entities=True)["entities"]] == [1 - zero[0], zero[1], zero[2]]
    assert law.to_dict()["wrong"] == {"out": zero[1] + zero[2], "in": 1 - zero[0]}
    assert "wrong" not in BASELINE.to_dict(entities=True)["entities"][0]


def test_json_has_no_infinity():
    n = BASELINE.counts.n
    endless = Accuracy("bound", np.array([np.inf, 0.1, 0.2, np.inf, 0.3]))
    rows = replace(BASELINE, mse_accuracy=endless, zero_accuracy=Accuracy("bound", np.full(n, np.inf))).to_dict(
        entities=True
    )["entities"]
    assert [row["mean_squared_error_half_width"] for row in rows] == [None, 0.1, 0.2, None, 0.3]
    assert [row["zero_half_width"] for row in rows] == [None] * n
