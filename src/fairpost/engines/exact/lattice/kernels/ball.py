"""Every vector of whole-number noises in a ball, and the rule applied to each: sums of chances without a list.

The noises are walked like the digits of a counter, the last one fastest. Those of exchangeable entities ascend, and a vector counts as
often as it has orders: k equal labels with runs of equal noises have k! / prod (run!), so each place multiplies by its number among its
equals over the length of its run. What the last noise adds is summed by itself first, so that no long sum takes up its terms one by one.
"""

import numpy as np
from numpy.typing import NDArray

from fairpost.compiled import kernel
from fairpost.rules.kernels.simplex import project
from fairpost.rules.kernels.threshold import keep

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]
BIAS, SQUARE, ZERO, DUSTY = 0, 1, 2, 3
"""The rows of `sums`."""
NOTHING = 2.0**-48
DUST = 1e-13


@kernel
def _shares(x: Floats, a: Floats, noise: Whole, levels: Floats, steepness: float, z: Floats, out: Floats) -> bool:
    """PoS (steepness 0) or `pos-threshold` of x + noise into out; whether the sum was at or below 0."""
    total, positive = 0.0, 0.0
    for i in range(x.size):
        z[i] = a[i] * (x[i] + noise[i])
        total += z[i]
        positive += max(z[i], 0.0)
    if abs(total) <= NOTHING * positive:
        whole = np.sum(a)
        for i in range(x.size):
            out[i] = a[i] / whole
        return True
    if total < 0.0:
        for i in range(x.size):
            z[i] = -z[i]
    size = abs(total)
    if steepness > 0.0:
        keep(z, levels, steepness, size, out)
    else:
        project(z, size, out)
    for i in range(x.size):
        out[i] /= size
    return total < 0.0


@kernel
def _add(v: Floats, truth: Floats, chance: float, sums: Floats) -> None:
    for i in range(v.size):
        away = v[i] - truth[i]
        sums[BIAS, i] += chance * away
        sums[SQUARE, i] += chance * away * away
        if v[i] <= DUST:
            sums[ZERO, i] += chance
            sums[DUSTY, i] += chance if v[i] > 0.0 else 0.0


@kernel
def _flush(few: Floats, sums: Floats) -> None:
    for row in range(few.shape[0]):
        for i in range(few.shape[1]):
            sums[row, i] += few[row, i]
            few[row, i] = 0.0


@kernel
def _room(left: int, square: bool) -> int:
    """The largest noise that still fits."""
    if not square:
        return left
    out = int(np.sqrt(float(left)))
    while out * out > left:
        out -= 1
    while (out + 1) * (out + 1) <= left:
        out += 1
    return out


@kernel
def walk(
    start: int, radius: int, square: bool, mass: Floats, equals: Whole, x: Floats, a: Floats, truth: Floats, levels: Floats,
    steepness: float, sums: Floats,
) -> float:  # fmt: skip
    """All vectors that begin with the noise `start`, into `sums`; returns the chance of a sum at or below 0.

    `mass` has the chances of |noise| = 0, 1, ..., `equals` how many entities before each one are its equals; steepness 0: PoS.
    """
    n = x.size
    noise, most, left = np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n + 1, np.int64)
    chance, run = np.ones(n + 1), np.ones(n)
    z, out, few = np.empty(n), np.empty(n), np.zeros(sums.shape)
    degenerate, j = 0.0, 0
    left[0] = radius
    noise[0], most[0] = start, start
    while j >= 0:
        if noise[j] > most[j]:
            if j == n - 1:
                _flush(few, sums)
            j -= 1
            if j >= 0:
                noise[j] += 1
            continue
        size = abs(noise[j])
        repeated = j > 0 and equals[j] > 0 and noise[j] == noise[j - 1]
        run[j] = run[j - 1] + 1.0 if repeated else 1.0
        chance[j + 1] = chance[j] * mass[size] * ((equals[j] + 1.0) / run[j])
        left[j + 1] = left[j] - (size * size if square else size)
        if j == n - 1:
            if _shares(x, a, noise, levels, steepness, z, out):
                degenerate += chance[n]
            _add(out, truth, chance[n], few)
            noise[j] += 1
        else:
            j += 1
            most[j] = _room(left[j], square)
            noise[j] = max(-most[j], noise[j - 1]) if equals[j] > 0 else -most[j]
    return degenerate
