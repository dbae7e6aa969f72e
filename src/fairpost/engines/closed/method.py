"""Rules that share nothing, or a sum of independent payments: one function each, beside its derivation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from fairpost.engines.base import Answer, Part, Refusal
from fairpost.engines.closed import releases
from fairpost.engines.closed.baseline import Clipped, shared
from fairpost.engines.closed.programme.factors import Paid
from fairpost.engines.closed.programme.moments import payments
from fairpost.engines.closed.shares import symmetric
from fairpost.engines.moments import Work, distinct
from fairpost.noise import Law
from fairpost.noise.base import DISCRETE_GAUSSIAN
from fairpost.problems.programme import Kinks
from fairpost.rules import Baseline, Nonnegative, PostProcessing, Sum, SumClipped, Unchanged
from fairpost.rules.programme import Paying


def baseline(pi: Baseline, part: Part, law: Law) -> Work:
    """BL for the distinct pairs (x, a): a law without thresholds that pays what is counted; in shares of 1."""
    d = distinct(part, pi.problem.a(part.x.size))
    none, place = np.zeros(d.x.size), np.arange(d.x.size + 1)
    long = law.code == DISCRETE_GAUSSIAN and law.spread > LONG
    paid = Clipped(d.x, d.a, law) if long else Paid(d.x, d.a, Kinks(place, none, none, none + 1), law)
    return lambda rtol: d.entities(symmetric(shared(paid, d.x, d.truth, rtol, "baseline", times=d.times)))


PREPARE: dict[type[PostProcessing], Callable[[Any, Part, Law], Work | str]] = {
    Unchanged: releases.unchanged,
    Nonnegative: releases.nonnegative,
    Sum: releases.keeps_sum,
    SumClipped: releases.sum_clipped,
    Baseline: baseline,
    Paying: payments,
}
"""For each kind of rule the work, or the reason why there is none."""
LONG = 50.0
"""From this sigma on the table of a discrete Gaussian law has more entries than its partial transforms take work."""
ALONE = (Unchanged, Nonnegative)
"""Each count by itself: any law will do."""


@dataclass(frozen=True)
class Closed:
    """Closed formulas are bounds; what a refinement of an integral changed is an estimate."""

    name: ClassVar[str] = "closed"
    rules: ClassVar[tuple[type[PostProcessing], ...]] = tuple(PREPARE)

    def fits(self, part: Part, rtol: float) -> str | None:
        """Why there is no formula for this rule under this noise."""
        work = self._work(part)
        return work if isinstance(work, str) else None

    def evaluate(self, part: Part, rtol: float) -> Answer | Refusal:
        """Its moments."""
        work = self._work(part)
        if isinstance(work, str):
            return Refusal(work)
        with np.errstate(all="ignore"):  # far tails under- and overflow; what is not finite is refused in `answer`
            found = work(rtol)
            return found.answer("exact", found.kind, part)

    def _work(self, part: Part) -> Work | str:
        if not isinstance(part.mechanism, Law):
            return f"the law of {part.mechanism.name} noise is not known; it can be simulated"
        kind = next(kind for kind in type(part.pi).__mro__ if kind in PREPARE)
        if part.mechanism.code is None and kind not in ALONE:
            return f"the law of a sum of {part.mechanism.name} noises is not known; it can be simulated"
        return PREPARE[kind](part.pi, part, part.mechanism)
