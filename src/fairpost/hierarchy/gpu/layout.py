"""Which team works on which family, and in which order sums by class are added: both follow from the tree alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
TEAMS = ((4, 2), (4, 4), (4, 6), (8, 4), (8, 6), (16, 4), (16, 6), (32, 4), (32, 6), (32, 8))
"""(lanes, leaves a lane): a team holds lanes x leaves in registers (`cuda/plain.cu`)."""
CROWDS = ((128, 4), (128, 8))
"""Likewise blocks of 128 threads, for whole numbers (`cuda/whole.cu`)."""
SMALL = 16
"""Families of at most so many inner nodes have four lanes, the others a warp."""
CHUNK = 4096
"""Entries of a class that one block of threads adds up."""


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
