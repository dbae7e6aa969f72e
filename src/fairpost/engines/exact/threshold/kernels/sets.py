"""What `pos-threshold` gives where the entities of one set are dropped; symbols as in engines/exact/threshold/sets.py."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpost.compiled import kernel
from fairpost.engines.exact.kernels.rows import FAST
from fairpost.engines.exact.threshold.kernels.parts import density, dropped, kept

Floats = NDArray[np.float64]
Complexes = NDArray[np.complex128]
Places = NDArray[np.int64]

TILTS = 400
"""The most nodes t."""
LIFT = 4.0
"""t S = e^{y - e^{-y}}/LIFT: where t S = 1 the second term bends little, and steps of y converge as those of log t would."""
NEVER = 1e-30
"""A smaller chance of all that are kept is not looked at."""
FEET = 0.5, 0.8
"""Where a contour crosses the real axis, in units of the least 1/a: Laplace noise has poles at 0 and 1, Gaussian noise has one at 0."""
TURNS = math.pi / 4, math.pi / 8
"""By how much it turns from upright, in the middle of where it may: Gaussian transforms grow from pi/4 on."""


@kernel(error_model="numpy", fastmath=FAST)
def _spread(
    s: Any,
    t: Floats,
    number: int,
    whole: Any,
    edges: Any,
    each: Complexes,
    work: Floats,
    q: Floats,
    q2: Floats,
    q3: Floats,
) -> None:
    """Add one s to the Q_m of every t: `whole` to q[1], q[2], q[3], `edges` to q[0] (m = 1), `each` to q2 and q3."""
    re, im = s.real, s.imag
    fr, fi, gr, gi = whole.real, whole.imag, edges.real, edges.imag
    o0, o1, w0, w1, h0, h1 = work[0], work[1], work[2], work[3], work[4], work[5]
    for u in range(number):
        x = re + t[u]
        over = 1.0 / (x * x + im * im)
        o0[u], o1[u] = x * over, -im * over
    for u in range(number):
        w0[u], w1[u] = o0[u] * o0[u] - o1[u] * o1[u], 2.0 * o0[u] * o1[u]
    for u in range(number):
        h0[u], h1[u] = o0[u] * w0[u] - o1[u] * w1[u], o0[u] * w1[u] + o1[u] * w0[u]
    for u in range(number):
        q[0, u] += gr * o0[u] - gi * o1[u]
    for u in range(number):
        q[1, u] += fr * o0[u] - fi * o1[u]
    for u in range(number):
        q[2, u] += fr * w0[u] - fi * w1[u]
    for u in range(number):
        q[3, u] += fr * h0[u] - fi * h1[u]
    for i in range(each.size):
        er, ei = each[i].real, each[i].imag
        if er == 0.0 and ei == 0.0:
            continue
        for u in range(number):
            q2[i, u] += er * w0[u] - ei * w1[u]
        for u in range(number):
            q3[i, u] += er * h0[u] - ei * h1[u]


@kernel(error_model="numpy")
def _subsets(skip: int, turns: Complexes, whole: Complexes, edge: Complexes, held: Complexes) -> Any:
    """The sum over B of turns_B prod_B whole prod_{not B} edge, without the place `skip`."""
    held[0], size = 1.0, 1
    for j in range(whole.size):
        for b in range(size):
            held[size + b] = 0.0 if j == skip else held[b] * whole[j]
        if j != skip:
            for b in range(size):
                held[b] *= edge[j]
        size *= 2
    out = 0j
    for b in range(size):
        out += held[b] * turns[b]
    return out


@kernel(error_model="numpy")
def _kept(
    gaussian: bool,
    a: Floats,
    x: Floats,
    tau: float,
    others: Places,
    r: float,
    more: float,
    tilt: float,
    quiet: float,
    t: Floats,
    sums: Floats,
    of: Floats,
) -> int:
    """Nodes t, the first of them 0, for S from the least that is kept to its mean and `more`; returns their number.

    sums: their weights, the product of U_j, the sum of f_j e^{-t tau_j}/U_j; of: for each that is kept the means of z - r and (z - r)^2
    under e^{-t(z - r)}, and its part of that sum.
    """
    omega, product, hazards = sums
    first, second, hazard = of
    size, least, number = more, 0.0, 1
    for j in others:
        size += a[j] * (tau + kept(gaussian, r / a[j] + tau - x[j], 0.0)[1])
        least += a[j] * tau
    t[0], omega[0] = 0.0, 0.0
    if others.size > 0:
        v, top = -math.log(quiet), math.log(quiet * LIFT * size / least)
        while v <= top and number < TILTS:
            e = math.exp(-v)
            t[number] = math.exp(v - e) / (LIFT * size)
            omega[number] = tilt * t[number] * (1.0 + e)
            number, v = number + 1, v + tilt
    product[:number], hazards[:number] = 1.0, 0.0
    for i in range(others.size):
        scale = a[others[i]]
        c, rise = r / scale + tau - x[others[i]], scale * tau
        for u in range(number):
            l0, l1, l2, f = kept(gaussian, c, t[u] * scale)
            first[i, u] = rise + scale * l1
            second[i, u] = rise * rise + 2.0 * rise * scale * l1 + scale * scale * l2
            product[u] *= l0 * math.exp(-t[u] * rise)
            hazard[i, u] = f / scale
            hazards[u] += hazard[i, u]
    return number


@kernel(error_model="numpy")
def add_none(gaussian: bool, a: Floats, x: Floats, tau: float, tilt: float, quiet: float, out: Floats) -> float:
    """Where nobody is dropped, r = 0: add E[share] and E[share^2] to out[0] and out[1]; returns the chance."""
    n = a.size
    t, sums, of = np.empty(TILTS), np.empty((3, TILTS)), np.empty((3, n, TILTS))
    number = _kept(gaussian, a, x, tau, np.arange(n), 0.0, 0.0, tilt, quiet, t, sums, of)
    for u in range(1, number):
        weight = sums[0, u] * sums[1, u]
        for j in range(n):
            out[0, j] += weight * of[0, j, u]
            out[1, j] += weight * t[u] * of[1, j, u]
    return float(sums[1, 0])


@kernel(error_model="numpy")
def add_set(
    gaussian: bool,
    a: Floats,
    x: Floats,
    tau: float,
    inside: Places,
    others: Places,
    r: Floats,
    weight: Floats,
    limit: float,
    limits: Floats,
    step: float,
    tilt: float,
    quiet: float,
    out: Floats,
) -> float:
    """Add to out[0], out[1], out[2] E[share], E[share^2] and P(share = 0) of every entity; returns the chance.

    `inside` are dropped, `others` kept; up to `limit` and limits[e] the set and the set without e matter. `step` is the contour's,
    `tilt` that of log t; e^-quiet is nothing.
    """
    n, m, k = a.size, inside.size, others.size
    big, small, jump = np.max(a[inside]), np.min(a[inside]), tau * np.sum(a[inside])
    ahead, turns, held = np.empty(1 << m), np.empty(1 << m, np.complex128), np.empty(1 << m, np.complex128)
    whole, edge, lift, each = np.empty((4, m), np.complex128)
    before = np.empty(m + 1, np.complex128)
    cut, at = np.empty(m), np.empty(m)
    t, sums, of = np.empty(TILTS), np.empty((3, TILTS)), np.empty((3, k, TILTS))
    omega, product, hazards = sums
    first, second, hazard = of
    work, q, q1, q2, q3 = (
        np.empty((6, TILTS)),
        np.empty((4, TILTS)),
        np.empty(m),
        np.empty((m, TILTS)),
        np.empty((m, TILTS)),
    )
    foot, turn, least = FEET[int(gaussian)], TURNS[int(gaussian)], math.exp(-quiet)
    cosine, sine = math.cos(turn), math.sin(turn)
    chance = 0.0
    for place in range(r.size):
        here, mass = r[place], weight[place]
        y = n * here + jump
        number = _kept(gaussian, a, x, tau, others, here, big * tau, tilt, quiet, t, sums, of)
        if product[0] < NEVER:
            continue
        # the dropped ones, along the contour
        back = 0.0
        for i in range(m):
            j = inside[i]
            cut[i] = here / a[j] + tau - x[j]
            at[i] = density(gaussian, cut[i]) / a[j]
            back += a[j] * max(cut[i], 0.0)
        left, own = back < y, here < limit
        if not left:
            ahead[0], size_b = y, 1
            for i in range(m):
                for b in range(size_b):
                    ahead[size_b + b] = ahead[b] - a[inside[i]] * max(cut[i], 0.0)
                size_b *= 2
        q0 = 0.0
        q[:, :number], q1[:], q2[:, :number], q3[:, :number] = 0.0, 0.0, 0.0, 0.0
        rho = min(1.0 / big, 0.5 / (foot * y))
        end = math.ceil(math.log(2.0 * max(quiet / (y * sine), 1e4 / small) / rho) / step)
        for side in (1.0, -1.0):
            if side < 0.0 and left:
                break
            most = 0.0
            for v in range(end + 1):
                sh, ch = math.sinh(step * v), math.cosh(step * v)
                s = rho * complex(foot - side * sine * (ch - 1.0), cosine * sh)
                ds = rho * complex(cosine * ch, side * sine * sh) * (step / math.pi * (0.5 if v == 0 else 1.0))
                for i in range(m):
                    whole[i], edge[i] = dropped(gaussian, cut[i], s * a[inside[i]])
                if left:  # every term of the product: e^{s m_j} times each factor is bounded
                    before[0], after = np.exp(s * (y - back)), 1.0 + 0j
                    for i in range(m):
                        lift[i] = np.exp(s * (a[inside[i]] * max(cut[i], 0.0)))
                        whole[i] += edge[i] * lift[i]
                        before[i + 1] = before[i] * whole[i]
                    for i in range(m - 1, -1, -1):
                        each[i] = before[i] * after * lift[i]
                        after *= whole[i]
                    every = before[m]
                else:
                    for b in range(turns.size):
                        turns[b] = np.exp(s * ahead[b]) if side * ahead[b] > 0.0 else 0j
                    every = _subsets(-1, turns, whole, edge, held)
                    for i in range(m):
                        each[i] = _subsets(i, turns, whole, edge, held)
                every = every * ds if own else 0j
                edges = 0j
                for i in range(m):
                    each[i] = each[i] * ds if m > 1 and here <= limits[i] else 0j
                    edges += at[i] * each[i]
                adds = abs(every) + abs(edges) / abs(s)
                most = max(most, adds)
                if v > 10 and adds < least * most:
                    break
                q0 += every.real
                for i in range(m):
                    q1[i] += (each[i] / s).real
                _spread(s, t, number, every, edges, each, work, q, q2, q3)
        if m == 1:  # closed: z = -k r, and alone at its edge an entity gets Y
            q0 = density(gaussian, (1 - n) * here / a[inside[0]] - x[inside[0]]) / a[inside[0]] if own else 0.0
            if here < 0.0:
                q1[0] = 1.0
                for u in range(number):
                    e = math.exp(-t[u] * y)
                    q[0, u], q2[0, u], q3[0, u] = at[0] * e, y * e, 0.5 * y * y * e
        # the chances, at t = 0
        all_of = (k * q0 + q[0, 0] - q[1, 0] * hazards[0]) * product[0]
        chance += mass * all_of
        for i in range(m):
            alone = at[i] * q1[i] * product[0]
            out[2, inside[i]] += mass * (all_of - alone)
            if k == 0:
                out[:2, inside[i]] += mass * alone
        if k == 1:
            out[:2, others[0]] -= mass * q[1, 0] * hazard[0, 0] * product[0]
        # the shares
        for u in range(1, number):
            o1 = mass * omega[u] * product[u]
            o2 = o1 * t[u]
            for i in range(k):
                j = others[i]
                inner = k * q0 + q[0, u] - q[1, u] * (hazards[u] - hazard[i, u])
                f1, f2 = first[i, u] * inner, second[i, u] * inner
                if k > 1:
                    rise = a[j] * tau
                    f1 -= hazard[i, u] * (rise * q[1, u] + q[2, u])
                    f2 -= hazard[i, u] * (rise * rise * q[1, u] + 2.0 * (rise * q[2, u] + q[3, u]))
                out[0, j] += o1 * f1
                out[1, j] += o2 * f2
            for i in range(m):
                out[0, inside[i]] += o1 * at[i] * q2[i, u]
                out[1, inside[i]] += 2.0 * o2 * at[i] * q3[i, u]
    return chance
