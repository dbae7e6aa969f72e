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
from fairpost.engines.closed.quadrature import on_panels
from fairpost.engines.closed.shares import moved, reached, refusal
from fairpost.engines.exact.pos.inverse import Inverse, inverse_of
from fairpost.engines.exact.pos.problem import Problem, chance_negative
from fairpost.engines.exact.pos.separated import unclipped
from fairpost.engines.exact.simplex.contours import Integrals
from fairpost.engines.exact.simplex.law import Reduced
from fairpost.engines.exact.sums.contours import BLOCK, Upright
from fairpost.engines.exact.sums.factors import Complexes
from fairpost.engines.exact.sums.window import Window
from fairpost.engines.exact.threshold.release import LEVELS, Level, growth
from fairpost.engines.exact.threshold.tilts import Field, field_of, log_of, tilted, window
from fairpost.engines.moments import Counted, Floats, Moments
from fairpost.errors import ToleranceError
from fairpost.noise import Law
from fairpost.parallel import over_slices

QUIET = 36.0
WORK = 4e6
"""The most (t, s, pair, tilt) values: about 2 s."""


def shares(x: Floats, a: Floats, times: Counted, truth: Floats, noise: Law, tau: float, rtol: float) -> Moments:
    """Moments of `pos-threshold` for the distinct pairs (x, a), each `times` often, in shares of 1."""
    same = np.ptp(a) == 0
    problem = Problem.build(x, np.ones_like(a) if same else a, times, truth, noise)
    inverse = inverse_of(problem, 0.02 * rtol)
    if inverse is None:
        raise ToleranceError("pos-threshold: the sum of noisy counts may come near 0; the exact integral needs S > 0")
    win = window(problem, tau)
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
                    mse_error=np.abs(mse - before[1])
                    + (1e-8 + 4 * inverse.rms) * mse
                    + 2 * problem.shares * (np.sqrt(mse) + np.sqrt(mse0)) * (inverse.rms + inverse.square)
                    + 1e-13 * problem.shares**2,
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
    problem: Problem, win: Window, inverse: Inverse, tau: float, level: Level
) -> tuple[Floats, Floats, Floats, float]:
    """Gamma, P(v = 0) and E[(v^2 - z^2)/S^2] of every pair; and E[r/S], which must be the mean of Gamma."""
    low, high = win.low, win.high
    f = field_of(problem, tau, high, low, level.nodes)
    ends = [
        np.linspace(win.centre, end, math.ceil(abs(end - win.centre) / (4.75 * win.scale)) + 1) for end in (low, high)
    ]
    edges = np.concatenate([ends[0][::-1], ends[1][1:]])
    t, weight = on_panels(edges, level.order)
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


def _end(f: Field, t: Floats, win: Window) -> float:
    """How far up the contours go: until the product has died out at every t."""
    tau, width = win.tilts(t)
    foot = log_of(f, t, tau[:, None]).real[:, 0]
    for u in (1.6, 2.0, 2.5, 3.0, 3.6, 4.3, 5.0):
        there = log_of(f, t, (tau + 4j / width * math.sinh(u))[:, None]).real[:, 0]
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

    def steps(s: Complexes) -> tuple[Complexes, Complexes, Complexes]:
        """Moments of e^{-s u} over the jump, and its end; one column where the jump is the same for every pair."""
        z = -s[:, :, None] * (jump[:1] if np.ptp(jump) == 0 else jump)
        return *growth(z), np.exp(z)

    def along(q: Complexes, part: Complexes, factor: Complexes | None) -> Floats:
        """The sum of q times a part over the contour; a factor that is the same for every pair goes to q."""
        if factor is not None and factor.shape[2] == 1:
            q, factor = q * factor[:, :, 0], None
        return np.asarray(np.matmul(q[:, None, :], part if factor is None else part * factor)[:, 0].imag)

    def some(which: slice) -> None:
        for b in blocks[which]:
            cancel.check()
            s, ds, pole = path.at(b)
            found, still = tilted(f, t[b], s, theta), tilted(f, t[b], np.zeros((s.shape[0], 1)), theta)
            q = np.exp(found.log) * ds / s
            base = (pole * np.exp(still.log[:, 0]))[:, None]
            zeroth, first, fall = steps(s)
            one = still.one[:, 0].real
            dropped[b] = along(q, found.dropped, None) - base * still.dropped[:, 0].real
            edge[b] = (along(q, found.one, zeroth) - base * one) * jump
            moment[b] = (2 * along(q, found.one, zeroth - first) - base * one) * jump**2
            none[b] = along(q, found.one, fall) - base * one
            far[b] = (along(q, found.one, None) - base * one) * found.far[:, 0]
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
