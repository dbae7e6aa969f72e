"""Numbers as people read them: digits, units, errors and their rounding, each function by itself."""

import math

import pytest

from fairpost.accuracy import Estimate
from fairpost.report.numbers import (
    CHANCE,
    PERCENT,
    RELATIVE,
    Html,
    Unit,
    below,
    certainty,
    count,
    digits,
    directed,
    half,
    html,
    money,
    name,
)

SPACE = "\u00a0"


def test_what_comes_from_outside_is_escaped_and_what_is_safe_stays():
    assert html("<p>{a}{b}</p>", a="<b> & 'x'", b=Html("<i>ok</i>")) == "<p>&lt;b&gt; &amp; &#x27;x&#x27;<i>ok</i></p>"
    assert isinstance(html("x"), Html)
    assert html("{a}", a=5) == "5"
    assert Html("<i>").__html__() == "<i>"
    assert type(Html("<i>").__html__()) is str
    assert name("A <b>") == "<bdi>A &lt;b&gt;</bdi>"


def test_dust_is_the_rounding_of_two_operations_and_no_more():
    """3 units in the last place are taken for a round number, 6 are not; on both sides."""
    ulp = 2.0**-52
    assert directed(1 + 3 * ulp, 0, 1) == 1.0
    assert directed(1 + 6 * ulp, 0, 1) == 2.0
    assert directed(2 - 6 * ulp, 0, -1) == 2.0  # 3 parts of 2^-52
    assert directed(2 - 12 * ulp, 0, -1) == 1.0
    assert directed(1.5, 0, 0) == 1.5
    assert directed(123.4, 1, 1) == 130.0
    assert directed(123.4, 1, -1) == 120.0
    assert directed(-123.4, 1, 1) == -120.0
    assert directed(-123.4, 1, -1) == -130.0
    assert directed(0.0123, -3, 1) == pytest.approx(0.013, rel=1e-15)
    assert directed(1e-310, -330, 1) == 1e-310  # a step of 0


@pytest.mark.parametrize(
    ("x", "place", "text"),
    [
        (1234.5678, -2, "1,234.57"),
        (1234.5678, 0, "1,235"),
        (1234.5678, 2, "1,200"),
        (1e-6, -8, "0.00000100"),
        (9.99e-7, -9, "9.99 × 10⁻⁷"),
        (9.99e-7, -8, "1.0 × 10⁻⁶"),
        (9.99e-7, -7, "1 × 10⁻⁶"),
        (9.99e-7, -6, "0"),
        (1.5e15, 14, "1.5 × 10¹⁵"),
        (1e15, 13, "1.00 × 10¹⁵"),
        (9.99e14, 12, "999,000,000,000,000"),
        (2.5e20, 18, "2.50 × 10²⁰"),
    ],
)
def test_digits(x, place, text):
    assert digits(x, place) == text


@pytest.mark.parametrize(
    ("unit", "value", "text", "signed", "brief"),
    [
        (Unit(), 5.0, "5.000", "+5.000", "5.00"),
        (Unit(), -5.0, "−5.000", "−5.000", "−5.00"),
        (Unit(), 0.0, "0", "0", "0"),
        (Unit(), math.inf, "∞", "∞", "∞"),
        (Unit(suffix=" m"), -math.inf, "−∞ m", "−∞ m", "−∞ m"),
        (Unit(prefix="$"), math.nan, "$?", "$?", "$?"),
        (PERCENT, 0.123456, f"12.35{SPACE}%", f"+12.35{SPACE}%", f"12.3{SPACE}%"),
        (RELATIVE, 0.123456, f"12.3{SPACE}%", f"+12.3{SPACE}%", f"12.3{SPACE}%"),
        (CHANCE, 0.123456, f"12.3{SPACE}%", f"+12.3{SPACE}%", f"12.3{SPACE}%"),
        (money("$"), 12.345, "$12.3", "+$12.3", "$12.3"),
        (money("$"), -1234.5, "−$1,234", "−$1,234", "−$1,234"),
        (money("$"), 999_999.0, "$999,999", "+$999,999", "$999,999"),
        (money("$"), 1e6, "$1,000,000", "+$1,000,000", "$1.00 million"),
        (money("$"), 1.5e9, "$1,500,000,000", "+$1,500,000,000", "$1.50 billion"),
        (money("$"), -1.25e12, "−$1,250,000,000,000", "−$1,250,000,000,000", "−$1.25 trillion"),
        (money("€"), 2.5e14, "€250,000,000,000,000", "+€250,000,000,000,000", "€250 trillion"),
        (Unit(2.0, "<", ">", 2), 3.14159, "<6.3>", "+<6.3>", "<6.28>"),
    ],
)
def test_numbers_as_text(unit, value, text, signed, brief):
    assert unit.show(value) == text
    assert unit.show(value, signed=True) == signed
    assert unit.brief(value) == brief


def test_a_number_has_no_more_digits_than_its_error_allows_and_bounds_keep_their_side():
    unit = Unit()
    assert unit.show(1234.5678, 30.0) == "1,230"
    assert unit.show(1.23456, 0.03) == "1.23"
    assert unit.brief(1.23456, 0.3) == "1.2"
    assert unit.show(1.23411, toward=1) == "1.235"
    assert unit.show(1.23489, toward=-1) == "1.234"
    assert unit.brief(1.2311, toward=1) == "1.24"
    assert unit.brief(1.2389, signed=True, toward=-1) == "+1.23"
    assert unit.show(0.004, 0.3) == "0.0"
    assert unit.show(0.004, 0.3, signed=True) == "0.0"
    assert PERCENT.show(0.5, 0.02) == f"50{SPACE}%"  # the error is in the same unit
    assert money("$").brief(1_234_567.0, 30_000.0, signed=True, toward=1) == "+$1.24 million"
    assert money("$").brief(1_239_999.0, toward=-1) == "$1.23 million"
    assert money("$").brief(1_234_567.0, 300_000.0) == "$1.2 million"


def test_true_counts_have_every_digit():
    assert [count(x) for x in (0.0, 1234567.0, 1234.5, 0.1, 1e15)] == [
        "0",
        "1,234,567",
        "1,234.5",
        "0.1",
        "1,000,000,000,000,000",
    ]


def test_how_sure_a_number_is():
    unit = Unit()
    assert half(Estimate(5.0, 3.0, 6.0)) == 2.0
    assert half(Estimate(5.0, 4.5, 9.0)) == 4.0
    assert certainty(unit, Estimate(5.0, 5.0, 5.0)) == "no numerical error"
    sharp = certainty(unit, Estimate(5.0, 4.995, 5.005))
    assert sharp == 'error below <data value="0.005" title="0.005">0.005</data>'
    assert certainty(unit, Estimate(5.0, 4.995, 5.005, "expansion")).startswith("error about ")
    assert certainty(unit, Estimate(-5.0, -5.005, -4.995)) == sharp
    wide = certainty(unit, Estimate(5.0, 4.994, 5.0))
    assert wide == '<data value="4.994" title="4.994">4.994</data> to <data value="5.0" title="5.0">5.000</data>'
    wider = certainty(unit, Estimate(5.0, 3.123, 7.777, "interval"))  # a tenth of the width is the last place
    assert wider == '<data value="3.123" title="3.123">3.1</data> to <data value="7.777" title="7.777">7.8</data>'
    assert certainty(unit, Estimate(1000.0, 999.0, 1001.0)).startswith("error below ")  # a thousandth, just
    place = certainty(unit, Estimate(5.0, 4.5, 15.0))
    assert place == '<data value="4.5" title="4.5">4</data> to <data value="15.0" title="15.0">15</data>'
    outwards = certainty(unit, Estimate(5.0, 3.191, 7.711))
    assert outwards.startswith('<data value="3.191" title="3.191">3.1<')
    assert outwards.endswith(">7.8</data>")


def test_an_error_is_rounded_up_to_one_digit():
    def error(unit, e, kind="bound"):
        return below(unit, e, kind).partition(">")[2].removesuffix("</data>")

    assert error(Unit(), 0.0111) == "0.02"
    assert error(Unit(), 0.01) == "0.01"
    assert error(Unit(), 0.091) == "0.1"
    assert error(Unit(), 1.1e-9) == "2 × 10⁻⁹"
    assert error(Unit(), 0.0) == "1 × 10⁻³⁰⁰"
    assert error(PERCENT, 0.00123) == f"0.2{SPACE}%"
    assert error(Unit(100.0, "p", "s"), 0.0111) == "p2s"
    assert below(money("$"), 0.0099) == "error below $0.01"
    assert below(money("$"), 0.0099, "expansion") == "error about $0.01"
    assert below(money("$"), 0.01).startswith("error below <data")
    assert error(money("$"), 0.011) == "$0.02"
    assert error(money("$"), 123.0) == "$200"
    assert below(Unit(), 0.5, "expansion") == 'error about <data value="0.5" title="0.5">0.5</data>'
    assert below(Unit(), 0.5, "interval").startswith("error below ")


def test_a_page_of_levels_lists_300_areas_and_says_how_many_more():
    """Up to 300 in their order; of more, those with the largest biases."""
    from types import SimpleNamespace

    from fairpost.report.levels import _rows

    def areas(n):
        bias = [(-1) ** k * (k + 1.0) for k in range(n)]
        some = [
            SimpleNamespace(name=f"a{k}", n=2, count=10.0, bias=b, half_width=0.5, rmse=None)
            for k, b in enumerate(bias)
        ]
        return [*some, SimpleNamespace(name="none", n=0, count=0.0, bias=9e9, half_width=0.0, rmse=None)]

    all_of_them = _rows("areas", areas(300), True)
    assert [row[0] for row in all_of_them.rows] == [f"a{k}" for k in range(300)]
    assert all_of_them.left == 0
    some = _rows("areas", areas(302), True)
    assert [row[0] for row in some.rows] == [f"a{k}" for k in range(301, 1, -1)]
    assert some.left == 2
