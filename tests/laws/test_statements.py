"""The paper, statement by statement. Each test is named after what it checks.

Statements about biases use the exact engine; where it does not reach (pi_S+ under discrete noise) the biases come from
simulation with NumPy's own noise, and the law must hold within a stated multiple of the standard error.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import fairpost as fp
from fairpost import fairness
from fairpost.bounds import sum_law as sumlaw
from fairpost.rules import Baseline, PoS, Simplex, Sum, SumClipped
from support.mechanisms import CONTINUOUS, COUNTS, HAWAII, MECHANISMS, noise
from support.oracles import definitions

EPS = np.finfo(float).eps
noisy = hnp.arrays(np.float64, st.integers(2, 12), elements=st.floats(-50, 50).map(lambda v: round(v, 6)))
positive = st.floats(0.5, 200.0)
PAIRS = [(m, c) for m in CONTINUOUS for c in COUNTS]
SIGMAS = 5.5  # |z| beyond this has probability 4e-8; about 200 comparisons are made: 1e-5 in all


# -- release: Lemmas 1 to 4, Proposition 1, Theorem 1 ------------------------------------------------------------------


@given(noisy, positive)
def test_lemma_1_closed_form_of_pi_s(y, total):
    """Against the general normal equations of program P with A = 1^T, solved by least squares."""
    a = np.ones((1, y.size))
    general = y + np.linalg.lstsq(a, np.array([total]) - a @ y, rcond=None)[0]
    assert Sum(total)(y) == pytest.approx(general, abs=1e-12 * (1 + np.abs(y).sum() + total))


@pytest.mark.parametrize("name", MECHANISMS)
def test_lemma_1_pi_s_removes_the_mean_noise(name):
    x = np.array(COUNTS["zeros"])
    eta = noise(name, (200, x.size), 3)
    assert Sum(x.sum())(x + eta) == pytest.approx(x + eta - eta.mean(axis=1, keepdims=True), abs=1e-12)


@given(noisy, positive)
def test_lemma_2_threshold_is_nonnegative_and_unique(y, total):
    pi = Simplex(total)
    T = pi.T(y)[0]
    shifted = Sum(total)(y)
    slack = 32 * EPS * (np.abs(y).sum() + total)
    assert T >= 0
    assert np.maximum(shifted - T, 0) == pytest.approx(pi(y), abs=slack)
    # unique: the sum of positive parts is strictly decreasing wherever it is positive
    for step in (1e-3, 1.0):
        assert np.maximum(shifted - (T + step), 0).sum() < total - min(step, total) / 2
        assert np.maximum(shifted - (T - step), 0).sum() > total + step / 2


@given(noisy, positive)
def test_proposition_1_bounds_T(y, total):
    negative = np.maximum(-Sum(total)(y), 0).sum()
    assert Simplex(total).T(y)[0] <= negative + 32 * EPS * (np.abs(y).sum() + total)


@given(noisy, positive, st.data())
def test_appendix_swap_invariance(y, total, data):
    i, j = data.draw(st.integers(0, y.size - 1)), data.draw(st.integers(0, y.size - 1))
    swapped = y.copy()
    swapped[[i, j]] = swapped[[j, i]]
    slack = 64 * EPS * (np.abs(y).sum() + total)
    for pi in (Sum(total), Simplex(total)):
        expected = pi(y).copy()
        expected[[i, j]] = expected[[j, i]]
        assert pi(swapped) == pytest.approx(expected, abs=slack)
    assert Simplex(total).T(swapped) == pytest.approx(Simplex(total).T(y), abs=slack)


@given(noisy, positive)
def test_appendix_projection_of_a_projection(y, total):
    slack = 64 * EPS * (np.abs(y).sum() + total)
    assert Simplex(total)(Sum(total)(y)) == pytest.approx(Simplex(total)(y), abs=slack)


def simulated(name: str, x: np.ndarray, runs: int, seed: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Mean and standard error of pi_S+ - pi_S (pi_S is unbiased, so the mean is the bias of pi_S+), and E[T]."""
    rows = x + noise(name, (runs, x.size), seed)
    pi = Simplex(x.sum())
    difference = pi(rows) - Sum(x.sum())(rows)
    return difference.mean(axis=0), difference.std(axis=0) / np.sqrt(runs), float(pi.T(rows).mean())


def biases(name: str, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Biases of pi_S+ with an uncertainty each, and E[T]: exact where there is an integral, else simulated."""
    if name in CONTINUOUS:
        result = fp.audit(fp.Counts(x), MECHANISMS[name], "simplex", engine="exact")
        return result.bias, result.half_width + 1e-13, result.expected_T.value
    mean, se, T = simulated(name, x, 100_000, 17)
    return mean, SIGMAS * se, T


@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("case", ["two", "three", "ties", "zeros", "dense"])
def test_lemma_3_both_sides_and_lemma_4(name, case):
    """For every pair x_i <= x_j: lower <= B_i - B_j <= lower + E[T], and B_i - B_j <= x_j - x_i."""
    x = np.array(COUNTS[case])
    bias, error, T = biases(name, x)
    clipped = sumlaw.clipped(x, x.size, MECHANISMS[name])
    for i in range(x.size):
        for j in range(x.size):
            if x[i] <= x[j]:
                gap, slack = bias[i] - bias[j], error[i] + error[j]
                assert gap >= clipped[i] - clipped[j] - slack
                assert gap <= clipped[i] - clipped[j] + T + slack + 1e-3 * T * (name not in CONTINUOUS)
                assert gap <= x[j] - x[i] + slack


@pytest.mark.parametrize(("name", "case"), PAIRS)
def test_theorem_1_brackets_alpha(name, case):
    counts = fp.Counts(COUNTS[case])
    result = fp.audit(counts, MECHANISMS[name], "simplex", engine="exact")
    assert result.rule.bounds.lower - result.rule.bounds.error <= result.alpha.high
    assert result.alpha.low <= result.rule.bounds.upper + result.rule.bounds.error
    assert result.rule.bounds.upper <= result.rule.bounds.theorem <= result.rule.bounds.spread + 1e-300
    if result.alpha.value > 0:  # Lemma 3: the smallest count gains most, the largest loses most
        most, least = (counts.values[counts.ids.index(label)] for label in result.alpha_pair)
        assert most == counts.values.min()
        assert least == counts.values.max() or result.bias.min() == result.bias[np.argmax(counts.values)]


@pytest.mark.parametrize("name", [n for n in MECHANISMS if n not in CONTINUOUS])
@pytest.mark.parametrize("case", ["three", "zeros", "dense"])
def test_theorem_1_brackets_alpha_under_discrete_noise(name, case):
    x = np.array(COUNTS[case])
    bias, error, _ = biases(name, x)
    bounds = fp.theorem1(fp.Counts(x), MECHANISMS[name])
    alpha, slack = bias[0] - bias[-1], error[0] + error[-1]
    assert bounds.lower - slack <= alpha <= bounds.upper + slack


@pytest.mark.parametrize("name", CONTINUOUS)
@pytest.mark.parametrize("n", [2, 5, 40])
def test_example_centroid_is_fair(name, n):
    result = fp.audit(fp.Counts(np.full(n, 2.0)), MECHANISMS[name], "simplex", engine="exact")
    assert result.alpha.value == 0
    assert result.rule.bounds.lower == result.rule.bounds.upper == 0


@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("case", ["two", "three", "giant"])
def test_example_non_centroid_is_unfair(name, case):
    bounds = fp.theorem1(fp.Counts(COUNTS[case]), MECHANISMS[name])
    assert bounds.lower - bounds.error > 0
    if name in CONTINUOUS:
        assert fp.audit(fp.Counts(COUNTS[case]), MECHANISMS[name], "simplex", engine="exact").alpha.low > 0


@pytest.mark.parametrize("mechanism", [fp.Laplace(10.0), fp.Gaussian(25.0)], ids=lambda m: m.name)
def test_example_hawaii_one_county_at_risk(mechanism):
    """With one county at risk alpha = n/(n-1) x lower, and Theorem 1's upper bound is 2 x lower."""
    result = fp.audit(fp.Counts(HAWAII), mechanism, "simplex", engine="exact")
    lower = result.rule.bounds.lower
    assert result.rule.bounds.theorem == pytest.approx(2 * lower, rel=1e-12)
    assert result.alpha.value == pytest.approx(1.25 * lower, rel=1e-8)


# -- Proposition 2 -----------------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 200), min_size=2, max_size=8), st.floats(0.5, 60.0))
def test_proposition_2_integral_and_bracket(x, sigma):
    from scipy.integrate import quad
    from scipy.special import ndtr

    counts, mechanism = fp.Counts(x), fp.Gaussian(sigma)
    found = fp.proposition2(counts, mechanism)
    n, first, last = counts.n, min(x), max(x)
    a = np.sqrt(n / (n - 1)) / sigma
    # Phi(a t) is below 1e-300 left of t = -37/a: the integral starts there
    integral = quad(lambda t: ndtr(a * t), max(-last, min(-first, -37 / a)), -first, epsabs=0, epsrel=1e-10, limit=200)[
        0
    ]
    assert found.a == pytest.approx(a, rel=1e-14)
    assert found.integral == pytest.approx(integral, rel=1e-9, abs=1e-290)
    slack = 1e-12 * found.high
    assert found.low - slack <= found.integral <= found.high + slack
    assert fp.theorem1(counts, mechanism).lower == pytest.approx(found.integral, rel=1e-12, abs=1e-300)


# -- allocation: Theorems 2 and 3, Proposition 3 -------------------------------------------------------------------------

weighted = st.integers(2, 7).flatmap(
    lambda n: st.tuples(
        hnp.arrays(np.float64, n, elements=st.integers(-30, 60).map(float)),
        hnp.arrays(np.float64, n, elements=st.sampled_from([0.5, 1.0, 2.0, 7.0])),
    )
)


@settings(max_examples=30)
@given(weighted)
def test_theorem_2_pos_is_the_unique_minimiser(pair):
    """P_alpha by linear programming; the optimal face is one point, and it is PoS. Also where the sum is negative."""
    X, a = pair
    total = np.sum(a * X)
    if abs(total) < 1e-9:
        return
    target = a * X / total
    best, low, high = definitions.nearest_in_range(target)
    v = PoS(a)(X)
    size = 1 + np.abs(target).max()
    assert definitions.spread(v - target) == pytest.approx(best, abs=1e-8 * size)
    # a face thickened by 1e-12 in value is at most n times that wide here; HiGHS works to 1e-9 relative feasibility
    assert (high - low <= 1e-6 * size).all()
    assert v == pytest.approx(low, abs=1e-6 * size)


@settings(max_examples=50)
@given(weighted)
def test_theorem_3_pos_and_bl_minimise_the_cost_proxy(pair):
    X, a = pair
    total = np.sum(a * X)
    if abs(total) < 1e-9:
        return
    target = a * X / total
    best = definitions.nearest_in_l1(target)
    size = 1 + np.abs(target).sum()
    assert np.abs(PoS(a)(X) - target).sum() == pytest.approx(best, abs=1e-8 * size)
    if total > 0:
        assert np.abs(Baseline(a)(X) - target).sum() == pytest.approx(best, abs=1e-8 * size)


@given(hnp.arrays(np.float64, st.integers(1, 40), elements=st.floats(-1e-3, 1e-3)), st.floats(0, 1e10))
def test_proposition_3_cost_of_privacy_as_l1_norm(bias, budget):
    bias = bias - bias.mean()
    slack = 1e-15 * (1 + budget)
    assert fairness.cost_of_privacy(bias, budget) == pytest.approx(
        fairness.cost_of_privacy_l1(bias, budget), rel=1e-9, abs=slack
    )


@pytest.mark.parametrize("name", MECHANISMS)
def test_proposition_3_on_measured_biases(name):
    counts = fp.Counts(COUNTS["dense"], weights=np.linspace(0.5, 2.0, 20))
    bias = fp.audit(counts, MECHANISMS[name], "baseline", engine="exact").bias
    assert fairness.cost_of_privacy(bias) == pytest.approx(fairness.cost_of_privacy_l1(bias), rel=1e-6)


@pytest.mark.parametrize("name", CONTINUOUS)
def test_pos_is_fairer_than_bl_where_many_are_clipped(name):
    """Table 2's claim, on a small dense case."""
    counts = fp.Counts([*range(30), 500])
    pos, bl = (fp.audit(counts, MECHANISMS[name], which, engine="exact").alpha.value for which in ("pos", "baseline"))
    assert pos < bl


def test_sum_clipped_bias_is_the_key_component():
    """B((pi_S)_+)_i from the audit equals the terms of Theorem 1."""
    counts = fp.Counts(COUNTS["giant"])
    for mechanism in MECHANISMS.values():
        result = fp.audit(counts, mechanism, SumClipped(counts.total), engine="exact")
        bounds = fp.theorem1(counts, mechanism)
        assert result.bias.max() == pytest.approx(bounds.first, rel=1e-14)
        assert result.bias.min() == pytest.approx(bounds.last, rel=1e-14, abs=1e-300)
        assert result.bias.sum() == pytest.approx(bounds.clipped, rel=1e-12)
