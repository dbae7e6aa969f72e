"""Who computes blocks: threads of this process, or the workers of a Dask cluster. Both hand results back in order.

The work is one pure function of a block, so an executor decides nothing about the result. Both keep a few blocks under
way and no more, which bounds the memory. This is the only module that imports Dask.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from fairpost.errors import LostError, ParameterError, UnsupportedError

Work = Callable[[Any], Any]
"""A pure function of some blocks; picklable where a cluster is to compute it."""
Results = Callable[[Iterable[Any]], Iterator[Any]]
MEMORY = 2 << 30
"""Bytes that the blocks under way may take together."""
ATTEMPTS = 5
"""How often a block may be lost with its worker before the job fails."""
PATIENCE = 60.0
"""Seconds that a cluster may be without workers."""
NOTICE = 3.0
"""Seconds in which a client notices that its scheduler is gone."""
LOOK = 2.0
"""Seconds between two looks whether it has any."""


def _run(work: Work, block: Any) -> Any:
    return work(block)


def within_memory(wanted: int | None, each: int) -> tuple[int, str | None]:
    """How many threads compute blocks of `each` bytes: one per core or as many as are wanted; a word where these do not fit."""
    from fairpost.parallel import cores

    threads, fit = cores() if wanted is None else int(wanted), max(1, MEMORY // each)
    return (
        (threads, None) if threads <= fit else (fit, f"{fit} of {threads} threads, to stay within {MEMORY >> 30} GiB")
    )


def in_order(
    submit: Callable[[Any], Any], result: Callable[[Any, Any], Any], window: int, drop: Callable[[Any], None]
) -> Results:
    """At most `window` blocks under way; the oldest is waited for."""

    def results(blocks: Iterable[Any]) -> Iterator[Any]:
        waiting: deque[tuple[Any, Any]] = deque()
        try:
            for block in blocks:
                waiting.append((block, submit(block)))
                if len(waiting) >= window:
                    yield result(*waiting.popleft())
            while waiting:
                yield result(*waiting.popleft())
        finally:
            for _, future in waiting:
                drop(future)

    return results


@dataclass(frozen=True)
class Threads:
    """Threads of this process; the kernels release the interpreter lock."""

    count: int

    @contextmanager
    def session(self, work: Work) -> Iterator[Results]:
        """A function from blocks to their results, in order; leaving it drops what is still under way. One thread: no pool."""
        if self.count == 1:
            yield lambda blocks: map(work, blocks)
            return
        pool = ThreadPoolExecutor(self.count, thread_name_prefix="fairpost-runs")
        try:
            yield in_order(
                lambda block: pool.submit(work, block),
                lambda _, future: future.result(),
                self.count + 1,
                lambda future: future.cancel(),
            )
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


@dataclass(frozen=True)
class Cluster:
    """The workers of a Dask cluster: the address of its scheduler, or a `distributed.Client`."""

    address: Any
    patience: float = PATIENCE

    @contextmanager
    def session(self, work: Work) -> Iterator[Results]:
        """See `Threads`. A block whose worker dies is computed again elsewhere, to the same bits.

        A scheduler that is gone, or workers that do not come back, end the job with one line.
        """
        distributed = _distributed()
        own = isinstance(self.address, str)
        with _quiet() if own else contextlib.nullcontext():
            client = _connected(distributed, self.address) if own else self.address
            where = client.scheduler.address
            try:
                yield self._results(distributed, client, work)
            except (OSError, distributed.CancelledError):
                if not _gone(client):
                    raise
                raise LostError(f"the scheduler of the cluster at {where} is gone") from None
            finally:
                if own:
                    with contextlib.suppress(OSError, TimeoutError):
                        client.close(timeout=LOOK)

    def _results(self, distributed: Any, client: Any, work: Work) -> Results:
        threads = sum(client.nthreads().values())
        if threads == 0:
            raise UnsupportedError(f"a cluster must have workers, the one at {client.scheduler.address} has none")
        shared = [self._handed_out(client, work)]

        def submit(block: Any) -> Any:
            return client.submit(_run, shared[0], block, pure=False, retries=ATTEMPTS)

        def result(block: Any, future: Any) -> Any:
            for _ in range(ATTEMPTS):
                try:
                    return self._waited(client, future)
                except (distributed.CancelledError, distributed.KilledWorker):
                    # The specification went with the last worker that held it: hand it out again.
                    self._peopled(client)
                    shared[0] = self._handed_out(client, work)
                    future = submit(block)
            return self._waited(client, future)

        def drop(future: Any) -> None:
            if client.status == "running":
                future.cancel()

        return in_order(submit, result, 2 * threads + 1, drop)

    def _handed_out(self, client: Any, work: Work) -> Any:
        """The specification, at every worker. One that dies meanwhile breaks the connection: it goes to those who are there then."""
        for left in reversed(range(ATTEMPTS)):
            try:
                return client.scatter(work, broadcast=True, hash=False)
            except OSError:
                if left == 0 or _gone(client):
                    raise
                self._peopled(client)
        raise AssertionError("the last attempt returns or raises")

    def _waited(self, client: Any, future: Any) -> Any:
        """A block's result; while it takes long, whether anybody is there to compute it."""
        while True:
            try:
                return future.result(timeout=LOOK)
            except TimeoutError:
                self._peopled(client)

    def _peopled(self, client: Any) -> None:
        """Wait until the cluster has a worker."""
        begun = time.monotonic()
        while not client.nthreads():
            if time.monotonic() - begun > self.patience:
                raise LostError(f"the cluster at {client.scheduler.address} has had no workers for {self.patience:g} s")
            time.sleep(0.2)


def _gone(client: Any) -> bool:
    """Whether the scheduler is gone. A connection that breaks is seen where it is read, a moment before the client notices."""
    until = time.monotonic() + NOTICE
    while client.status == "running" and time.monotonic() < until:
        time.sleep(0.05)
    return bool(client.status != "running")


@contextmanager
def _quiet() -> Iterator[None]:
    """What Dask logs of connections that break is said by our own one line."""
    loggers = [logging.getLogger(name) for name in ("distributed", "distributed.client", "distributed.comm", "tornado")]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)


def _distributed() -> Any:
    try:
        return import_module("distributed")
    except ImportError:
        raise UnsupportedError("a cluster needs dask.distributed: install fairpost[cluster]") from None


def _connected(distributed: Any, address: str) -> Any:
    try:
        return distributed.Client(address)
    except (OSError, ValueError, TimeoutError) as error:
        raise ParameterError(f"`cluster` must be the address of a Dask scheduler, got {address!r}: {error}") from None
