"""Who answers which part of a question, decided before the work."""

from __future__ import annotations

from dataclasses import dataclass

from fairpost.engines.base import Engine, Part, Question
from fairpost.engines.first_of import FirstOf


@dataclass(frozen=True)
class Choice:
    """Who answers one part, and why those asked before do not."""

    rule: str
    group: str | None
    """The group, where each has a problem of its own."""
    method: str | None
    """None where nobody does."""
    passed: tuple[tuple[str, str], ...]
    """Each method before it, and its reason."""

    def __str__(self) -> str:
        """In one line."""
        who = self.rule if self.group is None else f"{self.rule}, {self.group}"
        why = "; ".join(f"not {name}: {reason}" for name, reason in self.passed)
        return f"{who}: {self.method or 'nobody'}" + (f" ({why})" if why else "")


def method_for(question: Question, engine: Engine) -> tuple[Choice, ...]:
    """For each post-processing, and each group that has a problem of its own, the first method that fits.

    With `engine="auto"` they are asked in this order:

    1. exact: closed formulas, one-dimensional integrals, contours; refuses what it cannot do to its tolerance
    2. expansion: many entities; the first terms in 1/n, with the size of what is left out
    3. conditional: thresholds, whole numbers, weights; one's own noise integrated, the others' drawn at evenly spread points, with intervals
    4. simulation: every rule and every noise

    A method that fits may still fall short of its tolerance in the work; then the next one that fits is asked, and the answer's note
    says so.
    """
    found = []
    for i, pi in enumerate(question.pis):
        for g, part in enumerate(question.parts(i)):
            group = None if pi.partition is None else pi.partition.name(g)
            passed: list[tuple[str, str]] = []
            name = _first(engine, question.only([i]), part, passed)
            found.append(Choice(pi.name, group, name, tuple(passed)))
    return tuple(found)


def _first(engine: Engine, question: Question, part: Part, passed: list[tuple[str, str]]) -> str | None:
    """The name of the first that fits; the others go to `passed`."""
    if isinstance(engine, FirstOf):
        return next((name for one in engine.engines if (name := _first(one, question, part, passed))), None)
    analytic = getattr(engine, "analytic", None)
    if analytic is not None:
        method, before = analytic.choose(part)
        passed += before if before or method else [(engine.name, analytic.unknown(part))]
        return None if method is None else str(method.name)
    why = engine.supports(question)
    if why is not None:
        passed.append((engine.name, why))
    return engine.name if why is None else None
