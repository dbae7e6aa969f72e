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

GOOD = {
    "0.1": "1/10", "1/3": "1/3", "1e-10": "1/10000000000", 2: "2", Fraction(3, 7): "3/7", Decimal("0.25"): "1/4", Decimal("12.5"): "25/2",
    Decimal("1e60"): 10**60, Decimal("1e-60"): Fraction(1, 10**60),
}  # fmt: skip
FLOATS = [0.1, 1.0, 0.0, -0.0, True, False, None, float("nan"), b"1", [1]]
BAD = ["0", "-1", "", "x", "1/0", "0/5", "nan", "inf", "1.", ".5", "1_0", "٣", "1 /2", "1e999", "9" * 80]
BAD += [Decimal(d) for d in ("1e61", "1e-61", "NaN", "Infinity", "-1", "0")]


@pytest.mark.parametrize("given", GOOD, ids=repr)
def test_an_amount_is_the_ratio_that_was_typed(given):
    assert amounts.amount(given, "epsilon") == amounts.share(given, "epsilon") == Fraction(GOOD[given])


@pytest.mark.parametrize("given", FLOATS, ids=repr)
def test_what_is_not_exact_is_refused_by_name(given):
    for read in (amounts.amount, amounts.share):
        with pytest.raises(ParameterError, match="`epsilon` must be exact"):
            read(given, "epsilon")


@pytest.mark.parametrize("given", BAD, ids=repr)
def test_what_is_no_amount_above_0_is_refused(given):
    with pytest.raises(ParameterError) as refused:
        amounts.amount(given, "epsilon")
    assert str(refused.value) == f'`epsilon` must be an amount above 0 such as "0.1" or "1/3", got {str(given)[:60]!r}'


def test_a_share_may_be_nothing():
    assert [amounts.share(zero, "share") for zero in ("0", 0, Fraction(0), Decimal("0.0"))] == [0, 0, 0, 0]


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


def test_a_root_is_the_smallest_float_above_it():
    """Of small and large numbers: a root that is one float too large wastes noise, one too small breaks the promise."""
    rng = random.Random(4)
    for _ in range(300):
        square = Fraction(rng.randint(1, 10**18), rng.randint(1, 10**18)) * Fraction(10) ** rng.randint(-12, 12)
        root = amounts.root_up(square)
        assert Fraction(root) ** 2 >= square > Fraction(math.nextafter(root, 0.0)) ** 2
    assert amounts.root_up(Fraction(0)) == 0.0
    for exact in (Fraction(1, 2), Fraction(3), Fraction(2.0**-1000)):  # what is a float stays what it is
        assert amounts.float_up(exact) == float(exact)
    third = Fraction(1, 3)  # the nearest float lies below
    assert Fraction(float(third)) < third <= Fraction(amounts.float_up(third))


def test_shown_amounts_are_rounded_to_the_safe_side():
    third, tenth = Fraction(1, 3), Fraction(1, 10)
    shown = [
        (third, 12, "0.333333333334", "0.333333333333"), (tenth, 12, "0.1", "0.1"), (-third, 12, "-0.333333333333", "-0.333333333334"),
        (Fraction(7, 3), 2, "2.34", "2.33"), (Fraction(70, 3), 1, "23.4", "23.3"), (Fraction(12), 12, "12", "12"),
        (Fraction(-7, 3), 3, "-2.333", "-2.334"), (Fraction(0), 12, "0", "0"), (Fraction(-1, 2), 12, "-0.5", "-0.5"),
        (Fraction(1, 10**13), 12, "0.000000000001", "0"), (Fraction(-1, 10**40), 12, "0", "-0.000000000001"),
    ]  # fmt: skip
    for ratio, digits, up, down in shown:
        assert [amounts.rounded(ratio, up=way, digits=digits) for way in (True, False)] == [up, down]
    assert amounts.decimal_of(0.1).startswith("0.1000000000000000055511151231257827")
    assert Fraction(amounts.decimal_of(1 / 3)) == Fraction(1 / 3)
    assert amounts.rho_of_pure(third) == Fraction(1, 18)


# -- (epsilon, delta) and rho ------------------------------------------------------------------------------------------


def real(ratio):
    return mpmath.mpf(ratio.numerator) / ratio.denominator


def smallest_delta(rho, epsilon):
    """The bound of Canonne, Kamath and Steinke by brute force over alpha, in 40 digits."""
    with mpmath.workdps(40):

        def bound(a):
            return (a - 1) * (a * rho - epsilon) + a * mpmath.log(1 - 1 / a) - mpmath.log(a - 1)

        start = min((1 + mpmath.mpf(10) ** (k / mpmath.mpf(10)) for k in range(-40, 60)), key=bound)
        return mpmath.exp(bound(mpmath.findroot(lambda a: mpmath.diff(bound, a), start)))


@pytest.mark.parametrize("delta", ["1e-300", "1e-10", "0.1"])
@pytest.mark.parametrize("epsilon", ["1e-4", "0.01", "0.5", "1", "17.14", "100", "600"])
def test_both_conversions_are_the_best_ones(epsilon, delta):
    """To 11 digits; below epsilon = 0.1, where the search in floats cancels, to 8."""
    e, d = Fraction(epsilon), Fraction(delta)
    rho, part = conversion.rho_of(e, d), Fraction(1, 10 ** (11 if e > 0.1 else 8))
    with mpmath.workdps(40):
        assert smallest_delta(real(rho), real(e)) <= mpmath.mpf(delta) < smallest_delta(real(rho * (1 + part)), real(e))
    back = conversion.epsilon_of(rho, d)
    assert e * (1 - part) <= back <= e * (1 + part)


def test_epsilon_of_rho_is_the_sharp_conversion_rounded_up():
    rho, delta = Fraction("0.005"), Fraction("1e-6")
    epsilon = conversion.epsilon_of(rho, delta)
    assert float(epsilon) == pytest.approx(0.430, abs=5e-4)  # Bun and Steinke's simpler rule gives 0.531
    assert smallest_delta(real(rho), real(epsilon)) <= 1e-6
    assert smallest_delta(real(rho), mpmath.mpf(float(epsilon)) * (1 - mpmath.mpf("1e-9"))) > 1e-6


def test_answers_have_twelve_digits_and_are_cut_on_the_safe_side():
    rhos = [("1", "1e-10"), ("0.37", "1e-6"), ("200", "1e-6")]
    found = [conversion.rho_of(Fraction(e), Fraction(d)) for e, d in rhos]
    found += [conversion.epsilon_of(Fraction(rho), Fraction("1e-6")) for rho in ("0.005", "7")]
    for ratio in found:
        shown = (Decimal(ratio.numerator) / Decimal(ratio.denominator)).normalize()
        assert Fraction(shown) == ratio
        assert len(shown.as_tuple().digits) in (11, 12)  # the last may be 0


def test_what_is_shown_to_hold():
    cases = {("1", "20"): True, ("1", "1"): False, ("0", "1"): False, (f"1/{10**400}", "1"): False}
    for (rho, epsilon), holds in cases.items():
        assert conversion.holds(Fraction(rho), Fraction(epsilon), Fraction("1e-6")) is holds
    assert conversion.epsilon_of(Fraction("1e-9"), Fraction("0.5")) == 0
    for delta in (Fraction(1), Fraction(2), Fraction(0), Fraction(-1, 2)):
        with pytest.raises(ParameterError, match="`delta` must be above 0 and below 1"):
            conversion.rho_of(Fraction(1), delta)


def test_a_search_that_goes_too_far_is_put_right_by_the_check(monkeypatch):
    """The floats find a rho that is some 1e-11 too large; the check in decimals steps back to one that holds."""
    honest = conversion.log_delta
    monkeypatch.setattr(conversion, "log_delta", lambda *given: honest(*given) - 3e-10)
    assert smallest_delta(real(conversion.rho_of(Fraction(1), Fraction("1e-10"))), mpmath.mpf(1)) <= 1e-10
    epsilon = conversion.epsilon_of(Fraction("0.005"), Fraction("1e-6"))
    assert smallest_delta(mpmath.mpf("0.005"), real(epsilon)) <= 1e-6


@pytest.mark.parametrize(("rho", "epsilon"), [(1e-6, 5.0), (1e-9, 0.1), (0.5, 1.0), (30.0, 200.0)])
def test_the_best_alpha_is_found_however_large_it_is(rho, epsilon):
    alpha = conversion.best_alpha(rho, epsilon)
    there = conversion.log_delta(rho, epsilon, alpha)
    for other in (0.9, 0.99, 1.01, 1.1):
        assert there <= conversion.log_delta(rho, epsilon, 1 + (alpha - 1) * other)


def test_epsilon_is_0_only_where_that_is_shown():
    """With a large delta a small rho gives (0, delta)-DP. Just above the largest such rho, epsilon is tiny, and not 0."""
    delta, low, high = Fraction(1, 2), Fraction(1, 100), Fraction(2)
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
        alpha, r, e = mpmath.mpf(conversion.best_alpha(float(rho), float(epsilon))), real(rho), real(epsilon)
        exponent = (alpha - 1) * (alpha * r - e) + alpha * mpmath.log(1 - 1 / alpha) - mpmath.log(alpha - 1)
        for slack, shown in ((0.5, False), (1.5, True)):
            delta = mpmath.exp(exponent + (abs(exponent) + slack) * mpmath.mpf("1e-40"))
            exact = Fraction(int(delta.man)) * Fraction(2) ** int(delta.exp)
            assert conversion.holds(rho, epsilon, exact) is shown
