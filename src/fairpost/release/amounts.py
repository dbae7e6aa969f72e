"""Amounts of privacy loss: ratios that come from text. No float ever enters a sum, a comparison or a promise.

A float such as 0.1 is not the number that was meant, and sums of floats let a limit of 1 admit nine charges of 0.1 and
not ten, or lose a small charge altogether. So an amount is a `Fraction`, typed as `0.1`, `1/3` or `1e-10`, and floats
are refused. Where a sampler needs a float (a scale), it is rounded up: more noise, never less.

    discrete Laplace     scale b >= D1 / epsilon              epsilon-DP        (Ghosh, Roughgarden, Sundararajan 2009)
    discrete Gaussian    sigma^2 >= D2^2 / (2 rho)            rho-zCDP          (Canonne, Kamath, Steinke 2020, Thm 4)

D2 is kept squared, so that sqrt 2 never appears.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from fractions import Fraction
from typing import Any

from fairpost.errors import ParameterError

FORM = re.compile(r"(\d{1,60})(?:\.(\d{1,60}))?(?:[eE]([+-]?\d{1,2}))?|(\d{1,60})/(\d{1,60})", re.ASCII)
"""0.1, 12, 1e-10, 1/3: digits and nothing else, and not so many that a message would be unreadable."""


def amount(given: Any, name: str) -> Fraction:
    """`given` as a ratio above 0: text, a whole number, a `Fraction` or a `Decimal`; a float is refused."""
    if isinstance(given, bool) or not isinstance(given, (str, int, Fraction, Decimal)):
        kind = type(given).__name__
        raise ParameterError(f'`{name}` must be exact: a text such as "0.1" or "1/3", got the {kind} {given!r}')
    found = _parsed(given)
    if found is None or found <= 0:
        raise ParameterError(f'`{name}` must be an amount above 0 such as "0.1" or "1/3", got {str(given)[:60]!r}')
    return found


def share(given: Any, name: str) -> Fraction:
    """`given` as a ratio from 0: an amount, or exactly 0."""
    exact = isinstance(given, (str, int, Fraction, Decimal)) and not isinstance(given, bool)
    return Fraction(0) if exact and _parsed(given) == 0 else amount(given, name)


def _parsed(given: str | int | Fraction | Decimal) -> Fraction | None:
    if isinstance(given, Decimal):
        return Fraction(given) if given.is_finite() and abs(given.adjusted()) <= 60 else None
    if not isinstance(given, str):
        return Fraction(given)
    form = FORM.fullmatch(given.strip())
    if form is None or (form[5] is not None and int(form[5]) == 0):
        return None
    return Fraction(given.strip())


def rounded(ratio: Fraction, *, up: bool, digits: int = 12) -> str:
    """A decimal for people, rounded towards more (what is spent) or towards less (what is left)."""
    scaled = ratio * 10**digits
    whole = math.ceil(scaled) if up else math.floor(scaled)
    sign, whole = ("-", -whole) if whole < 0 else ("", whole)
    before, after = divmod(whole, 10**digits)
    fraction = f"{after:0{digits}d}".rstrip("0")
    return f"{sign}{before}.{fraction}" if fraction else f"{sign}{before}"


def decimal_of(number: float) -> str:
    """A float as the decimal that it is, exactly."""
    return f"{Decimal(number):f}"


def float_up(ratio: Fraction) -> float:
    """The smallest float that is at least `ratio`: the nearest float, or the one above it."""
    near = float(ratio)
    return near if Fraction(near) >= ratio else math.nextafter(near, math.inf)


def root_up(square: Fraction) -> float:
    """The smallest float whose square, as a ratio, is at least `square`.

    float() and sqrt() are each right to half an ulp, which is 3/4 of an ulp of the root: above it, the first float is the smallest.
    """
    near = math.sqrt(float(square))
    while Fraction(near) ** 2 < square:
        near = math.nextafter(near, math.inf)
    return near


def laplace_scale(epsilon: Fraction, l1: Fraction) -> float:
    """A float b with D1 / b <= epsilon, as ratios."""
    return float_up(l1 / epsilon)


def gaussian_sigma(rho: Fraction, l2_squared: Fraction) -> float:
    """A float sigma with D2^2 / (2 sigma^2) <= rho, as ratios."""
    return root_up(l2_squared / (2 * rho))


def rho_of_pure(epsilon: Fraction) -> Fraction:
    """epsilon-DP is (epsilon^2 / 2)-zCDP (Bun and Steinke 2016, Prop. 1.4)."""
    return epsilon * epsilon / 2
