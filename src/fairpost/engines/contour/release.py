"""`simplex`: the moments of v_i = (z_i - r)_+ with sum v = C.

With y_i = (r - z_i)_+ it is v_i = z_i - r + y_i, and summed over all entities C = sum z - n r + sum y. So

    bias_i = (C - sum x)/n + E y_i - mean(E y),   E[T] = mean(E y),   E[(v_i - x_i)^2] = Var + E[w^2 - 2 (z_i - x_i) w],   w = min(z_i, r).

The E y are positive and free of cancellation however rare clipping is, with contours through the saddle point of what has at least one below r.
The squares need all of r's law: where nobody below has a chance worth it, their contours are others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fairpost.engines.closed.shares import SAFETY
from fairpost.engines.contour.few import FEW, below
from fairpost.engines.contour.law import LEVELS, AtRisk, Level, Root, Window
from fairpost.engines.moments import UNSETTLED, Counted, Floats, Moments
from fairpost.noise import Law

TINY = 1e-280
"""A deficit below this (in noise scales) is 0: doubles end there."""
SURE = -35.0
"""The logarithm of a chance next to rounding."""
PLAIN = np.zeros(1), np.array([[1.0], [0.0], [1.0]]), np.zeros(1)
"""One node t = 0."""


def certain(x: Floats, times: Counted, total: float) -> Moments:
    """C = 0 (v = 0; every large T serves, so there is none) or one entity (v = C, T = 0): nothing random is left."""
    bias = -x if total == 0 else np.array([math.fsum([total, *(-x * times).tolist()])])
    none = np.zeros(x.size)
    error, threshold = np.spacing(np.abs(bias)), None if total == 0 else 0.0
    sure: dict[str, Any] = {"mse_error": 4e-16 * bias**2, "zero_error": none, "threshold_error": threshold}
    return Moments(bias, error, bias**2, np.full(x.size, float(total == 0)), threshold, kind="bound", **sure)


def root_of(x: Floats, times: Counted, law: Law, total: float) -> Root:
    """In units of the noise scale."""
    unit = law.spread
    surplus = math.fsum([total, *(-x * times).tolist()]) / unit
    return Root(x / unit, np.ones(x.size), times, law.scaled(1.0), surplus)


@dataclass(frozen=True)
class _Found:
    """By level: E y, its mean, P(v = 0), the mean squared errors, the mass and E[r^2] of r's law, and how many contours were cut short."""

    y: Floats
    mean: float
    zero: Floats
    mse: Floats
    mass: float
    second: float
    nodes: int
    open: int


def simplex(root: Root, rtol: float) -> Moments:
    """In units of the noise scale; x ascending."""
    risk = root.at_risk(1e-4 * min(rtol, 1e-6))
    drift = root.surplus / root.n  # type: ignore[operator]
    if risk.index.size == 0:
        return _never(root, drift)
    clipped = Window.of(risk, True, rtol)
    if float(np.max(clipped.log)) < math.log(TINY):
        if float(root.beside(root.typical[0])[0] @ root.times) < math.sqrt(TINY):
            return _never(root, drift)
        return Moments.unknown(root.c.size, "simplex: who is clipped is farther out than floats hold transforms")
    none = float(np.sum(np.log1p(-np.minimum(root.beside(root.typical[0])[0], 0.9)) @ root.times))
    whole = clipped if none < SURE else Window.of(risk, False, rtol)
    before = _at(risk, clipped, whole, LEVELS[0])
    if before.open:
        return Moments.unknown(
            root.c.size, "simplex: contours do not end, because too many entities are clipped together for their number"
        )
    for level in LEVELS[1:]:
        now = _at(risk, clipped, whole, level)
        bias = drift + (now.y - now.mean)
        change = float(np.max(np.abs((now.y - now.mean) - (before.y - before.mean))))
        rounding = 4e-16 * ((20 + math.sqrt(root.n)) * (now.y + now.mean) + abs(drift))
        missed = (risk.missed + clipped.unseen) * float(np.max(now.y))
        error = change + rounding + missed
        alpha = float(np.ptp(bias)) if root.c.size > 1 else now.mean
        slack = 2 * float(np.max(error)) if root.c.size > 1 else abs(now.mean - before.mean)
        if slack <= max(rtol * alpha, 1e-14 * abs(drift), TINY):
            if root.c.size == 1:
                bias, error = np.array([drift]), np.spacing(np.array([abs(drift)]))
            moved, lost = float(np.max(np.abs(now.mse - before.mse) / now.mse)), abs(now.mass - 1)
            chance = SAFETY * np.max(np.abs(now.zero - before.zero)) + (1e-14 + risk.missed) * np.max(now.zero)
            return Moments(
                bias,
                error,
                now.mse,
                now.zero,
                now.mean,
                nodes=now.nodes,
                mse_error=(SAFETY * moved + lost + 1e-11) * now.mse + 2 * missed + 2e-13 * now.second,
                zero_error=np.full_like(now.zero, chance),
                threshold_error=SAFETY * abs(now.mean - before.mean) + 1e-14 * math.sqrt(root.n) * now.mean + missed,
            )
        before = now
    return Moments.missed("simplex", bias, np.broadcast_to(error, bias.shape), rtol)


def _at(risk: AtRisk, clipped: Window, whole: Window, level: Level) -> _Found:
    """One level."""
    root = risk.root
    start = root.noiseless if root.kind is None and root.n <= FEW else -np.inf
    sums = risk.integrate(clipped.rule(level, start), level, True, PLAIN)
    law = sums if whole is clipped else risk.integrate(whole.rule(level, start), level, False, PLAIN)
    if start > -np.inf:
        part = below(risk, level, False)
        law, sums = law + part, sums + (part if whole is clipped else below(risk, level, True))
    y, zero = np.zeros(root.c.size), np.zeros(root.c.size)
    y[risk.index], zero[risk.index] = np.maximum(sums.first, 0.0), np.clip(sums.zero, 0.0, 1.0)
    mass, _, second, cross = law.common[0]
    mse = np.full(root.c.size, root.noise.variance + second - 2 * cross)
    mse[risk.index] = root.noise.variance + law.square
    mean = float(y @ root.times) / root.n
    return _Found(y, mean, zero, np.maximum(mse, 1e-300), mass, second, sums.nodes, sums.open + law.open)


def _never(root: Root, drift: float) -> Moments:
    """Clipping is less likely than any double says: v = z - mean(noise) + (C - sum x)/n."""
    bias, none = np.full(root.c.size, drift), np.zeros(root.c.size)
    mse = np.full(root.c.size, root.noise.variance * (1 - 1 / root.n) + drift**2)
    small: dict[str, Any] = {"mse_error": 1e-14 * mse, "zero_error": none + TINY, "threshold_error": TINY}
    return Moments(bias, np.spacing(np.abs(bias)) + TINY, mse, none, 0.0, kind="estimate", **small)


def in_counts(found: Moments, unit: float, rtol: float) -> Moments:
    """From noise scales to counts, the sentence of a refusal too."""
    if found.short is not None and np.isfinite(found.error).all():
        return Moments.missed("simplex", found.bias * unit, found.error * unit / UNSETTLED, rtol)
    return replace(
        found,
        bias=found.bias * unit,
        error=found.error * unit,
        mse=found.mse * unit**2,
        threshold=None if found.threshold is None else found.threshold * unit,
        mse_error=None if found.mse_error is None else found.mse_error * unit**2,
        threshold_error=None if found.threshold_error is None else found.threshold_error * unit,
    )
