"""Work under way: the latest request of a tab wins, and what shows the reader something goes before what prepares.

A tab has lanes (the picture, the plan, ...). A new request in a lane withdraws the one before it (`cancel`), and engines
stop between two of their steps. Preparation (the sweep behind the slider) waits while a reader waits.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from typing import Any, TypeVar

from fairpost import cancel
from fairpost.errors import ParameterError

T = TypeVar("T")
NEWER = "a newer request of this tab took its place"
STOPPED = "stopped by the reader"
GONE = "the data were forgotten"
BEHIND = ("plan", "sweep", "frontier")
"""Lanes that prepare or follow; whoever moves the slider goes first."""
THREADS = 32
"""Most of them wait for their turn; what is only looked up must not wait for them."""
AT_ONCE = 2
TABS = 64
"""Tabs whose requests may be under way at once."""


class Jobs:
    """Requests under way, by tab and lane."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="fairpost-explore")
        self._lock = threading.Lock()
        self._idle = threading.Condition(self._lock)
        self._running: dict[tuple[str, str], cancel.Token] = {}
        self._shown = 0
        self._turns = threading.BoundedSemaphore(AT_ONCE)

    def submit(self, tab: str, lane: str, work: Callable[[], T], token: cancel.Token) -> Future[T]:
        """Begin, after withdrawing what this tab had under way in this lane; the lanes in BEHIND give way to all others."""
        with self._lock:
            before = self._running.get((tab, lane))
            if before is None and len(self._running) >= TABS:
                raise ParameterError(f"at most {TABS} requests may be under way, got one more")
            self._running[tab, lane] = token
        if before is not None:
            before.cancel(NEWER)

        def run() -> T:
            with nullcontext() if lane in BEHIND else self._in_front(), cancel.by(token):
                try:
                    cancel.check()
                    return work()
                finally:
                    with self._lock:
                        if self._running.get((tab, lane)) is token:
                            del self._running[tab, lane]

        return self._pool.submit(run)

    def stop(self, tab: str, lane: str | None = None, reason: str = STOPPED) -> int:
        """Withdraw what a tab has under way in a lane (None: in all); how many there were."""
        with self._lock:
            found = [t for (who, where), t in self._running.items() if who == tab and lane in (None, where)]
        for token in found:
            token.cancel(reason)
        return len(found)

    def stop_all(self, reason: str = GONE) -> None:
        """Withdraw everything."""
        with self._lock:
            found = list(self._running.values())
        for token in found:
            token.cancel(reason)

    def close(self) -> None:
        """The end: nothing new begins."""
        self.stop_all("the server ends")
        self._pool.shutdown(wait=False, cancel_futures=True)

    @contextmanager
    def _in_front(self) -> Iterator[None]:
        with self._lock:
            self._shown += 1
        try:
            yield
        finally:
            with self._lock:
                self._shown -= 1
                self._idle.notify_all()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Around what an engine computes: at most AT_ONCE at a time, for each uses all cores and its share of memory."""
        while not self._turns.acquire(timeout=0.05):
            cancel.check()
        try:
            cancel.check()
            yield
        finally:
            self._turns.release()

    def behind(self) -> None:
        """Preparation waits here until no reader waits; `Cancelled` once it is withdrawn."""
        with self._idle:
            while self._shown > 0 and not cancel.requested():
                self._idle.wait(0.05)
        cancel.check()


def event(name: str, **more: Any) -> dict[str, Any]:
    """One line of a stream."""
    return {"event": name, **more}
