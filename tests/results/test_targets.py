"""Targets and verdicts: unsure where the interval holds the limit, in the unit of their limit, and the sentences about them."""

import re

import numpy as np
import pytest

import fairpost as fp
from fairpost.accuracy import Accuracy, Estimate
from fairpost.errors import ParameterError
from fairpost.report import audit_page
from fairpost.results import Verdict
from support.commands import call
from support.pages import words
from support.results_by_hand import replace
from support.six_districts import MONEY, NOISE, X

# ---- targets ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("low", "value", "high", "outcome"),
    [(8, 9, 10, "passes"), (8, 9, 10.001, "unsure"), (10, 11, 12, "unsure"), (10.001, 11, 12, "fails"), (9, 9.5, np.inf, "unsure")],
)  # fmt: skip
def test_an_interval_that_holds_the_limit_is_unsure(low, value, high, outcome):
    assert Verdict("alpha", 10.0, "people", Estimate(value, low, high), None).outcome == outcome


@pytest.mark.parametrize(("limits", "outcome"), [((1.1, 1.1), "passes"), ((1.1, 1.0), "unsure"), ((1.0, 0.9), "fails")])
def test_all_targets_must_hold(limits, outcome):
    """A simulation, and limits as parts of what it found: there and a half above it, its interval holds the first."""
    r = fp.audit(X, NOISE, "pos", engine="monte-carlo", runs=4000)
    loss = r.largest_loss
    assert max(r.alpha.high / r.alpha.value, loss.high / loss.value) < 1.1
    both = fp.Targets(max_alpha=limits[0] * r.alpha.value, max_loss=limits[1] * loss.value)
    assert replace(r, targets=both).overall.outcome == outcome


def test_verdicts_are_in_the_unit_of_their_limit(found):
    baseline, pos = found
    for r in found:
        loss, relative = r.overall.verdicts
        assert (loss.unit, relative.unit) == ("money", "percent")
        assert loss.reached.value == pytest.approx(-MONEY * r.bias.min(), rel=1e-12)
        assert relative.reached.value == pytest.approx(100 * np.nanmax(-r.relative), rel=1e-12)
        assert (loss.who, relative.who) == (r.largest_loss.id, r.relative.largest_loss.id)
    share = fp.audit(X, NOISE, "pos", targets=fp.Targets(max_alpha=0.01, max_rmse=1.0, max_cost=1.0))
    assert [v.unit for v in share.overall.verdicts] == ["share"] * 3
    assert share.overall.verdicts[0].reached == share.alpha
    assert (baseline.overall.outcome, pos.overall.outcome) == tuple(
        "passes" if -MONEY * r.bias.min() <= 200 and np.nanmax(-r.relative) <= 0.04 else "fails" for r in found
    )
    assert fp.audit(X, NOISE, "pos").overall.outcome is None


def test_what_a_repr_says_about_targets_and_totals(found):
    baseline, pos = found
    text = " ".join(repr(pos).split())
    part = 100 * pos.bias[X.ids.index(pos.alpha_pair[1])] / pos.truth[X.ids.index(pos.alpha_pair[1])]
    assert f", {part:.5g} % of its due" in text
    for v in pos.overall.verdicts:
        assert re.search(rf"{v.outcome} the largest .* {v.reached.value:,.5g}( %)? \+- ", text)
    assert f"targets baseline {baseline.overall.outcome}, pos {pos.overall.outcome}" in " ".join(repr(found).split())
    total = fp.compare(fp.Counts([1, 2, 3], ids=["a", "b", "Total"]), NOISE, ["none"])
    assert "warning Total looks like a total" in " ".join(repr(total).split())
    assert max(map(len, repr(total).splitlines())) <= 80


def test_targets_are_checked():
    with pytest.raises(ParameterError, match=r"a target must be one of max_alpha.*got 'max_harm'"):
        fp.audit(X, NOISE, "pos", targets={"max_harm": 1.0})
    with pytest.raises(
        ParameterError, match="`max_cost` limits the cost of privacy, which is for allocations, got simplex"
    ):
        fp.compare(X, NOISE, ["pos", "simplex"], targets={"max_cost": 1.0})
    assert not fp.Targets()
    assert fp.Targets(max_loss=3).limits == {"loss": 3.0}


def test_a_simulation_can_be_unsure_and_an_exact_result_is_not():
    exact = fp.audit(X, NOISE, "pos", engine="exact", budget=MONEY)
    limit = {"max_alpha": exact.alpha.value * MONEY * (1 + 1e-4)}
    sure = fp.audit(X, NOISE, "pos", engine="exact", budget=MONEY, targets=limit)
    drawn = fp.audit(X, NOISE, "pos", engine="monte-carlo", runs=2000, budget=MONEY, targets=limit)
    assert (sure.overall.outcome, drawn.overall.outcome) == ("passes", "unsure")
    said = re.search(r"between \$([\d,]+(?:\.\d+)?) and \$([\d,]+(?:\.\d+)?)", words(audit_page([drawn])))
    low, high = (float(v.replace(",", "")) for v in said.groups())
    assert low <= drawn.alpha.low * MONEY
    assert high >= drawn.alpha.high * MONEY


# ---- sentences ----------------------------------------------------------------------------------------------------


def made(due, bias, names=("New York City", "Elm", "Nowhere"), budget=6.5e9, **more):
    """An audit with these dollars, each known to a dollar."""
    base = fp.audit(fp.Counts([5, 3, 0], ids=["3620580", "b", "c"], names=names), NOISE, "pos", budget=budget)
    truth, moved = np.array(due) / budget, np.array(bias) / budget
    known = Accuracy("bound", np.full(3, 1.0 / budget))
    ends = (base.counts.ids[int(np.argmax(moved))], base.counts.ids[int(np.argmin(moved))])
    return replace(base, truth=truth, bias=moved, accuracy=known, alpha_pair=ends, **more)


@pytest.mark.parametrize(
    ("lost", "limits", "said"),
    [
        (4.87e6, {"max_loss": 500.0, "max_relative_loss": 2.5},
         "pos fails 1 of 2 targets: fails: the largest expected loss is at least $4,869,999 (New York City), over the limit of $500. "
         "passes: the largest loss relative to what is due is at most 2.46 % (New York City), within the limit of 2.5 %."),
        (501.02, {"max_loss": 500.0},
         "pos fails: the largest expected loss is at least $500.02 (New York City), over the limit of $500."),
        (498.7, {"max_loss": 500.0},
         "pos passes: the largest expected loss is at most $500 (New York City), within the limit of $500."),
    ],
)  # fmt: skip
def test_verdicts_are_rounded_away_from_what_they_claim(lost, limits, said):
    r = made([198e6, 1e6, 0.0], [-lost, lost - 101.0, 101.0], targets=fp.Targets(**limits))
    assert said in words(audit_page([r]))


@pytest.mark.parametrize(
    ("alpha", "low", "high", "said"),
    [(0.98, 0.97, 0.9805, "2.00 %"), (0.995, 0.9, 0.9985, "at least 0.1"), (0.5, 0.499, 0.501, "2 times"), (0.05, 0.02, 0.0501, "20 times")],
)  # fmt: skip
def test_nothing_is_at_least_1_times_less_unfair(alpha, low, high, said):
    """1 / 0.98 is 2 % less; where the intervals nearly touch, the certain part is told, in percent."""
    r = made([198e6, 1e6, 0.0], [-4.87e6, 4.833e6, 37_000.0])
    worst = replace(r, alpha=Estimate(1.0, 0.9999, 1.0001), postprocess="baseline")
    text = words(audit_page([worst, replace(r, alpha=Estimate(alpha, low, high))]))
    assert re.search(rf"pos is (at least )?{said}.* less unfair", text)
    assert not re.search(r"\b1 times", text)


def test_what_lies_within_its_error_is_not_told(tmp_path):
    (tmp_path / "t.csv").write_text("id,count\na,3\nb,40\n")
    told = {
        rule: call("audit", "t.csv", "--scale", 5, "--postprocess", rule, cwd=tmp_path) for rule in ("none", "simplex")
    }
    assert ["is overcounted by" in done.stdout for done in told.values()] == [False, True]
