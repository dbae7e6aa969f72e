"""The paper's appendix, statement by statement: general projections, swaps and densities."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from fairpost.noise import Gaussian, Laplace, Law
from fairpost.paper.cases import FIVE, NOISES, noisy
from fairpost.paper.demonstration import Demonstration, Floats, Number, rounding, vector
from fairpost.rules import Affine, AffineNonnegative, Simplex, Sum

A = np.array([[1.0, 1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 0.0, 0.0, 0.0]])
"""Two constraints: the total, and the sum of the first two counts."""
B = A @ FIVE.values
LAPLACE = NOISES[0]
HERE = "Counts 1, 2, 5, 12, 30 with two constraints: the total, and the sum of the first two; one Laplace draw"


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
        HERE + "; the package's solver against the formula.",
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
        HERE.split(";", maxsplit=1)[0] + ". A point y of the set, moved along the row space, and once more off it.",
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
        HERE + ".",
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


APPENDIX: tuple[Callable[[], Demonstration], ...] = (
    lemma5, lemma6, corollary1, lemma7, lemma8, lemma9, corollary2, lemma10, proposition4,
)  # fmt: skip
