"""Brute force for shares of two and three entities: an integral over directions.

Shares do not change when z = a X is multiplied by a number. With y = z / scale, whose noise has scale 1, E[f(z)]
is the integral over the directions d of f(scale d) times the mass on the line along d,
g(d) = int |rho|^{n-1} p(rho d) d rho. Kinks of f and of g are planes through the origin, and the rule is broken at
every one of them. Nothing here is shared with the engine.
"""

from itertools import combinations, pairwise

import numpy as np

UNIT, WEIGHT = np.polynomial.legendre.leggauss(24)
NODE, PART = np.polynomial.legendre.leggauss(10)
SHRINK = 0.5 * np.outer([-1, 1], 0.2 ** np.arange(7)).ravel()
HALF = np.pi / 2


def mass_along(d: np.ndarray, c: np.ndarray, laplace: bool) -> tuple[np.ndarray, np.ndarray]:
    """The mass on rho d for rho > 0 and for rho < 0; rows of d are directions, y = c + noise of scale 1."""
    low, high = (_laplace_pieces if laplace else _gaussian_pieces)(d, c)
    half = (high - low)[..., None] / 2
    rho = (low + high)[..., None] / 2 + half * UNIT
    away = rho[..., None] * d[:, None, None] - c
    log = -np.sum(np.abs(away), axis=-1) if laplace else -np.sum(away**2, axis=-1) / 2
    norm = (2.0 if laplace else np.sqrt(2 * np.pi)) ** c.size
    part = np.sum(half * WEIGHT * np.abs(rho) ** (c.size - 1) * np.exp(log), axis=-1) / norm
    up = low + high > 0
    return np.sum(part * up, axis=1), np.sum(part * ~up, axis=1)


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


def _gaussian_pieces(d: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Nine deviations on either side of the peak, in four pieces, broken at 0."""
    width = 1 / np.linalg.norm(d, axis=1, keepdims=True)
    steps = (d @ c)[:, None] * width**2 + width * np.array([-9.0, -4.5, 0.0, 4.5, 9.0])
    points = np.sort(np.concatenate([steps, np.zeros((len(d), 1))], axis=1), axis=1)
    return points[:, :-1], points[:, 1:]


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
