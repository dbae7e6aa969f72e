"""From outside the package, in a few lines: a method, an engine, a problem, and results of ones own.

Mechanisms and rules of ones own have tests beside those of the package (`tests/noise`, `tests/rules`).
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import fairpost as fp
from fairpost.engines.analytic import Analytic
from fairpost.engines.moments import Moments
from fairpost.noise import Law, Mechanism
from fairpost.problems import Problem, Release
from fairpost.rules import Outcome, PostProcessing

X = fp.Counts([0.5, 3.0, 12.0, 90.0], ids=["a", "b", "c", "d"])


@dataclass(frozen=True)
class Uniform(Mechanism):
    """Its variance and its sampler, and nothing else."""

    width: float

    @property
    def variance(self):
        return self.width**2 / 3

    def sample(self, n, stream):
        return np.random.default_rng((stream.seed, stream.run)).uniform(-self.width, self.width, n)


class Suppress(PostProcessing):
    """Counts below a floor are not published."""

    name = "suppress"
    problem: Problem = Release()
    floor = 2.0

    def _apply(self, rows):
        return Outcome(np.where(rows < self.floor, 0.0, rows), 0)


def test_a_result_of_ones_own_is_read_back():
    found = fp.compare(X, Uniform(6.0), [Suppress(), "pos"], runs=500, budget=100.0)
    again = fp.Comparison.from_dict(found.to_dict(entities=True))
    assert again.to_dict(entities=True) == found.to_dict(entities=True)
    assert again[0].mechanism.describe() == Uniform(6.0).describe()
    with pytest.raises(fp.UnsupportedError, match="no sampler"):
        again[0].mechanism.sample(3, fp.Stream(0))


class Half(PostProcessing):
    """Half of every noisy count: E = x / 2, so that B = -x / 2 whatever the noise."""

    name = "half"
    problem: Problem = Release()

    def _apply(self, rows):
        return Outcome(rows / 2, 0)


class Halves:
    """A method of one's own."""

    name = "halves"
    rules = (Half,)

    def fits(self, part, rtol):
        return None if isinstance(part.mechanism, Law) else f"the law of {part.mechanism.name} noise is not known"

    def evaluate(self, part, rtol):
        mse, none = part.mechanism.variance / 4 + part.x**2 / 4, np.zeros_like(part.x)
        return Moments(-part.x / 2, none, mse, none).answer("exact", "bound", part)


@dataclass(frozen=True)
class Own:
    """An engine of one's own: methods, and a name."""

    name: ClassVar[str] = "own"
    analytic = Analytic((Halves(),), 1e-6)

    def supports(self, question):
        return self.analytic.supports(question)

    def evaluate(self, question):
        return self.analytic.evaluate(question)


def test_an_engine_of_ones_own_is_asked_first():
    engine = fp.FirstOf((Own(), fp.MonteCarlo(4000, confidence=0.9999)))
    found = fp.audit(X, fp.Laplace(3.0), Half(), engine=engine)
    assert (found.method, found.accuracy.kind, found.alpha.value) == ("exact", "bound", 44.75)
    assert found.bias.tolist() == (-X.values / 2).tolist()
    drawn = fp.audit(X, Uniform(6.0), Half(), engine=engine)
    assert drawn.method == "monte-carlo"
    assert "the law of Uniform noise is not known" in drawn.engine.note
    assert (np.abs(drawn.bias - found.bias) <= drawn.half_width + 1e-12).all()
    with pytest.raises(fp.UnsupportedError, match="law of Uniform noise"):
        fp.audit(X, Uniform(6.0), Half(), engine=Own())


def test_a_problem_of_ones_own():
    @dataclass(frozen=True)
    class Squares(Problem):
        name = "squares"
        task = "allocation"
        unit = "share"
        column = "true_share"
        words = "in proportion to squared counts"

        def truth(self, counts):
            return counts.values**2 / np.sum(counts.values**2)

    def rule(noisy):
        squares = np.maximum(noisy, 0.1) ** 2
        return squares / squares.sum()

    found = fp.audit(X, fp.Laplace(0.5), fp.Custom(rule, Squares(), "squared"), runs=2000, budget=1000.0)
    assert found.truth == pytest.approx(X.values**2 / np.sum(X.values**2))
    assert found.cost_of_privacy.amount.value == pytest.approx(1000 * -found.bias[found.bias < 0].sum())
    again = fp.Comparison.from_dict(fp.Comparison.of([found]).to_dict(entities=True))
    assert again[0].problem.name == "squares"
    assert again[0].truth.tolist() == found.truth.tolist()
    assert again.to_dict(entities=True) == fp.Comparison.of([found]).to_dict(entities=True)
