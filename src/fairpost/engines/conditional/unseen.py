"""What a simulation of the others' noises can have missed: pairs that are clipped together so rarely that no point shows them.

The conditional mean psi_i of g_i, given the noises of all others, differs from psi0_i, all others kept in full,
where some j is clipped as well. To leading order i then meets a shift that is higher
by g_j/(n - 2), so that j adds to E g_i

    E[F_i(t + L_i) |g_j|(t)]/(n - 2),   |g_j| <= (t + L_j - z_j)_+ + L_j 1(z_j <= t + L_j),   E|g_j| = G_j + L_j F_j,

L the ends of the ramps, t the shift with both of them left out. For a release t is the mean of the n - 2 other
noises less (x_i + x_j + C - sum x)/(n - 2), and at most that without x_j in F_i, without x_i in g_j, which makes it
a sum over j alone; five Gauss-Hermite nodes for the mean. For shares t = -(z_i + z_j)/(n - 2), about 0.

A point shows j clipped with the chance p_j = E F_j(t + L_j). Those j of the smallest p that all points together
show less than `SEEN` times have not been seen: an interval from points knows nothing of what they add. Three at a
time are not in it, and where clipping is no rare event it is 0, for then everything is seen.

Noises of whole numbers may be mostly 0 themselves. Let k then be the least that all points together show less than
`SEEN` times as somebody's noise. Where the chance of k is a `SEEN`th of that of k - 1 or less, the points say nothing
about it; it moves r by d = k + 1 + L at most, a share by 1, and g_i by no more than it is itself where r is as high as that above the
root r* of the mean field: sum over j of P(|eta_j| >= k) min(d, E|g_i|(r* + d)), each over S and at most 1 for shares. Smoother noise comes
near to k with points enough, and scatters; so do those that are mostly not 0. Two such noises at a time are not in it.
"""

from __future__ import annotations

import numpy as np

from fairpost.engines.moments import Counted, Floats
from fairpost.noise import Law, Threshold

SEEN = 10.0
"""So many events make a mean and a spread that may be believed: below, their number alone is unsure by a third."""

MARGIN = 2.0
"""For what follows the leading order, a fifth of it in shares of five."""


def unseen(
    x: Floats,
    a: Floats,
    times: Counted,
    law: Law,
    rule: Threshold,
    total: float | None,
    points: int,
    root: float = np.inf,
) -> Floats:
    """About how much of E[g_i] (of E[g_i/S] for shares, total None) no one of so many points can have shown, for each distinct (x, a).

    An estimate with a margin, not a bound.
    """
    n, top, mean = float(np.sum(times)), rule.level + rule.width, float((a * x) @ times)
    rough = (
        _rough(x, a, times, law, top, 1.0 if total is not None else mean, points, root)
        if law.discrete
        else np.zeros(x.size)
    )
    if total is None:
        rough = np.minimum(rough, 1.0)
    if n <= 2 or (total is None and mean <= 0):
        return rough
    if total is None:
        unit, t, weight = a / mean, np.zeros((1, 1)), np.ones(1)
    else:
        u, w = np.polynomial.hermite_e.hermegauss(5)
        unit, weight = np.ones(x.size), w / np.sum(w)
        t = (u * law.deviation * np.sqrt(n - 2) - (total - float(x @ times)))[:, None] / (n - 2) - x / (n - 2)
    c = t + (top - x)
    below = np.asarray(law.cdf(c))
    size = (-np.real(law.lower(c, 0.0, 1)) + top * below) * unit
    chance = weight @ below
    order = np.argsort(chance)
    hidden = np.zeros(x.size, dtype=bool)
    hidden[order] = np.cumsum((chance * times)[order]) * points < SEEN
    together = size @ np.where(hidden, times, 0)
    others = together[:, None] - np.where(hidden, size, 0.0)
    return np.asarray(MARGIN * (weight @ (below * np.maximum(others, 0.0))) / (n - 2) + rough)


def _rough(x: Floats, a: Floats, times: Counted, law: Law, top: float, S: float, points: int, root: float) -> Floats:
    """What noises of whole numbers add to each that no point has shown."""
    if 2 * float(law.cdf(-1.0)) > 0.5:
        return np.zeros(x.size)
    many, k, before = float(np.sum(times)) * points, 1.0, 1.0
    while (chance := 2 * float(law.cdf(-k))) * many >= SEEN:
        k, before = k + 1, chance
    if chance * SEEN > before:
        return np.zeros(x.size)
    if S <= 0:  # shares
        return np.full(x.size, chance * float(np.sum(times)))
    d = a * (k + 1 + top)
    own = np.full(x.size, np.inf)
    if np.isfinite(root):
        c = (root + float(np.max(d))) / a + top - x
        own = a * (-np.real(law.lower(c, 0.0, 1)) + top * law.cdf(c))
    return np.asarray(chance * np.minimum(own * float(np.sum(times)), d @ times) / S)
