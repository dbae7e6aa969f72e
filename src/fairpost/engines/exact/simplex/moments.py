"""pi_S+, the projection onto {v >= 0, sum v = C}, in expectation: Laplace and Gaussian noise, no simulation.

v_i = (X_i - m)_+ where m solves H(m) = sum_j (X_j - m)_+ = C. Let m_{-i} solve the same equation for the other
entities alone. Entity i is clipped just where X_i <= m_{-i}, and then m = m_{-i}, which is independent of X_i. So with

    D_i = E[(m - X_i)_+] = E[G(m_{-i} - x_i)],   G(c) = E[(c - eta)_+],

the deficits D_i are expectations over the law of m_{-i}, P(m_{-i} > m) = P(H_{-i}(m) > C), positive and free
of cancellation however rare clipping is. Summing v_i - X_i + m = (m - X_i)_+ over all entities gives

    bias_i = (C - sum x)/n + D_i - mean(D),   E[T] = mean(D)   (T of Lemma 2),
    D_i = G(m0 - x_i) + int P(eta <= m - x_i) (P(H_{-i}(m) > C) - 1{m < m0}) dm   for any m0,
    P(v_i = 0) = the same with the density in place of P(eta <= .) and P(eta <= .) in place of G,
    E[(v_i - x_i)^2] = E[(p_i - x_i)^2] at m0 - 2 int E[(p_i - x_i) 1{p_i > 0} (1{H > C} - 1{m < m0})] dm,

p_i = (X_i - m)_+ . The law of H is a contour integral of a product over entities (`kernels.contour`).
The contour crosses the real axis near the saddle point, so the far tails keep their relative accuracy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpost.engines.closed.shares import SAFETY, otherwise, range_error, refusal
from fairpost.engines.evaluation import Asked, Work
from fairpost.engines.exact.registry import EXACT, continuous, whole
from fairpost.engines.exact.simplex.contours import LEVELS, Integrals, Level, integrate
from fairpost.engines.exact.simplex.few import few
from fairpost.engines.exact.simplex.law import Population
from fairpost.engines.exact.simplex.window import Window, find_window
from fairpost.engines.exact.sums.one import one
from fairpost.engines.moments import Floats, Moments
from fairpost.errors import ToleranceError
from fairpost.noise import Law, Threshold
from fairpost.noise.base import LAPLACE
from fairpost.rules import Simplex

TINY = 1e-280
"""A deficit below this (in units of the noise scale) is 0: doubles end there."""
SLOW = 10.0
"""The safety factor where refinement gains little at a time."""
ROUNDED = 1e-14
"""Relative rounding of a chance; of E[T] times sqrt(n)."""
SETTLED, LOOSE = 1e-6, 1e-3
"""The relative change of every mean squared error at which refinement stops, and the largest that the finest rule may
leave: a spread in three digits is of use beside a bias, and no reason to refuse it."""
IDENTITY = 1e-8
"""How far E[m] + (C - sum x)/n and mean(D), two ways to E[T], may differ, in units of the noise scale (or of m)."""


def simplex(x: Floats, times: NDArray[np.int64], mechanism: Law, total: float, rtol: float = 1e-6) -> Moments:
    """Moments of the projection of noisy counts onto {v >= 0, sum v = total}.

    Parameters
    ----------
    x, times
        The distinct true counts, ascending, and how many entities have each.
    mechanism
        Laplace, Gaussian or (for whole counts) whole-number noise.
    total
        C >= 0; it need not be the sum of the counts.
    rtol
        The tolerance on alpha = max bias - min bias, relative to alpha.

    Raises
    ------
    ToleranceError
        Where the finest rule does not reach the tolerance.

    """
    n = int(np.sum(times))
    surplus = math.fsum([total, *(-x * times).tolist()])
    if total == 0 or n == 1:
        return certain(x, times, total)
    found = one(x, times, mechanism, total, Threshold(0.0), rtol)
    if found is not None:
        return found
    if mechanism.discrete:
        from fairpost.engines.exact.lattice.release import release

        return release(x, times, mechanism, total, None, rtol)
    unit = mechanism.scaled(1.0)
    spread = mechanism.spread
    if n <= 3 and mechanism.code == LAPLACE and surplus < -n * x[0]:
        return _in_counts(few(x / spread, times, total / spread, rtol, spread), spread)
    population = Population(unit, x / spread, times.astype(np.float64), float(n), surplus / spread)
    try:
        return _in_counts(_evaluate(population, rtol, spread), spread)
    except ToleranceError as error:
        if n < 3:
            raise
        from fairpost.engines.exact.threshold import erlang
        from fairpost.engines.exact.threshold import few as upright

        ways = (erlang, upright) if mechanism.code == LAPLACE else (upright,)
        return otherwise(error, *(partial(way.release, x, times, mechanism, total, 0.0, rtol) for way in ways))


def certain(x: Floats, times: NDArray[np.int64], total: float) -> Moments:
    """C = 0 (v = 0; every large T serves, so there is none) or one entity (v = C, T = 0): nothing random is left."""
    bias = -x if total == 0 else np.array([math.fsum([total, *(-x * times).tolist()])])
    zero = np.full(x.size, float(total == 0))
    sure = np.zeros_like(zero)
    error = np.spacing(np.abs(bias))
    threshold = None if total == 0 else 0.0
    return Moments(
        bias, error, bias**2, zero, threshold, mse_error=4e-16 * bias**2, zero_error=sure, threshold_error=threshold
    )


def _in_counts(unit: Moments, spread: float) -> Moments:
    def scaled(value: Any, factor: float) -> Any:
        return None if value is None else value * factor

    return replace(
        unit,
        bias=unit.bias * spread,
        error=unit.error * spread,
        mse=unit.mse * spread**2,
        threshold=scaled(unit.threshold, spread),
        mse_error=scaled(unit.mse_error, spread**2),
        threshold_error=scaled(unit.threshold_error, spread),
    )


def _evaluate(population: Population, rtol: float, spread: float) -> Moments:
    """Refine until two rules agree on alpha, then take the second moments and check E[T]; a refusal says what it had in counts."""
    win = find_window(population, 1)
    if win.peak < math.log(TINY):
        return _never(population)
    before = _deficits(population, win, LEVELS[0])
    for place, level in enumerate(LEVELS[1:], start=1):
        now = _deficits(population, win, level)
        bias, error = _biases(population, now, before)
        if _reached(population, bias, error, now, before, rtol):
            mse, mse_error, nodes = _spread(population, win, LEVELS[place - 1 :], now, before)
            factor = SLOW if now.slow else SAFETY
            largest = float(np.max(np.abs(now.zero - before.zero)))
            stated: dict[str, Any] = {
                "mse_error": mse_error,
                "zero_error": factor * (np.abs(now.zero - before.zero) + largest * now.zero) + ROUNDED * now.zero,
                "threshold_error": factor * abs(now.mean - before.mean) + ROUNDED * math.sqrt(population.n) * now.mean,
            }
            return Moments(bias, error, mse, now.zero, now.mean, nodes=now.nodes + nodes, **stated)
        if now.slow and range_error(bias, error)[1] > 30 * rtol * np.ptp(bias):
            break  # finer rules would gain less than that
        alpha, lost = range_error(bias, _rounding(population, now))
        if population.x.size > 1 and lost > 2 * max(rtol * (alpha + range_error(bias, error)[1]), TINY):
            break  # counts so much smaller than the noise that rounding of the deficits is too much
        before = now
    raise refusal("simplex", bias * spread, error * spread, rtol)


def _never(population: Population) -> Moments:
    """Clipping is less likely than any double says: v = X - mean(eta) + (C - sum x)/n."""
    drift = population.surplus / population.n
    bias = np.full(population.x.size, drift)
    mse = np.full(population.x.size, population.unit.variance * (1 - 1 / population.n) + drift**2)
    none = np.zeros(population.x.size)
    return Moments(
        bias,
        np.spacing(np.abs(bias)) + TINY,
        mse,
        none,
        0.0,
        mse_error=1e-14 * mse,
        zero_error=none + TINY,
        threshold_error=TINY,
    )


@dataclass(frozen=True)
class Deficits:
    """D_i, their mean over the entities, P(v_i = 0), and how the rule went."""

    values: Floats
    mean: float
    zero: Floats
    parts: Integrals

    @property
    def nodes(self) -> int:
        """Of the rule."""
        return self.parts.nodes

    @property
    def slow(self) -> bool:
        """Whether refinement gains little at a time."""
        return self.parts.slow


def _biases(population: Population, now: Deficits, before: Deficits) -> tuple[Floats, Floats]:
    """The biases and their error: the most that the last refinement changed any of them, and rounding.

    A rule cut off in a slowly decaying tail gains about a factor 2 per level, where others gain 10 and more: the
    change is taken SLOW times. Rounding: log prod psi_j is a sum of n terms of size 1/sqrt n or less. With one
    distinct count the biases are equal by symmetry.
    """
    drift = population.surplus / population.n
    if population.x.size == 1:
        return np.array([drift]), np.spacing(np.array([abs(drift)]))
    moved = float(np.max(np.abs((now.values - now.mean) - (before.values - before.mean))))
    return drift + (now.values - now.mean), (SLOW if now.slow else 1.0) * moved + _rounding(population, now)


def _rounding(population: Population, now: Deficits) -> Floats:
    drift = abs(population.surplus / population.n)
    return np.asarray(4e-16 * ((20 + math.sqrt(population.n)) * (now.values + now.mean) + drift))


def _reached(population: Population, bias: Floats, error: Floats, now: Deficits, before: Deficits, rtol: float) -> bool:
    """Whether alpha has its tolerance, or rounding of the biases is all that is left.

    With one distinct count alpha is 0 by symmetry, and E[T] has to have the tolerance.
    """
    if population.x.size > 1:
        alpha, slack = range_error(bias, error)
    else:
        alpha, slack = now.mean, abs(now.mean - before.mean)
    floor = 1e-14 * abs(population.surplus / population.n)
    return bool(slack <= max(rtol * alpha, floor, TINY))


def _deficits(population: Population, win: Window, level: Level) -> Deficits:
    """D_i and P(v_i = 0). Their ratios to the values at m = m0 vary slowly in x: those are interpolated."""
    parts = integrate(population, win, level)
    law, unit = parts.law, population.unit
    deficit, zero = np.zeros(population.x.size), np.zeros(population.x.size)

    def clipped(x: Floats) -> Floats:
        return unit.cdf(win.centre - x)

    def missing(x: Floats) -> Floats:
        return -unit.lower(win.centre - x, 0.0, 1)

    for out, weight, start in ((deficit, unit.cdf, missing), (zero, unit.density, clipped)):
        # below every count the density of Laplace noise is its distribution function: one closed part for both
        value = start(law.x) + parts.against(weight) + parts.below
        out[: law.members.size] = law.at_members(value, start)
    deficit, zero = np.maximum(deficit, 0.0), np.clip(zero, 0.0, 1.0)
    mean = float(np.sum(population.times * deficit)) / population.n
    return Deficits(deficit, mean, zero, parts)


def _spread(
    population: Population, win: Window, levels: tuple[Level, ...], now: Deficits, before: Deficits
) -> tuple[Floats, Floats, int]:
    """E[(v_i - x_i)^2], its error and the number of nodes, refined until it settles; E[T] has to come out as mean(D).

    Where the window of the deficits serves, the first two rules are there already.
    """
    known = IDENTITY + 2 * abs(now.mean - before.mean)
    made = [] if now.parts.squares is None else [before.parts, now.parts]
    win = win if made else find_window(population, 0)
    last: Floats | None = None
    for k, level in enumerate(levels):
        parts = made[k] if k < len(made) else integrate(population, win, level)
        mse, threshold, nodes = _squares(population, win, parts)
        if last is not None:
            moved, gap = float(np.max(np.abs(mse - last) / mse)), abs(threshold - now.mean)
            agree = gap <= known * max(1.0, abs(threshold))
            error = SLOW * moved * mse + 1e-11 * population.unit.variance
            if moved <= SETTLED and agree:
                return mse, error, 0 if k < len(made) else nodes
        last = mse
    if moved <= LOOSE and agree:
        return mse, error, nodes
    raise ToleranceError(
        f"simplex: the last refinement changed a mean squared error by {moved:.2g} of it (at most {LOOSE:g}), "
        f"and two ways to E[T] differ by {gap:.2g} noise scales (at most {known:.2g})"
    )


def _squares(population: Population, win: Window, parts: Integrals) -> tuple[Floats, float, int]:
    """E[(v_i - x_i)^2], E[T] = E[m] + (C - sum x)/n and the number of nodes (a window of the deficits that serves has no closed part)."""
    assert parts.squares is not None
    law, unit = parts.law, population.unit
    c0 = win.centre - law.x
    kept, first, second = (unit.upper(c0, 0.0, k) for k in range(3))
    start = law.x**2 * (unit.cdf(c0) + kept) - 2 * law.x * first + second
    risk = start - 2 * (parts.weight @ parts.squares + parts.below)
    mean, giant = parts.weight @ parts.common + parts.below_common
    mse = np.full(population.x.size, unit.variance + win.centre**2 - 2 * giant)
    mse[: law.members.size] = law.at_members(risk)
    threshold = win.centre + float(mean) + population.surplus / population.n
    return np.maximum(mse, np.finfo(float).tiny), threshold, parts.nodes


@EXACT.register(Simplex)
def _simplex(pi: Simplex, asked: Asked) -> Work:
    d, law = asked.distinct(), asked.law()
    if law.discrete:
        whole(pi.name, law, d.x)
    else:
        law = continuous(pi.name, law)
    return d.entities(lambda: simplex(d.x, d.times, law, pi.C, asked.rtol))
