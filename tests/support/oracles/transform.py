"""Shares of clipped counts: 1/S = int_0^inf e^{-t S} dt makes a product of one factor for each entity.

With V_j = a_j (X_j)_+: E[V_i / S] = int E[V_i e^{-t V_i}] prod_(j != i) E[e^{-t V_j}] dt, and E[V_i^2 / S^2] has one more t.
The laws of V_j are nodes and weights; the integral over log t is by the trapezoidal rule, which converges geometrically.
"""

from __future__ import annotations

import numpy as np

from support.laws import Law
from support.oracles import Found

STEP = 0.2
NODE, PART = np.polynomial.legendre.leggauss(16)


def baseline(x: np.ndarray, a: np.ndarray, law: Law) -> Found:
    """BL for one group."""
    pairs, back, times = np.unique(np.stack([x, a], axis=1), axis=0, return_inverse=True, return_counts=True)
    back = back.ravel()
    laws = [_nodes(count, law) for count in pairs[:, 0]]
    mean = float(np.sum(a * x)) + float(np.max(a)) * law.scale
    least = float(a.min()) * law.scale * 1e-6
    w = np.arange(np.log(1e-17 / mean), np.log(1e18 / least), STEP)
    t = np.exp(w)
    t = t[: 1 + np.searchsorted(-_least(pairs, times, laws, t), 90)]  # beyond, the product has no size
    log = np.zeros(t.size)
    parts = []
    for (_, weight), m, (v, p) in zip(pairs, times, laws, strict=True):
        e = np.exp(-np.outer(t, weight * v))
        zeroth, first, second = e @ p, e @ (p * weight * v), e @ (p * (weight * v) ** 2)
        some = zeroth > 0  # where it is 0 in a float, so is the integrand
        safe = np.where(some, zeroth, 1.0)
        parts.append((first / safe, second / safe))
        log += np.where(some, m * np.log(safe), -np.inf)
    whole = np.exp(log) * t * STEP
    mean_share = np.array([whole @ first for first, _ in parts])
    square = np.array([(whole * t) @ second for _, second in parts])
    none = float(np.prod([float(p[v == 0].sum()) ** m for (v, p), m in zip(laws, times, strict=True)]))
    share = pairs[:, 1] / a.sum()
    due = pairs[:, 0] * pairs[:, 1] if x.sum() > 0 else pairs[:, 1]
    due = due / np.sum(due * times)
    mean_share, square = mean_share + none * share, square + none * share**2
    bias = mean_share - due
    mse = square - 2 * due * mean_share + due**2
    zero = law.cdf(-pairs[:, 0]) - none
    error = 3e-12 * due + 1e-13 * np.abs(bias)
    return Found(
        bias[back],
        error[back],
        "product of Laplace transforms",
        mse[back],
        1e-11 * float(np.max(square)),
        zero[back],
        1e-11,
    )


def _least(pairs, times, laws, t: np.ndarray) -> np.ndarray:
    """A cheap upper end of the log of the product: the factors of the eight that are due most."""
    big = np.argsort(-pairs[:, 0] * pairs[:, 1])[:8]
    with np.errstate(divide="ignore"):
        return sum(times[i] * np.log(np.exp(-np.outer(t, pairs[i, 1] * laws[i][0])) @ laws[i][1]) for i in big)


def _nodes(x: float, law: Law) -> tuple[np.ndarray, np.ndarray]:
    """(x + eta)_+ as values and masses."""
    if law.discrete:
        k, mass = law.table
        near = mass > 1e-22
        v, p = np.maximum(x + k[near], 0.0), mass[near]
        up = v > 0
        return np.append(v[up], 0.0), np.append(p[up], law.cdf(-x)) / (p[up].sum() + law.cdf(-x))
    b = law.scale
    reach = 50 * b if law.kind == "laplace" else 10 * b
    low = max(0.0, x - reach)
    steps = np.concatenate([[0.0], np.geomspace(1e-3, 1, 16 if law.kind == "laplace" else 10)]) * reach
    edges = np.concatenate([x - steps, x + steps, b * np.geomspace(1e-12, 1, 25) if low == 0 else []])
    edges = np.unique(np.clip(edges, low, x + reach))
    edges = np.unique(np.append(edges, low))
    half = np.diff(edges) / 2
    v = ((edges[:-1] + half)[:, None] + half[:, None] * NODE).ravel()
    eta = (v - x) / b
    p = np.exp(-np.abs(eta)) / 2 if law.kind == "laplace" else np.exp(-(eta**2) / 2) / np.sqrt(2 * np.pi)
    p = p / b * (half[:, None] * PART).ravel()
    gone = float(law.cdf(-x)) if low == 0 else 0.0
    return np.append(v, 0.0), np.append(p, gone) / (p.sum() + gone)
