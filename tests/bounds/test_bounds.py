"""The law of one entry of pi_S and Theorem 1's terms, deep tails included."""

from __future__ import annotations

import itertools
import math

import mpmath as mp
import numpy as np
import pytest

import fairpost as fp
from fairpost import errors
from fairpost.bounds import sum_law as sumlaw
from support.mechanisms import MECHANISMS

RELATIVE = 5e-12
"""What the contour rule promises: 480 nodes with e^x good to |x| ulp, |x| <= 60 in these tails: below 1e-11, 4e-12 seen."""


def laplace_by_residues(u: float, n: int, b: float, k: int) -> mp.mpf:
    """E[(u + nu)_-^k] from the residues of the transform at its two right poles, in 60 digits.

    M(s) = 1/((1 - (s b m/n)^2) (1 - (s b/n)^2)^m), m = n - 1; E[W_+^k] = -k! sum of residues of M(s) e^{-us} / s^{k+1}.
    The order-m pole at n/b is taken by m-fold differentiation (Taylor series), so n stays small here.
    """
    b, m = mp.mpf(b), n - 1
    simple, multiple = n / (b * m), n / b

    def rest(s):  # everything but the pole at `multiple`
        return mp.exp(-u * s) / s ** (k + 1) / (1 - (s / simple) ** 2) / (1 + s / multiple) ** m

    if m == 1:  # n = 2: both poles fall on 2/b, a double pole

        def joint(s):
            return mp.exp(-u * s) / s ** (k + 1) / (1 + s / multiple) ** 2

        residue = mp.taylor(joint, multiple, 1)[1] * multiple**2
        return -mp.factorial(k) * residue
    first = -simple / 2 * mp.exp(-u * simple) / simple ** (k + 1) / (1 - (simple / multiple) ** 2) ** m
    second = mp.taylor(rest, multiple, m - 1)[m - 1] * (-multiple) ** m
    return -mp.factorial(k) * (first + second)


@pytest.mark.parametrize(("n", "k"), [*itertools.product([2, 3, 5, 9], [0, 1, 2])])
def test_laplace_tails_against_residues(n, k):
    with mp.workdps(60):
        for u in (0.0, 0.7, 10.0, 53.0, 500.0):  # 500 = 50 scales
            exact = float(laplace_by_residues(u, n, 10.0, k))
            assert float(sumlaw.clipped(u, n, fp.Laplace(10.0), k)) == pytest.approx(exact, rel=RELATIVE), u


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
    assert float(sumlaw.clipped(u, n, fp.Laplace(b))) == pytest.approx(exact, rel=RELATIVE)


@pytest.mark.parametrize("n", [3, 9, 250, 13184])
@pytest.mark.parametrize("k", [0, 1, 2])
def test_the_first_pole_leaves_what_its_bound_says(n, k):
    """Where the bound is above rounding the two differ by less than it, and not by nothing; where it is below, they agree."""
    noise, u = fp.Laplace(10.0), np.concatenate([[0.0], np.geomspace(1e-2, 60, 200) * 10])
    first, bound = sumlaw.first_pole(noise, u, n, k)
    whole = sumlaw.by_contour(noise, u, n, k)
    apart = np.abs(first / whole - 1)
    middle = (bound > -20) & (bound < -2)
    assert middle.sum() >= 3
    assert (apart[middle] <= np.exp(bound[middle])).all()
    assert (apart[middle] >= np.exp(bound[middle] - 25)).all()
    enough = bound <= -41.5
    assert enough.sum() >= 10
    assert apart[enough].max() < RELATIVE
    assert sumlaw.clipped(u, n, noise, k) == pytest.approx(whole, rel=RELATIVE)


def test_ten_million_entities_keep_the_digits_of_the_small_argument():
    """(n - 1) log(1 - t^2) with t = 1e-7: logarithms of 1 - t and 1 + t would leave 1e-9."""
    noise, n = fp.Laplace(0.01), 10**7
    u = np.geomspace(2e-4, 5e-3, 40)
    first, bound = sumlaw.first_pole(noise, u, n, 1)
    assert (bound < -41.5).all()
    assert sumlaw.by_contour(noise, u, n, 1) == pytest.approx(first, rel=RELATIVE)


@pytest.mark.parametrize("n", [2, 5, 13184])
def test_gaussian_tails_against_mpmath(n):
    with mp.workdps(40):
        for ratio in (0.0, 1.0, 10.0):  # x_1 / sigma
            s = 25 * mp.sqrt(mp.mpf(n - 1) / n)
            t = 25 * ratio / s
            exact = float(s * (mp.npdf(t) - t * mp.ncdf(-t)))
            assert float(sumlaw.clipped(25.0 * ratio, n, fp.Gaussian(25.0))) == pytest.approx(exact, rel=RELATIVE)


def enumerated(u: float, n: int, masses: np.ndarray) -> list[float]:
    """P(y < 0), E[y_-], E[y_-^2] and P(y = 0) by summing over every pair (eta_i, sum of the others).

    Positive terms only, added in double precision: relative accuracy of about 1e-14.
    """
    others = masses
    for _ in range(n - 2):
        others = np.convolve(others, masses)
    j = np.arange(masses.size) - masses.size // 2
    s = np.arange(others.size) - others.size // 2
    y = (n * u + (n - 1) * j[:, None] - s) / n
    p = masses[:, None] * others
    below = np.where(y < -1e-9, -y, 0.0)
    return [p[y < -1e-9].sum(), (p * below).sum(), (p * below**2).sum(), p[np.abs(y) <= 1e-9].sum()]


@pytest.mark.parametrize("n", [2, 3, 4, 7])
@pytest.mark.parametrize(
    ("mechanism", "reach"),
    [
        (fp.DiscreteLaplace(1.5), 120),
        (fp.DiscreteLaplace(0.4), 60),
        (fp.DiscreteGaussian(2.0), 40),
        (fp.DiscreteGaussian(0.3), 9),
    ],
    ids=lambda v: f"{v.name}-{v.spread}" if hasattr(v, "name") else "",
)
def test_discrete_tails_against_enumeration(n, mechanism, reach):
    masses = mechanism.density(np.arange(-reach, reach + 1))
    for u in (0.0, 0.5, 1.0, 3.0, 7.25, -2.0, -0.5):
        exact = enumerated(u, n, masses)
        for k in (0, 1, 2):
            assert float(sumlaw.clipped(u, n, mechanism, k)) == pytest.approx(exact[k], rel=2e-11, abs=1e-40), (u, k)
        assert float(sumlaw.at_zero(u, n, mechanism)) == pytest.approx(exact[3], rel=2e-11, abs=1e-40)


def test_interpolated_lattice_tails_equal_direct_ones():
    """Many u at once take the Chebyshev route, one at a time the direct inversion."""
    for mechanism in (fp.DiscreteGaussian(25.0), fp.DiscreteLaplace(10.0)):
        u = np.arange(0.0, 90.0, 0.37)
        together = sumlaw.clipped(u, 100, mechanism)
        alone = np.array([float(sumlaw.clipped(v, 100, mechanism)) for v in u[::40]])
        assert together[::40] == pytest.approx(alone, rel=1e-11)


def test_discrete_noise_tends_to_continuous_noise():
    """Rounding to a lattice of spacing 1 changes E[y_-] by O(1/b^2): 1e-4 at b = 100, seen 4e-5."""
    u = np.array([0.0, 50.0, 300.0])
    for n in (3, 50):
        fine = sumlaw.clipped(u, n, fp.DiscreteLaplace(100.0))
        assert fine == pytest.approx(sumlaw.clipped(u, n, fp.Laplace(100.0)), rel=1e-4)
        assert not np.allclose(fine, sumlaw.clipped(u, n, fp.Laplace(100.0)), rtol=1e-9)


def test_one_entity_has_nothing_to_clip():
    for mechanism in MECHANISMS.values():
        bounds = fp.theorem1(fp.Counts([7.0]), mechanism)
        assert bounds.lower == bounds.upper == bounds.clipped == 0


def test_another_total_shifts_every_entry():
    counts = fp.Counts([1.0, 4.0, 10.0])
    moved = fp.theorem1(counts, fp.Gaussian(3.0), total=30.0)
    expected = sumlaw.clipped(counts.values + 5.0, 3, fp.Gaussian(3.0))
    assert moved.lower == pytest.approx(expected[0] - expected[-1])
    assert moved.first == pytest.approx(expected[0] + 5.0)
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


@pytest.mark.parametrize("scale", [0.4, 3.0, 1000.0])
@pytest.mark.parametrize("n", [2, 3, 4, 12, 39])
def test_tails_of_few_discrete_laplace_noises_far_out(n, scale):
    """The closed form against sums of P(S = x) = (1-q)^{2N} q^x sum_i C(N-1+x+i, N-1) C(N-1+i, N-1) q^{2i}, in mpmath.

    That is the convolution of two negative binomials. N = n - 1; at points from 0 to 500 scales, where P is 1e-217.
    """
    from fairpost.bounds.sum_lattice import _few_laplace

    points = np.array([0.0, 1.0, 7.0, np.round(30 * scale), np.round(500 * scale)])
    found = _few_laplace(points, n, fp.DiscreteLaplace(scale))
    with mp.workdps(40):
        q, many = mp.exp(-1 / mp.mpf(scale)), n - 1
        for place, m in enumerate(points):
            # C(N-1+m+i, N-1) q^m q^{2i} as a series of hypergeometric terms: 2F1(N + m, N; m + 1; q^2)
            mass = (1 - q) ** (2 * many) * q**m * mp.binomial(many - 1 + m, many - 1)
            mass *= mp.hyp2f1(many + m, many, m + 1, q**2)
            assert found[3, place] == pytest.approx(float(mass), rel=1e-11, abs=0.0)
    # T_k(m) - T_k(m + 1) telescopes to lower moments: E[(S-m)_+] - E[(S-m-1)_+] = P(S > m), and the like
    m = points[-2:]
    here, there = (_few_laplace(m + d, n, fp.DiscreteLaplace(scale)) for d in (0.0, 1.0))
    assert here[0] - there[0] == pytest.approx(there[3], rel=1e-9 * max(1.0, scale), abs=0.0)
    assert here[1] - there[1] == pytest.approx(here[0], rel=1e-9 * max(1.0, scale), abs=0.0)
    assert here[2] - there[2] == pytest.approx(here[1] + there[1], rel=1e-9 * max(1.0, scale), abs=0.0)


@pytest.mark.parametrize("mechanism", [fp.DiscreteLaplace(10.0), fp.DiscreteGaussian(10.0)])
@pytest.mark.parametrize("n", [2, 3, 30])
def test_the_work_does_not_grow_with_the_count(n, mechanism):
    """A count of 1e8 beside small ones: the small ones keep their values, and no table is built."""
    import time

    small = np.array([0.0, 3.0, 40.0])
    start = time.process_time()
    for k in range(3):
        alone = sumlaw.clipped(small, n, mechanism, k)
        both = sumlaw.clipped(np.append(small, 1e8), n, mechanism, k)
        assert both[:3] == pytest.approx(alone, rel=1e-10, abs=0.0)
        assert both[3] == 0.0
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
