"""Quadrature rules on (0, inf) and on an interval, as (nodes, weights)."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fairpost.engines.moments import Floats

Rule = tuple[Floats, Floats]


def _gauss(diagonal: NDArray[np.longdouble], beside: NDArray[np.longdouble], mass: float, damping: float) -> Rule:
    """Gauss quadrature for the weight whose orthonormal polynomials obey

        beside_k p_{k+1}(u) = (u - diagonal_k) p_k(u) - beside_{k-1} p_{k-1}(u),    p_0^2 = 1/mass.

    The nodes are the zeros of p_n: the eigenvalues of the tridiagonal matrix (Golub and Welsch 1969), which are right to a
    rounding of the largest one, then a Newton step, which makes the small ones right to a rounding of their own. The
    weights are 1/(p_0^2 + ... + p_{n-1}^2), a sum without cancellation. With `damping` the polynomials are multiplied by
    e^{-damping u}, so that the weights come with e^{2 damping u} put back and nothing overflows. SciPy has the same rules;
    importing it would take a quarter of a second, the longest part of a small audit.
    """
    n = diagonal.size
    matrix = np.diag(diagonal) + np.diag(beside[: n - 1], 1) + np.diag(beside[: n - 1], -1)
    u = np.linalg.eigvalsh(matrix.astype(np.float64)).astype(
        np.longdouble
    )  # where the processor has more digits, the recurrence uses them
    nothing = np.zeros(n, dtype=np.longdouble)
    for refined in (False, True):
        before, p = nothing, np.exp(-damping * u) / np.sqrt(np.longdouble(mass))
        slope_before, slope, squares = nothing, nothing, nothing
        for k in range(n):
            squares = squares + p * p
            low = beside[k - 1] if k else 0.0
            after = ((u - diagonal[k]) * p - low * before) / beside[k]
            slope_after = ((u - diagonal[k]) * slope + p - low * slope_before) / beside[k]
            before, p, slope_before, slope = p, after, slope, slope_after
        if not refined:
            u = u - p / slope
    return u.astype(np.float64), (1 / squares).astype(np.float64)


def _laguerre(n: int, power: int) -> Rule:
    """For the weight u^power e^{-u}, with e^u put back into the weights."""
    k = np.arange(n, dtype=np.longdouble)
    return _gauss(2 * k + 1 + power, np.sqrt((k + 1) * (k + 1 + power)), 1.0, 0.5)


@lru_cache(maxsize=64)
def laguerre(n: int) -> Rule:
    """Gauss-Laguerre with e^u put back into the weights: int_0^inf f(u) du for f like e^{-u} times a polynomial."""
    return _laguerre(n, 0)


@lru_cache(maxsize=64)
def radau(n: int) -> Rule:
    """Gauss-Radau-Laguerre: as `laguerre` with u = 0 among the n nodes, exact for e^{-u} times degree 2n - 2.

    The other nodes are those of Gauss quadrature for the weight u e^{-u}.
    """
    if n == 1:
        return np.zeros(1), np.ones(1)
    u, w = _laguerre(n - 1, 1)
    return np.concatenate([[0.0], u]), np.concatenate([[1.0 / n], w / u])


@lru_cache(maxsize=64)
def legendre(n: int) -> Rule:
    """Gauss-Legendre on (0, 1)."""
    k = np.arange(1, n + 1, dtype=np.longdouble)
    return _gauss(0 * k + 0.5, k / np.sqrt(4 * k * k - 1) / 2, 1.0, 0.0)


@lru_cache(maxsize=64)
def exp_sinh(step: float, reach: float = 3.7) -> Rule:
    """The double-exponential rule u = e^{(pi/2) sinh v} with the given step in v: for algebraic decay at infinity.

    `reach` 3.7 takes u from 1e-14 to 1e14: a tail like u^-2 is cut at 1e-14.
    """
    steps = int(np.ceil(reach / step))
    v = step * np.arange(-steps, steps + 1)
    u = np.exp(np.pi / 2 * np.sinh(v))
    return u, u * (np.pi / 2) * np.cosh(v) * step


def on_panels(edges: Floats, order: int) -> Rule:
    """Gauss-Legendre on the panels between neighbouring edges, all nodes in order."""
    unit, weight = legendre(order)
    wide = np.diff(edges)[:, None]
    return (edges[:-1, None] + wide * unit).ravel(), (wide * weight).ravel()
