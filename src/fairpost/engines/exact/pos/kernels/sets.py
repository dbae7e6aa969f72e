"""What few Gaussian values give, a sum over who is clipped; symbols as in engines/exact/pos/sets.py."""

import math

import numpy as np
from numpy.typing import NDArray

from fairpost.compiled import kernel
from fairpost.engines.closed.kernels.mills import zeroth
from fairpost.engines.exact.pos.kernels.noise import mass_below
from fairpost.engines.exact.threshold.kernels.parts import kept

Floats = NDArray[np.float64]
Complexes = NDArray[np.complex128]
Places = NDArray[np.int64]

SURE = 9.0
"""So many noise deviations from r an entity is on its side for certain: the chance of the other one is 1e-19."""
GROWTH = 1.0
"""Up to this sum of x^2, centres below 0, every term may go round to the left: one grows by e^{GROWTH/10} on the way."""
BEYOND = 600.0
"""On the right e^{s ahead} of the empty set is not taken any further: of the terms wanted nothing is left there."""
FOOT = 0.8
"""Where a contour crosses the real axis, in units of rho."""
COSINE, SINE = math.cos(math.pi / 8), math.sin(math.pi / 8)
"""It turns by pi/8 from upright, in the middle of where e^{s^2/2} falls."""
DECAY = 0.5 * math.cos(math.pi / 4)
"""|e^{s^2/2}| = e^{-DECAY |s|^2} there."""
ROOT = math.sqrt(2.0 * math.pi)


@kernel(error_model="numpy")
def add_sets(
    a: Floats, x: Floats, r: Floats, weight: Floats, step: float, quiet: float, t: Floats, omega: Floats, out: Floats
) -> float:
    """Add E[share], E[share^2] and P(share = 0) where somebody is clipped to the rows of out; returns the chance.

    All sets at once, of those who may be on either side of r; bit i of a set's number is the i-th of them. `step` is the contour's,
    e^-quiet is nothing.
    """
    n = a.size
    cut, unsure, above = np.empty(n), np.empty(n, np.int64), np.empty(n, np.int64)
    chance = 0.0
    for place in range(r.size):
        number, high = 0, 0
        for j in range(n):
            cut[j] = r[place] / a[j] - x[j]
            if cut[j] < -SURE:
                above[high], high = j, high + 1
            elif cut[j] <= SURE:
                unsure[number], number = j, number + 1
        full = (1 << number) - 1
        density, by_kept = np.zeros(full + 1), np.zeros(full + 1)
        _densities(a, cut, unsure[:number], high == 0, r[place], step, quiet, density)
        for some in range(full + 1):
            many = high
            for i in range(number):
                many += some >> i & 1
            if 0 < many < n:
                by_kept[some] = many * weight[place] * density[full ^ some]
        chance += add_shares(a, cut, unsure[:number], above[:high], by_kept, t, omega, out)
    return chance


@kernel(error_model="numpy")
def add_shares(
    a: Floats, cut: Floats, unsure: Places, above: Places, by_kept: Floats, t: Floats, omega: Floats, out: Floats
) -> float:
    """Add the sum over sets of the unsure that are kept, by_kept[set] E[...; z > r on the set and on `above`], to out; returns that of 1.

    As a function of the U_j it is a polynomial with at most one power of each: its slope along U_i is what multiplies V_i.
    """
    n, size = unsure.size, by_kept.size
    folded, products = np.empty(2 * size), np.empty(size)
    up, first, second, slope = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    ahead, more = np.empty(above.size), np.empty(above.size)
    chance = 0.0
    folded[size:] = by_kept
    for u in range(-1, t.size):
        tilt, always = 0.0 if u < 0 else t[u], 1.0
        for i in range(above.size):
            scale = a[above[i]]
            value, one, two, _ = kept(True, cut[above[i]], tilt * scale)
            always *= value
            ahead[i], more[i] = scale * one, scale * scale * two
        for i in range(n):
            scale = a[unsure[i]]
            up[i], one, two, _ = kept(True, cut[unsure[i]], tilt * scale)
            first[i], second[i] = scale * one, scale * scale * two
        # folded[2^l : 2^(l+1)]: the polynomial in the first l of the U, with the others put in
        half = size >> 1
        for i in range(n - 1, -1, -1):
            for b in range(half):
                folded[half + b] = folded[2 * half + b] + up[i] * folded[3 * half + b]
            half >>= 1
        products[0], half = 1.0, 1
        for i in range(n):
            total = 0.0
            for b in range(half):
                total += products[b] * folded[3 * half + b]
            slope[i] = total * up[i] * always
            if 2 * half < size:
                for b in range(half):
                    products[half + b] = products[b] * up[i]
            half *= 2
        whole = folded[1] * always
        if u < 0:
            chance = whole
            out[2] += whole
            for i in range(above.size):
                out[2, above[i]] -= whole
            for i in range(n):
                out[2, unsure[i]] -= slope[i]
        else:
            for i in range(above.size):
                out[0, above[i]] += omega[u] * whole * ahead[i]
                out[1, above[i]] += omega[u] * whole * tilt * more[i]
            for i in range(n):
                out[0, unsure[i]] += omega[u] * slope[i] * first[i]
                out[1, unsure[i]] += omega[u] * slope[i] * tilt * second[i]
    return chance


@kernel(error_model="numpy")
def _densities(
    a: Floats, cut: Floats, unsure: Places, nobody_above: bool, r: float, step: float, quiet: float, out: Floats
) -> None:
    """out[D]: the density of sum_D (r - z_j) at nr with every z_j < r, D with those who are clipped for certain; not for all, nor for none."""
    n, size = unsure.size, out.size
    ahead, squares = np.empty(size), np.empty(size)
    y = a.size * r
    ahead[0], squares[0], grows, big = y, 0.0, 0.0, 0.0
    for j in range(a.size):
        if cut[j] > SURE:
            ahead[0] -= a[j] * cut[j]
            squares[0] += a[j] * a[j]
        if cut[j] >= -SURE:
            below = min(r / a[j] - cut[j], 0.0)
            big, grows = max(big, a[j]), grows + below * below
    nobody, half = squares[0] == 0.0, 1  # the empty set is one of those wanted, or not
    for i in range(n):
        j = unsure[i]
        for b in range(half):
            ahead[half + b] = ahead[b] - a[j] * max(cut[j], 0.0)
            squares[half + b] = squares[b] + a[j] * a[j]
        half *= 2
    left, right, end = False, False, 0.0
    for b in range(size - 1 if nobody_above else size):
        fall = SINE * (ahead[b] if grows <= GROWTH else abs(ahead[b]))
        end = max(end, 2.0 * quiet / (fall + math.sqrt(fall * fall + 4.0 * DECAY * squares[b] * quiet)))
        left, right = left or ahead[b] > 0.0, right or ahead[b] <= 0.0
    split = right and grows > GROWTH
    rho = min(1.0 / big, 0.5 / (FOOT * y))
    held, whole, edge = np.empty(size, np.complex128), np.empty(n, np.complex128), np.empty(n, np.complex128)
    last = math.ceil(math.log(2.0 * end / rho + 2.0) / step)
    for side in (1.0, -1.0):
        if split and not left if side > 0.0 else not split:
            continue
        for v in range(last + 1):
            sh, ch = math.sinh(step * v), math.cosh(step * v)
            s = rho * complex(FOOT - side * SINE * (ch - 1.0), COSINE * sh)
            if side < 0.0 and s.real * ahead[0] > BEYOND:
                break
            ds = rho * complex(COSINE * ch, side * SINE * sh) * (step / math.pi * (0.5 if v == 0 else 1.0))
            held[0] = ds * np.exp(s * (ahead[0] + 0.5 * s * squares[0]))
            if split:
                for i in range(n):
                    scale, c = s * a[unsure[i]], cut[unsure[i]]
                    whole[i] = np.exp(scale * (0.5 * scale - c)) if c > 0.0 else 0j
                    head = math.exp(-0.5 * c * c) / ROOT
                    edge[i] = -head * _mills(c - scale) if c > 0.0 else head * _mills(scale - c)
                _terms(side, ahead, nobody, whole, edge, held)
            else:
                for i in range(n):
                    edge[i] = mass_below(1, a[unsure[i]] * cut[unsure[i]], a[unsure[i]], s, 0.0)
                half = 1
                for i in range(n):
                    for b in range(half):
                        held[half + b] = held[b] * edge[i]
                    half *= 2
            for b in range(size):
                out[b] += held[b].real


@kernel(error_model="numpy")
def _mills(q: complex) -> complex:
    """int_0^inf e^{-v^2/2 - qv} dv of any q."""
    return zeroth(q) if q.real >= 0.0 else ROOT * np.exp(0.5 * q * q) - zeroth(-q)


@kernel(error_model="numpy")
def _terms(side: float, ahead: Floats, nobody: bool, whole: Complexes, edge: Complexes, held: Complexes) -> None:
    """held[D] = held[0] times the sum over B in D of prod_B whole prod_{D - B} edge, those B that fall to this side.

    Without anybody whose transform is whole it is closed to the left, and 0.
    """
    half = 1
    for i in range(whole.size):
        for b in range(half):
            held[half + b] = held[b] * whole[i]
        half *= 2
    for b in range(held.size):
        if (ahead[b] > 0.0) != (side > 0.0) or (nobody and b == 0):
            held[b] = 0j
    half = 1
    for i in range(whole.size):
        for b in range(0, held.size, 2 * half):
            for d in range(b, b + half):
                held[half + d] += held[d] * edge[i]
        half *= 2
