"""Whole-number noise of few entities: every combination, the rule by its definition. And shares of two or three by directions."""

from __future__ import annotations

from itertools import product

import numpy as np

from support.laws import Law
from support.oracles import Found
from support.rules import RELEASES, SHARES, outputs, truth_of


def _control(rule: str, eta: np.ndarray, x: np.ndarray, a: np.ndarray) -> np.ndarray:
    """What has mean 0 and explains most: taken away, so that what is cut off far out does not show."""
    if rule in ("none", "nonnegative"):
        return eta
    if rule in RELEASES:
        return eta - eta.mean(axis=1, keepdims=True)
    if x.sum() == 0:
        return np.zeros_like(eta)
    share = truth_of(rule, x, a)
    return (a * eta - share * (eta @ a)[:, None]) / np.sum(a * x)


def enumerated(rule: str, x, a, law: Law, total: float, threshold, points: float = 3e6) -> Found:
    """The sum over all combinations of noise that `points` allow."""
    k, mass = law.table
    n = x.size
    reach = int(min((points ** (1 / n) - 1) / 2, k[-1]))
    keep = np.abs(k) <= reach
    k, mass = k[keep], mass[keep]
    # masses below 1e-18 of all are left out
    keep = mass > 1e-18
    k, mass = k[keep], mass[keep]
    tail = n * (1 - mass.sum())
    mass = mass / mass.sum()
    truth = truth_of(rule, x, a)
    within = max(d for d in range(1, n + 1) if d == 1 or k.size**d <= 4e5)
    grid = np.stack([g.ravel() for g in np.meshgrid(*[np.arange(k.size)] * within, indexing="ij")], axis=1)
    outer = n - within
    sums = np.zeros((3, n))
    lifted = 0.0
    for first in product(range(k.size), repeat=outer):
        eta = np.concatenate([np.broadcast_to(k[list(first)], (len(grid), outer)), k[grid]], axis=1)
        weight = np.prod(mass[list(first)]) * np.prod(mass[grid], axis=1)
        out = outputs(rule, x + eta, a, total, threshold)
        away = out - truth
        sums[0] += weight @ (away - _control(rule, eta, x, a))
        sums[1] += weight @ away**2
        sums[2] += weight @ (np.abs(out) <= 1e-9 * (1.0 if rule in SHARES else max(law.scale, 1e-3)))
        if rule == "simplex":
            y = x + eta + (total - (x + eta).sum(axis=1, keepdims=True)) / n
            lifted += float(weight @ np.max(y - out, axis=1))
    bias = sums[0]
    size = 1.0 if rule in SHARES else float(max(x.max(), total)) + reach
    lost = tail * size + 1e-14 * size
    # far out an output differs from its control by the noise there at most, which is what the tail is multiplied with
    if rule in RELEASES:
        lost = tail * (law.scale * 40) + 1e-14 * size
    return Found(
        bias, np.full(n, lost), "enumeration", sums[1], float(tail * size**2 + 1e-12 * sums[1].max()), sums[2], float(tail) + 1e-12,
        T=lifted if rule == "simplex" else None, T_error=lost,
    )  # fmt: skip


def by_directions(x, a, law: Law) -> Found:
    """pos of two or three entities under continuous noise, a sum of either sign included: an integral over directions."""
    from types import SimpleNamespace

    from support.oracles.directions import blocks

    n = x.size
    truth = truth_of("pos", x, a)
    sums, whole = np.zeros((3, n)), 0.0
    for z, up, down in blocks(x, a, SimpleNamespace(spread=law.scale, name=law.kind)):
        for side, weight in ((z, up), (-z, down)):
            out = outputs("pos", side / a, a, 1.0, None)
            sums[0] += weight @ out
            sums[1] += weight @ (out - truth) ** 2
            sums[2] += weight @ (out == 0.0)
            whole += float(weight.sum())
    off = abs(whole - 1)
    error = np.full(n, 3 * off + 2e-12)
    # a clipped face of the projection is reached at a plane that panels break at, so P(0) is as good as the rest
    return Found(
        sums[0] / whole - truth,
        error,
        "integral over directions",
        sums[1] / whole,
        float(error[0]),
        sums[2] / whole,
        float(100 * error[0]),
    )
