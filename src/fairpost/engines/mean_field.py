"""The shift of a threshold rule when every noisy count is replaced by its mean: where expansions and windows start."""

from __future__ import annotations

import numpy as np

from fairpost.engines.moments import Floats
from fairpost.noise import Law, Threshold
from fairpost.roots import root


def shift(x: Floats, a: Floats, times: Floats, excess: float, rule: Threshold, mechanism: Law) -> float:
    """The root of sum (a gain - r) = excess, where excess = C - sum a x; the left side falls in r."""

    def surplus(r: float) -> float:
        return float(np.sum(times * (a * rule.gain(mechanism, r / a + rule.level - x) - r))) - excess

    low = high = -excess / float(np.sum(times))
    step = float(np.max(a)) * (mechanism.deviation + rule.level) or abs(low)  # noise next to none has the deviation 0.0
    while surplus(low) < 0:
        low, step = low - step, 2 * step
    while surplus(high) > 0:
        high, step = high + step, 2 * step
    return low if low == high else root(surplus, low, high, xtol=1e-300, rtol=1e-15)
