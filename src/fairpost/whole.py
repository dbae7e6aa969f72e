"""Files that appear whole or not at all, owner-only where they must be; the one place where such a file is made.

A file is written under another name in the folder where it belongs, brought to the disk and renamed. A reader sees the
old one or the new one. What is computed from true counts is `private`: its mode is 0600 from the first moment, under
either name, whatever the umask says and whatever mode the file had that it replaces.

A kill between the two steps leaves the other name behind. It says who wrote it,

    .fairpost-<machine>-<process>-<mark>.tmp (.old, .part),

so the next writer into that folder can tell a dead writer's file from that of a living one and removes it (`sweep`).
"machine" is a digest of the host, its last start and the process namespace: only inside these is a process number a name.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
import stat
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import BinaryIO

Content = bytes | str | Callable[[BinaryIO], object]
"""Bytes, text (written as UTF-8) or a function that writes into an open binary file."""

PRIVATE, USUAL = 0o600, 0o666
OURS = re.compile(r"\.fairpost-([0-9a-f]{8})-([0-9]+)-[0-9a-f]{12}\.(tmp|old|part)")
STALE = 86400.0
"""Seconds after which a file of another machine's writer, or of a process number in use again, belongs to nobody."""


@cache
def _machine() -> str:
    facts = [os.uname().nodename if hasattr(os, "uname") else os.environ.get("COMPUTERNAME", "")]
    with suppress(OSError):
        facts.append(Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii"))
    with suppress(OSError):
        facts.append(os.readlink("/proc/self/ns/pid"))
    return hashlib.sha256("\n".join(facts).encode(errors="replace")).hexdigest()[:8]


def beside(target: Path, *ends: str) -> list[Path]:
    """Names for this writer in the target's folder, one per end (tmp, old, part), with the same mark."""
    stem = f".fairpost-{_machine()}-{os.getpid()}-{secrets.token_hex(6)}"
    return [target.with_name(f"{stem}.{end}") for end in ends]


def fill(path: Path, content: Content, *, private: bool = True) -> None:
    """Make a new file of this content, on the disk when this returns; an OSError where the name is taken."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), PRIVATE if private else USUAL)
    with os.fdopen(fd, "wb") as file:
        if private and hasattr(os, "fchmod"):
            os.fchmod(file.fileno(), PRIVATE)  # a umask or a default list of the folder may have changed it
        if callable(content):
            content(file)
        else:
            file.write(content if isinstance(content, bytes) else content.encode())
        file.flush()
        sync(file.fileno())


def write(target: Path, content: Content, *, private: bool = True) -> None:
    """One file, whole or not at all, in the place of what was there."""
    place = Path(os.path.realpath(target))
    sweep(place.parent)
    (fresh,) = beside(place, "tmp")
    try:
        fill(fresh, content, private=private)
        fresh.replace(place)
    finally:
        with suppress(OSError):
            fresh.unlink()
    with suppress(OSError):
        sync_folder(place.parent)


def sync(fd: int) -> None:
    """To the disk, past its cache where the system can (macOS needs F_FULLFSYNC)."""
    if sys.platform == "darwin":
        import fcntl

        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
    else:
        os.fsync(fd)


def sync_folder(path: Path) -> None:
    """The names in a folder, to the disk."""
    if os.name != "posix":
        return
    fd = os.open(path, os.O_RDONLY)
    try:
        sync(fd)
    finally:
        os.close(fd)


def sweep(folder: Path) -> None:
    """Remove what dead writers of this user have left in a folder: by name, owner, and whether the writer can live.

    A folder that ends in .old stays: it may be the only copy of what was to be replaced.
    """
    with suppress(OSError):
        for entry in list(os.scandir(folder)):
            ours = OURS.fullmatch(entry.name)
            if ours is not None:
                with suppress(OSError):
                    _remove(entry, ours)


def _remove(entry: os.DirEntry[str], ours: re.Match[str]) -> None:
    found = entry.stat(follow_symlinks=False)
    if hasattr(os, "geteuid") and found.st_uid != os.geteuid():
        return
    if not _dead(ours[1], int(ours[2])) and time.time() - found.st_mtime < STALE:
        return
    if stat.S_ISREG(found.st_mode) and ours[3] != "part":
        os.unlink(entry.path)
    elif stat.S_ISDIR(found.st_mode) and ours[3] == "part":
        shutil.rmtree(entry.path, ignore_errors=True)


def _dead(machine: str, process: int) -> bool:
    """Whether no process of that number exists on this machine; False where nobody can tell."""
    if machine != _machine() or os.name != "posix":
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    return False
