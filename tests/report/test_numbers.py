"""Numbers as people read them, by the functions themselves: over all sizes, units and errors no page could show.

An error is never shown smaller than it is, a bound stays on its side, an interval holds what it must, and the script of the page
writes what Python writes.
"""

import json
import math
import re
import shutil
import subprocess

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairpost.accuracy import Estimate
from fairpost.cli.screen import shown as on_screen
from fairpost.report.numbers import CHANCE, PERCENT, Unit, below, certainty, money, times
from fairpost.report.page import file as page_file
from fairpost.report.page import script as page_script
from support.pages import text

SPACE = "\u00a0"
SUPERSCRIPTS = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
UNITS = [Unit(), Unit(digits=2), PERCENT, money("$"), Unit(suffix=" people"), Unit(100.0, "", " %", 5), Unit(digits=5)]
numbers = st.floats(min_value=1e-14, max_value=1e14)


@pytest.mark.parametrize(
    ("unit", "value", "shown", "signed", "brief"),
    [
        (Unit(), 5.0, "5.000", "+5.000", "5.00"),
        (Unit(), 0.0, "0", "0", "0"),
        (Unit(), 9.99e-7, "9.990 × 10⁻⁷", "+9.990 × 10⁻⁷", "9.99 × 10⁻⁷"),
        (Unit(), 2.5e20, "2.500 × 10²⁰", "+2.500 × 10²⁰", "2.50 × 10²⁰"),
        (Unit(suffix=" m"), -math.inf, "−∞ m", "−∞ m", "−∞ m"),
        (Unit(prefix="$"), math.nan, "$?", "$?", "$?"),
        (PERCENT, 0.123456, f"12.35{SPACE}%", f"+12.35{SPACE}%", f"12.3{SPACE}%"),
        (CHANCE, 0.123456, f"12.3{SPACE}%", f"+12.3{SPACE}%", f"12.3{SPACE}%"),
        (money("$"), 12.345, "$12.3", "+$12.3", "$12.3"),
        (money("$"), 999_999.0, "$999,999", "+$999,999", "$999,999"),
        (money("$"), 1e6, "$1,000,000", "+$1,000,000", "$1.00 million"),
        (money("$"), -1.25e12, "−$1,250,000,000,000", "−$1,250,000,000,000", "−$1.25 trillion"),
        (Unit(2.0, "<", ">", 2), 3.14159, "<6.3>", "+<6.3>", "<6.28>"),
    ],
)
def test_numbers_as_text(unit, value, shown, signed, brief):
    assert (unit.show(value), unit.show(value, signed=True), unit.brief(value)) == (shown, signed, brief)


@pytest.mark.parametrize(
    ("value", "up", "down"),
    [(1 + 3 * 2**-52, "1", "1"), (1 + 6 * 2**-52, "2", "1"), (2 - 6 * 2**-52, "2", "2"), (2 - 12 * 2**-52, "2", "1")],
)
def test_the_rounding_of_two_operations_is_taken_for_a_round_number_and_no_more(value, up, down):
    assert [Unit(digits=1).show(value, toward=to) for to in (1, -1)] == [up, down]


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


@settings(max_examples=300)
@given(numbers, st.sampled_from(UNITS))
def test_an_error_is_never_shown_smaller_than_it_is_and_with_one_digit(error, unit):
    shown = text(below(unit, error)).removeprefix("error below ")
    assert read(unit, shown) >= error * (1 - SLACK)
    assert read(unit, shown) <= max(2 * error, 0.01 if unit.whole else 0) * 1.0001
    digits = shown.split(" × ")[0].removeprefix(unit.prefix).removesuffix(text(unit.suffix))
    assert len(digits.replace(",", "").strip("0.")) == 1
    assert text(below(unit, error, "expansion")) == f"error about {shown}"


@settings(max_examples=120)
@given(numbers, st.floats(0, 1), st.sampled_from(UNITS), st.booleans())
def test_a_bound_is_shown_on_its_own_side_and_no_digit_is_below_the_error(x, part, unit, brief):
    say = unit.brief if brief else unit.show
    for value in (x, -x):
        up, down, near = (read(unit, say(value, x * part, toward=to)) for to in (1, -1, 0))
        dust = SLACK * x
        assert up >= value - dust
        assert down <= value + dust
        assert down - dust <= near <= up + dust
        step = 10.0 ** (1 - (3 if brief else unit.digits)) * x  # at so many digits, or those of the error, or whole
        assert up - down <= max(step, x * part, 1.0 if unit.whole else 0.0) * (1 + 1e-9)


@settings(max_examples=200)
@given(numbers, st.floats(0, 1), st.floats(0, 1), st.sampled_from(UNITS))
def test_an_interval_in_words_holds_the_interval(value, below_it, above_it, unit):
    e = Estimate(value, value * (1 - below_it), value * (1 + above_it))
    for said in (text(certainty(unit, e)), on_screen(unit, e).replace(SPACE, " ")):
        ends = re.search(r"(?:\(|^)([^(]*) to ([^)]*)\)?$", said)
        if ends is None:
            assert max(e.high - value, value - e.low) <= 1e-3 * value  # the wider side
            continue
        low, high = (read(unit, end) for end in ends.groups())
        assert low <= e.low * (1 + SLACK)
        assert high >= e.high * (1 - SLACK)


@settings(max_examples=200)
@given(st.floats(1.0, 1e9))
def test_at_least_so_many_times_is_rounded_down(ratio):
    assert float(times(ratio, -1).removesuffix(" times").replace(",", "")) <= ratio * (1 + SLACK)
    assert float(times(ratio).removesuffix(" times").replace(",", "")) == pytest.approx(ratio, rel=0.051)


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
