"""Answers that are kept: the slider comes back to where it was, a plan asks what a sweep has asked, a report what is shown.

An answer depends on the counts, the rule with its problem, the engine's settings and the noise; `key` has all but the last.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fairpost.accuracy import Accuracy
from fairpost.counts import Counts
from fairpost.engines.base import Answer, Engine, Question, Refusal

MOST = 48 << 20
"""Bytes of arrays that are kept; the ones that were not asked for the longest go first."""


class Memory:
    """Answers by key, rule and mechanism."""

    def __init__(self, most: int = MOST) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[Any, tuple[Answer | Refusal | Packed, int]] = OrderedDict()
        self._most, self.size = most, 0

    def get(self, key: Any) -> Answer | Refusal | None:
        """The answer, which is then the one that was asked for last."""
        with self._lock:
            if key not in self._kept:
                return None
            self._kept.move_to_end(key)
            found = self._kept[key][0]
        return found.whole() if isinstance(found, Packed) else found

    def put(self, key: Any, answer: Answer | Refusal, counts: Counts) -> None:
        """Keep an answer; one that was cut short is not the answer to its question."""
        sample = getattr(answer, "sample", None)
        if sample is not None and sample.interrupted:
            return
        small = packed(answer, counts)
        size = _bytes(small)
        with self._lock:
            if key in self._kept:
                self.size -= self._kept.pop(key)[1]
            self._kept[key] = (small, size)
            self.size += size
            while self.size > self._most and len(self._kept) > 1:
                self.size -= self._kept.popitem(last=False)[1][1]

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._kept.clear()
            self.size = 0


@dataclass(frozen=True, eq=False)
class Packed:
    """An answer whose arrays have one entry per class of entities: those with the same count and weight have the same."""

    answer: Answer
    of: NDArray[np.int64]

    def whole(self) -> Answer:
        """The answer, one entry per entity again, to the bit."""
        return _mapped(self.answer, lambda values: values[self.of])


def packed(answer: Answer | Refusal, counts: Counts) -> Answer | Refusal | Packed:
    """The answer by class, where that loses nothing."""
    if not isinstance(answer, Answer) or answer.sample is not None:
        return answer
    _, _, times, of = counts.distinct
    if 2 * times.size > of.size:
        return answer
    first = np.empty(times.size, dtype=np.int64)
    first[of[::-1]] = np.arange(of.size)[::-1]
    small = _mapped(answer, lambda values: values[first])
    return (
        Packed(small, of)
        if all(map(np.array_equal, _arrays(_mapped(small, lambda v: v[of])), _arrays(answer)))
        else answer
    )


def _arrays(a: Answer) -> list[NDArray[np.float64]]:
    return [a.bias, a.accuracy.half_width, a.mse, a.mse_accuracy.half_width, a.zero, a.zero_accuracy.half_width]


def _mapped(a: Answer, change: Callable[[NDArray[np.float64]], NDArray[np.float64]]) -> Answer:
    def known(accuracy: Accuracy) -> Accuracy:
        return Accuracy(accuracy.kind, change(accuracy.half_width))

    parts = {"bias": change(a.bias), "mse": change(a.mse), "zero": change(a.zero)}
    accuracies = {name: known(getattr(a, name)) for name in ("accuracy", "mse_accuracy", "zero_accuracy")}
    return replace(a, **parts, **accuracies)  # type: ignore[arg-type]


def _bytes(answer: Answer | Refusal | Packed) -> int:
    """Of the arrays, however deep; each counts once, and the classes of the counts not at all."""
    seen: dict[int, int] = {}

    def look(value: Any, depth: int) -> None:
        if isinstance(value, np.ndarray):
            seen[id(value)] = value.nbytes
        elif depth < 4 and hasattr(value, "__dict__"):
            for part in vars(value).values():
                look(part, depth + 1)

    look(answer.answer if isinstance(answer, Packed) else answer, 0)
    return sum(seen.values()) + 1000


@dataclass(frozen=True)
class Remembering:
    """An engine that asks another one only for what is not kept."""

    inner: Engine
    memory: Memory = field(compare=False)
    key: Any
    before: Callable[[], None] | None = field(default=None, compare=False)
    """Called before anything is computed: the place to let others go first."""
    turn: Callable[[], AbstractContextManager[None]] | None = field(default=None, compare=False)
    """Around what is computed."""
    name: ClassVar[str] = "remembering"

    def supports(self, question: Question) -> str | None:
        """As the other engine."""
        return self.inner.supports(question)

    def evaluate(self, question: Question) -> tuple[Answer | Refusal, ...]:
        """What is kept, and the rest in one question."""
        keys = [(self.key, pi.name, question.mechanism) for pi in question.pis]
        found = {i: kept for i, key in enumerate(keys) if (kept := self.memory.get(key)) is not None}
        rest = [i for i in range(len(keys)) if i not in found]
        if rest and self.before is not None:
            self.before()
        if rest:
            with self.turn() if self.turn is not None else nullcontext():
                answers = self.inner.evaluate(question.only(rest))
            for i, answer in zip(rest, answers, strict=True):
                self.memory.put(keys[i], answer, question.counts)
                found[i] = answer
        return tuple(found[i] for i in range(len(keys)))
