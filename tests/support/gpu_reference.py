"""Every kernel's arithmetic once more in plain NumPy: no teams, no registers, no pieces; slow and short.

Noise is by definition (words of one counter each); families are solved by sorting, where the kernels search; sums over runs are
NumPy's. Compared with the processor's backend wherever the tests run, and with a GPU where there is one.
"""

import numpy as np

from support.rules import projected

U = np.uint64
LOW = U(0xFFFFFFFF)


def words(n, seed, run, attempt=0):
    """The word of each draw, by Philox4x32-10 on arrays."""
    c0 = np.arange((n + 1) // 2, dtype=U)
    c1, c2, c3 = (np.full_like(c0, U(v)) for v in (attempt, run & 0xFFFFFFFF, run >> 32))
    k0, k1 = seed & 0xFFFFFFFF, seed >> 32
    for _ in range(10):
        p0, p1 = U(0xD2511F53) * c0, U(0xCD9E8D57) * c2
        c0, c1, c2, c3 = (p1 >> U(32)) ^ c1 ^ U(k0), p1 & LOW, (p0 >> U(32)) ^ c3 ^ U(k1), p0 & LOW
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return np.stack([c0 | (c1 << U(32)), c2 | (c3 << U(32))], axis=1).reshape(-1)[:n]


def uniform(w):
    return ((w >> U(1)).astype(np.float64) + 0.5) * 2.0**-63


def normal(n, seed, run, attempt=0):
    """Box and Muller with NumPy's logarithm, sine and cosine."""
    w = words(n + n % 2, seed, run, attempt).reshape(-1, 2)
    radius = np.sqrt(-2.0 * np.log(uniform(w[:, 0])))
    angle = ((w[:, 1].view(np.int64) >> 2).astype(np.float64) + 0.5) * 2.0**-62 * (np.pi / 2)
    sine, cosine = radius * np.sin(angle), radius * np.cos(angle) * np.where(w[:, 1] & U(1), -1.0, 1.0)
    swap = (w[:, 1] & U(2)) != 0
    return np.stack([np.where(swap, sine, cosine), np.where(swap, cosine, sine)], axis=1).reshape(-1)[:n]


def draws(kind, spread, n, seed, run):
    """One run's noise: 0 Laplace, 1 Gaussian, 2 discrete Laplace, 3 discrete Gaussian."""
    w = words(n, seed, run)
    sign = np.where(w & U(1), -1.0, 1.0)
    if kind == 0:
        return -sign * spread * np.log(uniform(w))
    if kind == 1:
        return spread * normal(n, seed, run)
    if kind == 2:
        shift = np.log(2.0 / (1.0 + np.exp(-1.0 / spread)))
        return sign * np.floor(spread * (shift - np.log(uniform(w)))) + 0.0
    if spread <= 6.0:
        k = np.arange(1, int(np.ceil(9.6 * spread)) + 1)
        mass = np.exp(-0.5 * (k / spread) ** 2)
        tail = np.cumsum(mass[::-1])[::-1] / (0.5 + mass.sum())
        return sign * (uniform(w)[:, None] <= tail).sum(axis=1) + 0.0
    return _rejected(spread, n, seed, run)


def _rejected(sigma, n, seed, run):
    """The number nearest to a Gaussian, kept with a probability that makes its weights those of the discrete Gaussian."""
    out, attempt = np.full(n, np.nan), 0
    t, weight = (0.5 * part for part in np.polynomial.legendre.leggauss(12))
    weight = weight * np.exp(-0.5 * (t / sigma) ** 2)
    while (left := np.isnan(out)).any():
        k, w = np.rint(sigma * normal(n, seed, run, attempt)), words(n, seed, run, attempt)
        first = (w >> np.where(np.arange(n) % 2, U(2), U(0))) & U(0xFFFF)
        v = (first.astype(np.float64) + uniform(words(n, seed, run, attempt + 1))) * 2.0**-16
        values, which = np.unique(k, return_inverse=True)
        g = np.cosh(values[:, None] / sigma**2 * t) @ weight / weight.sum()
        out = np.where(left & (v * g[which] <= 1.0), k + 0.0, out)
        attempt += 2
    return out


def project(y, target):
    """(y - m)_+ of sum `target`."""
    return projected(y[None], target)[0]


def weighted(z, V, target):
    """(z - m V)_+ of sum `target`: the set of those above grows as z / V falls."""
    if target <= 0:
        return np.zeros_like(z)
    order = np.argsort(-z / V)
    m = (np.cumsum(z[order]) - target) / np.cumsum(V[order])
    above = np.flatnonzero((z / V)[order] > m)[-1]
    return np.maximum(z - m[above] * V, 0.0)


def amount(u, tau, steep):
    """min(u, s (u - tau)_+)."""
    with np.errstate(invalid="ignore"):
        return np.where(u > tau, u if np.isinf(steep) else np.minimum(u, steep * (u - tau)), 0.0)


def keep(z, tau, steep, target, V=1.0):
    """What a threshold keeps of z, of sum `target`: bisection on r in z - r V, then whoever stands in the last jump shares the rest."""
    if target <= 0:
        return np.zeros_like(z)
    reach = 1.0 + np.abs(z).max() + target + np.max(tau)
    low, high = -2 * reach / np.min(V), 2 * reach / np.min(V)
    for _ in range(300):
        mid = 0.5 * (low + high)
        low, high = (mid, high) if amount(z - mid * V, tau, steep).sum() > target else (low, mid)
    least, most = amount(z - high * V, tau, steep), amount(z - low * V, tau, steep)
    more = (most - least).sum()
    return least + (most - least) * ((target - least.sum()) / more if more > 0 else 0.0)


def outcome(name, X, a, total, tau, steep):
    """pi(X) of one group: counts for a release, shares for an allocation; and whether the draw is degenerate."""
    n = X.size
    if name in ("none", "nonnegative"):
        return (X if name == "none" else np.maximum(X, 0.0)), False
    if name in ("sum", "sum-clipped", "simplex", "simplex-threshold"):
        moved = X + (total - X.sum()) / n
        if name == "sum":
            return moved, False
        if name == "sum-clipped":
            return np.maximum(moved, 0.0), False
        return (project(X, total) if name == "simplex" else keep(X, np.full(n, tau), steep, total)), False
    z = a * X
    if name == "baseline":
        clipped = np.maximum(z, 0.0)
        return (clipped / clipped.sum() if clipped.sum() > 0 else a / a.sum()), clipped.sum() == 0
    S = z.sum()
    if S == 0:
        return a / a.sum(), True
    z, S = z * np.sign(S), abs(S)
    return (project(z, S) if name == "pos" else keep(z, a * tau, steep, S)) / S, a @ X < 0


def moments(d, e, zero):
    """Rows of runs to the five planes of a block: mean and squared deviations of d and of e, and zeros."""
    return np.stack([d.mean(0), ((d - d.mean(0)) ** 2).sum(0), e.mean(0), ((e - e.mean(0)) ** 2).sum(0), zero.sum(0)])


def tree_runs(spec, seed, runs):
    """Sums of r, r^2 and e^2 of all nodes over the runs 0, 1, ..., node by node, from the definitions."""
    out = np.zeros((3, spec.x.size))
    for run in range(runs):
        y = spec.x + _tree_noise(spec, seed, run)
        v, r = (_pooled if spec.rule == "pooled" else _plain)(spec, y)
        e = v - spec.x
        f = v - np.floor(v)
        out += [r, r * r, e * e + (f * (1.0 - f) if spec.whole else 0.0)]
        out[:, : spec.offsets[spec.top + 1]] = 0.0
    return out


def _tree_noise(spec, seed, run):
    out = np.zeros(spec.x.size)
    for level, spread in enumerate(spec.spreads):
        if spread > 0:
            here = slice(spec.offsets[level], spec.offsets[level + 1])
            out[here] = draws(spec.kind, spread, spec.x.size, seed, run)[here]
    return out


def _families(spec):
    for level in range(max(spec.top, 0), spec.offsets.size - 2):
        for p in range(spec.offsets[level], spec.offsets[level + 1]):
            yield level + 1, p, slice(spec.child[p], spec.child[p + 1])


def _family(y, target, tau, steep):
    if y.size == 1:
        return np.array([target])
    return project(y, target) if steep == 1.0 else keep(y, np.full(y.size, tau), steep, target)


def _remainder(spec, level, p, kids, y, v, q, gain):
    """r of a family (`hierarchy.kernels.runs`)."""
    tau, steep, m = spec.taus[level], spec.steeps[level], spec.m[p]
    if y.size == 1:
        return gain - spec.offset[kids]
    if m == np.inf:
        return v
    P = np.concatenate([spec.P_above, spec.P])[kids].astype(np.float64)
    return v - (np.maximum(y - m, 0.0) if steep == 1.0 else amount(y - m, tau, steep)) + P * q


def _plain(spec, y):
    v, lin, r = y.copy(), y.copy(), np.zeros(y.size)
    if spec.top < 0:
        v[0] = max(y[0], 0.0)
        r[0] = v[0] - y[0] - spec.offset[0]
    for level, p, kids in _families(spec):
        q = (y[kids].sum() - lin[p]) / y[kids].size
        v[kids] = _family(y[kids], v[p], spec.taus[level], spec.steeps[level])
        lin[kids] = y[kids] - q
        r[kids] = _remainder(spec, level, p, kids, y[kids], v[kids], q, v[p] - lin[p])
    return v, r


def _pooled(spec, y):
    leaves = spec.offsets.size - 2
    z, S, V = y.copy(), np.zeros(spec.inner), np.concatenate([spec.V, np.full(spec.n, spec.s2[-1])])
    for level in range(leaves - 1, -1, -1):
        for p in range(spec.offsets[level], spec.offsets[level + 1]):
            S[p], own, W = z[spec.child[p] : spec.child[p + 1]].sum(), spec.s2[level], spec.W[p]
            z[p] = (y[p] * W + S[p] * own) / (W + own) if own > 0 else y[p]
    u, v, r = z.copy(), z.copy(), np.zeros(y.size)
    for p in range(spec.inner):
        kids = slice(spec.child[p], spec.child[p + 1])
        if spec.W[p] > 0:
            u[kids] = z[kids] + V[kids] * ((u[p] - S[p]) / spec.W[p])
    if spec.top < 0:
        v[0] = max(z[0], 0.0)
    for level, p, kids in _families(spec):
        tau, steep = spec.taus[level], spec.steeps[level]
        if level == leaves or v[kids].size == 1:
            v[kids] = _family(z[kids], v[p], tau, steep)
        elif steep == 1.0:
            v[kids] = weighted(z[kids], V[kids], v[p])
        else:
            v[kids] = keep(z[kids], tau, steep, v[p], V[kids])
        if level == leaves:
            q = (y[kids].sum() - u[p]) / y[kids].size
            r[kids] = _remainder(spec, level, p, kids, y[kids], v[kids], q, v[p] - u[p])
    r[: spec.inner] = (v - u)[: spec.inner]
    return v, r
