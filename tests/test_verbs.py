"""`project` and `allocate` in the library: numbers by hand, use as an array, every refusal in one line."""

import copy
import pickle

import numpy as np
import pytest

import fairpost as fp
from fairpost.errors import CountsError, ParameterError
from fairpost.estimate import plug_in, share_interval
from fairpost.partition import Partition
from fairpost.rules.rounding import round_counts

NOISY = [-4.5, 7.25, 9.5, 3.5, -0.25]
GROUPS = list("aaabb")
WEIGHTS = [2.0, 1.0, 1.0, 0.5, 3.0]
NOISE = fp.Laplace(2.0)


# ---- project ------------------------------------------------------------------------------------------------------


def test_one_total():
    found = fp.project(NOISY, total=20.0)
    assert found.values == pytest.approx(fp.project_simplex(NOISY, 20.0))
    assert found.totals == {"all": 20.0}
    assert found.counts is found.values
    assert np.array_equal(np.asarray(found), found.values)
    assert found.changes["negative_before"] == 2
    assert found.changes["zero_after"] == 2
    assert found.rounding is None
    assert fp.project(NOISY).sum() == pytest.approx(sum(NOISY))
    assert fp.project(NOISY).totals == {"all": sum(NOISY)}
    labels = fp.project(NOISY, total=20.0, groups=GROUPS)  # with one total, groups are labels
    assert labels.values.tolist() == found.values.tolist()
    assert labels.groups == tuple(GROUPS)
    own = fp.project(NOISY, groups=GROUPS)  # without any, each group keeps its own sum
    assert own.totals == {"a": sum(NOISY[:3]), "b": sum(NOISY[3:])}


@pytest.mark.parametrize("totals", [{"a": 10, "b": 4}, [10, 4], np.array([10.0, 4.0]), {"b": 4, "a": 10}])
def test_totals_by_group(totals):
    found = fp.project(NOISY, "simplex", totals, GROUPS)
    assert found[:3] == pytest.approx(fp.project_simplex(NOISY[:3], 10.0))
    assert found[3:] == pytest.approx(fp.project_simplex(NOISY[3:], 4.0))
    assert found.totals == {"a": 10.0, "b": 4.0}


def test_rounding():
    found = fp.project(NOISY, "simplex", {"a": 10, "b": 4}, GROUPS, round=True, seed=8)
    parts = Partition.of(GROUPS)
    assert found.rounded.tolist() == round_counts(found.values, np.random.default_rng(8), parts).tolist()
    assert found.counts is found.rounded
    assert np.asarray(found).tolist() == found.rounded.tolist()
    assert found.seed == 8
    assert found.rounding["largest_change"] == np.abs(found.rounded - found.values).max() < 1
    seeds = {fp.project(NOISY, total=20, round=True).seed for _ in range(4)}
    assert len(seeds) == 4  # fresh randomness
    assert found.to_frame()["count"].to_list() == found.rounded.astype(int).tolist()
    assert found.to_frame()["before_rounding"].to_list() == found.values.tolist()


@pytest.mark.parametrize("rule", ["none", "nonnegative", "sum", "sum-clipped", "simplex-threshold"])
def test_the_other_rules(rule):
    keeps = rule.startswith("s")
    found = fp.project(NOISY, rule, 20.0 if keeps else None, mechanism=NOISE)
    y = np.array(NOISY)
    shifted = y + (20 - y.sum()) / 5
    wanted = {"none": y, "nonnegative": np.maximum(y, 0), "sum": shifted, "sum-clipped": np.maximum(shifted, 0)}
    if rule in wanted:
        assert found.counts == pytest.approx(wanted[rule])
    else:
        assert found.sum() == pytest.approx(20)
        assert found.counts.tolist() != fp.project(NOISY, "simplex", 20.0).counts.tolist()
    assert (found.totals is None) == (not keeps)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (dict(postprocess="pos"), "`postprocess` must be one of none, nonnegative, sum, sum-clipped, simplex, simplex-threshold, got 'pos'"),
        (dict(postprocess="nonnegative", total=3), "nonnegative keeps no total, got one"),
        (dict(postprocess="simplex-threshold"), "simplex-threshold needs the noise"),
        (dict(postprocess="sum", total=3, round=True), "--round.* needs simplex or simplex-threshold, got sum"),
        (dict(total=-1), "`total` must be at least 0"),
        (dict(total=1.5, round=True), "whole number, got 1.5"),
        (dict(total=[1, 2]), "several totals need `groups`"),
        (dict(total={"a": 1}, groups=GROUPS), "every group must have a total, got none for 'b'"),
        (dict(seed=3), "`seed` is of the rounding"),
        (dict(seed=-3, round=True, total=20), "`seed` must be a whole number from 0, got -3"),
        (dict(ids=list("aabcd")), "ids must be unique"),
        (dict(groups=list("ab")), "`groups` must have one entry per count"),
        (dict(noisy=[[1.0, 2.0]]), "one vector, got 2 dimensions"),
        (dict(noisy=[-3.0, 1.0]), "sum of the noisy counts, which must be at least 0, got -2"),
        (dict(noisy=[np.nan, 1.0]), "every noisy count must be finite"),
    ],
)  # fmt: skip
def test_projections_that_are_refused(given, says):
    given = {"noisy": NOISY} | given
    with pytest.raises((ParameterError, CountsError), match=says) as told:
        fp.project(**given)
    assert "\n" not in str(told.value)


def test_what_was_given_is_not_touched():
    y = np.array(NOISY)
    found = fp.project(y, "none")
    y[0] = 99
    assert found.noisy[0] == -4.5
    assert found.values[0] == -4.5
    with pytest.raises(ValueError, match="read-only"):
        found.noisy[0] = 1
    with pytest.raises(ValueError, match="read-only"):
        fp.allocate(NOISY).noisy[0] = 1


# ---- allocate -----------------------------------------------------------------------------------------------------


def test_shares_can_be_used_as_an_array():
    a = fp.allocate(NOISY, WEIGHTS, "baseline")
    z = np.maximum(NOISY, 0) * WEIGHTS
    assert np.asarray(a) == pytest.approx(z / z.sum())
    assert isinstance(np.asarray(a), np.ndarray)
    assert len(a) == 5
    assert a[1] == a.shares[1]
    assert a[1:3].tolist() == a.shares[1:3].tolist()
    assert list(a) == a.shares.tolist()
    assert (2 * a).tolist() == (2 * a.shares).tolist()
    assert type(a - a) is np.ndarray
    assert (a + a).tolist() == (a.shares * 2).tolist()
    assert (a == a.shares).all()
    assert np.sum(a) == pytest.approx(1)
    assert np.maximum(a, 0.1).min() == 0.1
    assert (a.sum(), a.shape, a.round(2).tolist(), a.max()) == (
        a.shares.sum(), (5,), a.shares.round(2).tolist(), a.shares.max(),
    )  # fmt: skip
    assert np.array(a, dtype=np.float32).dtype == np.float32
    assert np.array(a) is not a.shares
    assert np.abs(-a).tolist() == a.shares.tolist()
    with pytest.raises(AttributeError, match="'Allocation' object has no attribute 'nothing'"):
        a.nothing  # noqa: B018
    for again in (copy.copy(a), copy.deepcopy(a), pickle.loads(pickle.dumps(a))):
        assert again.shares.tolist() == a.shares.tolist()


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


def test_an_estimate_inside_groups_becomes_one_of_the_whole_part_by_part():
    """Each of three columns by itself, all numbers distinct."""
    from fairpost.results.allocation import PlugIn

    found = PlugIn(np.array([0.1, -0.2]), np.array([0.03, 0.05]), np.array([0.7, 0.9]), "exact", 20)
    part = np.array([0.5, 0.25])
    made = found.scaled(part)
    assert made.bias == pytest.approx([0.05, -0.05], rel=1e-14)
    assert made.error == pytest.approx([0.015, 0.0125], rel=1e-14)
    assert made.deviation == pytest.approx([0.35, 0.225], rel=1e-14)
    assert (made.method, made.replicates, made.mark) == ("exact", 20, found.mark)


def test_a_projection_in_words():
    """Groups are mentioned where there are several."""
    noisy = [10.0, -2.0, 31.0]
    head = ["Projection by simplex: 3 counts", "  sum             39 became 39", "  negative        1 before, 0 now",
            "  zero            1 now"]  # fmt: skip
    assert str(fp.project(noisy)).splitlines() == [*head, "  largest change  +2, of 1"]
    assert str(fp.project(noisy, groups=["a", "a", "a"])).splitlines() == [*head, "  largest change  +2, of 1"]
    assert str(fp.project(noisy, groups=["a", "a", "b"])).splitlines() == [
        *head, "  largest change  -2, of 0", "  groups          2 keep their totals",
    ]  # fmt: skip
    free = str(fp.project(noisy, "nonnegative"))
    assert "41" in free.splitlines()[1]
    assert "groups" not in free


def test_rows_of_a_matrix():
    rows = np.array([[1.0, 1.0], [1.0, 3.0], [-1.0, 4.0]])
    a = fp.allocate(rows, [3.0, 1.0], "baseline", mechanism=NOISE)
    assert a.shape == (3, 2)
    assert a[0].tolist() == [0.75, 0.25]
    assert a.interval is None
    assert "3 draws" in repr(a)
    for use in (a.to_frame, a.plot, a.to_dict):
        with pytest.raises(ParameterError, match="one draw, got 3"):
            use()


def test_intervals_and_estimates_are_those_of_estimate():
    a = fp.allocate(
        NOISY, WEIGHTS, "baseline", NOISE, budget=1000.0, confidence=0.8, simultaneous=True, estimate_bias=True, replicates=3, seed=4,
        ids=list("vwxyz"), groups=GROUPS,
    )  # fmt: skip
    interval = share_interval(NOISY, NOISE, WEIGHTS, confidence=0.8, simultaneous=True)
    assert a.interval.low.tolist() == interval.low.tolist()
    assert a.interval.high.tolist() == interval.high.tolist()
    assert (a.interval.confidence, a.interval.simultaneous) == (0.8, True)
    estimate = plug_in(NOISY, NOISE, WEIGHTS, "baseline", replicates=3, seed=4)
    assert a.bias.bias.tolist() == estimate.bias.tolist()
    assert a.bias.error.tolist() == estimate.error.tolist()
    assert a.money.tolist() == (a.shares * 1000).tolist()
    data = a.to_dict()
    assert data["bias"] == {
        "mark": "estimated from noisy counts", "methods": {"baseline": "exact"}, "replicates": 3, "missing": {},
    }  # fmt: skip
    assert data["entities"][2]["id"] == "x"
    assert data["entities"][2]["group"] == "a"
    assert data["entities"][2]["baseline_money"] == a.money[2]
    assert fp.allocate(NOISY, WEIGHTS, "pos", NOISE).bias is None
    plain = fp.allocate(NOISY)
    assert (plain.interval, plain.bias, plain.money, plain.ids) == (None, None, None, ("0", "1", "2", "3", "4"))
    missing = fp.allocate([-5.0, 2.0], mechanism=NOISE, estimate_bias=True)
    assert missing.bias is None
    assert "sum above 0" in missing.missing
    assert missing.to_dict()["bias"]["missing"] == {"pos": missing.missing}


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
    ],
)
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


# ---- what a mechanism is ------------------------------------------------------------------------------------------

LAW = fp.Programme.named("title1-basic")
TREE = fp.Hierarchy.from_geoids(["aa", "ab", "ba"], {"s": 1, "b": 2})
WITH_BASE = fp.Counts([30, 400], base=[300, 900])
TAKES = {
    "audit": lambda m: fp.audit([3, 40], m, "simplex"),
    "compare": lambda m: fp.compare([3, 40], m, ["simplex"]),
    "sweep": lambda m: fp.sweep([3, 40], [m], ["simplex"]),
    "sweep of one": lambda m: fp.sweep([3, 40], m, ["simplex"]),
    "plan": lambda m: fp.plan([3, 40], m, "simplex", spreads=[1, 2], max_loss=1),
    "frontier": lambda m: fp.frontier([3, 40], m, "simplex-threshold"),
    "allocate": lambda m: fp.allocate(NOISY, None, "pos", m),
    "project": lambda m: fp.project(NOISY, "simplex", mechanism=m),
    "check": lambda m: fp.check(fp.Counts([3, 40]), [4, 39], m),
    "theorem1": lambda m: fp.theorem1(fp.Counts([3, 40]), m),
    "proposition2": lambda m: fp.proposition2(fp.Counts([3, 40]), m),
    "base_noise": lambda m: fp.audit(WITH_BASE, NOISE, "as-written", programme=LAW, base_noise=m),
    "audit_hierarchy": lambda m: fp.audit_hierarchy([1, 2, 3], m, fp.TopDown(TREE)),
}


@pytest.mark.parametrize(("given", "shown"), [("laplace", "'laplace'"), (0.1, "0.1"), (fp.Stream, "the class Stream")])
@pytest.mark.parametrize("verb", TAKES)
def test_what_is_no_mechanism_is_named_with_what_was_expected(verb, given, shown):
    with pytest.raises(ParameterError) as refused:
        TAKES[verb](given)
    said = str(refused.value)
    assert any(name in said for name in ("fp.Laplace", "list of noises", "fp.LevelNoise", "a mechanism or 'same'"))
    assert said.endswith(f"got {shown}")


# ---- the index of a pandas Series ---------------------------------------------------------------------------------


def test_the_index_of_a_series_has_the_ids():
    pandas = pytest.importorskip("pandas")
    x = pandas.Series([3, 40, 9], index=["Ash", "Birk", "Corve"])
    assert fp.audit(x, NOISE, "simplex").counts.ids == ("Ash", "Birk", "Corve")
    assert fp.Counts(x, ids=["a", "b", "c"]).ids == ("a", "b", "c")
    assert fp.Counts(pandas.Series([3, 40])).ids == fp.Counts([3, 40]).ids
    assert fp.project(x - 5).ids == fp.allocate(x, weights=2 * x).ids == ("Ash", "Birk", "Corve")
    kept = x[x > 5]  # filtered: the labels stay with their rows
    assert dict(zip(fp.Counts(kept).ids, fp.Counts(kept).values, strict=True)) == {"Birk": 40, "Corve": 9}
    released = pandas.Series([10, 4, 41], index=["Corve", "Ash", "Birk"])  # another order
    assert fp.check(fp.Counts(x), released).difference.tolist() == [1, 1, 1]
    assert fp.check(fp.Counts(x), [released, released]).difference.tolist() == [1, 1, 1]
    assert fp.check(fp.Counts([3, 40, 9]), released).difference.tolist() == [
        7,
        -36,
        32,
    ]  # counts without ids: place by place
    with pytest.raises(CountsError, match="`weights` must have the index of the counts"):
        fp.Counts(x, weights=released)
    with pytest.raises(CountsError, match=r"must be unique.*reset_index"):
        fp.Counts(pandas.concat([x, x]))
