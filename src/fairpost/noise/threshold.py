"""A threshold below which nothing is kept, and what it does to the expectation of one noisy count.

The best data-independent threshold, that is for the range of m(x) - x over all x >= 0 without a shift (each noise
knows its own, `Mechanism.best_threshold`):

    Laplace            tau = b: optimal among all non-negative outputs, for every shift at once
    discrete Laplace   a ramp of width 1 from tau = q/(1 - q), q = e^{-1/b}: optimal in the same sense
    Gaussian           tau = 0.7518 sigma, the root of tau = P(eta > tau)/p(tau): optimal in this family
    discrete Gaussian  a ramp of width 1; from sigma = 16 on tau = 0.7518 sigma - 1/2, below computed
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairpost.errors import ParameterError

if TYPE_CHECKING:
    from fairpost.noise.base import Law, Mechanism

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Threshold:
    """With u = X - r: keep min(u, s (u - tau)_+), or for infinite s keep u where u > tau and 0 otherwise.

    tau is in counts. The finite steepness s = tau + 1 makes a ramp of width 1, which whole-number noise needs: one
    lattice point lies on the ramp, and the total is a continuous function of r.
    """

    level: float
    steepness: float = np.inf

    def __post_init__(self) -> None:
        if not 0 <= self.level < np.inf:
            raise ParameterError(f"a threshold must be at least 0 and finite, got {self.level!r}")
        if not self.steepness >= 1:
            raise ParameterError(f"the steepness of a threshold must be at least 1, got {self.steepness!r}")
        if self.steepness == 1.0 < 1.0 + self.level:
            raise ParameterError(
                f"a threshold of {self.level!r} must have a steepness above 1: no count is kept whole at 1"
            )

    @classmethod
    def ramp(cls, level: float) -> Self:
        """The ramp of width 1 from `level` on."""
        return cls(level, level + 1.0)

    @staticmethod
    def best(mechanism: Mechanism) -> Threshold:
        """The best data-independent threshold for this noise."""
        return mechanism.best_threshold()

    def gain(self, mechanism: Law, c: ArrayLike) -> Floats:
        """E[kept - u] where c = tau + r - x: the bias is this gain less the shift r, m(x) - x = gain - r.

        A jump loses u below tau, -E[u; eta <= c] = -(L_1 + tau L_0) with L_k = E[(eta - c)^k; eta <= c]. A ramp is
        the difference of two clippings, which gives -s L_1(c) + (s - 1) L_1(c + width).
        """
        cut, s = np.asarray(c, dtype=np.float64), self.steepness
        first = mechanism.lower(cut, 0.0, 1)
        if s == np.inf:
            return np.asarray(-(first + self.level * mechanism.lower(cut, 0.0, 0)))
        beyond = mechanism.lower(cut + self.width, 0.0, 1) if s > 1 else 0.0
        return np.asarray(-s * first + (s - 1) * beyond)

    @property
    def width(self) -> float:
        """The width of the ramp: 0 for a jump (and where the ramp is the line u itself)."""
        return self.level / (self.steepness - 1) if self.steepness > 1 else 0.0

    def bias_range(self, mechanism: Law, shift: float = 0.0) -> float:
        """The range of m(x) - x over all x >= 0 for a given shift r, in counts: the curve to minimise over tau.

        Continuous noise: a grid in x, refined. Whole-number noise: m is piecewise linear in x, with corners where c
        is a whole number, so these (and x = 0) are enough.
        """
        top = self.level + shift
        if mechanism.discrete:
            corners = np.arange(np.floor(top), np.floor(-12 * mechanism.deviation) - 1, -1)
            values = self.gain(mechanism, np.append(corners, top))
            return float(values.max() - values.min())
        reach = np.linspace(top, -12 * mechanism.deviation, 4001)
        values = self.gain(mechanism, reach)
        at = (int(values.argmax()), int(values.argmin()))
        step = reach[0] - reach[1]
        near = [np.minimum(np.linspace(reach[i] - step, reach[i] + step, 2001), top) for i in at]
        return float(self.gain(mechanism, near[0]).max() - self.gain(mechanism, near[1]).min())
