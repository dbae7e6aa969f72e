"""The law of one entry of pi_S, and what clipping it at 0 takes away.

By Lemma 1 an entry of pi_S is y = u + nu with u = x_i + (C - sum x)/n and nu = eta_i - mean(eta). Its transform is
known for every mechanism, log E[e^{s nu}] = K(s (1 - 1/n)) + (n - 1) K(s / n), and nu is symmetric. Every term of
Theorem 1 and every moment of (pi_S)_+ follows from the moments of the clipped part,

    clipped(u, k) = E[(y)_-^k],   k = 0 (the probability of y < 0), 1, 2.

Only u >= 0 is needed: symmetry gives u < 0. All terms below are positive, so deep tails keep their relative accuracy.
"""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairpost import cancel
from fairpost.bounds import sum_lattice, sum_smooth
from fairpost.errors import UnsupportedError
from fairpost.noise import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace, Law

Floats = NDArray[np.float64]


def variance(mechanism: Law, n: int) -> float:
    """Var[nu] = Var[eta] (n - 1)/n."""
    return mechanism.variance * (n - 1) / n


def clipped(u: ArrayLike, n: int, mechanism: Law, k: int = 1) -> Floats:
    """E[(u + nu)_-^k] for each u; k = 0 gives P(u + nu < 0), k = 1 and 2 are in counts and squared counts."""
    mean = np.asarray(u, dtype=np.float64)
    size = np.abs(mean)
    tail = np.zeros_like(size) if n == 1 else tail_of_entry(mechanism, size.ravel(), n, k).reshape(size.shape)
    if k == 0:
        return np.where(mean < 0, 1.0 - tail - at_zero(size, n, mechanism), tail)
    whole = size if k == 1 else size**2 + variance(mechanism, n)
    return np.where(mean < 0, whole - tail if k == 2 else whole + tail, tail)


@singledispatch
def tail_of_entry(mechanism: Law, u: Floats, n: int, k: int) -> Floats:
    """E[(u + nu)_-^k] for u >= 0 and n >= 2; each noise has its own way."""
    raise UnsupportedError(f"the law of an entry of pi_S is not known for {mechanism.name} noise")


@tail_of_entry.register
def _gaussian(mechanism: Gaussian, u: Floats, n: int, k: int) -> Floats:
    """nu is normal."""
    return np.asarray(Gaussian(mechanism.sigma * np.sqrt((n - 1) / n)).upper(u, 0.0, k))


@tail_of_entry.register(DiscreteLaplace)
@tail_of_entry.register(DiscreteGaussian)
def _lattice(mechanism: Law, u: Floats, n: int, k: int) -> Floats:
    found = sum_smooth.tail_of_entry(u, n, mechanism, k)
    return sum_lattice.tail_of_entry(u, n, mechanism, k) if found is None else found


def at_zero(u: ArrayLike, n: int, mechanism: Law) -> Floats:
    """P(u + nu = 0): 0 for continuous noise and n > 1."""
    size = np.abs(np.asarray(u, dtype=np.float64))
    if n == 1:
        return np.asarray(size == 0, dtype=np.float64)
    if not mechanism.discrete:
        return np.zeros_like(size)
    found = sum_smooth.tail_of_entry(size.ravel(), n, mechanism, -1)
    found = sum_lattice.mass_at_zero(size.ravel(), n, mechanism) if found is None else found
    return found.reshape(size.shape)


# -- Laplace ---------------------------------------------------------------------------------------------------
# With W = -u - nu, E[W_+^k] = (k!/2 pi i) int e^{-u s + K_nu(s)} s^{-k-1} ds along any line 0 < Re s < s0, where
# s0 = n / (b (n - 1)) is the nearest pole. The line is put through the saddle point c (the integrand is smallest there on
# the real axis and largest there on the line, so the integral has the size of its largest value: nothing cancels) and
# bent to the right, s(t) = c + i r sinh t + 0.41 r (cosh t - 1): every other singularity is on the real axis. In t
# the integrand decays exponentially and is analytic in a strip of half-width pi/8 at least (the bend is pi/8: e^{-us}
# decays on one side of it, the near-Gaussian transform on the other), so the trapezoidal rule with step h has an error of
# about e^{-2 pi (pi/8) / h}: 1e-17 for h = 1/16.

BEND, STEP = 0.4142, 1.0 / 16.0


def _cgf(s: NDArray[Any], n: int, mechanism: Laplace) -> NDArray[Any]:
    """K((n - 1) s / n) + (n - 1) K(s / n), complex s.

    K(s) = -log(1 - t^2), t = bs. Among many entities t^2 is small and its logarithm is taken n times: log|1 + z| is then
    log1p(2 Re z + |z|^2)/2, which keeps the digits that 1 + z loses. Near the pole of the first term (1 - t)(1 + t) keeps them.
    """
    t = mechanism.scale * s / n
    own = (n - 1) * t
    one = -np.log((1 - own) * (1 + own))
    if n < MANY:
        return np.asarray(one - (n - 1) * np.log((1 - t) * (1 + t)))
    z = -t * t
    rest = 0.5 * np.log1p(2 * z.real + z.real**2 + z.imag**2) + 1j * np.arctan2(z.imag, 1 + z.real)
    return np.asarray(one - (n - 1) * rest)


MANY = 10
"""From so many entities on the small argument of K is small."""
BLOCK = 24
"""Nodes at a time: most u are done after a few blocks."""
ALONE = 41.5
"""What the poles beyond the first one add is left out below e^-ALONE (1e-18) of what the first one gives."""


@tail_of_entry.register
def _laplace(mechanism: Laplace, u: Floats, n: int, k: int) -> Floats:
    """The first pole alone where that is enough, else the integral."""
    out, beyond = first_pole(mechanism, u, n, k)
    rest = beyond > -ALONE
    if rest.any():
        out[rest] = by_contour(mechanism, u[rest], n, k)
    return out


def first_pole(mechanism: Laplace, u: Floats, n: int, k: int) -> tuple[Floats, Floats]:
    """The residue at s0, and the logarithm of a bound on what the poles at n / b add to it, relative to it.

    With M_G(s) = (1 - (s b / n)^2)^{-(n-1)} and beta = b (n - 1)/n = 1/s0 the integrand is e^{-us} M_G(s) s^{-k-1} / (1 - (s beta)^2).
    Moved over s0 to a line Re s = c, s0 < c < n / b, the integral leaves

        (k!/2) s0^{-k} M_G(s0) e^{-u s0}

    behind (the noise of one entity alone, spread by the others), and on that line |1 + s beta| >= |s| beta, |1 - s beta| >=
    c beta - 1, |M_G(s)| <= M_G(c) and int |s|^{-k-2} |ds| <= pi c^{-k-1}: it is at most k!/2 e^{-uc} M_G(c) c^{-k-1} / (beta (c beta - 1)).
    c is where e^{-uc} M_G(c) is least, if that is beyond s0.
    """
    if n == 2:  # s0 = n / b: no line lies between
        return np.zeros_like(u), np.full_like(u, np.inf)
    b, m = mechanism.scale, n - 1
    s0, q = n / (b * m), b / n
    spread = m * mechanism.cgf(s0 / n)
    value = 0.5 * (1.0, 1.0, 2.0)[k] * s0**-k * np.exp(spread - u * s0)
    # u = (n - 1) 2 q^2 c / (1 - q^2 c^2), with the root of a quadratic equation that does not cancel
    c = u / (m * q * q + q * np.sqrt((m * q) ** 2 + u * u))
    inside = (c > 1.05 * s0) & (q * c < 1 - 1e-12)
    c = np.where(inside, c, 1.05 * s0)
    bound = -u * (c - s0) + m * mechanism.cgf(c / n) - spread - np.log(c / s0 - 1) - (k + 1) * np.log(c / s0)
    return value, np.where(inside, bound, np.inf)


def by_contour(mechanism: Laplace, u: Floats, n: int, k: int, step: float = STEP) -> Floats:
    """The integral for each u; it ends where the integrand is 1e-20 of its largest value for every u."""
    edge = mechanism.strip * n / (n - 1)
    centre, radius = _saddle(u, n, mechanism, k, edge)
    level = -u * centre + _cgf(centre + 0j, n, mechanism).real - (k + 1) * np.log(centre)
    total = np.zeros_like(u)
    for start in range(0, int(30 / step), BLOCK):
        cancel.check()
        t = step * np.arange(start, start + BLOCK)
        s = centre[:, None] + radius[:, None] * (1j * np.sinh(t) + BEND * (np.cosh(t) - 1))
        speed = radius[:, None] * (1j * np.cosh(t) + BEND * np.sinh(t))
        power = -u[:, None] * s + _cgf(s, n, mechanism) - (k + 1) * np.log(s) - level[:, None]
        values = np.exp(np.where(power.real > -745, power, -800.0)) * speed
        if start == 0:
            values[:, 0] /= 2
        total += np.sum(values.imag, axis=1)
        if np.max(np.abs(values[:, -1]) / radius) < 1e-20:
            break
    return np.asarray((1.0, 1.0, 2.0)[k] * np.exp(level) * total * step / np.pi)


def _saddle(u: Floats, n: int, mechanism: Laplace, k: int, edge: float) -> tuple[Floats, Floats]:
    """The minimum c of -u s + K_nu(s) - (k+1) log s on (0, edge), and the width (second derivative)^{-1/2}."""
    b, m = mechanism.scale, n - 1

    def slopes(s: Floats) -> tuple[Floats, Floats]:
        first, second = -u - (k + 1) / s, (k + 1) / s**2
        for beta, times in ((b * m / n, 1), (b / n, m)):
            left, right = 1 / (1 / beta - s), 1 / (1 / beta + s)  # the two poles of the transform
            first = first + times * (left - right)
            second = second + times * (left**2 + right**2)
        return first, second

    low, high = np.zeros_like(u), np.full_like(u, edge)
    c = high / 2
    for _ in range(40):  # any c in (0, edge) is right; a step of 1e-12 of the edge serves u up to 1e12 scales
        left = slopes(c)[0] < 0
        low, high = np.where(left, c, low), np.where(left, high, c)
        c = (low + high) / 2
    return c, 1 / np.sqrt(slopes(c)[1])
