"""pos-threshold and simplex-threshold: the map, the theorem with its certificate, the evaluation by expansion."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

import fairpost as fp
from fairpost import errors
from fairpost.noise import Threshold
from fairpost.partition import Partition
from fairpost.rules import PosThreshold, SimplexThreshold
from support import mechanisms

# ---------------------------------------------------------------------------------------------- the map


def slow_jump(z: list[float], t: list[float], total: float) -> list[Fraction]:
    """From the definition, in rational arithmetic: try every edge as the place of the jump, then every gap."""
    zs, ts, goal = [Fraction(v) for v in z], [Fraction(v) for v in t], Fraction(total)
    edges = [v - w for v, w in zip(zs, ts, strict=True)]
    for edge in sorted(set(edges), reverse=True):
        above = [i for i, w in enumerate(edges) if w > edge]
        tied = [i for i, w in enumerate(edges) if w == edge]
        low = sum(zs[i] - edge for i in above)
        high = low + sum(ts[i] for i in tied)
        out = [Fraction(0)] * len(zs)
        if low >= goal:  # the root lies above this edge, with `above` kept
            r = (sum(zs[i] for i in above) - goal) / len(above)
            for i in above:
                out[i] = zs[i] - r
            return out
        if high >= goal:
            for i in above:
                out[i] = zs[i] - edge
            for i in tied:
                out[i] = (goal - low) * ts[i] / (high - low)
            return out
    r = (sum(zs) - goal) / len(zs)
    return [v - r for v in zs]


def slow_ramp(z: list[float], t: list[float], s: float, total: float) -> list[Fraction]:
    """From the definition, in rational arithmetic: the sum is linear between the corners of the ramps."""
    zs, ts, steep, goal = [Fraction(v) for v in z], [Fraction(v) for v in t], Fraction(s), Fraction(total)

    def kept(r: Fraction) -> list[Fraction]:
        return [min(v - r, steep * (v - r - w)) if v - r > w else Fraction(0) for v, w in zip(zs, ts, strict=True)]

    starts = [v - w for v, w in zip(zs, ts, strict=True)]
    ends = [v - w * steep / (steep - 1) for v, w in zip(zs, ts, strict=True)] if steep > 1 else starts
    corners = sorted({*starts, *ends}, reverse=True)
    corners.append(corners[-1] - goal)  # far enough left: every amount grows by at least what r falls
    for right, left in pairwise(corners):
        high, low = sum(kept(left)), sum(kept(right))
        if high >= goal:
            return kept(right - (right - left) * (goal - low) / (high - low))
    raise AssertionError("the sum reaches every total")


entries = st.one_of(
    st.integers(-6, 12).map(float), st.floats(-50, 50).map(lambda v: round(v, 3)), st.just(0.0), st.just(1e6)
)


@given(
    z=st.lists(entries, min_size=1, max_size=9),
    total=st.sampled_from([0.25, 1.0, 7.0, 40.0, 1e4]),
    level=st.sampled_from([0.0, 0.5, 3.0, 10.0]),
    data=st.data(),
)
def test_both_forms_are_what_the_definition_says(
    z: list[float], total: float, level: float, data: st.DataObject
) -> None:
    a = data.draw(st.lists(st.sampled_from([0.5, 1.0, 1.0, 4.0]), min_size=len(z), max_size=len(z)))
    rule, t = Threshold(level), [level * w for w in a]
    scale = max(map(abs, z)) + total + level
    ramp = slow_ramp(z, t, level + 1.0, total)
    from fairpost.rules.kernels import threshold as kernel

    out = np.empty(len(z))
    kernel.keep(np.array(z), np.array(t), rule.steepness, total, out)
    # rounding: r carries a few ulp of the largest entry
    assert out == pytest.approx(np.array([float(v) for v in slow_jump(z, t, total)]), abs=1e-14 * scale)
    kernel.keep(np.array(z), np.array(t), level + 1.0, total, out)
    # the ramp multiplies an error of r by s
    assert out == pytest.approx(np.array([float(v) for v in ramp]), abs=2e-14 * scale * (level + 1.0))


def broken(values: np.ndarray, totals: float) -> int:
    """Rows with a negative or not finite entry, or whose sum is off by more than rounding (1e-12 of the total)."""
    off = np.abs(values.sum(axis=-1) - totals) > 1e-12 * totals
    return int(np.count_nonzero(off | (values < 0).any(axis=-1) | ~np.isfinite(values).all(axis=-1)))


def hard_rows(rng: np.random.Generator, rows: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Ties, zeros, negative sums, one giant, sums that nearly cancel; and weights."""
    kind = rng.integers(0, 6, size=(rows, 1))
    z = rng.laplace(scale=3.0, size=(rows, n)) + rng.integers(0, 4, size=(rows, n))
    z = np.where(kind == 1, np.round(z), z)
    z = np.where(kind == 2, np.where(rng.random((rows, n)) < 0.5, 0.0, np.round(z)), z)
    z = np.where(kind == 3, -np.abs(z), z)
    z[:, 0] = np.where(kind[:, 0] == 4, 10.0 ** rng.uniform(3, 15, rows), z[:, 0])
    nearly = 1 - 10.0 ** rng.uniform(-12, -1, rows)
    z[:, -1] = np.where(kind[:, 0] == 5, z[:, -1] - z.sum(axis=1) * nearly, z[:, -1])
    return z, np.ones(n) if rng.random() < 0.5 else rng.choice([0.01, 0.5, 1.0, 1.0, 30.0], n)


def test_no_hard_vector_breaks_the_total_or_the_sign() -> None:
    """200,000 vectors here; benchmarks/bench_threshold.py draws 1,000,000."""
    rng, bad = np.random.default_rng(1), 0
    for _ in range(50):
        n = int(rng.choice([1, 2, 3, 4, 5, 7, 12, 40, 120]))
        z, a = hard_rows(rng, 2000, n)
        level = float(rng.choice([0.0, 0.5, 3.0, 100.0]))
        total = float(rng.choice([0.0, 1e-9, 1.0, 10.0, 1e6]))
        for rule in (Threshold(level), Threshold.ramp(level)):
            bad += broken(PosThreshold(a, threshold=rule)(z), 1.0)
            bad += broken(SimplexThreshold(total, threshold=rule)(z), total)
    assert bad == 0


def test_the_remainder_goes_to_the_edge_and_ties_share_it() -> None:
    # edges 8, 3, 3, 0 at tau = 2: at r = 3 the first holds 7, the two at the edge would hold 2 each; 2 is left for both
    pi = SimplexThreshold(9.0, threshold=Threshold(2.0))
    np.testing.assert_array_equal(pi([10.0, 5.0, 5.0, 2.0]), [7.0, 1.0, 1.0, 0.0])
    np.testing.assert_array_equal(pi([5.0, 2.0, 10.0, 5.0]), [1.0, 0.0, 7.0, 1.0])
    # weights 1 and 2 at the same edge 3: thresholds 2 and 4 get a third and two thirds of the remainder 3
    shares = PosThreshold([1.0, 2.0, 1.0], threshold=Threshold(2.0))([5.0, 3.5, -9.0])
    np.testing.assert_allclose(shares, [1 / 3, 2 / 3, 0.0], rtol=1e-15)


@given(rows=st.integers(1, 4), n=st.integers(2, 30), seed=st.integers(0, 2**32))
def test_order_does_not_matter(rows: int, n: int, seed: int) -> None:
    """Equal noisy counts get equal amounts: a permutation of whole-number counts permutes the output."""
    rng = np.random.default_rng(seed)
    z, order = rng.integers(-3, 9, size=(rows, n)).astype(float), rng.permutation(n)
    z[:, 0] += 100.0
    for rule in (Threshold(2.5), Threshold.ramp(2.5)):
        pi = PosThreshold(threshold=rule)
        np.testing.assert_allclose(pi(z)[:, order], pi(z[:, order]), rtol=0, atol=1e-14)


def test_conventions_for_sums_at_or_below_zero_are_those_of_pos() -> None:
    a = [1.0, 3.0, 1.0]
    pi = PosThreshold(a, threshold=Threshold(0.5))
    lost = pi.apply([3.0, -1.0, 0.0])
    assert lost.degenerate == 1
    np.testing.assert_array_equal(lost.values, [0.2, 0.6, 0.2])
    turned = pi.apply([-5.0, -1.0, 1.0])
    assert turned.degenerate == 1
    np.testing.assert_array_equal(turned.values, pi([5.0, 1.0, -1.0]))
    without = PosThreshold(a, threshold=Threshold(0.0))
    z = mechanisms.noise("laplace", (50, 3), 3)
    np.testing.assert_allclose(without(z), fp.PoS(a)(z), atol=1e-14)


def test_a_batch_is_its_rows_bit_for_bit() -> None:
    """Threads only split the rows."""
    rng = np.random.default_rng(2)
    z = rng.lognormal(2.0, 1.5, 3000) + rng.laplace(scale=5.0, size=(40, 3000))
    for rule in (Threshold(5.0), Threshold.ramp(4.5)):
        pi = PosThreshold(rng.uniform(0.5, 2.0, 3000), threshold=rule)
        np.testing.assert_array_equal(pi(z), np.array([pi(row) for row in z]))


def test_errors_name_the_rule() -> None:
    with pytest.raises(errors.ParameterError, match="pos-threshold needs its threshold"):
        PosThreshold()([1.0, 2.0])
    with pytest.raises(errors.ParameterError, match="at least 0 and finite, got -1"):
        Threshold(-1.0)
    with pytest.raises(errors.ParameterError, match="steepness"):
        Threshold(1.0, 0.5)
    given_one = SimplexThreshold(5.0, threshold=Threshold(1.0))
    assert given_one.for_mechanism(fp.Laplace(9.0)) is given_one
    with pytest.raises(errors.CountsError, match="several totals"):
        SimplexThreshold([1.0, 2.0], threshold=Threshold(1.0))
    by_group = SimplexThreshold([1.0, 2.0], Partition.of(["a", "b"]), Threshold(1.0))
    np.testing.assert_array_equal(by_group([7.0, 3.0]), [1.0, 2.0])


# ---------------------------------------------------------------------------------------------- the theorem


def bound(x: np.ndarray, k: float, b: float) -> np.ndarray:
    """L_k(x) = sup_y (y - k) e^{-|y - x|/b} over y >= 0."""
    return np.where(x <= k + b, b * np.exp((x - k - b) / b), x - k)


@pytest.mark.parametrize("k", [0.0, 0.3, 2.0, 11.0])
def test_the_mechanism_attains_the_lower_bound_everywhere(k: float) -> None:
    b, x = 3.0, np.linspace(0.0, 60.0, 601)
    noise = fp.Laplace(b)
    rule = Threshold.best(noise)
    m = x - k + rule.gain(noise, k + rule.level - x)
    np.testing.assert_allclose(m, bound(x, k, b), rtol=1e-12)
    sup = np.max((x[None, :] - k) * np.exp(-np.abs(x[None, :] - x[:, None]) / b), axis=1)
    # the supremum over a grid of spacing h misses at most (h/b)^2/8 of its value
    np.testing.assert_allclose(sup, bound(x, k, b), rtol=(0.1 / b) ** 2 / 8 + 1e-12)
    assert rule.bias_range(noise, k) == pytest.approx(k + b / np.e * np.exp(-k / b), rel=1e-12)


@pytest.mark.parametrize("b", [0.4, 1.0, 2.5, 10.0])
@pytest.mark.parametrize("k", [0.0, 0.37, 3.5])
def test_the_ramp_attains_the_bound_for_whole_number_noise(b: float, k: float) -> None:
    """m(x) = max over y in x + {0, 1, ...} of (y - k) q^{y - x}, for counts of any fractional part."""
    noise, q = fp.DiscreteLaplace(b), np.exp(-1 / b)
    rule = Threshold.best(noise)
    x = np.arange(0.0, 20 * b + 5, 0.25)
    steps = np.arange(0.0, 40 * b + 20)
    best = np.max((x[:, None] + steps - k) * q**steps, axis=1)
    m = x - k + rule.gain(noise, k + rule.level - x)
    # `lower` is accurate to 1e-12; the ramp's difference of two of them multiplies that by s
    np.testing.assert_allclose(m, best, rtol=1e-11 * rule.steepness, atol=1e-12)


@pytest.mark.parametrize("steps", [1, 4, 7])
def test_a_linear_program_over_all_nonnegative_functions_returns_the_same_optimum(steps: int) -> None:
    """min over f >= 0 of max_x (m(x) - x) with m(x) >= x, on a grid of spacing h = b/steps.

    With the noise itself on the grid (masses prop. to e^{-|u|/b}) the ratio argument holds on it, so the optimum is
    max_j j h q^j, q = e^{-h/b}: exactly b/e, as j = steps is on the grid. Dropping the constraints beyond the grid does
    not change it: m(0) >= q^j m(jh) >= j h q^j needs x = b alone, and the threshold's f, its last value
    raised by what the cut tail would have added, stays feasible.
    """
    b, h = 1.0, 1.0 / steps
    q = np.exp(-h / b)
    x, z = np.arange(0, 8 * steps + 1), np.arange(-4 * steps, 16 * steps + 1)
    kernel = (1 - q) / (1 + q) * q ** np.abs(z[None, :] - x[:, None])
    top = np.concatenate([kernel, -np.ones((x.size, 1))], axis=1)
    bottom = np.concatenate([-kernel, np.zeros((x.size, 1))], axis=1)
    cost = np.zeros(z.size + 1)
    cost[-1] = 1.0
    found = linprog(
        cost, np.concatenate([top, bottom]), np.concatenate([x * h, -x * h]), bounds=(0, None), method="highs"
    )
    assert found.status == 0
    assert found.fun == pytest.approx(0.36787944117, abs=2e-7)  # HiGHS' feasibility tolerance


def test_the_smallest_shift_is_the_mechanisms() -> None:
    """A linear program over all f >= 0 on a grid, the total held in the mean: the least range for given counts."""
    b, h = 5.0, 1.0
    q = np.exp(-h / b)
    x, z = np.arange(0, 61), np.arange(-20, 76)  # farther off the coefficients fall below what HiGHS keeps (1e-9)
    times = np.zeros(x.size)
    times[[0, 2, 5, 10, 20, 40, 60]] = [30, 20, 10, 10, 10, 10, 10]
    kernel = (1 - q) / (1 + q) * q ** np.abs(z[None, :] - x[:, None])
    one, none = np.ones((x.size, 1)), np.zeros((x.size, 1))
    a_ub = np.block([[kernel, -one, none], [-kernel, none, one]])  # low <= m(x) - x <= high at every count 0..60
    cost = np.concatenate([np.zeros(z.size), [1.0, -1.0]])
    a_eq = np.concatenate([times @ kernel, [0.0, 0.0]])[None, :]
    limits = [(0, None)] * z.size + [(None, None)] * 2
    found = linprog(cost, a_ub, np.concatenate([x, -x]), a_eq, [times @ x], limits, method="highs")
    assert found.status == 0
    noise = fp.DiscreteLaplace(b)
    rule = Threshold.best(noise)
    from scipy.optimize import brentq

    k = brentq(lambda k: np.sum(times * (rule.gain(noise, k + rule.level - x) - k)), 0, 50, xtol=1e-13)
    gains = rule.gain(noise, k + rule.level - x)
    assert found.fun == pytest.approx(np.ptp(gains), abs=1e-6)
    assert -found.x[-1] == pytest.approx(k, abs=1e-6)


def test_the_gaussian_threshold_is_the_best_of_its_family() -> None:
    noise = fp.Gaussian(2.0)
    with mpmath.workdps(30):
        root = mpmath.findroot(lambda t: t * mpmath.npdf(t) - mpmath.ncdf(-t), 0.75)
        assert pytest.approx(float(root), abs=1e-10) == fp.Gaussian(1.0).best_threshold().level
        least = float(2 * root * mpmath.ncdf(-root))
    assert Threshold.best(noise).bias_range(noise) == pytest.approx(2.0 * least, rel=1e-9)
    curve = [Threshold(2.0 * t).bias_range(noise) for t in np.arange(0.0, 1.6, 0.1)]
    assert min(curve) > 2.0 * least
    assert curve[0] == pytest.approx(2.0 / np.sqrt(2 * np.pi), rel=1e-9)


def test_the_shifted_gaussian_curve_has_its_closed_form() -> None:
    """With a shift k the best tau solves tau = P(eta > k + tau)/p(k + tau), the range is k + 2 tau P(eta > k + tau)."""
    noise = fp.Gaussian(1.0)
    for k in (0.1, 0.5, 1.0, 2.0):
        with mpmath.workdps(30):
            tau = mpmath.findroot(lambda t, k=k: t * mpmath.npdf(k + t) - mpmath.ncdf(-k - t), 0.5)
            least = float(k + 2 * tau * mpmath.ncdf(-k - tau))
        assert Threshold(float(tau)).bias_range(noise, k) == pytest.approx(least, rel=1e-9)
        assert all(Threshold(float(tau) * f).bias_range(noise, k) > least for f in (0.8, 0.95, 1.05, 1.2))


@pytest.mark.parametrize("sigma", [0.6, 2.0, 9.0, 20.0])
def test_the_discrete_gaussian_ramp_is_near_the_best(sigma: float) -> None:
    noise = fp.DiscreteGaussian(sigma)
    chosen = Threshold.best(noise).bias_range(noise)
    others = [Threshold.ramp(level).bias_range(noise) for level in np.linspace(0.0, 1.2 * sigma, 60)]
    # below sigma = 16 the search refines its own grid; above, centring the Gaussian's threshold costs below 1e-3
    assert chosen <= min(others) * (1 + (1e-6 if sigma < 16 else 1e-3))


# ---------------------------------------------------------------------------------------------- the evaluation


def test_where_the_expansion_cannot_be_trusted_it_refuses() -> None:
    few, many = fp.Counts([0.0, 1.0, 5.0, 9.0, 40.0]), fp.Counts(np.tile([0.0, 1.0, 5.0, 9.0, 40.0], 50))
    for rule in ("simplex-threshold", "pos-threshold"):
        with pytest.raises(fp.UnsupportedError, match="16 entities that share the shift, got"):
            fp.audit(few, fp.Laplace(3.0), rule, engine="expansion")
    with pytest.raises(fp.UnsupportedError, match="weighted sum fluctuates"):
        fp.audit(many, fp.Laplace(200.0), "pos-threshold", engine="expansion")
    with pytest.raises(fp.UnsupportedError, match="2 entities that are clipped, got"):
        fp.audit(fp.Counts(np.arange(20.0, 220.0)), fp.Laplace(3.0), "pos", engine="expansion")


@pytest.mark.parametrize("column", ["poor_5_17", "pop_5_17"])
@pytest.mark.parametrize("epsilon", [0.1, 0.01, 0.001])
def test_saipe_is_fairer_cheaper_and_nearly_as_precise(column: str, epsilon: float) -> None:
    """The bars of the comparison with PoS, both by the expansion (tau = 0 is PoS); design/threshold's figures."""
    counts = mechanisms.saipe(column)
    noise = fp.Laplace.from_epsilon(epsilon)
    old, new = (fp.audit(counts, noise, rule, engine="expansion") for rule in ("pos", "pos-threshold"))
    assert np.ptp(old.bias) >= 1.3 * np.ptp(new.bias)
    assert np.sum(np.maximum(-new.bias, 0)) < np.sum(np.maximum(-old.bias, 0))
    assert np.sqrt(np.sum(new.mse)) <= 1.1 * np.sqrt(np.sum(old.mse))
    b, shift = noise.scale, -new.bias.min() * counts.total
    least = (shift + b * np.exp(-1 - shift / b)) / counts.total
    assert np.ptp(new.bias) == pytest.approx(least, rel=0.02)
    assert (new.half_width <= 1e-3 * np.ptp(new.bias)).all()


@settings(max_examples=30)
@given(st.floats(0.2, 30.0), st.floats(0.0, 3.0))
def test_the_range_is_never_below_the_bound(b: float, factor: float) -> None:
    """No threshold beats tau = b, with or without a shift."""
    noise = fp.Laplace(b)
    for k in (0.0, 0.7 * b):
        assert Threshold(factor * b).bias_range(noise, k) >= (k + b / np.e * np.exp(-k / b)) * (1 - 1e-9)


def test_over_one_list_another_rule_can_have_a_smaller_range():
    """The example of docs/threshold.md: 50 counts of 0 and 50 of 40, b = 5, in the mean field; f = c above 40, else 0."""
    b, x = 5.0, np.repeat([0.0, 40.0], 50)
    noise = fp.Laplace(b)
    kept = noise.sf(40.0 - np.array([0.0, 40.0, 20.0]))
    c = x.sum() / np.sum(noise.sf(40.0 - x))
    bias = c * kept - np.array([0.0, 40.0, 20.0])
    assert np.ptp(bias[:2]) == pytest.approx(80 / (1 + np.exp(8)), rel=1e-12)
    assert round(float(np.ptp(bias[:2])), 3) == 0.027
    assert round(float(c * kept[2]), 2) == 0.73
    # no rule has less there: m(0) >= e^{-8} m(40), and m(0) + m(40) = 40
    assert np.ptp(bias[:2]) == pytest.approx(2 * 40 / (1 + np.exp(40 / b)), rel=1e-12)
    found = fp.audit(x, noise, "simplex-threshold", engine="expansion")
    k = float(mpmath.findroot(lambda v: v - b * mpmath.exp(-1 - v / b), 1.4))
    assert round(2 * k, 2) == 2.78
    # the expansion adds corrections of size 1/n to the mean field, and says how well it is known
    assert np.ptp(found.bias) == pytest.approx(2 * k, abs=2 * float(found.half_width.max()) + 2 * k / x.size)


@pytest.mark.parametrize("n", [0, 1, 2, 48, 49, 97, 500, 3000])
def test_edges_fall_and_stay_with_their_entities(n):
    """Ties as well, which are all that is left of many."""
    from fairpost.rules.kernels.edges import _sort

    rng = np.random.default_rng(n)
    for values in (rng.normal(size=n), rng.integers(0, 4, n).astype(float), np.zeros(n), np.arange(n, dtype=float)):
        edges, who = values.copy(), np.arange(n)
        _sort(edges, who)
        assert edges.tolist() == sorted(values.tolist(), reverse=True)
        assert sorted(who.tolist()) == list(range(n))
        np.testing.assert_array_equal(values[who], edges)
