"""From two levels of deficits to biases with their errors, for releases in units of the noise (`erlang`)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairpost.engines.closed.shares import SAFETY, moved, range_error
from fairpost.engines.moments import Floats, Moments

EPS = 2.3e-16


@dataclass(frozen=True)
class Found:
    """One level's sums over t."""

    deficit: Floats
    zero: Floats
    mse: Floats
    lost: Floats
    """Of every deficit: what was left out, and rounding."""
    root: float


def biases(now: Found, before: Found, times: Floats, drift: float) -> tuple[Floats, Floats]:
    """The biases and their errors: the last change, the defect of E[r], what was left out and rounding."""
    n = float(np.sum(times))
    mean, last = (float(np.sum(times * f.deficit)) / n for f in (now, before))
    change = float(np.max(np.abs((now.deficit - mean) - (before.deficit - last))))
    size = np.abs(now.deficit) + abs(mean)
    defect = max(abs(now.root - (mean - drift)) - 1e-13 * (1 + abs(now.root)), 0.0)
    lost = now.lost + float(np.sum(times * now.lost)) / n
    return drift + now.deficit - mean, change + defect * size / max(abs(mean), 1e-300) + lost + 8 * EPS * (
        size + abs(drift)
    )


def moments(
    now: Found, before: Found, x: Floats, times: Floats, given: tuple[float, float, float], rtol: float
) -> Moments | None:
    """In counts, from values in units b of the noise; None where the tolerance is missed. `given`: b, the drift in it and the threshold."""
    b, drift, tau = given
    bias, error = biases(now, before, times, drift)
    if x.size == 1:  # all counts are equal, and so are the biases
        bias, error = np.array([drift]), np.spacing(np.array([abs(drift)]))
    alpha, slack = range_error(bias, error)
    if not slack <= max(rtol * alpha, 1e-14 * (1 + abs(drift))):
        return None
    mean, last = (float(np.sum(times * f.deficit) / np.sum(times)) for f in (now, before))
    off = abs(now.root - (mean - drift)) + SAFETY * abs(mean - last) + float(np.max(now.lost))
    far = 1 + x / b
    rounding = 1e-12 * (1 + now.mse + far * np.sqrt(np.maximum(now.mse, 0.0)))
    return Moments(
        bias * b,
        error * b,
        np.maximum(now.mse, bias**2) * b * b,
        np.clip(now.zero, 0.0, 1.0),
        threshold=mean * b if tau == 0 else None,
        mse_error=(SAFETY * moved(now.mse, before.mse, now.mse) + rounding + 4 * far * now.lost) * b * b,
        zero_error=np.minimum(SAFETY * moved(now.zero, before.zero, now.zero) + 1e-13 + now.lost, 1.0),
        threshold_error=off * b if tau == 0 else None,
    )
