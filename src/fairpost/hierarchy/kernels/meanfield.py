"""Mean field: every family with its threshold m replaced by one number.

psi(a) = E[kept(a + eta)], kept(u) = (u)_+ or a ramp min(u, s (u - tau)_+) or a jump (u where u > tau). All three follow from the
upper moments U_k(a) = E[(a + eta)^k; a + eta > 0], k = 0, 1, 2, at one or two points:

    ramp of width w = tau/(s - 1)    psi = s U_1(a - tau) - (s - 1) U_1(a - tau - w),   psi' = s U_0(a - tau) - (s - 1) U_0(a - tau - w)
    jump                             psi = U_1(a - tau) + tau U_0(a - tau),             psi' = U_0(a - tau) + tau p(tau - a)

Whole-number noise: U_k from tables T_k(j) = E[eta^k; eta >= j], j = floor(-a) + 1: U_1 = a T_0 + T_1, U_2 = a^2 T_0 + 2 a T_1 + T_2.

For each parent solve sum_c psi(x_c - m) = x_p + B_p; the left side is convex where kept is (u)_+ and falls in any case, so
Newton's steps are kept inside a bracket. Then B_c = psi(x_c - m) - x_c. An only child has B_c = B_p.

The mean squared error is the delta method's. With xi_c = kept(y_c - m) - psi_c, P_c = psi'_c and K = sum P, the threshold of a
run is about m + (sum xi - (v_p - E v_p))/K, so v_c - E v_c is about xi_c - P_c (sum xi - delta_p)/K and

    Var v_c = X_c (1 - 2 P_c/K) + P_c^2 (sum X + Var v_p)/K^2,   X_c = Var xi_c.

The next term of the expansion, which mean field leaves out and which is its stated error, has the same ingredients: the run's
threshold is correlated with whether c is kept, E[1_c (m_run - m)] = psi_c (1 - P_c)/K, and it varies, Var m = (sum X + Var v_p)/K^2:

    R_c = -psi_c (1 - P_c)/K + p_c Var m / 2 - P_c d,   with d such that the R_c of a family add up to R_p,

where p_c is the density of the noise at the threshold (for whole numbers the mass of the point above it).
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpost.compiled import kernel

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
LAPLACE, GAUSSIAN = 0, 1
_ROOT_TAU = math.sqrt(2.0 * math.pi)
_ROOT_TWO = math.sqrt(2.0)
STEPS = 300
CLOSE = 1e-13  # of the target and of the spread


@kernel(inline="always", error_model="numpy")
def _table(a: float, tails: Floats) -> Any:
    """The place of j = floor(-a) + 1 in the tables, which hold j = -reach .. reach + 1."""
    size = tails.shape[1]
    reach = (size - 2) >> 1
    j = np.floor(-a) + 1.0
    j = j if j > -reach else -float(reach)
    j = j if j < reach + 1 else float(reach + 1)
    return int(j) + reach


@kernel(inline="always", error_model="numpy")
def upper1(a: float, kind: int, spread: float, tails: Floats) -> Any:
    """U_1(a) and U_0(a)."""
    if kind == GAUSSIAN:
        t = a / spread
        P = 0.5 * math.erfc(-t / _ROOT_TWO)
        return a * P + spread * math.exp(-0.5 * t * t) / _ROOT_TAU, P
    if kind == LAPLACE:
        half = 0.5 * math.exp(-abs(a) / spread)
        return (a + spread * half, 1.0 - half) if a >= 0.0 else (spread * half, half)
    at = _table(a, tails)
    P = tails[0, at]
    return a * P + tails[1, at], P


@kernel(error_model="numpy")
def upper2(a: float, kind: int, spread: float, tails: Floats) -> Any:
    """U_2(a)."""
    if kind == GAUSSIAN:
        t = a / spread
        P = 0.5 * math.erfc(-t / _ROOT_TWO)
        return (a * a + spread * spread) * P + a * spread * math.exp(-0.5 * t * t) / _ROOT_TAU
    if kind == LAPLACE:
        tail = spread * spread * math.exp(-abs(a) / spread)
        return a * a + 2.0 * spread * spread - tail if a >= 0.0 else tail
    at = _table(a, tails)
    return a * a * tails[0, at] + 2.0 * a * tails[1, at] + tails[2, at]


@kernel(error_model="numpy")
def density(a: float, kind: int, spread: float, tails: Floats) -> Any:
    """The density of a + eta at 0; for whole numbers the mass of the first point above it."""
    if kind == GAUSSIAN:
        t = a / spread
        return math.exp(-0.5 * t * t) / (spread * _ROOT_TAU)
    if kind == LAPLACE:
        return 0.5 * math.exp(-abs(a) / spread) / spread
    at = _table(a, tails)
    return tails[0, at] - tails[0, at + 1] if at + 1 < tails.shape[1] else 0.0


@kernel(inline="always", error_model="numpy")
def psi_of(a: float, kind: int, spread: float, tails: Floats, tau: float, steep: float) -> Any:
    """psi(a) and psi'(a)."""
    if steep == 1.0:
        return upper1(a, kind, spread, tails)
    first, P = upper1(a - tau, kind, spread, tails)
    if steep == np.inf:
        return first + tau * P, P + tau * density(a - tau, kind, spread, tails)
    second, Q = upper1(a - tau - tau / (steep - 1.0), kind, spread, tails)
    return steep * first - (steep - 1.0) * second, steep * P - (steep - 1.0) * Q


@kernel(error_model="numpy")
def square_of(a: float, kind: int, spread: float, tails: Floats, tau: float, steep: float) -> Any:
    """E[kept(a + eta)^2]: a ramp is s^2 (u - tau)^2 from tau to c = tau + w and u^2 from there on."""
    if steep == 1.0:
        return upper2(a, kind, spread, tails)
    w = 0.0 if steep == np.inf else tau / (steep - 1.0)
    c = tau + w
    first, P = upper1(a - c, kind, spread, tails)
    second = upper2(a - c, kind, spread, tails)
    beyond = second + 2.0 * c * first + c * c * P
    if steep == np.inf:
        return beyond
    return beyond + steep * steep * (upper2(a - tau, kind, spread, tails) - second - 2.0 * w * first - w * w * P)


@kernel(error_model="numpy")
def solve(
    x: Floats, V: Floats, target: float, kind: int, spreads: Floats, tails: Floats, tau: float, steep: float, guess: float
) -> float:  # fmt: skip
    """m with sum psi(x_c - m V_c) = target; V and spreads have one entry, or one a child. Infinite for a target of 0."""
    if target <= 0.0:
        return np.inf
    many = V.size > 1
    low, high, m = -np.inf, np.inf, guess
    close = CLOSE * (target + spreads[0])
    for _ in range(STEPS):
        total, slope = 0.0, 0.0
        for i in range(x.size):
            weight, spread = (V[i], spreads[i]) if many else (V[0], spreads[0])
            value, P = psi_of(x[i] - m * weight, kind, spread, tails, tau, steep)
            total += value
            slope += P * weight
        over = total - target
        if abs(over) <= close:
            break
        if over > 0.0:
            low = m
        else:
            high = m
        step = m + over / slope if slope > 0.0 else np.nan
        if not low < step < high:
            if low == -np.inf:
                step = m - 2.0 * (abs(over) / x.size + spreads[0]) / V[0]
            elif high == np.inf:
                step = m + 2.0 * (abs(over) / x.size + spreads[0]) / V[0]
            else:
                step = 0.5 * (low + high)
        if step == m:
            break
        m = step
    return m


@kernel(error_model="numpy")
def level_field(
    child: Ints, first: int, last: int, base: int, x: Floats, kind: int, spreads: Floats, tails: Floats, weights: Floats, tau: float,
    steep: float, bias: Floats, m: Floats, P: NDArray[np.float32],
) -> None:  # fmt: skip
    """Biases, thresholds and P of one level, parents first <= p < last.

    weights has one entry (1: equal variances, noise spreads[0]) or one a node: pooled variances V, noise sqrt V, and no P. Arrays are
    indexed by node, P of the children from `base` on.
    """
    many = weights.size > 1
    for p in range(first, last):
        a, b = child[p], child[p + 1]
        if b - a == 1:
            bias[a], m[p] = bias[p], np.inf
            continue
        V = weights[a:b] if many else weights
        own = np.sqrt(V) if many else spreads
        threshold = solve(x[a:b], V, x[p] + bias[p], kind, own, tails, tau, steep, 0.0)
        m[p] = threshold
        for i in range(b - a):
            value, slope = 0.0, 0.0
            if threshold < np.inf:
                weight, spread = (V[i], own[i]) if many else (1.0, spreads[0])
                value, slope = psi_of(x[a + i] - threshold * weight, kind, spread, tails, tau, steep)
            bias[a + i] = value - x[a + i]
            if not many:
                P[a + i - base] = slope


@kernel(error_model="numpy")
def spread_out(
    child: Ints, first: int, last: int, x: Floats, kind: int, spreads: Floats, tails: Floats, weights: Floats, tau: float,
    steep: float, bias: Floats, m: Floats, variance: Floats, remainder: Floats,
) -> None:  # fmt: skip
    """Variances and the next term of the expansion of one level; arrays are indexed by node.

    weights as in `level_field`; where they are pooled variances v = kept(z - m V), K = sum P V, and each formula above has V_c beside
    P_c.
    """
    many = weights.size > 1
    for p in range(first, last):
        a, b = child[p], child[p + 1]
        if b - a == 1:
            variance[a], remainder[a] = variance[p], remainder[p]
            continue
        K, total, added = 0.0, 0.0, 0.0
        for c in range(a, b):
            V = weights[c] if many else 1.0
            spread = np.sqrt(V) if many else spreads[0]
            if m[p] < np.inf:
                value, slope = psi_of(x[c] - m[p] * V, kind, spread, tails, tau, steep)
                square = square_of(x[c] - m[p] * V, kind, spread, tails, tau, steep)
                variance[c], remainder[c] = max(square - value * value, 0.0), slope
                total += variance[c]
                K += slope * V
            else:
                variance[c], remainder[c] = 0.0, 0.0
        if K <= 0.0:
            continue
        shaking = (total + variance[p]) / (K * K)
        for c in range(a, b):
            V = weights[c] if many else 1.0
            spread, chance = np.sqrt(V) if many else spreads[0], remainder[c]
            bend = 0.5 * density(x[c] - m[p] * V - tau, kind, spread, tails) * (steep if 1.0 < steep < np.inf else 1.0)
            pull = chance * V / K
            variance[c] = max(variance[c] * (1.0 - 2.0 * pull) + pull * pull * (total + variance[p]), 0.0)
            added += bend * V * V * shaking - (bias[c] + x[c]) * max(1.0 - chance, 0.0) * V / K
        d = (added - remainder[p]) / K
        for c in range(a, b):
            V = weights[c] if many else 1.0
            spread, chance = np.sqrt(V) if many else spreads[0], remainder[c]
            bend = 0.5 * density(x[c] - m[p] * V - tau, kind, spread, tails) * (steep if 1.0 < steep < np.inf else 1.0)
            rest = bend * V * V * shaking - (bias[c] + x[c]) * max(1.0 - chance, 0.0) * V / K
            remainder[c] = rest - chance * V * d
