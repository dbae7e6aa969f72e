"""What simulation may subtract: for each post-processing a linear function of the noise whose mean is exactly 0.

pi(X)_i - P(x)_i = offset_i + L(eta)_i + d_i, where offset is known, E[L(eta)] = 0 because the noise is symmetric about
0, and d is what is left to average. A post-processing without a linear part has L = 0, and d is its plain error.

    none, nonnegative       L = eta
    sum, sum-clipped,       L = eta - its group's mean          offset = (C - sum x) / n of the group (pi_S is unbiased)
    simplex
    baseline, pos           L = (a_i eta_i - P_i sum_j a_j eta_j) / sum_j a_j x_j, the linearised share
    (P), (P_+)              L = the projection of x + eta onto A v = b, less that of x;  offset = the latter less x
    custom                  what it names
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairpost.counts import Counts
from fairpost.errors import ParameterError
from fairpost.noise import Mechanism
from fairpost.problems import PROBLEMS
from fairpost.rules import (
    Baseline,
    Nonnegative,
    Partition,
    PoS,
    PostProcessing,
    Simplex,
    Sum,
    SumClipped,
    Unchanged,
)
from fairpost.rules.affine.projection import Affine, AffineNonnegative
from fairpost.rules.allocation import _Shares
from fairpost.rules.base import same_length
from fairpost.rules.custom import Custom
from fairpost.rules.release import _KeepsTotal

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Linear = Callable[[Floats], Floats]


@dataclass(frozen=True, eq=False)
class Control:
    """How a post-processing's output is split: pi(X) = truth + offset + L(eta) + d."""

    truth: Floats
    """P(x)."""
    offset: Floats
    """The part of the bias that is known."""
    linear: Linear | None
    """Rows of noise to rows of L; None where there is no linear part."""
    scale: Floats
    """The size of what a single run may add to d, for events not seen yet; 0 where d is always 0."""
    labels: Ints | None
    """Entities with the same label have the same bias; None where nothing is known."""


@dataclass(frozen=True, eq=False)
class _Centred:
    partition: Partition

    def __call__(self, noise: Floats) -> Floats:
        rows = self.partition.gather(noise)
        mean = self.partition.sums(rows) / self.partition.sizes
        return self.partition.scatter(np.asarray(rows - self.partition.spread(mean)))


@dataclass(frozen=True, eq=False)
class _Linearised:
    partition: Partition
    w: Floats
    """a_i / sum_j a_j x_j of the entity's group, in gathered order; 0 where every count of the group is 0."""
    share: Floats
    """w_i x_i, in gathered order."""

    def __call__(self, noise: Floats) -> Floats:
        rows = self.partition.gather(noise) * self.w
        return self.partition.scatter(np.asarray(rows - self.share * self.partition.spread(self.partition.sums(rows))))


@dataclass(frozen=True, eq=False)
class _Projected:
    pi: Affine | AffineNonnegative
    x: Floats
    centre: Floats

    def __call__(self, noise: Floats) -> Floats:
        return np.stack([self.pi._system.equality(self.x + row)[0] for row in noise]) - self.centre


def _itself(noise: Floats) -> Floats:
    return noise


def control(counts: Counts, mechanism: Mechanism, pi: PostProcessing) -> Control:
    """The split of this post-processing for these counts."""
    x, n = counts.values, counts.n
    if isinstance(pi, (Unchanged, Nonnegative)):
        unseen = 0.0 if isinstance(pi, Unchanged) else mechanism.deviation
        return Control(x, np.zeros(n), _itself, np.full(n, unseen), _labels(x))
    if isinstance(pi, _KeepsTotal):
        return _keeps_total(counts, mechanism, pi)
    if isinstance(pi, _Shares):
        return _shares(counts, mechanism, pi)
    if isinstance(pi, (Affine, AffineNonnegative)):
        return _affine(counts, mechanism, pi)
    linear = _user_linear(pi, n) if isinstance(pi, Custom) and pi.linear is not None else None
    unseen = mechanism.deviation if pi.task == "release" else 1.0
    return Control(PROBLEMS[pi.task](counts), np.zeros(n), linear, np.full(n, unseen), None)


JUMP = 10.0
"""How many standard deviations of the noise a map may add to d in one run, where it is not one that only clips."""


def _jump(pi: PostProcessing) -> float:
    return 1.0 if isinstance(pi, (SumClipped, Simplex, Baseline, PoS)) else JUMP


def _user_linear(pi: Custom, n: int) -> Linear:
    """The user's linear part, tried on one vector: it must be odd, or its mean would not be 0."""
    probe = np.cos(np.arange(1.0, n + 1.0))[None, :]
    there, back = pi.linear_rows(probe), pi.linear_rows(-probe)
    if np.abs(there + back).max() > 1e-9 * max(np.abs(there).max(), 1e-300):
        raise ParameterError(f"the linear part of {pi.name} must change sign with the noise, it does not")
    return pi.linear_rows


def _keeps_total(counts: Counts, mechanism: Mechanism, pi: _KeepsTotal) -> Control:
    partition, totals = pi._parts(counts.n)
    same_length(counts.values, partition.n)
    shift = (totals - partition.sums(partition.gather(counts.values))) / partition.sizes
    offset = partition.scatter(np.asarray(partition.spread(shift)))
    unseen = 0.0 if isinstance(pi, Sum) else _jump(pi) * mechanism.deviation
    labels = _labels(counts.values, _members(pi.partition))
    return Control(counts.values, offset, _Centred(partition), np.full(counts.n, unseen), labels)


def _members(partition: Partition | None) -> Floats | None:
    """The group of each entity, as a number."""
    if partition is None:
        return None
    return partition.scatter(partition.spread(np.arange(len(partition.labels), dtype=np.float64)))


def _shares(counts: Counts, mechanism: Mechanism, pi: _Shares) -> Control:
    """The linearised share; Var L_i = Var[eta] (w_i^2 (1 - 2 P_i) + P_i^2 sum_j w_j^2), of the entity's group."""
    partition = Partition.whole(counts.n) if pi.partition is None else pi.partition
    a = np.ones(counts.n) if pi.weights is None else np.asarray(pi.weights)
    same_length(counts.values, partition.n)
    same_length(counts.values, a.size)
    x, weight = partition.gather(counts.values), partition.gather(a)
    need = partition.spread(partition.sums(weight * x))
    w = np.where(need > 0, weight / np.where(need > 0, need, 1.0), 0.0)
    share = w * x
    truth = np.where(need > 0, share, weight / partition.spread(partition.sums(weight)))
    variance = w * w * (1 - 2 * share) + share**2 * partition.spread(partition.sums(w * w))
    scale = np.where(need > 0, _jump(pi) * mechanism.deviation * np.sqrt(np.maximum(variance, 0.0)), 1.0)
    back = partition.scatter
    labels = _labels(counts.values, a, _members(pi.partition))
    return Control(back(truth), np.zeros(counts.n), _Linearised(partition, w, share), back(scale), labels)


def _affine(counts: Counts, mechanism: Mechanism, pi: Affine | AffineNonnegative) -> Control:
    same_length(counts.values, pi.n)
    centre = pi._system.equality(counts.values.copy())[0]
    unseen = 0.0 if isinstance(pi, Affine) else mechanism.deviation
    linear = _Projected(pi, counts.values, centre)
    return Control(counts.values, centre - counts.values, linear, np.full(counts.n, unseen), None)


def _labels(*keys: Floats | None) -> Ints:
    """One label for each distinct combination of the keys."""
    given = [np.unique(key, return_inverse=True)[1] for key in keys if key is not None]
    label = given[0]
    for other in given[1:]:
        label = np.unique(label * (int(other.max()) + 1) + other, return_inverse=True)[1]
    return label.astype(np.int64)
