"""Two small sets of counts to try things on: one real, one synthetic."""

from __future__ import annotations

import numpy as np

from fairpost.counts import Counts

QUANTILES = (
    (0.0, 0.0), (0.01, 2.0), (0.05, 10.0), (0.10, 19.0), (0.25, 52.0), (0.50, 147.0), (0.75, 411.0), (0.90, 1129.0),
    (0.99, 8127.0), (1.0, 259012.0),
)  # fmt: skip
"""Children aged 5 to 17 in poverty by school district, SAIPE 2019 (US Census Bureau)."""


def hawaii() -> Counts:
    """Households in Hawaii's five counties: American Community Survey 2013-2017 (US Census Bureau)."""
    return Counts([53, 22563, 54381, 67054, 311451], ids=["Kalawao", "Kauai", "Maui", "Hawaii", "Honolulu"])


def synthetic_districts(n: int = 13184) -> Counts:
    """SYNTHETIC school districts whose counts follow the quantiles of SAIPE 2019; no district is real.

    The i-th of n counts is the quantile at (i - 1/2)/n, log-linear between the known ones in log(1/(1 - u)) (a
    Pareto piece each); the largest is the known maximum. No randomness: the same on every machine.
    """
    levels, values = np.array(QUANTILES).T
    u = (np.arange(n) + 0.5) / n
    tail = -np.log1p(-np.minimum(levels, 1 - 0.5 / n))
    x = np.round(np.expm1(np.interp(-np.log1p(-u), tail, np.log1p(values))))
    return Counts(x, ids=[f"synthetic-{i:05d}" for i in range(1, n + 1)])
