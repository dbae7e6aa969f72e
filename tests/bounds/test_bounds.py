"""The law of one entry of pi_S and Theorem 1's terms, deep tails included."""

from __future__ import annotations

import math
import time
from functools import cache

import mpmath as mp
import numpy as np
import pytest

import fairpost as fp
from fairpost import errors
from support.mechanisms import MECHANISMS

RELATIVE = 5e-12
"""What the contour rule promises: 480 nodes with e^x good to |x| ulp, |x| <= 60 in these tails: below 1e-11, 4e-12 seen."""


def laplace_by_residues(u: float, n: int, b: float) -> mp.mpf:
    """E[(u + nu)_-] from the residues of the transform at its two right poles, in 60 digits.

    M(s) = 1/((1 - (s b m/n)^2) (1 - (s b/n)^2)^m), m = n - 1; E[W_+] = - sum of residues of M(s) e^{-us} / s^2.
    The order-m pole at n/b is taken by m-fold differentiation (Taylor series), so n stays small here. For n = 2 both fall on 2/b.
    """
    b, m = mp.mpf(b), n - 1
    simple, multiple = n / (b * m), n / b

    def rest(s):  # everything but the pole at `multiple`
        other = 1 / (1 + s / multiple) if m == 1 else 1 / (1 - (s / simple) ** 2)
        return mp.exp(-u * s) / s**2 * other / (1 + s / multiple) ** m

    if m == 1:
        return -mp.taylor(rest, multiple, 1)[1] * multiple**2
    first = -simple / 2 * mp.exp(-u * simple) / simple**2 / (1 - (simple / multiple) ** 2) ** m
    return -(first + mp.taylor(rest, multiple, m - 1)[m - 1] * (-multiple) ** m)


def tail(u, n, noise):
    """E[(y_i)_-] where every count is u: the sum of all that clipping removes is n of these."""
    return float(fp.theorem1(fp.Counts(np.full(n, float(u))), noise).clipped / n)


@pytest.mark.parametrize("n", [2, 3, 5, 9])
def test_laplace_tails_against_residues(n):
    with mp.workdps(60):
        for u in (
            0.0,
            0.7,
            *np.geomspace(5, 500, 25),
        ):  # 500 = 50 scales; between, one pole takes over from the contour
            exact = float(laplace_by_residues(u, n, 10.0))
            assert tail(u, n, fp.Laplace(10.0)) == pytest.approx(exact, rel=RELATIVE), u


@pytest.mark.parametrize("n", [60, 13184, 10**6])
def test_laplace_tails_for_many_entities(n):
    """Given the noise of the others, mean G: E[(u + beta eta - G)_-] is explicit, and G is nearly normal.

    E over G of (beta/2) e^{-(u-G)/beta} is the exact value but for G > u: (beta/2) e^{-u/beta} M_G(1/beta); the
    correction is below P(G > u), negligible at u = 50 scales and for these n.
    """
    b, u = 10.0, 500.0
    with mp.workdps(40):
        beta = mp.mpf(b) * (n - 1) / n
        log_mgf = -(n - 1) * mp.log(1 - (mp.mpf(b) / n / beta) ** 2)
        exact = float(beta / 2 * mp.exp(-u / beta + log_mgf))
    assert tail(u, n, fp.Laplace(b)) == pytest.approx(exact, rel=RELATIVE)


@pytest.mark.parametrize("n", [2, 5, 13184])
def test_gaussian_tails_against_mpmath(n):
    with mp.workdps(40):
        for ratio in (0.0, 1.0, 10.0):  # x_1 / sigma
            s = 25 * mp.sqrt(mp.mpf(n - 1) / n)
            t = 25 * ratio / s
            exact = float(s * (mp.npdf(t) - t * mp.ncdf(-t)))
            assert tail(25.0 * ratio, n, fp.Gaussian(25.0)) == pytest.approx(exact, rel=RELATIVE)


@cache
def masses(n: int, noise: fp.noise.Law) -> tuple[np.ndarray, np.ndarray]:
    """The values of n nu = (n - 1) eta_i - (the others) and their masses: positive terms only."""
    reach = int((40 if np.isfinite(noise.strip) else 10) * noise.spread) + 20
    mass = np.asarray(noise.density(np.arange(-reach, reach + 1.0)))
    others = np.ones(1)
    for _ in range(n - 1):
        others = np.convolve(others, mass)
    found = np.zeros(others.size + 2 * reach * (n - 1))
    for j, p in enumerate(mass):  # the masses are symmetric, so minus the others is plus the others
        found[j * (n - 1) : j * (n - 1) + others.size] += p * others
    return np.arange(found.size) - found.size // 2, found


DISCRETE = [
    *((noise, n) for noise in (fp.DiscreteLaplace(1.5), fp.DiscreteLaplace(0.4)) for n in (2, 3, 4, 7, 12)),
    *((noise, n) for noise in (fp.DiscreteGaussian(2.0), fp.DiscreteGaussian(0.3)) for n in (2, 3, 4, 7)),
    *((fp.DiscreteLaplace(25.0), 16), (fp.DiscreteGaussian(9.0), 2), (fp.DiscreteGaussian(12.0), 5)),
]


@pytest.mark.parametrize(("noise", "n"), DISCRETE, ids=str)
def test_discrete_tails_against_convolved_masses(noise, n):
    """Both audits of what is clipped: E[(y_i)_-], and P(y_i <= 0) and the mean square of `sum-clipped`."""
    at, mass = masses(n, noise)
    x = np.array([0.0, 1.0, 3.0, *np.round(np.array([1.0, 2.4, 6.0]) * noise.spread)])
    for u in x:
        over = np.maximum(at - n * u, 0.0)
        known = float(np.sum(mass * over)) / n
        # wrap-around and copies below e^-38, sums of some 1e4 rounded terms on either side; 1e-20 is left out by the tables
        assert abs(tail(u, n, noise) - known) <= 2e-11 * known + 1e-20, u
    some = np.resize(x, n)
    found = fp.audit(fp.Counts(some), noise, "sum-clipped", engine="exact")
    square = np.array([np.sum(mass * (np.maximum(at / n + u, 0.0) - u) ** 2) for u in some])
    none = np.array([np.sum(mass * (at + n * u <= 1e-9)) for u in some])
    assert found.mse == pytest.approx(square, rel=1e-10)
    assert found.zero == pytest.approx(none, rel=1e-10, abs=1e-18)


def test_the_far_tail_of_a_normal_sum() -> None:
    """For sigma >= 2 the masses of n nu are normal to e^{-2 pi^2 sigma^2}: their own sum, 28 deviations out."""
    noise, n, u = fp.DiscreteGaussian(70.0), 50, 2000.0
    spread = 70.0 * np.sqrt(n * (n - 1))
    m = np.arange(n * u + 1, n * u + 60 * spread / 28)
    log = -((m / spread) ** 2) / 2 - np.log(spread * np.sqrt(2 * np.pi))
    known = log.max() + np.log(np.sum(np.exp(log - log.max()) * (m - n * u) / n))
    assert np.log(tail(u, n, noise)) == pytest.approx(
        known, abs=1e-9
    )  # 28^2/2 times the rounding of u, and of 1e6 terms


@pytest.mark.parametrize(("discrete", "like", "error"), [
    (fp.DiscreteLaplace(100.0), fp.Laplace(100.0), 1e-4), (fp.DiscreteLaplace(1e4), fp.Laplace(1e4), 1e-7),
    (fp.DiscreteGaussian(1e4), fp.Gaussian(1e4), 1e-7),
])  # fmt: skip
def test_discrete_noise_tends_to_continuous_noise(discrete, like, error):
    """Rounding to a lattice of spacing 1 changes E[y_-] by some 1/b^2: 4e-5 seen at b = 100; and not by nothing."""
    for n in (3, 60):
        for u in (0.0, 50.0, 3 * like.spread):
            assert tail(u, n, discrete) == pytest.approx(tail(u, n, like), rel=error)
            assert tail(u, n, discrete) != tail(u, n, like)


def test_one_entity_has_nothing_to_clip():
    for mechanism in MECHANISMS.values():
        bounds = fp.theorem1(fp.Counts([7.0]), mechanism)
        assert bounds.lower == bounds.upper == bounds.clipped == 0


def test_another_total_shifts_every_entry():
    counts = fp.Counts([1.0, 4.0, 10.0])
    moved = fp.theorem1(counts, fp.Gaussian(3.0), total=30.0)
    first, last = (tail(v + 5.0, 3, fp.Gaussian(3.0)) for v in (1.0, 10.0))
    assert moved.lower == pytest.approx(first - last)
    assert moved.first == pytest.approx(first + 5.0)
    with pytest.raises(errors.ParameterError, match="`total` above 0"):
        fp.theorem1(counts, fp.Gaussian(3.0), total=0.0)


def test_refusals_by_name():
    with pytest.raises(fp.UnsupportedError, match="whole numbers"):
        fp.theorem1(fp.Counts([0.0, 1.5]), fp.DiscreteLaplace(2.0))
    with pytest.raises(fp.UnsupportedError, match="Gaussian noise, got laplace"):
        fp.proposition2(fp.Counts([1, 2]), fp.Laplace(1.0))
    with pytest.raises(fp.UnsupportedError, match="at least two entities"):
        fp.proposition2(fp.Counts([1]), fp.Gaussian(1.0))


@pytest.mark.parametrize(
    ("x", "sigma"),
    [([17, 17, 17, 17, 18], 0.5), ([17, 18], 0.5), ([0, 1e-9], 1.0), ([5, 5 + 1e-12], 1.0), ([0, 300], 2.0)],
)
def test_proposition_2_in_deep_tails_and_among_close_counts(x, sigma):
    """The integral of Phi(a t) is t Phi(a t) + phi(a t)/a between its ends, here in 900 digits."""
    found = fp.proposition2(fp.Counts(x), fp.Gaussian(sigma))
    with mp.workdps(900):
        a = mp.sqrt(mp.mpf(len(x)) / (len(x) - 1)) / mp.mpf(sigma)
        upper, lower = (t * mp.ncdf(a * t) + mp.npdf(a * t) / a for t in (-mp.mpf(min(x)), -mp.mpf(max(x))))
        integral = float(upper - lower)
    assert found.low <= found.integral <= found.high
    assert found.integral == pytest.approx(integral, rel=1e-12, abs=1e-322)


def test_a_bound_that_says_little_is_known_to():
    """The upper bound is the difference of the counts under large noise, and sharp under little."""
    counts = fp.Counts(np.r_[np.arange(200.0), 82_797.0])
    wild, calm = (fp.audit(counts, fp.Laplace(b), "simplex") for b in (1000.0, 1.0))
    assert wild.rule.bounds.theorem == wild.rule.bounds.spread == 82_797
    assert wild.rule.bounds.says_little(wild.alpha.value)
    assert calm.rule.bounds.theorem < 10 * calm.alpha.value
    assert not calm.rule.bounds.says_little(calm.alpha.value)
    assert calm.rule.bounds.says_little(calm.rule.bounds.theorem / 11)


@pytest.mark.parametrize("noise", [fp.DiscreteLaplace(10.0), fp.DiscreteGaussian(10.0)], ids=str)
@pytest.mark.parametrize("n", [2, 3, 30])
def test_the_work_does_not_grow_with_the_count(n, noise):
    """A count of 1e8 among small ones: no table as long as it is built, and what it adds to the sum of all is nothing."""
    start = time.process_time()
    far = fp.theorem1(fp.Counts([3.0] * (n - 1) + [1e8]), noise)
    assert far.clipped == pytest.approx((n - 1) * tail(3.0, n, noise), rel=1e-10)
    assert time.process_time() - start < 3


# ---------------------------------------------------------------------------------------------- Theorem 1


def test_theorem_1_counts_every_entity() -> None:
    """Gaussian noise: E[(y_i)_-] = s (phi(t) - t Phi(-t)), t = x_i/s, entity by entity and not count by count."""
    x = [0.0] * 7 + [3.0] * 4 + [5.0] + [60.0] * 3
    sigma, n = 4.0, len(x)
    with mp.workdps(30):
        s = sigma * mp.sqrt(mp.mpf(n - 1) / n)
        parts = [s * (mp.npdf(v / s) - v / s * mp.ncdf(-v / s)) for v in x]
        lower, clipped = float(parts[0] - parts[-1]), float(mp.fsum(parts))
    found = fp.theorem1(fp.Counts(x), fp.Gaussian(sigma))
    assert found.lower == pytest.approx(lower, rel=1e-11)
    assert found.clipped == pytest.approx(clipped, rel=1e-11)
    assert (found.first, found.last) == pytest.approx((float(parts[0]), float(parts[-1])), rel=1e-11)
    assert found.theorem == pytest.approx(lower + clipped, rel=1e-11)
    assert found.upper == found.theorem
    assert found.spread == 60.0


@pytest.mark.parametrize(
    ("counts", "scale", "expected_T", "upper"),
    [
        ([0.0, 3.0, 40.0], 5.0, 0.5, "sharper"),
        ([0.0, 3.0, 40.0], 5.0, 40.0, "clipped"),
        ([0.0, 0.1, 0.2], 5.0, 40.0, "spread"),
        ([0.0, 0.1, 0.2], 5.0, None, "spread"),
        ([5.0, 5.1, 5.2], 5.0, None, "spread"),
        ([0.0, 3.0, 40.0], 5.0, None, "clipped"),
    ],
)
def test_the_upper_bound_is_the_smallest_of_the_three(counts, scale, expected_T, upper) -> None:
    """Which one it is follows from the numbers given: x_n - x_1, lower + sum of clippings, lower + E[T]."""
    found = fp.theorem1(fp.Counts(counts), fp.Laplace(scale), expected_T=expected_T)
    bounds = {
        "spread": counts[-1] - counts[0],
        "clipped": found.lower + found.clipped,
        "sharper": math.inf if expected_T is None else found.lower + expected_T,
    }
    assert min(bounds, key=bounds.get) == upper  # the case is what it is meant to be
    assert found.upper == bounds[upper]
    assert found.theorem == min(bounds["spread"], bounds["clipped"])
    assert found.sharper == (None if expected_T is None else bounds["sharper"])
