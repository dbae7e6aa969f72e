"""What an outside analyst can say from noisy counts alone: shares, how sure they are, and an estimate of their bias.

Intervals. The analyst sees y = x + eta and knows the law of eta. With z_i = a_i x_i and R_i = sum_{j != i} z_j the true
share is z_i / (z_i + R_i), which rises in x_i and falls in R_i. Two events pin both down:

    |eta_i| <= q                    fails with chance beta_1, from the law of the noise;
    |sum_{j != i} a_j eta_j| <= r   fails with chance beta_2, by Chernoff: P <= 2 exp(sum_j K(a_j s) - s r) for any s,

K the cumulant generating function of the noise (K >= 0, so leaving i out only helps and one r serves all entities).
With x >= 0 this gives an interval for each true share that covers it with chance at least 1 - beta_1 - beta_2, at any n
and with no approximation. The sum is known far better than one count, so beta_2 is a hundredth of the whole.

Bias. It depends on the true counts, which the analyst does not have. The plug-in estimate puts in their place the noisy
counts projected onto {v >= 0, sum v = sum y}, and audits those. How good that is, a parametric bootstrap tells: new
noise on the plugged-in counts, the same estimate again, and the root mean square of the differences.

Payments under a law. The own count lies in an interval as above, and what the law makes of it follows by monotony (`ranges`), jumps
included. What an entity shares with the others, A(x) (pro rata the sum of what they are due, else the factors of reduction), is
known from A(y), whose law replicates tell. With K A(y) = E A(y + eta'), which one more draw of the noise tells,

    A_1 = A(y) - (K A(y) - A(y))            the bias that thresholds and brackets make is taken off once;
    rho = A(y) - (2 K A(y) - K K A(y))      what A_1 misses on replicates, whose true A is A(y): the remainder.

A lies between A_1 and A_1 + 3 rho, or beyond by t s and by the most that one entity moved in a replicate; s^2 = Var A_1 on the
replicates, t Student's. (With two draws after the same first one Var A_1 = 4 Var A - 4 Cov(A, A_2) + Cov(A_2, A_3). The remainders
of later corrections fall; where the noise is wide beside the counts they add up to some twice the first.) That is a statement about
many: it takes the counts near thresholds to lie on both sides of them, as no noisy data can tell where they stand within less
than the noise. A box of all counts holds for every x, and is narrower where few entities decide; each interval is the part
that both leave. A tenth of the chance to fail goes to what is shared, a hundredth to the box.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairpost.audit import audit
from fairpost.counts import Counts, positive_weights
from fairpost.engines import Engine, engine_of
from fairpost.errors import CountsError, ParameterError, UnsupportedError
from fairpost.noise import Law, Mechanism, Stream
from fairpost.partition import Partition
from fairpost.problems import Programme
from fairpost.problems.programme.ranges import Box, common, payment_range, worth_range
from fairpost.results import Audit
from fairpost.results.allocation import ESTIMATED, Interval, PlugIn
from fairpost.rules import PAYING, project_simplex
from fairpost.rules.base import finite_rows
from fairpost.rules.programme import Paying

Floats = NDArray[np.float64]
Places = NDArray[np.int64]
DEVIATION = 256
"""Runs for the standard deviations of payments with floors: known to 4.4 %."""
__all__ = ["ESTIMATED", "Interval", "PlugIn", "plug_in", "share_interval"]


def share_interval(
    noisy: ArrayLike,
    mechanism: Law,
    weights: ArrayLike | None = None,
    *,
    confidence: float = 0.95,
    simultaneous: bool = False,
    within: Partition | None = None,
) -> Interval:
    """An interval for each entity's true share a_i x_i / sum_j a_j x_j, from noisy counts and the law of the noise.

    `within`: of the share inside the entity's group. All together then hold with a chance of at least `confidence` because
    each group fails with its part of 1 - confidence, in proportion to its size.
    """
    y, a = _given(noisy, weights)

    def ends(g: int, who: Places, beta: float) -> tuple[Floats, Floats]:
        return _ends(y[who], a[who], mechanism, beta, simultaneous)

    return _interval(y.size, within, confidence, simultaneous, ends)


def _interval(
    n: int, within: Partition | None, confidence: float, simultaneous: bool, ends: Callable[[int, Places, float], Any]
) -> Interval:
    """The intervals of each group by itself: `ends` finds those of group g, which fail with a chance of beta."""
    if not 0 < confidence < 1:
        raise ParameterError(f"`confidence` must be above 0 and below 1, got {confidence!r}")
    low, high = np.empty((2, n))
    for g, who in enumerate((within or Partition.whole(n)).groups):
        low[who], high[who] = ends(g, who, (1 - confidence) * (who.size / n if simultaneous else 1.0))
    return Interval(low, high, confidence, simultaneous)


def _ends(y: Floats, a: Floats, mechanism: Law, beta: float, simultaneous: bool) -> tuple[Floats, Floats]:
    """The ends of the intervals of entities that share one whole; they fail with chance beta, each or all together."""
    own = 0.99 * beta / (y.size if simultaneous else 1)
    q = _quantile(mechanism, own / 2)
    r = _chernoff(mechanism, a, 0.01 * beta) if y.size > 1 else 0.0  # a single entity has nobody beside it
    rest = float(np.sum(a * y)) - a * y
    low, high = a * np.maximum(y - q, 0.0), a * np.maximum(y + q, 0.0)
    least, most = np.maximum(rest - r, 0.0), np.maximum(rest + r, 0.0)
    return _share(low, most, 0.0), _share(high, least, 1.0)


def _share(own: Floats, rest: Floats, otherwise: float) -> Floats:
    whole = own + rest
    return np.where(whole > 0, own / np.where(whole > 0, whole, 1.0), otherwise)


def _quantile(mechanism: Law, tail: float) -> float:
    """The smallest q (to rounding, from above) with P(eta > q) <= tail."""
    high = mechanism.deviation
    while mechanism.sf(high) > tail:
        high *= 2
    low = 0.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (low, middle) if mechanism.sf(middle) <= tail else (middle, high)
    return math.floor(high) if mechanism.discrete and mechanism.sf(math.floor(high)) <= tail else high


def _chernoff(mechanism: Law, a: Floats, level: float) -> float:
    """An r with P(|sum a eta| > r) <= level: (sum K(a s) + log(2/level)) / s at the best s found; any s is valid."""
    from scipy.optimize import minimize_scalar

    kinds, times = np.unique(a, return_counts=True)
    log = math.log(2 / level)
    rough = math.sqrt(2 * log / (mechanism.variance * float(np.sum(a * a))))
    top = min(20 * rough, 0.999 * mechanism.strip / float(kinds[-1]))

    def r(t: float) -> float:
        s = top * math.exp(t)
        return (float(np.sum(times * mechanism.cgf(kinds * s))) + log) / s

    return float(minimize_scalar(r, bounds=(-12.0, 0.0), method="bounded").fun)


REPLICATED = 1e-3
"""The tolerance of a bootstrap replicate: ten of them tell an error to some 20 %."""


def plug_in(
    noisy: ArrayLike,
    mechanism: Law,
    weights: ArrayLike | None = None,
    how: str = "pos",
    *,
    engine: str | Engine = "auto",
    within: Partition | None = None,
    replicates: int = 10,
    seed: int = 0,
) -> PlugIn:
    """The bias of the shares by `how`, estimated from noisy counts; `replicates` bootstrap draws tell its error.

    `within`: of the shares inside each group; the plugged-in counts keep the noisy sum of each.
    """
    y, a = _given(noisy, weights)
    labels = None if within is None else within.member.tolist()

    def estimate(x: Floats, finder: str | Engine) -> Audit:
        counts = Counts(x, weights=a, groups=labels)
        return audit(counts, mechanism, how, engine=finder, by_group=within is not None)

    x = _plugged(y, within)
    found = estimate(x, engine)
    rough = engine_of("auto", rtol=REPLICATED) if engine == "auto" else engine

    def again(k: int) -> Floats:
        drawn = x + mechanism.sample(y.size, Stream(seed, k))
        return estimate(_plugged(drawn, within), rough).bias

    error = _bootstrapped(found.bias, again, replicates)
    return PlugIn(found.bias, error, found.moments.deviation, found.method, replicates)


def _bootstrapped(bias: Floats, again: Callable[[int], Floats], replicates: int) -> Floats:
    """The root mean square of what replicates differ by."""
    if replicates < 2:
        raise ParameterError(f"`replicates` must be at least 2, got {replicates!r}")
    squares = np.zeros_like(bias)
    for k in range(replicates):
        squares += (again(k) - bias) ** 2
    return np.sqrt(squares / replicates)


def law_interval(
    noisy: ArrayLike,
    law: Programme,
    mechanism: Law,
    *,
    confidence: float = 0.95,
    simultaneous: bool = False,
    seed: int = 0,
) -> Interval:
    """An interval for what the law would pay each entity on the true counts, from noisy counts.

    |eta_i| <= q bounds an entity's own count from both sides; what it shares with the others comes from replicates of stream `seed`
    (see above); every |eta_j| <= r, for all together, is a box that holds at any n. A law with noise on its base has the same
    for the bases, each with half of the chance. Groups that share appropriations of their own are problems of their own; all
    together fail with their parts of the chance, in proportion to their sizes.
    """
    y, _ = _given(noisy, law.weights)
    if law.seats is not None:
        raise UnsupportedError(f"{law.name}: no interval is known for seats")
    if law.base_noise is not None and not isinstance(law.base_noise, Law):
        raise UnsupportedError(f"{law.name}: the law of {law.base_noise.name} noise on the base is not known")

    def ends(g: int, who: Places, beta: float) -> tuple[Floats, Floats]:
        own = law if law.partition is None else law.alone(g)
        return _law_ends(y[who], own, mechanism, beta, simultaneous, seed)

    return _interval(y.size, law.partition, confidence, simultaneous, ends)


def _law_ends(
    y: Floats, law: Programme, mechanism: Law, beta: float, simultaneous: bool, seed: int
) -> tuple[Floats, Floats]:
    """The ends for entities that share one appropriation (or nothing); they fail with chance beta, each or all together."""
    noise = law.base_noise if isinstance(law.base_noise, Law) else None
    base = np.zeros(y.size) if law.base is None else law.base
    kinds = 1 if noise is None else 2

    def box(level: float) -> Box:
        q = _quantile(mechanism, level / kinds / 2)
        wide = 0.0 if noise is None else _quantile(noise, level / kinds / 2)
        return Box(
            (np.maximum(y - q, 0.0), np.maximum(y + q, 0.0)),
            (np.maximum(base - wide, 0.0), np.maximum(base + wide, 0.0)),
        )

    if law.share == "none":
        low, high = worth_range(law, box(beta / (y.size if simultaneous else 1)))
        factor = np.ones(y.size) if law.entitlement is None else law.a(y.size)
        return low * factor, high * factor
    own, all_of = box(0.9 * beta / (y.size if simultaneous else 1)), box(0.01 * beta / y.size)
    return payment_range(law, own, all_of, _replicated(y, law, mechanism, 0.09 * beta, simultaneous, seed))


LATER = 3.0
"""How many times the first remainder all of them together are taken to be, at most."""
REPLICATES, REPLICATED_SEED, AT_ONCE = 128, 0xBB67AE8584CAA73B, 2**20
"""Replicates behind an interval, what is added to the seed for them, and how many noisy counts are held at once."""


def _replicated(
    y: Floats, law: Programme, mechanism: Law, level: float, simultaneous: bool, seed: int
) -> tuple[Floats, Floats] | None:
    """The ends of what entities have in common (`ranges.common`); None where replicates do not tell it."""
    from fairpost.engines.montecarlo.intervals import student

    base = np.zeros(y.size) if law.base is None else law.base
    draws = _Draws(y.size, mechanism, law.base_noise, (seed + REPLICATED_SEED) % 2**64)
    start = common(law, y[None, :], base)
    if start is None:
        return None
    at, moved = start.values[0], start.moved
    mean, squares = np.zeros((2, at.size)), np.zeros((3, at.size))
    size = max(1, AT_ONCE // (4 * y.size))
    for first in range(0, REPLICATES, size):
        many = min(size, REPLICATES - first)
        found = common(law, *draws.replicates(y, base, first, many))
        if found is None:
            return None
        one, two, other = (found.values[1 + k * many : 1 + (k + 1) * many] - at for k in range(3))
        moved = np.maximum(moved, found.moved)
        mean += one.sum(axis=0), (two + other).sum(axis=0) / 2
        squares += (one**2).sum(axis=0), (one * (two + other)).sum(axis=0) / 2, (two * other).sum(axis=0)
    mean /= REPLICATES
    products = np.array([mean[0] ** 2, mean[0] * mean[1], mean[1] ** 2])
    variance, mixed, later = (squares / REPLICATES - products) * (REPLICATES / (REPLICATES - 1))
    spread = np.sqrt(np.maximum(4 * variance - 4 * mixed + later, variance))
    once, rho = at - mean[0], mean[1] - 2 * mean[0]
    t = student(level / (at.size if simultaneous else start.each), REPLICATES - 1)
    wide = t * spread * math.sqrt(1 + 6 / REPLICATES) + moved  # the means are known to some root of 6 / REPLICATES of s
    return once + np.minimum(LATER * rho, 0.0) - wide, once + np.maximum(LATER * rho, 0.0) + wide


@dataclass(frozen=True)
class _Draws:
    """The noise of replicates, of counts and of a base that has noise."""

    n: int
    mechanism: Mechanism
    base_noise: Mechanism | None
    seed: int

    def replicates(self, y: Floats, base: Floats, first: int, many: int) -> tuple[Floats, Floats]:
        """y, then `many` rows of it with noise, then as many of those with more, twice; bases likewise, or as they are."""
        bases = base if self.base_noise is None else self._rows(base, self.base_noise, 3, first, many)
        return self._rows(y, self.mechanism, 0, first, many), np.maximum(bases, 0.0)

    def _rows(self, at: Floats, noise: Mechanism, kind: int, first: int, many: int) -> Floats:
        def drawn(k: int) -> Floats:
            streams = (Stream(self.seed, (kind + k) * REPLICATES + first + r) for r in range(many))
            return np.stack([noise.sample(self.n, stream) for stream in streams])

        one = at + drawn(0)
        return np.vstack([at[None, :], one, one + drawn(1), one + drawn(2)])


def law_plug_in(
    noisy: ArrayLike, law: Programme, mechanism: Law, how: str = "as-written", *, replicates: int = 10, seed: int = 0
) -> PlugIn:
    """The bias of payments under a law, estimated as `plug_in` does, from noisy counts cut at 0 (whole where the noise is).

    A base with noise of its own is cut and drawn anew likewise. With hold-harmless or a minimum the bias is the mean field's, and
    deviations are those of a short simulation.
    """
    y, _ = _given(noisy, law.weights)
    base, noise = law.base, law.base_noise
    floors = law.hold_harmless is not None or law.minimum is not None
    if noise is not None and floors:
        raise UnsupportedError(
            f"{law.name}: no estimate of the bias is known for hold-harmless or a minimum with noise on the base"
        )

    def cut(noisy: Floats, noise: Mechanism) -> Floats:
        return np.maximum(np.round(noisy) if noise.discrete else noisy, 0.0)

    def estimate(noisy: Floats, base: Floats | None) -> tuple[Floats, Floats, str]:
        x, pi = cut(noisy, mechanism), PAYING[how](replace(law, base=base)).for_mechanism(mechanism)
        if floors:
            return _by_mean_field(x, pi, mechanism), np.empty(0), "mean-field"
        result = audit(Counts(x, weights=law.weights, base=base), mechanism, pi)
        return result.bias, result.moments.deviation, result.method

    bases = base if noise is None or base is None else cut(base, noise)
    bias, deviation, method = estimate(y, bases)
    x = cut(y, mechanism)
    if floors:
        runs = np.stack([mechanism.sample(y.size, Stream(seed, 2 * replicates + k)) for k in range(DEVIATION)])
        deviation = np.std(PAYING[how](law).for_mechanism(mechanism)(x + runs), axis=0)

    def again(k: int) -> Floats:
        drawn = bases
        if noise is not None and bases is not None:
            drawn = cut(bases + noise.sample(y.size, Stream(seed, replicates + k)), noise)
        return estimate(x + mechanism.sample(y.size, Stream(seed, k)), drawn)[0]

    return PlugIn(bias, _bootstrapped(bias, again, replicates), deviation, method, replicates)


def _by_mean_field(x: Floats, pi: Paying, mechanism: Law) -> Floats:
    """The bias at fixed factors, group by group where each shares its own appropriation."""
    if pi.partition is None:
        return pi.mean_field(x, mechanism).bias
    bias = np.empty(x.size)
    for g, who in enumerate(pi.partition.groups):
        bias[who] = pi.alone(g).mean_field(x[who], mechanism).bias
    return bias


def _plugged(y: Floats, within: Partition | None) -> Floats:
    """Counts that are not negative and keep the noisy sum of every group, which must be above 0."""
    x = np.empty_like(y)
    for who in (within or Partition.whole(y.size)).groups:
        total = float(np.sum(y[who]))
        if total <= 0:
            raise CountsError(f"an estimate of the bias needs noisy counts with a sum above 0, got {total:g}")
        x[who] = project_simplex(np.ascontiguousarray(y[who]), total)
    return x


def _given(noisy: ArrayLike, weights: ArrayLike | None) -> tuple[Floats, Floats]:
    y = finite_rows(noisy)
    if y.ndim != 1:
        raise CountsError(f"noisy counts must be one vector, got {y.ndim} dimensions")
    return y, positive_weights(np.ones(y.size) if weights is None else weights, y.size)
