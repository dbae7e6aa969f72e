"""Rules by group and threshold mechanisms, as arrays in gathered order (`cuda/groups.cu` has the arithmetic)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fairpost.engines.montecarlo.backends.base import Asked, Floats, Ints, One
from fairpost.engines.montecarlo.backends.gpu.device import Device, packed
from fairpost.rules import Baseline, PoS, PosThreshold, PostProcessing, Simplex, SimplexThreshold, Sum, SumClipped
from fairpost.rules.allocation import Allocating
from fairpost.rules.control import Linearised
from fairpost.rules.release import KeepsTotal

CODES: dict[type[PostProcessing], int] = {
    Sum: 1, SumClipped: 3, Simplex: 4, Baseline: 5, PoS: 6, SimplexThreshold: 7, PosThreshold: 8,
}  # fmt: skip
"""The numbers of `cuda/flat.cu`."""
THREADS = ((128, 32), (4096, 128), (2**31, 512))
"""(size of the largest group, threads that add it up)."""


@dataclass(frozen=True, eq=False)
class Grouped:
    """One rule; every array has one entry an entity, group after group."""

    code: int
    steep: float
    dust: float
    order: Ints
    starts: Ints
    x: Floats
    weight: Floats
    level: Floats
    base: Floats
    slope: Floats
    share: Floats
    left: Floats
    totals: Floats

    @property
    def natural(self) -> bool:
        """Whether the gathered order is that of the entities."""
        return bool(np.array_equal(self.order, np.arange(self.order.size)))


def grouped(one: One, asked: Asked) -> Grouped | None:
    """The rule as arrays; None where it is none of these."""
    pi, n = one.pi, asked.counts.n
    code = CODES.get(type(pi))
    if code is None:
        return None
    if isinstance(pi, Simplex) and pi.partition is None:
        return None  # a total that is rounding (`cpu.blocks.fits`): the kernels measure from 0
    rule = pi.rule
    steep = 1.0 if rule is None else float(rule.steepness)
    ones = np.ones(n)
    if isinstance(pi, KeepsTotal):
        parts, totals = pi.parts(n)
        weight, slope, share = ones, ones, ones
    elif isinstance(pi, Allocating) and isinstance(one.control.linear, Linearised):
        parts, totals = pi.problem.parts(n), np.zeros(1)
        slope, share = one.control.linear.w, one.control.linear.share
        weight = np.where(slope > 0, slope, parts.gather(pi.problem.a(n)))
    else:
        return None
    level = (0.0 if rule is None else rule.level) * weight
    x, base, left = (parts.gather(values) for values in (asked.counts.values, one.centre, one.left))
    return Grouped(code, steep, pi.dust, parts.order, parts.starts, x, weight, level, base, slope, share, left, totals)


@dataclass(frozen=True, eq=False)
class There:
    """A rule on a device."""

    record: Any
    """`Groups` of the kernels."""
    order: Any
    count: int
    threads: int
    held: tuple[Any, ...]


def put_groups(device: Device, one: Grouped) -> There:
    """The arrays of a rule, there."""
    sizes = np.diff(one.starts)
    member = np.repeat(np.arange(sizes.size, dtype=np.int32), sizes)
    totals = np.broadcast_to(one.totals, sizes.shape).astype(np.float64)
    arrays = (
        one.starts.astype(np.int32), member, one.x, one.weight, one.level, one.base, one.slope, one.share, one.left,
        totals,
    )  # fmt: skip
    held = tuple(device.put(np.ascontiguousarray(array)) for array in arrays)
    fields = (np.int32(one.code), np.int32(sizes.size), np.uint64(one.x.size), float(one.steep), float(one.dust))
    record = packed(device, *fields, *(np.uint64(device.address(array)) for array in held))
    threads = next(threads for most, threads in THREADS if sizes.max() <= most)
    order = device.put(one.order.astype(np.int32))  # waits, for the record too
    return There(record, order, int(sizes.size), threads, held)
