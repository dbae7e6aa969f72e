"""Where confidential files may lie, and how they are made: owner-only, on a disk of this machine, whole or absent."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fairpost.errors import FairpostError, InputError
from fairpost.whole import sync, sync_folder

NETWORK = {
    "nfs", "nfs4", "cifs", "smb", "smb2", "smb3", "smbfs", "afpfs", "webdav", "davfs", "ncpfs", "afs", "coda", "ceph",
    "lustre", "gpfs", "beegfs", "glusterfs", "gfs", "gfs2", "ocfs2", "orangefs", "9p", "v9fs", "vboxsf", "vmhgfs", "prl_fs",
}  # fmt: skip
"""File systems whose locks or syncs another machine answers for, or that several machines write."""
PATIENCE = 600.0
"""Seconds to wait for a process with the same request: 8 million counts take two minutes."""
LOCAL_FUSE = {"fuseblk", "fuse.fuse-overlayfs", "fuse.ntfs-3g", "fuse.bindfs"}
"""FUSE file systems on a disk of this machine; every other FUSE is taken for a network."""


def kind_of(path: Path) -> str | None:
    """The type of the file system that holds a path; None where the system does not tell."""
    if sys.platform == "linux":
        return _by_mounts(path, _mounts(os.fsdecode(Path("/proc/self/mountinfo").read_bytes())))
    if sys.platform == "darwin":
        done = subprocess.run(["/sbin/mount"], capture_output=True, encoding="utf-8", check=False)
        table = {}
        for line in done.stdout.splitlines():
            place, _, rest = line.partition(" on ")[2].rpartition(" (")
            table[place] = rest.partition(",")[0].rstrip(")")
        return _by_mounts(path, table)
    return None


def _mounts(text: str) -> dict[str, str]:
    """Mount point to type, out of /proc/self/mountinfo; a later mount hides an earlier one."""
    table = {}
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        point = re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), before.split()[4])  # a blank is \\040
        table[point] = after.split()[0]
    return table


def _by_mounts(path: Path, table: dict[str, str]) -> str | None:
    real = Path(os.path.realpath(path))
    for place in (real, *real.parents):
        if str(place) in table:
            return table[str(place)]
    return None


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
    fd = _acquired(path, wait, say)
    if fd is None:
        yield False
        return
    try:
        yield True
    finally:
        with suppress(OSError):
            path.unlink()
        os.close(fd)


def _acquired(path: Path, wait: bool, say: Callable[[str], None] | None) -> int | None:
    """The open file of the lock, with our number in it; None where it is taken and nobody wants to wait."""
    import fcntl

    start, pause, said = time.monotonic(), 0.005, False
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _same(fd, path):
                with suppress(OSError):  # a full disk, which is found where it matters
                    os.truncate(fd, 0)
                    os.pwrite(fd, str(os.getpid()).encode(), 0)
                return fd
            os.close(fd)
            continue
        except BlockingIOError:
            holder = _holder(fd)
            os.close(fd)
        except BaseException:
            os.close(fd)
            raise
        waited = time.monotonic() - start
        if not wait:
            return None
        if waited > PATIENCE:
            raise FairpostError(
                f"{path.parent}: {holder} is at work on the same request, and it did not end within {waited:.0f} seconds; "
                "nothing was charged or drawn here, and the same command can be given again"
            )
        if say is not None and not said and waited > 1:
            said = True
            say(f"waits for {holder}, which is at work on the same request")
        time.sleep(pause)
        pause = min(2 * pause, 0.25)


def _holder(fd: int) -> str:
    """Who has the lock: the number that lies in it, where one does by now."""
    text = os.pread(fd, 20, 0).decode("ascii", "replace")
    return f"process {text}" if text.isdecimal() else "another process"


def _same(fd: int, path: Path) -> bool:
    try:
        found = path.stat()
    except FileNotFoundError:
        return False
    mine = os.fstat(fd)
    return (found.st_ino, found.st_dev) == (mine.st_ino, mine.st_dev)
