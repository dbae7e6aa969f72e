"""Between zCDP and (epsilon, delta), on the safe side.

Canonne, Kamath and Steinke (2020, Proposition 12 with the Rényi divergence alpha rho of rho-zCDP): for every alpha > 1,
rho-zCDP implies (epsilon, delta)-DP with

    delta = exp((alpha - 1)(alpha rho - epsilon)) (1 - 1/alpha)^alpha / (alpha - 1).

Any alpha gives a valid delta, so alpha is searched for in floats and the bound is then checked once in decimals of 50
digits: the answer is a proof, however rough the search. `rho_of` rounds down and `epsilon_of` up.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Context, Decimal, localcontext
from fractions import Fraction

from fairpost.errors import ParameterError

DIGITS = 12
"""Significant digits of an answer."""
PRECISE = Context(prec=50)
SLACK = Decimal("1e-40")
"""Far above the rounding of a dozen operations with 50 digits (each below 1e-49, exponents below 1e6), far below 1."""


def log_delta(rho: float, epsilon: float, alpha: float) -> float:
    """Log of the bound, in floats."""
    return (alpha - 1) * (alpha * rho - epsilon) + alpha * math.log1p(-1 / alpha) - math.log(alpha - 1)


def least(f: Callable[[float], float], highest: float) -> float:
    """The alpha in (1, highest) where f is least: golden-section search over log(alpha - 1), where f has one valley."""
    low, high = math.log(1e-6), math.log(highest)
    golden = (math.sqrt(5) - 1) / 2
    for _ in range(90):
        left, right = high - golden * (high - low), low + golden * (high - low)
        if f(1 + math.exp(left)) < f(1 + math.exp(right)):
            high = right
        else:
            low = left
    return 1 + math.exp((low + high) / 2)


def best_alpha(rho: float, epsilon: float) -> float:
    """About the best alpha for these two."""
    return least(lambda alpha: log_delta(rho, epsilon, alpha), max(1e3, 10 * (1 + epsilon) / rho))


def holds(rho: Fraction, epsilon: Fraction, delta: Fraction) -> bool:
    """Whether rho-zCDP is shown to imply (epsilon, delta)-DP."""
    if float(rho) == 0:
        return False
    with localcontext(PRECISE):
        alpha = Decimal(best_alpha(float(rho), float(epsilon)))
        r, e, d = (Decimal(v.numerator) / Decimal(v.denominator) for v in (rho, epsilon, delta))
        exponent = (alpha - 1) * (alpha * r - e) + alpha * (1 - 1 / alpha).ln() - (alpha - 1).ln()
        return exponent + abs(exponent) * SLACK + SLACK <= d.ln()


def _rest(delta: float, alpha: float) -> float:
    """What the bound adds to alpha rho: epsilon = alpha rho + rest, the formula for delta solved for epsilon."""
    return math.log(alpha - 1) - (alpha * math.log(alpha) + math.log(delta)) / (alpha - 1)


def rho_of(epsilon: Fraction, delta: Fraction) -> Fraction:
    """About the largest rho, with 12 digits, that implies (epsilon, delta)-DP; never above it."""
    if not 0 < delta < 1:
        raise ParameterError(f"`delta` must be above 0 and below 1, got {delta}")
    e, d = float(epsilon), float(delta)
    # Bun and Steinke's simpler conversion gives a rho that certainly holds, and the best alpha is about
    # 1 + sqrt(log(1/delta) / rho): for every delta above 1e-308 it is below the end of the search
    simple = _simple(e, d)
    alpha = least(lambda a: (_rest(d, a) - e) / a, max(1e3, 10 / simple))
    rho, step = _down(max(simple, (e - _rest(d, alpha)) / alpha))
    while not holds(rho, epsilon, delta):
        rho -= step
    return rho


def epsilon_of(rho: Fraction, delta: Fraction) -> Fraction:
    """About the smallest epsilon, with 12 digits, that rho-zCDP gives at this delta; never below it."""
    r, d = float(rho), float(delta)
    simple = r + 2 * math.sqrt(r * math.log(1 / d))
    alpha = least(lambda a: a * r + _rest(d, a), max(1e3, 10 / r))
    found = min(simple, alpha * r + _rest(d, alpha))
    if holds(rho, Fraction(0), delta):
        return Fraction(0)
    epsilon, step = _down(max(found, 1e-9 * simple))
    while not holds(rho, epsilon, delta):
        epsilon += step
    return epsilon


def _simple(epsilon: float, delta: float) -> float:
    log = math.log(1 / delta)
    return (epsilon / (math.sqrt(log + epsilon) + math.sqrt(log))) ** 2


def _down(number: float) -> tuple[Fraction, Fraction]:
    """A float cut to 12 significant digits, and one unit of the last of them."""
    step = Fraction(10) ** (math.floor(math.log10(number)) + 1 - DIGITS)
    return Fraction(number) // step * step, step
