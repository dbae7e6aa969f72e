"""Short ways to ask an engine directly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import fairpost as fp
from fairpost.engines.base import Answer, Question, answered

NO_SIMULATION = fp.FirstOf((fp.Exact(), fp.Expansion()))


def answer(engine: Any, counts: fp.Counts, mechanism: Any, pi: Any) -> Answer:
    """The answer about one post-processing; a refusal is raised."""
    return answered(engine.evaluate(Question.ask(counts, mechanism, [pi]))[0])


def samples(engine: Any, counts: fp.Counts, mechanism: Any, pis: Sequence[Any]) -> tuple[Any, ...]:
    """What simulation has shown about several post-processings on the same noise."""
    found = [answered(a) for a in engine.evaluate(Question.ask(counts, mechanism, pis))]
    return tuple(a.sample for a in found)


def supports(engine: Any, counts: fp.Counts, mechanism: Any, pi: Any) -> str | None:
    """The engine's dry run."""
    return engine.supports(Question.ask(counts, mechanism, [pi]))


@dataclass(frozen=True)
class Fixed:
    """An engine that says what it is told to say, and counts how often it is asked."""

    says: tuple[Any, ...]
    asked: list[int] = field(default_factory=list)
    name: ClassVar[str] = "fixed"

    def supports(self, question: Question) -> str | None:
        return None

    def evaluate(self, question: Question) -> tuple[Any, ...]:
        self.asked.append(len(question.pis))
        return self.says[: len(question.pis)]
