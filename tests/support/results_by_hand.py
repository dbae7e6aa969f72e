"""Results made by hand: every number differs from every other, so that one in another's place is seen.

Nothing here was computed. `BASELINE` and `SIMPLEX` are exact, `POS` and `THRESHOLD` simulated; two are allocations of
4 million, two are releases of counts. The widths of a simulation are simultaneous and wider than its standard errors, by a
different factor for each entity.
"""

import dataclasses
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

import fairpost as fp
from fairpost.accuracy import Accuracy, Estimate
from fairpost.bounds.theorems import Bounds
from fairpost.engines.montecarlo.estimates import Sampled
from fairpost.problems import Release
from fairpost.results import Applied, Audit, CostOfPrivacy, Moments

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


@dataclass(frozen=True, eq=False, repr=False)
class Handmade(Audit):
    """A result whose cost is made by hand too, so that it differs from what it derives from."""

    cost: Any = None

    @property
    def cost_of_privacy(self):
        return self.cost


def replace(made, **given):
    """`dataclasses.replace`, where the fields of an audit's `rule`, `engine` and `moments` are named as if they were its own."""
    for part in ("rule", "engine", "moments") if isinstance(made, Audit) else ():
        inner = getattr(made, part)
        mine = {f.name: given.pop(f.name) for f in fields(inner) if f.name in given}
        given[part] = dataclasses.replace(inner, **mine)
    return dataclasses.replace(made, **given)


def near(numbers):
    """How well second moments and chances are known: a part that differs from every other number."""
    return Accuracy("bound", np.asarray(numbers) * 0.00371)


BASELINE = Handmade(
    counts=COUNTS,
    mechanism=NOISE,
    postprocess="baseline",
    rule=Applied("clip at zero, then share in proportion", degenerate=0.0031, kept=(0.0,)),
    problem=fp.Proportional(COUNTS.weights),
    method="exact",
    truth=vector(0.06, 0.09, 0.16, 0.28, 0.41),
    bias=vector(0.0123, 0.0041, -0.0017, -0.0029, -0.0118),
    accuracy=Accuracy("bound", vector(1.1e-9, 2.3e-9, 3.7e-9, 4.3e-9, 5.9e-9)),
    moments=Moments(
        mse=vector(0.00061, 0.00053, 0.00074, 0.00112, 0.00168),
        mse_accuracy=near(vector(0.00061, 0.00053, 0.00074, 0.00112, 0.00168)),
        zero=vector(0.37, 0.11, 0.053, 0.019, 0.0013),
        zero_accuracy=near(vector(0.37, 0.11, 0.053, 0.019, 0.0013)),
        deviation=vector(0.021, 0.023, 0.027, 0.033, 0.039),
    ),
    alpha=Estimate(0.0241, 0.024099992, 0.024100009),
    alpha_pair=("Ash", "Elm"),
    cost=CostOfPrivacy(Estimate(0.0164, 0.0163999, 0.01640034), Estimate(0.0164, 0.0163999, 0.01640034).scaled(BUDGET)),
    budget=BUDGET,
)


def simulated(result, half_width, reduction):
    """The same result from 1,234 runs, with these simultaneous widths at 90 % confidence; its bounds become errors."""
    ids, standard_error = list(result.counts.ids), result.half_width
    alpha = replace(result.alpha, kind="interval")
    sample = Sampled(
        bias=result.bias,
        standard_error=standard_error,
        half_width=half_width,
        deviation=result.moments.deviation,
        mse=result.moments.mse,
        mse_half_width=result.moments.mse_accuracy.half_width,
        zero=result.moments.zero,
        zero_half_width=result.moments.zero_accuracy.half_width,
        plain=result.bias + 0.017,
        plain_error=standard_error * 1.9,
        alpha=alpha,
        pair=(ids.index(result.alpha_pair[0]), ids.index(result.alpha_pair[1])),
        reduction=reduction,
        degenerate=5,
        runs=1234,
        seed=77,
        confidence=0.9,
        interrupted=False,
    )
    return replace(
        result,
        method="monte-carlo",
        accuracy=Accuracy("interval", half_width),
        standard_error=standard_error,
        alpha=alpha,
        runs=1234,
        seed=77,
        confidence=0.9,
        variance_reduction=reduction,
        note=sample.statement,
        sample=sample,
    )


POS = simulated(
    replace(
        BASELINE,
        postprocess="pos",
        title="share first, then project the shares",
        bias=vector(0.0043217, 0.0013, -0.0009, -0.0016, -0.0031234),
        accuracy=Accuracy("bound", vector(0.00021, 0.00014, 0.00036, 0.00018, 0.00024)),
        deviation=vector(0.022, 0.024, 0.029, 0.034, 0.042),
        mse=vector(0.00051, 0.00059, 0.00086, 0.00117, 0.00181),
        mse_accuracy=near(vector(0.00051, 0.00059, 0.00086, 0.00117, 0.00181)),
        zero=vector(0.47, 0.17, 0.061, 0.023, 0.0017),
        zero_accuracy=near(vector(0.47, 0.17, 0.061, 0.023, 0.0017)),
        alpha=Estimate(0.0074451, 0.0062, 0.0087),
        cost=CostOfPrivacy(Estimate(0.0056, 0.0044, 0.0077), Estimate(0.0056, 0.0044, 0.0077).scaled(BUDGET)),
        degenerate=0.0,
    ),
    vector(0.00071, 0.00052, 0.00124, 0.00067, 0.00083),
    5.5,
)

SIMPLEX = replace(
    BASELINE,
    postprocess="simplex",
    title="closest counts with the known total and none below zero",
    problem=Release(),
    truth=COUNTS.values,
    bias=vector(3.7, 1.9, -0.6, -1.4, -3.6),
    accuracy=Accuracy("bound", vector(1.3e-8, 1.7e-8, 2.9e-8, 3.1e-8, 4.7e-8)),
    deviation=vector(8.3, 11.7, 14.9, 16.3, 17.1),
    mse=vector(83.0, 141.0, 223.0, 268.0, 305.0),
    mse_accuracy=near(vector(83.0, 141.0, 223.0, 268.0, 305.0)),
    zero=vector(0.29, 0.048, 0.0059, 0.00043, 0.000067),
    zero_accuracy=near(vector(0.29, 0.048, 0.0059, 0.00043, 0.000067)),
    alpha=Estimate(7.3, 7.29999994, 7.300000083),
    bounds=Bounds(
        lower=5.2, upper=8.4, first=5.5, last=0.3, clipped=4.6, spread=2056.0, theorem=9.8, sharper=8.4, error=2e-9
    ),
    cost=None,
    expected_T=Estimate(3.2, 3.19, 3.21),
    degenerate=0.0,
    budget=None,
)

THRESHOLD = simulated(
    replace(
        SIMPLEX,
        postprocess="simplex-threshold",
        title="as simplex, but small noisy counts become zero",
        bias=vector(2.4137, -0.7, -0.2, -1.1279, -0.4),
        accuracy=Accuracy("bound", vector(0.013, 0.0152, 0.019, 0.022, 0.0262)),
        deviation=vector(9.1, 12.3, 15.7, 17.9, 18.7),
        mse=vector(91.0, 153.0, 247.0, 322.0, 351.0),
        mse_accuracy=near(vector(91.0, 153.0, 247.0, 322.0, 351.0)),
        zero=vector(0.59, 0.077, 0.0083, 0.00067, 0.000089),
        zero_accuracy=near(vector(0.59, 0.077, 0.0083, 0.00067, 0.000089)),
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
    own = [result.bias, result.half_width, result.moments.deviation, result.moments.mse, result.moments.zero]
    return np.concatenate(own + ([] if result.engine.standard_error is None else [result.engine.standard_error]))
