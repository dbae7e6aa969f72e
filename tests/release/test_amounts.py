"""Amounts are ratios, floats are refused, scales are rounded up, conversions are on the safe side.

From inside, where a promise is held to its last digit: the scale of a loss, and the proof of a conversion.
"""

import json
import math
import random
from decimal import Decimal
from fractions import Fraction

import mpmath
import pytest

import fairpost as fp
from fairpost.errors import ParameterError
from fairpost.noise import calibration
from fairpost.release import amounts
from support.commands import call
from support.releases import released, with_selftest

GOOD = {
    "0.1": "1/10", "1/3": "1/3", "1e-10": "1/10000000000", 2: "2", Fraction(3, 7): "3/7", Decimal("0.25"): "1/4", Decimal("12.5"): "25/2",
    Decimal("1e60"): 10**60, Decimal("1e-60"): Fraction(1, 10**60),
}  # fmt: skip
FLOATS = [0.1, 1.0, 0.0, -0.0, True, False, None, float("nan"), b"1", [1]]
BAD = ["0", "-1", "", "x", "1/0", "0/5", "nan", "inf", "1.", ".5", "1_0", "٣", "1 /2", "1e999", "9" * 80]
BAD += [Decimal(d) for d in ("1e61", "1e-61", "NaN", "Infinity", "-1", "0")]


def limit_of(folder, given, **more):
    """An amount as a ledger takes it: its limit."""
    (folder / "l").unlink(missing_ok=True)
    return fp.Ledger.create(folder / "l", dataset="d", limit=given, **more).terms.limit


def test_an_amount_is_the_ratio_that_was_typed(tmp_path):
    for given, wanted in GOOD.items():
        assert limit_of(tmp_path, given) == Fraction(wanted)


@pytest.mark.parametrize("given", [*FLOATS, *BAD], ids=repr)
def test_what_is_not_exact_or_no_amount_above_0_is_refused_by_name(tmp_path, given):
    with pytest.raises(ParameterError) as refused:
        limit_of(tmp_path, given)
    no_amount = f'`limit` must be an amount above 0 such as "0.1" or "1/3", got {str(given)[:60]!r}'
    if isinstance(given, str | Decimal):
        assert str(refused.value) == no_amount
    else:
        assert str(refused.value).startswith("`limit` must be exact")


def test_20000_random_decimals_the_scale_never_promises_more_than_it_keeps():
    chance, worse = random.Random(20), 0
    for _ in range(20_000):
        text = f"{chance.randrange(1, 10 ** chance.randint(1, 17))}e-{chance.randint(0, 15)}"
        epsilon = Fraction(text)
        D = Fraction(chance.choice((1, 2, 3, 7, 20)))
        b = amounts.laplace_scale(epsilon, D)
        assert D / Fraction(b) <= epsilon, text
        assert D / Fraction(math.nextafter(b, 0.0)) > epsilon, f"{text}: a smaller float would do"
        sigma = amounts.gaussian_sigma(epsilon, D)
        assert D / (2 * Fraction(sigma) ** 2) <= epsilon, text
        assert D / (2 * Fraction(math.nextafter(sigma, 0.0)) ** 2) > epsilon, text
        worse += D / Fraction(float(D) / float(epsilon)) > epsilon
    assert worse > 5_000  # floats that are not rounded up break the promise in about half of the cases


def test_what_is_left_is_shown_rounded_down_and_what_is_spent_rounded_up(tmp_path):
    for limit, loss, left in (("1", "1/3", "0.666666666666"), ("1", "0.9", "0.1"), ("7/3", "1/5", "2.133333333333")):
        book = with_selftest(fp.Ledger.create(tmp_path / f"l{limit[0]}{loss[-1]}", dataset="d", limit=limit))
        released(with_selftest(book, ("discrete-laplace", float(1 / Fraction(loss)))), epsilon=loss)
        shown = json.loads(call("budget", "show", book.path, "--json", "-").stdout)
        assert (shown["left_rounded_down"], Fraction(shown["left"])) == (left, Fraction(limit) - Fraction(loss))


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


@pytest.mark.parametrize("delta", ["1e-60", "1e-10", "0.1"])
@pytest.mark.parametrize("epsilon", ["1e-4", "0.01", "0.5", "1", "17.14", "100", "600"])
def test_both_conversions_are_the_best_ones_on_the_safe_side(tmp_path, epsilon, delta):
    """Of a limit in (epsilon, delta), and back: to 11 digits; below epsilon = 0.1, where the search in floats cancels, to 8."""
    e, d = Fraction(epsilon), Fraction(delta)
    rho, part = (
        limit_of(tmp_path, epsilon, measure="zcdp", limit_delta=delta),
        Fraction(1, 10 ** (11 if e > 0.1 else 8)),
    )
    with mpmath.workdps(40):
        assert smallest_delta(real(rho), real(e)) <= mpmath.mpf(delta) < smallest_delta(real(rho * (1 + part)), real(e))
    back = calibration.epsilon_of(rho, d)
    assert e * (1 - part) <= back <= e * (1 + part)
    for ratio in (rho, back):
        shown = (Decimal(ratio.numerator) / Decimal(ratio.denominator)).normalize()
        assert Fraction(shown) == ratio
        assert len(shown.as_tuple().digits) <= 12


def test_a_delta_is_above_0_and_below_1(tmp_path):
    for delta in ("1", "2", "1.5"):
        with pytest.raises(ParameterError, match="delta"):
            limit_of(tmp_path, "1", measure="zcdp", limit_delta=delta)


def test_epsilon_is_0_only_where_that_is_shown():
    """With a large delta a small rho gives (0, delta)-DP. Just above the largest such rho, epsilon is tiny, and not 0."""
    delta, low, high = Fraction(1, 2), Fraction(1, 100), Fraction(2)
    assert calibration.epsilon_of(low, delta) == 0
    while high - low > Fraction(1, 10**14):
        middle = (low + high) / 2
        low, high = (low, middle) if calibration.epsilon_of(middle, delta) else (middle, high)
    found = calibration.epsilon_of(high, delta)
    assert 0 < found < Fraction(1, 10**8)
    assert smallest_delta(real(high), real(found)) <= 0.5


@pytest.mark.parametrize(("rho", "epsilon"), [("1/2", "1"), ("1/200", "2/5"), ("3", "20")])
def test_a_conversion_is_shown_with_room_for_the_rounding_of_its_own_proof(rho, epsilon):
    """delta must exceed the bound by the relative and the absolute slack of 1e-40; between the two it is not enough."""
    rho, epsilon = Fraction(rho), Fraction(epsilon)
    with mpmath.workdps(80):
        alpha, r, e = mpmath.mpf(calibration.best_alpha(float(rho), float(epsilon))), real(rho), real(epsilon)
        exponent = (alpha - 1) * (alpha * r - e) + alpha * mpmath.log(1 - 1 / alpha) - mpmath.log(alpha - 1)
        for slack, shown in ((0.5, False), (1.5, True)):
            delta = mpmath.exp(exponent + (abs(exponent) + slack) * mpmath.mpf("1e-40"))
            exact = Fraction(int(delta.man)) * Fraction(2) ** int(delta.exp)
            assert calibration.holds(rho, epsilon, exact) is shown
