"""The exact moments of the baseline BL against brute-force integration, enumeration and its laws."""

import numpy as np
import pytest

import fairpost as fp
from support.oracles.brute import brute_baseline, truth

CONTINUOUS = [fp.Laplace, fp.Gaussian]
DISCRETE = [fp.DiscreteLaplace, fp.DiscreteGaussian]


def evaluate(x, a, mechanism, rtol=1e-6):
    """What an audit says of each entity."""
    found = fp.audit(fp.Counts(x, weights=a), mechanism, "baseline", engine=fp.Exact(rtol=rtol))
    return {
        "bias": found.bias,
        "error": found.half_width,
        "mse": found.mse,
        "mse_error": found.mse_accuracy.half_width,
        "zero": found.zero,
        "zero_error": found.zero_accuracy.half_width,
        "degenerate": found.degenerate,
    }


CASES = [
    ((3.0, 20.0), (1.0, 1.0), 4.0),
    ((1.0, 2.0), (2.0, 0.7), 5.0),
    ((0.0, 4.0), (1.0, 9.0), 3.0),
    ((0.0, 0.0), (1.0, 2.0), 3.0),
    ((2.0, 2.0), (1.0, 1.0), 3.0),
    ((0.0, 6.0, 25.0), (1.0, 2.0, 0.7), 5.0),
    ((1.0, 2.0, 4.0), (1.0, 1.0, 1.0), 4.0),
    ((0.0, 0.0, 1.0), (1.0, 1.5, 2.0), 4.0),
    ((5.0, 5.0, 9.0), (1.0, 1.0, 3.0), 8.0),
]
# The rule over directions is off by 1e-11 (n = 2) and 2e-7 (n = 3), see `test_pos.py`.
BRUTE = {2: 1e-11, 3: 2e-7}


@pytest.mark.parametrize("noise", CONTINUOUS)
@pytest.mark.parametrize(("x", "a", "spread"), CASES)
def test_brute_force(x, a, spread, noise):
    x, a, mechanism = np.array(x), np.array(a), noise(spread)
    found = evaluate(x, a, mechanism)
    bias, mse, zero, every = brute_baseline(x, a, mechanism)
    slack = BRUTE[x.size]
    assert (np.abs(found["bias"] - bias) <= found["error"] + slack).all()
    assert (np.abs(found["mse"] - mse) <= found["mse_error"] + slack).all()
    assert (found["mse_error"] <= 1e-5).all()
    assert (np.abs(found["zero"] - zero) <= found["zero_error"] + slack).all()
    assert found["zero"] == pytest.approx(zero, abs=slack)
    assert found["degenerate"] == pytest.approx(every, rel=1e-13)


@pytest.mark.parametrize("noise", DISCRETE)
@pytest.mark.parametrize(
    ("x", "a", "spread"),
    [
        ((0, 3), (1.0, 1.0), 2.0),
        ((1, 1), (1.0, 2.5), 4.0),
        ((0, 0), (1.0, 3.0), 1.0),
        ((2, 30), (5.0, 0.4), 0.6),
        ((0, 1, 3), (1.0, 2.0, 0.5), 1.0),
        ((0, 0, 2), (1.0, 1.0, 3.0), 0.7),
    ],
)
def test_discrete_noise_by_enumeration(x, a, spread, noise):
    """Every draw up to a mass of 1e-15 outside, with its share; all zero (S = 0) gives a / sum a."""
    x, a, mechanism = np.array(x, dtype=np.float64), np.array(a), noise(spread)
    reach = int(np.ceil((36 if noise is fp.DiscreteLaplace else 9) * spread)) + 2
    eta = np.arange(-reach, reach + 1)
    mass = mechanism.density(eta)
    grids = np.meshgrid(*[a[j] * np.maximum(x[j] + eta, 0.0) for j in range(x.size)], indexing="ij")
    chance = mass
    for _ in range(x.size - 1):
        chance = np.multiply.outer(chance, mass)
    y = np.stack([g.ravel() for g in grids])
    total = y.sum(axis=0)
    shares = np.where(total > 0, y / np.where(total > 0, total, 1.0), (a / a.sum())[:, None])
    chance, p = chance.ravel(), truth(x, a)[:, None]
    found = evaluate(x, a, mechanism)
    assert (np.abs(found["bias"] - (shares - p) @ chance) <= found["error"] + 1e-13).all()
    assert found["mse"] == pytest.approx((shares - p) ** 2 @ chance, rel=1e-8)
    assert found["zero"] == pytest.approx((shares == 0) @ chance, abs=1e-13)
    assert found["degenerate"] == pytest.approx(chance[total == 0].sum(), rel=1e-12)


# ---- laws ------------------------------------------------------------------------------------------------

FEW = ((0.0, 3.0, 3.0, 7.0), (1.0, 1.0, 2.0, 0.5), 6.0)
MANY = (tuple(float(k % 40) for k in range(300)), tuple(1.0 + k % 3 for k in range(300)), 6.0)


@pytest.mark.parametrize("noise", CONTINUOUS + DISCRETE)
@pytest.mark.parametrize(("x", "a", "spread"), [FEW, MANY, CASES[1]])
def test_symmetries(x, a, spread, noise):
    """Order and the unit of weights do not matter, nor (continuous noise) a common unit of counts and noise."""
    x, a = np.array(x), np.array(a)
    one = evaluate(x, a, noise(spread))
    slack = 2 * one["error"].max() + 1e-14
    order = np.arange(x.size)[::-1]
    others = [
        {k: v[order] if k != "degenerate" else v for k, v in evaluate(x[order], a[order], noise(spread)).items()},
        evaluate(x, 7.3 * a, noise(spread)),
    ]
    if noise in CONTINUOUS:
        others.append(evaluate(3.1 * x, a, noise(3.1 * spread)))
    for other in others:
        assert np.abs(other["bias"] - one["bias"]).max() <= slack
        assert other["mse"] == pytest.approx(one["mse"], rel=1e-6)
        assert other["zero"] == pytest.approx(one["zero"], rel=1e-12)
        assert other["degenerate"] == pytest.approx(one["degenerate"], rel=1e-10, abs=1e-300)
    assert abs(one["bias"].sum()) <= one["error"].sum()
    assert (one["mse"] >= one["bias"] ** 2).all()


@pytest.mark.parametrize("noise", CONTINUOUS)
@pytest.mark.parametrize("scale", [1.0, 200.0])
def test_ties_merged_are_ties_apart(noise, scale):
    x, a = scale * np.array([1.0, 1.0, 1.0, 5.0, 5.0]), np.ones(5)
    tied = evaluate(x, a, noise(4.0))
    apart = evaluate(x + 1e-9 * np.arange(5), a, noise(4.0))
    slack = tied["error"].max() + apart["error"].max() + 1e-9
    assert np.abs(tied["bias"] - apart["bias"]).max() <= slack
    assert apart["mse"] == pytest.approx(tied["mse"], rel=1e-6)
    assert tied["bias"][0] == tied["bias"][2]


@pytest.mark.parametrize("noise", CONTINUOUS + DISCRETE)
def test_one_entity_gets_all_and_equal_ones_have_no_bias(noise):
    one = evaluate([3.0], [2.0], noise(5.0))
    assert (one["bias"], one["error"], one["mse"], one["zero"]) == (0, 0, 0, 0)
    assert one["degenerate"] == pytest.approx(float(noise(5.0).cdf(-3.0)), rel=1e-12)
    for n, count in ((2, 1.0), (3, 0.0), (7, 2.0), (40, 30.0), (10**6, 4.0)):
        equal = evaluate(np.full(n, count), np.ones(n), noise(5.0))
        assert not equal["bias"].any()
        assert not equal["error"].any()
        assert 0 < equal["mse"][0] < 1


@pytest.mark.parametrize("noise", CONTINUOUS + DISCRETE)
def test_large_counts_meet_the_second_order_expansion(noise):
    """Nothing clipped: E[z_i/S] - P_i = (P_i sum_j v_j - v_i)/E[S]^2 to second order, v_j = a_j^2 Var[eta]; the next
    terms are smaller by the relative variance of S, here 1e-6 (times 3 for the fourth moments)."""
    x, a = np.array([4000.0, 9000.0, 12_000.0]), np.array([1.0, 2.0, 0.5])
    mechanism = noise(8.0)
    found = evaluate(x, a, mechanism)
    v, whole = a**2 * mechanism.variance, np.dot(a, x)
    assert found["bias"] == pytest.approx((truth(x, a) * v.sum() - v) / whole**2, rel=1e-5)
    assert found["degenerate"] == 0


# ---- refusals --------------------------------------------------------------------------------------------


def test_a_tolerance_out_of_reach_names_what_was_reached():
    with pytest.raises(fp.ToleranceError, match=r"baseline: alpha = .* misses the relative tolerance 1e-12"):
        evaluate([1.0, 2.0, 4.0], np.ones(3), fp.Gaussian(4.0), rtol=1e-12)


@pytest.mark.parametrize(
    "x", [(20.0, 75.0), (900.0, 3000.0)]
)  # a sum that fluctuates as much as it is, and one that hardly does
def test_wide_whole_number_noise_by_enumeration(x):
    """Discrete Gaussian noise of sigma 60, the law by its definition: all pairs of values up to 9 sigma (a mass of 1e-18 beyond)."""
    x, a, sigma = np.array(x), np.array([1.0, 2.5]), 60.0
    j = np.arange(-540, 541)
    p = np.exp(-(j**2) / (2 * sigma**2))
    p /= p.sum()
    one, two = np.maximum(x[0] + j, 0.0)[:, None] * a[0], np.maximum(x[1] + j, 0.0)[None, :] * a[1]
    mass, total = np.multiply.outer(p, p), one + two
    even = a / a.sum()  # nothing is left of either: in proportion to the weights
    with np.errstate(invalid="ignore"):
        shares = [np.where(total > 0, part / total, e) for part, e in zip((one, two), even, strict=True)]
    due = a * x / (a @ x)
    found = fp.audit(fp.Counts(x, weights=a), fp.DiscreteGaussian(sigma), "baseline", engine="exact")
    for i, share in enumerate(shares):
        bias, mse = np.sum(mass * (share - due[i])), np.sum(mass * (share - due[i]) ** 2)
        assert abs(found.bias[i] - bias) <= found.accuracy.half_width[i] + 1e-13
        assert abs(found.moments.mse[i] - mse) <= found.moments.mse_accuracy.half_width[i] + 1e-13
        assert found.moments.mse_accuracy.half_width[i] <= 1e-3 * mse
