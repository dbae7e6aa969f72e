"""Which magnitudes are meant: one table, asked wherever numbers come in.

- Whatever is counted (counts, noisy counts, base populations, totals, the amounts of a law) is at most 2**53, each and in sum: up to there a
  float tells whole numbers apart, and the square of a sum (1e32) is far from overflow.
- The noise (b or sigma) is from 1e-6 to 1e12 counts. Below, no count is changed (the next whole number is 1e6 scales
  away); above, even a census of the world drowns. Then (count / noise)^2 is at most 1e44, and e^-(...) underflows to 0,
  which is its value in a float.
- Sensitivity, epsilon and rho are such that some noise in this range can follow from them.
- Weights are from 1e-12 to 1e15: the share a_i x_i / sum a_j x_j is made of products below 1e31.
- A budget is at most 1e18, ten thousand times what the world earns in a year.

Outside, `refuse` says so in one line; inside, every method must answer or refuse by name (tests/engines/test_magnitudes.py).
"""

from __future__ import annotations

import math

from fairpost.errors import InputError

COUNTED = 2.0**53
RANGES = {
    "count": (0.0, COUNTED),
    "base": (0.0, COUNTED),
    "noisy count": (-COUNTED, COUNTED),
    "base population": (0.0, COUNTED),
    "total": (0.0, COUNTED),
    "amount": (0.0, COUNTED),
    "scale": (1e-6, 1e12),
    "sigma": (1e-6, 1e12),
    "sensitivity": (1e-6, 1e12),
    "epsilon": (1e-12, 1e12),
    "rho": (1e-24, 1e24),
    "delta": (1e-300, math.inf),
    "weight": (1e-12, 1e15),
    "budget": (0.0, 1e18),
    "last year's payments": (0.0, 1e18),
}


def meant(what: str) -> str:
    """The rule in words."""
    low, high = RANGES[what]
    if math.isinf(high):
        return f"must be at least {low:g}"
    top = "2**53" if high == COUNTED else f"{high:g}"
    bottom = "-2**53" if low == -COUNTED else f"{low:g}"
    return f"must be from {bottom} to {top}"


def outside(what: str, value: float) -> bool:
    """Whether a finite number is outside what is meant."""
    low, high = RANGES[what]
    return not low <= value <= high


def refuse(what: str, value: float, error: type[InputError], place: str = "") -> None:
    """An error of this kind where a number is outside what is meant."""
    if outside(what, value):
        raise error(f"{place}`{what}` {meant(what)}, the range that is meant here, got {value!r}")
