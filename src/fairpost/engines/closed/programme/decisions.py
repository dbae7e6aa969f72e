"""Decisions with more than one noisy count: the chance of being eligible.

One rate, count > r base, both noisy under Laplace noise: with eta_1 - r eta_2 the difference of two independent Laplace
variables of scales b_1 and c = r b_2, the chance that it exceeds u > 0 is

    (b_1^2 e^{-u/b_1} - c^2 e^{-u/c}) / (2 (b_1^2 - c^2)),        (2 + u/b) e^{-u/b} / 4 where b_1 = c = b,

by partial fractions of the product of their characteristic functions. Any nest of conditions: given the noisy base the law asks
that the count reach one threshold, so the chance is one integral (on the lattice one sum) over the noise of the base. Section 203:
given the noisy count of the group, the tests on the citizens and on the illiterate are independent.

Both integrands are smooth between the points where a threshold changes its form or meets a true count; the panels of the
Gauss-Legendre rule end there, and are at most two spreads wide.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from fairpost import cancel
from fairpost.counts import Counts
from fairpost.engines.closed.quadrature import on_panels
from fairpost.engines.moments import Floats
from fairpost.errors import CountsError, UnsupportedError
from fairpost.noise import Laplace, Law
from fairpost.problems.programme import Condition, Nest, Programme

REACH = {True: 13.0, False: 45.0}
"""Spreads beyond which there is no mass: the Gaussian pair, the Laplace pair."""
NODES = 24


def rate_chance(count: float, base: float, part: float, noise: Laplace, base_noise: Laplace) -> float:
    """P(count + eta_1 > part (base + eta_2)) under Laplace noise on both, in closed form."""
    b, c = noise.scale, part * base_noise.scale
    u = count - part * base
    a = abs(u)
    if abs(b - c) <= 1e-9 * b:
        tail = (2 + a / b) * np.exp(-a / b) / 4
    else:
        tail = (b * b * np.exp(-a / b) - c * c * np.exp(-a / c)) / (2 * (b * b - c * c))
    return float(1 - tail if u >= 0 else tail)


def eligible_chance(law: Programme, counts: Counts, noise: Law, base_noise: Law) -> Floats:
    """For each entity the chance that noise on the count and on the base leaves it eligible; a base below 0 counts as 0."""
    if counts.base is None:
        raise CountsError(f"{law.name}: noise on the base needs a base population, got none")
    breaks = _forms(law.eligible)
    out = np.empty(counts.n)
    for i in range(counts.n):
        cancel.check()
        x, N = float(counts.values[i]), float(counts.base[i])

        def chance(base: Floats, x: float = x) -> Floats:
            return _at_least(noise, law.threshold(np.maximum(base, 0.0)), x)

        at = [s for s in breaks if np.isfinite(s)] + _meets(law.eligible, x)
        out[i] = _expected(chance, N, base_noise, at)
    return out


def section_203(
    group: float, citizens: float, illiterate: float, noises: Sequence[Law], *, rate: float, number: float = 10_000.0,
    percent: float = 5.0,
) -> float:  # fmt: skip
    """P((group > number or group > percent % of citizens) and illiterate > rate group), all three noisy (52 U.S.C. 10503).

    `rate` is the national illiteracy rate, which the Director of the Census determines with each list.
    """
    own, second, third = noises
    part = percent / 100

    def chance(z: Floats) -> Floats:
        many = np.where(z > number, 1.0, _below(second, z / part - citizens, citizens))
        return many * _above(third, rate * z - illiterate, illiterate)

    return _expected(chance, group, own, [number, part * citizens, illiterate / rate])


def _at_least(noise: Law, t: Floats, x: float) -> Floats:
    """P(x + eta >= t). On the lattice t may lie one ulp above a whole number, which t - x would round away."""
    if not noise.discrete:
        return np.asarray(noise.sf(t - x))
    whole = np.floor(x)
    return np.asarray(noise.sf(np.ceil(t - (x - whole)) - whole - 1))


def _above(noise: Law, c: Floats, x: float) -> Floats:
    """P(eta > c)."""
    return np.asarray(noise.sf(c))


def _below(noise: Law, c: Floats, x: float) -> Floats:
    """P(eta < c)."""
    return np.asarray(noise.cdf(np.ceil(c) - 1) if noise.discrete else noise.cdf(c))


def _expected(f: Callable[[Floats], Floats], centre: float, noise: Law, breaks: Sequence[float]) -> float:
    """E f(centre + eta): a sum on the lattice, else Gauss-Legendre on panels that end at the breaks."""
    if noise.code is None:
        raise UnsupportedError(f"decisions have no integral under {noise.name} noise; they can be simulated")
    far = REACH[bool(np.isinf(noise.strip))] * noise.spread
    if noise.discrete:
        k = np.arange(-np.ceil(far), np.ceil(far) + 1)
        return float(np.sum(noise.density(k) * f(centre + k)))
    inner = [s for s in (*breaks, centre) if abs(s - centre) < far]
    ends = np.unique([centre - far, centre + far, *inner])
    panels = [np.linspace(a, b, int(np.ceil((b - a) / (2 * noise.spread))) + 1) for a, b in pairwise(ends)]
    edges = np.unique(np.concatenate(panels))
    z, weight = on_panels(edges, NODES)
    return float(np.sum(weight * noise.density(z - centre) * f(z)))


def _conditions(nest: Nest) -> list[Condition]:
    return [c for p in nest.parts for c in (_conditions(p) if isinstance(p, Nest) else [p])]


def _forms(nest: Nest) -> list[float]:
    """The bases at which two conditions ask for the same count."""
    lines = [(c.amount.number / 100, 0.0) if c.amount.percent else (0.0, c.amount.number) for c in _conditions(nest)]
    found = [0.0]
    for k, (s, v) in enumerate(lines):
        found += [(v2 - v) / (s - s2) for s2, v2 in lines[k + 1 :] if s != s2]
    return found


def _meets(nest: Nest, x: float) -> list[float]:
    """The bases at which a rate asks for exactly x."""
    return [100 * x / c.amount.number for c in _conditions(nest) if c.amount.percent and c.amount.number > 0]
