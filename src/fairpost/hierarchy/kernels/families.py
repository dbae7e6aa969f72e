"""One family: children's measurements onto {v >= 0, sum v = the parent's value}.

Equal variances. v_c = (y_c - m)_+ with m the root of H(m) = sum_c (y_c - m)_+ = C. H is convex and falls, so Newton's step
m <- (A - C)/K, with A and K the sum and the number of the entries above m, lands at or left of the root from any point with
K > 0, and from the left it climbs. The sets {y > m} are nested, so two steps with the same K have the same set and the step
is exact. For whole-number noise on whole counts A is a sum of whole numbers: exact, in whatever order it is added.

Unequal variances V_c (pooled measurements): v_c = (z_c - m V_c)_+, the same with W = the sum of V_c above instead of K.

Threshold: min(u, s (u - tau)_+), u = z_c - m V_c, is kept instead of (u)_+ (`fairpost.rules.threshold`); with equal variances
by the kernel of that rule, with unequal ones here, by bisection where something is clipped at all.

A target that is 0, or so small that no m tells it from the largest entry, gives the largest entry everything: the sum is
kept and nothing loops.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpost.compiled import kernel
from fairpost.compiled.vectors import wide_vectors
from fairpost.rules.kernels.threshold import keep

Floats = NDArray[np.float64]
REORDER: Any = {"reassoc", "nsz", "contract", "arcp"}
STEPS = 1000  # more than any family takes; a bound, so that no rounding loops
HALVINGS = 200


@kernel(fastmath=REORDER, error_model="numpy")
def above(y: Floats, m: float, zero: float, one: float) -> Any:
    """The sum and the number of the entries above m; zero = 0.0 and one = 1.0, so that LLVM vectorises."""
    wide_vectors()
    total, count = zero, zero
    for i in range(y.size):
        total += y[i] if y[i] > m else zero
        count += one if y[i] > m else zero
    return total, count


@kernel(fastmath=REORDER)
def total_of(y: Floats) -> float:
    """The sum of y."""
    wide_vectors()
    total = 0.0
    for i in range(y.size):
        total += y[i]
    return total


@kernel(error_model="numpy")
def threshold(y: Floats, target: float, guess: float, start: float) -> Any:
    """m from a guess, or from `start`, where all are active; infinity where the target is lost in rounding."""
    m, before = guess, -1.0
    for _ in range(STEPS):
        total, count = above(y, m, 0.0, 1.0)
        if count == 0.0:
            if before >= 0.0 or m == start:
                return np.inf
            m = start
            continue
        new = (total - target) / count
        if count == before or (before >= 0.0 and new <= m):
            return new
        m, before = new, count
    return m


@kernel
def _to_the_largest(y: Floats, target: float, out: Floats) -> None:
    """All of a target that is lost in rounding to the largest entry; 0 for a target of 0."""
    top = 0
    for i in range(y.size):
        out[i] = 0.0
        if y[i] > y[top]:
            top = i
    out[top] = target


@kernel(error_model="numpy")
def project(y: Floats, target: float, out: Floats) -> Any:
    """The projection of one family; returns m, infinite where the target is 0 or lost in rounding."""
    if target <= 0.0:
        out[:] = 0.0
        return np.inf
    total, least = 0.0, np.inf
    for i in range(y.size):
        total += y[i]
        least = min(least, y[i])
    start = (total - target) / y.size
    m = start if least > start else threshold(y, target, start, start)
    if m == np.inf:
        _to_the_largest(y, target, out)
        return m
    for i in range(y.size):
        d = y[i] - m
        out[i] = d if d > 0.0 else 0.0
    return m


@kernel(error_model="numpy")
def family(y: Floats, target: float, tau: Floats, steep: float, out: Floats) -> Any:
    """The projection with or without a threshold (steep = 1: without); an only child gets what its parent has.

    `tau` is an array of one entry.
    """
    if y.size == 1:
        out[0] = target
        return y[0] - target
    if target <= 0.0:
        out[:] = 0.0
        return np.inf
    if steep == 1.0:
        return project(y, target, out)
    return keep(y, tau, steep, target, out)


@kernel(error_model="numpy")
def _weighted(z: Floats, V: Floats, target: float, out: Floats) -> Any:
    """v_c = (z_c - m V_c)_+ of sum `target`; an entry with V = 0 is known and moves only by what must be."""
    total, weight = 0.0, 0.0
    for i in range(z.size):
        total += z[i]
        weight += V[i]
    if weight == 0.0:
        return project(z, target, out)
    m, before = (total - target) / weight, -1
    for _ in range(STEPS):
        total, weight, count = 0.0, 0.0, 0
        for i in range(z.size):
            if z[i] > m * V[i]:
                total += z[i]
                weight += V[i]
                count += 1
        if count == 0 or weight == 0.0:
            _to_the_largest(z, target, out)
            return np.inf
        new = (total - target) / weight
        done = count == before or (before >= 0 and new <= m)
        m, before = new, count
        if done:
            break
    for i in range(z.size):
        d = z[i] - m * V[i]
        out[i] = d if d > 0.0 else 0.0
    return m


@kernel(inline="always")
def kept(u: float, tau: float, steep: float) -> Any:
    """min(u, s (u - tau)_+); for infinite s, u where it is above tau."""
    if u <= tau:
        return 0.0
    if steep == np.inf:
        return u
    ramp = steep * (u - tau)
    return ramp if ramp < u else u


@kernel(error_model="numpy")
def _weighted_ramp(z: Floats, V: Floats, target: float, level: Floats, steep: float, out: Floats) -> Any:
    """The threshold with unequal variances: exact where nothing is clipped, else bisection on m, then a settlement.

    Between the two last points of the bisection lies at most a jump; whoever stands in it gets the remainder, in
    proportion to what the jump gives.
    """
    tau, total, weight, widest = level[0], 0.0, 0.0, 0.0
    for i in range(z.size):
        total += z[i]
        weight += V[i]
        widest = max(widest, V[i])
    if weight == 0.0:
        return keep(z, level, steep, target, out)
    m = (total - target) / weight
    edge = tau if steep == np.inf else tau * steep / (steep - 1.0)
    clear = True
    for i in range(z.size):
        out[i] = z[i] - m * V[i]
        clear = clear and out[i] > edge
    if clear:
        return m
    step = (abs(total) + target + edge * z.size) / weight + edge / widest
    low, high = m - step, m + step
    while _ramp_sum(z, V, low, tau, steep) < target:
        low -= step
        step *= 2.0
    while _ramp_sum(z, V, high, tau, steep) > target:
        high += step
        step *= 2.0
    for _ in range(HALVINGS):
        mid = 0.5 * (low + high)
        if mid <= low or mid >= high:
            break
        if _ramp_sum(z, V, mid, tau, steep) > target:
            low = mid
        else:
            high = mid
    held, more = 0.0, 0.0
    for i in range(z.size):
        out[i] = kept(z[i] - high * V[i], tau, steep)
        held += out[i]
        more += kept(z[i] - low * V[i], tau, steep) - out[i]
    part = (target - held) / more if more > 0.0 else 0.0
    for i in range(z.size):
        out[i] += part * (kept(z[i] - low * V[i], tau, steep) - out[i])
    return high


@kernel(error_model="numpy")
def _ramp_sum(z: Floats, V: Floats, m: float, tau: float, steep: float) -> float:
    total = 0.0
    for i in range(z.size):
        total += kept(z[i] - m * V[i], tau, steep)
    return total


@kernel(error_model="numpy")
def weighted_family(z: Floats, V: Floats, target: float, tau: Floats, steep: float, out: Floats) -> Any:
    """As `family`, with a variance a child."""
    if z.size == 1:
        out[0] = target
        return 0.0
    if target <= 0.0:
        out[:] = 0.0
        return np.inf
    return _weighted(z, V, target, out) if steep == 1.0 else _weighted_ramp(z, V, target, tau, steep, out)
