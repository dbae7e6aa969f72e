"""What simulation may subtract: for each post-processing a linear function of the noise whose mean is exactly 0.

pi(X)_i - P(x)_i = offset_i + L(eta)_i + d_i, where offset is known, E[L(eta)] = 0 because the noise is symmetric about
0, and d is what is left to average. A post-processing without a linear part has L = 0, and d is its plain error. Each
post-processing says its own (`PostProcessing.control`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fairpost.counts import Counts
from fairpost.noise import Law, Mechanism, Stream
from fairpost.partition import Partition

if TYPE_CHECKING:
    from fairpost.rules.base import PostProcessing

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Linear = Callable[[Floats], Floats]
CLIPS, JUMPS = 1.0, 10.0
"""How many changes of the noise (`change_of`) a map may add to d in one run: one that only clips, and any other."""

RUNS, PARTS, SEED = 32, 16, 2**63 + 7
PUSHES = (2.5, 5.0, JUMPS)
"""Deviations of the noise."""


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


def reach(
    pi: PostProcessing, counts: Counts, mechanism: Mechanism, linear: Callable[[Floats], Floats] | None = None
) -> Floats:
    """s of each entity: what a run that has not been seen may add to an output, of a map that theory knows nothing about, by trying.

    The rare-event term of an interval (`engines.montecarlo.intervals`) is log(2/delta) s / R: an event of probability p that R runs
    have not shown moves the mean of what is left of entity i by p s_i, p <= log(2/delta) / R. s_i is the larger of

        JUMPS standard deviations of d_i in RUNS runs: what the noise of all moves at once; and
        what d_i moved when i's own noise was pushed to +-2.5, +-5 and +-10 deviations, while the others had noise of a run: a part of
        the entities at a time, so that many are pushed in one run and yet each is seen by itself.

    So the term covers whatever noise of up to ten deviations does to the count that it is added to (a threshold that is reached, a
    payment that is lost), and ten deviations of what the others do to it; Laplace noise is larger once in 1.4 million draws, Gaussian
    noise never. It does not cover what depends on a coincidence of several counts that is neither near nor common. A map that fails where it is
    pushed is taken to move by its whole range.

    `linear` is what the simulation subtracts.
    """
    n, spread = counts.n, mechanism.deviation
    noise = np.stack([mechanism.sample(n, Stream(SEED, r)) for r in range(RUNS)])

    def left(rows: Floats) -> Floats:
        out = pi.simulated(counts.values + rows, SEED, 0).values
        return out if linear is None else np.asarray(out - linear(rows), dtype=np.float64)

    seen = left(noise)
    middle, found = seen.mean(axis=0), JUMPS * seen.std(axis=0)
    whole = 1.0 if pi.problem.shares else JUMPS * spread
    parts = min(PARTS, n)
    turn = np.where(np.arange(n) // parts % 2 == 0, 1.0, -1.0)  # half of a part up, half down: the sum hardly moves
    steps = np.array([k * spread for push in PUSHES for k in (push, -push)])
    steps = np.sign(steps) * np.maximum(np.round(np.abs(steps)), 1.0) if mechanism.discrete else steps
    for part in range(parts):
        who = np.arange(part, n, parts)
        rows = noise[: steps.size].copy()
        rows[:, who] = steps[:, None] * turn[who]
        try:
            moved = np.abs(left(rows) - middle)[:, who].max(axis=0)
        except Exception:  # a user's function, on counts that it may never see
            moved = np.full(who.size, whole)
        found[who] = np.maximum(found[who], moved)
    return np.asarray(found)
