"""A file from which a long simulation goes on: the merged blocks, written whole or not at all.

The file is written whole and owner-only (`fairpost.whole`). A fingerprint says what the state belongs to: counts or a tree,
noise, post-processings, seed and size of a block. The file is

    HEAD | H("job", fingerprint) | HMAC(fingerprint, body) | body,      H = SHA-256,

with the arrays of the state, in their order, as the body. HEAD tells another version's file, whose sums may mean something
else; the second part another command's; the third a damaged or a made-up one. The fingerprint itself is not in the file and is
a digest of the true counts: who does not know these cannot make a file that is accepted. (Who knows them and may write the file
can; that is not guarded against.) The shapes follow from the job, so the length is known before anything is read, and nothing in
the file is interpreted.
"""

from __future__ import annotations

import dataclasses
import hashlib
import hmac
import os
import stat
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from fairpost import __version__, whole
from fairpost.errors import ParameterError

LAYOUT = 7
"""Changes with what the kernels sum and how, and with the layout of the file."""
MAGIC = b"fairpost checkpoint"
HEAD = MAGIC + f" {LAYOUT} {__version__}\n".encode()


class Sums(Protocol):
    """What a simulation adds up, of a list or of a hierarchy."""

    def state(self) -> dict[str, Any]:
        """The arrays that change, by name; their shapes follow from the job."""


def fingerprint(parts: Iterable[Any]) -> str:
    """A digest of numbers, text, arrays, sequences, mappings, dataclasses, sparse matrices and functions."""
    digest = hashlib.sha256()
    for part in parts:
        _feed(digest.update, part)
    return digest.hexdigest()


def _feed(put: Callable[[bytes], None], part: Any) -> None:
    put(type(part).__qualname__.encode() + b"(")
    if isinstance(part, np.ndarray):
        put(f"{part.dtype}{part.shape}".encode())
        put(np.ascontiguousarray(part).tobytes())
    elif dataclasses.is_dataclass(part) and not isinstance(part, type):
        for field in dataclasses.fields(part):
            if field.init:
                _feed(put, getattr(part, field.name))
    elif isinstance(part, dict):
        for key in sorted(part, key=str):
            _feed(put, (key, part[key]))
    elif isinstance(part, (list, tuple)):
        for item in part:
            _feed(put, item)
    elif hasattr(part, "tocsr"):
        for item in (part.shape, part.tocsr().data, part.tocsr().indices, part.tocsr().indptr):
            _feed(put, item)
    elif callable(part):
        code = getattr(part, "__code__", None)
        put(getattr(part, "__qualname__", type(part).__qualname__).encode())
        put(b"" if code is None else code.co_code + repr(code.co_names).encode())
    else:
        put(repr(part).encode())
    put(b")")


@dataclasses.dataclass
class Checkpoint:
    """The file and what it must belong to."""

    path: Path
    mark: str
    """The fingerprint."""
    every: float
    """Seconds between two states on disk."""
    _saved: float = dataclasses.field(default_factory=time.monotonic, init=False)

    def restore(self, totals: Sums) -> None:
        """Fill the totals from the file; nothing happens where there is none."""
        arrays = list(totals.state().values())
        data = self._read(sum(array.nbytes for array in arrays))
        if data is None:
            return
        job, seal, body = data[:32], data[32:64], data[64:]
        if job != self._job:
            raise ParameterError(
                f"the checkpoint {self.path} belongs to another job: its counts, seed or settings differ"
            )
        if not hmac.compare_digest(seal, self._seal(body)):
            raise ParameterError(f"the checkpoint {self.path} is damaged: its contents are not what was written")
        at = 0
        for array in arrays:
            array[...] = np.frombuffer(body, array.dtype, array.size, at).reshape(array.shape)
            at += array.nbytes

    @property
    def _job(self) -> bytes:
        return hashlib.sha256(b"job" + self.mark.encode()).digest()

    def _seal(self, body: bytes) -> bytes:
        return hmac.digest(self.mark.encode(), body, "sha256")

    def _read(self, size: int) -> bytes | None:
        """What follows HEAD, with a body of `size` bytes where the file belongs to this job; None: no file."""
        try:
            if not stat.S_ISREG(os.stat(self.path).st_mode):
                raise ParameterError(f"the checkpoint {self.path} must be a file, got something else")
            with open(self.path, "rb") as file:
                data = file.read(len(HEAD) + 64 + size + 1)
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise ParameterError(f"the checkpoint {self.path} cannot be read: {reason}") from None
        if data.startswith(MAGIC) and not data.startswith(HEAD) and len(data) > len(HEAD):
            raise ParameterError(
                f"the checkpoint {self.path} was written by another version of fairpost: begin a new one"
            )
        if not data.startswith(HEAD) or len(data) < len(HEAD) + 32:
            raise ParameterError(f"the checkpoint {self.path} is not a checkpoint of fairpost")
        return data[len(HEAD) :]

    @property
    def due(self) -> bool:
        """Whether `every` seconds have passed since the last time."""
        return time.monotonic() - self._saved >= self.every

    def save(self, totals: Sums, *, now: bool = False) -> None:
        """Write the totals where `every` seconds have passed since the last time, or `now`."""
        if not now and not self.due:
            return
        body = b"".join(array.tobytes() for array in totals.state().values())
        try:
            whole.write(self.path, HEAD + self._job + self._seal(body) + body)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise ParameterError(f"the checkpoint {self.path} cannot be written: {reason}") from None
        self._saved = time.monotonic()
