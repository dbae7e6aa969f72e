"""The shares of `pos-threshold` at nodes (r, s, t) of which r and s are complex; symbols as in engines/exact/threshold/turned.py.

Every factor has e^{sr} with it, n of them e^{snr}: psi_j = e^{sr} D_j + e^{sr} U_j, neither of which is large. For each (r, t) there is a row
of s (`turned_rows`): own = prod psi e^{sr}/psi_j, w_j = e^{sr} (U_j + f_j J_0)/psi_j and W their sum make

    own_j [V_j (1 + W - w_j) + f_j J_1].
"""

import math

import numpy as np
from numpy.typing import NDArray

from fairpost.compiled import kernel
from fairpost.engines.closed.kernels.mills import first_three, zeroth
from fairpost.engines.exact.threshold.kernels.turned_rows import (
    EVERY,
    factor,
    in_all,
    own_sums,
    still,
    take_in,
    zero,
)

Floats = NDArray[np.float64]
Complexes = NDArray[np.complex128]
Counted = NDArray[np.int64]

NORMAL = 1.0 / math.sqrt(2.0 * math.pi)
TINY, MORE = 1e-280, 5.0
"""What is as good as 0; by how much smaller than what is left out a chance must be that is not looked at."""


@kernel(error_model="numpy")
def kept(r: complex, t: float, a: float, x: float, tau: float) -> tuple[complex, complex, complex, complex]:
    """U = E[e^{-t(z - r)}; z > r + a tau], the first two moments of z - r under it, and e^{-t a tau} f/U, f the density at the edge."""
    c = r / a + (tau - x)
    p = c + t * a
    edge = a * tau
    at = NORMAL * np.exp(-0.5 * c * c - t * edge)
    if p.real >= 0.0:
        i0, i1, i2 = first_three(p)
        one = a * i1 / i0
        return at * i0, edge + one, edge * edge + 2.0 * edge * one + a * a * i2 / i0, 1.0 / (a * i0)
    mean = a * x - r - t * a * a
    u = np.exp(t * (0.5 * t * a * a - a * x + r)) - at * zeroth(-p)
    if abs(u) < TINY:
        return 0.0j, mean + 0.0j, mean * mean + a * a, 0.0j
    lift = a * at / u
    return u, mean + lift, mean * mean + a * a + lift * (mean + edge), at / (a * u)


@kernel(error_model="numpy")
def dropped(
    c: complex,
    at: complex,
    y: Complexes,
    whole: Complexes,
    end: Complexes,
    turn: Floats,
    low: int,
    high: int,
    step: int,
    out: Floats,
) -> None:
    """e^{sr} D = e^{sr} E[e^{s (z - r)}; z <= r + a tau] with y = sa, whole = E[e^{sz}], end = e^{s a tau}, turn = e^{sr}."""
    for q in range(low, high, step):
        u = y[q] - c
        near = end[q] * complex(turn[0, q], turn[1, q]) * at
        value = near * zeroth(u) if u.real >= 0.0 else whole[q] - near * zeroth(-u)
        out[0, q], out[1, q] = value.real, value.imag


@kernel(error_model="numpy")
def power(base: complex, exponent: int) -> complex:
    """base^exponent for a whole exponent >= 1, by squaring."""
    if exponent == 1:
        return base
    found = 1.0 + 0.0j
    while exponent > 0:
        if exponent & 1:
            found *= base
        base *= base
        exponent >>= 1
    return found


@kernel(error_model="numpy")
def add_none(t: Floats, omega: Floats, a: Floats, x: Floats, tau: float, times: Counted, out: Floats) -> float:
    """Nobody is dropped, r = 0: shares and squares into out; returns the chance."""
    m, chance = a.size, 0.0
    mean, square = np.empty(m), np.empty(m)
    for k in range(t.size):
        product = 1.0 + 0.0j
        for j in range(m):
            u, one, two, _ = kept(0.0j, t[k], a[j], x[j], tau)
            product *= power(u, times[j])
            mean[j], square[j] = one.real, two.real
        if k == 0:
            chance = product.real
            continue
        for j in range(m):
            out[0, j] += omega[0, k] * product.real * mean[j]
            out[1, j] += omega[1, k] * product.real * square[j]
    return chance


@kernel(error_model="numpy")
def add_shares(
    r: Complexes,
    weight: Complexes,
    s: Complexes,
    step: Complexes,
    t: Floats,
    omega: Floats,
    a: Floats,
    x: Floats,
    tau: float,
    times: Counted,
    kappa: float,
    quiet: float,
    out: Floats,
) -> tuple[float, float]:
    """Add to out[0], out[1], out[2]: E[share], E[share^2] and P(share = 0) of every pair but for where nobody is dropped.

    Returns P(S > 0), and the sum of the sizes of what was added to it. weight and step stand for dr and ds/pi, omega[k] for dt and t dt; the
    first t is 0, and the chances come from it alone. Nodes are left out from where the product of |factors| times |r s| n is below e^-quiet.
    """
    m, size, n = a.size, s.size, int(times.sum())
    lines = np.empty((3, m, size), np.complex128)
    y, whole, end = lines[0], lines[1], lines[2]
    ends = np.empty((m, 2, size))
    for j in range(m):
        for q in range(size):
            y[j, q] = s[q] * a[j]
            whole[j, q] = np.exp(y[j, q] * (x[j] + 0.5 * y[j, q]))
            end[j, q] = np.exp(y[j, q] * tau)
            ends[j, 0, q], ends[j, 1, q] = end[j, q].real, end[j, q].imag
    rows, many = np.empty((7, 2, size)), np.empty((3, m, 2, size))
    turn, over, psi, total, product, own, before = rows[0], rows[1], rows[2], rows[3], rows[4], rows[5], rows[6]
    down, v, w = many[0], many[1], many[2]
    few = (size + EVERY - 1) // EVERY
    work, sizes_of, around = np.empty((2, size)), np.empty((m, few)), np.empty((3, few))
    before_size, turn_size, bound = around[0], around[1], around[2]
    phase = np.empty(size, np.complex128)
    each = np.empty((5, m), np.complex128)
    up, mean, square, hazard, f = each[0], each[1], each[2], each[3], each[4]
    settled, active = np.empty(m, np.int64), np.empty(m, np.int64)
    chance, sizes, least = 0.0, 0.0, math.exp(-quiet)
    for i in range(r.size):
        back = r[i].real < 0.0
        sure, open_ = 0, 0
        for j in range(m):  # who is dropped for sure (r > 0), or kept (r < 0), has no part in the sums over s
            c = r[i] / a[j] + (tau - x[j])
            if (c.real < 0.0) == back and 0.5 * (c * c).real > quiet + MORE:
                settled[sure] = j
                sure += 1
            else:
                active[open_] = j
                open_ += 1
        aside = 0
        for k in range(sure):
            aside += times[settled[k]]
        for q in range(size):
            e = np.exp(s[q] * r[i])
            turn[0, q], turn[1, q] = e.real, e.imag
            one = weight[i] * step[q]
            if back:
                one *= np.exp(s[q] * r[i] * aside)
            else:
                for k in range(sure):
                    one *= power(whole[settled[k], q], times[settled[k]])
            before[0, q], before[1, q] = one.real, one.imag
            phase[q] = np.exp(s[q] * (n * r[i])) * step[q]
            if q % EVERY == 0:
                before_size[q // EVERY] = n * abs(r[i] * s[q]) * abs(one / (weight[i] * step[q]))
                turn_size[q // EVERY] = abs(e)
        for k in range(open_):
            j = active[k]
            c = r[i] / a[j] + (tau - x[j])
            at = NORMAL * np.exp(-0.5 * c * c)
            f[j] = at / a[j]
            dropped(c, at, y[j], whole[j], end[j], turn, 0, size, EVERY, down[j])
            for q in range(0, size, EVERY):
                sizes_of[j, q // EVERY] = math.hypot(down[j, 0, q], down[j, 1, q])
        low, high = 0, size
        for k in range(t.size):
            lead, hazards, front = weight[i], 0.0j, 1.0 + 0.0j
            for g in range(sure):
                j = settled[g]
                if back:
                    up[j], mean[j], square[j], hazard[j] = kept(r[i], t[k], a[j], x[j], tau)
                    front *= power(up[j], times[j])
                    hazards += times[j] * hazard[j]
                else:
                    lead = 0.0j
                    mean[j], square[j], hazard[j] = 0.0j, 0.0j, 0.0j
            lead *= front
            for g in range(open_):
                j = active[g]
                up[j], mean[j], square[j], hazard[j] = kept(r[i], t[k], a[j], x[j], tau)
                lead *= power(up[j], times[j])
                hazards += times[j] * hazard[j]
            if k % EVERY == 0:
                low, high = still(
                    low, high, before_size, abs(front), active[:open_], sizes_of, up, turn_size, times, least, bound
                )  # fmt: skip
            if high <= low:
                break
            if k == 0:
                for g in range(open_):
                    j = active[g]
                    c = r[i] / a[j] + (tau - x[j])
                    dropped(c, NORMAL * np.exp(-0.5 * c * c), y[j], whole[j], end[j], turn, low, high, 1, down[j])
            if lead != 0.0:
                chance += _nobody(
                    r[i], s[low:high], phase[low:high], t[k], omega[:, k], kappa, n, a, tau, lead, hazards, mean, square, hazard, out
                )  # fmt: skip
            for q in range(low, high):
                one = front * complex(before[0, q], before[1, q])
                product[0, q], product[1, q] = one.real, one.imag
                one = 1.0 / (s[q] + t[k])
                over[0, q], over[1, q] = one.real, one.imag
                total[0, q], total[1, q] = float(aside) if back else 0.0, 0.0
            for g in range(open_):
                j = active[g]
                part = math.exp(-t[k] * a[j] * tau)
                factor(low, high, down[j], turn, up[j], f[j], ends[j], part, over, psi, work, v[j], w[j])
                take_in(low, high, psi, times[j], w[j], product, total)
            both, whole_size = in_all(low, high, product, total)
            if k == 0:
                chance += both.imag
                sizes += whole_size
                for g in range(open_):
                    j = active[g]
                    out[2, j] += zero(low, high, product, v[j], up[j], w[j], total)
                if not back:
                    for g in range(sure):
                        out[2, settled[g]] += both.imag
                continue
            if back:
                for g in range(sure):
                    j = settled[g]
                    out[0, j] += omega[0, k] * (mean[j] * both).imag
                    out[1, j] += omega[1, k] * (square[j] * both).imag
            for g in range(open_):
                j = active[g]
                edge = a[j] * tau
                both, first, second = own_sums(
                    low, high, product, v[j], w[j], total, ends[j], over, math.exp(-t[k] * edge), edge, own
                )
                out[0, j] += omega[0, k] * (up[j] * mean[j] * both + f[j] * first).imag
                out[1, j] += omega[1, k] * (up[j] * square[j] * both + f[j] * second).imag
    return chance, sizes


@kernel(error_model="numpy")
def _nobody(
    r: complex,
    s: Complexes,
    phase: Complexes,
    t: float,
    omega: Floats,
    kappa: float,
    n: int,
    a: Floats,
    tau: float,
    lead: complex,
    hazards: complex,
    mean: Complexes,
    square: Complexes,
    hazard: Complexes,
    out: Floats,
) -> float:
    """What does not fall with s, where all others are kept: taken off along the contours, and what it is itself, added for real r > 0."""
    x0, x1, x2, x3 = 0.0j, 0.0j, 0.0j, 0.0j
    for q in range(s.size):
        e = phase[q]
        g = 1.0 / (s[q] + (t + kappa))
        x0 += e
        x1 += e * g * (1.0 + kappa * g * (1.0 + kappa * g))
        x2 += e * g * g * (1.0 + 2.0 * kappa * g)
        x3 += e * g * g * g
    # under the imaginary part: what the contours have, less what it is (times i)
    d0, d1, d2, d3 = x0, x1, x2, x3
    if r.imag == 0.0 and r.real > 0.0:
        place = n * r.real
        e = math.exp(-(t + kappa) * place)
        d1 -= 1j * e * (1.0 + kappa * place * (1.0 + 0.5 * kappa * place))
        d2 -= 1j * e * place * (1.0 + kappa * place)
        d3 -= 0.5j * e * place * place
    if t == 0.0:
        return -(lead * (n * d0 - hazards * d1)).imag
    for j in range(a.size):
        edge, h, rest = a[j] * tau, hazard[j], hazards - hazard[j]
        out[0, j] -= omega[0] * (lead * (mean[j] * (n * d0 - rest * d1) - h * (edge * d1 + d2))).imag
        out[1, j] -= (
            omega[1] * (lead * (square[j] * (n * d0 - rest * d1) - h * (edge * (edge * d1 + 2.0 * d2) + 2.0 * d3))).imag
        )
    return 0.0
