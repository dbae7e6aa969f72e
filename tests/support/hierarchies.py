"""Trees, oracles and reference values that the tests of hierarchies share."""

import itertools

import numpy as np
from scipy import sparse

from fairpost.hierarchy import Hierarchy, Joint, LevelNoise, TopDown
from fairpost.noise import DiscreteGaussian
from support.data import path_or_skip

GEOIDS = {"state": 2, "county": 5, "tract": 11, "block group": 12, "block": 15}

# Root 10 (known), nodes 3 and 7, leaves 0, 3 | 1, 6; discrete Gaussian noise, sigma 1 on nodes and leaves: expected outputs of
# nodes and leaves by an independent full enumeration, printed to 9 decimals.
LEAVES = (0.0, 3.0, 1.0, 6.0)
TABLES = {
    "top-down": (3.000000707, 6.999999293, 0.312729680, 2.687271027, 1.037587572, 5.962411721),
    "top-down-threshold": (2.999822115, 7.000177885, 0.286191813, 2.713630302, 1.011120935, 5.989056950),
    "blue-down": (3.000000009, 6.999999991, 0.304342429, 2.695657580, 1.033966487, 5.966033504),
    "joint": (3.076898537, 6.923101463, 0.301391488, 2.775507049, 0.993810033, 5.929291430),
}
MEAN_FIELD = (0.0000686, -0.0000686, 0.279413, -0.279345, 0.037196, -0.037265)


def seven() -> tuple[Hierarchy, LevelNoise]:
    tree = Hierarchy.from_labels([list("aabb"), list("0123")], ["node", "leaf"])
    return tree, LevelNoise(tree, sigmas=[1.0, 1.0])


def rules(tree: Hierarchy) -> dict:
    return {
        "top-down": TopDown(tree),
        "top-down-threshold": TopDown(tree, threshold="best"),
        "blue-down": TopDown(tree, pool=True),
        "joint": Joint(tree),
    }


def enumeration(reach: int = 6, least: float = 1e-15) -> tuple[np.ndarray, np.ndarray]:
    """Draws of six noises with their probabilities.

    Beyond +-6 lies a mass of 2e-11 a noise, and at most 13^6 draws of probability below 1e-15 are left out (5e-9 in all; they
    weigh deviations of a few counts, nearly symmetric, so that expectations move by less than 1e-9: see the sum below).
    """
    k = np.arange(-reach, reach + 1.0)
    p = DiscreteGaussian(1.0).density(k)
    half = np.array(list(itertools.product(range(k.size), repeat=3)))
    weight = p[half].prod(axis=1)
    i, j = np.nonzero(np.outer(weight, weight) > least)
    return np.hstack([k[half[i]], k[half[j]]]), weight[i] * weight[j]


def bushy(rng: np.random.Generator, families: int = 12, most: int = 9) -> tuple[Hierarchy, np.ndarray]:
    """Three levels of uneven families, only children and empty families among them, rows shuffled."""
    rows = []
    for a in range(3):
        for b in range(families // 3):
            for c in range(int(rng.integers(1, 4))):
                rows += [(f"{a}", f"{b}", f"{c}", f"{d}") for d in range(int(rng.integers(1, most)))]
    rows = [rows[i] for i in rng.permutation(len(rows))]
    tree = Hierarchy.from_labels(list(zip(*rows, strict=True)), ["a", "b", "c", "d"])
    x = np.floor(rng.lognormal(1.0, 1.5, tree.n)) * (rng.random(tree.n) > 0.3)
    return tree, x


def constraints(tree: Hierarchy) -> sparse.csr_array:
    """Children less parent = 0, one row an inner node."""
    inner = int(tree.offsets[-2])
    rows = np.concatenate([np.repeat(np.arange(inner), np.diff(tree.child)), np.arange(inner)])
    columns = np.concatenate([np.arange(1, tree.nodes), np.arange(inner)])
    entries = np.concatenate([np.ones(tree.nodes - 1), -np.ones(inner)])
    return sparse.csr_array((entries, (rows, columns)), shape=(inner, tree.nodes))


def consistent(tree: Hierarchy, v: np.ndarray) -> float:
    """The largest difference between a parent and its children, relative to max(1, the root)."""
    off = np.abs(constraints(tree) @ np.atleast_2d(v).T).max()
    return float(off / max(1.0, np.abs(np.atleast_2d(v)[:, 0]).max()))


def rhode_island():
    import polars as pl

    table = pl.read_csv(path_or_skip("ri_blocks_2020.csv"), infer_schema=False)
    return table["geoid"], table["pop"].cast(pl.Float64).to_numpy(), table["vtd"]
