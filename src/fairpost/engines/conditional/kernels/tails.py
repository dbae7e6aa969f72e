"""What lies beyond a point of the noise: E[(-y - eta)_+^k] for y >= 0, and P(eta <= c).

    Laplace            k! b^k e^{-y/b} / 2
    Gaussian           G_k = -y G_{k-1} + (k - 1) sigma^2 G_{k-2}, which cancels far out: there the ratios
                       G_k / G_{k-1} = k / (y + G_{k+1} / G_k) (unit sigma) from far up, where they are about (sqrt(y^2 + 4 k) - y) / 2
    whole numbers      the values at the next whole number below -y, and binomially from there, with positive terms only

`table[j, k]` is the value at -j. Laplace and discrete Laplace need its first row alone, since both fall by e^{-1/b} a unit;
a discrete Gaussian has all rows.
"""

import math

import numpy as np
from numpy.typing import NDArray

from fairpost.compiled import kernel

Floats = NDArray[np.float64]
LAPLACE, GAUSSIAN, DISCRETE_LAPLACE = 0, 1, 2  # as in noise.base; the discrete Gaussian is the rest
NEAR = 2.0
"""Deviations below which the forward recurrence of the Gaussian loses at most two digits of G_2."""
SNAP = 1e-9
"""A point that is so near a whole number is that number: points are sums of rounded terms."""
_HALF, _DENSITY = math.sqrt(0.5), 1 / math.sqrt(2 * math.pi)


@kernel(error_model="numpy")
def tail(code: int, b: float, table: Floats, y: float, last: int, out: Floats) -> None:
    """out[k] = E[(-y - eta)_+^k] for k = 0 to last."""
    if code == LAPLACE:
        part = math.exp(-y / b)
        for k in range(last + 1):
            out[k] = table[0, k] * part
    elif code == GAUSSIAN:
        t = y / b
        out[0] = 0.5 * math.erfc(t * _HALF)
        if t < NEAR:
            out[1] = b * (_DENSITY * math.exp(-0.5 * t * t) - t * out[0])
            for k in range(2, last + 1):
                out[k] = b * ((k - 1) * b * out[k - 2] - t * out[k - 1])
        else:
            top = last + 10 + int(120.0 / (t * t))
            ratio = 0.5 * (math.sqrt(t * t + 4.0 * top) - t)
            for k in range(top - 1, 0, -1):
                ratio = k / (t + ratio)
                if k <= last:
                    out[k] = ratio
            for k in range(1, last + 1):
                out[k] *= b * out[k - 1]
    else:
        j = math.ceil(y)
        _at_whole(code, b, table, j, last, out)
        u = j - y
        if u > 0.0:
            for m in range(1, last + 1):
                for k in range(last, m - 1, -1):
                    out[k] += u * out[k - 1]


@kernel(error_model="numpy")
def _at_whole(code: int, b: float, table: Floats, j: float, last: int, out: Floats) -> None:
    if code == DISCRETE_LAPLACE:
        part = math.exp(-j / b)
        for k in range(last + 1):
            out[k] = table[0, k] * part
    else:
        for k in range(last + 1):
            out[k] = table[int(j), k] if j < table.shape[0] else 0.0


@kernel(error_model="numpy")
def below(code: int, b: float, table: Floats, c: float) -> float:
    """P(eta <= c)."""
    out = np.empty(1)
    if code < DISCRETE_LAPLACE:
        tail(code, b, table, abs(c), 0, out)
        return float(out[0] if c < 0.0 else 1.0 - out[0])
    m = math.floor(c + SNAP)
    _at_whole(code, b, table, -m if m < 0.0 else m + 1.0, 0, out)
    return float(out[0] if m < 0.0 else 1.0 - out[0])


@kernel(error_model="numpy")
def tails(code: int, b: float, table: Floats, y: Floats, out: Floats) -> None:
    """`tail` for each of y."""
    for i in range(y.size):
        tail(code, b, table, y[i], out.shape[1] - 1, out[i])


@kernel(error_model="numpy")
def chances(code: int, b: float, table: Floats, c: Floats, out: Floats) -> None:
    """`below` for each of c."""
    for i in range(c.size):
        out[i] = below(code, b, table, c[i])


@kernel(error_model="numpy")
def gaussian_table(mass: Floats, table: Floats) -> None:
    """Table[j, k] from the masses at -j: E(j + 1 - eta)_+^k is the binomial sum of what is below, from the far end on."""
    last = table.shape[1] - 1
    j = mass.size - 1
    table[j, :] = 0.0
    table[j, 0] = mass[j]
    for i in range(j - 1, -1, -1):
        table[i] = table[i + 1]
        for m in range(1, last + 1):
            for k in range(last, m - 1, -1):
                table[i, k] += table[i, k - 1]
        table[i, 0] += mass[i]
