"""A file from which a long simulation goes on: the merged blocks, written whole or not at all.

The file is written under another name in the same folder, flushed to the disk and then moved into place, so that at
any moment the name holds one whole state. A fingerprint says what the state belongs to: counts, mechanism,
post-processings, seed, size of a block and version; another command's file is refused.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import time
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from fairpost.engines.montecarlo.totals import STATE, Totals
from fairpost.errors import ParameterError

LAYOUT = 3
"""Changes with what the kernels sum and how."""


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

    def restore(self, totals: Totals) -> None:
        """Fill the totals from the file; nothing happens where there is none."""
        if not self.path.exists():
            return
        state = self._read()
        if state.pop("fingerprint").item() != self.mark:
            raise ParameterError(
                f"the checkpoint {self.path} belongs to another job: its counts, seed or settings differ"
            )
        for name, array in totals.state().items():
            if state[name].shape != array.shape:
                raise ParameterError(f"the checkpoint {self.path} does not hold {name} of shape {array.shape}")
            array[...] = state[name]

    def _read(self) -> dict[str, Any]:
        try:
            with open(self.path, "rb") as file, np.load(file, allow_pickle=False) as held:
                state = {name: held[name] for name in held.files}
        except (OSError, ValueError, EOFError, zipfile.BadZipFile, KeyError, TypeError, AttributeError):
            raise ParameterError(f"the checkpoint {self.path} is not a checkpoint of fairpost") from None
        if not {"fingerprint", *STATE} <= set(state):
            raise ParameterError(f"the checkpoint {self.path} is not a checkpoint of fairpost")
        return state

    def save(self, totals: Totals, *, now: bool = False) -> None:
        """Write the totals where `every` seconds have passed since the last time, or `now`."""
        if not now and time.monotonic() - self._saved < self.every:
            return
        beside = self.path.with_name(f".{self.path.name}.{os.getpid()}.part")
        try:
            with open(beside, "wb") as file:
                np.savez(file, fingerprint=np.array(self.mark), **totals.state())  # type: ignore[arg-type]
                file.flush()
                os.fsync(file.fileno())
            os.replace(beside, self.path)
        except OSError as error:
            raise ParameterError(f"the checkpoint {self.path} cannot be written: {error.strerror}") from None
        finally:
            beside.unlink(missing_ok=True)
        self._saved = time.monotonic()
