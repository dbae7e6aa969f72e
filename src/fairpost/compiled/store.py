"""Where compiled kernels are kept, and who is told that one compiles. Numba is imported where its versions are asked for."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

FOLDER = re.compile(r"kernels-[0-9a-f]{24}")
KEPT = 14 * 86400.0
"""Seconds for which the kernels of another version stay after their last use."""

_listeners: list[Callable[[str | None], None]] = []


@contextlib.contextmanager
def told(listener: Callable[[str | None], None]) -> Iterator[None]:
    """Tell `listener` the name of each kernel as it begins to compile, and None as it ends."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def tell(name: str | None) -> None:
    """Those who listen: an error of theirs ends the compiling."""
    for listener in list(_listeners):
        listener(name)


def root() -> Path:
    """FAIRPOST_CACHE, Numba's own NUMBA_CACHE_DIR, or the usual place of this system."""
    if given := os.environ.get("FAIRPOST_CACHE") or os.environ.get("NUMBA_CACHE_DIR"):
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
    found = [p for place in (*package.rglob("kernels"), Path(__file__).parent) for p in place.glob("*.py")]
    return sorted(found)


@cache
def folder() -> Path | None:
    """The folder of these sources on this machine, made where it is not there; None, and a line, where there can be none."""
    try:
        digest, files = hashlib.sha256(_machine().encode()), sources()
        if not files:
            raise OSError("the kernels' sources are not files")
        for path in files:
            digest.update(f"\n{path}\n".encode() + hashlib.sha256(path.read_bytes()).digest())
        place = root().absolute()
        mine = place / f"kernels-{digest.hexdigest()[:24]}"
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not mine.is_dir():
            _sweep(place)
            mine.mkdir(mode=0o700, exist_ok=True)
        found = os.lstat(mine)
        foreign = hasattr(os, "geteuid") and found.st_uid not in (0, os.geteuid())
        if not stat.S_ISDIR(found.st_mode) or foreign or (os.name == "posix" and found.st_mode & 0o022):
            raise OSError(f"{mine} must be a folder of this user that nobody else can write to")
        tempfile.TemporaryFile(dir=mine).close()
        os.utime(mine)  # still in use: other versions leave it alone
    except OSError as error:
        reason, where = error.strerror or str(error), f" ({error.filename})" if error.filename else ""
        print(f"fairpost: compiled kernels are not kept for the next run: {reason}{where}", file=sys.stderr)
        return None
    return mine


def _machine() -> str:
    """What machine code depends on besides the sources; a setting of Numba's changes it, or may."""
    import llvmlite
    import numba
    import numpy as np
    from llvmlite import binding as llvm

    versions = [sys.version, numba.__version__, llvmlite.__version__, np.__version__]
    settings = sorted(f"{k}={v}" for k, v in os.environ.items() if k.startswith("NUMBA_") and k != "NUMBA_CACHE_DIR")
    return "\n".join([*versions, *settings, llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()])


def _sweep(place: Path) -> None:
    """Remove the folders of other versions that nobody has used for long: ours by name."""
    for path in place.iterdir():
        if FOLDER.fullmatch(path.name) and not path.is_symlink():
            with contextlib.suppress(OSError):
                if time.time() - path.stat().st_mtime > KEPT:
                    shutil.rmtree(path)
