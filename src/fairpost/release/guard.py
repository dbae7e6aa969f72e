"""What keeps true counts inside this process and its private files: no core file, no debugger, no value in a message, no half-made noise.

Confidential files are owner-only, on a disk of this machine, whole or absent. Not kept: swap (an administrator's matter:
encrypted swap, or none) and the time that the sampler takes.
"""

from __future__ import annotations

import os
import re
import signal
import stat
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

from fairpost.errors import FairpostError, InputError, UnsupportedError
from fairpost.whole import sync, sync_folder

T = TypeVar("T")
PR_GET_DUMPABLE, PR_SET_DUMPABLE = 3, 4
NETWORK = {
    "nfs", "nfs4", "cifs", "smb", "smb2", "smb3", "smbfs", "afpfs", "webdav", "davfs", "ncpfs", "afs", "coda", "ceph",
    "lustre", "gpfs", "beegfs", "glusterfs", "gfs", "gfs2", "ocfs2", "orangefs", "9p", "v9fs", "vboxsf", "vmhgfs", "prl_fs",
}  # fmt: skip
"""File systems whose locks or syncs another machine answers for, or that several machines write."""
PATIENCE = 600.0
"""Seconds to wait for a process with the same request: 8 million counts take two minutes."""
LOCAL_FUSE = {"fuseblk", "fuse.fuse-overlayfs", "fuse.ntfs-3g", "fuse.bindfs"}
"""FUSE file systems on a disk of this machine; every other FUSE is taken for a network."""


def _prctl(option: int, value: int = 0) -> int | None:
    if sys.platform != "linux":
        return None
    import ctypes

    return int(ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0))


def harden() -> int:
    """No core file of this process or of those that it starts, and no other process of the user may read its memory.

    Returns the limit of core files that there was.
    """
    soft = 0
    with suppress(ImportError):  # Windows, where a ledger cannot be opened
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
        resource.setrlimit(resource.RLIMIT_CORE, (0, hard))
    _prctl(PR_SET_DUMPABLE, 0)
    return soft


@contextmanager
def hardened() -> Iterator[None]:
    """`harden` for a while, for callers in Python; afterwards the process is as it was."""
    dumpable, soft = _prctl(PR_GET_DUMPABLE), harden()
    try:
        yield
    finally:
        with suppress(ImportError):
            import resource

            resource.setrlimit(resource.RLIMIT_CORE, (soft, resource.getrlimit(resource.RLIMIT_CORE)[1]))
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
    *_, (frame, line) = traceback.walk_tb(error.__traceback__)
    return f"{type(error).__name__} at {os.path.basename(frame.f_code.co_filename)}:{line}"


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
        said = f"the release failed on an error that is a defect of fairpost: {place_of(error)}"
        if isinstance(error, OSError) and error.errno is not None:
            place = f" ({os.fsdecode(error.filename)})" if isinstance(error.filename, str | bytes) else ""
            said = f"the system refuses to read or write: {os.strerror(error.errno)}{place}"
    raise FairpostError(said)


# -- private files --------------------------------------------------------------------------------------------------


def kind_of(path: Path) -> str | None:
    """The type of the file system that holds a path; None where the system does not tell."""
    table = {}
    if sys.platform == "linux":
        table = mounts(os.fsdecode(Path("/proc/self/mountinfo").read_bytes()))
    elif sys.platform == "darwin":
        done = subprocess.run(["/sbin/mount"], capture_output=True, encoding="utf-8", check=False)
        for line in done.stdout.splitlines():
            place, _, rest = line.partition(" on ")[2].rpartition(" (")
            table[place] = rest.partition(",")[0].rstrip(")")
    return kind_by(path, table)


def mounts(text: str) -> dict[str, str]:
    """Mount point to type, out of /proc/self/mountinfo; a later mount hides an earlier one."""
    table = {}
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        point = re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), before.split()[4])  # a blank is \\040
        table[point] = after.split()[0]
    return table


def kind_by(path: Path, table: dict[str, str]) -> str | None:
    """The type by a table of mount points."""
    real = Path(os.path.realpath(path))
    return next((table[str(place)] for place in (real, *real.parents) if str(place) in table), None)


def refuse_network(path: Path, kind: str | None = None) -> None:
    """A ledger on a network file system is refused: its locks and syncs cannot be trusted."""
    found = kind_of(path) if kind is None else kind
    if found is None:
        return
    if found in NETWORK or (found.startswith("fuse") and found not in LOCAL_FUSE):
        raise InputError(f"{path}: a ledger must lie on a disk of this machine, got a file system of the type {found}")


def refuse_wide(path: Path, most: int = 0o600) -> None:
    """The file (or folder) must be the owner's alone, and be the only name of what it is."""
    found = path.stat()
    mode = stat.S_IMODE(found.st_mode)
    if os.name == "posix" and mode & ~most & 0o777:
        raise InputError(f"{path}: must be readable by its owner only (mode {most:04o} or narrower), got {mode:04o}")
    if stat.S_ISREG(found.st_mode) and found.st_nlink != 1:
        raise InputError(
            f"{path}: must be the only name of the file (a second one misleads SQLite), got {found.st_nlink}"
        )


def private_folder(path: Path) -> Path:
    """The folder, made owner-only where it is not there."""
    with suppress(FileExistsError):
        path.mkdir(mode=0o700)
        sync_folder(path.parent)
    refuse_wide(path, 0o700)
    return path


def create_private(path: Path) -> int:
    """A new owner-only file, open for writing; an error where the name is taken."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o600)


def reserve(path: Path, size: int) -> None:
    """Room on the disk under a name that only the holder of the request's lock uses; what lay there is swept."""
    with suppress(FileNotFoundError):
        path.unlink()
    fd = create_private(path)
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(fd, 0, max(size, 1))
        else:
            os.write(fd, bytes(size))
        sync(fd)
    except OSError as error:
        with suppress(OSError):
            path.unlink()
        raise FairpostError(
            f"{path.parent}: there must be room for the noisy counts ({size} bytes) before anything is charged: "
            f"{error.strerror or type(error).__name__}"
        ) from None
    finally:
        os.close(fd)


@contextmanager
def locked(path: Path, *, wait: bool = True, say: Callable[[str], None] | None = None) -> Iterator[bool]:
    """Hold the lock with this name; yields whether it was had. The system frees it however this process ends.

    The file goes when the lock does, so after locking it must still be the file of that name. It holds the number of the
    process that has it, so that whoever waits can say for whom; who has waited for PATIENCE seconds ends with one line.
    """
    start, pause, said = time.monotonic(), 0.005, False
    while isinstance(fd := _tried(path), str):
        waited = time.monotonic() - start
        if not wait:
            yield False
            return
        if waited > PATIENCE:
            raise FairpostError(
                f"{path.parent}: {fd} is at work on the same request, and it did not end within {waited:.0f} seconds; "
                "nothing was charged or drawn here, and the same command can be given again"
            )
        if say is not None and not said and waited > 1:
            said = True
            say(f"waits for {fd}, which is at work on the same request")
        time.sleep(pause)
        pause = min(2 * pause, 0.25)
    try:
        yield True
    finally:
        with suppress(OSError):
            path.unlink()
        os.close(fd)


def _tried(path: Path) -> int | str:
    """The open file of the lock, with our number in it, or who has it."""
    import fcntl

    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _same(fd, path):
                with suppress(OSError):  # a full disk, which is found where it matters
                    os.truncate(fd, 0)
                    os.pwrite(fd, str(os.getpid()).encode(), 0)
                return fd
        except BlockingIOError:
            text = os.pread(fd, 20, 0).decode("ascii", "replace")
            os.close(fd)
            return f"process {text}" if text.isdecimal() else "another process"
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)


def _same(fd: int, path: Path) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(fd))
    except FileNotFoundError:
        return False
