"""Sums over (s, r, t) on turned paths for PoS where S < 0 under Laplace noise. Symbols as in `pos.turned`."""

import math

import numpy as np
from numpy.typing import NDArray

from fairpost.compiled import kernel
from fairpost.engines.exact.kernels.powers import power

Floats = NDArray[np.float64]
Numbers = NDArray[np.complex128]
Counted = NDArray[np.int64]

NOTHING = 1e-18
"""A node (s, r) is left out where none of its t can add more than this to a share."""


@kernel(error_model="numpy")
def rays(beta: Floats, s: complex, gain: float) -> tuple[complex, float, float, float]:
    """For r = ray e^{u - e^{start - u}}: the ray, the start, the step in u and its last value.

    1/beta - s has arguments between those of the largest and the smallest beta; the ray turns back by their mean, so that half their
    difference is left to pi/2. Equal steps miss e^{-2 pi margin/step} = e^{-gain}.
    """
    slow, fast = 1.0 / np.max(beta) - s, 1.0 / np.min(beta) - s
    one, two = math.atan2(slow.imag, slow.real), math.atan2(fast.imag, fast.real)
    margin = 0.5 * (math.pi - abs(one - two))
    turn = -0.5 * (one + two)
    fastest = 0.0
    for j in range(beta.size):
        fastest += abs(1.0 / beta[j] - s)
    last = math.log((gain + 5.0) / (math.sin(margin) * min(abs(slow), abs(fast))))
    return complex(math.cos(turn), math.sin(turn)), -math.log(fastest), 2.0 * math.pi * margin / gain, last


@kernel(error_model="numpy", fastmath={"contract", "reassoc", "arcp", "nsz"})
def _factors(dropped: Numbers, above: Numbers, f: Floats, times: Counted, g: Numbers) -> tuple[complex, complex]:
    """prod psi^times and sum times u/psi, psi = dropped + u, u = above f; g receives 1/psi."""
    product, run, phi = 1.0 + 0.0j, 1.0 + 0.0j, 0.0 + 0.0j
    count = times[0]
    for j in range(f.size):
        u = above[j] * f[j]
        psi = dropped[j] + u
        scale = 1.0 / (psi.real * psi.real + psi.imag * psi.imag)
        g[j] = complex(psi.real * scale, -psi.imag * scale)
        phi += times[j] * (u * g[j])
        if times[j] != count:
            product *= power(run, count)
            run, count = 1.0 + 0.0j, times[j]
        run *= psi
    return product * power(run, count), phi


@kernel(error_model="numpy", fastmath={"contract", "reassoc", "arcp", "nsz"})
def _shares(
    above: Numbers,
    f: Floats,
    beta: Floats,
    g: Numbers,
    product: complex,
    phi: complex,
    omega: float,
    t: float,
    first: Floats,
    second: Floats,
) -> float:
    """One node's part of every share and its square; returns the largest."""
    largest = 0.0
    for j in range(f.size):
        one = product * (above[j] * g[j])
        part = (one * (phi + 1.0 - above[j] * f[j] * g[j])).real * (omega * beta[j] * f[j] * f[j])
        first[j] += part
        second[j] += part * (2.0 * t * beta[j] * f[j])
        largest = max(largest, abs(part))
    return largest


@kernel(error_model="numpy")
def accumulate_turned(
    c: Floats,
    beta: Floats,
    times: Counted,
    s: Numbers,
    speed: Numbers,
    gain: float,
    t: Floats,
    omega: Floats,
    first: Floats,
    second: Floats,
    zero: Floats,
) -> tuple[int, float, float]:
    """Add the nodes to E[share], E[share^2] and P(share = 0) over S < 0 with somebody dropped. t[0] = 0 is for the chances alone.

    Returns how many nodes there were, the sum of the sizes of what was added to one share at most (for its rounding), and a bound
    on what was left out of it.
    """
    m, n = c.size, float(times.sum())
    fall = 1.0 / (1.0 + np.outer(t, beta))
    half = 0.5 * np.exp(-c / beta)
    b, e, d, g = (
        np.empty(m, dtype=np.complex128),
        np.empty(m, dtype=np.complex128),
        np.empty(m, dtype=np.complex128),
        np.empty(m, dtype=np.complex128),
    )
    none, none_phi = np.empty(t.size, dtype=np.complex128), np.empty(t.size, dtype=np.complex128)
    nodes, size, omitted = 0, 0.0, 0.0
    for i in range(s.size):
        ray, start, step, last = rays(beta, s[i], gain)
        rate, log_none = 0.0 + 0.0j, 0.0 + 0.0j
        for j in range(m):
            b[j] = np.exp(-s[i] * c[j]) / ((1.0 - s[i] * beta[j]) * (1.0 + s[i] * beta[j]))
            rate += times[j] * (1.0 / beta[j] - s[i])
            log_none += times[j] * np.log(-half[j] * beta[j] / (1.0 - s[i] * beta[j]))
        for k in range(t.size):  # all in C or A: no e^{-sc}, and 0 along a path that turns left
            none[k] = log_none + n * np.log(s[i] + t[k])
            for j in range(m):
                none[k] += times[j] * math.log(fall[k, j])
            none_phi[k] = -rate / (s[i] + t[k])
        u = start - math.log(gain + 5.0)
        while u < last:
            back = math.exp(start - u)
            r = ray * math.exp(u - back)
            weight = speed[i] * r * ((1.0 + back) * step)
            bound = abs(weight) * n
            for j in range(m):
                e[j] = half[j] * np.exp(-r * (1.0 / beta[j] - s[i]))
                d[j] = b[j] - e[j] / (1.0 - s[i] * beta[j])
                bound *= (abs(d[j]) + abs(e[j])) ** times[j]
            u += step
            if bound < NOTHING:
                omitted += bound
                continue
            for k in range(t.size):
                product, phi = _factors(d, e, fall[k], times, g)
                product *= weight
                empty = np.exp(none[k] - r * rate) * weight
                nodes += 1
                if k == 0:
                    for j in range(m):
                        away = e[j] * g[j]
                        zero[j] += (product * g[j] * (phi - away) * d[j]).real
                        # without B: D is -e/(1 - s beta), and D + U is e s beta/(1 - s beta) times -1
                        other = -(1.0 - s[i] * beta[j]) / (beta[j] * s[i])
                        zero[j] -= (empty * (1.0 - other) * (none_phi[0] - other)).real
                    continue
                size += _shares(e, fall[k], beta, g, product, phi, omega[k], t[k], first, second)
                if abs(empty) * n * n < 1e-20 * abs(product):
                    continue
                for j in range(m):
                    other = -(1.0 - s[i] * beta[j]) / (beta[j] * (s[i] + t[k]))
                    part = (empty * other * (none_phi[k] - other + 1.0)).real * (omega[k] * beta[j] * fall[k, j])
                    first[j] -= part
                    second[j] -= part * (2.0 * t[k] * beta[j] * fall[k, j])
    return nodes, size, omitted
