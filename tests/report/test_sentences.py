"""What the pages and the screen say about results made by hand, word by word.

Every number of `support/results_by_hand.py` differs from every other, so a sentence with the wrong one does not read as it must: gains for
losses, a value for its bound, a standard error for the simultaneous width, a chance for a deviation. What is expected
here was worked out by hand from those numbers, not copied from the program. In money the budget is 4,000,000.
"""

import base64
import json
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
from fairpost.cli import screen
from fairpost.report import audit_page, findings, tables
from fairpost.report.numbers import (
    PERCENT,
    Unit,
    below,
    certainty,
    half,
    money,
    times,
)
from fairpost.report.page import file as page_file
from fairpost.report.page import script as page_script
from fairpost.report.payload import audit_data, raised
from fairpost.report.views import Words, by_unit, split
from fairpost.results import Point
from support.pages import text
from support.results_by_hand import (
    ALL,
    BASELINE,
    BUDGET,
    COUNTS,
    IDS,
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


def test_the_numbers_made_by_hand_are_all_different():
    for result in ALL:
        numbers = numbers_of(result)
        assert np.unique(numbers).size == numbers.size


# ---- what each rule does ------------------------------------------------------------------------------------------


def said(result):
    return text(findings.about(view(result)))


def flipped(result):
    return replace(result, bias=-result.bias, alpha_pair=result.alpha_pair[::-1])


def test_gains_and_losses_the_other_way_round():
    assert said(flipped(BASELINE)) == (
        "Post-processing by baseline moves money from the smallest districts to the largest. Under baseline Ash loses €49,200, "
        "20.5 % of the €240,000 due; Elm gains €47,200, 2.88 % of the €1.64 million due."
    )


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
    assert said(replace(result, bias=bias, alpha_pair=pair)) == (
        f"Post-processing by {result.postprocess} {moves}, mostly those of the smallest, and {other} none. "
        f"Under {result.postprocess} {one}; {nobody}."
    )


def test_where_a_change_lies():
    one = {k: np.where(np.arange(5) == k, 0.0123, 0.0) for k in (0, 2, 4)}
    told = {k: said(replace(BASELINE, bias=b)) for k, b in one.items()}
    assert "mostly those of the smallest" in told[0]
    assert "at no size much more than at another" in told[2]
    assert "mostly those of the largest" in told[4]
    # what the simultaneous width does not tell from zero does not count: the 0.0116 of Elm lies within 0.0117
    wide = simulated(replace(BASELINE, bias=vector(0.01, 0, 0, 0, 0.0116)), vector(0.001, 0, 0, 0, 0.0117), 2.0)
    assert "mostly those of the smallest" in said(wide)


def test_direction_and_ends_go_by_the_simultaneous_width():
    # every bias is 2 to 6 standard errors away from zero and within its simultaneous width
    wide = simulated(replace(POS, alpha=Estimate(0.0074451, 0.0, 0.0088321)), np.abs(POS.bias) * 1.01, 5.5)
    made = view(wide)
    assert made.direction == "unresolved"
    # at most: the upper end, 0.0088321 * 4 million = 35,328.4, up to two digits; never the value 29,780
    assert said(wide) == (
        "For pos 1,234 runs do not resolve who gains and who loses. "
        "Unfairness is not resolved: it is at most €36,000, with 90 % confidence."
    )
    assert full(findings.limit(made)) == [0.0088321 * BUDGET]
    assert text(findings.sureness(made)) == "not resolved at 1,234 runs: 0 to €36,000 with 90 % confidence"
    row = tables.comparison(views(BASELINE, wide))[1]
    assert [text(c) for c in (row.alpha, row.loss, row.gain)] == ["not resolved"] * 3


def test_one_end_resolved_and_the_other_not():
    half_width = POS.half_width.copy()
    half_width[4] = 0.0032  # Elm: -0.0031234
    wide = simulated(POS, half_width, 5.5)
    assert said(wide).endswith("Under pos Ash gains €17,000, 7 % of the €240,000 due; who loses is not resolved.")
    assert text(tables.comparison([view(wide)])[0].loss) == "not resolved"


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
    told = "All 9 districts that gain have at most 81 pupils, all 12 that lose have at least 144."
    assert told in said(many)
    near = bias.copy()
    near[9:11] = 1e-6  # above a standard error of 2e-8, within what holds for all together
    assert told in said(simulated(replace(many, bias=near), np.full(23, 1e-4), 2.0))
    assert "that gain have" not in said(replace(many, bias=-bias))
    assert split(size, np.abs(bias), many.half_width) is None
    assert split(vector(3, 3), vector(1, -1), vector(0, 0)) is None  # the same size gains and loses
    assert "that gain have" not in said(BASELINE)  # of 5 the two ends say it all


def test_equals_are_counted_and_named_once():
    counts = fp.Counts([7, 31, 7, 7, 31], weights=[1.3, 0.7, 1.3, 1.3, 0.7], ids=IDS)
    tied = replace(BASELINE, counts=counts, bias=vector(0.0123, -0.0118, 0.0123, 0.0123, -0.0118))
    tied = replace(tied, alpha_pair=("Ash", "Birch"))
    assert "Birch and 1 like it lose €47,200 each" in said(tied)
    assert "Ash and 2 like it gain €49,200 each" in said(tied)
    other = replace(tied, counts=fp.Counts([7, 31, 7, 7, 31], weights=[1.3, 0.7, 1.4, 1.3, 0.8], ids=IDS))
    assert "Birch loses" in said(other)  # another weight is not alike
    assert "Ash and 1 like it" in said(other)


# ---- the cards ----------------------------------------------------------------------------------------------------


def test_bounds_are_rounded_to_the_side_on_which_they_hold():
    bounds = Bounds(5.20019, 8.40013, 5.5, 0.3, 4.6, 2056.0, 9.80011, 8.40013, 2e-9)
    said = text(findings.bound_text(view(replace(SIMPLEX, rule=replace(SIMPLEX.rule, bounds=bounds)))))
    assert "at least 5.200 pupils and at most 9.801 pupils" in said
    assert "upper one to 8.401 pupils" in said
    on_screen = screen.sentences(replace(SIMPLEX, rule=replace(SIMPLEX.rule, bounds=bounds)), "€")[1]
    assert on_screen == "  Theorem 1: alpha is between 5.2001 and 9.8002; with E[T], Lemma 3 gives at most 8.4002."


@pytest.mark.parametrize(
    ("low", "high", "inside"), [(5.0, 5.1, False), (9.9, 10.0, False), (5.0, 5.3, True), (9.7, 10.0, True)]
)
def test_a_value_outside_its_bounds_is_a_defect(low, high, inside):
    out = replace(SIMPLEX, alpha=Estimate((low + high) / 2, low, high))
    said = text(findings.bound_text(view(out)))
    assert said.endswith("as it must." if inside else "THE VALUE LIES OUTSIDE: report this as a defect.")


# ---- tables -------------------------------------------------------------------------------------------------------

# relative to what is due: 3.6 / 2063, 3.7 / 7, 0.6 / 128; 1.1279 / 517 +- 0.73 / 517, 2.4137 / 7 +- 0.45 / 7,
# 0.7 / 31 +- 0.56 / 31;
# 0.0118 / 0.41, 0.0123 / 0.06; 0.0031234 / 0.41 +- 0.00083 / 0.41, 0.0043217 / 0.06 +- 0.00071 / 0.06


def parts(rows):
    """What each gains or loses relative to what it is due, and its place among the groups."""
    return [(b.label, text(b.relative), b.place) for b in rows]


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


def test_fractions_make_open_bins():
    parts = replace(SIMPLEX, counts=fp.Counts([7.5, 31, 128, 517, 2063], ids=IDS))
    assert tables.sizes(view(parts))[0].label == "1 to under 10"


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


# ---- curves -------------------------------------------------------------------------------------------------------


def points():
    def at(result, epsilon):
        return Point.of(replace(result, mechanism=fp.Laplace(1 / epsilon)), epsilon)

    milder = replace(BASELINE, alpha=Estimate(0.0021, 0.00209999, 0.002100023))
    return [at(BASELINE, 0.08), at(POS, 0.08), at(milder, 0.4)]


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


# ---- the frame of a page ------------------------------------------------------------------------------------------


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
