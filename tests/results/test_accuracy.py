"""Accuracies, the columns that tables share, and budgets of groups: small things on which every output stands, each by itself."""

from __future__ import annotations

import math

import numpy as np
import pytest

import fairpost as fp
from fairpost.accuracy import KINDS, Accuracy, Estimate, weakest
from fairpost.budgets import GIVEN, SPLIT, among_groups
from fairpost.engines.base import Answer
from fairpost.errors import ParameterError
from fairpost.partition import Partition
from fairpost.results.base import reason, whole_numbers


def test_the_kinds_from_the_strongest_to_the_weakest():
    assert KINDS == ("bound", "estimate", "expansion", "interval")
    assert weakest("bound") == "bound"
    assert weakest("expansion", "bound") == "expansion"
    assert weakest("bound", "interval", "expansion") == "interval"


@pytest.mark.parametrize("made", [lambda k: Accuracy(k, np.ones(2)), lambda k: Estimate(1.0, 0.0, 2.0, k)])
def test_no_other_kind(made):
    with pytest.raises(ParameterError) as refused:
        made("guess")
    assert str(refused.value) == "an accuracy must be one of bound, estimate, expansion, interval, got 'guess'"


def test_an_accuracy_elsewhere_and_in_another_unit():
    a = Accuracy("expansion", np.array([1.0, 2.0, 4.0]))
    for found, values in ((a.at([2, 0, 0]), [4.0, 1.0, 1.0]), (a.scaled(3.0), [3.0, 6.0, 12.0])):
        assert found.kind == "expansion"
        assert found.half_width.tolist() == values


@pytest.mark.parametrize("ends", [(2.0, 3.0), (-1.0, 0.5), (math.nan, 2.0), (0.0, math.nan)])
def test_an_interval_contains_its_value(ends):
    with pytest.raises(ParameterError) as refused:
        Estimate(1.0, *ends)
    assert str(refused.value) == f"an interval must contain its value, got {ends[0]}, 1.0, {ends[1]}"


def test_estimates():
    e = Estimate(5.0, 4.0, 8.0, "interval")
    assert e.half_width == 3.0
    assert Estimate(5.0, 1.0, 6.0).half_width == 4.0
    assert e.scaled(2.0) == Estimate(10.0, 8.0, 16.0, "interval")
    assert Estimate.around(5.0, 2.0) == Estimate(5.0, 3.0, 7.0, "bound")
    assert Estimate.around(5.0, 2.0, "expansion") == Estimate(5.0, 3.0, 7.0, "expansion")
    assert Estimate(5.0, 5.0, 5.0).kind == "bound"


# -- columns -----------------------------------------------------------------------------------------------------


def test_whole_numbers_have_no_point_as_far_as_doubles_are_whole():
    assert whole_numbers(np.array([1.0, -3.0])).dtype == np.int64
    assert whole_numbers(np.array([1.0, -3.5])).dtype == np.float64
    last = 2.0**53
    assert whole_numbers(np.array([last - 1, 1 - last])).tolist() == [2**53 - 1, 1 - 2**53]
    assert whole_numbers(np.array([last - 1])).dtype == np.int64
    for beyond in (last, -last, 1.5 * last, 3 * last):
        assert whole_numbers(np.array([beyond])).dtype == np.float64


def test_the_reason_of_a_mark():
    assert reason("confidential: computed from true counts") == "computed from true counts"
    assert reason("noisy") == "noisy"


# -- budgets -----------------------------------------------------------------------------------------------------

COUNTS = fp.Counts([1, 2, 3, 4], groups=["b", "a", "b", "a"], weights=[1.0, 1.0, 1.0, 2.0])
PARTITION = Partition.of(COUNTS.groups)


def test_a_budget_is_split_by_true_shares():
    """Due: b has 1 + 3 = 4 of 14, a has 2 + 8 = 10 of 14."""
    found = among_groups(28.0, COUNTS, PARTITION)
    assert found.amounts == pytest.approx({"b": 8.0, "a": 20.0})
    assert list(found.amounts) == ["b", "a"]
    assert found.part == pytest.approx(np.array([4, 10, 4, 10]) / 14)
    assert found.words == SPLIT
    assert found.to_dict() == {"rule": SPLIT, "amounts": found.amounts}
    due = among_groups(10.0, COUNTS, PARTITION, due=np.array([0.1, 0.2, 0.3, 0.4]))
    assert due.amounts == pytest.approx({"b": 4.0, "a": 6.0})


@pytest.mark.parametrize("budget", [{"a": 9.0, "b": 3.0}, [3.0, 9.0], np.array([3, 9])])
def test_budgets_of_their_own(budget):
    found = among_groups(budget, COUNTS, PARTITION)
    assert found.amounts == pytest.approx({"b": 3.0, "a": 9.0})
    assert found.part == pytest.approx([0.25, 0.75, 0.25, 0.75])
    assert found.words == GIVEN


@pytest.mark.parametrize(
    ("budget", "line"),
    [
        ([1.0, 2.0, 3.0], "there must be one budget per group: 2 groups, 3 budgets"),
        ({"b": 1.0, "c": 2.0, "a": 1.0}, "every budget must be of a group that there is, got one for 'c'"),
        ({"b": 1.0, "d": 1.0, "c": 2.0, "a": 1.0}, "every budget must be of a group that there is, got one for 'c'"),
        ({"b": 1.0}, "every group must have a budget, got none for 'a'"),
        ({"x": 1.0}, "every group must have a budget, got none for 'b'"),
    ],
)
def test_budgets_and_groups_must_be_the_same(budget, line):
    with pytest.raises(ParameterError) as refused:
        among_groups(budget, COUNTS, PARTITION)
    assert str(refused.value) == line


def test_labels_that_are_no_text_are_taken_as_text():
    counts = fp.Counts([1, 2], groups=["1", "2"])
    found = among_groups({1: 5.0, 2: 7.0}, counts, Partition.of(counts.groups))
    assert found.amounts == {"1": 5.0, "2": 7.0}


def test_an_answer_in_another_unit_takes_every_error_along() -> None:
    """By entity: a bias and its error by the part, squares by its square, chances not at all."""

    n, part = 3, np.array([0.5, 0.25, 0.0])
    bias, half = np.array([0.3, -0.2, -0.1]), np.array([0.01, 0.02, 0.03])
    mse, zero = np.array([0.9, 0.8, 0.7]), np.array([0.1, 0.2, 0.3])
    answer = Answer(
        "exact", bias, Accuracy("bound", half), mse, Accuracy("interval", mse / 10), zero, Accuracy("expansion", zero / 10),
        Estimate(0.5, 0.4, 0.6), (0, 1), None,
    )  # fmt: skip
    found = answer.rescaled(part)
    assert found.bias == pytest.approx([0.15, -0.05, 0.0])
    rounding = (2 * n + 4) * 2.0**-52 * np.abs(bias * part)
    assert found.accuracy.half_width == pytest.approx(half * part + rounding, rel=1e-15, abs=0)
    assert (found.accuracy.half_width[:2] > half[:2] * part[:2]).all()
    assert found.mse == pytest.approx([0.225, 0.05, 0.0])
    assert found.mse_accuracy.half_width == pytest.approx([0.0225, 0.005, 0.0])
    assert (found.accuracy.kind, found.mse_accuracy.kind) == ("bound", "interval")
    assert np.array_equal(found.zero, zero)
    assert np.array_equal(found.zero_accuracy.half_width, zero / 10)
    assert found.alpha.value == pytest.approx(0.2)
    assert found.alpha.low == pytest.approx(0.19)  # at least: the largest less its error, and the smallest with it
    assert found.alpha.high == pytest.approx(0.21)
    assert found.pair == (0, 1)
    assert found.sample is None


def test_every_number_has_an_accuracy_of_its_kind() -> None:
    counts = fp.Counts(np.arange(60.0) * 3)
    kinds = {
        "exact": (fp.audit(counts, fp.Laplace(4.0), "pos", engine="exact"), "estimate"),
        "expansion": (fp.audit(counts, fp.Laplace(20.0), "pos-threshold", engine="expansion"), "expansion"),
        "conditional": (fp.audit(counts, fp.DiscreteLaplace(4.0), "pos", engine="conditional"), "interval"),
        "monte-carlo": (
            fp.audit(counts, fp.Laplace(4.0), "pos", engine="monte-carlo", runs=4000, seed=1, rtol=None),
            "interval",
        ),
    }
    for method, (result, kind) in kinds.items():
        assert result.method == method
        assert {
            result.accuracy.kind,
            result.moments.mse_accuracy.kind,
            result.moments.zero_accuracy.kind,
            result.alpha.kind,
        } == {kind}
        assert result.cost_of_privacy.share.kind == kind
        assert result.largest_loss.kind == kind
        for known in (result.accuracy, result.moments.mse_accuracy, result.moments.zero_accuracy):
            assert known.half_width.shape == (60,)
            assert (known.half_width >= 0).all()
    exact, drawn = kinds["exact"][0], kinds["monte-carlo"][0]
    # 95 % intervals for all entities together, one seed: they hold the exact values.
    assert (
        np.abs(drawn.moments.mse - exact.moments.mse)
        <= drawn.moments.mse_accuracy.half_width + exact.moments.mse_accuracy.half_width
    ).all()
    assert (
        np.abs(drawn.moments.zero - exact.moments.zero)
        <= drawn.moments.zero_accuracy.half_width + exact.moments.zero_accuracy.half_width
    ).all()
    assert drawn.moments.zero_accuracy.half_width.max() < 0.06
    assert weakest("bound", "interval", "expansion") == "interval"
    assert KINDS == ("bound", "estimate", "expansion", "interval")
    with pytest.raises(ParameterError, match="one of bound, estimate, expansion, interval, got 'guess'"):
        Estimate(1.0, 0.0, 2.0, "guess")  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="must contain its value"):
        Estimate(3.0, 0.0, 2.0)


def test_the_interval_of_a_mean_squared_error_comes_from_its_blocks() -> None:
    """By definition: the mean squared error of each block, Student's t over blocks, and a run that moves e by a deviation, not seen."""
    from scipy import stats

    counts, noise, runs, block = fp.Counts([0.0, 2.0, 30.0]), fp.Laplace(5.0), 400, 40
    result = fp.audit(counts, noise, "nonnegative", engine=fp.MonteCarlo(runs, seed=3, block=block, confidence=0.9))
    X = counts.values + np.stack([noise.sample(3, fp.Stream(3, r)) for r in range(runs)])
    each = ((np.maximum(X, 0) - counts.values) ** 2).reshape(runs // block, block, 3).mean(axis=1)
    t = stats.t.ppf(1 - 0.1 / 3 / 2, runs // block - 1)
    s, mse = noise.deviation, each.mean(axis=0)
    unseen = np.log(2 * 3 / 0.1) * (s**2 + 2 * s * np.sqrt(mse)) / runs
    assert result.moments.mse == pytest.approx(mse, rel=1e-12)
    assert result.moments.mse_accuracy.half_width == pytest.approx(
        t * each.std(axis=0, ddof=1) / np.sqrt(runs // block) + unseen, rel=1e-9
    )
    one = fp.audit(counts, noise, "nonnegative", engine=fp.MonteCarlo(30, block=40))
    assert np.isinf(one.moments.mse_accuracy.half_width).all()  # one block says nothing about its own scatter
    assert one.to_dict(entities=True)["entities"][0]["mean_squared_error_half_width"] is None
