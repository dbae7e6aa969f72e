"""Few entities that may be clipped: a method of closed formulas and, for whole-number noise, sums over their noises.

At most one clipped at a time is `rare`, for each of the four noises. Under whole-number noise several may be: the noises of the k that may be
clipped are listed, all (eta_1, ..., eta_k) with prod p(eta_j) >= e^-most p(0)^k. Given them a release hangs on the sum N of the noises of all
others, whose law is a convolution of positive masses, and is linear in it piece by piece (`kernels.few`); shares do not hang on N, but for
1/S = sum omega e^{-tS}, which falls into factors. What is left out of the list has by Chernoff, with level(eta) = log p(0)/p(eta), the chance

    P(sum level > most) <= min_q e^{-q most} (sum_eta p(eta)^{1-q} p(0)^q)^k,

and weighs as in `rare` for what it can do. Noise that is next to none makes short lists even of many entities.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from fairpost.engines.base import Answer, Part, Refusal
from fairpost.engines.closed import rare
from fairpost.engines.closed.kernels import few as kernels
from fairpost.engines.closed.rare import Rare
from fairpost.engines.closed.total import ROUNDING, Inverse
from fairpost.engines.moments import Floats, Moments, distinct
from fairpost.errors import ToleranceError
from fairpost.noise import Law, Threshold
from fairpost.rules import PoS, PosThreshold, PostProcessing, Simplex, SimplexThreshold

CELLS = 6_000_000
"""The most (noise, entity) values that are walked: a second."""
MOST = 12
"""The most entities that may be clipped: beyond, lists of even two values are too long."""
MASSES = 2e8
"""The most products of a convolution: a fifth of a second."""
LEFT = 1e-30
"""Masses below this are left out."""
Table = tuple[Floats, Floats, Floats, float]
"""The noises by falling chance, their masses and levels, and the most that the levels of one entry come to."""

PLAIN = Threshold(0.0)
READ: dict[type[PostProcessing], Callable[[Any, int], tuple[Floats | None, float | None, Threshold]]] = {
    Simplex: lambda pi, n: (None, float(pi.C), PLAIN),
    SimplexThreshold: lambda pi, n: (None, float(pi.C), pi.rule),
    PoS: lambda pi, n: (pi.problem.a(n), None, PLAIN),
    PosThreshold: lambda pi, n: (pi.problem.a(n), None, pi.rule),
}
"""Weights of shares, the total of a release, and the threshold."""


@dataclass(frozen=True)
class Few:
    """Proved: what is left out has a chance that is bounded, and so has what it can do."""

    name: ClassVar[str] = "few"
    rules: ClassVar[tuple[type[PostProcessing], ...]] = tuple(READ)

    def fits(self, part: Part, rtol: float) -> str | None:
        """Why too many may be clipped at a time."""
        work = _work(part, rtol)
        return f"{part.pi.name}: {work}" if isinstance(work, str) else None

    def evaluate(self, part: Part, rtol: float) -> Answer | Refusal:
        """Its moments."""
        found = _tried(part, rtol)
        if isinstance(found, Refusal) and found.reached is not None:  # alpha is smaller than it looked
            again = _tried(part, rtol, found.reached.alpha.value)
            return again if isinstance(again, Answer) else found
        return found


def _tried(part: Part, rtol: float, alpha: float | None = None) -> Answer | Refusal:
    work = _work(part, rtol, alpha)
    if isinstance(work, str):
        return Refusal(f"{part.pi.name}: {work}")
    with np.errstate(all="ignore"):  # far tails under- and overflow; what is not finite is refused in `answer`
        try:
            return work().answer("exact", "bound", part)
        except ToleranceError as error:  # of the law of a sum, beyond what it lists
            return Refusal(str(error), tried=True)


def _asked(part: Part) -> Rare | str:
    """The problem, or why it is none of these."""
    law = part.mechanism
    if not isinstance(law, Law):
        return f"the law of {law.name} noise is not known; it can be simulated"
    if law.code is None:
        return f"the law of a sum of {law.name} noises is not known; it can be simulated"
    if not law.variance > 0:
        return "counts and noise are too far apart for floats"
    weights, total, rule = next(READ[kind] for kind in type(part.pi).__mro__ if kind in READ)(part.pi, part.x.size)
    return Rare(distinct(part, weights), law, PLAIN if rule.level == 0 else rule, total)


def _work(part: Part, rtol: float, alpha: float | None = None) -> Callable[[], Moments] | str:
    """What is left to do, or why it would not be enough, alpha being about so large."""
    q = _asked(part)
    if isinstance(q, str):
        return q
    if q.n == 1 or q.total == 0:
        return lambda: q.d.entities(_certain(q))
    if (q.total is None and not q.problem.mean > 0) or (q.n > 2 and q.often(MOST if q.law.discrete else 1)):
        return "too many entities may be clipped for a closed formula"
    with np.errstate(all="ignore"):
        plan = _planned(q, rtol, 0.1 * q.allowed(rtol, q.expected if alpha is None else alpha))
    return plan if isinstance(plan, str) else lambda: q.d.entities(plan())


def _planned(q: Rare, rtol: float, tolerance: float) -> Callable[[], Moments] | str:
    shares = q.total is None
    if not q.sure(tolerance):
        return "the weighted sum of the noisy counts may come near 0"
    if q.lost(q.two) <= tolerance:
        return lambda: (rare.shares if shares else rare.release)(q, rtol)
    if not q.law.discrete:
        return f"two entities may be clipped at a time, with a chance of {q.two:.2g}"
    k = next((k for k in range(q.d.x.size + 1) if q.lost(q.outside(k)) <= tolerance), 0)
    many = int(np.sum(q.d.times[:k]))
    if not 0 < many <= MOST:
        return f"more than {MOST} entities may be clipped"
    table, missed = _listed(q, many, tolerance)
    if kernels.count(table[2], many, table[3], CELLS // many) > CELLS // many:
        return f"{many} entities may be clipped, and their noises have more than {CELLS // many} values together"
    missed += q.outside(k)
    return lambda: (_shares if shares else _release)(q, k, table, missed, rtol)


def _reach(law: Law) -> float:
    """Noises beyond have no chance to speak of."""
    reach = np.ceil(law.spread)
    while law.sf(reach) > LEFT and reach < CELLS:
        reach = np.ceil(1.1 * reach) + 1
    return float(reach)


def _listed(q: Rare, many: int, tolerance: float) -> tuple[Table, float]:
    """The shortest list that leaves out no more than the tolerance allows, and the chance of that."""
    reach = _reach(q.law)
    noise = np.arange(-reach, reach + 1)
    noise = noise[np.argsort(np.abs(noise), kind="stable")]
    mass = np.asarray(q.law.density(noise))
    noise, mass = noise[mass > 0], mass[mass > 0]
    level, theta = -np.log(mass / mass[0]), np.linspace(0.05, 0.95, 19)
    swell = many * np.log([float(np.sum(mass * np.exp(v * level))) for v in theta])
    chance = 1e-3
    while q.lost(chance) > tolerance and chance > 1e-250:
        chance *= 0.1
    most = float(np.min((swell - np.log(chance)) / theta))
    kept = slice(int(np.searchsorted(level, most, side="right")))
    return (noise[kept], mass[kept], level[kept], most), chance + 2 * many * float(q.law.sf(reach))


def _sum_of(law: Law, n: int) -> tuple[int, Floats] | None:
    """P(N > m), E(N - m)_+ and E(N - m)_+^2 from the lowest m on, N the sum of n noises; without subtraction. None: too long."""
    reach, work = _reach(law), 0.0
    power, found = np.asarray(law.density(np.arange(-reach, reach + 1))), np.ones(1)
    while n:
        work += power.size * (found.size + power.size)
        if work > MASSES:
            return None
        found = _trimmed(np.convolve(found, power)) if n % 2 else found
        n //= 2
        power = _trimmed(np.convolve(power, power)) if n else power
    zero = np.append(np.cumsum(found[:0:-1])[::-1], 0.0)
    one = np.cumsum(zero[::-1])[::-1]
    two = 2 * np.cumsum(one[::-1])[::-1] - one  # sum over i >= m of (2 (i - m) + 1) P(N > i)
    return -(found.size // 2), np.ascontiguousarray(np.stack([zero, one, two], axis=1))


def _trimmed(mass: Floats) -> Floats:
    """Symmetric masses without the ends."""
    first = int(np.argmax(mass > LEFT))
    return mass[first : mass.size - first]


def _entities(q: Rare, k: int) -> tuple[Floats, Floats, Floats, Floats, float]:
    """x, a, foot and top of the ramps of the few, one by one, and the steepness: any for a jump, which is taken at one shift."""
    few = np.repeat(np.arange(k), q.d.times[:k])
    s = q.rule.steepness
    return q.d.x[few], q.a[few], q.a[few] * q.rule.level, q.a[few] * q.top, 1.0 if np.isinf(s) else s


def _pairs(q: Rare, k: int, found: Floats) -> Floats:
    """From the few and everybody else, one by one, to all pairs."""
    out = np.repeat(found[..., -1:], q.d.x.size, axis=-1)
    out[..., :k] = found[..., np.cumsum(q.d.times)[:k] - 1]
    return out


def _release(q: Rare, k: int, table: Table, missed: float, rtol: float) -> Moments:
    x, _, foot, top, s = _entities(q, k)
    safe = q.n - x.size
    law = _sum_of(q.law, safe)
    if law is None:
        return Moments.unknown(q.d.x.size, "the law of the sum of all others is too long")
    out = np.zeros((4, x.size + 1))
    start = float(np.sum(x)) + q.n * q.drift  # C less the counts of all others
    kernels.release(x, *table, foot, top, s, safe, start, q.drift, *law, out)
    d, square, zero, size = _pairs(q, k, out)
    missed += 2 * LEFT * safe * law[1].shape[0]
    rounding = ROUNDING * size, ROUNDING * np.abs(square)
    return rare.release_answer(q, d, square, zero, -float(out[0, -1]), rounding, missed, rtol)


def _shares(q: Rare, k: int, table: Table, missed: float, rtol: float) -> Moments:
    x, a, foot, top, s = _entities(q, k)
    p, zero = q.problem, np.zeros(x.size + 1)

    def moments(inverse: Inverse) -> tuple[Floats, Floats]:
        bias, mse = p.unclipped(inverse)
        out = np.zeros((2, inverse.t.size, x.size + 1))
        zero[:] = 0.0
        kernels.shares(x, a, *table, foot, top, s, q.n - x.size, inverse.t, zero, out)
        log, mean, _ = p.tilted(inverse.t)
        own = inverse.omega * np.exp(log[:, k:] @ p.times[k:] - inverse.t * p.mean)
        first, second = (_pairs(q, k, own[:, None] * v) for v in out)
        second[:, k:] += 2 * ((p.c + mean) * first)[:, k:]
        lift = np.sum(first, axis=0)
        bias = bias + lift
        return bias, np.maximum(mse + inverse.t @ second - 2 * p.shares * lift, bias**2)

    return rare.share_answer(q, moments, lambda: _pairs(q, k, zero), missed, rtol)


def _certain(q: Rare) -> Moments:
    """Nothing random is left: C = 0 (v = 0; every large T serves, so there is none), or one entity (v = C, T = 0; a share of 1)."""
    none = np.zeros(q.d.x.size)
    bias = none if q.total is None else -q.d.x if q.total == 0 else none + q.drift
    threshold = 0.0 if q.total and q.top == 0 else None
    return Moments(
        bias,
        np.spacing(np.abs(bias)) * (q.total is not None),
        bias**2,
        none + (q.total == 0),
        threshold,
        degenerate=float(q.law.cdf(-q.d.x)[0]) if q.total is None else 0.0,
        mse_error=4e-16 * bias**2,
        zero_error=none,
        threshold_error=threshold,
    )
