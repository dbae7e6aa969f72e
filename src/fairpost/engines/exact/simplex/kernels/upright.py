"""Upright lines under Laplace noise, as rows: what `contour.invert` sums along s = tau + iy, y in equal steps, for whole weights.

With lifts taken out, psi_j = 1 + h s/(1 - s) where c = m - x_j > 0 and M + h e^{sc} s/(1 + s) else, h the tail of the noise beyond c,
M = 1/(1 - s^2). What stands before the product is e^{-sK} M^giants, K = rest + giants m + the sum of the c <= 0, and an entity is left out
by e^{sc}/psi_j (1/psi_j where c > 0). Its E[(p - x) e^{sp}; p > 0] is h/(1 - s) (1/(1 - s) - x), or M (M'/M - m) less the part below c.
"""

import math

import numpy as np
from numpy.typing import NDArray

from fairpost.compiled import kernel
from fairpost.engines.exact.kernels.rows import FAST, add, invert, multiply, multiply_by, scale, turns
from fairpost.engines.exact.simplex.kernels.contour import without_pole
from fairpost.engines.exact.simplex.kernels.noise import tails

Floats = NDArray[np.float64]
CHUNK = 256
"""Nodes at a time: after each of these parts a line may end."""


@kernel(error_model="numpy", fastmath=FAST)
def lines(
    deficits: bool,
    spread: bool,
    m: Floats,
    tau: Floats,
    width: Floats,
    step: float,
    cutoff: float,
    most: int,
    x: Floats,
    times: NDArray[np.int64],
    giants: int,
    rest: float,
    out: Floats,
    squares: Floats,
    common: Floats,
) -> tuple[int, int]:
    """As `contour.invert`: the number of nodes, and how many lines ended before their integrand did."""
    taper = np.empty(most)
    for l in range(most):
        taper[l] = 0.5 * math.erfc(22.0 * (l / most - 0.75)) * (0.5 if l == 0 else 1.0)
    c, below, above = np.empty(x.size), np.empty(x.size), np.empty(x.size)
    size = min(CHUNK, most)
    shift, inverse = np.empty((x.size, 2, size)), np.empty((x.size, 2, size))
    fixed, held = np.empty((5, 2, size)), np.empty((12, size))
    nodes, slow = 0, 0
    for k in range(m.size):
        total = rest + giants * m[k]
        for j in range(x.size):
            c[j] = m[k] - x[j]
            below[j], above[j] = tails(None, c[j])
            total += times[j] * min(c[j], 0.0)
        dy = 2.0 * math.pi / (math.sqrt(0.2 / step) * max(14.0 * width[k], 40.0 / (1.0 - abs(tau[k]))))
        largest, wide, done, ended = 0.0, 0.0, 0, False
        while done < most and not ended:
            part = min(size, most - done)
            here, work = fixed[:, :, :part], held[:, :part]
            product = work[:2]
            _fixed(tau[k], dy, done, taper, here)
            _spun(-tau[k] * total, -total, dy, done, product, work[2:4])
            multiply_by(product, here[4])
            if giants > 0:
                scale(here[2], giants, product, work[2:6])
            for j in range(x.size):
                psi = work[6:8]
                if c[j] > 0.0:
                    multiply(here[3], here[0], psi)
                    _over(psi, above[j])
                else:
                    _spun(tau[k] * c[j], c[j], dy, done, shift[j, :, :part], work[2:4])
                    multiply(here[3], here[1], work[2:4])
                    multiply(work[2:4], shift[j, :, :part], psi)
                    add(here[2], psi, below[j], psi)
                invert(psi, inverse[j, :, :part])
                scale(psi, times[j], product, work[2:6])
            now, last = _ends(product, 0) if spread else 0.0, 0.0
            wide = max(wide, now)
            for j in range(x.size):
                own = work[6:8]
                multiply(product, inverse[j, :, :part], own)
                if spread:
                    squares[k, j] += _excess(own, shift[j, :, :part], here, x[j], c[j], below[j], above[j], m[k])
                if deficits:
                    if c[j] <= 0.0:
                        multiply_by(own, shift[j, :, :part])
                    share = below[j] / below[0]
                    largest = max(largest, share * _ends(own, 0))
                    last = max(last, share * _ends(own, part - 1))
                    if part > 1:
                        last = max(last, share * _ends(own, part - 2))
                    for q in range(part):
                        out[k, j] += own[1, q]
            ended = last <= cutoff * largest
            if spread:
                ended = ended and max(_ends(product, part - 1), _ends(product, max(part - 2, 0))) <= cutoff * wide
                for q in range(part):
                    common[k, 0] += product[1, q]
                multiply(here[3], here[2], work[2:4])  # M'/M = 2 s M
                for q in range(part):
                    work[2, q] = 2.0 * work[2, q] - m[k]
                    work[3, q] = 2.0 * work[3, q]
                multiply_by(product, work[2:4])
                for q in range(part):
                    common[k, 1] += product[1, q]
            done += part
        nodes += done
        slow += not ended or 2 * done > most
        apart = 2.0 * math.pi * abs(tau[k]) / dy
        extra = math.copysign(1.0 / math.expm1(apart), tau[k]) if apart < 700.0 else 0.0
        without_pole(None, spread, m[k], extra, x, c, out[k], squares[k], common[k])
    return nodes, slow


@kernel(error_model="numpy", fastmath=FAST)
def _fixed(tau: float, dy: float, done: int, taper: Floats, out: Floats) -> None:
    """Rows that no entity changes: 1/(1 - s), 1/(1 + s), M, s, and ds/s over pi, tapered."""
    up0, up1, down0, down1, turn0, turn1 = out[0, 0], out[0, 1], out[1, 0], out[1, 1], out[4, 0], out[4, 1]
    near, far = 1.0 - tau, 1.0 + tau
    for q in range(up0.size):
        y = (done + q) * dy
        over = 1.0 / (near * near + y * y)
        up0[q], up1[q] = near * over, y * over
    for q in range(up0.size):
        y = (done + q) * dy
        over = 1.0 / (far * far + y * y)
        down0[q], down1[q] = far * over, -y * over
    multiply(out[0], out[1], out[2])
    for q in range(up0.size):
        out[3, 0, q], out[3, 1, q] = tau, (done + q) * dy
    for q in range(up0.size):
        y = (done + q) * dy
        size = taper[done + q] * dy / (math.pi * (tau * tau + y * y))
        turn0[q], turn1[q] = y * size, tau * size


@kernel(error_model="numpy", fastmath=FAST)
def _spun(log: float, turn: float, dy: float, done: int, out: Floats, work: Floats) -> None:
    """e^{log + i turn y}."""
    turns(turn * dy, work)
    size, angle = math.exp(log), turn * dy * done
    a, b = size * math.cos(angle), size * math.sin(angle)
    x, y, re, im = work[0], work[1], out[0], out[1]
    for q in range(re.size):
        re[q] = a * x[q] - b * y[q]
    for q in range(re.size):
        im[q] = a * y[q] + b * x[q]


@kernel(error_model="numpy", fastmath=FAST)
def _over(psi: Floats, size: float) -> None:
    """1 + size psi."""
    re, im = psi[0], psi[1]
    for q in range(re.size):
        re[q] = 1.0 + size * re[q]
    for q in range(re.size):
        im[q] *= size


@kernel(error_model="numpy")
def _ends(row: Floats, q: int) -> float:
    """The size at one node."""
    return float(abs(row[0, q]) + abs(row[1, q]))


@kernel(error_model="numpy", fastmath=FAST)
def _excess(
    own: Floats, shift: Floats, fixed: Floats, x: float, c: float, below: float, above: float, m: float
) -> float:
    """The sum of Im(own E[(p - x) e^{sp}; p > 0]), own = product / psi."""
    o0, o1, u0, u1, d0, d1, w0, w1 = (
        own[0], own[1], fixed[0, 0], fixed[0, 1], fixed[1, 0], fixed[1, 1], fixed[2, 0], fixed[2, 1]
    )  # fmt: skip
    s0, s1, h0, h1 = fixed[3, 0], fixed[3, 1], shift[0], shift[1]
    found = 0.0
    if c > 0.0:
        for q in range(o0.size):
            a, b = u0[q] * (u0[q] - x) - u1[q] * u1[q], u0[q] * u1[q] + u1[q] * (u0[q] - x)
            found += o0[q] * b + o1[q] * a
        return above * found
    for q in range(o0.size):
        # M (2 s M - c - x) + below e^{sc} / (1 + s) (1/(1 + s) + x), and c + x = m
        g0 = 2.0 * (s0[q] * w0[q] - s1[q] * w1[q]) - m
        g1 = 2.0 * (s0[q] * w1[q] + s1[q] * w0[q])
        a, b = w0[q] * g0 - w1[q] * g1, w0[q] * g1 + w1[q] * g0
        e0, e1 = d0[q] * (d0[q] + x) - d1[q] * d1[q], d0[q] * d1[q] + d1[q] * (d0[q] + x)
        a += below * (h0[q] * e0 - h1[q] * e1)
        b += below * (h0[q] * e1 + h1[q] * e0)
        found += o0[q] * b + o1[q] * a
    return found
