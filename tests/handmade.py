"""Results made by hand: every number differs from every other, so that one in another's place is seen.

Nothing here was computed. `BASELINE` and `SIMPLEX` are exact, `POS` and `THRESHOLD` simulated; two are allocations of
4 million, two are releases of counts. The widths of a simulation are simultaneous and wider than its standard errors, by a
different factor for each entity.
"""

from dataclasses import replace

import numpy as np

import fairpost as fp
from fairpost.bounds import Bounds
from fairpost.engines.sampled import Sampled
from fairpost.fairness import Estimate
from fairpost.result import AuditResult, CostOfPrivacy

BUDGET = 4e6
NOISE = fp.Laplace(scale=12.5)
IDS = ("Ash", "Birch", "Cedar", "Dogwood", "Elm")
COUNTS = fp.Counts(
    [7, 31, 128, 517, 2063],
    ids=IDS,
    weights=[1.3, 0.7, 1.1, 0.9, 1.7],
    groups=["north", "south", "north", "west", "south"],
)


def vector(*numbers):
    return np.array(numbers, dtype=float)


BASELINE = AuditResult(
    counts=COUNTS,
    mechanism=NOISE,
    postprocess="baseline",
    task="allocation",
    method="exact",
    truth=vector(0.06, 0.09, 0.16, 0.28, 0.41),
    bias=vector(0.0123, 0.0041, -0.0017, -0.0029, -0.0118),
    error=vector(1.1e-9, 2.3e-9, 3.7e-9, 4.3e-9, 5.9e-9),
    deviation=vector(0.021, 0.023, 0.027, 0.033, 0.039),
    mse=vector(0.00061, 0.00053, 0.00074, 0.00112, 0.00168),
    zero=vector(0.37, 0.11, 0.053, 0.019, 0.0013),
    alpha=Estimate(0.0241, 0.024099992, 0.024100009),
    alpha_pair=("Ash", "Elm"),
    bounds=None,
    cost_of_privacy=CostOfPrivacy(
        Estimate(0.0164, 0.0163999, 0.01640034), Estimate(0.0164, 0.0163999, 0.01640034).scaled(BUDGET)
    ),
    expected_T=None,
    degenerate=0.0031,
    budget=BUDGET,
)


def simulated(result, half_width, reduction):
    """The same result from 1,234 runs, with these simultaneous widths at 90 % confidence."""
    ids = list(result.counts.ids)
    sample = Sampled(
        bias=result.bias,
        standard_error=result.error,
        half_width=half_width,
        deviation=result.deviation,
        mse=result.mse,
        zero=result.zero,
        plain=result.bias + 0.017,
        plain_error=result.error * 1.9,
        alpha=result.alpha,
        pair=(ids.index(result.alpha_pair[0]), ids.index(result.alpha_pair[1])),
        reduction=reduction,
        degenerate=5,
        runs=1234,
        seed=77,
        confidence=0.9,
        interrupted=False,
    )
    return replace(result, method="monte-carlo", accuracy="interval", runs=1234, seed=77, note=sample.statement, sample=sample)


POS = simulated(
    replace(
        BASELINE,
        postprocess="pos",
        bias=vector(0.0043217, 0.0013, -0.0009, -0.0016, -0.0031234),
        error=vector(0.00021, 0.00014, 0.00036, 0.00018, 0.00024),
        deviation=vector(0.022, 0.024, 0.029, 0.034, 0.042),
        mse=vector(0.00051, 0.00059, 0.00086, 0.00117, 0.00181),
        zero=vector(0.47, 0.17, 0.061, 0.023, 0.0017),
        alpha=Estimate(0.0074451, 0.0062, 0.0087),
        cost_of_privacy=CostOfPrivacy(
            Estimate(0.0056, 0.0044, 0.0077), Estimate(0.0056, 0.0044, 0.0077).scaled(BUDGET)
        ),
        degenerate=0.0,
    ),
    vector(0.00071, 0.00052, 0.00124, 0.00067, 0.00083),
    5.5,
)

SIMPLEX = replace(
    BASELINE,
    postprocess="simplex",
    task="release",
    truth=COUNTS.values,
    bias=vector(3.7, 1.9, -0.6, -1.4, -3.6),
    error=vector(1.3e-8, 1.7e-8, 2.9e-8, 3.1e-8, 4.7e-8),
    deviation=vector(8.3, 11.7, 14.9, 16.3, 17.1),
    mse=vector(83.0, 141.0, 223.0, 268.0, 305.0),
    zero=vector(0.29, 0.048, 0.0059, 0.00043, 0.000067),
    alpha=Estimate(7.3, 7.29999994, 7.300000083),
    bounds=Bounds(
        lower=5.2, upper=8.4, first=5.5, last=0.3, clipped=4.6, spread=2056.0, theorem=9.8, sharper=8.4, error=2e-9
    ),
    cost_of_privacy=None,
    expected_T=3.2,
    degenerate=0.0,
    budget=None,
)

THRESHOLD = simulated(
    replace(
        SIMPLEX,
        postprocess="simplex-threshold",
        bias=vector(2.4137, -0.7, -0.2, -1.1279, -0.4),
        error=vector(0.013, 0.0152, 0.019, 0.022, 0.0262),
        deviation=vector(9.1, 12.3, 15.7, 17.9, 18.7),
        mse=vector(91.0, 153.0, 247.0, 322.0, 351.0),
        zero=vector(0.59, 0.077, 0.0083, 0.00067, 0.000089),
        alpha=Estimate(3.5416, 2.63, 4.31),
        alpha_pair=("Ash", "Dogwood"),
        bounds=None,
        expected_T=None,
        degenerate=0.0042,
    ),
    vector(0.45, 0.56, 0.64, 0.73, 0.87),
    1.75,
)

ALL = (BASELINE, POS, SIMPLEX, THRESHOLD)


def numbers_of(result):
    """Every number of a result that belongs to one entity."""
    own = [result.bias, result.error, result.deviation, result.mse, result.zero]
    return np.concatenate(own + ([] if result.sample is None else [result.half_width]))
