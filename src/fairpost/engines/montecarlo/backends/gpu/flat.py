"""Flat lists on a GPU: what is asked as arrays there, and one block of runs.

A block draws rows of noise once for all rules on the same order of entities, finds the numbers of each run, and adds up. Small blocks
go several at a time, each with sums of its own: one launch, one copy back. Where the rows of a block do not fit, they go in pieces of a
multiple of four runs; the sums stay on the device meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from fairpost.engines.montecarlo.backends.base import Asked, Block, Floats, Partial
from fairpost.engines.montecarlo.backends.cpu.blocks import Fast, _fast, compiled
from fairpost.engines.montecarlo.backends.gpu.device import HERE, NULL, Device, Runner, ceil_div
from fairpost.engines.montecarlo.backends.gpu.grouped import Grouped, grouped, put_groups
from fairpost.engines.montecarlo.backends.gpu.laws import Laws
from fairpost.errors import UnsupportedError

SOURCES = tuple(HERE / name for name in ("noise.cu", "teams.cu", "flat.cu", "groups.cu"))
PIECE, PLANES, WORK_PLANES, SIMPLEX = 256, 5, 6, 4
NUMBERS, PLACES = 5, 8
WIDE = 2**17
"""From so many entities on a run is added up by 1,024 threads, not in the processor's order of 64."""
SHARE = 0.15
"""The part of the free memory that rows may take: several blocks are under way."""
RULE = np.dtype(
    [("code", "i4"), ("spare", "i4"), ("shift", "f8"), ("target", "f8"), ("whole", "f8"), ("w", "u8"), ("left", "u8")]
)
"""`Rule` of the kernels."""
LARGEST = 2**31
"""Bytes of rows at a time: more would only wait for memory."""
TOGETHER = 2**29
"""Bytes of rows up to which blocks go together: enough to fill a device, and short enough to be interrupted."""


@dataclass(frozen=True, eq=False)
class Spec:
    """Everything a block needs, picklable: the rules on all entities first, then those by group or with a threshold."""

    x: Floats
    kind: int
    spread: float
    fast: Fast
    grouped: tuple[Grouped, ...]

    @property
    def count(self) -> int:
        """The number of post-processings."""
        return int(self.fast.codes.size) + len(self.grouped)


def refusal(asked: Asked) -> str | None:
    """What a GPU does not cover here, in one line; None where it covers all."""
    if asked.mechanism.code is None:
        return f"a GPU does not draw the noise {asked.mechanism.name!r}: it knows the four built-in ones"
    if asked.counts.n >= 2**31:
        return f"a GPU takes fewer than 2^31 entities, got {asked.counts.n}"
    for one in asked.ones:
        if not compiled(one.pi, asked) and grouped(one, asked) is None:
            return f"a GPU does not cover the post-processing {one.pi.name!r} here"
    return None


def specify(asked: Asked) -> Spec:
    """The specification; the post-processings must come with those of all entities first."""
    why = refusal(asked)
    if why is not None:
        raise UnsupportedError(why)
    code = asked.mechanism.code
    assert code is not None
    fast = [one for one in asked.ones if compiled(one.pi, asked)]
    rest = [grouped(one, asked) for one in asked.ones[len(fast) :]]
    made = tuple(one for one in rest if one is not None)
    return Spec(asked.counts.values, code, asked.mechanism.spread, _fast(asked.counts, fast), made)


class _Held:
    """The arrays of a specification, there."""

    def __init__(self, spec: Spec, device: Device) -> None:
        self.laws = Laws.of(device, spec.kind, [spec.spread])
        f = spec.fast
        self.x, self.weights, self.left = device.put(spec.x), device.put(f.weights), device.put(f.left)
        rules = np.zeros(f.codes.size, dtype=RULE)
        for p, which in enumerate(f.which):
            at, left = (
                device.address(array) + 8 * spec.x.size * int(k) for array, k in ((self.weights, which), (self.left, p))
            )
            rules[p] = (f.codes[p], 0, f.shifts[p], f.targets[p], f.whole[which], at, left)
        self.rules = device.put(np.frombuffer(rules.tobytes() or bytes(8), dtype=np.uint8).copy())
        self.who = device.put(spec.fast.who.astype(np.int32))
        self.groups = [put_groups(device, one) for one in spec.grouped]


_HELD: WeakKeyDictionary[Spec, dict[int, _Held]] = WeakKeyDictionary()
_LOCK = Lock()


def _held(spec: Spec, device: Device) -> _Held:
    with _LOCK:
        there = _HELD.setdefault(spec, {})
        if id(device) not in there:
            there[id(device)] = _Held(spec, device)
        return there[id(device)]


def rows_at_once(n: int, runs: int, free: int, count: int, groups: int) -> int:
    """How many runs' rows fit: a multiple of 4, or all; an error where not even 4 do.

    Besides its row a run has numbers, for every group; the sums of `count` rules take 11 doubles an entity, and their coefficients one.
    """
    fixed = count * 8 * (WORK_PLANES + PLANES + 1) * (n + PIECE)
    each = 8 * n + 8 * PLACES * (groups + 1)
    fit = int(SHARE * max(free - fixed, 0)) // each
    if fit < min(4, runs):
        raise UnsupportedError(
            f"{n} entities need {(fixed + 4 * each / SHARE) / 2**20:.0f} MiB of the GPU's memory, {free // 2**20} MiB are free"
        )
    fit = min(fit, max(4, LARGEST // each))
    return runs if fit >= runs else fit - fit % 4


def blocks_at_once(spec: Spec, runs: int, free: int) -> int:
    """How many blocks of so many runs go together."""
    groups = max((one.starts.size - 1 for one in spec.grouped), default=0)
    fit = rows_at_once(int(spec.x.size), 2**31, free, spec.count, groups)
    return max(1, min(fit, TOGETHER // (8 * int(spec.x.size))) // runs)


class _Run(Runner):
    """Some blocks of equally many runs, one after the other, under way; several only where all their rows fit."""

    def __init__(self, spec: Spec, device: Device, seed: int, blocks: Sequence[Block]) -> None:
        super().__init__(device, (f"KIND={spec.kind}",), SOURCES)
        self.spec, self.seed = spec, np.uint64(seed)
        self.first, self.runs, self.blocks = blocks[0].first, blocks[0].runs, len(blocks)
        self.held, self.n = _held(spec, device), int(spec.x.size)
        self.pieces = ceil_div(self.n, PIECE)
        self.work = device.room((self.blocks, spec.count, self.pieces, WORK_PLANES * PIECE), zero=True)
        self.odd = np.zeros((self.blocks, spec.count), dtype=np.int64)
        self.pairs: list[list[Floats]] = [[] for _ in range(spec.count)]
        self.waiting: list[tuple[int, str, Any]] = []

    def run(self) -> list[Partial]:
        groups = max((one.count for one in self.held.groups), default=0)
        whole = self.blocks * self.runs
        size = whole if self.blocks > 1 else rows_at_once(self.n, whole, self.device.free(), self.spec.count, groups)
        for begin in range(0, whole, size):
            self.some(begin, min(size, whole - begin))
            self.collect()
        out = self.device.room((self.blocks, self.spec.count, self.pieces, PLANES * PIECE))
        many = self.blocks * self.spec.count * self.pieces
        args = (np.int64(many), np.int32(self.runs), self.work, out)
        self.each("finish", many * PIECE, args, block=256)
        sums, pairs = self.device.get(out), self.followed()
        return [Partial(self.runs, sums[b], pairs[b], self.odd[b]) for b in range(self.blocks)]

    def some(self, begin: int, runs: int) -> None:
        """The runs begin, ...: rows in the order of the entities, then one order a partition."""
        spec, many = self.spec, int(self.spec.fast.codes.size)
        if many:
            self.together(begin, runs, self.rows(begin, runs, NULL))
        order: Any = None
        for k, one in enumerate(spec.grouped):
            there = self.held.groups[k]
            if order is None or not np.array_equal(order, one.order):
                rows, order = self.rows(begin, runs, NULL if one.natural else there.order), one.order
            self.by_group(many + k, begin, runs, rows)

    def rows(self, begin: int, runs: int, order: Any) -> Any:
        rows = self.device.room((runs, self.n))
        args = (
            self.held.laws.records, self.seed, np.uint64(self.first + begin), np.int32(runs), np.int64(self.n), order, rows,
        )  # fmt: skip
        self.each("draw_rows", ceil_div(self.n, 2), args, min(runs, 65535), 256)
        return rows

    def together(self, begin: int, runs: int, rows: Any) -> None:
        """The rules on all entities together."""
        f, n, device = self.spec.fast, np.int64(self.n), self.device
        many, lanes, held = int(f.codes.size), 1024 if self.n >= WIDE else 64, self.held
        par, odd = device.room((many, runs, NUMBERS)), device.room((many, runs), np.int32)
        found = (held.rules, np.int32(lanes), n, held.x, rows, par, odd)
        device.launch(self.of("solve_flat", (runs, many), min(lanes, 512), found, 16 * lanes, together=True))
        size = np.int64(self.pieces * WORK_PLANES * PIECE)
        ends = (
            np.int32(self.blocks),
            np.int32(runs // self.blocks),
            n,
            np.int32(begin == 0),
            np.int32(self.spec.count),
        )
        args = (held.rules, *ends, size, held.x, rows, par, self.work)
        device.launch(self.of("moments_flat", (2 * ceil_div(self.n, 64), many * self.blocks), 64, args))
        self.waiting += [(p, "odd", odd[p]) for p in range(many) if f.codes[p] > SIMPLEX]
        if f.who.size and (f.codes <= SIMPLEX).any():
            pair = device.room((many, runs, 2))
            two = (held.who, np.int32(f.who.size), np.int32(f.split))
            more = (held.rules, np.int32(runs), n, held.x, rows, par, *two, pair)
            self.each("pair_flat", runs, more, many, 64)
            self.waiting += [(p, "pair", pair[p]) for p in range(many) if f.codes[p] <= SIMPLEX]

    def by_group(self, p: int, begin: int, runs: int, rows: Any) -> None:
        """One rule by group or with a threshold."""
        there, device = self.held.groups[p - int(self.spec.fast.codes.size)], self.device
        par, odd = device.room((runs, there.count, PLACES)), device.room((runs, there.count), np.int32)
        args = (there.record, rows, par, odd)
        device.launch(self.of("solve_groups", (runs * there.count, 1), there.threads, args, together=True))
        per, launches = runs // self.blocks, []
        for b in range(self.blocks):
            mine = slice(b * per, (b + 1) * per)
            more = (there.record, np.int32(per), rows[mine], par[mine], np.int32(begin == 0), self.work[b, p])
            launches.append(self.of("moments_groups", (ceil_div(self.n, 64), 1), 64, more))
        device.launch_all(launches) if len(launches) > 1 else device.launch(launches[0])
        self.waiting.append((p, "odd", odd))

    def collect(self) -> None:
        """What the runs so far have left to be read, one by one: the arrays are given back."""
        for p, what, array in self.waiting:
            if what == "odd":
                self.odd[:, p] += self.device.get(array).reshape(self.blocks, -1).sum(axis=1)
            else:
                self.pairs[p].append(self.device.get(array))
        self.waiting = []

    def followed(self) -> Floats:
        """The mean and the sum of squared deviations of the pairs' d and e: added run by run, as on the processor."""
        out = np.zeros((self.blocks, self.spec.count, 6))
        for p, parts in enumerate(self.pairs):
            if not parts:
                continue
            found = np.concatenate(parts).reshape(self.blocks, self.runs, 2)
            centre = found[:, 0]
            u = found - centre[:, None]
            total, squares = np.cumsum(u, axis=1)[:, -1], np.cumsum(u * u, axis=1)[:, -1]
            out[:, p, 0::3] = centre + total / self.runs
            out[:, p, 1::3] = np.maximum(squares - total * (total / self.runs), 0.0)
        return out


def run_blocks(spec: Spec, device: Device, seed: int, blocks: Sequence[Block]) -> list[Partial]:
    """The sums of some blocks of equally many runs, one after the other; places by group go back to their entities."""
    parts = _Run(spec, device, seed, blocks).run()
    for k, one in enumerate(spec.grouped):
        if not one.natural:
            for part in parts:
                _put_back(part.sums[int(spec.fast.codes.size) + k], one.order)
    return parts


def _put_back(sums: Floats, order: Any) -> None:
    """Place j of the planes to entity order[j]."""
    there = sums.reshape(-1, PLANES, PIECE).transpose(1, 0, 2).reshape(PLANES, -1)
    planes = there.copy()
    planes[:, order] = there[:, : order.size]
    sums[:] = planes.reshape(PLANES, -1, PIECE).transpose(1, 0, 2).reshape(sums.shape)
