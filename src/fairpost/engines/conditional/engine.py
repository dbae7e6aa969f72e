"""The conditional engine: each entity's own noise in closed form, the others' at evenly spread points, with intervals that cover."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, TypeVar

import numpy as np

from fairpost.engines.analytic import Analytic
from fairpost.engines.base import Answer, Question, Refusal, reached_by
from fairpost.engines.groups import together
from fairpost.errors import Cancelled, ParameterError
from fairpost.noise import Stream
from fairpost.parallel import over_slices
from fairpost.partition import Partition

if TYPE_CHECKING:
    from fairpost.engines.conditional.method import ConditionalMeans

T = TypeVar("T")
WORK = 2**23
"""Points times entities, where nothing is said about points: seconds of one core."""
MANY = 2
"""By group so many times the work, shared among the groups."""
FAR, OTHERS = 30.0, 10.0
"""A group whose extremes are farther than FAR tolerances from those of all groups is known OTHERS times less well."""


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

    """

    rtol: float = 1e-3
    seed: int = 0
    confidence: float = 0.95
    points: int | None = None
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

    @property
    def analytic(self) -> Analytic:
        """Its method."""
        return Analytic((self._method(),), self.rtol)

    def _method(self) -> ConditionalMeans:
        from fairpost.engines.conditional.method import ConditionalMeans

        points = None if self.points is None else int(self.points)
        return ConditionalMeans(int(self.seed), float(self.confidence), points, work=WORK)

    def supports(self, question: Question) -> str | None:
        """None where the engine will try, else the reason why it does not."""
        return self.analytic.supports(question)

    def evaluate(self, question: Question) -> tuple[Answer | Refusal, ...]:
        """The moments of pi(X), one entry per entity."""
        found: list[Answer | Refusal] = []
        try:
            for i, pi in enumerate(question.pis):
                one = question.only([i])
                found += self.analytic.evaluate(one) if pi.partition is None else [self._by_group(one, pi.partition)]
        except Cancelled as error:
            error.reaching(lambda last: reached_by([*found, *(last or ())], len(question.pis)))
            raise
        return tuple(found)

    def _by_group(self, question: Question, partition: Partition) -> Answer | Refusal:
        """Groups are independent problems with one tolerance: `rtol` of the largest alpha of any group.

        A few points of each, thrown away, say how large that is, and which groups may have the largest and the smallest bias of all: these are
        known so well, the others `OTHERS` times less (what they lack to the extremes is more). Then every group is looked at once, so that
        nothing is chosen by what is given. All statements share the chance to miss, those about alpha and those about biases too.
        """
        parts = question.parts(0)
        work = MANY * WORK // len(parts)
        method = replace(self._method(), share=2 * len(parts), work=work)

        def each(task: Callable[[int], T]) -> list[T]:
            found = over_slices(lambda some: list(map(task, range(len(parts))[some])), len(parts))
            return [one for some in found for one in some]

        rough = np.array(each(lambda g: method.rough(parts[g])))
        need = self.rtol * max(float(np.max(rough[:, 0])), *question.largest, 0.0)
        apart = np.minimum(np.max(rough[:, 1]) - rough[:, 1], rough[:, 2] - np.min(rough[:, 2]))
        enough = np.where(apart > FAR * need, OTHERS * need, need)

        def one(g: int) -> Answer | Refusal:
            return replace(method, enough=float(enough[g])).evaluate(parts[g], self.rtol)

        return together(each(one), partition)
