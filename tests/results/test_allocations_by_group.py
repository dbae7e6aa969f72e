"""Allocations by group: intervals inside groups, and every budget paid out."""

import numpy as np
import pytest

import fairpost as fp
from fairpost.errors import CountsError, ParameterError
from fairpost.estimate import share_interval
from fairpost.partition import Partition
from support.six_districts import NOISE, X


def test_intervals_of_shares_inside_groups_cover_the_true_ones():
    """All of them together in at least 95 % of draws; 300 draws with true chance 0.95 give below 0.90 with chance 2e-4."""
    parts = Partition.of(X.groups)
    weighted = X.values * X.weights
    truth = np.empty(6)
    for g in (0, 1):
        who = parts.of_group(g)
        truth[who] = weighted[who] / weighted[who].sum()
    rng = np.random.default_rng(5)
    held = 0
    for _ in range(300):
        y = X.values + rng.laplace(0, 8.0, 6)
        found = share_interval(y, NOISE, X.weights, simultaneous=True, within=parts)
        held += bool(((found.low <= truth) & (truth <= found.high)).all())
    assert held / 300 >= 0.90
    first = parts.of_group(0)  # half of the entities have half of the 5 % that may fail
    far = 100 * X.values + 1000.0  # away from the ends 0 and 1, which hide the difference
    wide = share_interval(far, NOISE, X.weights, simultaneous=True, within=parts)
    half, whole = (
        share_interval(far[first], NOISE, X.weights[first], simultaneous=True, confidence=c) for c in (0.975, 0.95)
    )
    assert wide.high[first] == pytest.approx(half.high, rel=1e-12)
    assert (half.high > whole.high).all()
    alone = share_interval(y[parts.of_group(0)], NOISE, X.weights[parts.of_group(0)])
    inside = share_interval(y, NOISE, X.weights, within=parts)
    assert inside.low[parts.of_group(0)] == pytest.approx(alone.low, rel=1e-12)
    assert inside.high[parts.of_group(0)] == pytest.approx(alone.high, rel=1e-12)


def test_an_allocation_by_group_pays_every_budget_out():
    y = np.array([-3.0, 14.0, 40.0, 200.0, 800.0, 70.0])
    budgets = {"s": 700.0, "n": 300.0}
    same = dict(weights=X.weights, groups=X.groups, by_group=True, names=X.names)
    own = fp.allocate(y, how="pos", mechanism=NOISE, budget=budgets, estimate_bias=True, replicates=2, **same)
    assert own.money is not None
    for g, (n, total, share) in own.by_group().items():
        assert n == 3
        assert share * 1000 == pytest.approx(budgets[g], rel=1e-12)
        assert total == pytest.approx(y[[h == g for h in X.groups]].sum())
    inside = fp.allocate(y, how="pos", mechanism=NOISE, estimate_bias=True, replicates=2, **same)
    part = np.array([budgets[g] / 1000 for g in X.groups])
    assert own.shares == pytest.approx(inside.shares * part, rel=1e-12)
    assert own.interval.high == pytest.approx(inside.interval.high * part, rel=1e-12)
    assert own.bias.bias == pytest.approx(inside.bias.bias * part, rel=1e-12)
    split = fp.allocate(y, how="pos", mechanism=NOISE, budget=1000.0, **same)
    whole = fp.allocate(y, X.weights, "pos", NOISE)
    assert split.interval.high == pytest.approx(
        whole.interval.high, rel=1e-12
    )  # what is due does not depend on the groups
    sums = {g: (y * X.weights)[[h == g for h in X.groups]].sum() for g in ("n", "s")}
    assert split.budgets.amounts == pytest.approx(
        {g: 1000 * s / sum(sums.values()) for g, s in sums.items()}, rel=1e-12
    )
    assert split.sum() == pytest.approx(1, rel=1e-12)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (dict(by_group=True), "shares by group need `groups`"),
        (dict(budget={"n": 1.0}), "budgets by group need `by_group`"),
        (dict(by_group=True, groups=["n", "s"], budget={"n": 1.0}), "every group must have a budget, got none for 's'"),
        (dict(by_group=True, groups=["n", "n"], budget=1.0), "noisy sums of the groups, got none above 0"),
    ],
)
def test_bad_allocations_by_group_are_named(given, said):
    with pytest.raises((ParameterError, CountsError), match=said):
        fp.allocate([-3.0, -2.0], **given)
