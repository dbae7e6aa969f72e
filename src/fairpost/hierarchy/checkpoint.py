"""What the checkpoint of a hierarchy's simulation belongs to; the file is that of `engines.montecarlo.checkpoint`."""

from __future__ import annotations

import hashlib

import numpy as np

from fairpost.hierarchy.spec import Spec

LAYOUT = 2
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
