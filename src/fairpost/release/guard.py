"""What keeps true counts inside this process: no core file, no debugger, no value in a message, no half-made noise.

Not kept: swap (an administrator's matter: encrypted swap, or none) and the time that the sampler takes.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, TypeVar

from fairpost.errors import FairpostError, UnsupportedError

T = TypeVar("T")
PR_GET_DUMPABLE, PR_SET_DUMPABLE = 3, 4


def _prctl(option: int, value: int = 0) -> int | None:
    if sys.platform != "linux":
        return None
    import ctypes

    return int(ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0))


def harden() -> None:
    """No core file of this process or of those that it starts, and no other process of the user may read its memory."""
    with suppress(ImportError):
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_CORE)
        resource.setrlimit(resource.RLIMIT_CORE, (0, hard))
    _prctl(PR_SET_DUMPABLE, 0)


@contextmanager
def hardened() -> Iterator[None]:
    """`harden` for a while, for callers in Python; afterwards the process is as it was."""
    try:
        import resource
    except ImportError:  # Windows, where a ledger cannot be opened
        yield
        return
    before, dumpable = resource.getrlimit(resource.RLIMIT_CORE), _prctl(PR_GET_DUMPABLE)
    harden()
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, before)
        if dumpable is not None and dumpable >= 0:
            _prctl(PR_SET_DUMPABLE, min(dumpable, 1))


class Stopped(BaseException):
    """A signal asked this process to stop. Not an `Exception`, so that nothing swallows it."""


@contextmanager
def stoppable() -> Iterator[None]:
    """SIGTERM (and SIGHUP) end the work like an interrupt, through every `finally`, instead of at once."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise Stopped(signal.Signals(number).name)

    with _handlers(stop, ("SIGTERM", "SIGHUP")):
        yield


@contextmanager
def undisturbed(say: Any = None) -> Iterator[None]:
    """From the charge until the noise is kept, the first signal waits: stopping in between would waste the charge.

    A second signal stops at once.
    """
    asked: list[str] = []

    def wait(number: int, frame: FrameType | None) -> None:
        name = signal.Signals(number).name
        if asked:
            raise Stopped(name)
        asked.append(name)
        if say is not None:
            say(f"{name}: stops when the noise that is charged is kept; once more stops now and wastes the charge")

    with _handlers(wait, ("SIGTERM", "SIGHUP", "SIGINT")):
        yield
    if asked:
        raise Stopped(asked[0])


@contextmanager
def _handlers(handler: Any, names: tuple[str, ...]) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {}
    try:
        for name in names:
            number = getattr(signal, name, None)
            if number and signal.getsignal(number) is not signal.SIG_IGN:  # `nohup` stays what it is
                before[number] = signal.signal(number, handler)
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, signal.SIG_DFL if old is None else old)


def refuse_dask(source: Any) -> None:
    """True counts do not travel over a cluster's wires for a release."""
    home = type(source).__module__.partition(".")[0]
    inside = False
    if "distributed" in sys.modules:
        with suppress(Exception):
            sys.modules["distributed"].get_worker()
            inside = True
    if home in ("dask", "distributed", "dask_expr") or inside:
        raise UnsupportedError(
            "a release runs in one process on one machine: Dask is refused, got it as the source or the place"
        )


def place_of(error: BaseException) -> str:
    """Where an unexpected error came from, without its message, which may hold a count."""
    trace, place = error.__traceback__, "?"
    while trace is not None:
        code = trace.tb_frame.f_code
        place = f"{os.path.basename(code.co_filename)}:{trace.tb_lineno}"
        trace = trace.tb_next
    return f"{type(error).__name__} at {place}"


def refusal_of(error: Exception) -> str:
    """What the system refuses, by its number and the file's name; an empty text for every other error."""
    if not isinstance(error, OSError) or error.errno is None:
        return ""
    place = f" ({os.fsdecode(error.filename)})" if isinstance(error.filename, str | bytes) else ""
    return f"the system refuses to read or write: {os.strerror(error.errno)}{place}"


def silently(work: Callable[[], T]) -> T:
    """The work, where an error that nobody planned becomes its type and place: its message and its locals stay here.

    What the system refuses (a full disk, a quota, a limit on the size of files) is said in the system's words.
    A function and not a context manager, because what is raised by the latter carries the old error along.
    """
    try:
        return work()
    except (FairpostError, MemoryError):
        raise
    except Exception as error:
        refused, place = refusal_of(error), place_of(error)
    raise FairpostError(refused or f"the release failed on an error that is a defect of fairpost: {place}")
