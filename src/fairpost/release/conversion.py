"""Between zCDP and (epsilon, delta), on the safe side.

Canonne, Kamath and Steinke (2020, Proposition 12 with the Rényi divergence alpha rho of rho-zCDP): for every alpha > 1,
rho-zCDP implies (epsilon, delta)-DP with

    delta = exp((alpha - 1)(alpha rho - epsilon)) (1 - 1/alpha)^alpha / (alpha - 1).

Any alpha gives a valid delta, so alpha is searched for in floats and the bound is then checked once in decimals of 50
digits: the answer is a proof, however rough the search. `rho_of` rounds down and `epsilon_of` up.
"""

from __future__ import annotations

import math
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


def best_alpha(rho: float, epsilon: float) -> float:
    """About the best alpha: golden-section search over log(alpha - 1), in which the bound has one valley."""
    low, high = math.log(1e-6), math.log(max(1e3, 10 * (1 + epsilon) / rho))
    golden = (math.sqrt(5) - 1) / 2
    for _ in range(90):
        left, right = high - golden * (high - low), low + golden * (high - low)
        if log_delta(rho, epsilon, 1 + math.exp(left)) < log_delta(rho, epsilon, 1 + math.exp(right)):
            high = right
        else:
            low = left
    return 1 + math.exp((low + high) / 2)


def holds(rho: Fraction, epsilon: Fraction, delta: Fraction) -> bool:
    """Whether rho-zCDP is shown to imply (epsilon, delta)-DP."""
    if float(rho) == 0:
        return False
    with localcontext(PRECISE):
        alpha = Decimal(best_alpha(float(rho), float(epsilon)))
        r, e, d = (Decimal(v.numerator) / Decimal(v.denominator) for v in (rho, epsilon, delta))
        exponent = (alpha - 1) * (alpha * r - e) + alpha * (1 - 1 / alpha).ln() - (alpha - 1).ln()
        return exponent + abs(exponent) * SLACK + SLACK <= d.ln()


def rho_of(epsilon: Fraction, delta: Fraction) -> Fraction:
    """About the largest rho, with 12 digits, that implies (epsilon, delta)-DP; never above it."""
    if not 0 < delta < 1:
        raise ParameterError(f"`delta` must be above 0 and below 1, got {delta}")
    # Bun and Steinke's simpler conversion gives a rho that certainly holds; twice epsilon never does at delta < 1.
    low, high = _simple(float(epsilon), float(delta)), 4 * (float(epsilon) + 1)
    for _ in range(200):
        middle = math.sqrt(low * high)
        below = log_delta(middle, float(epsilon), best_alpha(middle, float(epsilon))) <= math.log(float(delta))
        low, high = (middle, high) if below else (low, middle)
    rho, step = _down(low)
    while not holds(rho, epsilon, delta):
        rho -= step
    return rho


def epsilon_of(rho: Fraction, delta: Fraction) -> Fraction:
    """About the smallest epsilon, with 12 digits, that rho-zCDP gives at this delta; never below it."""
    r, d = float(rho), float(delta)
    low, high = 0.0, r + 2 * math.sqrt(r * math.log(1 / d))
    for _ in range(200):
        middle = (low + high) / 2
        above = log_delta(r, middle, best_alpha(r, middle)) <= math.log(d)
        low, high = (low, middle) if above else (middle, high)
    epsilon, step = _down(high)
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
