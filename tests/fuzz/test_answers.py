"""A seeded part of `make attack-numbers`, and that it sees every number that is wrong."""

from dataclasses import replace

import numpy as np
import pytest

import fairpost as fp
from support.places import with_tools

with_tools()
import attack_numbers as attack  # noqa: E402

SEED, CASES = 2026, 64
QUICK = 3e5
"""Draws of one simulation here; the tool has ten times as many."""


@pytest.mark.parametrize("part", range(4))
def test_every_answer_lies_within_its_stated_accuracy(part, monkeypatch):
    monkeypatch.setattr(attack, "DRAWS", QUICK)
    found = [attack.judged(SEED, number) for number in range(part, CASES, 4)]
    assert [one.words for one in found if one.state == "outside"] == []
    assert sum(one.state == "answered" for one in found) >= 0.8 * len(found)


def test_the_cases_have_every_rule_and_every_noise():
    drawn = [attack.case(np.random.default_rng([SEED, number])) for number in range(CASES)]
    assert {rule for _, _, rule, _, _ in drawn} == {*attack.RELEASES, *attack.SHARES}
    assert {M.name for _, M, _, _, _ in drawn} == set(attack.NOISES)
    assert any("total" in more for *_, more, _ in drawn)
    assert any("by_group" in more for *_, more, _ in drawn)
    assert any(np.ptp(counts.weights) > 0 for counts, *_ in drawn)


@pytest.fixture(scope="module")
def simplex():
    counts, M = fp.Counts([3.0, 8.0, 20.0, 60.0]), fp.Laplace(5.0)
    result = fp.audit(counts, M, "simplex", engine="exact")
    return result, counts, M


def judged(stated, counts, M):
    pi = attack.result_rule(counts, M, "simplex", {})
    return attack.outside(np.random.default_rng(3), stated, counts, M, pi)


def test_what_is_right_is_inside(simplex):
    assert judged(*simplex) == ""


def with_numbers(stated, name, values):
    """The same result with other numbers."""
    if name == "bias":
        return replace(stated, bias=values)
    return replace(stated, moments=replace(stated.moments, **{name: values}))


@pytest.mark.parametrize(
    ("name", "says", "by"), [("bias", "bias of entity 1", 0.3), ("mse", "mse of entity 1", 4.0), ("zero", "P(0) of entity 1", 0.03)]
)  # fmt: skip
def test_one_wrong_number_is_seen(simplex, name, says, by):
    stated, counts, M = simplex
    wrong = (stated.bias if name == "bias" else getattr(stated.moments, name)).copy()
    wrong[1] += by
    assert judged(with_numbers(stated, name, wrong), counts, M).startswith(says)


def test_a_wrong_lift_is_seen(simplex):
    stated, counts, M = simplex
    t = stated.rule.expected_T
    wrong = replace(t, value=t.value + 0.2, low=t.low + 0.2, high=t.high + 0.2)
    assert judged(replace(stated, rule=replace(stated.rule, expected_T=wrong)), counts, M).startswith("E[T] is")


def test_a_number_that_is_not_one_is_seen(simplex):
    stated, counts, M = simplex
    assert judged(with_numbers(stated, "mse", np.full(4, np.nan)), counts, M).startswith("mse of entity")


def test_a_refusal_is_late_after_a_second(monkeypatch):
    assert attack.Judged("pos", "refused", "", 1.01).late
    assert not attack.Judged("pos", "refused", "", 0.99).late
    assert not attack.Judged("pos", "answered", "", 1.01).late

    def refuses(*_, **__):
        raise fp.ToleranceError("no")

    monkeypatch.setattr(fp, "audit", refuses)
    one = attack.judged(SEED, 0)
    assert (one.state, one.took < 1) == ("refused", True)
    assert one.words.endswith(": no")
