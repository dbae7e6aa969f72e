"""The paper's three numbered examples, computed."""

from __future__ import annotations

from fairpost.audit import audit
from fairpost.bounds.theorems import Bounds
from fairpost.counts import Counts
from fairpost.paper.cases import FIVE, NOISES
from fairpost.paper.demonstration import Demonstration, Number, vector
from fairpost.paper.hawaii import County
from fairpost.paper.published import Computed
from fairpost.results.audit import Audit

CENTROID = Counts([10.0] * 5)


def _bounds(result: Audit) -> Bounds:
    assert result.bounds is not None
    return result.bounds


def _half(result: Audit) -> float:
    return result.alpha.high - result.alpha.value


def centroid() -> Demonstration:
    """Example 1: five equal counts."""
    numbers, holds = [], True
    for noise in NOISES:
        result = audit(CENTROID, noise, "simplex", engine="exact")
        found = (result.alpha.value, _bounds(result).lower, _bounds(result).theorem)
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
        result = audit(FIVE, noise, "simplex", engine="exact")
        bounds = _bounds(result)
        numbers += [
            Number(f"{noise.name}: lower bound", bounds.lower, bounds.error),
            Number(f"{noise.name}: alpha", result.alpha.value, _half(result)),
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
            Number(f"{name}: bias by county", vector(row.exact.bias), float(row.exact.half_width.max())),
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


def values(found: tuple[Demonstration, ...]) -> dict[str, Computed]:
    """What the first two examples state."""
    alpha = found[0].numbers[0].value
    assert isinstance(alpha, tuple)
    return {"example1.alpha": Computed(alpha), "example2.positive": Computed(found[1].holds)}
