"""Brute force for the engines: the baseline set by set, PoS over directions, pi_S+ of two and three entities."""

import math
from itertools import combinations, pairwise

import numpy as np
from scipy.integrate import quad

from fairpost.noise import Gaussian, Laplace
from support.oracles.directions import blocks
from support.rules import projected


def truth(x, a):
    return a * x / np.dot(a, x) if np.any(x) else a / a.sum()


def brute_baseline(x, a, mechanism):
    """E[BL - P], E[(BL - P)^2], P(BL_i = 0) and P(all clipped), one set of kept entities after the other.

    The others are clipped with a known probability; on the kept ones, all positive, shares depend on directions only.
    """
    n, p = x.size, truth(x, a)
    below = mechanism.cdf(-x)
    sums = np.zeros((3, n))
    for size in range(1, n + 1):
        for kept in map(list, combinations(range(n), size)):
            rest = [j for j in range(n) if j not in kept]
            chance = np.prod(below[rest])
            for v, mass in _kept_shares(x[kept], a[kept], mechanism):
                full = np.zeros((len(v), n))
                full[:, kept] = v
                sums += chance * np.stack([mass @ (full - p), mass @ (full - p) ** 2, mass @ (full == 0)])
    every = float(np.prod(below))
    equal = a / a.sum()
    return *(sums + every * np.stack([equal - p, (equal - p) ** 2, np.zeros(n)])), every


def _kept_shares(x, a, mechanism):
    if x.size == 1:
        yield np.ones((1, 1)), mechanism.sf(-x)
        return
    for z, up, down in blocks(x, a, mechanism):
        for values, mass in ((z, up), (-z, down)):
            inside = (values > 0).all(axis=1)
            yield values[inside] / values[inside].sum(axis=1, keepdims=True), mass[inside]


def projected_shares(d):
    """PoS of values on the rows of d; the sign of the sum does not matter."""
    total = d.sum(axis=1, keepdims=True)
    return projected(d / np.where(total == 0, 1.0, total), 1.0)


def brute_pos(x, a, mechanism):
    """Bias, mean squared error, P(PoS_i = 0), P(S < 0) and the total mass less 1, by the integral over directions."""
    x, a = np.asarray(x, dtype=np.float64), np.asarray(a, dtype=np.float64)
    p = a * x / np.dot(a, x) if x.any() else a / a.sum()
    sums, negative, mass = np.zeros((3, x.size)), 0.0, -1.0
    for z, up, down in blocks(x, a, mechanism):
        here, v = up + down, projected_shares(z)
        sums += np.stack([here @ (v - p), here @ (v - p) ** 2, here @ (v == 0)])
        negative += np.sum(np.where(z.sum(axis=1) > 0, down, up))
        mass += here.sum()
    return *sums, negative, mass


def tail(noise, c):
    """P(eta > c) for scale 1."""
    if noise is Gaussian:
        return 0.5 * math.erfc(c / math.sqrt(2))
    return 0.5 * math.exp(-c) if c > 0 else 1 - 0.5 * math.exp(c)


def two_deficit(noise, x, total, i):
    """D_i = int P(X_i <= m) P(X_j > m + C) dm, piece by piece."""
    low, high = x[i], x[1 - i] - total
    points = sorted({p + q for p in (low, high) for q in (-40, -8, -3, -1, 0, 1, 3, 8, 40)} | {(low + high) / 2})
    whole = 0.0
    for a, b in pairwise(points):
        whole += quad(lambda m: tail(noise, x[i] - m) * tail(noise, m + total - x[1 - i]), a, b, epsabs=0)[0]
    return whole


def difference_density(noise, u, v):
    """The density of (eta_1 - eta_3, eta_2 - eta_3): for Laplace noise int e^{-|u+w|-|v+w|-|w|} dw / 8."""
    if noise is Gaussian:
        return np.exp(-(u * u - u * v + v * v) / 3) / (2 * math.pi * math.sqrt(3))
    a, m, c = np.sort(np.stack(np.broadcast_arrays(0.0 * u * v, -u + 0 * v, -v + 0 * u)), axis=0)
    near, far = np.exp(-(m - a)), np.exp(-(c - m))
    return np.exp(-(c - a)) * (2 - near - far + (near + far) / 3) / 8


def three(noise, x, total):
    """E[v - y], E[(v - x)^2], P(v = 0) by two-dimensional Gauss-Legendre, broken where projection or density has a
    kink: y_i = 0, y_i + y_j / 2 = 0 (a second entity is clipped), u = 0, v = 0, u = v."""
    x = np.asarray(x)
    shift = (total - x.sum()) / 3
    slope = np.array([[2, -1], [-1, 2], [-1, -1]]) / 3
    lines = [(*slope[i], x[i] + shift) for i in range(3)]
    for i in range(3):
        for j in range(3):
            if i != j:
                lines.append((*(slope[i] + slope[j] / 2), x[i] + x[j] / 2 + 1.5 * shift))
    lines += [(1, 0, 0), (0, 1, 0), (1, -1, 0)]
    reach = 42.0 if noise is Laplace else 13.0
    corners = {-reach, reach}
    for (a, b, c), (d, e, f) in combinations(lines, 2):
        if abs(a * e - b * d) > 1e-9 and abs((b * f - c * e) / (a * e - b * d)) < reach:
            corners.add((b * f - c * e) / (a * e - b * d))
    node, weight = np.polynomial.legendre.leggauss(14)
    sums = np.zeros((3, 3))

    def pieces(points, longest):
        for a, b in pairwise(points):
            if b > a:
                edges = np.linspace(a, b, math.ceil((b - a) / longest) + 1)
                for p, q in pairwise(edges):
                    yield (p + q) / 2 + (q - p) / 2 * node, (q - p) / 2 * weight

    for us, uw in pieces(sorted(corners), 2.5):
        for u, wu in zip(us, uw, strict=True):
            cuts = [-(a * u + c) / b for a, b, c in lines if abs(b) > 1e-12]
            inner = list(pieces(sorted({-reach, reach, *(v for v in cuts if abs(v) < reach)}), 3.0))
            v, wv = np.concatenate([p for p, _ in inner]), np.concatenate([w for _, w in inner])
            y = x + shift + np.stack([np.full_like(v, u), v], axis=1) @ slope.T
            z = projected(y, total)
            mass = wu * wv * difference_density(noise, u, v)
            sums += np.stack([mass @ (z - y), mass @ (z - x) ** 2, mass @ (z == 0)])
    return sums
