"""Section 6 of the paper, statement by statement: the projection onto a total, with and without v >= 0."""

from __future__ import annotations

import numpy as np

from fairpost.audit import audit
from fairpost.bounds.sum_law import clipped
from fairpost.bounds.theorems import proposition2, theorem1
from fairpost.noise import Gaussian, Law
from fairpost.paper.cases import FIVE, NOISES, draws, noisy
from fairpost.paper.demonstration import Demonstration, Floats, Number, rounding, vector
from fairpost.results.audit import Audit
from fairpost.rules import Simplex, Sum

TOTAL = FIVE.total
HERE = "Counts 1, 2, 5, 12, 30 with C = 50; Laplace noise of scale 3 and Gaussian noise of sigma 4"
LAPLACE = NOISES[0]


def lemma1() -> Demonstration:
    """pi_S in closed form."""
    X = noisy(FIVE, LAPLACE)
    eta = X - FIVE.values
    least_squares = X + np.linalg.lstsq(np.ones((1, 5)), np.array([TOTAL - X.sum()]), rcond=None)[0]
    gap = float(np.abs(Sum(TOTAL)(X) - least_squares).max())
    also = float(np.abs(Sum(TOTAL)(X) - (FIVE.values + eta - eta.mean())).max())
    slack = rounding(X, FIVE.values)
    return Demonstration(
        "Lemma 1",
        "The projection onto a total, in closed form",
        "The nearest vector with sum C adds the same number to every noisy count: pi_S(X)_i = X_i + (C - sum X)/n. "
        "Where C is the true total that is x_i + eta_i - mean(eta), so pi_S is unbiased.",
        "One Laplace draw on counts 1, 2, 5, 12, 30; compared with least squares on the constraint.",
        (
            Number("pi_S(X)", vector(Sum(TOTAL)(X)), slack),
            Number("largest gap to least squares", gap, slack),
            Number("largest gap to x + eta - mean(eta)", also, slack),
        ),
        gap <= slack and also <= slack,
    )


def _risky() -> Floats:
    """The first draw of which the projection clips something."""
    rows = draws(FIVE, LAPLACE, 50)
    return np.asarray(rows[int(np.flatnonzero(Simplex(TOTAL).T(rows)[:, 0] > 0)[0])])


def lemma2() -> Demonstration:
    """The threshold T."""
    X = _risky()
    pi = Simplex(TOTAL)
    T, y, slack = float(pi.T(X)[0]), Sum(TOTAL)(X), rounding(X)
    gap = float(np.abs(np.maximum(y - T, 0.0) - pi(X)).max())
    sums = tuple(float(np.maximum(y - t, 0.0).sum()) for t in (0.9 * T, T, 1.1 * T))
    return Demonstration(
        "Lemma 2",
        "One number T links the two projections",
        "pi_S+(X) is the positive part of pi_S(X) - T, with one T >= 0 for all entries: the only one for which the positive parts sum to C.",
        "One Laplace draw on counts 1, 2, 5, 12, 30 in which something is clipped.",
        (
            Number("pi_S(X)", vector(y), slack),
            Number("pi_S+(X)", vector(pi(X)), slack),
            Number("T", T, slack),
            Number("sum of positive parts at 0.9 T, T, 1.1 T", sums, slack),
        ),
        T >= 0 and gap <= slack and sums[0] > sums[1] + slack and sums[1] > sums[2] + slack,
        "The printed proof has the sign of (C - sum X)/n turned round: the multiplier is at least (sum X - C)/n. The lemma is right.",
    )


def _exact(noise: Law) -> Audit:
    return audit(FIVE, noise, "simplex", engine="exact")


def lemma3() -> Demonstration:
    """Bias differences between two bounds."""
    numbers, holds = [], True
    for noise in NOISES:
        result, part = _exact(noise), clipped(FIVE.values, FIVE.n, noise)
        T, error = (
            0.0 if result.rule.expected_T is None else result.rule.expected_T.value,
            2 * float(result.half_width.max()) + 1e-11,
        )
        pairs = [(i, j) for i in range(5) for j in range(i + 1, 5)]
        gaps = np.array([result.bias[i] - result.bias[j] for i, j in pairs])
        lows = np.array([part[i] - part[j] for i, j in pairs])
        numbers += [
            Number(f"{noise.name}: smallest margin above the lower side, 10 pairs", float((gaps - lows).min()), error),
            Number(f"{noise.name}: smallest margin below the upper side", float((lows + T - gaps).min()), error),
            Number(f"{noise.name}: E[T]", T, error),
        ]
        holds &= bool((gaps >= lows - error).all() and (gaps <= lows + T + error).all())
    return Demonstration(
        "Lemma 3",
        "A bias difference lies between two bounds",
        "For x_i <= x_j the projection favours i over j by at least what clipping pi_S alone does, and by at most E[T] more.",
        HERE + ", all ten pairs, by the exact engine.",
        tuple(numbers),
        holds,
    )


def proposition1() -> Demonstration:
    """T is at most the sum of negative parts."""
    rows = draws(FIVE, LAPLACE, 2000)
    T = Simplex(TOTAL).T(rows)[:, 0]
    negative = np.maximum(-Sum(TOTAL)(rows), 0.0).sum(axis=1)
    slack = rounding(rows[0]) * 10
    return Demonstration(
        "Proposition 1",
        "T is at most the sum of the negative parts",
        "The threshold T never exceeds what pi_S(X) has below 0, added up over the entries.",
        "2,000 Laplace draws on counts 1, 2, 5, 12, 30.",
        (
            Number("largest T - sum of negative parts", float((T - negative).max()), slack),
            Number("draws with T > 0", float(np.count_nonzero(slack < T))),
        ),
        bool((negative + slack >= T).all()),
        "Where k entries stay positive, k T is the sum of the negative parts less the positive entries that T itself clips: the bound is met "
        "only at k = 1 with nothing else clipped.",
    )


def lemma4() -> Demonstration:
    """Bias differences are at most count differences."""
    numbers, holds = [], True
    for scale in (1.0, 100.0):
        result = audit(FIVE, Gaussian(4.0 * scale), "simplex", engine="exact")
        gap, error = float(result.bias[0] - result.bias[-1]), 2 * float(result.half_width.max())
        numbers.append(Number(f"sigma = {4 * scale:g}: B_1 - B_n", gap, error))
        holds &= gap <= 29.0 + error
    return Demonstration(
        "Lemma 4",
        "A bias difference is at most the difference of the counts",
        "However strong the noise, for x_i <= x_j the projection favours i over j by at most x_j - x_i.",
        "Counts 1, 2, 5, 12, 30, so x_n - x_1 = 29; Gaussian noise of sigma 4 and 400.",
        tuple(numbers),
        holds,
        "Under overwhelming noise everybody expects C/n, and the bound is met in the limit.",
    )


def theorem_1() -> Demonstration:
    """The bracket of alpha."""
    numbers, holds = [], True
    for noise in NOISES:
        result, bounds = _exact(noise), theorem1(FIVE, noise)
        half = result.alpha.high - result.alpha.value
        numbers += [
            Number(f"{noise.name}: lower", bounds.lower, bounds.error),
            Number(f"{noise.name}: alpha", result.alpha.value, half),
            Number(f"{noise.name}: upper", bounds.theorem, bounds.error),
        ]
        holds &= bounds.lower - bounds.error <= result.alpha.high
        holds &= result.alpha.low <= bounds.theorem + bounds.error
    return Demonstration(
        "Theorem 1",
        "Two bounds on the unfairness of the projection",
        "alpha of pi_S+ is at least the difference of the clipping biases of the smallest and the largest count, and at most that plus "
        "the expected sum of the negative parts of pi_S, or x_n - x_1 if that is less. The smallest count gains most, the largest loses most.",
        HERE + ".",
        tuple(numbers),
        holds,
    )


def proposition_2() -> Demonstration:
    """The lower bound as an integral of Phi."""
    from scipy.integrate import quad
    from scipy.special import ndtr

    found = proposition2(FIVE, Gaussian(4.0))
    integral, error = quad(lambda t: float(ndtr(found.a * t)), -30.0, -1.0, epsabs=0, epsrel=1e-11, limit=200)
    slack = error + 1e-11 * integral
    return Demonstration(
        "Proposition 2",
        "Under Gaussian noise the lower bound is one integral",
        "The key component of Theorem 1 is the integral of Phi(a t) from -x_n to -x_1 with a = sqrt(n/(n-1))/sigma, and lies between "
        "Phi(-a x_n) and Phi(-a x_1), each times (x_n - x_1).",
        "Counts 1, 2, 5, 12, 30; sigma = 4. The package's closed form against adaptive quadrature of the integral.",
        (
            Number("closed form", found.integral, 5e-12 * found.integral),
            Number("quadrature", integral, slack),
            Number("bracket", (found.low, found.high)),
        ),
        abs(found.integral - integral) <= slack and found.low <= found.integral <= found.high,
        "The printed proof places the mean value x_c in [-x_n, x_1]; it lies in [-x_n, -x_1].",
    )


RELEASE = (lemma1, lemma2, lemma3, proposition1, lemma4, theorem_1, proposition_2)
