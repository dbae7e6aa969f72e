"""`allocate` in the library: numbers by hand, use as an array, intervals inside groups, every budget paid out, every refusal in one line."""

import copy
import pickle

import numpy as np
import pytest

import fairpost as fp
from fairpost.errors import CountsError, ParameterError
from fairpost.estimate import share_interval
from support.noisy_counts import NOISE, NOISY
from support.six_districts import NOISE as SIX
from support.six_districts import X

WEIGHTS = [2.0, 1.0, 1.0, 0.5, 3.0]


# ---- allocate -----------------------------------------------------------------------------------------------------


def test_shares_can_be_used_as_an_array():
    a = fp.allocate(NOISY, WEIGHTS, "baseline")
    z, s = np.maximum(NOISY, 0) * WEIGHTS, a.shares
    assert s == pytest.approx(z / z.sum())
    for use in (
        np.asarray, list, lambda v: v[1:3], lambda v: 2 * v, lambda v: v + v, lambda v: np.maximum(v, 0.1), lambda v: np.abs(-v),
        lambda v: [len(v), v[1], v.sum(), v.max(), *v.shape], lambda v: v.round(2), copy.copy, copy.deepcopy,
        lambda v: pickle.loads(pickle.dumps(v)),
    ):  # fmt: skip
        assert list(use(a)) == list(use(s))
    assert type(a - a) is type(np.asarray(a)) is np.ndarray
    assert (a == s).all()
    assert np.array(a, dtype=np.float32).dtype == np.float32
    assert np.array(a) is not s
    with pytest.raises(AttributeError, match="'Allocation' object has no attribute 'nothing'"):
        a.nothing  # noqa: B018


def test_an_allocation_in_words():
    """The five largest with share, interval and money; 12 + 20 + 0 + 70 + 0 + 5 + 1 = 108."""
    noisy = [12.0, 20.0, 0.0, 70.0, -3.0, 5.0, 1.0]
    assert str(fp.allocate(noisy, None, "baseline", budget=1080.0)).splitlines() == [
        "Allocation by baseline: 7 entities",
        "  budget       1,080",
        "  largest 1    3 0.64815 = 700",
        "  largest 2    1 0.18519 = 200",
        "  largest 3    0 0.11111 = 120",
        "  largest 4    5 0.046296 = 50",
        "  largest 5    6 0.0092593 = 10",
        "  get nothing  2 of 7",
    ]
    a = fp.allocate([10.0, 90.0], None, "baseline", fp.Laplace(1.0), ids=["north", "south"])
    low, high = (float(end[1]) for end in (a.interval.low, a.interval.high))
    assert str(a).splitlines()[1] == f"  largest 1    south 0.9 ({low:.5g} to {high:.5g})"
    assert low < 0.9 < high


def test_what_is_not_asked_for_or_cannot_be_estimated_is_not_there():
    assert fp.allocate(NOISY, WEIGHTS, "pos", NOISE).bias is None
    plain = fp.allocate(NOISY)
    assert (plain.interval, plain.bias, plain.money, plain.ids) == (None, None, None, ("0", "1", "2", "3", "4"))
    missing = fp.allocate([-5.0, 2.0], mechanism=NOISE, estimate_bias=True)
    assert (missing.bias, "sum above 0" in missing.missing) == (None, True)
    assert missing.to_dict()["bias"]["missing"] == {"pos": missing.missing}


def test_intervals_of_shares_inside_groups_cover_the_true_ones():
    """All of them together in at least 95 % of draws; 300 draws with true chance 0.95 give below 0.90 with chance 2e-4."""
    first = np.array([g == X.groups[0] for g in X.groups])
    weighted = X.values * X.weights
    truth = weighted / np.where(first, weighted[first].sum(), weighted[~first].sum())

    def inside(y, **more):
        return fp.allocate(y, X.weights, "pos", SIX, groups=X.groups, by_group=True, **more).interval

    rng, held = np.random.default_rng(5), 0
    for _ in range(300):
        y = X.values + rng.laplace(0, 8.0, 6)
        found = inside(y, simultaneous=True)
        held += bool(((found.low <= truth) & (truth <= found.high)).all())
    assert held / 300 >= 0.90
    alone = share_interval(y[first], SIX, X.weights[first])
    assert inside(y).low[first] == pytest.approx(alone.low, rel=1e-12)
    assert inside(y).high[first] == pytest.approx(alone.high, rel=1e-12)
    # half of the entities have half of the 5 % that may fail; away from the ends 0 and 1, which hide the difference
    far = 100 * X.values + 1000.0
    half, whole = (
        share_interval(far[first], SIX, X.weights[first], simultaneous=True, confidence=c) for c in (0.975, 0.95)
    )
    assert inside(far, simultaneous=True).high[first] == pytest.approx(half.high, rel=1e-12)
    assert (half.high > whole.high).all()


def test_an_allocation_by_group_pays_every_budget_out():
    y = np.array([-3.0, 14.0, 40.0, 200.0, 800.0, 70.0])
    budgets = {"s": 700.0, "n": 300.0}
    same = dict(weights=X.weights, groups=X.groups, by_group=True, names=X.names)
    own = fp.allocate(y, how="pos", mechanism=SIX, budget=budgets, estimate_bias=True, replicates=2, **same)
    assert own.money is not None
    for g, (n, total, share) in own.by_group().items():
        assert n == 3
        assert share * 1000 == pytest.approx(budgets[g], rel=1e-12)
        assert total == pytest.approx(y[[h == g for h in X.groups]].sum())
    inside = fp.allocate(y, how="pos", mechanism=SIX, estimate_bias=True, replicates=2, **same)
    part = np.array([budgets[g] / 1000 for g in X.groups])
    assert own.shares == pytest.approx(inside.shares * part, rel=1e-12)
    assert own.interval.high == pytest.approx(inside.interval.high * part, rel=1e-12)
    for name in ("bias", "error", "deviation"):
        assert getattr(own.bias, name) == pytest.approx(getattr(inside.bias, name) * part, rel=1e-12)
    assert (own.bias.method, own.bias.replicates, own.bias.mark) == (inside.bias.method, 2, inside.bias.mark)
    split = fp.allocate(y, how="pos", mechanism=SIX, budget=1000.0, **same)
    whole = fp.allocate(y, X.weights, "pos", SIX)
    assert split.interval.high == pytest.approx(
        whole.interval.high, rel=1e-12
    )  # what is due does not depend on the groups
    sums = {g: (y * X.weights)[[h == g for h in X.groups]].sum() for g in ("n", "s")}
    assert split.budgets.amounts == pytest.approx(
        {g: 1000 * s / sum(sums.values()) for g, s in sums.items()}, rel=1e-12
    )
    assert split.sum() == pytest.approx(1, rel=1e-12)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (dict(how="best"), "`how` must be one of baseline, pos, pos-threshold, got 'best'"),
        (dict(how="pos-threshold"), "pos-threshold needs the noise"),
        (dict(estimate_bias=True), "`estimate_bias` needs the noise: give `mechanism`, got none"),
        (dict(simultaneous=True), "`simultaneous` needs the noise"),
        (dict(mechanism=NOISE, confidence=1.0), "`confidence` must be above 0 and below 1"),
        (dict(mechanism=NOISE, estimate_bias=True, replicates=1), "`replicates` must be at least 2"),
        (dict(weights=[1, 1, 1, 1, 0]), "every weight must be above 0"),
        (dict(weights=[1, 1]), "weights"),
        (dict(budget=-1.0), "`budget`"),
        (dict(ids=list("aabcd")), "ids must be unique"),
        (dict(noisy=[[1.0, 2.0]], mechanism=NOISE, estimate_bias=True), "one vector of noisy counts, got 1 rows"),
        (dict(noisy=[1.0, 2.0], by_group=True), "shares by group need `groups`"),
        (dict(noisy=[1.0, 2.0], budget={"n": 1.0}), "budgets by group need `by_group`"),
        (dict(noisy=[1.0, 2.0], by_group=True, groups=["n", "s"], budget={"n": 1.0}), "every group must have a budget, got none for 's'"),
        (dict(noisy=[-3.0, -2.0], by_group=True, groups=["n", "n"], budget=1.0), "noisy sums of the groups, got none above 0"),
    ],
)  # fmt: skip
def test_allocations_that_are_refused(given, says):
    given = {"noisy": NOISY} | given
    with pytest.raises((ParameterError, CountsError), match=says) as told:
        fp.allocate(**given)
    assert "\n" not in str(told.value)


def test_a_sweep_hands_on_a_total_or_a_budget():
    x = fp.Counts([3, 40, 500])
    (counts,) = fp.sweep(x, [NOISE], ["simplex"], total=600.0).points
    (shares,) = fp.sweep(x, [NOISE], ["pos"], budget=100.0).points
    alone = fp.audit(x, NOISE, "simplex", total=600.0), fp.audit(x, NOISE, "pos", budget=100.0)
    assert [counts.alpha, shares.alpha] == [alone[0].alpha, alone[1].alpha.scaled(100.0)]  # people, and money
    assert shares.cost.amount == alone[1].cost_of_privacy.amount
    with pytest.raises(ParameterError, match="`budget` is for allocations, got simplex"):
        fp.sweep(x, [NOISE], ["simplex"], budget=100.0)
    with pytest.raises(ParameterError, match="`total` is for post-processings that keep one"):
        fp.sweep(x, [NOISE], ["pos"], total=3.0)
