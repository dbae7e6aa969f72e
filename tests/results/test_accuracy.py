"""Accuracies and estimates: what every output stands on."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

import fairpost as fp
from fairpost.accuracy import KINDS, Accuracy, Estimate, weakest
from fairpost.errors import ParameterError


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


def test_whole_numbers_have_no_point_as_far_as_doubles_are_whole():
    last = 2**53
    for values, written in (([1, 3], "3"), ([1, 3.5], "3.5"), ([0, last - 1], str(last - 1))):
        assert fp.check([9, 9], values).to_csv().splitlines()[2].split(",")[2] == written
    for beyond in (last, 1.5 * last):
        assert fp.check([9, 9], [1, beyond]).to_frame()["released"].dtype.is_float()


def test_labels_of_groups_that_are_no_text_are_taken_as_text():
    """And what no budget can change stays: chances of 0 are those without any budget."""
    counts = fp.Counts([1, 2, 5], groups=["1", "2", "1"])
    found = fp.audit(counts, fp.Laplace(2.0), "pos", by_group=True, budget={1: 5.0, 2: 7.0})
    assert found.to_dict()["group_budgets"]["amounts"] == {"1": 5.0, "2": 7.0}
    plain = fp.audit(counts, fp.Laplace(2.0), "pos", by_group=True)
    assert np.array_equal(found.moments.zero, plain.moments.zero)
    assert np.array_equal(found.moments.zero_accuracy.half_width, plain.moments.zero_accuracy.half_width)


def test_every_number_has_an_accuracy_of_its_kind():
    counts, few = fp.Counts(np.arange(60.0) * 3), {"runs": 4000, "seed": 1, "rtol": None}
    asked = {
        ("exact", "estimate"): fp.audit(counts, fp.Laplace(4.0), "pos", engine="exact"),
        ("expansion", "expansion"): fp.audit(counts, fp.Laplace(20.0), "pos-threshold", engine="expansion"),
        ("conditional", "interval"): fp.audit(counts, fp.DiscreteLaplace(4.0), "pos", engine="conditional"),
        ("monte-carlo", "interval"): fp.audit(counts, fp.Laplace(4.0), "pos", engine="monte-carlo", **few),
    }
    for (method, kind), r in asked.items():
        each = (r.accuracy, r.moments.mse_accuracy, r.moments.zero_accuracy)
        assert {*(e.kind for e in each), r.alpha.kind, r.cost_of_privacy.share.kind, r.largest_loss.kind} == {kind}
        assert r.method == method
        assert all(e.half_width.shape == (60,) and (e.half_width >= 0).all() for e in each)
    exact, *_, drawn = (r.moments for r in asked.values())
    # 95 % intervals for all entities together, one seed: they hold the exact values.
    for name in ("mse", "zero"):
        known = [getattr(m, f"{name}_accuracy").half_width for m in (drawn, exact)]
        assert (np.abs(getattr(drawn, name) - getattr(exact, name)) <= sum(known)).all()
    assert drawn.zero_accuracy.half_width.max() < 0.06


def test_the_interval_of_a_mean_squared_error_comes_from_its_blocks():
    """By definition: the mean squared error of each block, Student's t over blocks, and a run that moves e by a deviation, not seen."""
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
