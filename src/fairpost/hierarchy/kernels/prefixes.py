"""Sorted ids of one length to a tree: one pass that compares neighbours, one that writes child ranges."""

import numpy as np
from numpy.typing import NDArray

from fairpost.compiled import kernel

Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]


@kernel
def shared(codes: Bytes, out: NDArray[np.uint8], lengths: Ints, counts: Ints) -> int:
    """How many levels each id shares with the one before it, and the number of nodes a level.

    Returns the number of rows where the order holds: all of them, or the first that is not above its predecessor; a
    duplicate is such a row too.
    """
    n, width, levels = codes.shape[0], codes.shape[1], lengths.size
    counts[:] = 1
    out[0] = 0
    for i in range(1, n):
        before, here = codes[i - 1], codes[i]
        d = 0
        while d < width and before[d] == here[d]:
            d += 1
        if d == width or here[d] < before[d]:
            return int(i)
        same = 0
        while same < levels and lengths[same] <= d:
            same += 1
        out[i] = same
        for level in range(same, levels):
            counts[level] += 1
    return int(n)


@kernel
def link(same: NDArray[np.uint8], offsets: Ints, child: Ints, starts: Ints) -> None:
    """From levels shared with the neighbour to the first child of each inner node, and its first leaf.

    Nodes are numbered level by level; `offsets[l]` is the first of level l, the root is 0.
    """
    levels = offsets.size - 2
    at = offsets[:-1].copy()  # the next node of each level
    at[0] = 1
    child[0], starts[0] = 1, 0
    for i in range(same.size):
        for level in range(same[i] + 1, levels + 1):
            node = at[level]
            at[level] += 1
            if level < levels:
                starts[node] = i
                child[node] = at[level + 1]
    child[offsets[levels]] = offsets[levels + 1]


@kernel
def digits(codes: Bytes, out: Ints) -> bool:
    """Ids of digits as numbers, which sort faster than text; False where one is something else."""
    for i in range(codes.shape[0]):
        row, value = codes[i], np.int64(0)
        for k in range(row.size):
            d = np.int64(row[k]) - 48
            if d < 0 or d > 9:
                return False
            value = np.int64(10) * value + d
        out[i] = value
    return True
