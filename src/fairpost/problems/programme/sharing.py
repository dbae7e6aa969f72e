"""From weighted counts G to payments: pro rata, with hold-harmless or with a minimum for each group.

Pro rata: G_i / sum G. Hold-harmless (34 CFR 200.73): max(H_i, lambda G_i), where H_i is a part of last year's payment for
whoever is eligible and lambda makes the sum 1; where the H alone exceed the appropriation they are reduced ratably. A
minimum: groups that would receive less get their minimum, the others are reduced ratably, until nobody is below.
Where nothing is due to anybody (sum G <= 0) the shares are those of the weights, and the draw counts as degenerate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from fairpost.problems.programme.law import Programme

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Shared:
    """Payments, one row per draw, and how many (draw, group) had nothing due to anybody."""

    values: Floats
    degenerate: int


def share_out(law: Programme, rows: Floats, G: Floats, base: Floats) -> Shared:
    """The appropriation of 1 (of each group: 1) shared out."""
    if law.partition is not None:
        out, lost = np.empty_like(G), 0
        for g in range(len(law.partition.labels)):
            who = law.partition.of_group(g)
            part = share_out(law.alone(g), rows[:, who], G[:, who], base[who])
            out[:, who] = part.values
            lost += part.degenerate
        return Shared(out, lost)
    sums = G.sum(axis=1, keepdims=True)
    lost_rows = sums <= 0
    a = law.a(G.shape[1])
    shares = np.where(lost_rows, a / a.sum(), G / np.where(lost_rows, 1.0, sums))
    if law.hold_harmless is not None:
        shares = held(law, rows, G, base, shares)
    elif law.minimum is not None:
        shares = raised(law, rows, shares)
    return Shared(shares, int(np.count_nonzero(lost_rows)))


def floors(law: Programme, rows: Floats, base: Floats) -> Floats:
    """H: what each entity is held to, row by row, 0 where its count is not eligible."""
    assert law.hold_harmless is not None
    last, threshold = law._last(rows.shape[1]), law.threshold(base)
    parts = np.stack([law.hold_harmless.part(row, base) for row in rows])
    return np.where(rows >= threshold, last * parts, 0.0)


def held(law: Programme, rows: Floats, G: Floats, base: Floats, shares: Floats) -> Floats:
    """Hold-harmless."""
    from fairpost.problems.programme.kernels.sharing import hold

    out = shares.copy()
    hold(np.ascontiguousarray(G), floors(law, rows, base), out)
    return out


def minima(law: Programme, rows: Floats) -> Floats:
    """The minimum of each group, row by row: the lesser of m and (m + average % of the mean payment of the group) / 2."""
    assert law.minimum is not None
    assert law.states is not None
    counted = np.maximum(rows, 0.0)
    groups = law.states.sums(law.states.gather(counted))
    m = law.minimum.percent / 100
    whole = np.maximum(counted.sum(axis=1, keepdims=True), np.finfo(float).tiny)
    return np.asarray(np.minimum(m, (m + law.minimum.average / 100 * groups / whole) / 2))


def raised(law: Programme, rows: Floats, shares: Floats) -> Floats:
    """The group minimum."""
    from fairpost.problems.programme.kernels.sharing import hold

    parts = law.states
    assert parts is not None
    gathered = parts.gather(shares)
    sums = parts.sums(gathered)
    floor = np.where(sums > 0, minima(law, rows), 0.0)
    paid = sums.copy()
    hold(np.ascontiguousarray(sums), np.ascontiguousarray(floor), paid)
    factor = np.divide(paid, sums, out=np.zeros_like(sums), where=sums > 0)
    return parts.scatter(np.asarray(gathered * parts.spread(factor)))
