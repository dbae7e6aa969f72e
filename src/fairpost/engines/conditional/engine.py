"""The conditional engine: each entity's own noise in closed form, the others' at evenly spread points, with intervals that cover."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from fairpost.engines.analytic import Analytic
from fairpost.engines.base import Answer, Question, Refusal, reached_by
from fairpost.errors import Cancelled, ParameterError
from fairpost.noise import Stream

LOOKS = 2
"""A group is looked at twice at most, at fresh points."""
COARSE = 0.1
"""First looks are at few points: alpha to a tenth says which groups matter."""


@dataclass(frozen=True)
class Conditional:
    """Conditional means at scrambled Sobol points: thresholds, whole numbers and weights to three digits.

    The result is the same bit for bit on any number of threads.

    Parameters
    ----------
    rtol
        How narrow the interval of alpha is to be, relative to alpha (by group: to the largest alpha of any group).
    seed
        Any whole number from 0 to 2**64 - 1.
    confidence
        The chance with which an interval covers, for alpha and for all biases together, by group for all groups together.
    points
        The most points in all, each a draw of everybody's noise. Default: by the number of entities. What needs more is refused.
    progress
        Called as progress(points done, points of this step) where groups do not have problems of their own.

    """

    rtol: float = 1e-3
    seed: int = 0
    confidence: float = 0.95
    points: int | None = None
    progress: Callable[[int, int], None] | None = field(default=None, compare=False)
    name: ClassVar[str] = "conditional"

    def __post_init__(self) -> None:
        Stream(self.seed)
        if not 0 < self.rtol < 1:
            raise ParameterError(f"`rtol` must be above 0 and below 1, got {self.rtol!r}")
        if not 0 < self.confidence < 1:
            raise ParameterError(f"`confidence` must be above 0 and below 1, got {self.confidence!r}")
        if self.points is not None and (
            isinstance(self.points, bool)
            or not isinstance(self.points, (int, np.integer))
            or not 1 <= self.points < 2**62
        ):
            raise ParameterError(f"`points` must be a whole number, at least 1, got {self.points!r}")

    def _analytic(self, groups: int | None) -> Analytic:
        """Its method; in groups all statements share the chance to miss, those about alpha and those about biases too."""
        from fairpost.engines.conditional.method import ConditionalMeans

        points = None if self.points is None else int(self.points)
        method = ConditionalMeans(int(self.seed), float(self.confidence), points, progress=self.progress)
        if groups is not None:
            method = replace(method, share=2 * LOOKS * groups, progress=None)
        return Analytic((method,), self.rtol, COARSE)

    @property
    def analytic(self) -> Analytic:
        """Its method, for those who ask whether it fits."""
        return self._analytic(None)

    def supports(self, question: Question) -> str | None:
        """None where the engine will try, else the reason why it does not."""
        return self.analytic.supports(question)

    def evaluate(self, question: Question) -> tuple[Answer | Refusal, ...]:
        """The moments of pi(X), one entry per entity."""
        found: list[Answer | Refusal] = []
        try:
            for i, pi in enumerate(question.pis):
                groups = None if pi.partition is None else len(pi.partition.labels)
                found += self._analytic(groups).evaluate(question.only([i]))
        except Cancelled as error:
            error.reaching(lambda last: reached_by([*found, *(last or ())], len(question.pis)))
            raise
        return tuple(found)
