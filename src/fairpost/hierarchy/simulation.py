"""Who computes blocks, in which order, and what an interrupt leaves."""

from __future__ import annotations

from collections import deque
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
from fairpost.errors import ParameterError
from fairpost.hierarchy.blocks import Block, Partial, Totals, joint_part, leaf_part, run_block, upper_part
from fairpost.hierarchy.checkpoint import Checkpoint, fingerprint
from fairpost.hierarchy.spec import Spec
from fairpost.noise import Stream
from fairpost.parallel import cores


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

    """

    runs: int = 1000
    seed: int = 0
    confidence: float = 0.95
    threads: int | None = None
    progress: Callable[[int, int], None] | None = field(default=None, compare=False)
    checkpoint: str | PathLike[str] | None = None
    checkpoint_every: float = 10.0
    cluster: Any = field(default=None, compare=False)

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

    def run(self, spec: Spec) -> tuple[Totals, bool]:
        """The sums over all runs, and whether Ctrl-C ended them early (with at least one block done)."""
        return _Job(self, spec).run()


class _Job:
    """One simulation under way."""

    def __init__(self, how: Simulation, spec: Spec) -> None:
        self.how, self.spec, self.totals = how, spec, Totals(spec)
        self.stopped = False
        self.file: Checkpoint | None = None
        if how.checkpoint is not None:
            from fairpost import __version__

            self.file = Checkpoint(
                Path(how.checkpoint), fingerprint(spec, int(how.seed), __version__), how.checkpoint_every
            )

    def run(self) -> tuple[Totals, bool]:
        if self.file is not None:
            self.file.restore(self.totals)
            if self.totals.runs > self.how.runs:
                raise ParameterError(
                    f"`runs` must be at least the {self.totals.runs} of the checkpoint, got {self.how.runs}"
                )
        blocks, threads = list(self._blocks()), self.how.threads
        with self._interrupts():
            if self.how.cluster is not None:
                self._on_cluster(blocks)
            else:
                with ThreadPoolExecutor(cores() if threads is None else int(threads)) as pool:
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

        if spec.rule == "joint":  # sees all nodes at once: a block a thread
            self._in_order(blocks, lambda b: pool.submit(joint_part, spec, seed, b), pool._max_workers + 1)
            return
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

    def _on_cluster(self, blocks: list[Block]) -> None:
        """Whole blocks on the workers of a Dask cluster, a few under way, added in order."""
        from fairpost.engines.montecarlo.executors import _connected, _distributed

        distributed, own = _distributed(), isinstance(self.how.cluster, str)
        client = _connected(distributed, self.how.cluster) if own else self.how.cluster
        seed = int(self.how.seed)
        try:
            shared = client.scatter(self.spec, broadcast=True, hash=False)
            window = 2 * max(1, sum(client.nthreads().values()))
            self._in_order(blocks, lambda b: client.submit(run_block, shared, seed, b, pure=False), window)
        finally:
            if own:
                client.close()

    def _in_order(self, blocks: list[Block], submit: Callable[[Block], Any], window: int) -> None:
        """Whole blocks elsewhere, a few under way, added in their order."""
        waiting = deque[Any]()
        try:
            for block in blocks:
                if block.runs < self.spec.block:
                    while waiting and not self.stopped:
                        self._take(waiting.popleft().result())
                    self._save(now=True)
                if self._stopped():
                    break
                waiting.append(submit(block))
                if len(waiting) >= window:
                    self._take(waiting.popleft().result())
            while waiting and not self._stopped():
                self._take(waiting.popleft().result())
        finally:
            for future in waiting:
                future.cancel()

    def _take(self, part: Partial) -> None:
        self.totals.add(self.spec, part)
        self._save()
        if self.how.progress is not None:
            self.how.progress(self.totals.runs, int(self.how.runs))

    def _save(self, *, now: bool = False) -> None:
        if self.file is not None and self.totals.runs == self.totals.blocks * self.spec.block > 0:
            self.file.save(self.totals, now=now)
