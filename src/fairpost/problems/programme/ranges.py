"""What a law can pay where counts (and bases) are known to lie in boxes: the ends of intervals.

A count lies in [z-, z+], a base in [y-, y+]. Eligibility asks for a count of at least T(y), which does not fall in y, and the
weighted count does not fall in z, so that its least value is at z-, where eligible for sure: z- >= T(y+). In y each term
(weight - the one before) (z - p y)+ of a bracket falls or rises with the sign of its factor and is taken at its own worse end. H, a part of
last year's payment, has the parts whose steps the rate may stand on.

With sharing the payment is cut max(H_i, max(lambda, mu_s) G_i) (`sharing`), where lambda and the cut fall in every G, H and m, and
mu_s falls in the G and H of the group and rises with its m. So their ends are those at the ends of the box of all entities, and the
entity's own box gives its own G and H. What is left for an entity is also bounded by what the others get at least and at most.

The worst corner of a box of thousands never occurs: a sum is known much better (`estimate`). So what the entities have in common may be
given with ends of its own, which then count where they are the narrower ones: what the others are due together, or the cut and the factors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fairpost.partition import Partition
from fairpost.problems.programme.sharing import raising, settle, settled
from fairpost.problems.programme.words import Brackets

if TYPE_CHECKING:
    from fairpost.problems.programme.law import Programme

Floats = NDArray[np.float64]
Range = tuple[Floats, Floats]


@dataclass(frozen=True, eq=False)
class Box:
    """Where the counts and the base populations lie."""

    count: Range
    base: Range


def worth_range(law: Programme, box: Box) -> Range:
    """The least and the most weighted count (a decision: 0 or 1)."""
    sure, may = _eligible(law, box)
    e = law.entitlement
    if e is None:
        return sure.astype(np.float64), may.astype(np.float64)
    out = []
    for end, met in ((0, sure), (1, may)):
        most = np.max([_worth(b, box.count[end], box.base, end) for b in e.larger_of], axis=0)
        low, high = e.ends(box.base[end])
        out.append(np.where(met, np.minimum(np.maximum(most, low), high), 0.0))
    return out[0], out[1]


def _eligible(law: Programme, box: Box) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Who is eligible for sure, and who may be."""
    return box.count[0] >= law.threshold(box.base[1]), box.count[1] >= law.threshold(box.base[0])


def _worth(brackets: Brackets, count: Floats, base: Range, end: int) -> Floats:
    """The least (end 0) or the most (end 1) that brackets give."""
    total, before = np.zeros(count.size), 0.0
    for bound, weight in brackets.rows:
        falls = weight >= before  # as the base grows
        total += (weight - before) * np.maximum(count - bound.of(base[1 - end if falls else end]), 0.0)
        before = weight
    return np.maximum(total, 0.0)


def floor_range(law: Programme, box: Box) -> Range:
    """The least and the most that hold-harmless keeps for each."""
    assert law.hold_harmless is not None
    sure, may = _eligible(law, box)
    rate, n = law.hold_harmless.rate, box.count[0].size
    low, high = np.full(n, np.inf), np.zeros(n)
    for k, (bound, part) in enumerate(rate):
        on = (box.count[1] >= bound.of(box.base[0])) | (k == 0)
        if k + 1 < len(rate):
            on &= box.count[0] < rate[k + 1][0].of(box.base[1])
        low, high = np.where(on, np.minimum(low, part), low), np.where(on, np.maximum(high, part), high)
    last = law._last(n)
    return np.where(sure, last * np.where(np.isfinite(low), low, 0.0), 0.0), np.where(may, last * high, 0.0)


def _least_range(law: Programme, people: Range, parts: Partition) -> Range:
    """The minimum of each group, from the people counted."""
    if law.minimum is None:
        none = np.zeros(len(parts.labels))
        return none, none
    low, high = (parts.sums(parts.gather(p)) for p in people)
    m, average = law.minimum.percent / 100, law.minimum.average / 100
    tiny = np.finfo(float).tiny
    share = low / np.maximum(low + high.sum() - high, tiny), high / np.maximum(high + low.sum() - low, tiny)
    return np.minimum(m, (m + average * share[0]) / 2), np.minimum(m, (m + average * share[1]) / 2)


@dataclass(frozen=True, eq=False)
class Common:
    """What entities have in common, one row per set of counts: pro rata what all others are due, else the cut and each group's factor."""

    values: Floats
    moved: Floats
    """The most that one entity moves each of them, set against the first row."""
    each: int
    """How many of them an entity's payment depends on."""


def common(law: Programme, rows: Floats, base: Floats) -> Common | None:
    """Of rows of counts, and one base or rows of bases; None where nothing is due to anybody in some row."""
    worth = law.compile()(rows) if base.ndim == 1 else law.entitled_rows(rows, base)
    G = worth * law.a(rows.shape[1])
    steps = np.abs(G - G[0])
    if law.hold_harmless is None and law.minimum is None:
        return Common(G.sum(axis=1, keepdims=True) - G, np.full(G.shape[1], steps.max()), 1)
    if not (G.sum(axis=1) > 0).all():
        return None
    parts, g, h, found = settled(law, rows, G, base)
    paid = np.maximum(h, parts.spread(found.factor[0]) * g)
    free = parts.sums(np.where(paid[0] > h[0], paid[0], 0.0))
    free = np.where(found.raised[0], free, free[~found.raised[0]].sum())
    part = np.abs(paid - paid[0]).max() / np.where(free > 0, free, 1.0)
    cut = np.abs(h - h[0]).max() if (found.cut < 1).any() else 0.0
    moved = np.append(cut, found.factor[0] * np.minimum(np.where(free > 0, part, 1.0), 1.0))
    return Common(np.hstack([found.cut, found.factor]), moved, 2)


def _narrower(box: Range, known: Range) -> Range:
    """The part that two ranges share; the first where they share none."""
    low, high = np.maximum(box[0], known[0]), np.minimum(box[1], known[1])
    return np.where(low <= high, low, box[0]), np.where(low <= high, high, box[1])


def payment_range(law: Programme, own: Box, all_of: Box, shared: Range | None = None) -> Range:
    """The payments of an appropriation of 1, where each entity's count lies in `own` and everybody's in `all_of`.

    `shared`: ends of what they have in common, in the order of `common`. Where nothing may be due to anybody, the shares may be
    those of the weights.
    """
    a = law.a(own.count[0].size)
    least, most = worth_range(law, all_of)
    every, equal = (a * least, a * most), a / a.sum()
    if not every[1].sum() > 0:
        return equal, equal
    low, high = _due_range(law, own, all_of, every, shared)
    low = np.minimum(low, high)  # but for rounding it is
    return (low, high) if every[0].sum() > 0 else (np.minimum(low, equal), np.maximum(high, equal))


def _due_range(law: Programme, own: Box, all_of: Box, every: Range, shared: Range | None) -> Range:
    """The same where something is due to somebody."""
    a = law.a(own.count[0].size)
    mine = tuple(a * end for end in worth_range(law, own))
    if law.hold_harmless is None and law.minimum is None:
        rest: Range = (every[0].sum() - every[0], every[1].sum() - every[1])
        rest = rest if shared is None else _narrower(rest, shared)
        return _share(mine[0], rest[1], 0.0), _share(mine[1], rest[0], 1.0)
    parts = law.states or Partition.whole(a.size)
    none = np.zeros(a.size)
    H = [(none, none) if law.hold_harmless is None else floor_range(law, box) for box in (own, all_of)]
    least = _least_range(law, all_of.count, parts)
    ends, factors = [], []
    for worse, end in ((1, 0), (0, 1)):
        cut, by_group = _factors(parts, every[worse], H[1][worse], least[worse], least[end])
        factors.append(np.append(cut, by_group))
    if shared is not None:
        factors = list(_narrower((factors[0], factors[1]), shared))
    for end in (0, 1):
        cut, factor = factors[end][0], parts.scatter(np.asarray(parts.spread(factors[end][1:])))
        top = np.minimum(np.maximum(H[0][end], _times(factor, mine[end])) * cut, 1.0)
        wide = np.minimum(np.maximum(H[1][end], _times(factor, every[end])) * cut, 1.0)
        ends.append((top, wide))
    (low, low_of_all), (high, high_of_all) = ends
    return (
        np.maximum(low, 1.0 - (high_of_all.sum() - high_of_all)),
        np.minimum(high, 1.0 - (low_of_all.sum() - low_of_all)),
    )


def _times(factor: Floats, G: Floats) -> Floats:
    """factor G, where an infinite factor of nothing is nothing."""
    return np.where(G > 0, factor * np.where(G > 0, G, 1.0), 0.0)


def _factors(parts: Partition, G: Floats, H: Floats, spent: Floats, target: Floats) -> tuple[float, Floats]:
    """The cut, and max(lambda, mu) of each group: lambda for the minima `spent`, mu for `target`."""
    g, h = parts.gather(G)[None, :], parts.gather(H)[None, :]
    sums, kept = parts.sums(g)[0], parts.sums(h)[0]
    if not sums.sum() > 0:
        return 1.0, np.full(sums.size, np.inf)
    found = settle(g, h, spent[None, :], parts)
    free = found.factor[0][~found.raised[0]]
    factor = np.full(sums.size, free.min() if free.size else 0.0)
    for s in np.flatnonzero(target > kept):
        who = slice(parts.starts[s], parts.starts[s + 1])
        own = np.inf if sums[s] <= 0 else raising(g[:, who], h[:, who], target[s : s + 1])[0]
        factor[s] = max(factor[s], float(own))
    return float(found.cut[0, 0]), factor


def _share(own: Floats, rest: Floats, otherwise: float) -> Floats:
    whole = own + rest
    return np.where(whole > 0, own / np.where(whole > 0, whole, 1.0), otherwise)
