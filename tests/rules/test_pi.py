"""pi: values, degenerate draws, groups and errors of every post-processing."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import fairpost as fp
from fairpost.partition import Partition
from fairpost.rules import POSTPROCESSINGS, Baseline, PoS, Simplex, Sum, SumClipped
from support.oracles import definitions

rows = hnp.arrays(np.float64, st.tuples(st.integers(1, 6), st.integers(2, 9)), elements=st.integers(-20, 40).map(float))
KEEPS_TOTAL = ["sum", "simplex", "simplex-threshold"]
NONNEGATIVE = [name for name in POSTPROCESSINGS if name not in ("none", "sum")]
NOISE = fp.Laplace(3.0)
SOME = settings(max_examples=40)
"""For each of nine rules, alone and by group, each with up to six rows."""


def built(name: str, n: int, *, by_group: bool = False):
    groups = ["g", "h"] * n
    counts = fp.Counts(np.arange(1.0, n + 1), weights=np.linspace(0.5, 3, n), groups=groups[:n])
    return counts, POSTPROCESSINGS[name].from_counts(counts, by_group=by_group).for_mechanism(NOISE)


@pytest.mark.parametrize("name", POSTPROCESSINGS)
@pytest.mark.parametrize("by_group", [False, True])
@SOME
@given(rows)
def test_batches_are_vectors_one_by_one_and_inputs_stay(name, by_group, X):
    _, pi = built(name, X.shape[1], by_group=by_group)
    before = X.copy()
    batch = pi.apply(X)
    alone = [pi.apply(row) for row in X]
    assert np.array_equal(batch.values, np.array([a.values for a in alone]))
    assert batch.degenerate == sum(a.degenerate for a in alone)
    assert np.array_equal(X, before)
    assert np.isfinite(batch.values).all()
    assert not np.shares_memory(batch.values, X)


@pytest.mark.parametrize("name", POSTPROCESSINGS)
@pytest.mark.parametrize("by_group", [False, True])
@SOME
@given(rows)
def test_totals_and_signs(name, by_group, X):
    counts, pi = built(name, X.shape[1], by_group=by_group)
    v = pi(X)
    if name in NONNEGATIVE:
        assert (v >= 0).all()
    groups = np.array(counts.groups if by_group else ["all"] * counts.n)
    for label in set(groups):
        here = groups == label
        if name in KEEPS_TOTAL:
            assert v[:, here].sum(axis=1) == pytest.approx(counts.values[here].sum(), rel=1e-12)
        if pi.problem.shares:
            assert v[:, here].sum(axis=1) == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize("name", POSTPROCESSINGS)
@SOME
@given(rows)
def test_groups_are_independent_problems(name, X):
    counts, pi = built(name, X.shape[1], by_group=True)
    whole = pi(X)
    labels = np.array(counts.groups)
    for label in dict.fromkeys(counts.groups):
        here = labels == label
        part = fp.Counts(counts.values[here], weights=counts.weights[here])
        alone = POSTPROCESSINGS[name].from_counts(part).for_mechanism(NOISE)
        assert whole[:, here] == pytest.approx(alone(X[:, here]), rel=1e-12, abs=1e-12)


@SOME
@given(rows)
def test_pos_is_the_projection_of_the_noisy_shares(X):
    a = np.linspace(0.5, 3, X.shape[1])
    for row in X:
        total = np.sum(a * row)
        if abs(total) > 1e-9:
            assert PoS(a)(row) == pytest.approx(
                definitions.simplex(a * row / total, 1.0), abs=1e-11 * (1 + abs(a * row / total).sum())
            )


@SOME
@given(rows)
def test_baseline_is_the_formula_on_clipped_counts(X):
    a = np.linspace(0.5, 3, X.shape[1])
    for row in X:
        if row.max() > 0:
            assert Baseline(a)(row) == pytest.approx(definitions.shares(np.maximum(row, 0), a), rel=1e-13)


def test_degenerate_draws_follow_the_convention_and_are_counted():
    a = np.array([1.0, 3.0])
    clipped = Baseline(a).apply([[-1.0, -2.0], [0.0, 0.0], [1.0, -5.0]])
    assert clipped.values.tolist() == [[0.25, 0.75], [0.25, 0.75], [1.0, 0.0]]
    assert clipped.degenerate == 2
    empty = PoS(a).apply([[3.0, -1.0], [0.0, 0.0], [-3.0, 0.5], [1.0, 1.0]])
    assert empty.values[:2].tolist() == [[0.25, 0.75], [0.25, 0.75]]  # weighted sum 0
    assert empty.values[2].tolist() == [1.0, 0.0]  # sum -1.5: shares (2, -1), whose projection is (1, 0)
    assert empty.values[3] == pytest.approx([0.25, 0.75])
    assert empty.degenerate == 3
    by_group = PoS(None, Partition.of(["u", "u", "v", "v"])).apply([1.0, -1.0, 2.0, 2.0])
    assert by_group.values.tolist() == [0.5, 0.5, 0.5, 0.5]
    assert by_group.degenerate == 1


def test_pos_with_a_sum_near_zero_stays_on_the_simplex():
    X = np.array([1e8, -1e8 + 1e-6, 3e-7])
    v = PoS()(X)
    assert v.sum() == pytest.approx(1.0, abs=1e-12)
    assert (v >= 0).all()


def test_one_entity():
    counts = fp.Counts([5.0])
    for name, kind in POSTPROCESSINGS.items():
        pi = kind.from_counts(counts).for_mechanism(NOISE)
        assert pi([-2.0]) == pytest.approx(
            1.0 if pi.problem.shares else {"none": -2.0, "nonnegative": 0.0}.get(name, 5.0)
        )


def test_totals_by_group_label_or_order():
    partition = Partition.of(["a", "b", "a"])
    for kind in (Sum, SumClipped, Simplex):
        by_label = kind({"b": 5.0, "a": 2.0}, partition)
        assert np.array_equal(by_label([1.0, 1.0, 3.0]), kind([2.0, 5.0], partition)([1.0, 1.0, 3.0]))
    assert Sum([2.0, 5.0], partition)([1.0, 1.0, 3.0]).tolist() == [0.0, 5.0, 2.0]
    assert Simplex([2.0, 0.0], partition)([9.0, 7.0, 9.0]).tolist() == [1.0, 0.0, 1.0]
    assert Simplex([2.0, 5.0], partition).T([[5.0, 1.0, -9.0]]).shape == (1, 2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Sum(-1.0), "`total` must be at least 0 and finite, got -1.0"),
        (lambda: Simplex([1.0, 2.0]), "several totals need a `partition`"),
        (lambda: Simplex([1.0], Partition.of(["a", "b"])), "2 groups, 1 totals"),
        (lambda: Simplex({"a": 1.0}, Partition.of(["a", "b"])), "got none for 'b'"),
        (lambda: Simplex([1.0, -2.0], Partition.of(["a", "b"])), "got -2.0 for 'b'"),
        (lambda: Partition.of([]), "at least one entity"),
        (lambda: PoS([1.0, 0.0]), "weight must be above 0"),
        (lambda: PoS([1.0, 2.0])([1.0, 2.0, 3.0]), "3 entities, 2 weights"),
        (lambda: Simplex([1.0, 2.0], Partition.of(["a", "b"]))([1.0]), "2 entities, 1 entries"),
        (lambda: Sum(1.0)([np.nan, 1.0]), r"finite, got nan at position \(0,\)"),
        (lambda: Sum(1.0)([[1.0], [np.inf]]), r"finite, got inf at position \(1, 0\)"),
        (lambda: Sum(1.0)([]), "one vector or a matrix"),
        (lambda: Sum(1.0)(["a"]), "must be numbers"),
        (lambda: Sum.from_counts(fp.Counts([1.0]), by_group=True), "need counts with groups"),
        (lambda: PoS.from_counts(fp.Counts([1.0]), by_group=True), "need counts with groups"),
        (lambda: fp.allocate([1.0], how="best"), "`how` must be one of baseline, pos, pos-threshold, got 'best'"),
    ],
)
def test_broken_rules(call, message):
    with pytest.raises(fp.InputError, match=message):
        call()
