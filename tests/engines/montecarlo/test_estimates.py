"""The Monte-Carlo engine: sums against their definition, estimates against the exact engine, the same bits everywhere.

Where an estimate is compared with an exact value the engine's own simultaneous half-width is used, at a confidence of
1 - 1e-7: over all comparisons here the chance of a false alarm is below 1e-4, and seeds are fixed.
"""

from __future__ import annotations

import time
import tracemalloc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import fairpost as fp
from fairpost.engines.montecarlo import intervals
from fairpost.engines.montecarlo.backends.base import Asked, Block, One
from fairpost.engines.montecarlo.backends.cpu import blocks
from fairpost.engines.montecarlo.backends.cpu.blocks import draw, run_block, specify
from fairpost.engines.montecarlo.engine import MonteCarlo, default_block
from fairpost.engines.montecarlo.estimates import Sampled
from fairpost.engines.montecarlo.totals import Totals
from fairpost.errors import ParameterError
from fairpost.partition import Partition
from fairpost.rules import POSTPROCESSINGS, PostProcessing, Simplex, Unchanged
from fairpost.rules.affine.projection import Affine, AffineNonnegative
from fairpost.rules.custom import Custom
from support.engines import answer, samples

SURE = 1 - 1e-7
HAWAII = fp.Counts([53, 22563, 54381, 67054, 311451])
SMALL = fp.Counts([0, 0, 3, 7, 7, 20, 55, 90], weights=[1, 1, 2, 1, 1, 0.5, 3, 1], groups=list("ababaabb"))
MECHANISMS = [fp.Laplace(6.0), fp.Gaussian(9.0), fp.DiscreteLaplace(6.0), fp.DiscreteGaussian(9.0)]
NAMES = ["none", "nonnegative", "sum", "sum-clipped", "simplex", "baseline", "pos"]


def made(name: str, counts: fp.Counts, **given: Any) -> PostProcessing:
    return POSTPROCESSINGS[name].from_counts(counts, **given)


def one(engine: MonteCarlo, counts: fp.Counts, mechanism: Any, pi: PostProcessing) -> Sampled:
    return samples(engine, counts, mechanism, [pi])[0]


def same_bits(a: Sampled, b: Sampled) -> bool:
    arrays = ("bias", "standard_error", "half_width", "deviation", "mse", "zero", "plain", "plain_error")
    equal = all(getattr(a, name).tobytes() == getattr(b, name).tobytes() for name in arrays)
    return equal and (a.alpha, a.pair, a.degenerate, a.runs, a.reduction) == (
        b.alpha,
        b.pair,
        b.degenerate,
        b.runs,
        b.reduction,
    )


def job(counts: fp.Counts, mechanism: Any, pis: list[PostProcessing]) -> tuple[Any, list[Any]]:
    controls = [replace(pi.control(counts, mechanism), coefficient=np.linspace(0, 1, counts.n)) for pi in pis]
    ones = [One(pi, pi.problem.truth(counts), control) for pi, control in zip(pis, controls, strict=True)]
    return specify(Asked(counts, mechanism, tuple(ones))), ones


# ------------------------------------------------------------------------------------- sums against their definition

LONG = fp.Counts(np.floor(10 ** np.linspace(0, 4, 600)) - 1, weights=np.linspace(0.5, 2, 600))
NOISY = fp.Counts([2, 0, 5, 1])  # under noise of 9 shares are often turned round, or nothing is left


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda m: m.name)
@pytest.mark.parametrize("counts", [SMALL, LONG, NOISY, fp.Counts([4.0])], ids=["small", "long", "noisy", "single"])
@pytest.mark.parametrize("compiled", [True, False])
def test_block_sums_are_the_definition(mechanism: Any, counts: fp.Counts, compiled: bool, monkeypatch: Any) -> None:
    pis = [made(name, counts).for_mechanism(mechanism) for name in (*NAMES, "pos-threshold", "simplex-threshold")]
    if not compiled:
        monkeypatch.setattr(blocks, "compiled", lambda *_: False)
        monkeypatch.setattr(blocks, "_kept", lambda *_: None)
    spec, splits = job(counts, mechanism, pis)
    assert spec.fast.codes.size == (len(NAMES) if compiled else 0)
    first, runs, seed = 11, 37, 5  # 37 is not a multiple of the four runs that are added at once
    totals = Totals(counts.n, [one.control for one in splits])
    totals.merge(run_block(spec, seed, Block(first, runs)))
    noise = np.stack([mechanism.sample(counts.n, fp.Stream(seed, first + r)) for r in range(runs)])
    for p, (pi, split) in enumerate(zip(pis, splits, strict=True)):
        outcome = pi.apply(counts.values + noise)
        e = outcome.values - split.truth - split.control.offset
        d = e - split.control.coefficient * split.control.linear(noise)
        # Rounding: an output is right to a few units of the largest number on the way, here max |X| (or a share of 1).
        unit = 64 * np.finfo(float).eps * (np.abs(counts.values + noise).max() if not pi.problem.shares else 1.0)
        for k, value in ((0, d), (2, e)):
            assert totals.plane(p, k) == pytest.approx(value.mean(axis=0), rel=0, abs=unit)
            squares = ((value - value.mean(axis=0)) ** 2).sum(axis=0)
            assert totals.plane(p, k + 1) == pytest.approx(
                squares, rel=1e-9, abs=unit * runs * (np.abs(value).max() + unit)
            )
        # An output may be 0 in one way of rounding and 1e-15 in the other.
        near = (np.abs(outcome.values) <= unit).sum(axis=0)
        assert (totals.plane(p, 4) >= (outcome.values == 0).sum(axis=0) - (near > 0)).all()
        assert (totals.plane(p, 4) <= near).all()
        assert totals.degenerate[p] == outcome.degenerate


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("by_group", [False, True])
def test_control_variates_have_mean_exactly_zero(name: str, by_group: bool) -> None:
    """L is odd, to the last bit, and the noise is symmetric, to the last bit."""
    linear = made(name, SMALL, by_group=by_group).control(SMALL, fp.Laplace(6.0)).linear
    noise = np.random.default_rng(3).laplace(size=(20, SMALL.n))
    assert linear is not None
    assert (linear(-noise) == -linear(noise)).all()


def test_variance_does_not_cancel() -> None:
    """A bias a million times its spread: onto a small total pi_S+ takes nearly the same from everyone in each run."""
    counts = fp.Counts(np.full(400, 1e6) + np.arange(400))
    pi = Simplex(3e8)
    found = one(MonteCarlo(512, block=64), counts, fp.Gaussian(1.0), pi)
    noise = np.stack([fp.Gaussian(1.0).sample(400, fp.Stream(0, r)) for r in range(512)])
    out = pi(counts.values + noise)
    assert np.abs(found.bias[0]) > 1e5
    assert found.plain_error == pytest.approx(out.std(axis=0, ddof=1) / np.sqrt(512), rel=1e-6)


# ------------------------------------------------------------------------------------- estimates against exact values


def test_no_post_processing() -> None:
    with pytest.raises(ParameterError, match="at least one post-processing"):
        samples(MonteCarlo(10), SMALL, fp.Laplace(1.0), [])


@pytest.mark.parametrize("by_group", [False, True])
def test_thresholds_have_a_control_too(by_group: bool) -> None:
    mechanism = fp.Laplace(6.0)
    names = [name for name in POSTPROCESSINGS if name not in NAMES]
    pis = [made(name, SMALL, by_group=by_group) for name in names]
    for pi, sample in zip(pis, samples(MonteCarlo(20_000, confidence=SURE), SMALL, mechanism, pis), strict=True):
        assert pi.control(SMALL, mechanism).linear is not None
        assert (np.abs(sample.plain - sample.bias) <= 6 * sample.plain_error + sample.half_width).all()
        assert sample.reduction is not None


def test_total_other_than_the_sum() -> None:
    pi = made("simplex", SMALL, total=150.0)
    sample = one(MonteCarlo(20_000, confidence=SURE), SMALL, fp.Laplace(3.0), pi)
    truth = answer(fp.Conditional(), SMALL, fp.Laplace(3.0), pi)
    assert (np.abs(sample.bias - truth.bias) <= sample.half_width + truth.accuracy.half_width).all()
    assert sample.bias.sum() == pytest.approx(150 - SMALL.total, abs=1e-9)


def test_control_variate_reduces_the_variance_a_hundredfold() -> None:
    sample = one(MonteCarlo(200_000), HAWAII, fp.Gaussian(25.0), made("simplex", HAWAII))
    assert sample.reduction is not None
    assert sample.reduction > 100
    assert sample.resolved
    assert sample.pair == (0, 4)


def test_linear_ones_are_exact() -> None:
    for name in ("none", "sum"):
        sample = one(MonteCarlo(100), SMALL, fp.Laplace(6.0), made(name, SMALL))
        assert (sample.bias == 0).all()
        assert (sample.half_width == 0).all()
        assert sample.alpha == fp.Estimate(0.0, 0.0, 0.0, "interval")
        assert sample.resolved
        assert sample.reduction is None


def test_affine_ones_have_a_control() -> None:
    one_sum = np.ones((1, SMALL.n)), np.array([SMALL.total])
    linear, clipped = samples(
        MonteCarlo(2000, confidence=SURE), SMALL, fp.Laplace(6.0), [Affine(*one_sum), AffineNonnegative(*one_sum)]
    )
    simplex = one(MonteCarlo(2000, confidence=SURE), SMALL, fp.Laplace(6.0), made("simplex", SMALL))
    assert np.abs(linear.bias).max() < 1e-9
    # The same noise and the same projection; classes of ties average the bias of the simplex.
    assert clipped.plain == pytest.approx(simplex.plain, abs=1e-8)
    assert clipped.reduction is not None
    assert clipped.reduction > 2


def test_degenerate_draws_are_counted() -> None:
    sample = one(MonteCarlo(4000), fp.Counts([1.0, 1.0]), fp.Laplace(50.0), made("baseline", fp.Counts([1.0, 1.0])))
    chance = float(fp.Laplace(50.0).cdf(-1.0)) ** 2
    assert abs(sample.degenerate - 4000 * chance) < 6 * np.sqrt(4000 * chance * (1 - chance))
    empty = fp.Counts([0, 0, 0])
    assert one(MonteCarlo(4000), empty, fp.Laplace(1.0), made("baseline", empty)).bias == pytest.approx(0, abs=0.05)


# --------------------------------------------------------------------------------------------------------- intervals


def coverage(
    alpha: float, counts: fp.Counts, mechanism: Any, pi: PostProcessing, runs: int, **given: Any
) -> tuple[float, float]:
    """Over 200 seeds: how often the interval covers alpha, and the mean of value / alpha."""
    found = [one(MonteCarlo(runs, seed=s, threads=1, **given), counts, mechanism, pi).alpha for s in range(200)]
    return float(np.mean([a.low <= alpha <= a.high for a in found])), float(np.mean([a.value for a in found])) / alpha


def test_coverage_where_the_pair_is_known() -> None:
    alpha = fp.audit(HAWAII, fp.Gaussian(25.0), "simplex", engine="exact").alpha.value
    covered, ratio = coverage(alpha, HAWAII, fp.Gaussian(25.0), made("simplex", HAWAII), 20_000)
    assert covered >= 0.92
    assert ratio == pytest.approx(1, abs=0.05)  # the pair's difference is unbiased; its spread here is 0.8 % of alpha


def test_coverage_with_few_events() -> None:
    """At 500 runs the smallest county is clipped two or three times, in one seed of ten never."""
    alpha = fp.audit(HAWAII, fp.Gaussian(25.0), "simplex", engine="exact").alpha.value
    assert coverage(alpha, HAWAII, fp.Gaussian(25.0), made("simplex", HAWAII), 500)[0] >= 0.92


def test_coverage_where_the_pair_must_be_found() -> None:
    counts = fp.Counts(np.repeat([0, 1, 2, 5, 9, 30, 100], 20))
    alpha = float(np.ptp(answer(fp.Exact(), counts, fp.Laplace(4.0), made("baseline", counts)).bias))
    for runs, block in ((200, 64), (800, 16)):  # by the members' standard errors; by the averages of 50 blocks
        covered, _ = coverage(alpha, counts, fp.Laplace(4.0), made("baseline", counts), runs, block=block)
        assert covered >= 0.92


def two_entities(x: list[float], total: float, scale: float) -> tuple[Any, Any]:
    """Bias and mse of the projection of two whole counts under discrete Laplace noise: the list of all noises, summed.

    The first receives (total + X_1 - X_2) / 2, at least 0 and at most the total; the second the rest.
    """
    k = np.arange(-60 * int(scale), 60 * int(scale) + 1)
    mass = np.exp(-np.abs(k) / scale)
    law = np.convolve(mass, mass) / mass.sum() ** 2  # of eta_1 - eta_2
    v = np.clip((total + x[0] - x[1] + np.arange(2 * k[0], 2 * k[-1] + 1)) / 2, 0, total)
    errors = np.stack([v - x[0], total - v - x[1]])
    return errors @ law, errors**2 @ law


@pytest.mark.parametrize(
    ("x", "total"),
    [([0.0, 300.0], 10.0), ([0.0, 8.0], 10.0), ([900.0, 700.0], 1600.0)],
    ids=["clipped nearly always", "half the time", "never"],
)
def test_bias_and_mse_are_covered_and_the_control_never_costs(x: list[float], total: float) -> None:
    bias, mse = two_entities(x, total, 30.0)
    pi, seeds = Simplex(total), 80
    found = [
        one(MonteCarlo(2000, seed=s, block=125, threads=1), fp.Counts(x), fp.DiscreteLaplace(30.0), pi)
        for s in range(seeds)
    ]
    missed = [(np.abs(f.bias - bias) > f.half_width).any() for f in found]
    outside = [(np.abs(f.mse - mse) > f.mse_half_width).any() for f in found]
    assert max(sum(missed), sum(outside)) <= 11  # of 80 chances of 5 % more than that have one of 7e-4
    assert all((f.standard_error <= 1.1 * f.plain_error).all() for f in found)
    assert (
        abs(np.mean([f.bias[0] for f in found]) - bias[0])
        <= 4 * np.std([f.bias[0] for f in found]) / seeds**0.5 + 1e-12
    )
    assert all(f.bias.sum() == pytest.approx(total - sum(x), abs=1e-9) for f in found)


def test_an_entity_that_never_gets_anything_has_its_count_as_error() -> None:
    """Twelve counts and a total of 48: the smallest receives nothing in any run, so its squared error is 80^2 in each."""
    counts = fp.Counts(np.linspace(80, 3000, 12))
    found = fp.audit(counts, fp.DiscreteLaplace(182.0), "simplex", total=48, engine="monte-carlo", runs=20_000)
    assert found.mse[0] == pytest.approx(6400, rel=1e-9)
    assert found.bias[0] == pytest.approx(-80, abs=0.1)


def paid_from(level: float) -> Custom:
    def share(noisy: Any) -> Any:
        due = np.where(noisy >= level, noisy, 0.0)
        return due / due.sum() if due.sum() > 0 else np.full(noisy.size, 1 / noisy.size)

    return Custom(share, problem=fp.Proportional())


def test_a_share_rule_of_ones_own_is_resolved() -> None:
    """The baseline, written as a function: its interval is as narrow as its standard error allows, and holds the exact alpha."""
    counts = fp.Counts(np.floor(np.exp(np.linspace(0, 9, 150))))
    noise = fp.Laplace(20.0)
    own = fp.audit(counts, noise, paid_from(0.0), engine="monte-carlo", runs=20_000)
    exact = fp.audit(counts, noise, "baseline", engine="exact")
    assert own.alpha.low <= exact.alpha.value <= own.alpha.high
    assert own.alpha.high - own.alpha.low < 0.1 * exact.alpha.value
    assert own.sample is not None
    assert (np.abs(own.bias - exact.bias) <= own.sample.half_width).all()


@pytest.mark.parametrize("level", [90.0, 110.0, 130.0])
def test_a_payment_that_hardly_any_run_shows_is_covered(level: float) -> None:
    """A count of 30 is paid from `level` on: once in 800, 6,000 and 40,000 runs of 500. Its share is u / (u + 5000) to some 1e-5."""
    u = np.linspace(level, level + 600, 60_001)
    density = np.exp(-np.abs(u - 30) / 10) / 20
    bias = np.trapezoid(density * u / (u + 5000), u) - 30 / 5030
    pi, counts = paid_from(level), fp.Counts([30.0, 5000.0])
    missed = 0
    for seed in range(40):
        found = one(MonteCarlo(500, seed=seed, block=250, threads=1), counts, fp.Laplace(10.0), pi)
        missed += abs(found.bias[0] - bias) > found.half_width[0]
    assert missed <= 6  # of 40 chances of 5 % more than that have one of 7e-3


def test_range_of_noisy_estimates_is_not_taken_for_alpha() -> None:
    """A hundred unbiased entities without a control: the range is far from 0, and the interval still holds 0."""
    counts = fp.Counts(np.full(100, 1000.0))
    sample = one(MonteCarlo(400), counts, fp.Gaussian(10.0), Custom(lambda noisy: noisy))
    assert sample.alpha.value > 1
    assert sample.alpha.low == 0
    assert not sample.resolved
    assert sample.statement.startswith("not resolved at 400 runs")


def test_events_not_seen_are_allowed_for() -> None:
    """Counts of 12 scales are clipped once in 300,000 runs: 1000 runs see nothing, the bias is not 0."""
    counts = fp.Counts([120.0, 500.0])
    sample = one(MonteCarlo(1000), counts, fp.Laplace(10.0), made("nonnegative", counts))
    exact = answer(fp.Exact(), counts, fp.Laplace(10.0), made("nonnegative", counts))
    assert (sample.standard_error == 0).all()
    assert (exact.bias > 0).all()
    assert (np.abs(sample.bias - exact.bias) <= sample.half_width).all()
    assert sample.alpha.low == 0 < sample.alpha.high


def test_ties_share_one_estimate_with_an_honest_error() -> None:
    counts = fp.Counts(np.repeat([0.0, 40.0], [50, 5]))
    exact = answer(fp.Exact(), counts, fp.Laplace(5.0), made("simplex", counts)).bias
    found = [
        one(MonteCarlo(512, block=8, seed=s, threads=1), counts, fp.Laplace(5.0), made("simplex", counts))
        for s in range(100)
    ]
    z = np.array([(f.bias[0] - exact[0]) / f.standard_error[0] for f in found])
    assert (found[0].bias[:50] == found[0].bias[0]).all()
    # The mean square of 100 t variables with 63 degrees of freedom: 1.03, with a standard error of 0.15.
    assert np.mean(z**2) == pytest.approx(1.03, abs=0.75)
    alone = found[0].plain_error[:50].mean()
    assert found[0].standard_error[0] < alone


def test_student_quantiles() -> None:
    assert intervals.student(0.05, 1e9) == pytest.approx(1.959964, abs=1e-5)
    assert intervals.student(0.05, 4) == pytest.approx(2.776445, abs=1e-5)


# ---------------------------------------------------------------------------------------------------------- same bits


def test_same_bits_in_another_block_order() -> None:
    spec, splits = job(LONG, fp.Gaussian(30.0), [made(name, LONG) for name in NAMES])
    whole = [Block(64 * k, 64) for k in range(6)]
    forward = [run_block(spec, 3, block) for block in whole]
    backward = [run_block(spec, 3, block) for block in reversed(whole)][::-1]
    totals = tuple(Totals(LONG.n, [one.control for one in splits]) for _ in range(2))
    for total, parts in zip(totals, (forward, backward), strict=True):
        for part in parts:
            total.merge(part)
    for name, array in totals[0].state().items():
        assert array.tobytes() == totals[1].state()[name].tobytes()


def test_blocks_differ_by_rounding_alone() -> None:
    a, b = (one(MonteCarlo(1000, block=k), SMALL, fp.Laplace(6.0), made("pos", SMALL)) for k in (1, 333))
    assert a.bias == pytest.approx(b.bias, rel=1e-11, abs=1e-17)
    assert a.plain_error == pytest.approx(b.plain_error, rel=1e-11)


# ------------------------------------------------------------------------------------------ stop, interrupt, checkpoint


def test_stop_rule() -> None:
    given = {"seed": 2, "rtol": 0.1, "block": 256}
    pi, mechanism = made("simplex", SMALL), fp.Laplace(6.0)
    stopped = one(MonteCarlo(10**6, **given), SMALL, mechanism, pi)
    width = max(stopped.alpha.high - stopped.alpha.value, stopped.alpha.value - stopped.alpha.low)
    assert width <= 0.1 * stopped.alpha.value
    assert stopped.runs < 10**6
    assert stopped.runs // 256 in {4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128}
    assert same_bits(stopped, one(MonteCarlo(10**6, threads=1, **given), SMALL, mechanism, pi))
    assert same_bits(stopped, one(MonteCarlo(stopped.runs, seed=2, block=256), SMALL, mechanism, pi))
    assert one(MonteCarlo(900, **given), SMALL, mechanism, pi).runs == 900


# ------------------------------------------------------------------------------------------------------- a user's own


def test_custom_with_and_without_a_linear_part() -> None:
    simplex = made("simplex", SMALL)
    plain, better, built_in = samples(
        MonteCarlo(4000, confidence=SURE),
        SMALL,
        fp.Laplace(6.0),
        [Custom(simplex), Custom(simplex, linear=lambda noise: noise - noise.mean()), simplex],
    )
    assert (plain.bias == plain.plain).all()
    assert plain.reduction == 1
    assert better.plain == pytest.approx(built_in.plain, abs=1e-9)
    assert better.standard_error.mean() < 0.8 * plain.standard_error.mean()
    assert (np.abs(plain.bias - better.bias) <= plain.half_width + better.half_width).all()


def test_custom_shares() -> None:
    own = Custom(
        lambda noisy: fp.allocate(noisy, weights=SMALL.weights), problem=fp.Proportional(SMALL.weights), name="own"
    )
    a, b = samples(MonteCarlo(500), SMALL, fp.Laplace(2.0), [own, made("pos", SMALL)])
    assert a.plain == pytest.approx(b.plain, abs=1e-12)


@pytest.mark.parametrize(
    ("pi", "message"),
    [
        (Custom(lambda noisy: noisy[:3], name="short"), "short must return one number per entity: 8 entities"),
        (Custom(lambda noisy: noisy / 0.0 * 0.0, name="odd"), "odd must return finite numbers, got nan at position 0"),
        (Custom(lambda noisy: noisy, linear=np.abs), "must change sign with the noise"),
    ],
)
def test_custom_errors(pi: Custom, message: str) -> None:
    with pytest.raises(ParameterError, match=message), np.errstate(all="ignore"):
        one(MonteCarlo(100, threads=1), SMALL, fp.Laplace(1.0), pi)


# -------------------------------------------------------------------------------------------------------------- limits


def test_memory_does_not_grow_with_runs() -> None:
    n, threads = 200_000, 2
    counts = fp.Counts(np.arange(n) % 1000)
    pis = [made("baseline", counts), made("pos", counts)]
    few = fp.Counts([1, 2])
    samples(MonteCarlo(2, block=1), few, fp.Laplace(1.0), [made("baseline", few), made("pos", few)])
    tracemalloc.start()
    samples(MonteCarlo(24, block=4, threads=threads), counts, fp.Laplace(3.0), pis)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # Numbers an entity: a block's 6 a post-processing, threads + 2 times; 4 rows and one more a thread; totals,
    # labels and classes 9 a post-processing; weights and the result's arrays.
    numbers = 12 * (threads + 2) + 5 * threads + 18 + 30
    assert peak < 8 * n * numbers


@pytest.mark.parametrize(("n", "runs"), [(1, 4096), (5, 4096), (13_184, 512), (10**6, 64)])
def test_default_block(n: int, runs: int) -> None:
    assert default_block(n) == runs


def test_huge_seed_and_late_runs() -> None:
    spec, _ = job(SMALL, fp.Laplace(6.0), [Unchanged()])
    late = run_block(spec, 2**64 - 1, Block(2**61, 3))
    noise = np.stack([fp.Laplace(6.0).sample(SMALL.n, fp.Stream(2**64 - 1, 2**61 + r)) for r in range(3)])
    assert late.sums[0, 0, 512 : 512 + SMALL.n] == pytest.approx(noise.mean(axis=0), rel=1e-12)


def test_partition_without_counts_groups() -> None:
    pi = Simplex({"a": 40.0, "b": 142.0}, Partition.of(list("ababaabb")))
    start = time.monotonic()
    assert one(MonteCarlo(500), SMALL, fp.Laplace(6.0), pi).bias.sum() == pytest.approx(182 - SMALL.total, abs=1e-9)
    assert time.monotonic() - start < 60


# ------------------------------------------------------------------------------------------- sums that cancel in floats


@pytest.mark.parametrize("weights", [[1.0] * 6, [0.1, 0.1, 0.2, 0.3, 0.3, 0.7]])
@pytest.mark.parametrize("rule", ["pos", "pos-threshold"])
def test_a_sum_that_is_but_rounding_is_0(rule: str, weights: list[float]) -> None:
    """Sixths and tenths do not add up to 0 in floats: such a draw has no information, and the shares of every draw sum to 1."""
    counts, noise = fp.Counts([1.0] * 6, weights=weights), fp.DiscreteGaussian(1.85)
    runs = 4000
    found = fp.audit(counts, noise, rule, engine=fp.MonteCarlo(runs=runs, seed=3))
    assert abs(float(np.sum(found.sample.plain))) < 1e-12
    noisy = 1 + np.stack([noise.sample(6, fp.Stream(3, r)) for r in range(runs)])
    tens = noisy @ np.round(10 * np.asarray(weights))
    assert np.count_nonzero(tens == 0) > 20
    assert found.degenerate == np.count_nonzero(tens <= 0) / runs
    v = POSTPROCESSINGS[rule].from_counts(counts).for_mechanism(noise)(noisy)
    assert v[tens == 0] == pytest.approx(np.tile(np.asarray(weights) / sum(weights), (np.count_nonzero(tens == 0), 1)))
    assert v.sum(axis=1) == pytest.approx(np.ones(runs))
    assert (v[tens != 0].max(axis=1) <= 1 + 1e-12).all()


def test_a_small_sum_is_not_0() -> None:
    """One part in 10^13 of what cancels is a sum: whole counts are known that well."""
    pi = POSTPROCESSINGS["pos"](np.ones(3))
    assert pi(np.array([1e13, -1e13, 1.0])).tolist() == [1.0, 0.0, 0.0]
    assert pi(np.array([3e15, -3e15 - 1, 1.0])) == pytest.approx([1 / 3] * 3)
    assert pi(np.array([0.0, 0.0, 0.0])) == pytest.approx([1 / 3] * 3)
    assert pi(np.array([-1e-300, 0.0, 0.0])).tolist() == [1.0, 0.0, 0.0]


@pytest.mark.parametrize("rule", ["pos-threshold", "simplex-threshold"])
def test_rounding_at_the_foot_of_a_ramp_is_0(rule: str) -> None:
    """Whole counts lie there with a chance of some percent; the list of all noises (or the sum over one) says with which."""
    noise, runs = fp.DiscreteGaussian(1.85), 60_000
    counts = fp.Counts([1.0] * 6) if rule == "pos-threshold" else fp.Counts([1.0, 4.0, 30.0, 31.0, 32.0])
    pi = POSTPROCESSINGS[rule].from_counts(counts).for_mechanism(noise)
    assert pi.dust == pytest.approx(1e-13 if rule == "pos-threshold" else 98e-13)
    noisy = counts.values + np.stack([noise.sample(counts.n, fp.Stream(3, r)) for r in range(runs)])
    v = pi(noisy)
    rounding = (v > 0) & (v <= pi.dust)
    assert v[~rounding & (v > 0)].min() > 1e3 * pi.dust
    found = fp.audit(counts, noise, pi, engine=fp.MonteCarlo(runs=runs, seed=3))
    expected = np.mean(v <= pi.dust, axis=0)
    assert found.zero == pytest.approx(expected if rule != "pos-threshold" else np.full(6, expected.mean()), abs=1e-12)
    assert replace(pi, threshold=fp.noise.Threshold(2.0)).dust == 0.0
    assert POSTPROCESSINGS[rule.split("-", maxsplit=1)[0]].from_counts(counts).dust == 0.0


@pytest.mark.parametrize("n", [5, 8, 13])
def test_bits_of_a_threshold_do_not_depend_on_where_memory_lies(n: int) -> None:
    """What is read right before what is written: a loop that writes is then not vectorised, and a sum in it would have another order.

    The remainder that an entity at its edge gets shows the last bits of that sum.
    """
    from fairpost.engines.montecarlo.backends.cpu.kernels import sums as layout
    from fairpost.engines.montecarlo.backends.cpu.kernels.thresholds import add_kept

    x, ones, rows = np.resize(SMALL.values, n), np.ones(n), np.zeros((64, n))
    draw(fp.Laplace(6.0), 7, 64, rows)
    found = set()
    for gap in (0, 1, 3, 8, 24, 1000):
        room = np.full(9 * n + gap, np.nan)
        z, out = room[:n], room[n + gap :].reshape(8, n)
        sums = np.zeros((1, layout.WORK_PLANES * layout.PIECE))
        add_kept(
            True, 64, rows, x, ones, np.zeros(n), x, np.full(n, 6.0)[:1], np.inf, float(x.sum()), 0.0, z, out, sums
        )
        found.add(sums.tobytes())
    assert len(found) == 1
