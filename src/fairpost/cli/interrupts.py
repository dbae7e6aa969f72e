"""Ctrl-C in a command: `KeyboardInterrupt` in the main thread, wherever it is, but

- in the middle of an import, where it may become another error (and few packages can be imported a second time), it waits until
  the import is done, for at most PATIENCE seconds;
- where it vanishes in somebody's callback (LLVM's, a destructor) it is sent again, or raised again where the kernel ends;
- other threads, to which no signal comes, end before the next kernel that they compile.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from fairpost import compiled

PATIENCE, MOMENT = 3.0, 0.02
"""Seconds that an interrupt waits for imports at most, and between two looks."""


class _Watch:
    pressed, since = False, 0.0
    """Whether there was one; when it first found an import under way, 0 where none waits."""
    compiling, lost = 0, False
    """Kernels that the main thread compiles, one within the other; whether an interrupt may have got lost there."""

    def handler(self, number: int, frame: FrameType | None) -> None:
        self.pressed, self.lost = True, self.compiling > 0
        self.since = self.since or time.monotonic()
        if _importing(frame) and time.monotonic() - self.since < PATIENCE:
            _send_later()
            return
        self.since = 0.0
        signal.default_int_handler(number, frame)

    def told(self, name: str | None) -> None:
        """A kernel begins to compile, or ends."""
        main = threading.current_thread() is threading.main_thread()
        if main:
            self.compiling += -1 if name is None else 1
        if self.lost if main else self.pressed:
            self.lost = self.lost and not main
            raise KeyboardInterrupt

    def wake(self, end: int) -> None:
        """The main thread may sleep on, until another thread is done: Polars has system calls restarted after a signal."""
        while number := os.read(end, 1):
            while number[0] == signal.SIGINT and not self.pressed:
                _send()
                time.sleep(MOMENT)


def _importing(frame: FrameType | None) -> bool:
    while frame is not None and not frame.f_code.co_filename.startswith("<frozen importlib"):
        frame = frame.f_back
    return frame is not None


def _send() -> None:
    """To the main thread, which one that another thread receives would not wake."""
    if hasattr(signal, "siginterrupt"):
        signal.siginterrupt(signal.SIGINT, True)
    main = threading.main_thread().ident
    if main is not None and hasattr(signal, "pthread_kill"):
        signal.pthread_kill(main, signal.SIGINT)
    else:
        signal.raise_signal(signal.SIGINT)


def _send_later() -> None:
    again = threading.Timer(MOMENT, _send)
    again.daemon = True
    again.start()


def _ignored(what: Any) -> None:
    """Python says on stderr which exceptions vanish."""
    if issubclass(what.exc_type, KeyboardInterrupt):
        _send_later()
    else:
        sys.__unraisablehook__(what)


@contextmanager
def noticed() -> Iterator[None]:
    """Our handler instead of Python's own; another one (a notebook's, a program's) stays."""
    ours = threading.current_thread() is threading.main_thread()
    if not ours or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    watch, hook = _Watch(), sys.unraisablehook
    signal.signal(signal.SIGINT, watch.handler)
    sys.unraisablehook = _ignored
    try:
        with compiled.told(watch.told), _woken(watch):
            yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.unraisablehook = hook


@contextmanager
def _woken(watch: _Watch) -> Iterator[None]:
    if not hasattr(signal, "siginterrupt"):  # Windows
        yield
        return
    end, begin = os.pipe()  # Python writes the number of each signal into it as it comes
    os.set_blocking(begin, False)
    before = signal.set_wakeup_fd(begin, warn_on_full_buffer=False)
    thread = threading.Thread(target=watch.wake, args=(end,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        os.close(begin)
        thread.join()
        os.close(end)
