"""Whole-number noise of a large scale by continuous integrals: every stated change against sums over all noises, and its size."""

from __future__ import annotations

import numpy as np
import pytest

import fairpost as fp
from fairpost import errors
from fairpost.engines import Exact, Expansion, FirstOf
from fairpost.engines.exact.lattice import signed
from fairpost.engines.exact.lattice.two import two
from fairpost.engines.exact.pos.pair import pair
from fairpost.engines.exact.pos.problem import Problem
from fairpost.engines.exact.simplex.moments import simplex
from fairpost.engines.expansion import near_zero, whole
from fairpost.engines.moments import Moments
from fairpost.noise import Threshold
from fairpost.rules import POSTPROCESSINGS

REACH = {True: 6.5, False: 18.0}
"""How many scales the sums reach (Gaussian, Laplace): 1e-9 and 3e-8 of the mass is left out, and the rest scaled up."""


def summed(counts: fp.Counts, noise: fp.noise.Law, rule: str, **more: object) -> tuple[np.ndarray, ...]:
    """Bias, mean squared error and P(v = 0) from every vector of noises, by the rule itself."""
    pi = POSTPROCESSINGS[rule].from_counts(counts, **more).for_mechanism(noise)  # type: ignore[arg-type]
    reach = int(REACH[bool(np.isinf(noise.strip))] * noise.spread) + 1
    k = np.arange(-reach, reach + 1.0)
    eta = np.stack([g.ravel() for g in np.meshgrid(*[k] * counts.n, indexing="ij")], axis=1)
    chance = np.prod(np.asarray(noise.density(eta)), axis=1)
    chance /= chance.sum()
    truth = pi.problem.truth(counts)
    v = pi(counts.values + eta)
    return chance @ (v - truth), chance @ (v - truth) ** 2, chance @ (v == 0)


def inside(found: fp.Audit, known: tuple[np.ndarray, ...], size: float) -> None:
    """Every number within its stated accuracy; `size`: what the sums themselves leave out."""
    stated = (
        (found.bias, found.accuracy),
        (found.mse, found.mse_accuracy),
        (found.zero, found.zero_accuracy),
    )
    for (value, accuracy), want, room in zip(stated, known, (size, size**2 + size, 1.0), strict=True):
        assert (np.abs(value - want) <= np.asarray(accuracy.half_width) + 2e-7 * room).all()


def drawn(seed: int, n: int, weighted: bool) -> tuple[fp.Counts, fp.noise.Law]:
    rng = np.random.default_rng([41, seed, n])
    b = float(rng.choice([4.0, 6.0, 9.0] if n == 2 else [4.0, 5.0]))
    x = np.floor(rng.exponential(b * 10 ** rng.uniform(-0.5, 1.0), n))
    x[0] += 1.0
    a = np.exp(rng.uniform(0, 2.5, n)) if weighted else np.ones(n)
    noise = (fp.DiscreteGaussian if seed % 2 or n == 3 else fp.DiscreteLaplace)(b)
    return fp.Counts(x, weights=a), noise


@pytest.mark.parametrize("seed", range(16))
@pytest.mark.parametrize("rule", ["simplex", "simplex-threshold", "pos", "pos-threshold"])
def test_sums_over_two_noises(rule: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole, "PART", np.inf)  # every error is looked at, also the large ones
    shares = rule.startswith("pos")
    counts, noise = drawn(seed, 2, shares and seed % 3 == 0)
    total = float(np.sum(counts.values))
    more = {} if shares else {"total": float(np.floor(total * (1.0, 0.6, 1.7)[seed % 3]))}
    found = fp.audit(counts, noise, rule, engine=Expansion(), **more)
    assert found.method == "expansion"
    inside(found, summed(counts, noise, rule, **more), 1.0 if shares else total + noise.spread)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("rule", ["simplex", "pos"])
def test_sums_over_three_noises(rule: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole, "PART", np.inf)
    counts, noise = drawn(seed, 3, rule == "pos" and seed % 2 == 0)
    found = fp.audit(counts, noise, rule, engine=Expansion())
    inside(found, summed(counts, noise, rule), 1.0 if rule == "pos" else float(np.sum(counts.values)) + noise.spread)


@pytest.mark.parametrize("noise", [fp.DiscreteLaplace(16.0), fp.DiscreteGaussian(16.0)])
def test_the_lattice_integral_among_many(noise: fp.noise.Law) -> None:
    """Also E[T]. And the error is no more than it should be: some 1/b^2 of alpha."""
    x = np.floor(np.random.default_rng(5).exponential(30.0, 400))
    counts = fp.Counts(x)
    found = fp.audit(counts, noise, "simplex", engine=Expansion())
    u, inverse, times = np.unique(x, return_inverse=True, return_counts=True)
    known = simplex(u, times, noise, float(x.sum())).at(inverse)
    inside(found, (known.bias, known.mse, known.zero), 0.0)
    assert found.expected_T is not None
    assert known.threshold is not None
    assert abs(found.expected_T.value - known.threshold) <= found.expected_T.half_width
    assert found.alpha.half_width < 1.6 / 16.0**2 * found.alpha.value


def test_the_stand_in_of_a_ramp_is_the_jump_in_its_middle() -> None:
    """Any other place within the ramp would be off by more than is stated at a scale of 40."""
    noise = fp.DiscreteGaussian(40.0)
    x = np.floor(np.random.default_rng(2).exponential(60.0, 400))
    rule = noise.best_threshold()
    found = fp.audit(fp.Counts(x), noise, "simplex-threshold", engine=Expansion())
    exact = fp.audit(fp.Counts(x), noise, "simplex-threshold", engine=Exact(rtol=1e-5))
    assert (np.abs(found.bias - exact.bias) <= found.accuracy.half_width + exact.accuracy.half_width).all()
    shifted = fp.audit(
        fp.Counts(x), fp.Gaussian(40.0), fp.rules.SimplexThreshold(float(x.sum()), threshold=Threshold(rule.level)),
        engine=Exact(rtol=1e-5),
    )  # fmt: skip
    assert np.max(np.abs(shifted.bias - exact.bias)) > 3 * np.max(np.abs(found.bias - exact.bias))


def test_small_scales_and_continuous_noise_are_refused() -> None:
    counts = fp.Counts([0.0, 5.0, 9.0])
    with pytest.raises(errors.UnsupportedError, match="not close to continuous noise"):
        fp.audit(counts, fp.DiscreteLaplace(3.0), "simplex", engine="expansion")
    with pytest.raises(errors.UnsupportedError, match="for whole-number noise"):
        fp.audit(counts, fp.Laplace(30.0), "pos", engine="expansion")


def test_a_large_scale_is_answered_by_the_pair() -> None:
    """The exact engine refuses in time, and the expansion's error is far below a percent."""
    counts = fp.Counts(np.arange(1.0, 31.0))
    found = fp.audit(counts, fp.DiscreteLaplace(5000.0), "simplex", engine=FirstOf((Exact(), Expansion())))
    assert found.method == "expansion"
    assert found.note is not None
    assert "cells" in found.note
    assert found.alpha.half_width < 2e-5 * found.alpha.value


def test_the_density_of_a_tie_is_bounded() -> None:
    """J(z)/b against the density of X - T at 0 for fixed T (equality) and for T of two values (Jensen)."""
    for noise in (fp.Laplace(3.0), fp.Gaussian(3.0)):
        c = np.array([-9.0, -2.0, 0.0])
        assert whole.tie(np.asarray(noise.cdf(c)), noise) == pytest.approx(noise.density(c), rel=1e-9)
        mixed = 0.5 * (noise.cdf(c) + noise.cdf(c + 4.0))
        assert (0.5 * (noise.density(c) + noise.density(c + 4.0)) <= whole.tie(mixed, noise) * (1 + 1e-12)).all()


@pytest.mark.parametrize(
    ("noise", "n", "mean"),
    [(fp.DiscreteLaplace(4.0), 3, 5), (fp.DiscreteGaussian(5.0), 4, 30), (fp.DiscreteLaplace(6.0), 1, 2)],
)
def test_the_chance_of_a_sum_of_0(noise: fp.noise.Law, n: int, mean: int) -> None:
    """Against the law of the sum itself, convolved."""
    reach = int(60 * noise.spread)
    one, law = noise.density(np.arange(-reach, reach + 1.0)), np.ones(1)
    for _ in range(n):
        law = np.convolve(law, one)
    assert near_zero.at_zero(noise, n, float(mean)) == pytest.approx(law[n * reach - mean], rel=1e-11)


def test_a_chance_of_0_that_cannot_be_summed_is_not_stated() -> None:
    assert near_zero.at_zero(fp.DiscreteLaplace(1e4), 2, 0.0) == np.inf


def test_a_sum_that_may_be_negative_among_many() -> None:
    """P(S = 0) is far below P(S < 0)/b among 450: refused before for it, at 10 % of alpha."""
    x = np.floor(np.random.default_rng(6).exponential(3.0, 450))
    found = fp.audit(fp.Counts(x), fp.DiscreteLaplace(16.65), "pos", engine=Expansion())
    assert 0.002 < found.degenerate < 0.05
    assert found.alpha.half_width < 0.02 * found.alpha.value


def of_two(ratio: float, x: list[float], noise: fp.noise.Law) -> tuple[Moments, Moments]:
    """What is stated for weights of 1 and `ratio`, and the exact sums."""
    values, a = np.array(x), np.array([1.0, ratio])
    truth = a * values / np.sum(a * values)
    one, other = (
        Problem.build(values, a, np.ones(2, dtype=np.int64), truth, law) for law in (noise, whole.stand_in(noise))
    )
    return whole.allocated(pair(other, 1e-5), values, a, truth, noise, 0.0), two(one, 1e-5)


RATIOS = [1.0, 0.5, 1 / 3, 0.51, 0.9, 0.999, 0.3217, 0.1, 0.0317, 0.01, 0.00317, 1e-3, 1e-5, 3.7, 200.0]


@pytest.mark.parametrize("scale", [6.0, 40.0, 700.0])
@pytest.mark.parametrize("kind", [fp.DiscreteLaplace, fp.DiscreteGaussian])
def test_uneven_weights_near_a_sum_of_0(kind: type[fp.noise.Law], scale: float) -> None:
    """Every number within its error: waves of a lattice (1/2, 1/3, 0.999), ties (0.1, 0.01), a weight that nothing spreads (1e-5)."""
    noise, seen = kind(scale), []
    for ratio in RATIOS:
        for x in ([1.0, 2.0], [scale // 2, 1.0], [scale // 1, 2 * scale // 1], [0.0, 3 * scale // 1]):
            stated, known = of_two(ratio, x, noise)
            assert stated.mse_error is not None
            assert stated.zero_error is not None
            room = 4 * (known.error + 1e-13)
            seen.append(float(np.max(np.abs(stated.bias - known.bias) / (stated.error + room))))
            assert (np.abs(stated.mse - known.mse) <= stated.mse_error + room).all()
            assert (np.abs(stated.zero - known.zero) <= stated.zero_error + room).all()
    assert max(seen) < 0.8
    assert max(seen) > 0.3  # and no error is far above all that happens


@pytest.mark.parametrize(("ratio", "part"), [(0.3217, 0.02), (0.0317, 0.09), (0.5, 1.25), (1e-5, 1.25)])
def test_what_is_left_of_the_density_at_0(ratio: float, part: float) -> None:
    """At a scale of 1000 weights without a common lattice leave a few percent of it, a lattice or a lone weight all of it."""
    noise = fp.Laplace(1000.0)
    s = near_zero.Sum.of(np.array([1.0, 1.0]), np.array([1.0, ratio]), noise)
    law, none = fp.DiscreteLaplace(1000.0), np.zeros(2)
    lost, near, squares = near_zero.near_zero(s, np.array([1.0, 1.0]), law, noise, 0.5, none)
    assert lost == pytest.approx(1.25 * 0.5e-3)
    assert 0.3 * part < near[0] / 0.5e-3 <= part
    assert squares.tolist() == near.tolist()


def test_the_density_of_a_sum_is_bounded() -> None:
    """Against the densities themselves: one Gaussian sum, and two Laplace noises of scales 3 and 1.5."""
    x, a = np.array([2.0, 4.0]), np.array([1.0, 0.5])
    s = near_zero.Sum.of(x, a, fp.Gaussian(3.0))
    assert s.density(fp.Gaussian(3.0), 0.0) == pytest.approx(
        float(fp.Gaussian(3.0 * np.sqrt(1.25)).density(4.0)), rel=1e-12
    )
    s = near_zero.Sum.of(x, a, fp.Laplace(3.0))
    u = np.linspace(-150.0, 150.0, 600_001)
    density = np.sum(fp.Laplace(3.0).density(u) * fp.Laplace(1.5).density(-4.0 - u)) * 5e-4
    below = np.sum(fp.Laplace(3.0).density(u) * fp.Laplace(1.5).cdf(-4.0 - u)) * 5e-4
    assert density < s.density(fp.Laplace(3.0), float(below)) < 1.5 * density


@pytest.mark.parametrize("noise", [fp.DiscreteLaplace(6.0), fp.DiscreteGaussian(6.0)], ids=str)
def test_who_is_the_largest_where_equal_weights_cancel(noise: fp.noise.Law) -> None:
    """(P(largest) + P(smallest))/2 given S = 0, ties shared, is within `unlike` of 1/n."""
    x = np.array([0.0, 1.0, 3.0])
    k = np.arange(-60.0, 61.0)
    one, other = np.meshgrid(k, k, indexing="ij")
    v = np.stack([one, other, -one - other]) + 0.0
    p = np.prod(np.asarray(noise.density(v - x[:, None, None])), axis=0)
    top, low = v == np.max(v, axis=0), v == np.min(v, axis=0)
    mean = 0.5 * np.array(
        [np.sum(p * (t / top.sum(axis=0) + w / low.sum(axis=0))) for t, w in zip(top, low, strict=True)]
    )
    off = np.abs(mean / np.sum(p) - 1 / 3)
    most = near_zero.unlike(x, whole.stand_in(noise))
    assert np.max(off) <= most
    assert most < 1.2


def test_equal_weights_of_either_sign_are_answered() -> None:
    """29 counts far below a noise of 31: refused before, for P(S = 0) alone."""
    x = np.floor(np.random.default_rng(3).exponential(4.0, 29))
    found = fp.audit(fp.Counts(x), fp.DiscreteLaplace(31.4), "pos", engine=Expansion())
    assert found.degenerate > 0.1
    assert found.alpha.half_width < 0.02 * found.alpha.value


def test_an_entity_inside_its_jump_is_of_the_first_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the ramp gives there is off by half a count at the ends of a band: three times what was stated once."""
    monkeypatch.setattr(whole, "PART", np.inf)
    counts, noise = fp.Counts([120.0, 210.0]), fp.DiscreteGaussian(60.0)
    found = fp.audit(counts, noise, "simplex-threshold", engine=Expansion())
    known = summed(counts, noise, "simplex-threshold")
    off = np.abs(found.bias - known[0])
    assert (off <= found.accuracy.half_width).all()
    assert np.max(off / found.accuracy.half_width) > 0.1


def test_nothing_is_integrated_where_whole_numbers_matter_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    """One weight far above all others: X_1 = 0 has a chance of its own, and a few draws say that alpha is not much larger."""
    monkeypatch.setattr("fairpost.engines.exact.pos.moments.pos", lambda *given: pytest.fail("integrated"))
    counts = fp.Counts([1.0, 1.0, 1.0], weights=[1.0, 0.0023, 0.00026])
    with pytest.raises(errors.ToleranceError, match="may move alpha"):
        fp.audit(counts, fp.DiscreteGaussian(125.0), "pos", engine=Expansion())


def test_sums_over_whole_numbers_to_a_percent() -> None:
    """A small scale and a sum of either sign: what is stated holds against the same sums to 1e-6."""
    x = np.floor(np.random.default_rng(8).exponential(1.5, 14))
    counts, noise = fp.Counts(x), fp.DiscreteLaplace(1.1)
    found = fp.audit(counts, noise, "pos", engine=Expansion())
    known = fp.audit(counts, noise, "pos", engine=Exact())
    assert (found.method, known.method) == ("expansion", "exact")
    off = np.abs(found.bias - known.bias)
    assert (off <= found.accuracy.half_width + known.accuracy.half_width).all()
    assert found.alpha.half_width < 0.01 * found.alpha.value
    assert signed.ROUGH < signed.LEFT
