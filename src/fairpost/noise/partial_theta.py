"""Partial transforms of discrete Gaussian noise without a table: S_j = sum_{l >= 0} l^j e^{sl} P(eta = m + l), real s, j = 0, 1, 2.

With v = sigma^2 and alpha = m/v - s the terms are P(eta = m) l^j w(l), w(l) = e^{-alpha l - l^2/2v}, and there are two ways.

**A sum of few terms.** Where alpha > STEEP each term is below e^-STEEP of the one before: l up to LONGEST is all. Likewise for sigma below
LARGE, where l runs to 15 sigma past the peak.

**Euler and Maclaurin.** Elsewhere the sum is the integral with what its end adds,

    S_j = c E[(eta' - m)^j e^{s (eta' - m)}; eta' > m] + P(eta = m) (1{j = 0}/2 - sum_{r=1}^{R} B_{2r}/(2r) w_{2r-1-j}),

eta' normal, c = sigma sqrt(2 pi) / sum_k e^{-k^2/2v}, B the Bernoulli numbers, and w_k the Taylor coefficients of w:
(k + 1) w_{k+1} = -alpha w_k - w_{k-1}/v, since the (2r-1)-th derivative of l^j w at 0 is (2r-1)! w_{2r-1-j}. What is left out is about
2 (|alpha|/2 pi)^{2R} P(eta = m) for large |alpha| sigma and 2 sqrt((2R)!) (2 pi sigma)^{-2R} P(eta = m) for small: with R = 10,
|alpha| <= STEEP and sigma >= LARGE at most 1e-17. alpha below -STEEP has the peak above m: there P(eta = m) is e^{-(alpha sigma)^2/2}
of it, which makes up for (|alpha|/2 pi)^{2R} (at sigma = 4, alpha = -2: 1e-24), and from alpha sigma = -FAR on the end adds nothing.
"""

from __future__ import annotations

import numpy as np

from fairpost.noise.base import Floats
from fairpost.noise.continuous import Gaussian

LARGE = 4.0
STEEP = 0.9
LONGEST = 45
"""e^{-45 * 0.9} = 3e-18."""
FAR = 9.5
"""e^{-9.5^2/2} = 3e-20."""
BERNOULLI = (
    1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798, -174611 / 330,
)  # fmt: skip
"""B_2, B_4, ..., B_20."""


def partial_sums(sigma: float, log_norm: float, m: Floats, s: Floats) -> list[Floats]:
    """S_0, S_1 and S_2 for each whole m and s; log_norm = log sum_k e^{-k^2/2 sigma^2}."""
    alpha = m / sigma**2 - s
    first = np.exp(-((m / sigma) ** 2) / 2 - log_norm)
    out = [np.empty(m.shape) for _ in range(3)]
    summed = (alpha > STEEP) if sigma >= LARGE else np.ones(m.shape, dtype=bool)
    for where, form in ((summed, _by_terms), (~summed, _by_ends)):
        if where.any():
            for whole, part in zip(
                out, form(sigma, log_norm, m[where], s[where], alpha[where], first[where]), strict=True
            ):
                whole[where] = part
    return out


def _by_terms(sigma: float, log_norm: float, m: Floats, s: Floats, alpha: Floats, first: Floats) -> list[Floats]:
    """All terms, two products each: w(l + 1)/w(l) = e^{-alpha - (2l + 1)/2v} falls by e^{-1/v} from one to the next."""
    last = LONGEST if sigma >= LARGE else int(np.ceil(15 * sigma + max(0.0, -float(np.min(alpha)) * sigma**2))) + 1
    term, ratio, fall = first.copy(), np.exp(-alpha - 0.5 / sigma**2), float(np.exp(-1 / sigma**2))
    zeroth, one, two = term.copy(), np.zeros_like(term), np.zeros_like(term)
    for l in range(1, last + 1):
        term *= ratio
        ratio *= fall
        zeroth += term
        one += l * term
        two += (l * l) * term
    return [zeroth, one, two]


def _by_ends(sigma: float, log_norm: float, m: Floats, s: Floats, alpha: Floats, first: Floats) -> list[Floats]:
    """The integral and its end."""
    scale = sigma * np.sqrt(2 * np.pi) * np.exp(-log_norm)
    end = np.where(alpha * sigma < -FAR, 0.0, first)
    taylor = _taylor(sigma, np.maximum(alpha, -FAR / sigma))
    out = []
    for j in range(3):
        add = sum(b / (2 * r) * taylor[2 * r - 1 - j] for r, b in enumerate(BERNOULLI, start=1) if 2 * r - 1 >= j)
        out.append(scale * Gaussian(sigma).upper(m, s, j) + end * ((0.5 if j == 0 else 0.0) - add))
    return out


def _taylor(sigma: float, alpha: Floats) -> list[Floats]:
    found = [np.ones_like(alpha), -alpha]
    for k in range(1, 2 * len(BERNOULLI) - 1):
        found.append(-(alpha * found[k] + found[k - 1] / sigma**2) / (k + 1))
    return found
