"""What pages say about results made by hand, word by word, and the numbers that they carry.

Every number of `support/results_by_hand.py` differs from every other, so a sentence with the wrong one does not read as it must: gains for
losses, a value for its bound, a standard error for the simultaneous width, a chance for a deviation. What is expected
here was worked out by hand from those numbers, not copied from the program. In money the budget is 4,000,000.
"""

import base64
import re

import numpy as np
import pytest

import fairpost as fp
from fairpost import errors
from fairpost.accuracy import Accuracy, Estimate
from fairpost.report import audit_page, levels_page
from support.pages import payload, words
from support.results_by_hand import BASELINE, COUNTS, IDS, NOISE, POS, SIMPLEX, THRESHOLD, replace, vector


def said(*results):
    return words(audit_page(results, unit="pupils", noun="districts", currency="€"))


def wider(result, half_width, **more):
    """With other simultaneous widths."""
    return replace(result, accuracy=Accuracy("interval", half_width), **more)


# ---- in short -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("results", "told"),
    [
        # BASELINE: Elm 0.0118 of 0.41, Ash 0.0123 of 0.06; POS: Elm 0.0031234 of 0.41 (+- 0.00083); 4 million in all
        ((BASELINE, POS),
         ["Under baseline Elm loses €47,200, 2.88 % of the €1.64 million due; Ash gains €49,200, 20.5 % of the €240,000 due.",
          "pos is at least 2.7 times less unfair. There Elm loses €12,000, 0.8 % of the €1.64 million due, more than any other.",
          "A single result under pos is typically off by €125,730 (under baseline: €122,376) and is 0 with a chance of 14.5 % (11.1 %). "
          "Or €65,600 more, so that nobody loses under baseline."]),
        ((SIMPLEX, THRESHOLD),
         ["Under simplex Elm is undercounted by 3.60 pupils, 0.175 % of the true count; Ash is overcounted by 3.70 pupils, 52.9 % "
          "of the true count."]),
        # baseline has at least 0.024099992: an interval that ends above it tells nothing, one that ends below it does
        ((BASELINE, replace(POS, alpha=Estimate(0.0074451, 0.0062, 0.0242))), ["No rule that was looked at is told to be fairer."]),
        ((BASELINE, replace(POS, alpha=Estimate(0.0074451, 0.0062, 0.0240))), ["pos is at least 0.414 % less unfair."]),
        ((BASELINE,), ["No other rule was looked at.", "A single result under baseline is typically off by €122,376. Or €65,600 more"]),
    ],
)  # fmt: skip
def test_three_findings_by_hand(results, told):
    short = said(*results).partition("What it costs")
    assert [line for line in told if line not in short[0] + short[2][:300]] == []


# ---- what each rule does ------------------------------------------------------------------------------------------


def test_gains_and_losses_the_other_way_round():
    assert (
        "Post-processing by baseline moves money from the smallest districts to the largest. Under baseline Ash loses €49,200, "
        "20.5 % of the €240,000 due; Elm gains €47,200, 2.88 % of the €1.64 million due. "
    ) in said(replace(BASELINE, bias=-BASELINE.bias, alpha_pair=("Elm", "Ash")))


@pytest.mark.parametrize(
    ("result", "sign", "verbs", "one", "nobody"),
    [
        (BASELINE, 1, "raises money|lowers", "Ash gains €49,200, 20.5 % of the €240,000 due", "nobody loses"),
        (BASELINE, -1, "lowers money|raises", "Ash loses €49,200, 20.5 % of the €240,000 due", "nobody gains"),
        (SIMPLEX, 1, "raises expected counts|lowers", "Ash is overcounted by 3.70 pupils, 52.9 % of the true count", "nobody loses"),
        (SIMPLEX, -1, "lowers expected counts|raises", "Ash is undercounted by 3.70 pupils, 52.9 % of the true count", "nobody gains"),
    ],
)  # fmt: skip
def test_where_all_lies_on_one_side_nobody_is_on_the_other(result, sign, verbs, one, nobody):
    bias = sign * np.where(result.bias > 0, result.bias, 0.0)
    pair = ("Ash", "Elm") if sign > 0 else ("Elm", "Ash")
    moves, other = verbs.split("|")
    assert (
        f"Post-processing by {result.postprocess} {moves}, mostly those of the smallest, and {other} none. "
        f"Under {result.postprocess} {one}; {nobody}. "
    ) in said(replace(result, bias=bias, alpha_pair=pair))


SMALLEST = "mostly those of the smallest"


@pytest.mark.parametrize(
    ("result", "told"),
    [
        (replace(BASELINE, bias=vector(0.0123, 0, 0, 0, 0)), SMALLEST),
        (replace(BASELINE, bias=vector(0, 0, 0.0123, 0, 0)), "at no size much more than at another"),
        (replace(BASELINE, bias=vector(0, 0, 0, 0, 0.0123)), "mostly those of the largest"),
        # what the simultaneous width does not tell from zero does not count: the 0.0116 of Elm lies within 0.0117
        (wider(POS, vector(0.001, 0, 0, 0, 0.0117), bias=vector(0.01, 0, 0, 0, 0.0116)), SMALLEST),
        # who moves where, by amounts and not by heads; ties: nobody is larger
        (replace(BASELINE, bias=vector(-0.0001, 0.005, 0, 0.0001, -0.005)), "from the largest districts to the smallest"),
        (replace(BASELINE, bias=vector(0, 0, 0, 0, 0)), "everybody gets their due in expectation, up to the numerical error."),
        (fp.audit(COUNTS, NOISE, "none"), "Nobody gains or loses in expectation."),
    ],
)  # fmt: skip
def test_where_a_change_lies(result, told):
    assert told in said(result)


def test_direction_and_ends_go_by_the_simultaneous_width():
    """Every bias is 2 to 6 standard errors away from zero and within its simultaneous width."""
    page = said(BASELINE, wider(POS, np.abs(POS.bias) * 1.01, alpha=Estimate(0.0074451, 0.0, 0.0088321, "interval")))
    # at most: the upper end, 0.0088321 * 4 million = 35,328.4, up to two digits; never the value 29,780
    assert (
        "For pos 1,234 runs do not resolve who gains and who loses. "
        "Unfairness is not resolved: it is at most €36,000, with 90 % confidence. "
    ) in page
    assert "not resolved at 1,234 runs: 0 to €36,000 with 90 % confidence" in page
    assert re.search(r"not resolved€0 to €36,000€0by construction.{20,60}not resolvednot resolved", page)


def test_one_end_resolved_and_the_other_not():
    page = said(wider(POS, vector(0.00071, 0.00052, 0.00124, 0.00067, 0.0032)))  # Elm: -0.0031234
    assert "Under pos Ash gains €17,000, 7 % of the €240,000 due; who loses is not resolved. " in page


def test_where_gains_end_and_losses_begin():
    size = np.arange(1, 24, dtype=float) ** 2
    bias = np.where(size <= 81, 0.0031, -0.0021) + np.arange(23) * 1e-6
    bias[9:11] = 1e-9  # sizes 100 and 121: within the error, neither gains nor loses
    many = replace(
        fp.audit(fp.Counts(size), NOISE, "baseline", budget=4e6),
        bias=bias, truth=size / size.sum(), alpha_pair=("8", "11"), accuracy=Accuracy("bound", np.full(23, 2e-8)),
    )  # fmt: skip
    told = "All 9 districts that gain have at most 81 pupils, all 12 that lose have at least 144."
    assert told in said(many)
    near = bias.copy()
    near[9:11] = 1e-6  # above a standard error of 2e-8, within what holds for all together
    assert told in said(wider(many, np.full(23, 1e-4), bias=near))
    for other in (
        replace(many, bias=-bias),
        replace(many, bias=np.abs(bias)),
        BASELINE,
    ):  # of 5 the two ends say it all
        assert "that gain have" not in said(other)


def test_equals_are_counted_and_named_once():
    def tied(weights):
        counts = fp.Counts([7, 31, 7, 7, 31], weights=weights, ids=IDS)
        bias = vector(0.0123, -0.0118, 0.0123, 0.0123, -0.0118)
        return said(replace(BASELINE, counts=counts, bias=bias, alpha_pair=("Ash", "Birch")))

    page = tied([1.3, 0.7, 1.3, 1.3, 0.7])
    assert "Birch and 1 like it lose €47,200 each" in page
    assert "Ash and 2 like it gain €49,200 each" in page
    page = tied([1.3, 0.7, 1.4, 1.3, 0.8])
    assert "Birch loses" in page  # another weight is not alike
    assert "Ash and 1 like it" in page


# ---- the cards and tables -----------------------------------------------------------------------------------------


def test_bounds_are_rounded_to_the_side_on_which_they_hold():
    ends = {"lower": 5.20019, "upper": 8.40013, "theorem": 9.80011, "sharper": 8.40013}
    page = said(replace(SIMPLEX, bounds=type(SIMPLEX.bounds)(**vars(SIMPLEX.bounds) | ends)))
    assert "at least 5.200 pupils and at most 9.801 pupils" in page
    assert "upper one to 8.401 pupils" in page


@pytest.mark.parametrize(
    ("low", "high", "inside"), [(5.0, 5.1, False), (9.9, 10.0, False), (5.0, 5.3, True), (9.7, 10.0, True)]
)
def test_a_value_outside_its_bounds_is_a_defect(low, high, inside):
    page = said(replace(SIMPLEX, alpha=Estimate((low + high) / 2, low, high)))
    assert ("THE VALUE LIES OUTSIDE: report this as a defect." in page) is not inside
    assert ("as it must." in page) is inside


def test_of_many_groups_the_largest_sums_are_listed():
    n = 302
    counts = fp.Counts(np.ones(n), groups=[f"g{k}." for k in range(n)])
    bias = np.where(np.arange(n) % 2, 1.0, -1.0) * (1 + (np.arange(n) * 7 % n))
    most = {"bias": bias, "alpha_pair": ("0", "1"), "accuracy": Accuracy("bound", np.full(n, 1e-9))}
    page = said(replace(fp.audit(counts, NOISE, "simplex"), **most))
    small = {f"g{k}." for k in range(n) if abs(bias[k]) <= 2}
    listed = set(re.findall(r"g\d+\.", page.partition("By group: ")[2].partition("Sizes")[0]))
    assert (len(listed), small & listed) == (300, set())


def test_a_page_of_levels_lists_300_areas_and_says_how_many_more():
    """Up to 300 in their order; of more, those with the largest biases."""
    ids = [f"s{k:03d}" for k in range(302)]
    tree = fp.Hierarchy.from_geoids(ids, {"state": 1, "block": 4})
    noise = fp.LevelNoise(tree, sigmas=[1.0, 3.0])
    found = fp.audit_hierarchy(np.arange(302.0) % 7, noise, "top-down", runs=100, areas=[f"a{k}." for k in range(302)])
    page = words(levels_page([found]))
    largest = sorted(found.areas, key=lambda a: -abs(a.bias))
    assert set(re.findall(r"(?<!\d)a\d+\.", page)) == {a.name for a in largest[:300]}
    assert "2 more with smaller biases are not listed." in page


def test_fractions_make_open_bins():
    parts = replace(SIMPLEX, counts=fp.Counts([7.5, 31, 128, 517, 2063], ids=IDS))
    assert "1 to under 10" in said(parts)
    assert "1 to under 10" not in said(SIMPLEX)


# ---- the payload --------------------------------------------------------------------------------------------------


def unpacked(packed, kind):
    return np.frombuffer(base64.b64decode(packed), "<" + kind)


def test_the_payload_of_an_audit():
    """What the golden files do not show: the numbers. Errors in single precision are never smaller than they are."""
    made = (SIMPLEX, THRESHOLD, BASELINE, POS)
    data = payload(audit_page(made, unit="pupils", noun="districts", currency="€"))
    assert unpacked(data["of"], "i4").tolist() == [0, 1, 2, 3, 4]
    assert unpacked(data["times"], "i4").tolist() == [1] * 5
    assert unpacked(data["count"], "f8").tolist() == COUNTS.values.tolist()
    assert unpacked(data["weight"], "f8").tolist() == COUNTS.weights.tolist()
    assert data["groups"]["names"] == ["north", "south", "west"]
    assert unpacked(data["groups"]["of"], "i4").tolist() == [0, 1, 0, 2, 1]
    for sent, r in zip(data["results"], made, strict=True):
        assert unpacked(sent["truth"], "f8").tolist() == r.truth.tolist()
        assert unpacked(sent["bias"], "f8").tolist() == r.bias.tolist()
        drawn = r.engine.standard_error is not None
        near = {"error": r.engine.standard_error if drawn else r.half_width}
        near |= {"deviation": r.moments.deviation, "zero": r.moments.zero} | ({"half": r.half_width} if drawn else {})
        for key, wanted in near.items():
            found = unpacked(sent[key], "f4")
            assert found == pytest.approx(wanted, rel=2.0**-22), key
            assert key not in ("error", "half") or (found >= wanted).all(), key
        assert drawn or sent["half"] is None


def test_equals_travel_once_and_numbers_that_differ_never_do():
    counts = fp.Counts([7, 31, 7, 7, 31], weights=[1.3, 0.7, 1.3, 1.3, 0.7])
    same = fp.audit(counts, NOISE, "baseline")
    data = payload(audit_page([same]))
    assert (data["points"], data["example"]) == (2, ["0", "1"])
    assert unpacked(data["of"], "i4").tolist() == [0, 1, 0, 0, 1]
    assert unpacked(data["times"], "i4").tolist() == [3, 2]
    step = vector(0, 0, 1e-7, 0, 0)
    moments = {name: getattr(same.moments, name) + step for name in ("deviation", "zero")}
    moved = [{"truth": same.truth + step}, {"bias": same.bias + step}, *({k: v} for k, v in moments.items())]
    for other in (*moved, {"accuracy": Accuracy("bound", same.half_width + step)}):
        assert payload(audit_page([replace(same, **other)]))["points"] == 5, other


# ---- the frame of a page ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("other", ["values", "weights", "ids", "groups", None])
def test_one_page_is_about_one_set_of_counts(other):
    given = {"values": COUNTS.values, "weights": COUNTS.weights, "ids": IDS, "groups": COUNTS.groups}
    swap = {
        "values": [7, 31, 128, 517, 2064],
        "weights": [1.3, 0.7, 1.1, 0.9, 1.8],
        "ids": list("abcde"),
        "groups": ["north"] * 5,
    }
    counts = fp.Counts(**given | ({} if other is None else {other: swap[other]}))
    if other is None:
        audit_page([BASELINE, replace(BASELINE, counts=counts)])
        with pytest.raises(errors.ParameterError, match="the same mechanism"):
            audit_page([BASELINE, replace(BASELINE, mechanism=fp.Laplace(12.6))])
        with pytest.raises(errors.ParameterError, match="at least one result"):
            audit_page([])
        return
    with pytest.raises(errors.ParameterError, match="the same counts and the same mechanism"):
        audit_page([BASELINE, replace(BASELINE, counts=counts)])
