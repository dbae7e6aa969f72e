"""Brute force for shares of two and three entities: an integral over directions.

Shares do not change when z = a X is multiplied by a number. With y = z / scale, whose noise has scale 1, E[f(z)]
is the integral over the directions d of f(scale d) times the mass on the line along d,
g(d) = int |rho|^{n-1} p(rho d) d rho. Kinks of f and of g are planes through the origin, and the rule is broken at
every one of them. Nothing here is shared with the engine.
"""

from itertools import combinations, pairwise

import numpy as np
from scipy.special import ndtr

UNIT, WEIGHT = np.polynomial.legendre.leggauss(24)
NODE, PART = np.polynomial.legendre.leggauss(10)
SHRINK = 0.5 * np.outer([-1, 1], 0.2 ** np.arange(7)).ravel()
HALF = np.pi / 2


def mass_along(d: np.ndarray, c: np.ndarray, laplace: bool) -> tuple[np.ndarray, np.ndarray]:
    """The mass on rho d for rho > 0 and for rho < 0; rows of d are directions (of length 1), y = c + noise of scale 1."""
    return _laplace_mass(d, c) if laplace else _gaussian_mass(d, c)


def _laplace_mass(d: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """On a piece the exponent is the line through its ends, so it is found there alone."""
    low, high = _laplace_pieces(d, c)
    ends = [-np.sum(np.abs(at[..., None] * d[:, None] - c), axis=-1)[..., None] for at in (low, high)]
    half, middle = (high - low)[..., None] / 2, (low + high)[..., None] / 2
    log = (ends[0] + ends[1]) / 2 + (ends[1] - ends[0]) / 2 * UNIT
    part = np.sum(half * np.abs(middle + half * UNIT) ** (c.size - 1) * np.exp(log) * WEIGHT, axis=-1) / 2.0**c.size
    up = low + high > 0
    return np.sum(part * up, axis=1), np.sum(part * ~up, axis=1)


def _gaussian_mass(d: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """With m = d.c: |rho d - c|^2 = (rho - m)^2 + |c|^2 - m^2, and the moments of a normal law above 0 are known.

    int_0^inf rho e^{-(rho - m)^2 / 2} = m I + E and int_0^inf rho^2 e^{-(rho - m)^2 / 2} = (1 + m^2) I + m E with
    I = sqrt(2 pi) Phi(m) and E = e^{-m^2 / 2}; for rho < 0 the sign of m turns.
    """
    m = d @ c
    off = np.exp(-(c @ c - m**2) / 2) / (2 * np.pi) ** (c.size / 2)
    edge = np.exp(-(m**2) / 2)

    def above(m: np.ndarray) -> np.ndarray:
        whole = np.sqrt(2 * np.pi) * ndtr(m)
        return off * (m * whole + edge if c.size == 2 else (1 + m**2) * whole + m * edge)

    return above(m), above(-m)


def _laplace_pieces(d: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Between the points c_j/d_j the exponent is linear; 24 nodes where it falls by 40 at most leave 1e-13."""
    with np.errstate(divide="ignore", invalid="ignore"):
        kinks = np.clip(np.nan_to_num(c / d, nan=0.0), -1e6, 1e6)
    reach = 45 / np.sum(np.abs(d), axis=1, keepdims=True)
    first, last = np.minimum(kinks.min(axis=1), 0)[:, None] - reach, np.maximum(kinks.max(axis=1), 0)[:, None] + reach
    points = np.sort(np.concatenate([kinks, np.zeros((len(d), 1)), first, last], axis=1), axis=1)
    level = -np.sum(np.abs(points[..., None] * d[:, None] - c), axis=-1)
    low, high, rise = points[:, :-1], points[:, 1:], np.diff(level, axis=1)
    keep = (high - low) * np.minimum(1.0, 40 / np.maximum(np.abs(rise), 1e-9))
    return np.where(rise > 0, high - keep, low), np.where(rise > 0, high, low + keep)


def _panels(points: np.ndarray, longest: float) -> tuple[np.ndarray, np.ndarray]:
    """10 nodes on each panel between the points inside a half turn, none longer than `longest`."""
    inside = np.unique(np.concatenate([[-HALF, HALF], points[np.abs(points) < HALF]]))
    edges = [np.linspace(a, b, int(np.ceil((b - a) / longest)) + 1)[:-1] for a, b in pairwise(inside)]
    edges = np.append(np.concatenate(edges), HALF)
    half = np.diff(edges) / 2
    return ((edges[:-1] + half)[:, None] + half[:, None] * NODE).ravel(), (half[:, None] * PART).ravel()


def in_plane(c: np.ndarray, scale: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Half of the circle, with panels that shrink towards both axes, z_1 + z_2 = 0 and the direction of c."""
    towards = [0.0, HALF, -HALF, np.arctan(-scale[0] / scale[1]), np.arctan2(c[1], c[0])]
    points = np.concatenate([towards, *(at + SHRINK for at in towards)])
    angle, weight = _panels(points, 0.25)
    return np.stack([np.cos(angle), np.sin(angle)], axis=1), weight


def in_space(c: np.ndarray, scale: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Half of the sphere, d = (sin a cos g, sin g, cos a cos g), broken at the planes where shares have kinks.

    These are z_i = 0, z_i + z_j / 2 = 0 (a second entity is clipped), z_1 + z_2 + z_3 = 0; and y_i c_j = y_j c_i
    (Laplace noise). Around the lines z = (-2, 1, 1), where shares take every value, panels shrink, and so they do
    towards the plane of the sum.
    """
    planes = [*np.eye(3), scale]
    for i, j in combinations(range(3), 2):
        e, f = np.eye(3)[i], np.eye(3)[j]
        planes += [e * scale[i] + f * scale[j] / 2, f * scale[j] + e * scale[i] / 2, e * c[j] - f * c[i]]
    planes = np.array([p for p in planes if np.any(p != 0)])
    lines = np.array([np.cross(p, q) for p, q in combinations(planes, 2)])
    lines = lines[np.hypot(lines[:, 0], lines[:, 2]) > 1e-12]
    meet = (np.ones(3) - 3 * np.eye(3)) / scale
    points = np.concatenate([_azimuth(lines), np.add.outer(_azimuth(meet), SHRINK).ravel()])
    found, weights = [], []
    tilted = planes[planes[:, 1] != 0]
    for a, w in zip(*_panels(points, 0.5), strict=True):
        cuts = np.arctan(-(tilted[:, 0] * np.sin(a) + tilted[:, 2] * np.cos(a)) / tilted[:, 1])
        sum_at = np.arctan(-(scale[0] * np.sin(a) + scale[2] * np.cos(a)) / scale[1])
        g, wg = _panels(np.concatenate([cuts, sum_at + SHRINK]), 0.5)
        found.append(np.stack([np.sin(a) * np.cos(g), np.sin(g), np.cos(a) * np.cos(g)], axis=1))
        weights.append(w * wg * np.cos(g))
    return np.concatenate(found), np.concatenate(weights)


def _azimuth(d: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return np.arctan(d[:, 0] / d[:, 2])


def blocks(x: np.ndarray, a: np.ndarray, mechanism) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Values z on directions, with the mass for rho > 0 and for rho < 0, in blocks; two or three entities."""
    scale = a * mechanism.spread
    c = a * x / scale
    d, weight = (in_plane if x.size == 2 else in_space)(c, scale)
    out = []
    for part in np.array_split(np.arange(len(d)), 1 + len(d) // 20_000):
        up, down = mass_along(d[part], c, mechanism.name == "laplace")
        out.append((d[part] * scale, weight[part] * up, weight[part] * down))
    return out
