"""`pos`, S = sum z_j all but certain to be above 0: the moments of (z_i - r)_+ / S.

With w_i = min(z_i, r) = r - y_i the share is (z_i - w_i)/S, and the w sum to 0, so

    E[PoS_i] - P_i = E[(z_i - P_i S)/S] + E[y_i/S] - mean(E[y/S]).

The first term has no clipping in it: under the tilt e^{-tS} the mean of z_i - P_i S is e_i - P_i sum e, where e_j is the shift of the mean of
z_j (the true values drop out, as P_i sum c = c_i). Both are as small as the bias itself. For squares, with P S - z = -(z - P S),

    (z_i - P_i S - w_i)^2 = (z_i - P_i S)^2 + 2 P_i S w_i - 2 c_i w_i + (w_i^2 - 2 (z_i - c_i) w_i).

1/S = int e^{-tS} dt is a sum of few exponentials, rho(S) = sum omega e^{-tS}, with the nodes of Gauss-Radau-Laguerre in t E[S]: n nodes
agree with 1/S to degree 2n - 2 about E[S]; sum omega t e^{-tS} stands for 1/S^2. By Cauchy-Schwarz a bias moves by at most
sqrt(mse_i) rms(S rho(S) - 1), and S beyond a Chernoff distance adds its chance; that is why S > 0 has to be sure.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from fairpost import cancel
from fairpost.engines.closed.quadrature import radau
from fairpost.engines.closed.shares import SAFETY, moved, reached, symmetric
from fairpost.engines.contour.law import LEVELS, AtRisk, Level, Root, Window
from fairpost.engines.moments import Floats, Moments
from fairpost.noise import Law

SURE = 20.0
"""S <= E[S]/4 has a chance of e^-20 at most."""
ROUNDING = 1e-13


@dataclass(frozen=True)
class Inverse:
    """rho(S) = sum omega e^{-tS} in the place of 1/S."""

    t: Floats
    omega: Floats
    rms: float
    """A bound on the root mean square of S rho(S) - 1 where S is within the Chernoff distance."""
    square: float
    """The same of S^2 sum omega t e^{-tS} - 1."""
    tail: float
    """What S outside the distance can add to any bias."""


@dataclass(frozen=True)
class Total:
    """S: its mean, and P(S - E[S] >= d) <= e^{K(T) - T d} for every T > 0 (and the same below), K on a grid of T."""

    scales: Floats
    times: Floats
    noise: Law
    mean: float
    tilt: Floats
    log: Floats

    @classmethod
    def of(cls, root: Root) -> Total:
        """The grid reaches levels of about 200, or as far as the transform exists."""
        scales, place = np.unique(root.scale, return_inverse=True)
        times = np.bincount(place, root.times).astype(np.float64)
        deviation = math.sqrt(float(times @ scales**2) * root.noise.variance)
        high = min(20 / deviation, 0.999 * root.noise.strip / float(scales[-1]))
        tilt = np.geomspace(min(0.2 / deviation, 0.1 * high), high, 60)
        log = np.asarray(root.noise.cgf(np.multiply.outer(tilt, scales)), dtype=np.float64) @ times
        return cls(scales, times, root.noise, math.fsum(root.c * root.times), tilt, log)

    def level(self, distance: float) -> float:
        """A lower bound on -log P(S - E[S] >= distance)."""
        return float(np.max(self.tilt * distance - self.log))

    def chance_negative(self) -> float:
        """P(S < 0) = (1 / 2 pi i) int e^{K(T) - T E[S]} dT/T through the saddle point, bent to the right; 0 where it is below e^-100."""
        if self.level(self.mean) > 100:
            return 0.0
        start = float(self.tilt[np.argmin(self.log - self.tilt * self.mean - np.log(self.tilt))])
        _, _, second = self.noise.cumulants(-start * self.scales)
        width = 1 / math.sqrt(float((self.times * self.scales**2) @ second) + 1 / start**2)
        scale = min(6 * width, 0.8 * start, 0.8 * (self.noise.strip / float(self.scales[-1]) - start))
        bend, step = min(0.4 * scale, 4 / self.mean), 0.5 * min(0.12, width / scale)
        v = np.arange(0.0, 25.0, step)
        v = v[bend * self.mean * np.cosh(v) + 2 * v < 90]
        path = start + bend * (np.cosh(v) - 1) + 1j * scale * np.sinh(v)
        speed = scale * np.cosh(v) - 1j * bend * np.sinh(v)
        log = np.asarray(self.noise.cgf(-np.multiply.outer(path, self.scales))) @ self.times - path * self.mean
        values = (np.exp(log) * speed / path).real
        return float(step / np.pi * (np.sum(values) - values[0] / 2))

    def inverse(self, tolerance: float) -> Inverse | None:
        """The smallest rule whose error is below the tolerance; None where S may come too near to 0.

        The mean square of f = S rho(S) - 1 is summed over shells: |S - E S| > x_k has a chance of at most 2 e^{-l_k}.
        """
        mean, level = self.mean, min(60.0, self.level(0.75 * self.mean))
        if level < SURE:
            return None
        levels = np.append(np.arange(1.0, level, 3.0), level)
        x = np.minimum([float(np.min((l + self.log) / self.tilt)) for l in levels], 0.75 * mean)
        chance = np.append(1.0, 2 * np.exp(-levels[:-1]))
        s = np.array([mean - x, mean + x])
        for size in range(3, 24):
            u, weight = radau(size)
            t, omega = u / mean, weight / mean
            if t[-1] > self.tilt[np.argmin((level + self.log) / self.tilt)]:
                return None  # e^{-tS} would be largest where S is least
            decay = np.exp(-np.multiply.outer(s, t))
            one, two = (np.max(np.abs(s**k * (decay @ (omega * t ** (k - 1))) - 1), axis=0) for k in (1, 2))
            rms, square = (float(np.sqrt(np.sum(chance * f**2))) for f in (one, two))
            if rms <= tolerance:
                return Inverse(t, omega, rms, square, 32 * math.exp(-level))
        return None


@dataclass(frozen=True)
class Shares:
    """The problem: z_j, their true shares and S."""

    root: Root
    p: Floats
    total: Total

    def unclipped(self, inverse: Inverse) -> tuple[Floats, Floats]:
        """E[(z_i - P_i S)/S] and E[(z_i - P_i S)^2/S^2]."""
        times, p = self.root.times, self.p
        log, mean, variance = self.tilted(inverse.t)
        weight = inverse.omega * np.exp(log @ times - inverse.t * self.total.mean)
        gap = mean - np.multiply.outer(mean @ times, p)
        scatter = (1 - p) ** 2 * variance + p**2 * ((variance @ times)[:, None] - variance)
        return weight @ gap, (weight * inverse.t) @ (gap**2 + scatter)

    def tilted(self, t: Floats) -> tuple[Floats, Floats, Floats]:
        """Under e^{-tz}: log E[e^{-t(z - c)}], the mean of z - c, the variance; rows t, columns pairs."""
        scale = self.root.scale
        log, first, second = self.root.noise.cumulants(-np.multiply.outer(t, scale))
        return log, first * scale, second * scale**2


def pos(problem: Shares, inverse: Inverse, rtol: float) -> Moments:
    """In shares of 1. `inverse` is within 2 % of the tolerance where the bias is of the size of the noise; smaller ones need a nearer one."""
    bias, mse = problem.unclipped(inverse)
    enough = 0.1 * rtol * float(np.ptp(bias)) / float(np.sqrt(np.max(mse)))
    for tolerance in (enough, 1e-4 * enough):
        nearer = problem.total.inverse(max(tolerance, ROUNDING)) if tolerance < inverse.rms else inverse
        found = _refined(problem, nearer or inverse, rtol)
        if found.short is None or nearer is None or tolerance < ROUNDING:
            break
    return symmetric(replace(found, degenerate=problem.total.chance_negative()))


@dataclass(frozen=True)
class _Found:
    """By level: the biases, E[y/S] with its mean (what rounding and refinement are relative to), squares and P(0)."""

    bias: Floats
    size: Floats
    mse: Floats
    zero: Floats
    nodes: int
    open: int


def _refined(problem: Shares, inverse: Inverse, rtol: float) -> Moments:
    """Levels of the rule for (r, s) until two agree to the tolerance."""
    root, p = problem.root, problem.p
    bias0, mse0 = problem.unclipped(inverse)
    sure = np.sqrt(mse0) * inverse.rms + inverse.tail + ROUNDING * np.abs(bias0)
    # without clipping: a w is at most sum (-z)_+ in size, whose mean is taken four times over S; and r > 0 needs a negative z
    below = root.beside(0.0)
    fallen = 4 * float(below[1] @ root.times) / problem.total.mean
    if reached(bias0, sure + fallen, p, rtol) and fallen < 0.01 * rtol * float(np.max(np.abs(bias0))):
        spread = _of_square(inverse, mse0) + 2 * fallen
        chance = np.full_like(bias0, min(float(below[0] @ root.times), 1.0))
        return Moments(bias0, sure + fallen, mse0, below[0], mse_error=spread, zero_error=chance)
    risk = root.at_risk(1e-4 * min(rtol, 1e-6))
    window = Window.of(risk, True, rtol)
    before: _Found | None = None
    for level in LEVELS:
        now = _at(problem, risk, window, level, inverse, bias0, mse0)
        if now.open:
            return Moments.unknown(root.c.size, "pos: contours do not end")
        if before is not None:
            change = moved(now.bias, before.bias, now.size)
            missed = (risk.missed + window.unseen) * float(np.max(now.size))
            error = (
                change + ROUNDING * (np.abs(bias0) + now.size) + np.sqrt(now.mse) * inverse.rms + inverse.tail + missed
            )
            if reached(now.bias, error, p, rtol):
                spread = (
                    SAFETY * moved(now.mse, before.mse, now.mse) + _of_clipped(inverse, now.mse, mse0, p) + 2 * missed
                )
                chance = SAFETY * np.max(np.abs(now.zero - before.zero)) + ROUNDING + risk.missed * np.max(now.zero)
                zero_error = np.full_like(error, chance)
                return Moments(
                    now.bias, error, now.mse, now.zero, nodes=now.nodes, mse_error=spread, zero_error=zero_error
                )
            if reached(now.bias, change, p, 0.1 * rtol):
                break  # it is 1/S that is not near enough
        before = now
    return Moments.missed("pos", now.bias, error, rtol)


def _at(
    problem: Shares, risk: AtRisk, window: Window, level: Level, inverse: Inverse, bias0: Floats, mse0: Floats
) -> _Found:
    """One level."""
    root, t, omega = problem.root, inverse.t, inverse.omega
    two = omega * t
    log, mean, _ = problem.tilted(t)
    far = np.ones(root.c.size, dtype=bool)
    far[risk.index] = False
    far_log = log[:, far] @ root.times[far] - t * math.fsum((root.c * root.times)[far])
    weights = np.array([omega, omega / problem.total.mean - two, two])
    cancel.check()
    sums = risk.integrate(window.rule(level), level, True, (t, weights, far_log))
    y, zero = np.zeros(root.c.size), np.zeros(root.c.size)
    y[risk.index], zero[risk.index] = sums.first, np.clip(sums.zero, 0.0, 1.0)
    all_y = float(y @ root.times) / root.n
    shift = y - all_y
    once, twice = sums.common[:, 1], sums.common[:, 2]
    # 2 P E[w/S] - 2 c E[w/S^2], and w^2 - 2 (z - c) w of who is above r
    change = 2 * root.c * float(weights[1] @ once) + two @ twice - 2 * (two * once) @ mean
    at = risk.index
    change[at] = 2 * root.c[at] * (float(weights[1] @ once) - sums.mixed) + sums.square
    bias = bias0 + shift
    return _Found(bias, y + all_y, np.maximum(mse0 + change, bias**2), zero, sums.nodes, sums.open)


def _of_square(inverse: Inverse, mse: Floats) -> Floats:
    """What the stand-in for 1/S^2 can move a mean squared error by, with rounding.

    By Cauchy-Schwarz, with a fourth moment of at most 6 times the squared second one (Laplace), sqrt 6 < 3.
    """
    return np.asarray(3 * mse * inverse.square + inverse.tail + 10 * ROUNDING * mse)


def _of_clipped(inverse: Inverse, mse: Floats, mse0: Floats, p: Floats) -> Floats:
    """The same with clipping, v for z: v^2 - z^2 = (v - z)^2 + 2 (z - P S)(v - z) + 2 P S (v - z).

    The last is larger than squares, for a share P near 1, and meets both stand-ins. The root mean square of (v - z)/S is at most
    sqrt(mse) + sqrt(mse0).
    """
    lifted = np.sqrt(mse) + np.sqrt(mse0)
    return np.asarray(_of_square(inverse, mse + mse0) + 2 * p * lifted * (inverse.rms + inverse.square))
