"""Whole-number noise of a large scale: the integrals of continuous noise, and how far they are from it.

Discrete Laplace noise is the whole part of continuous: an exponential variable is its whole part (geometric, the difference of two is eta)
plus an independent fraction, so Laplace = eta + W with W independent, symmetric, |W| < 1 and Var[W] close to 1/6. By Euler and Maclaurin, for a
function f of one noise that is smooth but for a corner, f' jumping by d at a whole number or a fraction u beyond one,

    sum_k p(k) f(k) = int p f + (1/12 b^2) (f(0) - int p f) - B_2(u)/2 d p(corner) + ...,   |B_2| <= 1/6,

p the Laplace density; the Gaussian density has no corner and no middle term. Every rule here is linear between corners X_i = T, so the
change of E[(T - X_i)_+] = D_i is at most some 1/6 of the density of X_i - T at 0 for its own corner, and through the root T, which all
share, the average of such terms over those that share it. With z = P(v_i = 0) = P(X_i <= T) and noise of scale b (or sigma)

    density at 0 <= J(z)/b,   J(z) = min(z, 1 - z) (Laplace),  phi(Phi^-1(z)) (Gaussian: J is concave, so Jensen holds over T),

the change of a bias is a part of e_i = (J(z_i) + z_i)/b and of its mean over all entities. `KAPPA` times both is stated. P(v = 0) changes by
the chance of a tie, at most one half of it: J(z)/b is stated. The jump of a threshold at tau + 1/2 stands for the ramp from tau to tau + 1.

Shares divide by S. Where S > 0 is all but certain e_i becomes a_i e_i / E[S]; 1/S bends, which the variance, changed by 1/12 b^2 of
itself, feels. Near S = 0 the shares jump and a whole-number S can be 0, which then is a convention of its own: P(S = 0) is at most
P(S <= 0) times the largest rate at which a log-concave tail falls, 1/b (Laplace) or (m + 1)/s, m = E[S]/s in deviations (Gaussian). With
equal weights and whole counts S is whole, and P(S = 0) is a sum of its transform over one period (`at_zero`).

A threshold has a jump of the size of b as well. The ramp that stands for it has its middle there, so that what is left is of the second
order again, b/24 times the slope of the density: J(z)/b, times the depth of the edge in deviations under Gaussian noise, with JUMP for KAPPA.

KAPPA is about twice the largest part that was seen over random cases at b from 2 to 16 against sums over all noises (n = 2, 3) and
the lattice integrals (more entities); `tests/test_expansion_whole.py` draws others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from fairpost.engines.evaluation import Asked, Work
from fairpost.engines.exact.shares import range_error
from fairpost.engines.moments import Floats, Moments
from fairpost.errors import ToleranceError, UnsupportedError
from fairpost.noise import Gaussian, Laplace, Law, Threshold
from fairpost.rules import PostProcessing

KAPPA, JUMP = 0.4, 1.0
LEAST = 4.0
"""The least scale."""
STEPS, QUIET = 20_000, 40.0
"""The most steps of y for P(S = 0), and how far the transform must have fallen where they end."""
TOLERANCE = 1e-4
"""Of the integrals for continuous noise."""
WAVES, OTHERS = 200, 100
"""So many waves of the lattice of the largest weight are looked at, and so many weights that may spread them."""
EDGES, TIES, LOST = 3.0, 0.15, 1.25
DRAWS, SURE = 1e5, 1.5
"""So many noises are drawn to see how large alpha is; whose error would be above SURE times PART of it is refused before the work."""
PART = 0.02
"""The largest part of alpha that alpha's error may be."""


def stand_in(law: Law) -> Law:
    """The continuous noise of the same kind and scale; refused for a small scale."""
    if not law.discrete or law.spread < LEAST:
        raise UnsupportedError(
            f"{law.name} noise of scale {law.spread:g} is not close to continuous noise (from {LEAST:g} on)"
        )
    return Gaussian(law.spread) if np.isinf(law.strip) else Laplace(law.spread)


def continuous_work(pi: PostProcessing, asked: Asked) -> tuple[Law, Work]:
    """The exact engine's work for the continuous noise, with the jump in the middle of the ramp."""
    from fairpost.engines.exact.evaluators import EXACT

    noise = stand_in(asked.law())
    rule = pi.rule
    if rule is not None and rule.level > 0:
        pi = replace(pi, threshold=Threshold(rule.level + rule.width / 2))  # type: ignore[type-var]
    return noise, EXACT.prepare(pi, replace(asked, mechanism=noise, rtol=TOLERANCE))


def tie(zero: Floats, noise: Law) -> Floats:
    """J(z)/b, a bound on the density of X - T at 0."""
    from scipy.special import ndtri

    if not np.isinf(noise.strip):
        return np.minimum(zero, 1 - zero) / noise.spread
    z = np.clip(zero, 1e-300, 1 - 1e-16)
    return np.asarray(np.exp(-(ndtri(z) ** 2) / 2) / (np.sqrt(2 * np.pi) * noise.spread))


def corner(zero: Floats, noise: Law, jump: bool) -> Floats:
    """What whole numbers may change about E[(T - X)_+], by its own corner or jump and through the shared root, times KAPPA."""
    from scipy.special import ndtri

    near = tie(zero, noise)
    if not jump:
        return np.asarray(KAPPA * (near + zero / noise.spread))
    depth = np.abs(ndtri(np.clip(zero, 1e-300, 1 - 1e-16))) if np.isinf(noise.strip) else 0.0
    return np.asarray(JUMP * ((1 + depth) * near + zero / noise.spread))


def released(found: Moments, x: Floats, noise: Law, jump: bool) -> Moments:
    """The moments of a release with what whole numbers may change, added to every error."""
    near = tie(found.zero, noise)
    own = corner(found.zero, noise, jump)
    mean = float(np.mean(own))
    change = own + mean
    spread = 0.25 + 2.5 * (x + np.sqrt(found.mse)) * change
    known = found.threshold_error
    return replace(
        found,
        error=found.error + (change if np.ptp(x) > 0 else 0.0),
        mse_error=_plus(found.mse_error, 1e-3 * found.mse, spread),
        zero_error=np.minimum(_plus(found.zero_error, 1e-3 * found.zero, near), 1.0),
        threshold_error=None if found.threshold is None else (known or 0.0) + 2 * mean,
    )


@dataclass(frozen=True)
class Sum:
    """S = sum a X in units of the largest weight."""

    a: Floats
    mean: float
    deviation: float

    @classmethod
    def of(cls, x: Floats, weights: Floats, noise: Law) -> Sum:
        """From counts and weights, one entry per entity."""
        a = weights / np.max(weights)
        return cls(a, float(np.sum(a * x)), float(np.sqrt(np.sum(a**2) * noise.variance)))

    @property
    def ratio(self) -> float:
        """Deviation over mean."""
        return self.deviation / self.mean if self.mean > 0 else math.inf

    def density(self, noise: Law, below: float) -> float:
        """A bound on the density of S at 0, `below` the chance of S <= 0."""
        if np.isinf(noise.strip):
            return math.exp(-0.5 / self.ratio**2) / (math.sqrt(2 * math.pi) * self.deviation)
        return min(below / noise.spread, 1 / self.deviation)

    def bend(self, found: Moments, truth: Floats, noise: Law) -> Floats:
        """What the curvature of 1/S adds in units of 1/b^2: a change of the variance, which Gaussian noise does not have."""
        if np.isinf(noise.strip):
            return np.zeros_like(truth)
        size = max(self.mean, self.deviation)
        ours, own = truth * min(self.ratio, 1.0) ** 2, noise.variance * (self.a / size) ** 2
        more = min(4 * self.ratio + float(np.sum(found.zero)), 1.0)
        return np.asarray(KAPPA * (np.abs(ours - own) + more * (ours + own)))


def at_zero(law: Law, n: int, mean: float) -> float:
    """P(S = 0), S = mean + the sum of n whole noises, by equal steps in y over (-pi, pi): what is mean +- N away wraps round.

    N is twice 14 deviations and E[S], or 45 scales more where few Laplace noises have longer tails: 1e-16 is left out.
    """
    deviation = float(np.sqrt(n * law.variance))
    tail = 0.0 if np.isinf(law.strip) else 45 * law.spread
    half = math.ceil(mean + 14 * deviation + tail) + 8
    y = np.pi / half * np.arange(min(half, STEPS) + 1)
    # (the transform of discrete Gaussian noise is that of continuous to e^{-pi^2 sigma^2/2}, and its masses are too many)
    log = n * (-0.5 * (law.spread * y) ** 2 if np.isinf(law.strip) else np.asarray(law.cgf(1j * y)).real)
    if y.size <= half and log[-1] > -QUIET:
        return math.inf
    weight = np.where((y == 0) | (y == np.pi), 0.5, 1.0)
    return float(np.sum(weight * np.exp(log) * np.cos(y * mean))) / half


def ripples(weights: Floats, noise: Law) -> float:
    """What part of the density of S at 0 whole numbers may move near S = 0, by waves and by ties (see above)."""
    a = np.sort(weights / np.max(weights))[::-1][1 : 1 + OTHERS]
    if a.size == 0:
        return 1.0
    m = np.arange(1.0, WAVES + 1)
    across = np.max(np.abs(np.sin(np.pi * np.multiply.outer(m, a))), axis=1)
    h = np.minimum(EDGES * float(noise.density(0.0)) / np.maximum(across, 1e-300), 1.0)
    waves = np.sum(h / (np.pi * m)) + (1 + 2 * np.sum((1 - m / (WAVES + 1)) * h)) / (2 * WAVES + 2)
    return float(waves) + ties(noise.spread * float(a[0]))


def ties(y: float) -> float:
    """The part by ties at the top, y the second weight's noise scale in units of the first."""
    return float(TIES * (1 + np.log1p(y)) / max(y, 1e-300))


def unlike(x: Floats, noise: Law) -> float:
    """How far, at S = 0 and with equal weights, the chance of being the largest or the smallest is from 1/n (see above)."""
    n, apart = x.size, float(np.ptp(x)) / noise.spread
    log = apart * (np.sqrt(2 * np.log(n)) + 1) + apart**2 if np.isinf(noise.strip) else 2 * apart
    return float(np.expm1(min(log, 50.0))) / n


def allocated(found: Moments, x: Floats, weights: Floats, truth: Floats, law: Law, jump: bool) -> Moments:
    """The same for shares, under the whole-number noise."""
    noise = stand_in(law)
    s = Sum.of(x, weights, noise)
    b, size = noise.spread, max(s.mean, s.deviation)
    dense = s.density(noise, found.degenerate)
    near = tie(found.zero, noise)
    own = s.a * corner(found.zero, noise, jump)
    turns = own + np.mean(own)
    steep = 2 * turns * np.log1p(size)
    if np.ptp(weights) == 0 and (x == np.floor(x)).all():
        lost = min(dense, at_zero(law, x.size, s.mean) + 1e-15)
        near_0 = lost * np.minimum(2 * KAPPA, unlike(x, noise) + ties(b) + steep if not jump else np.inf)
    else:
        lost = dense
        near_0 = lost * np.minimum(LOST, ripples(weights, noise) + steep if not jump else np.inf)
    change = turns / size * (1 + min(s.ratio, 1.0)) + s.bend(found, truth, noise) / b**2
    spread = 4 * np.sqrt(found.mse) * change + 3 * near_0 + 2 * found.mse / b**2
    change = change + near_0
    return replace(
        found,
        error=found.error + (change if np.any(found.error > 0) or np.ptp(truth) > 0 else 0.0),
        mse_error=_plus(found.mse_error, 1e-3 * found.mse, spread),
        zero_error=np.minimum(_plus(found.zero_error, 1e-3 * found.zero, near + LOST * lost), 1.0),
    )


def _plus(given: Floats | None, default: Floats, more: Floats) -> Floats:
    return np.asarray((default if given is None else given) + more)


def useful(name: str, found: Moments, noise: Law) -> Moments:
    """The moments, refused where whole numbers may matter more than PART."""
    alpha, slack = range_error(found.bias, found.error)
    if slack > PART * alpha and np.max(found.error) > 0 and alpha > 0:
        raise ToleranceError(
            f"{name}: alpha = {alpha:.6g} of continuous noise is within {slack:.2g} of that of whole numbers of scale "
            f"{noise.spread:g} only",
            (found.bias, found.error),
        )
    return found


def release(pi: PostProcessing, asked: Asked) -> Work:
    """The work for `simplex` and `simplex-threshold`."""
    noise, work = continuous_work(pi, asked)
    return lambda: useful(pi.name, released(work(), asked.x, noise, _jumps(pi)), noise)


def allocation(pi: PostProcessing, asked: Asked, weights: Floats) -> Work:
    """The work for `pos` and `pos-threshold`."""
    noise, work = continuous_work(pi, asked)

    def known(found: Moments) -> Moments:
        return allocated(found, asked.x, weights, asked.truth, asked.law(), _jumps(pi))

    def stated() -> Moments:
        drawn, known_to = _drawn(pi, asked, noise)
        alpha, slack = range_error(drawn.bias, known(drawn).error)
        if slack > PART * SURE * (alpha + 2 * known_to):
            raise ToleranceError(
                f"{pi.name}: whole numbers of scale {noise.spread:g} may move alpha, some {alpha:.2g}, by {slack:.2g}"
            )
        return useful(pi.name, known(work()), noise)

    return stated


def _drawn(pi: PostProcessing, asked: Asked, noise: Law) -> tuple[Moments, float]:
    """The moments from a few draws of the continuous noise, and what the biases are good for."""
    n = asked.x.size
    rng = np.random.default_rng(n)
    rows = int(np.clip(DRAWS / n, 32, 4000))
    eta = (rng.normal if np.isinf(noise.strip) else rng.laplace)(0.0, noise.spread, (rows, n))
    found = pi.apply(asked.x + eta)
    away = found.values - asked.truth
    zero, none = np.mean(found.values == 0, axis=0), np.zeros(n)
    drawn = Moments(
        np.mean(away, axis=0), none, np.mean(away**2, axis=0), zero, degenerate=found.degenerate / rows
    )
    return drawn, 8 * float(np.max(np.std(away, axis=0))) / math.sqrt(rows)


def coarse(pi: PostProcessing, asked: Asked) -> Work:
    """The sums over whole numbers themselves, where they are affordable to half of PART: what is stated is what was left out."""
    from fairpost.engines.exact.evaluators import EXACT

    return EXACT.prepare(pi, replace(asked, rtol=PART / 2))


def _jumps(pi: PostProcessing) -> bool:
    return pi.rule is not None and pi.rule.level > 0
