"""Noise of ones own, from outside the package: `variance` and `sample` can be simulated, a `Law` can be integrated."""

from dataclasses import dataclass

import numpy as np
import pytest

import fairpost as fp
from fairpost.noise import Law, Mechanism

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
