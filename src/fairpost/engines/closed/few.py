"""Few entities that may be clipped: a method of closed formulas and, for whole-number noise, sums over their noises.

At most one clipped at a time is `rare`, for each of the four noises. Under whole-number noise several may be: the noises of the k that may be
clipped are listed, all (eta_1, ..., eta_k) with prod p(eta_j) >= e^-most p(0)^k. Given them a release hangs on the sum N of the noises of all
others, whose law is a convolution of positive masses, and is linear in it piece by piece (`kernels.few`); shares do not hang on N, but for
1/S = sum omega e^{-tS}, which falls into factors. What is left out of the list has by Chernoff, with level(eta) = log p(0)/p(eta), the chance

    P(sum level > most) <= min_q e^{-q most} (sum_eta p(eta)^{1-q} p(0)^q)^k,

and weighs as in `rare` for what it can do. Noise that is next to none makes short lists even of many entities.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fairpost.bounds import sum_law
from fairpost.engines.base import Answer, Part, Refusal
from fairpost.engines.closed import rare
from fairpost.engines.closed.kernels import few as kernels
from fairpost.engines.closed.rare import ROUNDING, Rare
from fairpost.engines.exact.pos.inverse import Inverse
from fairpost.engines.exact.pos.separated import unclipped
from fairpost.engines.moments import Floats, Moments, distinct
from fairpost.errors import ToleranceError
from fairpost.noise import Law, Threshold
from fairpost.rules import PoS, PosThreshold, PostProcessing, Simplex, SimplexThreshold

CELLS = 3_000_000
"""The most (noise, entity) values that are walked: half a second."""
STRICT = (1.0, 0.01)
"""How large alpha is, is known roughly before the work; where it is smaller, the tolerance is taken so much smaller."""
MOST = 12
"""The most entities that may be clipped: beyond, lists of even two values are too long."""
MASSES = 2e8
"""The most products of a convolution: a fifth of a second."""
LEFT = 1e-30
"""Masses of a sum below this are left out."""


@dataclass(frozen=True, eq=False)
class _List:
    """The noises by falling chance, and what is listed: the first k pairs, sum level <= most; `missed` is the chance of all else."""

    k: int
    noise: Floats
    mass: Floats
    level: Floats
    most: float
    missed: float


@dataclass(frozen=True)
class Few:
    """Proved: what is left out has a chance that is bounded, and so has what it can do."""

    name: ClassVar[str] = "few"
    rules: ClassVar[tuple[type[PostProcessing], ...]] = (Simplex, SimplexThreshold, PoS, PosThreshold)

    def fits(self, part: Part, rtol: float) -> str | None:
        """Why too many may be clipped at a time."""
        planned = _plan(part, rtol, 1.0)
        return planned if isinstance(planned, str) else None

    def evaluate(self, part: Part, rtol: float) -> Answer | Refusal:
        """Its moments."""
        found: Answer | Refusal = Refusal("few clipped: not tried")
        for strict in STRICT:
            planned = _plan(part, rtol, strict)
            if isinstance(planned, str):
                return found if found.tried else Refusal(planned)
            found = _answer(part, rtol, *planned)
            if isinstance(found, Answer):
                break
        return found


def _answer(part: Part, rtol: float, q: Rare, listed: _List | None) -> Answer | Refusal:
    with np.errstate(all="ignore"):  # far tails under- and overflow; what is not finite is refused in `answer`
        try:
            if _certain(q):
                found = _nothing_random(q)
            elif listed is None:
                found = (rare.shares if q.total is None else rare.release)(q, rtol)
            else:
                found = (_shares if q.total is None else _release)(q, listed, rtol)
        except ToleranceError as error:  # of the law of a sum, beyond what it lists
            return Refusal(str(error), tried=True)
    return q.d.entities(found).answer("exact", found.kind, part)


def _plan(part: Part, rtol: float, strict: float) -> tuple[Rare, _List | None] | str:
    """What is left to do, or why it would not be enough: errors may come to `strict` of a tenth of what is asked."""
    law, pi = part.mechanism, part.pi
    if not isinstance(law, Law):
        return f"the law of {law.name} noise is not known; it can be simulated"
    weights, total = None, None
    if isinstance(pi, (PoS, PosThreshold)):
        weights = pi.problem.a(part.x.size)
    elif isinstance(pi, (Simplex, SimplexThreshold)):
        total = float(pi.C)
    rule = pi.rule if isinstance(pi, (SimplexThreshold, PosThreshold)) else Threshold(0.0)
    q = Rare(distinct(part, weights), law, Threshold(0.0) if rule.level == 0 else rule, total)
    if _certain(q):
        return q, None
    with np.errstate(all="ignore"):
        return _planned(q, 0.1 * strict * q.allowed(rtol, q.expected()))


def _planned(q: Rare, tolerance: float) -> tuple[Rare, _List | None] | str:
    if q.n > 2 and q.often(MOST if q.law.discrete else 1):
        return "few clipped: many are"
    if not (q.law.variance > 0 and np.isfinite(tolerance)):
        return "counts and noise are too far apart for floats"
    unsure = q.sure(tolerance)
    if unsure is not None:
        return f"few clipped: {unsure}"
    if q.lost(q.two) <= tolerance:
        return q, None
    if not q.law.discrete:
        return f"few clipped: two at a time have a chance of {q.two:.2g}"
    upto = np.cumsum(q.d.times)
    for k in range(1, q.d.x.size + 1):
        if upto[k - 1] > MOST:
            break
        missed = q.outside(k)
        if q.lost(missed) <= tolerance:
            listed = _listed(q, k, missed, tolerance)
            return listed if isinstance(listed, str) else (q, listed)
    return f"few clipped: more than {MOST} entities may be"


def _listed(q: Rare, k: int, missed: float, tolerance: float) -> _List | str:
    """The shortest list that leaves out no more than the tolerance allows."""
    many, law = int(np.sum(q.d.times[:k])), q.law
    reach = np.ceil(law.spread)
    while law.sf(reach) > LEFT and reach < CELLS:
        reach = np.ceil(1.2 * reach) + 1
    noise = np.arange(-reach, reach + 1)
    noise = noise[np.argsort(np.abs(noise), kind="stable")]
    mass = np.asarray(law.density(noise))
    noise, mass = noise[mass > 0], mass[mass > 0]
    level = -np.log(mass / mass[0])
    beyond = many * 2 * float(law.sf(reach))
    theta = np.linspace(0.05, 0.95, 19)
    swell = many * np.log(np.array([np.sum(mass * np.exp(v * level)) for v in theta]))
    chance = tolerance / max(q.lost(1.0), 1e-300)
    while q.lost(chance + missed + beyond) > 2 * tolerance and chance > 1e-250:
        chance *= 0.1
    most = float(np.min((swell - np.log(chance)) / theta))
    kept = int(np.searchsorted(level, most, side="right"))
    noise, mass, level = noise[:kept], mass[:kept], level[:kept]
    cells = kernels.count(level, many, most, CELLS // many)
    if cells > CELLS // many:
        return f"few clipped: {many} entities may be, with more than {CELLS // many} values of their noises together"
    return _List(k, noise, mass, level, most, chance + missed + beyond)


def _sum_of(law: Law, n: int) -> tuple[int, Floats] | str:
    """P(N > m), E(N - m)_+ and E(N - m)_+^2 from the lowest m on, N the sum of n noises; without subtraction."""
    if n == 0:
        return 0, np.zeros((1, 3))
    reach = np.ceil(law.spread)
    while law.sf(reach) > LEFT:
        reach = np.ceil(1.1 * reach) + 1
    power, found, left = np.asarray(law.density(np.arange(-reach, reach + 1))), np.ones(1), n
    work = 0.0
    while True:
        if left % 2:
            work += found.size * power.size
            found = _trimmed(np.convolve(found, power))
        left //= 2
        if left == 0 or work > MASSES:
            break
        work += power.size**2
        if work > MASSES:
            break
        power = _trimmed(np.convolve(power, power))
    if work > MASSES:
        return "few clipped: the law of the sum of all others is too long"
    low = -(found.size // 2)
    above = np.cumsum(found[::-1])[::-1]
    zero = np.append(above[1:], 0.0)  # P(N > m)
    one = np.cumsum(zero[::-1])[::-1]
    two = 2 * np.cumsum(one[::-1])[::-1] - one  # E(N - m)^2 = sum over i >= m of (2 (i - m) + 1) P(N > i)
    return low, np.ascontiguousarray(np.stack([zero, one, two], axis=1))


def _trimmed(mass: Floats) -> Floats:
    """Symmetric, without its ends below LEFT."""
    first = int(np.argmax(mass > LEFT))
    return mass[first : mass.size - first]


def _entities(q: Rare, listed: _List) -> tuple[Floats, Floats, Floats, Floats]:
    """x, a, and foot and top of the ramps of the few, one by one."""
    few = np.repeat(np.arange(listed.k), q.d.times[: listed.k])
    a = q.a[few]
    return q.d.x[few], a, a * q.rule.level, a * q.top


def _pairs(q: Rare, listed: _List, found: Floats) -> Floats:
    """From the few and everybody else to all pairs."""
    at = np.minimum(np.cumsum(q.d.times)[: listed.k] - 1, found.shape[-1] - 1)
    out = np.repeat(found[..., -1:], q.d.x.size, axis=-1)
    out[..., : listed.k] = found[..., at]
    return out


def _release(q: Rare, listed: _List, rtol: float) -> Moments:
    x, _, foot, top = _entities(q, listed)
    safe = q.n - x.size
    law = _sum_of(q.law, safe)
    if isinstance(law, str):
        return Moments.unknown(q.d.x.size, law)
    out = np.zeros((4, x.size + 1))
    start = float(np.sum(x)) + q.n * q.drift  # C less the counts of all others
    kernels.release(x, listed.noise, listed.mass, listed.level, listed.most, foot, top, _finite(q.rule), safe, start, q.drift, *law, out)
    d, square, zero, size = _pairs(q, listed, out)
    base = sum_law.variance(q.law, q.n) + q.drift**2
    lost = q.lost(listed.missed)
    bias, mean = q.drift + d, -float(out[0, -1])
    plain = q.top == 0
    return q.reached(
        Moments(
            bias,
            ROUNDING * size + 4e-16 * abs(q.drift) + lost,
            np.maximum(base + square, bias**2),
            np.clip(zero, 0.0, 1.0),
            threshold=mean if plain else None,
            mse_error=ROUNDING * (base + np.abs(square)) + q.lost(listed.missed, 2),
            zero_error=ROUNDING * zero + listed.missed,
            threshold_error=ROUNDING * mean + lost if plain else None,
            kind="bound",
        ),
        rtol,
    )


def _shares(q: Rare, listed: _List, rtol: float) -> Moments:
    x, a, foot, top = _entities(q, listed)
    p, n, zero = q.problem, q.n, np.zeros(x.size + 1)

    def moments(inverse: Inverse) -> tuple[Floats, Floats]:
        bias, mse = unclipped(p, inverse)
        out = np.zeros((2, inverse.t.size, x.size + 1))
        zero[:] = 0.0
        kernels.shares(x, a, listed.noise, listed.mass, listed.level, listed.most, foot, top, _finite(q.rule), n - x.size, inverse.t, zero, out)
        log, mean, _ = p.tilted(inverse.t)
        own = inverse.omega * np.exp(log[:, listed.k :] @ p.times[listed.k :] - inverse.t * p.mean)
        first, second = (_pairs(q, listed, own[:, None] * v) for v in out)
        second[:, listed.k :] += 2 * ((p.c + mean) * first)[:, listed.k :]
        lift = np.sum(first, axis=0)
        bias = bias + lift
        return bias, np.maximum(mse + inverse.t @ second - 2 * p.shares * lift, bias**2)

    missed = np.zeros(x.size + 1)
    found = rare.share_answer(q, moments, listed.missed, np.zeros(q.d.x.size), _pairs(q, listed, missed), rtol)
    if found.short is None:
        found.zero[:] = np.clip(_pairs(q, listed, zero), 0.0, 1.0)
    return found


def _finite(rule: Threshold) -> float:
    """The steepness; of a jump, which is taken at one shift, any number."""
    return 1.0 if np.isinf(rule.steepness) else rule.steepness


def _certain(q: Rare) -> bool:
    """Whether all is settled: one entity, or nothing to give."""
    return q.n == 1 or q.total == 0


def _nothing_random(q: Rare) -> Moments:
    """C = 0 (v = 0; every large T serves, so there is none) or one entity (v = C, T = 0; a share of 1)."""
    none = np.zeros(q.d.x.size)
    if q.total is None:
        return Moments(none, none, none, none, degenerate=float(q.law.cdf(-q.d.x)[0]), mse_error=none, zero_error=none, kind="bound")
    bias = -q.d.x if q.total == 0 else np.array([q.drift])
    threshold = None if q.total == 0 or q.top > 0 else 0.0
    return Moments(
        bias, np.spacing(np.abs(bias)), bias**2, none + float(q.total == 0), threshold,
        mse_error=4e-16 * bias**2, zero_error=none, threshold_error=threshold, kind="bound",
    )  # fmt: skip
