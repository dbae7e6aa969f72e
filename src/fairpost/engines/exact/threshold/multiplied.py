"""The law of H where it is a few terms e^{sE} (1 - s)^-p (1 + s)^-q: those above the cut multiplied out (`erlang`), and their tails."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from fairpost.engines.exact.lattice.period import Circle
from fairpost.engines.exact.threshold.gammas import Whole, lower, upper
from fairpost.engines.moments import Floats


@dataclass(frozen=True)
class Terms:
    """Those above the cut, multiplied out: e^{log + cut t} with a sign, (1 - s)^-p (1 + s)^-q, and E = shift - (p - giants) t."""

    sign: Floats
    log: Floats
    cut: Whole
    p: Whole
    q: Whole
    shift: Floats

    @classmethod
    def of(cls, y: Floats, tau: float, giants: int) -> Terms:
        """For the counts y + tau, each by itself: all sets that have the whole line, and how many of the others have less."""
        rows = [
            (kind, less) for kind in product((True, False), repeat=y.size) for less in range(y.size - sum(kind) + 1)
        ]
        whole = np.array([kind for kind, _ in rows], dtype=bool)
        less = np.array([number for _, number in rows])
        many = np.sum(whole, axis=1)
        cut = y.size - many
        ways = np.array([math.comb(a, b) for a, b in zip(cut.tolist(), less.tolist(), strict=True)])
        return cls(
            (-1.0) ** less,
            -(~whole @ y) - cut * math.log(2.0) + np.log(ways),
            cut,
            many + giants,
            many + less + giants,
            whole @ (y + tau) + less * tau,
        )


@dataclass(frozen=True)
class Tails:
    """E[(H - C)_+^r]/r! above t0 and (-1)^(r+1) E[(C - H)_+^r]/r! below it, for the terms, at every t and every number k kept from below."""

    t: Floats
    upper: bool
    """Above t0."""
    terms: Terms
    k: Whole
    tau: float
    giants: int
    ahead: Floats
    """C less what the giants add at t without their noise."""

    def __call__(self, p: int, q: int, more: Floats | float, r: int, size: bool = False) -> Floats:
        """With p and q more exponential variables and `more` beside; `size`: without the signs of the terms."""
        e, t = self.terms, self.t
        if self.giants == 0 and e.p.size == 1 and np.ndim(more) == 0:  # nothing depends on t
            t = t[:1]
        y = (self.ahead[: t.size] - more)[:, None] - e.shift + np.multiply.outer(t, e.p - self.giants)
        y = (y[:, :, None] - self.tau * self.k).reshape(t.size, -1)
        many, less = ((e.p + p)[:, None] + self.k).ravel(), np.repeat(e.q + q, self.k.size)
        found = upper(many, less, y, r) if self.upper else (-1) ** (r + 1) * lower(many, less, y, r)
        found = found.reshape(t.size, e.p.size, self.k.size)
        factor = np.exp(e.log + np.multiply.outer(t, e.cut)) * (1.0 if size else e.sign)
        return np.broadcast_to(np.einsum("tm,tmk->tk", factor, found), (self.t.size, self.k.size))

    def size(self) -> Floats:
        """How large the terms of P(H > C) and of P(H > C - tau) are."""
        near = np.abs(self(0, 0, 0.0, 0, size=True))
        return near if self.tau == 0 else near + np.abs(self(0, 0, self.tau, 0, size=True))

    def integrals(self) -> tuple[Floats, Floats, Floats]:
        """P(H > C), and the integrals of P(H > c) and of (C - c) P(H > c) over c from C - tau to C; below t0 less those of 1."""
        tau = self.tau
        if tau == 0:
            chance = self(0, 0, 0.0, 0)
            return chance, np.zeros_like(chance), np.zeros_like(chance)
        chance, near, far = self(0, 0, 0.0, 0), self(0, 0, 0.0, 1), self(0, 0, tau, 1)
        return chance, far - near, tau * far - (self(0, 0, tau, 2) - self(0, 0, 0.0, 2))


def kept(q: Floats) -> Floats:
    """At each t (rows) the chances of k = 0, 1, ... of independent events of the chances q."""
    found = np.zeros((q.shape[0], q.shape[1] + 1))
    found[:, 0] = 1.0
    for chance in q.T[:, :, None]:
        found[:, 1:] = found[:, 1:] * (1 - chance) + found[:, :-1] * chance
        found[:, :1] *= 1 - chance
    return found


def summed(circle: Circle, h: Floats, rho: Floats, whole: Any, one: Any) -> Floats:
    """sum_k P(k kept) h(k) at every t (rows), for each entity with its factor left out."""
    weights = _half(circle, h, rho)
    return np.asarray(np.matmul(one, (weights * whole)[:, :, None])[:, :, 0].real)


def _half(circle: Circle, h: Floats, rho: Floats) -> Any:
    """The weights of the points, those of a pair of conjugates together."""
    weights = circle.weights(h * rho[:, None] ** -circle.k)[:, : circle.size // 2 + 1]
    weights[:, 1:] *= 2
    return weights


def size_of(circle: Circle, tails: Tails, rho: Floats, whole: Any, one: Any) -> Floats:
    """How large the terms of the chances are, which rounding scales with."""
    weights = np.abs(_half(circle, tails.size(), rho))
    return np.asarray(np.matmul(np.abs(one), (weights * np.abs(whole))[:, :, None])[:, :, 0])
