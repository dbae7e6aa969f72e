"""Gamma under Gaussian noise where S > 0 is sure, all sets in one product; symbols as in engines/exact/threshold/product.py."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpost.compiled import kernel
from fairpost.engines.closed.kernels.mills import first_three, first_two

Floats = NDArray[np.float64]
Complexes = NDArray[np.complex128]

ROOT = math.sqrt(2.0 * math.pi)
NEAR, TERMS = 0.5, 14
"""Below this |z| the integrals of y^k e^{zy} are series."""
DEAD = 1e-24
"""Where the density at the edge is below this, an entity is dropped for sure or kept for sure."""


@kernel(error_model="numpy")
def _ramp(z: Any, e: Any) -> Any:
    """int_0^1 y^k e^{zy} dy, k = 0, 1, 2; e is e^z."""
    size = z.real * z.real + z.imag * z.imag
    if size < NEAR * NEAR:
        i0, i1, i2, term = 0j, 0j, 0j, 1.0 + 0j
        for m in range(TERMS if size > 1e-3 else 8 if size > 1e-8 else 4):
            i0 += term * (1.0 / (m + 1))
            i1 += term * (1.0 / (m + 2))
            i2 += term * (1.0 / (m + 3))
            term *= z * (1.0 / (m + 1))
        return i0, i1, i2
    o = complex(z.real / size, -z.imag / size)
    i0 = (e - 1.0) * o
    i1 = (e - i0) * o
    return i0, i1, (e - 2.0 * i1) * o


@kernel(error_model="numpy")
def _power(base: Any, times: int) -> Any:
    """base^times of a whole number."""
    out = 1.0 + 0j
    while times > 0:
        if times & 1:
            out *= base
        base *= base
        times >>= 1
    return out


@kernel(error_model="numpy")
def _kept(c: Any, p: float, phi: Any) -> Any:
    """E[(eta - c)^k e^{-p(eta - c)}; eta > c], k = 0, 1, of a complex c; phi is the density at c."""
    q = c + p
    if q.real >= 0.0:
        i0, i1 = first_two(q)
        return phi * i0, phi * i1
    i0, i1 = first_two(-q)
    whole = np.exp(p * (c + 0.5 * p))
    return whole - phi * i0, phi * i1 - q * whole


@kernel(error_model="numpy")
def add_product(
    a: Floats,
    x: Floats,
    times: NDArray[np.int64],
    tau: float,
    far: int,
    log_far: Floats,
    t: Floats,
    omega: Floats,
    r: Complexes,
    weight: Complexes,
    rho: Floats,
    foot: float,
    turn: float,
    step: float,
    quiet: float,
    out: Floats,
    common: Floats,
) -> None:
    """Add to out[0 to 3] Gamma, E[(v^2 - z^2)/S^2], P(v = 0) and what went into the first; to common[u] E[r^p e^{-tS}], p = 0, 1, 2.

    At each r the contour crosses the real axis at foot rho and turns left by `turn`; e^-quiet is nothing. t, the first of them 0, and
    omega stand for 1/S; `far` more are never dropped: log E[e^{-tz}] of them all.
    """
    size, number = a.size, t.size
    n = far
    for j in range(size):
        n += times[j]
    cosine, sine, least = math.cos(turn), math.sin(turn), math.exp(-quiet)
    c, phi, rising = np.empty((3, size), np.complex128)
    alive = np.empty(size, np.bool_)
    u0, u1 = np.empty((size, number), np.complex128), np.empty((size, number), np.complex128)
    d = np.empty((3, size), np.complex128)
    psi, eta, one, edge = np.empty((4, size), np.complex128)
    jump = np.empty((3, size), np.complex128)
    pre, post = np.empty((2, size + 1), np.complex128), np.empty((2, size + 1), np.complex128)
    none, tilt = np.empty(number, np.complex128), np.empty(number, np.complex128)
    for place in range(r.size):
        here = r[place]
        for u in range(number):
            tilt[u], none[u] = np.exp(log_far[u] + far * t[u] * here), 1.0
        for j in range(size):
            c[j] = here / a[j] + tau - x[j]
            phi[j] = np.exp(-0.5 * c[j] * c[j]) / ROOT
            alive[j] = abs(phi[j]) > DEAD
            phi[j] = phi[j] if alive[j] else 0j
            for u in range(number):
                k0, k1 = _kept(c[j], t[u] * a[j], phi[j])
                fall = math.exp(-t[u] * a[j] * tau)
                u0[j, u], u1[j, u] = fall * k0, fall * a[j] * (k1 + tau * k0)
                none[u] *= _power(u0[j, u], times[j])
        most = 0.0
        v = 0
        while True:
            sh, ch = math.sinh(step * v), math.cosh(step * v)
            s = rho[place] * complex(foot - sine * (ch - 1.0), cosine * sh)
            ds = (
                rho[place]
                * complex(cosine * ch, sine * sh)
                * (step / math.pi * (0.5 if v == 0 else 1.0))
                * weight[place]
            )
            turned, lead = np.exp(s * here), np.exp(s * here * far)
            for j in range(size):
                if not alive[j] and c[j].real < 0.0:
                    d[:, j] = 0.0
                    continue
                w = s * a[j]
                rising[j] = np.exp(w * tau)
                q, top = w - c[j], phi[j] * turned * rising[j]
                if alive[j] and q.real >= 0.0:
                    e0, e1, e2 = first_three(q)
                    d0, d1, d2 = top * e0, top * e1, top * e2
                else:
                    whole = np.exp(w * (x[j] + 0.5 * w))
                    d0, d1, d2 = whole, -q * whole, (1.0 + q * q) * whole
                    if alive[j]:
                        e0, e1, e2 = first_three(-q)
                        d0, d1, d2 = d0 - top * e0, d1 + top * e1, d2 - top * e2
                d[0, j], d[1, j], d[2, j] = (
                    d0,
                    a[j] * (d1 - tau * d0),
                    a[j] * a[j] * (d2 - 2.0 * tau * d1 + tau * tau * d0),
                )
            adds = 0.0
            for u in range(number):
                pre[0, 0], pre[1, 0] = lead * tilt[u], far * lead * tilt[u]
                for j in range(size):
                    eta[j] = turned * u0[j, u]
                    psi[j] = eta[j] + d[0, j]
                    edge[j] = 0.0
                    if alive[j]:
                        rise = a[j] * tau
                        lift = math.exp(t[u] * rise)
                        i0, i1, i2 = _ramp((s + t[u]) * rise, rising[j] * lift)
                        edge[j] = phi[j] * (tau / lift) * turned
                        jump[0, j], jump[1, j], jump[2, j] = i0, -rise * i1, rise * rise * i2
                        eta[j] += edge[j] * i0
                    one[j] = _power(psi[j], times[j] - 1)
                    p0, p1 = one[j] * psi[j], times[j] * one[j] * eta[j]
                    pre[0, j + 1] = pre[0, j] * p0
                    pre[1, j + 1] = pre[1, j] * p0 + pre[0, j] * p1
                nobody = n * lead * _power(turned, n - far) * tilt[u] * none[u]
                all_of = (pre[1, size] - nobody) * ds
                if u == 0:
                    adds = abs(all_of)
                for p in range(3):
                    common[u, p] += (all_of * here**p).real
                post[0, size], post[1, size] = 1.0, 0.0
                for j in range(size - 1, -1, -1):
                    # everybody but one of this pair
                    b0 = pre[0, j] * post[0, j + 1]
                    b1 = pre[1, j] * post[0, j + 1] + pre[0, j] * post[1, j + 1]
                    same = one[j]
                    p0, p1 = same * psi[j], times[j] * same * eta[j]
                    b1 *= same
                    if times[j] > 1:
                        b1 += b0 * ((times[j] - 1) * _power(psi[j], times[j] - 2) * eta[j])
                    b0 *= same
                    post[1, j] = post[1, j + 1] * p0 + post[0, j + 1] * p1
                    post[0, j] = post[0, j + 1] * p0
                    rise = a[j] * tau
                    gain = d[1, j] * b1 * ds
                    if alive[j]:
                        gain += edge[j] * jump[1, j] * b0 * ds
                    out[0, j] += omega[u] * gain.real
                    out[3, j] += omega[u] * abs(gain)
                    lost = -(here * here * d[0, j] - 2.0 * here * d[1, j] + d[2, j])
                    held = -turned * (here * here * u0[j, u] + 2.0 * here * u1[j, u])
                    square = (lost + held) * b1 + held * b0
                    if alive[j]:
                        ends = -here * (here + 2.0 * rise) * jump[0, j] + 2.0 * rise * jump[1, j] + jump[2, j]
                        square += edge[j] * ends * b0
                    if nobody != 0.0:
                        square -= held * nobody / (turned * u0[j, u])
                    out[1, j] += omega[u] * t[u] * (square * ds).real
                    if u == 0:
                        out[2, j] += (d[0, j] * b1 * ds).real
            most = max(most, adds)
            if v > 10 and adds < least * most:
                break
            v += 1
            if v > 4000:
                break
