"""PoS with many pairs (count, weight): a few of them stand for all.

A pair enters the integrals of `pos` through log psi(r, s, t), of which a sum over all pairs is wanted, and has its own answer from V/psi.
Both are smooth in the count and in the weight: among thousands of pairs whose counts are within some noise scales of each other these
functions, at every (r, s, t) that matters, differ from combinations of the same few columns by next to nothing,

    f_i = sum_k T_ki f_{j_k}    for every function f = (f_1, ..., f_n) of the family,

with j_1, j_2, ... the pivots of a QR decomposition of a sample of the family (an interpolative decomposition; Cheng, Gimbutas, Martinsson
and Rokhlin 2005). Ten thousand pairs with weights over six orders of magnitude come down to some 50. The sum of log psi is then one over the
pivots with the weights T times, and the answers are interpolated with T. The sample has a row for the constant: T sums to 1.

Under Laplace noise the functions have a corner in the count at r = z's centre: pairs with their centre inside the window of r stand for
themselves. Two stages have different numbers of pivots, so that what the interpolation moves is in their difference, the stated error.
That would not show what both have not seen; so T is tried on a second sample, at other r and t, and where it misses that by more than a
few times its tolerance every pair stands for itself, as it does where no few pivots are found.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fairpost import cancel
from fairpost.engines.exact.pos.nodes import Profile
from fairpost.engines.exact.pos.problem import Problem
from fairpost.engines.moments import Counted, Floats

LEAST = 150
"""Fewer pairs stand for themselves."""
PART = 0.4
"""More pivots than this part of the pairs do not help."""
REACH = (0.0, 2.0, 5.0, 8.5)
"""Where the family is sampled along a contour, in widths of the integrand: to where it ends."""
SHOWN = (0.28, 24, np.array([0.0, 0.3, 3.0, 0.03, 1.0, 30.0, 10.0]))
"""And in r: over the window in such steps of log r, and so many over its core; each with one t, in units of 1/S."""
UNSEEN, ASTRAY = (0.91, 9, np.array([0.0, 0.1, 5.0, 0.6])), 30.0
"""Likewise where T is tried; how many times its tolerance it may miss there."""
MIXED = 160
"""So many random mixtures of the sampled functions are decomposed: more than there are pivots, and then as good as all of them (Halko,
Martinsson and Tropp 2011)."""
SAMPLE, WORST = 500, 100
"""The pivots are sought among so many pairs, evenly spread, and so many more at a time of those that are fitted worst."""
ROUNDS = 5
CANCELLED, MOST_CANCELLED = 1.3, 5.0
"""What weights should sum to regardless of sign, in terms of the entities, and the most they may."""
FINEST = 1e-11
"""The accuracy to which all must be fitted in the end; below it is rounding."""


@dataclass(frozen=True)
class Close:
    """The pivots in the order of the decomposition, its triangle (the diagonal: what each pivot adds), and all pairs in its directions."""

    problem: Problem
    own: Counted
    """Who stands for itself, whatever the tolerance ..."""
    others: Counted
    """... and all others; pivots and columns are places among these."""
    unseen: Floats
    pivots: Counted
    triangle: Floats
    directions: Floats
    rotated: Floats

    def at(self, tolerance: float) -> tuple[Problem, Floats] | None:
        """The pivots that stand for all to this part of the largest value, with their weights, and T; None where they are too many.

        More of them are taken where T misses what it was not shown, and where large weights of both signs cancel: pivots too much alike
        then stand for too much.
        """
        gain, whole = np.abs(np.diag(self.triangle)), self.problem.times[self.others]
        near = ASTRAY * tolerance * float(np.max(np.abs(self.unseen)))
        best: tuple[float, Floats] | None = None
        for more in (1.0, 0.3, 0.1, 0.03):
            many = max(2, int(np.count_nonzero(gain > more * tolerance * np.max(gain))))
            if many + self.own.size > PART * self.problem.c.size:
                break
            t = np.asarray(np.linalg.solve(self.triangle[:many, :many], self.rotated[:many]), dtype=np.float64)
            missed = np.max(np.abs(self.unseen[:, self.pivots[:many]] @ t - self.unseen))
            cancelled = float(np.sum(np.abs(t @ whole)) / np.sum(whole))
            if missed <= near and cancelled < (best[0] if best else MOST_CANCELLED):
                best = cancelled, t
            if best and best[0] <= CANCELLED:
                break
        return None if best is None else self._joined(best[1])

    def _joined(self, t: Floats) -> tuple[Problem, Floats]:
        """With those who stand for themselves, first."""
        first, many = self.own.size, len(t)
        few = self.problem.part(np.append(self.own, self.others[self.pivots[:many]]))
        to_all = np.zeros((first + many, self.problem.c.size))
        to_all[np.arange(first), self.own] = 1.0
        to_all[first:, self.others] = t
        return replace(few, times=to_all @ self.problem.times), to_all


def close(problem: Problem, shape: Profile, drop: float, lean: float) -> Close | None:
    """The family of a side, by the density of r and the bend of its contours; None where there are few pairs, or no few that stand for all."""
    low, high = shape.window(drop)
    own = np.flatnonzero((problem.c > low) & (problem.c < high) & (not problem.gaussian))
    others = np.setdiff1d(np.arange(problem.c.size), own)
    if others.size <= LEAST or own.size > PART * problem.c.size:
        return None
    cancel.check()
    rows, unseen = (_family(problem, shape, drop, lean, *how)[:, others] for how in (SHOWN, UNSEEN))
    mixed = np.random.default_rng(0).normal(size=(MIXED, rows.shape[0])) @ rows if rows.shape[0] > MIXED else rows
    some = np.lexsort((problem.c[others], problem.scale[others]))[:: max(1, others.size // SAMPLE)]
    for _ in range(ROUNDS):
        found = Close(problem, own, others, unseen, *_decomposed(mixed, some))
        left = np.linalg.norm(mixed - found.directions @ found.rotated, axis=0)
        bad = left > 10 * FINEST * np.max(np.abs(np.diag(found.triangle)))
        if not bad.any():
            return found
        some = np.union1d(some, np.argsort(left)[-WORST:])
    return None


def _decomposed(rows: Floats, some: Counted) -> tuple[Counted, Floats, Floats, Floats]:
    """QR with pivots among `some` columns: the pivots, the triangle, the directions, and all columns in these directions.

    Each direction is the column that the ones before it leave the most of, made orthogonal to them twice; the first one is the most usual,
    so that the many who hardly matter have weights of one sign. It ends at FINEST. LAPACK's threads would cost more than they save here.
    """
    left, directions = rows[:, some].copy(), np.zeros((rows.shape[0], 0))
    pivots: list[int] = []
    least = FINEST**2 * float(np.max(np.einsum("mk,mk->k", left, left)))
    usual = int(np.argmin(np.linalg.norm(left - np.mean(rows, axis=1)[:, None], axis=0)))
    for _ in range(min(left.shape)):
        size = np.einsum("mk,mk->k", left, left)
        best = int(np.argmax(size)) if pivots else usual
        if size[best] <= least:
            break
        q = left[:, best] - directions @ (directions.T @ left[:, best])
        q /= np.linalg.norm(q)
        left -= np.multiply.outer(q, np.einsum("m,mk->k", q, left))
        directions = np.column_stack([directions, q])
        pivots.append(int(some[best]))
    rotated = directions.T @ rows
    return np.array(pivots), np.triu(rotated[:, pivots]), directions, rotated


def _family(
    problem: Problem, shape: Profile, drop: float, lean: float, step: float, core: int, tilts: Floats
) -> Floats:
    """A sample over the window of r, for small and large t; a constant first."""
    from fairpost.engines.exact.pos.kernels.general import samples

    low, high = shape.window(drop)
    (left, right), size = shape.window(4.5), float(np.sqrt(problem.mean**2 + problem.variance))
    low = max(low, 1e-3 * right)
    wide = np.geomspace(low, high, 2 + int(np.log(high / low) / step))
    r = np.concatenate([wide, np.linspace(max(left, low), right, core)])
    t = np.resize(tilts, r.size) / size
    rows = np.zeros((4 * r.size * len(REACH) + 1, problem.c.size))
    rows[0] = 1.0
    p, unit = problem, float(np.max(problem.scale))
    some = np.argsort(-p.scale)[:: max(1, p.c.size // SAMPLE)]
    times = p.times[some] * (p.n / float(np.sum(p.times[some])))
    samples(p.noise, p.c, p.scale, some, times, p.low, p.never, lean, r, t, unit, np.array(REACH), rows[1:])
    most = np.max(np.abs(rows), axis=1)
    return np.asarray(rows[np.isfinite(most) & (most > 1e-14)])
