"""Blocks of runs on this machine's processor, compiled with Numba.

`run_block` is pure: its result depends on the specification, the seed and the block alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import numpy as np

from fairpost.counts import Counts
from fairpost.engines.montecarlo.backends.base import Asked, Block, Floats, Ints, One, Partial
from fairpost.noise import Mechanism, Stream, Threshold
from fairpost.rules import (
    Baseline,
    Nonnegative,
    PoS,
    PosThreshold,
    PostProcessing,
    Simplex,
    SimplexThreshold,
    Sum,
    SumClipped,
    Unchanged,
)

CODES: dict[type[PostProcessing], int] = {
    Unchanged: 0, Sum: 1, Nonnegative: 2, SumClipped: 3, Simplex: 4, Baseline: 5, PoS: 6,
}  # fmt: skip
"""The numbers of `kernels.solve`."""
FOLLOWED = 256
"""At most so many entities of the smallest (largest) count are averaged for the pair that attains alpha."""


@dataclass(frozen=True, eq=False)
class Fast:
    """The post-processings that the compiled block covers, as arrays."""

    codes: Ints
    which: Ints
    """The row of `weights` that each one uses."""
    shifts: Floats
    targets: Floats
    weights: Floats
    """w = a / sum a x, one row for each set of weights; the first row is 1, for releases."""
    whole: Floats
    """sum w of each row."""
    left: Floats
    """The part of the control that is left in, a row for each."""
    who: Ints
    """Entities with the smallest count, then entities with the largest."""
    split: int
    """How many of `who` have the smallest count."""


@dataclass(frozen=True, eq=False)
class Spec:
    """Everything a block needs, picklable: the compiled post-processings first, then the others."""

    x: Floats
    mechanism: Mechanism
    fast: Fast
    slow: tuple[One, ...]

    @property
    def count(self) -> int:
        """The number of post-processings."""
        return self.fast.codes.size + len(self.slow)


@singledispatch
def fits(pi: PostProcessing, asked: Asked) -> bool:
    """Whether the compiled block covers this post-processing, which has a number in CODES."""
    return True


@fits.register
def _(pi: Simplex, asked: Asked) -> bool:
    """Its threshold is measured from 0: not for totals that are rounding."""
    return 1e-6 * (float(asked.counts.values.max()) + asked.mechanism.deviation) < pi.C


@fits.register(Baseline)
@fits.register(PoS)
def _(pi: Baseline | PoS, asked: Asked) -> bool:
    """Shares of something."""
    return asked.counts.total > 0


def compiled(pi: PostProcessing, asked: Asked) -> bool:
    """Whether the compiled block covers this case; groups go the general way."""
    return asked.mechanism.code is not None and type(pi) in CODES and pi.partition is None and fits(pi, asked)


def order(asked: Asked) -> list[int]:
    """The places of the post-processings: the compiled ones, then the others."""
    return sorted(range(len(asked.ones)), key=lambda i: not compiled(asked.ones[i].pi, asked))


def specify(asked: Asked) -> Spec:
    """The specification; the post-processings must come with the compiled ones first."""
    fast = [one for one in asked.ones if compiled(one.pi, asked)]
    return Spec(asked.counts.values, asked.mechanism, _fast(asked.counts, fast), asked.ones[len(fast) :])


def _fast(counts: Counts, ones: list[One]) -> Fast:
    x, rows, which = counts.values, [np.ones(counts.n)], []
    for one in ones:
        place = 0
        if one.pi.problem.shares:
            a = one.pi.problem.a(counts.n)  # type: ignore[attr-defined]
            w = a / np.sum(a * x)
            place = next((k for k in range(1, len(rows)) if np.array_equal(rows[k], w)), len(rows))
            rows += [w] if place == len(rows) else []
        which.append(place)
    weights = np.stack(rows)
    ends = [np.flatnonzero(x == end)[:FOLLOWED] for end in (x.min(), x.max())] if x.min() < x.max() else []
    return Fast(
        codes=np.array([CODES[type(one.pi)] for one in ones], dtype=np.int64),
        which=np.array(which, dtype=np.int64),
        shifts=np.array([one.control.offset[0] for one in ones], dtype=np.float64),
        targets=np.array([float(getattr(one.pi, "total", 0.0)) for one in ones], dtype=np.float64),
        weights=weights,
        whole=weights.sum(axis=1),
        left=np.stack([one.left for one in ones]) if ones else np.zeros((0, counts.n)),
        who=np.concatenate(ends) if ends else np.empty(0, dtype=np.int64),
        split=ends[0].size if ends else 0,
    )


def run_block(spec: Spec, seed: int, block: Block) -> Partial:
    """The sums of one block, for every post-processing on the same noise."""
    from fairpost.engines.montecarlo.backends.cpu.kernels import sums as layout

    n = spec.x.size
    pieces = -(-n // layout.PIECE)
    work = np.zeros((spec.count, pieces, layout.WORK_PLANES * layout.PIECE))
    pairs, degenerate = np.zeros((spec.count, 6)), np.zeros(spec.count, dtype=np.int64)
    adders = _adders(spec, seed, work, pairs, degenerate)
    size = 4 * max(1, min(16, 2**15 // n), 2**13 // n)  # rows of noise that stay in the cache until all have seen them
    rows = np.zeros((min(size, 4 * -(-block.runs // 4)), n))
    for begin in range(0, block.runs, size):
        runs = min(size, block.runs - begin)
        draw(spec.mechanism, seed, block.first + begin, rows[:runs])
        for add in adders:
            add(begin == 0, block.first + begin, runs, rows)
    sums = _settled(work.reshape(spec.count, pieces, layout.WORK_PLANES, layout.PIECE), pairs, block.runs)
    return Partial(block.runs, sums, pairs, degenerate)


def _settled(work: Floats, pairs: Floats, runs: int) -> Floats:
    """Sums about a centre to the mean and the sum of squared deviations from it, in place, pairs likewise.

    The sums are returned without the centres, in the memory of `work`.
    """
    count, pieces, planes, size = work.shape
    for own in work:  # one at a time, so that what is in between takes little memory
        for total, squares in ((own[:, 0], own[:, 1]), (own[:, 2], own[:, 3])):
            squares[:] = np.maximum(squares - total * (total / runs), 0.0)
            total[:] = own[:, planes - 1] + total / runs
    for k in (0, 3):
        total = pairs[:, k + 1]
        pairs[:, k] += total / runs
        pairs[:, k + 1] = np.maximum(pairs[:, k + 2] - total * (total / runs), 0.0)
        pairs[:, k + 2] = 0.0
    out = work.reshape(-1)[: count * pieces * (planes - 1) * size].reshape(count, pieces, (planes - 1) * size)
    for p in range(count):  # what is written never passes what is still to be read
        out[p] = work[p, :, :-1].reshape(pieces, -1)
    return out


Adder = Callable[[bool, int, int, Floats], None]
"""Whether they begin the block, the number of the first run, how many, and their noise (rows beyond them are filled up)."""


def _adders(spec: Spec, seed: int, work: Floats, pairs: Floats, degenerate: Ints) -> list[Adder]:
    """What takes rows of noise into the sums: releases, shares, each threshold mechanism, any other map."""
    f, many, out = spec.fast, spec.fast.codes.size, list[Adder]()
    z, last, sums = np.empty(spec.x.size), (_none_before(spec), _none_before(spec)), work[:many]
    if (f.codes <= CODES[Simplex]).any():
        from fairpost.engines.montecarlo.backends.cpu.kernels.releases import add_releases

        ends = (f.who, f.split, f.weights[0], z, last[0], sums, pairs[:many])
        out.append(_compiled(add_releases, spec.x, f.left, f.codes, f.shifts, f.targets, *ends))
    if (f.codes > CODES[Simplex]).any():
        from fairpost.engines.montecarlo.backends.cpu.kernels.shares import add_shares

        more = (f.which, f.weights, f.whole, z, last[1], sums, degenerate[:many])
        out.append(_compiled(add_shares, spec.x, f.left, f.codes, *more))
    for k, one in enumerate(spec.slow, many):
        add = _kept(spec, one, work[k], degenerate[k : k + 1])
        out.append(add or _general(spec, one, seed, work[k], degenerate[k : k + 1]))
    return out


def _compiled(kernel: Any, *fixed: Any) -> Adder:
    return lambda first, run, runs, rows: kernel(first, runs, rows, *fixed)


def _none_before(spec: Spec) -> Floats:
    """The numbers of the run before the first."""
    from fairpost.engines.montecarlo.backends.cpu.kernels.forms import NUMBERS

    return np.full((spec.fast.codes.size, NUMBERS), np.nan)


def _kept(spec: Spec, one: One, work: Floats, degenerate: Ints) -> Adder | None:
    """A threshold mechanism on all entities together, compiled; None where it is none, or the noise is not built in."""
    found = None if one.pi.partition is not None else kept_by(one.pi, spec.x)
    if found is None or spec.mechanism.code is None:
        return None
    from fairpost.engines.montecarlo.backends.cpu.kernels.thresholds import add_kept

    rule, w, total = found
    n = spec.x.size
    levels = rule.level * (w[:1] if (w == w[0]).all() else w)
    z, out, left = np.empty(n), np.empty((max(1, min(8, 2**15 // n)), n)), one.left

    def add(first: bool, run: int, runs: int, rows: Floats) -> None:
        degenerate[0] += add_kept(
            first, runs, rows, spec.x, w, left, one.centre, levels, rule.steepness, total, one.pi.dust, z, out, work
        )  # fmt: skip

    return add


@singledispatch
def kept_by(pi: PostProcessing, x: Floats) -> tuple[Threshold, Floats, float] | None:
    """The threshold, w and the total (-1: the noisy sum) of a threshold mechanism; None for any other map."""
    return None


@kept_by.register
def _(pi: SimplexThreshold, x: Floats) -> tuple[Threshold, Floats, float]:
    return pi.rule, np.ones(x.size), pi.C


@kept_by.register
def _(pi: PosThreshold, x: Floats) -> tuple[Threshold, Floats, float] | None:
    a = pi.problem.a(x.size)
    return (pi.rule, a / np.sum(a * x), -1.0) if (a * x).any() else None


def _general(spec: Spec, one: One, seed: int, work: Floats, degenerate: Ints) -> Adder:
    """Any post-processing, a batch of rows at a time; few enough for arrays that the allocator keeps at hand."""
    from fairpost.engines.montecarlo.backends.cpu.kernels.sums import add_rows

    size, linear, left = max(1, min(64, 2**14 // spec.x.size)), one.control.linear, one.left

    def add(first: bool, run: int, runs: int, rows: Floats) -> None:
        for begin in range(0, runs, size):
            noise = rows[begin : min(begin + size, runs)]
            outcome = one.pi.simulated(spec.x + noise, seed, run + begin)
            e = outcome.values - one.centre
            L = 0.0 if linear is None else linear(noise)
            add_rows(
                (e - L) + left * L,
                e,
                outcome.values <= one.pi.dust if one.pi.dust > 0 else outcome.values == 0,
                work,
                first and begin == 0,
            )
            degenerate[0] += outcome.degenerate

    return add


def draw(mechanism: Mechanism, seed: int, first: int, rows: Floats) -> None:
    """The noise of the runs from `first` on, one in each row."""
    if mechanism.code is not None:
        from fairpost.engines.montecarlo.backends.cpu.kernels.draw import DRAWS

        DRAWS[mechanism.code](rows, mechanism.spread, np.uint64(seed), first)
        return
    for t in range(rows.shape[0]):
        rows[t] = mechanism.sample(rows.shape[1], Stream(seed, first + t))
