"""PoS with equal weights under whole-number noise (discrete Laplace, discrete Gaussian) and whole counts, exactly.

With equal weights the share is (X_i - r)_+ / S, r >= 0 the root of W(t) = sum_j (t - X_j)_+ = n t, and {r > t} = {W(t) > n t}. On a cell
t = m + u, 0 <= u < 1,

    W(t) - n t = V - u K,   V = sum_j (m - X_j)_+ - n m,   K = #{X_j > m},

V is whole, and r passes the cell as far as min((V)_+ / K, 1): the sums of `kernels_of_s` with C = 0. 1/S is a sum of few exponentials
(`pos.inverse`), so under each tilt e^{-theta S} there is a product again,

    psi_j = E[e^{-theta eta}; X_j > m] + E[e^{-theta eta} e^{s (t - X_j)}; X_j <= m],

and what is asked of entity i stands in the place of its factor:

    E[(r - X_i)_+ e^{-theta S}] = int E[1{X_i <= t} 1{r > t} e^{-theta S}] dt          the part that is dropped
    P(v_i = 0) = sum_m P(X_i = m, r >= m)                                              the mass at m
    E[(v_i^2 - X_i^2) e^{-theta S}] = E[...] at t0 - 2 int E[(X_i - t)_+ (1{r > t} - 1{t < t0}) e^{-theta S}] dt

With Gamma_i = E[(r - X_i)_+ / S] the bias is that without clipping, plus Gamma_i less its mean over all entities, which is E[r/S]: a check.
The product must die out inside one period, |Im s| <= pi: many entities that may be dropped. Others are listed, or stand for continuous noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

import numpy as np

from fairpost import cancel
from fairpost.engines.closed.shares import SAFETY, moved, otherwise, reached, refusal, symmetric
from fairpost.engines.exact.lattice import dropped
from fairpost.engines.exact.lattice.cells import TABLES, table
from fairpost.engines.exact.lattice.field import Field, out, start, tilted
from fairpost.engines.exact.lattice.kernels_of_s import at_least, passed, squared
from fairpost.engines.exact.lattice.release import panels
from fairpost.engines.exact.pos.inverse import Inverse, inverse_of
from fairpost.engines.exact.pos.problem import Problem, chance_negative
from fairpost.engines.exact.pos.separated import of_clipped, unclipped
from fairpost.engines.exact.sums.contours import BLOCK, Kernel, Upright
from fairpost.engines.exact.sums.factors import Complexes
from fairpost.engines.exact.sums.population import entities, mass_at
from fairpost.engines.exact.sums.window import Window
from fairpost.engines.exact.threshold.release import LEVELS, Level
from fairpost.engines.exact.threshold.tilts import sides
from fairpost.engines.mean_field import shift
from fairpost.engines.moments import Floats, Moments
from fairpost.errors import ToleranceError
from fairpost.noise import Law, Threshold
from fairpost.parallel import over_slices

QUIET, LEAST = 36.0, 14.0
"""The product is to fall by so much, and must by this; what is left of it at the end of the period is stated."""
CELLS = 700
"""The most cells of r."""
WORK = 3e7
"""The most (t, s, count, tilt) values: some three seconds."""
LOOKS = 4500
"""About so many s are looked at before the work."""
LEFT = (20.0, 28.0, 38.0, 38.0)
"""What whole periods leave out at each level: e^-this."""
FEWEST = 12.0
"""The fewest entities that must be expected to be dropped."""
PASSED, SQUARED, AT_LEAST = passed(0.0), squared(0.0), at_least(0.0)
ALL = slice(None)


def on_a_lattice(problem: Problem) -> bool:
    """Whole counts and equal weights; others have no lattice in common."""
    return bool(np.ptp(problem.a) == 0 and (problem.c == np.floor(problem.c)).all())


def shares(problem: Problem, rtol: float) -> Moments:
    """Moments of PoS for distinct counts on a lattice, ascending, in shares of 1; refused by name where there is no such integral."""
    if table(problem.mechanism) * LOOKS > TABLES:
        raise ToleranceError(
            f"pos: the masses of {problem.mechanism.name} noise of this scale are too many to be summed"
        )
    inverse = inverse_of(problem, 0.02 * rtol)
    if inverse is None:
        raise ToleranceError("pos: the sum of noisy counts may come near 0")
    try:
        return _many(problem, inverse, rtol)
    except ToleranceError as error:
        return otherwise(error, lambda: _few(problem, inverse, rtol))


def _many(problem: Problem, inverse: Inverse, rtol: float) -> Moments:
    """By contours that die out."""
    win = _window(problem)
    remainder = (1 / win.scale + 1) / (3 * win.kept**2) / problem.mean**2  # of `squared`
    rules = (partial(_level, problem, win, inverse, level) for level in LEVELS)
    return _refined(problem, inverse, rtol, rules, win.high - win.low, remainder)


def _few(problem: Problem, inverse: Inverse, rtol: float) -> Moments:
    """By whole periods; 1/S as near as a small alpha needs it."""
    bias, mse = unclipped(problem, inverse)
    enough = 0.1 * rtol * float(np.ptp(bias)) / float(np.sqrt(np.max(mse)))
    near = inverse_of(problem, max(enough, 1e-13)) if enough < inverse.rms else None
    known = near or inverse
    rules = (
        partial(dropped.level, problem, known, left, level.nodes) for left, level in zip(LEFT, LEVELS, strict=True)
    )
    return _refined(problem, known, rtol, rules, 1.0, 0.0)


Values = tuple[Floats, Floats, Floats, float, float]


def _refined(
    problem: Problem, inverse: Inverse, rtol: float, rules: Iterable[Callable[[], Values]], wide: float, remainder: float
) -> Moments:  # fmt: skip
    """Finer rules until two agree; they leave something out of P(r > t) over a range `wide`, and a remainder of the squares."""
    bias0, mse0 = unclipped(problem, inverse)
    before: tuple[Floats, Floats, Floats] | None = None
    for rule in rules:
        cancel.check()
        gamma, zero, square, root, left = rule()
        mean = float(np.sum(problem.times * gamma)) / problem.n
        bias = bias0 + gamma - mean
        mse = np.maximum(mse0 + square - 2 * problem.shares * (gamma - mean), bias**2)
        if before is not None:
            change = moved(bias, before[0], np.abs(gamma) + abs(mean)) + 1e-13 * (np.abs(bias0) + np.abs(gamma))
            cut = 4 * left * wide / problem.mean
            error = change + abs(root - mean) + np.sqrt(mse) * inverse.rms + inverse.tail + cut
            if reached(bias, error, problem.shares, rtol):
                return symmetric(
                    Moments(
                        bias,
                        error,
                        mse,
                        zero,
                        degenerate=chance_negative(problem),
                        mse_error=SAFETY * moved(mse, before[1], mse)
                        + of_clipped(inverse, mse, mse0, problem.shares)
                        + 2 * remainder,
                        zero_error=SAFETY * np.abs(zero - before[2]) + 4 * left + 1e-12,
                    )
                )
        before = (bias, mse, zero)
    raise refusal("pos", bias, error, rtol)


def _window(problem: Problem) -> Window:
    """Where r lies, and the tilts there."""
    noise, x, times = problem.mechanism, problem.c, problem.times.astype(np.float64)
    t0 = shift(x, np.ones_like(x), times, 0.0, Threshold(0.0), noise)
    gone = float(times @ noise.cdf(np.floor(t0) - x))
    variance = float(times @ (_fall(noise, x, t0, 2) - _fall(noise, x, t0, 1) ** 2))
    shared = problem.n - gone
    scale = math.sqrt(max(variance, 1e-300)) / max(shared, 1e-3)
    if gone < FEWEST or t0 <= 0 or 2 * 9.5 * scale > CELLS:
        raise ToleranceError(
            f"pos: under {noise.name} noise the exact integral needs {FEWEST:g} entities that are expected to be dropped and at most {CELLS} "
            f"whole numbers inside the range of the shift, got {gone:.3g} and {2 * 9.5 * scale:.3g}"
        )
    reach = 30 * scale + 1
    f = Field(entities(noise, x, times, 0.0, (max(t0 - reach, 0.0), t0 + reach), 20), float(problem.n))
    marks = sides(f, t0, scale, "pos")
    low = max(float(marks[0, 0]), 0.0)  # r is never below 0
    return Window(t0, low, float(marks[-1, 0]), scale, shared, marks)


def _fall(noise: Law, x: Floats, t: float, k: int) -> Floats:
    """E[(t - X)_+^k], k = 1, 2."""
    m = math.floor(t)
    u = t - m
    l0, l1, l2 = (np.real(noise.lower(m - x, 0.0, j)) for j in range(3))
    return np.asarray(u * l0 - l1 if k == 1 else u * u * l0 - 2 * u * l1 + l2)


def _level(
    problem: Problem, win: Window, inverse: Inverse, level: Level
) -> tuple[Floats, Floats, Floats, float, float]:
    """Gamma, P(v = 0) and E[(v^2 - X^2)/S^2] of every count, E[r/S], and what is left of a product at the end of its period."""
    noise, x, times = problem.mechanism, problem.c, problem.times.astype(np.float64)
    e = entities(noise, x, times, 0.0, (math.floor(win.low), math.ceil(win.high) + 1.0), level.nodes)
    f, t0 = Field(e, float(problem.n)), win.centre
    t, weight = panels(win, level.order)
    path, left = _path(f, t, win, level.step)
    nodes = t.size * path.size * inverse.t.size
    if nodes * e.y.size > WORK or nodes * table(noise) > TABLES:
        raise ToleranceError(
            f"pos: {e.y.size} counts that may be dropped need {nodes} nodes, which would take too long"
        )
    gamma, square, root = np.zeros(x.size), np.zeros(x.size), 0.0
    far = np.arange(x.size) >= e.members
    for theta, omega in zip(inverse.t.tolist(), inverse.omega.tolist(), strict=True):
        sums = _tilt(f, t, weight, path, theta)
        log = float(np.real(noise.cgf(-theta)))
        once, whole = omega * math.exp(-theta * problem.mean), math.exp(log * f.n)
        gain, change = start(noise, x[: e.members], theta, t0)
        root += once * (t0 * whole + sums.common[0])
        gamma[: e.members] += once * (math.exp(log * (f.n - 1)) * gain + out(e, sums.gain, t0))
        square[: e.members] += once * theta * (math.exp(log * (f.n - 1)) * change + out(e, sums.square, None))
        mean = x[far] + float(noise.cumulants(np.array([-theta]))[1][0])
        square[far] += once * theta * (whole * (t0**2 - 2 * t0 * mean) - 2 * (mean * sums.common[0] - sums.common[1]))
    zero = np.zeros(x.size)
    below = np.asarray(noise.cdf(math.floor(t0) - x[: e.members]))
    zero[: e.members] = np.clip(below + out(e, _zeros(f, win, level), t0), 0.0, 1.0)
    return gamma, zero, square, root, left


def _path(f: Field, t: Floats, win: Window, step: float) -> tuple[Upright, float]:
    """Contours that go up until the product has died out at every t, or to the end of the period; and what is left of it there."""
    tau, width = win.tilts(t)
    foot = f.log(t, tau[:, None].astype(np.complex128)).real[:, 0]
    for u in (1.6, 2.0, 2.5, 3.0, 3.6, 4.3, 5.0):
        cancel.check()
        inside = np.maximum(width, 4 * math.sinh(u) / math.pi)
        there = f.log(t, (tau + 4j / inside * math.sinh(u))[:, None]).real[:, 0]
        left = float(np.max(np.minimum(there - foot, there)))
        if left < -QUIET or (inside > width).all():
            break
    if left > -LEAST:
        raise ToleranceError(f"pos: too few entities share the shift under {f.noise.name} noise")
    return Upright(tau, inside, u, step), math.exp(left)


@dataclass(frozen=True)
class _Sums:
    """For one tilt, less what a fixed shift t0 gives: E[(r - X)_+ e^{-theta S}], E[(v^2 - X^2) e^{-theta S}], and what giants need."""

    gain: Floats
    square: Floats
    common: tuple[float, float]
    """int E[e^{-theta S} (1{r > t} - 1{t < t0})] dt, and with t under the integral."""


def _tilt(f: Field, t: Floats, weight: Floats, path: Upright, theta: float) -> _Sums:
    e, shape = f.e, (t.size, f.e.y.size)
    dropped, far = np.empty(shape), np.empty(shape)
    plain, later = np.empty(t.size), np.empty(t.size)
    base, u = np.floor(t), t - np.floor(t)
    rows = max(1, BLOCK // (path.size * max(e.y.size, 1)))
    blocks = [slice(i, min(i + rows, t.size)) for i in range(0, t.size, rows)]

    def some(which: slice) -> None:
        for b in blocks[which]:
            cancel.check()
            s, ds, pole = path.at(b)
            found, still = tilted(f, t[b], s, theta), tilted(f, t[b], np.zeros((s.shape[0], 1)), theta)
            q = np.exp(found.log) * ds
            residue = (pole * np.exp(still.log[:, 0].real))[:, None]

            def along(kernel: Kernel, part: Complexes, rest: Complexes, q: Complexes = q, s: Complexes = s) -> Floats:
                weighted = (q * kernel.form(s, ALL))[:, None, :]
                return np.asarray(np.matmul(weighted, part)[:, 0].imag - residue * rest[:, 0].real)  # noqa: B023

            dropped[b] = along(PASSED, found.dropped, still.dropped)
            far[b] = along(PASSED, found.one, still.one) * found.first
            far[b] -= u[b][:, None] * along(SQUARED, found.one, still.one) * found.kept
            plain[b] = np.sum(q * PASSED.form(s, ALL), axis=1).imag - residue[:, 0]
            later[b] = np.sum(q * SQUARED.form(s, ALL), axis=1).imag - residue[:, 0]

    over_slices(some, len(blocks), None if len(blocks) > 1 else 1)
    common = float(weight @ plain), float((weight * base) @ plain + (weight * u) @ later)
    return _Sums(weight @ dropped, -2 * weight @ far, common)


def _zeros(f: Field, win: Window, level: Level) -> Floats:
    """sum_m P(X_i = m) (P(r >= m | X_i = m) - 1{m <= t0}) over the whole m of the window."""
    m = np.arange(max(math.ceil(win.low), 0), math.floor(win.high) + 1.0)
    if m.size == 0:
        return np.zeros(f.e.y.size)
    path, _ = _path(f, m, win, level.step)
    s, ds, pole = path.at(ALL)
    found, still = tilted(f, m, s, 0.0), tilted(f, m, np.zeros((m.size, 1)), 0.0)
    q = (np.exp(found.log) * ds * AT_LEAST.form(s, ALL))[:, None, :]
    chance = np.matmul(q, found.one)[:, 0].imag - (pole * np.exp(still.log[:, 0].real))[:, None] * still.one[:, 0].real
    return np.asarray(np.sum(mass_at(f.e, m) * chance, axis=0))
