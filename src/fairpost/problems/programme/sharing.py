"""From weighted counts G to payments: pro rata, with hold-harmless, with a minimum for each group, or with both.

Pro rata: G_i / sum G. Hold-harmless (34 CFR 200.73): max(H_i, lambda G_i), where H_i is a part of last year's payment for
whoever is eligible and lambda makes the sum 1; where the H alone exceed the appropriation they are reduced ratably. A
minimum: groups that would receive less get their minimum, the others are reduced ratably, until nobody is below.
Where nothing is due to anybody (sum G <= 0) the shares are those of the weights, and the draw counts as degenerate.

Both together. Group s with the minimum m_s receives

    T_s(lambda) = max(m_s, sum_{i in s} max(H_i, lambda G_i)),      lambda such that sum_s T_s(lambda) = 1,

and a group that its minimum lifts pays max(H_i, mu_s G_i) with its own mu_s >= lambda such that the sum is m_s: everybody keeps
their H, and inside a group money goes by the law. H = 0 is the minimum alone, m = 0 hold-harmless alone. sum_s T_s is convex,
increases and is linear between kinks, so Newton's method from lambda = 1 / sum G (where it is at least 1) comes down to the
root in finitely many steps. Where the floors alone spend the appropriation, sum_s max(m_s, sum_{i in s} H_i) >= 1, lambda is 0
and all payments are reduced ratably. A group whose G are all 0 has no minimum: there is nobody whom its law would pay more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fairpost.partition import Partition

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
            part = share_out(law.alone(g), rows[:, who], G[:, who], base[..., who])
            out[:, who] = part.values
            lost += part.degenerate
        return Shared(out, lost)
    sums = G.sum(axis=1, keepdims=True)
    lost_rows = sums <= 0
    a = law.a(G.shape[1])
    shares = np.where(lost_rows, a / a.sum(), G / np.where(lost_rows, 1.0, sums))
    if law.hold_harmless is not None or law.minimum is not None:
        some = np.flatnonzero(~lost_rows)
        parts, mine, kept, found = settled(law, rows[some], G[some], base if base.ndim == 1 else base[some])
        shares[some] = parts.scatter(found.cut * np.maximum(kept, parts.spread(found.factor) * mine))
    return Shared(shares, int(np.count_nonzero(lost_rows)))


def floors(law: Programme, rows: Floats, base: Floats) -> Floats:
    """H: what each entity is held to, row by row, 0 where its count is not eligible."""
    assert law.hold_harmless is not None
    last, flat = law._last(rows.shape[1]), np.broadcast_to(np.maximum(base, 0.0), rows.shape).ravel()
    parts = law.hold_harmless.part(rows.ravel(), flat).reshape(rows.shape)
    return np.where(rows >= law.threshold(flat).reshape(rows.shape), last * parts, 0.0)


def minima(law: Programme, rows: Floats) -> Floats:
    """The minimum of each group, row by row: the lesser of m and (m + average % of the mean payment of the group) / 2."""
    assert law.minimum is not None
    assert law.states is not None
    counted = np.maximum(rows, 0.0)
    groups = law.states.sums(law.states.gather(counted))
    m = law.minimum.percent / 100
    whole = np.maximum(counted.sum(axis=1, keepdims=True), np.finfo(float).tiny)
    return np.asarray(np.minimum(m, (m + law.minimum.average / 100 * groups / whole) / 2))


@dataclass(frozen=True, eq=False)
class Settled:
    """The factors of a law with hold-harmless and a group minimum: payments are cut max(H, factor G)."""

    cut: Floats
    """By which floors that spend more than the appropriation are reduced, one per row."""
    factor: Floats
    """lambda, or mu of a group at its minimum, per row and group."""
    raised: NDArray[np.bool_]
    """Which groups are at their minimum, per row."""


def settle(G: Floats, H: Floats, least: Floats, parts: Partition) -> Settled:
    """The factors for rows of G and H (gathered by group; every row has some G) and rows of group minima."""
    least = np.where(parts.sums(G) > 0, least, 0.0)
    floors_of = np.maximum(parts.sums(H), least)
    spent = floors_of.sum(axis=1, keepdims=True)
    factor = np.where(spent < 1, 1.0 / G.sum(axis=1, keepdims=True), 0.0)
    moving = np.flatnonzero(spent[:, 0] < 1)
    while moving.size:
        g, h, m, now = G[moving], H[moving], least[moving], factor[moving]
        sums = parts.sums(np.maximum(h, now * g))
        slope = np.where(sums > m, parts.sums(np.where(now * g > h, g, 0.0)), 0.0).sum(axis=1, keepdims=True)
        over = np.maximum(sums, m).sum(axis=1, keepdims=True) - 1.0
        later = np.where(slope > 0, now - over / np.where(slope > 0, slope, 1.0), now)
        falls = later < now
        factor[moving] = np.where(falls, later, now)
        moving = moving[falls[:, 0]]
    own = parts.sums(np.maximum(H, factor * G)) < least
    per_group = np.where(own, 0.0, factor)
    for s in np.flatnonzero(own.any(axis=0)):
        at, who = np.flatnonzero(own[:, s]), slice(parts.starts[s], parts.starts[s + 1])
        per_group[at, s] = raising(G[at, who], H[at, who], least[at, s])
    return Settled(np.minimum(1.0, 1.0 / np.maximum(spent, 1.0)), per_group, own)


def raising(G: Floats, H: Floats, target: Floats) -> Floats:
    """mu with sum max(H, mu G) = target, row by row; sum H < target. Newton from the right, as above."""
    mu = (target / G.sum(axis=1))[:, None]
    while True:
        over = np.maximum(H, mu * G).sum(axis=1, keepdims=True) - target[:, None]
        slope = np.where(mu * G > H, G, 0.0).sum(axis=1, keepdims=True)
        later = np.where(slope > 0, mu - over / np.where(slope > 0, slope, 1.0), mu)
        if not (later < mu).any():
            return np.asarray(mu[:, 0])
        mu = np.minimum(mu, later)


def settled(law: Programme, rows: Floats, G: Floats, base: Floats) -> tuple[Partition, Floats, Floats, Settled]:
    """The groups, G and H by group, and the factors; every row has some G."""
    parts = law.states or Partition.whole(G.shape[1])
    H = np.zeros_like(G) if law.hold_harmless is None else floors(law, rows, base)
    g, h = parts.gather(G), parts.gather(H)
    least = np.zeros((len(G), len(parts.labels))) if law.minimum is None else minima(law, rows)
    return parts, g, h, settle(g, h, least, parts)


def at_minimum(law: Programme, rows: Floats, worth: Floats, base: Floats) -> NDArray[np.bool_]:
    """Which groups their minimum lifts, row by row; none where nothing is due to anybody."""
    assert law.states is not None
    G = worth * law.a(worth.shape[1])
    out, some = np.zeros((len(rows), len(law.states.labels)), dtype=bool), np.flatnonzero(G.sum(axis=1) > 0)
    out[some] = settled(law, rows[some], G[some], base)[3].raised
    return out
