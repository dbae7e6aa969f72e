"""A file from which a long simulation goes on: the blocks so far, written whole or not at all, readable by the owner alone."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import time
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from fairpost.errors import ParameterError
from fairpost.hierarchy.blocks import Totals
from fairpost.hierarchy.spec import Spec

LAYOUT = 1
"""Changes with what the kernels add up and how."""


def fingerprint(spec: Spec, seed: int, version: str, where: str = "cpu") -> str:
    """A digest of what the sums depend on; `where` they are made decides their last bits."""
    digest = hashlib.sha256(
        f"{version} {LAYOUT} {seed} {spec.top} {spec.kind} {spec.rule} {spec.whole} {spec.block}".encode()
    )
    digest.update(b"" if where == "cpu" else where.encode())
    for array in (spec.child, spec.offsets, spec.x, spec.spreads, spec.taus, spec.steeps, spec.cells.labels):
        digest.update(np.ascontiguousarray(array).tobytes())
    for division in spec.divisions:
        digest.update(repr(division.names).encode())
        digest.update(division.labels.tobytes())
    return digest.hexdigest()


@dataclasses.dataclass
class Checkpoint:
    """The file and what it must belong to."""

    path: Path
    mark: str
    every: float
    """Seconds between two states on disk."""
    _saved: float = dataclasses.field(default_factory=time.monotonic, init=False)

    def restore(self, totals: Totals) -> None:
        """Fill the totals from the file; nothing happens where there is none."""
        if not self.path.exists():
            return
        state = self._read()
        if state.pop("fingerprint", np.array("")).item() != self.mark:
            raise ParameterError(
                f"the checkpoint {self.path} belongs to another job: its counts, seed or settings differ"
            )
        for name, array in totals.state().items():
            if name not in state or state[name].shape != array.shape:
                raise ParameterError(f"the checkpoint {self.path} does not hold {name} of shape {array.shape}")
        for name, array in totals.state().items():
            array[...] = state[name]

    def _read(self) -> dict[str, Any]:
        try:
            with open(self.path, "rb") as file, np.load(file, allow_pickle=False) as held:
                return {name: held[name] for name in held.files}
        except (OSError, ValueError, EOFError, zipfile.BadZipFile, KeyError, TypeError, AttributeError):
            raise ParameterError(f"the checkpoint {self.path} is not a checkpoint of fairpost") from None

    @property
    def due(self) -> bool:
        """Whether `every` seconds have passed since the last time."""
        return time.monotonic() - self._saved >= self.every

    def save(self, totals: Totals, *, now: bool = False) -> None:
        """Write the totals where `every` seconds have passed since the last time, or `now`."""
        if not now and not self.due:
            return
        beside = self.path.with_name(f".{self.path.name}.{os.getpid()}.part")
        try:
            with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                np.savez(file, fingerprint=np.array(self.mark), **totals.state())
                file.flush()
                os.fsync(file.fileno())
            os.replace(beside, self.path)
        except OSError as error:
            raise ParameterError(f"the checkpoint {self.path} cannot be written: {error.strerror}") from None
        finally:
            beside.unlink(missing_ok=True)
        self._saved = time.monotonic()
