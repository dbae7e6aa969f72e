"""Answers that are kept: the slider comes back to where it was, a plan asks what a sweep has asked, a report what is shown.

An answer depends on the counts, the rule with its problem, the engine's settings and the noise; `key` has all but the last.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from fairpost.engines.base import Answer, Engine, Question, Refusal

MOST = 96 << 20
"""Bytes of arrays that are kept; the ones that were not asked for the longest go first."""


class Memory:
    """Answers by key, rule and mechanism."""

    def __init__(self, most: int = MOST) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[Any, tuple[Answer | Refusal, int]] = OrderedDict()
        self._most, self.size = most, 0

    def get(self, key: Any) -> Answer | Refusal | None:
        """The answer, which is then the one that was asked for last."""
        with self._lock:
            if key not in self._kept:
                return None
            self._kept.move_to_end(key)
            return self._kept[key][0]

    def put(self, key: Any, answer: Answer | Refusal) -> None:
        """Keep an answer; one that was cut short is not the answer to its question."""
        sample = getattr(answer, "sample", None)
        if sample is not None and sample.interrupted:
            return
        size = _bytes(answer)
        with self._lock:
            if key in self._kept:
                self.size -= self._kept.pop(key)[1]
            self._kept[key] = (answer, size)
            self.size += size
            while self.size > self._most and len(self._kept) > 1:
                self.size -= self._kept.popitem(last=False)[1][1]

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._kept.clear()
            self.size = 0


def _bytes(answer: Answer | Refusal) -> int:
    """Of the arrays, however deep; each counts once."""
    seen: dict[int, int] = {}

    def look(value: Any, depth: int) -> None:
        if isinstance(value, np.ndarray):
            seen[id(value)] = value.nbytes
        elif depth < 4 and hasattr(value, "__dict__"):
            for part in vars(value).values():
                look(part, depth + 1)

    look(answer, 0)
    return sum(seen.values()) + 1000


@dataclass(frozen=True)
class Remembering:
    """An engine that asks another one only for what is not kept."""

    inner: Engine
    memory: Memory = field(compare=False)
    key: Any
    name: ClassVar[str] = "remembering"

    def supports(self, question: Question) -> str | None:
        """As the other engine."""
        return self.inner.supports(question)

    def evaluate(self, question: Question) -> tuple[Answer | Refusal, ...]:
        """What is kept, and the rest in one question."""
        keys = [(self.key, pi.name, question.mechanism) for pi in question.pis]
        found = {i: kept for i, key in enumerate(keys) if (kept := self.memory.get(key)) is not None}
        rest = [i for i in range(len(keys)) if i not in found]
        if rest:
            for i, answer in zip(rest, self.inner.evaluate(question.only(rest)), strict=True):
                self.memory.put(keys[i], answer)
                found[i] = answer
        return tuple(found[i] for i in range(len(keys)))
