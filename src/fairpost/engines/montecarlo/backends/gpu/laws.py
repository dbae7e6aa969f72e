"""The noise of a mechanism as the kernels want it: its parameter, two constants, and the tables of the discrete Gaussian."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpost.engines.montecarlo.backends.gpu.device import Device
from fairpost.noise.base import DISCRETE_GAUSSIAN, DISCRETE_LAPLACE

BINS, MOST, GUIDED = 4096, 64, 6.0
"""Of the tables: see `noise.kernels.guide`, which has fewer bins (a finer table costs a GPU nothing)."""
RECORD = np.dtype([("spread", "f8"), ("one", "f8"), ("two", "f8"), ("guide", "u8"), ("cuts", "u8")])
"""`Noise` of the kernels."""


def constants(kind: int, spread: float) -> tuple[float, float]:
    """What `noise.kernels.streams` computes of the parameter alone: the shift; or `steep` and 1 / 2 sigma^2 of the rejection."""
    if spread == 0.0:
        return 0.0, 0.0
    if kind == DISCRETE_LAPLACE:
        return float(-np.log1p(0.5 * np.expm1(-1.0 / spread))), 0.0
    if kind == DISCRETE_GAUSSIAN:
        return float(np.sqrt(2.0**16 / 24.0)) / spread / spread, 0.5 / spread / spread
    return 0.0, 0.0


@dataclass(frozen=True, eq=False)
class Laws:
    """The noises of several levels, on a device."""

    records: Any
    """One `Noise` each."""
    held: tuple[Any, ...]
    """The tables that they point to."""

    @classmethod
    def of(cls, device: Device, kind: int, spreads: Sequence[float]) -> Laws:
        """From the parameters of all levels."""
        tables = [tables_of(kind, float(spread)) for spread in spreads]
        guides, cuts = (device.put(np.stack(part)) for part in zip(*tables, strict=True))
        at, to = device.address(guides), device.address(cuts)
        records = np.zeros(len(spreads), dtype=RECORD)
        for k, spread in enumerate(spreads):
            records[k] = (spread, *constants(kind, float(spread)), at + k * BINS, to + k * MOST * 8)
        return cls(device.put(np.frombuffer(records.tobytes(), dtype=np.uint8).copy()), (guides, cuts))


def tables_of(kind: int, spread: float) -> tuple[NDArray[np.uint8], NDArray[np.float64]]:
    """The tables of one noise; zeros where there is nothing to look up.

    cuts[k] = P(|eta| >= k), then -1; guide[b] is |eta| at the upper end of bin b of the uniform variable, + 128 where a cut lies
    inside. The sums are those of `noise.kernels.guide.guide_of` and of `streams`, in the same order.
    """
    guide, cuts = np.zeros(BINS, dtype=np.uint8), np.zeros(MOST)
    if kind != DISCRETE_GAUSSIAN or not 0.0 < spread <= GUIDED:
        return guide, cuts
    top, total, tail = math.ceil(9.6 * spread), 0.0, 0.0
    mass = [math.exp(-0.5 * (k / spread) * (k / spread)) for k in range(top + 1)]
    for k in range(top, 0, -1):
        total += mass[k]
    cuts[:], cuts[0] = -1.0, 2.0
    for k in range(top, 0, -1):
        tail += mass[k]
        cuts[k] = tail / (0.5 + total)
    falling, edges = -cuts[1 : top + 1], np.arange(BINS + 1) / BINS
    reached = np.searchsorted(falling, -edges, side="right")  # how many levels are at least each edge
    guide[:] = reached[1:] | np.where(reached[:-1] > reached[1:], 128, 0)
    return guide, cuts
