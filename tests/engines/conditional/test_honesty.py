"""Small problems in which points see little: whole numbers that hardly move, jumps at whole numbers, sums of either sign.

Each against enumeration: what is answered lies within its stated error, or it is refused.
"""

import numpy as np
import pytest

import fairpost as fp
from fairpost.engines.conditional.intervals import COLLINEAR, PILOT, _coefficients, _controlled
from support.cases import Case
from support.laws import Law
from support.oracles.lattice import enumerated

MECHANISMS = {"discrete-laplace": fp.DiscreteLaplace, "discrete-gaussian": fp.DiscreteGaussian}


@pytest.mark.parametrize(
    ("rule", "noise", "scale", "counts", "threshold"),
    [
        ("simplex", "discrete-gaussian", 0.22, [0, 0, 7, 0, 0, 0], None),
        ("simplex-threshold", "discrete-gaussian", 0.054, [1, 6, 6, 6, 6, 6, 1, 6], (1.0, None)),
        ("simplex-threshold", "discrete-gaussian", 0.155, [4, 1, 4, 8], (1.0, None)),
        ("pos-threshold", "discrete-gaussian", 0.717, [1, 0], (1.0, None)),
        ("pos-threshold", "discrete-laplace", 0.101, [0, 3, 3, 0, 2, 1, 32], (1.5, 3.0)),
        ("pos", "discrete-laplace", 0.057, [6, 2, 1, 2, 0, 1], None),
    ],
)
def test_what_no_point_shows_is_in_the_stated_error(rule, noise, scale, counts, threshold):
    x, n = np.array(counts, dtype=float), len(counts)
    row = {"name": rule, "rule": rule, "noise": noise, "scale": scale, "counts": counts, "threshold": threshold}
    if threshold is None:
        del row["threshold"]
    limits = None if threshold is None else (threshold[0], threshold[1] or np.inf)
    true = enumerated(rule, x, np.ones(n), Law(noise, scale), x.sum(), limits, 3e5)
    try:
        found = Case(row).asked(fp.Conditional(rtol=1e-2, points=2**17))
    except fp.ToleranceError:
        return
    room = 2 * np.max(true.error) + 1e-10
    assert abs(found.alpha.value - np.ptp(true.bias)) <= 1.5 * found.alpha.half_width + room
    assert np.all(np.abs(found.bias - true.bias) <= 1.5 * found.half_width + room)
    assert np.all(np.abs(found.mse - true.mse) <= 1.5 * found.mse_accuracy.half_width + true.mse_error + 1e-10)


def test_controls_that_the_points_do_not_confirm_are_not_used():
    """One varies and helps, one is an event that no point has met, one is rounding, one is the first again."""
    rng = np.random.Generator(np.random.PCG64(1))
    good = rng.normal(size=(PILOT, 8, 1))
    unmet, rounding = np.full_like(good, -1e-6), 1e-20 * rng.normal(size=good.shape)
    twin = good * (1 + COLLINEAR / 100 * rng.normal(size=good.shape))
    y = good + 1e-3 * rng.normal(size=good.shape)
    found = _coefficients(np.concatenate([y, good, unmet, rounding, twin], axis=2), 1)
    assert np.abs(found).max() < 1.1
    assert found[1, 0] == 0
    fresh = np.array([[0.0, 0.0, 1.0, 0.0, 0.0]] * 32)  # the event all the time: no scatter explains its mean
    assert np.all(_controlled(fresh, np.full((4, 1), 1e6)) == 0)
