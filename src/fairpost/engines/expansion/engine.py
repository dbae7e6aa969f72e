"""The expansion engine: what many entities do on average, and the first order in 1/n. It states its error and does not bound it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fairpost.engines.analytic import Analytic
from fairpost.engines.base import Answer, Question, Refusal

RTOL = 1e-2
"""Of alpha: what the method is asked for."""


@dataclass(frozen=True)
class Expansion:
    """No simulation: what many entities do on average, and the first correction.

    The error of a bias is the size of what is left out, with a margin that tests against exact results and simulation set.
    """

    name: ClassVar[str] = "expansion"

    @property
    def analytic(self) -> Analytic:
        """Its method."""
        from fairpost.engines.expansion.method import Many

        return Analytic((Many(),), RTOL, missing="there is no expansion")

    def supports(self, question: Question) -> str | None:
        """None where the engine will try, else the reason why it does not."""
        return self.analytic.supports(question)

    def evaluate(self, question: Question) -> tuple[Answer | Refusal, ...]:
        """The moments of pi(X), one entry per entity."""
        return self.analytic.evaluate(question)
