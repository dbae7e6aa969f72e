"""What the checkpoint of a hierarchy's simulation belongs to; the file is that of `engines.montecarlo.checkpoint`."""

from __future__ import annotations

import hashlib

import numpy as np

from fairpost.hierarchy.spec import Spec

LAYOUT = 3
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
