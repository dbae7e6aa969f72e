"""Between two computed levels of noise: the numbers of a picture, interpolated, until the exact ones are there.

The sweep computes every rule at `POINTS` levels, evenly spaced in the logarithm of epsilon, coarse ones first, threshold rules by
their expansion where there is one, else by conditional means to a percent (nothing here is called exact). Between them each
entity's bias follows the monotone cubic of Fritsch and Carlson (SIAM J. Numer. Anal. 17, 1980) in the logarithm of the noise: it
overshoots no computed value, so a picture never shows a gain or loss that is larger than both its neighbours'. It carries no
error bound; whatever it gives is marked as interpolated and replaced.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fairpost.report.payload import Classes, classes
from fairpost.results.audit import Audit

Floats = NDArray[np.float64]
POINTS = 33
LOW, HIGH = 1e-3, 10.0
"""The ends of the slider."""
ROUGH = 1e-2
"""The tolerance of conditional means at these levels: they are drawn, and replaced."""
MOST = 200_000
"""Numbers per level and rule that are kept; with more there is no interpolation."""


def levels() -> tuple[float, ...]:
    """The epsilons of the sweep."""
    return tuple(float(e) for e in np.geomspace(LOW, HIGH, POINTS))


def order() -> list[int]:
    """The ends, the middle, the middles of the halves, ...: wherever the slider stands, neighbours come early."""
    out = [0, POINTS - 1]
    step = POINTS - 1
    while step > 1:
        out += [k for k in range(step // 2, POINTS, step) if k not in out]
        step //= 2
    return out


@dataclass(frozen=True, eq=False)
class Curve:
    """One rule at one level: one entry per class."""

    bias: Floats
    deviation: Floats
    zero: Floats


@dataclass(eq=False)
class Sweep:
    """What is known so far, level by level."""

    classes: Classes | None = None
    first: tuple[Audit, ...] = ()
    """The audits of the level that was computed first: their truths, units and titles are those of every level."""
    known: dict[int, tuple[Curve, ...]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)
    failed: int = 0

    @property
    def done(self) -> int:
        """Levels that were computed or refused."""
        return len(self.known) + self.failed

    def put(self, level: int, results: Sequence[Audit] | None) -> None:
        """One more level; None where an engine refused."""
        if results is None or any(r.method == "monte-carlo" for r in results):
            self.failed += 1
            return
        found = self.classes or classes(results[0].counts, results)
        rows = found.first
        if not all(np.array_equal(r.bias[rows][found.of], r.bias) for r in results) or rows.size > MOST:
            self.failed += 1
            return
        made = tuple(Curve(r.bias[rows], r.moments.deviation[rows], r.moments.zero[rows]) for r in results)
        with self.lock:
            self.classes, self.first = found, self.first or tuple(results)
            self.known[level] = made

    def at(self, epsilon: float) -> tuple[Curve, ...] | None:
        """Every rule at this epsilon; None outside the range and where the neighbours are not known yet."""
        place = (POINTS - 1) * math.log(epsilon / LOW) / math.log(HIGH / LOW)
        left = min(math.floor(place), POINTS - 2)
        with self.lock:
            if not 0 <= place <= POINTS - 1 or left not in self.known or left + 1 not in self.known:
                return None
            near = [self.known.get(k) for k in range(left - 1, left + 3)]
        u = place - left
        return tuple(_between([None if n is None else n[r] for n in near], u) for r in range(len(self.first)))


def _between(near: Sequence[Curve | None], u: float) -> Curve:
    parts = {
        name: _cubic([None if c is None else getattr(c, name) for c in near], u)
        for name in ("bias", "deviation", "zero")
    }
    return Curve(**parts)


def _cubic(y: Sequence[Floats | None], u: float) -> Floats:
    """The monotone cubic between y[1] and y[2] at u of the way; y[0] and y[3] may be missing (then the end is straight)."""
    low, high = y[1], y[2]
    assert low is not None
    assert high is not None
    step = high - low
    start = _slope(step if y[0] is None else low - y[0], step)
    end = _slope(step, step if y[3] is None else y[3] - high)
    a, b = u * u * (3 - 2 * u), u * (1 - u)
    return np.asarray(low + a * step + b * ((1 - u) * start - u * end))


def _slope(before: Floats, after: Floats) -> Floats:
    """The harmonic mean of two slopes of one sign, else 0."""
    both = before * after
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(both > 0, 2 * both / np.where(both > 0, before + after, 1.0), 0.0)
