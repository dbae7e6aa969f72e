"""The exact engine: every bias by closed form or quadrature, each with its own error bound."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fairpost.engines.analytic import Analytic
from fairpost.engines.base import Answer, Question, Refusal
from fairpost.errors import ParameterError

RTOL = 1e-6
"""The relative tolerance on alpha."""


@dataclass(frozen=True)
class Exact:
    """No simulation: integrals over the noise, refined until alpha is known to the relative tolerance `rtol`.

    Distinct (count, weight) pairs are evaluated once. What the engine cannot do it refuses by name
    (`UnsupportedError`), and where its own error bound stays above the tolerance it says so (`ToleranceError`).
    """

    rtol: float = RTOL
    name: ClassVar[str] = "exact"

    def __post_init__(self) -> None:
        if not 1e-12 <= self.rtol < 1:
            raise ParameterError(f"`rtol` must be from 1e-12 to below 1, got {self.rtol!r}")

    @property
    def analytic(self) -> Analytic:
        """Its methods."""
        from fairpost.engines.closed.few import Few
        from fairpost.engines.closed.method import Closed
        from fairpost.engines.contour.method import Contour

        return Analytic((Closed(), Few(), Contour()), self.rtol, missing="the exact engine has no integral")

    def supports(self, question: Question) -> str | None:
        """None where the engine will try, else the reason why it does not."""
        return self.analytic.supports(question)

    def evaluate(self, question: Question) -> tuple[Answer | Refusal, ...]:
        """The moments of pi(X), one entry per entity; groups that keep their own totals are independent problems."""
        return self.analytic.evaluate(question)
