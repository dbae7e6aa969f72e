"""Where compiled kernels are kept between runs: a folder of the user's, one file a kernel and signature.

The folder's name is a hash of every kernel's source, of the versions that make machine code and of the processor. A kernel
is compiled into its callers, so one changed line anywhere makes all of them anew. Files are read back with pickle, which
runs what it reads: the folder is the user's alone (or root's), and a file that is not as it was written is passed over.

Processes may share the folder: a file appears whole or not at all, and all writers of a name write the same.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pickle
import re
import secrets
import stat
import sys
import time
from functools import cache
from pathlib import Path
from typing import Any

MAGIC = b"fairpost kernel 1\n"
SUFFIX = ".kernel"
FOLDER = re.compile(r"kernels-[0-9a-f]{24}")
KEPT = 14 * 86400.0
"""Seconds for which the kernels of another version stay after their last use."""
STALE = 3600.0
"""Seconds after which a file that was never finished belongs to nobody."""
SWEPT = 8
"""Folders removed by one process at most."""


def root() -> Path:
    """FAIRPOST_CACHE, or the usual place of this system."""
    given = os.environ.get("FAIRPOST_CACHE")
    if given:
        return Path(given)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or _home() / "AppData" / "Local") / "fairpost" / "Cache"
    if sys.platform == "darwin":
        return _home() / "Library" / "Caches" / "fairpost"
    xdg = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(xdg) if os.path.isabs(xdg) else _home() / ".cache") / "fairpost"


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError:
        raise OSError("there is no home folder; FAIRPOST_CACHE can name a folder") from None


def sources() -> list[Path]:
    """Every file that makes machine code: those in folders `kernels`, and this package."""
    package = Path(__file__).parent.parent
    found = [p for folder in package.rglob("kernels") for p in folder.glob("*.py*")]
    found += Path(__file__).parent.glob("*.py*")
    return sorted(p for p in found if p.suffix in (".py", ".pyc"))


@cache
def _source_hash() -> bytes:
    digest = hashlib.sha256()
    package = Path(__file__).parent.parent
    for path in sources():
        digest.update(f"{path.relative_to(package).as_posix()}\n".encode() + hashlib.sha256(path.read_bytes()).digest())
    return digest.digest()


@cache
def folder(machine: str) -> Path | None:
    """The folder of this version on this machine, made where it is not there; None where there can be none."""
    try:
        if not sources():
            raise OSError("the kernels' sources are not files")
        place = root()
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        key = hashlib.sha256(_source_hash() + machine.encode()).hexdigest()[:24]
        mine = place / f"kernels-{key}"
        with contextlib.suppress(FileExistsError):
            mine.mkdir(mode=0o700)
            _sweep(place, mine)
        if not mine.is_dir() or not _trusted(os.lstat(mine)):
            raise OSError(f"{mine} must be a folder of this user that nobody else can write to")
    except OSError as error:
        _say(error)
        return None
    if time.time() - mine.stat().st_mtime > 0.1 * KEPT:
        with contextlib.suppress(OSError):
            os.utime(mine)  # still in use: other versions leave it alone
    return mine


def _trusted(found: os.stat_result) -> bool:
    if sys.platform == "win32":
        return True
    return found.st_uid in (0, os.geteuid()) and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _sweep(place: Path, mine: Path) -> None:
    """Remove the folders of other versions that nobody has used for long: ours by name, and only our files in them."""
    old = [p for p in place.iterdir() if FOLDER.fullmatch(p.name) and p != mine and not p.is_symlink()]
    for path in sorted(old)[:SWEPT]:
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > KEPT:
                for file in path.iterdir():
                    if SUFFIX in file.name:
                        file.unlink()
                path.rmdir()


@cache
def _say(error: OSError) -> None:
    """One line, once a process."""
    if not getattr(_say, "said", False):
        _say.said = True  # type: ignore[attr-defined]
        reason = error.strerror or str(error)
        place = f" ({error.filename})" if error.filename else ""
        print(f"fairpost: compiled kernels are not kept for the next run: {reason}{place}", file=sys.stderr)


def _path(place: Path, name: str, key: str) -> Path:
    return place / f"{name.removeprefix('fairpost.')}-{hashlib.sha256(key.encode()).hexdigest()[:24]}{SUFFIX}"


def load(machine: str, name: str, key: str) -> Any:
    """What was saved, or None: not there, not ours, or not as it was written."""
    place = folder(machine)
    if place is None:
        return None
    try:
        with _path(place, name, key).open("rb") as file:
            if not _trusted(os.fstat(file.fileno())):
                return None
            data = file.read()
        head, body = data[: len(MAGIC) + 32], data[len(MAGIC) + 32 :]
        if head != MAGIC + hashlib.sha256(key.encode() + body).digest():
            return None
        return pickle.loads(body)
    except FileNotFoundError:
        return None
    except Exception:
        return None  # the kernel is compiled, and the file written anew


def save(machine: str, name: str, key: str, body: bytes) -> None:
    """Write one file, whole or not at all; where that fails the kernel is compiled again next time."""
    place = folder(machine)
    if place is None:
        return
    path = _path(place, name, key)
    unfinished = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    try:
        fd = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(fd, "wb") as file:
                file.write(MAGIC + hashlib.sha256(key.encode() + body).digest() + body)
            os.replace(unfinished, path)
        except BaseException:
            with contextlib.suppress(OSError):
                unfinished.unlink()
            raise
    except OSError as error:
        _say(error)
