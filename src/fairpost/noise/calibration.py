"""From a privacy promise to a noise scale, and back; each rule with its source.

Sensitivity D is the most that one person can change the vector of counts. The Laplace pair takes it in
L1, the Gaussian pair in L2. When each person is in exactly one entity:

    neighbours differ by ...              L1      L2
    adding or removing one person         1       1
    replacing one person by another       2       sqrt 2

The default, 1, is the first row.
"""

from __future__ import annotations

import math

from fairpost.errors import ParameterError
from fairpost.noise.base import positive


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


def _log_delta(epsilon: float, ratio: float) -> float:
    """Log of Balle and Wang's delta(epsilon) = Phi(m/2 - eps/m) - e^eps Phi(-m/2 - eps/m), m = D2/sigma = ratio."""
    from scipy.special import log_ndtr

    first = float(log_ndtr(ratio / 2 - epsilon / ratio))
    gap = epsilon + float(log_ndtr(-ratio / 2 - epsilon / ratio)) - first
    return first + math.log(-math.expm1(gap)) if gap < 0 else -math.inf


def gaussian_sigma(epsilon: float, delta: float, sensitivity: float = 1.0) -> float:
    """The analytic Gaussian mechanism: the smallest sigma with (epsilon, delta)-DP (Balle and Wang 2018, Thm 8)."""
    from scipy.optimize import brentq

    eps, target = positive("epsilon", epsilon), math.log(_probability("delta", delta))
    low, high = -1.0, 1.0
    while _log_delta(eps, math.exp(low)) > target:
        low *= 2
    while _log_delta(eps, math.exp(high)) < target:
        high *= 2
    root = brentq(lambda v: _log_delta(eps, math.exp(v)) - target, low, high, xtol=1e-14, rtol=1e-14)
    return positive("sensitivity", sensitivity) / math.exp(root)


def gaussian_epsilon(sigma: float, delta: float, sensitivity: float = 1.0) -> float:
    """The smallest epsilon >= 0 for which noise of this sigma is (epsilon, delta)-DP (Balle and Wang 2018)."""
    from scipy.optimize import brentq

    ratio = positive("sensitivity", sensitivity) / positive("sigma", sigma)
    target = math.log(_probability("delta", delta))
    if _log_delta(0.0, ratio) <= target:
        return 0.0
    high = 1.0
    while _log_delta(high, ratio) > target:
        high *= 2
    return float(brentq(lambda e: _log_delta(e, ratio) - target, 0.0, high, xtol=1e-15, rtol=1e-14))


def gaussian_sigma_zcdp(rho: float, sensitivity: float = 1.0) -> float:
    """Sigma = D2 / sqrt(2 rho): rho-zCDP, Gaussian (Bun and Steinke 2016) and discrete Gaussian (Canonne et al. 2020)."""
    return positive("sensitivity", sensitivity) / math.sqrt(2 * positive("rho", rho))


def gaussian_rho(sigma: float, sensitivity: float = 1.0) -> float:
    """Rho = D2^2 / (2 sigma^2)."""
    return (positive("sensitivity", sensitivity) / positive("sigma", sigma)) ** 2 / 2


def epsilon_from_rho(rho: float, delta: float) -> float:
    """rho-zCDP implies (rho + 2 sqrt(rho ln(1/delta)), delta)-DP (Bun and Steinke 2016, Prop. 1.3)."""
    r = positive("rho", rho)
    return r + 2 * math.sqrt(r * math.log(1 / _probability("delta", delta)))


def rho_from_epsilon(epsilon: float, delta: float) -> float:
    """The rho that `epsilon_from_rho` sends to epsilon."""
    log = math.log(1 / _probability("delta", delta))
    return (positive("epsilon", epsilon) / (math.sqrt(log + epsilon) + math.sqrt(log))) ** 2
