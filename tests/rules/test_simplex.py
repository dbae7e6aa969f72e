"""project_simplex, its kernel and its laws."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import fairpost as fp
from fairpost import errors
from fairpost.rules import simplex as module
from support.oracles import definitions

EPS = np.finfo(float).eps
vectors = hnp.arrays(
    np.float64,
    st.integers(1, 60),
    elements=st.one_of(
        st.floats(-1e3, 1e3, allow_nan=False), st.sampled_from([0.0, 1.0, -1.0, 5.0]), st.floats(-1e9, 1e9)
    ),
)
totals = st.one_of(st.floats(1e-3, 1e6), st.sampled_from([0.0, 1.0, 1e9]))


def rounding(y: np.ndarray, total: float) -> float:
    """A few units in the last place of the largest number that the sum of the entries goes through."""
    return 8 * EPS * (np.sum(np.abs(y)) + total)


@given(vectors, totals)
def test_equals_the_sort_based_oracle(y, total):
    v = fp.project_simplex(y, total)
    assert np.max(np.abs(v - definitions.simplex(y, total))) <= rounding(y, total)


@pytest.mark.parametrize("n", [1, 2, 63, 64, 65, 8191, 8192, 8193, 20000])
def test_every_length(n):
    rng = np.random.default_rng(n)
    y = rng.laplace(0, 1, n) + rng.pareto(1.2, n)
    assert np.max(np.abs(fp.project_simplex(y, 7.0) - definitions.simplex(y, 7.0))) <= rounding(y, 7.0)


@pytest.mark.parametrize("kind", ["shares", "sorted", "constant", "one giant", "sparse"])
def test_long_vectors_take_the_same_path_to_the_same_point(kind, monkeypatch):
    """The split of a long vector over threads, with its sampled start, against the kernel on one core."""
    n = 300_000
    rng = np.random.default_rng(5)
    y = {
        "shares": rng.laplace(0, 100, n) + rng.pareto(1.1, n) * 50,
        "sorted": np.sort(rng.normal(0, 1, n)),
        "constant": np.full(n, 3.0),
        "one giant": np.where(np.arange(n) == 77, 1e9, rng.normal(0, 1, n)),
        "sparse": np.where(rng.random(n) < 1e-4, 100.0, -1.0),
    }[kind]
    total = max(float(np.sum(y)), 10.0)
    assert n >= module.LARGE
    long = fp.project_simplex(y, total)
    monkeypatch.setattr(module, "LARGE", n + 1)
    assert np.max(np.abs(long - fp.project_simplex(y, total))) <= rounding(y, total)
    assert abs(long.sum() - total) <= rounding(y, total)


def test_a_tiny_total_keeps_its_digits():
    y = np.array([1e12, 1e12 + 1e-3, 5.0, -1e12])
    v = fp.project_simplex(y, 1e-6)
    assert v.sum() == pytest.approx(1e-6, rel=1e-14)
    assert v[1] == pytest.approx(1e-6, rel=1e-14)


@pytest.mark.parametrize("n", [7, 200])
@pytest.mark.parametrize("total", [1e-9, 1e-3])
def test_a_tiny_total_below_a_largest_entry_of_zero(n, total):
    y = np.random.default_rng(1).normal(size=(2000, n)) * 10
    y -= y.max(axis=1, keepdims=True)
    assert fp.project_simplex(y, total).sum(axis=1) == pytest.approx(total, rel=1e-13)


def test_rows_equal_vectors_bit_for_bit():
    rows = np.random.default_rng(2).normal(0, 3, (257, 511))
    batch = fp.project_simplex(rows, 40.0)
    assert all(np.array_equal(batch[i], fp.project_simplex(rows[i], 40.0)) for i in range(len(rows)))


def test_out_is_used_and_checked():
    y = np.arange(5.0)
    out = np.empty(5)
    assert fp.project_simplex(y, out=out) is out
    for bad in (y, np.empty(4), np.empty(5, dtype=np.float32), np.empty(10)[::2]):
        with pytest.raises(errors.CountsError, match="`out` must be"):
            fp.project_simplex(y, out=bad)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_entries_that_are_not_finite_are_named(bad):
    y = np.arange(100.0)
    y[41] = bad
    with pytest.raises(errors.CountsError, match=r"finite, got .* at position \(41,\)"):
        fp.project_simplex(y)


@pytest.mark.parametrize("total", [-1.0, np.nan, np.inf, "x"])
def test_totals_outside_their_range(total):
    with pytest.raises(errors.ParameterError, match="`total` must be"):
        fp.project_simplex([1.0, 2.0], total)


def test_empty_and_deep_input():
    for bad in ([], np.empty((0, 3)), np.empty((2, 2, 2)), "text", [[1.0, 2.0], [3.0]]):
        with pytest.raises(errors.CountsError):
            fp.project_simplex(bad)
