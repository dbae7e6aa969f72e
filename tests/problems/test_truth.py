"""P has one owner: weights, the truth of every problem, groups and sums of shares."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest

import fairpost as fp
from fairpost import problems, rules
from fairpost.errors import CountsError, ParameterError
from fairpost.partition import Partition
from fairpost.rules import POSTPROCESSINGS

WEIGHTED = fp.Counts([3.0, 8.0, 20.0, 55.0], weights=[5, 1, 1, 2], groups=["a", "b", "a", "b"])


@pytest.mark.parametrize("rule", [fp.Baseline, fp.PoS, rules.PosThreshold])
def test_a_rule_whose_weights_are_not_those_of_the_counts_is_refused(rule: Any) -> None:
    said = r"must share by the weights of the counts, got weights 1 and 1 where the counts have 5 and 1"
    for engine in ("auto", "monte-carlo"):
        with pytest.raises(CountsError, match=said):
            fp.audit(WEIGHTED, fp.Laplace(10.0), rule(), engine=engine)
    with pytest.raises(CountsError, match="positions 0 and 3"):
        fp.audit(WEIGHTED, fp.Laplace(10.0), rule(weights=[5, 1, 1, 2.0001]))
    by_name = fp.audit(WEIGHTED, fp.Laplace(10.0), rule.name, runs=50)
    by_object = fp.audit(WEIGHTED, fp.Laplace(10.0), rule(weights=[10, 2, 2, 4]), runs=50)  # a common factor is none
    assert by_object.bias == pytest.approx(by_name.bias, rel=1e-12, abs=1e-15)
    assert by_object.truth == pytest.approx(np.array([15, 8, 20, 110]) / 153)


def test_the_truth_is_the_definition_everywhere_also_by_group_and_for_empty_groups() -> None:
    counts = fp.Counts([0, 0, 6, 10], weights=[1, 3, 2, 1], groups=["n", "n", "s", "s"])
    whole = problems.Proportional(counts.weights)
    assert whole.truth(counts) == pytest.approx([0, 0, 12 / 22, 10 / 22])
    parts = problems.Proportional(counts.weights, Partition.of(counts.groups))
    assert parts.truth(counts) == pytest.approx([1 / 4, 3 / 4, 12 / 22, 10 / 22])
    assert problems.Release().truth(counts) is counts.values
    assert (whole.shares, problems.Release().shares) == (True, False)
    for name, kind in POSTPROCESSINGS.items():
        pi = kind.from_counts(counts)
        assert pi.problem.shares == (name in ("baseline", "pos", "pos-threshold"))
    with pytest.raises(CountsError, match="one weight per entity: 4 entities, 2 weights"):
        fp.audit(counts, fp.Laplace(1.0), fp.PoS([1, 2]))
    with pytest.raises(CountsError, match="4 entities, 3 in the partition"):
        fp.audit(counts, fp.Laplace(1.0), fp.PoS(counts.weights, Partition.of("abc")))


def test_a_function_says_which_problem_it_answers() -> None:
    def shares(noisy: Any) -> Any:
        return np.maximum(noisy, 0.5) / np.maximum(noisy, 0.5).sum()

    with pytest.raises(ParameterError, match="a function given a budget must say which problem it answers"):
        fp.audit([1, 2, 3], fp.Laplace(1.0), shares, budget=100.0, runs=10)
    with pytest.raises(ParameterError, match="adds up to 1 where the counts add up to 6"):
        fp.audit([1, 2, 3], fp.Laplace(1.0), shares, runs=10)
    with pytest.raises(ParameterError, match="`problem` must be a problem"):
        fp.Custom(shares, problem="shares")  # type: ignore[arg-type]
    stated = fp.Custom(shares, problem=fp.Proportional())
    result = fp.audit([1, 2, 3], fp.Laplace(1.0), stated, budget=100.0, runs=50)
    assert result.truth == pytest.approx([1 / 6, 2 / 6, 3 / 6])
    assert result.money == pytest.approx(result.bias * 100)
    as_counts = fp.audit([1, 2, 3], fp.Laplace(1.0), fp.Custom(shares, problem=problems.Release()), runs=50)
    assert as_counts.truth.tolist() == [1, 2, 3]
    with pytest.raises(CountsError, match="must share by the weights"):
        fp.audit(WEIGHTED, fp.Laplace(1.0), stated, runs=10)
    plain = fp.audit([1, 2, 3], fp.Laplace(1.0), lambda noisy: np.maximum(noisy, 0), runs=50)
    assert plain.task == "release"


@pytest.mark.parametrize(("off", "refused"), [(0.8e-9, True), (-0.8e-9, True), (1.5e-9, False), (-1.5e-9, False)])
def test_how_near_to_1_a_sum_is_taken_for_shares(off: float, refused: bool) -> None:
    """By 1e-9, whoever may have rounded it; a function that comes no nearer makes counts."""
    near = fp.Custom(lambda noisy: np.full(2, (1 + off) / 2))
    with pytest.raises(ParameterError, match="adds up to 1") if refused else contextlib.nullcontext():
        near.check(fp.Counts([4, 9]))
    near.check(fp.Counts([0.5, 0.5 + 0.8e-9]))  # counts that add up to 1 themselves
