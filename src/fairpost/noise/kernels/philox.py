"""Random bits that are a pure function of where they stand: Philox4x32-10.

Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011): ten rounds of
multiplication and exclusive-or turn a 128-bit counter under a 64-bit key into 128 random bits. There is no
state to pass along, so any stretch of a stream can be made alone, on any thread, in any order, with the same
bits.

Here the key is the seed and the counter is (block, attempt, low half of run, high half of run), 32 bits each.
A block is two words of 64 bits: draw i reads half i % 2 of block i // 2, and a run has 2^33 draws before its
words repeat. `attempt` gives a draw fresh words when it needs more than one.

Words, seed and run are uint64: NumPy and Numba turn a mixture with signed integers into floats.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpost.compiled import kernel
from fairpost.compiled.vectors import wide_vectors

_MULTIPLY = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_BUMP = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
LOW = np.uint64(0xFFFFFFFF)
HALF = np.uint64(32)
ONE, TWO = np.uint64(1), np.uint64(2)
"""Places in loops over pairs are unsigned: a signed one has a test for being negative, and where LLVM does not see through it there
are no vectors: words then take three times as long."""


@kernel(inline="always")
def philox(block: Any, attempt: Any, low: Any, high: Any, seed: Any) -> Any:
    """The two words of one counter (four 32-bit parts, each in a uint64) under the key `seed`."""
    c0, c1, c2, c3 = block, attempt, low, high
    k0, k1 = seed & LOW, seed >> HALF
    for _ in range(10):
        p0, p1 = _MULTIPLY[0] * c0, _MULTIPLY[1] * c2
        c0, c1 = (p1 >> HALF) ^ c1 ^ k0, p1 & LOW
        c2, c3 = (p0 >> HALF) ^ c3 ^ k1, p0 & LOW
        k0, k1 = (k0 + _BUMP[0]) & LOW, (k1 + _BUMP[1]) & LOW
    return c0 | (c1 << HALF), c2 | (c3 << HALF)


@kernel
def block_words(block: int, attempt: int, seed: Any, run: Any) -> Any:
    """Both words of one block: those of the draws 2 block and 2 block + 1."""
    return philox(np.uint64(block) & LOW, np.uint64(attempt), run & LOW, run >> HALF, seed)


@kernel(inline="always")
def word(i: int, attempt: int, seed: Any, run: Any) -> Any:
    """The word of draw i."""
    return block_words(i >> 1, attempt, seed, run)[i & 1]


@kernel(inline="always")
def whole_pairs(start: int, n: int) -> Any:
    """The part first:last of n draws that holds whole blocks; at most one draw lies on either side of it."""
    first = min(start & 1, n)
    return first, n - ((n - first) & 1)


@kernel
def fill_words(bits: NDArray[np.uint64], start: int, attempt: int, seed: Any, run: Any) -> None:
    """The words of the draws start, start + 1, ... (start >= 0) into `bits`."""
    wide_vectors()
    again, low, high = np.uint64(attempt), run & LOW, run >> HALF
    first, last = whole_pairs(start, bits.size)
    pairs, base = bits[first:last], np.uint64((start + first) >> 1)
    for j in range(np.uint64(pairs.size >> 1)):
        pairs[TWO * j], pairs[TWO * j + ONE] = philox((base + j) & LOW, again, low, high, seed)
    if first > 0:
        bits[0] = word(start, attempt, seed, run)
    if last < bits.size:
        bits[last] = word(start + last, attempt, seed, run)
