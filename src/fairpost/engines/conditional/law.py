"""The law of one noise as kernels take it: partial moments in both tails, moments, quantiles."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import exp1, expi, ndtri

from fairpost.engines.conditional.kernels import signed
from fairpost.engines.conditional.kernels import tails as kernel
from fairpost.noise import Law, Mechanism
from fairpost.noise.base import DISCRETE_LAPLACE, GAUSSIAN, LAPLACE

Floats = NDArray[np.float64]
ORDER = 12
"""The highest power of a partial moment: the series of 1/S has its least term there or before, for the S that are asked."""
REACH = 38.5
"""Deviations beyond which a double has no mass of a Gaussian left."""
LONGEST = 2**21
"""Rows of a table at most (200 MB): a discrete Gaussian of sigma 54,000."""


@dataclass(frozen=True, eq=False)
class Tails:
    """F and G_k(c) = E[(c - eta)_+^k]: by symmetry its two tails E[(-y - eta)_+^k], y >= 0, and whole moments are enough."""

    code: int
    b: float
    table: Floats
    moments: Floats
    """E[eta^k], k = 0 to ORDER."""

    @classmethod
    def of(cls, noise: Mechanism) -> Tails | str:
        """Of one of the four noises, else why not."""
        if not isinstance(noise, Law) or noise.code is None:
            return f"the tails of {noise.name} noise are not known"
        b, k = noise.spread, np.arange(ORDER + 1)
        if noise.code == LAPLACE:
            table = np.array([[0.5 * math.factorial(j) * b**j for j in k]])
        elif noise.code == GAUSSIAN:
            table = np.empty((1, ORDER + 1))
            kernel.tails(GAUSSIAN, b, table, np.zeros(1), table)
        elif noise.code == DISCRETE_LAPLACE:
            # sum_l l^k t q^l by v_k = sum_l (l + 1)^k q^l: v_k (1 - q) = sum_{j < k} binom(k, j) q v_j
            q, rest = math.exp(-1 / b), -math.expm1(-1 / b)
            v = [1 / rest]
            for j in k[1:]:
                v.append((sum(math.comb(j, i) * q * v[i] for i in range(j))) / rest)
            table = math.tanh(0.5 / b) * np.array([[1 / rest, *v[1:]]])
        elif REACH * b > LONGEST:
            return f"sums over the masses of {noise.name} noise of sigma {b:g} need a table of {REACH * b:.3g} rows"
        else:
            mass = noise.density(-np.arange(math.ceil(REACH * b) + 2, dtype=np.float64))
            table = np.empty((mass.size, ORDER + 1))
            kernel.gaussian_table(mass, table)
        moments = np.where(k % 2 == 0, 2 * table[0], 0.0)
        moments[0] = 1.0
        return cls(noise.code, b, np.ascontiguousarray(table), moments)

    @property
    def discrete(self) -> bool:
        """Whether it is of whole numbers."""
        return self.code >= DISCRETE_LAPLACE

    def cdf(self, c: Floats) -> Floats:
        """P(eta <= c)."""
        out = np.empty(np.size(c))
        kernel.chances(self.code, self.b, self.table, np.ravel(c), out)
        return np.asarray(out.reshape(np.shape(c)))

    def partial(self, c: Floats, last: int) -> tuple[Floats, Floats]:
        """E[(c - eta)_+^k] and E[(eta - c)_+^k] for k = 0 to last, along a new last axis; an atom at c counts on both sides for k = 0."""
        c = np.asarray(c, dtype=np.float64)
        near = np.empty((c.size, last + 1))
        kernel.tails(self.code, self.b, self.table, np.abs(c).ravel(), near)
        near = near.reshape(*c.shape, last + 1)
        # E(|c| - eta)_+^k, the other side, from the whole moments: (v_+)^k = v^k - (-1)^k ((-v)_+)^k
        far = np.empty_like(near)
        for k in range(last + 1):
            whole = sum(math.comb(k, j) * np.abs(c) ** (k - j) * self.moments[j] for j in range(0, k + 1, 2))
            far[..., k] = whole - (-1) ** k * near[..., k]
        up = (c > 0)[..., None]
        return np.where(up, far, near), np.where(up, near, far)

    def quantile(self, u: Floats) -> Floats:
        """The least c with P(eta <= c) >= u (its mirror image above the median), to full relative accuracy in both tails."""
        if self.code == GAUSSIAN:
            return np.asarray(self.b * ndtri(u))
        tail = np.minimum(u, 1 - u)
        if self.code == LAPLACE:
            size = -self.b * np.log(2 * tail)
        elif self.code == DISCRETE_LAPLACE:
            size = np.maximum(np.floor(-self.b * np.log(tail / self.table[0, 0])), 0.0)
        else:
            size = self.table.shape[0] - 1.0 - np.searchsorted(self.table[::-1, 0], tail)
            size = np.maximum(size, 0.0)
        return np.asarray(np.where(u < 0.5, -size, size))


@cache
def exponentials() -> Floats:
    """What `kernels.signed` interpolates, by rows: k M(k), k N(k) and their slopes in log k."""
    k = np.exp(np.arange(signed.LOW, signed.HIGH + signed.STEP, signed.STEP))
    m, n = k * np.exp(k) * exp1(k), k * np.exp(-k) * expi(k)
    return np.array([m, m + k * m - k, n, n - k * n + k])
