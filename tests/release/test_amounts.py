"""Amounts are ratios, floats are refused, scales are rounded up, conversions are on the safe side."""

import math
import random
from decimal import Decimal
from fractions import Fraction

import mpmath
import pytest

from fairpost.errors import ParameterError
from fairpost.noise import calibration as conversion
from fairpost.release import amounts


@pytest.mark.parametrize(
    ("given", "value"),
    [
        ("0.1", "1/10"),
        ("1/3", "1/3"),
        ("1e-10", "1/10000000000"),
        (2, "2"),
        (Fraction(3, 7), "3/7"),
        (Decimal("0.25"), "1/4"),
    ],
)
def test_an_amount_is_the_ratio_that_was_typed(given, value):
    assert amounts.amount(given, "epsilon") == Fraction(value)


@pytest.mark.parametrize("given", [0.1, 1.0, True, None, float("nan"), b"1", [1]])
def test_what_is_not_exact_is_refused_by_name(given):
    with pytest.raises(ParameterError, match="`epsilon` must be exact"):
        amounts.amount(given, "epsilon")


@pytest.mark.parametrize(
    "given", ["0", "-1", "", "x", "1/0", "0/5", "nan", "inf", "1.", ".5", "1_0", "٣", "1 /2", "1e999", "9" * 80]
)
def test_what_is_no_amount_above_0_is_refused(given):
    with pytest.raises(ParameterError, match="`epsilon` must be an amount above 0"):
        amounts.amount(given, "epsilon")


def test_20000_random_decimals_the_scale_never_promises_more_than_it_keeps():
    chance, worse = random.Random(20), 0
    for _ in range(20_000):
        text = f"{chance.randrange(1, 10 ** chance.randint(1, 17))}e-{chance.randint(0, 15)}"
        epsilon = amounts.amount(text, "epsilon")
        D = Fraction(chance.choice((1, 2, 3, 7, 20)))
        b = amounts.laplace_scale(epsilon, D)
        assert D / Fraction(b) <= epsilon, text
        assert D / Fraction(math.nextafter(b, 0.0)) > epsilon, f"{text}: a smaller float would do"
        sigma = amounts.gaussian_sigma(epsilon, D)
        assert D / (2 * Fraction(sigma) ** 2) <= epsilon, text
        assert D / (2 * Fraction(math.nextafter(sigma, 0.0)) ** 2) > epsilon, text
        worse += D / Fraction(float(D) / float(epsilon)) > epsilon
    assert worse > 5_000  # floats that are not rounded up break the promise in about half of the cases


def test_shown_amounts_are_rounded_to_the_safe_side():
    third = Fraction(1, 3)
    assert amounts.rounded(third, up=True) == "0.333333333334"
    assert amounts.rounded(third, up=False) == "0.333333333333"
    assert amounts.rounded(Fraction(1, 10), up=True) == amounts.rounded(Fraction(1, 10), up=False) == "0.1"
    assert amounts.rounded(Fraction(-1, 3), up=False) == "-0.333333333334"
    assert amounts.decimal_of(0.1).startswith("0.1000000000000000055511151231257827")
    assert Fraction(amounts.decimal_of(1 / 3)) == Fraction(1 / 3)


def test_decimals_of_a_readable_size_are_amounts():
    for given, found in (
        ("0.1", Fraction(1, 10)),
        ("1e60", Fraction(10**60)),
        ("1e-60", Fraction(1, 10**60)),
        ("12.5", Fraction(25, 2)),
    ):
        assert amounts.amount(Decimal(given), "limit") == found
    for given in ("1e61", "1e-61", "NaN", "Infinity", "-1", "0"):
        with pytest.raises(ParameterError) as refused:
            amounts.amount(Decimal(given), "limit")
        assert (
            str(refused.value)
            == f'`limit` must be an amount above 0 such as "0.1" or "1/3", got {str(Decimal(given))!r}'
        )
    assert amounts.share(Decimal(0), "share") == 0


def test_ratios_and_decimals_for_people():
    assert amounts.text(Fraction(1, 10)) == "1/10"
    assert amounts.text(Fraction(2)) == "2"
    assert amounts.rounded(Fraction(7, 3), up=True) == "2.333333333334"
    assert amounts.rounded(Fraction(7, 3), up=False, digits=2) == "2.33"
    assert amounts.rounded(Fraction(70, 3), up=True, digits=1) == "23.4"
    assert amounts.rounded(Fraction(12), up=True) == "12"
    assert amounts.rounded(Fraction(-7, 3), up=True, digits=3) == "-2.333"
    assert amounts.rounded(Fraction(1, 10**13), up=False) == "0"


def test_pure_epsilon_as_rho():
    assert amounts.rho_of_pure(Fraction(1, 3)) == Fraction(1, 18)


def smallest_delta(rho, epsilon):
    """The bound of Canonne, Kamath and Steinke by brute force over alpha, in 40 digits."""
    with mpmath.workdps(40):

        def bound(a):
            return (a - 1) * (a * rho - epsilon) + a * mpmath.log(1 - 1 / a) - mpmath.log(a - 1)

        start = min((1 + mpmath.mpf(10) ** (k / mpmath.mpf(10)) for k in range(-40, 60)), key=bound)
        return mpmath.exp(bound(mpmath.findroot(lambda a: mpmath.diff(bound, a), start)))


@pytest.mark.parametrize(
    ("epsilon", "delta"), [("1", "1e-10"), ("17.14", "1e-10"), ("0.01", "1e-6"), ("0.5", "0.01"), ("100", "1e-12")]
)
def test_a_limit_of_epsilon_and_delta_becomes_the_largest_rho_below(epsilon, delta):
    e, d = Fraction(epsilon), Fraction(delta)
    rho = conversion.rho_of(e, d)
    assert smallest_delta(
        mpmath.mpf(rho.numerator) / rho.denominator, mpmath.mpf(e.numerator) / e.denominator
    ) <= float(d)
    more = rho * (1 + Fraction(1, 10**9))  # 12 digits: one part in 1e9 more must be too much
    assert smallest_delta(
        mpmath.mpf(more.numerator) / more.denominator, mpmath.mpf(e.numerator) / e.denominator
    ) > float(d)


def test_epsilon_of_rho_is_the_sharp_conversion_rounded_up():
    rho, delta = Fraction("0.005"), Fraction("1e-6")
    epsilon = conversion.epsilon_of(rho, delta)
    assert float(epsilon) == pytest.approx(0.430, abs=5e-4)  # Bun and Steinke's simpler rule gives 0.531
    assert smallest_delta(mpmath.mpf("0.005"), mpmath.mpf(epsilon.numerator) / epsilon.denominator) <= 1e-6
    assert smallest_delta(mpmath.mpf("0.005"), mpmath.mpf(float(epsilon)) * (1 - mpmath.mpf("1e-9"))) > 1e-6


@pytest.mark.parametrize("delta", ["1e-300", "1e-10", "0.1"])
@pytest.mark.parametrize("epsilon", ["1e-4", "0.01", "1", "20", "100", "600"])
def test_both_conversions_are_the_best_ones(epsilon, delta):
    """To 11 digits; below epsilon = 0.1, where the search in floats cancels, to 8."""
    e, d = Fraction(epsilon), Fraction(delta)
    rho, part = conversion.rho_of(e, d), Fraction(1, 10 ** (11 if e > 0.1 else 8))
    more = rho * (1 + part)
    with mpmath.workdps(40):
        ratio = [mpmath.mpf(v.numerator) / v.denominator for v in (rho, more, e)]
        assert smallest_delta(ratio[0], ratio[2]) <= mpmath.mpf(delta) < smallest_delta(ratio[1], ratio[2])
    back = conversion.epsilon_of(rho, d)
    assert e * (1 - part) <= back <= e * (1 + part)


def test_answers_have_twelve_digits_and_are_cut_on_the_safe_side():
    for found in (
        conversion.rho_of(Fraction(1), Fraction("1e-10")),
        conversion.rho_of(Fraction("0.37"), Fraction("1e-6")),
        conversion.rho_of(Fraction(200), Fraction("1e-6")),
        conversion.epsilon_of(Fraction("0.005"), Fraction("1e-6")),
        conversion.epsilon_of(Fraction(7), Fraction("1e-6")),
    ):
        shown = (Decimal(found.numerator) / Decimal(found.denominator)).normalize()
        assert Fraction(shown) == found
        assert len(shown.as_tuple().digits) in (11, 12)  # the last may be 0


def test_what_is_shown_to_hold():
    assert conversion.holds(Fraction(1), Fraction(20), Fraction("1e-6")) is True
    assert conversion.holds(Fraction(1), Fraction(1), Fraction("1e-6")) is False
    assert conversion.holds(Fraction(0), Fraction(1), Fraction("1e-6")) is False
    assert conversion.epsilon_of(Fraction("1e-9"), Fraction("0.5")) == 0


def test_a_search_that_goes_too_far_is_put_right_by_the_check(monkeypatch):
    """The floats find a rho that is some 1e-11 too large; the check in decimals steps back to one that holds."""
    honest = conversion.log_delta
    monkeypatch.setattr(conversion, "log_delta", lambda *given: honest(*given) - 3e-10)
    rho = conversion.rho_of(Fraction(1), Fraction("1e-10"))
    assert smallest_delta(mpmath.mpf(rho.numerator) / rho.denominator, mpmath.mpf(1)) <= 1e-10
    epsilon = conversion.epsilon_of(Fraction("0.005"), Fraction("1e-6"))
    assert smallest_delta(mpmath.mpf("0.005"), mpmath.mpf(epsilon.numerator) / epsilon.denominator) <= 1e-6


def test_delta_must_be_a_probability():
    for delta in (Fraction(1), Fraction(2), Fraction(0), Fraction(-1, 2)):
        with pytest.raises(ParameterError, match="`delta` must be above 0 and below 1"):
            conversion.rho_of(Fraction(1), delta)


@pytest.mark.parametrize(("rho", "epsilon"), [(1e-6, 5.0), (1e-9, 0.1), (0.5, 1.0), (30.0, 200.0)])
def test_the_best_alpha_is_found_however_large_it_is(rho, epsilon):
    alpha = conversion.best_alpha(rho, epsilon)
    there = conversion.log_delta(rho, epsilon, alpha)
    for other in (0.9, 0.99, 1.01, 1.1):
        assert there <= conversion.log_delta(rho, epsilon, 1 + (alpha - 1) * other)


def test_nothing_has_no_sign():
    assert [amounts.rounded(Fraction(0), up=up) for up in (True, False)] == ["0", "0"]
    assert amounts.rounded(Fraction(-1, 10**40), up=True) == "0"
    assert amounts.rounded(Fraction(-1, 2), up=True) == "-0.5"


@pytest.mark.parametrize("given", [0.0, -0.0, False, None, b"0"])
def test_a_share_of_nothing_is_exact_too(given):
    assert [amounts.share(zero, "share") for zero in ("0", 0, Fraction(0), Decimal("0.0"))] == [0, 0, 0, 0]
    assert amounts.share("1/4", "share") == Fraction(1, 4)
    with pytest.raises(ParameterError, match="`share` must be exact"):
        amounts.share(given, "share")


def test_a_float_that_is_the_ratio_is_not_rounded_up():
    for exact in (Fraction(1, 2), Fraction(3), Fraction(2.0**-1000)):
        assert amounts.float_up(exact) == float(exact)
    third = Fraction(1, 3)  # the nearest float lies below
    assert Fraction(float(third)) < third <= Fraction(amounts.float_up(third))
    assert amounts.laplace_scale(Fraction(2), Fraction(1)) == 0.5


def test_a_root_is_the_smallest_float_above_it():
    """Of small and large numbers: a root that is one float too large wastes noise, one too small breaks the promise."""
    rng = random.Random(4)
    for _ in range(300):
        square = Fraction(rng.randint(1, 10**18), rng.randint(1, 10**18)) * Fraction(10) ** rng.randint(-12, 12)
        root = amounts.root_up(square)
        assert Fraction(root) ** 2 >= square > Fraction(math.nextafter(root, 0.0)) ** 2
    assert amounts.root_up(Fraction(0)) == 0.0


def test_a_rho_that_a_float_cannot_hold_shows_nothing():
    assert conversion.holds(Fraction(1, 10**400), Fraction(1), Fraction(1, 10**6)) is False
    assert conversion.holds(Fraction(0), Fraction(1), Fraction(1, 10**6)) is False


def test_epsilon_is_0_only_where_that_is_shown():
    """With a large delta a small rho gives (0, delta)-DP. Just above the largest such rho, epsilon is tiny, and not 0."""
    delta = Fraction(1, 2)
    low, high = Fraction(1, 100), Fraction(2)
    assert conversion.holds(low, Fraction(0), delta)
    assert not conversion.holds(high, Fraction(0), delta)
    while high - low > Fraction(1, 10**14):
        middle = (low + high) / 2
        low, high = (middle, high) if conversion.holds(middle, Fraction(0), delta) else (low, middle)
    assert conversion.epsilon_of(low, delta) == 0
    found = conversion.epsilon_of(high, delta)
    assert 0 < found < Fraction(1, 10**8)
    assert conversion.holds(high, found, delta)


@pytest.mark.parametrize(("rho", "epsilon"), [("1/2", "1"), ("1/200", "2/5"), ("3", "20")])
def test_a_conversion_is_shown_with_room_for_the_rounding_of_its_own_proof(rho, epsilon):
    """delta must exceed the bound by the relative and the absolute slack of 1e-40; between the two it is not enough."""
    rho, epsilon = Fraction(rho), Fraction(epsilon)
    with mpmath.workdps(80):
        alpha = mpmath.mpf(conversion.best_alpha(float(rho), float(epsilon)))
        r, e = (mpmath.mpf(v.numerator) / v.denominator for v in (rho, epsilon))
        exponent = (alpha - 1) * (alpha * r - e) + alpha * mpmath.log(1 - 1 / alpha) - mpmath.log(alpha - 1)
        for slack, shown in ((0.5, False), (1.5, True)):
            delta = mpmath.exp(exponent + (abs(exponent) + slack) * mpmath.mpf("1e-40"))
            mantissa, power = int(delta.man), int(delta.exp)
            exact = Fraction(mantissa) * Fraction(2) ** power
            assert conversion.holds(rho, epsilon, exact) is shown
