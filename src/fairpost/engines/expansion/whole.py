"""Whole-number noise of a large scale: the integrals of continuous noise, and how far they are from it.

Discrete Laplace noise is the whole part of continuous: an exponential variable is its whole part (geometric, the difference of two is eta)
plus an independent fraction, so Laplace = eta + W with W independent, symmetric, |W| < 1 and Var[W] close to 1/6. By Euler and Maclaurin,
for a function f of one noise that is smooth but for a corner, f' jumping by d at a whole number or a fraction u beyond one,

    sum_k p(k) f(k) = int p f + (1/12 b^2) (f(0) - int p f) - B_2(u)/2 d p(corner) + ...,   |B_2| <= 1/6,

p the Laplace density; the Gaussian density has no corner and no middle term. Every rule here is linear between corners X_i = T, so the
change of E[(T - X_i)_+] = D_i is at most some 1/6 of the density of X_i - T at 0 for its own corner, and through the root T, which all
share, the average of such terms over those that share it. With z = P(v_i = 0) = P(X_i <= T) and noise of scale b (or sigma)

    density at 0 <= J(z)/b,   J(z) = min(z, 1 - z) (Laplace),  phi(Phi^-1(z)) (Gaussian: J is concave, so Jensen holds over T),

the change of a bias is a part of e_i = (J(z_i) + z_i)/b and of its mean over all entities. `KAPPA` times both is stated. P(v = 0) changes
by the chance of a tie, at most one half of it: J(z)/b is stated. The jump of a threshold at tau + 1/2 stands for the ramp from tau to tau +
1.

Shares divide by S. Where S > 0 is all but certain e_i becomes a_i e_i / E[S]. 1/S bends, which the variance feels: that of discrete Laplace
noise is changed by 1/12 b^2 of itself, and with it the bias P_i Var[S]/E[S]^2 - a_i^2 Var/E[S]^2 that it is to lead order; the variance of
discrete Gaussian noise is not changed. What happens near S = 0, where shares jump, is in `near_zero`.

A threshold has a jump of the size of tau as well, or of the total where that is less. The jump that stands for the ramp lies in its middle,
so that where others take up what an entity leaves, what is left is of the second order again, b/24 times the slope of the density: J(z)/b,
times the depth of the edge in deviations under Gaussian noise, with JUMP for KAPPA. An entity inside its jump gets the remainder: its count
lies in a band of the width tau/K, K the number that is kept, and what it gets with the ramp is off by 1/2 at one end of the band and by
-1/2 at the other. With the density r that is 1/12 of the band times the difference of r at its ends, in counts: of the first order where
few share the shift. J at both ends stands for b r, with FIRST for 1/12 and as much again over K - 1, which is what the others get.

KAPPA is about twice the largest part that was seen over random cases at b from 2 to 16 against sums over all noises (n = 2, 3) and the
lattice integrals (more entities); `tests/engines/expansion/test_whole.py` draws others.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from fairpost.engines.closed.shares import range_error
from fairpost.engines.evaluation import Asked, Work
from fairpost.engines.exact.lattice.listed import MOST
from fairpost.engines.expansion.near_zero import Sum, near_zero
from fairpost.engines.moments import Floats, Moments
from fairpost.errors import ToleranceError, UnsupportedError
from fairpost.noise import Gaussian, Laplace, Law, Threshold
from fairpost.rules import PostProcessing

KAPPA, JUMP, FIRST = 0.4, 1.0, 0.5
LEAST = 4.0
"""The least scale."""
TOLERANCE = 1e-4
"""Of the integrals for continuous noise."""
DRAWS, SURE = 4e5, 1.2
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
    if rule is not None and not rule.for_whole_numbers:
        raise UnsupportedError(
            f"{pi.name}: a jump stands for a ramp of width 1 only, got the threshold {rule.level:g} with steepness "
            f"{rule.steepness:g}"
        )
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


def corner(zero: Floats, noise: Law, level: float) -> Floats:
    """What whole numbers may change about E[(T - X)_+], by its own corner or jump and through the shared root, times KAPPA."""
    from scipy.special import ndtr, ndtri

    near = tie(zero, noise)
    if level == 0:
        return np.asarray(KAPPA * (near + zero / noise.spread))
    gaussian, wide = np.isinf(noise.strip), level / noise.spread
    depth = ndtri(np.clip(zero, 1e-300, 1 - 1e-16)) if gaussian else np.zeros_like(zero)
    kept = max(float(np.sum(1 - zero)), 1.0)
    end = ndtr(depth + wide / kept) if gaussian else zero * math.exp(min(wide / kept, 700.0))
    end = np.clip(end, zero, 1.0)
    uneven = tie(np.clip(0.5, zero, end), noise) - np.minimum(near, tie(end, noise))
    own = JUMP * max(wide, 1.0) * ((1 + np.abs(depth)) * near + zero / noise.spread)
    return np.asarray(own + FIRST * (1 + 1 / max(kept - 1, 1.0)) * level / kept * uneven)


def released(found: Moments, x: Floats, noise: Law, level: float) -> Moments:
    """The moments of a release with what whole numbers may change, added to every error."""
    near = tie(found.zero, noise)
    own = corner(found.zero, noise, level)
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


def allocated(found: Moments, x: Floats, weights: Floats, truth: Floats, law: Law, level: float) -> Moments:
    """The same for shares, under the whole-number noise."""
    noise = stand_in(law)
    s = Sum.of(x, weights, noise)
    b, size = noise.spread, max(s.mean, s.deviation)
    near = tie(found.zero, noise)
    own = s.a * corner(found.zero, noise, level)
    turns = own + np.mean(own)
    lost, near_0, squares = near_zero(s, x, law, noise, found.degenerate, turns)
    change = turns / size * (1 + min(s.ratio, 1.0)) + KAPPA * s.bend(found.zero, truth, noise) / b**2
    spread = 4 * np.sqrt(found.mse) * change + 3 * squares + 2 * found.mse / b**2
    change = change + near_0
    # half of P(S = 0) lies below 0 for the continuous noise; with weights that have no lattice in common S is not 0
    met = lost / 2 if np.ptp(weights) == 0 and (x == np.floor(x)).all() else 0.0
    return replace(
        found,
        degenerate=min(found.degenerate + met, 1.0),
        error=found.error + (change if np.any(found.error > 0) or np.ptp(truth) > 0 else 0.0),
        mse_error=_plus(found.mse_error, 1e-3 * found.mse, spread),
        zero_error=np.minimum(_plus(found.zero_error, 1e-3 * found.zero, near + lost), 1.0),
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
    level = min(_level(pi), float(pi.C))  # type: ignore[attr-defined]  # nobody gets more than the total

    def stated() -> Moments:
        drawn, known_to = _drawn(pi, asked, noise)
        most = float(np.ptp(drawn.bias)) + 2 * known_to
        # of two counts the larger one gets more, by no more than they differ, unless a threshold comes between them
        _early(
            pi, released(drawn, asked.x, noise, level), most if level > 0 else min(most, float(np.ptp(asked.x))), noise
        )
        return useful(pi.name, released(work(), asked.x, noise, level), noise)

    return stated


def allocation(pi: PostProcessing, asked: Asked, weights: Floats) -> Work:
    """The work for `pos` and `pos-threshold`."""
    noise, work = continuous_work(pi, asked)

    def known(found: Moments) -> Moments:
        return allocated(found, asked.x, weights, asked.truth, asked.law(), _level(pi))

    def stated() -> Moments:
        drawn, known_to = _drawn(pi, asked, noise)
        _early(pi, known(drawn), float(np.ptp(drawn.bias)) + 2 * known_to, noise)
        return useful(pi.name, known(work()), noise)

    return stated


def _early(pi: PostProcessing, drawn: Moments, most: float, noise: Law) -> None:
    """Refuse, before the work, what is only known to much more than a part of an alpha that is `most` at the most."""
    alpha, slack = range_error(drawn.bias, drawn.error)
    if slack > PART * SURE * most and most > 0:
        raise ToleranceError(
            f"{pi.name}: whole numbers of scale {noise.spread:g} may move alpha, some {alpha:.2g}, by {slack:.2g}"
        )


def _drawn(pi: PostProcessing, asked: Asked, noise: Law) -> tuple[Moments, float]:
    """The moments from a few draws of the continuous noise, and what the biases are good for."""
    n = asked.x.size
    rng = np.random.default_rng(n)
    rows = int(np.clip(DRAWS / n, 32, 4000))
    eta = (rng.normal if np.isinf(noise.strip) else rng.laplace)(0.0, noise.spread, (rows, n))
    found = pi.apply(asked.x + eta)
    away = found.values - asked.truth
    zero, none = np.mean(found.values == 0, axis=0), np.zeros(n)
    drawn = Moments(np.mean(away, axis=0), none, np.mean(away**2, axis=0), zero, degenerate=found.degenerate / rows)
    return drawn, 8 * float(np.max(np.std(away, axis=0))) / math.sqrt(rows)


def coarse(pi: PostProcessing, asked: Asked, weights: Floats) -> Work:
    """The sums over whole numbers themselves, where half of PART makes them affordable: few noises, or one lattice."""
    from fairpost.engines.exact.evaluators import EXACT

    if np.ptp(weights) > 0 and weights.size > MOST:
        raise UnsupportedError(f"{pi.name}: {weights.size} weights have no lattice in common and too many noises")
    return EXACT.prepare(pi, replace(asked, rtol=PART / 2))


def _level(pi: PostProcessing) -> float:
    return 0.0 if pi.rule is None else pi.rule.level
