"""Each entity alone, and each entry of the shifted counts: one-dimensional formulas.

An entry of pi_S is y = u + nu, u = x + (C - sum x)/n, nu = (1 - 1/n) eta_i - R/n, R the sum of the n - 1 others.
With y_- = max(-y, 0): E[(y)_+] - x = u - x + E y_-, and E[((y)_+ - x)^2] = Var nu + (u - x)^2 - E y_-^2 - 2 x E y_-.
"""

from __future__ import annotations

import numpy as np

from support.laws import Law
from support.oracles import Found


def alone(rule: str, x: np.ndarray, law: Law) -> Found:
    """none and nonnegative."""
    p, one, two = law.short(-x)
    if rule == "none":
        zero = np.zeros(x.size)
        if law.discrete:
            zero = law.cdf(-x) - law.cdf(-x - 1)
        return Found(np.zeros(x.size), np.zeros(x.size), "definition", np.full(x.size, law.variance), 0.0, zero, 1e-12)
    # given X < 0 the error is x instead of eta = -x - (X)_-
    mse = law.variance - two - 2 * x * one
    return Found(one, 1e-13 * one, "closed formula", mse, 1e-12 * mse.max(), p, 1e-12)


def shifted(rule: str, x: np.ndarray, law: Law, total: float) -> Found:
    """sum and sum-clipped."""
    n = x.size
    delta = (total - x.sum()) / n
    variance = law.variance * (1 - 1 / n)
    if rule == "sum":
        zero = None if law.discrete else np.zeros(n)
        if n == 1:
            zero = np.full(1, float(total == 0))
        rounding = np.full(n, 1e-14 * max(1.0, np.abs(x).max()))
        return Found(
            np.full(n, delta),
            rounding,
            "closed formula",
            np.full(n, variance + delta**2),
            1e-11 * (variance + delta**2),
            zero,
            1e-12,
            apart=1e-300,
        )
    if n == 1:
        return Found(
            np.array([delta]),
            np.zeros(1),
            "closed formula",
            np.array([delta**2]),
            0.0,
            np.array([float(total == 0)]),
            0.0,
        )
    values, back = np.unique(x, return_inverse=True)
    p, one, two = clipping(values + delta, n, law)
    mse = variance + delta**2 - two - 2 * values * one
    source = (
        "closed formula"
        if law.kind == "gaussian"
        else "one integral along a line"
        if law.kind == "laplace"
        else "convolution"
    )
    bias = delta + one
    error = 1e-11 * one + 1e-14 * max(abs(delta), 1e-300)
    return Found(
        bias[back],
        error[back],
        source,
        mse[back],
        1e-10 * mse.max(),
        p[back],
        1e-10,
        apart=1e-11 * float(one.max()) or 1e-300,
    )


def clipping(u: np.ndarray, n: int, law: Law) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """P(y <= 0), E y_-, E y_-^2 for y = u + nu."""
    beta = 1 - 1 / n
    if law.kind == "gaussian":
        return Law("gaussian", law.scale * np.sqrt(beta)).short(-u)
    if law.kind == "laplace":
        return tuple(np.array(v) for v in zip(*[_along_a_line(-c, n, law.scale) for c in u], strict=True))
    k, mass = others(law, n - 1)
    found = []
    for c in u:
        p, one, two = law.short((k / n - c) / beta)
        found.append((mass @ p, beta * (mass @ one), beta**2 * (mass @ two)))
    return tuple(np.array(v) for v in zip(*found, strict=True))


def others(law: Law, n: int) -> tuple[np.ndarray, np.ndarray]:
    """The sum of n whole-number noises: few by products of positive numbers, many by a Fourier transform."""
    k, mass = law.table
    if n == 0:
        return np.zeros(1), np.ones(1)
    if n <= 40 and k.size <= 3000:
        trim = mass > 1e-70
        k, mass = k[trim], mass[trim]
        whole = mass
        for _ in range(n - 1):
            whole = np.convolve(whole, mass)
            cut = np.flatnonzero(whole > 1e-70)
            whole = whole[cut[0] : cut[-1] + 1]
        half = whole.size // 2
        return np.arange(-half, half + 1, dtype=float), whole
    far = int(14 * np.sqrt(n * law.variance) + 60 * law.scale)
    size = 1 << int(np.ceil(np.log2(2 * far + k.size)))
    line = np.zeros(size)
    line[(k.astype(int)) % size] = mass
    whole = np.fft.irfft(np.fft.rfft(line) ** n, size)
    at = np.arange(-far, far + 1)
    return at.astype(float), np.maximum(whole[at % size], 0.0)


def _along_a_line(c: float, n: int, b: float) -> tuple[float, float, float]:
    """E (c - nu)_+^k / k! = (1 / 2 pi i) int e^{c s} M(s) s^{-k-1} ds on Re s = g > 0, where M(s) = E e^{-s nu} is rational.

    s = g (1 + i sinh w); g where the integrand is least on the axis, so that tails keep their relative accuracy.
    """
    beta = 1 - 1 / n
    pole = 1 / (b * beta)

    def log(s, k):
        return c * s - np.log(1 - (b * beta * s) ** 2) - (n - 1) * np.log(1 - (b * s / n) ** 2) - (k + 1) * np.log(s)

    out = []
    grid = pole * (1 - np.geomspace(1, 1e-9, 4000)[1:-1])
    for k in range(3):
        g = grid[np.argmin(log(grid, k))]
        w = np.linspace(-12, 12, 9601)
        s = g * (1 + 1j * np.sinh(w))
        part = np.exp(log(s, k) - log(g, k)) * np.cosh(w)
        out.append((1, 1, 2)[k] * float(np.exp(log(g, k)) * g * np.sum(part.real) * (w[1] - w[0]) / (2 * np.pi)))
    return out[0], out[1], out[2]


def at_risk(x: np.ndarray, law: Law, total: float) -> int:
    """How many entries may fall below 0, but for a part of 1e-9 of what the most endangered adds."""
    n = x.size
    if n < 2 or n > 40 or total <= 0:
        return n
    order = np.sort(x)[:2] + (total - x.sum()) / n
    if law.kind != "gaussian" and order[1] < 60 * law.scale:
        return n
    _, one, _ = clipping(order, n, law)
    return 1 if one[1] * n < 1e-9 * one[0] else n


def only_one_at_risk(x: np.ndarray, law: Law, total: float) -> Found:
    """pi_S+ where one entry y_1 alone can be below 0: it becomes (y_1)_+, and the others give up (y_1)_- / (n - 1) each."""
    n = x.size
    delta, i = (total - x.sum()) / n, int(np.argmin(x))
    near = np.sort(x)[:2] + delta
    p, one, _two = clipping(near, n, law)
    bias = np.full(n, delta - one[0] / (n - 1))
    bias[i] = delta + one[0]
    rest = float(one[1]) * n + 1e-11 * float(one[0])
    mse = None
    zero = np.zeros(n)
    zero[i] = p[0]
    # of the one at risk the square of the error is known in full; of the others it is left open
    return Found(
        bias, np.full(n, rest + 1e-14 * abs(delta)), "closed formula, one at risk", mse, 0.0, zero, float(p[1]) * n + 1e-11,
        T=float(one[0]) / (n - 1), T_error=rest, apart=2 * rest,
    )  # fmt: skip


def two(x: np.ndarray, law: Law, total: float) -> Found:
    """pi_S+ of two entities: y_1 clipped to [0, C] is y_1 + (y_1)_- - (y_2)_-, since C - y_1 = y_2."""
    delta = (total - x.sum()) / 2
    p, one, square = clipping(x + delta, 2, law)
    gain = one[0] - one[1]
    bias = delta + np.array([gain, -gain])
    # (v - x)^2 = (y - x)^2 less, where y < 0, y^2 - 2 x y; v = C has the error of the other's 0
    mse = np.empty(2)
    for i, j in ((0, 1), (1, 0)):
        low = square[i] + 2 * x[i] * one[i]
        high = square[j] + 2 * one[j] * (total - x[i])
        mse[i] = law.variance / 2 + delta**2 - low - high
    return Found(
        bias, np.full(2, 1e-11 * (one.max() + abs(delta))), "closed formula of two", mse, 1e-9 * float(mse.max()), p, 1e-10,
        T=float(one.sum()), T_error=1e-11 * float(one.sum()), apart=2e-11 * float(one.max()),
    )  # fmt: skip
