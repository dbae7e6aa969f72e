"""A file from which a long simulation goes on: the blocks so far, written whole or not at all, readable by the owner alone."""

from __future__ import annotations

import dataclasses
import hashlib
import time
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from fairpost import whole
from fairpost.errors import ParameterError
from fairpost.hierarchy.blocks import Totals
from fairpost.hierarchy.spec import Spec

LAYOUT = 1
"""Changes with what the kernels add up and how."""


def fingerprint(spec: Spec, seed: int, version: str) -> str:
    """A digest of what the sums depend on."""
    digest = hashlib.sha256(
        f"{version} {LAYOUT} {seed} {spec.top} {spec.kind} {spec.rule} {spec.whole} {spec.block}".encode()
    )
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

    def save(self, totals: Totals, *, now: bool = False) -> None:
        """Write the totals where `every` seconds have passed since the last time, or `now`."""
        if not now and time.monotonic() - self._saved < self.every:
            return
        try:
            whole.write(self.path, lambda file: np.savez(file, fingerprint=np.array(self.mark), **totals.state()))
        except OSError as error:
            raise ParameterError(f"the checkpoint {self.path} cannot be written: {error.strerror}") from None
        self._saved = time.monotonic()
