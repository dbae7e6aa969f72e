"""Intervals from simulation: per entity, simultaneous over entities, and for alpha.

Half-width. With se the standard error of a mean over R runs and delta the chance to miss it,

    h = t(1 - delta/2) se + log(2/delta) s / R.

The second term is for events not seen yet. An entity whose count is clipped in one run of a million has d = 0 in all of
a few thousand runs, so se = 0, and yet its bias is not 0. Where an event of probability p, of mean size at most s (a
change of the noise in the output (`rules.control.change_of`), or what a user's map was seen to do: `reach`), has not occurred in R runs,
p <= log(2/delta) / R but for a chance of delta/2, and p s is the second term; with events seen it has the form of
Bernstein's inequality. It falls as 1/R, the first term as 1/sqrt(R), so it costs nothing where events are many. Where p is known to be at most
the chance that whole-number noise is not 0 everywhere, and that is less (`Control.chance`), it stands in the place of log(2/delta) / R.

Ties. Entities with the same count and weight have the same bias, so their estimates are averaged. Their d are
correlated, so the standard error of the average comes from the averages of the blocks (from `BLOCKS` blocks on; below
that it is the mean of the members' standard errors, which is never too small).

alpha = max B - min B. The range of noisy biases is too large in expectation: the largest of 13,000 estimates is not the
estimate of the largest. So every class gets an interval at level delta / classes (Bonferroni), all hold together with
chance 1 - delta, and on that event max(b - h) - min(b + h) <= alpha <= max(b + h) - min(b - h). Where a theorem names
the two entities that attain alpha (the smallest and the largest count: Theorem 1 for the projection; for clipping alone
the bias falls with the count) their difference, run by run, has a standard error of its own: nothing is left to choose.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairpost.accuracy import Estimate
from fairpost.partition import Partition

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
BLOCKS = 32
"""From so many blocks on their averages tell the standard error of a class of ties."""


def student(level: ArrayLike, df: ArrayLike) -> Floats:
    """The t with P(|T| > t) = level, Student's distribution with `df` degrees of freedom."""
    from scipy.special import stdtrit

    return np.asarray(-stdtrit(np.asarray(df, dtype=np.float64), np.asarray(level, dtype=np.float64) / 2))


def half_width(se: ArrayLike, scale: ArrayLike, runs: int, level: float, df: ArrayLike, chance: float = 1.0) -> Floats:
    """t se + min(log(2/level) / R, chance) s; infinite below two runs, or two blocks."""
    freedom = np.asarray(df, dtype=np.float64)
    t = np.where(freedom > 0, student(level, np.maximum(freedom, 1.0)), np.inf)
    spread, size = np.asarray(se, dtype=np.float64), np.asarray(scale, dtype=np.float64)
    sampled = np.multiply(
        t, spread, out=np.zeros(np.broadcast_shapes(t.shape, spread.shape)), where=(size > 0) | (spread > 0)
    )
    return np.asarray(sampled + min(float(np.log(2 / level)) / runs, chance) * size)


def of_squares(
    mse: Floats, between: Floats, scale: Floats, runs: int, blocks: int, level: float, chance: float = 1.0
) -> Floats:
    """Half-widths of mean squared errors, all together: se^2 = between / (blocks - 1) / runs, blocks - 1 df.

    `between` is the sum over blocks of (runs of the block) (its average - mean)^2. A run that moves an error e by s moves its
    square by at most s^2 + 2 |e| s, with |e| as its root mean square. Infinite below two blocks.
    """
    if blocks < 2:
        return np.full(mse.shape, np.inf)
    moved = scale * (scale + 2 * np.sqrt(mse))
    return half_width(np.sqrt(between / (blocks - 1) / runs), moved, runs, level / mse.size, blocks - 1, chance)


def of_chances(chance: Floats, runs: int, level: float) -> Floats:
    """Half-widths of shares of runs, all together: as `half_width` with events of size 1, and at most 1."""
    se = np.sqrt(chance * (1 - chance) / max(runs - 1, 1))
    return np.minimum(half_width(se, 1.0, runs, level / chance.size, runs - 1), 1.0)


def of_total(
    se: Floats, between: float, scale: Floats, runs: int, blocks: int, level: float, chance: float = 1.0
) -> float:
    """The half-width of a sum over entities, each known with its `se`.

    The standard error of the sum comes from the sums of the blocks; `between` as in `of_blocks`. With few blocks Student's t
    is large; then sum se, which is never too small (Cauchy and Schwarz): independent errors add up to a sum that is smaller by
    sqrt(n), so blocks are taken where their t is below sqrt(n) times the other. What was not seen is one entity's at a time,
    so it adds up like independent noise.
    """
    unseen = float(np.sqrt(np.sum(scale**2)))
    many = float(student(level, max(runs - 1, 1)))
    if blocks >= 2 and float(student(level, blocks - 1)) < np.sqrt(se.size) * many:
        error, freedom = float(np.sqrt(between / (blocks - 1) / runs)), blocks - 1
    else:
        error, freedom = float(np.sum(se)), runs - 1
    return float(half_width(error, unseen, runs, level, freedom, chance))


@dataclass(frozen=True, eq=False)
class Classes:
    """One estimate for each class of entities with the same bias."""

    bias: Floats
    standard_error: Floats
    half_width: Floats
    """All biases lie within it together, with the chance asked for."""
    first: Ints
    """One entity of each class."""
    inverse: Ints
    """The class of each entity."""


def classes(
    mean: Floats,
    squares: Floats,
    scale: Floats,
    labels: Ints | None,
    ties: Floats,
    runs: int,
    blocks: int,
    level: float,
    chance: float = 1.0,
) -> Classes:
    """From each entity's mean of d and sum of squared deviations to estimates by class.

    ties = (mean, sum of squares between blocks) of each class; `labels` None where nothing is tied.
    """
    se = np.sqrt(squares / max(runs - 1, 1) / runs)
    n = mean.size
    if labels is None:
        everyone = np.arange(n)
        return Classes(mean, se, half_width(se, scale, runs, level / n, runs - 1, chance), everyone, everyone)
    times = np.bincount(labels)
    count = times.size

    def average(values: Floats) -> Floats:
        return np.asarray(np.bincount(labels, values) / times)

    first = np.empty(count, dtype=np.int64)
    first[labels[::-1]] = np.arange(n)[::-1]
    bias, error, df = average(mean), average(se), np.full(count, runs - 1)
    if blocks >= BLOCKS:
        tied = times > 1
        error = np.where(tied, np.sqrt(ties[1, :count] / (blocks - 1) / runs), error)
        df = np.where(tied, blocks - 1, df)
    return Classes(bias, error, half_width(error, average(scale), runs, level / count, df, chance), first, labels)


def with_sums(found: Classes, plain: Floats, squares: Floats, parts: Partition) -> Classes:
    """The estimates with the sum of each part that is known: every run has it, so the plain means have it too.

    Coefficients that differ take it away. What is missing, D, goes to the entities in proportion to their variances, which
    are 0 where nothing was seen to be clipped. An interval that is D wider covers where it did before.
    """
    squares = (np.bincount(found.inverse, squares) / np.bincount(found.inverse))[found.inverse]
    whole = parts.sums(parts.gather(squares))
    missing = parts.sums(parts.gather(plain - found.bias[found.inverse]))
    each = np.where(whole > 0, missing / np.where(whole > 0, whole, 1.0), 0.0)
    moved = (squares * parts.scatter(parts.spread(each)))[found.first]
    return replace(found, bias=found.bias + moved, half_width=found.half_width + np.abs(moved))


def alpha_of_classes(found: Classes) -> tuple[Estimate, int, int]:
    """alpha, and the entities with the largest and the smallest bias."""
    b, h = found.bias, found.half_width
    most, least = int(np.argmax(b)), int(np.argmin(b))
    where = int(found.first[most]), int(found.first[least])
    if b.size == 1:
        return Estimate(0.0, 0.0, 0.0, "interval"), *where
    low = max(0.0, float(np.max(b - h) - np.min(b + h)))
    value = float(b[most] - b[least])
    return Estimate(value, low, float(np.max(b + h) - np.min(b - h)), "interval"), *where


def alpha_of_pair(mean: float, squares: float, scale: float, runs: int, level: float, chance: float = 1.0) -> Estimate:
    """alpha where the pair is known: the mean over runs of the difference of its d.

    What has not been seen at one end counts against what has not been seen at the other, so `scale` is the larger one.
    """
    se = np.sqrt(squares / max(runs - 1, 1) / runs)
    h = float(half_width(se, scale, runs, level, runs - 1, chance))
    value = max(mean, 0.0)
    return Estimate(value, max(mean - h, 0.0), max(mean + h, value), "interval")
