"""Threads over slices. Kernels release the interpreter lock, so a plain thread pool is enough."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import cache
from itertools import pairwise
from threading import current_thread
from typing import TypeVar

from fairpost import cancel

T = TypeVar("T")
NAME = "fairpost-slice"


def cores() -> int:
    """The number of processor cores this process may use."""
    try:
        return max(1, len(os.sched_getaffinity(0)))
    except AttributeError:  # not on Linux
        return max(1, os.cpu_count() or 1)


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix=NAME)


if hasattr(os, "register_at_fork"):  # a child has the pool, but none of its threads: it would wait for ever
    os.register_at_fork(after_in_child=_pool.cache_clear)


def slices(n: int, parts: int) -> list[slice]:
    """0..n in at most `parts` contiguous slices of nearly equal length."""
    parts = max(1, min(parts, n))
    edges = [n * k // parts for k in range(parts + 1)]
    return [slice(a, b) for a, b in pairwise(edges)]


def over_slices(task: Callable[[slice], T], n: int, threads: int | None = None) -> list[T]:
    """`task` on each slice of 0..n, one slice per thread; the results in order. One thread: no pool.

    Inside one of its own threads it runs the slices one after the other: a pool that waits for itself never ends.
    A question that was withdrawn (`cancel`) ends before a slice, in every thread: each has the context of the caller.
    """
    parts = slices(n, cores() if threads is None else threads)

    def one(part: slice) -> T:
        cancel.check()
        return task(part)

    if len(parts) == 1 or current_thread().name.startswith(NAME):
        return [one(part) for part in parts]
    futures = [_pool(len(parts)).submit(copy_context().run, one, part) for part in parts]
    try:
        return [future.result() for future in futures]
    finally:
        for future in futures:
            future.cancel()
