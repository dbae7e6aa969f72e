"""What simulation may subtract: for each post-processing a linear function of the noise whose mean is exactly 0.

pi(X)_i - P(x)_i = offset_i + L(eta)_i + d_i, where offset is known, E[L(eta)] = 0 because the noise is symmetric about
0, and d is what is left to average. A post-processing without a linear part has L = 0, and d is its plain error. Each
post-processing says its own (`PostProcessing.control`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairpost.noise import Law, Mechanism
from fairpost.partition import Partition

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Linear = Callable[[Floats], Floats]
CLIPS, JUMPS = 1.0, 10.0
"""How many changes of the noise (`change_of`) a map may add to d in one run: one that only clips, and any other."""


def change_of(mechanism: Mechanism) -> float:
    """The size of a change that few runs see: the deviation, of whole numbers E[eta | eta > 0] where that is more.

    What clips an entity in one run of a million takes it below 0 by E[eta - c | eta > c] on average: b under Laplace noise, less
    under Gaussian noise, so that the deviation is enough. Whole numbers fall below a whole c by 1 at least, however small the
    deviation is; their laws are log-concave, so that it is at most the mean from c = 0: 1/(1 - e^(-1/b)) for discrete Laplace noise.
    """
    deviation = mechanism.deviation
    if not mechanism.discrete:
        return deviation
    if not isinstance(mechanism, Law):
        return float(np.hypot(deviation, 1.0))
    above = float(mechanism.sf(0.0))
    return max(deviation, float(mechanism.upper(0.0, 0.0, 1)) / above if above > 0 else 1.0)


def chance_of(mechanism: Mechanism, n: int) -> float:
    """At most the chance that one of n noises is not 0: below 1 for whole numbers of a known law and a small scale."""
    return min(2.0 * n * float(mechanism.sf(0.0)), 1.0) if mechanism.discrete and isinstance(mechanism, Law) else 1.0


@dataclass(frozen=True, eq=False)
class Control:
    """How a post-processing's output is split: pi(X) = P(x) + offset + L(eta) + d."""

    offset: Floats
    """The part of the bias that is known."""
    linear: Linear | None
    """Rows of noise to rows of L; None where there is no linear part."""
    scale: Floats
    """The size of what a single run may add to d, for events not seen yet; 0 where d is always 0."""
    labels: Ints | None
    """Entities with the same label have the same bias; None where nothing is known."""
    coefficient: Floats | None = None
    """How much of L is subtracted from each; None: all of it, until a pilot has told (`engines.montecarlo.pilot`)."""
    chance: float = 1.0
    """At most the chance of a run in which d is not what it is without noise."""
    kept: Partition | None = None
    """Groups whose outputs have the same sum in every run; None where there are none."""


def labels_of(*keys: Floats | None) -> Ints:
    """One label for each distinct combination of the keys, which have one entry per entity."""
    given = [np.unique(key, return_inverse=True)[1] for key in keys if key is not None]
    label = given[0]
    for other in given[1:]:
        label = np.unique(label * (int(other.max()) + 1) + other, return_inverse=True)[1]
    return label.astype(np.int64)


def members(partition: Partition | None) -> Floats | None:
    """The group of each entity, as a number."""
    if partition is None:
        return None
    return partition.scatter(partition.spread(np.arange(len(partition.labels), dtype=np.float64)))


def itself(noise: Floats) -> Floats:
    """L = eta."""
    return noise


@dataclass(frozen=True, eq=False)
class Centred:
    """L = eta - its group's mean: the linear part of every map that keeps a total."""

    partition: Partition

    def __call__(self, noise: Floats) -> Floats:
        """L of each row."""
        rows = self.partition.gather(noise)
        mean = self.partition.sums(rows) / self.partition.sizes
        return self.partition.scatter(np.asarray(rows - self.partition.spread(mean)))


@dataclass(frozen=True, eq=False)
class Linearised:
    """L = (a_i eta_i - P_i sum_j a_j eta_j) / sum_j a_j x_j, the linearised share."""

    partition: Partition
    w: Floats
    """a_i / sum_j a_j x_j of the entity's group, in gathered order; 0 where every count of the group is 0."""
    share: Floats
    """w_i x_i, in gathered order."""

    def __call__(self, noise: Floats) -> Floats:
        """L of each row."""
        rows = self.partition.gather(noise) * self.w
        return self.partition.scatter(np.asarray(rows - self.share * self.partition.spread(self.partition.sums(rows))))
