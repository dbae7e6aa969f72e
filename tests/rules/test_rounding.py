"""Whole numbers: every total kept, no bias, nobody moved by one or more."""

import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fairpost as fp
from fairpost import errors
from fairpost.errors import ParameterError
from fairpost.partition import Partition
from fairpost.rules.rounding import round_counts
from support.counts_csv import refused


def whole_groups(draw_values, sizes):
    """Fractions whose group sums are whole."""
    parts, labels = [], []
    for g, size in enumerate(sizes):
        v = np.array([draw_values() for _ in range(size)])
        v[-1] += math.ceil(v.sum()) - v.sum()
        parts.append(v)
        labels += [f"g{g}"] * size
    return np.concatenate(parts), labels


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.data(), st.lists(st.integers(1, 6), min_size=1, max_size=4), st.integers(0, 10**6))
def test_rounding_keeps_every_total_and_moves_nobody_by_one(data, sizes, seed):
    values, labels = whole_groups(lambda: data.draw(st.floats(0, 1000)), sizes)
    order = np.random.default_rng(seed).permutation(len(labels))
    v, groups = values[order], [labels[i] for i in order]
    out = round_counts(v, np.random.default_rng(seed), Partition.of(groups))
    assert (out == np.round(out)).all()
    assert (out >= 0).all()
    # a fraction may be off its place by the rounding of a sum of at most 6 numbers below 1001: 6 * 1001 * 2^-52
    assert (np.abs(out - v) < 1 + 2e-12).all()
    for g in dict.fromkeys(groups):
        mine = np.array([h == g for h in groups])
        assert out[mine].sum() == round(v[mine].sum())


def test_rounding_is_unbiased_by_the_integral_over_its_one_random_number():
    """E[rounded] over u uniform: rounded is constant between the places where a partial sum passes a whole number, so the
    integral is a finite sum, exact to rounding; no sampling."""
    v = np.array([0.3, 2.75, 0.2, 1.05, 4.0, 0.7])

    class One:
        def __init__(self, u):
            self.u = u

        def random(self):
            return self.u

    cuts = np.unique(np.concatenate([[0.0, 1.0], (-np.cumsum(v - np.floor(v))) % 1.0]))
    mean = sum((b - a) * round_counts(v, One((a + b) / 2)) for a, b in pairwise(cuts))
    assert mean == pytest.approx(v, abs=1e-12)
    two = np.concatenate([v, v])  # each group draws a number of its own
    drawn = iter((0.1, 0.9))

    class Two:
        def random(self):
            return next(drawn)

    found = round_counts(two, Two(), Partition.of(["a"] * 6 + ["b"] * 6))
    assert found[:6].tolist() == round_counts(v, One(0.1)).tolist()
    assert found[6:].tolist() == round_counts(v, One(0.9)).tolist()
    assert found[:6].tolist() != found[6:].tolist()


def test_rounding_by_hand():
    class Half:
        def random(self):
            return 0.5

    # partial sums of fractions 0.3, 1.05, 1.25, 1.3, 1.3, 2.0; with 0.5 the whole numbers are passed at 2 and at 6
    v = [0.3, 2.75, 0.2, 1.05, 4.0, 0.7]
    assert round_counts(v, Half()).tolist() == [0.0, 3.0, 0.0, 1.0, 4.0, 1.0]
    with pytest.raises(errors.ParameterError, match=r"whole number, got 1\.000002 for 'all'"):
        round_counts([0.5, 0.500002], Half())
    assert round_counts([0.5, 0.5 + 4e-7], Half()).sum() == 1.0


@pytest.mark.parametrize("u", [0.0, 0.25, 0.5, 0.75, math.nextafter(1.0, 0.0)])
def test_rounding_keeps_the_total_at_every_end_of_its_random_number(u):
    class At:
        def random(self):
            return u

    out = round_counts([0.25, 3.5, 0.25, 2.0], At())
    assert out.sum() == 6.0
    assert (np.abs(out - [0.25, 3.5, 0.25, 2.0]) < 1).all()
    assert out[3] == 2.0


@pytest.mark.parametrize(("seen", "total"), [(2.0**53 - 2, 2.0**53), (2.0**53, 2.0**53 - 2), (2.0**53, 2.0**53)])
def test_neither_the_sum_nor_the_total_may_reach_2_to_the_53(seen, total):
    rng = np.random.default_rng(0)
    with pytest.raises(
        errors.ParameterError, match=r"below 2\*\*53 = 9007199254740992, got 9007199254740992 for 'all'"
    ):
        round_counts([seen / 2, seen / 2], rng, totals=[total])
    assert round_counts([2.0**52 - 1, 2.0**52 - 1], rng, totals=[2.0**53 - 2]).sum() == 2.0**53 - 2


# ---- rounding: large totals ----


@pytest.mark.parametrize("total", [0.0, 1e9, 1e10, 1e14, 4e15, 8e15])
@pytest.mark.parametrize("n", [1, 2, 7, 3000])
def test_rounding_keeps_the_total_of_its_own_projection(total, n):
    rng = np.random.default_rng([n, int(total)])
    for _ in range(5):
        w = rng.pareto(1.2, n) + 0.01
        v = fp.Simplex(total)(w / w.sum() * total + rng.laplace(0, total / n / 10 + 1, n))
        found = round_counts(v, rng, None, [total])
        assert sum(map(int, found)) == total  # whole numbers of any size
        assert (found >= 0).all()
        if total <= 1e14:
            assert np.abs(found - v).max() < 1


def test_rounding_refuses_what_a_float_does_not_tell_apart(cli):
    Path("big.csv").write_text("id,count\na,1e14\nb,3e14\n")
    code, out, _ = cli("project", "big.csv", "--round", "--seed", 1)
    assert code == 0
    assert [row.split(",")[2] for row in out.splitlines()[1:]] == ["100000000000000", "300000000000000"]
    with pytest.raises(ParameterError, match=r"totals below 2\*\*53 = 9007199254740992, got 2e\+19 for 'all'"):
        round_counts([1e19, 1e19], np.random.default_rng(0))
    with pytest.raises(ParameterError, match="must add up to 12, got 10 for 'all'"):
        round_counts([5.0, 5.0], np.random.default_rng(0), None, [12])
    with pytest.raises(ParameterError, match="one total per group: 1 groups, 2 totals"):
        round_counts([5.0, 5.0], np.random.default_rng(0), None, [5, 5])
    Path("big.csv").write_text("id,count\na,1e19\nb,3e19\n")
    assert refused(cli("project", "big.csv", "--round"), "2**53", "1e19")
