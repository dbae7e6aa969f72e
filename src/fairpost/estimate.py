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
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairpost.audit import audit
from fairpost.counts import Counts, positive_weights
from fairpost.engines import Engine
from fairpost.errors import CountsError, ParameterError, UnsupportedError
from fairpost.noise import Law, Stream
from fairpost.partition import Partition
from fairpost.problems import Programme
from fairpost.results.allocation import ESTIMATED, Interval, PlugIn
from fairpost.rules import PAYING, project_simplex
from fairpost.rules.base import finite_rows

Floats = NDArray[np.float64]
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
    if not 0 < confidence < 1:
        raise ParameterError(f"`confidence` must be above 0 and below 1, got {confidence!r}")
    if within is not None:
        low, high = np.empty(y.size), np.empty(y.size)
        for g in range(len(within.labels)):
            who = within.of_group(g)
            beta = (1 - confidence) * (who.size / y.size if simultaneous else 1.0)
            low[who], high[who] = _ends(y[who], a[who], mechanism, beta, simultaneous)
        return Interval(low, high, confidence, simultaneous)
    return Interval(*_ends(y, a, mechanism, 1 - confidence, simultaneous), confidence, simultaneous)


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
    if replicates < 2:
        raise ParameterError(f"`replicates` must be at least 2, got {replicates!r}")

    labels = None
    if within is not None:
        labels = within.scatter(np.asarray(within.spread(np.arange(len(within.labels))), dtype=np.float64)).tolist()

    def estimate(noisy: Floats) -> tuple[Floats, Floats, str]:
        counts = Counts(_plugged(noisy, within), weights=a, groups=labels)
        result = audit(counts, mechanism, how, engine=engine, by_group=within is not None)
        return result.bias, result.deviation, result.method

    bias, deviation, method = estimate(y)
    x = _plugged(y, within)
    squares = np.zeros_like(bias)
    for k in range(replicates):
        again, _, _ = estimate(x + mechanism.sample(y.size, Stream(seed, k)))
        squares += (again - bias) ** 2
    return PlugIn(bias, np.sqrt(squares / replicates), deviation, method, replicates)


def law_interval(
    noisy: ArrayLike, law: Programme, mechanism: Law, *, confidence: float = 0.95, simultaneous: bool = False
) -> Interval:
    """An interval for what the law would pay each entity on the true counts, from noisy counts.

    The law's payment rises with the count, so |eta_i| <= q bounds an entity's own weighted count from both sides; for the sum
    of the others every |eta_j| <= r, which fails with chance beta / 100 for all together, does. Both hold at any n. A sum of
    payments with jumps has no sharper bound that holds for every x, so these intervals are wide. With hold-harmless or a minimum
    there is none.
    """
    y, a = _given(noisy, law.weights)
    if not 0 < confidence < 1:
        raise ParameterError(f"`confidence` must be above 0 and below 1, got {confidence!r}")
    if law.hold_harmless is not None or law.minimum is not None or law.partition is not None:
        raise UnsupportedError(f"{law.name}: no interval is known for payments with hold-harmless, a minimum or groups")
    beta, g = 1 - confidence, law.compile()
    q = _quantile(mechanism, 0.99 * beta / (y.size if simultaneous else 1) / 2)
    low, high = (a * g(np.maximum(y + s * q, 0.0)) for s in (-1.0, 1.0))
    if law.share == "none":
        factor = 1.0 if law.entitlement is None else a
        return Interval(low / a * factor, high / a * factor, confidence, simultaneous)
    r = _quantile(mechanism, 0.01 * beta / y.size / 2)
    least, most = (a * g(np.maximum(y + s * r, 0.0)) for s in (-1.0, 1.0))
    rest = least.sum() - least, most.sum() - most
    return Interval(_share(low, rest[1], 0.0), _share(high, rest[0], 1.0), confidence, simultaneous)


def law_plug_in(
    noisy: ArrayLike, law: Programme, mechanism: Law, how: str = "as-written", *, replicates: int = 10, seed: int = 0
) -> PlugIn:
    """The bias of payments under a law, estimated as `plug_in` does, from noisy counts cut at 0 (whole where the noise is)."""
    y, _ = _given(noisy, law.weights)

    def counts(noisy: Floats) -> Counts:
        values = np.maximum(np.round(noisy) if mechanism.discrete else noisy, 0.0)
        return Counts(values, weights=law.weights, base=law.base)

    def estimate(noisy: Floats) -> tuple[Floats, Floats, str]:
        result = audit(counts(noisy), mechanism, PAYING[how](law))
        return result.bias, result.deviation, result.method

    bias, deviation, method = estimate(y)
    squares, x = np.zeros_like(bias), counts(y).values
    for k in range(replicates):
        squares += (estimate(x + mechanism.sample(y.size, Stream(seed, k)))[0] - bias) ** 2
    return PlugIn(bias, np.sqrt(squares / replicates), deviation, method, replicates)


def _plugged(y: Floats, within: Partition | None = None) -> Floats:
    if within is not None:
        out = np.empty_like(y)
        for g in range(len(within.labels)):
            who = within.of_group(g)
            out[who] = _plugged(np.ascontiguousarray(y[who]))
        return out
    total = float(np.sum(y))
    if total <= 0:
        raise CountsError(f"an estimate of the bias needs noisy counts with a sum above 0, got {total:g}")
    return project_simplex(y, total)


def _given(noisy: ArrayLike, weights: ArrayLike | None) -> tuple[Floats, Floats]:
    y = finite_rows(noisy)
    if y.ndim != 1:
        raise CountsError(f"noisy counts must be one vector, got {y.ndim} dimensions")
    return y, positive_weights(np.ones(y.size) if weights is None else weights, y.size)
