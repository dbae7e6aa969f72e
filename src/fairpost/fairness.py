"""alpha-fairness, the cost of privacy and summaries: pure functions of a bias vector B."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairpost.accuracy import Accuracy, Estimate, Kind
from fairpost.errors import CountsError, ParameterError
from fairpost.magnitudes import refuse

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Alpha:
    """alpha = max B - min B (Definition 2) and the two entities that attain it."""

    value: float
    most: int
    """The position of the largest bias: who gains most in expectation."""
    least: int
    """The position of the smallest bias: who loses most in expectation."""


def alpha(bias: ArrayLike) -> Alpha:
    """The fairness bound: the range of the biases, with the pair that attains it (the first, where there are ties)."""
    b = np.asarray(bias, dtype=np.float64)
    if b.ndim != 1 or b.size == 0 or not np.isfinite(b).all():
        raise CountsError("a bias vector must be one-dimensional, finite and not empty")
    most, least = int(np.argmax(b)), int(np.argmin(b))
    return Alpha(float(b[most] - b[least]), most, least)


def alpha_interval(bias: Floats, known: Accuracy) -> Estimate:
    """Alpha when each bias is known to within `known.half_width`: every bias inside its own interval."""
    error = known.half_width
    low = max(0.0, float(np.max(bias - error) - np.min(bias + error)))
    high = float(np.max(bias + error) - np.min(bias - error))
    return Estimate(alpha(bias).value, low, high, known.kind)


def cost_of_privacy(bias: ArrayLike, budget: float = 1.0) -> float:
    """B+ (Definition 5): the money needed so that no entity expects less than its due, sum of |negative biases| * B."""
    b = np.asarray(bias, dtype=np.float64)
    return float(-np.sum(b[b < 0]) * checked_budget(budget))


def cost_of_privacy_l1(bias: ArrayLike, budget: float = 1.0) -> float:
    """Proposition 3: for shares that always sum to 1 the cost of privacy is (B/2) ||bias||_1."""
    return float(np.sum(np.abs(np.asarray(bias, dtype=np.float64))) * checked_budget(budget) / 2)


def cost_interval(bias: Floats, known: Accuracy, times: ArrayLike = 1) -> Estimate:
    """The cost of privacy, as a share of the budget, when each bias is known to within `known.half_width`."""
    error = known.half_width
    losses = [np.sum(np.maximum(-(bias + s * error), 0.0) * times) for s in (1.0, 0.0, -1.0)]
    return Estimate(float(losses[1]), float(losses[0]), float(losses[2]), known.kind)


def loss_interval(bias: Floats, known: Accuracy) -> Estimate:
    """The largest expected loss of any entity, max(0, -B_i), when each bias is known to within `known.half_width`."""
    error = known.half_width
    value, low, high = (max(0.0, float(np.max(-(bias + s * error)))) for s in (0.0, 1.0, -1.0))
    return Estimate(value, low, high, known.kind)


def relative_to(bias: Floats, due: Floats, known: Accuracy, n: int) -> tuple[Floats, Floats]:
    """B_i / P_i and its half-width; NaN where nothing is due: a gain on nothing has no percentage.

    P(x)_i is a quotient of sums of n positive numbers, with a relative rounding error of at most (2n + 4) eps (see
    `Answer.rescaled`), which is added to the half-width.
    """
    some = due > 0
    unit = np.where(some, due, 1.0)
    relative = np.where(some, bias / unit, np.nan)
    rounding = (2 * n + 4) * np.finfo(np.float64).eps * np.abs(relative)
    return relative, np.where(some, known.half_width / unit, np.nan) + rounding


def relative_estimate(found: Estimate, due: float, n: int) -> Estimate | None:
    """The same relative to what is due, a sum or a mean of n positive numbers; None where nothing is due."""
    if not due > 0:
        return None
    rounding = (2 * n + 4) * float(np.finfo(np.float64).eps)
    low, high = found.low / due, found.high / due
    return Estimate(found.value / due, low - rounding * abs(low), high + rounding * abs(high), found.kind)


def relative_loss_interval(relative: Floats, half_width: Floats, kind: Kind) -> tuple[Estimate, int | None]:
    """The largest loss relative to what is due, max(0, -B_i / P_i), and whose it is; None where nobody is due anything."""
    due = np.isfinite(relative)
    if not due.any():
        return Estimate(0.0, 0.0, 0.0, kind), None
    who = np.flatnonzero(due)
    value, low, high = (max(0.0, float(np.max(-(relative + s * half_width)[who]))) for s in (0.0, 1.0, -1.0))
    return Estimate(value, low, high, kind), int(who[np.argmin(relative[who])])


def sum_interval(bias: Floats, known: Accuracy) -> Estimate:
    """The sum of the biases when each is known to within `known.half_width`, and what its own rounding adds.

    The rounding of a sum of n terms is at most (n - 1) u sum |terms|, with u half the spacing at 1 (Higham 2002, section 4.2).
    """
    rounding = (bias.size - 1) * float(np.finfo(np.float64).eps) / 2 * float(np.sum(np.abs(bias)))
    return Estimate.around(float(np.sum(bias)), float(np.sum(known.half_width)) + rounding, known.kind)


def mean_interval(values: Floats, known: Accuracy, most: float = np.inf) -> Estimate:
    """The mean over entities of numbers from 0 to `most`, each known to within `known.half_width`."""
    mean, half = float(np.mean(values)), float(np.mean(known.half_width))
    return Estimate(mean, min(max(0.0, mean - half), mean), max(min(most, mean + half), mean), known.kind)


def rmse_interval(mse: Floats, known: Accuracy) -> Estimate:
    """sqrt of the mean over entities of the mean squared error; the root is monotone, so the ends are the roots of the ends."""
    mean = mean_interval(mse, known)
    return Estimate(float(np.sqrt(mean.value)), float(np.sqrt(mean.low)), float(np.sqrt(mean.high)), known.kind)


def misallocation(bias: ArrayLike, budget: float) -> Floats:
    """The money that each entity gains (or, negative, loses) in expectation: B_i times the budget."""
    return np.asarray(bias, dtype=np.float64) * checked_budget(budget)


def checked_budget(budget: float) -> float:
    """A budget: money to share, finite and at least 0."""
    try:
        number = float(budget)
    except (TypeError, ValueError):
        raise ParameterError(f"`budget` must be a number, got {budget!r}") from None
    if not 0 <= number < np.inf:
        raise ParameterError(f"`budget` must be at least 0 and finite, got {budget!r}")
    refuse("budget", number, ParameterError)
    return number


@dataclass(frozen=True)
class Summary:
    """The biases of one group of entities, in the unit of the bias."""

    label: str
    n: int
    total: float
    """The sum of the biases: what the group as a whole gains in expectation."""
    mean: float | None
    """None for an empty group."""
    least: float | None
    most: float | None


def _summary(label: str, part: Floats) -> Summary:
    if part.size == 0:
        return Summary(label, 0, 0.0, None, None, None)
    return Summary(label, int(part.size), float(part.sum()), float(part.mean()), float(part.min()), float(part.max()))


def by_group(bias: ArrayLike, groups: Sequence[str]) -> tuple[Summary, ...]:
    """One summary per group, in order of first appearance; every group is listed, however small."""
    b = np.asarray(bias, dtype=np.float64)
    if len(groups) != b.size:
        raise CountsError(f"`groups` must have one entry per entity: {b.size} entities, {len(groups)} groups")
    places: dict[str, int] = {}
    member = np.fromiter((places.setdefault(g, len(places)) for g in groups), np.int64, b.size)
    order = np.argsort(member, kind="stable")
    cuts = np.cumsum(np.bincount(member))[:-1]
    return tuple(_summary(label, part) for label, part in zip(places, np.split(b[order], cuts), strict=True))


def by_size(bias: ArrayLike, values: ArrayLike, edges: Sequence[float] | None = None) -> tuple[Summary, ...]:
    """One summary per size bin [edge, next edge); the default edges are 0, 1, 10, 100, ... Empty bins are listed too."""
    b, x = np.asarray(bias, dtype=np.float64), np.asarray(values, dtype=np.float64)
    if b.shape != x.shape:
        raise CountsError(f"`values` must have one entry per entity: {b.size} entities, {x.size} values")
    if edges is None:
        top = int(np.floor(np.log10(max(float(x.max()), 1.0)))) + 1
        edges = [0.0, *(10.0**k for k in range(top + 1))]
    cuts = np.asarray(edges, dtype=np.float64)
    if cuts.size < 2 or (np.diff(cuts) <= 0).any() or x.min() < cuts[0] or x.max() >= cuts[-1]:
        raise ParameterError("size bins must have ascending edges that contain every count")
    bins = np.searchsorted(cuts, x, side="right") - 1
    labels = [f"[{low:g}, {high:g})" for low, high in pairwise(cuts)]
    return tuple(_summary(label, b[bins == k]) for k, label in enumerate(labels))
