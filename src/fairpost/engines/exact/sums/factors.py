"""One noisy count cut at a point and tilted by e^{sp}, for the four noises, on whole arrays.

p = eta - c is what lies above the cut c (c = cut - count). With the lift d = max(-c, 0), which takes the size off,

    below e^{-sd}            P(eta <= c)
    kept  e^{-sd}            E[e^{sp}; p > 0]
    first e^{-sd}            E[p e^{sp}; p > 0]

are of order 1 on the whole strip. `c` and `s` broadcast against each other; the noise has its own unit (continuous noise: scale 1;
whole-number noise: its own b or sigma, with c a whole number).

Laplace: for c > 0 an exponential tail; for c <= 0 the whole line, M = 1/(1 - s^2), less its mirror image. Gaussian: Mills'
ratio I(q) = int_0^inf e^{-v^2/2 - qv} dv at q = c - s, by the Faddeeva function. Discrete Laplace: geometric sums of g = q e^s above
and h = q e^{-s} below. The discrete Gaussian has no closed form: its masses are summed from the top, all cuts at once for each s.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpost import cancel
from fairpost.engines.moments import Floats
from fairpost.noise import Law
from fairpost.noise.base import DISCRETE_GAUSSIAN, DISCRETE_LAPLACE, GAUSSIAN, LAPLACE

Complexes = NDArray[Any]


@dataclass(frozen=True)
class Parts:
    """below, kept and first, each times e^{-s d}; e^{-s d} itself; and d."""

    below: Complexes
    kept: Complexes
    first: Complexes
    shift: Complexes
    depth: Floats


def parts(noise: Law, c: Floats, s: Complexes) -> Parts:
    """The parts of one entity for each cut c and each s (real or complex, inside the strip)."""
    found: Parts = _FORMS[noise.code](noise, c, s)
    return found


def log_product(psi: Complexes, weight: Floats) -> Complexes:
    """log prod psi^weight over the last axis; of complex numbers in two real halves, which NumPy takes in a third of the time."""
    if not np.iscomplexobj(psi):
        return np.asarray(np.log(psi) @ weight)
    size = 0.5 * np.log(psi.real**2 + psi.imag**2) @ weight
    return np.asarray(size + 1j * (np.arctan2(psi.imag, psi.real) @ weight))


def kept_part(noise: Law, c: Floats, s: Complexes) -> tuple[Complexes, Complexes]:
    """`kept` and `shift` of `parts` alone, for continuous noise."""
    if noise.code == LAPLACE:
        kept, shift, *_ = _laplace_kept(c, s)
    else:
        kept, shift, *_ = _gaussian_kept(c, s)
    return kept, shift


def _laplace_kept(c: Floats, s: Complexes) -> tuple[Complexes, ...]:
    half = 0.5 * np.exp(-np.abs(c))
    up, down = 1 / (1 - s), 1 / (1 + s)
    deep = c <= 0
    shift = np.exp(np.where(deep, c, 0.0) * s)
    edge = half * shift * np.where(deep, down, up)
    whole = up * down
    return np.where(deep, whole - edge, edge), shift, deep, half, up, down, edge, whole


def _laplace(noise: Law, c: Floats, s: Complexes) -> Parts:
    kept, shift, deep, half, up, down, edge, whole = _laplace_kept(c, s)
    first = np.where(deep, whole * (2 * s * whole - c) + edge * down, edge * up)
    return Parts(np.where(deep, half, 1 - half) * shift, kept, first, shift, np.where(deep, -c, 0.0))


def _gaussian_kept(c: Floats, s: Complexes) -> tuple[Complexes, ...]:
    from scipy.special import wofz

    deep = c <= 0
    shift = np.exp(np.where(deep, c, 0.0) * s)
    edge = np.exp(-0.5 * c * c) / np.sqrt(2 * np.pi) * shift
    q = c - s
    turned = q.real < 0
    mills = np.sqrt(np.pi / 2) * wofz(1j * np.where(turned, -q, q) / np.sqrt(2.0))
    mills = mills if np.iscomplexobj(s) else mills.real
    # the whole line e^{s^2/2 - sc} less the mirror image; lifted where c <= 0
    whole = np.exp(np.where(turned, 0.5 * s * s - np.where(deep, 0.0, c) * s, 0.0))
    return np.where(turned, whole - edge * mills, edge * mills), shift, deep, edge, q


def _gaussian(noise: Law, c: Floats, s: Complexes) -> Parts:
    from scipy.special import ndtr

    kept, shift, deep, edge, q = _gaussian_kept(c, s)
    first = edge - q * kept
    return Parts(ndtr(c) * shift, kept, first, shift, np.where(deep, -c, 0.0))


def _discrete_laplace(noise: Law, c: Floats, s: Complexes) -> Parts:
    b = noise.spread
    q = np.exp(-1 / b)
    mass = np.tanh(0.5 / b)
    tail = np.exp(-np.abs(c) / b)
    up, down = -np.expm1(s - 1 / b), -np.expm1(-s - 1 / b)  # 1 - g and 1 - h
    g, h = np.exp(s - 1 / b), np.exp(-s - 1 / b)
    deep = c < 0
    shift = np.exp(np.where(deep, c, 0.0) * s)
    whole = (-np.expm1(-1 / b)) ** 2 / (up * down)
    edge = mass * tail * shift
    kept = np.where(deep, whole - edge / down, edge * g / up)
    slope = g / up - h / down
    first = np.where(deep, whole * (slope - c) + edge * h / down**2, edge * g / up**2)
    below = np.where(deep, tail / (1 + q), 1 - tail * q / (1 + q))
    return Parts(below * shift, kept, first, shift, np.where(deep, -c, 0.0))


def _discrete_gaussian(noise: Law, c: Floats, s: Complexes) -> Parts:
    """Sums over the masses k = c + 1, c + 2, ... from the top: U(c) = e^s (p(c + 1) + U(c + 1)), likewise the first moment.

    Below the centre the sums from the top are large where those from the bottom are small, and rounding of the whole is
    what is left: 1e-16 of the whole line, which is of order 1 after the lift.
    """
    sigma = noise.spread
    reach = int(np.ceil(13 * sigma + 1 + np.max(np.abs(s.real), initial=0.0) * sigma**2))
    k = np.arange(-reach, reach + 1)
    mass = np.asarray(noise.density(k))
    flat, where = np.unique(np.asarray(s).ravel(), return_inverse=True)
    # e^{s (k - c)} lifted by e^{-s max(-c, 0)} is e^{s (k - max(c, 0))}
    deep = np.minimum(c, 0.0)
    place = (np.clip(c, -reach - 1, reach) + reach + 1).astype(np.int64)  # masses from here on lie above the cut
    shape = np.broadcast_shapes(c.shape, s.shape)
    at = np.broadcast_to(place, shape).ravel()
    node = np.broadcast_to(where.reshape(s.shape), shape).ravel()
    term = np.exp(np.multiply.outer(flat, k)) * mass
    cancel.check()  # one of these arrays can take a second
    zeroth = np.zeros((flat.size, k.size + 1), dtype=flat.dtype)
    moment = np.zeros_like(zeroth)
    zeroth[:, :-1] = np.cumsum(term[:, ::-1], axis=1)[:, ::-1]
    cancel.check()
    moment[:, :-1] = np.cumsum((term * k)[:, ::-1], axis=1)[:, ::-1]
    cancel.check()
    high = np.broadcast_to(
        np.clip(c, 0.0, reach), shape
    ).ravel()  # beyond the reach nothing is kept, whatever it is lifted by
    drop = np.exp(-flat[node] * high)
    cut = np.broadcast_to(c, shape).ravel()
    cancel.check()
    kept = (zeroth[node, at] * drop).reshape(shape)
    first = ((moment[node, at] - cut * zeroth[node, at]) * drop).reshape(shape)
    shift = np.exp(deep * s)
    return Parts(np.asarray(noise.cdf(c)) * shift, kept, first, shift, -deep)


_FORMS: dict[Any, Any] = {
    LAPLACE: _laplace,
    GAUSSIAN: _gaussian,
    DISCRETE_LAPLACE: _discrete_laplace,
    DISCRETE_GAUSSIAN: _discrete_gaussian,
}
