"""Ctrl-C while kernels compile, and who is told that they do. No Numba here: it is imported at once.

An exception that arrives in the middle of Numba or LLVM may vanish in a callback of theirs, or leave half a kernel behind.
So while a kernel compiles, an interrupt is put off to a place where it harms nothing: before the next kernel, or before the
machine code of this one is made. That is at most a second or two. A second interrupt is raised at once.

So too while a module is imported: some packages catch what passes through their half-made modules and raise another error, and few
can be imported a second time. The signal is sent again a moment later, until the import is done or PATIENCE is over.

Signals come to the main thread alone. Where another thread compiles (a slice of `parallel`, a block of a simulation) the
main thread waits for it, and may sleep through the signal; under `noticed` an interrupt stops the other thread, at the same
places.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

PATIENCE, MOMENT = 3.0, 0.02
"""Seconds that an interrupt waits for imports at most, and between two looks."""


class _State:
    """Plain values: a lock could be held by another thread when the process forks."""

    under_way = 0
    """Kernels that the main thread compiles: one calls for another."""
    put_off = False
    """The main thread has an interrupt to raise."""
    stop = False
    """Other threads have to stop."""
    importing_since = 0.0
    """When an interrupt first found an import under way; 0 where none waits."""
    seen = 0
    """How many interrupts our handler has had."""
    pipe: tuple[int, int] | None = None
    """Python writes the number of each signal into it as it comes."""


_listeners: list[Callable[[str], None]] = []


def check() -> None:
    """Raise an interrupt that was put off."""
    if not _main() and (_State.stop or _arrived()):
        _State.stop = True
        raise KeyboardInterrupt
    if _main() and _State.put_off:
        _State.put_off = False
        raise KeyboardInterrupt


def _main() -> bool:
    return threading.current_thread() is threading.main_thread()


def _arrived() -> bool:
    """Whether a SIGINT has come that the main thread has not seen yet: it may sleep in a lock until we are done."""
    if _State.pipe is None:
        return False
    try:
        return bytes([signal.SIGINT]) in os.read(_State.pipe[0], 4096)
    except BlockingIOError:
        return False


def _handler(number: int, frame: FrameType | None) -> None:
    _State.stop = True
    _State.seen += 1
    if _State.under_way and not _State.put_off:
        _State.put_off = True
        return
    if _importing(frame):
        _State.importing_since = _State.importing_since or time.monotonic()
        if time.monotonic() - _State.importing_since < PATIENCE:
            again = threading.Timer(MOMENT, _send, (number,))
            again.daemon = True
            again.start()
            return
    _State.put_off, _State.importing_since = False, 0.0
    signal.default_int_handler(number, frame)


def _send(number: int) -> None:
    """The signal once more, until our handler has seen it.

    To the main thread: one that another thread receives does not wake it from a sleep; and again, since one that comes on its way
    into a sleep does not either.
    """
    main, seen = threading.main_thread().ident, _State.seen
    while _State.seen == seen and signal.getsignal(signal.SIGINT) is _handler:
        if main is not None and hasattr(signal, "pthread_kill"):
            signal.pthread_kill(main, number)
        else:
            os.kill(os.getpid(), number)
        time.sleep(MOMENT)


def _importing(frame: FrameType | None) -> bool:
    """Whether the main thread is in the middle of an import."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


@contextmanager
def noticed() -> Iterator[None]:
    """Our handler instead of Python's own; another one (a notebook's, a program's) stays."""
    if not _main() or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    _State.put_off, _State.stop, _State.importing_since = False, False, 0.0
    pipe = _State.pipe = os.pipe()
    os.set_blocking(pipe[0], False)
    os.set_blocking(pipe[1], False)
    before = signal.set_wakeup_fd(pipe[1], warn_on_full_buffer=False)
    signal.signal(signal.SIGINT, _handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.set_wakeup_fd(before)
        _State.stop, _State.pipe = False, None
        for end in pipe:
            os.close(end)


@contextmanager
def whole() -> Iterator[None]:
    """Around a kernel: in the main thread an interrupt waits for `check`."""
    if not _main():
        yield
        return
    with noticed():
        _State.under_way += 1
        try:
            yield
        finally:
            _State.under_way -= 1
        if not _State.under_way:
            check()


def compiling(name: str) -> None:
    """A kernel is about to be compiled: the place for an interrupt; those who listen are told."""
    check()
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


def _forget() -> None:
    _State.under_way, _State.put_off, _State.stop = 0, False, False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
