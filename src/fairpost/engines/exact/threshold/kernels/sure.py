"""What one set of dropped entities adds to Gamma where S > 0 is sure; symbols as in engines/exact/threshold/sure.py."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpost.compiled import kernel
from fairpost.engines.exact.threshold.kernels.parts import density, fallen, kept
from fairpost.engines.exact.threshold.kernels.sets import FEET, NEVER, TURNS

Floats = NDArray[np.float64]
Complexes = NDArray[np.complex128]
Places = NDArray[np.int64]


@kernel(error_model="numpy")
def _without(
    skip: int,
    cut: Floats,
    twice: Places,
    turns: Complexes,
    parts: Complexes,
    f: Complexes,
    held: Complexes,
    more: Complexes,
) -> Any:
    """The sum over B of turns_B prod_B whole prod_{not B} (edge + eps f), without the factor `skip`, to the first order in eps.

    Returned by whether B has `skip`: without it and with it, the terms without eps and those with it. Only those of `twice` have a whole.
    """
    held[0], more[0], size = 1.0, 0.0, 1
    for bit in range(twice.size):
        j = twice[bit]
        if j == skip:
            for b in range(size):
                held[size + b], more[size + b] = held[b], more[b]
        else:
            whole, edge = parts[0, j], parts[3, j]
            for b in range(size):
                held[size + b], more[size + b] = held[b] * whole, more[b] * whole
                more[b] = more[b] * edge + held[b] * f[j]
                held[b] = held[b] * edge
        size *= 2
    here = -1
    for bit in range(twice.size):
        here = bit if twice[bit] == skip else here
    o0, o1, w0, w1 = 0j, 0j, 0j, 0j
    for b in range(size):
        if here >= 0 and b >> here & 1:
            w0 += held[b] * turns[b]
            w1 += more[b] * turns[b]
        else:
            o0 += held[b] * turns[b]
            o1 += more[b] * turns[b]
    alone, hand = 1.0 + 0j, 0j
    for j in range(f.size):
        if j != skip and cut[j] <= 0.0:
            alone, hand = alone * parts[3, j], hand * parts[3, j] + alone * f[j]
    return o0 * alone, o1 * alone + o0 * hand, w0 * alone, w1 * alone + w0 * hand


@kernel(error_model="numpy")
def add_gamma(
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
    quiet: float,
    t: Floats,
    omega: Floats,
    far: int,
    log_far: Floats,
    out: Floats,
    common: Floats,
) -> None:
    """Add to out[0 to 3] Gamma, E[(v^2 - z^2)/S^2], P(v = 0) and what went into the first; to common[u] E[r^p e^{-tS}], p = 0, 1, 2.

    `inside` are dropped, `others` kept; up to `limit` and limits[e] the set and the set without e matter. `step` is the contour's,
    e^-quiet is nothing; t, the first of them 0, and omega stand for 1/S. `far` more are never dropped: log E[e^{-tz}] of them all.
    """
    n, m, near, number = a.size + far, inside.size, others.size, t.size
    k = near + far
    big, small, jump = np.max(a[inside]), np.min(a[inside]), tau * np.sum(a[inside])
    ahead, (turns, held, more) = np.empty(1 << m), np.empty((3, 1 << m), np.complex128)
    parts, (f, lift) = np.empty((6, m), np.complex128), np.empty((2, m), np.complex128)
    up = np.empty((3, m), np.complex128)
    pre, post = np.empty((2, m + 1), np.complex128), np.empty((2, m + 1), np.complex128)
    terms = np.empty((5, m), np.complex128)
    cut, at, back = np.empty(m), np.empty(m), np.empty(m)
    product, hazards, first, hazard = (
        np.empty(number),
        np.empty(number),
        np.empty((near, number)),
        np.empty((near, number)),
    )
    # every: over 1, (s + t), (s + t)^2, (s + t)^3; edges over (s + t)
    q, qe, q0 = np.empty((3, number)), np.empty(number), 0.0
    # the set without i over (s + t)^m; g and g^2 of i, plain, over (s + t), and with an edge
    e, g, h, g0, h0, size = (
        np.empty((3, m, number)), np.empty((2, m, number)), np.empty((2, m, number)), np.empty(m), np.empty(m), np.empty(m)
    )  # fmt: skip
    foot, turn, least = FEET[int(gaussian)], TURNS[int(gaussian)], math.exp(-quiet)
    cosine, sine = math.cos(turn), math.sin(turn)
    for place in range(r.size):
        here, mass = r[place], weight[place]
        y = n * here + jump
        hazards[:] = 0.0
        for u in range(number):
            product[u] = math.exp(log_far[u] + far * t[u] * here)
        for i in range(near):
            scale = a[others[i]]
            c, rise = here / scale + tau - x[others[i]], scale * tau
            for u in range(number):
                l0, l1, _, l3 = kept(gaussian, c, t[u] * scale)
                first[i, u] = rise + scale * l1
                product[u] *= l0 * math.exp(-t[u] * rise)
                hazard[i, u] = l3 / scale
                hazards[u] += hazard[i, u]
        if product[0] < NEVER:
            continue
        total, count = 0.0, 0
        for i in range(m):
            j = inside[i]
            cut[i] = here / a[j] + tau - x[j]
            at[i] = density(gaussian, cut[i]) / a[j]
            back[i] = a[j] * max(cut[i], 0.0)
            total += back[i]
            count += 1 if cut[i] > 0.0 else 0
        twice, count = np.empty(count, np.int64), 0
        for i in range(m):
            if cut[i] > 0.0:
                twice[count] = i
                count += 1
        left, own = total < y, here < limit
        if not left:
            ahead[0], size_b = y, 1
            for bit in range(count):
                for b in range(size_b):
                    ahead[size_b + b] = ahead[b] - back[twice[bit]]
                size_b *= 2
        q0, q[:], qe[:], e[:], g[:], h[:], g0[:], h0[:], size[:] = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
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
                    scale = a[inside[i]]
                    parts[:, i] = fallen(gaussian, cut[i], s * scale)
                    for w in (0, 3):  # of (w - tau)^k in place of (c - eta)^k
                        one, two = scale * (parts[w + 1, i] - tau * parts[w, i]), parts[w + 2, i]
                        parts[w + 2, i] = scale * scale * (two - 2.0 * tau * parts[w + 1, i] + tau * tau * parts[w, i])
                        parts[w + 1, i] = one
                    f[i] = at[i] if m > 1 and here <= limits[i] else 0.0
                # terms: every, edges; each; g and g^2 in the place of i, with and without an edge
                if left:  # every term of the product: e^{s m_j} times each factor is bounded
                    pre[0, 0], pre[1, 0], post[0, m], post[1, m] = np.exp(s * (y - total)), 0.0, 1.0, 0.0
                    for i in range(m):
                        lift[i] = np.exp(s * back[i])
                        for w in range(3):
                            up[w, i] = parts[w, i] + parts[w + 3, i] * lift[i]
                        pre[0, i + 1] = pre[0, i] * up[0, i]
                        pre[1, i + 1] = pre[1, i] * up[0, i] + pre[0, i] * (f[i] * lift[i])
                    for i in range(m - 1, -1, -1):
                        post[0, i] = post[0, i + 1] * up[0, i]
                        post[1, i] = post[1, i + 1] * up[0, i] + post[0, i + 1] * (f[i] * lift[i])
                        plain = pre[0, i] * post[0, i + 1]
                        edged = pre[0, i] * post[1, i + 1] + pre[1, i] * post[0, i + 1]
                        terms[0, i] = plain * lift[i]
                        terms[1, i], terms[2, i] = plain * up[1, i], plain * up[2, i]
                        terms[3, i], terms[4, i] = edged * up[1, i], edged * up[2, i]
                    every, edges = pre[0, m], pre[1, m]
                else:
                    for b in range(size_b):
                        turns[b] = np.exp(s * ahead[b]) if side * ahead[b] > 0.0 else 0j
                    every, edges = 0j, 0j
                    for i in range(m):
                        o0, o1, w0, w1 = _without(i, cut, twice, turns, parts, f, held, more)
                        if i == 0:
                            every = o0 * parts[3, 0] + w0 * parts[0, 0]
                            edges = o1 * parts[3, 0] + w1 * parts[0, 0] + f[0] * o0
                        terms[0, i] = o0
                        for w in (1, 2):
                            terms[w, i] = o0 * parts[w + 3, i] + w0 * parts[w, i]
                            terms[w + 2, i] = o1 * parts[w + 3, i] + w1 * parts[w, i]
                every, edges = every * ds if own else 0j, edges * ds
                adds = abs(every) + abs(edges) / abs(s)
                most = max(most, adds)
                if v > 10 and adds < least * most:
                    break
                q0 += every.real
                for i in range(m):
                    terms[:, i] *= ds
                    if not own:
                        terms[1:3, i] = 0.0
                    if f[i] == 0.0:
                        terms[0, i] = 0.0
                    g0[i] += terms[1, i].real
                    h0[i] += terms[2, i].real
                    size[i] += abs(terms[1, i])
                for u in range(number):
                    o1 = 1.0 / (s + t[u])
                    o2 = o1 * o1
                    o3 = o1 * o2
                    qe[u] += (edges * o1).real
                    q[0, u] += (every * o1).real
                    q[1, u] += (every * o2).real
                    q[2, u] += (every * o3).real
                    for i in range(m):
                        e[0, i, u] += (terms[0, i] * o1).real
                        e[1, i, u] += (terms[0, i] * o2).real
                        e[2, i, u] += (terms[0, i] * o3).real
                        g[0, i, u] += (terms[1, i] * o1).real
                        g[1, i, u] += (terms[3, i] * o1).real
                        h[0, i, u] += (terms[2, i] * o1).real
                        h[1, i, u] += (terms[4, i] * o1).real
        if m == 1:  # closed: z = -k r, and alone at its edge an entity gets Y
            q0 = density(gaussian, (1 - n) * here / a[inside[0]] - x[inside[0]]) / a[inside[0]] if own else 0.0
            g0[0], h0[0], size[0] = q0 * n * here, q0 * (n * here) ** 2, abs(q0 * n * here)
            if here < 0.0:
                for u in range(number):
                    fall = math.exp(-t[u] * y)
                    e[0, 0, u], e[1, 0, u], e[2, 0, u], qe[u] = fall, y * fall, 0.5 * y * y * fall, at[0] * fall
        for u in range(number):
            o1 = mass * omega[u] * product[u]
            o2 = o1 * t[u]
            all_of = k * q0 + qe[u] - q[0, u] * hazards[u]
            for p in range(3):
                common[u, p] += mass * product[u] * all_of * here**p
            for i in range(m):
                j, rise = inside[i], a[inside[i]] * tau
                alone = at[i] * e[0, i, u]
                one = k * g0[i] + g[1, i, u] - g[0, i, u] * hazards[u]
                two = k * h0[i] + h[1, i, u] - h[0, i, u] * hazards[u]
                out[0, j] += o1 * (one + at[i] * e[1, i, u] - rise * alone)
                out[1, j] -= o2 * (here * here * (all_of - alone) - 2.0 * here * one + two)
                out[1, j] += o2 * (2.0 * at[i] * e[2, i, u] - (here + rise) ** 2 * alone)
                out[3, j] += abs(o1) * (
                    k * size[i] + abs(g[1, i, u]) + abs(g[0, i, u]) * hazards[u] + at[i] * e[1, i, u] + rise * alone
                )
                if u == 0:
                    out[2, j] += mass * product[0] * (all_of - alone)
            for i in range(near):
                j, rise = others[i], a[others[i]] * tau
                z = hazard[i, u]
                out[0, j] -= o1 * z * q[1, u]
                out[3, j] += abs(o1 * z * q[1, u])
                out[1, j] -= o2 * here * (here + 2.0 * first[i, u]) * (all_of + q[0, u] * z)
                out[1, j] -= o2 * z * (2.0 * (q[2, u] + rise * q[1, u]) - here * (here + 2.0 * rise) * q[0, u])
