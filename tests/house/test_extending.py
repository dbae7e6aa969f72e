"""From outside the package, in a few lines: a mechanism, a post-processing, a method."""

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


def clipped_bias(x, width):
    """E[(x + eta)_+] - x for eta uniform on [-w, w] and 0 <= x <= w: the integral of (-x - u) over [-w, -x] / 2w."""
    return np.where(x < width, (width - x) ** 2 / (4 * width), 0.0)


def suppressed_bias(x, width, floor=2.0):
    """-E[x + eta; x + eta < floor], by the integral of a line."""
    top = np.clip(floor - x, -width, width)
    return -(x * (top + width) + (top**2 - width**2) / 2) / (2 * width)


def test_a_mechanism_of_ones_own_is_simulated():
    found = fp.audit(X, Uniform(6.0), "nonnegative", runs=20_000, confidence=0.9999)
    assert found.method == "monte-carlo"
    assert found.mechanism.name == "Uniform"
    # all four intervals hold together but for a chance of 1e-4
    assert (np.abs(found.bias - clipped_bias(X.values, 6.0)) <= found.half_width + 1e-12).all()
    assert found.alpha.low <= clipped_bias(0.5, 6.0) <= found.alpha.high
    assert "simulated, because" in found.engine.note
    assert "Uniform" in found.engine.note


@pytest.mark.parametrize("rule", ["simplex", "sum", "pos", "baseline"])
def test_the_rules_of_the_package_take_a_mechanism_of_ones_own(rule):
    found = fp.audit(X, Uniform(6.0), rule, runs=2000)
    assert np.isfinite(found.bias).all()
    assert abs(found.bias.sum()) <= found.half_width.sum()  # each of these keeps its total


def test_a_post_processing_of_ones_own_is_simulated_under_known_noise_and_under_ones_own():
    found = fp.audit(X, Uniform(6.0), Suppress(), runs=20_000, confidence=0.9999)
    assert (np.abs(found.bias - suppressed_bias(X.values, 6.0)) <= found.half_width + 1e-12).all()
    assert found.problem.task == "release"
    both = fp.compare(X, fp.Laplace(3.0), [Suppress(), "simplex"], runs=2000)
    assert [r.method for r in both] == ["monte-carlo", "exact"]
    assert both.to_csv().split(",")[4] == "suppress_bias"


def test_what_a_mechanism_of_ones_own_cannot_do_is_said_in_one_line():
    with pytest.raises(fp.UnsupportedError, match="the law of Uniform noise is not known"):
        fp.audit(X, Uniform(6.0), "nonnegative", engine="exact")
    with pytest.raises(fp.UnsupportedError, match="no threshold is known for the noise 'Uniform'"):
        fp.audit(X, Uniform(6.0), "simplex-threshold")
    with pytest.raises(fp.UnsupportedError, match="no integral for the post-processing 'suppress'"):
        fp.audit(X, fp.Laplace(3.0), Suppress(), engine="exact")


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


def test_a_rule_that_counts_do_not_make_says_so():
    class Half(PostProcessing):
        """Not registered, and built by whoever asks."""

    with pytest.raises(fp.UnsupportedError, match="Half is not built from counts alone; give the object itself"):
        Half.from_counts(fp.Counts([1, 2]))
    with pytest.raises(fp.UnsupportedError, match="Custom is not built from counts alone"):
        fp.Custom.from_counts(fp.Counts([1, 2]), 3.0, by_group=True)
