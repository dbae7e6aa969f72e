"""One run: the few numbers (`par`) that say what each built-in post-processing makes of its noise.

For the two forms and their numbers see `forms`.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpost.compiled import kernel
from fairpost.compiled.vectors import wide_vectors

Floats = NDArray[np.float64]

NONE, SUM, NONNEGATIVE, SUM_CLIPPED, SIMPLEX, BASELINE, POS = 0, 1, 2, 3, 4, 5, 6
NOTHING = 2.0**-48
_LANES = 64
_STRETCH = 4 * _LANES


# Sums over entities. A sum that the compiler may reorder (fastmath) has other last bits when it is compiled in another
# place, such as in a second process that loads it from the cache. So the order is written down: STRETCH entries at a
# time are added as four rows to running sums, one per column, which vectorises as it stands on any processor.


@kernel(inline="always")
def _over(d: Any) -> Any:
    return (d, 1.0) if d > 0.0 else (0.0, 0.0)


@kernel
def _short_total(y: Floats) -> Any:
    """`total_of` where every lane has one entry at most."""
    total = 0.0
    for i in range(y.size):
        total += y[i]
    return total


@kernel
def _short_excess(y: Floats, m: float) -> Any:
    """`excess` where every lane has one entry at most."""
    total, count = 0.0, 0.0
    for i in range(y.size):
        d, c = _over(y[i] - m)
        total += d
        count += c
    return total, count


@kernel
def total_of(y: Floats) -> Any:
    """The sum of y."""
    wide_vectors()
    if y.size <= _LANES:
        return _short_total(y)
    lanes, whole = np.zeros(_LANES), y.size - y.size % _STRETCH
    for start in range(0, whole, _STRETCH):
        part = y[start : start + _STRETCH]
        for k in range(_LANES):
            lanes[k] += (part[k] + part[k + _LANES]) + (part[k + 2 * _LANES] + part[k + 3 * _LANES])
    for start in range(whole, y.size, _LANES):
        part = y[start : start + _LANES]
        for k in range(part.size):
            lanes[k] += part[k]
    total = 0.0
    for k in range(min(_LANES, y.size)):
        total += lanes[k]
    return total


@kernel
def weighted(eta: Floats, x: Floats, w: Floats, z: Floats) -> None:
    """z = w (x + eta)."""
    wide_vectors()
    for i in range(z.size):
        z[i] = w[i] * (x[i] + eta[i])


@kernel
def excess(y: Floats, m: float) -> Any:
    """sum (y - m)_+ and the number of entries above m."""
    wide_vectors()
    if y.size <= _LANES:
        return _short_excess(y, m)
    lanes, whole = np.zeros(2 * _LANES), y.size - y.size % _STRETCH
    for start in range(0, whole, _STRETCH):
        part = y[start : start + _STRETCH]
        for k in range(_LANES):
            d0, c0 = _over(part[k] - m)
            d1, c1 = _over(part[k + _LANES] - m)
            d2, c2 = _over(part[k + 2 * _LANES] - m)
            d3, c3 = _over(part[k + 3 * _LANES] - m)
            lanes[k] += (d0 + d1) + (d2 + d3)
            lanes[k + _LANES] += (c0 + c1) + (c2 + c3)
    for start in range(whole, y.size, _LANES):
        part = y[start : start + _LANES]
        for k in range(part.size):
            d, c = _over(part[k] - m)
            lanes[k] += d
            lanes[k + _LANES] += c
    total, count = 0.0, 0.0
    for k in range(min(_LANES, y.size)):
        total += lanes[k]
        count += lanes[k + _LANES]
    return total, count


@kernel
def _newton(z: Floats, target: float, m: float) -> Any:
    """Newton steps on sum (z - m)_+ = target from m: the root and how many entries lie above the last point.

    The first step lands at or left of the root and the others climb to it, until two see the same entries. Where the
    root lies on an entry rounding can change the set for ever: a step that does not climb ends it too.
    """
    before, step = -1.0, 0
    while True:
        h, active = excess(z, m)
        if active == 0.0:
            return m, active
        new = m + (h - target) / active
        if active == before or (step > 0 and new <= m):
            return new, active
        m, before, step = new, active, step + 1


@kernel
def _threshold(z: Floats, target: float, start: float, guess: float) -> Any:
    """The m with sum (z - m)_+ = target, from a guess or else from `start`; exactly `start` where none is clipped."""
    m, active = _newton(z, target, guess)
    if active == 0.0 and guess != start:
        m, active = _newton(z, target, start)
    return start if active == z.size else m


@kernel(error_model="numpy")
def release(code: int, eta: Floats, z: Floats, shift: float, target: float, par: Floats) -> None:
    """par = (q, m, s, cap, floor) of one run; par[1] comes in as a guess for m (NaN: none).

    The output is 0 where floor <= X <= m.
    """
    keeps = code not in (NONE, NONNEGATIVE)
    linear = code <= SUM
    mean = total_of(eta) / eta.size if keeps else 0.0
    q = mean - shift
    guess = par[1]
    par[0], par[1], par[2] = q, q, mean
    par[3], par[4] = 0.0 if linear else np.inf, q if linear else -np.inf
    if code == SIMPLEX:
        par[1] = _threshold(z, target, q, guess if np.isfinite(guess) else q)


@kernel
def nothing(z: Floats, total: float) -> bool:
    """Whether the sum of z is 0 but for rounding: whole counts cancel, their weighted parts do so to their last bits.

    Each z is right to a rounding or two, so is every partial sum; 2^-48 of what is positive is more than that, and less than any
    sum of whole numbers below 10^14 that is not 0. The true counts have the sum 1: most draws are far from this question.
    """
    return abs(total) < 0.5 and abs(total) <= NOTHING * excess(z, 0.0)[0]


@kernel(error_model="numpy")
def share(code: int, z: Floats, total: float, whole: float, par: Floats) -> int:
    """par = (v, m, k, u, b = m |v|) of one run; par[1] comes in as a guess for m. Returns 1 for a degenerate draw."""
    guess = par[1] if par[0] > 0.0 else 0.0
    size = abs(total) if code == POS else excess(z, 0.0)[0]
    lost = nothing(z, total) if code == POS else size == 0.0
    turned = code == POS and total < 0.0 and not lost
    m = 0.0
    if code == POS and not lost:
        m = _threshold(-z, size, 0.0, 0.0) if turned else _threshold(z, size, 0.0, guess)
    v = 0.0 if lost else 1.0 / size
    par[0], par[1], par[2], par[3], par[4] = -v if turned else v, m, 1.0 / whole if lost else 0.0, total - 1.0, m * v
    return 1 if turned or lost else 0
