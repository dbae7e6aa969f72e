"""Section 203 with three noisy counts: the chance of being listed.

Given the noisy count of the group, the tests on the citizens and on the illiterate are independent, so the chance is one integral (on the
lattice one sum) over the noise of the group. It is smooth between the points where a test changes its form or meets a true count; the
panels of the Gauss-Legendre rule end there, and are at most two spreads wide.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from fairpost.engines.closed.quadrature import on_panels
from fairpost.engines.moments import Floats
from fairpost.errors import UnsupportedError
from fairpost.noise import Law

REACH = {True: 13.0, False: 45.0}
"""Spreads beyond which there is no mass: the Gaussian pair, the Laplace pair."""
NODES = 24


def section_203(
    group: float, citizens: float, illiterate: float, noises: Sequence[Law], *, rate: float, number: float = 10_000.0,
    percent: float = 5.0,
) -> float:  # fmt: skip
    """P((group > number or group > percent % of citizens) and illiterate > rate group), all three noisy (52 U.S.C. 10503).

    `rate` is the national illiteracy rate, which the Director of the Census determines with each list.
    """
    own, second, third = noises
    part = percent / 100
    z, mass = _rule(group, own, [number, part * citizens, illiterate / rate])
    low = z / part - citizens
    below = second.cdf(np.ceil(low) - 1) if second.discrete else second.cdf(low)
    return float(np.sum(mass * np.where(z > number, 1.0, below) * third.sf(rate * z - illiterate)))


def _rule(centre: float, noise: Law, breaks: Sequence[float]) -> tuple[Floats, Floats]:
    """Nodes and weights for means over centre + eta: whole numbers, else Gauss-Legendre on panels that end at the breaks."""
    if noise.code is None:
        raise UnsupportedError(f"decisions have no integral under {noise.name} noise; they can be simulated")
    far = REACH[bool(np.isinf(noise.strip))] * noise.spread
    if noise.discrete:
        k = np.arange(-np.ceil(far), np.ceil(far) + 1)
        return centre + k, noise.density(k)
    inner = [s for s in (*breaks, centre) if abs(s - centre) < far]
    ends = np.unique([centre - far, centre + far, *inner])
    panels = [np.linspace(a, b, int(np.ceil((b - a) / (2 * noise.spread))) + 1) for a, b in pairwise(ends)]
    z, weight = on_panels(np.unique(np.concatenate(panels)), NODES)
    return z, weight * noise.density(z - centre)
