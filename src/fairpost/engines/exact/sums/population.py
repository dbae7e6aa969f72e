"""The entities of a falling sum H(t) = sum_j phi(X_j - t), reduced to what its contour integrals need.

One entity adds to e^{sH(t)}, at the cut `base` (y = its count less what shifts the cut) and with p = y + eta - base,

    psi = P(p <= 0) + e^{s kappa} E[e^{sp}; p > 0] + (e^{s rho} - e^{s (1 + kappa)}) P(p = 1)

    rule                   base        y          kappa          rho
    simplex                t           x          0              -
    threshold (jump)       t           x - tau    tau            -
    simplex, lattice       floor t     x          -frac t        -
    threshold, lattice     floor t'    x          tau - frac t'  (1 + tau)(1 - frac t'),   t' = t + tau

The last term is the one lattice point on the ramp. Giants (never cut) enter through their number, many close counts through
Chebyshev nodes: `simplex.law`, which works in units of the noise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairpost import cancel
from fairpost.engines.exact.simplex.law import Population, Reduced, reduce
from fairpost.engines.exact.sums.factors import Complexes, log_product, parts
from fairpost.engines.moments import Floats
from fairpost.noise import Law
from fairpost.noise.base import DISCRETE_GAUSSIAN


@dataclass(frozen=True)
class Places:
    """Cuts: one entry per t."""

    base: Floats
    kappa: Floats
    rho: Floats | None

    def at(self, which: slice) -> Places:
        """Some of them."""
        return Places(self.base[which], self.kappa[which], None if self.rho is None else self.rho[which])


@dataclass(frozen=True)
class Entities:
    """Counts y with weights, the number of giants, and C less the giants' y."""

    noise: Law
    y: Floats
    weight: Floats
    giants: float
    rest: float
    reduced: Reduced | None
    members: int
    """How many of the distinct counts, from the smallest, are not giants."""

    def at_members(self, values: Floats) -> Floats:
        """A function of y, known at the nodes, at the distinct counts that are not giants."""
        return values if self.reduced is None else self.reduced.at_members(values)


def entities(noise: Law, y: Floats, times: Floats, surplus: float, span: tuple[float, float], nodes: int) -> Entities:
    """The entities for cuts inside `span`; surplus = C - sum y. Continuous noise has the unit 1."""
    from fairpost.noise import Gaussian, Laplace

    unit = noise.spread
    like: Law = Gaussian(1.0) if np.isinf(noise.strip) else Laplace(1.0)
    population = Population(like, y / unit, times, float(np.sum(times)), surplus / unit)
    low, high = span[0] / unit, span[1] / unit
    law = reduce(population, high, (low, high), nodes)
    risk = law.members.size
    rest = surplus + float(np.sum(y[:risk] * times[:risk]))
    if noise.code == DISCRETE_GAUSSIAN:  # its sums know whole numbers alone
        return Entities(noise, y[:risk], times[:risk], law.giants, rest, None, risk)
    exact = [part for part in law.segments if part.nodes]
    node = law.x * unit if exact else y[:risk]
    return Entities(noise, node, law.weight, law.giants, rest, law if exact else None, risk)


@dataclass(frozen=True)
class Product:
    """log of e^{-sC} prod psi, and for each entity (last axis) what may stand in the place of its factor."""

    log: Complexes
    one: Complexes
    """1 / psi_i."""
    kept: Complexes
    """e^{s kappa} E[e^{sp}; p > 0] / psi_i (without a point on the ramp)."""
    first: Complexes
    """e^{s kappa} E[p e^{sp}; p > 0] / psi_i (likewise)."""
    ramp: Complexes | None
    """e^{s rho} P(p = 1) / psi_i."""
    line: Complexes
    """The tilted mean of the noise of a giant."""


def product(e: Entities, places: Places, s: Complexes) -> Product:
    """At each place (rows) and each s of that row."""
    cancel.check()
    c = (places.base[:, None] - e.y)[:, None, :]
    at = s[:, :, None]
    kappa = places.kappa[:, None, None]
    p = parts(e.noise, c, at)
    deep = p.depth > 0
    # the lift of an entity that is mostly kept takes kappa along: then psi stays near the noise's own transform
    up = np.exp(at * kappa)
    rise, fall = np.where(deep, 1.0, up), np.where(deep, 1 / up, 1.0)
    kept, first = p.kept * rise, p.first * rise
    ramp: Complexes | None = None
    if places.rho is not None:
        mass = mass_at(e, places.base + 1)[:, None, :]
        lifted = mass * p.shift * fall
        point = lifted * (np.exp(at) * up)
        kept, first = kept - point, first - point
        ramp = lifted * np.exp(at * places.rho[:, None, None])
    psi = p.below * fall + kept
    if ramp is not None:
        psi = psi + ramp
    lift = p.depth + np.where(deep, kappa, 0.0)
    whole, mean = line(e.noise, s)
    log = log_product(psi, e.weight) + s * (lift @ e.weight - e.rest + e.giants * (places.kappa - places.base)[:, None])
    log = log + e.giants * whole
    inverse = 1 / psi
    return Product(
        log,
        inverse * p.shift * fall,
        kept * inverse,
        first * inverse,
        None if ramp is None else ramp * inverse,
        mean,
    )


def mass_at(e: Entities, k: Floats) -> Floats:
    """P(X_i = k) for each k and node i (at interpolation nodes: discrete Laplace noise as a function of a real number)."""
    c, b = k[:, None] - e.y, e.noise.spread
    if e.reduced is None:
        return np.asarray(e.noise.density(c))
    return np.asarray(np.tanh(0.5 / b) * np.exp(-np.abs(c) / b))


def line(noise: Law, s: Complexes) -> tuple[Complexes, Complexes]:
    """log E[e^{s eta}] and its derivative."""
    code, scale = noise.code, noise.spread
    if np.isinf(noise.strip):
        if not noise.discrete:
            return 0.5 * s * s, s
        step = 1e-5 / scale  # the mean serves second moments of giants, which are normal to rounding for sigma > 1
        return noise.cgf(s), (noise.cgf(s + step) - noise.cgf(s - step)) / (2 * step)
    if not noise.discrete:
        return -np.log((1 - s) * (1 + s)), 2 * s / ((1 - s) * (1 + s))
    assert code is not None
    up, down = -np.expm1(s - 1 / scale), -np.expm1(-s - 1 / scale)
    return noise.cgf(s), np.exp(s - 1 / scale) / up - np.exp(-s - 1 / scale) / down
