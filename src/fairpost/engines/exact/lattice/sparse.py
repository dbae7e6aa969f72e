"""Releases under whole-number noise that is next to none: at most one of the noises is not 0.

With g(u) = phi(u) - u, which is 0 from the top of the ramp on (u >= 0 without one), the shift r is the root of

    E(t) = H(t) - C = sum_j g(X_j - t) - n t + sum X - C,

a falling line between the places X_j - foot and X_j - top. A noise k of entity i changes two of its terms, and every root with one noise that
is not 0 is found on the lines between the places of all of them. From v = phi(X - r) then, r_0 and v_0 being those without noise,

    E[v_j] - x_j = g(x_j - r_0) - r_0 + sum_(i,k) P(i has the noise k, the others none) (v_j - v_0j):

no count is subtracted from one of its size, so that a bias of 1e-40 keeps its digits, and so does one beside a giant count. Two noises, and one
beyond the reach, are left out. dv_i = D_i (d eta_i - a mean of d eta) with 0 <= D_i <= s, s the steepness of the ramp (1 without one),
so that |v - v_0| <= 2 s sum |eta| and |r - r_0| <= sum |eta|, and with p = P(eta != 0)

    E[sum |eta|; two or more] <= n (n - 1) p E|eta|,   E[sum |eta|; one beyond the reach] <= n E[|eta|; |eta| > reach].

A bias moves by no more than 2 s times that.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fairpost import cancel
from fairpost.engines.closed.shares import range_error
from fairpost.engines.exact.lattice.problem import Problem
from fairpost.engines.moments import Floats, Moments

RARE = 1e-3
"""The largest chance that some noise is not 0."""
PLACES = 3e7
"""The most (place, count) values: a third of a second."""
BLOCK = 400_000
BEYOND = 1e-25
"""Noises less likely than this part of P(eta = 1) are left out."""
DUST, UNSURE = 1e-12, 1e-9
"""What rounding of the root leaves of an output of 0, in units of the root and the noise; up to where an output may be that."""
ROUNDING = 1e-15


def sparse(problem: Problem, rtol: float) -> Moments | None:
    """The moments, or None where the noise is no such noise or the tolerance is missed."""
    noise, n, size = problem.noise, problem.n, problem.x.size
    p0 = float(noise.density(0.0))
    some = 2 * float(noise.sf(0.0))
    if not 0 < n * some < RARE:
        return None
    one = float(noise.density(1.0))
    reach = 1
    while float(noise.density(reach + 1.0)) > BEYOND * one:
        reach += 1
    if (2 * reach + 2) * size**2 > PLACES:
        return None
    return _Listed(problem, reach, p0, some).moments(rtol)


class _Listed:
    """All roots with at most one noise, and their chances."""

    def __init__(self, problem: Problem, reach: int, p0: float, some: float) -> None:
        self.problem = problem
        k = np.arange(-reach, reach + 1.0)
        self.k = k[k != 0]
        self.chance = np.asarray(problem.noise.density(self.k)) * p0 ** (problem.n - 1)
        self.steep = 1.0 if problem.rule is None else problem.rule.steepness
        self.foot, self.top = problem.tau, problem.tau + (0.0 if problem.rule is None else problem.rule.width)
        mean = 2 * float(problem.noise.upper(0.0, 0.0, 1))
        n, far = problem.n, float(reach)
        beyond = 2 * (float(problem.noise.upper(far, 0.0, 1)) + far * float(problem.noise.sf(far)))
        self.left = n * (n - 1) * some * mean + n * beyond
        """Of E[sum |eta|]."""
        self.unlisted = n * (n - 1) * some**2 / 2 + 2 * n * float(problem.noise.sf(far))

    def gain(self, u: Floats) -> Floats:
        """phi(u) - u."""
        kept = self.steep * np.maximum(u - self.foot, 0.0)
        return np.where(u >= self.top, 0.0, kept - u)

    def roots(self) -> tuple[float, Floats]:
        """r without noise, and for each count (rows) and noise."""
        p, moves = self.problem, np.concatenate([[0.0], self.k])
        corners = [p.x + k - end for k in moves.tolist() for end in {self.foot, self.top}]
        still = -p.surplus / p.n
        low = min(float(p.x[0]) - self.top, still) - float(np.max(self.k)) - 1
        t = np.unique(np.concatenate([[low, still], *corners]))
        t = t[t >= low]
        above = np.empty(t.size)
        rows = max(1, BLOCK // p.x.size)
        for a in range(0, t.size, rows):
            cancel.check()
            above[a : a + rows] = self.gain(p.x - t[a : a + rows, None]) @ p.times
        above -= p.n * t + p.surplus
        x, k = p.x[:, None], moves
        at, end = np.zeros((x.size, k.size), dtype=np.int64), np.full((x.size, k.size), t.size - 1)

        def excess(which: NDArray[np.int64]) -> Floats:
            place = t[which]
            return np.asarray(above[which] + self.gain(x + k - place) - self.gain(x - place) + k)

        while np.any(end - at > 1):
            middle = (at + end) // 2
            past = excess(middle) < 0
            at, end = np.where(past, at, middle), np.where(past, middle, end)
        first, last = excess(at), excess(end)
        r = t[at] + (t[end] - t[at]) * np.where(first > 0, first / np.maximum(first - last, 1e-300), 0.0)
        return float(r[0, 0]), r[:, 1:]

    def moments(self, rtol: float) -> Moments | None:
        """From the sums over all of them."""
        p, x, n = self.problem, self.problem.x, self.problem.n
        r0, r = self.roots()
        still = _Still(self, r0)
        sums = np.zeros((4, x.size))
        weight, flat = (p.times[:, None] * self.chance).ravel(), r.ravel()
        rows = max(1, BLOCK // x.size)
        for a in range(0, flat.size, rows):
            cancel.check()
            some = slice(a, a + rows)
            sums += np.einsum(
                "m,kmj->kj", weight[some], still.changes(x - flat[some, None], (flat[some] - r0)[:, None])
            )
        # entity i is not one of the times_i that see a noise as another's: it has it
        for chance, k, here in zip(self.chance, self.k.tolist(), r.T, strict=True):
            sums += chance * (still.changes(x + k - here, here - r0 - k) - still.changes(x - here, here - r0))
        drift, change = p.surplus / n, 2 * self.steep * self.left
        rounded = ROUNDING * n * float(np.sum(self.chance)) * (1 + abs(r0)) * self.steep
        bias, mse = still.away + sums[0], still.away**2 + sums[1]
        root = 4 * float(np.spacing(self.steep * (1 + abs(r0)))) * (still.away != 0)  # (a root that is 0 is 0)
        error = change + rounded + root
        if x.size == 1:  # all counts are equal, and so are the biases
            bias, error = np.array([drift]), np.spacing(np.array([abs(drift)]))
        alpha, slack = range_error(bias, error)
        if slack > max(rtol * alpha, 1e-13 * (p.noise.deviation + abs(drift))) and x.size > 1:
            return None
        plain = p.rule is None
        shift = r0 + drift + float(np.sum(p.times[:, None] * self.chance * (r - r0)))
        far = p.total + x + np.abs(still.away)
        return Moments(
            bias,
            error,
            np.maximum(mse, bias**2),
            np.clip(still.zero + sums[2], 0.0, 1.0),
            threshold=shift if plain else None,
            mse_error=2 * far * (change + rounded) + 2 * np.abs(still.away) * root + 1e-14 * mse,
            zero_error=np.minimum(still.unsure + sums[3] + self.unlisted + 1e-15, 1.0),
            threshold_error=self.left + rounded + 4 * float(np.spacing(abs(r0) + abs(drift))) if plain else None,
        )


class _Still:
    """Without noise: v - x, 1{v = 0}, and whether that is in doubt."""

    def __init__(self, listed: _Listed, r: float) -> None:
        self.gain, self.foot = listed.gain, listed.foot
        self.near = 1 + abs(r)
        u = listed.problem.x - r
        self.start = self.gain(u)
        self.away = self.start - r
        self.zero, self.unsure = self._nothing(u)

    def _nothing(self, u: Floats) -> tuple[Floats, Floats]:
        """Where v is 0, but for rounding of the root; where it may be."""
        height = (u - self.foot) / self.near
        return (height <= DUST).astype(np.float64), ((height > DUST) & (height < UNSURE)).astype(np.float64)

    def changes(self, u: Floats, shift: Floats) -> Floats:
        """What v - x, its square, 1{v = 0} and the doubt change where u = X - r and `shift` is r less its value here and less the noise."""
        moved = self.gain(u) - self.start - shift
        zero, unsure = self._nothing(u)
        return np.stack([moved, moved * (moved + 2 * self.away), zero - self.zero, unsure])
