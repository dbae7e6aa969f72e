"""`simplex` under Laplace noise (scale 1), few entities, r below every count: no line in s does, and r goes along a ray of the complex plane.

There a factor of the product is, with d_j = x_j - m1 >= 0 and r = m1 - u, u > 0, and M = 1/(1 - s^2),

    psi_j = e^{s d_j} (M e^{su} + e^{-(1 + s) d_j - u} s / (2 (1 + s))),

and with sum d_j <= C, which is so for m1 = the r without noise, e^{-sC} prod psi_j is a sum of e^{-l u} e^{-sb}, b >= 0, l = n - k - sk: it asks
for s to turn right and, once it has, for u to leave the real axis, on which e^{suk} grows. Everything is analytic in u. So for Im s > 0 u lies on the ray
arg u = 67.5 degrees, where with arg s from 45 to 180 degrees Re(su) <= -0.38 |su|, and for Im s < 0 on its mirror image; at the crossing, s = tau < 0,
both are the real integral. Each l is between 0.38 n min(1, |s|) and n max(1, |s|) in size: Gauss-Legendre on panels of doubling length.
"""

from __future__ import annotations

import math

import numpy as np

from fairpost import cancel
from fairpost.engines.closed.quadrature import on_panels
from fairpost.engines.contour.law import AtRisk, Level, Root, Sums
from fairpost.engines.moments import Floats

RAY = complex(0.5, math.sqrt(0.75))
FEW = 40
"""A factor decays like a power of 1/s; the product of more than so many is a bell along any upright line."""
LEAN = math.tan(math.pi / 6)
"""The hyperbola s(v) approaches 60 degrees."""
DEAD = 38.0
"""e^-38 is nothing."""


def below(risk: AtRisk, level: Level) -> Sums:
    """What `AtRisk.integrate` gives, over r < the one without noise, which is below every count."""
    root = risk.root
    m1, n = root.noiseless, root.n
    d = root.c - m1
    # near the axis e^{-s d} and (1 - s^2)^-n decide: a tau that is small beside both leaves nothing to cancel
    tau = 1.0 / (2.0 + math.sqrt(2.0 * n) + float(d[0]))
    step = 0.2 * level.step
    first, square, common, nodes, peak = np.zeros(d.size), np.zeros(d.size), np.zeros((1, 4)), 0, 0.0
    for node in range(int(60 / step)):
        cancel.check()
        v = node * step
        s = complex(tau * (math.cosh(v) - 2), tau * math.sinh(v))
        ds = complex(tau * math.sinh(v), tau * math.cosh(v)) * (step / math.pi * (0.5 if node == 0 else 1.0))
        u, weight = _ray(n, abs(s), level.order)
        y, cut, dense = (np.imag(one @ (weight * ds)) for one in _node(root, d, m1, s, u))
        first += y
        square += cut
        common[0] += dense
        nodes += u.size
        size = max(abs(float(dense[0])), float(np.max(np.abs(y))))
        peak = max(peak, size)
        if size <= level.cutoff * peak:
            break
    at = risk.index
    return Sums(first[at], 0 * first[at], square[at], first[at], common, nodes, 0)


def _ray(n: int, s: float, order: int) -> tuple[Floats, Floats]:
    """Nodes u and weights for rates from 0.38 n min(1, s) to n max(1, s)."""
    ends = [0.0, 2.0 / (n * max(1.0, s))]
    while ends[-1] * n * min(1.0, s) * RAY.real < DEAD:
        ends.append(2 * ends[-1])
    u, weight = on_panels(np.array(ends), order + 3)
    return RAY * u, RAY * weight  # type: ignore[return-value]


def _node(
    root: Root, d: Floats, m1: float, s: complex, u: Floats
) -> tuple[Floats, Floats, Floats]:
    """At one s, rows over u: E y (which is P(z < r) here), E[w^2 - 2 (z - x) w], both by entity; and 1, r, r^2, r (z - x) of who is far; with the density of r."""
    times, r = root.times[:, None], m1 - u
    m, gap = 1 / (1 - s * s), d[:, None] + u
    log_whole, log_tail = s * u, -s * d[:, None] - gap
    level = np.maximum(log_whole.real, log_tail.real)  # all by its size: either may be below what doubles hold
    whole, tail = m * np.exp(log_whole - level), 0.5 * np.exp(log_tail - level)
    psi = whole + tail * s / (1 + s)
    above, below = (whole - tail / (1 + s)) / psi, tail / psi
    # E[(z - x) e^{s (z - r)}; z > r]: of the whole line, less its part below r
    shift = (2 * s * m * whole + tail * (gap + 1 / (1 + s)) / (1 + s)) / psi
    product = np.exp(root.times @ level) * np.prod(psi**times, axis=0)
    number = np.sum(times * above, axis=0)
    base = product * (number - above)
    cut = r * (2 * root.c[:, None] - r) - 2 * gap - 2
    square = base * below * cut + (base + product) * (r * r * above - 2 * r * shift)
    dense = product * number
    return base * below, square, np.array([dense, r * dense, r * r * dense, 2 * s * m * r * dense])
