"""The expansion engine: mean field and its first correction in 1/n. It states its error and does not bound it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fairpost.engines.analytic import Analytic
from fairpost.engines.base import Answer, Question, Refusal


@dataclass(frozen=True)
class Expansion:
    """No simulation and no integral: what many entities do on average, and the first correction.

    The error of a bias is the size of what is left out, with a margin that tests against exact results and simulation set.
    """

    name: ClassVar[str] = "expansion"

    @property
    def analytic(self) -> Analytic:
        """Its methods."""
        from fairpost.engines.evaluation import Registered
        from fairpost.engines.expansion.evaluators import EXPANSION

        return Analytic((Registered(self.name, "expansion", EXPANSION),), rtol=1.0, missing="there is no expansion")

    def supports(self, question: Question) -> str | None:
        """None where the engine will try, else the reason why it does not."""
        return self.analytic.supports(question)

    def evaluate(self, question: Question) -> tuple[Answer | Refusal, ...]:
        """The moments of pi(X), one entry per entity."""
        return self.analytic.evaluate(question)
