"""From the means of scrambles to numbers with intervals. Every choice is made on a pilot that is thrown away.

All entities share the points and miss together, the range of estimates is biased upwards, and points added until an interval is narrow
are optional stopping. So `PILOT` scrambles choose the number of points, the coefficients of the controls, the pair of alpha and who else
may attain it; fresh scrambles give the numbers, each scramble one independent number without bias, and Student's t makes the interval
(L'Ecuyer, Nakayama, Owen and Tuffin 2023).

alpha. With delta the chance to miss, D = B_i - B_j and h(c) = t(1 - c) s_D / sqrt R:

- low = mean D - h(2/5 delta) of the pilot's pair: no pair has more than alpha.
- high = max over candidates of mean D + h(delta/2): it is at least the end of the pair that attains alpha, so no union is paid for.
- Candidates are all that the pilot cannot exclude: the end that attains alpha is lost with the last delta/10. Where theory
  names the pair there is one candidate.

Biases. Bonferroni over the m distinct pairs, half of delta for the candidates, which decide what is said about extremes.

Second look. Where the interval is too wide after all, or the means are skewed, fresh scrambles are drawn, twice as many, each with twice the
points; a tenth of delta is kept for them from the start, so that both looks together miss with delta at most.
Means that are skewed still have Chebyshev's interval. Where one scramble makes the skewness, their scatter is not known and nothing is said.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from fairpost import cancel
from fairpost.accuracy import Estimate
from fairpost.engines.base import Floats
from fairpost.engines.conditional.points import LEVELS, Scramble
from fairpost.engines.moments import Moments
from fairpost.engines.montecarlo.intervals import student
from fairpost.parallel import over_slices

if TYPE_CHECKING:
    from fairpost.engines.conditional.integrand import Block

Ints = NDArray[np.int64]
PILOT, PARTS = 8, 8
"""Scrambles of a pilot, and the parts of each, nets themselves, to which coefficients are fitted."""
LEAST, MANY, DRAWS = 16, 256, 2**12
"""Points of a scramble at first: as many as make so many draws of noise, but not less than two in each part."""
MARGIN = 1.6
"""The standard deviation of 32 scrambles is more than this many times that of 8 with a chance of a tenth (F(31, 7))."""
SPARE = 2
"""So many times the usual scrambles, before their points are doubled: that costs as much, and the pilot's besides."""
SKEWED = 1.0
"""Of 32 normal numbers the skewness exceeds this once in fifty times; Student's t is not for those. Of R numbers it is at most sqrt(R)."""
RATE = 1.5
"""Errors of scrambled nets fall like N^-3/2 at best."""
BYTES = 2**24
"""Of a block of points with what is found at them, in each thread."""
SMALL = 1e-12
"""Half-widths of alpha below this part of the noise's standard deviation are no news to anybody."""
ROUNDING = 8 * float(np.finfo(np.float64).eps)
"""Of numbers that a control may cancel."""
UNLIKELY = 1e-4
"""Chance that a control that does what it should is not used."""
COLLINEAR = float(np.sqrt(np.finfo(np.float64).eps))
"""Relative to the largest singular value: below it half of the digits of a direction are gone."""
KEPT = 0.1
"""The part of the chance to miss that is kept for a second look."""


class Integrand(Protocol):
    """Conditional means of every distinct pair, as functions of uniform numbers: of biases less `offset`, squares, P(0) and T."""

    @property
    def dimension(self) -> int:
        """Uniforms of a point."""

    @property
    def offset(self) -> Floats:
        """The part of each bias that is known without points."""

    @property
    def remainder(self) -> Floats:
        """What no point sees of each bias."""

    def __call__(self, u: Floats) -> Block:
        """At the points u."""


Beyond = Callable[[int], Floats]
"""What of each bias may lie where none of so many points comes."""


@dataclass(frozen=True)
class Wanted:
    """How well, how surely, and with how many points at most."""

    rtol: float
    """Of alpha."""
    enough: float
    """A half-width of alpha that is narrow enough whatever alpha is."""
    unit: float
    """The noise's standard deviation in the unit of the answer."""
    change: float
    """What one noise changes in an output, in that unit: its deviation, and the height of a threshold."""
    miss: float
    """The chance with which alpha, and the biases together, may lie outside."""
    points: int
    seed: int
    look: int
    """Whoever asks again with another number gets fresh scrambles."""
    ends: tuple[int, int] | None = None
    """The distinct pairs that attain alpha, where theory knows."""

    def target(self, alpha: float) -> float:
        """The half-width that is narrow enough."""
        return max(self.rtol * alpha, self.enough, SMALL * self.unit)


@dataclass(frozen=True)
class Means:
    """The mean over each scramble: columns are biases less their offset, squares and P(0) of the pairs, T, degenerate, controls."""

    integrand: Integrand
    wanted: Wanted

    def of(self, scrambles: range, first: int, last: int, parts: int = 1) -> Floats:
        """[scramble, part, column] over the points from `first` to `last`; the same bits on any number of threads."""

        def some(which: slice) -> list[Floats]:
            return [self._one(r, first, last, parts) for r in scrambles[which]]

        return np.array([one for part in over_slices(some, len(scrambles)) for one in part])

    def _one(self, r: int, first: int, last: int, parts: int) -> Floats:
        dimension, m = self.integrand.dimension, self.integrand.offset.size
        net = Scramble(dimension, self.wanted.seed, self.wanted.look, r)
        size = (last - first) // parts
        step = min(size, max(1, 2 ** int(np.log2(BYTES / (8 * (2 * dimension + 4 * m))))))
        found = list[Floats]()
        for start in range(first, last, size):
            total: Floats | float = 0.0
            for at in range(start, start + size, step):
                cancel.check()
                b = self.integrand(net.points(at, step))
                columns = [b.bias, b.square, b.zero, b.threshold[:, None], b.degenerate[:, None], b.controls]
                total = total + np.concatenate([one.sum(axis=0) for one in columns])
            found.append(np.asarray(total) / size)
        return np.array(found)


@dataclass(frozen=True, eq=False)
class Pilot:
    """What the pilot has chosen."""

    points: int
    """Of each scramble."""
    coefficients: Floats
    """[control, column]."""
    pair: tuple[int, int]
    most: Ints
    """Who may have the largest bias."""
    least: Ints
    scrambles: int
    """How many give the numbers."""
    half_width: float
    """Of alpha, as foreseen."""
    alpha: float
    """Of the pilot alone, which has chosen the pair too."""
    low: float
    bias: Floats
    error: Floats
    """Of each bias, jointly, from the pilot alone."""


def pilot(means: Means, beyond: Beyond) -> Pilot:
    """Points are doubled until the half-width foreseen is narrow enough, or cannot become so."""
    wanted, m = means.wanted, means.integrand.offset.size
    scrambles = 32 if m <= 500 else 64
    n = int(2 ** np.clip(np.log2(DRAWS / max(means.integrand.dimension, 1)) // 1, np.log2(LEAST), np.log2(MANY)))
    limit = max(n, 2 ** min(int(np.log2(max(wanted.points // (PILOT + scrambles), 1))), LEVELS - 1))
    seen, left = means.of(range(PILOT), 0, n, PARTS), means.integrand.remainder + beyond(scrambles * limit)
    while True:
        error = means.integrand.remainder + beyond(scrambles * n)
        found = _chosen(seen, means, error, n, scrambles)
        wide, target, ends = found.half_width, wanted.target(found.alpha), list(found.pair)
        more = int(np.ceil(scrambles * max(wide / target, 1.0) ** 2))
        if more <= SPARE * scrambles and (PILOT + more) * n <= max(wanted.points, (PILOT + scrambles) * n):
            return replace(found, scrambles=more, half_width=min(wide, target))
        at_limit = (wide - float(error[ends].sum())) * (n / limit) ** RATE + float(left[ends].sum())
        if n >= limit or at_limit > 10 * target:
            return found
        rest = means.of(range(PILOT), n, 2 * n, PARTS // 2)
        seen = np.concatenate([(seen[:, ::2] + seen[:, 1::2]) / 2, rest], axis=1)
        n *= 2


def _chosen(seen: Floats, means: Means, error: Floats, n: int, scrambles: int) -> Pilot:
    wanted, m = means.wanted, error.size
    coefficients = _coefficients(seen, 3 * m + 2)
    each = _controlled(seen.mean(axis=1), coefficients)[:, :m] + means.integrand.offset
    bias, se = each.mean(axis=0), _standard_error(each)
    pair = (int(np.argmax(bias)), int(np.argmin(bias))) if wanted.ends is None else wanted.ends
    sure = float(student(wanted.miss / 10, PILOT - 1))  # delta/20 at either end

    def near(end: int, sign: int) -> Ints:
        if wanted.ends is not None:
            return np.array([end])
        gap = sign * (each[:, [end]] - each)
        return np.flatnonzero(gap.mean(axis=0) <= sure * _standard_error(gap) + error + error[end])

    most, least = near(pair[0], 1), near(pair[1], -1)
    widths = np.array([_standard_error(each[:, [i]] - each[:, least]) for i in (pair[0], *most)])
    own, every = widths[0][np.searchsorted(least, pair[1])], float(np.sqrt(np.mean(widths**2)))
    wide = max(MARGIN * own, MARGIN * every, float(widths.max())) * np.sqrt(PILOT / scrambles)
    half = float(student(wanted.miss * 0.8, scrambles - 1)) * wide + error[pair[0]] + error[pair[1]]
    joint = student(wanted.miss / m, PILOT - 1) * se + error
    alpha = float(bias[pair[0]] - bias[pair[1]])
    low = alpha - float(student(0.05, PILOT - 1)) * float(own)
    return Pilot(n, coefficients, pair, most, least, scrambles, float(half), alpha, low, bias, joint)


def _coefficients(seen: Floats, columns: int) -> Floats:
    """Of the controls in each column, by least squares over the parts of scrambles, each control in units of its scatter there.

    Every control has the mean 0. Where the means of the pilot's scrambles do not confirm that (what makes it vary is rarer than they show, or
    it is rounding), it is not used: its coefficient would say nothing about points that show more. Directions in which the controls differ by
    rounding alone are left out. 0 where the fit to one half of the scrambles does not leave less scatter in the other half than nothing does.
    """
    y, c = seen[..., :columns], seen[..., columns:]
    out = np.zeros((c.shape[-1], columns))
    if out.size == 0:
        return out

    def centred(values: Floats) -> Floats:
        flat = np.reshape(values, (-1, values.shape[-1]))
        return np.asarray(flat - flat.mean(axis=0))

    scatter, means = np.sqrt(np.mean(centred(c) ** 2, axis=0)), c.mean(axis=1)
    used = (scatter > ROUNDING * np.maximum(np.max(np.abs(c), axis=(0, 1)), 1.0)) & _confirmed(means, PILOT)
    if not used.any():
        return out
    c = c[..., used] / scatter[used]

    def fitted(some: slice) -> Floats:
        return np.asarray(np.linalg.pinv(centred(c[some]), rcond=COLLINEAR) @ centred(y[some]))

    halves, with_, without = (slice(0, PILOT // 2), slice(PILOT // 2, PILOT)), np.zeros(columns), np.zeros(columns)
    for one, other in (halves, halves[::-1]):
        plain, control = y[other].mean(axis=1), c[other].mean(axis=1)
        with_ += np.sum(centred(plain - control @ fitted(one)) ** 2, axis=0)
        without += np.sum(centred(plain) ** 2, axis=0)
    out[used] = np.where(with_ < without, fitted(slice(None)), 0.0) / scatter[used][:, None]
    return out


def _confirmed(rows: Floats, many: int) -> Floats:
    """Whether the means of scrambles agree with 0, as those of a control whose scatter has been seen do but for a chance of `UNLIKELY`."""
    return np.asarray(np.abs(rows.mean(axis=0)) <= student(UNLIKELY, many - 1) * _standard_error(rows))


def _controlled(rows: Floats, coefficients: Floats) -> Floats:
    """The columns less what controls say, where the scatter of that explains its mean: else a control has not shown what it does."""
    columns = coefficients.shape[1]
    control = rows[:, columns:] @ coefficients
    return rows[:, :columns] - np.where(_confirmed(control, len(rows)), control, 0.0)


def _standard_error(rows: Floats) -> Floats:
    return np.asarray(np.std(rows, axis=0, ddof=1) / np.sqrt(len(rows)))


def skewness(values: Floats) -> float:
    """Of a sample; 0 where nothing scatters."""
    from_mean = values - values.mean()
    scatter = float(np.mean(from_mean**2))
    return float(np.mean(from_mean**3) / scatter**1.5) if scatter > 0 else 0.0


def quantile(level: Floats | float, freedom: int, skewed: bool) -> Floats:
    """So many standard errors are exceeded with the chance `level`: Student's t, or for skewed means Chebyshev's, which holds for any law."""
    chebyshev: Floats = 1 / np.sqrt(np.asarray(level, dtype=np.float64))
    return chebyshev if skewed else student(level, freedom)


def alpha_of(each: Floats, error: Floats, chosen: Pilot, miss: float, skewed: bool) -> Estimate:
    """alpha from the biases [scramble, pair] of fresh scrambles; `error` is what no point sees of each bias."""
    i, j = chosen.pair
    freedom, gap = len(each) - 1, each[:, i] - each[:, j]
    value = max(float(gap.mean()), 0.0)
    lost = float(quantile(0.8 * miss, freedom, skewed) * _standard_error(gap) + error[i] + error[j])
    high, t = value, float(quantile(miss, freedom, skewed))
    for a in chosen.most:
        gaps = each[:, [a]] - each[:, chosen.least]
        ends = gaps.mean(axis=0) + t * _standard_error(gaps) + error[a] + error[chosen.least]
        high = max(high, float(ends.max()))
    return Estimate(value, max(float(gap.mean()) - lost, 0.0), high, "interval")


def moments(
    means: Means, rows: Floats, points: int, chosen: Pilot, error: Floats, miss: float
) -> tuple[Moments, float]:
    """Everything about the distinct pairs, and the skewness where it matters: at the pair of alpha.

    `error` is what no point sees of each bias. An event that none of N points has shown has a chance of at most log(2/delta) / N, but for
    delta/2: P(0) and, with what one noise changes, squares are not known better.
    """
    integrand = means.integrand
    m, freedom = error.size, len(rows) - 1
    found = _controlled(rows, chosen.coefficients)
    mean, se = found.mean(axis=0), _standard_error(found)
    control = np.max(np.abs(rows[:, 3 * m + 2 :]), axis=0) @ np.abs(chosen.coefficients[:, :m])
    error = error + ROUNDING * (np.abs(integrand.offset) + np.max(np.abs(rows[:, :m]), axis=0) + control)
    extreme = np.zeros(m)
    extreme[np.union1d(chosen.most, chosen.least)] = 1.0
    level = miss / 2 * (extreme / extreme.sum() + 1 / m)
    each = found[:, :m] + integrand.offset
    square, zero = slice(m, 2 * m), slice(2 * m, 3 * m)
    skew = skewness(each[:, chosen.pair[0]] - each[:, chosen.pair[1]])
    skewed = abs(skew) > SKEWED
    t, change = quantile(miss / m, freedom, skewed), means.wanted.change
    unseen = float(np.log(2 * m / miss)) / points
    squares = np.maximum(mean[square], 0.0)
    lopsided = np.array([abs(skewness(column)) > SKEWED for column in found[:, square].T])
    wide = np.where(lopsided, quantile(miss / m, freedom, True), quantile(miss / m, freedom, False))
    return (
        Moments(
            bias=each.mean(axis=0),
            error=quantile(level, freedom, skewed) * se[:m] + error,
            mse=squares,
            zero=np.clip(mean[zero], 0.0, 1.0),
            threshold=float(mean[3 * m]),
            degenerate=float(np.clip(mean[3 * m + 1], 0.0, 1.0)),
            mse_error=wide * se[square] + unseen * change * (change + 2 * np.sqrt(squares)),
            zero_error=np.minimum(t * se[zero] + unseen, 1.0),
            threshold_error=float(quantile(miss, freedom, skewed) * se[3 * m] + np.max(error)),
            alpha=alpha_of(each, error, chosen, miss, skewed),
            kind="interval",
        ),
        skew,
    )


@dataclass(frozen=True, eq=False)
class Found:
    """The moments of the distinct pairs and how they came about."""

    moments: Moments
    pair: tuple[int, int]
    scrambles: int
    points: int
    """Of each scramble."""
    short: str | None = None
    """Why it is not what was asked for."""
    known: bool = True
    """Whether the intervals mean anything."""


def found(integrand: Integrand, beyond: Beyond, wanted: Wanted) -> Found | Pilot:
    """The moments; the pilot alone where the points allowed are far from enough."""
    means, miss = Means(integrand, wanted), (1 - KEPT) * wanted.miss
    chosen = pilot(Means(integrand, replace(wanted, miss=miss)), beyond)
    if chosen.half_width > max(10 * wanted.target(chosen.alpha), 0.3 * chosen.alpha):
        return chosen
    scrambles, points, first = chosen.scrambles, chosen.points, PILOT
    while True:
        rows = means.of(range(first, first + scrambles), 0, points)[:, 0]
        error = integrand.remainder + beyond(scrambles * points)
        seen, skew = moments(means, rows, scrambles * points, chosen, error, miss)
        assert seen.alpha is not None
        wide, target = seen.alpha.half_width, wanted.target(seen.alpha.value)
        again = first == PILOT and (PILOT + 5 * scrambles) * points <= wanted.points
        if again and (wide > target or abs(skew) > SKEWED) and wide > SMALL * wanted.unit:
            first, scrambles, points, miss = first + scrambles, 2 * scrambles, 2 * points, KEPT * wanted.miss
            continue
        short, known = None, abs(skew) <= np.sqrt(scrambles) / 2 or wide <= SMALL * wanted.unit
        if not known:
            short = f"one of {scrambles} scrambles says nearly all that is known of the scatter of their means"
        elif wide > target:
            short = f"alpha = {seen.alpha.value:.6g} is known to {wide:.2g} only, which misses the relative tolerance {wanted.rtol:g}"
        return Found(seen, chosen.pair, scrambles, points, short, known)
