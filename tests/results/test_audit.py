"""The verb and its result: what is simulated, groups and their budgets, totals, refusals. Numbers of rules: tests/cases."""

import json
from functools import partial

import numpy as np
import pytest

import fairpost as fp
from fairpost import errors, parallel
from fairpost.partition import Partition
from fairpost.plan import sweep
from fairpost.rules import AffineNonnegative, SumClipped


def test_objects_and_names_are_the_same():
    counts = fp.Counts([1, 8, 30])
    by_name = fp.audit(counts, fp.Gaussian(4.0), "sum-clipped")
    by_object = fp.audit(counts, fp.Gaussian(4.0), SumClipped(39.0), engine=fp.Exact(rtol=1e-8))
    assert np.array_equal(by_name.bias, by_object.bias)


def test_auto_says_when_and_why_it_simulates():
    counts = fp.Counts([0, 3, 40])
    exact = fp.audit(counts, fp.Laplace(4.0), "simplex")
    assert (exact.method, exact.engine.note, exact.engine.runs) == ("exact", None, None)
    drawn = fp.audit(counts, fp.Laplace(4.0), lambda noisy: np.maximum(noisy, 1.0), runs=4000, seed=3)
    assert (drawn.method, drawn.engine.runs, drawn.engine.seed) == ("monte-carlo", 4000, 3)
    assert "simulated, because the exact engine has no integral for the post-processing 'custom'" in drawn.engine.note
    assert "with 95 % confidence" in drawn.engine.note
    assert drawn.to_dict()["note"] == drawn.engine.note
    assert exact.bounds.lower <= exact.alpha.high


def test_a_comparison_sees_the_same_noise_as_an_audit():
    counts = fp.Counts([0, 3, 40])
    options = {"engine": "monte-carlo", "runs": 2000, "seed": 5}
    both = fp.compare(counts, fp.Laplace(4.0), ["simplex", "nonnegative"], **options)
    for name, result in zip(["simplex", "nonnegative"], both, strict=True):
        assert np.array_equal(result.bias, fp.audit(counts, fp.Laplace(4.0), name, **options).bias)


def test_a_function_of_ones_own_is_simulated():
    counts, own = fp.Counts([0, 3, 40]), lambda noisy: np.maximum(noisy, 0)
    result = fp.audit(counts, fp.Laplace(4.0), own, runs=20_000, confidence=0.9999)
    exact = fp.audit(counts, fp.Laplace(4.0), "nonnegative", engine="exact")
    assert (np.abs(result.bias - exact.bias) <= result.half_width).all()
    with pytest.raises(fp.UnsupportedError, match="no integral for the post-processing 'custom'"):
        fp.audit(counts, fp.Laplace(4.0), np.abs, engine="exact")


NINE = fp.Counts(range(9), weights=range(1, 10))


@pytest.mark.parametrize(
    ("asked", "kind", "message"),
    [
        (dict(postprocess="best"), errors.ParameterError, "must be one of none, nonnegative"),
        (dict(total=-1.0), errors.ParameterError, "`total` must be at least 0"),
        (dict(postprocess="baseline", budget=-5), errors.ParameterError, "`budget` must be at least 0"),
        (dict(engine="exact", rtol=0.0), errors.ParameterError, "`rtol` must be from 1e-12"),
        (dict(x=NINE, mechanism=fp.DiscreteLaplace(3.0), postprocess="pos", engine="exact"), fp.UnsupportedError,
         "continuous noise only, not under discrete-laplace"),
        (dict(by_group=True), errors.CountsError, "need counts with groups"),
    ],
)  # fmt: skip
def test_refusals_are_one_line(asked, kind, message):
    given = {"x": fp.Counts([1, 2]), "mechanism": fp.Laplace(1.0), "postprocess": "sum"} | asked
    with pytest.raises(kind, match=message) as caught:
        fp.audit(given.pop("x"), given.pop("mechanism"), given.pop("postprocess"), **given)
    assert "\n" not in str(caught.value)


# --- budgets by group ----------------------------------------------------------------------------------------------

STATES = fp.Counts(
    [0, 3, 9, 1, 50, 2, 400], weights=[1, 2, 1, 1, 3, 1, 1.5], groups=["n", "s", "n", "s", "n", "s", "w"]
)


@pytest.mark.parametrize("which", ["baseline", "pos"])
@pytest.mark.parametrize("engine", ["auto", "monte-carlo"])
def test_one_budget_is_one_budget_however_it_is_grouped(which, engine):
    """Money = B x the group's true share x the bias inside the group, and never more in all than the budget."""
    budget = 6.5e9
    settings = {"runs": 2000, "confidence": 0.9999} if engine == "monte-carlo" else {}
    options = {"engine": engine, "by_group": True, **settings}
    noise = fp.Laplace(0.8)
    whole = fp.audit(STATES, noise, which, budget=budget, **options)
    need, losses = STATES.weights * STATES.values, 0.0
    assert whole.truth == pytest.approx(need / need.sum(), rel=1e-14)
    for label in "nsw":
        here = np.array(STATES.groups) == label
        alone = fp.audit(fp.Counts(STATES.values[here], weights=STATES.weights[here]), noise, which)
        part = budget * need[here].sum() / need.sum()
        slack = budget * whole.half_width[here] + part * alone.half_width  # simulated: 1e-4 of false alarms in all
        assert (np.abs(whole.money[here] - part * alone.bias) <= slack).all()
        assert whole.rule.budgets.amounts[label] == pytest.approx(part, rel=1e-14)
        losses += part * -alone.bias[alone.bias < 0].sum()
    inside = fp.audit(STATES, noise, which, **options)
    part = np.array([whole.rule.budgets.amounts[g] for g in STATES.groups]) / budget
    assert whole.half_width == pytest.approx(inside.half_width * part, rel=1e-9, abs=1e-14)  # rounding: 20 eps
    assert whole.moments.mse == pytest.approx(inside.moments.mse * part**2, rel=1e-12)
    assert (whole.half_width > inside.half_width * part)[whole.bias != 0].all()  # what the ratio rounds is in the error
    known, known_inside = (r.moments.mse_accuracy.half_width for r in (whole, inside))
    assert known == pytest.approx(known_inside * part**2, rel=1e-9, abs=1e-30)
    assert whole.moments.deviation == pytest.approx(inside.moments.deviation * part, rel=1e-9, abs=1e-14)
    if engine == "auto":
        assert whole.cost_of_privacy.amount.low <= losses <= whole.cost_of_privacy.amount.high
    assert whole.cost_of_privacy.amount.value <= budget
    assert whole.cost_of_privacy.amount.value == pytest.approx(-whole.money[whole.money < 0].sum())
    spread = np.ptp(whole.bias)
    assert whole.alpha.low <= spread <= whole.alpha.high
    assert [STATES.ids[k] for k in (np.argmax(whole.bias), np.argmin(whole.bias))] == list(whole.alpha_pair)
    assert whole.moments.mse == pytest.approx(whole.moments.deviation**2 + whole.bias**2, rel=1e-9, abs=1e-30)
    assert "true shares" in whole.to_dict()["group_budgets"]["rule"]


def test_the_cost_of_privacy_never_exceeds_the_budget_even_under_absurd_noise():
    """Many groups under noise far above their counts: with a budget for each the cost was several times the whole."""
    rng = np.random.default_rng(3)
    counts = fp.Counts(rng.integers(0, 9, 120), groups=[f"g{i % 40}" for i in range(120)])
    result = fp.audit(counts, fp.Laplace(1000.0), "baseline", by_group=True, budget=100.0)
    own = fp.audit(counts, fp.Laplace(1000.0), "baseline", by_group=True)
    assert own.cost_of_privacy.share.value > 1  # in shares of one group's budget, over all groups
    assert 1 < result.cost_of_privacy.amount.value <= 100
    assert result.truth.sum() == pytest.approx(1)


@pytest.mark.parametrize("budget", [{"w": 700.0, "s": 0.0, "n": 100.0}, [100.0, 0.0, 700.0], np.array([100, 0, 700])])
def test_every_group_can_have_a_budget_of_its_own(budget):
    result = fp.audit(STATES, fp.Laplace(30.0), "pos", by_group=True, budget=budget)
    inside = fp.audit(STATES, fp.Laplace(30.0), "pos", by_group=True)
    amounts = {"n": 100.0, "s": 0.0, "w": 700.0}
    each = np.array([amounts[g] for g in STATES.groups])
    assert result.budget == 800.0
    assert result.money == pytest.approx(inside.bias * each, rel=1e-12)
    assert result.truth == pytest.approx(inside.truth * each / 800, rel=1e-12)
    assert result.rule.budgets.amounts == pytest.approx(amounts)
    assert "as given" in result.rule.budgets.words
    (point,) = sweep(STATES, [fp.Laplace(30.0)], ["pos"], by_group=True, budget=budget).points
    assert point.loss.value == pytest.approx(-result.money.min())


@pytest.mark.parametrize(
    ("budget", "by_group", "says"),
    [
        ({"n": 1.0, "s": 2.0}, True, "every group must have a budget, got none for 'w'"),
        ({"n": 1.0, "s": 2.0, "w": 1.0, "x": 1.0}, True, "got one for 'x'"),
        ({"n": 1.0, "s": -2.0, "w": 1.0}, True, "`budget` must be at least 0"),
        ([1.0, 2.0], True, "3 groups, 2 budgets"),
        ([0.0, 0.0, 0.0], True, "sum above 0"),
        ([1.0, 2.0, 3.0], False, "need an allocation by group, got pos"),
        ("much", True, "`budget` must be a number"),
    ],
)
def test_bad_budgets_are_named(budget, by_group, says):
    with pytest.raises(errors.ParameterError, match=says) as caught:
        fp.audit(STATES, fp.Laplace(3.0), "pos", by_group=by_group, budget=budget)
    assert "\n" not in str(caught.value)


@pytest.mark.filterwarnings("error")
def test_a_group_that_is_due_nothing_gets_nothing_for_certain():
    """Of one block of runs the spread of squares is not known; of a part of 0 it is 0."""
    counts = fp.Counts([2, 0, 3], groups=["a", "b", "a"])
    found = fp.audit(counts, fp.Gaussian(100.0), "pos", by_group=True, budget=1e6, engine=fp.MonteCarlo(runs=30))
    assert (found.accuracy.half_width[1], found.moments.mse_accuracy.half_width[1]) == (0, 0)


@pytest.mark.parametrize("which", ["pos", "simplex", "baseline", "sum", "sum-clipped"])
def test_groups_are_the_groups_alone_on_any_number_of_threads(which, monkeypatch):
    """Bit for bit on threads; alone within both errors, of which the one by group is 1e-6 of the largest alpha of all groups."""
    rng = np.random.default_rng(3)
    x, groups = np.round(np.exp(rng.normal(3.5, 1.0, 70))), np.repeat(["a", "b", "c", "d", "e"], 14)
    ask = partial(fp.audit, fp.Counts(x, groups=groups), fp.Laplace(4.0), which, engine="exact", by_group=True)
    whole = ask()
    monkeypatch.setattr(parallel, "cores", lambda: 1)
    assert np.array_equal(ask().bias, whole.bias)
    largest = max(g.alpha.value for g in whole.groups)
    for name, group in zip("abcde", whole.groups, strict=True):
        here = groups == name
        alone = fp.audit(fp.Counts(x[here]), fp.Laplace(4.0), which, engine="exact")
        assert (np.abs(whole.bias[here] - alone.bias) <= whole.half_width[here] + alone.half_width).all()
        assert group.alpha.half_width <= 1e-6 * largest


# ---- by how much the total is off -----------------------------------------------------------------------------------

DECIMALS = fp.Counts([0.1, 0.7, 2.3, 8.9, 0.0, 41.7], weights=[1.3, 0.7, 1.1, 0.9, 1.7, 0.5], groups=list("abbaab"))


def added_by_clipping(x, b):
    """By hand: E (x + eta)_- of Laplace noise is b/2 e^{-x/b}, and the sum of all of them is what clipping alone adds."""
    return float(np.sum(b / 2 * np.exp(-np.asarray(x) / b)))


@pytest.mark.parametrize("engine", ["exact", "monte-carlo"])
def test_clipping_adds_to_the_total_what_it_cuts_off(engine):
    x = fp.Counts(np.arange(200) % 37, groups=[f"g{k % 3}" for k in range(200)])
    r = fp.audit(x, fp.Laplace(8.0), "nonnegative", engine=engine)
    off = r.total_off
    assert off.low <= added_by_clipping(x.values, 8.0) <= off.high
    assert (off.kind, off.half_width < 1e-9) == (("bound", True) if engine == "exact" else ("interval", False))
    assert off.half_width <= 0.02 * off.value < float(r.half_width.sum()) or engine == "exact"
    for g in r.groups:
        mine = [v for v, h in zip(x.values, x.groups, strict=True) if h == g.group]
        assert abs(g.bias.value - added_by_clipping(mine, 8.0)) <= g.bias.half_width
    (point,) = sweep(x, [fp.Laplace(8.0)], ["nonnegative"], engine=engine).points
    assert point.total_off == off
    assert point.to_dict()["total_off"] == off.to_dict()
    again = fp.Comparison.from_dict(json.loads(json.dumps(fp.Comparison((r,)).to_dict(entities=True))))[0]
    assert (again.total_off, again.rule.kept) == (off, None)


KEEP = ("sum", "simplex", "simplex-threshold", "baseline", "pos", "pos-threshold")


@pytest.mark.parametrize("by_group", [False, True])
@pytest.mark.parametrize(
    ("which", "engine"), [*((name, "monte-carlo") for name in KEEP), ("simplex", "conditional"), ("baseline", "exact")]
)
def test_a_rule_that_keeps_the_total_is_off_by_0_without_any_error(which, by_group, engine):
    """By construction, so simulated or not; of each group where each keeps its own. Decimals add up to rounding, and to 0 here."""
    r = fp.audit(DECIMALS, fp.Laplace(3.0), which, by_group=by_group, engine=engine)
    assert (r.total_off.low, r.total_off.value, r.total_off.high) == (0.0, 0.0, 0.0)
    assert r.to_dict()["total_off"]["kept"] == [0.0] * (2 if by_group else 1)
    assert abs(r.bias.sum()) <= r.half_width.sum() + 1e-12
    if by_group:
        assert [(g.bias.value, g.bias.half_width) for g in r.groups] == [(0.0, 0.0)] * 2
    again = fp.Comparison.from_dict(json.loads(json.dumps(fp.Comparison((r,)).to_dict(entities=True))))[0]
    assert again.groups == r.groups


def test_a_total_that_is_not_the_true_one_is_off_by_the_difference():
    x = fp.Counts([3, 40, 5, 60], groups=list("abab"))
    assert fp.audit(x, fp.Laplace(10.0), "simplex", total=100).total_off == fp.Estimate(-8.0, -8.0, -8.0)
    own = fp.Simplex({"a": 10.0, "b": 90.0}, Partition.of(x.groups))
    r = fp.audit(x, fp.Laplace(10.0), own)
    assert (r.total_off.value, r.rule.kept) == (-8.0, (2.0, -10.0))
    assert [g.bias.value for g in r.groups] == [2.0, -10.0]
    other = fp.Simplex([10.0, 90.0], Partition.of(list("aabb")))  # groups that are not those of the counts
    r = fp.audit(x, fp.Laplace(10.0), other)
    assert r.rule.kept == (-8.0,)
    assert all(g.bias.half_width > 0 for g in r.groups)


def test_sums_of_entities_keep_the_total_where_they_cover_everybody_once():
    x = fp.Counts([3.0, 4.0, 5.0, 6.0])
    whole = AffineNonnegative(np.array([[1.0, 1, 0, 0], [0, 0, 1, 1]]), np.array([7.0, 11.0]))
    part = AffineNonnegative(np.array([[1.0, 1, 0, 0]]), np.array([7.0]))
    kept, open_ = (fp.audit(x, fp.Laplace(4.0), pi, engine="monte-carlo", runs=2000) for pi in (whole, part))
    assert kept.total_off == fp.Estimate(0.0, 0.0, 0.0)
    assert open_.total_off.low > 0  # what is clipped of the other two is added


@pytest.mark.parametrize(("which", "blocks"), [("nonnegative", 1), ("nonnegative", 20), ("sum-clipped", 20)])
def test_the_interval_of_a_simulated_total_covers(which, blocks):
    """In 95 % of simulations (120 of them: fewer than 107 with chance 0.003 where it is 95 %), and not by being wide."""
    x = fp.Counts([0, 1, 1, 3, 8, 20, 20, 90, 400])
    truth = fp.audit(x, fp.Laplace(6.0), which, engine="exact").total_off.value
    if which == "nonnegative":
        assert truth == pytest.approx(added_by_clipping(x.values, 6.0), rel=1e-12)
    found = [
        fp.audit(x, fp.Laplace(6.0), which, engine=fp.MonteCarlo(400, seed=s, block=400 // blocks, threads=1)).total_off
        for s in range(120)
    ]
    assert sum(e.low <= truth <= e.high for e in found) >= 107
    scatter = np.std([e.value for e in found])
    assert np.median([e.half_width for e in found]) <= (3 if blocks > 1 else 7) * scatter


def test_a_tree_keeps_a_root_that_is_known():
    tree = fp.Hierarchy.from_labels([list("sstt"), list("abcd")], ["state", "county"])
    x = np.array([0.0, 3.0, 40.0, 1.0])
    for spreads, kept in (([4.0, 4.0], True), ([3.0, 4.0, 4.0], False)):
        noise = fp.LevelNoise(tree, sigmas=spreads, kind="gaussian")
        off = fp.audit_hierarchy(x, noise, "top-down", runs=400).total_off
        assert (off.half_width == 0) is kept
        assert off.low <= 0.0 <= off.high  # 44 lies far from 0, so nothing is clipped of a noisy root either
