"""Blocks of runs of a hierarchy on a GPU.

Some blocks go at once: measurements of the inner nodes of all their runs, levels from the top down, then the leaves, family by
family with the runs in a loop. A leaf's sums are carried on from run to run and block to block in order, so the bits do not depend on
how many blocks go at once: a repeat and a resumption give the same on the same device.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpost.engines.montecarlo.backends.gpu.device import NULL, Device, Runner, ceil_div, gpu, packed
from fairpost.engines.montecarlo.backends.gpu.laws import RECORD, Laws
from fairpost.errors import UnsupportedError
from fairpost.hierarchy.gpu.layout import Chunks, Team, inner_teams, leaf_teams, macros_of, sources_of
from fairpost.hierarchy.simulation import Block, Partial, Totals, _over_runs
from fairpost.hierarchy.spec import Spec

Floats = NDArray[np.float64]
THREADS = 128
SHARE = 0.8
"""The part of the free memory that may be used."""
MOST_BLOCKS = 64
LARGE = 255
"""No team holds more leaves, where a family begins at an odd node."""
ENOUGH = 2**29
"""Nodes times runs that keep a GPU busy: no more blocks than that go at once."""


def refusal(spec: Spec) -> str | None:
    """What a GPU does not cover of a hierarchy, in one line; None where it covers all."""
    if spec.rule == "joint":
        return "a GPU does not cover the rule 'joint'"
    if spec.x.size >= 2**31:
        return f"a GPU takes fewer than 2^31 nodes, got {spec.x.size}"
    return None


def covers(spec: Spec) -> None:
    """An error in one line where there is no GPU, it has too little memory, or does not cover this."""
    why = refusal(spec)
    if why is not None:
        raise UnsupportedError(why)
    plan(spec, gpu().free())


def _bytes(spec: Spec, blocks: int) -> int:
    """What `blocks` blocks at once need, above the arrays that stay."""
    a_run = 8 * spec.inner * (6 if spec.rule == "pooled" else 4) + (16 * spec.n if spec.divisions else 0)
    return blocks * (spec.block * a_run + 8 * spec.n)


def plan(spec: Spec, free: int) -> int:
    """How many blocks go at once in so many bytes; an error where there is no room for one."""
    widest = int(np.diff(spec.child[int(spec.offsets[-3]) : spec.inner + 1]).max())
    stay = 60 * spec.n + 120 * spec.inner + 4 * spec.n * len(spec.divisions) + (16 * spec.n if widest > LARGE else 0)
    if stay + _bytes(spec, 1) > SHARE * free:
        need = (stay + _bytes(spec, 1)) / SHARE
        raise UnsupportedError(
            f"a tree of {spec.x.size} nodes needs {need / 2**20:.0f} MiB of the GPU's memory, {free // 2**20} MiB are free"
        )
    blocks = int(np.clip(ENOUGH // (spec.block * spec.x.size), 1, MOST_BLOCKS))
    while blocks > 1 and stay + _bytes(spec, blocks) > SHARE * free:
        blocks //= 2
    return blocks


@dataclass(frozen=True, eq=False)
class _Level:
    """One level of parents of inner nodes."""

    number: int
    first: int
    count: int
    teams: list[tuple[int, int, Any]]
    """(lanes, how many, which parents)."""


class TreeRunner(Runner):
    """The arrays of one simulation on a device, and its blocks."""

    def __init__(self, spec: Spec, device: Device, seed: int, totals: Totals) -> None:
        why = refusal(spec)
        if why is not None:
            raise UnsupportedError(why)
        super().__init__(device, macros_of(spec), sources_of(spec))
        self.spec, self.seed = spec, np.uint64(seed)
        self.first, self.inner, self.n = int(spec.offsets[-3]), spec.inner, spec.n
        self.pooled, self.last = spec.rule == "pooled", spec.offsets.size - 3
        self.blocks = plan(spec, device.free())
        self.upper, self.leaves = device.put(totals.upper), device.put(totals.leaves)
        self._put()

    def _put(self) -> None:
        spec, put, inner = self.spec, self.device.put, self.inner
        level = np.repeat(np.arange(spec.offsets.size - 2, dtype=np.int32), np.diff(spec.offsets[:-1]))
        self.laws = Laws.of(self.device, spec.kind, spec.spreads.tolist())
        self.leaf_law = self.laws.records[(spec.spreads.size - 1) * RECORD.itemsize :]
        V, W = (spec.V, spec.W) if self.pooled else (np.zeros(1), np.zeros(1))
        self.child = put(spec.child)
        self.held = [
            self.child, put(level), put(spec.x[:inner]), put(spec.offset[:inner]), put(spec.m), put(V), put(W), put(spec.s2),
            put(spec.P_above),
        ]  # fmt: skip
        known = int(spec.offsets[spec.top + 1]) if spec.top >= 0 else 0
        head = (np.uint64(inner), np.int32(spec.top), np.int32(spec.whole), np.uint64(known))
        self.tree = packed(self.device, *head, *(np.uint64(self.device.address(a)) for a in self.held))
        self.of_leaves = [put(spec.x[inner:]), put(spec.offset[inner:]), put(spec.P)]
        self.levels = [self._level(k) for k in range(self.last)]
        teams = leaf_teams(spec.child, self.first, inner, self.sources[-1].name == "whole.cu")
        self.teams: list[tuple[Team, Any]] = [(team, put(team.families)) for team in teams]
        sizes = np.diff(spec.child[self.first : inner + 1])
        few = np.flatnonzero(sizes <= 32).astype(np.int32)
        many = np.flatnonzero(sizes > 32).astype(np.int32)
        self.summed = [(lanes, w.size, put(w)) for lanes, w in ((4, few), (32, many)) if w.size]
        self.room = self.device.room((2 * self.n,)) if teams[-1].kernel == "large_family" else NULL
        self.chunks = [Chunks.of(spec.cells.labels), *(Chunks.of(d.labels) for d in spec.divisions)]
        self.ordered = [(put(c.order), put(c.starts)) for c in self.chunks]

    def _level(self, k: int) -> _Level:
        a, b = int(self.spec.offsets[k]), int(self.spec.offsets[k + 1])
        teams = [(lanes, which.size, self.device.put(which)) for lanes, which in inner_teams(self.spec.child, a, b)]
        return _Level(k, a, b - a, teams)

    def run(self, blocks: list[Block]) -> list[Partial]:
        """Some blocks of equal length, one after the other; waits for them."""
        runs, each = sum(block.runs for block in blocks), blocks[0].runs
        v, lin, gone = self._inner(blocks[0].first, runs)
        sums = self.device.room((len(blocks), self.n))
        kept = self.device.room((2 * runs, self.n)) if self.spec.divisions else NULL
        self._leaves(blocks[0].first, len(blocks), each, v, lin, sums, kept)
        cells = self._by_class(0, sums, len(blocks), self.spec.cells.counts.size)
        areas = [
            self._by_class(1 + k, kept, 2 * runs, len(d.names)).reshape(runs, 2, -1)
            for k, d in enumerate(self.spec.divisions)
        ]
        del gone
        return [
            Partial(each, None, None, cells[b], tuple(_over_runs(held[b * each : (b + 1) * each]) for held in areas))
            for b in range(len(blocks))
        ]

    def _inner(self, first: int, runs: int) -> tuple[Any, Any, list[Any]]:
        """v and lin (or u) of the inner nodes of some runs, whose sums are added."""
        room, spec = self.device.room, self.spec
        y, v, lin, r = (room((runs, self.inner)) for _ in range(4))
        count = (np.int32(runs),)
        rows = min(runs, 65535)
        args = (self.tree, self.laws.records, self.seed, np.uint64(first), *count, y)
        self.each("measure", ceil_div(self.inner, 2), args, rows)
        low = y
        if self.pooled:
            low, S = room((runs, self.inner)), room((runs, self.inner))
            self._pool(first, runs, y, low, S)
        start = 1 if spec.top < 0 else int(spec.offsets[spec.top + 1])
        self.each("begin", start, (self.tree, *count, np.int32(self.pooled), low, v, lin, r), rows)
        for level in self.levels:
            k = level.number
            numbers = (np.float64(spec.taus[k + 1]), np.float64(spec.steeps[k + 1]))
            for lanes, many, which in level.teams:
                head = (self.tree, which, np.int64(many), *count)
                if self.pooled:
                    clip = np.int32(k >= max(spec.top, 0))
                    self.each(f"pooled_down_{lanes}", many * runs * lanes, (*head, clip, *numbers, low, S, v, lin))
                elif k >= max(spec.top, 0):
                    self.each(f"down_{lanes}", many * runs * lanes, (*head, *numbers, y, v, lin, r))
        self.each("add_inner", self.inner, (self.tree, *count, np.int32(self.pooled), v, lin, r, self.upper))
        return v, lin, [y, r, low]

    def _pool(self, first: int, runs: int, y: Any, z: Any, S: Any) -> None:
        """Pooled estimates from the leaves up."""
        record = self._record(1, runs, y, y, NULL, NULL)
        for lanes, many, which in self.summed:
            out = S.reshape(-1)[self.first :]
            args = (record, self.leaf_law, which, np.int64(many), self.seed, np.uint64(first), np.int32(runs), out)
            self.each(f"leaf_totals_{lanes}", many * lanes, args)
        for k in range(self.last, -1, -1):
            a, b = int(self.spec.offsets[k]), int(self.spec.offsets[k + 1])
            lanes = 4 if k == self.last or self.spec.offsets[k + 2] - b <= 16 * (b - a) else 32
            more = (self.tree, np.int64(a), np.int64(b - a), np.int32(runs), np.int32(k == self.last), y, z, S)
            self.each(f"pool_{lanes}", (b - a) * runs * lanes, more)

    def _record(self, blocks: int, runs: int, v: Any, lin: Any, sums: Any, kept: Any) -> Any:
        """`Leaves` of the kernels."""
        at, spec = self.device.address, self.spec
        where = [0 if isinstance(a, np.uint64) else at(a) for a in (sums, kept)]
        head = (self.n, self.inner, self.inner - self.first, self.first)
        numbers = (
            np.int32(spec.whole),
            np.int32(blocks),
            np.int32(runs),
            np.int32(0),
            float(spec.taus[-1]),
            float(spec.steeps[-1]),
        )
        x, offset, P = (at(a) for a in self.of_leaves)
        arrays = (at(self.child), x, offset, at(self.held[4]), P, at(v) + 8 * self.first, at(lin) + 8 * self.first)
        ends = (self.inner, at(self.leaves), *where)
        return packed(self.device, *map(np.uint64, head), *numbers, *map(np.uint64, (*arrays, *ends)))

    def _leaves(self, first: int, blocks: int, runs: int, v: Any, lin: Any, sums: Any, kept: Any) -> None:
        """The families of leaves, those of each size side by side, the largest first."""
        record, launches = self._record(blocks, runs, v, lin, sums, kept), []
        for team, which in reversed(self.teams):
            many = int(team.families.size)
            args = (record, self.leaf_law, which, np.int64(many), self.seed, np.uint64(first))
            if team.kernel == "large_family":
                launches.append(self.of(team.kernel, (many, 1), 512, (*args, self.room), together=True))
            elif team.lanes == THREADS:
                launches.append(self.of(team.kernel, (many, 1), THREADS, args, together=True))
            else:
                launches.append(self.of(team.kernel, (ceil_div(many * team.lanes, THREADS), 1), THREADS, args))
        self.device.launch_all(launches)

    def _by_class(self, k: int, values: Any, rows: int, many: int) -> Floats:
        """Sums by class of each row of some values of leaves."""
        (order, starts), chunks = self.ordered[k], self.chunks[k]
        out = self.device.room((rows, chunks.owner.size))
        args = (values, np.int64(self.n), order, starts, np.int32(chunks.owner.size), out)
        self.device.launch(self.of("add_chunks", (chunks.owner.size, rows), 256, args, together=True))
        return chunks.sums(self.device.get(out), many)

    def fetch(self, totals: Totals) -> None:
        """The sums so far, into the totals here."""
        totals.upper[...] = self.device.get(self.upper)
        totals.leaves[...] = self.device.get(self.leaves)
