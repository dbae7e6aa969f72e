"""Flat lists on a GPU: what is asked as arrays there, and one block of runs.

A block draws rows of noise once for all rules on the same order of entities, finds the numbers of each run, and adds up. Where the
rows of a block do not fit, they go in pieces of a multiple of four runs; the sums stay on the device meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from fairpost.engines.montecarlo.backends.base import Asked, Block, Floats, Partial
from fairpost.engines.montecarlo.backends.cpu.blocks import Fast, _fast, compiled
from fairpost.engines.montecarlo.backends.gpu.device import HERE, NULL, Device, Kernel, ceil_div
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
RULE = np.dtype([("code", "i4"), ("spare", "i4"), ("shift", "f8"), ("target", "f8"), ("whole", "f8"), ("w", "u8")])
"""`Rule` of the kernels."""
LARGEST = 2**31
"""Bytes of rows at a time: more would only wait for memory."""


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
        self.x, self.weights = device.put(spec.x), device.put(f.weights)
        rules = np.zeros(f.codes.size, dtype=RULE)
        for p, which in enumerate(f.which):
            at = device.address(self.weights) + 8 * spec.x.size * int(which)
            rules[p] = (f.codes[p], 0, f.shifts[p], f.targets[p], f.whole[which], at)
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

    Besides its row a run has numbers, for every group; the sums of `count` rules take 11 doubles an entity.
    """
    fixed = count * 8 * (WORK_PLANES + PLANES) * (n + PIECE)
    each = 8 * n + 8 * PLACES * (groups + 1)
    fit = int(SHARE * max(free - fixed, 0)) // each
    if fit < min(4, runs):
        raise UnsupportedError(
            f"{n} entities need {(fixed + 4 * each / SHARE) / 2**20:.0f} MiB of the GPU's memory, {free // 2**20} MiB are free"
        )
    fit = min(fit, max(4, LARGEST // each))
    return runs if fit >= runs else fit - fit % 4


class _Run:
    """One block under way."""

    def __init__(self, spec: Spec, device: Device, seed: int, block: Block) -> None:
        self.spec, self.device, self.seed, self.block = spec, device, np.uint64(seed), block
        self.held, self.n = _held(spec, device), int(spec.x.size)
        self.pieces = ceil_div(self.n, PIECE)
        self.work = device.room((spec.count, self.pieces, WORK_PLANES * PIECE), zero=True)
        self.odd = np.zeros(spec.count, dtype=np.int64)
        self.pairs: list[list[Floats]] = [[] for _ in range(spec.count)]
        self.waiting: list[tuple[int, str, Any]] = []

    def kernel(self, name: str) -> Kernel:
        return Kernel(name, (f"KIND={self.spec.kind}",), SOURCES)

    def run(self) -> Partial:
        groups = max((one.count for one in self.held.groups), default=0)
        size = rows_at_once(self.n, self.block.runs, self.device.free(), self.spec.count, groups)
        for begin in range(0, self.block.runs, size):
            self.some(begin, min(size, self.block.runs - begin))
            self.collect()
        out = self.device.room((self.spec.count, self.pieces, PLANES * PIECE))
        many = self.spec.count * self.pieces
        args = (np.int64(many), np.int32(self.block.runs), self.work, out)
        self.device.launch(self.kernel("finish"), (ceil_div(many * PIECE, 256), 1), 256, args)
        return Partial(self.block.runs, self.device.get(out), self.followed(), self.odd)

    def some(self, begin: int, runs: int) -> None:
        """The runs begin, ... of the block: rows in the order of the entities, then one order a partition."""
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
        grid = (ceil_div(ceil_div(self.n, 2), 256), min(runs, 65535))
        args = (
            self.held.laws.records, self.seed, np.uint64(self.block.first + begin), np.int32(runs), np.int64(self.n), order, rows,
        )  # fmt: skip
        self.device.launch(self.kernel("draw_rows"), grid, 256, args)
        return rows

    def together(self, begin: int, runs: int, rows: Any) -> None:
        """The rules on all entities together."""
        f, n, device = self.spec.fast, np.int64(self.n), self.device
        many, lanes, held = int(f.codes.size), 1024 if self.n >= WIDE else 64, self.held
        par, odd = device.room((many, runs, NUMBERS)), device.room((many, runs), np.int32)
        device.launch(
            self.kernel("solve_flat"), (runs, many), min(lanes, 512), (held.rules, np.int32(lanes), n, held.x, rows, par, odd), 16 * lanes,
            together=True,
        )  # fmt: skip
        size = np.int64(self.pieces * WORK_PLANES * PIECE)
        args = (held.rules, np.int32(runs), n, held.x, rows, par, np.int32(begin == 0), self.work, size)
        device.launch(self.kernel("moments_flat"), (2 * ceil_div(self.n, 64), many), 64, args)
        self.waiting += [(p, "odd", odd[p]) for p in range(many) if f.codes[p] > SIMPLEX]
        if f.who.size and (f.codes <= SIMPLEX).any():
            pair = device.room((many, runs, 2))
            ends = (held.who, np.int32(f.who.size), np.int32(f.split))
            more = (held.rules, np.int32(runs), n, held.x, rows, par, *ends, pair)
            device.launch(self.kernel("pair_flat"), (ceil_div(runs, 64), many), 64, more)
            self.waiting += [(p, "pair", pair[p]) for p in range(many) if f.codes[p] <= SIMPLEX]

    def by_group(self, p: int, begin: int, runs: int, rows: Any) -> None:
        """One rule by group or with a threshold."""
        there, device = self.held.groups[p - int(self.spec.fast.codes.size)], self.device
        par, odd = device.room((runs * there.count, PLACES)), device.room((runs * there.count,), np.int32)
        args = (there.record, rows, par, odd)
        device.launch(self.kernel("solve_groups"), (runs * there.count, 1), there.threads, args, together=True)
        more = (there.record, np.int32(runs), rows, par, np.int32(begin == 0), self.work[p])
        device.launch(self.kernel("moments_groups"), (ceil_div(self.n, 64), 1), 64, more)
        self.waiting.append((p, "odd", odd))

    def collect(self) -> None:
        """What the runs so far have left to be read, one by one: the arrays are given back."""
        for p, what, array in self.waiting:
            if what == "odd":
                self.odd[p] += int(self.device.get(array).sum())
            else:
                self.pairs[p].append(self.device.get(array))
        self.waiting = []

    def followed(self) -> Floats:
        """The mean and the sum of squared deviations of the pairs' d and e: added run by run, as on the processor."""
        out = np.zeros((self.spec.count, 6))
        for p, parts in enumerate(self.pairs):
            if not parts:
                continue
            found = np.concatenate(parts)
            for k in (0, 1):
                u = found[:, k] - found[0, k]
                total, squares = float(np.cumsum(u)[-1]), float(np.cumsum(u * u)[-1])
                out[p, 3 * k] = found[0, k] + total / self.block.runs
                out[p, 3 * k + 1] = max(squares - total * (total / self.block.runs), 0.0)
        return out


def run_block(spec: Spec, device: Device, seed: int, block: Block) -> Partial:
    """The sums of one block, for every post-processing on the same noise; places by group go back to their entities."""
    part = _Run(spec, device, seed, block).run()
    many = int(spec.fast.codes.size)
    for k, one in enumerate(spec.grouped):
        if not one.natural:
            planes = part.sums[many + k].reshape(-1, PLANES, PIECE).transpose(1, 0, 2).reshape(PLANES, -1)
            there = planes.copy()
            planes = planes.copy()
            planes[:, one.order] = there[:, : one.order.size]
            part.sums[many + k] = (
                planes.reshape(PLANES, -1, PIECE).transpose(1, 0, 2).reshape(part.sums[many + k].shape)
            )
    return part
