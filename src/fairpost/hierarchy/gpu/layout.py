"""What follows from the specification alone: which kernels a simulation takes, which team works on which family, and in which order
sums by class are added.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fairpost.engines.montecarlo.backends.gpu.device import HERE as NOISE
from fairpost.engines.montecarlo.backends.gpu.laws import GUIDED
from fairpost.hierarchy.spec import Spec
from fairpost.noise.base import DISCRETE_GAUSSIAN, DISCRETE_LAPLACE

Ints = NDArray[np.int64]
HERE = Path(__file__).parent / "cuda"
SHARED = (NOISE / "noise.cu", NOISE / "teams.cu", HERE / "tree.cu", HERE / "leaves.cu")
REACH = 45.0
"""No noise is further out than so many times its parameter: see `noise.kernels.streams`."""
LARGEST = 2**29
TEAMS = ((4, 2), (4, 4), (4, 6), (8, 4), (8, 6), (16, 4), (16, 6), (32, 4), (32, 6), (32, 8))
"""(lanes, leaves a lane): a team holds lanes x leaves in registers (`cuda/plain.cu`)."""
CROWDS = ((128, 4), (128, 8))
"""Likewise blocks of 128 threads, for whole numbers (`cuda/whole.cu`)."""
SMALL = 16
"""Families of at most so many inner nodes have four lanes, the others a warp."""
CHUNK = 4096
"""Entries of a class that one block of threads adds up."""


def sources_of(spec: Spec) -> tuple[Path, ...]:
    """The files, the leaves' own last."""
    if spec.steeps[-1] != 1.0:
        return (*SHARED, HERE / "ramps.cu")
    return (*SHARED, HERE / ("whole.cu" if fits_ints(spec) else "plain.cu"))


def macros_of(spec: Spec) -> tuple[str, ...]:
    """KIND; whether the leaves' noise has a table; whether there is rounding or an area to follow."""
    guided = spec.kind == DISCRETE_GAUSSIAN and spec.spreads[-1] <= GUIDED
    extra = spec.whole or bool(spec.divisions)
    return (f"KIND={spec.kind}", f"GUIDED={int(guided)}", f"EXTRA={int(extra)}")


def fits_ints(spec: Spec) -> bool:
    """Whether the leaves are whole numbers with whole-number noise, and a family's sum of measurements is an int for sure."""
    if spec.kind not in (DISCRETE_LAPLACE, DISCRETE_GAUSSIAN):
        return False
    x = spec.x[spec.inner :]
    first = int(spec.offsets[-3])
    sizes = np.diff(spec.child[first : spec.inner + 1])
    most = float((spec.x[first : spec.inner] + sizes * (REACH * spec.spreads[-1] + 1.0)).max())
    return most < LARGEST and bool((x == np.floor(x)).all())


@dataclass(frozen=True, eq=False)
class Team:
    """Families of like size, and the kernel that works on them."""

    kernel: str
    lanes: int
    families: NDArray[np.int32]


def leaf_teams(child: Ints, first: int, last: int, whole: bool) -> list[Team]:
    """The parents of leaves, first <= p < last, by size; numbers begin at `first`. `whole`: there are kernels for whole numbers.

    Leaves are drawn in pairs of nodes 2j, 2j + 1, so a family that begins at an odd node needs a place more.
    """
    sizes, odd = np.diff(child[first : last + 1]), child[first:last] & 1
    need = sizes + odd
    out = [Team("only_children", 1, np.flatnonzero(sizes == 1).astype(np.int32))]
    low = 0
    for lanes, each in (*TEAMS, *CROWDS) if whole else TEAMS:
        inside = np.flatnonzero((need > low) & (need <= lanes * each) & (sizes > 1))
        name = "crowd" if (lanes, each) in CROWDS else "leaves"
        out.append(Team(f"{name}_{lanes}_{each}", lanes, inside.astype(np.int32)))
        low = lanes * each
    out.append(Team("large_family", 0, np.flatnonzero(need > low).astype(np.int32)))
    return [team for team in out if team.families.size]


def inner_teams(child: Ints, first: int, last: int) -> list[tuple[int, NDArray[np.int32]]]:
    """Families of inner nodes: (lanes, parents)."""
    sizes = np.diff(child[first : last + 1])
    parts = [(4, np.flatnonzero(sizes <= SMALL) + first), (32, np.flatnonzero(sizes > SMALL) + first)]
    return [(lanes, which.astype(np.int32)) for lanes, which in parts if which.size]


@dataclass(frozen=True, eq=False)
class Chunks:
    """Entries by class, class after class, cut into chunks."""

    order: NDArray[np.int32]
    starts: NDArray[np.int32]
    """Chunk c is order[starts[c]:starts[c + 1]]."""
    owner: Ints
    """The class of each chunk."""

    @classmethod
    def of(cls, labels: NDArray[np.int32]) -> Chunks:
        """From the class of each entry; -1: in none."""
        order = np.argsort(labels, kind="stable").astype(np.int32)
        order = order[int(np.count_nonzero(labels < 0)) :]
        counts = np.bincount(labels[labels >= 0])
        ends = np.cumsum(counts)
        starts, owner = [], []
        for k in np.flatnonzero(counts):
            cuts = np.arange(ends[k] - counts[k], ends[k], CHUNK)
            starts.append(cuts)
            owner.append(np.full(cuts.size, k))
        edges = np.concatenate([*starts, [order.size]]).astype(np.int32)
        return cls(order, edges, np.concatenate(owner).astype(np.int64))

    def sums(self, rows: NDArray[np.float64], many: int) -> NDArray[np.float64]:
        """Each row's sums by class from those by chunk, in the order of the chunks."""
        out = np.empty((rows.shape[0], many))
        for k, row in enumerate(rows):
            out[k] = np.bincount(self.owner, row, minlength=many)
        return out
