"""`simplex-threshold` with a total of at most the threshold: the largest noisy count takes all."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from fairpost.engines.exact.quadrature import legendre
from fairpost.engines.moments import Floats, Moments
from fairpost.noise import Law


def largest(x: Floats, times: Floats, noise: Law, total: float) -> Moments:
    """C <= tau: the largest noisy count stands inside its jump and takes all, P = int f(t - x_i) prod_{j != i} F(t - x_j) dt.

    The chances must sum to 1. Panels of one noise scale with 16 nodes, broken at the counts (corners of Laplace noise), integrate
    functions that are analytic in between to rounding.
    """
    unit, n = noise.spread, float(np.sum(times))
    reach = 40 + math.log(n) if not np.isinf(noise.strip) else 9 + math.sqrt(2 * math.log(n))
    high, low = float(x[-1]) + reach * unit, float(x[-1]) - reach * unit
    near = x > low - reach * unit
    breaks = np.unique(np.concatenate([[low, high], x[(x > low) & (x < high)]]))
    edges = np.unique(np.concatenate([np.linspace(a, b, math.ceil((b - a) / unit) + 1) for a, b in pairwise(breaks)]))
    u, w = legendre(16)
    wide = np.diff(edges)[:, None]
    chance = np.zeros(x.size)
    for t, weight in zip(edges[:-1, None] + wide * u, wide * w, strict=True):
        c = t[:, None] - x[near]
        with np.errstate(divide="ignore"):
            log = np.log(noise.cdf(c))
        whole = np.maximum(log @ times[near], -1e4)
        chance[near] += weight @ (noise.density(c) * np.exp(whole[:, None] - np.maximum(log, -1e4)))
    error = abs(float(np.sum(times * chance)) - 1) + 1e-14
    slack = error * (total + x) * (np.maximum(chance, 1e-3) + 1e-3)
    chance = np.clip(chance, 0.0, 1.0)
    return Moments(
        total * chance - x,
        error * total * np.ones(x.size) + np.spacing(x),
        (total - x) ** 2 * chance + x**2 * (1 - chance),
        1 - chance,
        mse_error=slack * (total + x),
        zero_error=np.full(x.size, error),
    )
