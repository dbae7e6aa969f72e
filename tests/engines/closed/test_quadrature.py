"""Gauss rules: nodes and weights against 40 digits, and what they integrate exactly."""

import math
import subprocess
import sys

import mpmath as mp
import numpy as np
import pytest

from fairpost.engines.closed.quadrature import exp_sinh, laguerre, legendre, radau

ROUNDED = 1e-15
"""Nodes and weights are computed with 64 bits of mantissa where the processor has them, then rounded to 53: half a unit
in the last place is 1.1e-16. Where it has not, the recurrence adds a rounding per step."""
EPS = ROUNDED if np.finfo(np.longdouble).eps < 1e-18 else 1e-12


def worst(found, true):
    return max(abs(mp.mpf(float(a)) / b - 1) for a, b in zip(found, true, strict=True))


@pytest.mark.parametrize("n", [2, 3, 18, 40, 64])
def test_laguerre_is_right_to_a_rounding(n):
    u, w = laguerre(n)
    with mp.workdps(120):
        nodes = [
            mp.findroot(lambda z: mp.laguerre(n, 0, z), mp.mpf(float(v)) * (1 + mp.mpf("1e-30")), verify=False)
            for v in u
        ]
        weights = [x / ((n + 1) ** 2 * mp.laguerre(n + 1, 0, x) ** 2) * mp.exp(x) for x in nodes]
        assert worst(u, nodes) < EPS
        assert worst(w, weights) < EPS


@pytest.mark.parametrize("n", [1, 2, 16, 33, 64])
def test_legendre_is_right_to_a_rounding(n):
    u, w = legendre(n)
    with mp.workdps(80):
        nodes = [
            mp.findroot(lambda z: mp.legendre(n, z), mp.mpf(float(2 * v - 1)) + mp.mpf("1e-30"), verify=False)
            for v in u
        ]
        slopes = [n * (z * mp.legendre(n, z) - mp.legendre(n - 1, z)) / (z * z - 1) for z in nodes]
        assert worst(u, [(z + 1) / 2 for z in nodes]) < EPS
        assert worst(w, [1 / ((1 - z * z) * d * d) for z, d in zip(nodes, slopes, strict=True)]) < EPS


@pytest.mark.parametrize("n", [1, 2, 5, 12, 27])
def test_radau_has_zero_among_its_nodes_and_is_exact_to_its_degree(n):
    u, w = radau(n)
    assert u[0] == 0
    assert u.size == n
    for k in range(2 * n - 1):
        # every term is positive, so the sum is as good as its terms: k + 2 products of numbers rounded once
        terms = [
            mp.mpf(float(b)) * mp.mpf(float(a)) ** k * mp.exp(-mp.mpf(float(a))) for a, b in zip(u, w, strict=True)
        ]
        assert abs(mp.fsum(terms) / mp.factorial(k) - 1) < (k + 2) * EPS + 4 * max(u) * EPS


def test_one_node():
    assert laguerre(1) == (1.0, pytest.approx(math.e, rel=EPS, abs=0))
    assert legendre(1) == (0.5, 1.0)


def test_laguerre_is_exact_to_its_degree_and_not_beyond():
    u, w = laguerre(5)
    moments = [math.fsum(w * u**k * np.exp(-u)) / math.factorial(k) for k in range(11)]
    assert np.allclose(moments[:10], 1, rtol=1e-12, atol=0)
    assert abs(moments[10] - 1) > 1e-3


def test_exp_sinh_integrates_an_algebraic_tail():
    u, w = exp_sinh(0.05)
    assert math.fsum(w / (1 + u) ** 2) == pytest.approx(1, rel=0, abs=1e-12)


def test_an_exact_audit_of_laplace_noise_loads_no_scipy():
    lines = (
        "import sys, fairpost as fp\n"
        "for rule in ('simplex', 'sum-clipped', 'baseline', 'pos'):\n"
        "    fp.audit(fp.Counts(range(40)), fp.Laplace(3.0), rule, engine='auto', runs=100)\n"
        "print([name for name in sys.modules if name.startswith('scipy.special')][:3])\n"
    )
    done = subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout.strip() == "[]"
