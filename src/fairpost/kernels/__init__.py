"""Numba kernels: arrays in, arrays out, no checks. Compiled on first use and cached beside the source.

Numba keys a cached kernel by the file that defines it, so a change in one kernel file would leave the machine code of
its callers in other files as it was. Importing this package therefore compares a hash of all kernel sources with the one
that the cache was made for, and drops the cache where they differ.
"""

import contextlib
import hashlib
from pathlib import Path


def _drop_stale_cache() -> None:
    folder = Path(__file__).parent
    digest = hashlib.sha256()
    for source in sorted(folder.glob("*.py")):
        digest.update(source.read_bytes())
    stamp = folder / "__pycache__" / "kernels.sha256"
    with contextlib.suppress(OSError):  # a read-only installation keeps its files, which do not change there
        if not stamp.exists() or stamp.read_text() != digest.hexdigest():
            for old in stamp.parent.glob("*.nb[ci]"):
                old.unlink(missing_ok=True)
            stamp.parent.mkdir(exist_ok=True)
            stamp.write_text(digest.hexdigest())


_drop_stale_cache()
