"""`simplex-threshold`, and `simplex`, under continuous noise where few entities share the shift: integrals over (r, s) along Re s = 0.

The symbols are those of `lines`, with a total C in the place of S: H(r) = sum phi(z_j - r) passes C at r. With the Jacobian K of a
regular root and the edges of `lines`, and z_j - r = x_j - r + eta,

    psi_j = P(dropped) + E[e^{s (z_j - r)}; kept] = e^{s (x_j - r)} (h_j F_j + g_j),   h_j = e^{-s (x_j - r)},   g_j = E[e^{s eta}; kept],
    E[w(v_i)] = int dr (1/2 pi i) int ds e^{-s (C - sum x + nr)} prod (psi~) / psi~_i
                [w kept (1 + K_i + J_0 L_i) + h_i f_i int_0^tau w(v) e^{sv} dv + h_i F_i w(0) (K_i + J_0 L_i)],

psi~ without its factor e^{s (x_j - r)}, so that a count of any size is only a difference from the total. w(v) = v - x_i and its square
give bias and mean squared error without cancellation, w = 1{v = 0} the third; w = 1 and the sum of the biases are known.

A cut-off chi(Im s) disturbs the total, C + y for C, and E[v_i] is as smooth in C as in x: analytic under Gaussian noise, corners of a
high order under Laplace noise. So a chi that is 1 up to Y leaves what lies beyond Y, as in `lines`; there is no t here, and the nodes are
few. A disturbed total must stay above 0, where it has a corner of its own: |y| < C bounds the width of chi's fall from below. There are
more: where C passes k tau, k < n, one more can be kept, and E[v_i] has a corner of the order k + 1. Under Gaussian noise, which has no others,
|y| is kept below the distance to them too; where that is too much work `counted` serves, which takes every k by itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from fairpost import cancel
from fairpost.engines.closed.quadrature import Rule, on_panels
from fairpost.engines.closed.shares import LOOSE as SPREAD
from fairpost.engines.closed.shares import SAFETY, moved, range_error, refusal
from fairpost.engines.exact.sums.factors import Complexes
from fairpost.engines.exact.threshold.lines import FEW
from fairpost.engines.exact.threshold.nodes import FALL, TURN, apart, chebyshev, jumps, weights
from fairpost.engines.mean_field import shift
from fairpost.engines.moments import Counted, Floats, Moments
from fairpost.errors import ToleranceError
from fairpost.noise import Law, Threshold
from fairpost.parallel import over_slices

CLOSE = 3.0
"""Many distinct counts whose kept parts turn by no more than this at Y are carried by Chebyshev nodes."""
WORK, MOST, LESS = 0.25e9, 3e9, 1.2e9
"""The most nanoseconds (by estimate) for the first level, which shows whether the chances sum to 1, and for one after it; less where the
tolerance is loose, as for whole-number noise, which may be refused for its own sake afterwards."""
LOOSE = 1e-5
ASTRAY = 1e-2
"""By how much the first level may miss that."""
PARTS = 6
"""Parts of the window of r, each with its own steps of s: H is spread the less the larger r is."""
BLOCK = 200_000
"""Values at a time."""
FREQUENCY = (12.5, 5.5)
"""Up to which chi is usually 1 (but for a part of 1e-3): Laplace, Gaussian."""
SMOOTH = 4.0
"""That over the width of chi's fall, or less."""
ROUNDING = 1e-13
OUTLOOK = (5.0, 20.0)
"""What a further level gains at the least: Laplace, Gaussian."""


@dataclass(frozen=True)
class Level:
    """One refinement: Y in units of its usual value, the chance e^-quiet of what is left out, nodes on a panel of r, Chebyshev nodes."""

    frequency: float
    quiet: float
    order: int
    nodes: int


LEVELS = (
    Level(0.72, 15.0, 10, 6),
    Level(1.0, 19.0, 12, 8),
    Level(1.4, 24.0, 14, 10),
    Level(2.0, 28.0, 17, 12),
    Level(2.8, 32.0, 20, 14),
)


@dataclass(frozen=True)
class Values:
    """Counts in units of the noise and how often each occurs, or Chebyshev nodes with weights; n entities, C - sum x."""

    noise: Law
    x: Floats
    times: Floats
    n: float
    surplus: float
    tau: float

    @property
    def gaussian(self) -> bool:
        """Gaussian noise, or else Laplace."""
        return bool(np.isinf(self.noise.strip))


@dataclass(frozen=True)
class Found:
    """E[v - x], E[(v - x)^2] and P(v = 0) of every count (rows), the sum of all chances and E[r]."""

    values: Floats
    whole: float
    root: float

    def __add__(self, other: Found) -> Found:
        return Found(self.values + other.values, self.whole + other.whole, self.root + other.root)

    @property
    def bias(self) -> Floats:
        """E[v - x]."""
        return np.asarray(self.values[0])

    @property
    def mse(self) -> Floats:
        """E[(v - x)^2]."""
        return np.asarray(self.values[1])

    @property
    def zero(self) -> Floats:
        """P(v = 0)."""
        return np.asarray(self.values[2])


def release(x: Floats, times: Counted, noise: Law, total: float, tau: float, rtol: float) -> Moments:
    """Moments for the distinct counts x, each `times` often, in counts; three or more entities, a total above tau >= 0."""
    b, many, name = noise.spread, times.astype(np.float64), "simplex-threshold" if tau > 0 else "simplex"
    surplus = math.fsum([total, *(-x * times).tolist()]) / b
    v = Values(noise.scaled(1.0), x / b, many, float(np.sum(many)), surplus, tau / b)
    before: Found | None = None
    for at, level in enumerate(LEVELS):
        cancel.check()
        now = _level(v, total / b, level, WORK if at == 0 else MOST if rtol < LOOSE else LESS)
        if abs(now.whole - 1) > ASTRAY:
            raise ToleranceError(f"{name}: the first rules miss the sum of all chances by {abs(now.whole - 1):.2g}")
        if before is not None:
            mean = surplus / v.n
            lost = abs(now.whole - 1) + abs(float(np.sum(many * now.bias)) / v.n - mean) / (1 + abs(mean))
            size = np.sqrt(np.maximum(now.mse, 0.0))
            error = moved(now.bias, before.bias, size) + (lost + ROUNDING) * (size + np.abs(now.bias))
            alpha, slack = range_error(now.bias, error)
            if x.size == 1 and slack <= SPREAD * float(size[0]):  # all counts are equal, and so are the biases
                found = _moments(now, before, error, lost, b, mean if tau == 0 else None)
                drift = np.array([mean * b])
                return replace(found, bias=drift, error=np.spacing(np.abs(drift)), mse=np.maximum(found.mse, drift**2))
            if slack <= max(rtol * alpha, ROUNDING * (1 + abs(mean))):
                return _moments(now, before, error, lost, b, mean if tau == 0 else None)
            if x.size > 1 and slack > rtol * alpha * OUTLOOK[int(v.gaussian)] ** (len(LEVELS) - 1 - at):
                break
        before = now
    raise refusal(name, now.bias * b, error * b, rtol)


def _moments(now: Found, before: Found, error: Floats, lost: float, b: float, drift: float | None) -> Moments:
    """In counts, with the errors of the squares and chances; E[T] = E[r] + drift is Lemma 2's where there is no threshold."""
    mse = np.maximum(now.mse, now.bias**2) * b * b
    spread = SAFETY * moved(now.mse, before.mse, now.mse) * b * b + (lost + ROUNDING) * mse
    chance = np.minimum(SAFETY * moved(now.zero, before.zero, now.zero) + lost + ROUNDING, 1.0)
    zero = np.clip(now.zero, 0.0, 1.0)
    found = Moments(now.bias * b, error * b, mse, zero, mse_error=spread, zero_error=chance)
    if drift is None:
        return found
    slack = SAFETY * abs(now.root - before.root) + (lost + ROUNDING) * (1 + abs(now.root))
    return replace(found, threshold=(now.root + drift) * b, threshold_error=slack * b)


def _level(whole: Values, total: float, level: Level, most: float) -> Found:
    """The sums at one level; refused before the work where it would be too much."""
    v, carry, name = whole, None, "simplex-threshold" if whole.tau > 0 else "simplex"
    if whole.x.size > FEW and float(np.ptp(whole.x)) * 2 * FREQUENCY[int(whole.gaussian)] <= CLOSE:
        nodes, carry = chebyshev(whole.x, level.nodes)
        v = replace(whole, x=nodes, times=whole.times @ carry)
    flat = level.frequency * FREQUENCY[int(v.gaussian)]
    width = max(flat / SMOOTH, 2 * math.sqrt(level.quiet) / (0.9 * _room(v, total)))
    top = flat + 2.2 * width
    reach = 2 * math.sqrt(level.quiet) / width
    low, high = _window(v, level.quiet, reach)
    each = 14 + 20 / v.x.size + (30 if v.gaussian else 0) + (55 if carry is not None else 0)
    end = top + FALL * math.sqrt(level.quiet) * width
    parts, cost = [], 0.0
    for a, b in pairwise(np.linspace(low, high, PARTS + 1).tolist()):
        step = 2 * math.pi / _period(v, a, b, level.quiet, reach)
        size = math.ceil(end / step)
        least = (b - a) * end / TURN * level.order  # so many nodes of r where one entity is kept
        if (cost := cost + each * v.x.size * size * least) > most:
            break
        u, rule = step * np.arange(float(size)), _panels(v, a, b, end, level.order)
        parts.append((rule, u, weights(u, top, width, step)))
        cost += each * v.x.size * size * (rule[0].size - least)
    if cost > most:
        raise ToleranceError(
            f"{name}: few entities share the shift, and {cost / each:.2g} nodes or more would take too long"
        )
    found = Found(np.zeros((3, v.x.size)), 0.0, 0.0)
    for rule, u, cut in parts:
        found = found + _sums(v, rule, u, cut, carry is None)
    if carry is not None:
        found = replace(found, values=found.values @ carry.T)
    return found


def _room(v: Values, total: float) -> float:
    """How far the total is from the nearest corner of E[v_i]."""
    if not v.gaussian or v.tau == 0.0:
        return total
    k = min(max(round(total / v.tau), 0), round(v.n))
    return max(abs(total - k * v.tau), 1e-9 * total)


def _sums(v: Values, rule: Rule, u: Floats, cut: Floats, exact: bool) -> Found:
    """The kernel's sums over all nodes, in blocks of r."""
    from fairpost.engines.exact.threshold.kernels.few import add_releases

    r, weight = rule
    s = 1j * u
    # `jumps` has e^{s (tau - v)}: at -s, times e^{s tau}, it is e^{sv}
    jump = np.stack([form[:, 0] for form in jumps(-s, np.zeros(1), v.tau)]) * np.exp(s * v.tau)
    fold, tails, line = _rows(v, u)
    centre = 0.5 * (r[0] + r[-1])  # neither r nor the counts near it lie far from it, whatever their size
    turned = apart(np.exp(-np.multiply.outer(v.x - centre, s)))
    # where times are weights of interpolation the kernel leaves out prod h_j = e^{s (nr - sum x)}
    missing = 0.0 if exact else math.fsum((v.times * (v.x - centre)).tolist())
    rows = max(1, BLOCK // (u.size * v.x.size))
    blocks = [slice(i, min(i + rows, r.size)) for i in range(0, r.size, rows)]

    def some(which: slice) -> Found:
        out, whole, root = np.zeros((3, v.x.size)), 0.0, 0.0
        for b in blocks[which]:
            cancel.check()
            c = r[b, None] + v.tau - v.x
            lift = 0.0 if exact else v.n * (r[b] - centre) - missing
            ahead = v.surplus + v.n * r[b] - lift
            below, edge = np.asarray(v.noise.cdf(c)), np.asarray(v.noise.density(c))
            chance, mean = add_releases(
                v.gaussian, r[b], u, v.x, v.tau, centre, ahead, turned, apart(fold), tails, line, below, edge, weight[b], cut,
                apart(jump), v.times, exact, out,
            )  # fmt: skip
            whole, root = whole + chance, root + mean
        return Found(out, whole, root)

    first, *others = over_slices(some, len(blocks), None if len(blocks) > 1 else 1)
    return sum(others, first)


def _rows(v: Values, u: Floats) -> tuple[Complexes, Floats, Floats]:
    """e^{s tau}; the tail's fold q (1, q, 2 q^2), q = 1/(1 - s), and below c with 1/(1 + s) and -q; the whole line's moments."""
    fold, s = np.exp(1j * u * v.tau), 1j * u
    if v.gaussian:
        return fold, np.zeros((2, 3, 2, 0)), np.exp(-0.5 * u * u)[None]
    up, down = 1 / (1 - s), 1 / (1 + s)
    tails = np.stack(
        [[fold * q * side**k * (1, q, 2 * q * q)[k] for k in range(3)] for side, q in ((1, up), (-1, down))]
    )
    both = 1 / (1 + u * u)
    return fold, apart(tails), np.stack([both, 2 * u * both**2, (2 - 6 * u * u) * both**3])


def _chernoff(v: Values, r: Floats) -> tuple[Floats, Floats]:
    """Tilts theta of both signs and log E[e^{theta (H - C)}] at every r."""
    up = (5.0 if v.gaussian else 0.93) * np.geomspace(0.003, 1.0, 16)
    theta = np.concatenate([up, -up])
    c = (r[:, None] + v.tau - v.x)[:, None, :]
    t = theta[:, None]
    # psi = e^{lift} (F e^{-lift} + g), and sum (lift) - theta C has no giants in it
    lift = t * (v.x - r[:, None])[:, None, :]
    if v.gaussian:
        above = np.exp(t * t / 2) * v.noise.sf(c - t)
    else:
        tail = 0.5 * np.exp(-(1 - t) * np.maximum(c, 0.0)) / (1 - t)
        above = np.where(c > 0, tail, 1 / (1 - t * t) - 0.5 * np.exp((1 + t) * np.minimum(c, 0.0)) / (1 + t))
    with np.errstate(divide="ignore"):  # never dropped, or never kept
        log = np.logaddexp(np.log(v.noise.cdf(c)) - lift, np.log(above))
    return theta, log @ v.times - theta * (v.surplus + v.n * r[:, None])


def _window(v: Values, quiet: float, reach: float) -> tuple[float, float]:
    """Where r lies but for a chance of e^-quiet, also with the total disturbed by `reach`."""
    many = np.maximum(v.times, 0.0) if np.any(v.times < 0) else v.times
    centre = shift(v.x, np.ones_like(v.x), many * (v.n / np.sum(many)), v.surplus, Threshold(v.tau), v.noise)
    ends = []
    for side in (-1.0, 1.0):
        far = 1.0
        while far < 300.0:
            place = centre + side * far
            theta, log = _chernoff(v, np.array([place]))
            if np.min((log + np.abs(theta) * reach)[:, theta * side > 0]) < -quiet:
                break
            if side > 0 and float(np.abs(v.times) @ v.noise.sf(place + v.tau - v.x)) < math.exp(-quiet):
                break  # nobody is kept
            far *= 1.15
        else:
            raise ToleranceError("simplex: no range of the shift was found outside which it is negligible")
        ends.append(centre + side * far)
    return ends[0], ends[1]


def _period(v: Values, low: float, high: float, quiet: float, reach: float) -> float:
    """A period that holds H - C, but for a chance of e^-quiet, where r is between low and high."""
    theta, log = _chernoff(v, np.linspace(low, high, 9))
    need = (log + quiet) / np.abs(theta)
    return reach + max(float(np.max(np.min(need[:, theta * side > 0], axis=1))) for side in (-1.0, 1.0))


def _panels(v: Values, low: float, high: float, top: float, order: int) -> Rule:
    """Panels on which the phase turns by TURN at most: H has the slope -K; breaks at the corners of Laplace noise."""
    breaks = {low, high}
    if not v.gaussian and v.x.size <= 200:
        edge = v.x - v.tau
        breaks.update(edge[(edge > low) & (edge < high)].tolist())
    ends = [low]
    for a, b in pairwise(sorted(breaks)):
        place = a
        while place < b:
            mean = float(v.times @ v.noise.sf(place + v.tau - v.x))
            number = min(v.n, 1 + mean + 4 * math.sqrt(max(mean, 0.0)))
            place += min(TURN / (number * top), 1.5)
            ends.append(min(place, b))
    return on_panels(np.array(ends), order)
