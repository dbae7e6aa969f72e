"""The nine rules from their definitions (docs/theory.md, docs/threshold.md), row by row in plain NumPy."""

from __future__ import annotations

import numpy as np

RELEASES = ("none", "nonnegative", "sum", "sum-clipped", "simplex", "simplex-threshold")
SHARES = ("baseline", "pos", "pos-threshold")


def projected(y: np.ndarray, total: np.ndarray) -> np.ndarray:
    """Each row onto {v >= 0, sum v = total}: (y - m)_+ with the m that the sorted row gives (Held, Wolfe and Crowder 1974)."""
    total = np.broadcast_to(np.asarray(total, dtype=float), (len(y),))
    u = -np.sort(-y, axis=1)
    excess = (np.cumsum(u, axis=1) - total[:, None]) / np.arange(1, y.shape[1] + 1)
    last = np.maximum(np.sum(u > excess, axis=1) - 1, 0)
    m = np.where(total > 0, excess[np.arange(len(y)), last], u[:, 0])
    return np.maximum(y - m[:, None], 0.0)


def kept(z: np.ndarray, tau: np.ndarray, steepness: float, total) -> np.ndarray:
    """Each row: u = z - r; a jump keeps u where u > tau, a ramp min(u, s (u - tau)_+); r makes the sum the total."""
    total = np.broadcast_to(np.asarray(total, dtype=float), (len(z),))
    return _jumped(z, tau, total) if np.isinf(steepness) else _ramped(z, tau, steepness, total)


def _jumped(z: np.ndarray, tau: np.ndarray, total: np.ndarray) -> np.ndarray:
    """Entities enter at their edges z - tau, from the highest down; the first entry that reaches the total ends the walk.

    Where it is reached by an entry itself, r is that edge, and all that share it get the same part of their tau.
    """
    edge = z - tau
    order = np.argsort(-edge, axis=1, kind="stable")
    e, value, t = (np.take_along_axis(np.broadcast_to(v, z.shape), order, axis=1) for v in (edge, z, tau))
    n = z.shape[1]
    before = np.cumsum(value, axis=1) - value - np.arange(n) * e  # what those above keep at this edge
    reached = before + t >= total[:, None]
    k = np.where(reached.any(axis=1), np.argmax(reached, axis=1), n)
    at = np.arange(len(z))
    inside = (k < n) & (before[at, np.minimum(k, n - 1)] < total)
    first = np.cumsum(value, axis=1)
    count = np.maximum(k, 1)
    r = np.where(inside, e[at, np.minimum(k, n - 1)], (first[at, count - 1] - total) / count)
    r = r[:, None]
    slack = 1e-12 * (np.abs(r) + np.abs(edge))
    tied = inside[:, None] & (np.abs(edge - r) <= slack)
    full = (edge > r) & ~tied
    out = np.where(full, z - r, 0.0)
    rest = total - out.sum(axis=1)
    height = np.where(tied, tau, 0.0)
    whole = height.sum(axis=1)
    part = np.where(whole > 0, rest / np.where(whole > 0, whole, 1.0), 0.0)
    return np.where(total[:, None] > 0, out + height * part[:, None], 0.0)


def _ramped(z: np.ndarray, tau: np.ndarray, s: float, total: np.ndarray) -> np.ndarray:
    """The sum of all amounts is piecewise linear in r: its values at every corner, and the line between two of them."""
    top = s * tau / (s - 1)
    corners = np.concatenate([z - tau, z - top], axis=1)
    slope = np.concatenate([np.full(z.shape, s), np.full(z.shape, 1 - s)], axis=1)
    level = np.concatenate([s * (z - tau), z - s * (z - tau)], axis=1)
    order = np.argsort(-corners, axis=1, kind="stable")
    c, w, v = (np.take_along_axis(m, order, axis=1) for m in (corners, slope, level))
    w, v = np.cumsum(w, axis=1), np.cumsum(v, axis=1)
    at_corner = v - w * c
    k = np.sum(at_corner < total[:, None], axis=1) - 1  # the last corner that lies above the root
    at = np.arange(len(z))
    k = np.maximum(k, 0)
    r = (v[at, k] - total) / w[at, k]
    u = z - r[:, None]
    out = np.where(u > tau, np.minimum(u, s * (u - tau)), 0.0)
    return np.where(total[:, None] > 0, out, 0.0)


def outputs(
    rule: str, noisy: np.ndarray, a: np.ndarray, total: float, threshold: tuple[float, float] | None
) -> np.ndarray:
    """The rule on each row of noisy counts of one group: counts for a release, shares for an allocation."""
    n = noisy.shape[1]
    if rule == "none":
        return noisy
    if rule == "nonnegative":
        return np.maximum(noisy, 0.0)
    if rule in ("sum", "sum-clipped"):
        y = noisy + (total - noisy.sum(axis=1, keepdims=True)) / n
        return y if rule == "sum" else np.maximum(y, 0.0)
    if rule == "simplex":
        return projected(noisy, total)
    if rule == "simplex-threshold":
        return kept(noisy, np.full(n, threshold[0]), threshold[1], total)
    z = noisy * a
    if rule == "baseline":
        z = np.maximum(z, 0.0)
    s = z.sum(axis=1)
    lost = np.abs(s) <= 1e-12 * np.abs(z).sum(axis=1)
    z = z * np.where(s < 0, -1.0, 1.0)[:, None]
    size = np.where(lost, 1.0, np.abs(s))
    if rule == "baseline":
        out = z
    elif rule == "pos":
        out = projected(z, size)
    else:
        out = kept(z, a * threshold[0], threshold[1], size)
    return np.where(lost[:, None], a / a.sum(), out / size[:, None])


def truth_of(rule: str, x: np.ndarray, a: np.ndarray) -> np.ndarray:
    """P(x): counts, or shares of what is due (equal counts where all are 0)."""
    if rule not in SHARES:
        return x
    due = a * x if x.sum() > 0 else a
    return due / due.sum()
