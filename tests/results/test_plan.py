"""plan and sweep: the answer meets its target, a little more noise does not, and refusals are told."""

import json
import re
import sys

import numpy as np
import pytest

import fairpost as fp
from fairpost.datasets import hawaii, synthetic_districts
from fairpost.errors import ParameterError
from fairpost.noise import Neighbours
from fairpost.partition import Partition
from fairpost.plan import grid, plan, sweep

DISTRICTS = synthetic_districts(400)
NEAR = 1e-6
"""What a plan promises: within this part of the most noise that meets the target (and on the safe side of it)."""


@pytest.mark.parametrize(
    ("which", "target", "limit", "kind"),
    [
        ("pos", "loss", 2e4, fp.Laplace),
        ("pos", "cost", 5e6, fp.Laplace),
        ("baseline", "alpha", 1e-4 * 6.5e9, fp.Gaussian),
        ("baseline", "cost", 1e6, fp.DiscreteLaplace),
        ("pos-threshold", "loss", 1e4, fp.Laplace),
    ],
)
def test_the_answer_meets_the_target_and_a_little_more_noise_does_not(which, target, limit, kind):
    engine = "expansion" if which == "pos-threshold" else "exact"
    found = plan(
        DISTRICTS, kind, which, **{f"max_{target}": limit}, spreads=grid(3, 300, 7), budget=6.5e9, engine=engine
    )
    assert found.found is not None
    assert found.found.quantity(target).high <= limit
    more = kind(found.found.mechanism.spread * (1 + 2 * NEAR))
    (beyond,) = sweep(DISTRICTS, [more], [which], budget=6.5e9, engine=engine).points
    assert beyond.quantity(target).high > limit


def test_the_answer_agrees_with_an_independent_bisection():
    limit = 0.5
    found = plan(hawaii(), fp.Gaussian, "simplex", max_alpha=limit, spreads=grid(5, 200, 9), engine="exact")
    low, high = 5.0, 200.0
    for _ in range(40):
        middle = np.sqrt(low * high)
        alpha = fp.audit(hawaii(), fp.Gaussian(middle), "simplex", engine="exact").alpha
        low, high = (middle, high) if alpha.high <= limit else (low, middle)
    # the answer lies up to NEAR below the root; the bisection is good to 1e-11
    assert found.found.mechanism.spread == pytest.approx(low, rel=1.5 * NEAR)


def test_no_noise_can_and_every_noise_can():
    none = plan(DISTRICTS, fp.Laplace, "baseline", max_loss=1e-30, spreads=grid(1, 10, 3), engine="exact")
    assert none.found is None
    assert "no noise in the range" in none.message
    every = plan(DISTRICTS, fp.Laplace, "baseline", max_loss=1.0, spreads=grid(1, 10, 3), engine="exact")
    assert every.found.mechanism.spread == 10.0
    assert "every noise in the range" in every.message


def test_a_curve_that_dips_again_is_told(monkeypatch):
    """Alpha against noise up, down, up: the answer is the end of the first stretch that meets the target."""
    from msgspec.structs import replace

    from fairpost.accuracy import Estimate
    from fairpost.results import Curve

    base = plan(hawaii(), fp.Laplace, "simplex", max_alpha=1e9, spreads=grid(1, 2, 2)).curve[0]

    def fake(self, mechanisms, rules, progress):
        def bump(s):
            return 1 + np.sin(np.log(s) * 4)

        made = tuple(replace(base, mechanism=m, alpha=Estimate(*[bump(m.spread)] * 3)) for m in mechanisms)
        return Curve(made, ())

    monkeypatch.setattr(sys.modules["fairpost.plan"]._Search, "curve", fake)
    found = plan(hawaii(), fp.Laplace, "simplex", max_alpha=1.5, spreads=grid(1, 20, 40))
    assert "meets it again" in found.message
    assert 4 * np.log(found.found.mechanism.spread) == pytest.approx(np.pi / 6, abs=1e-4)


def test_refusals_are_listed_with_their_reason():
    found = sweep(hawaii(), [fp.Laplace(1000.0)], ["pos", "pos-threshold"], engine="expansion")
    assert not found.points
    assert [r.postprocess for r in found.refused] == ["pos", "pos-threshold"]
    assert all("the expansion needs" in r.reason for r in found.refused)


def test_points_carry_their_promise_and_the_largest_loss():
    about = Neighbours(sensitivity=2.0)
    (point,) = sweep(hawaii(), [fp.Laplace(10.0)], ["simplex"], epsilon=about.epsilon).points
    assert point.epsilon == 0.2
    result = fp.audit(hawaii(), fp.Laplace(10.0), "simplex")
    assert point.loss.value == -result.bias.min()
    assert point.loser == "Honolulu"
    assert point.to_dict()["largest_loss"]["id"] == "Honolulu"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (dict(max_alpha=None), "a plan must have a target"),
        (dict(max_alpha=0.0), "`max_alpha` must be > 0"),
        (dict(max_alpha=float("nan")), "`max_alpha` must be > 0"),
        (dict(max_loss=float("inf")), "`max_loss` must be > 0 and finite"),
        (dict(max_rmse="many"), "`max_rmse` must be"),
        (dict(max_relative_loss=True), "`max_relative_loss` must be"),
        (dict(max_cost=1.0), "for allocations"),
    ],
)
def test_bad_plans_are_named(change, says):
    given = dict(max_alpha=1.0, spreads=grid(1, 2, 2)) | change
    with pytest.raises(ParameterError, match=says):
        plan(hawaii(), fp.Laplace, "simplex", **given)


@pytest.mark.parametrize("bad", [(0.0, 1.0, 3), (2.0, 1.0, 3), (1.0, 2.0, 1), (1.0, float("inf"), 3)])
def test_bad_grids_are_named(bad):
    with pytest.raises(ParameterError, match="range of noise"):
        grid(*bad)


@pytest.mark.parametrize("limit", [0.011, 0.0137, 0.02, 0.0333, 0.07])
def test_the_epsilon_and_the_noise_that_a_plan_prints_meet_its_target(tmp_path, limit):
    """Six digits are printed: epsilon rounded up, noise rounded down. Given back as they are, they keep alpha at the limit."""
    from click.testing import CliRunner

    from fairpost.cli import main

    table = tmp_path / "counts.csv"
    x = [40.0, 55.0, 70.0, 120.0]
    table.write_text("id,count\n" + "".join(f"{i},{v:g}\n" for i, v in enumerate(x)))
    words = ["plan", str(table), "--postprocess", "baseline", "--max-alpha", str(limit), "--points", "9", "--any-error"]
    done = CliRunner().invoke(main, words, env={"COLUMNS": "200"})
    assert done.exit_code == 0, done.output
    lines = [line.strip(" │|") for line in done.output.splitlines()]
    row = next(line for line in lines if line.startswith("baseline") and "exact" in line)
    epsilon, scale = [float(word) for word in row.replace("│", " ").replace("|", " ").split()[1:3]]
    for mechanism in (fp.Laplace.from_epsilon(epsilon), fp.Laplace(scale)):
        alpha = fp.audit(fp.Counts(x), mechanism, "baseline").alpha
        assert limit * (1 - 1e-4) <= alpha.high <= limit
    # the first line states three digits, rounded up: alpha is at most some 2 * 5e-3 below its limit there (it grows about as b^2)
    stated = re.fullmatch(
        rf"baseline meets alpha {limit:g} share at epsilon (0\.\d{{2,5}}); the typical error of baseline is .*\.",
        lines[0],
    )
    short = float(stated[1])
    assert epsilon <= short < epsilon * 1.01
    assert 0.97 * limit < fp.audit(fp.Counts(x), fp.Laplace.from_epsilon(short), "baseline").alpha.high <= limit


def test_rounding_one_way_keeps_what_is_short():
    from fairpost.results.plans import rounded

    assert [rounded(v, 6, up=True) for v in (0.2, 0.12345612, 3.0, 1e-7)] == [0.2, 0.123457, 3.0, 1e-7]
    assert [rounded(v, 6, up=False) for v in (0.1, 0.1234569, 12345678.9)] == [0.1, 0.123456, 12345600.0]


# ---- several targets, several rules -------------------------------------------------------------------------------

TARGETS = dict(max_loss=2e4, max_relative_loss=1.0, max_rmse=4e5)
"""At 400 synthetic districts and $6.5 billion; alone they allow pos noise of some 23.5, 17.8 and 19.7."""


@pytest.fixture(scope="module")
def together():
    same = dict(spreads=grid(1, 300, 7), budget=6.5e9, epsilon=Neighbours().epsilon)
    alone = {k: plan(DISTRICTS, fp.Laplace, "pos", **{k: v}, **same) for k, v in TARGETS.items()}
    return alone, plan(DISTRICTS, fp.Laplace, ["baseline", "pos"], **TARGETS, **same)


def test_several_targets_are_met_at_the_least_of_what_each_allows(together):
    alone, both = together
    baseline, pos = both
    spreads = {k: p.found.mechanism.spread for k, p in alone.items()}
    least = min(spreads, key=spreads.__getitem__)
    assert len({round(s, 3) for s in spreads.values()}) == len(spreads)  # they differ, so one binds
    assert pos.found.mechanism.spread == pytest.approx(spreads[least], rel=2 * NEAR)
    assert pos.binding == least.removeprefix("max_")
    assert all(p.binding == k.removeprefix("max_") for k, p in alone.items())
    assert [v.outcome for p in both for v in p.verdicts] == ["passes"] * 6
    assert pos.message.endswith("; the limit on the largest loss relative to what is due binds")
    assert "the largest expected loss at or below $20,000 and" in pos.message
    assert baseline.found.mechanism.spread != pos.found.mechanism.spread


def test_what_the_verdict_states_is_short_rounded_up_and_meets_the_targets(together):
    _, both = together
    ranked = sorted(both, key=lambda p: p.stated.epsilon)
    said = re.fullmatch(
        r"(\S+) meets loss \$20,000 and relative loss 1 % and RMSE \$400,000 at epsilon (\S+), (\S+) needs ([^;]+); "
        r"the typical error of \1 is \$[\d,]+, [\d.]+ % of the mean of what is due",
        both.verdict,
    )
    assert [said[1], said[3]] == [p.postprocess for p in ranked]
    for p, text in zip(ranked, (said[2], said[4]), strict=True):
        short = float(text)
        assert len(text.replace("0.", "").lstrip("0")) <= 3
        assert p.found.epsilon <= short <= p.found.epsilon * 1.01
        given = fp.audit(DISTRICTS, fp.Laplace.from_epsilon(short), p.postprocess, budget=6.5e9, targets=TARGETS)
        assert given.overall.outcome == "passes"
        assert p.stated.epsilon == short
        assert p.stated.alpha.value == pytest.approx(given.alpha.value * 6.5e9, rel=1e-9)


def test_without_epsilon_the_noise_is_stated_rounded_down():
    found = plan(
        hawaii(), fp.Laplace, ["simplex"], max_alpha=0.05, spreads=grid(1, 100, 5), engine="exact", any_error=True
    )
    (only,) = found
    assert only.stated.epsilon is None
    scale = only.stated.mechanism.scale
    assert f"{scale:.3g}" == f"{scale:.12g}"
    assert 0.99 * only.found.mechanism.scale < scale <= only.found.mechanism.scale
    assert found.verdict.startswith(f"simplex meets alpha 0.05 people at scale {scale:g}; the typical error of simplex")


def test_the_verdict_names_a_total_that_the_rule_breaks():
    towns, asked = fp.Counts([2, 8, 15, 40]), {"max_alpha": 1, "spreads": [0.1, 1, 10]}
    broken = fp.plan(towns, fp.Laplace, ["nonnegative"], **asked)
    assert "; all results together miss the true total by " in broken.verdict
    said = float(broken.verdict.rpartition(" by ")[2].split()[0])
    assert said == pytest.approx(broken[0].stated.total_off.value, rel=1e-4)
    assert "true total" not in fp.plan(towns, fp.Laplace, ["simplex"], **asked).verdict


def test_a_rule_that_no_noise_helps_is_told_in_the_verdict(together):
    same = dict(spreads=grid(1, 300, 3), budget=6.5e9, epsilon=Neighbours().epsilon)
    some = plan(DISTRICTS, fp.Laplace, ["pos", "baseline"], max_loss=400.0, **same)
    none = plan(DISTRICTS, fp.Laplace, ["baseline"], max_loss=1e-9, max_alpha=1e12, **same)
    assert none[0].found is None
    assert none[0].binding == "loss"
    usual = "relative RMSE 30 % (the default)"
    assert none.verdict == f"no rule meets alpha $1,000,000,000,000 and loss $1e-09 and {usual} in the range: baseline"
    assert "the least noise already exceeds the limit on the largest expected loss" in none[0].message
    for p in some:
        assert (p.postprocess in some.verdict.partition("not in the range")[2].partition(";")[0]) == (p.found is None)


def test_plans_restore_everything(together):
    _, both = together
    data = json.loads(json.dumps(both.to_dict()))
    again = fp.Plans.from_dict(data)
    assert json.loads(json.dumps(again.to_dict())) == data
    assert again.verdict == both.verdict
    assert again[1].curve == both[1].curve
    assert again[0].stated == both[0].stated
    assert again.basis == both.basis
    one = fp.Plan.from_dict(json.loads(json.dumps(both[0].to_dict())))
    assert (one.message, one.found, one.targets) == (both[0].message, both[0].found, both[0].targets)


def test_a_curve_says_its_unit_and_restores_everything():
    """alpha, the losses and the error of an allocation with a budget are all in money; without one in shares."""
    x = fp.Counts([3, 8, 20, 55], ids=list("abcd"), names=["Ash", "Birch", "Cedar", "Dogwood"])
    cash, plain, counts = (
        fp.sweep(x, [fp.Laplace(4.0)], [rule], budget=b)
        for rule, b in (("pos", 1000.0), ("pos", None), ("simplex", None))
    )
    (money,), (share,), (people,) = cash.points, plain.points, counts.points
    assert (money.unit, share.unit, people.unit) == ("money", "share", "people")
    for name in ("alpha", "loss", "rmse"):
        assert getattr(money, name).value == pytest.approx(1000 * getattr(share, name).value, rel=1e-12)
        assert getattr(money, name).high == pytest.approx(1000 * getattr(share, name).high, rel=1e-12)
    assert money.relative_loss == share.relative_loss
    assert money.name(money.loser) in x.names
    again = fp.Curve.from_dict(json.loads(json.dumps(cash.to_dict())))
    assert again.points == cash.points
    assert (again.basis, again.mark) == (cash.basis, cash.mark)
    assert again.basis.budget == 1000.0
    mixed = fp.Curve((share, people), ())
    with pytest.raises(ParameterError, match="figure must be in one unit, got pos in share and simplex in people"):
        mixed.plot("alpha")


@pytest.mark.parametrize("name", ["simplex", "pos"])
def test_a_sweep_and_a_plan_hand_on_groups_and_total(name):
    """Their points are those of `audit` asked the same, which groups (and a total) change."""
    x = fp.Counts([3.0, 8.0, 20.0, 55.0, 9.0], groups=list("aabab"))
    noises = [fp.Laplace(2.0), fp.Laplace(5.0)]
    for asked in ({"by_group": True}, {"total": 80.0}) if name == "simplex" else ({"by_group": True},):
        audits = [fp.audit(x, noise, name, **asked).alpha.value for noise in noises]
        plain = [fp.audit(x, noise, name).alpha.value for noise in noises]
        assert not set(audits) & set(plain)
        assert [p.alpha.value for p in sweep(x, noises, [name], **asked).points] == audits
        found = plan(x, fp.Laplace, name, spreads=(2.0, 5.0), max_alpha=1e9, **asked)
        assert [p.alpha.value for p in found.curve] == audits


def test_a_total_is_for_the_rules_that_keep_one():
    """One total in a plan of several rules: each is given what it looks at."""
    x = hawaii()
    asked = {"max_alpha": 1.0, "spreads": grid(1, 50, 3)}
    total = x.total - 300  # not the one that a rule would keep by itself
    both = plan(x, fp.Laplace, ["simplex", "nonnegative"], total=total, **asked)
    kept = plan(x, fp.Laplace, "simplex", total=total, **asked)
    assert [p.alpha.value for p in both[0].curve] == [p.alpha.value for p in kept.curve]
    assert both[1].found == plan(x, fp.Laplace, "nonnegative", **asked).found
    assert kept.curve[0].alpha.value != plan(x, fp.Laplace, "simplex", **asked).curve[0].alpha.value
    for rules, given, said in (
        (["none", "nonnegative"], {"total": total}, "`total` is for post-processings that keep one"),
        (["none", "simplex"], {"budget": 1e6}, "budget"),
    ):
        with pytest.raises(fp.FairpostError, match=said):
            plan(x, fp.Laplace, rules, **given, **asked)


@pytest.mark.parametrize(
    "ask",
    [
        lambda x, rules: plan(x, fp.Laplace, rules, max_loss=5000.0, budget=1e6, spreads=(1.0, 50.0)),
        lambda x, rules: plan(x, fp.Laplace, rules, max_relative_loss=1.0, budget=1e6, spreads=(1.0, 50.0)),
        lambda x, rules: sweep(x, [fp.Laplace(8.0)], rules, budget=1e6),
        lambda x, rules: fp.compare(x, fp.Laplace(8.0), rules, budget=1e6, targets={"max_loss": 5000.0}),
        lambda x, rules: fp.compare(x, fp.Laplace(8.0), rules, budget=1e6).plot(),
        lambda x, rules: fp.Plans(
            tuple(plan(x, fp.Laplace, one, max_loss=9.0, spreads=(1.0, 9.0), **({"budget": 1e6} if one == "pos" else {}))
                  for one in rules)
        ),
        lambda x, rules: fp.frontier(
            x, fp.Laplace(8.0), "simplex-threshold", points=2, beside=fp.compare(x, fp.Laplace(8.0), rules, budget=1e6)
        ),
    ],
    ids=["plan", "plan in percent", "sweep", "targets", "figure", "plans", "frontier"],
)  # fmt: skip
def test_dollars_are_not_compared_with_people(ask):
    """A limit, a sentence or a picture about two units is refused in one line that names the rules of each."""
    with pytest.raises(ParameterError, match=r"must be in one unit, got simplex.* in people and pos in money: ask"):
        ask(fp.Counts([40.0, 500.0, 3000.0]), ["simplex", "pos"])


def test_a_share_of_a_group_is_not_compared_with_a_share_of_the_whole():
    x = fp.Counts([3.0, 8.0, 20.0, 55.0], groups=list("aabb"))
    rules = [fp.PoS(), fp.PoS(partition=Partition.of(x.groups))]
    with pytest.raises(ParameterError, match="got pos in share and pos in share of each group"):
        fp.compare(x, fp.Laplace(2.0), rules, targets={"max_loss": 0.1})
    cash = fp.compare(x, fp.Laplace(2.0), rules, targets={"max_loss": 50.0}, budget=1000.0)
    assert [r.overall.verdicts[0].unit for r in cash] == ["money", "money"]


def test_limits_in_percent_are_for_rules_of_any_unit():
    """Percent of what is due is percent of what is due; the tables then stand apart, each with its unit."""
    x = fp.Counts([40.0, 500.0, 3000.0])
    found = fp.compare(x, fp.Laplace(8.0), ["simplex", "pos"], budget=1e6, targets={"max_relative_loss": 50.0})
    assert [r.overall.outcome for r in found] == ["passes", "passes"]
    rows = [line.split() for line in repr(found).splitlines()]
    assert [row[2] for row in rows if row[:1] in (["simplex"], ["pos"])] == ["people", "share"]


@pytest.mark.parametrize("words", ["plan --max-loss 5000", "audit --epsilon 0.1 --max-loss 5000", "sweep --points 2"])
def test_the_commands_refuse_dollars_beside_people(tmp_path, words):
    from click.testing import CliRunner

    from fairpost.cli import main

    (tmp_path / "t.csv").write_text("id,count\na,40\nb,500\nc,3000\n")
    command, *rest = words.split()
    page = tmp_path / "page.html"
    rules = ["--postprocess", "pos", "--postprocess", "simplex", "--budget", "6.5e9", "--html", str(page)]
    done = CliRunner().invoke(main, [command, str(tmp_path / "t.csv"), *rest, *rules])
    assert done.exit_code == 2
    assert done.stderr.splitlines()[-1].endswith("got pos in money and simplex in people: ask for them apart")
    assert done.stdout == ""
    assert not page.exists()
