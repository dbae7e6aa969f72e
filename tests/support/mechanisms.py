"""One table for many laws: the mechanisms, vectors of counts, noise from NumPy, and school districts."""

import numpy as np

import fairpost as fp
from support.data import rows_or_skip

HAWAII = (53.0, 22563.0, 54381.0, 67054.0, 311451.0)
"""Households by county, ACS 2013-2017: Kalawao, Kauai, Maui, Hawaii, Honolulu."""

MECHANISMS = {
    "laplace": fp.Laplace(scale=3.0),
    "gaussian": fp.Gaussian(sigma=4.0),
    "discrete-laplace": fp.DiscreteLaplace(scale=3.0),
    "discrete-gaussian": fp.DiscreteGaussian(sigma=4.0),
}
CONTINUOUS = {name: MECHANISMS[name] for name in ("laplace", "gaussian")}

COUNTS = {
    "one": [7.0],
    "two": [0.0, 9.0],
    "three": [1.0, 2.0, 30.0],
    "ties": [2.0, 2.0, 5.0, 5.0, 5.0],
    "zeros": [0.0, 0.0, 0.0, 4.0, 12.0],
    "giant": [0.0, 1.0, 3.0, 8.0, 1e6],
    "dense": list(np.arange(0.0, 20.0)),
}


def saipe(column: str = "poor_5_17") -> fp.Counts:
    """SAIPE 2019 school districts; the test is skipped by name where the file is absent."""
    rows = rows_or_skip("saipe_2019.csv")
    return fp.Counts([float(row[column]) for row in rows], ids=[row["leaid"] for row in rows])


def noise(name: str, shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Noise of a mechanism of the table from NumPy, independent of the package's own streams."""
    rng = np.random.default_rng(seed)
    spread = MECHANISMS[name].spread
    if name == "laplace":
        return rng.laplace(0.0, spread, shape)
    if name == "gaussian":
        return rng.normal(0.0, spread, shape)
    if name == "discrete-laplace":
        q = np.exp(-1 / spread)
        return (rng.geometric(1 - q, shape) - rng.geometric(1 - q, shape)).astype(float)
    points = np.arange(-40 * int(spread), 40 * int(spread) + 1)
    mass = np.exp(-(points**2) / (2 * spread**2))
    return rng.choice(points, shape, p=mass / mass.sum()).astype(float)
