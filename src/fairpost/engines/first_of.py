"""Several engines in turn: each is asked for what those before it refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import numpy as np

from fairpost.engines.base import Answer, Engine, Question, Reached, Refusal
from fairpost.errors import Cancelled, ToleranceError


@dataclass(frozen=True)
class FirstOf:
    """The first engine that answers. Where one refused with a result in hand, the better of the two is kept.

    "Better" is said of alpha: the one with the smaller half-width; but a refused answer that the next one contradicts is dropped.
    The answer's note says which and why.
    """

    engines: tuple[Engine, ...]
    name: ClassVar[str] = "auto"

    def supports(self, question: Question) -> str | None:
        """None where some engine will be tried for each post-processing, else the last reason."""
        for i in range(len(question.pis)):
            reasons = [engine.supports(question.only([i])) for engine in self.engines]
            if all(reason is not None for reason in reasons):
                return reasons[-1]
        return None

    def evaluate(self, question: Question) -> tuple[Answer | Refusal, ...]:
        """Each engine in turn, for all that is still open at once."""
        found: dict[int, Answer | Refusal] = {}
        for engine in self.engines:
            still = [i for i in range(len(question.pis)) if not isinstance(found.get(i), Answer)]
            if not still:
                break
            try:
                answers = engine.evaluate(question.only(still))
            except Cancelled as error:
                error.reaching(partial(_withdrawn, found, still, len(question.pis)))
                raise
            for i, answer in zip(still, answers, strict=True):
                found[i] = _joined(found.get(i), answer)
        return tuple(found[i] for i in range(len(question.pis)))


def _withdrawn(
    found: dict[int, Answer | Refusal], still: list[int], size: int, new: Sequence[Answer | Refusal | None] | None
) -> tuple[Answer | Refusal | None, ...] | None:
    """What there is of a withdrawn question, the last engine's part of it included."""
    last = zip(still, new or (), strict=False)
    known = found | {i: _joined(found.get(i), one) for i, one in last if one is not None}
    return tuple(known.get(i) for i in range(size)) if known else None


def _joined(before: Answer | Refusal | None, new: Answer | Refusal) -> Answer | Refusal:
    """What is kept of a refusal and what came after it."""
    if before is None:
        return new
    assert isinstance(before, Refusal)
    if isinstance(new, Refusal):
        told = new if isinstance(new.error, ToleranceError) and not isinstance(before.error, ToleranceError) else before
        return replace(told, reached=new.reached or before.reached)
    instead = "simulated" if new.method == "monte-carlo" else f"by {new.method}"
    if before.reached is None or before.reached.alpha.half_width > new.alpha.half_width:
        return replace(new, note=_line(f"{instead}, because {before.reason}", new.note))
    if not _agree(before.reached, new):
        why = "what had been reached lies far outside what came after it, and is dropped"
        return replace(new, note=_line(f"{instead}, because {before.reason}; {why}", new.note))
    return _with_biases_of(before.reached, new, before.reason, instead)


def _agree(reached: Reached, new: Answer) -> bool:
    """Whether a refused answer can be right: no bias of it lies beyond its own error and twice the new one's.

    An interval covers all entries together with 95 %, so twice it is some six standard errors: chance hardly ever parts the two.
    """
    room = reached.accuracy.half_width + 2 * new.accuracy.half_width
    return bool(np.all(np.abs(reached.bias - new.bias) <= room))


def _with_biases_of(reached: Reached, new: Answer, reason: str, instead: str) -> Answer:
    """The biases that were reached, which are known better than the new ones; the rest from the new answer."""
    why = f"{reason}; that is still better than what came after it, so the biases stand, and the other moments are {instead}"
    return replace(
        new,
        method=reached.method,
        bias=reached.bias,
        accuracy=reached.accuracy,
        alpha=reached.alpha,
        pair=reached.pair,
        total_off=None,
        note=why,
    )


def _line(*parts: str | None) -> str:
    return "; ".join(part for part in parts if part)
