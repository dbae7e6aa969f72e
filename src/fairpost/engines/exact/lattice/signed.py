"""`pos` and `pos-threshold` with equal weights under whole-number noise where S may be of either sign: a sum over S itself.

S = sum X_j is whole. So 1/S needs no exponentials: with N values of S that matter and phi_l = 2 pi l/N

    E[f g(S)] = (1/N) sum_l E[f e^{i phi_l S}] sum_S g(S) e^{-i phi_l S}

is exact but for what lies outside (Chernoff's bound), for g = 1/S, 1/S^2 and 1 where S > 0. For S < 0 the rule is that of -X. What S = 0
gives is a convention, 1/n, and its chance is what is left.

For each phi the noises are those of `dropped` and `ramps` under the weight e^{i phi S}. At t' = r + tau = m + f, tau whole, with A = #{X_j > m}
and J = #{X_j = m + 1}

    sum_j phi(X_j - r) - S = U - f G,   U = sum_j (m - X_j)_+ - n m + tau A,   G = A + tau J,   both whole,

and t', which is never below 0, passes the cell as far as R = min(U_+/G, 1): kernels and circles as in `cells`. As t' grows phi(X_i - r) falls
with slope 1 for X_i > m + 1 and 1 + tau for X_i = m + 1, from X_i + tau for X_i > 0 at t' = 0. The shares of each sign must add up to
its chance: a check.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from fairpost import cancel
from fairpost.engines.closed.shares import SAFETY, reached, refusal, symmetric
from fairpost.engines.exact.lattice import period
from fairpost.engines.exact.lattice.cells import BLOCK
from fairpost.engines.exact.lattice.kernels_of_s import at_least, passed, remainder, squared
from fairpost.engines.exact.lattice.period import Circle, Period
from fairpost.engines.exact.pos.problem import Chernoff, Problem
from fairpost.engines.exact.sums.factors import Complexes
from fairpost.engines.moments import Floats, Moments
from fairpost.errors import ToleranceError

WORK = 3e7
"""The most factors of one sign: about a second."""
OWN = 0.3
"""What a value of a noisy count takes in its transform, in factors."""
MOST = (40, 150)
"""So many cells are looked at first, and at most."""
WIDE = 600
"""The most values of one noisy count, and of S."""
LEFT, ROUGH = (20.0, 27.0), (9.0, 13.0)
"""What two rules leave out: e^-this; and where a tolerance of LOOSE or more is asked for."""
LOOSE = 1e-3
SPARE = 5.0
"""So much more has a product to fall before it is left out."""
ROUNDING = 1e-13
EVERY = slice(None)
PASSED, SQUARED, AT_LEAST, REST = passed(0.0).form, squared(0.0).form, at_least(0.0).form, remainder(0.0)


@dataclass(frozen=True)
class Field:
    """The masses of every distinct count (rows) at the whole numbers k, and how often it occurs."""

    mass: Floats
    k: Floats
    times: Floats
    tau: float
    phi: Floats

    @property
    def n(self) -> float:
        """The number of entities."""
        return float(np.sum(self.times))

    def turned(self) -> Field:
        """Of -X."""
        return replace(self, mass=self.mass[:, ::-1], k=-self.k[::-1])

    def factors(self, m: float, s: Complexes, phi: Floats) -> tuple[Complexes, Complexes, Complexes]:
        """E[e^{i phi X} e^{s (m - X)}; X <= m] (phi, s, entity); E[e^{i phi X + s tau}] for X > m + 1 and for X = m + 1.

        Without a ramp nobody stands on it.
        """
        below, edge = self.k <= m, self.k == m + 1
        above = ~below if self.tau == 0 else ~(below | edge)
        turn = np.exp(1j * np.multiply.outer(phi, self.k)) if phi.any() else np.ones((phi.size, self.k.size))
        fall = np.exp(np.multiply.outer(s, m - self.k[below]))
        # (without BLAS, whose threads wait for one another on matrices of this size)
        each = [np.einsum("pk,sk->ps", turn[:, below] * row[below], fall) for row in self.mass]
        dropped = np.stack(each, axis=-1)
        rise = np.exp(s * self.tau)[None, :, None]
        kept = (turn[:, above] @ self.mass[:, above].T)[:, None, :] * rise
        on = (turn[:, edge] @ self.mass[:, edge].T)[:, None, :] * rise * (self.tau > 0)
        return dropped, kept, on


@dataclass(frozen=True)
class Cell:
    """One m: its steps of s, and the points for G."""

    m: float
    path: Period
    circle: Circle


@dataclass(frozen=True)
class Side:
    """For S > 0: E[v], E[v^2] and P(v = 0) of every count, and P(S > 0)."""

    first: Floats
    second: Floats
    zero: Floats
    chance: float


def shares(problem: Problem, tau: float, rtol: float) -> Moments:
    """Moments of PoS (tau = 0) or `pos-threshold` (a ramp of width 1 from a whole tau) for whole counts and equal weights."""
    name = "pos" if tau == 0 else "pos-threshold"
    before: tuple[Floats, Floats, Floats] | None = None
    n, p, times = float(problem.n), problem.shares, problem.times
    parts = LEFT if rtol < LOOSE else ROUGH
    for left, field, values, cells in reversed([_planned(problem, tau, left, name) for left in reversed(parts)]):
        up, down = _side(field, values, cells[0], left), _side(field.turned(), -values[::-1], cells[1], left)
        none = max(1 - up.chance - down.chance, 0.0)
        first, second = up.first + down.first + none / n, up.second + down.second + none / n**2
        zero = np.clip(up.zero + down.zero, 0.0, 1.0)
        bias, mse = first - p, np.maximum(second - 2 * p * first + p * p, 0.0)
        defect = sum(abs(float(times @ side.first) - side.chance) for side in (up, down))
        if before is not None:
            out = math.exp(-left) + ROUNDING  # two rules may be alike in what they leave out
            error = np.abs(bias - before[0]) + defect + out
            if not reached(bias, error, p, rtol):
                raise refusal(name, bias, error, rtol)
            return symmetric(
                Moments(
                    bias,
                    error,
                    mse,
                    zero,
                    degenerate=down.chance + none,
                    mse_error=SAFETY * np.abs(mse - before[1]) + 2 * error,
                    zero_error=SAFETY * np.abs(zero - before[2]) + out + 9 * ROUNDING,
                )
            )
        before = bias, mse, zero
    raise AssertionError


def _planned(
    problem: Problem, tau: float, left: float, name: str
) -> tuple[float, Field, Floats, tuple[list[Cell], list[Cell]]]:
    """Everything but the work, which is refused here where it is too much."""
    field, values = _field(problem, tau, left, name)
    return left, field, values, (_plan(field, left, name), _plan(field.turned(), left, name))


def _field(problem: Problem, tau: float, left: float, name: str) -> tuple[Field, Floats]:
    """The masses, and the values of S that matter."""
    noise, x = problem.mechanism, problem.c
    reach = math.ceil(noise.deviation)
    while float(noise.sf(reach)) * problem.n > math.exp(-left):
        reach = math.ceil(1.1 * reach) + 1
    far = math.ceil(Chernoff.of(problem).distance(left)) + 1
    if 2 * reach + np.ptp(x) > WIDE or 2 * far > WIDE:
        raise ToleranceError(f"{name}: a sum of either sign has too many values under {noise.name} noise of this scale")
    k = np.arange(float(np.min(x)) - reach, float(np.max(x)) + reach + 1)
    values = round(problem.mean) + np.arange(-far, far + 1.0)
    phi = 2 * np.pi / values.size * np.arange(far + 1.0)
    mass = np.asarray(noise.density(k - x[:, None]))
    return Field(mass, k, problem.times.astype(np.float64), tau, phi), values


def _side(f: Field, values: Floats, cells: list[Cell], left: float) -> Side:
    """The sums over S > 0."""
    whole = np.exp(1j * np.multiply.outer(f.phi, f.k)) @ f.mass.T
    log = np.log(np.abs(whole)) @ f.times + 1j * (np.angle(whole) @ f.times)
    weights = _of_s(f.phi, values)
    chance = float(np.sum(weights[0] * np.exp(log)).real)
    if chance < math.exp(-left):
        none = np.zeros(f.times.size)
        return Side(none, none, none, max(chance, 0.0))
    others = np.exp(log)[:, None] / whole
    turn = np.exp(1j * np.multiply.outer(f.phi, f.k))
    start = np.where(f.k > 0, f.k + f.tau, 0.0)
    sums = tuple(others * ((turn * part) @ f.mass.T) for part in (start, start**2, (f.k <= 0).astype(np.float64)))
    for cell in cells:
        _add(f, cell, others, sums, left)
    one, two, none = (np.einsum("p,pi->i", w, part).real for w, part in zip(weights[[1, 2, 0]], sums, strict=True))
    return Side(one, two, none, chance)


def _of_s(phi: Floats, values: Floats) -> Complexes:
    """Weights of the phi for 1, 1/S and 1/S^2 where S > 0; phi and -phi together."""
    positive = values[values > 0]
    turn = np.exp(-1j * np.multiply.outer(phi, positive)) * np.where(phi > 0, 2.0, 1.0)[:, None] / values.size
    return np.stack([turn @ positive**-power for power in (0.0, 1.0, 2.0)])


def _ends(f: Field, m: Floats, theta: Floats) -> Floats:
    """A bound on log P(U > 0, S > 0) in each cell: with A = 0 it is U = -S, so E[e^{theta U}; A > 0] bounds it, for any theta."""
    found = np.empty(m.size)
    for i, at in enumerate(m):
        below, kept, edge = (part[0].real for part in f.factors(float(at), theta.astype(complex), np.zeros(1)))
        more = np.log1p((kept + edge) / below) @ f.times
        found[i] = np.fmin.reduce(np.log(below) @ f.times - theta * f.n * at + more + np.log(-np.expm1(-more)))
    return found


def _logs(f: Field, m: Floats, theta: Floats, end: bool) -> Floats:
    """log E[e^{theta (U - f G)}] at f = 0 or at the end f = 1 of each cell."""
    out = np.empty((m.size, theta.size))
    for i, at in enumerate(m):
        below, kept, edge = (part[0].real for part in f.factors(float(at), theta.astype(complex), np.zeros(1)))
        lower = np.exp(-theta)[:, None] if end else 1.0
        psi = below + kept * lower + edge * (lower ** (1 + f.tau))
        out[i] = np.log(psi) @ f.times - theta * f.n * at
    return out


def _plan(f: Field, left: float, name: str) -> list[Cell]:
    """The cells of t' that matter."""
    spread = float(np.sqrt(f.mass[0] @ (f.k - f.mass[0] @ f.k) ** 2))
    theta = np.geomspace(0.5 * period.LIFT / (f.n * (1 + f.tau)), 8.0 / spread, 18)
    for most in MOST:
        m = np.arange(0.0, most + 1)
        with np.errstate(all="ignore"):
            done = _ends(f, m, theta) < -left
        if done.any():
            break
    else:
        raise ToleranceError(f"{name}: the shift has more than {most} cells")
    m = m[: max(int(np.argmax(done)), 1)]
    with np.errstate(all="ignore"):  # a tilt that overflows is no bound
        rising, falling = _logs(f, m, theta, False), _logs(f, m, -theta, True)
    bound = np.where(theta < theta[-3], rising - np.log(theta), np.inf)
    saddle = theta[np.argmin(np.where(np.isnan(bound), np.inf, bound), axis=1)]
    tau = period.gentle(theta, rising, saddle)
    many = period.steps(theta, rising, falling, tau, left)
    cells = []
    for at, size, steps in zip(m.tolist(), tau.tolist(), many.tolist(), strict=True):
        s = np.array([complex(size)])
        # a turn by phi can undo that by s: every s counts as Im s = 0
        fallen, kept, edge = (np.abs(part[0]) for part in f.factors(at, s[:1], np.zeros(1)))
        alive = np.full(1, max(float(np.log(fallen + kept + edge)[0] @ f.times) - size * f.n * at, 0.0) + left)
        low, high = period.ranges(kept + edge, fallen, f.times, alive)
        ramp = period.ranges(edge, fallen + kept, f.times, alive)[1] * (f.tau > 0)
        circle = Circle.around(low, np.minimum(high + f.tau * ramp, f.n * (1 + f.tau)))
        cells.append(Cell(at, Period.of(size, int(steps), math.pi), circle))
    work = f.phi.size * f.times.size * sum(cell.path.steps * (cell.circle.size + OWN * f.k.size) for cell in cells)
    if work > WORK:
        raise ToleranceError(
            f"{name}: a sum of either sign has {len(cells)} cells and {work:.2g} factors, which would take too long"
        )
    return cells


def _add(f: Field, cell: Cell, others: Complexes, sums: tuple[Complexes, ...], left: float) -> None:
    """One more cell, at every phi; s runs through the whole period, for nothing is real here."""
    path, circle, m, steep = cell.path, cell.circle, cell.m, 1 + f.tau
    s = path.tau + 2j * math.pi / path.steps * np.arange(path.steps)
    s = np.where(s.imag > math.pi, s - 2j * math.pi, s)
    one, two, last, _ = period.integrals(s, circle.k)
    main, second, rest, start = (form(s, EVERY)[:, None] / path.steps for form in (PASSED, SQUARED, REST, AT_LEAST))
    once, twice = circle.weights(main * one), circle.weights(2 * second * two + rest * last)
    ramp = circle.w**steep
    rows = np.stack([once * circle.w, twice * circle.w, once * ramp, twice * ramp], axis=1)
    here, above = f.k == m, f.k > m + (1 if f.tau > 0 else 0)
    rise, lift = np.exp(s * f.tau), -s * (f.n * m)
    size = f.times.size
    for block in np.array_split(np.arange(f.phi.size), math.ceil(f.phi.size * s.size * size / BLOCK)):
        below, kept, edge = f.factors(m, s, f.phi[block])
        alive = np.log(np.abs(below) + np.abs(kept) + np.abs(edge)) @ f.times + lift.real > -left - SPARE
        p, q = np.nonzero(alive)  # of most pairs (phi, s) the product has died out
        sums_of = np.zeros((block.size, 4, size), dtype=complex)
        zero_of = np.zeros((block.size, size), dtype=complex)
        for some in np.array_split(np.arange(p.size), math.ceil(p.size * circle.size * size / BLOCK) or 1):
            cancel.check()
            i, j = p[some], q[some]
            psi = below[i, j][..., None] + circle.w * kept[i, j][..., None] + ramp * edge[i, j][..., None]
            whole = period.whole(psi, f.times, lift[j]) * rise[j][:, None]
            np.add.at(sums_of, i, np.einsum("qkl,qil->qki", rows[j] * whole[:, None, :], 1 / psi))
            flat = (below[i, j] + kept[i, j] + edge[i, j])[..., None]
            np.add.at(zero_of, i, period.whole(flat, f.times, lift[j]) * start[j] / flat[..., 0])
        turn, rest_of = np.exp(1j * np.multiply.outer(f.phi[block], f.k)), path.pole * others[block]
        far, stay, on, there = (
            (turn[:, at] * value) @ f.mass[:, at].T
            for at, value in (
                (above, f.k[above] - m + f.tau),
                (above, 1.0),
                (f.k == m + 1, float(f.tau > 0)),
                (here, float(m > 0)),
            )
        )
        r1, q1, r2, q2 = (sums_of[:, k] - rest_of for k in range(4))
        sums[0][block] -= stay * r1 + steep * on * r2
        sums[1][block] -= 2 * far * r1 - stay * q1 + steep**2 * on * (2 * r2 - q2)
        sums[2][block] += there * (zero_of - rest_of)
