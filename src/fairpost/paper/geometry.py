"""The projections in two dimensions: the points of the paper's Figures 2 and 5, computed by the package."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fairpost.paper.published import Computed
from fairpost.rules import Simplex, Sum, SumClipped

TRIANGLES: Mapping[str, tuple[tuple[float, float], tuple[float, float]]] = {
    "figure2": ((0.7, 0.3), (-0.5, 3.5)),
    "figure5": ((1.0, 0.8), (0.7, 3.7)),
}
"""The true point and the noisy point of the paper's two drawings."""


@dataclass(frozen=True)
class Geometry:
    """The points of a drawing in two dimensions, computed by the package."""

    truth: tuple[float, float]
    noisy: tuple[float, float]
    on_line: tuple[float, float]
    """pi_S(X)."""
    clipped: tuple[float, float]
    """(pi_S(X))_+."""
    shifted: tuple[float, float]
    """pi_S(X) - T 1."""
    projected: tuple[float, float]
    """pi_S+(X)."""
    T: float


def geometry(name: str) -> Geometry:
    """The points of Figure 2 or Figure 5 from the true and the noisy one."""
    truth, noisy = TRIANGLES[name]
    total = sum(truth)
    y, T = Sum(total)(noisy), float(Simplex(total).T(noisy)[0])
    found = (y, SumClipped(total)(noisy), y - T, Simplex(total)(noisy))
    points = [(float(p[0]), float(p[1])) for p in found]
    return Geometry(truth, noisy, points[0], points[1], points[2], points[3], T)


def values() -> dict[str, Computed]:
    """The points that the paper's two drawings show."""
    two, five = geometry("figure2"), geometry("figure5")
    return {
        "figure2.pi_s": Computed(two.on_line),
        "figure2.pi_s_plus": Computed(two.projected),
        "figure2.T": Computed(two.T),
        "figure5.pi_s": Computed(five.on_line),
        "figure5.clipped": Computed(five.clipped),
        "figure5.shifted": Computed(five.shifted),
        "figure5.pi_s_plus": Computed(five.projected),
    }
