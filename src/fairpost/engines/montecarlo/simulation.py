"""One simulation, of a list or of a hierarchy: blocks of runs, added up in order, until there are enough.

Run r of seed s draws from stream (s, r) alone, a block is a pure function of its runs, and blocks are added up in order: so the
bits are the same on any number of threads, on a cluster of like processors and after a resumption. A `Job` says what a block
draws and what it adds; who computes blocks is an executor's matter, how often the state is saved and what Ctrl-C leaves is decided here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from os import PathLike
from pathlib import Path
from signal import SIGINT, default_int_handler, getsignal, signal
from threading import current_thread, main_thread
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np

from fairpost import cancel
from fairpost.engines.montecarlo.checkpoint import Checkpoint, fingerprint
from fairpost.engines.montecarlo.executors import Cluster, Results, Threads
from fairpost.errors import Cancelled, LostError, ParameterError
from fairpost.noise import Stream

T = TypeVar("T")
DEVICES = ("cpu", "gpu", "auto")
"""Where runs are made; "auto" is the GPU where there is one that covers what is asked."""


class Block(NamedTuple):
    """Runs first, ..., first + runs - 1."""

    first: int
    runs: int


@dataclass(frozen=True)
class Simulation:
    """How to simulate: runs, seed, and who works.

    The result is the same bit for bit on any number of threads, on a cluster of like processors and after a resumption.

    Parameters
    ----------
    runs
        At least 2.
    seed
        Any whole number from 0 to 2**64 - 1.
    confidence
        The chance with which intervals cover.
    threads
        Default: one a core. Fewer where the blocks under way would take more than 2 GiB, and the note says so.
    progress
        Called as progress(runs done, runs in all) between blocks.
    checkpoint
        A file to go on from and to write the state to, every `checkpoint_every` seconds and at the end.
    cluster
        A `distributed.Client`, or the address of a Dask scheduler, instead of threads.
    backend
        Where the runs are made: "cpu"; "gpu", a CUDA device by CuPy (the same noise, the same sums to rounding); or "auto": the
        GPU where there is one that covers what is asked, else the CPU, and the note says which and why.

    """

    runs: int = 1000
    seed: int = 0
    confidence: float = field(default=0.95, kw_only=True)
    threads: int | None = field(default=None, kw_only=True)
    progress: Callable[[int, int], None] | None = field(default=None, compare=False, kw_only=True)
    checkpoint: str | PathLike[str] | None = field(default=None, kw_only=True)
    checkpoint_every: float = field(default=10.0, kw_only=True)
    cluster: Any = field(default=None, compare=False, kw_only=True)
    backend: str = field(default="cpu", kw_only=True)
    LEAST: ClassVar[dict[str, int]] = {"runs": 2, "block": 1, "threads": 1}
    """The smallest value of each whole number."""

    def __post_init__(self) -> None:
        Stream(self.seed)
        for name, least in self.LEAST.items():
            value = getattr(self, name, None)
            if value is None and name != "runs":
                continue
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not least <= value < 2**62:
                raise ParameterError(f"`{name}` must be a whole number, at least {least}, got {value!r}")
        if not 0 < self.confidence < 1:
            raise ParameterError(f"`confidence` must be above 0 and below 1, got {self.confidence!r}")
        if self.backend not in DEVICES:
            raise ParameterError(f"`backend` must be one of {', '.join(DEVICES)}, got {self.backend!r}")
        if not self.checkpoint_every >= 0:
            raise ParameterError(f"`checkpoint_every` must be at least 0, got {self.checkpoint_every!r}")


class Job(ABC):
    """What is simulated: what a block of runs draws, and what it adds to the sums."""

    block: int
    """Runs of a block, the unit of work and of the order of adding up."""
    blocks_at_once: int = 1
    """How many blocks are best handed over together."""
    atomic: bool = True
    """Whether a block is added up in one compiled call. Else Ctrl-C waits for the block under way."""

    @property
    @abstractmethod
    def tally(self) -> Any:
        """Runs and blocks so far."""

    @abstractmethod
    def about(self) -> Iterable[Any]:
        """What the sums depend on but for version, seed and block (`checkpoint.fingerprint`)."""

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """The arrays that change, by name; their shapes follow from the job."""

    @abstractmethod
    def session(self) -> AbstractContextManager[Results]:
        """A function from blocks, some at a time, to their parts, in order. Parts may be computed only as they are taken."""

    @abstractmethod
    def add(self, part: Any) -> None:
        """The part of the next block into the sums."""

    @property
    def runs(self) -> int:
        """Runs so far."""
        return int(self.tally[0])

    @property
    def blocks(self) -> int:
        """Blocks so far."""
        return int(self.tally[1])


def on(how: Simulation, threads: int, run: Callable[..., list[Any]], spec: Any) -> AbstractContextManager[Results]:
    """The session of a job whose blocks are a pure function run(spec, seed, blocks), on threads or on a cluster."""
    work = partial(run, spec, int(how.seed))
    return Threads(threads).session(work) if how.cluster is None else Cluster(how.cluster).session(work)


def simulate(how: Simulation, job: Job, enough: Callable[[], bool] | None = None) -> bool:
    """Runs until all are made; whether Ctrl-C or a withdrawn question (`cancel`) ended them early, with at least two done.

    Or until the runs so far are `enough`, which is asked after 1, 2, 3, 4, 6, 8, 12, ... blocks: the end is the same whoever
    computes.
    """
    return _Simulating(how, job, enough).run()


def unless_withdrawn(found: T, interrupted: bool) -> T:
    """What was found; where the question was withdrawn `Cancelled`, with it as `reached`."""
    try:
        if interrupted:
            cancel.check()
    except Cancelled as error:
        error.reaching(lambda _: found)
        raise
    return found


def marks() -> Iterator[int]:
    """1, 2, 3, 4, 6, 8, 12, 16, ...: the numbers of blocks after which the stop rule looks."""
    yield 1
    power = 2
    while True:
        yield from (power, power + power // 2)
        power *= 2


class _Simulating:
    """One simulation under way."""

    def __init__(self, how: Simulation, job: Job, enough: Callable[[], bool] | None) -> None:
        self.how, self.job, self.enough = how, job, enough
        self.limit, self.stopped = int(how.runs), False
        self.file: Checkpoint | None = None
        if how.checkpoint is not None:
            mark = fingerprint((*job.about(), int(how.seed), job.block))
            self.file = Checkpoint(Path(how.checkpoint), mark, how.checkpoint_every)

    def run(self) -> bool:
        job = self.job
        if self.file is not None:
            self.file.restore(job)
            if job.runs > self.limit:
                raise ParameterError(f"`runs` must be at least the {job.runs} of the checkpoint, got {self.limit}")
        try:
            with nullcontext() if job.atomic else self._interrupts(), job.session() as results:
                while not self._done():
                    for parts in results(self._next()):
                        self._take(parts)
                        del parts  # before the next one is waited for
                        if self.stopped or (job.runs < self.limit and cancel.requested()):
                            self.stopped = True
                            break
        except KeyboardInterrupt:
            if not job.atomic:
                raise
            self.stopped = True
        except LostError as error:
            self._save(now=True)
            raise LostError(f"{error}, after {job.runs:,} of {self.limit:,} runs") from None
        if self.stopped and job.runs < 2:
            cancel.check()
            raise KeyboardInterrupt
        self._save(now=True)
        return self.stopped

    @contextmanager
    def _interrupts(self) -> Iterator[None]:
        """The first Ctrl-C lets the block under way end and stops there; the second one interrupts at once."""
        if current_thread() is not main_thread() or getsignal(SIGINT) is not default_int_handler:
            yield
            return

        def stop(number: int, frame: Any) -> None:
            if self.stopped:
                default_int_handler(number, frame)
            self.stopped = True

        signal(SIGINT, stop)
        try:
            yield
        finally:
            signal(SIGINT, default_int_handler)

    def _done(self) -> bool:
        if self.stopped or self.job.runs >= self.limit:
            return True
        if cancel.requested():
            self.stopped = True
            return True
        return self.enough is not None and self._mark(self.job.blocks) == self.job.blocks and self.enough()

    @staticmethod
    def _mark(least: int) -> int:
        return next(mark for mark in marks() if mark >= least)

    def _next(self) -> Iterator[tuple[Block, ...]]:
        """The blocks up to the next look of the stop rule, or all that are left: some at a time, a shorter last one alone."""
        job, size = self.job, self.job.block
        at, last = job.blocks, -(-self.limit // size)
        if self.enough is not None:
            last = min(last, self._mark(at + 1))
        while at < last:
            whole = min(job.blocks_at_once, last - at, (self.limit - at * size) // size)
            runs = size if whole else self.limit - at * size
            yield tuple(Block(k * size, runs) for k in range(at, at + max(whole, 1)))
            at += max(whole, 1)

    def _take(self, parts: Iterable[Any]) -> None:
        if self.limit - self.job.runs < self.job.block:
            self._save(now=True)  # a shorter last block ends no longer simulation: the file keeps whole ones
        found = list(parts)
        for part in found:
            self.job.add(part)
            if part is found[-1]:  # blocks that are computed together may be in the sums together
                self._save()
            if self.how.progress is not None:
                self.how.progress(self.job.runs, self.limit)

    def _save(self, *, now: bool = False) -> None:
        if self.file is not None and self.job.runs == self.job.blocks * self.job.block > 0:
            self.file.save(self.job, now=now)
