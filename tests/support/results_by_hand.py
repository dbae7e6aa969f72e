"""Results whose numbers are made by hand: every number differs from every other, so that one in another's place is seen.

What was audited stands around them: `BASELINE` and `SIMPLEX` are exact, `POS` and `THRESHOLD` simulated; two are allocations of
4 million, two are releases of counts. The widths of a simulation are simultaneous and wider than its standard errors, by a
different factor for each entity.
"""

import dataclasses

import numpy as np

import fairpost as fp
from fairpost.accuracy import Accuracy, Estimate

BUDGET = 4e6
NOISE = fp.Laplace(scale=12.5)
IDS = ("Ash", "Birch", "Cedar", "Dogwood", "Elm")
COUNTS = fp.Counts(
    [7, 31, 128, 517, 2063],
    ids=IDS,
    weights=[1.3, 0.7, 1.1, 0.9, 1.7],
    groups=["north", "south", "north", "west", "south"],
)
DUE = (0.06, 0.09, 0.16, 0.28, 0.41)


def vector(*numbers):
    return np.array(numbers, dtype=float)


def replace(made, **given):
    """`dataclasses.replace`, where the fields of an audit's `rule`, `engine` and `moments` are named as if they were its own."""
    for part in ("rule", "engine", "moments"):
        inner = getattr(made, part)
        mine = {f.name: given.pop(f.name) for f in dataclasses.fields(inner) if f.name in given}
        given[part] = dataclasses.replace(inner, **mine)
    return dataclasses.replace(made, **given)


def audited(rule, bias, half_width, alpha, **given):
    """An audit of a rule with other numbers; simulated where `standard_error` is given."""
    drawn = {"engine": "monte-carlo", "runs": 1234, "seed": 77, "confidence": 0.9, "rtol": None}
    budget = BUDGET if rule in ("baseline", "pos") else None
    made = fp.audit(COUNTS, NOISE, rule, budget=budget, **(drawn if "standard_error" in given else {"engine": "exact"}))
    kind = "interval" if "standard_error" in given else "bound"
    given = {k: vector(*v) if isinstance(v, tuple) and k not in ("kept", "alpha_pair") else v for k, v in given.items()}
    near = {f"{k}_accuracy": Accuracy("bound", given[k] * 0.00371) for k in ("mse", "zero")}
    truth = vector(*DUE) if budget else COUNTS.values
    known = Accuracy(kind, vector(*half_width))
    return replace(made, truth=truth, bias=vector(*bias), accuracy=known, alpha=Estimate(*alpha, kind), **near, **given)


BASELINE = audited(
    "baseline", (0.0123, 0.0041, -0.0017, -0.0029, -0.0118), (1.1e-9, 2.3e-9, 3.7e-9, 4.3e-9, 5.9e-9),
    (0.0241, 0.024099992, 0.024100009), alpha_pair=("Ash", "Elm"),
    mse=(0.00061, 0.00053, 0.00074, 0.00112, 0.00168), zero=(0.37, 0.11, 0.053, 0.019, 0.0013),
    deviation=(0.021, 0.023, 0.027, 0.033, 0.039),
)  # fmt: skip
POS = audited(
    "pos", (0.0043217, 0.0013, -0.0009, -0.0016, -0.0031234), (0.00071, 0.00052, 0.00124, 0.00067, 0.00083),
    (0.0074451, 0.0062, 0.0087), alpha_pair=("Ash", "Elm"), standard_error=(0.00021, 0.00014, 0.00036, 0.00018, 0.00024),
    mse=(0.00051, 0.00059, 0.00086, 0.00117, 0.00181), zero=(0.47, 0.17, 0.061, 0.023, 0.0017),
    deviation=(0.022, 0.024, 0.029, 0.034, 0.042),
)  # fmt: skip
SIMPLEX = audited(
    "simplex", (3.7, 1.9, -0.6, -1.4, -3.6), (1.3e-8, 1.7e-8, 2.9e-8, 3.1e-8, 4.7e-8), (7.3, 7.29999994, 7.300000083),
    alpha_pair=("Ash", "Elm"), mse=(83.0, 141.0, 223.0, 268.0, 305.0), zero=(0.29, 0.048, 0.0059, 0.00043, 0.000067),
    deviation=(8.3, 11.7, 14.9, 16.3, 17.1), expected_T=Estimate(3.2, 3.19, 3.21),
)  # fmt: skip
SIMPLEX = replace(
    SIMPLEX,
    bounds=dataclasses.replace(
        SIMPLEX.bounds,
        lower=5.2,
        upper=8.4,
        first=5.5,
        last=0.3,
        clipped=4.6,
        spread=2056.0,
        theorem=9.8,
        sharper=8.4,
        error=2e-9,
    ),
)
THRESHOLD = audited(
    "simplex-threshold", (2.4137, -0.7, -0.2, -1.1279, -0.4), (0.45, 0.56, 0.64, 0.73, 0.87), (3.5416, 2.63, 4.31),
    alpha_pair=("Ash", "Dogwood"), standard_error=(0.013, 0.0152, 0.019, 0.022, 0.0262),
    mse=(91.0, 153.0, 247.0, 322.0, 351.0), zero=(0.59, 0.077, 0.0083, 0.00067, 0.000089),
    deviation=(9.1, 12.3, 15.7, 17.9, 18.7), bounds=None, expected_T=None,
)  # fmt: skip
ALL = (BASELINE, POS, SIMPLEX, THRESHOLD)
