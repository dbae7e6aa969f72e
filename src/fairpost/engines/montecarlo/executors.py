"""Who computes blocks: threads of this process, or the workers of a Dask cluster. Both hand results back in order.

The work is one pure function of a block, so an executor decides nothing about the result. Both keep a few blocks under
way and no more, which bounds the memory. This is the only module that imports Dask.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol

from fairpost.engines.montecarlo.backends import Block, Partial, backend_of
from fairpost.errors import ParameterError, UnsupportedError

Results = Callable[[Iterable[Block]], Iterator[Partial]]
ATTEMPTS = 5
"""How often a block may be lost with its worker before the job fails."""


@dataclass(frozen=True, eq=False)
class Job:
    """What blocks are computed of: a backend by its name, its specification and the seed. Picklable."""

    backend: str
    spec: Any
    seed: int

    def run(self, block: Block) -> Partial:
        """One block."""
        return backend_of(self.backend).run(self.spec, self.seed, block)


def _run(job: Job, block: Block) -> Partial:
    return job.run(block)


class Executor(Protocol):
    """Runs blocks."""

    def session(self, job: Job) -> AbstractContextManager[Results]:
        """A function from blocks to their results, in order; leaving it drops what is still under way."""


def _in_order(
    submit: Callable[[Block], Any], result: Callable[[Block, Any], Partial], window: int, drop: Callable[[Any], None]
) -> Results:
    """At most `window` blocks under way; the oldest is waited for."""

    def results(blocks: Iterable[Block]) -> Iterator[Partial]:
        waiting: deque[tuple[Block, Any]] = deque()
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
    def session(self, job: Job) -> Iterator[Results]:
        """See `Executor`. One thread: no pool."""
        if self.count == 1:
            yield lambda blocks: (job.run(block) for block in blocks)
            return
        pool = ThreadPoolExecutor(self.count, thread_name_prefix="fairpost-runs")
        try:
            yield _in_order(
                lambda block: pool.submit(job.run, block),
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

    @contextmanager
    def session(self, job: Job) -> Iterator[Results]:
        """See `Executor`. A block whose worker dies is computed again elsewhere, to the same bits."""
        distributed = _distributed()
        own = isinstance(self.address, str)
        client = _connected(distributed, self.address) if own else self.address
        try:
            yield self._results(distributed, client, job)
        finally:
            if own:
                client.close()

    def _results(self, distributed: Any, client: Any, job: Job) -> Results:
        threads = sum(client.nthreads().values())
        if threads == 0:
            raise UnsupportedError(f"a cluster must have workers, the one at {client.scheduler.address} has none")
        shared = [client.scatter(job, broadcast=True, hash=False)]

        def submit(block: Block) -> Any:
            return client.submit(_run, shared[0], block, pure=False, retries=ATTEMPTS)

        def result(block: Block, future: Any) -> Partial:
            for _ in range(ATTEMPTS):
                try:
                    return future.result()  # type: ignore[no-any-return]
                except (distributed.CancelledError, distributed.KilledWorker):
                    # The specification went with the last worker that held it: hand it out again.
                    client.wait_for_workers(1)
                    shared[0] = client.scatter(job, broadcast=True, hash=False)
                    future = submit(block)
            return future.result()  # type: ignore[no-any-return]

        return _in_order(submit, result, 2 * threads + 1, lambda future: future.cancel())


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
