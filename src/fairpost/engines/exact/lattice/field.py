"""The entities of PoS with equal weights under whole-number noise, and their factors under a tilt e^{-theta S} (`shares`, `dropped`)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fairpost.engines.exact.sums.factors import Complexes, log_product, parts
from fairpost.engines.exact.sums.population import Entities
from fairpost.engines.moments import Floats
from fairpost.noise import Law


@dataclass(frozen=True)
class Field:
    """The entities, of which giants are never dropped; n counts every one."""

    e: Entities
    n: float

    @property
    def noise(self) -> Law:
        """Of one entity."""
        return self.e.noise

    @property
    def a(self) -> Floats:
        """The scales of the noises: all are one."""
        return np.array([self.e.noise.spread])

    def log(self, t: Floats, s: Complexes) -> Complexes:
        """log E[e^{s (W(t) - n t)}]."""
        return tilted(self, t, s, 0.0).log


@dataclass(frozen=True)
class Tilted:
    """At places t (rows) and s: the product, and for each count what may stand in the place of its factor."""

    log: Complexes
    one: Complexes
    dropped: Complexes
    kept: Floats
    """E[e^{-theta eta}; kept] and E[(X - m) e^{-theta eta}; kept], which `one` puts in place of the factor; the same at every s."""
    first: Floats


def tilted(f: Field, t: Floats, s: Complexes, theta: float) -> Tilted:
    """Every factor is taken times e^{theta x}: the tilt of the counts themselves is common.

    What is dropped, eta <= c, is the mirror image of what is kept above -c - 1.
    """
    e = f.e
    kept, first, fallen = factors(f, t, s, theta)
    psi = kept[:, None, :] + fallen
    log = log_product(psi, e.weight) - s * (f.n * t)[:, None] + e.giants * float(np.real(e.noise.cgf(-theta)))
    inverse = 1 / psi
    return Tilted(log, inverse, fallen * inverse, kept, first)


def factors(f: Field, t: Floats, s: Complexes, theta: float) -> tuple[Floats, Floats, Complexes]:
    """E[e^{-theta eta}; X > m], E[(X - m) e^{-theta eta}; X > m] and E[e^{-theta eta} e^{s (t - X)}; X <= m] of every count."""
    e, base = f.e, np.floor(t)
    c = (base[:, None] - e.y)[:, None, :]
    up = parts(e.noise, c, np.full((1, 1, 1), -theta))
    lift = np.exp(-theta * c) / up.shift.real
    kept, first = (up.kept.real * lift)[:, 0], (up.first.real * lift)[:, 0]
    down = parts(e.noise, -c - 1, s[:, :, None] + theta)
    rest = (t - base - 1)[:, None, None]
    return kept, first, down.kept / down.shift * np.exp(s[:, :, None] * rest) * np.exp(-theta * (c + 1))


def start(noise: Law, x: Floats, theta: float, t0: float) -> tuple[Floats, Floats]:
    """E[(t0 - X)_+ e^{-theta eta}] and E[((X - t0)_+^2 - X^2) e^{-theta eta}]: if r were t0."""
    m = math.floor(t0)
    c, lift = m - x, np.exp(-theta * (m - x))
    l0, l1, l2 = (np.real(noise.lower(c, -theta, k)) for k in range(3))
    p0, p1 = (np.real(noise.upper(c, -theta, k)) for k in range(2))
    gain = lift * ((t0 - m) * l0 - l1)
    change = lift * ((t0**2 - 2 * t0 * m) * p0 - 2 * t0 * p1 - m**2 * l0 - 2 * m * l1 - l2)
    return np.asarray(gain), np.asarray(change)


def out(e: Entities, values: Floats, t0: float | None) -> Floats:
    """At the counts, from the nodes; what varies fast with the count is taken out first."""
    if e.reduced is None or t0 is None:
        return e.at_members(values)
    centre = t0 / e.noise.spread
    return e.reduced.at_members(values, lambda y: np.exp(-np.abs(y - centre)))
