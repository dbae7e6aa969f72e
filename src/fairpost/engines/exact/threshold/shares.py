"""`pos-threshold` under continuous noise, exactly, where S > 0 is all but certain and many entities share the shift.

z_j = a_j X_j, v_j = phi_j(z_j - r), phi_j with the threshold a_j tau, sum_j v_j = S = sum_j z_j, and the share is v_i / S. As in
`separated`, 1/S
is a sum of few e^{-theta S}, under each of which the z_j stay independent. With g_i = v_i - (z_i - r),

    E[v_i/S] - P_i = E[(z_i - P_i S)/S] + Gamma_i - mean(Gamma),   Gamma_i = E[g_i/S],

and the first term has no threshold in it. {r > t} = {sum_j phi_j(z_j - t) - z_j > 0} = {W(t) > n t}, W(t) the sum of t - z_j over the
entities that are
dropped at t, z_j <= t + a_j tau. So under the tilt theta one entity adds the factor

    psi_j = E[e^{-theta z_j}; kept] + E[e^{s (t - z_j) - theta z_j}; dropped],

which is the factor of a release with -eta for eta, cut at c' = x_j - t/a_j - tau, kappa = -a_j tau and the total n t. The edge of i is at
z_i = t + a_i tau, where
it gets v from 0 to a_i tau and adds v - a_i tau to W:

    E[g_i e^{-theta S}] = E at t0 + int E[e^{-theta S} 1{i dropped} (1{W > nt} - 1{t < t0})] - f_i e^{-theta (t + a_i tau)} B_i dt,
    B_i = int_0^{a_i tau} E[e^{-theta S_{-i}} (1{W_{-i} + v - a_i tau > nt} - 1{t < t0})] dv.

Since (v_i - P_i S)^2 = (z_i - P_i S)^2 + v_i^2 - z_i^2 - 2 P_i S (v_i - z_i), the mean squared error needs E[(v_i^2 - z_i^2)/S^2] besides:
the same with 2v under the
integral and -2 (z_i - t) where i is kept. P(v_i = 0) takes theta = 0 and v = 0 at the edge.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fairpost import cancel
from fairpost.engines.exact.pos.inverse import Inverse, inverse_of
from fairpost.engines.exact.pos.problem import Problem, chance_negative
from fairpost.engines.exact.pos.separated import unclipped
from fairpost.engines.exact.quadrature import legendre
from fairpost.engines.exact.shares import moved, reached, refusal
from fairpost.engines.exact.simplex.contours import Integrals
from fairpost.engines.exact.simplex.law import Reduced
from fairpost.engines.exact.sums.contours import BLOCK, Upright
from fairpost.engines.exact.sums.factors import Complexes, parts
from fairpost.engines.exact.sums.population import Entities, entities
from fairpost.engines.exact.threshold.release import LEVELS, Level, growth
from fairpost.engines.mean_field import shift
from fairpost.engines.moments import Counted, Floats, Moments
from fairpost.errors import ToleranceError
from fairpost.noise import Law, Threshold
from fairpost.parallel import over_slices

SPAN = 9.5
"""The window of r reaches so many standard deviations to each side."""
FAR = 1e-13
"""Beyond it the chances are to be below this."""
QUIET = 36.0
WORK = 4e6
"""The most (t, s, pair, tilt) values: about 2 s."""
FEWEST = 40.0
"""The fewest entities that must share the shift."""


@dataclass(frozen=True)
class Field:
    """The pairs that may be dropped (or their nodes), in units of the noise; n counts every entity."""

    noise: Law
    x: Floats
    a: Floats
    weight: Floats
    giants: Floats
    """Weights a of the entities that are never dropped, and how often."""
    many: Floats
    n: float
    tau: float
    members: Counted
    """Places of the pairs among all of them."""
    reduced: Reduced | None


@dataclass(frozen=True)
class Tilted:
    """At places t (rows) and s: the product, and for each pair what may stand in the place of its factor."""

    log: Complexes
    one: Complexes
    dropped: Complexes
    kept: Complexes
    far: Complexes
    """E[(z - t) e^{-theta z}; kept], in place of the factor."""


def tilted(f: Field, t: Floats, s: Complexes, theta: float) -> Tilted:
    """Every factor is taken times e^{theta a x}: the tilt of the counts themselves is common."""
    c = (t[:, None] / f.a + f.tau - f.x)[:, None, :]
    a = f.a
    drop = np.exp(-theta * a * c)
    up = parts(f.noise, c, -theta * a + 0 * c)
    shift = drop / up.shift.real
    kept = up.kept.real * shift
    far = (a * f.tau * up.kept.real + a * up.first.real) * shift
    mirror = parts(f.noise, -c, (s[:, :, None] + theta) * a)
    # e^{-theta a c} E[e^{(s + theta) a p}], p = c - eta; its lift for c > 0 cancels the first factor
    fallen = np.exp(-s[:, :, None] * (a * f.tau) - theta * a * c) / mirror.shift * mirror.kept
    psi = kept + fallen
    log = np.log(psi) @ f.weight - s * (f.n * t)[:, None]
    log = log + float(np.sum(f.many * np.asarray(f.noise.cgf(-theta * f.giants))))
    inverse = 1 / psi
    return Tilted(log, inverse, fallen * inverse, kept * inverse, far * inverse)


def _field(problem: Problem, tau: float, high: float, low: float, nodes: int) -> Field:
    """In units of the noise. Equal weights: many close counts by Chebyshev nodes."""
    unit = problem.mechanism.spread
    noise = problem.mechanism.scaled(1.0)
    x, level = problem.c / problem.a / unit, tau / unit
    cut = high / problem.a + level - x
    chance = noise.cdf(cut)
    near = chance > 1e-20 / problem.n
    if np.ptp(problem.a) > 0:
        giants, many = np.unique(problem.a[~near], return_inverse=True)
        often = np.bincount(many, problem.times[~near], minlength=giants.size).astype(np.float64)
        weight = problem.times[near].astype(np.float64)
        where = np.flatnonzero(near)
        return Field(noise, x[near], problem.a[near], weight, giants, often, problem.n, level, where, None)
    order = np.argsort(x)
    times = problem.times[order].astype(np.float64)
    found: Entities = entities(noise, x[order], times, 0.0, (low + level, high + level), nodes)
    giants, often = np.ones(1), np.full(1, np.sum(times[found.members :]))
    where = order[: found.members]
    ones = np.ones(found.y.size)
    return Field(noise, found.y, ones, found.weight, giants, often, problem.n, level, where, found.reduced)


def _slope(f: Field, t: Floats, s: Floats) -> tuple[Floats, Floats]:
    """log E[e^{s (W - nt)}] at theta = 0 and its derivative, by differences (only windows and tilts come from it)."""
    step = 1e-4 * np.maximum(np.abs(s), 1e-3)
    log = [tilted(f, t, (s + k * step)[:, None], 0.0).log.real[:, 0] for k in (-1, 0, 1)]
    return log[1], (log[2] - log[0]) / (2 * step)


@dataclass(frozen=True)
class _Window:
    centre: float
    scale: float
    marks: Floats

    def tilts(self, t: Floats) -> tuple[Floats, Floats]:
        """tau and width at t."""
        tau, width = np.empty_like(t), np.empty_like(t)
        for here, side in ((t > self.centre, 1.0), (t <= self.centre, -1.0)):
            at, near, wide = self.marks[self.marks[:, 1] * side > 0].T
            tau[here] = side * np.exp(np.interp(t[here], at, np.log(np.abs(near))))
            width[here] = np.exp(np.interp(t[here], at, np.log(wide)))
        return tau, width


def _window(problem: Problem, tau: float) -> _Window:
    from scipy.optimize import brentq

    unit = problem.mechanism.deviation / problem.mechanism.spread
    rule, times = Threshold(tau), problem.times.astype(np.float64)
    field = shift(problem.c / problem.a, problem.a, times, 0.0, rule, problem.mechanism) / problem.mechanism.spread
    f = _field(problem, tau, field + 0.7 * unit, field - 0.7 * unit, 20)

    def excess(t: float) -> float:
        return float(_slope(f, np.array([t]), np.zeros(1))[1][0])

    low, high = field - 0.02 * unit, field + 0.02 * unit
    if not excess(low) > 0 > excess(high):
        raise ToleranceError("pos-threshold: the mean shift was not found where the mean field has it")
    t0 = float(brentq(excess, low, high, xtol=1e-9 * unit))
    gap = 0.02 * unit * float(np.min(f.a))
    shared = (excess(t0 - gap) - excess(t0 + gap)) / (2 * gap)
    small = 1e-3 / math.sqrt(problem.n)
    rate = _slope(f, np.full(2, t0), np.array([small, -small]))[1]
    scale = math.sqrt(max(float(rate[0] - rate[1]) / (2 * small), 1e-300)) / shared
    if shared < FEWEST or scale > 0.35 * unit * float(np.max(problem.a)):
        raise ToleranceError(
            f"pos-threshold: {shared:.3g} entities share the shift, which varies by {scale / unit:.2g} noise deviations: too few "
            f"for the exact integral"
        )
    rows = [_side(f, t0, scale, side) for side in (1.0, -1.0)]
    marks = np.concatenate(rows)[:, :3]
    return _Window(t0, scale, marks[np.lexsort((marks[:, 1], marks[:, 0]))])


def _side(f: Field, t0: float, scale: float, side: float) -> Floats:
    """Marks to one side of t0, as far as the chances are above FAR."""
    for span in (SPAN, 1.5 * SPAN, 2.2 * SPAN, 3.2 * SPAN):
        rows = _saddles(f, t0 + side * scale * np.linspace(0.0, span, 17), side)
        if rows[-1, 3] <= math.log(FAR):
            return rows
    raise ToleranceError(
        f"pos-threshold: the shift has long tails (e^{rows[-1, 3]:.3g} where they are cut), which the exact integral does not cover"
    )


def _saddles(f: Field, t: Floats, side: float) -> Floats:
    """Columns t, tau, width and the logarithm of the saddle-point estimate."""
    limit = (0.75 if not np.isinf(f.noise.strip) else 8.0) / float(np.max(f.a))
    low, high = np.full(t.size, math.log(1e-7 * limit)), np.full(t.size, math.log(limit))
    for _ in range(9):
        cancel.check()
        middle = 0.5 * (low + high)
        past = side * _slope(f, t, side * np.exp(middle))[1] * np.exp(middle) > 1
        low, high = np.where(past, low, middle), np.where(past, middle, high)
    tau = np.exp(0.5 * (low + high))
    log, rate = _slope(f, t, side * tau)
    near = _slope(f, t, side * 0.99 * tau)[1]
    curvature = np.maximum(side * (rate - near) / (0.01 * tau), 0.0) + 1 / tau**2
    log = log - np.log(tau) - 0.5 * np.log(2 * np.pi * curvature)
    return np.stack([t, side * tau, np.sqrt(curvature), log], axis=1)


def shares(x: Floats, a: Floats, times: Counted, truth: Floats, noise: Law, tau: float, rtol: float) -> Moments:
    """Moments of `pos-threshold` for the distinct pairs (x, a), each `times` often, in shares of 1."""
    same = np.ptp(a) == 0
    problem = Problem.build(x, np.ones_like(a) if same else a, times, truth, noise)
    inverse = inverse_of(problem, 0.02 * rtol)
    if inverse is None:
        raise ToleranceError("pos-threshold: the sum of noisy counts may come near 0; the exact integral needs S > 0")
    win = _window(problem, tau)
    bias0, mse0 = unclipped(problem, inverse)
    before: tuple[Floats, Floats, Floats] | None = None
    for level in LEVELS:
        cancel.check()
        gamma, zero, square, root = _level(problem, win, inverse, tau, level)
        mean = float(np.sum(problem.times * gamma)) / problem.n
        bias = bias0 + gamma - mean
        mse = np.maximum(mse0 + square - 2 * problem.shares * (gamma - mean), bias**2)
        if before is not None:
            rule = moved(bias, before[0], np.abs(gamma) + abs(mean)) + 1e-13 * (np.abs(bias0) + np.abs(gamma))
            error = rule + abs(root - mean) + np.sqrt(mse) * inverse.rms + inverse.tail
            if reached(bias, error, problem.shares, rtol):
                return Moments(
                    bias,
                    error,
                    mse,
                    zero,
                    degenerate=chance_negative(problem),
                    mse_error=np.abs(mse - before[1]) + (1e-8 + 4 * inverse.rms) * mse + 1e-13 * problem.shares**2,
                    zero_error=np.abs(zero - before[2]) + 1e-12,
                )
        before = (bias, mse, zero)
    raise refusal("pos-threshold", bias, error, rtol)


@dataclass
class _Sums:
    """For one tilt: E[g e^{-theta S}], E[(v^2 - z^2) e^{-theta S}] of the pairs, P(v = 0), and what giants need."""

    gain: Floats
    square: Floats
    zero: Floats
    common: tuple[float, float]
    """int E[e^{-theta S} (1{W > nt} - 1{t < t0})] dt, and with t under the integral."""
    whole: float
    """E[e^{-theta (S - E S)}]."""


def _level(
    problem: Problem, win: _Window, inverse: Inverse, tau: float, level: Level
) -> tuple[Floats, Floats, Floats, float]:
    """Gamma, P(v = 0) and E[(v^2 - z^2)/S^2] of every pair; and E[r/S], which must be the mean of Gamma."""
    low, high = float(win.marks[0, 0]), float(win.marks[-1, 0])
    f = _field(problem, tau, high, low, level.nodes)
    ends = [
        np.linspace(win.centre, end, math.ceil(abs(end - win.centre) / (4.75 * win.scale)) + 1) for end in (low, high)
    ]
    edges = np.concatenate([ends[0][::-1], ends[1][1:]])
    u, w = legendre(level.order)
    wide = np.diff(edges)[:, None]
    t, weight = (edges[:-1, None] + wide * u).ravel(), (wide * w).ravel()
    path = Upright(*win.tilts(t), _end(f, t, win), level.step)
    work = t.size * path.size * f.x.size * inverse.t.size
    if work > WORK:
        raise ToleranceError(
            f"pos-threshold: {f.x.size} pairs that may be dropped need {work:.2g} nodes, which would take too long"
        )
    unit, size = problem.mechanism.spread, problem.c.size
    gamma, square, zero, root = np.zeros(size), np.zeros(size), np.zeros(size), 0.0
    far = np.ones(size, dtype=bool)
    far[f.members] = False
    for theta, omega in zip(inverse.t, inverse.omega, strict=True):
        sums = _tilt(f, t, weight, edges, path, theta * unit, win.centre)
        once = omega * math.exp(-theta * problem.mean) * unit
        twice = once * theta * unit
        root += once * (win.centre * sums.whole + sums.common[0])
        gamma[f.members] += once * _out(f, sums.gain, win.centre)
        square[f.members] += twice * _out(f, sums.square, None)
        if theta == 0:
            zero[f.members] = np.clip(_out(f, sums.zero, win.centre), 0.0, 1.0)
        a, x = problem.a[far], problem.c[far] / unit
        mean = x + a * problem.mechanism.scaled(1.0).cumulants(-theta * unit * a)[1]
        t0 = win.centre
        square[far] += twice * (sums.whole * (t0**2 - 2 * t0 * mean) - 2 * (mean * sums.common[0] - sums.common[1]))
    return gamma, zero, square, root


def _out(f: Field, values: Floats, t0: float | None) -> Floats:
    """At the pairs, from the nodes; ratios to what a fixed shift t0 would give vary slowly."""
    if f.reduced is None:
        return values
    if t0 is None:
        return f.reduced.at_members(values)
    return f.reduced.at_members(values, lambda y: f.noise.cdf(t0 + f.tau - y))


def _end(f: Field, t: Floats, win: _Window) -> float:
    """How far up the contours go: until the product has died out at every t."""
    tau, width = win.tilts(t)
    foot = tilted(f, t, tau[:, None].astype(np.complex128), 0.0).log.real[:, 0]
    for u in (1.6, 2.0, 2.5, 3.0, 3.6, 4.3, 5.0):
        there = tilted(f, t, (tau + 4j / width * math.sinh(u))[:, None], 0.0).log.real[:, 0]
        if np.all(np.minimum(there - foot, there) < -QUIET):
            return u
    raise ToleranceError("pos-threshold: the contours decay too slowly")


def _tilt(f: Field, t: Floats, weight: Floats, edges: Floats, path: Upright, theta: float, t0: float) -> _Sums:
    """The contour integrals at every t, and their sums."""
    rows = max(1, BLOCK // (path.size * f.x.size))
    shape = (t.size, f.x.size)
    dropped, edge, moment, none, far = (np.empty(shape) for _ in range(5))
    plain = np.empty(t.size)
    jump = f.a * f.tau
    blocks = [slice(i, min(i + rows, t.size)) for i in range(0, t.size, rows)]

    def some(which: slice) -> None:
        for b in blocks[which]:
            cancel.check()
            s, ds, pole = path.at(b)
            found, still = tilted(f, t[b], s, theta), tilted(f, t[b], np.zeros((s.shape[0], 1)), theta)
            q = np.exp(found.log) * ds / s
            base = (pole * np.exp(still.log[:, 0]))[:, None]
            z = -s[:, :, None] * (jump[:1] if np.ptp(jump) == 0 else jump)
            zeroth, first = growth(z)
            fall = np.exp(z)
            for out, part, rest in (
                (dropped, found.dropped, still.dropped),
                (edge, found.one * zeroth * jump, still.one * jump),
                (moment, found.one * (zeroth - first) * (2 * jump**2), still.one * jump**2),
                (none, found.one * fall, still.one),
                (far, found.far, still.far),
            ):
                out[b] = np.matmul(q[:, None, :], part)[:, 0].imag - base * rest[:, 0].real
            plain[b] = np.sum(q, axis=1).imag - base[:, 0]

    over_slices(some, len(blocks), None if len(blocks) > 1 else 1)
    # the fixed shift t0
    m = np.exp(np.asarray(f.noise.cgf(-theta * f.a)))
    whole = float(np.sum(f.weight * np.log(m)) + np.sum(f.many * np.asarray(f.noise.cgf(-theta * f.giants))))
    whole = math.exp(whole)
    c = t0 / f.a + f.tau - f.x
    lift = np.exp(-theta * f.a * c) * whole / m
    l0, l1, l2 = (f.noise.lower(c, -theta * f.a, k) for k in range(3))
    u0, u1 = (f.noise.upper(c, -theta * f.a, k) for k in range(2))
    gain = -lift * f.a * (l1 + f.tau * l0)
    near = t0 + jump
    square = -lift * (near**2 * l0 + 2 * near * f.a * l1 + f.a**2 * l2)
    square -= lift * (t0**2 * u0 + 2 * t0 * (jump * u0 + f.a * u1))

    def at_edge(values: Floats) -> Floats:
        """int f_i e^{-theta a c} values dt; the density has a corner at c = 0."""
        if np.ptp(f.a) > 0:
            at = t[:, None] / f.a + f.tau - f.x
            return np.asarray(weight @ (f.noise.density(at) * np.exp(-theta * f.a * at) / f.a * values))
        law = Reduced(int(np.isinf(f.noise.strip)), f.x - f.tau, f.weight, 0.0, 0.0, f.x, ())
        empty = np.zeros(f.x.size)
        rule = Integrals(law, edges, t, weight, values, np.zeros((0, 2)), empty, np.zeros(2), 0, False)
        return rule.against(lambda v: f.noise.density(v) * np.exp(-theta * v))

    gain += weight @ dropped - at_edge(edge)
    square += -2 * weight @ far - at_edge(moment)
    zero = f.noise.cdf(c) + at_edge(none)
    return _Sums(gain, square, zero, (float(weight @ plain), float((weight * t) @ plain)), whole)
