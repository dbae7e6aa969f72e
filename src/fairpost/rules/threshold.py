"""pi with a threshold: `pos-threshold` and `simplex-threshold`, the least unfairness that Laplace noise allows.

PoS and pi_S+ keep z_i - r where that is above 0 (z = a X; r makes the total hold). These two keep z_i - r only where
it is above a threshold a_i tau as well. Fewer small entities are kept, the others need not give up as much (r
falls), and the range of the biases shrinks: for Laplace noise and tau = b to the smallest value that any
non-negative output of this kind can have (docs/threshold.md). The price is a larger variance, and more entities that
receive 0.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar, Self, final

import numpy as np
from numpy.typing import NDArray

from fairpost.errors import ParameterError
from fairpost.noise import Mechanism, Threshold
from fairpost.parallel import over_slices
from fairpost.partition import Partition
from fairpost.rules.allocation import Projecting
from fairpost.rules.base import PostProcessing
from fairpost.rules.release import KeepsTotal
from fairpost.rules.simplex import thresholds_of_rows

DUST = 1e-13
"""Of the sum of all outputs: what rounding leaves of 0."""
Floats = NDArray[np.float64]


class _WithThreshold(PostProcessing):
    """What the two share: a threshold, given or the best for the noise."""

    needs_noise: ClassVar[bool] = True
    threshold: Threshold | None

    def for_mechanism(self, mechanism: Mechanism) -> Self:
        """The same with the best threshold for this noise; one that was given stays."""
        if self.threshold is not None:
            return self
        return replace(self, threshold=mechanism.best_threshold())  # type: ignore[type-var]

    @property
    def rule(self) -> Threshold:
        """The threshold, which must be known by now."""
        if self.threshold is None:
            raise ParameterError(f"{self.name} needs its threshold: give one, or bind it with `for_mechanism`")
        return self.threshold

    @property
    def dust(self) -> float:
        """Whole counts lie at the foot of a ramp with a chance, where floats give their rounding instead of 0."""
        return 0.0 if self.rule.steepness == np.inf else min(DUST * self._whole, 1e-6)

    @property
    @abstractmethod
    def _whole(self) -> float:
        """What all outputs sum to."""


def _kept_of_rows(z: Floats, threshold: Threshold, a: Floats, starts: NDArray[np.int64], targets: Floats) -> Floats:
    """Keep each row (in it each segment g) to the sum targets[row, g]."""
    from fairpost.rules.kernels import threshold as kernel

    levels = threshold.level * (a[:1] if (a == a[0]).all() else a)
    out, targets = np.empty_like(z), np.ascontiguousarray(targets)
    shifts = np.empty(targets.shape)

    def some(part: slice) -> None:
        kernel.keep_rows(z[part], levels, threshold.steepness, starts, targets[part], out[part], shifts[part])

    over_slices(some, len(z), None if z.size >= 2**16 else 1)
    return out


@final
@dataclass(frozen=True, eq=False)
class PosThreshold(_WithThreshold, Projecting):
    """Shares from z = a X: with S = sum z keep z_i - r where z_i > r + a_i tau, of sum S, and divide by S.

    In a jump the entity at the edge gets
    the remainder; entities at the same edge each get the same fraction of their a_i tau.
    """

    name: ClassVar[str] = "pos-threshold"
    title: ClassVar[str] = "as pos, but small noisy shares become zero"
    threshold: Threshold | None = None

    @property
    def _whole(self) -> float:
        return 1.0

    def _given_up(self, z: Floats, change: float, most: Floats, partition: Partition) -> Floats:
        """The shift r that takes a change and all of a ramp from what they have; they may get it as well."""
        sums = partition.sums(z)
        held = self._on_groups(z[None], partition)[0] * partition.spread(sums)
        left = np.maximum(sums - (change + self.rule.level + self.rule.width) * most, 0.0)
        return np.asarray(
            partition.spread(thresholds_of_rows(held, partition.starts, left[None], np.empty_like(held))[0])
        )

    def _kept(self, z: Floats, partition: Partition, targets: Floats) -> Floats:
        a = np.ones(1) if self.weights is None else partition.gather(np.asarray(self.weights))
        return _kept_of_rows(z, self.rule, a, partition.starts, targets)


@final
@dataclass(frozen=True, eq=False)
class SimplexThreshold(_WithThreshold, KeepsTotal):
    """v_i = X_i - r where X_i > r + tau, 0 otherwise, sum v = C: pi_S+ with a threshold."""

    name: ClassVar[str] = "simplex-threshold"
    title: ClassVar[str] = "as simplex, but small noisy counts become zero"
    threshold: Threshold | None = None

    @property
    def _whole(self) -> float:
        return float(np.sum(self.total))  # type: ignore[arg-type]

    def _on_groups(self, rows: Floats, partition: Partition, totals: Floats) -> Floats:
        targets = np.broadcast_to(totals, (len(rows), totals.size))
        return _kept_of_rows(rows, self.rule, np.ones(1), partition.starts, targets)
