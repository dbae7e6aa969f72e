"""Rows along Re s = 0, s = iu, for many u at once: real and imaginary parts lie apart, so that the processor takes several u at a time.

A loop writes to one or two rows only: more, and the compiler no longer shows that they do not overlap.
"""

import math

import numpy as np
from numpy.typing import NDArray

from fairpost.compiled import kernel
from fairpost.engines.closed.kernels.mills import along

Floats = NDArray[np.float64]

LEAST = 1e-280
"""Added to |psi|^2, so that a factor of 0 has an inverse; what it stands for is 0 too."""
FAST = {"contract", "reassoc", "arcp", "nsz"}


@kernel(error_model="numpy", fastmath=FAST)
def beyond(gaussian: bool, c: float, density: float, u: Floats, work: Floats, out: Floats) -> None:
    """E[e^{s (eta - c)}; eta beyond c], seen from 0, into out[0] + i out[1]: above c where c > 0, below it otherwise.

    Laplace noise: e^{-|c|}/2 / (1 -+ s). Gaussian: density times Mills' ratio at |c| -+ s. work[4, u].
    """
    re, im = out[0], out[1]
    side = 1.0 if c > 0.0 else -1.0
    if gaussian:
        along(abs(c), u, work, out)
        for q in range(u.size):
            re[q] *= density
        for q in range(u.size):
            im[q] *= side * density
    else:
        for q in range(u.size):
            re[q] = density / (1.0 + u[q] * u[q])
        for q in range(u.size):
            im[q] = side * u[q] * re[q]


@kernel(error_model="numpy", fastmath=FAST)
def turns(angle: float, out: Floats) -> None:
    """e^{i angle q} for q = 0, 1, ...: what is there, turned as a whole, is the next part of the same length."""
    out[0, 0], out[1, 0] = 1.0, 0.0
    done = 1
    while done < out.shape[1]:
        more = min(done, out.shape[1] - done)
        c, s = math.cos(angle * done), math.sin(angle * done)
        a, b, re, im = out[0, :more], out[1, :more], out[0, done : done + more], out[1, done : done + more]
        for q in range(more):
            re[q] = c * a[q] - s * b[q]
        for q in range(more):
            im[q] = s * a[q] + c * b[q]
        done += more


@kernel(error_model="numpy", fastmath=FAST)
def multiply(a: Floats, b: Floats, out: Floats) -> None:
    """out = a b."""
    a0, a1, b0, b1, re, im = a[0], a[1], b[0], b[1], out[0], out[1]
    for q in range(re.size):
        re[q] = a0[q] * b0[q] - a1[q] * b1[q]
    for q in range(re.size):
        im[q] = a0[q] * b1[q] + a1[q] * b0[q]


@kernel(error_model="numpy", fastmath=FAST)
def multiply_by(out: Floats, b: Floats) -> None:
    """out *= b."""
    b0, b1, re, im = b[0], b[1], out[0], out[1]
    for q in range(re.size):
        x, y = re[q], im[q]
        re[q], im[q] = x * b0[q] - y * b1[q], x * b1[q] + y * b0[q]


@kernel(error_model="numpy", fastmath=FAST)
def add(a: Floats, b: Floats, size: float, out: Floats) -> None:
    """out = a + size b."""
    for k in range(2):
        x, y, z = a[k], b[k], out[k]
        for q in range(z.size):
            z[q] = x[q] + size * y[q]


@kernel(error_model="numpy", fastmath=FAST)
def invert(psi: Floats, out: Floats) -> None:
    """out = 1/psi."""
    a, b, re, im = psi[0], psi[1], out[0], out[1]
    for q in range(re.size):
        over = 1.0 / (a[q] * a[q] + b[q] * b[q] + LEAST)
        re[q] = a[q] * over
        im[q] = -b[q] * over


@kernel(error_model="numpy")
def copy(psi: Floats, out: Floats) -> None:
    """out = psi. (Between arrays `out[:] = psi` would compile messages about shapes, for seconds.)"""
    for q in range(out.shape[1]):
        out[0, q], out[1, q] = psi[0, q], psi[1, q]


@kernel(error_model="numpy", fastmath=FAST)
def scale(psi: Floats, exponent: int, product: Floats, work: Floats) -> None:
    """product *= psi^exponent, by squaring. work[4, u]."""
    if exponent == 1:
        multiply_by(product, psi)
        return
    power, held = work[:2], work[2:4]
    copy(psi, power)
    while exponent > 0:
        if exponent & 1:
            multiply_by(product, power)
        exponent >>= 1
        if exponent > 0:
            copy(power, held)
            multiply_by(power, held)


@kernel(error_model="numpy", fastmath=FAST)
def real(a: Floats, b: Floats) -> float:
    """The sum of Re(a b)."""
    a0, a1, b0, b1 = a[0], a[1], b[0], b[1]
    found = 0.0
    for q in range(a0.size):
        found += a0[q] * b0[q] - a1[q] * b1[q]
    return found


@kernel(error_model="numpy")
def scale_by_ratios(inverse: Floats, times: Floats, n: int, product: Floats) -> None:
    """product *= prod psi_j^times for times that are weights of interpolation: ratios to the first factor are near 1."""
    for q in range(product.shape[1]):
        first = complex(inverse[0, 0, q], inverse[0, 1, q])
        log = 0.0j
        for j in range(1, times.size):
            one = complex(inverse[j, 0, q], inverse[j, 1, q])
            if one != 0.0:
                log += times[j] * np.log(first / one)
        size = abs(first)
        value = 0.0j if size == 0.0 else np.exp(log - n * complex(math.log(size), math.atan2(first.imag, first.real)))
        x, y = product[0, q], product[1, q]
        product[0, q], product[1, q] = x * value.real - y * value.imag, x * value.imag + y * value.real
