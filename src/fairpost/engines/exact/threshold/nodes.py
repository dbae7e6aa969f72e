"""Nodes for the law of the shift along upright lines (`lines`, `few`): where r lies, how far s goes and in which steps, panels of r."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from fairpost.engines.closed.quadrature import Rule, on_panels
from fairpost.engines.exact.sums.factors import Complexes
from fairpost.engines.moments import Floats
from fairpost.errors import ToleranceError
from fairpost.noise import Law

SMOOTH = 6.0
"""Y over the width of the cut-off's fall."""
FALL = 0.87
"""The line ends FALL sqrt(quiet) widths beyond Y, where the cut-off is e^{-3/4 quiet} and F has next to nothing left."""
STEPS = 200_000
"""The most steps of a line: with the fewest r and t they are all the work that is allowed."""
TURN = 15.0
"""The phase on a panel of r."""
CORNERS, PANELS = 40, 1500
"""Up to this many counts every corner of their densities ends a panel; the most panels."""


@dataclass(frozen=True)
class Level:
    """One refinement."""

    frequency: float
    """w = nY in units of its usual value."""
    quiet: float
    """What is left out has a chance of e^-quiet."""
    order: int
    """Nodes on a panel of r."""
    tilts: int
    """Nodes t."""
    nodes: int
    """Chebyshev nodes."""
    finest: float
    """The least scale (of the largest weight's noise) that panels of r follow."""


LEVELS = (
    Level(0.72, 15.0, 11, 12, 6, 0.1),
    Level(1.0, 19.0, 13, 15, 8, 0.06),
    Level(1.4, 24.0, 15, 19, 10, 0.03),
    Level(2.0, 28.0, 18, 24, 12, 0.015),
    Level(2.8, 32.0, 21, 30, 14, 0.008),
)


@dataclass(frozen=True)
class Values:
    """Counts in units of the noise and how often each occurs, or Chebyshev nodes with their weights."""

    noise: Law
    c: Floats
    a: Floats
    times: Floats
    tau: float
    exact: bool

    @property
    def n(self) -> float:
        """The number of entities."""
        return float(round(float(np.sum(self.times))))

    def part(self, which: NDArray[np.bool_]) -> Values:
        """Some of them."""
        return replace(self, c=self.c[which], a=self.a[which], times=self.times[which])

    def cut(self, r: Floats | float) -> Floats:
        """Where the noise of each must end for it to be dropped at r (one more axis)."""
        return np.asarray((np.asarray(r)[..., None] + self.a * self.tau - self.c) / self.a)

    @property
    def gaussian(self) -> bool:
        """Gaussian noise, or else Laplace."""
        return bool(np.isinf(self.noise.strip))

    def frequency(self) -> float:
        """The usual Y: F has about 1e-8 beyond w = nY (equal weights)."""
        total, square = float(np.sum(self.times * self.a)), float(np.sum(self.times * self.a**2))
        return max((10.0 if self.gaussian else 24.0) / total, 7.0 / math.sqrt(square))


def jumps(s: Complexes, t: Floats, tau: float) -> list[Complexes]:
    """J_k = e^{s tau} tau^{k+1} int_0^1 v^k e^{-xv} dv, x = (s + t) tau; by its series where |x| < 1/2 (x^17/17! < 1e-19)."""
    x = (s[:, None] + t) * tau
    small = np.abs(x) < 0.5
    y = np.where(small, 1.0, x)
    e = np.exp(-y)
    forms = [(1 - e) / y, (1 - e * (1 + y)) / y**2, (2 - e * (2 + 2 * y + y * y)) / y**3]
    near = x[small]
    for k, form in enumerate(forms):
        term, total = np.ones_like(near), np.zeros_like(near)
        for m in range(17):
            total, term = total + term / (m + k + 1), -term * near / (m + 1)
        form[small] = total
    return [form * np.exp(s * tau)[:, None] * tau ** (k + 1) for k, form in enumerate(forms)]


def apart(z: Complexes) -> Floats:
    """Real and imaginary parts as an axis before the last one."""
    return np.stack([z.real, z.imag], axis=-2)


def chebyshev(c: Floats, nodes: int) -> tuple[Floats, Floats]:
    """The nodes on the range of c, the middle one first, and the values of Lagrange's polynomials at c."""
    middle, half = 0.5 * (float(c.min()) + float(c.max())), 0.5 * float(np.ptp(c))
    x = np.cos(np.pi * (np.arange(nodes) + 0.5) / nodes)
    x = x[np.argsort(np.abs(x), kind="stable")]
    matrix = np.ones((c.size, nodes))
    u = (c - middle) / half
    for k in range(nodes):
        for j in range(nodes):
            if j != k:
                matrix[:, k] *= (u - x[j]) / (x[k] - x[j])
    return middle + half * x, matrix


def line(
    v: Values, top: float, width: float, low: float, high: float, level: Level, reach: float
) -> tuple[Floats, Floats]:
    """Equal steps along Re s = 0 and their weights; W - nr stays within the period but for a chance of e^-quiet."""
    r = np.linspace(low, high, 60)
    theta, log = _chernoff(v, r)
    need = (log + level.quiet) / np.abs(theta)
    period = reach + max(
        float(np.max(np.min(need[:, theta > 0], axis=1))), float(np.max(np.min(need[:, theta < 0], axis=1)))
    )
    step = 2 * math.pi / period
    size = math.ceil((top + FALL * math.sqrt(level.quiet) * width) / step)
    if size > STEPS:
        raise ToleranceError(f"shares: the lines have {size:.2g} steps each, which would take too long")
    u = step * np.arange(float(size))
    return u, weights(u, top, width, step)


def weights(u: Floats, top: float, width: float, step: float) -> Floats:
    """Of equal steps up to a smooth cut-off; half of 0 belongs to the other side. No SciPy: it would take longer to load."""
    cut = np.array([math.erfc(v) for v in (u - top) / width]) * (0.5 * step / math.pi)
    cut[0] *= 0.5
    return cut


def _chernoff(v: Values, r: Floats) -> tuple[Floats, Floats]:
    """Tilts theta, and log E[e^{theta (W - nr)}] at every r; both signs."""
    c = v.cut(r)[:, None, :]
    most = 0.93 if not v.gaussian else min(12.0, 250.0 / max(float(np.max(c * v.a)), 1.0))
    up = most * np.geomspace(0.01, 1.0, 14)
    theta = np.concatenate([up, -up])
    tilt = np.multiply.outer(theta, v.a)
    # E[e^{theta (r - z)}; dropped] = e^{-tilt tau} E[e^{tilt (c - eta)}; eta < c]
    if v.gaussian:
        fallen = tilt * (c - v.tau) + tilt * tilt / 2 + _log(v.noise.cdf(c + tilt))
    else:
        above = np.exp(np.minimum(c, 0.0)) / (2 * (1 - tilt))
        deep = np.maximum(c, 0.0)
        below = 1 / (1 - tilt * tilt) - np.exp(-deep * (1 + tilt)) / (2 * (1 + tilt))
        fallen = tilt * (deep - v.tau) + _log(np.where(c < 0, above, below))
    return theta, np.logaddexp(fallen, _log(v.noise.sf(c))) @ v.times - v.n * np.multiply.outer(r, theta)


def _log(chance: Floats) -> Floats:
    """The logarithm, and of 0 one so low that no sum feels it."""
    return np.asarray(np.log(np.maximum(chance, 1e-300)) - 1e3 * (chance < 1e-300))


def window(v: Values, quiet: float) -> tuple[float, float]:
    """Where r lies but for a chance of e^-quiet: above -tau, where somebody is kept, and by Chernoff's bound."""
    unit = 1.0
    high = float(np.max(v.c)) - v.tau + unit
    while float(np.sum(np.abs(v.times) * v.noise.sf(v.cut(high)))) > math.exp(-quiet):
        high += unit
    low = -v.tau
    high = max(high, low + unit)
    for _ in range(3):  # each look narrows the ends to a cell of the one before
        r = low + (high - low) * np.linspace(0.0, 1.0, 40) ** 2
        theta, log = _chernoff(v, r)
        later = np.min(log[:, theta > 0], axis=1) < -quiet  # P(root > r) = P(W > nr)
        sooner = np.min(log[:, theta < 0], axis=1) < -quiet
        ends = [np.flatnonzero(~sooner), np.flatnonzero(~later)]
        if ends[0].size == 0 or ends[1].size == 0:
            break
        low, high = float(r[max(ends[0][0] - 1, 0)]), float(r[min(ends[1][-1] + 1, r.size - 1)])
        if not low < high:
            raise ToleranceError("shares: no range of the shift was found outside which it is negligible")
    return low, high


def panels(v: Values, low: float, high: float, top: float, level: Level) -> Rule:
    """Panels on which the phase turns by TURN at most, with breaks at the corners of Laplace noise and of what looks like one.

    Those who are dropped turn with r: W - nr has the slope -K, K the number of those that are kept. A panel is no longer than 1.5 scales of the
    noise of anybody who stands near its edge, down to level.finest: smaller ones have too little to give.
    """
    breaks = {low, high}
    corner = v.c - v.a * v.tau
    if v.exact and v.c.size <= CORNERS:
        sharp = (v.a < level.finest) | (not v.gaussian)
        breaks.update(corner[(corner > low) & (corner < high) & sharp].tolist())
    ends, near = [low], 6.0 if v.gaussian else 12.0
    for a, b in pairwise(sorted(breaks)):
        place = a
        while place < b:
            cut = v.cut(place)
            mean = float(v.times @ v.noise.sf(cut))
            number = min(v.n, 1 + mean + 4 * math.sqrt(max(mean, 0.0)))
            ahead = v.a * (-cut - near)  # from here to where an edge comes near: no panel is to run across it
            steps = np.maximum(ahead, 1.5 * np.maximum(v.a, level.finest))[cut < near]
            place += min(TURN / (number * top), float(np.min(steps, initial=1.5)))
            ends.append(min(place, b))
            if len(ends) > PANELS:
                raise ToleranceError("shares: weights of very different sizes, and too many panels to follow them all")
    return on_panels(np.array(ends), level.order)
