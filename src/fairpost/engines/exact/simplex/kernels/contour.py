"""The law of H(m) = sum_j (X_j - m)_+ by contour integrals, in units of the noise scale (b = 1 or sigma = 1).

With p_j = (X_j - m)_+ and psi_j(s) = E[e^{s p_j}],

    P(H(m) > C) - 1{tau < 0} = (1/2 pi i) int e^{-sC} prod_j psi_j(s) ds / s

along a line that crosses the real axis at tau, not 0. Every psi_j is kept as e^{-lift} psi_j, which is of order
1, and the lifts join C in the exponent. Entities that are never clipped ("giants") have the transform of the noise
itself and enter through their number alone: `rest` is C less the sum of their counts.

`kind` is None for Laplace and 1 for Gaussian noise. `weight` says how often each x occurs (real numbers:
interpolation nodes stand for many counts). Arrays in, arrays out; no checks.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpost.compiled import kernel
from fairpost.engines.exact.simplex.kernels.noise import excess, factor, log_below, polar, tails, whole_line

Floats = NDArray[np.float64]


@kernel(error_model="numpy")
def _product(kind: Any, m: Any, s: Any, x: Any, weight: Any, giants: Any, rest: Any, skip: Any) -> Any:
    """Real part of log(e^{-sC} prod psi_j), without `skip` copies of x[0]; and its derivative in s (real s only)."""
    log, slope = 0.0, 0.0
    line = whole_line(kind, s)
    for j in range(x.size):
        copies = weight[j] - (skip if j == 0 else 0.0)
        below, above = tails(kind, m - x[j])
        psi, _, first, _, lift = factor(kind, m - x[j], below, above, s, line)
        log += copies * (polar(psi)[0] + lift.real)
        slope += copies * first.real / psi.real
    log += giants * (line[1].real - s.real * m) - s.real * rest
    return log, slope + giants * (line[2].real - m) - rest


@kernel(error_model="numpy")
def saddle(
    kind: int | None,
    m: float,
    side: float,
    limit: float,
    x: Floats,
    weight: Floats,
    giants: float,
    rest: float,
    skip: float,
) -> tuple[float, float, float]:
    """The saddle point tau on the given side of 0 of e^{-sC} prod psi_j / s, to 5 %; the curvature of its
    logarithm there; and the logarithm of the saddle-point estimate of |P(H > C) - 1{side < 0}| (or of P(H > 0)), without an
    entity (`skip`) that of the largest P(eta <= m - x_j) |P(H_{-j} > C) - 1{side < 0}|.

    The logarithm is convex in tau, so its slope has one root (or none below `limit`, where tau stays).
    """
    low, high = math.log(1e-9), math.log(limit)
    while high - low > 0.05:
        middle = 0.5 * (low + high)
        tau = math.exp(middle)
        _, slope = _product(kind, m, complex(side * tau, 0.0), x, weight, giants, rest, skip)
        if side * slope * tau > 1.0:
            high = middle
        else:
            low = middle
    tau = math.exp(0.5 * (low + high))
    value, slope = _product(kind, m, complex(side * tau, 0.0), x, weight, giants, rest, skip)
    _, nearer = _product(kind, m, complex(side * 0.999 * tau, 0.0), x, weight, giants, rest, skip)
    curvature = side * (slope - nearer) / (0.001 * tau) + 1.0 / (tau * tau)
    value -= math.log(tau) + 0.5 * math.log(2.0 * math.pi * curvature)
    if side > 0 and giants == 0.0:
        none = 0.0
        for j in range(x.size):
            if j > 0 or weight[0] > skip:
                none += (weight[j] - (skip if j == 0 else 0.0)) * log_below(kind, m - x[j])
        value = min(value, math.log(-math.expm1(min(none, 0.0))))
    value = min(value, 0.0)
    return side * tau, curvature, _reach(kind, m, side * tau, value, x) if skip > 0 else value


@kernel(error_model="numpy")
def _reach(kind: Any, m: Any, tau: Any, value: Any, x: Any) -> Any:
    """The largest log(P(eta <= m - x_j) |P(H_{-j} > C) - 1{tau < 0}|), given `value` for j = 0."""
    best, reference = -math.inf, 0.0
    s = complex(tau, 0.0)
    line = whole_line(kind, s)
    for j in range(x.size):
        below, above = tails(kind, m - x[j])
        psi, _, _, _, lift = factor(kind, m - x[j], below, above, s, line)
        log = math.log(psi.real) + lift.real
        if j == 0:
            reference = value + log
        best = max(best, log_below(kind, m - x[j]) + min(0.0, reference - log))
    return best


@kernel(error_model="numpy")
def _contour(t: Any, tau: Any, scale: Any, bend: Any) -> Any:
    """s and ds/dt: a hyperbola that leaves the real axis upright and leans right, or (bend < 0) a line."""
    if bend < 0:
        return complex(tau, scale * t), complex(0.0, scale)
    grow, turn = math.cosh(t), math.sinh(t)
    return complex(tau + bend * scale * (grow - 1.0), scale * turn), complex(bend * scale * turn, scale * grow)


@kernel(error_model="numpy")
def _pole(tau: Any, scale: Any, bend: Any, step: Any) -> Any:
    """What the trapezoidal rule adds because of the pole at s = 0, for a function that is 1 there.

    On s(t), t = iv meets s = 0 at v = v0; the rule is off by sign(tau) / (e^{2 pi |v0| / step} - 1).
    """
    if bend < 0:
        v = tau / scale
    else:
        sine = (tau - bend * scale) / (scale * math.sqrt(1.0 + bend * bend))
        v = math.asin(sine) + math.atan(bend) if abs(sine) <= 1.0 else math.inf
    turns = 2.0 * math.pi * abs(v) / step
    return math.copysign(1.0 / math.expm1(turns), tau) if turns < 700.0 else 0.0


@kernel(error_model="numpy")
def _decay(kind: Any, deficits: Any, c: Any, below: Any, above: Any, s: Any, weight: Any, giants: Any) -> Any:
    """log|prod psi_j(s) / prod psi_j(Re s)|; for the deficits without the factor that decays most."""
    foot = complex(s.real, 0.0)
    line, base = whole_line(kind, s), whole_line(kind, foot)
    total, most = giants * (line[1] - base[1]).real, 0.0
    for j in range(c.size):
        psi, _, _, _, lift = factor(kind, c[j], below[j], above[j], s, line)
        real, _, _, _, level = factor(kind, c[j], below[j], above[j], foot, base)
        change = polar(psi)[0] - polar(real)[0] + (lift - level).real
        total += weight[j] * change
        most = min(most, change)
    return total - most if deficits else total


@kernel(error_model="numpy")
def _shape(
    kind: Any, deficits: Any, tau: Any, width: Any, upright: Any, lean: Any, step: Any, limit: Any, c: Any, below: Any,
    above: Any, weight: Any, giants: Any,
) -> Any:  # fmt: skip
    """Step, scale, bend and the largest number of nodes of the contour at m.

    `width` is the standard deviation of H under the tilt tau. Where the product has died out 14 / width up, the
    hyperbola stands upright. Else it decays like a power of 1/s, because many entities may be clipped together; then
    it leans right (`lean` is the tangent), where e^{-sC} decays. `upright` forbids that, and a straight line
    must do: its step is 2 pi over the reach of H - C, and both its ends grow with refinement.
    """
    if upright:
        turn = math.sqrt(0.2 / step) * max(14.0 * width, 40.0 / (1.0 - abs(tau)))
        return step, 2.0 * math.pi / (step * turn), -1.0, int(limit * 0.2 / step)
    if _decay(kind, deficits, c, below, above, complex(tau, 14.0 / width), weight, giants) < -36.0:
        return step, 4.0 / width, 0.0, int(80.0 / step)
    return 0.5 * step, 1.0 / width, lean, int(160.0 / step)


@kernel(error_model="numpy")
def _node(
    kind: Any, deficits: Any, spread: Any, m: Any, s: Any, x: Any, weight: Any, giants: Any, rest: Any, c: Any, below: Any,
    above: Any, ratio: Any, square: Any,
) -> Any:  # fmt: skip
    """e^{-sC} prod psi_j at s for the deficits and for the spread, and M'/M; what replaces the factor psi_i.

    Spread, `square`: E[(p_i - x_i) e^{s p_i}; p_i > 0] / psi_i. Deficits, `ratio`: 1 / psi_i; there the lift of psi_0 is left out of the
    product and of every ratio, because the product with all entities may overflow.
    """
    line = whole_line(kind, s)
    log = giants * (line[1] - s * m) - s * rest
    lift0, scale0 = 0j, 0j
    for j in range(x.size):
        psi, kept, first, shift, lift = factor(kind, c[j], below[j], above[j], s, line)
        size, angle, inverse = polar(psi)
        log += weight[j] * (complex(size, angle) + lift)
        if spread:
            square[j] = (first - x[j] * kept) * inverse
        if deficits:
            if j == 0:
                lift0 = lift
                scale0 = np.exp(lift) if c[0] > -30.0 and abs(lift.real) < 300.0 else 0j
            ratio[j] = (shift * scale0 if scale0 != 0 else np.exp(lift0 - lift)) * inverse
    return np.exp(log - lift0), np.exp(log) if spread else 0j, line[2]


@kernel(error_model="numpy")
def _add_deficits(q: Any, ratio: Any, below: Any, out: Any) -> Any:
    """Add one node to the sums; returns its size, the largest weighted by P(eta <= c_i) / P(eta <= c_0)."""
    size = 0.0
    for j in range(ratio.size):
        r = q * ratio[j]
        out[j] += r.imag
        if j == 0 or below[j] > 0.0:
            size = max(size, (abs(r.real) + abs(r.imag)) * (below[j] / below[0] if j > 0 else 1.0))
    return size


@kernel(error_model="numpy")
def _add_spread(m: Any, q: Any, mean: Any, square: Any, out: Any, common: Any) -> Any:
    """Likewise."""
    common[0] += q.imag
    common[1] += (q * (mean - m)).imag
    for j in range(square.size):
        out[j] += (q * square[j]).imag
    return abs(q)


@kernel(error_model="numpy")
def without_pole(
    kind: Any, spread: Any, m: Any, extra: Any, x: Any, c: Any, out: Any, squares: Any, common: Any
) -> None:
    """Take `extra` times the values at s = 0 off the sums."""
    common[0] -= extra
    common[1] += extra * m
    for j in range(x.size):
        out[j] -= extra
        if spread:  # E[(p - x) 1{p > 0}]
            squares[j] -= extra * (excess(kind, abs(c[j]))[1] + max(-c[j], 0.0) - x[j] * tails(kind, -c[j])[0])


@kernel(error_model="numpy")
def invert(
    kind: int | None,
    deficits: bool,
    spread: bool,
    m: Floats,
    tau: Floats,
    width: Floats,
    upright: NDArray[np.bool_],
    lean: float,
    step: float,
    cutoff: float,
    limit: int,
    x: Floats,
    weight: Floats,
    giants: float,
    rest: float,
    out: Floats,
    squares: Floats,
    common: Floats,
) -> tuple[int, int]:
    """Contour integrals at each m; returns the number of nodes, and how many contours ended before their integrand did.

    Deficits: out[k, i] = P(H_{-i}(m) > C) - 1{tau < 0}, H_{-i} without one copy of x[i].
    Spread: squares[k, i] = E[(p_i - x_i) 1{p_i > 0} (1{H > C} - 1{tau < 0})]; common[k] holds P(H > C) - 1{tau < 0}
    and E[(eta - m) (1{H > C} - 1{tau < 0})] for a giant. All must be 0 on entry; what is not asked for is no result. A straight line
    is cut off smoothly over its second half.
    """
    size = x.size
    c, below, above = np.empty(size), np.empty(size), np.empty(size)
    ratio, square = np.empty(size, np.complex128), np.empty(size, np.complex128)
    nodes, slow = 0, 0
    for k in range(m.size):
        for j in range(size):
            c[j] = m[k] - x[j]
            below[j], above[j] = tails(kind, c[j])
        gap, scale, bend, most = _shape(
            kind, deficits, tau[k], width[k], upright[k], lean, step, limit, c, below, above, weight, giants
        )
        largest, wide, quiet, last = 0.0, 0.0, 0, 0
        for l in range(most):
            s, ds = _contour(l * gap, tau[k], scale, bend)
            q, full, mean = _node(
                kind, deficits, spread, m[k], s, x, weight, giants, rest, c, below, above, ratio, square
            )
            turn = ds / s * (gap / math.pi * (0.5 if l == 0 else 1.0))
            if bend < 0:
                turn *= 0.5 * math.erfc(22.0 * (l / most - 0.75))
            ended = True
            if deficits:
                now = _add_deficits(q * turn, ratio, below, out[k])
                largest = max(largest, now)
                ended = now <= cutoff * largest
            if spread:
                now = _add_spread(m[k], full * turn, mean, square, squares[k], common[k])
                wide = max(wide, now)
                ended = ended and now <= cutoff * wide
            quiet = quiet + 1 if ended else 0
            last = l
            if quiet == 2:
                break
        nodes += last + 1
        slow += quiet < 2 or (bend < 0 and 2 * last > most)
        without_pole(kind, spread, m[k], _pole(tau[k], scale, bend, gap), x, c, out[k], squares[k], common[k])
    return nodes, slow
