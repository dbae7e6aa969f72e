"""pi with a threshold: `pos-threshold` and `simplex-threshold`, the least unfairness that Laplace noise allows.

PoS and pi_S+ keep z_i - r where that is above 0 (z = a X; r makes the total hold). These two keep z_i - r only where
it is above a threshold a_i tau as well. Fewer small entities are kept, the others need not give up as much (r
falls), and the range of the biases shrinks: for Laplace noise and tau = b to the smallest value that any
non-negative output of this kind can have (docs/threshold.md). The price is a larger variance, and more entities that
receive 0.

The best data-independent threshold, that is for the range of m(x) - x over all x >= 0 without a shift:

    Laplace            tau = b: optimal among all non-negative outputs, for every shift at once
    discrete Laplace   a ramp of width 1 from tau = q/(1 - q), q = e^{-1/b}: optimal in the same sense
    Gaussian           tau = 0.7518 sigma, the root of tau = P(eta > tau)/p(tau): optimal in this family
    discrete Gaussian  a ramp of width 1; from sigma = 16 on tau = 0.7518 sigma - 1/2, below computed
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairpost.errors import ParameterError, UnsupportedError
from fairpost.noise import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace
from fairpost.noise.base import Mechanism
from fairpost.parallel import over_slices
from fairpost.rules.allocation import _Shares
from fairpost.rules.partition import Partition
from fairpost.rules.release import _KeepsTotal

Floats = NDArray[np.float64]
Booleans = NDArray[np.bool_]
GAUSSIAN = 0.7517915247
"""The tau that maximises tau P(eta > tau) for the standard normal; the range is twice that maximum, 0.33994."""
SMOOTH = 16.0
"""From this sigma on the discrete Gaussian's best ramp is the Gaussian's threshold, centred."""


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

    @classmethod
    def ramp(cls, level: float) -> Self:
        """The ramp of width 1 from `level` on."""
        return cls(level, level + 1.0)

    @classmethod
    def best(cls, mechanism: Mechanism) -> Self:
        """The best data-independent threshold for this noise."""
        if isinstance(mechanism, Laplace):
            return cls(mechanism.scale)
        if isinstance(mechanism, DiscreteLaplace):
            return cls.ramp(float(np.exp(-1 / mechanism.scale) / -np.expm1(-1 / mechanism.scale)))
        if isinstance(mechanism, Gaussian):
            return cls(GAUSSIAN * mechanism.sigma)
        if isinstance(mechanism, DiscreteGaussian):
            return cls.ramp(_discrete_gaussian(mechanism.sigma))
        raise UnsupportedError(f"no threshold is known for the noise {mechanism.name!r}; give one")

    def gain(self, mechanism: Mechanism, c: ArrayLike) -> Floats:
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

    def bias_range(self, mechanism: Mechanism, shift: float = 0.0) -> float:
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


@lru_cache(maxsize=64)
def _discrete_gaussian(sigma: float) -> float:
    """The level whose ramp has the least range of biases: searched for, or the Gaussian's, centred."""
    if sigma >= SMOOTH:
        return GAUSSIAN * sigma - 0.5
    from scipy.optimize import minimize_scalar

    noise = DiscreteGaussian(sigma)

    def cost(level: float) -> float:
        return Threshold.ramp(level).bias_range(noise)

    levels = np.arange(0.0, sigma + 1.0, 0.05)
    best = float(levels[np.argmin([cost(level) for level in levels])])
    found = minimize_scalar(cost, bounds=(max(best - 0.05, 0.0), best + 0.05), method="bounded")
    return float(found.x) if found.fun < cost(best) else best


def _need(threshold: Threshold | None, name: str) -> Threshold:
    if threshold is None:
        raise ParameterError(f"{name} needs its threshold: give one, or bind it to the noise with `for_mechanism`")
    return threshold


def _shifts_of_rows(
    z: Floats, threshold: Threshold, a: Floats, starts: NDArray[np.int64], targets: Floats, out: Floats
) -> Floats:
    """Keep each row (in it each segment g, to the sum targets[row, g]) into `out`; the shifts r likewise."""
    from fairpost.rules.kernels import threshold as kernel

    levels = threshold.level * (a[:1] if (a == a[0]).all() else a)
    targets = np.ascontiguousarray(targets)
    shifts = np.empty(targets.shape)

    def some(part: slice) -> None:
        kernel.keep_rows(z[part], levels, threshold.steepness, starts, targets[part], out[part], shifts[part])

    over_slices(some, len(z), None if z.size >= 2**16 else 1)
    return shifts


@final
@dataclass(frozen=True, eq=False)
class PosThreshold(_Shares):
    """Shares from z = a X: with S = sum z keep z_i - r where z_i > r + a_i tau, of sum S, and divide by S.

    S < 0 and S = 0 are handled, and counted as degenerate, as for PoS. In a jump the entity at the edge gets
    the remainder; entities at the same edge each get the same fraction of their a_i tau.
    """

    name: ClassVar[str] = "pos-threshold"
    threshold: Threshold | None = None

    def for_mechanism(self, mechanism: Mechanism) -> Self:
        """The same with the best threshold for this noise; one that was given stays."""
        return self if self.threshold is not None else replace(self, threshold=Threshold.best(mechanism))

    def _on_groups(self, z: Floats, partition: Partition) -> tuple[Floats, Booleans, Booleans]:
        a = np.ones(z.shape[1]) if self.weights is None else partition.gather(np.asarray(self.weights))
        sums = partition.sums(z)
        lost, turned = sums == 0, sums < 0
        if turned.any():
            z = z * partition.spread(np.where(turned, -1.0, 1.0))
        size = np.where(lost, 1.0, np.abs(sums))
        out = np.empty_like(z)
        _shifts_of_rows(z, _need(self.threshold, self.name), a, partition.starts, size, out)
        return out / partition.spread(size), lost, turned


@final
@dataclass(frozen=True, eq=False)
class SimplexThreshold(_KeepsTotal):
    """v_i = X_i - r where X_i > r + tau, 0 otherwise, sum v = C: pi_S+ with a threshold."""

    name: ClassVar[str] = "simplex-threshold"
    threshold: Threshold | None = None

    def for_mechanism(self, mechanism: Mechanism) -> Self:
        """The same with the best threshold for this noise; one that was given stays."""
        return self if self.threshold is not None else replace(self, threshold=Threshold.best(mechanism))

    def _on_groups(self, rows: Floats, partition: Partition, totals: Floats) -> Floats:
        out = np.empty_like(rows)
        targets = np.broadcast_to(totals, (len(rows), totals.size))
        _shifts_of_rows(rows, _need(self.threshold, self.name), np.ones(1), partition.starts, targets, out)
        return out
