"""Few entities and rare cuts: two entities under a threshold, noises that are listed, and counts that nobody is cut from."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import fairpost as fp
from fairpost import errors
from fairpost.engines.evaluation import Asked
from fairpost.engines.exact.lattice import listed as listing
from fairpost.engines.exact.pos.problem import Problem
from fairpost.engines.exact.pos.uncut import uncut as uncut_shares
from fairpost.engines.exact.sums.uncut import log_chance
from fairpost.engines.exact.threshold import counted, few
from fairpost.noise import Threshold
from fairpost.rules import POSTPROCESSINGS, PoS, PosThreshold, SimplexThreshold


def panels(breaks: np.ndarray, low: float, high: float, longest: float, order: int) -> tuple[np.ndarray, np.ndarray]:
    """Gauss-Legendre nodes and weights between breaks."""
    ends = np.unique(np.clip(np.concatenate([np.arange(low, high, longest), [high], breaks]), low, high))
    u, w = np.polynomial.legendre.leggauss(order)
    wide = np.diff(ends)[:, None]
    return (ends[:-1, None] + wide * (u + 1) / 2).ravel(), (wide * w / 2).ravel()


def integrated(
    x: np.ndarray, pi: fp.rules.PostProcessing, noise: fp.noise.Law, tau: np.ndarray, a: np.ndarray
) -> tuple[np.ndarray, ...]:
    """The rule itself, integrated over both noisy counts; panels end where it or a density has a corner or a jump."""
    reach = 34.0 if np.isfinite(noise.strip) else 8.5
    z_breaks = [s * t * k for s, t, k in product((-1, 1), tau, (0.5, 1.0))]
    gap = float(tau[1] - tau[0])
    crossings = [
        *z_breaks,
        0.0,
        gap / 2,
        -gap / 2,
        *(s * t + k * gap for s, t, k in product((-1, -0.5, 0.5, 1), tau, (-1, 1))),
    ]
    outer = np.array([x[0], *(np.array(crossings) / a[0]), x[1] * a[1] / a[0], -x[1] * a[1] / a[0]])
    first, weight = panels(outer, x[0] - reach, x[0] + reach, 0.5, 7)
    out = [np.zeros(2), np.zeros(2), np.zeros(2)]
    mass = 0.0
    for x1, w1 in zip(first, weight, strict=True):
        z1 = a[0] * x1
        own = np.array([x[1] * a[1], -z1, z1 + gap, z1 - gap, 0.0, *z_breaks]) / a[1]
        second, w2 = panels(own, x[1] - reach, x[1] + reach, 2.0, 12)
        v = pi(np.stack([np.full(second.size, x1), second], axis=1))
        p = w1 * float(noise.density(x1 - x[0])) * w2 * noise.density(second - x[1])
        mass += float(p.sum())
        for total, value in zip(out, (v, v**2, v < 1e-12), strict=True):
            np.add(total, p @ value, out=total)
    return (*out, np.array(mass))


@pytest.mark.parametrize(
    ("x", "a", "noise"),
    [
        ([0.4, 1.9], [1.0, 1.0], fp.Laplace(1.0)),
        ([0.0, 0.3], [1.0, 1.0], fp.Gaussian(1.0)),
        ([2.5, 0.7], [1.0, 2.2], fp.Laplace(1.0)),
        ([1.0, 3.0], [3.0, 1.0], fp.Gaussian(1.0)),
        ([1.1, 1.1], [1.0, 1.0], fp.Laplace(1.0)),
    ],
)
def test_two_shares_under_a_threshold(x: list[float], a: list[float], noise: fp.noise.Law) -> None:
    """The rule has jumps along S = 0 alone, and that is a break of every inner panel: 1e-7 is left by corners of outer panels."""
    counts = fp.Counts(x, weights=a)
    found = fp.audit(counts, noise, "pos-threshold", engine="exact")
    assert isinstance(found, fp.Audit)
    level = noise.best_threshold()
    pi = PosThreshold(np.array(a), threshold=level)
    first, second, zero, mass = integrated(np.array(x), pi, noise, level.level * np.array(a), np.array(a))
    assert float(mass) == pytest.approx(1, abs=1e-9)
    p = found.truth
    assert found.bias == pytest.approx(first - p, abs=3e-7)
    assert found.mse == pytest.approx(second - 2 * p * first + p * p, abs=3e-7)
    assert found.zero == pytest.approx(zero, abs=3e-7)
    assert np.max(found.accuracy.half_width) < 1e-6


@pytest.mark.parametrize("noise", [fp.Laplace(2.0), fp.Gaussian(2.0)])
@pytest.mark.parametrize("total", [2.5, 4.0, 7.0, 30.0])
def test_two_counts_under_a_threshold(noise: fp.noise.Law, total: float) -> None:
    """By the difference of the noises: simulated quantiles of it, every one at its own midpoint."""
    x = np.array([1.0, 4.0])
    found = fp.audit(fp.Counts(x), noise, "simplex-threshold", engine="exact", total=total)
    pi = SimplexThreshold(total, threshold=noise.best_threshold())
    d = np.linspace(-44, 44, 400_001) * noise.spread / 2
    away = np.abs(d) / noise.spread
    laplace = np.isfinite(noise.strip)
    p = (1 + away) * np.exp(-away) if laplace else np.exp(-(away**2) / 4)
    p = p / p.sum()
    v = pi(np.stack([x[0] + d, np.full(d.size, x[1])], axis=1))
    # steps of 1e-4 scales: a jump of P(0) or a corner is missed by half a step's mass, 4e-5
    assert found.bias == pytest.approx(p @ (v - x), abs=1e-4)
    assert found.mse == pytest.approx(p @ (v - x) ** 2, abs=3e-3)
    assert found.zero == pytest.approx(p @ (v == 0), abs=1e-4)
    assert float(found.bias.sum()) == pytest.approx(total - 5.0, abs=1e-9)


def test_listed_noises_of_two_shares() -> None:
    """PoS of two values has a closed form: z_1/S clipped to [0, 1], one half where S = 0."""
    counts, noise = fp.Counts([3.0, 1.0]), fp.DiscreteLaplace(1.3)
    found = fp.audit(counts, noise, "pos", engine="exact")
    k = np.arange(-60.0, 61.0)
    p = np.multiply.outer(noise.density(k), noise.density(k))
    one, two = np.meshgrid(k + 3, k + 1, indexing="ij")
    with np.errstate(all="ignore"):
        share = np.where(one + two == 0, 0.5, np.clip(one / (one + two), 0.0, 1.0))
    bias = float(np.sum(p * (share - 0.75)))
    assert found.bias == pytest.approx([bias, -bias], abs=2e-10)  # LEFT of the list, e^-46 of the sum here
    assert found.mse[0] == pytest.approx(float(np.sum(p * (share - 0.75) ** 2)), abs=2e-10)
    assert found.zero[1] == pytest.approx(float(np.sum(p * (share == 1))), abs=2e-10)
    assert found.degenerate == pytest.approx(float(np.sum(p * (one + two <= 0))), abs=2e-10)


def test_one_noise_at_a_time_is_the_list_of_all() -> None:
    """Ties among the counts: an entity, its equals and the others see different noises."""
    x, a, noise = np.array([0.0, 2.0, 2.0, 5.0]), np.ones(4), fp.DiscreteLaplace(0.08)
    pi = PoS(a)
    truth = x / x.sum()
    d = Asked(x, truth, noise, 1e-6).distinct(a)
    ball = listing.Ball(noise, 4)
    every, (left, _) = listing._all(pi, d, x, truth, a, ball, 5), ball.left(5)
    single, more, size = listing._single(pi, d, x, truth, a, noise, 3)
    assert left < more
    for name in ("bias", "mse", "zero"):
        assert getattr(single, name) == pytest.approx(getattr(every, name), abs=more)
    # what is left out are pairs of noises: less than the bound, and no less than a hundredth of it
    off = np.max(np.abs(single.bias - every.bias))
    assert off <= 4 * size / x.sum()
    assert np.max(np.abs(single.bias)) > 20 * off


def test_what_is_not_listed_is_refused() -> None:
    with pytest.raises(errors.UnsupportedError, match="continuous noise only"):
        fp.audit(fp.Counts(np.arange(30.0)), fp.DiscreteLaplace(2.0), "pos-threshold", engine="exact")


@pytest.mark.parametrize("rule", ["pos", "pos-threshold"])
@pytest.mark.parametrize("noise", [fp.DiscreteLaplace(1.5), fp.DiscreteGaussian(3.0)])
def test_shares_that_nobody_is_dropped_from(rule: str, noise: fp.noise.Law) -> None:
    """E[z_1/S] by a sum over both noises; the weights put the two on lattices of their own."""
    x, a = np.array([70.0, 98.0]), np.array([1.0, 1.7])
    found = fp.audit(fp.Counts(x, weights=a), noise, rule, engine="exact")
    k = np.arange(-69.0, 70.0)
    p = np.multiply.outer(noise.density(k), noise.density(k))
    one, two = np.meshgrid(k + 70, a[1] * (k + 98), indexing="ij")
    truth = 70 / (70 + 1.7 * 98)
    bias = float(np.sum(p * (one / (one + two) - truth)))
    assert found.bias[0] == pytest.approx(bias, abs=float(found.accuracy.half_width[0]) + 1e-14)
    assert found.mse[0] == pytest.approx(float(np.sum(p * (one / (one + two) - truth) ** 2)), rel=1e-5)
    assert found.accuracy.half_width[0] < 1e-6 * abs(bias)


def test_a_count_of_zero_has_a_share_of_zero_without_noise() -> None:
    x = np.array([0.0, 4.0, 6.0])
    found = fp.audit(fp.Counts(x), fp.DiscreteGaussian(0.05), "pos", engine="exact")
    assert found.zero.tolist() == [1.0, 0.0, 0.0]
    assert fp.audit(fp.Counts(x), fp.DiscreteGaussian(0.05), "simplex", engine="exact").zero.tolist() == [1.0, 0.0, 0.0]


def test_uncut_shares_ask_for_the_tolerance() -> None:
    x, a, times, noise = np.array([4.0, 40.0]), np.ones(2), np.ones(2, dtype=np.int64), fp.Laplace(1.0)
    problem = Problem.build(x, a, times, x / 44, noise)
    assert uncut_shares(problem, 0.0, 1e-6) is None  # P(z_1 < 0) = e^-4 / 2


@pytest.mark.parametrize(
    ("noise", "rule"),
    [
        (fp.DiscreteGaussian(1e4), "simplex"),
        (fp.DiscreteGaussian(1e4), "simplex-threshold"),
        (fp.Laplace(1e4), "simplex-threshold"),
        (fp.DiscreteLaplace(1e4), "simplex"),
    ],
)
def test_releases_that_nobody_is_cut_from(noise: fp.noise.Law, rule: str) -> None:
    x = np.array([4e10, 7e11, 9e11])
    found = fp.audit(fp.Counts(x), noise, rule, engine="exact", total=1.6e12)
    assert found.bias == pytest.approx(np.full(3, (1.6e12 - x.sum()) / 3), rel=1e-15)
    assert found.mse == pytest.approx(noise.variance * 2 / 3 + found.bias**2, rel=1e-12)
    assert (found.zero == 0).all()
    assert np.max(found.accuracy.half_width) < 1e-3  # rounding of 1e12


def test_the_chance_of_a_cut_is_a_bound() -> None:
    """Against the chance that one entry of pi_S falls below 0, which is known (`sum_law`), for all four noises."""
    from fairpost.bounds import sum_law

    x, n = np.array([40.0, 55.0, 70.0]), 3
    for noise in (fp.Laplace(3.0), fp.Gaussian(6.0), fp.DiscreteLaplace(3.0), fp.DiscreteGaussian(6.0)):
        log = log_chance(x, n, noise, 0.0, 0.0)
        known = float(np.log(sum_law.clipped(np.array([40.0]), n, noise, 0)[0]))
        assert known <= log < 0.7 * known, noise


@pytest.mark.parametrize("rule", ["pos", "pos-threshold"])
def test_one_entity_has_all_under_every_noise(rule: str) -> None:
    for noise in (fp.Laplace(3.0), fp.DiscreteLaplace(3.0), fp.DiscreteGaussian(0.3)):
        found = fp.audit(fp.Counts([7.0]), noise, rule, engine="exact")
        assert found.bias.tolist() == [0.0]
        assert found.mse.tolist() == [0.0]
    assert rule in POSTPROCESSINGS


@pytest.mark.parametrize(
    ("x", "n", "total", "noise"),
    [(484.0, 16, 38720.0, fp.Gaussian(1e4)), (1.0, 8, 8.0, fp.Laplace(2.0217)), (5.0, 4, 17.0, fp.Laplace(3.0))],
)
def test_equal_counts_have_equal_biases_and_are_not_refused_for_them(x, n, total, noise):
    """alpha is 0 by symmetry, so no relative tolerance can be asked of it; squares and chances have their own errors."""
    tau = noise.best_threshold().level
    way = counted if noise.name == "gaussian" else few
    found = way.release(np.array([x]), np.array([n]), noise, total, tau, 1e-6)
    drift = (total - n * x) / n
    assert found.bias == [drift]
    assert found.error <= 1e-15 * (1 + abs(drift))
    runs, rng = 40_000, np.random.default_rng(5)
    eta = rng.laplace(0, noise.scale, (runs, n)) if noise.name == "laplace" else rng.normal(0, noise.sigma, (runs, n))
    v = SimplexThreshold(total=total, threshold=Threshold(tau))(x + eta)
    for value, error, seen in (
        (found.mse[0], found.mse_error[0], np.mean((v - x) ** 2, axis=1)),
        (found.zero[0], found.zero_error[0], np.mean(v == 0, axis=1)),
    ):
        assert error < 1e-3 * value
        assert abs(value - seen.mean()) <= error + 5 * seen.std() / runs**0.5


# -- a ball of noises -------------------------------------------------------------------------------------------------


def every_noise(noise: fp.noise.Law, n: int, reach: int) -> tuple[np.ndarray, np.ndarray]:
    """All vectors of noises up to the reach, and their chances."""
    k = np.arange(-reach, reach + 1)
    rows = np.stack(np.meshgrid(*[k] * n, indexing="ij"), axis=-1).reshape(-1, n)
    return rows, np.prod(noise.density(rows.astype(float)), axis=1)


@pytest.mark.parametrize("noise", [fp.DiscreteLaplace(0.9), fp.DiscreteGaussian(1.2)], ids=lambda m: m.name)
@pytest.mark.parametrize("n", [1, 3])
def test_a_ball_has_what_a_cube_has_inside_it(noise: fp.noise.Law, n: int) -> None:
    ball, (rows, chance) = listing.Ball(noise, n), every_noise(noise, n, 30)
    size = np.sum(rows**2 if noise.name == "discrete-gaussian" else np.abs(rows), axis=1)
    for radius in (0, 1, 5, 11):
        inside = size <= radius
        assert ball.vectors(radius) == np.count_nonzero(inside)
        left, length = ball.left(radius)
        assert left == pytest.approx(float(chance[~inside].sum()), rel=1e-9, abs=1e-14)
        outside = float(chance[~inside] @ np.abs(rows[~inside]).sum(axis=1))
        assert outside <= length
        assert length <= (n if noise.name == "discrete-gaussian" else 1) * outside + 1e-11
        least = ball.radius(left)
        assert ball.left(least)[0] == left  # no vector has some of the sizes
        assert least == 0 or ball.left(least - 1)[0] > left
        assert ball.radius(0.5 * length, 0.5) <= radius  # what each noise may do counts, where that is less
    assert ball.radius(1e-17) == -1


@pytest.mark.parametrize(
    ("noise", "times"),
    [(fp.DiscreteLaplace(0.7), (1, 1, 1)), (fp.DiscreteLaplace(2.0), (3,)), (fp.DiscreteGaussian(1.5), (2, 1))],
)
def test_a_ball_has_no_fewer_vectors_than_its_chance_needs(noise: fp.noise.Law, times: tuple[int, ...]) -> None:
    """None of them has more than P(0)^n, and equal entities have at most so many orders."""
    ball = listing.Ball(noise, sum(times), times)
    for left in (0.3, 1e-3, 1e-9):
        assert ball.fewest(left) <= ball.orders(ball.radius(left))
    least = (1 - 0.3) / float(noise.density(0.0)) ** sum(times)
    assert ball.fewest(0.3) == pytest.approx(least / {(1, 1, 1): 1, (3,): 6, (2, 1): 2}[times])


def test_what_cannot_be_listed_is_not_folded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Six noises of scale 98 have 1e13 vectors at the least, which the largest mass says at once."""

    def never(_: listing.Ball) -> None:
        raise AssertionError

    monkeypatch.setattr(listing.Ball, "_folded", property(never))
    counts = fp.Counts(np.full(6, 27.0), weights=[483.0, 59.0, 15.0, 395.0, 1286.0, 7.0])
    with pytest.raises(errors.UnsupportedError):
        fp.audit(counts, fp.DiscreteLaplace(98.0), "pos", engine="exact")


@pytest.mark.parametrize("noise", [fp.DiscreteLaplace(0.9), fp.DiscreteGaussian(1.2)], ids=lambda m: m.name)
@pytest.mark.parametrize("rule", ["pos", "pos-threshold"])
def test_a_walk_gives_what_the_rule_gives_to_every_noise(
    noise: fp.noise.Law, rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exchangeable noises are walked in one order; sums that are 0 but for rounding, and negative ones, are the rule's own matter."""
    x, a, radius = np.array([1.0, 0.0, 1.0, 0.0, 1.0]), np.array([0.3, 0.1, 0.3, 0.1, 0.3]), 7
    counts, label = fp.Counts(x, weights=a), np.array([1, 0, 1, 0, 1])
    pi = POSTPROCESSINGS[rule].from_counts(counts).for_mechanism(noise)
    truth = a * x / np.sum(a * x)
    rows, chance = every_noise(noise, 5, 7)
    inside = np.sum(rows**2 if noise.name == "discrete-gaussian" else np.abs(rows), axis=1) <= radius
    rows, chance = rows[inside], chance[inside]
    ball = listing.Ball(noise, 5, (2, 3))
    found = listing._all(pi, Asked(x, truth, noise, 1e-6).distinct(a), x, truth, a, ball, radius)
    v = pi(x + rows)
    assert found.bias == pytest.approx(chance @ (v - truth), abs=1e-14)
    assert found.mse == pytest.approx(chance @ (v - truth) ** 2, abs=1e-14)
    assert found.zero == pytest.approx(chance @ (v <= 1e-13), abs=1e-14)
    assert found.dust <= found.zero.max()  # rounding, which another order of sums changes
    sums = (3 * (x + rows)[:, label == 1].sum(axis=1) + (x + rows)[:, label == 0].sum(axis=1)).round()
    assert (sums == 0).any()
    assert found.degenerate == pytest.approx(float(chance @ (sums <= 0)), abs=1e-14)
    ordered = np.concatenate([np.sort(rows[:, label == k], axis=1) for k in (0, 1)], axis=1)
    assert ball.orders(radius) == len(np.unique(ordered, axis=0))
    assert ball.orders(-1) == np.inf
    seen: list[np.ndarray] = []
    monkeypatch.setattr("fairpost.engines.exact.lattice.kernels.ball.walk", lambda *given: seen.append(given[4]) or 0.0)
    listing._all(pi, Asked(x, truth, noise, 1e-6).distinct(a), x, truth, a, ball, radius)
    assert seen[0].tolist() == [0, 1, 0, 1, 2]


def test_a_noise_next_to_none_is_listed_as_deep_as_alpha_asks_for() -> None:
    """alpha is 2.7e-11 and more than one noise at a time matters to its sixth digit: seven entities, all noises up to 2."""
    x = np.array([0.0, 2.0, 7.0, 0.0, 0.0, 21.0, 5.0])
    counts = fp.Counts(x, weights=[6.7, 10.5, 3.3, 73.0, 81.8, 2420.6, 94732.2])
    noise = fp.DiscreteLaplace(0.05)
    found = fp.audit(counts, noise, "pos-threshold", engine="exact")
    rows, chance = every_noise(noise, 7, 2)
    pi, a = POSTPROCESSINGS["pos-threshold"].from_counts(counts).for_mechanism(noise), np.asarray(counts.weights)
    away = np.where(chance[:, None] < 0.5, pi(x + rows) - a * x / np.sum(a * x), 0.0)  # nothing happens without noise
    assert (np.abs(found.bias - chance @ away) <= found.half_width).all()
    assert found.half_width.max() <= 1e-15
    assert found.zero == pytest.approx(chance @ (pi(x + rows) <= 1e-13), abs=1e-14)
    ball = listing.Ball(noise, 7)
    assert ball.deeper(1e-3) is ball
    deep = ball.deeper(1e-20)
    assert 0 < deep.left(deep.radius(1e-20))[0] <= 1e-20
    assert listing.Ball(fp.DiscreteGaussian(55.0), 2).deeper(1e-20).rest == listing.REST  # too long a table


def test_more_than_six_equal_weights_are_a_lattice_first_and_then_a_list(monkeypatch: pytest.MonkeyPatch) -> None:
    counts, noise = fp.Counts([0.0, 0.0, 1.0, 1.0, 2.0, 2.0, 3.0, 9.0]), fp.DiscreteLaplace(0.2)
    lattice = fp.audit(counts, noise, "pos", engine="exact")
    seen: list[int] = []
    real = listing._all

    def refused(*_: object) -> None:
        raise errors.ToleranceError("no lattice")

    monkeypatch.setattr("fairpost.engines.exact.pos.moments.lattice.shares", refused)
    monkeypatch.setattr("fairpost.engines.exact.pos.moments.signed.shares", refused)
    monkeypatch.setattr(listing, "_all", lambda *args: seen.append(1) or real(*args))
    found = fp.audit(counts, noise, "pos", engine="exact")
    assert seen
    assert (np.abs(found.bias - lattice.bias) <= found.half_width + lattice.half_width).all()
    assert found.mse == pytest.approx(lattice.mse, rel=1e-5)
    assert (
        np.abs(found.zero - lattice.zero) <= found.zero_accuracy.half_width + lattice.zero_accuracy.half_width
    ).all()


@pytest.mark.parametrize(
    ("x", "a", "noise", "rule"),
    [
        ([0.0, 3.0, 3.0], [1.0, 1.0, 1.0], fp.DiscreteLaplace(1.2), "pos"),
        ([2.0, 2.0, 5.0], [1.0, 1.0, 40.0], fp.DiscreteGaussian(1.5), "pos-threshold"),
        ([1.0, 4.0, 2.0], [1.0, 300.0, 7.0], fp.DiscreteLaplace(0.8), "pos-threshold"),
    ],
)
def test_a_ball_gives_what_a_cube_gives(x: list[float], a: list[float], noise: fp.noise.Law, rule: str) -> None:
    counts = fp.Counts(x, weights=a)
    found = fp.audit(counts, noise, rule, engine="exact")
    pi = POSTPROCESSINGS[rule].from_counts(counts).for_mechanism(noise)
    rows, chance = every_noise(noise, 3, 34 if noise.name == "discrete-laplace" else 13)
    v, truth = pi(np.asarray(x) + rows), counts.weights * counts.values / np.sum(counts.weights * counts.values)
    missing = 1e-11 + max(1 - float(chance.sum()), 0.0)
    assert found.bias == pytest.approx(chance @ (v - truth), abs=missing)
    assert found.mse == pytest.approx(chance @ (v - truth) ** 2, abs=missing)
    assert found.zero == pytest.approx(chance @ (v <= 1e-13), abs=missing)  # rounding at the foot of a ramp is 0
    assert found.degenerate == pytest.approx(float(chance @ ((x + rows) @ counts.weights <= 0)), abs=missing)
    assert found.half_width.max() <= 2e-11


def test_a_list_is_as_long_as_alpha_asks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Too long for more digits than were asked for: the radius comes from alpha, and the stated error holds."""
    counts, noise = fp.Counts([0.0, 1.0, 3.0], weights=[1.0, 2.0, 60.0]), fp.DiscreteLaplace(1.5)
    best = fp.audit(counts, noise, "pos-threshold", engine="exact")
    monkeypatch.setattr(listing, "QUICK", 1.2e5)
    found = fp.audit(counts, noise, "pos-threshold", engine="exact")
    width = float(found.half_width.max())
    assert 1e-9 < width <= 0.5e-6 * found.alpha.value
    assert float(best.half_width.max()) < 1e-10
    assert (np.abs(found.bias - best.bias) <= width).all()
    assert np.abs(found.bias - best.bias).max() > 0
    assert (np.abs(found.mse - best.mse) <= found.mse_accuracy.half_width).all()
    assert (np.abs(found.zero - best.zero) <= found.zero_accuracy.half_width).all()
    monkeypatch.setattr(listing, "POINTS", 1.3e5)  # enough for an alpha of 1, not for this one
    with pytest.raises(
        errors.ToleranceError, match="pos-threshold: more discrete-laplace noises matter than can be listed"
    ):
        fp.audit(counts, noise, "pos-threshold", engine="exact")


def test_four_equal_counts_need_no_long_list(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their biases are 0; the rest has some digits, with its error."""
    counts, noise = fp.Counts([18.0] * 4), fp.DiscreteLaplace(2.2)
    seen: list[int] = []
    real = listing._all
    monkeypatch.setattr(listing, "_all", lambda *args: seen.append(args[-1]) or real(*args))
    found = fp.audit(counts, noise, "pos", engine="exact")
    assert found.alpha.value == 0 == found.half_width.max()
    assert len(seen) == 1
    assert found.mse_accuracy.half_width.max() < 1e-6
    simulated = fp.audit(counts, noise, "pos", engine=fp.MonteCarlo(runs=100_000, seed=2))
    assert found.mse[0] == pytest.approx(float(simulated.mse.mean()), rel=0.01)


@pytest.mark.parametrize("rule", ["pos", "pos-threshold"])
def test_a_group_without_anybody_is_listed_too(rule: str) -> None:
    """Its sum is 0, which the bound for PoS once divided by."""
    counts = fp.Counts([0.0, 0.0, 0.0, 2.0, 3.0, 1.0], weights=[1.0, 2.0, 1.5] * 2, groups=["none"] * 3 + ["some"] * 3)
    found = fp.audit(counts, fp.DiscreteLaplace(0.6), rule, engine="exact", by_group=True)
    rng = np.random.default_rng(2)
    p = -np.expm1(-1 / 0.6)
    eta = (rng.geometric(p, (100_000, 6)) - rng.geometric(p, (100_000, 6))).astype(float)
    pi = POSTPROCESSINGS[rule].from_counts(counts, by_group=True).for_mechanism(fp.DiscreteLaplace(0.6))
    share = np.asarray(pi(counts.values + eta))
    error = share.std(axis=0) / 100_000**0.5
    assert np.all(np.abs(share.mean(axis=0) - found.truth - found.bias) <= 5 * error + found.half_width)
