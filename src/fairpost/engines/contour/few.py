"""`simplex` under Laplace noise (scale 1), few entities, r below every count: no line in s does, and r goes along a ray of the complex plane.

There a factor of the product is, with d_j = x_j - m1 >= 0 and r = m1 - u, u > 0, and M = 1/(1 - s^2),

    psi_j = e^{s d_j} (M e^{su} + e^{-(1 + s) d_j - u} s / (2 (1 + s))),

and with sum d_j = C, which is so for m1 = the r without noise, e^{-sC} prod psi_j is a sum of terms e^{-lu} e^{-sb} with b >= 0: it asks for s
to turn right and, once it has, for u to leave the real axis, on which e^{su} grows. Everything is analytic in u. So for Im s > 0 u lies on the
ray arg u = 67.5 degrees, and for Im s < 0 on its mirror image; where s crosses the real axis both are the real integral.

The rates are l = n - k - sk, k = 0..n, for the law of r: s crosses left of 0. With entity i below r they are l = n - k - sk for k < n, and
s may cross up to 1/(n - 1), near to which e^{-s d_i} has lost nothing however rare that is. Re(lu) is at least 0.38 |u| times the l of
the crossing, and grows with s: Gauss-Legendre on panels of doubling length.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fairpost import cancel
from fairpost.engines.closed.quadrature import on_panels
from fairpost.engines.contour.law import AtRisk, Level, Sums

FEW = 40
"""A factor decays like a power of 1/s; the product of more than so many is a bell along any upright line."""
RAY = complex(math.cos(3 * math.pi / 8), math.sin(3 * math.pi / 8))
"""The direction of u. s approaches 45 degrees, so that it may turn by 45 either way before anything grows."""
DEAD = 38.0
"""e^-38 of a part is nothing."""


def below(risk: AtRisk, level: Level, least: bool) -> Sums:
    """What `AtRisk.integrate` gives, over r < the one without noise, which is below every count; with `least` only what has one below."""
    from fairpost.engines.contour.kernels.ray import along_ray

    root = risk.root
    d = root.c - root.noiseless
    whole, pole, gap = (root.n - 1, 1 / (root.n - 1), float(d[0])) if least else (root.n, 0.0, 0.0)
    s0 = _crossing(whole, pole, gap)
    scale, step = pole - s0, 0.2 * level.step
    first, square, common, nodes, peak = np.zeros(d.size), np.zeros(d.size), np.zeros((1, 4)), 0, 0.0
    for node in range(int(60 / step)):
        cancel.check()
        v = node * step
        offset = complex(scale * (math.cosh(v) - 1), scale * math.sinh(v))
        ds = complex(offset.imag, offset.real + scale) * (step / math.pi * (0.5 if node == 0 else 1.0))
        u, weight = _ray(whole, scale + abs(offset), 1 + abs(s0 + offset), level.order)
        there = (root.noiseless, s0 + offset, s0, ds, u, weight)
        size = along_ray(least, root.c, d, root.times, *there, first, square, common[0])
        nodes += u.size
        peak = max(peak, size)
        if not size > level.cutoff * peak:
            break
    at = risk.index
    return Sums(first[at], 0 * first[at], square[at], first[at], common, nodes, 0)


def _crossing(whole: int, pole: float, gap: float) -> float:
    """The minimum of e^{-s gap} M^whole / (pole - s) over real s < pole: its logarithm has a rising slope."""
    low, high = -1.0, pole
    for _ in range(60):
        s = (low + high) / 2
        if 2 * whole * s / (1 - s * s) + 1 / (pole - s) > gap:
            high = s
        else:
            low = s
    return low


def _ray(n: int, near: float, most: float, order: int) -> tuple[Any, Any]:
    """Nodes u and weights for rates from 0.38 n min(1, near) to n most."""
    ends = [0.0, 2.0 / (n * most)]
    while ends[-1] * n * min(1.0, near) * RAY.real < DEAD:
        ends.append(2 * ends[-1])
    u, weight = on_panels(np.array(ends), order + 3)
    return RAY * u, RAY * weight
