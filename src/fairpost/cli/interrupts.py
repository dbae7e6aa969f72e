"""Ctrl-C in a command: at once, but never in the middle of an import or of a kernel that compiles.

There an exception may vanish in somebody's callback, or become another error; few packages can be imported a second time. So the
interrupt waits until the kernel is compiled (a second or so), or until the import is done, for at most PATIENCE seconds: the
signal is sent again a moment later. A second Ctrl-C while a kernel compiles is raised at once.

Signals come to the main thread alone; other threads end before the next kernel that they compile.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from fairpost import compiled

PATIENCE, MOMENT = 3.0, 0.02
"""Seconds that an interrupt waits for imports at most, and between two looks."""


class _Watch:
    compiling = 0
    """Kernels that the main thread compiles: one calls for another."""
    pressed, put_off = False, False
    since = 0.0
    """When an interrupt first found an import under way; 0 where none waits."""

    def handler(self, number: int, frame: FrameType | None) -> None:
        self.pressed = True
        if self.compiling and not self.put_off:
            self.put_off = True
            return
        self.since = self.since or time.monotonic()
        if _importing(frame) and time.monotonic() - self.since < PATIENCE:
            again = threading.Timer(MOMENT, _send, (number,))
            again.daemon = True
            again.start()
            return
        self.put_off, self.since = False, 0.0
        signal.default_int_handler(number, frame)

    def told(self, name: str | None) -> None:
        """A kernel begins to compile, or ends."""
        if threading.current_thread() is not threading.main_thread():
            if self.pressed:
                raise KeyboardInterrupt
            return
        self.compiling += -1 if name is None else 1
        if self.put_off:
            self.put_off = False
            raise KeyboardInterrupt


def _importing(frame: FrameType | None) -> bool:
    while frame is not None and not frame.f_code.co_filename.startswith("<frozen importlib"):
        frame = frame.f_back
    return frame is not None


def _send(number: int) -> None:
    """To the main thread: a signal that another thread receives does not wake it from a sleep."""
    main = threading.main_thread().ident
    if main is not None and hasattr(signal, "pthread_kill"):
        signal.pthread_kill(main, number)
    else:
        signal.raise_signal(number)


@contextmanager
def noticed() -> Iterator[None]:
    """Our handler instead of Python's own; another one (a notebook's, a program's) stays."""
    ours = threading.current_thread() is threading.main_thread()
    if not ours or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    watch = _Watch()
    signal.signal(signal.SIGINT, watch.handler)
    try:
        with compiled.told(watch.told):
            yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
