"""From a privacy promise to a noise scale, and back; each rule with its source.

Sensitivity D is the most that one person can change the vector of counts. The Laplace pair takes it in
L1, the Gaussian pair in L2. When each person is in exactly one entity:

    neighbours differ by ...              L1      L2
    adding or removing one person         1       1
    replacing one person by another       2       sqrt 2

The default, 1, is the first row.

A promise has to hold, so every sigma of the Gaussian pair is rounded up, and so is every epsilon and rho that is reported
(rho that is asked for is rounded down). The Laplace pair's quotients are rounded to nearest.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Context, Decimal, localcontext
from fractions import Fraction

from fairpost.errors import ParameterError
from fairpost.noise.base import positive
from fairpost.roots import root

EPS = 2.0**-52
ROOT = math.sqrt(math.pi / 2)
DIGITS = 12
"""Significant digits of a conversion."""
PRECISE = Context(prec=50)
SLACK = Decimal("1e-40")
"""Far above the rounding of a dozen operations with 50 digits (each below 1e-49, exponents below 1e6), far below 1."""


def _probability(name: str, value: float) -> float:
    number = positive(name, value)
    if number >= 1:
        raise ParameterError(f"`{name}` must be below 1, got {value!r}")
    return number


def laplace_scale(epsilon: float, sensitivity: float = 1.0) -> float:
    """B = D1 / epsilon: pure epsilon-DP (Dwork, McSherry, Nissim, Smith 2006), Laplace and discrete Laplace."""
    return positive("sensitivity", sensitivity) / positive("epsilon", epsilon)


def pure_from_rho(rho: float) -> float:
    """The epsilon whose pure DP gives rho-zCDP: epsilon^2 / 2 = rho (Bun and Steinke 2016, Prop. 1.4)."""
    return math.sqrt(2 * positive("rho", rho))


def gaussian_sigma_classic(epsilon: float, delta: float, sensitivity: float = 1.0) -> float:
    """Sigma = D2 sqrt(2 ln(1.25/delta)) / epsilon (Dwork and Roth 2014, Theorem 3.22; the paper's Section 3).

    The proof needs epsilon <= 1 (and the bound c^2 > 2 ln(1.25/delta) is an infimum: this is its limit).
    Above 1 the rule can promise more than it keeps, so it is refused there.
    """
    eps, d = positive("epsilon", epsilon), _probability("delta", delta)
    if eps > 1:
        raise ParameterError(f"the classic Gaussian rule is valid for `epsilon` <= 1 only, got {epsilon!r}")
    return positive("sensitivity", sensitivity) * math.sqrt(2 * math.log(1.25 / d)) / eps


def _gaussian_log_delta(epsilon: float, ratio: float) -> float:
    """An upper bound, by rounding only, on the log of Balle and Wang's delta(epsilon), m = D2/sigma = ratio.

    delta = Phi(m/2 - eps/m) - e^eps Phi(-m/2 - eps/m) cancels where m is small. With u = eps/m - m/2 and v = u + m,
    e^eps phi(v) = phi(u), so delta = phi(u) (R(u) - R(v)), R(x) = (1 - Phi(x)) / phi(x) = sqrt(pi/2) erfcx(x / sqrt 2).
    For m < 1/2 the difference is the integral of -R'(x) = 1 - x R(x) > 0 over (u, v), by 16 Gauss-Legendre nodes.

    Rounding: u^2/2 has the relative error 4 eps (u is a difference of two rounded numbers, eps/m + m/2 their size),
    1 - x R(x) ~ 1/x^2 a relative error of (2 + x^2) 4 eps, and for m >= 1/2 R(u) - R(v), of the size R(u) m/(v + 1) at
    least, one of (v + 1) 8 eps. The sum is below 8 eps (4 + v^2): it is added. It leaves room for the rounding of log(delta), to which
    it is compared: half an eps of u^2/2.
    """
    from scipy.special import erfcx, log_ndtr, roots_legendre

    u, v = epsilon / ratio - ratio / 2, epsilon / ratio + ratio / 2
    rounding = 8 * EPS * (4 + v * v)
    if ratio >= 0.5:
        gap = ROOT * float(erfcx(u / math.sqrt(2)) - erfcx(v / math.sqrt(2)))
    else:
        node, weight = roots_legendre(16)
        x = u + (node + 1) / 2 * ratio
        gap = ratio / 2 * float(weight @ (1 - x * ROOT * erfcx(x / math.sqrt(2))))
    if gap == math.inf:  # delta is 1, but for e^-300
        return 0.0
    if gap <= 0.0:  # beyond the reach of doubles: delta < phi(u) R(u)
        return float(log_ndtr(-u)) + rounding
    return -u * u / 2 - math.log(2 * math.pi) / 2 + math.log(gap) + rounding


def _settled(start: float, away: float, holds: Callable[[float], bool]) -> float:
    """`start`, or the first number in the direction of `away` for which the promise is shown, in growing steps."""
    step = EPS
    while not holds(start):
        start += math.copysign(step * abs(start), away - start)
        step *= 2
    return start


def gaussian_sigma(epsilon: float, delta: float, sensitivity: float = 1.0) -> float:
    """The analytic Gaussian mechanism: the smallest sigma with (epsilon, delta)-DP (Balle and Wang 2018, Thm 8).

    Rounded up, by some 1e-13 of it: delta grows with m, so every smaller m keeps the promise.
    """
    eps, target = positive("epsilon", epsilon), math.log(_probability("delta", delta))
    low, high = -1.0, 1.0
    while _gaussian_log_delta(eps, math.exp(low)) > target:
        low *= 2
    while _gaussian_log_delta(eps, math.exp(high)) < target:
        high *= 2
    found = root(lambda v: _gaussian_log_delta(eps, math.exp(v)) - target, low, high, xtol=1e-14, rtol=1e-14)
    ratio = _settled(math.exp(found), 0.0, lambda m: _gaussian_log_delta(eps, m) <= target)
    return math.nextafter(positive("sensitivity", sensitivity) / ratio, math.inf)


def gaussian_epsilon(sigma: float, delta: float, sensitivity: float = 1.0) -> float:
    """The smallest epsilon >= 0 for which noise of this sigma is (epsilon, delta)-DP (Balle and Wang 2018), rounded up."""
    ratio = math.nextafter(positive("sensitivity", sensitivity) / positive("sigma", sigma), math.inf)
    target = math.log(_probability("delta", delta))
    if _gaussian_log_delta(0.0, ratio) <= target:
        return 0.0
    high = 1.0
    while _gaussian_log_delta(high, ratio) > target:
        high *= 2
    found = root(lambda e: _gaussian_log_delta(e, ratio) - target, 0.0, high, xtol=1e-15, rtol=1e-14)
    return _settled(max(found, 1e-300), math.inf, lambda e: _gaussian_log_delta(e, ratio) <= target)


def gaussian_sigma_zcdp(rho: float, sensitivity: float = 1.0) -> float:
    """Sigma = D2 / sqrt(2 rho): rho-zCDP, Gaussian (Bun and Steinke 2016) and discrete Gaussian (Canonne et al. 2020).

    Rounded up: D2^2 <= 2 rho sigma^2 holds for the numbers themselves.
    """
    d, r = positive("sensitivity", sensitivity), positive("rho", rho)
    return _upwards(d / math.sqrt(2 * r), lambda sigma: Fraction(d) ** 2 <= 2 * Fraction(r) * Fraction(sigma) ** 2)


def gaussian_rho(sigma: float, sensitivity: float = 1.0) -> float:
    """Rho = D2^2 / (2 sigma^2), rounded up."""
    d, s = positive("sensitivity", sensitivity), positive("sigma", sigma)
    return _upwards((d / s) ** 2 / 2, lambda rho: Fraction(d) ** 2 <= 2 * Fraction(rho) * Fraction(s) ** 2)


def _upwards(start: float, holds: Callable[[float], bool]) -> float:
    """The least double at or just below `start` (by rounding) for which it holds."""
    found = start * (1 - 4 * EPS)
    while not holds(found):
        found = math.nextafter(found, math.inf)
    return found


# ------------------------------------------------------------------ between zCDP and (epsilon, delta)
# Canonne, Kamath and Steinke (2020, Proposition 12 with the Rényi divergence alpha rho of rho-zCDP): for every alpha > 1,
# rho-zCDP implies (epsilon, delta)-DP with
#
#     delta = exp((alpha - 1)(alpha rho - epsilon)) (1 - 1/alpha)^alpha / (alpha - 1).
#
# Any alpha gives a valid delta, so alpha is searched for in floats and the bound is then checked once in decimals of 50
# digits: the answer is a proof, however rough the search. `rho_of` rounds down and `epsilon_of` up.


def _zcdp_log_delta(rho: float, epsilon: float, alpha: float) -> float:
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
    return least(lambda alpha: _zcdp_log_delta(rho, epsilon, alpha), max(1e3, 10 * (1 + epsilon) / rho))


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


def epsilon_from_rho(rho: float, delta: float) -> float:
    """The epsilon that rho-zCDP gives at this delta, as a float: rounded up."""
    exact = epsilon_of(Fraction(positive("rho", rho)), Fraction(_probability("delta", delta)))
    return _upwards(float(exact), lambda e: Fraction(e) >= exact)


def rho_from_epsilon(epsilon: float, delta: float) -> float:
    """The largest rho that gives (epsilon, delta)-DP, as a float: rounded down."""
    exact = rho_of(Fraction(positive("epsilon", epsilon)), Fraction(_probability("delta", delta)))
    return -_upwards(-float(exact) * (1 + 8 * EPS), lambda r: Fraction(-r) <= exact)
