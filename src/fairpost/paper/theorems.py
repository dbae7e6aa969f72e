"""Every example, lemma, proposition, theorem and corollary of the paper, in our own words, computed on a small case."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from fairpost import fairness
from fairpost.audit import audit
from fairpost.bounds.sum_law import clipped
from fairpost.bounds.theorems import Bounds, proposition2, theorem1
from fairpost.counts import Counts
from fairpost.noise import Gaussian, Laplace, Law, Mechanism, Stream
from fairpost.paper.published import Computed
from fairpost.paper.tables import County
from fairpost.results.audit import Audit
from fairpost.rules import Affine, AffineNonnegative, Baseline, PoS, Simplex, Sum

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Number:
    """A computed number, or a small vector, with a bound on its error (None: exact by construction)."""

    label: str
    value: float | tuple[float, ...]
    error: float | None = None

    def __str__(self) -> str:
        entries = self.value if isinstance(self.value, tuple) else (self.value,)
        text = ", ".join(f"{v:.6g}" for v in entries)
        text = f"({text})" if isinstance(self.value, tuple) else text
        return text if self.error is None else f"{text} ± {self.error:.1g}"


@dataclass(frozen=True)
class Demonstration:
    """One statement of the paper, in our own words, computed on a small case."""

    name: str
    """Its number in the paper: "Lemma 2"."""
    title: str
    statement: str
    setting: str
    """What was computed."""
    numbers: tuple[Number, ...]
    holds: bool
    """Whether the computed case bears the statement out, to within the numbers' own errors."""
    remark: str = ""


def vector(values: Floats) -> tuple[float, ...]:
    """A vector as plain numbers; -0 becomes 0."""
    return tuple(float(v) + 0.0 for v in values)


def rounding(*arrays: Floats) -> float:
    """64 units in the last place of the sizes involved: a bound for a few dozen sums of such numbers."""
    return 64 * float(np.finfo(float).eps) * (1.0 + sum(float(np.abs(a).sum()) for a in arrays))


# ------------------------------------------------------------------ the cases

FIVE = Counts([1.0, 2.0, 5.0, 12.0, 30.0])
"""Counts of which two are often clipped."""
NOISES: tuple[Law, ...] = (Laplace(scale=3.0), Gaussian(sigma=4.0))
SEVEN = Counts([0.0, 1.0, 3.0, 8.0, 20.0, 45.0, 120.0], weights=[2.0, 1.0, 1.5, 1.0, 2.0, 1.0, 1.2])
"""Districts with weights."""


def noisy(counts: Counts, mechanism: Mechanism, run: int = 0) -> Floats:
    """One noisy draw, always the same."""
    return np.asarray(counts.values + mechanism.sample(counts.n, Stream(1, run)))


def draws(counts: Counts, mechanism: Mechanism, runs: int) -> Floats:
    """One noisy draw per row."""
    return np.stack([noisy(counts, mechanism, run) for run in range(runs)])


# ------------------------------------------------------------------ the examples

CENTROID = Counts([10.0] * 5)


def _exact(noise: Law, counts: Counts = FIVE) -> tuple[Audit, Bounds]:
    """The projection by the exact engine, and Theorem 1's bounds."""
    result = audit(counts, noise, "simplex", engine="exact")
    assert result.rule.bounds is not None
    return result, result.rule.bounds


def centroid() -> Demonstration:
    """Example 1: five equal counts."""
    numbers, holds = [], True
    for noise in NOISES:
        result, bounds = _exact(noise, CENTROID)
        found = (result.alpha.value, bounds.lower, bounds.theorem)
        numbers.append(Number(f"{noise.name}: alpha, lower, upper", found, 0.0))
        holds &= found == (0.0, 0.0, 0.0)
    return Demonstration(
        "Example 1",
        "Centroid",
        "Where all true counts are equal, the projection treats everybody alike: alpha and both bounds of Theorem 1 are 0.",
        "Five counts of 10; Laplace noise of scale 3 and Gaussian noise of sigma 4.",
        tuple(numbers),
        holds,
        "Equal counts share one evaluation, so the zero is exact and not a rounded difference.",
    )


def non_centroid() -> Demonstration:
    """Example 2: unequal counts."""
    numbers, holds = [], True
    for noise in NOISES:
        result, bounds = _exact(noise)
        numbers += [
            Number(f"{noise.name}: lower bound", bounds.lower, bounds.error),
            Number(f"{noise.name}: alpha", result.alpha.value, result.alpha.half_width),
        ]
        holds &= result.alpha.low >= bounds.lower - bounds.error > 0
    return Demonstration(
        "Example 2",
        "Non-centroid",
        "Where the true counts are not all equal the projection is unfair: alpha is at least the lower bound, which is above 0.",
        "Counts 1, 2, 5, 12, 30; Laplace noise of scale 3 and Gaussian noise of sigma 4.",
        tuple(numbers),
        holds,
    )


def hawaii_example(rows: tuple[County, ...]) -> Demonstration:
    """Example 3: one county at risk."""
    numbers, holds = [], True
    for row in rows:
        e, name = row.exactly(), row.mechanism.name
        numbers += [
            Number(f"{name}: bias by county", vector(row.exact.bias), float(row.exact.accuracy.half_width.max())),
            Number(f"{name}: alpha / lower", e["alpha"].value / e["lower"].value, 1e-8),
            Number(f"{name}: upper / lower", e["upper"].value / e["lower"].value, 1e-8),
        ]
        holds &= abs(e["alpha"].value - 1.25 * e["lower"].value) <= 1e-8 * e["alpha"].value
        holds &= abs(e["upper"].value - 2 * e["lower"].value) <= 1e-8 * e["upper"].value
    return Demonstration(
        "Example 3",
        "Hawaii",
        "Five counties, of which only Kalawao (53 households) can fall below 0. When its projected count y is negative, T = |y|/4: "
        "Kalawao is lifted to 0 and the four others give up |y|/4 each.",
        "Households 53, 22,563, 54,381, 67,054, 311,451 (ACS 2013-2017, a stand-in); Laplace noise of scale 10 and Gaussian noise of sigma 25.",
        tuple(numbers),
        holds,
        "So alpha = n/(n-1) x lower = 1.25 x lower, and the upper bound of Theorem 1 is 2 x lower, whatever Kalawao's count is. "
        "The published rows have the ratios 1.01 and 1.2.",
    )


def examples(rows: tuple[County, ...]) -> tuple[Demonstration, ...]:
    """All three, in the order of the paper."""
    return centroid(), non_centroid(), hawaii_example(rows)


def example_values(found: tuple[Demonstration, ...]) -> dict[str, Computed]:
    """What the first two examples state."""
    alpha = found[0].numbers[0].value
    assert isinstance(alpha, tuple)
    return {"example1.alpha": Computed(alpha), "example2.positive": Computed(found[1].holds)}


# ------------------------------------------------------------------ section 6: the projection onto a total

TOTAL = FIVE.total
RELEASED = "Counts 1, 2, 5, 12, 30 with C = 50; Laplace noise of scale 3 and Gaussian noise of sigma 4"
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


def lemma3() -> Demonstration:
    """Bias differences between two bounds."""
    numbers, holds = [], True
    for noise in NOISES:
        (result, _), part = _exact(noise), clipped(FIVE.values, FIVE.n, noise)
        T = 0.0 if result.rule.expected_T is None else result.rule.expected_T.value
        error = 2 * float(result.accuracy.half_width.max()) + 1e-11
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
        RELEASED + ", all ten pairs, by the exact engine.",
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
        gap, error = float(result.bias[0] - result.bias[-1]), 2 * float(result.accuracy.half_width.max())
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
        (result, _), bounds = _exact(noise), theorem1(FIVE, noise)
        numbers += [
            Number(f"{noise.name}: lower", bounds.lower, bounds.error),
            Number(f"{noise.name}: alpha", result.alpha.value, result.alpha.half_width),
            Number(f"{noise.name}: upper", bounds.theorem, bounds.error),
        ]
        holds &= bounds.lower - bounds.error <= result.alpha.high
        holds &= result.alpha.low <= bounds.theorem + bounds.error
    return Demonstration(
        "Theorem 1",
        "Two bounds on the unfairness of the projection",
        "alpha of pi_S+ is at least the difference of the clipping biases of the smallest and the largest count, and at most that plus "
        "the expected sum of the negative parts of pi_S, or x_n - x_1 if that is less. The smallest count gains most, the largest loses most.",
        RELEASED + ".",
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


# ------------------------------------------------------------------ sections 7 and 8: shares of a budget

SIX = Laplace(scale=6.0)
SOLVER = 1e-8
"""What the linear solver is trusted to, in shares (its feasibility tolerance is 1e-9, relative)."""
SHARED = "Seven districts with weights; one draw of Laplace noise of scale 6 in which shares are negative"


def _draw() -> tuple[Floats, Floats]:
    """Noisy counts whose formula gives negative shares, and those shares P^F(X)."""
    for run in range(50):
        X = noisy(SEVEN, SIX, run)
        need = SEVEN.weights * X
        if need.sum() > 0 and need.min() < 0:
            break
    return X, np.asarray(need / need.sum())


def _range(v: Floats) -> float:
    return float(v.max() - v.min())


def _minimum(*program: object) -> float:
    """The value of a linear program (HiGHS)."""
    from scipy.optimize import linprog

    return float(linprog(*program).fun)  # type: ignore[call-overload]


def _least_range(target: Floats) -> tuple[float, float]:
    """Program P_alpha by linear programming: its value, and how wide the set of its minimisers is in any entry.

    Variables (v, top, bottom): minimise top - bottom with bottom <= v_i - target_i <= top, v in the simplex.
    """
    n = target.size
    one = np.ones((n, 1))
    a_ub = np.block([[np.eye(n), -one, 0 * one], [-np.eye(n), 0 * one, one]])
    b_ub = np.concatenate([target, -target])
    a_eq = np.append(np.ones(n), [0.0, 0.0])[None, :]
    limits = [(0, None)] * n + [(None, None)] * 2
    cost = np.append(np.zeros(n), [1.0, -1.0])
    best = _minimum(cost, a_ub, b_ub, a_eq, [1.0], limits)
    face, level = np.vstack([a_ub, cost]), np.append(b_ub, best + 1e-12)
    ends = [[_minimum(s * row, face, level, a_eq, [1.0], limits) for s in (1, -1)] for row in np.eye(n + 2)[:n]]
    return best, float(-np.sum(ends, axis=1).min())


def _least_l1(target: Floats) -> float:
    """The least ||v - target||_1 over the simplex, by linear programming."""
    n = target.size
    eye = np.eye(n)
    a_ub, b_ub = np.block([[eye, -eye], [-eye, -eye]]), np.concatenate([target, -target])
    a_eq = np.append(np.ones(n), np.zeros(n))[None, :]
    return _minimum(np.append(np.zeros(n), np.ones(n)), a_ub, b_ub, a_eq, [1.0])


def theorem2() -> Demonstration:
    """PoS minimises the range."""
    X, target = _draw()
    best, width = _least_range(target)
    pos, bl = PoS(SEVEN.weights)(X), Baseline(SEVEN.weights)(X)
    gap = abs(_range(pos - target) - best)
    return Demonstration(
        "Theorem 2",
        "PoS is the fairest allocation for each draw",
        "Among all allocations, the projection of the noisy shares P^F(X) onto the simplex is the only one for which the range of the "
        "changes v - P^F(X) is least.",
        SHARED
        + "; the program solved by linear programming, and the set of all its minimisers searched entry by entry.",
        (
            Number("noisy shares P^F(X)", vector(target)),
            Number("range for PoS", _range(pos - target), 1e-15),
            Number("least range (linear program)", best, SOLVER),
            Number("width of the set of minimisers", max(width, 0.0), 1e-6),
            Number("range for BL", _range(bl - target), 1e-15),
        ),
        gap <= SOLVER and abs(width) <= 1e-6 and _range(bl - target) >= best - SOLVER,
        "The printed proof shows that nothing is better; that nothing else is as good, it does not. The last but one number bears it out here. "
        "The draw-by-draw optimum is a proxy: it is not the least alpha (see the threshold mechanism in Table 2).",
    )


def proposition3() -> Demonstration:
    """The cost of privacy is half the l1 norm."""
    numbers, holds = [], True
    for which in ("baseline", "pos"):
        result = audit(SEVEN, SIX, which)
        cost, l1 = fairness.cost_of_privacy(result.bias), fairness.cost_of_privacy_l1(result.bias)
        error = float(result.accuracy.half_width.sum())
        numbers += [Number(f"{which}: sum of the losses", cost, error), Number(f"{which}: half the l1 norm", l1, error)]
        holds &= abs(cost - l1) <= error
    return Demonstration(
        "Proposition 3",
        "The cost of privacy is half the l1 norm of the bias",
        "Where shares always sum to 1, gains and losses cancel, so the sum of the losses is half the sum of all absolute biases "
        "(times the budget).",
        "Seven districts with weights, Laplace noise of scale 6, budget 1; biases exact for baseline, by conditional means for pos.",
        tuple(numbers),
        holds,
    )


def theorem3() -> Demonstration:
    """PoS and BL minimise the cost proxy."""
    X, target = _draw()
    best = _least_l1(target)
    numbers = [Number("least l1 distance (linear program)", best, SOLVER)]
    holds = True
    for pi in (PoS(SEVEN.weights), Baseline(SEVEN.weights)):
        found = float(np.abs(pi(X) - target).sum())
        numbers.append(Number(f"l1 distance of {pi.name}", found, 1e-15))
        holds &= abs(found - best) <= SOLVER
    numbers.append(Number("||P^F(X)||_1 - 1", float(np.abs(target).sum() - 1), 1e-15))
    return Demonstration(
        "Theorem 3",
        "PoS and BL both minimise the proxy of the cost of privacy",
        "For each draw PoS is a nearest allocation to P^F(X) in the l1 distance, and so is BL where the weighted noisy sum is positive. "
        "The distance is then ||P^F(X)||_1 - 1.",
        SHARED + ".",
        tuple(numbers),
        holds,
        "There are many minimisers: their biases, and so their costs of privacy, differ.",
    )


# ------------------------------------------------------------------ the appendix: projections, swaps and densities

A = np.array([[1.0, 1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 0.0, 0.0, 0.0]])
"""Two constraints: the total, and the sum of the first two counts."""
B = A @ FIVE.values
CONSTRAINED = "Counts 1, 2, 5, 12, 30 with two constraints: the total, and the sum of the first two; one Laplace draw"


def lemma5() -> Demonstration:
    """(P) in closed form."""
    X = noisy(FIVE, LAPLACE)
    projector = np.eye(5) - A.T @ np.linalg.solve(A @ A.T, A)
    formula = FIVE.values + projector @ (X - FIVE.values)
    gap, slack = float(np.abs(Affine(A, B)(X) - formula).max()), 10 * rounding(X, FIVE.values)
    return Demonstration(
        "Lemma 5",
        "The projection onto linear constraints, in closed form",
        "For any full-rank A with A x = b the nearest v with A v = b is x plus the part of the noise that lies in the null space of A.",
        CONSTRAINED + "; the package's solver against the formula.",
        (Number("pi(X)", vector(formula), slack), Number("largest gap", gap, slack)),
        gap <= slack,
    )


def lemma6() -> Demonstration:
    """The fibres of the projection."""
    y = FIVE.values + np.array([1.0, -1.0, 2.0, -3.0, 1.0])
    along = A.T @ np.array([3.0, -7.0])
    slack = 10 * rounding(y, along)
    back = float(np.abs(Affine(A, B)(y + along) - y).max())
    away = float(np.abs(Affine(A, B)(y + along + np.array([1.0, -1.0, 0.0, 0.0, 0.0])) - y).max())
    return Demonstration(
        "Lemma 6",
        "Who is projected onto y",
        "The points that are projected onto y are y plus the row space of A, and no others.",
        CONSTRAINED.split(";", maxsplit=1)[0]
        + ". A point y of the set, moved along the row space, and once more off it.",
        (Number("gap after a move in the row space", back, slack), Number("gap after a move off it", away, slack)),
        back <= slack < away,
    )


def corollary1() -> Demonstration:
    """For a total: y + k 1."""
    y, slack = FIVE.values, rounding(FIVE.values) * 10
    gaps = [float(np.abs(Sum(50.0)(y + k) - y).max()) for k in (-20.0, 0.5, 300.0)]
    return Demonstration(
        "Corollary 1",
        "For a total, the same number added to every entry",
        "pi_S(X) = y just where X is y plus one number k in every entry.",
        "y = (1, 2, 5, 12, 30) and k = -20, 0.5, 300.",
        (Number("gaps to y", tuple(gaps), slack),),
        max(gaps) <= slack,
    )


def lemma7() -> Demonstration:
    """Projecting twice changes nothing."""
    X = noisy(FIVE, LAPLACE, 3)
    once, twice = AffineNonnegative(A, B)(X), AffineNonnegative(A, B)(Affine(A, B)(X))
    simple = float(np.abs(Simplex(50.0)(X) - Simplex(50.0)(Sum(50.0)(X))).max())
    gap, slack = float(np.abs(once - twice).max()), 1e-9
    return Demonstration(
        "Lemma 7",
        "First the equalities, then all constraints: the same",
        "Projecting onto A v = b, v >= 0 gives the same whether one starts from X or from its projection onto A v = b.",
        CONSTRAINED + ".",
        (
            Number("pi_+(X)", vector(once), slack),
            Number("largest gap", gap, slack),
            Number("gap for one total", simple, 1e-12),
        ),
        gap <= slack and simple <= 1e-12,
    )


def lemma8() -> Demonstration:
    """Swaps commute with both projections."""
    X = noisy(FIVE, LAPLACE, 3)
    swap = np.array([3, 1, 2, 0, 4])
    slack = rounding(X)
    gaps = [float(np.abs(pi(X)[swap] - pi(X[swap])).max()) for pi in (Sum(50.0), Simplex(50.0))]
    T = float(np.abs(Simplex(50.0).T(X) - Simplex(50.0).T(X[swap])).max())
    return Demonstration(
        "Lemma 8",
        "Swapping two entries commutes with projecting",
        "Exchanging two noisy counts exchanges the two outputs, for both projections, and leaves T as it is.",
        "One Laplace draw on counts 1, 2, 5, 12, 30; the first and the fourth entry exchanged.",
        (
            Number("gap for pi_S", gaps[0], slack),
            Number("gap for pi_S+", gaps[1], slack),
            Number("change of T", T, slack),
        ),
        max(*gaps, T) <= slack,
    )


def _density(noise: Law, x: Floats, y: Floats) -> float:
    """The density of pi_S(X) at y: the joint density integrated along y + k 1 (length element sqrt(n) dk)."""
    from scipy.integrate import quad

    def joint(k: float) -> float:
        return float(np.prod(noise.density(y + k - x)))

    corners = np.sort(x - y)
    reach = 40 * noise.deviation
    pieces = np.concatenate([[corners[0] - reach], corners, [corners[-1] + reach]])
    parts = [quad(joint, a, b, epsabs=0, epsrel=1e-10, limit=200)[0] for a, b in pairwise(pieces)]
    return float(np.sqrt(x.size) * np.sum(parts))


def lemma9() -> Demonstration:
    """The Gaussian density of pi_S."""
    x, y, sigma = np.array([1.0, 2.0, 6.0]), np.array([2.0, 0.5, 6.5]), 2.0
    square = float(np.sum((y - x) ** 2))
    numeric = _density(Gaussian(sigma), x, y)
    right = float(np.exp(-square / (2 * sigma**2)) / (2 * np.pi * sigma**2))
    printed = float(np.exp(-square / 2) / np.sqrt((2 * np.pi) ** 2 * 2))
    return Demonstration(
        "Lemma 9",
        "The density of the projection under Gaussian noise",
        "On a set of dimension n' the density of the projection at y is (2 pi sigma^2)^(-n'/2) exp(-||y - x||^2 / (2 sigma^2)).",
        "x = (1, 2, 6), y = (2, 0.5, 6.5), sigma = 2, n' = 2; against the joint density integrated along y + k 1.",
        (
            Number("by integration", numeric, 1e-9 * numeric),
            Number("formula", right, 1e-15),
            Number("formula as printed", printed, 1e-15),
        ),
        abs(numeric - right) <= 1e-9 * right,
        "The formula as printed has no sigma and a factor n' under the root: it is right for sigma = 1 and n' = 1 alone. "
        "What the paper uses of it, the comparison in Corollary 2, holds for every sigma.",
    )


def _swapped(name: str, title: str, noise: Law, remark: str = "") -> Demonstration:
    x = np.array([1.0, 2.0, 6.0])
    grid = [np.array([a, b, 9.0 - a - b]) for a in (-2.0, 0.0, 1.5) for b in (-1.0, 2.0, 4.0)]
    ratios = []
    for y in grid:
        ordered = np.sort(y[[0, 2]])
        y1 = np.array([ordered[0], y[1], ordered[1]])
        ratios.append(_density(noise, x, y1) / _density(noise, x, y1[[2, 1, 0]]))
    return Demonstration(
        name,
        title,
        "If x_i <= x_j and y_i <= y_j, the projection is at least as likely to be at y as at y with its entries i and j exchanged.",
        f"x = (1, 2, 6), {noise.name} noise of {noise.parameter} {noise.spread:g}, nine points y, entries 1 and 3 exchanged; "
        "densities by integration.",
        (Number("ratios of the densities, smallest and largest", (min(ratios), max(ratios)), 1e-8 * max(ratios)),),
        min(ratios) >= 1 - 1e-8,
        remark,
    )


def corollary2() -> Demonstration:
    """Gaussian: the right order is the likelier one."""
    remark = "The ratio is exp((x_j - x_i)(y_j - y_i)/sigma^2)."
    return _swapped("Corollary 2", "Under Gaussian noise the right order is the likelier", Gaussian(2.0), remark)


def lemma10() -> Demonstration:
    """Laplace: the right order is the likelier one."""
    remark = "The printed proof uses lambda as a rate, where Example 3 uses it as a scale; the comparison does not depend on it."
    return _swapped("Lemma 10", "Under Laplace noise too", Laplace(2.0), remark)


def proposition4() -> Demonstration:
    """d(y, t) falls in y."""
    y = np.linspace(-5.0, 10.0, 301)
    steps = [float(np.diff(np.maximum(y - t, 0) - np.maximum(y, 0)).max()) for t in (0.0, 1.0, 4.0)]
    return Demonstration(
        "Proposition 4",
        "What a further shift takes from an entry",
        "d(y, t) = (y - t)_+ - (y)_+ never rises in y: it is 0 below 0, then -y, and -t from y = t on.",
        "y from -5 to 10 in 300 steps; t = 0, 1, 4.",
        (Number("largest step of d, for each t", tuple(steps), 1e-14),),
        max(steps) <= 1e-14,
        "The print says decreasing; it is constant in two of its three pieces.",
    )


STATEMENTS: tuple[Callable[[], Demonstration], ...] = (
    lemma1, lemma2, lemma3, proposition1, lemma4, theorem_1, proposition_2,
    theorem2, proposition3, theorem3,
    lemma5, lemma6, corollary1, lemma7, lemma8, lemma9, corollary2, lemma10, proposition4,
)  # fmt: skip
"""In the order of the paper."""


def theorems(tick: Callable[[float], None]) -> tuple[Demonstration, ...]:
    """All of them, in the order of the paper."""
    found = []
    for k, make in enumerate(STATEMENTS, 1):
        found.append(make())
        tick(k / len(STATEMENTS))
    return tuple(found)
