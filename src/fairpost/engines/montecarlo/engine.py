"""The Monte-Carlo engine: any mechanism, any post-processing, by simulation with intervals that cover."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from fairpost.counts import Counts
from fairpost.engines.montecarlo.backends.cpu.blocks import Block, Spec, Totals, compiled, specify
from fairpost.engines.montecarlo.checkpoint import LAYOUT, Checkpoint, fingerprint
from fairpost.engines.montecarlo.controls import Control, control
from fairpost.engines.montecarlo.estimates import Sampled, sampled
from fairpost.engines.montecarlo.executors import Cluster, Executor, Threads
from fairpost.errors import ParameterError
from fairpost.noise import Mechanism, Stream
from fairpost.parallel import cores
from fairpost.rules import Nonnegative, PostProcessing, Simplex, SumClipped

LEAST = 1000
"""No relative tolerance is tested below so many runs."""


@dataclass(frozen=True)
class MonteCarlo:
    """Simulation: run r draws its noise from stream (seed, r), for all post-processings the same.

    The result is the same bit for bit on any number of threads, on a cluster of like processors and after a resumption.

    Parameters
    ----------
    runs
        The number of runs, or with `rtol` the most that may be made.
    seed
        Any whole number from 0 to 2**64 - 1.
    rtol
        Stop as soon as the interval of every alpha lies within rtol of its value. Looked at after 1, 2, 3, 4, 6, 8, 12,
        ... blocks, so that the end is the same whoever computes.
    confidence
        The chance with which an interval covers, for alpha and for all biases together.
    block
        Runs a block, the unit of work and of the merging order. Default: by the number of entities.
    threads
        Default: one a core.
    progress
        Called as progress(runs done, runs at most) after each block.
    checkpoint
        A file to resume from and to write the state to, every `checkpoint_every` seconds and at the end.
    cluster
        The address of a Dask scheduler, or a `distributed.Client`, instead of threads.

    """

    runs: int = 10_000
    seed: int = 0
    rtol: float | None = None
    confidence: float = 0.95
    block: int | None = None
    threads: int | None = None
    progress: Callable[[int, int], None] | None = field(default=None, compare=False)
    checkpoint: str | PathLike[str] | None = None
    checkpoint_every: float = 10.0
    cluster: Any = field(default=None, compare=False)
    name: ClassVar[str] = "monte-carlo"

    def __post_init__(self) -> None:
        Stream(self.seed)
        for name, least in (("runs", 2), ("block", 1), ("threads", 1)):
            value = getattr(self, name)
            if value is None and name != "runs":
                continue
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not least <= value < 2**62:
                raise ParameterError(f"`{name}` must be a whole number, at least {least}, got {value!r}")
        if self.rtol is not None and not 0 < self.rtol < 1:
            raise ParameterError(f"`rtol` must be above 0 and below 1, got {self.rtol!r}")
        if not 0 < self.confidence < 1:
            raise ParameterError(f"`confidence` must be above 0 and below 1, got {self.confidence!r}")
        if not self.checkpoint_every >= 0:
            raise ParameterError(f"`checkpoint_every` must be at least 0, got {self.checkpoint_every!r}")

    def supports(self, mechanism: Mechanism, pi: PostProcessing) -> str | None:
        """None: every mechanism and every post-processing."""
        return None

    def moments(self, counts: Counts, mechanism: Mechanism, pis: Sequence[PostProcessing]) -> tuple[Sampled, ...]:
        """The moments of each post-processing, all on the same noise.

        Ctrl-C ends the simulation with what the finished blocks have shown (`interrupted`), if there is one.
        """
        if not pis:
            raise ParameterError("there must be at least one post-processing, got none")
        bound = [pi.for_mechanism(mechanism) for pi in pis]
        order = sorted(range(len(pis)), key=lambda i: not compiled(counts, mechanism, bound[i]))
        job = _Job(self, counts, mechanism, [bound[i] for i in order])
        interrupted = job.run()
        found = [job.result(p, interrupted) for p in range(len(pis))]
        return tuple(found[order.index(i)] for i in range(len(pis)))

    def _executor(self) -> Executor:
        if self.cluster is not None:
            return Cluster(self.cluster)
        return Threads(cores() if self.threads is None else self.threads)


def default_block(n: int) -> int:
    """Runs a block for n entities: about eight million draws, from 64 to 4096 runs, a power of two."""
    return int(2 ** np.clip(np.floor(np.log2(2**23 / n)), 6, 12))


def _marks() -> Iterator[int]:
    """1, 2, 3, 4, 6, 8, 12, 16, ...: the numbers of blocks after which the stop rule looks."""
    yield 1
    power = 2
    while True:
        yield from (power, power + power // 2)
        power *= 2


class _Job:
    """One simulation under way."""

    def __init__(self, engine: MonteCarlo, counts: Counts, mechanism: Mechanism, pis: list[PostProcessing]) -> None:
        self.engine, self.counts, self.mechanism, self.pis = engine, counts, mechanism, pis
        self.controls: list[Control] = [control(counts, mechanism, pi) for pi in pis]
        self.spec: Spec = specify(counts, mechanism, pis, self.controls)
        self.totals = Totals(self.spec, self.controls)
        self.block = default_block(counts.n) if engine.block is None else int(engine.block)
        self.file = self._checkpoint()

    def _checkpoint(self) -> Checkpoint | None:
        if self.engine.checkpoint is None:
            return None
        from fairpost import __version__

        about = (__version__, LAYOUT, self.counts.values, self.counts.weights, self.mechanism, self.pis)
        mark = fingerprint((*about, int(self.engine.seed), self.block))
        return Checkpoint(Path(self.engine.checkpoint), mark, self.engine.checkpoint_every)

    def run(self) -> bool:
        """Simulate until done; whether Ctrl-C ended it."""
        if self.file is not None:
            self.file.restore(self.totals)
            if self.totals.runs > self.engine.runs:
                raise ParameterError(
                    f"`runs` must be at least the {self.totals.runs} of the checkpoint, got {self.engine.runs}"
                )
        try:
            with self.engine._executor().session(self.spec, int(self.engine.seed)) as results:
                while not self._done():
                    for part in results(self._next_blocks()):
                        self._take(part)
        except KeyboardInterrupt:
            if self.totals.runs < 2:
                raise
            self._save(now=True)
            return True
        self._save(now=True)
        return False

    def _take(self, part: Any) -> None:
        if part.runs < self.block:
            self._save(now=True)  # a shorter last block ends no longer simulation: the file keeps whole ones
        self.totals.merge(part)
        self._save()
        if self.engine.progress is not None:
            self.engine.progress(self.totals.runs, int(self.engine.runs))

    def _save(self, *, now: bool = False) -> None:
        if self.file is not None and self.totals.runs == self.totals.blocks * self.block > 0:
            self.file.save(self.totals, now=now)

    def _done(self) -> bool:
        if self.totals.runs >= self.engine.runs:
            return True
        if self.engine.rtol is None or self.totals.runs < LEAST:
            return False
        blocks = self.totals.blocks
        if blocks != next(mark for mark in _marks() if mark >= blocks):
            return False
        return all(self._close(self.result(p, False)) for p in range(len(self.pis)))

    def _close(self, found: Sampled) -> bool:
        a = found.alpha
        return max(a.high - a.value, a.value - a.low) <= (self.engine.rtol or 0.0) * a.value

    def _next_blocks(self) -> Iterator[Block]:
        """The blocks up to the next look of the stop rule, or all that are left."""
        done, limit = self.totals.blocks, int(self.engine.runs)
        last = -(-limit // self.block)
        if self.engine.rtol is not None:
            last = min(last, next(mark for mark in _marks() if mark > done))
        for k in range(done, last):
            first = k * self.block
            yield Block(first, min(self.block, limit - first))

    def result(self, p: int, interrupted: bool) -> Sampled:
        """What the merged blocks say about post-processing p."""
        fast, engine = self.spec.fast, self.engine
        known = self._pair_is_known(p)
        ends = (int(fast.who[0]), int(fast.who[fast.split])) if known else (0, 0)
        return sampled(self.totals, p, self.controls[p], known, ends, int(engine.seed), engine.confidence, interrupted)

    def _pair_is_known(self, p: int) -> bool:
        """Whether the smallest and the largest count attain alpha (for the conditions see `bounds`)."""
        x = self.counts.values
        if p >= self.spec.fast.codes.size or self.spec.fast.who.size == 0:
            return False
        if isinstance(self.pis[p], Simplex):
            return not self.mechanism.discrete or bool((x - x[0] == np.round(x - x[0])).all())
        return isinstance(self.pis[p], (Nonnegative, SumClipped))
