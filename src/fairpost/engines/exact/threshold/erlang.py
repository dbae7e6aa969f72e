"""`simplex-threshold` and `simplex` under Laplace noise where few share the total: the law of H in closed form.

The unit is the noise scale, y = x - tau, and what is asked is what `release` asks: P(H_{-i}(t) > C) and its integrals over c. An entity
below the cut (y <= t) is kept with the chance q = e^{-(t - y)}/2, and then gets tau + an exponential variable, whatever its count is. One above
it (d = y - t > 0) has the whole line less what lies below the cut, and one that is never cut the whole line:

    below      psi = 1 - q + q e^{s tau}/(1 - s)
    above      psi = e^{s (d + tau)}/((1 - s)(1 + s)) - h e^{s tau}/(1 + s) + h,   h = e^{-d}/2
    giant      psi = e^{s (d + tau)}/((1 - s)(1 + s)).

Multiplied out over who is above (three terms each, so they must be few) and over the number k of those that are kept from below, every term
is e^{sE} (1 - s)^-p (1 + s)^-q: H is E and a difference of two sums of exponential variables, whose tails are closed (`gammas`). No contour is
left, nor its slow decay, and far tails keep their digits. For thousands below the cut the chances of k come from points on a circle |z| = rho,
as in `lattice.period`: the product of 1 - q + q z, with one of them left out by division. rho = e^{s tau}/(1 - s) at the saddle point s, where
the terms that matter are as large as any.

P(H_{-i} > C) comes to 1/2 at a place t0 of its own for every i, which among few lies far from the others': above it the chance is integrated,
below it the chance less 1, and no deficit is a difference of larger numbers.

Where more entities lie above the cut than may be multiplied out, the integrals over t begin where nobody is above. What is left out below that
place is at most P(H_{-i} <= C) there, times E[(t + tau - X_i)_+] and 2 tau F: that is part of the stated error.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpost import cancel
from fairpost.engines.closed.quadrature import few_panels, on_panels
from fairpost.engines.closed.shares import refusal
from fairpost.engines.exact.lattice.period import Circle, most
from fairpost.engines.exact.sums.factors import log_product
from fairpost.engines.exact.sums.population import Places
from fairpost.engines.exact.sums.window import Family, Window, find_window
from fairpost.engines.exact.threshold.multiplied import Tails, Terms, kept, size_of, summed
from fairpost.engines.exact.threshold.release import clipped, missing, spread_out
from fairpost.engines.exact.threshold.settled import EPS, Found, biases, moments
from fairpost.engines.moments import Counted, Floats, Moments
from fairpost.errors import ToleranceError
from fairpost.noise import Law
from fairpost.noise.base import LAPLACE
from fairpost.roots import root

ABOVE, FEWER, SMALL = 6, 5, 0.5
"""The most entities that are multiplied out beside one of them, each of which takes three times as long; fewer where the tolerance is loose, as
for whole-number noise, which may be refused for its own sake afterwards; one more where the total is below SMALL noise scales and there is no
threshold, for few panels serve then, and no other way does."""
LOOSE = 1e-5
GIANTS = 40
POINTS = 200
"""The most points of the circle, one for each number that may be kept."""
WORK = 1.5e8
"""The most terms of tails at one level: about a second."""
LEFT = 42.0
"""What the circle leaves out: e^-LEFT."""
EDGE = 1e-9
"""The largest chance of a root where some are above the cut that are not multiplied out."""
FAR = 45.0
"""Beyond so many scales from where P(H_{-i} > C) comes to 1/2 there is nothing left of a deficit."""
LONG, WIDE = 2.0, 4.5
"""The longest panel of t, in noise scales and in deviations of the root."""
SMOOTH = 4
"""A corner of this order and above needs no break."""
LEVELS = ((6, 16), (9, 20), (13, 26))
"""Nodes on a panel of t, and Chebyshev nodes for a cell of counts."""


@dataclass(frozen=True)
class Part:
    """Some t on one side of every t0, with the same entities above the cut."""

    t: Floats
    weight: Floats
    above: NDArray[np.int64]
    """Which nodes; one that occurs twice is there twice."""
    below: NDArray[np.int64]


def release(x: Floats, times: Counted, noise: Law, total: float, tau: float, rtol: float) -> Moments:
    """Moments for the distinct counts x, each `times` often, in counts; a total above tau >= 0."""
    b, many, name = noise.spread, times.astype(np.float64), "simplex-threshold" if tau > 0 else "simplex"
    if noise.code != LAPLACE:
        raise ToleranceError(f"{name}: sums of exponential variables are for Laplace noise")
    n, level = float(np.sum(many)), tau / b
    drift = math.fsum([total, *(-x * times).tolist()]) / b / n

    def places(t: Floats) -> Places:
        return Places(t, np.full(t.size, level), None)

    family = Family(noise.scaled(1.0), x / b - level, many, (drift + level) * n, places)
    win = find_window(family)
    most_above = ABOVE if rtol < LOOSE else FEWER
    if tau == 0 and total <= SMALL * b:
        most_above = ABOVE + 1
    before: Found | None = None
    for at in LEVELS:
        now = _Level(family, win, level, at, most_above, name).found()
        if before is not None:
            found = moments(now, before, x, many, (b, drift, tau), rtol)
            if found is not None:
                return found
            bias, error = biases(now, before, many, drift)
        before = now
    raise refusal(name, bias * b, error * b, rtol)


class _Level:
    """The sums at one level."""

    def __init__(self, family: Family, win: Window, tau: float, level: tuple[int, int], most: int, name: str) -> None:
        self.family, self.win, self.tau, self.name = family, win, tau, name
        self.e = e = family.entities(win.low, win.high, level[1])
        self.giants = int(e.giants)
        self.listed = e.reduced is None and float(np.sum(e.weight)) <= most + 1
        self.low, self.high = win.low, win.high
        self.start = np.full(e.y.size, win.centre)
        if self.giants > GIANTS:
            self._refuse(f"{self.giants} counts are never cut")
        if self.listed:
            self.start = np.array([self._root(i) for i in range(e.y.size)])
            self.low = min(win.low, float(np.min(self.start)) - FAR)
            self.high = max(win.high, float(max(np.max(self.start), np.max(e.y))) + FAR)
        elif np.any(e.y > win.low):
            self.low = float(np.max(e.y))
            if not self.low < win.centre:
                self._refuse("many of those that share the total lie above the cut")
        self.parts = self._parts(level[0])

    def _refuse(self, why: str) -> None:
        raise ToleranceError(f"{self.name}: {why}, too many for sums of exponential variables")

    def _root(self, i: int) -> float:
        """The t with E[H_{-i}(t)] = C: there P(H_{-i} > C) comes to 1/2, and neither it nor 1 less it is a difference."""
        e, unit = self.e, self.family.noise
        weight = e.weight - (np.arange(e.y.size) == i)

        def excess(t: float) -> float:
            kept = unit.upper(t - e.y, 0.0, 1) + self.tau * unit.sf(t - e.y)
            return float(weight @ kept) + self.giants * (self.tau - t) - e.rest

        low, high = self.win.centre - 1.0, self.win.centre + 1.0
        while excess(low) <= 0:
            low -= 2 * (high - low)
        while excess(high) >= 0:
            high += 2 * (high - low)
        return root(excess, low, high, xtol=1e-9, rtol=1e-12)

    def _corners(self) -> Floats:
        """Where a tail of a low order begins: E = C or C - tau."""
        e, tau, g = self.e, self.tau, self.giants
        inside = np.repeat(e.y, e.weight.astype(np.int64)) if self.listed else e.y[:0]
        sets = [
            (size, float(np.sum(c) + size * tau))
            for size in range(inside.size + 1)
            for c in combinations(inside.tolist(), size)
            if 2 * (size + g) <= SMOOTH and size + g > 0
        ]
        found = [
            (have + (g + kept) * tau - e.rest) / (size + g)
            for size, have in sets
            for kept in range(-1, SMOOTH - 2 * (size + g) + 2)
        ]
        return np.array(found)

    def _parts(self, order: int) -> list[Part]:
        e, low, high = self.e, self.low, self.high
        marks = np.concatenate([e.y, self._corners(), self.start]) if self.listed or self.giants else self.start
        marks = np.append(marks, self.win.centre)
        ends = np.unique(np.concatenate([[low, high], marks[(marks > low) & (marks < high)]]))
        ends = ends[np.append(True, np.diff(ends) > 1e-14 * (1 + np.abs(ends[1:])))]
        long = min(LONG, WIDE * self.win.scale)
        few_panels(self.name, low, high, long)
        edges = np.unique(np.concatenate([np.linspace(a, b, math.ceil((b - a) / long) + 1) for a, b in pairwise(ends)]))
        t, weight = on_panels(edges, order)
        self.last = float(t[-1])
        own, below = np.arange(e.y.size), np.searchsorted(e.y, t) if self.listed else np.full(t.size, e.y.size)
        group = below + (e.y.size + 1.0) * np.searchsorted(np.unique(np.append(self.start, self.win.centre)), t)
        parts = []
        for value in np.unique(group):
            here = np.flatnonzero(group == value)
            count = int(below[here[0]])
            above = np.repeat(own[count:], e.weight[count:].astype(np.int64)) if self.listed else own[:0]
            for some in np.array_split(here, math.ceil(here.size / 400)):
                parts.append(Part(t[some], weight[some], above, own[:count]))
        return parts

    def found(self) -> Found:
        """All of them."""
        e, tau, unit, t0 = self.e, self.tau, self.family.noise, self.win.centre
        c0, x = self.start - e.y, e.y + tau
        below = unit.cdf(c0)
        u0, u1, u2 = (unit.upper(c0, 0.0, k) for k in range(3))
        sums = np.zeros((4, e.y.size))
        sums[0] = -unit.lower(c0, 0.0, 1) - tau * below
        sums[1] = below
        # phi = y + tau + (eta - start) where it is kept: away from x by eta - start
        shift = c0 - self.start
        sums[2] = x**2 * below + u2 + 2 * shift * u1 + shift**2 * u0
        sums[3] = self._left_out()
        drift, giant = t0, unit.variance + t0**2
        for part in self.parts:
            cancel.check()
            more, chance, line = (self._each if self.listed else self._together)(part)
            sums += more
            drift, giant = drift + chance, giant - 2 * line
        size = self.family.y.size
        out = [np.zeros(size), np.zeros(size), np.full(size, giant), np.zeros(size)]
        for full, values, like in zip(out, sums, (missing, clipped, None, None), strict=True):
            full[: e.members] = spread_out(e, values, unit, t0, like)
        if e.reduced is not None:
            out[3][: e.members] = np.max(sums[3])
        return Found(out[0], out[1], out[2], out[3], drift)

    def _left_out(self) -> Floats:
        """A bound on what lies below the first t; listed ones begin far below all that matters."""
        e, unit = self.e, self.family.noise
        if self.listed:
            return np.zeros(e.y.size)
        part = Part(np.array([self.low]), np.ones(1), np.arange(0), np.arange(e.y.size))
        circle, rho, tails, whole, one = self._circle(part)
        chance = np.abs(summed(circle, tails(0, 0, 0.0, 0), rho, whole, one)[0])
        if float(np.max(chance)) > EDGE:
            self._refuse("many of those that share the total lie above the cut")
        c = self.low - e.y
        return np.asarray(chance * (-unit.lower(c, 0.0, 1) + (1 + 2 * self.tau) * unit.cdf(c)))

    def _tails(self, t: Floats, upper: bool, above: NDArray[np.int64], most_kept: int) -> Tails:
        terms = Terms.of(self.e.y[above], self.tau, self.giants)
        k = np.arange(most_kept + 1)
        if t.size * terms.p.size * k.size * (k.size + self.giants + above.size) > WORK:
            self._refuse(f"{terms.p.size} terms and {k.size} numbers that may be kept")
        return Tails(t, upper, terms, k, self.tau, self.giants, self.e.rest - self.giants * (self.tau - t))

    def _gather(self, out: Floats, part: Part, i: Any, values: tuple[Floats, ...], own: Floats, size: Floats) -> None:
        """Add some t to the sums of the entities i."""
        w, unit = part.weight, self.family.noise
        c = part.t - self.e.y[i] if own.ndim == 1 else part.t[:, None] - self.e.y[i]
        f, density, chance, jump, moment = unit.cdf(c), unit.density(c), *values
        held = w @ (density * jump)
        out[0, i] += w @ (f * chance) - held
        out[1, i] += w @ (density * chance)
        out[2, i] += -2 * (w @ own) - 2 * (w @ (density * moment) - (self.e.y[i] + self.tau) * held)
        out[3, i] += 16 * EPS * (w @ ((f + (1 + self.tau) * density) * size))
        if part.t[-1] == self.last:  # beyond it the chances fall as e^-t at the least
            out[3, i] += 2 * (1 + self.tau) * chance[-1]

    def _each(self, part: Part) -> tuple[Floats, float, float]:
        """What these t add to the sums of every count, to E[r], and to a giant's: one count after the other."""
        e, t, tau = self.e, part.t, self.tau
        out = np.zeros((4, e.y.size))
        both = np.concatenate([part.above, np.repeat(part.below, e.weight[part.below].astype(np.int64))])
        for i in range(e.y.size):
            others = np.delete(both, np.flatnonzero(both == i)[0])
            above = others[e.y[others] > t[0]]
            low = others[e.y[others] <= t[0]]
            tails = self._tails(t, bool(t[0] > self.start[i]), above, low.size)
            number = kept(0.5 * np.exp(e.y[low] - t[:, None]))
            values = tuple(np.sum(number * h, axis=1) for h in tails.integrals())
            size = tails.size()
            if e.y[i] <= t[0]:
                own = 0.5 * np.exp(e.y[i] - t)[:, None] * (tails(2, 0, tau, 0) - e.y[i] * tails(1, 0, tau, 0))
            else:
                shift = e.y[i] + tau - t
                own = tails(2, 1, shift, 0) - tails(1, 2, shift, 0) - t[:, None] * tails(1, 1, shift, 0)
                less = e.y[i] * tails(0, 1, tau, 0) + tails(0, 2, tau, 0)
                own = own + 0.5 * np.exp(t - e.y[i])[:, None] * less
            self._gather(out, part, i, values, np.sum(number * own, axis=1), np.sum(number * size, axis=1))
        low = both[e.y[both] <= t[0]]
        tails = self._tails(t, bool(t[0] > self.win.centre), part.above, low.size)
        number = kept(0.5 * np.exp(e.y[low] - t[:, None]))
        return out, *self._common(part, tails, lambda h: np.sum(number * h, axis=1))

    def _common(self, part: Part, tails: Tails, every: Callable[[Floats], Floats]) -> tuple[float, float]:
        """Of E[r], and of a giant's mean squared error."""
        chance = every(tails(0, 0, 0.0, 0))
        if self.giants == 0:
            return float(part.weight @ chance), 0.0
        line = every(tails(1, 0, 0.0, 0) - tails(0, 1, 0.0, 0)) - part.t * chance
        return float(part.weight @ chance), float(part.weight @ line)

    def _circle(self, part: Part) -> tuple[Circle, Floats, Tails, Any, Any]:
        """The points and rho, the tails, the product over all that are below, and 1/psi of each of them."""
        e, t = self.e, part.t
        s, _ = self.win.tilts(t)
        rho = np.exp(s * self.tau) / (1 - s)
        q = 0.5 * np.exp(e.y - t[:, None])
        tilted = q * rho[:, None] / (1 - q + q * rho[:, None])
        mean, variance = (np.maximum(v @ e.weight, 0.0) for v in (tilted, tilted * (1 - tilted)))
        far = float(np.max(most(mean, variance, np.full(t.size, LEFT))))
        if far > POINTS:
            self._refuse(f"{far:.0f} may share the total")
        circle = Circle.around(np.zeros(1), np.array([min(far, math.ceil(float(np.sum(e.weight)) - 1e-6))]))
        tails = self._tails(t, bool(t[0] > self.win.centre), part.above, circle.size - 1)
        # half of the points: the others have the conjugates
        psi = (1 - q)[:, :, None] + (q * rho[:, None])[:, :, None] * circle.w[: circle.size // 2 + 1]
        log = log_product(np.swapaxes(psi, 1, 2), e.weight)
        return circle, rho, tails, np.exp(log), 1 / psi

    def _together(self, part: Part) -> tuple[Floats, float, float]:
        """The same with all counts below the cut, all of them at once."""
        e, tau = self.e, self.tau
        circle, rho, tails, whole, one = self._circle(part)
        out, none = np.zeros((4, e.y.size)), np.ones((part.t.size, 1, whole.shape[1]))
        values = tuple(summed(circle, h, rho, whole, one) for h in tails.integrals())
        once, twice = (summed(circle, tails(p, 0, tau, 0), rho, whole, one) for p in (1, 2))
        own = 0.5 * np.exp(e.y - part.t[:, None]) * (twice - e.y * once)
        self._gather(out, part, part.below, values, own, size_of(circle, tails, rho, whole, one))
        return out, *self._common(part, tails, lambda h: summed(circle, h, rho, whole, none)[:, 0])
