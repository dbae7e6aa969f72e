"""Whole-number noise that takes few values: every noise that matters is listed, and the rule itself is applied to it.

E[f(x + eta)] = sum p(eta) f(x + eta) over all vectors of noises of at most R each where there are few of them (few entities), or over those
with at most one noise that is not 0 (a noise next to none). What is left out has a known chance Q. A share then differs from the true one by at
most 1, and PoS by at most 4 sum_j a_j |eta_j| / sum a x: the projection does not expand, and

    |z_i/S - P_i| <= (a_i |eta_i| + P_i sum a |eta|)/S,   S >= sum a x / 2   or else   sum a |eta| > sum a x / 2.

Any rule and any weights are covered, since nothing but the rule is used.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import numpy as np

from fairpost import cancel
from fairpost.engines.evaluation import Distinct
from fairpost.engines.exact.shares import range_error
from fairpost.engines.moments import Floats, Moments
from fairpost.noise import Law

POINTS = 1.5e6
"""The most noises, times entities / 3: about a second."""
LEFT = (1e-11, 3e-9)
"""The chance that is left out, where that is affordable."""
BLOCK = 60_000
Rule = Callable[[Floats], Floats]


@dataclass
class _Sums:
    bias: Floats
    mse: Floats
    zero: Floats
    degenerate: float = 0.0

    def add(self, rule: Rule, rows: Floats, chance: Floats, truth: Floats, weights: Floats) -> None:
        """Some noises and their chances."""
        v = rule(rows)
        away = v - truth
        self.bias += chance @ away
        self.mse += chance @ away**2
        self.zero += chance @ (v == 0)
        self.degenerate += float(chance @ (rows @ weights <= 0))


@dataclass(frozen=True)
class Listing:
    """Which noises are listed: all vectors, or one noise at a time, each up to `reach`."""

    every: bool
    reach: int


def listing(d: Distinct, n: int, noise: Law) -> Listing | None:
    """What can be listed in about a second; None where neither can."""
    for left in LEFT:
        reach = _reach(noise, n, left)
        if n * math.log(2 * reach + 1) < math.log(3 * POINTS / n):
            return Listing(True, reach)
    far = _reach(noise, n, LEFT[0])
    if (2.0 * far + 1) * d.x.size * n / 3 <= POINTS and n * (1 - float(noise.density(0.0))) < 1e-3:
        return Listing(False, far)
    return None


def listed(
    rule: Rule, plan: Listing, d: Distinct, x: Floats, truth: Floats, a: Floats, noise: Law, rtol: float, smooth: bool
) -> Moments | None:
    """Moments of shares, one entry per entity, or None where the list misses the tolerance; `smooth`: the bound for PoS holds."""
    n = x.size
    if plan.every:
        sums, left, size = _all(rule, x, truth, a, noise, plan.reach)
    else:
        sums, left, size = _single(rule, d, x, truth, a, noise, plan.reach)
    need = float(np.sum(a * x))
    most = min(left, 4 * float(np.max(a)) * size / need) if smooth else left
    error = np.full(n, most) + 1e-14 * np.abs(sums.bias) + 4e-16 * truth
    alpha, slack = range_error(sums.bias, error)
    if slack > max(rtol * alpha, 1e-15 * float(np.max(truth))):
        return None
    return Moments(
        sums.bias,
        error,
        sums.mse,
        np.minimum(sums.zero, 1.0),
        degenerate=sums.degenerate,
        mse_error=np.full(n, most) + 1e-13 * sums.mse,
        zero_error=np.full(n, left) + 1e-13 * sums.zero,
    )


def _reach(noise: Law, n: int, left: float) -> int:
    """The least reach, to 5 %, beyond which some noise lies with a chance below `left`; 20,000 where it is larger."""
    reach = 1
    while reach < 20_000 and 2 * n * float(noise.sf(float(reach))) > left:
        reach = math.ceil(1.05 * reach + 0.5)
    return reach


def _all(rule: Rule, x: Floats, truth: Floats, a: Floats, noise: Law, reach: int) -> tuple[_Sums, float, float]:
    """Every vector of noises up to `reach`; the chance left out, and what is left out of E[sum |eta|]."""
    n = x.size
    k = np.arange(-reach, reach + 1.0)
    p = np.asarray(noise.density(k))
    sums = _Sums(np.zeros(n), np.zeros(n), np.zeros(n))
    inner = np.stack(np.meshgrid(*[k] * min(n, 2), indexing="ij"), axis=-1).reshape(-1, min(n, 2))
    weight = np.prod(np.stack(np.meshgrid(*[p] * min(n, 2), indexing="ij"), axis=-1).reshape(-1, min(n, 2)), axis=1)
    rows, chance = [], []
    held = 0
    for outer in product(range(k.size), repeat=n - min(n, 2)):
        at = list(outer)
        fixed = np.broadcast_to(k[at], (inner.shape[0], len(at)))
        rows.append(x + np.concatenate([fixed, inner], axis=1))
        chance.append(float(np.prod(p[at])) * weight)
        held += inner.shape[0]
        if held >= BLOCK:
            cancel.check()
            sums.add(rule, np.concatenate(rows), np.concatenate(chance), truth, a)
            rows, chance, held = [], [], 0
    if rows:
        sums.add(rule, np.concatenate(rows), np.concatenate(chance), truth, a)
    one = 2 * float(noise.sf(float(reach)))
    # E|eta| beyond the reach, and E|eta| of the others while one is beyond it
    size = n * (2 * float(noise.upper(float(reach), 0.0, 1)) + (reach + (n - 1) * noise.deviation) * one)
    return sums, n * one, size


def _single(
    rule: Rule, d: Distinct, x: Floats, truth: Floats, a: Floats, noise: Law, reach: int
) -> tuple[_Sums, float, float]:
    """At most one noise that is not 0: one entity of every distinct pair stands for all of them."""
    n = x.size
    k = np.concatenate([np.arange(-reach, 0.0), np.arange(1.0, reach + 1)])
    p0 = float(noise.density(0.0))
    chance = np.asarray(noise.density(k)) * p0 ** (n - 1)
    sums = _Sums(np.zeros(n), np.zeros(n), np.zeros(n))
    sums.add(rule, x[None, :], np.array([p0**n]), truth, a)
    first = np.unique(d.inverse, return_index=True)[1]
    for pair, i in enumerate(first):
        cancel.check()
        rows = np.tile(x, (k.size, 1))
        rows[:, i] += k
        v = rule(rows)
        others = np.flatnonzero(d.inverse == pair)
        many = float(others.size)
        for out, value in ((sums.bias, v - truth), (sums.mse, (v - truth) ** 2), (sums.zero, (v == 0).astype(float))):
            total = chance @ value
            own = float(total[i])
            # the entity itself, its equals (who see one of many - 1 others perturbed), and everybody else
            twin = float(total[others[others != i][0]]) if many > 1 else 0.0
            total = many * total
            total[others] = own + (many - 1) * twin
            np.add(out, total, out=out)
        sums.degenerate += many * float(chance @ (rows @ a <= 0))
    p = 1 - p0
    left = (n * p) ** 2 + n * 2 * float(noise.sf(float(reach)))
    mean = 2 * float(noise.upper(0.0, 0.0, 1))
    size = n * (n - 1) * p * mean * 2 + n * (
        2 * float(noise.upper(float(reach), 0.0, 1)) + 2 * reach * float(noise.sf(float(reach)))
    )
    return sums, left, size
