"""Ctrl-C while kernels compile, and who is told that they do. No Numba here: it is imported at once.

An exception that arrives in the middle of Numba or LLVM may leave their locks held, or vanish in a callback. So while a
kernel compiles, an interrupt is noted and raised where it harms nothing: before the next kernel. That is some tenths of a
second later. A second interrupt is raised at once.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_state = threading.local()
_noted = threading.Event()
_listeners: list[Callable[[str], None]] = []


def check() -> None:
    """Raise an interrupt that was noted."""
    if _noted.is_set():
        if threading.current_thread() is threading.main_thread():
            _noted.clear()
        raise KeyboardInterrupt


def compiling(name: str) -> None:
    """Tell those who listen that a kernel is about to be compiled."""
    for listener in _listeners:
        listener(name)


@contextmanager
def told(listener: Callable[[str], None]) -> Iterator[None]:
    """Tell `listener` the name of each kernel that is compiled meanwhile."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


@contextmanager
def whole() -> Iterator[None]:
    """No interrupt but between kernels. Only the main thread meets signals; elsewhere nothing changes."""
    depth = getattr(_state, "depth", 0)
    before = signal.getsignal(signal.SIGINT)
    if depth or threading.current_thread() is not threading.main_thread() or before is not signal.default_int_handler:
        check()
        yield
        return

    def note(number: int, frame: Any) -> None:
        if _noted.is_set():
            signal.default_int_handler(number, frame)
        _noted.set()

    _state.depth = 1
    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        _state.depth = 0
        check()
