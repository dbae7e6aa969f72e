"""Conditional means as a method: a part has an integrand, or a reason why not; points and intervals do not ask which rule it is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from fairpost.engines.base import Answer, Drawn, Floats, Part, Refusal
from fairpost.engines.conditional.integrand import Direct, Integrand, integrand_of
from fairpost.engines.conditional.intervals import Found, Means, Pilot, Wanted, found, pilot
from fairpost.engines.conditional.problem import Problem
from fairpost.engines.conditional.unseen import unseen
from fairpost.engines.moments import Moments, reached
from fairpost.noise import Law, Threshold
from fairpost.rules import PoS, PosThreshold, PostProcessing, Simplex, SimplexThreshold


@dataclass(frozen=True)
class ConditionalMeans:
    """What one's own noise does is integrated, the others' is drawn."""

    seed: int
    confidence: float
    points: int | None = None
    """In all, at most."""
    share: int = 1
    """So many statements share the chance to miss."""
    work: int = 0
    """Points times entities, where `points` is not given."""
    enough: float = 0.0
    """A half-width of alpha that is narrow enough whatever alpha is."""
    name: ClassVar[str] = "conditional"
    rules: ClassVar[tuple[type[PostProcessing], ...]] = (Simplex, SimplexThreshold, PoS, PosThreshold)

    def fits(self, part: Part, rtol: float) -> str | None:
        """Why there are no conditional means of this part."""
        if part.x.size == 1:
            return None
        problem = Problem.of(part)
        return problem if isinstance(problem, str) else None

    def rough(self, part: Part) -> tuple[float, float, float]:
        """What alpha is at least, the largest and the smallest bias, as a few points see them; 0 where there are no conditional means."""
        made = 0.0 if part.x.size == 1 else integrand_of(part)
        if isinstance(made, float | str):
            return 0.0, 0.0, 0.0
        with np.errstate(all="ignore"):
            seen = pilot(Means(made, self._wanted(part, made, 1.0)), lambda points: np.zeros(made.offset.size))
        return seen.low, float(np.max(seen.bias)), float(np.min(seen.bias))

    def evaluate(self, part: Part, rtol: float) -> Answer | Refusal:
        """The moments; a refusal where the points allowed do not suffice, or where their means are too skewed."""
        if part.x.size == 1:
            return self._alone(part)
        made = integrand_of(part)
        if isinstance(made, str):
            return Refusal(made)
        with np.errstate(all="ignore"):  # far tails underflow
            seen = found(made, lambda points: _beyond(part, made, points), self._wanted(part, made, rtol))
        return self._missed(part, made, seen) if isinstance(seen, Pilot) else self._answer(part, made, seen)

    def _wanted(self, part: Part, made: Integrand | Direct, rtol: float) -> Wanted:
        return Wanted(
            rtol=rtol,
            enough=self.enough,
            unit=_unit(part),
            change=_change(part, made.problem),
            miss=(1 - self.confidence) / self.share,
            points=self.points or max(int(self.work / (made.cost * max(made.dimension, 1))), 1),
            seed=self.seed,
            look=int(np.float64(rtol).view(np.uint64)),
            ends=None if part.ends is None else (int(made.inverse[part.ends[0]]), int(made.inverse[part.ends[1]])),
        )

    def _alone(self, part: Part) -> Answer | Refusal:
        """All that there is goes to one entity, whatever the noise."""
        all_ = np.array([part.pi.C]) if isinstance(part.pi, Simplex | SimplexThreshold) else np.ones(1)
        bias, zero = all_ - part.truth, np.where(all_ > 0, 0.0, 1.0)
        return Moments(bias, np.zeros(1), bias**2, zero, kind="bound").answer(self.name, "bound", part)

    def _answer(self, part: Part, made: Integrand | Direct, seen: Found) -> Answer | Refusal:
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

    def _missed(self, part: Part, made: Integrand | Direct, pilot: Pilot) -> Refusal:
        said = f"alpha = {pilot.alpha:.3g} would be known to some {pilot.half_width:.1g} only"
        bias, error = pilot.bias[made.inverse], pilot.error[made.inverse]
        return Refusal(
            f"{part.pi.name}: {said} with the points allowed",
            tried=True,
            reached=reached(self.name, "interval", bias, error),
        )


def _beyond(part: Part, made: Integrand | Direct, points: int) -> Floats:
    """What of each pair's bias lies where none of so many points comes: of its own, and of the mean of all, which every bias has in it."""
    assert isinstance(part.mechanism, Law)
    problem, pairs = made.problem, made.problem.pairs
    rule = Threshold(problem.level, problem.steepness) if problem.level > 0 else Threshold(0.0)
    root = np.inf if isinstance(made, Direct) else problem.root()
    own = unseen(pairs.x, pairs.a, pairs.times, part.mechanism, rule, problem.total, points, root)
    return own + float(pairs.times @ own) / problem.n


def _change(part: Part, problem: Problem) -> float:
    """What one noise changes in an output: its deviation, of whole numbers 1 at least, and the height of a threshold; a share by 1 at most."""
    deviation = part.mechanism.deviation
    one = _unit(part) * (max(deviation, float(problem.law.discrete)) + problem.top) / deviation
    return one if problem.total is not None else min(one, 1.0)


def _unit(part: Part) -> float:
    """The noise's standard deviation in the unit of the answer."""
    weights = getattr(part.pi, "weights", None)
    if not part.pi.problem.shares:
        return part.mechanism.deviation
    a = np.ones(part.x.size) if weights is None else np.asarray(weights)
    return float(part.mechanism.deviation * np.max(a) / np.sum(a * part.x))
