"""What the pages and the screen say about results made by hand, word by word.

Every number of `support/results_by_hand.py` differs from every other, so a sentence with the wrong one does not read as it must: gains for
losses, a value for its bound, a standard error for the simultaneous width, a chance for a deviation. What is expected
here was worked out by hand from those numbers, not copied from the program. In money the budget is 4,000,000.
"""

import base64
import html
import json
import math
import re
import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fairpost as fp
from fairpost import errors
from fairpost.accuracy import Accuracy, Estimate
from fairpost.bounds.theorems import Bounds
from fairpost.budgets import GroupBudgets
from fairpost.cli import planning, screen
from fairpost.noise import Neighbours
from fairpost.report import audit_page, curves_page, sentences, tables
from fairpost.report.glossary import TERMS
from fairpost.report.numbers import (
    PERCENT,
    Unit,
    below,
    certainty,
    count,
    directed,
    half,
    money,
    times,
)
from fairpost.report.page import file as page_file
from fairpost.report.page import script as page_script
from fairpost.report.payload import audit_data, raised
from fairpost.report.tradeoff import tradeoff_data
from fairpost.report.views import Words, by_unit, split
from fairpost.results import Basis, Plan, Plans, Point
from fairpost.rules import POSTPROCESSINGS
from support.pages import text
from support.results_by_hand import (
    ALL,
    BASELINE,
    BUDGET,
    COUNTS,
    IDS,
    NOISE,
    POS,
    SIMPLEX,
    THRESHOLD,
    numbers_of,
    simulated,
    vector,
)

WORDS = Words("pupils", "districts", "€")


def full(made):
    """The numbers in full precision that lie behind those shown."""
    return [float(v) for v in re.findall(r'<data[^>]* value="([^"]+)"', str(made))]


def views(*results):
    return [v for found in by_unit(results, WORDS).values() for v in found]


def view(result):
    return views(result)[0]


def rendered(made):
    """A table of the screen as rows of cells."""
    return [[cell.replace("\u00a0", " ") for cell in row] for row in made.rows]


def test_the_numbers_made_by_hand_are_all_different():
    for result in ALL:
        numbers = numbers_of(result)
        assert np.unique(numbers).size == numbers.size


# ---- the summary --------------------------------------------------------------------------------------------------


def test_the_summary_of_an_allocation():
    # losses and gains: 0.0118 and 0.0123 of 4 million; typical errors: sqrt(0.00468 / 5), sqrt(0.00494 / 5) of it;
    # chances of 0: 0.5533 / 5 and 0.7257 / 5; 0.024099992 / 0.0087 = 2.77 times, rounded down as "at least" demands;
    # pos: -0.0031234 +- 0.00083 is 12,494 +- 3,320, so thousands
    assert text(sentences.summary(views(BASELINE, POS))) == (
        "5 districts share €4.00 million in proportion to their counts, which carry noise with a standard deviation of "
        "17.7 pupils. Post-processing by baseline moves money from the largest districts to the smallest. Elm (2,063 "
        "pupils) loses €47,200 in expectation, more than any other; Ash (7 pupils) gains €49,200 in expectation. Set "
        "against baseline: pos is at least 2.7 times less unfair (largest loss €12,000). So that nobody expects less "
        "than their due, it would take an extra €65,600 under baseline and €22,000 under pos. The price: among those "
        "that never go below zero, pos is the fairest; a single result under it is typically off by €125,730 and is 0 "
        "with a chance of 14.5 % on average, against €122,376 and 11.1 % under baseline."
    )


def test_the_summary_of_a_release():
    # 7.29999994 / 4.31 = 1.694 times; sqrt(1020 / 5) and sqrt(1164 / 5); 0.344397 / 5 and 0.676059 / 5
    assert text(sentences.summary(views(SIMPLEX, THRESHOLD))) == (
        "The counts of 5 districts are published with noise with a standard deviation of 17.7 pupils and then "
        "post-processed. Post-processing by simplex moves expected counts from the largest districts to the smallest. Elm "
        "(2,063 pupils) is undercounted by 3.60 pupils in expectation, more than any other; Ash (7 pupils) is "
        "overcounted by 3.70 pupils in expectation. Set against simplex: simplex-threshold is at least 1.6 times less "
        "unfair (largest loss 1.1 pupils). The price: among those that never go below zero, simplex-threshold is the "
        "fairest; a single result under it is typically off by 15.3 pupils and is 0 with a chance of 13.5 % on "
        "average, against 14.3 pupils and 6.89 % under simplex."
    )


def test_without_a_budget_shares_are_told():
    bare = replace(BASELINE, budget=None)
    said = text(sentences.summary([view(bare)]))
    assert said == (
        "5 districts share a budget in proportion to their counts, which carry noise with a standard deviation of 17.7 "
        "pupils. Post-processing by baseline moves shares of the budget from the largest districts to the smallest. Elm "
        "(2,063 pupils) loses 1.18 % in expectation, more than any other; Ash (7 pupils) gains 1.23 % in expectation. "
        "So that nobody expects less than their due, it would take a budget larger by 1.64 % under baseline."
    )
    assert text(tables.cost_text(view(bare))) == "exact, error below 0.00004 %"  # 3.4e-7, in percent, rounded up


def flipped(result):
    return replace(result, bias=-result.bias, alpha_pair=result.alpha_pair[::-1])


def test_gains_and_losses_the_other_way_round():
    said = text(sentences.summary([view(flipped(BASELINE))]))
    assert "moves money from the smallest districts to the largest." in said
    assert (
        "Ash (7 pupils) loses €49,200 in expectation, more than any other; Elm (2,063 pupils) gains €47,200 in "
        "expectation." in said
    )


@pytest.mark.parametrize(
    ("result", "sign", "verbs", "one", "nobody"),
    [
        (BASELINE, 1, "raises money|lowers", "Ash (7 pupils) gains €49,200", "nobody loses"),
        (BASELINE, -1, "lowers money|raises", "Ash (7 pupils) loses €49,200", "nobody gains"),
        (
            SIMPLEX,
            1,
            "raises expected counts|lowers",
            "Ash (7 pupils) is overcounted by 3.70 pupils",
            "nobody is undercounted",
        ),
        (
            SIMPLEX,
            -1,
            "lowers expected counts|raises",
            "Ash (7 pupils) is undercounted by 3.70 pupils",
            "nobody is overcounted",
        ),
    ],
)
def test_where_all_lies_on_one_side_nobody_is_on_the_other(result, sign, verbs, one, nobody):
    bias = sign * np.where(result.bias > 0, result.bias, 0.0)
    pair = ("Ash", "Elm") if sign > 0 else ("Elm", "Ash")
    made = view(replace(result, bias=bias, alpha_pair=pair))
    moves, other = verbs.split("|")
    said = f"Post-processing by {result.postprocess} {moves}, mostly those of the smallest, and {other} none."
    assert text(sentences.movement(made)) == said
    assert text(sentences.ends(made)) == f"{one} in expectation; {nobody}."


def test_where_a_change_lies():
    one = {k: np.where(np.arange(5) == k, 0.0123, 0.0) for k in (0, 2, 4)}
    said = {k: text(sentences.movement(view(replace(BASELINE, bias=b)))) for k, b in one.items()}
    assert "mostly those of the smallest" in said[0]
    assert "at no size much more than at another" in said[2]
    assert "mostly those of the largest" in said[4]
    # what the simultaneous width does not tell from zero does not count: the 0.0116 of Elm lies within 0.0117
    wide = simulated(replace(BASELINE, bias=vector(0.01, 0, 0, 0, 0.0116)), vector(0.001, 0, 0, 0, 0.0117), 2.0)
    assert "mostly those of the smallest" in text(sentences.movement(view(wide)))


def test_direction_and_ends_go_by_the_simultaneous_width():
    # every bias is 2 to 6 standard errors away from zero and within its simultaneous width
    wide = simulated(replace(POS, alpha=Estimate(0.0074451, 0.0, 0.0088321)), np.abs(POS.bias) * 1.01, 5.5)
    made = view(wide)
    assert made.direction == "unresolved"
    assert text(sentences.movement(made)) == "For pos the 1,234 simulated runs do not resolve who gains and who loses."
    # at most: the upper end, 0.0088321 * 4 million = 35,328.4, up to two digits; never the value 29,780
    limit = "Unfairness is not resolved: it is at most €36,000, with 90 % confidence."
    assert text(sentences.ends(made)) == text(sentences.limit(made)) == limit
    assert full(sentences.limit(made)) == [0.0088321 * BUDGET]
    assert text(sentences.sureness(made)) == "not resolved at 1,234 runs: 0 to €36,000 with 90 % confidence"
    assert "pos is not resolved (alpha at most €36,000)" in text(sentences.summary(views(BASELINE, wide)))
    row = tables.comparison(views(BASELINE, wide))[1]
    assert [text(c) for c in (row.alpha, row.loss, row.gain)] == ["not resolved"] * 3
    assert text(sentences.price(views(BASELINE, wide))) == ""  # one that is resolved is nothing to compare


def test_one_end_resolved_and_the_other_not():
    half_width = POS.half_width.copy()
    half_width[4] = 0.0032  # Elm: -0.0031234
    made = view(simulated(POS, half_width, 5.5))
    assert text(sentences.ends(made)) == "Ash (7 pupils) gains €17,000 in expectation; nobody loses."
    assert "largest loss is not resolved" in text(sentences.compared(view(BASELINE), [made]))
    assert text(tables.comparison([made])[0].loss) == "not resolved"


def test_what_the_runs_have_shown_in_words():
    def told(low, **more):
        return replace(POS.sample, alpha=Estimate(0.5, low, 0.8125, "interval"), **more).statement

    assert told(0.25) == "alpha is 0.5, from 0.25 to 0.8125 with 90 % confidence, at 1234 runs"
    assert told(0.0) == "not resolved at 1234 runs: alpha is at most 0.8125 with 90 % confidence"
    assert told(0.0, interrupted=True).startswith(
        "not resolved at 1234 runs, where it was interrupted: alpha is at most 0.8125"
    )


def test_less_unfair_is_said_only_where_the_intervals_are_apart():
    def said(low, high):
        other = simulated(replace(POS, alpha=Estimate(0.0074451, low, high)), POS.half_width, 5.5)
        return text(sentences.compared(view(BASELINE), views(other)))

    told = "Set against baseline: pos is {} less unfair (largest loss €12,000)."
    # ratio of the values: 3.237; of the certain ends 0.024099992 / high
    assert said(0.0074, 0.0075) == told.format("3.2 times")  # 3.213 is more than 0.9 of it
    assert said(0.0062, 0.0087) == told.format("at least 2.7 times")  # 2.770
    assert said(0.0062, 0.0240) == told.format("at least 0.414 %")  # 1 - 0.024 / 0.024099992, rounded down
    assert said(0.0062, 0.0242) == "Set against baseline: pos cannot be told apart from it."
    exactly = replace(
        POS, accuracy=replace(POS.accuracy, kind="bound"), alpha=Estimate(0.0241, 0.0241, 0.0241), method="exact"
    )
    same = replace(BASELINE, alpha=Estimate(0.0241, 0.0241, 0.0241))
    assert text(sentences.compared(view(same), views(exactly))) == "Set against baseline: pos is as unfair."
    none = replace(exactly, alpha=Estimate(0.0, 0.0, 0.0))
    assert text(sentences.compared(view(same), views(none))) == "Set against baseline: pos has no unfairness at all."
    assert text(sentences.compared(view(none), views(same))) == ""
    gains = replace(exactly, alpha=POS.alpha, bias=np.abs(POS.bias))
    assert text(sentences.compared(view(same), views(gains))).endswith("less unfair (nobody loses).")


def test_the_fairest_is_never_one_that_goes_below_zero():
    free = replace(SIMPLEX, postprocess="sum", signed=True, alpha=Estimate(0.01, 0.01, 0.01))
    made = views(SIMPLEX, THRESHOLD, free)
    assert "simplex-threshold is the fairest" in text(sentences.price(made))
    assert text(sentences.price(views(SIMPLEX, free))) == ""
    # against the most accurate of the others, not the first
    rough = replace(SIMPLEX, postprocess="nonnegative", mse=SIMPLEX.mse * 4)
    assert text(sentences.price(views(rough, SIMPLEX, THRESHOLD))).endswith("14.3 pupils and 6.89 % under simplex.")


def test_where_gains_end_and_losses_begin():
    size = np.arange(1, 24, dtype=float) ** 2
    bias = np.where(size <= 81, 0.0031, -0.0021) + np.arange(23) * 1e-6
    bias[9:11] = 1e-9  # sizes 100 and 121: within the error, neither gains nor loses
    many = replace(
        BASELINE,
        counts=fp.Counts(size),
        bias=bias,
        truth=size / size.sum(),
        alpha_pair=("8", "11"),
        accuracy=Accuracy("bound", np.full(23, 2e-8)),
        **{k: np.full(23, 2e-8) for k in ("spread", "mse", "zero")},
    )
    assert text(sentences.crossing(view(many))) == (
        "All 9 districts that gain have at most 81 pupils, all 12 that lose have at least 144."
    )
    assert "All 9 districts" in text(sentences.summary([view(many)]))
    near = bias.copy()
    near[9:11] = 1e-6  # above a standard error of 2e-8, within what holds for all together
    assert text(sentences.crossing(view(simulated(replace(many, bias=near), np.full(23, 1e-4), 2.0)))) == (
        "All 9 districts that gain have at most 81 pupils, all 12 that lose have at least 144."
    )
    assert text(sentences.crossing(view(replace(many, bias=-bias)))) == ""
    assert split(size, np.abs(bias), many.half_width) is None
    assert split(vector(3, 3), vector(1, -1), vector(0, 0)) is None  # the same size gains and loses
    assert text(sentences.crossing(view(BASELINE))) == ""  # of 5 the two ends say it all


def test_equals_are_counted_and_named_once():
    counts = fp.Counts([7, 31, 7, 7, 31], weights=[1.3, 0.7, 1.3, 1.3, 0.7], ids=IDS)
    tied = replace(BASELINE, counts=counts, bias=vector(0.0123, -0.0118, 0.0123, 0.0123, -0.0118))
    tied = replace(tied, alpha_pair=("Ash", "Birch"))
    assert text(sentences.ends(view(tied))) == (
        "Birch (31 pupils) and one other like it lose €47,200 each in expectation, more than any other; Ash (7 pupils) "
        "and 2 others like it gain €49,200 each in expectation."
    )
    other = replace(tied, counts=fp.Counts([7, 31, 7, 7, 31], weights=[1.3, 0.7, 1.4, 1.3, 0.8], ids=IDS))
    assert "Birch (31 pupils) loses" in text(sentences.ends(view(other)))  # another weight is not alike
    assert "Ash (7 pupils) and one other like it" in text(sentences.ends(view(other)))


def test_budgets_of_groups_are_not_one_budget():
    assert "share the budgets of their groups in proportion" in text(
        sentences.opening([view(replace(BASELINE, grouped=True))])
    )
    assert "post-processed" in text(sentences.opening([view(replace(SIMPLEX, grouped=True))]))


def test_a_budget_divided_among_groups():
    amounts = {"north": 1.5e6, "south": 0.5e6, "west": 2e6}
    divided = replace(BASELINE, grouped=True, budgets=GroupBudgets(amounts, vector(1, 1, 1, 1, 1), "as we like it"))
    assert "share €4.00 million, group by group (as we like it), in proportion" in text(
        sentences.opening([view(divided)])
    )
    assert ("Budgets of groups", "as we like it") in [(k, text(v)) for k, v in tables.provenance(view(divided))]
    assert screen.whose(divided.budgets, BUDGET, "€") == (
        "By group: €4,000,000 in all, as we like it; 3 groups, from south with €500,000 to west with €2,000,000."
    )
    assert divided.to_dict()["group_budgets"] == {"rule": "as we like it", "amounts": amounts}


def test_nothing_moves():
    still = replace(BASELINE, bias=np.zeros(5), accuracy=Accuracy("bound", np.zeros(5)))
    made = view(still)
    assert text(sentences.movement(made)) == "Under baseline everybody gets their due in expectation."
    assert text(sentences.ends(made)) == ""
    assert text(sentences.alpha_text(made)) == "Nobody gains or loses in expectation."
    page = audit_page([replace(still, alpha=Estimate(0.0, 0.0, 0.0))])
    assert "Under" in page
    assert 'value="0" checked' in page
    first_that_moves = audit_page([replace(still, alpha=Estimate(0.0, 0.0, 0.0)), BASELINE])
    assert 'value="1" checked' in first_that_moves
    hardly = view(replace(BASELINE, accuracy=Accuracy("bound", np.full(5, 0.5))))
    said = "Under baseline everybody gets their due in expectation, up to the numerical error."
    assert text(sentences.movement(hardly)) == said


# ---- the cards ----------------------------------------------------------------------------------------------------


def test_alpha_in_words():
    assert [text(sentences.alpha_text(v)) for v in views(*ALL)] == [
        "The gap between the two ends: against their true counts, Ash expects +3.700 pupils and Elm expects −3.600 pupils.",
        "The gap between the two ends: against their true counts, Ash expects +2.4 pupils and Dogwood expects −1.1 pupils.",
        "The gap between the two ends: against what they are due, Ash expects +€49,200 and Elm expects −€47,200.",
        "The gap between the two ends: against what they are due, Ash expects +€17,000 and Elm expects −€12,000.",
    ]
    assert full(sentences.alpha_text(view(POS))) == [0.0043217 * BUDGET, -0.0031234 * BUDGET]


def test_how_sure_alpha_is():
    # 8.3e-8, and 9e-9 of 4 million = 0.036, up; 0.0062 to 0.0087 of 4 million = 24,800 to 34,800, outwards
    assert [text(sentences.sureness(v)) for v in views(*ALL)] == [
        "exact, error below 9 × 10⁻⁸ pupils",
        "2.6 pupils to 4.4 pupils with 90 % confidence, simulated",
        "exact, error below €0.04",
        "€24,000 to €35,000 with 90 % confidence, simulated",
    ]
    assert full(sentences.sureness(view(POS))) == [0.0062 * BUDGET, 0.0087 * BUDGET]


def test_how_sure_the_cost_is():
    assert text(tables.cost_text(view(BASELINE))) == "1.640 % of the budget; exact, error below €2"  # 1.36
    said = "0.6 % of the budget; simulated: €17,000 to €31,000, 90 % confidence"  # 0.0044 to 0.0077: 17,600 to 30,800
    assert text(tables.cost_text(view(POS))) == said
    assert text(tables.cost_text(view(SIMPLEX))) == ""


def test_the_bounds():
    assert text(sentences.bound_text(view(SIMPLEX))) == (
        "Alpha is at least 5.200 pupils and at most 9.800 pupils (Theorem 1); Lemma 3 lowers the upper one to 8.400 "
        "pupils. The value lies between them, as it must."
    )
    # 5.2 .. 9.8 spread over 6 .. 94
    wanted = {"lower": 6.0, "alpha": 6 + 88 * 2.1 / 4.6, "upper": 6 + 88 * 3.2 / 4.6, "theorem": 94.0}
    assert tables.positions(view(SIMPLEX)) == pytest.approx(wanted)
    far = replace(SIMPLEX, bounds=replace(SIMPLEX.bounds, lower=0.1))  # from 20 times on by powers
    place = 6 + 88 * math.log(7.3 / 0.1) / math.log(9.8 / 0.1)
    assert tables.positions(view(far))["alpha"] == pytest.approx(place)
    assert tables.positions(view(BASELINE)) is None
    assert text(sentences.bound_text(view(BASELINE))) == ""


def test_where_the_theorem_says_little():
    far = replace(SIMPLEX, alpha=Estimate(0.07, 0.0699999999, 0.0700000001))  # 9.8 is 140 times as much
    little = " Theorem 1 says little here: its upper bound is 140 times alpha"
    assert text(sentences.bound_text(view(far))).endswith(f"{little}; alpha is 0.07000 pupils.")
    assert screen.sentences(far, "€")[2] == f" {little}. Alpha is 0.070000."
    wide = replace(SIMPLEX, bounds=replace(SIMPLEX.bounds, theorem=2056.0))
    said = "its upper bound is the difference between the largest and the smallest count"
    assert said.removeprefix("its ") in text(sentences.bound_text(view(wide)))
    assert said in screen.sentences(wide, "€")[2]
    near = replace(SIMPLEX, alpha=Estimate(0.98, 0.98, 0.98))  # ten times is still of use
    assert "says little" not in text(sentences.bound_text(view(near)))


def test_bounds_are_rounded_to_the_side_on_which_they_hold():
    bounds = Bounds(5.20019, 8.40013, 5.5, 0.3, 4.6, 2056.0, 9.80011, 8.40013, 2e-9)
    said = text(sentences.bound_text(view(replace(SIMPLEX, bounds=bounds))))
    assert "at least 5.200 pupils and at most 9.801 pupils" in said
    assert "upper one to 8.401 pupils" in said
    on_screen = screen.sentences(replace(SIMPLEX, bounds=bounds), "€")[1]
    assert on_screen == "  Theorem 1: alpha is between 5.2001 and 9.8002; with E[T], Lemma 3 gives at most 8.4002."


@pytest.mark.parametrize(
    ("low", "high", "inside"), [(5.0, 5.1, False), (9.9, 10.0, False), (5.0, 5.3, True), (9.7, 10.0, True)]
)
def test_a_value_outside_its_bounds_is_a_defect(low, high, inside):
    out = replace(SIMPLEX, alpha=Estimate((low + high) / 2, low, high))
    said = text(sentences.bound_text(view(out)))
    assert said.endswith("as it must." if inside else "THE VALUE LIES OUTSIDE: report this as a defect.")


# ---- tables -------------------------------------------------------------------------------------------------------

# relative to what is due: 3.6 / 2063, 3.7 / 7, 0.6 / 128; 1.1279 / 517 +- 0.73 / 517, 2.4137 / 7 +- 0.45 / 7,
# 0.7 / 31 +- 0.56 / 31;
# 0.0118 / 0.41, 0.0123 / 0.06; 0.0031234 / 0.41 +- 0.00083 / 0.41, 0.0043217 / 0.06 +- 0.00071 / 0.06
ROWS = {
    "simplex": dict(
        alpha="7.300", alpha_sure="error below 9 × 10⁻⁸", total="0", total_sure="by construction",
        cost="–", cost_sure="",
        loss="−3.600 −0.175 % Elm", relative="−0.469 % Cedar", gain="+3.700 +52.9 % Ash",
        rmse="14.28", deviation="13.66", zero="6.89 %", degenerate="none", method="exact, error below 5 × 10⁻⁸ for each",
    ),
    "simplex-threshold": dict(
        alpha="3.5", alpha_sure="2.6 to 4.4", total="0", total_sure="by construction",
        cost="–", cost_sure="", loss="−1.1 −0.2 % Dogwood", relative="−2 % Birch", gain="+2.4 +34 % Ash",
        rmse="15.26", deviation="14.74", zero="13.5 %", degenerate="0.420 %",
        method="simulated, 1,234 runs, half-widths up to 0.87",
    ),
    "baseline": dict(
        alpha="€96,400", alpha_sure="error below €0.04", total="€0", total_sure="by construction",
        cost="€65,600", cost_sure="error below €2",
        loss="−€47,200 −2.88 % Elm", relative="−2.88 % Elm", gain="+€49,200 +20.5 % Ash", rmse="€122,376", deviation="€114,400", zero="11.1 %",
        degenerate="0.310 %", method="exact, error below €0.03 for each",
    ),
    "pos": dict(
        alpha="€30,000", alpha_sure="€24,000 to €35,000", total="€0", total_sure="by construction",
        cost="€22,000", cost_sure="€17,000 to €31,000",
        loss="−€12,000 −0.8 % Elm", relative="−0.8 % Elm", gain="+€17,000 +7 % Ash", rmse="€125,730", deviation="€120,800", zero="14.5 %",
        degenerate="none", method="simulated, 1,234 runs, half-widths up to €5,000",
    ),
}  # fmt: skip


def test_the_rows_of_the_comparison():
    for row in tables.comparison(views(*ALL)):
        cells = {k: text(v) for k, v in vars(row).items() if k != "view"}
        assert cells == ROWS[row.view.name]


def test_the_full_numbers_behind_the_rows():
    row = tables.comparison([view(POS)])[0]
    keys = ("alpha", "cost", "loss", "relative", "gain", "rmse", "deviation", "zero", "method")
    shown = {k: full(getattr(row, k)) for k in keys}
    wanted = {
        "alpha": [0.0074451 * BUDGET],
        "cost": [0.0056 * BUDGET],
        "loss": [-0.0031234 * BUDGET, -0.0031234 / 0.41],
        "relative": [-0.0031234 / 0.41],
        "gain": [0.0043217 * BUDGET, 0.0043217 / 0.06],
        "rmse": [math.sqrt(0.00494 / 5) * BUDGET],
        "deviation": [0.151 / 5 * BUDGET],
        "zero": [0.7257 / 5],
        "method": [0.00124 * BUDGET],
    }
    assert shown == {k: [pytest.approx(x, rel=1e-14) for x in v] for k, v in wanted.items()}


def bins(rows):
    return [[b.label, b.n, *(text(c) for c in (b.total, b.mean, b.least, b.most)), round(b.bar, 3)] for b in rows]


def parts(rows):
    """What each gains or loses relative to what it is due, and its place among the groups."""
    return [(b.label, text(b.relative), b.place) for b in rows]


def test_groups_and_sizes():
    assert bins(tables.groups(view(BASELINE))[0]) == [
        ["north", 2, "+€42,400", "+€21,200", "−€6,800", "+€49,200", 50.0],
        ["south", 2, "−€30,800", "−€15,400", "−€47,200", "+€16,400", round(-50 * 77 / 106, 3)],
        ["west", 1, "−€11,600", "−€11,600", "−€11,600", "−€11,600", round(-50 * 29 / 106, 3)],
    ]
    # 0.0106 / 0.22, 0.0077 / 0.5, 0.0029 / 0.28
    assert parts(tables.groups(view(BASELINE))[0]) == [
        ("north", "+4.82 %", 0), ("south", "−1.54 %", 1), ("west", "−1.04 %", 2),
    ]  # fmt: skip
    # 3.7 / 7, 1.9 / 31, 2 / 645, 3.6 / 2063
    assert parts(tables.sizes(view(SIMPLEX))) == [
        ("1 to 9", "+52.9 %", None), ("10 to 99", "+6.13 %", None), ("100 to 999", "−0.310 %", None),
        ("1,000 to 9,999", "−0.175 %", None),
    ]  # fmt: skip
    nothing = replace(BASELINE, truth=vector(0, 0.09, 0, 0.28, 0.63))
    assert parts(tables.groups(view(nothing))[0])[0] == ("north", "nothing due", 0)
    # a group is known to the sum of its simultaneous widths: north 7,800, south 5,400, west 2,680; sizes likewise
    assert [row[:6] for row in bins(tables.groups(view(POS))[0])] == [
        ["north", 2, "+€14,000", "+€7,000", "−€4,000", "+€17,000"],
        ["south", 2, "−€7,000", "−€4,000", "−€12,000", "+€5,000"],
        ["west", 1, "−€6,000", "−€6,000", "−€6,000", "−€6,000"],
    ]
    assert bins(tables.sizes(view(SIMPLEX))) == [
        ["1 to 9", 1, "+3.700", "+3.700", "+3.700", "+3.700", 50.0],
        ["10 to 99", 1, "+1.900", "+1.900", "+1.900", "+1.900", round(50 * 19 / 37, 3)],
        ["100 to 999", 2, "−2.000", "−1.000", "−1.400", "−0.6000", round(-50 * 20 / 37, 3)],
        ["1,000 to 9,999", 1, "−3.600", "−3.600", "−3.600", "−3.600", round(-50 * 36 / 37, 3)],
    ]
    plain = replace(SIMPLEX, counts=fp.Counts(COUNTS.values, ids=IDS))
    assert tables.groups(view(plain)) == ([], 0)


def test_of_many_groups_the_largest_sums_are_listed():
    n = 302
    counts = fp.Counts(np.ones(n), groups=[f"g{k}" for k in range(n)])
    bias = np.where(np.arange(n) % 2, 1.0, -1.0) * (1 + (np.arange(n) * 7 % n))
    fields = {k: np.full(n, 1e-9) for k in ("spread", "mse", "zero", "truth")}
    fields["accuracy"] = Accuracy("bound", np.full(n, 1e-9))
    rows, left = tables.groups(view(replace(SIMPLEX, counts=counts, bias=bias, alpha_pair=("0", "1"), **fields)))
    small = {f"g{k}" for k in range(n) if abs(bias[k]) <= 2}
    assert (len(rows), left) == (300, 2)
    assert [b.label for b in rows] == [f"g{k}" for k in range(n) if f"g{k}" not in small]


@pytest.mark.parametrize(
    ("label", "whole", "said"),
    [
        ("[0, 1)", True, "0"),
        ("[1, 10)", True, "1 to 9"),
        ("[1000, 10000)", True, "1,000 to 9,999"),
        ("[1, 10)", False, "1 to under 10"),
        ("[1e+06, 1e+07)", True, "1,000,000 to 9,999,999"),
        ("[0.5, 2.5)", True, "0.5 to under 2.5"),
    ],
)
def test_bins_in_words(label, whole, said):
    assert tables.between(label, whole) == said


def test_fractions_make_open_bins():
    parts = replace(SIMPLEX, counts=fp.Counts([7.5, 31, 128, 517, 2063], ids=IDS))
    assert tables.sizes(view(parts))[0].label == "1 to under 10"


def test_the_provenance():
    facts = {v.name: [(k, text(x)) for k, x in tables.provenance(v)] for v in views(*ALL)}
    assert facts == {
        "simplex": [
            ("Task", "release of counts"),
            ("Engine", ROWS["simplex"]["method"]),
            ("Alpha", "7.3, between 7.29999994 and 7.300000083"),
            ("E[T]", "3.20"),
        ],
        "simplex-threshold": [
            ("Task", "release of counts"),
            ("Engine", ROWS["simplex-threshold"]["method"]),
            ("Alpha", "3.5416, between 2.63 and 4.31"),
            ("Runs, seed", "1,234, 77"),
            ("Intervals", "simultaneous, 90 % confidence"),
            ("Note", "alpha is 3.5416, from 2.63 to 4.31 with 90 % confidence, at 1234 runs"),
        ],
        "baseline": [
            ("Task", "allocation in proportion to weighted counts"),
            ("Engine", ROWS["baseline"]["method"]),
            ("Alpha", "0.0241, between 0.024099992 and 0.024100009"),
            ("Budget", "€4,000,000"),
        ],
        "pos": [
            ("Task", "allocation in proportion to weighted counts"),
            ("Engine", ROWS["pos"]["method"]),
            ("Alpha", "0.0074451, between 0.0062 and 0.0087"),
            ("Runs, seed", "1,234, 77"),
            ("Intervals", "simultaneous, 90 % confidence"),
            ("Budget", "€4,000,000"),
            ("Note", "alpha is 0.0074451, from 0.0062 to 0.0087 with 90 % confidence, at 1234 runs"),
        ],
    }


def test_the_noise_and_its_promise():
    def facts(mechanism, **about):
        made = view(replace(BASELINE, mechanism=mechanism))
        return {k: text(v) for k, v in tables.noise(made, Neighbours(**about))}

    assert facts(NOISE, sensitivity=2.0) == {  # epsilon = 2 / 12.5
        "Noise": "laplace",
        "Scale": "12.5000 pupils",
        "Standard deviation": "17.6777 pupils",
        "Epsilon": "0.160000",
        "Sensitivity": "2.00000",
    }
    assert facts(fp.Gaussian(sigma=5.0), sensitivity=3.0) == {  # rho = 3^2 / (2 5^2)
        "Noise": "gaussian",
        "Sigma": "5.00000 pupils",
        "Standard deviation": "5.00000 pupils",
        "Rho (zCDP)": "0.180000",
        "Sensitivity": "3.00000",
    }
    epsilon = 0.7
    sigma = fp.Gaussian.from_epsilon(epsilon, 1e-5, 2.0)
    told = facts(sigma, sensitivity=2.0, delta=1e-5)
    assert float(told["Epsilon"]) == pytest.approx(epsilon, rel=1e-5)
    assert told["Delta"] == "0.0000100"


# ---- the payload --------------------------------------------------------------------------------------------------


def unpacked(packed, kind):
    return None if packed is None else np.frombuffer(base64.b64decode(packed), "<" + kind).tolist()


def test_the_payload_of_an_audit():
    data = audit_data(views(*ALL))
    assert {k: v for k, v in data.items() if k not in ("results", "groups", "of", "times", "count", "weight")} == {
        "n": 5,
        "points": 5,
        "unit": "pupils",
        "noun": "districts",
        "which": None,
        "ids": list(IDS),
        "names": None,
        "mark": "confidential",
        "example": list(IDS),
    }
    assert unpacked(data["of"], "i4") == [0, 1, 2, 3, 4]
    assert unpacked(data["times"], "i4") == [1] * 5
    assert unpacked(data["count"], "f8") == [7.0, 31.0, 128.0, 517.0, 2063.0]
    assert unpacked(data["weight"], "f8") == [1.3, 0.7, 1.1, 0.9, 1.7]
    assert data["groups"]["names"] == ["north", "south", "west"]
    assert unpacked(data["groups"]["of"], "i4") == [0, 1, 0, 2, 1]
    people = {"factor": 1.0, "prefix": "", "suffix": " pupils", "digits": 4, "whole": False}
    percent = {"factor": 100.0, "prefix": "", "suffix": "\u00a0%", "digits": 4, "whole": False}
    cash = {"factor": 1.0, "prefix": "€", "suffix": "", "digits": 3, "whole": True}
    places = {"simplex": 0, "pos": 0, "baseline": 1, "simplex-threshold": 2}  # blue, vermilion, green
    for sent, r in zip(data["results"], (SIMPLEX, THRESHOLD, BASELINE, POS), strict=True):
        drawn, share = r.simulated, r.task == "allocation"
        words = ("name", "task", "about", "measured", "kind")
        assert {k: v for k, v in sent.items() if not isinstance(v, str) or k in words} == {
            "name": r.postprocess,
            "place": places[r.postprocess],
            "task": r.task,
            "measured": r.unit,
            "about": r.task,
            "kind": r.accuracy.kind,
            "simulated": drawn,
            "unit": percent if share else people,
            "money": cash if share else None,
            "budget": 4e6 if share else None,
        } | ({} if drawn else {"half": None})
        packed = {k: v for k, v in sent.items() if isinstance(v, str) and k not in words}
        assert set(packed) == {"truth", "bias", "error", "deviation", "zero"} | ({"half"} if drawn else set())
        assert unpacked(sent["truth"], "f8") == r.truth.tolist()
        assert unpacked(sent["bias"], "f8") == r.bias.tolist()
        error = r.standard_error if drawn else r.half_width
        near = {"error": error, "deviation": r.deviation, "zero": r.zero} | ({"half": r.half_width} if drawn else {})
        for key, wanted in near.items():
            found = np.array(unpacked(sent[key], "f4"))
            assert found == pytest.approx(wanted, rel=2.0**-22), key
            if key in ("error", "half"):
                assert (found >= wanted).all(), key


def test_the_page_holds_the_payload_and_the_sentences():
    page = audit_page(ALL, unit="pupils", noun="districts", currency="€", neighbours=Neighbours(2.0))
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    assert json.loads(found[1]) == audit_data(views(*ALL)) | {
        "page": "audit", "map": None, "limits": [], "tradeoff": tradeoff_data(views(*ALL), None),
    }  # fmt: skip
    seen = " ".join(text(re.sub(r"<(script|style).*?</\1>", "", page, flags=re.S)).split())
    for made in views(*ALL):
        for say in (sentences.movement, sentences.ends, sentences.alpha_text, sentences.sureness, tables.cost_text):
            assert " ".join(text(say(made)).split()) in seen
    assert "Epsilon 0.160000" in seen.replace("Epsilon0", "Epsilon 0")
    # cells in the order of their heads
    cells = [
        [text(c) for c in re.findall(r"<td[^>]*>(.*?)</td>", row)]
        for row in re.findall(r"<tr><th scope=\"row\">.*?</tr>", page)
    ]
    row = ROWS["baseline"]
    keys = ("loss", "relative", "gain", "rmse", "deviation", "zero", "degenerate")
    first = ("alpha", "total")
    assert [*(row[k] + row[f"{k}_sure"] for k in (*first, "cost")), *(row[k] for k in keys)] in cells
    row = ROWS["simplex-threshold"]
    assert [*(row[k] + row[f"{k}_sure"] for k in first), *(row[k] for k in keys)] in cells


def test_equals_travel_once_and_numbers_that_differ_never_do():
    counts = fp.Counts([7, 31, 7, 7, 31], weights=[1.3, 0.7, 1.3, 1.3, 0.7], ids=IDS)
    fields, two = ("truth", "bias", "spread", "mse", "zero"), [0, 1, 0, 0, 1]
    same = replace(BASELINE, counts=counts, **{k: getattr(BASELINE, k)[two] for k in fields})
    same = replace(same, accuracy=BASELINE.accuracy.at(two))
    data = audit_data([view(same)])
    assert (data["points"], data["example"]) == (2, ["Ash", "Birch"])
    assert unpacked(data["of"], "i4") == [0, 1, 0, 0, 1]
    assert unpacked(data["times"], "i4") == [3, 2]
    for field in ("truth", "bias", "spread", "zero"):
        moved = getattr(same, field).copy()
        moved[2] += 1e-7
        assert audit_data([view(replace(same, **{field: moved}))])["points"] == 5, field
    wider = same.half_width.copy()
    wider[2] += 1e-7
    assert audit_data([view(replace(same, accuracy=Accuracy("bound", wider)))])["points"] == 5


# ---- the screen ---------------------------------------------------------------------------------------------------


def test_the_screen_compares():
    assert rendered(screen.comparison((BASELINE, POS), "€")) == [
        ["baseline", "€96,400", "€0", "Ash +€49,200", "Elm −€47,200", "−2.88 %", "€65,600", "€122,380", "11.07 %", "exact"],
        [
            "pos", "€30,000 (€24,000 to €35,000)", "€0", "Ash +€17,300", "Elm −€12,500", "−0.76 % (−0.97 % to −0.55 %)",
            "€22,000 (€17,000 to €31,000)", "€125,730", "14.51 %", "1,234 runs",
        ],
    ]  # fmt: skip
    assert rendered(screen.comparison((SIMPLEX, THRESHOLD), "€")) == [
        # 3.6 / 2063, 1.1279 / 517 +- 0.73 / 517, as 0.0118 / 0.41 and 0.0031234 / 0.41 +- 0.00083 / 0.41 above
        ["simplex", "7.3000", "0", "Ash +3.7000", "Elm −3.6000", "−0.175 %", "-", "14.283", "6.888 %", "exact"],
        [
            "simplex-threshold", "3.5 (2.6 to 4.4)", "0", "Ash +2.41", "Dogwood −1.13", "−0.22 % (−0.36 % to −0.07 %)", "-", "15.258",
            "13.52 %", "1,234 runs",
        ],
    ]  # fmt: skip
    assert screen.comparison((SIMPLEX,), "€").title == "laplace noise, scale 12.5"
    heads = (
        "post-processing",
        "alpha",
        "total off",
        "gains most",
        "loses most",
        "of its due",
        "cost of privacy",
        "RMSE",
        "P(0)",
        "by",
    )
    assert screen.comparison((SIMPLEX,), "€").heads == heads


def test_the_screen_speaks():
    said = {r.postprocess: [line.replace("\u00a0", " ") for line in screen.sentences(r, "€")] for r in ALL}
    assert said == {
        "baseline": [
            "baseline: in expectation Ash gets +€49,200 and Elm −€47,200, compared with the truth.",
            "  Elm loses €47,200, 2.88 % of the €1.64 million it is due; Ash gains €49,200, 20.5 % of the €240,000 it is due.",
            "  It would take €65,600 more for nobody to expect less than their due (cost of privacy).",
            "  0.3100 % of the draws are degenerate and take the documented convention.",
        ],
        "pos": [
            "pos: in expectation Ash gets +€17,300 and Elm −€12,500, compared with the truth.",
            "  Elm loses €12,000, 0.8 % of the €1.64 million it is due; Ash gains €17,000, 7 % of the €240,000 it is due.",
            "  It would take €22,000 (€17,000 to €31,000) more for nobody to expect less than their due (cost of privacy).",
            "  Control variates cut the variance by 5.5 times.",
            "  alpha is 0.0074451, from 0.0062 to 0.0087 with 90 % confidence, at 1234 runs.",
        ],
        "simplex": [
            "simplex: in expectation Ash gets +3.7000 and Elm −3.6000, compared with the truth.",
            "  Theorem 1: alpha is between 5.2000 and 9.8000; with E[T], Lemma 3 gives at most 8.4000.",
            "  Elm is undercounted by 3.60, 0.175 % of its count of 2,063; Ash is overcounted by 3.70, 52.9 % of its count of 7.",
            "  The largest loss in percent: Cedar is undercounted by 0.600, 0.469 % of its count of 128.",
        ],
        "simplex-threshold": [
            "simplex-threshold: in expectation Ash gets +2.41 and Dogwood −1.13, compared with the truth.",
            "  Dogwood is undercounted by 1.1, 0.2 % of its count of 517; Ash is overcounted by 2.4, 34 % of its count of 7.",
            "  The largest loss in percent: Birch is undercounted by 0.7, 2 % of its count of 31.",
            "  0.4200 % of the draws are degenerate and take the documented convention.",
            "  Control variates cut the variance by 1.75 times.",
            "  alpha is 3.5416, from 2.63 to 4.31 with 90 % confidence, at 1234 runs.",
        ],
    }


def test_the_screen_without_a_budget_and_by_group():
    share = replace(POS, budget=None, cost=replace(POS.cost_of_privacy, amount=None))
    assert screen.cost(share, "€").replace("\u00a0", " ") == "0.56 % (0.44 % to 0.77 %) of the budget"
    whole = screen.cost(replace(share, grouped=True), "€")
    assert whole.endswith("of one group's budget, over all groups")
    assert screen.ends(share, "€") == ("+0.432 %", "−0.312 %")
    assert screen.unit_of(share) == (screen.SHARES, 1.0)
    assert screen.unit_of(SIMPLEX) == (screen.COUNTS, 1.0)
    assert screen.unit_of(POS, "€") == (money("€"), 4e6)


# ---- curves -------------------------------------------------------------------------------------------------------


def points():
    def at(result, epsilon):
        return Point.of(replace(result, mechanism=fp.Laplace(1 / epsilon)), epsilon)

    milder = replace(BASELINE, alpha=Estimate(0.0021, 0.00209999, 0.002100023))
    return [at(BASELINE, 0.08), at(POS, 0.08), at(milder, 0.4)]


def test_a_point_has_the_numbers_of_its_result():
    p = points()[1]
    assert p.alpha == POS.alpha.scaled(BUDGET)
    assert (p.cost, p.alpha_pair, p.loser, p.unit) == (POS.cost_of_privacy, ("Ash", "Elm"), "Elm", "money")
    assert p.relative_loss.value == pytest.approx(0.0031234 / 0.41)
    assert p.relative_loss.high == pytest.approx((0.0009 + 0.00124) / 0.16)  # Cedar may lose more
    assert p.relative_loser == "Elm"
    assert p.loss.value == pytest.approx(0.0031234 * BUDGET)
    assert p.loss.low == pytest.approx((0.0031234 - 0.00083) * BUDGET)  # the simultaneous width
    assert p.loss.high == pytest.approx((0.0031234 + 0.00083) * BUDGET)
    assert p.rmse.value == pytest.approx(math.sqrt(0.00494 / 5) * BUDGET)
    assert p.zero.value == pytest.approx(0.7257 / 5)
    assert (p.method, p.task, p.epsilon, p.note) == ("monte-carlo", "allocation", 0.08, POS.note)
    assert p.quantity("alpha") == POS.alpha.scaled(BUDGET)
    assert p.quantity("relative_loss") == p.relative_loss.scaled(100)
    assert p.quantity("rmse") == p.rmse
    assert p.quantity("cost") == POS.cost_of_privacy.amount
    assert p.quantity("loss") == p.loss
    bare = Point.of(replace(POS, budget=None, cost=replace(POS.cost_of_privacy, amount=None)))
    assert bare.loss.value == pytest.approx(0.0031234)
    assert bare.quantity("cost") == POS.cost_of_privacy.share
    assert Point.of(SIMPLEX).quantity("cost") is None


def test_the_page_of_curves_word_by_word():
    made = points()
    targets = fp.Targets(max_cost=70000.0)
    basis = Basis(5, 2746.0, BUDGET, None, "€", ())
    answers = Plans(
        (
            Plan(targets, None, None, (made[0], made[2]), (), "none", basis=basis),
            Plan(targets, made[1], made[1], (made[1],), (), "edge", basis=basis),
        )
    )
    page = curves_page(made, x="epsilon", plans=answers, currency="€", made="today", source="trees.csv", noun="trees")
    seen = " ".join(text(re.sub(r"<(script|style).*?</\1>", "", page, flags=re.S)).split())
    assert "trees.csv · 5 trees, 2,746 people · €4.00 million · today" in seen
    assert (
        "pos meets cost of privacy €70,000 at epsilon 0.08; not in the range: baseline; the typical error of pos is "
        in seen
    )
    assert "€125,730, 15.7 % of the mean of what is due." in seen
    # POS: 0.0074451, sqrt(0.00494 / 5), 0.0031234 and 0.0056 of 4 million, 0.0031234 / 0.41
    assert (
        "pos: epsilon 0.08 (the engine refuses the next level of noise, so this is the most that is known). There: "
        "unfairness (alpha) €30,000; typical error €125,700; typical error in % of the mean due 15.7 %; "
        "largest expected loss €12,000; largest loss in % of what is "
        "due 0.8 %; cost of privacy €22,000; Elm loses most. "
        "baseline: no noise in the range keeps the cost of privacy at or below €70,000: the least noise already exceeds it."
        in seen
    )
    bare = text(curves_page(made, x="epsilon", currency="€"))
    assert "The most noise, epsilon 0.08alpha is €30,000 under pos, €96,400 under baseline." in bare
    assert "The least noise, epsilon 0.4alpha is €8,400 under baseline." in bare
    found = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)[1])
    assert (found["page"], found["x"], set(found)) == ("curves", "epsilon", {"page", "x", "quantities"})
    keys = ("alpha", "rmse", "relative_rmse", "loss", "relative_loss", "cost")
    for key, got in zip(keys, found["quantities"], strict=True):
        assert set(got) == {"axis", "unit", "target", "lines", "found"}
        assert got["target"] == (70000.0 if key == "cost" else None)
        assert [line["name"] for line in got["lines"]] == ["baseline", "pos"]
        for line, mine in zip(got["lines"], ([made[0], made[2]], [made[1]]), strict=True):
            estimates = [p.quantity(key) for p in mine]
            assert set(line) == {"name", "place", "simulated", "x", "value", "low", "high", "text"}
            assert line["x"] == [p.epsilon for p in mine]
            assert line["value"] == [e.value for e in estimates]
            assert line["low"] == [e.low for e in estimates]
            assert line["high"] == [e.high for e in estimates]
            assert line["simulated"] is (line["name"] == "pos")
            assert line["place"] == {"baseline": 1, "pos": 0}[line["name"]]
        assert [(s["x"], s["y"]) for s in got["found"]] == [(0.08, made[1].quantity(key).value)]
    axes = [q["axis"] for q in found["quantities"]]
    assert axes == [
        "unfairness (alpha), €", "typical error, €", "typical error in % of the mean due", "largest expected loss, €",
        "largest loss in % of what is due", "cost of privacy, €",
    ]  # fmt: skip
    assert found["quantities"][3]["lines"][1]["text"] == [["pos", "epsilon 0.08", "€12,500 (monte-carlo)"]]
    assert found["quantities"][5]["found"][0]["text"] == ["pos", "epsilon 0.08", "€22,000"]
    cells = [
        [text(c) for c in re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row)]
        for row in re.findall(r"<tr><th scope=\"row\">.*?</tr>", page)
    ]
    assert [row[:2] + row[3:4] + row[6:7] + row[8:] for row in cells] == [
        ["0.08000", "baseline", "€96,400error below €0.04", "€47,200error below €0.03", "€65,600error below €2", "Elm", "11.1 %", "exact"],
        ["0.4000", "baseline", "€8,400error below €0.1", "€47,200error below €0.03", "€65,600error below €2", "Elm", "11.1 %", "exact"],
        [
            "0.08000 ★", "pos", "€30,000€24,000 to €35,000", "€12,000€9,100 to €15,900", "€22,000€17,000 to €31,000",
            "Elm", "14.5 %", "simulated",
        ],
    ]  # fmt: skip
    # (0.0031234 - 0.00083) / 0.41 is 0.559 %; Cedar's (0.0009 + 0.00124) / 0.16 is 1.3375 %
    assert {row[2] for row in cells} == {"€0no numerical error"}
    assert [row[7] for row in cells] == ["2.88 %error below 0.000002 %"] * 2 + ["0.8 %0.55 % to 1.34 %"]


def test_the_rows_of_plan_and_sweep_on_the_screen():
    def row(p, total):
        return [cell.replace("\u00a0", " ") for cell in planning._cells(p, planning._Cash("€", total, None))]

    bare = replace(POS, budget=None, cost=replace(POS.cost_of_privacy, amount=None))
    assert row(points()[1], BUDGET) == [
        "pos", "0.08", "12.5", "€30,000 (€24,000 to €35,000)", "€0", "€12,500 (€9,100 to €15,900) Elm",
        "0.76 % (0.55 % to 1.34 %) Elm", "€22,000 (€17,000 to €31,000)", "€125,730 (15.7 %)", "14.51 %", "monte-carlo",
    ]  # fmt: skip
    assert row(Point.of(bare), None) == [
        "pos", "-", "12.5", "0.74 % (0.62 % to 0.87 %)", "0 %", "0.31 % (0.22 % to 0.40 %) Elm",
        "0.76 % (0.55 % to 1.34 %) Elm", "0.56 % (0.44 % to 0.77 %)",
        "3.1432 % (15.7 %)", "14.51 %", "monte-carlo",
    ]  # fmt: skip
    for total in (BUDGET, None):  # counts are never money
        assert row(Point.of(SIMPLEX), total) == [
            "simplex", "-", "12.5", "7.3000", "0", "3.6000 Elm", "0.469 % Cedar", "-", "14.283 (2.60 %)", "6.888 %", "exact",
        ]  # fmt: skip
    heads = (
        "post-processing",
        "epsilon",
        "noise",
        "alpha",
        "total off",
        "largest loss",
        "largest in % of due",
        "cost of privacy",
        "RMSE",
        "P(0)",
        "by",
    )
    assert heads == planning.HEAD
    budgets = GroupBudgets({"north": 3e6, "west": 1e6}, vector(1), "as we like it")
    assert planning._Cash("€", BUDGET, budgets).words == screen.whose(budgets, BUDGET, "€")
    assert planning._Cash("€", BUDGET, None).words is None


def test_the_provenance_of_curves():
    page = curves_page(points(), x="epsilon", budgets="as we like it")
    assert "<dt>Noise</dt><dd>laplace</dd>" in page
    assert f"<ul><li>pos: {POS.note}</li></ul>" in page
    assert "<p>As we like it.</p>" in page


def test_a_curve_of_counts_by_scale():
    page = curves_page(
        [Point.of(SIMPLEX), Point.of(replace(SIMPLEX, bias=np.abs(SIMPLEX.bias)))], x="scale", unit="pupils"
    )
    cells = [
        [text(c) for c in re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row)]
        for row in re.findall(r"<tr><th scope=\"row\">.*?</tr>", page)
    ]
    alpha = "7.300 pupilserror below 9 × 10⁻⁸ pupils"
    loss = "3.600 pupilserror below 5 × 10⁻⁸ pupils"
    rmse = "14.28 pupils14.25 pupils to 14.31 pupils"  # sqrt(204 (1 -+ 0.00371))
    total, mean = "0 pupilsno numerical error", "2.60 %2.59 % to 2.61 %"  # the mean is 549.2
    nobody = ["0 pupilsno numerical error", "0 %no numerical error"]
    assert cells == [
        ["12.50", "simplex", total, alpha, rmse, mean, loss, "0.469 %error below 3 × 10⁻⁸ %", "Elm", "6.89 %", "exact"],
        ["12.50", "simplex", total, alpha, rmse, mean, *nobody, "nobody", "6.89 %", "exact"],
    ]


# ---- rounding of errors -------------------------------------------------------------------------------------------

SUPERSCRIPTS = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
UNITS = [Unit(), Unit(digits=2), PERCENT, money("$"), Unit(suffix=" people"), screen.SHARES, screen.COUNTS]
numbers = st.floats(min_value=1e-14, max_value=1e14)


def read(unit, shown):
    """The number that a reader takes from a text of this unit, back in the unit of the value."""
    body = text(shown).replace(",", "").replace("−", "-").replace("+", "")
    body = body.replace(text(unit.prefix), "", 1).replace(text(unit.suffix), "", 1).strip()
    for word, size in (("trillion", 1e12), ("billion", 1e9), ("million", 1e6)):
        if body.endswith(word):
            return float(body.removesuffix(word)) * size
    mantissa, _, power = body.partition(" × 10")
    return float(f"{mantissa}e{power.translate(SUPERSCRIPTS) or 0}") / unit.factor


# value * factor, / step, * step, / factor and the text back to a float: 8 roundings of 2^-53 each, and 2^-50 of slack for a
# number that is round but for its last bits
SLACK = 2.0**-49


@settings(max_examples=300, deadline=None, derandomize=True)
@given(numbers, st.sampled_from(UNITS))
def test_an_error_is_never_shown_smaller_than_it_is(error, unit):
    shown = text(below(unit, error)).removeprefix("error below ")
    assert read(unit, shown) >= error * (1 - SLACK)
    assert read(unit, shown) <= max(2 * error, 0.01 if unit.whole else 0) * 1.0001
    assert (
        len(
            shown.split(" × ")[0].removeprefix(unit.prefix).removesuffix(text(unit.suffix)).replace(",", "").strip("0.")
        )
        == 1
    )


@settings(max_examples=120, deadline=None, derandomize=True)
@given(numbers, st.floats(0, 1), st.sampled_from(UNITS), st.booleans())
def test_a_bound_is_shown_on_its_own_side(x, part, unit, brief):
    say = unit.brief if brief else unit.show
    for value in (x, -x):
        up, down, near = (read(unit, say(value, x * part, toward=to)) for to in (1, -1, 0))
        dust = SLACK * x
        assert up >= value - dust
        assert down <= value + dust
        assert down - dust <= near <= up + dust
        step = 10.0 ** (1 - (3 if brief else unit.digits)) * x  # at so many digits, or those of the error, or whole
        assert up - down <= max(step, x * part, 1.0 if unit.whole else 0.0) * (1 + 1e-9)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(numbers, st.floats(0, 1), st.floats(0, 1), st.sampled_from(UNITS))
def test_an_interval_in_words_holds_the_interval(value, below_it, above_it, unit):
    e = Estimate(value, value * (1 - below_it), value * (1 + above_it))
    for said in (text(certainty(unit, e)), screen.shown(unit, e).replace("\u00a0", " ")):
        ends = re.search(r"(?:\(|^)([^(]*) to ([^)]*)\)?$", said)
        if ends is None:
            assert half(e) <= 1e-3 * value
            continue
        low, high = (read(unit, end) for end in ends.groups())
        assert low <= e.low * (1 + SLACK)
        assert high >= e.high * (1 - SLACK)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.floats(1.0, 1e9))
def test_at_least_so_many_times_is_rounded_down(ratio):
    assert float(times(ratio, -1).removesuffix(" times").replace(",", "")) <= ratio * (1 + SLACK)
    assert float(times(ratio).removesuffix(" times").replace(",", "")) == pytest.approx(ratio, rel=0.051)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.lists(st.floats(0, 1e30), min_size=1))
def test_errors_in_single_precision_are_never_smaller(errors):
    found = raised(np.array(errors))
    assert found.dtype == np.float32
    assert (found.astype(float) >= errors).all()
    assert found == pytest.approx(errors, rel=2.0**-22, abs=2e-45)


@pytest.mark.skipif(shutil.which("node") is None, reason="no node to run the script of the page")
def test_the_script_of_the_page_shows_what_python_shows():
    rng = np.random.default_rng(8)
    values = [*np.exp(rng.uniform(-25, 25, 150)), 0.29, 0.0201, 31.0, 9.96e-7]
    cases = [(u, float(v), to) for v in values for u in UNITS for to in (0, 1)]
    source = page_file("core.js")
    twin = source[source.index("const MINUS") : source.index("const number =")]
    asked = json.dumps([[u.data(), v, 0, False, to] for u, v, to in cases])
    script = f"{twin}\nconsole.log(JSON.stringify({asked}.map((c) => show(...c))))"
    done = subprocess.run(["node", "-"], input=script, capture_output=True, text=True, timeout=60, check=True)
    wanted = [u.show(v, toward=to) for u, v, to in cases]
    assert json.loads(done.stdout) == wanted
    # every error and every width of the page goes through it, rounded up
    whole = page_script()
    assert re.findall(r"show\(rough\([^)]*\), [^)]*\)", whole) == []
    assert len(re.findall(r"above\(rough\(", whole)) >= 2


def test_errors_by_hand():
    assert text(below(Unit(), 0.0201)) == "error below 0.03"
    assert text(below(Unit(), 0.02)) == "error below 0.02"
    assert text(below(Unit(), 9.1)) == "error below 10"
    assert text(below(PERCENT, 0.000101)) == "error below 0.02 %"
    assert text(below(money("$"), 0.004)) == "error below $0.01"
    assert text(below(money("$"), 0.011)) == "error below $0.02"
    assert text(certainty(Unit(), Estimate(3.0, 3.0, 3.0))) == "no numerical error"
    assert half(Estimate(3.0, 2.5, 3.1)) == 0.5
    assert half(Estimate(3.0, 2.9, 3.5)) == 0.5
    assert directed(1.21, -1, 1) == pytest.approx(1.3)
    assert directed(1.29, -1, -1) == pytest.approx(1.2)
    assert directed(1.25, -1, 0) == 1.25
    assert directed(-1.21, -1, 1) == pytest.approx(-1.2)
    assert times(12.7) == "13 times"
    assert times(12.7, -1) == "12 times"
    assert count(1234.5) == "1,234.5"
    assert count(1234567.0) == "1,234,567"


# ---- words --------------------------------------------------------------------------------------------------------


GLOSSARY = (
    ("count", "True count", "The number of people (or households, ...) that an entity really has"),
    ("weight", "Weight", "A factor of the allocation formula, such as spending per pupil"),
    ("noise", "Noise", "A random number, as often above as below zero, that is added to every"),
    ("epsilon", "Epsilon (privacy loss)", "How much a publication can reveal about one person"),
    ("delta", "Delta", "Gaussian noise keeps its promise epsilon except with a small chance,"),
    ("scale", "Scale and sigma", "How large the noise is, in the unit of the counts"),
    ("post", "Post-processing", "What is done with noisy counts to make them usable"),
    ("none", "none", "The noisy counts as they are"),
    ("nonnegative", "nonnegative", "A noisy count below zero becomes zero"),
    ("sum", "sum", "Everybody gets the same shift, so that the total is the known one"),
    ("sum-clipped", "sum-clipped", "As sum, and then what is below zero becomes zero"),
    ("simplex", "simplex", "The non-negative counts with the known total that lie closest to the"),
    (
        "simplex-threshold",
        "simplex-threshold",
        "As simplex, but a count is kept only where it exceeds a threshold that",
    ),
    ("baseline", "baseline", "Negative counts become zero, and the budget is shared in proportion to"),
    ("pos", "pos (projection onto shares)", "The budget is shared in proportion to the noisy counts, and the shares,"),
    ("pos-threshold", "pos-threshold", "As pos, but a share is kept only where it exceeds a threshold that fits"),
    ("as-written", "as-written", "The law, with the noisy counts in place of the true ones"),
    ("levelled", "levelled", "The law with its bends corrected for the noise and its jumps as written"),
    ("signed", "signed", "The payment that is right on average for everybody"),
    ("no-loss", "no-loss", "The cheapest payment of at least 0 by which nobody expects less"),
    ("expectation", "In expectation", "The average over very many repetitions of the noise"),
    ("bias", "Bias", "What an entity gets in expectation, less what it is due"),
    ("share", "Share and money", "A share is a part of the whole budget"),
    ("alpha", "Alpha (unfairness)", "The largest bias less the smallest"),
    ("total", "Total off by", "What all results add up to in expectation, less the true total"),
    ("cost", "Cost of privacy", "The money that would have to be added to the budget so that no entity"),
    ("relative", "Relative to what is due", "A gain or loss in percent of what the entity should get"),
    ("loss", "Largest expected loss", "The loss of the entity that loses most in expectation"),
    ("bounds", "Bounds (Theorem 1)", "For simplex, a theorem gives a smallest and a largest possible alpha"),
    ("T", "T", "The number that simplex takes from every count so that the total holds"),
    ("deviation", "Standard deviation", "How much an entity's result varies from one draw of the noise to the"),
    ("rmse", "Typical error (RMSE)", "The root of the mean squared error over all entities"),
    ("zero", "Chance of receiving 0", "How often, over the draws of the noise, the entity's result is exactly"),
    ("degenerate", "Degenerate draw", "A draw of the noise for which a rule has no proper answer (all counts"),
    ("exact", "Exact", "Computed by integration, without chance"),
    ("expansion", "Expansion", "Computed without chance, from what very many entities would do and the first"),
    ("simulated", "Simulated (Monte-Carlo)", "Estimated from many random draws of the noise"),
    ("interval", "Interval and confidence", "Between these two numbers the truth lies"),
    (
        "simultaneous",
        "Simultaneous interval",
        "Intervals that hold for all entities at once, with the stated confidence",
    ),
    ("unresolved", "Not resolved", "The simulated runs cannot tell the number from zero"),
    ("error", "Error of a bias", "Exact"),
    ("size", "Size bin", "All entities whose true count lies in a range"),
)
"""Every term in its order, and how its explanation begins."""


def test_every_term_has_its_own_explanation():
    assert [(t.key, t.title) for t in TERMS] == [(key, title) for key, title, _ in GLOSSARY]
    for term, (key, _, begins) in zip(TERMS, GLOSSARY, strict=True):
        assert term.text.startswith(begins), key
    page = curves_page(points(), x="epsilon")
    for key, title, begins in GLOSSARY:
        assert (
            f'<div id="g-{key}"><dt>{title}</dt><dd>{html.escape(begins, quote=False).replace(chr(39), "&#39;")}'
            in page
        )


def test_every_rule_has_its_words():
    titles = {name: kind.title for name, kind in POSTPROCESSINGS.items()}
    assert titles == {
        "none": "noisy counts as they are",
        "nonnegative": "clip at zero",
        "sum": "shift to the known total",
        "sum-clipped": "shift to the known total, then clip at zero",
        "simplex": "closest counts with the known total and none below zero",
        "simplex-threshold": "as simplex, but small noisy counts become zero",
        "baseline": "clip at zero, then share in proportion",
        "pos": "share first, then project the shares",
        "pos-threshold": "as pos, but small noisy shares become zero",
    }
    assert [name for name, kind in POSTPROCESSINGS.items() if kind.signed] == ["none", "sum"]
    assert {v.name: v.signed for v in views(*ALL)} == dict.fromkeys(
        ("simplex", "simplex-threshold", "baseline", "pos"), False
    )
    explained = {t.key: t.text for t in TERMS}
    assert "Above zero it gains, below zero it loses" in explained["bias"]
    assert "epsilon = sensitivity / b" in explained["scale"]
    assert "Close to 0: strong protection and much noise" in explained["epsilon"]


# ---- the frame of a page ------------------------------------------------------------------------------------------


def test_every_page_says_what_it_is_and_how_it_came_about():
    said = dict(command="fairpost --do it", made="on Sunday", title="Trees", lines="import this")
    for page in (audit_page(ALL, **said), curves_page(points(), x="epsilon", budgets="the message", **said)):
        mark = "confidential: computed from true counts"
        assert "<title>Trees</title>" in page
        assert "<h1>Trees</h1>" in page
        assert f'<p class="mark">{mark}</p>' in page
        assert f"<footer><p>{mark}</p></footer>" in page
        assert "<dt>Made</dt><dd>on Sunday</dd>" in page
        assert ">fairpost --do it</pre>" in page
        assert 'data-recipe="command"' in page
        assert ">import this</pre>" in page
        assert 'data-recipe="python"' in page
        assert re.search(r'<p class="lead">.*on Sunday</p>', page)
    assert "<p>The message.</p>" in page
    bare = audit_page(ALL)
    assert "<dt>Made</dt>" not in bare
    assert 'id="command"' not in bare
    assert 'id="python"' not in bare
    assert "<h1>What post-processing does to whom</h1>" in bare
    assert "<h1>Fairness and accuracy against epsilon</h1>" in curves_page(points(), x="epsilon")


@pytest.mark.parametrize(
    "other",
    [
        fp.Counts([7, 31, 128, 517, 2064], ids=IDS, weights=COUNTS.weights, groups=COUNTS.groups),
        fp.Counts(COUNTS.values, ids=IDS, weights=[1.3, 0.7, 1.1, 0.9, 1.8], groups=COUNTS.groups),
        fp.Counts(
            COUNTS.values, ids=("Ash", "Birch", "Cedar", "Dogwood", "Oak"), weights=COUNTS.weights, groups=COUNTS.groups
        ),
        fp.Counts(COUNTS.values, ids=IDS, weights=COUNTS.weights, groups=["north"] * 5),
    ],
    ids=["values", "weights", "ids", "groups"],
)
def test_one_page_is_about_one_set_of_counts(other):
    with pytest.raises(errors.ParameterError, match="the same counts and the same mechanism"):
        audit_page([BASELINE, replace(BASELINE, counts=other)])
    again = fp.Counts(COUNTS.values, ids=IDS, weights=COUNTS.weights, groups=COUNTS.groups)
    audit_page([BASELINE, replace(BASELINE, counts=again)])
    with pytest.raises(errors.ParameterError, match="the same mechanism"):
        audit_page([BASELINE, replace(BASELINE, mechanism=fp.Laplace(12.6))])
