"""A jump and ramps of other widths than 1, by every engine, and steepness that is refused."""

from __future__ import annotations

import numpy as np
import pytest

import fairpost as fp
from fairpost.noise import Threshold
from fairpost.rules import PosThreshold, SimplexThreshold

SURE = 1 - 1e-7


FEW = [0, 3, 5, 5, 6, 8, 1, 2, 4, 7, 12]
MANY = np.floor(np.random.default_rng(1).exponential(100.0, 300)).tolist()


@pytest.mark.parametrize(
    ("x", "noise", "rule", "engine"),
    [
        (FEW, fp.DiscreteGaussian(2.0), PosThreshold(threshold=Threshold(2.0)), "exact"),
        (FEW, fp.DiscreteLaplace(1.0), PosThreshold(threshold=Threshold(2.0)), "expansion"),
        (FEW, fp.DiscreteLaplace(1.0), PosThreshold(threshold=Threshold(2.0, 1.5)), "expansion"),
        (MANY, fp.DiscreteLaplace(30.0), PosThreshold(threshold=Threshold(40.0, 1.0723)), "expansion"),
        (
            MANY,
            fp.DiscreteLaplace(100.0),
            SimplexThreshold(sum(MANY), threshold=Threshold(40.0, 1.0723)),
            "expansion",
        ),
        (MANY, fp.DiscreteLaplace(30.0), SimplexThreshold(sum(MANY), threshold=Threshold(40.0)), "expansion"),
    ],
)
def test_a_jump_and_a_ramp_of_another_width_are_no_ramp_of_width_1(x, noise, rule, engine) -> None:
    """An engine answers for the rule that was given, or refuses it: four of these were off by 9 to 160 of both errors together."""
    drawn = fp.audit(x, noise, rule, engine=fp.MonteCarlo(20_000, confidence=SURE, seed=3))
    try:
        found = fp.audit(x, noise, rule, engine=engine)
    except (fp.UnsupportedError, fp.ToleranceError):
        return
    assert (np.abs(found.bias - drawn.bias) <= found.half_width + drawn.half_width).all()


def test_a_steepness_of_1_is_refused() -> None:
    """Then min(u, u - tau) is kept, so nobody is whole: with weights that was off by 33,000 times the stated error."""
    with pytest.raises(fp.errors.ParameterError, match=r"a threshold of 40\.0 must have a steepness above 1"):
        Threshold(40.0, 1.0)
    assert Threshold.ramp(1e-22).steepness == 1.0  # the best one of very small noise
