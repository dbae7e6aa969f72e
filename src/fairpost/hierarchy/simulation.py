"""Who computes blocks, in which order, and what an interrupt leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from signal import SIGINT, default_int_handler, getsignal, signal
from threading import current_thread, main_thread
from typing import Any

import numpy as np

from fairpost import cancel
from fairpost.engines.montecarlo.backends import NAMES
from fairpost.engines.montecarlo.checkpoint import Checkpoint
from fairpost.engines.montecarlo.executors import Cluster, Executor, Threads, within_memory
from fairpost.errors import LostError, ParameterError, UnsupportedError
from fairpost.hierarchy.blocks import Block, Partial, Totals, leaf_part, run_block, upper_part
from fairpost.hierarchy.checkpoint import fingerprint
from fairpost.hierarchy.spec import Spec
from fairpost.noise import Stream


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
        Default: one a core.
    progress
        Called as progress(runs done, runs in all) after each block.
    checkpoint
        A file to go on from and to write the state to, every `checkpoint_every` seconds and at the end.
    cluster
        A `distributed.Client`, or the address of a Dask scheduler, instead of threads.
    backend
        Where the runs are made: "cpu"; "gpu", a CUDA device by CuPy (the same noise, the same sums to rounding); or "auto": the
        GPU where there is one that covers the tree and the rule, else the CPU, and the note says which and why.

    """

    runs: int = 1000
    seed: int = 0
    confidence: float = 0.95
    threads: int | None = None
    progress: Callable[[int, int], None] | None = field(default=None, compare=False)
    checkpoint: str | PathLike[str] | None = None
    checkpoint_every: float = 10.0
    cluster: Any = field(default=None, compare=False)
    backend: str = "cpu"

    def __post_init__(self) -> None:
        Stream(self.seed)
        for name, least in (("runs", 2), ("threads", 1)):
            value = getattr(self, name)
            if value is None and name == "threads":
                continue
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not least <= value < 2**62:
                raise ParameterError(f"`{name}` must be a whole number, at least {least}, got {value!r}")
        if not 0 < self.confidence < 1:
            raise ParameterError(f"`confidence` must be above 0 and below 1, got {self.confidence!r}")
        if self.backend not in NAMES:
            raise ParameterError(f"`backend` must be one of {', '.join(NAMES)}, got {self.backend!r}")
        if self.backend == "gpu" and self.cluster is not None:
            raise ParameterError("a hierarchy is simulated on a cluster or on this machine's GPU, got both")

    def where(self, spec: Spec) -> tuple[str, str | None]:
        """cpu or gpu, and a word on it for the note."""
        from fairpost.hierarchy.gpu import covers

        if self.backend != "auto":
            return self.backend, None if self.backend == "cpu" else "on the GPU"
        try:
            if self.cluster is not None:
                raise UnsupportedError("a cluster was asked for")
            covers(spec)
        except UnsupportedError as error:
            return "cpu", f"on the CPU: {error}"
        return "gpu", "on the GPU"

    def crew(self, spec: Spec) -> tuple[int, str | None]:
        """How many threads compute, and a word where memory allows fewer than there should be.

        With the joint rule each has the nodes of a whole block of its own, 14 numbers a node; the other rules share them.
        """
        alone = spec.rule == "joint" and self.cluster is None
        return within_memory(self.threads, 8 * 14 * spec.x.size if alone else 1)

    def run(self, spec: Spec) -> tuple[Totals, bool]:
        """The sums over all runs, and whether Ctrl-C ended them early (with at least one block done)."""
        return _Job(self, spec).run()


@dataclass(frozen=True, eq=False)
class TreeJob:
    """What the blocks of a cluster are computed of."""

    spec: Spec
    seed: int

    def run(self, block: Block) -> Partial:
        """One block."""
        return run_block(self.spec, self.seed, block)


class _Job:
    """One simulation under way."""

    def __init__(self, how: Simulation, spec: Spec) -> None:
        self.how, self.spec, self.totals = how, spec, Totals(spec)
        self.where, _ = how.where(spec)
        self.stopped = False
        self.file: Checkpoint | None = None
        if how.checkpoint is not None:
            from fairpost import __version__

            self.file = Checkpoint(
                Path(how.checkpoint), fingerprint(spec, int(how.seed), __version__, self.where), how.checkpoint_every
            )

    def run(self) -> tuple[Totals, bool]:
        if self.file is not None:
            self.file.restore(self.totals)
            if self.totals.runs > self.how.runs:
                raise ParameterError(
                    f"`runs` must be at least the {self.totals.runs} of the checkpoint, got {self.how.runs}"
                )
        blocks = list(self._blocks())
        threads, _ = self.how.crew(self.spec)
        with self._interrupts():
            if self.where == "gpu":
                self._on_gpu(blocks)
            elif self.how.cluster is not None:
                self._whole(blocks, Cluster(self.how.cluster))
            elif self.spec.rule == "joint":  # it sees all nodes at once: a block per thread
                self._whole(blocks, Threads(threads))
            else:
                with ThreadPoolExecutor(threads) as pool:
                    self._on_threads(blocks, pool)
            self._save(now=True)
        if self.stopped and self.totals.runs < 2:
            cancel.check()
            raise KeyboardInterrupt
        return self.totals, self.stopped

    def _stopped(self) -> bool:
        """Between two blocks: whether Ctrl-C was pressed or the question withdrawn."""
        self.stopped = self.stopped or cancel.requested()
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

    def _blocks(self) -> Iterator[Block]:
        for first in range(self.totals.runs, int(self.how.runs), self.spec.block):
            yield Block(first, min(self.spec.block, int(self.how.runs) - first))

    def _on_threads(self, blocks: list[Block], pool: ThreadPoolExecutor) -> None:
        """Block by block; the inner nodes of the next one are computed while this one's leaves are.

        Leaves add to the totals in place, so a block that has begun is finished, whatever is pressed meanwhile.
        """
        spec, seed = self.spec, int(self.how.seed)

        def each(task: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
            futures = [pool.submit(task, item) for item in items]
            return (future.result() for future in futures)

        ahead = None
        for k, block in enumerate(blocks):
            if self._stopped():
                break
            if block.runs < spec.block:
                self._save(now=True)  # a shorter last block ends no longer simulation: the file keeps whole ones
            if spec.rule == "pooled":
                upper = upper_part(spec, seed, block, each)
            else:
                upper = upper_part(spec, seed, block) if ahead is None else ahead.result()
                ahead = pool.submit(upper_part, spec, seed, blocks[k + 1]) if k + 1 < len(blocks) else None
            self._take(leaf_part(spec, seed, block, upper, self.totals.leaves, each))

    def _on_gpu(self, blocks: list[Block]) -> None:
        """Some blocks at a time; the sums of nodes stay on the device until a checkpoint is due, or the end."""
        from fairpost.engines.montecarlo.backends.gpu.device import gpu
        from fairpost.hierarchy.gpu import Runner

        runner, at = Runner(self.spec, gpu(), int(self.how.seed), self.totals), 0
        while at < len(blocks) and not self._stopped():
            some = [b for b in blocks[at : at + runner.blocks] if b.runs == self.spec.block]
            if not some:  # a shorter last block ends no longer simulation: the file keeps whole ones
                some = blocks[at : at + 1]
                self._fetch(runner, now=True)
            for part in runner.run(some):
                self.totals.add(self.spec, part)
            at += len(some)
            self._fetch(runner, now=False)
            if self.how.progress is not None:
                self.how.progress(self.totals.runs, int(self.how.runs))
        runner.fetch(self.totals)

    def _fetch(self, runner: Any, *, now: bool) -> None:
        if self.file is not None and (now or self.file.due):
            runner.fetch(self.totals)
            self._save(now=True)

    def _whole(self, blocks: list[Block], executor: Executor) -> None:
        """Whole blocks elsewhere, a few under way, added in their order."""
        try:
            with executor.session(TreeJob(self.spec, int(self.how.seed))) as results:
                for block, part in zip(blocks, results(blocks), strict=False):
                    if block.runs < self.spec.block:
                        self._save(now=True)
                    self._take(part)
                    if self._stopped():
                        break
        except LostError as error:
            self._save(now=True)
            raise LostError(f"{error}, after {self.totals.runs:,} of {int(self.how.runs):,} runs") from None

    def _take(self, part: Partial) -> None:
        self.totals.add(self.spec, part)
        self._save()
        if self.how.progress is not None:
            self.how.progress(self.totals.runs, int(self.how.runs))

    def _save(self, *, now: bool = False) -> None:
        if self.file is not None and self.totals.runs == self.totals.blocks * self.spec.block > 0:
            self.file.save(self.totals, now=now)
