"""Quadrature rules on (0, inf) and on an interval, as (nodes, weights)."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from fairpost.engines.moments import Floats

Rule = tuple[Floats, Floats]


@lru_cache(maxsize=64)
def laguerre(n: int) -> Rule:
    """Gauss-Laguerre with e^u put back into the weights: int_0^inf f(u) du for f like e^{-u} times a polynomial."""
    from scipy.special import roots_laguerre

    u, w = roots_laguerre(n)
    return u, w * np.exp(u)


@lru_cache(maxsize=64)
def radau(n: int) -> Rule:
    """Gauss-Radau-Laguerre: as `laguerre` with u = 0 among the n nodes, exact for e^{-u} times degree 2n - 2.

    The other nodes are those of Gauss quadrature for the weight u e^{-u}.
    """
    from scipy.special import roots_genlaguerre

    if n == 1:
        return np.zeros(1), np.ones(1)
    u, w = roots_genlaguerre(n - 1, 1.0)
    return np.concatenate([[0.0], u]), np.concatenate([[1.0 / n], w / u * np.exp(u)])


@lru_cache(maxsize=64)
def legendre(n: int) -> Rule:
    """Gauss-Legendre on (0, 1)."""
    from scipy.special import roots_legendre

    u, w = roots_legendre(n)
    return (u + 1) / 2, w / 2


@lru_cache(maxsize=64)
def exp_sinh(step: float, reach: float = 3.7) -> Rule:
    """The double-exponential rule u = e^{(pi/2) sinh v} with the given step in v: for algebraic decay at infinity.

    `reach` 3.7 takes u from 1e-14 to 1e14: a tail like u^-2 is cut at 1e-14.
    """
    steps = int(np.ceil(reach / step))
    v = step * np.arange(-steps, steps + 1)
    u = np.exp(np.pi / 2 * np.sinh(v))
    return u, u * (np.pi / 2) * np.cosh(v) * step
