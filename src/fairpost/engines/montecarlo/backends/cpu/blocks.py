"""Blocks of runs on this machine's processor, compiled with Numba.

`run_block` is pure: its result depends on the specification, the seed and the block alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch

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
        who=np.concatenate(ends) if ends else np.empty(0, dtype=np.int64),
        split=ends[0].size if ends else 0,
    )


def run_block(spec: Spec, seed: int, block: Block) -> Partial:
    """The sums of one block, for every post-processing on the same noise."""
    from fairpost.engines.montecarlo.backends.cpu.kernels import simulate as kernel
    from fairpost.engines.montecarlo.backends.cpu.kernels import sums as layout

    n, many = spec.x.size, spec.fast.codes.size
    pieces = -(-n // layout.PIECE)
    work = np.zeros((spec.count, pieces, layout.WORK_PLANES * layout.PIECE))
    pairs, degenerate = np.zeros((spec.count, 6)), np.zeros(spec.count, dtype=np.int64)
    if many:
        f, code = spec.fast, spec.mechanism.code
        assert code is not None
        rows = np.zeros((4 * max(1, min(16, 2**15 // n)), n))
        kernel.simulate(
            code, spec.mechanism.spread, np.uint64(seed), block.first, block.runs, spec.x,
            f.codes, f.which, f.shifts, f.targets, f.weights, f.whole, f.who, f.split,
            rows, np.empty(n), work[:many], pairs[:many], degenerate[:many],
        )  # fmt: skip
    rest = [k for k in range(len(spec.slow)) if not _kept(spec, k, seed, block, work[many + k], degenerate[many:])]
    if rest:
        _general(spec, rest, seed, block, work[many:], degenerate[many:])
    layout.finish(work, pairs, block.runs)
    shape = (spec.count, pieces, layout.PLANES * layout.PIECE)
    return Partial(block.runs, work.reshape(-1)[: spec.count * pieces * shape[2]].reshape(shape), pairs, degenerate)


def _kept(spec: Spec, k: int, seed: int, block: Block, work: Floats, degenerate: Ints) -> bool:
    """A threshold mechanism on all entities together, compiled; False where `spec.slow[k]` is none."""
    one, code = spec.slow[k], spec.mechanism.code
    found = None if one.pi.partition is not None else kept_by(one.pi, spec.x)
    if found is None or code is None:
        return False
    from fairpost.engines.montecarlo.backends.cpu.kernels.thresholds import simulate_kept

    rule, w, total = found
    n = spec.x.size
    levels = rule.level * (w[:1] if (w == w[0]).all() else w)
    rows = np.empty((2, max(1, min(8, 2**15 // n)), n))
    degenerate[k] += simulate_kept(
        code, spec.mechanism.spread, np.uint64(seed), block.first, block.runs, spec.x, w,
        one.centre, levels, rule.steepness, total, rows[0], np.empty(n), rows[1], work,
    )  # fmt: skip
    return True


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


def _general(spec: Spec, which: list[int], seed: int, block: Block, work: Floats, degenerate: Ints) -> None:
    """Any post-processing, a batch of rows at a time; few enough for arrays that the allocator keeps at hand."""
    from fairpost.engines.montecarlo.backends.cpu.kernels.sums import add_rows

    size = max(1, min(64, 2**14 // spec.x.size))
    for begin in range(0, block.runs, size):
        noise = noise_rows(spec, seed, block.first + begin, min(size, block.runs - begin))
        X = spec.x + noise
        for k in which:
            one = spec.slow[k]
            outcome, linear = one.pi.simulated(X, seed, block.first + begin), one.control.linear
            e = outcome.values - one.centre
            d = e if linear is None else e - linear(noise)
            add_rows(d, e, outcome.values == 0, work[k], begin == 0)
            degenerate[k] += outcome.degenerate


def noise_rows(spec: Spec, seed: int, first: int, runs: int) -> Floats:
    """The noise of `runs` runs, one per row."""
    from fairpost.engines.montecarlo.backends.cpu.kernels.solve import draw_rows

    out, code = np.empty((runs, spec.x.size)), spec.mechanism.code
    if code is not None:
        draw_rows(code, out, spec.mechanism.spread, np.uint64(seed), first)
    else:
        for t in range(runs):
            out[t] = spec.mechanism.sample(spec.x.size, Stream(seed, first + t))
    return out
