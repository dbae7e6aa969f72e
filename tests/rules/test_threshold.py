"""pos-threshold and simplex-threshold: the map, the theorem with its certificate, the evaluation by expansion."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from scipy.optimize import linprog

import fairpost as fp
from fairpost import errors
from fairpost.noise import Threshold
from fairpost.partition import Partition
from fairpost.rules import PosThreshold, SimplexThreshold
from support import mechanisms, rules

# ---------------------------------------------------------------------------------------------- the map


@pytest.mark.parametrize("seed", range(60))
def test_both_forms_are_what_the_definition_says(seed: int) -> None:
    """Against the walk over edges and corners in support/rules.py; ties, zeros, sums below 0, one giant, weights."""
    rng = np.random.default_rng(seed)
    n, level = int(rng.choice([1, 2, 3, 5, 12, 40])), float(rng.choice([0.0, 0.5, 3.0, 100.0]))
    z = rng.laplace(scale=3.0, size=(200, n)) + rng.integers(0, 4, size=(200, n))
    z = [z, np.round(z), -np.abs(z), np.where(np.arange(n) == 0, 10.0 ** rng.uniform(3, 12), z)][seed % 4]
    total, a = float(rng.choice([1e-9, 1.0, 10.0, 1e6])), rng.choice([0.5, 1.0, 1.0, 4.0], n)
    size = np.abs(z).max() * 4 + total + level
    for rule in (Threshold(level), Threshold.ramp(level)):
        form = (rule.level, rule.steepness if level else np.inf)  # at 0 both keep whatever is above it
        kept = SimplexThreshold(total, threshold=rule)(z)
        # rounding: r carries a few ulp of the largest entry, a ramp multiplies that by its steepness
        error = 4e-14 * size * (1 + level)
        np.testing.assert_allclose(kept, rules.outputs("simplex-threshold", z, a, total, form), rtol=0, atol=error)
        np.testing.assert_allclose(kept.sum(axis=1), total, rtol=1e-12)
        shares = PosThreshold(a, threshold=rule)(z)
        np.testing.assert_allclose(shares.sum(axis=1), 1.0, rtol=1e-12)
        assert min(kept.min(), shares.min()) >= 0


def test_the_remainder_goes_to_the_edge_and_ties_share_it() -> None:
    # edges 8, 3, 3, 0 at tau = 2: at r = 3 the first holds 7, the two at the edge would hold 2 each; 2 is left for both
    pi = SimplexThreshold(9.0, threshold=Threshold(2.0))
    np.testing.assert_array_equal(pi([10.0, 5.0, 5.0, 2.0]), [7.0, 1.0, 1.0, 0.0])
    np.testing.assert_array_equal(pi([5.0, 2.0, 10.0, 5.0]), [1.0, 0.0, 7.0, 1.0])
    # weights 1 and 2 at the same edge 3: thresholds 2 and 4 get a third and two thirds of the remainder 3
    shares = PosThreshold([1.0, 2.0, 1.0], threshold=Threshold(2.0))([5.0, 3.5, -9.0])
    np.testing.assert_allclose(shares, [1 / 3, 2 / 3, 0.0], rtol=1e-15)


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
