"""`simplex-threshold` under whole-number noise with few entities: the law of what a cell needs to know, entity by entity.

With t' = r + tau = m + f, 0 <= f < 1, the counts X = m + 1 are on the ramp and higher ones above it (`release`):

    H = N (1 + tau)(1 - f) + V + K (tau - f),   N = #{X = m + 1},  K = #{X >= m + 2},  V = sum_{X >= m + 2} (X - m).

H falls from H(0) = N (1 + tau) + V + K tau to H(1) = V + K (tau - 1), so the root lies in the cell just where H(0) >= C > H(1), and then
f = (H(0) - C)/(N (1 + tau) + K). Three whole numbers say all, and each entity adds to them by itself: its law below, on and above the ramp is
folded into the law of (K, N, V), forwards G_j of the first j entities, and backwards B_j = E[f^e; the cell | the first j], e = 0, 1, 2. So

    E[f^e; the cell, X_i = k] = P(X_i = k) sum over (K, N, V) of G_{i-1} B_i(after k),

from which everything follows: bias_i = (C - sum x)/n + D_i - mean(D), D_i = E[m + f - tau - X_i; X_i <= m] - tau E[f; X_i = m + 1]. All terms
of a law are positive: chances keep their relative accuracy, however small.

Cells. One goes up from the root without noise until P(H(1) >= C), the chance of a root beyond, is negligible, and down until P(H(0) < C) is;
that needs laws forwards alone, and says what the rest will take. An entity that no noise up to the reach R brings down to the ramp is a
*giant* of its cell: always kept. Giants have one sum of noises and enter as one. What sinks below every ramp enters with nothing. V ends
where every root is beyond (H(1) >= C whatever follows), or where so much noise has no chance. Left out are noises beyond R, ends of sums
and cells of a negligible chance, which is summed up; since 0 <= v <= C,

    |v_i - X_i - (C - sum X)/n| <= C + |x_i - mean x| + C/n + |eta_i| + mean |eta|

bounds what they would have added to a bias, and (C + x_i)^2 to a mean squared error.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from fairpost import cancel
from fairpost.engines.exact.lattice.problem import Problem
from fairpost.engines.exact.lattice.steps import Cell, Steps, expected, summed
from fairpost.engines.exact.shares import range_error, refusal
from fairpost.engines.moments import Counted, Floats, Moments
from fairpost.errors import ToleranceError
from fairpost.rules.threshold import DUST

CELLS = 250
"""So many cells are reckoned with when it is said what each may leave out."""
ENDS = 3
"""What a cell leaves out is less than so many times `left`: twice it at the ends of the giants' sum, a PART each of V and of N."""
PART = 0.1
WORK = 4e9
"""The most products of one pass: some two seconds."""
QUICK = 4e8
"""So many for more digits than were asked for."""
MOST = 150
"""The most entities at risk in a cell."""
FAR = 1500
"""The largest reach of a noise."""
ROUNDING = 4e-16


@dataclass
class Sums:
    """What is summed over the cells, one entry per distinct count."""

    deficit: Floats
    size: Floats
    """The same deficits without signs, for rounding."""
    zero: Floats
    mse: Floats
    chance: float = 0.0
    root: float = 0.0
    lost: float = 0.0


@dataclass(frozen=True)
class Folding:
    """A release, its masses up to the reach, and laws of sums of noises as they were needed."""

    problem: Problem
    left: float
    """The chance of what is left out at each end."""
    reach: int
    masses: Floats
    sums: dict[int, Floats] = field(default_factory=dict)
    longest: dict[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, problem: Problem, left: float) -> Folding:
        """With the reach that leaves so much out."""
        reach = 1
        while 2 * problem.n * float(problem.noise.sf(float(reach))) > left:
            reach = math.ceil(1.05 * reach + 0.5)
            if reach > FAR:
                raise _long(problem, "a law")
        return cls(problem, left, reach, np.asarray(problem.noise.density(np.arange(-reach, reach + 1.0))))

    def total(self, times: int) -> Floats:
        """The law of the sum of so many noises."""
        if times not in self.sums:
            self.sums[times] = summed(self.masses, times, self.left / (4 * max(times, 1)))
        return self.sums[times]

    def cell(self, m: int) -> Cell:
        """Who plays which part in the cell [m, m + 1), and how large the table is."""
        p = self.problem
        giant = p.x - self.reach > m + 1
        at_risk = ~giant & (p.x + self.reach > m)
        if float(np.sum(p.times[at_risk])) > MOST:
            raise _long(p, f"more than {MOST} entities")
        risk = [i for i in np.flatnonzero(at_risk).tolist() for _ in range(int(p.times[i]))]
        many = float(np.sum(p.times[giant]))
        need = math.fsum([p.total, many * m, *(-(p.x * p.times)[giant]).tolist()])
        spare = (self.total(int(many)).size - 1) // 2
        highest = need + (many + len(risk)) * max(1 - p.tau, 0.0) + spare
        kept = len(risk) if many else min(len(risk), int(need / (1 + p.tau)))
        likely = float(np.sum(np.maximum((p.x - m) * p.times, 0.0)[at_risk])) + self._positive(len(risk))
        size = int(max(min(highest, likely), 0.0)) + 2
        return Cell(m, risk, np.where(giant, p.times, 0.0), need, (kept + 1, self._on_ramp(risk, m) + 1, size))

    def _positive(self, many: int) -> int:
        """What the positive parts of so many noises do not exceed."""
        if many not in self.longest:
            law = self.masses[self.reach :].copy()
            law[0] += float(np.sum(self.masses[: self.reach]))
            out, left = np.ones(1), PART * self.left / max(many, 1)
            for _ in range(many):
                out = np.convolve(out, law)
                out = out[: int(np.searchsorted(-np.cumsum(out[::-1])[::-1], -left)) + 1]
            self.longest[many] = out.size
        return self.longest[many]

    def _on_ramp(self, risk: list[int], m: int) -> int:
        """So many are on the ramp at most."""
        law, on = np.ones(1), np.asarray(self.problem.noise.density(m + 1 - self.problem.x))
        for i in risk:
            law = np.convolve(law, [1 - on[i], on[i]])
        return int(np.count_nonzero(np.cumsum(law[::-1])[::-1] > PART * self.left)) - 1

    def steps(self, cell: Cell) -> dict[int, Steps]:
        """Of every distinct count at risk."""
        noise, out = self.problem.noise, dict[int, Steps]()
        for i in set(cell.risk):
            away = cell.m - float(self.problem.x[i])
            above = np.asarray(noise.density(np.arange(away, self.reach + 1.0)))
            out[i] = Steps(float(noise.cdf(away)), float(noise.density(away + 1)), above)
        return out

    def powers(self, cell: Cell) -> Floats:
        """f^e inside the cell and 0 elsewhere, for e = 0, 1, 2, each (K, N), and V with the giants' noise from its least on."""
        kept, ramp, size = cell.shape
        tau, spare = self.problem.tau, self._spare(cell)
        K, N = np.arange(kept)[:, None, None] + cell.many, np.arange(ramp)[None, :, None]
        u = np.arange(-spare, size + spare, dtype=np.float64)
        start, end = self._ends(cell, K, N)
        inside = (u >= start) & (u < end)
        height = N * (1 + tau) + u + K * tau - cell.need
        f = np.where(inside, np.clip(height / np.maximum(N * (1 + tau) + K, 1.0), 0.0, 1.0), 0.0)
        return np.stack([inside.astype(np.float64), f, f * f])

    def _spare(self, cell: Cell) -> int:
        """How far the giants' noises reach."""
        return (self.total(cell.many).size - 1) // 2

    def _ends(self, cell: Cell, K: Counted, N: Counted) -> tuple[Floats, Floats]:
        """V with noise from where on the root is not below the cell, and from where on it is beyond; equal but for rounding is equal."""
        tau = self.problem.tau
        dust = DUST * (abs(cell.need) + self.problem.n * (1 + tau))
        return np.asarray(cell.need - N * (1 + tau) - K * tau - dust), np.asarray(cell.need - K * (tau - 1) - dust)

    def tails(self, cell: Cell, law: Floats) -> tuple[float, float]:
        """The chances of a root below the cell and, of what is in the table, beyond it."""
        kept, ramp, size = cell.shape
        giants = self.total(cell.many)
        upto = np.concatenate([[0.0], np.cumsum(giants)])
        onward = np.concatenate([np.cumsum(giants[::-1])[::-1], [0.0]])
        K, N = np.arange(kept)[:, None, None] + cell.many, np.arange(ramp)[None, :, None]
        start, end = (np.ceil(edge - np.arange(size)) + self._spare(cell) for edge in self._ends(cell, K, N))
        below, beyond = (np.clip(edge, 0, giants.size).astype(np.int64) for edge in (start, end))
        return float(np.sum(law * upto[below])), float(np.sum(law * onward[beyond]))

    def laws(self, cell: Cell, steps: dict[int, Steps]) -> tuple[list[Floats], float]:
        """The law of (K, N, V) before every entity at risk and after the last, and the chance that has left the table."""
        cancel.check()
        found, over = [np.zeros(cell.shape)], 0.0
        found[0][0, 0, 0] = 1.0
        for i in cell.risk:
            law, more = steps[i].forwards(found[-1])
            found.append(law)
            over += more
        return found, over

    def window(self, start: int) -> tuple[list[Cell], float, float]:
        """The cells that matter, the chance of all others, and what the cells take; refused where that is too much."""
        cells, lost, work = list[Cell](), 0.0, 0.0
        for way in (1, -1):
            m, left = (start if way > 0 else start - 1), 1.0
            while left > self.left:
                cells.append(self.cell(m))
                work += cells[-1].work
                if work > WORK:
                    raise _long(self.problem, "the law of every cell")
                laws, over = self.laws(cells[-1], self.steps(cells[-1]))
                below, beyond = self.tails(cells[-1], laws[-1])
                left = beyond + over if way > 0 else below
                m += way
            lost += left
        return cells, lost, work

    def add(self, cell: Cell, out: Sums) -> None:
        """One cell into the sums."""
        steps = self.steps(cell)
        forwards, _ = self.laws(cell, steps)
        powers = self.powers(cell)
        value = expected(powers, self.total(cell.many), 0)[..., : cell.shape[2]]
        totals = np.sum(value * forwards[-1], axis=(1, 2, 3))
        out.chance += float(totals[0])
        out.root += float((cell.m - self.problem.tau) * totals[0] + totals[1])
        self._sunk(cell, totals, out)
        if cell.many:
            self._giant(cell, powers, forwards[-1], out)
        for j in range(len(cell.risk) - 1, -1, -1):
            i = cell.risk[j]
            value = value * cell.within(j + 1)[:, :, None]
            if j == 0 or cell.risk[j - 1] != i:  # (equal counts stand together)
                self._asked(cell, i, steps[i], forwards[j], value, out)
            value = steps[i].backwards(value)

    def _below(self, cell: Cell, i: int | np.ndarray, chance: Floats | float, powers: Floats, out: Sums) -> None:
        """Counts below the ramp; `powers`: E[f^e; the cell] given that, and the chance of it."""
        p, depth = self.problem, -np.asarray(self.problem.noise.lower(cell.m - self.problem.x[i], 0.0, 1))
        out.deficit[i] += depth * powers[0] + chance * (powers[1] - p.tau * powers[0])
        out.size[i] += depth * powers[0] + chance * (powers[1] + p.tau * powers[0])
        out.zero[i] += chance * powers[0]
        out.mse[i] += p.x[i] ** 2 * chance * powers[0]

    def _sunk(self, cell: Cell, totals: Floats, out: Sums) -> None:
        who = np.flatnonzero((cell.giants == 0) & (self.problem.x + self.reach <= cell.m))
        self._below(cell, who, 1.0, totals, out)

    def _asked(self, cell: Cell, i: int, step: Steps, law: Floats, value: Floats, out: Sums) -> None:
        """What one entity of a distinct count at risk has in this cell."""
        p, x = self.problem, float(self.problem.x[i])
        self._below(cell, i, step.below, np.sum(value * law, axis=(1, 2, 3)), out)
        ramp = step.ramp * np.sum(law[:, :-1] * value[:, :, 1:], axis=(1, 2, 3))
        out.deficit[i] -= p.tau * ramp[1]
        out.size[i] += p.tau * ramp[1]
        steep = 1 + p.tau
        out.mse[i] += float(np.dot([(steep - x) ** 2, -2 * steep * (steep - x), steep**2], ramp))
        for e, factor in enumerate((1.0, -2.0, 1.0)):
            above = step.weighted(value[e, 1:], p.tau - x, 2 - e)
            out.mse[i] += factor * float(np.sum(law[:-1] * above))

    def _giant(self, cell: Cell, powers: Floats, law: Floats, out: Sums) -> None:
        """E[(eta - r)^2; the cell] of a giant; given the sum of their noises one has its part of it on average."""
        p, many = self.problem, cell.many
        giants, k, spare = self.total(many), np.arange(-self.reach, self.reach + 1.0), self._spare(cell)
        others = np.convolve(self.masses * k**2, self.total(many - 1))
        off = (others.size - giants.size) // 2
        square = others[off : off + giants.size] if off >= 0 else np.pad(others, -off)
        share = np.arange(-spare, spare + 1.0) * giants / many
        place = cell.m - p.tau
        weights = (square - 2 * place * share + place**2 * giants, -2 * (share - place * giants), giants)
        for v, weight in zip(powers, weights, strict=True):
            out.mse[cell.giants > 0] += float(np.sum(law * expected(v, weight, 0)[..., : law.shape[-1]]))


def release(problem: Problem, rtol: float) -> Moments:
    """Moments of `simplex-threshold` (of pi_S+ for tau = 0), one entry per distinct count.

    A rough pass says what alpha is; the next has what alpha asks for, or more where that is quick.
    """
    unit = problem.noise.deviation
    allowed, fine = 1e-8 * unit, 1e-14 * unit
    for _ in range(3):
        found, far, work = _folded(problem, allowed)
        alpha, slack = range_error(found.bias, found.error)
        missed = slack > rtol * alpha and problem.x.size > 1
        if not missed and (work > QUICK or allowed <= fine):
            return found
        known = alpha - 2 * far
        allowed = 0.05 * rtol * known if missed and known > 0 and (work > QUICK or rtol * known < fine) else fine
    if missed and slack > 1e-13 * (unit + abs(problem.surplus / problem.n)):
        raise refusal(problem.name, found.bias, found.error, rtol)
    return found


def _folded(problem: Problem, allowed: float) -> tuple[Moments, float, float]:
    """With at most so much left out of a bias; how much that is, and what it took."""
    size = problem.total + float(problem.x[-1] - problem.x[0]) + 100 * problem.noise.deviation
    folding = Folding.of(problem, allowed / (ENDS * CELLS * size))
    out = Sums(*np.zeros((4, problem.x.size)))
    start = math.floor(_root(problem))
    first = folding.cell(start)
    cells = max(6.0, 12 * problem.noise.deviation / math.sqrt(problem.n))
    if first.work * cells > WORK:
        raise _long(problem, f"the law of {len(first.risk)} entities")
    found, lost, work = folding.window(start)
    for cell in found:
        folding.add(cell, out)
    out.lost = lost + ENDS * len(found) * folding.left
    return *_moments(folding, out), work


def _long(problem: Problem, what: str) -> ToleranceError:
    return ToleranceError(
        f"{problem.name}: folding {what} under {problem.noise.name} noise of this scale would take too long"
    )


def _root(problem: Problem) -> float:
    """t' without noise: sum phi(x - t' + tau) = C, phi(u) = min(u, (1 + tau)(u - tau)_+)."""
    from scipy.optimize import brentq

    def off(t: float) -> float:
        u = problem.x - t
        kept = np.maximum(np.minimum(u + problem.tau, (1 + problem.tau) * u), 0.0)
        return float(np.sum(problem.times * kept)) - problem.total

    high = float(problem.x[-1])
    return float(brentq(off, high - problem.total - problem.tau - 1, high, xtol=1e-3))


def _moments(folding: Folding, out: Sums) -> tuple[Moments, float]:
    """The moments, and what was left out of a bias at most."""
    p, reach = folding.problem, float(folding.reach)
    n, drift = p.n, p.surplus / p.n
    lost = out.lost + folding.left
    if abs(out.chance - 1) > 1e-11 + lost:
        raise ToleranceError(f"{p.name}: the chances of all cells sum to 1 + {out.chance - 1:.2g}")
    mean = float(np.sum(p.times * out.deficit)) / n
    gap = abs(out.root - (mean - drift))
    if gap > 1e-11 * (p.noise.deviation + abs(out.root)) + lost * (
        abs(out.root) + p.total + p.x[-1] - p.x[0] + 4 * reach
    ):
        raise ToleranceError(f"{p.name}: two ways to the mean shift differ by {gap:.2g} ({p.noise.name})")
    middle = float(np.sum(p.times * p.x)) / n
    far = lost * (p.total * (1 + 1 / n) + np.abs(p.x - middle) + 4 * reach) + 8 * float(p.noise.upper(reach, 0.0, 1))
    size = out.size + float(np.sum(p.times * out.size)) / n
    error = far + ROUNDING * ((30 + n) * size + abs(drift))
    bias = drift + out.deficit - mean
    if p.x.size == 1:
        bias, error = np.array([drift]), np.spacing(np.array([abs(drift)]))
    found = Moments(
        bias,
        error,
        out.mse,
        np.clip(out.zero, 0.0, 1.0),
        threshold=mean if p.rule is None else None,
        mse_error=lost * (p.total + p.x) ** 2 + 1e-13 * out.mse,
        zero_error=np.full(p.x.size, lost) + 1e-13 * out.zero,
        threshold_error=float(np.max(far) + ROUNDING * (30 + n) * np.max(size)) if p.rule is None else None,
    )
    return found, float(np.max(far))
