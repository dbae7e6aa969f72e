"""Counts: validated once, each broken rule its own clear line."""

import dataclasses

import numpy as np
import pytest

import fairpost as fp
from fairpost import errors


def test_a_plain_list():
    counts = fp.Counts([1, 2, 3])
    assert counts.n == len(counts) == 3
    assert counts.total == 6.0
    assert counts.ids == ("0", "1", "2")
    assert counts.weights.tolist() == [1.0, 1.0, 1.0]
    assert counts.groups is None
    assert repr(counts) == "Counts(n=3, total=6)"


def test_ids_and_groups_are_text_and_keep_leading_zeros():
    counts = fp.Counts([1, 2], ids=["0100190", 7], groups=["01", 2])
    assert counts.ids == ("0100190", "7")
    assert counts.groups == ("01", "2")


def test_frozen_and_private():
    values = np.array([1.0, 2.0])
    counts = fp.Counts(values)
    values[0] = 99.0
    assert counts.values[0] == 1.0
    with pytest.raises(ValueError, match="read-only"):
        counts.values[0] = 5.0
    with pytest.raises(dataclasses.FrozenInstanceError):
        counts.values = values


BROKEN = {
    "negative": (dict(values=[1, -2, 3]), r"at least 0, got -2.0 at position 1"),
    "nan": (dict(values=[1, np.nan]), r"finite, got nan at position 1"),
    "infinite": (dict(values=[np.inf, 1]), r"finite, got inf at position 0"),
    "none": (dict(values=[1, None]), r"must be a number, got None at position 1"),
    "text": (dict(values=["1", "2"]), r"must be a number, got '1' at position 0"),
    "object": (dict(values=[1, object()]), r"must be a number, got <object"),
    "complex": (dict(values=[1, 2j]), r"must be a number, got"),
    "masked": (dict(values=np.ma.masked_array([1.0, 2.0], [0, 1])), r"missing one at position 1"),
    "matrix": (dict(values=[[1, 2]]), r"one-dimensional, got 2 dimensions"),
    "scalar": (dict(values=3), r"one-dimensional, got 0 dimensions"),
    "empty": (dict(values=[]), r"at least one count, got none"),
    "zero weight": (dict(values=[1, 2], weights=[1, 0]), r"weight must be above 0, got 0.0 at position 1"),
    "negative weight": (dict(values=[1], weights=[-1]), r"weight must be above 0, got -1.0"),
    "nan weight": (dict(values=[1], weights=[np.nan]), r"`weights` must be finite"),
    "short weights": (dict(values=[1, 2], weights=[1]), r"2 counts, 1 weights"),
    "short ids": (dict(values=[1, 2], ids=["a"]), r"2 counts, 1 ids"),
    "duplicate ids": (dict(values=[1, 2, 3], ids=["a", "b", "a"]), r"unique, got 'a' at positions 0 and 2"),
    "duplicate after text": (dict(values=[1, 2], ids=["1", 1]), r"unique, got '1'"),
    "missing id": (dict(values=[1, 2], ids=["a", None]), r"`ids` must be present, got None at position 1"),
    "text ids": (dict(values=[1, 2], ids="ab"), r"one entry per entity, got the text"),
    "short groups": (dict(values=[1, 2], groups=["a"]), r"2 counts, 1 groups"),
    "missing group": (dict(values=[1], groups=[float("nan")]), r"`groups` must be present"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_rules(name):
    arguments, message = BROKEN[name]
    with pytest.raises(errors.CountsError, match=message) as caught:
        fp.Counts(**arguments)
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, ValueError)


def test_distinct_pairs_rebuild_the_counts():
    rng = np.random.default_rng(0)
    counts = fp.Counts(rng.integers(0, 9, 500), weights=rng.integers(1, 4, 500))
    x, a, times, which = counts.distinct
    assert np.array_equal(x[which], counts.values)
    assert np.array_equal(a[which], counts.weights)
    assert times.sum() == 500
    assert len({*zip(x, a, strict=True)}) == x.size
    assert (np.diff(x) >= 0).all()
