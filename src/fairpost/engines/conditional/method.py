"""Conditional means as a method: a part has an integrand, or a reason why not; points and intervals do not ask which rule it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from fairpost.engines.base import Answer, Drawn, Floats, Part, Refusal
from fairpost.engines.conditional.integrand import Integrand, Signed, integrand_of
from fairpost.engines.conditional.intervals import Found, Pilot, Wanted, found
from fairpost.engines.conditional.unseen import unseen
from fairpost.engines.moments import reached
from fairpost.noise import Law, Threshold
from fairpost.rules import PoS, PosThreshold, PostProcessing, Simplex, SimplexThreshold

WORK = 2**23
"""Points times entities, where nothing is said about points: seconds of one core."""


@dataclass(frozen=True)
class ConditionalMeans:
    """What one's own noise does is integrated, the others' is drawn."""

    seed: int
    confidence: float
    points: int | None = None
    """In all, at most."""
    share: int = 1
    """So many statements share the chance to miss."""
    progress: Callable[[int, int], None] | None = None
    name: ClassVar[str] = "conditional"
    rules: ClassVar[tuple[type[PostProcessing], ...]] = (Simplex, SimplexThreshold, PoS, PosThreshold)

    def fits(self, part: Part, rtol: float) -> str | None:
        """Why there are no conditional means of this part."""
        made = integrand_of(part)
        return made if isinstance(made, str) else None

    def evaluate(self, part: Part, rtol: float) -> Answer | Refusal:
        """The moments; a refusal where the points allowed do not suffice, or where their means are too skewed."""
        made = integrand_of(part)
        if isinstance(made, str):
            return Refusal(made)
        wanted = Wanted(
            rtol=rtol,
            unit=_unit(part),
            change=_unit(part) * (1 + made.problem.top / part.mechanism.deviation),
            miss=(1 - self.confidence) / self.share,
            points=self.points or max(WORK // max(made.dimension, 1), 1),
            seed=self.seed,
            look=int(np.float64(rtol).view(np.uint64)),
            ends=None if part.ends is None else (int(made.inverse[part.ends[0]]), int(made.inverse[part.ends[1]])),
            progress=self.progress,
        )
        with np.errstate(all="ignore"):  # far tails underflow
            seen = found(made, lambda points: _beyond(part, made, points), wanted)
        return self._missed(part, made, seen) if isinstance(seen, Pilot) else self._answer(part, made, seen)

    def _answer(self, part: Part, made: Integrand | Signed, seen: Found) -> Answer | Refusal:
        answer = seen.moments.at(made.inverse).answer(self.name, "interval", part)
        if isinstance(answer, Refusal):
            return answer
        first = [int(np.flatnonzero(made.inverse == end)[0]) for end in seen.pair]
        answer = replace(
            answer,
            pair=part.ends or (first[0], first[1]),
            drawn=Drawn(seen.scrambles * seen.points, self.seed, self.confidence),
            note=f"conditional means at {seen.scrambles} x {seen.points:,} points, {100 * self.confidence:g} % confidence",
        )
        if seen.short is not None:
            return Refusal(f"{part.pi.name}: {seen.short}", tried=True, reached=answer if seen.known else None)
        return answer

    def _missed(self, part: Part, made: Integrand | Signed, pilot: Pilot) -> Refusal:
        said = f"alpha = {pilot.alpha:.3g} would be known to some {pilot.half_width:.1g} only"
        bias, error = pilot.bias[made.inverse], pilot.error[made.inverse]
        return Refusal(
            f"{part.pi.name}: {said} with the points allowed",
            tried=True,
            reached=reached(self.name, "interval", bias, error),
        )


def _beyond(part: Part, made: Integrand | Signed, points: int) -> Floats:
    """What of each pair's bias lies where none of so many points comes: of its own, and of the mean of all, which every bias has in it."""
    assert isinstance(part.mechanism, Law)
    problem, pairs = made.problem, made.problem.pairs
    if problem.total is None and problem.spread[0] <= 0:  # nobody's clipping is rare
        return np.zeros(made.offset.size)
    rule = Threshold(problem.level, problem.steepness) if problem.level > 0 else Threshold(0.0)
    own = unseen(pairs.x, pairs.a, pairs.times, part.mechanism, rule, problem.total, points)
    return own + float(pairs.times @ own) / problem.n


def _unit(part: Part) -> float:
    """The noise's standard deviation in the unit of the answer."""
    weights = getattr(part.pi, "weights", None)
    if not part.pi.problem.shares:
        return part.mechanism.deviation
    a = np.ones(part.x.size) if weights is None else np.asarray(weights)
    return float(part.mechanism.deviation * np.max(a) / np.sum(a * part.x))
