"""From outside the package, in a few lines: a mechanism, a rule, a method, an engine, a problem, and results of ones own.

`variance` and `sample` can be simulated, a `Law` can be integrated; a rule is a subclass or a plain function.
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


@dataclass(frozen=True)
class Triangular(Law):
    """Density (w - |u|) / w^2 on [-w, w]; `upper` by a rule that is exact for what it is asked here, polynomials."""

    width: float
    parameter = "width"

    @property
    def variance(self):
        return self.width**2 / 6

    def sample(self, n, stream):
        return np.random.default_rng((stream.seed, stream.run)).triangular(-self.width, 0, self.width, n)

    def density(self, u):
        return np.maximum(self.width - np.abs(np.asarray(u, float)), 0) / self.width**2

    def cdf(self, u):
        u = np.clip(np.asarray(u, float), -self.width, self.width)
        low = (self.width - np.abs(u)) ** 2 / (2 * self.width**2)
        return np.where(u < 0, low, 1 - low)

    def upper(self, c, s, k=0):
        node, part = np.polynomial.legendre.leggauss(12)
        c, s = np.broadcast_arrays(np.asarray(c, float), np.asarray(s, float))
        total = np.zeros(c.shape)
        for a, b in ((-self.width, 0.0), (0.0, self.width)):
            low = np.clip(c, a, b)
            u = low[..., None] + (b - low)[..., None] / 2 * (1 + node)
            v = u - c[..., None]
            total += (b - low) / 2 * np.sum(part * v**k * np.exp(s[..., None] * v) * self.density(u), axis=-1)
        return total


def clipped_bias(x, width):
    """E[(x + eta)_+] - x for eta uniform on [-w, w] and 0 <= x <= w: the integral of (-x - u) over [-w, -x] / 2w."""
    return np.where(x < width, (width - x) ** 2 / (4 * width), 0.0)


def test_a_mechanism_is_simulated():
    found = fp.audit(X, Uniform(6.0), "nonnegative", runs=20_000, confidence=0.9999)
    assert (found.method, found.mechanism.name) == ("monte-carlo", "Uniform")
    # all four intervals hold together but for a chance of 1e-4
    assert (np.abs(found.bias - clipped_bias(X.values, 6.0)) <= found.half_width + 1e-12).all()
    assert found.alpha.low <= clipped_bias(0.5, 6.0) <= found.alpha.high
    assert "simulated, because the law of Uniform noise is not known" in found.note


@pytest.mark.parametrize("rule", ["simplex", "sum", "pos", "baseline"])
@pytest.mark.parametrize("noise", [Uniform(6.0), Triangular(6.0)], ids=lambda noise: noise.name)
def test_the_rules_of_the_package_take_it(rule, noise):
    found = fp.audit(X, noise, rule, runs=2000)
    assert found.method == "monte-carlo"
    assert np.isfinite(found.bias).all()
    assert abs(found.bias.sum()) <= found.half_width.sum()  # each of these keeps its total


def test_a_law_is_integrated_where_one_count_is_enough_and_expanded_where_there_are_many():
    noise = Triangular(6.0)
    found = fp.audit(X, noise, "nonnegative")
    assert (found.method, found.accuracy.kind) == ("exact", "bound")
    # int_x^w (u - x) (w - u) / w^2 du = (w - x)^3 / 6 w^2
    assert found.bias == pytest.approx(np.maximum(6.0 - X.values, 0) ** 3 / 216, rel=1e-12)
    many = fp.Counts(np.tile([0.0, 0.0, 1.0, 3.0, 12.0, 90.0], 100))
    for rule in ("simplex", "pos"):
        few, drawn = (
            fp.audit(many, noise, rule),
            fp.audit(many, noise, rule, engine=fp.MonteCarlo(2000, confidence=0.9999)),
        )
        assert few.method == "expansion"
        assert (np.abs(few.bias - drawn.bias) <= few.half_width + drawn.half_width).all()


def test_what_it_cannot_do_is_said_in_one_line():
    for call, says in (
        (lambda: fp.audit(X, Uniform(6.0), "nonnegative", engine="exact"), "the law of Uniform noise is not known"),
        (lambda: fp.audit(X, Uniform(6.0), "simplex-threshold"), "no threshold is known for the noise 'Uniform'"),
        (lambda: fp.audit(X, Triangular(6.0), "baseline", engine="exact"), "law of a sum of Triangular noises is not"),
        (lambda: fp.theorem1(X, Triangular(6.0)), "noise whose law is known, got Triangular"),
        (lambda: Triangular.from_promise(epsilon=1.0), "how much Triangular noise a promise needs is not known; give"),
        (lambda: Triangular(6.0).cgf(0.1), "exponential moments of Triangular noise are not known"),
    ):
        with pytest.raises(fp.UnsupportedError, match=says):
            call()


class Suppress(PostProcessing):
    """Counts below a floor are not published."""

    name = "suppress"
    problem: Problem = Release()
    floor = 2.0

    def _apply(self, rows):
        return Outcome(np.where(rows < self.floor, 0.0, rows), 0)


def suppressed_bias(x, b, floor=2.0):
    """-E[x + eta; x + eta < floor] for Laplace noise: -(x P(eta < c) + E[eta; eta < c]), c = floor - x."""
    c = floor - x
    tail = np.exp(-np.abs(c) / b) / 2
    return -(x * np.where(c < 0, tail, 1 - tail) - tail * (b + np.abs(c)))


@pytest.mark.parametrize(
    "rule", [Suppress(), lambda noisy: np.where(noisy < 2.0, 0.0, noisy)], ids=["subclass", "function"]
)
def test_a_rule_is_simulated_and_compared(rule):
    found = fp.audit(X, fp.Laplace(3.0), rule, runs=20_000, confidence=0.9999)
    assert (found.method, found.task) == ("monte-carlo", "release")
    assert (np.abs(found.bias - suppressed_bias(X.values, 3.0)) <= found.half_width + 1e-12).all()
    both = fp.compare(X, fp.Laplace(3.0), [rule, "simplex"], runs=2000)
    assert [r.method for r in both] == ["monte-carlo", "exact"]
    with pytest.raises(fp.UnsupportedError, match=f"no integral for the post-processing '{both[0].postprocess}'"):
        fp.audit(X, fp.Laplace(3.0), rule, engine="exact")


def test_a_rule_that_counts_do_not_make_says_so():
    for kind in (Suppress, fp.Custom):
        with pytest.raises(
            fp.UnsupportedError, match=f"{kind.__name__} is not built from counts alone; give the object"
        ):
            kind.from_counts(fp.Counts([1, 2]), 3.0, by_group=True)


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
