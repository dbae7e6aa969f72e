"""The threshold rules for two entities, by integrals of one and two dimensions.

`simplex-threshold`. Only the difference D = X_1 - X_2 matters. While both are kept they get (C +- D)/2, which asks for |D| < C - 2 tau; for
C - 2 tau <= |D| < C - tau the smaller stands inside its jump and gets the remainder C - tau - |D|; beyond that the larger gets all.
With x_1 - x_2 = m, D - m = eta_1 - eta_2 has the density (1 + |d|) e^{-|d|}/4 (Laplace, scale 1) or N(0, 2).

`pos-threshold`, S = z_1 + z_2 > 0. Of the two edges d_j = z_j - t_j, t_j = a_j tau, let "lo" be the smaller. Both above 0: r = 0 and the
shares are z_j/S. Else r passes lo's edge: inside its jump (t_lo/2 < z_lo <= t_lo) r = d_lo and lo gets z_lo + d_lo; below
that lo gets nothing. So

    share of lo = g(z_lo)/S,   g(z) = z for z > t, (2z - t)_+ for z <= t,   share of hi = 1 - share of lo,
    E[share_1; S > 0] = E[z_1/S; both d > 0] + P(S > 0, d_1 > d_2, d_2 <= 0)
                        + E[g(z_1)/S; d_1 < d_2, z_1 <= t_1] - E[g(z_2)/S; d_2 < d_1, z_2 <= t_2].

The first term is int V_1 U_2 dtheta with partial transforms; g > 0 has S > t_hi > 0, and the others are smooth between the centres of the
densities. For S < 0 the same holds with -z. Squares likewise; P(share_1 = 0) = P(d_1 < d_2, z_1 <= t_1/2, S > 0) and the same with -z.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from fairpost.engines.closed.quadrature import exp_sinh, legendre, on_panels
from fairpost.engines.closed.shares import SAFETY, range_error, reached, refusal
from fairpost.engines.exact.pos.problem import Problem, chance_negative
from fairpost.engines.moments import Counted, Floats, Moments
from fairpost.noise import Law

ORDERS = (12, 18, 26)
"""Nodes on a panel, in the order of refinement."""
STEPS = (0.08, 0.05, 0.03)
"""Of the double-exponential rule, likewise."""
AWAY = np.array([0.0, 0.5, 1.0, 2.0, 3.5, 5.5, 8.0, 12.0, 18.0, 27.0, 40.0])
"""Panels end at these distances (in scales) from a centre, to each side."""
ROUNDING = 1e-14


def release(x: Floats, times: Counted, noise: Law, total: float, tau: float, rtol: float) -> Moments:
    """Moments of `simplex-threshold` for two entities and a total above tau."""
    b = noise.spread
    both = np.repeat(x, times) / b
    c, t, m = total / b, tau / b, float(both[0] - both[1])
    gaussian = np.isinf(noise.strip)
    reach = 13.0 if gaussian else 45.0
    breaks = np.array([m, 0.0, c - 2 * t, c - t, 2 * t - c, t - c])
    ends = np.concatenate([m + np.linspace(-reach, reach, 60), breaks[np.abs(breaks - m) < reach]])
    before: tuple[Floats, ...] | None = None
    for order in ORDERS:
        d, weight = on_panels(np.unique(ends), order)
        away = np.abs(d - m)
        density = np.exp(-((d - m) ** 2) / 4) / np.sqrt(4 * np.pi) if gaussian else (1 + away) * np.exp(-away) / 4
        p, size = weight * density, np.abs(d)
        less = np.where(size < c - 2 * t, (c - size) / 2, np.maximum(c - t - size, 0.0))
        v = np.where(d[:, None] * np.array([1.0, -1.0]) < 0, less[:, None], c - less[:, None])
        off = v - both
        now = (p @ off, p @ off**2, p @ (v == 0))
        if before is not None:
            lost = abs(float(np.sum(p)) - 1) + ROUNDING
            error = np.abs(now[0] - before[0]) + lost * (c + np.max(both))
            alpha, slack = range_error(now[0], error)
            if slack <= max(rtol * alpha, 1e-13 * (c + float(np.max(both)))):
                at = np.cumsum(times) - 1
                found = Moments(
                    now[0] * b, error * b, now[1] * b * b, now[2],
                    mse_error=(SAFETY * np.abs(now[1] - before[1]) + lost * (c + np.max(both)) ** 2) * b * b,
                    zero_error=SAFETY * np.abs(now[2] - before[2]) + lost,
                )  # fmt: skip
                return found.at(at)
        before = now
    raise refusal("simplex-threshold", now[0] * b, error * b, rtol)


def shares(problem: Problem, tau: float, rtol: float) -> Moments:
    """Moments of `pos-threshold` for n = 2."""
    negative = chance_negative(problem)
    tie = problem.c.size == 1
    if tie:
        both: dict[str, Any] = {k: np.repeat(getattr(problem, k), 2) for k in ("c", "scale", "shares", "a")}
        problem = replace(problem, times=np.ones(2, dtype=np.int64), **both)
    p, kept = problem.shares, slice(0, 1) if tie else slice(None)
    before: tuple[Floats, ...] | None = None
    for order, step in zip(ORDERS, STEPS, strict=True):
        sides = [_Side(c, problem, tau, order, step).moments() for c in (problem.c, -problem.c)]
        first, second, zero = (sides[0][k] + sides[1][k] for k in range(3))
        bias = first - p * np.sum(first)
        if before is not None:
            lost = abs(float(np.sum(first)) - 1) + ROUNDING
            error = np.abs(bias - before[0]) + lost
            if reached(bias[kept], error[kept], p, rtol):
                mse = second - 2 * p * first + p * p
                moved = np.abs(second - before[2]) + 2 * p * np.abs(first - before[1])
                found = Moments(
                    bias[kept], error[kept], np.maximum(mse, 0.0)[kept], zero[kept],
                    degenerate=negative,
                    mse_error=(SAFETY * moved + 3 * lost)[kept],
                    zero_error=(SAFETY * np.abs(zero - before[3]) + lost)[kept],
                )  # fmt: skip
                return replace(found, bias=0 * found.bias, error=0 * found.error) if tie else found
        before = bias, first, second, zero
    raise refusal("pos-threshold", bias, error, rtol)


class _Side:
    """S > 0 for z_j = c_j + a_j eta."""

    def __init__(self, c: Floats, problem: Problem, tau: float, order: int, step: float) -> None:
        self.c, self.a, self.noise = c, problem.a, problem.mechanism
        self.edge, self.scale = problem.a * tau, problem.scale
        self.order, self.step = order, step

    def density(self, j: int, z: Floats) -> Floats:
        """Of z_j."""
        return np.asarray(self.noise.density((z - self.c[j]) / self.a[j]) / self.a[j])

    def above(self, j: int, z: Floats) -> Floats:
        """P(z_j > z)."""
        return np.asarray(self.noise.sf((z - self.c[j]) / self.a[j]))

    def ends(self, low: float, high: float, more: tuple[float, ...] = ()) -> Floats:
        """Panels between low and high that follow both densities, also where one has the scale of the other's edges."""
        marks = [*more, low, high]
        for j in (0, 1):
            for centre in (self.c[j], -self.c[j], self.c[j] + self.edge[1 - j] - self.edge[j], 0.0):
                marks.extend((centre + self.scale[j] * np.concatenate([-AWAY, AWAY])).tolist())
        found = np.array(marks)
        return np.unique(found[(found >= low) & (found <= high)])

    def moments(self) -> tuple[Floats, Floats, Floats]:
        """E[share], E[share^2] and P(share = 0) of both, where S > 0."""
        first, second = self._both_kept()
        zero = np.zeros(2)
        for i in (0, 1):
            j = 1 - i
            one, two = self._in_jump(i)
            first[i] += one
            second[i] += two
            larger = self._larger(j, i)  # j is hi and i at or below its edge
            first[j] += larger - one
            second[j] += larger - 2 * one + two
            zero[i] = self._nothing(i, j)
        return first, second, zero

    def _both_kept(self) -> tuple[Floats, Floats]:
        """int V_i U_j dtheta and int theta V2_i U_j dtheta, cut at the edges: z = t_j + a (eta - cut)."""
        size = float(np.sqrt(np.sum(self.c + self.edge) ** 2 + np.sum(self.scale**2)))
        theta, weight = (v / size for v in exp_sinh(self.step))
        cut = (self.edge - self.c) / self.a
        s = -np.multiply.outer(theta, self.a)
        fall = np.exp(-np.multiply.outer(theta, self.edge))
        u0, u1, u2 = (self.noise.upper(cut, s, k) * self.a**k for k in range(3))
        v1 = u1 + self.edge * u0
        v2 = u2 + 2 * self.edge * u1 + self.edge**2 * u0
        whole = np.prod(fall, axis=1)
        return weight * whole @ (v1 * u0[:, ::-1]), weight * theta * whole @ (v2 * u0[:, ::-1])

    def _in_jump(self, i: int) -> tuple[float, float]:
        """E[g/S] and E[g^2/S^2] where i is lo and inside its jump: z_i in (t_i/2, t_i), z_j > z_i - t_i + t_j."""
        j, t = 1 - i, self.edge
        z, wz = on_panels(self.ends(t[i] / 2, t[i]), self.order)
        one, two = 0.0, 0.0
        far = max(self.c[j], t[j]) + 45 * self.scale[j]
        ends = self.ends(t[j] - t[i] / 2, far, (t[j],))
        low = z - t[i] + t[j]
        g = 2 * z - t[i]
        p = wz * self.density(i, z)
        unit, w = legendre(self.order)
        for a, b in pairwise(ends):  # the panel is cut where z_j begins
            start = np.clip(low, a, b)[:, None]
            y = start + (b - start) * unit
            mass = (b - start) * w * self.density(j, y)
            ratio = g[:, None] / (z[:, None] + y)
            one += float(np.sum(p[:, None] * mass * ratio))
            two += float(np.sum(p[:, None] * mass * ratio**2))
        return one, two

    def _larger(self, hi: int, lo: int) -> float:
        """P(S > 0, d_lo < d_hi, d_lo <= 0)."""
        t = self.edge
        z, w = on_panels(self._range(lo, t[lo], ((t[lo] - t[hi]) / 2,)), self.order)
        return float(w @ (self.density(lo, z) * self.above(hi, np.maximum(-z, z - t[lo] + t[hi]))))

    def _nothing(self, i: int, j: int) -> float:
        """P(S > 0, d_i < d_j, z_i <= t_i/2)."""
        t = self.edge
        z, w = on_panels(self._range(i, t[i] / 2, ((t[i] - t[j]) / 2,)), self.order)
        return float(w @ (self.density(i, z) * self.above(j, np.maximum(-z, z - t[i] + t[j]))))

    def _range(self, i: int, high: float, more: tuple[float, ...]) -> Floats:
        low = min(self.c[i], high) - 45 * self.scale[i]
        return self.ends(low, high, tuple(v for v in more if low < v < high))
