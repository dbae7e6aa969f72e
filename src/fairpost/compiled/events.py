"""What needs Numba: its decorator with our folder, and its events: who is told of a compile, and whose turn it is."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import numba
from numba.core import event

from fairpost import cancel
from fairpost.compiled.store import folder, tell

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

TURN, MOMENT = 60.0, 0.02
"""Seconds that a process waits for its turn at most, and between two looks."""
_decorating = threading.Lock()


def made(function: Callable[..., Any], place: Path | None, options: dict[str, Any]) -> Any:
    """The kernel of a function. Numba reads where to keep it as it decorates; functions of others stay where they were."""
    with _decorating:
        config: Any = numba.config
        theirs, config.CACHE_DIR = config.CACHE_DIR, str(place or "")
        try:
            return numba.njit(function, nogil=True, cache=place is not None, **options)
        finally:
            config.CACHE_DIR = theirs


class _Compiles(event.Listener):
    """A kernel compiles: a question that was withdrawn ends here, and those who listen are told."""

    def on_start(self, event: Any) -> None:
        function = event.data["dispatcher"].py_func
        tell(f"{function.__module__}.{function.__qualname__}")
        cancel.check()

    def on_end(self, event: Any) -> None:
        tell(None)


class _Turns(event.Listener):
    """One process of a user loads or compiles at a time, and the next finds what it has kept.

    Numba numbers its files: of two processes that compile one kernel for different types, one could overwrite the other's
    and be loaded in its place. After TURN seconds a process goes on by itself.
    """

    def __init__(self) -> None:
        self._guard, self._depth, self._file = threading.Lock(), 0, None

    _file: IO[bytes] | None

    def on_start(self, event: Any) -> None:
        with self._guard:
            if self._depth == 0:
                self._take()
            self._depth += 1

    def on_end(self, event: Any) -> None:
        with self._guard:
            self._depth -= 1
            if self._depth == 0 and self._file is not None:
                self._file.close()
                self._file = None

    def _take(self) -> None:
        place, until = folder(), time.monotonic() + TURN
        if fcntl is not None and place is not None:
            with contextlib.suppress(OSError):  # a file system without locks
                self._file = (place / "turn").open("ab")
                while not _locked(self._file) and time.monotonic() < until:
                    time.sleep(MOMENT)


def _locked(file: IO[bytes]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


event.register("numba:compile", _Compiles())
event.register("numba:compiler_lock", _Turns())
