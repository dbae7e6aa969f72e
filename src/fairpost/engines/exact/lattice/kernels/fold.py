"""One more whole number in a law, by rows: forwards, and backwards in what is expected of it."""

import numpy as np
from numpy.typing import NDArray

from fairpost.compiled import kernel
from fairpost.compiled.vectors import wide_vectors

Floats = NDArray[np.float64]


@kernel
def forwards(law: Floats, chance: Floats, first: int, out: Floats) -> None:
    """out[row, v + l] += law[row, v] chance[l], for l from `first` on, as far as the rows go."""
    wide_vectors()
    for row in range(law.shape[0]):
        given, put = law[row], out[row]
        for v in range(given.size):
            p = given[v]
            if p > 0.0:
                for k in range(first, min(chance.size, given.size - v)):
                    put[v + k] += p * chance[k]


@kernel
def backwards(value: Floats, chance: Floats, first: int, out: Floats) -> None:
    """out[row, v] += sum over l from `first` on of chance[l] value[row, v + l]."""
    wide_vectors()
    turned = chance[::-1].copy()
    end = turned.size - first
    for row in range(value.shape[0]):
        given, put = value[row], out[row]
        for u in range(given.size):
            f = given[u]
            if f != 0.0:
                shift = u - (turned.size - 1)
                for k in range(max(0, -shift), end):
                    put[shift + k] += f * turned[k]
