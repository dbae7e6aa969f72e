"""Short ways to ask an engine directly, and what its answers about releases are compared with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

import fairpost as fp
from fairpost.engines import Exact, MonteCarlo
from fairpost.engines.base import Answer, Question, answered
from fairpost.noise import Threshold
from fairpost.rules import Simplex, SimplexThreshold

NO_SIMULATION = fp.FirstOf((fp.Exact(), fp.Expansion(), fp.Conditional()))


def answer(engine: Any, counts: fp.Counts, mechanism: Any, pi: Any) -> Answer:
    """The answer about one post-processing; a refusal is raised."""
    return answered(engine.evaluate(Question.ask(counts, mechanism, [pi]))[0])


def samples(engine: Any, counts: fp.Counts, mechanism: Any, pis: Sequence[Any]) -> tuple[Any, ...]:
    """What simulation has shown about several post-processings on the same noise."""
    found = [answered(a) for a in engine.evaluate(Question.ask(counts, mechanism, pis))]
    return tuple(a.sample for a in found)


def supports(engine: Any, counts: fp.Counts, mechanism: Any, pi: Any) -> str | None:
    """The engine's dry run."""
    return engine.supports(Question.ask(counts, mechanism, [pi]))


@dataclass(frozen=True)
class Fixed:
    """An engine that says what it is told to say, and counts how often it is asked."""

    says: tuple[Any, ...]
    asked: list[int] = field(default_factory=list)
    name: ClassVar[str] = "fixed"

    def supports(self, question: Question) -> str | None:
        return None

    def evaluate(self, question: Question) -> tuple[Any, ...]:
        self.asked.append(len(question.pis))
        return self.says[: len(question.pis)]


def enumerated(
    x: np.ndarray, noise: fp.noise.Law, total: float, ramp: Threshold | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Bias, mean squared error, P(v = 0) and E[T] from every noise vector with a mass above 1e-19 (what is left out sums to below 1e-13)."""
    reach = int(42 * noise.spread + 2) if np.isfinite(noise.strip) else int(9.5 * noise.spread + 2)
    k = np.arange(-reach, reach + 1.0)
    mass = noise.density(k)
    grid = np.stack([g.ravel() for g in np.meshgrid(*[k] * x.size, indexing="ij")], axis=1)
    weight = np.prod(np.stack([m.ravel() for m in np.meshgrid(*[mass] * x.size, indexing="ij")]), axis=0)
    likely = weight > 1e-19
    rule = Simplex(total) if ramp is None else SimplexThreshold(total, threshold=ramp)
    v, weight = rule(x + grid[likely]), weight[likely]
    y = x + grid[likely] + (total - np.sum(x + grid[likely], axis=1, keepdims=True)) / x.size
    lift = np.max(y - v, axis=1)  # v = (y - T)_+: T where v > 0, and at most T elsewhere
    return weight @ (v - x), weight @ (v - x) ** 2, weight @ (v < 1e-9), float(weight @ lift)


def within(engine: Exact, counts: fp.Counts, noise: fp.noise.Law, pi: object, runs: int, seed: int) -> None:
    """Bias within the simulation's simultaneous interval (99 %); spread and chance within six standard errors."""
    exact = answer(engine, counts, noise, pi)
    drawn = answer(MonteCarlo(runs=runs, seed=seed), counts, noise, pi)
    assert (np.abs(exact.bias - drawn.bias) <= exact.accuracy.half_width + drawn.accuracy.half_width).all()
    deviation = np.sqrt(exact.zero * (1 - exact.zero) / runs)
    assert (np.abs(exact.zero - drawn.zero) <= exact.zero_accuracy.half_width + 6 * deviation + 10 / runs).all()
    # squares of Laplace noise have a relative standard deviation of sqrt 5
    assert (np.abs(exact.mse - drawn.mse) <= exact.mse_accuracy.half_width + 6 * exact.mse * np.sqrt(6 / runs)).all()
