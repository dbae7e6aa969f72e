"""Whole numbers: every total kept, no bias, nobody moved by one or more."""

import math
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fairpost as fp
from fairpost.errors import ParameterError
from support.counts_csv import refused


@settings(max_examples=60)
@given(st.lists(st.lists(st.floats(0, 1000), min_size=1, max_size=6), min_size=1, max_size=4), st.integers(0, 10**6))
def test_rounding_keeps_every_total_and_moves_nobody_by_one(parts, seed):
    values = np.concatenate([[*part[:-1], part[-1] + math.ceil(sum(part)) - sum(part)] for part in parts])
    labels = [f"g{k}" for k, part in enumerate(parts) for _ in part]
    order = np.random.default_rng(seed).permutation(len(labels))
    found = fp.project(values[order], groups=[labels[i] for i in order], round=True, seed=seed)
    out, groups = found.rounded, np.array(labels)[order]
    assert (out == np.round(out)).all()
    assert (out >= 0).all()
    # a fraction may be off its place by the rounding of a sum of at most 6 numbers below 1001: 6 * 1001 * 2^-52
    assert (np.abs(out - values[order]) < 1 + 2e-12).all()
    for g in dict.fromkeys(labels):
        assert out[groups == g].sum() == round(values[order][groups == g].sum())


def test_rounding_is_unbiased_by_the_integral_over_its_one_random_number():
    """Rounded is constant between the places where a partial sum passes a whole number: a finite sum, without sampling.

    Only the inner function takes the random number itself.
    """
    from fairpost.rules.rounding import round_counts

    v = np.array([0.3, 2.75, 0.2, 1.05, 4.0, 0.7])

    def at(u):
        return round_counts(v, SimpleNamespace(random=lambda: u))

    cuts = np.unique(np.concatenate([[0.0, 1.0], (-np.cumsum(v - np.floor(v))) % 1.0]))
    assert sum((b - a) * at((a + b) / 2) for a, b in pairwise(cuts)) == pytest.approx(v, abs=1e-12)
    # partial sums of fractions 0.3, 1.05, 1.25, 1.3, 1.3, 2.0; with 0.5 the whole numbers are passed at 2 and at 6
    assert at(0.5).tolist() == [0.0, 3.0, 0.0, 1.0, 4.0, 1.0]
    for u in (0.0, math.nextafter(1.0, 0.0)):
        assert at(u).sum() == 9.0
        assert (np.abs(at(u) - v) < 1).all()


def test_each_group_is_rounded_by_a_random_number_of_its_own():
    found = fp.project([0.5, 0.5] * 40, groups=[f"g{k // 2}" for k in range(80)], round=True, seed=4).rounded
    assert {tuple(pair) for pair in found.reshape(40, 2)} == {(0.0, 1.0), (1.0, 0.0)}


def test_rounding_refuses_what_a_float_does_not_tell_apart(cli):
    Path("big.csv").write_text("id,count\na,1e14\nb,3e14\n")
    code, out, _ = cli("project", "big.csv", "--round", "--seed", 1)
    assert code == 0
    assert [row.split(",")[2] for row in out.splitlines()[1:]] == ["100000000000000", "300000000000000"]
    Path("big.csv").write_text("id,count\na,1e19\nb,3e19\n")
    assert refused(cli("project", "big.csv", "--round"), "2**53", "1e19")
    half = [2.0**52 - 1] * 2
    assert fp.project(half, total=2.0**53 - 2, round=True, seed=0).rounded.sum() == 2.0**53 - 2
    with pytest.raises(ParameterError, match=r"below 2\*\*53 = 9007199254740992, got 9007199254740992 for 'all'"):
        fp.project(half, total=2.0**53, round=True, seed=0)
    with pytest.raises(ParameterError, match=r"whole number, got 12\.5 for 'all'"):
        fp.project([5.0, 5.0], total=12.5, round=True, seed=0)
