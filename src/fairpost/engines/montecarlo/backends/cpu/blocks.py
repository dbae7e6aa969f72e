"""A block of runs: the unit of work that threads, a cluster and a checkpoint share.

`run_block` is pure: its result depends on the specification, the seed and the block alone. Run r draws the noise of
stream (seed, r), a block adds its runs up in order, and blocks are merged in order, so that every bit of the result is
the same whoever computes which block and when.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairpost.counts import Counts
from fairpost.engines.montecarlo.controls import Control
from fairpost.noise import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace, Mechanism, Stream
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

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

KINDS: dict[type[Mechanism], int] = {Laplace: 0, Gaussian: 1, DiscreteLaplace: 2, DiscreteGaussian: 3}
CODES: dict[type[PostProcessing], int] = {
    Unchanged: 0, Sum: 1, Nonnegative: 2, SumClipped: 3, Simplex: 4, Baseline: 5, PoS: 6,
}  # fmt: skip
"""The numbers of `kernels.solve`."""
FOLLOWED = 256
"""At most so many entities of the smallest (largest) count are averaged for the pair that attains alpha."""


class Block(NamedTuple):
    """Runs first, ..., first + runs - 1."""

    first: int
    runs: int


@dataclass(frozen=True, eq=False)
class Partial:
    """What a block adds to the totals (layout: `kernels.sums`)."""

    runs: int
    sums: Floats
    pairs: Floats
    degenerate: Ints


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
    slow: tuple[tuple[PostProcessing, Control], ...]

    @property
    def count(self) -> int:
        """The number of post-processings."""
        return self.fast.codes.size + len(self.slow)


def compiled(counts: Counts, mechanism: Mechanism, pi: PostProcessing) -> bool:
    """Whether the compiled block covers this case.

    Groups go the general way, as do totals too small for a threshold that is measured from 0, and shares of nothing.
    """
    if type(mechanism) not in KINDS or type(pi) not in CODES or getattr(pi, "partition", None) is not None:
        return False
    if isinstance(pi, Simplex):
        return float(pi.total) > 1e-6 * (float(counts.values.max()) + mechanism.deviation)  # type: ignore[arg-type]
    if isinstance(pi, (Baseline, PoS)):
        return counts.total > 0
    return True


def specify(counts: Counts, mechanism: Mechanism, pis: list[PostProcessing], controls: list[Control]) -> Spec:
    """The specification; the post-processings must come with the compiled ones first."""
    fast = [i for i, pi in enumerate(pis) if compiled(counts, mechanism, pi)]
    slow = tuple((pis[i], controls[i]) for i in range(len(fast), len(pis)))
    return Spec(counts.values, mechanism, _fast(counts, [pis[i] for i in fast], [controls[i] for i in fast]), slow)


def _fast(counts: Counts, pis: list[PostProcessing], controls: list[Control]) -> Fast:
    x, rows, which = counts.values, [np.ones(counts.n)], []
    for pi in pis:
        place = 0
        if isinstance(pi, (Baseline, PoS)):
            a = np.ones(counts.n) if pi.weights is None else np.asarray(pi.weights)
            w = a / np.sum(a * x)
            place = next((k for k in range(1, len(rows)) if np.array_equal(rows[k], w)), len(rows))
            rows += [w] if place == len(rows) else []
        which.append(place)
    weights = np.stack(rows)
    ends = [np.flatnonzero(x == end)[:FOLLOWED] for end in (x.min(), x.max())] if x.min() < x.max() else []
    return Fast(
        codes=np.array([CODES[type(pi)] for pi in pis], dtype=np.int64),
        which=np.array(which, dtype=np.int64),
        shifts=np.array([c.offset[0] for c in controls], dtype=np.float64),
        targets=np.array([float(getattr(pi, "total", 0.0)) for pi in pis], dtype=np.float64),
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
        f = spec.fast
        rows = np.zeros((4 * max(1, min(16, 2**15 // n)), n))
        kernel.simulate(
            KINDS[type(spec.mechanism)], spec.mechanism.spread, np.uint64(seed), block.first, block.runs, spec.x,
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
    (pi, split), mechanism = spec.slow[k], spec.mechanism
    if not isinstance(pi, (PosThreshold, SimplexThreshold)) or pi.partition is not None or pi.threshold is None:
        return False
    if type(mechanism) not in KINDS:
        return False
    from fairpost.engines.montecarlo.backends.cpu.kernels.thresholds import simulate_kept

    n = spec.x.size
    if isinstance(pi, PosThreshold):
        a = np.ones(n) if pi.weights is None else np.asarray(pi.weights)
        if not (a * spec.x).any():
            return False
        w, total = a / np.sum(a * spec.x), -1.0
    else:
        w, total = np.ones(n), float(pi.total)  # type: ignore[arg-type]
    levels = pi.threshold.level * (w[:1] if (w == w[0]).all() else w)
    rows = np.empty((2, max(1, min(8, 2**15 // n)), n))
    degenerate[k] += simulate_kept(
        KINDS[type(mechanism)], mechanism.spread, np.uint64(seed), block.first, block.runs, spec.x, w,
        split.truth + split.offset, levels, pi.threshold.steepness, total, rows[0], np.empty(n), rows[1], work,
    )  # fmt: skip
    return True


def _general(spec: Spec, which: list[int], seed: int, block: Block, work: Floats, degenerate: Ints) -> None:
    """Any post-processing, a batch of rows at a time; few enough for arrays that the allocator keeps at hand."""
    from fairpost.engines.montecarlo.backends.cpu.kernels.sums import add_rows

    size = max(1, min(64, 2**14 // spec.x.size))
    for begin in range(0, block.runs, size):
        noise = noise_rows(spec, seed, block.first + begin, min(size, block.runs - begin))
        X = spec.x + noise
        for k in which:
            pi, split = spec.slow[k]
            outcome = pi.apply(X)
            e = outcome.values - (split.truth + split.offset)
            d = e if split.linear is None else e - split.linear(noise)
            add_rows(d, e, outcome.values == 0, work[k], begin == 0)
            degenerate[k] += outcome.degenerate


def noise_rows(spec: Spec, seed: int, first: int, runs: int) -> Floats:
    """The noise of `runs` runs, one a row."""
    from fairpost.engines.montecarlo.backends.cpu.kernels.solve import draw_rows

    out = np.empty((runs, spec.x.size))
    if type(spec.mechanism) in KINDS:
        draw_rows(KINDS[type(spec.mechanism)], out, spec.mechanism.spread, np.uint64(seed), first)
    else:
        for t in range(runs):
            out[t] = spec.mechanism.sample(spec.x.size, Stream(seed, first + t))
    return out


class Totals:
    """The merged blocks so far."""

    def __init__(self, spec: Spec, controls: list[Control]) -> None:
        from fairpost.engines.montecarlo.backends.cpu.kernels import sums as kernel

        n, many = spec.x.size, spec.count
        self.labels, self.members = _classes(controls, n)
        widest = self.members.shape[1]
        self.tally = np.zeros(2, dtype=np.int64)
        self.sums = np.zeros((many, -(-n // kernel.PIECE), kernel.PLANES * kernel.PIECE))
        self.pairs = np.zeros((many, 6))
        self.ties = np.zeros((many, 2, widest))
        self.degenerate = np.zeros(many, dtype=np.int64)
        self._scratch = np.zeros(widest)

    @property
    def runs(self) -> int:
        """Runs merged so far."""
        return int(self.tally[0])

    @property
    def blocks(self) -> int:
        """Blocks merged so far."""
        return int(self.tally[1])

    def merge(self, part: Partial) -> None:
        """Add the next block, in one compiled call: an interrupt comes before it or after it."""
        from fairpost.engines.montecarlo.backends.cpu.kernels.sums import merge

        merge(
            self.tally, self.sums, self.pairs, self.ties, self.degenerate, part.runs,
            part.sums, part.pairs, part.degenerate, self.labels, self.members, self._scratch,
        )  # fmt: skip

    def plane(self, p: int, k: int) -> Floats:
        """One quantity of post-processing p: 0 mean d, 1 its squares, 2 mean e, 3 its squares, 4 zeros."""
        piece = self.sums.shape[2] // 5
        return np.asarray(self.sums[p].reshape(-1, 5, piece)[:, k].reshape(-1)[: self.labels.shape[1]])

    def state(self) -> dict[str, NDArray[np.float64] | Ints]:
        """The arrays that change, by name."""
        return {name: getattr(self, name) for name in ("tally", "sums", "pairs", "ties", "degenerate")}


def _classes(controls: list[Control], n: int) -> tuple[Ints, Floats]:
    """The class of each entity and the size of each class, a row a post-processing; no rows where nothing is tied."""
    labels = [np.arange(n) if c.labels is None else c.labels for c in controls]
    widest = max(int(label.max()) + 1 for label in labels)
    if all(int(label.max()) + 1 == n for label in labels):
        return np.empty((0, n), dtype=np.int64), np.empty((0, 0))
    return np.stack(labels), np.stack([np.bincount(label, minlength=widest).astype(np.float64) for label in labels])
