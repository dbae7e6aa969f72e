"""The Monte-Carlo engine: any mechanism, any post-processing, by simulation with intervals that cover."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from fairpost import cancel
from fairpost.accuracy import Accuracy
from fairpost.engines.base import Answer, Drawn, Question, Refusal
from fairpost.engines.montecarlo.backends import NAMES, Asked, Backend, Block, chosen
from fairpost.engines.montecarlo.backends.base import One
from fairpost.engines.montecarlo.backends.cpu import Cpu
from fairpost.engines.montecarlo.checkpoint import LAYOUT, Checkpoint, fingerprint
from fairpost.engines.montecarlo.estimates import Sampled, sampled
from fairpost.engines.montecarlo.executors import Cluster, Executor, Job, Threads, within_memory
from fairpost.engines.montecarlo.pilot import fitted
from fairpost.engines.montecarlo.totals import Totals
from fairpost.errors import Cancelled, LostError, ParameterError
from fairpost.noise import Stream
from fairpost.rules import PostProcessing

FEEDERS = 3
"""Threads that hand blocks to a GPU: enough that it never waits for one."""
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
        Runs per block, the unit of work and of the merging order. Default: by the number of entities.
    threads
        Default: one per core. Fewer where the blocks under way would take more than 2 GiB, and the note says so.
    progress
        Called as progress(runs done, runs at most) after each block.
    checkpoint
        A file to resume from and to write the state to, every `checkpoint_every` seconds and at the end.
    cluster
        The address of a Dask scheduler, or a `distributed.Client`, instead of threads.
    backend
        Where blocks are computed: "cpu"; "gpu", a CUDA device by CuPy (the same noise, the same sums to rounding); or "auto":
        the GPU where there is one that covers what is asked, else the CPU, and the note says which and why.

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
    backend: str = "cpu"
    name: ClassVar[str] = "monte-carlo"
    joint: ClassVar[bool] = True

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
        if self.backend not in NAMES:
            raise ParameterError(f"`backend` must be one of {', '.join(NAMES)}, got {self.backend!r}")
        if not self.checkpoint_every >= 0:
            raise ParameterError(f"`checkpoint_every` must be at least 0, got {self.checkpoint_every!r}")

    def supports(self, question: Question) -> str | None:
        """None: every mechanism and every post-processing."""
        return None

    def evaluate(self, question: Question) -> tuple[Answer | Refusal, ...]:
        """The moments of each post-processing, all on the same noise.

        Ctrl-C ends the simulation with what the finished blocks have shown (`sample.interrupted`), if there is one. A
        question that is withdrawn (`cancel`) raises `Cancelled` between two blocks, with the same as `reached`.
        """
        made = zip(question.pis, question.truths, strict=True)
        ones = tuple(One(pi, truth, pi.control(question.counts, question.mechanism)) for pi, truth in made)
        asked = Asked(question.counts, question.mechanism, ones)
        local = self.backend if self.cluster is None or self.backend != "auto" else "cpu"  # workers may have none
        backend, where = chosen(local, asked)
        order = backend.order(asked)
        asked = fitted(asked, int(self.seed), self._threads(Cpu(), asked)[0])
        job = _Job(self, backend, replace(asked, ones=tuple(asked.ones[i] for i in order)))
        notes = [word for word in (where, job.fewer) if word is not None]

        def answers(interrupted: bool) -> tuple[Answer | Refusal, ...]:
            found = [_answer(job.result(p, interrupted), job.asked.ones[p].pi, notes) for p in range(len(ones))]
            return tuple(found[order.index(i)] for i in range(len(ones)))

        try:
            interrupted = job.run()
        except Cancelled as error:
            error.reaching(lambda _: answers(True) if job.totals.runs >= 2 else None)
            raise
        return answers(interrupted)

    def _threads(self, backend: Backend, asked: Asked) -> tuple[int, str | None]:
        """How many threads compute, and a word where they are fewer than there should be.

        A block has six sums per entity and rule, and some rows of noise and of outputs.
        """
        if backend.name == "gpu":  # whose memory is planned where it is
            return FEEDERS if self.threads is None else self.threads, None
        return within_memory(self.threads, 8 * asked.counts.n * (6 * len(asked.ones) + 16))


def default_block(n: int) -> int:
    """Runs per block for n entities: about eight million draws, from 64 to 4096 runs, a power of two."""
    return int(2 ** np.clip(np.floor(np.log2(2**23 / n)), 6, 12))


def _marks() -> Iterator[int]:
    """1, 2, 3, 4, 6, 8, 12, 16, ...: the numbers of blocks after which the stop rule looks."""
    yield 1
    power = 2
    while True:
        yield from (power, power + power // 2)
        power *= 2


def _answer(s: Sampled, pi: PostProcessing, notes: list[str]) -> Answer:
    groups = 1 if pi.partition is None else len(pi.partition.labels)
    return Answer(
        method=MonteCarlo.name,
        bias=s.bias,
        accuracy=Accuracy("interval", s.half_width),
        mse=s.mse,
        mse_accuracy=Accuracy("interval", s.mse_half_width),
        zero=s.zero,
        zero_accuracy=Accuracy("interval", s.zero_half_width),
        alpha=s.alpha,
        pair=s.pair,
        total_off=s.total_off,
        degenerate=s.degenerate / (s.runs * groups),
        note="; ".join([s.statement, *notes]),
        drawn=Drawn(s.runs, s.seed, s.confidence),
        sample=s,
    )


class _Job:
    """One simulation under way."""

    def __init__(self, engine: MonteCarlo, backend: Backend, asked: Asked) -> None:
        self.engine, self.backend, self.asked = engine, backend, asked
        self.spec = backend.specify(asked)
        self.totals = Totals(asked.counts.n, [one.control for one in asked.ones])
        self.block = default_block(asked.counts.n) if engine.block is None else int(engine.block)
        self.file = self._checkpoint()
        self.threads, fewer = engine._threads(backend, asked)
        self.fewer = fewer if engine.cluster is None else None
        """A word where memory allows fewer threads than there should be."""

    def _checkpoint(self) -> Checkpoint | None:
        if self.engine.checkpoint is None:
            return None
        from fairpost import __version__

        counts, pis = self.asked.counts, [one.pi for one in self.asked.ones]
        about = (__version__, LAYOUT, self.backend.name, counts.values, counts.weights, self.asked.mechanism, pis)
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
            job = Job(self.backend.name, self.spec, int(self.engine.seed))
            cluster = self.engine.cluster
            executor: Executor = Threads(self.threads) if cluster is None else Cluster(cluster)
            with executor.session(job) as results:
                while not self._done():
                    cancel.check()
                    for parts in results(self._handed_over()):
                        for part in parts:
                            self._take(part)
                            if self.totals.runs < self.engine.runs:
                                cancel.check()
        except KeyboardInterrupt:
            if self.totals.runs < 2:
                raise
            self._save(now=True)
            return True
        except LostError as error:
            self._save(now=True)
            raise LostError(f"{error}, after {self.totals.runs:,} of {int(self.engine.runs):,} runs") from None
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
        return all(self._close(self.result(p, False)) for p in range(len(self.asked.ones)))

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

    def _handed_over(self) -> Iterator[tuple[Block, ...]]:
        """The next blocks, as many together as the backend wants; a shorter last one alone."""
        most, some = self.backend.at_once(self.spec, self.block), list[Block]()
        for block in self._next_blocks():
            if some and (len(some) == most or block.runs != self.block):
                yield tuple(some)
                some = []
            some.append(block)
        if some:
            yield tuple(some)

    def result(self, p: int, interrupted: bool) -> Sampled:
        """What the merged blocks say about post-processing p; theory may know the pair that attains alpha."""
        engine, one, ends = self.engine, self.asked.ones[p], self.backend.followed(self.spec, p)
        known = ends is not None and one.pi.extremes(self.asked.counts, self.asked.mechanism) is not None
        return sampled(
            self.totals, p, one.control, known, ends or (0, 0), int(engine.seed), engine.confidence, interrupted
        )
