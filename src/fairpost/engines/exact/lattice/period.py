"""Sums over whole numbers by equal steps over one period, |Im s| <= pi: how many, and what they leave.

With g(C) = E[f(S - C)], f(d) = sum of a kernel's masses, 0 for d <= 0 and 1 from some d on, and F(s) = E[e^{s (S - C)}] times the kernel,
N equal steps along Re s = tau give

    sum_j e^{tau j N} g(C + j N)            (tau > 0),        the same with g - 1 in place of g        (tau < 0).

j = 0 is what is asked. The terms on the side of 0 tend to e^{-|tau| j N}, which sum to 1/(e^{|tau| N} - 1) and are taken off; what is
then left, and the other side, is bounded by Chernoff: for each theta > tau, resp. theta > -tau,

    E[e^{theta (S - C)}] e^{-(theta - tau) N}   and   E[e^{-theta (S - C)}] e^{-(theta + tau) N}.

N is the least at which both are below e^-safety. Where many terms make up S the product dies out before pi, and the steps end there.

How many are kept (K) enters through prod_j (rest_j + w part_j), whose coefficient a_k of w^k has K = k. sum_k a_k h(k) for any h is a sum over
L points of a circle |w| = rho, exact but for coefficients outside a range of L numbers k. h stands for some e^{-suk}, 0 <= u <= 1, so that
rho = 1 or, where tau < 0, rho = e^{-tau} keeps h(k) rho^-k of order 1. In modulus what is left out adds up to at most
prod_j (|rest_j| + rho |part_j|) times the chance that so many of independent events happen, with the chances
rho |part_j|/(|rest_j| + rho |part_j|). By Bernstein's bound, or Poisson's e^{-mu} (e mu/k)^k for k > mu, that is below e^-safety.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairpost.engines.exact.sums.factors import Complexes
from fairpost.engines.exact.threshold.release import growth
from fairpost.engines.moments import Floats
from fairpost.errors import ToleranceError
from fairpost.noise import Law

LIFT = 5.0
"""The largest logarithm of E[e^{tau (S - C)}], which rounding scales with."""
LOOKS = np.concatenate([np.geomspace(0.02, 1.0, 13), [1.0]])[:-1] * math.pi
"""Where the product is looked at before the work."""


def grid(noise: Law, n: float) -> Floats:
    """The theta of Chernoff's bounds, inside the strip of Laplace noise. S moves by n at most along a cell: the least is below LIFT/n."""
    least = min(0.01 / noise.spread, 0.5 * LIFT / n)
    if np.isinf(noise.strip):
        return np.geomspace(least, 8.0 / noise.spread, 16)
    return np.concatenate(
        [np.geomspace(least, 0.4 / noise.spread, 9), np.array([0.55, 0.7, 0.82, 0.91, 0.96]) / noise.spread]
    )


def steps(theta: Floats, rising: Floats, falling: Floats, tau: Floats, safety: float) -> Floats:
    """N of every row; rising and falling are log E[e^{+-theta (S - C)}], a column for each theta."""
    ends = []
    for log, away in ((rising, theta - tau[:, None]), (falling, theta + tau[:, None])):
        with np.errstate(divide="ignore", invalid="ignore"):
            need = np.where(away > 0, np.maximum(log + safety, 0.0) / away, np.inf)
        ends.append(np.min(np.where(np.isnan(need), np.inf, need), axis=1))
    found = np.maximum(*ends)
    if not np.isfinite(found).all():
        raise ToleranceError("the sums over whole numbers have no tilt that ends them")
    return np.asarray(2 * np.ceil(found / 2) + 8)


def gentle(theta: Floats, logs: Floats, tau: Floats) -> Floats:
    """tau of every row, made so small that E[e^{tau (S - C)}] is at most e^LIFT; `logs` are its logarithms at theta.

    To a factor of sqrt 2, so that many cells have their nodes in common.
    """
    fits = np.where(logs <= LIFT, theta, theta[0])
    size = np.minimum(np.abs(tau), np.max(fits, axis=1))
    return np.asarray(np.sign(tau) * np.exp2(np.floor(2 * np.log2(size)) / 2))


@dataclass(frozen=True)
class Period:
    """Equal steps of one tau, as far as the product lives."""

    tau: float
    steps: int
    size: int
    """Nodes from Im s = 0 on."""

    @classmethod
    def of(cls, tau: float, steps: int, end: float) -> Period:
        """As far as Im s = end."""
        half = steps // 2
        return cls(tau, steps, min(math.ceil(end / math.pi * half), half) + 1)

    @property
    def s(self) -> Complexes:
        """The nodes."""
        return self.tau + 2j * math.pi / self.steps * np.arange(self.size)

    @property
    def ds(self) -> Complexes:
        """Their weights; the imaginary part of a sum is taken."""
        out = np.full(self.size, 2j / self.steps)
        out[0] *= 0.5
        if 2 * (self.size - 1) == self.steps:
            out[-1] *= 0.5
        return out

    @property
    def pole(self) -> float:
        """What a kernel that tends to 1 has too much."""
        return float(np.sign(self.tau)) / math.expm1(min(abs(self.tau) * self.steps, 700.0))


def ends(alive: Floats) -> Floats:
    """Im s from which on nothing is alive (> 0) at LOOKS (columns), in each row."""
    some = alive > 0
    last = np.where(some.any(axis=1), LOOKS.size - np.argmax(some[:, ::-1], axis=1), 0)
    return np.asarray(LOOKS[np.minimum(last, LOOKS.size - 1)])


def most(mean: Floats, variance: Floats, level: Floats) -> Floats:
    """A number that a sum of independent events exceeds with a chance of e^-level at most: Bernstein's bound or Poisson's."""
    level = np.maximum(level, 0.0)
    normal = mean + level / 3 + np.sqrt(level**2 / 9 + 2 * level * variance)
    mu = np.maximum(mean, 1e-300)
    low, high = mu, normal + 1
    for _ in range(30):
        middle = 0.5 * (low + high)
        past = middle * np.log(middle / mu) - middle + mu > level
        low, high = np.where(past, low, middle), np.where(past, middle, high)
    return np.asarray(np.minimum(normal, high))


def swell(tau: Any) -> Any:
    """log rho."""
    return np.maximum(-tau, 0.0)


@dataclass(frozen=True)
class Circle:
    """The points w, for K from `low` to low + size - 1."""

    low: int
    size: int

    @classmethod
    def around(cls, low: Floats, high: Floats) -> Circle:
        """For all K from the least `low` to the largest `high`."""
        first = int(np.min(low))
        return cls(first, 2 * math.ceil((float(np.max(high)) - first) / 2) + 1)

    @property
    def w(self) -> Complexes:
        """The points over rho; an odd number, so that -1, at which a factor may be 0, is not among them."""
        return np.asarray(np.exp(2j * math.pi / self.size * np.arange(self.size)))

    @property
    def k(self) -> Floats:
        """The range."""
        return self.low + np.arange(self.size, dtype=np.float64)

    def weights(self, h: Complexes) -> Complexes:
        """From h(k) rho^-k (last axis) to the weights of the points."""
        return np.asarray(np.fft.fft(h, axis=-1) / self.size * self.w ** float(-self.low))


def integrals(s: Complexes, k: Floats) -> tuple[Complexes, Complexes, Complexes, Floats]:
    """h_1 = int_0^1 e^{-suk} du, h_2 = int_0^1 u e^{-suk} du and e^{-sk}/k, 0 for k = 0, and 1, each times rho^-k."""
    some, tau = k > 0, float(s[0].real)
    z = np.multiply.outer(s, np.maximum(k, 1.0))
    if tau > 0:
        first, second = growth(-z)
        return first * some, second * some, np.exp(-z) / np.maximum(k, 1.0) * some, np.ones_like(k)
    turn = np.exp(-1j * z.imag) * some  # with 1 - u in the place of u
    first, second = growth(z)
    return turn * first, turn * (first - second), turn / np.maximum(k, 1.0), np.exp(tau * k)


def whole(psi: Complexes, weight: Floats, lift: Complexes) -> Complexes:
    """prod_i psi_i^weight_i e^lift; psi has the axes (..., s, entity, point), lift (..., s)."""
    size = np.einsum("i,...sil->...sl", 0.5 * weight, np.log(psi.real**2 + psi.imag**2))
    angle = np.einsum("i,...sil->...sl", weight, np.arctan2(psi.imag, psi.real))
    return np.asarray(np.exp(size + 1j * angle + lift[..., None]))


def ranges(part: Floats, rest: Floats, weight: Floats, level: Floats) -> tuple[Floats, Floats]:
    """The least and the largest K for each row and each look, from |part| and |rest| (last axis: entities) and -log of what may be left."""
    share = part / np.maximum(part + rest, 1e-300)
    number, spread = float(np.sum(weight)), np.maximum((share * (1 - share)) @ weight, 0.0)
    mean, other = share @ weight, (1 - share) @ weight
    high = np.minimum(np.ceil(most(mean, spread, level)), number)
    low = np.maximum(np.floor(number - most(other, spread, level)), 0.0)
    return low, high
