"""pi_S+ and `simplex-threshold` under whole-number noise (discrete Laplace, discrete Gaussian) and whole counts, exactly.

pi_S+. D_i = E[(T - X_i)_+] = int P(eta <= floor t - x_i) P(T_{-i} > t) dt: the weight is constant on each cell [m, m + 1), and the integral of
P(T_{-i} > t) over a cell is the one of `kernels_of_s`. P(v_i = 0) = sum_m P(X_i = m) P(T_{-i} >= m).

Threshold. phi(u) = min(u, (1 + tau)(u - tau)_+) has a ramp of width 1, so at t' = r + tau in [m, m + 1), f = t' - m, just the counts X = m + 1
are on it, with phi = rho = (1 + tau)(1 - f); higher ones have phi = X - m + tau - f. As t grows g(X_i - t) = phi - u rises with slope 1 where
X_i <= m and falls with slope tau where X_i = m + 1:

    D_i = int P(eta <= m - x_i) P(H_{-i}(t) > C) - tau P(eta = m + 1 - x_i) P(H_{-i}(t) + rho > C) dt,
    P(v_i = 0) = sum_m P(X_i = m) P(H_{-i}(m) >= C).

Here H is not whole (tau is not), and 1/s serves: what the product has near s + 2 pi i k, where the whole part of H is the same again, is a
ripple of P(H > C) that all but vanishes in the integral over a cell; it is bounded (`ripples`) and is part of the stated error.

The mean squared error is E[(phi - x_i)^2] at t0 - 2 int E[(phi - x_i) phi' (1{H > C} - 1{t < t0})] dt for both.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from fairpost import cancel
from fairpost.engines.closed.quadrature import on_panels
from fairpost.engines.closed.shares import range_error, refusal
from fairpost.engines.exact.lattice import ramps
from fairpost.engines.exact.lattice.alone import alone
from fairpost.engines.exact.lattice.cells import TABLES, cells, table
from fairpost.engines.exact.lattice.kernels_of_s import at_least, passed, squared
from fairpost.engines.exact.lattice.largest import largest
from fairpost.engines.exact.lattice.pair import pair
from fairpost.engines.exact.lattice.problem import Problem
from fairpost.engines.exact.lattice.sparse import sparse
from fairpost.engines.exact.sums.contours import CHANCE, Kernel, Upright, invert, reach
from fairpost.engines.exact.sums.factors import Complexes
from fairpost.engines.exact.sums.population import Entities, Places, Product, mass_at, product
from fairpost.engines.exact.sums.uncut import ENOUGH, SURE, log_chance, uncut
from fairpost.engines.exact.sums.window import Family, Window, find_window
from fairpost.engines.exact.threshold.release import LEVELS, Level
from fairpost.engines.moments import Counted, Floats, Moments
from fairpost.errors import ToleranceError
from fairpost.noise import Gaussian, Law, Threshold

CELLS = 2500
"""The most cells [m, m + 1) of the threshold; what they take is known before the work."""
REACH = (9.0, 7.0)
"""Every window reaches at least so many deviations of the mean noise to each side (Laplace, Gaussian): so too many cells are seen before
it is sought."""
SHIFTS = 7e5
"""The most (t, count) pairs at one level: the contours of one take some microseconds."""
SMOOTH = 200.0
"""Discrete Gaussian noise with more masses than this has its window from continuous noise."""
RIPPLES = 0.2
"""Ripples above this part of the tolerance on a deviation leave it no room: whole cells have none."""
LOOKS = 24
"""At so many t the product is looked at first: where it lives on at one of them, contours are of no use."""
HARMONICS = 8
"""How many 2 pi i k are looked at for a sum that is not whole."""
ROUNDING = 4e-16
ROUNDED = (1e-12, 1e-10)
"""Of a mean squared error (Laplace, Gaussian): the mean of tilted discrete Gaussian noise is a difference, 1e-16 over a step of 1e-5."""
SAFETY = (20.0, 28.0, 38.0, 38.0)
"""What whole cells leave out at each level: e^-this."""


@dataclass(frozen=True)
class Found:
    """One level's values, one entry per distinct count."""

    deficit: Floats
    mean: float
    zero: Floats
    mse: Floats
    root: float
    nodes: int
    left: tuple[float, float]
    """What was left out of any deficit, and of any P(v = 0)."""
    complete: bool
    """Whether the mean squared error has its remainder."""


def release(x: Floats, times: Counted, noise: Law, total: float, rule: Threshold | None, rtol: float) -> Moments:
    """Moments of pi_S+ (no rule) or `simplex-threshold` for distinct whole counts x, each `times` often."""
    problem = Problem(noise, x, times.astype(np.float64), total, rule)
    rare = log_chance(x, problem.n, noise, problem.surplus, 0.0 if rule is None else rule.level + rule.width)
    if rare < SURE:
        return _nobody(problem, rare)
    found = alone(problem) or sparse(problem, rtol) or pair(problem, rtol) or largest(problem, rtol)
    if found is not None:
        return found
    _few_cells(problem, 2 * REACH[int(np.isinf(noise.strip))] * noise.deviation / math.sqrt(problem.n))
    family = Family(noise, problem.x, problem.times, problem.surplus, problem.places)
    try:
        win = _smooth_window(problem) if table(noise) > SMOOTH else find_window(family)
    except ToleranceError:
        if rare < ENOUGH:
            return _nobody(problem, rare)
        raise
    _few_cells(problem, win.high - win.low)
    before: Found | None = None
    for level in LEVELS:
        cancel.check()
        now = _level(problem, family, win, level, rtol)
        bias, error, slack = _biases(problem, now, now if before is None else before)
        least = max(rtol * float(np.ptp(bias)), 1e-13 * (noise.deviation + abs(problem.surplus / problem.n)))
        if before is not None and slack <= least:
            return _moments(problem, win, now, before, bias, error)
        if 2 * now.left[0] > 2 * least and x.size > 1:
            break  # ripples are the same at every level
        before = now
    raise refusal(problem.name, bias, error, rtol)


def _smooth_window(problem: Problem) -> Window:
    """The window of continuous noise, whose transforms are cheap: it says where the shift lies and how to cross the axis, no more.

    The jump of a threshold is put in the middle of the ramp; t' = r + tau in counts, r in units of the noise there.
    """
    unit, n = problem.noise.spread, problem.n
    level = 0.0 if problem.rule is None else (problem.tau + 0.5) / unit

    def places(t: Floats) -> Places:
        return Places(t, np.full(t.size, level), None)

    y = problem.x / unit - level
    win = find_window(Family(Gaussian(1.0), y, problem.times, problem.surplus / unit + n * level, places))
    marks = win.marks * np.array([unit, 1 / unit, unit])
    marks[:, 0] += problem.tau
    ends = [unit * v + problem.tau for v in (win.centre, win.low, win.high)]
    return Window(ends[0], ends[1], ends[2], unit * win.scale, win.kept, marks)


def _nobody(problem: Problem, rare: float) -> Moments:
    found = uncut(problem.x, problem.n, problem.noise, problem.total, problem.surplus, rare)
    return found if problem.rule is None else replace(found, threshold=None, threshold_error=None)


def _few_cells(problem: Problem, cells: float) -> None:
    if cells > CELLS:
        raise ToleranceError(
            f"{problem.name}: the threshold has some {cells:.0f} cells under {problem.noise.name} noise of this scale (at most {CELLS}): "
            f"evaluating them would take too long"
        )


def panels(win: Window, order: int) -> tuple[Floats, Floats]:
    """Gauss-Legendre on panels of t that end at whole numbers and at the centre."""
    whole = np.arange(math.ceil(win.low), math.floor(win.high) + 1.0)
    breaks = np.unique(np.concatenate([[win.low, win.centre, win.high], whole]))
    widest = float(np.max(np.diff(breaks))) / win.scale
    edges = np.unique(
        np.concatenate([np.linspace(a, b, math.ceil((b - a) / (4.5 * win.scale)) + 1) for a, b in pairwise(breaks)])
    )
    if widest < 4.5:  # a short panel needs fewer nodes
        order = max(4, math.ceil(order * (0.4 + 0.6 * widest / 4.5)))
    return on_panels(edges, order)


def _level(problem: Problem, family: Family, win: Window, level: Level, rtol: float) -> Found:
    e = family.entities(math.floor(win.low), math.ceil(win.high) + 1.0, level.nodes)
    t, weight = panels(win, level.order)
    at = problem.places(t)
    tilt, width = win.tilts(t)
    if t.size * e.y.size > SHIFTS:
        raise ToleranceError(
            f"{problem.name}: {t.size} shifts under {problem.noise.name} noise of this scale would take too long"
        )
    some = np.unique(np.linspace(0, t.size - 1, LOOKS).astype(np.int64))
    if reach(e, problem.places(t[some]), tilt[some], width[some], math.pi) == math.inf:
        return _few(problem, family, win, level)
    if t.size * 10 * table(problem.noise) > TABLES:  # the product would be looked at some ten times before the work
        return _few(problem, family, win, level)
    end = reach(e, at, tilt, width, math.pi)
    if end == math.inf:
        return _few(problem, family, win, level)
    left = ripples(problem, e, win)
    if left[0] > RIPPLES * rtol * problem.noise.deviation:
        with suppress(ToleranceError):
            return _few(problem, family, win, level)
    main, second = (passed(problem.total), squared(problem.total)) if problem.rule is None else (CHANCE, CHANCE)
    kernels = [main]
    if at.rho is not None:
        rho = at.rho
        kernels.append(Kernel(lambda s, which: np.exp(s * rho[which][:, None]) / s, 1.0))
    path = Upright(tilt, width, end, level.step)
    if t.size * path.size * table(problem.noise) > TABLES:
        raise ToleranceError(
            f"{problem.name}: {t.size * path.size} sums over the masses of {problem.noise.name} noise of this scale would take too long"
        )
    extra = _extra(problem, e, at, main, second)
    values = invert(e, at, path, kernels, extra)
    deficit = weight @ (_cdf(e, at.base) * values.without[0])
    if at.rho is not None:
        deficit -= problem.tau * (weight @ (mass_at(e, at.base + 1) * values.without[1]))
    zero = _zeros(problem, family, e, win, end, level)
    parts = (deficit, zero, -2 * weight @ values.extra[0])
    root = win.centre + float(weight @ values.extra[1][:, 0]) - problem.tau
    giant = float(weight @ values.extra[2][:, 0])
    return _spread_out(problem, e, win, parts, root, giant, values.nodes, left)


def _few(problem: Problem, family: Family, win: Window, level: Level) -> Found:
    """The same from whole cells (`cells`); the remainder of the mean squared errors is in them."""
    low, high, t0 = math.floor(win.low), math.ceil(win.high), math.floor(win.centre)
    e = family.entities(low, high + 1.0, level.nodes)
    m = np.arange(low, high, dtype=np.float64)
    # a cell may hold all of the window: its tilt is that of its end beside the centre
    beside = np.nextafter(win.centre, math.inf)
    tau, _ = win.tilts(np.where(m < t0, np.minimum(m + 1, win.centre), np.maximum(m, beside)))
    safety = SAFETY[LEVELS.index(level)]
    if problem.rule is None:
        sums = cells(e, m, tau, safety, problem.total)
    else:
        sums = ramps.cells(e, m, tau, safety, ramps.Ramp.of(problem.tau, problem.total))
    # the start counts m = t0 as below the root, the cells as above it
    parts = (sums.deficit, sums.zero - mass_at(e, np.array([float(t0)]))[0], sums.square)
    at = replace(win, centre=float(t0))
    return _spread_out(
        problem, e, at, parts, t0 - problem.tau + sums.root, -sums.giant / 2, sums.nodes, (sums.left, 0.0), True
    )


def _extra(problem: Problem, e: Entities, at: Places, main: Kernel, second: Kernel) -> Any:
    """For E[(phi - x) phi'; H > C], P(H > C) and the same first for a giant."""
    still = product(e, at, np.zeros((at.base.size, 1)))
    steep = 1.0 + problem.tau

    def extra(found: Product, s: Complexes, which: slice) -> list[tuple[Complexes, Any]]:
        first, later = main.form(s, which), second.form(s, which)
        kappa = at.kappa[which][:, None, None]
        own = (found.first - e.y * found.kept) * first[:, :, None] + kappa * found.kept * later[:, :, None]
        mean = (still.first[which] + (kappa - e.y) * still.kept[which])[:, 0]
        if at.rho is not None and found.ramp is not None and still.ramp is not None:
            rho = at.rho[which][:, None, None]
            own = own + steep * (rho - e.y) * found.ramp * first[:, :, None]
            mean = mean + steep * ((rho - e.y) * still.ramp[which])[:, 0]
        base, shift = at.base[which][:, None], at.kappa[which][:, None]
        giant = (found.line - base) * first + shift * later
        return [(own, mean), (first, 1.0), (giant, shift - base)]

    return extra


def _cdf(e: Entities, base: Floats) -> Floats:
    """P(X_i <= m) for each cell m and node i."""
    from fairpost.engines.exact.sums.factors import parts

    c = base[:, None] - e.y
    p = parts(e.noise, c, np.zeros((1, 1)))
    return np.asarray(p.below)


def _zeros(problem: Problem, family: Family, e: Entities, win: Window, end: float, level: Level) -> Floats:
    """sum_m P(X_i = m) (P(T_{-i} >= m) - 1{m <= t0}) over the whole m of the window."""
    m = np.arange(math.ceil(win.low), math.floor(win.high) + 1.0)
    if m.size == 0:
        return np.zeros(e.y.size)
    at = problem.places(m)
    tilt, width = win.tilts(m)
    kernel = at_least(problem.total) if problem.rule is None else CHANCE
    path = Upright(tilt, width, reach(e, at, tilt, width, math.pi), level.step)
    if path.end == math.inf:
        raise ToleranceError(f"{problem.name}: the contours decay too slowly")
    chance = invert(e, at, path, [kernel]).without[0]
    return np.asarray(np.sum(mass_at(e, m) * chance, axis=0))


def ripples(problem: Problem, e: Entities, win: Window) -> tuple[float, float]:
    """Bounds on what the neglected s + 2 pi i k add to any deficit, and to any P(v = 0); the ramp alone has them.

    At a fixed t the one near 2 pi i k is a ripple of P(H > C), of the size |prod psi| sqrt(2 pi)/width / (2 pi^2 k). Integrated over t
    inside a cell
    it turns with the frequency 2 pi k K, K the number kept, and leaves terms at the ends of the cell, a factor 1/(2 pi k K). Twice that.
    """
    m = np.arange(math.ceil(win.low), math.floor(win.high) + 1.0)
    if problem.rule is None or m.size == 0:
        return 0.0, 0.0
    at = problem.places(m)
    tilt, width = win.tilts(m)
    ends, worst = 0.0, 0.0
    for k in range(1, HARMONICS + 1):
        cancel.check()
        found = product(e, at, (tilt + 2j * np.pi * k)[:, None])
        size = np.exp(np.minimum(found.log.real[:, 0], 0.0)) * math.sqrt(2 * np.pi) / (width * 2 * np.pi**2 * k)
        ends += float(np.sum(size)) * (1 + problem.tau) / (2 * np.pi * k * win.kept)
        worst += float(np.max(size))
    return 2 * ends, 2 * worst


def _spread_out(
    problem: Problem, e: Entities, win: Window, parts: tuple[Floats, ...], root: float, giant: float, nodes: int,
    left: tuple[float, float], complete: bool = False,
) -> Found:  # fmt: skip
    """From nodes to distinct counts; what varies fast with the count is the start, known at each of them."""
    unit = problem.noise.spread
    start = [s.copy() for s in problem.start(win.centre)]
    for full, part, smooth in zip(start, parts, (True, True, False), strict=True):
        if e.reduced is None:
            full[: e.members] += part
        elif smooth:
            full[: e.members] += e.reduced.at_members(part, lambda y: np.exp(-np.abs(y - win.centre / unit)))
        else:
            full[: e.members] += e.reduced.at_members(part)
    at = problem.places(np.array([win.centre]))
    fixed = float(at.kappa[0] - at.base[0])
    start[0][e.members :], start[1][e.members :] = 0.0, 0.0
    start[2][e.members :] = problem.noise.variance + fixed**2 - 2 * giant
    mean = float(np.sum(problem.times * start[0])) / problem.n
    return Found(start[0], mean, np.clip(start[1], 0.0, 1.0), start[2], root, nodes, left, complete)


def _biases(problem: Problem, now: Found, before: Found) -> tuple[Floats, Floats, float]:
    """The biases, their errors, and alpha's: the last change, the defect of the mean root, what was left out, rounding."""
    drift = problem.surplus / problem.n
    if now.deficit.size == 1:
        return np.array([drift]), np.spacing(np.array([abs(drift)])), 0.0
    moved = float(np.max(np.abs((now.deficit - now.mean) - (before.deficit - before.mean))))
    defect = abs(now.root - (now.mean - drift))
    bias = drift + now.deficit - now.mean
    size = np.abs(now.deficit) + abs(now.mean)
    off = max(defect - 1e-13 * (problem.noise.deviation + abs(now.root)), 0.0)
    error = moved + off * size / max(abs(now.mean), 1e-300)
    error = error + now.left[0] + ROUNDING * ((20 + math.sqrt(problem.n)) * size + abs(drift))
    return bias, error, range_error(bias, error)[1]


def _moments(problem: Problem, win: Window, now: Found, before: Found, bias: Floats, error: Floats) -> Moments:
    defect = abs(now.root - (now.mean - problem.surplus / problem.n))
    remainder = (1 / win.scale + 1) / (3 * win.kept**2) if problem.rule is None and not now.complete else 0.0
    # what was left out of a deficit moves a square by twice that times the size of v - x
    wide = 2 * (problem.x + np.sqrt(np.maximum(now.mse, 0.0))) * now.left[0]
    rounded = ROUNDED[int(np.isinf(problem.noise.strip))] * now.mse
    return Moments(
        bias,
        error,
        now.mse,
        now.zero,
        threshold=now.mean if problem.rule is None else None,
        nodes=now.nodes,
        mse_error=np.abs(now.mse - before.mse) + rounded + wide + remainder,
        zero_error=np.abs(now.zero - before.zero) + now.left[1] + 1e-13,
        threshold_error=defect + abs(now.mean - before.mean) if problem.rule is None else None,
    )
