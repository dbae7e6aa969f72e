"""What the server holds, in memory alone: one table, what its columns mean, what was computed from it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, Unpack

import numpy as np

from fairpost import cancel
from fairpost.audit import Asked
from fairpost.counts import Counts
from fairpost.engines import Conditional, Engine, Exact, Expansion, FirstOf, engine_of
from fairpost.errors import Cancelled, FairpostError, ParameterError
from fairpost.explore import between
from fairpost.explore.between import Sweep
from fairpost.explore.choices import Choices, keys, text
from fairpost.explore.jobs import GONE, NEWER, Jobs
from fairpost.explore.remember import Memory, Remembering
from fairpost.hierarchy.tree import Hierarchy, length_of
from fairpost.io import Rows, read_counts, read_rows
from fairpost.io.reading import Options
from fairpost.io.source import Held
from fairpost.results.audit import Audit

IDLE = 30 * 60.0
"""Seconds without a request after which everything is forgotten."""
MODES = ("officer", "analyst")
ROLES = ("id", "count", "weight", "group", "label", "base")
Source = Held | str


@dataclass(frozen=True, eq=False)
class Data:
    """A table whose columns are mapped: true counts (officer) or noisy ones (analyst)."""

    source: Source
    mode: str
    columns: dict[str, str]
    reading: Options
    counts: Counts | None
    noisy: Rows | None
    levels: dict[str, int] | None
    number: int
    """Grows with each mapping, so that a page notices that it shows something else."""

    @property
    def name(self) -> str:
        """The file's name without its folder: the path is nobody's business."""
        return os.path.basename(os.fspath(self.source))

    @property
    def x(self) -> Counts:
        """True counts, which there must be."""
        if self.counts is None:
            raise ParameterError("this needs true counts (mode officer), got noisy ones")
        return self.counts

    @property
    def y(self) -> Rows:
        """Noisy counts, which there must be."""
        if self.noisy is None:
            raise ParameterError("this needs noisy counts (mode analyst), got true ones")
        return self.noisy

    @property
    def tree(self) -> Hierarchy:
        """The hierarchy, which there must be."""
        if self.levels is None:
            raise ParameterError("this needs levels: name them when the columns are chosen, got none")
        return Hierarchy.from_geoids(np.array(self.x.ids, dtype=object), self.levels)


@dataclass(eq=False)
class Session:
    """Everything that is held; `forget` drops it."""

    jobs: Jobs = field(default_factory=Jobs)
    clock: Callable[[], float] = time.monotonic
    source: Source | None = None
    """A table whose columns are not mapped yet, or the one that is."""
    mode: str = "officer"
    reading: Options = field(default_factory=Options)
    """What was said about how the table is to be read."""
    data: Data | None = None
    defaults: dict[str, Any] = field(default_factory=dict)
    """What the command line has chosen already."""

    def __post_init__(self) -> None:
        self.memory = Memory()
        self.used = self.clock()
        self._lock = threading.Lock()
        self._sweeps: dict[Any, Sweep] = {}
        self._preparing: cancel.Token | None = None
        self.latest: Sweep | None = None
        """The sweep that was begun last."""
        self._number = 0

    # ---- what is held
    def touch(self) -> None:
        """Somebody is here."""
        self.used = self.clock()

    def expire(self) -> bool:
        """Forget what nobody has asked for in a long time; whether that was so."""
        if (self.source is None and self.data is None) or self.clock() - self.used < IDLE:
            return False
        self.forget()
        return True

    def forget(self) -> None:
        """Drop everything now; what is under way ends."""
        self.jobs.stop_all(GONE)
        self._stop_preparing(GONE)
        with self._lock:
            self.source, self.data = None, None
            self.reading, self.defaults = Options(), {}
            self._sweeps.clear()
            self.latest = None
            self.memory.clear()
            self._number += 1

    def hold(self, source: Source, mode: str, **reading: Unpack[Options]) -> None:
        """A new table; nothing of the one before stays."""
        if mode not in MODES:
            raise ParameterError(f"`mode` must be one of {', '.join(MODES)}, got {mode!r}")
        self.forget()
        self.source, self.mode, self.reading = source, mode, reading

    @property
    def table(self) -> Source:
        """The table, which there must be."""
        if self.source is None:
            raise ParameterError("there is no table: upload one, or start with `fairpost explore FILE`")
        return self.source

    @property
    def mapped(self) -> Data:
        """The data, which there must be."""
        if self.data is None:
            raise ParameterError("the columns are not chosen yet")
        return self.data

    def map(self, given: object) -> Data:
        """Read the columns that were chosen; `levels` is "state:2,county:5"."""
        chosen = keys(given, {*ROLES, "levels"})
        columns: dict[str, Any] = {k: text(k, v) for k, v in chosen.items() if k in ROLES and v not in (None, "")}
        levels = levels_of(text("levels", chosen["levels"])) if chosen.get("levels") else None
        read = read_counts if self.mode == "officer" else read_rows
        found: Any = read(self.table, **columns, **self.reading)
        counts, noisy = (found, None) if isinstance(found, Counts) else (None, found)
        with self._lock:
            self._number += 1
            data = Data(self.table, self.mode, columns, self.reading, counts, noisy, levels, self._number)
        if levels is not None:
            _ = data.tree
        self._stop_preparing(NEWER)
        with self._lock:
            self._sweeps.clear()
            self.memory.clear()
            self.data = data
        return data

    # ---- what is computed
    def engine(
        self, choices: Choices, progress: Callable[[int, int], None] | None = None, *, behind: bool = False
    ) -> Remembering:
        """The engine of these choices, which keeps its answers; `behind` others it waits for them before it computes one."""
        simulates = choices.method in ("auto", "monte-carlo")
        inner = engine_of(choices.method, **choices.settings, progress=progress if simulates else None)
        before = self.jobs.behind if behind else None
        return Remembering(inner, self.memory, (self.mapped.number, choices.answers), before, self.jobs.turn)

    def results(
        self, choices: Choices, progress: Callable[[int, int], None] | None = None, *, engine: Engine | None = None
    ) -> tuple[Audit, ...]:
        """One audit per rule; the first refusal is raised. With an engine of its own it is a sweep, which knows no targets."""
        limits = choices.targets if engine is None else {}
        finder = self.engine(choices, progress) if engine is None else engine
        found = Asked(**choices.problem).outcomes(self.mapped.x, choices.noise, choices.rules, finder, limits)
        for one in found:
            if not isinstance(one, Audit):
                raise one.error
        return tuple(one for one in found if isinstance(one, Audit))

    def swept(self, choices: Choices, tell: Callable[[int, int], None]) -> None:
        """Wait for the sweep of these choices, which is soon there and which the slider needs; the search comes after it."""
        found, last = self.sweep(choices), -1
        while found.done < between.POINTS and found is self.sweep(choices):
            cancel.check()
            if found.done != last:
                last = found.done
                tell(last, between.POINTS)
            time.sleep(0.02)

    def sweep(self, choices: Choices) -> Sweep:
        """The sweep of these choices; it is begun if there is none, and the one for other choices ends."""
        key = (self.mapped.number, choices.key)
        with self._lock:
            if key in self._sweeps:
                return self._sweeps[key]
            while len(self._sweeps) >= 3:
                del self._sweeps[next(iter(self._sweeps))]
            made = self._sweeps[key] = Sweep()
        self._stop_preparing(NEWER)
        self.latest = made
        token = self._preparing = cancel.Token()
        threading.Thread(
            target=self._prepare, args=(choices, made, token, key), name="fairpost-sweep", daemon=True
        ).start()
        return made

    def _prepare(self, choices: Choices, sweep: Sweep, token: cancel.Token, key: Any) -> None:
        epsilons = between.levels()
        rough = (
            FirstOf((Expansion(), Exact(), Conditional(between.ROUGH)))
            if choices.method == "auto"
            else self.engine(choices)
        )
        try:
            with cancel.by(token):
                for level in between.order():
                    self.jobs.behind()
                    try:
                        with self.jobs.turn() if choices.method == "auto" else nullcontext():
                            found = self.results(choices.at(epsilons[level]), engine=rough)
                        sweep.put(level, found)
                    except Cancelled:
                        raise
                    except FairpostError:
                        sweep.put(level, None)
        except Cancelled:
            with self._lock:
                self._sweeps.pop(key, None)

    def _stop_preparing(self, reason: str) -> None:
        if self._preparing is not None:
            self._preparing.cancel(reason)


def levels_of(line: str) -> dict[str, int]:
    """`state:2,county:5` as lengths of prefixes of the id."""
    found: dict[str, int] = {}
    for part in line.split(","):
        name, _, length = part.strip().rpartition(":")
        if not name.strip() or length_of(length) is None or name.strip() in found:
            raise ParameterError(f"`levels` must be NAME:LENGTH,... with each name once, got {part.strip()!r}")
        found[name.strip()] = int(length)
    return found
