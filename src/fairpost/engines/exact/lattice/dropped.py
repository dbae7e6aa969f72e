"""PoS with equal weights under whole-number noise where few entities are dropped: every cell of r over a whole period of s.

`shares` needs a product that dies out inside the period. Where few are dropped, or hardly ever anybody, it does not: r = 0 has an atom. As in
`cells` the sum over the period is then taken as it stands (`period`). On the cell t = m + u

    E[w^D e^{s V} e^{-theta S}] = prod_j (kept_j + w fallen_j),   D = n - K the number dropped,

and with the points w of a circle for D all integrals over u are closed. V is whole and the kernels have nothing for V <= 0, so the atom drops
out by itself, to a rounding that is stated. The cells begin at m = 0 and end where Chernoff's bound has r > m below
e^-safety of the chance that somebody is below 0. With t0 = 0 everything is positive:

    E[(r - X_i)_+ e^{-theta S}] = E[(-X_i)_+ e^{-theta S}] + sum_m E[R_m 1{X_i <= m} e^{-theta S}],   R_m = min((V)_+/K, 1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fairpost import cancel
from fairpost.engines.exact.lattice import period
from fairpost.engines.exact.lattice.cells import BLOCK, EPS, TABLES, WORK, table
from fairpost.engines.exact.lattice.field import Field, factors, out, start
from fairpost.engines.exact.lattice.kernels_of_s import at_least, passed, remainder, squared
from fairpost.engines.exact.lattice.period import Circle, Period
from fairpost.engines.exact.pos.inverse import Inverse
from fairpost.engines.exact.pos.problem import Problem
from fairpost.engines.exact.sums.population import entities, mass_at
from fairpost.engines.moments import Floats
from fairpost.errors import ToleranceError

MOST = 400
"""The most cells of r."""
EVERY = slice(None)
PASSED, SQUARED, AT_LEAST, REST = passed(0.0).form, squared(0.0).form, at_least(0.0).form, remainder(0.0)


@dataclass(frozen=True)
class Cell:
    """One m: its steps of s, and the points for D."""

    m: float
    path: Period
    circle: Circle


def level(problem: Problem, inverse: Inverse, safety: float, nodes: int) -> tuple[Floats, Floats, Floats, float, float]:
    """Gamma, P(v = 0) and E[(v^2 - X^2)/S^2] of every count, E[r/S], and the rounding of E[r] in the cells."""
    noise, x, times = problem.mechanism, problem.c, problem.times.astype(np.float64)
    cells = plan(problem, safety, nodes, inverse.t.size)
    e = entities(noise, x, times, 0.0, (0.0, len(cells) + 1.0), nodes)
    f = Field(e, float(problem.n))
    gamma, square, root, left = np.zeros(x.size), np.zeros(x.size), 0.0, 0.0
    near, far = slice(0, e.members), slice(e.members, x.size)
    for theta, omega in zip(inverse.t.tolist(), inverse.omega.tolist(), strict=True):
        log = float(np.real(noise.cgf(-theta)))
        once, others = omega * math.exp(-theta * problem.mean), math.exp(log * (f.n - 1))
        gain, change = start(noise, x[near], theta, 0.0)
        found = _Sums.empty(e.y.size)
        for cell in cells:
            cancel.check()
            found.add(f, cell, theta, log)
        gamma[near] += once * (others * gain + out(e, found.gain, 0.0))
        square[near] += once * theta * (others * change + out(e, found.square, None))
        mean = x[far] + float(noise.cumulants(np.array([-theta]))[1][0])
        square[far] -= 2 * once * theta * (mean * found.first - found.second)
        root += once * found.first
        left = max(left, found.left)
    zero = np.zeros(x.size)
    zero[near] = np.clip(np.asarray(noise.cdf(-x[near])) + out(e, _zeros(f, cells), 0.0), 0.0, 1.0)
    return gamma, zero, square, root, left


def plan(problem: Problem, safety: float, nodes: int, tilts: int) -> list[Cell]:
    """The cells, or a refusal where there would be too much to do for so many tilts."""
    noise, x, times, n = problem.mechanism, problem.c, problem.times.astype(np.float64), float(problem.n)
    theta = period.grid(noise, n)
    some = min(float(times @ noise.cdf(-1 - x)), 1.0)
    enough, last = math.log(max(some, 1e-300)) - safety, 8
    while True:
        f = Field(entities(noise, x, times, 0.0, (0.0, last + 1.0), nodes), n)
        m = np.arange(last + 1.0)
        with np.errstate(all="ignore"):  # a tilt that overflows is no bound
            rising = f.log(m, np.tile(theta, (m.size, 1))).real
            falling = f.log(m, np.tile(-theta, (m.size, 1))).real[1:]
        done = np.fmin.reduce(rising, axis=1) < enough
        if done[1:].any():
            break
        last *= 2
        if last > 2 * MOST:
            raise ToleranceError(f"pos: the shift has more than {MOST} cells under {noise.name} noise of this scale")
    m = m[: max(int(np.argmax(done)), 1)]
    rising, falling = rising[: m.size], falling[: m.size]
    inside = theta < theta[-3]  # Chernoff's bounds need room above
    bound = np.where(inside, rising - np.log(theta), np.inf)
    saddle = theta[np.argmin(np.where(np.isnan(bound), np.inf, bound), axis=1)]
    tau = period.gentle(theta, rising, saddle)
    many = period.steps(theta, rising, falling, tau, safety)
    end, low, high = _looks(f, m, tau, safety)
    cells = [
        Cell(float(m[i]), Period.of(float(tau[i]), int(many[i]), float(end[i])), Circle.around(low[i], high[i]))
        for i in range(m.size)
    ]
    work = tilts * f.e.y.size * sum(cell.path.size * cell.circle.size for cell in cells)
    if work > WORK or tilts * sum(cell.path.size for cell in cells) * table(noise) > TABLES:
        raise ToleranceError(
            f"pos: {f.e.y.size} counts that may be dropped have {m.size} cells of the shift and {work:.2g} factors under {noise.name} noise "
            f"of this scale, which would take too long"
        )
    return cells


def _looks(f: Field, m: Floats, tau: Floats, safety: float) -> tuple[Floats, Floats, Floats]:
    """For each cell: Im s at which prod_j (kept_j + |fallen_j|) has died out, and the range of D until then."""
    s = tau[:, None] + 1j * np.concatenate([[0.0], period.LOOKS])
    kept, _, fallen = factors(f, m, s, 0.0)
    rest, part = np.broadcast_to(kept[:, None, :], fallen.shape), np.abs(fallen)
    log = np.log(rest + part) @ f.e.weight - (tau * f.n * m)[:, None]
    alive = log - np.minimum(log[:, :1], 0.0) + safety
    low, high = period.ranges(part, rest, f.e.weight, alive)
    low, high = np.where(alive > 0, low, np.inf), np.where(alive > 0, high, 0.0)
    return period.ends(alive[:, 1:]), np.min(low, axis=1), np.max(high, axis=1)


@dataclass
class _Sums:
    """For one tilt: E[(r - X)_+ e^{-theta S}] less what r = 0 gives, E[(v^2 - X^2) e^{-theta S}] likewise, E[r] and E[r^2]/2 under it."""

    gain: Floats
    square: Floats
    first: float = 0.0
    second: float = 0.0
    left: float = 0.0

    @classmethod
    def empty(cls, size: int) -> _Sums:
        return cls(np.zeros(size), np.zeros(size))

    def add(self, f: Field, cell: Cell, theta: float, log: float) -> None:
        """One more cell; log is that of E[e^{-theta eta}]."""
        path, circle, m, e = cell.path, cell.circle, np.array([cell.m]), f.e
        one, two, last, _ = period.integrals(path.s, f.n - circle.k)
        main, second, rest = ((form(path.s, EVERY) * path.ds)[:, None] for form in (PASSED, SQUARED, REST))
        once, twice = circle.weights(main * one), circle.weights(2 * second * two + rest * last)
        rows = np.stack([once * circle.w, once, twice], axis=1)
        kept, first, _ = factors(f, m, np.zeros((1, 1)), theta)
        others = path.pole * math.exp(log * (f.n - 1))
        step = max(1, BLOCK // (circle.size * max(e.y.size, 1)))
        sums = np.zeros((3, e.y.size))
        root, square = -path.pole * math.exp(log * f.n), -path.pole * math.exp(log * f.n)
        for a in range(0, path.size, step):
            cancel.check()
            s = path.s[a : a + step]
            fallen = factors(f, m, s[None, :], theta)[2][0]
            psi = kept[0][:, None] + circle.w * fallen[..., None]
            whole = period.whole(psi, e.weight, e.giants * log - s * (f.n * cell.m))
            part = np.einsum("skl,sil->ski", rows[a : a + step] * whole[:, None, :], 1 / psi)
            sums[0] += np.sum(part[:, 0] * fallen, axis=0).imag
            sums[1:] += np.sum(part[:, 1:], axis=0).imag
            root += float(np.sum(whole * once[a : a + step]).imag)
            square += float(np.sum(whole * twice[a : a + step]).imag)
            self.left += 8 * EPS * float(np.sum(np.abs(whole * once[a : a + step])))
        self.gain += sums[0] - others * (math.exp(log) - kept[0])
        self.square += (sums[2] - others) * kept[0] - 2 * (sums[1] - others) * first[0]
        self.first += root
        self.second += cell.m * root + square / 2


def _zeros(f: Field, cells: list[Cell]) -> Floats:
    """sum_{m >= 1} P(X_i = m, r >= m)."""
    found = np.zeros(f.e.y.size)
    for cell in cells[1:]:
        cancel.check()
        path, m = cell.path, np.array([cell.m])
        kept, _, fallen = factors(f, m, path.s[None, :], 0.0)
        psi = (kept[0] + fallen[0])[..., None]
        whole = period.whole(psi, f.e.weight, -path.s * (f.n * cell.m))
        chance = np.einsum("s,sl,sil->i", AT_LEAST(path.s, EVERY) * path.ds, whole, 1 / psi).imag - path.pole
        found += mass_at(f.e, m)[0] * chance
    return found
