"""Which threshold rules have an integral, and which one."""

from __future__ import annotations

from functools import partial

import numpy as np

from fairpost.engines.closed.shares import otherwise, symmetric
from fairpost.engines.evaluation import Asked, Work
from fairpost.engines.exact.lattice import release as lattice
from fairpost.engines.exact.pos.moments import pos, whole_shares
from fairpost.engines.exact.pos.one import one
from fairpost.engines.exact.pos.problem import Problem
from fairpost.engines.exact.pos.uncut import uncut
from fairpost.engines.exact.registry import EXACT, continuous, whole
from fairpost.engines.exact.simplex.moments import certain, simplex
from fairpost.engines.exact.sums.one import one as cut_one
from fairpost.engines.exact.threshold import counted, erlang, few, lines, product, sets, turned, two
from fairpost.engines.exact.threshold import release as jump
from fairpost.engines.exact.threshold.shares import shares
from fairpost.engines.moments import Counted, Floats, Moments
from fairpost.errors import ToleranceError, UnsupportedError
from fairpost.noise import Law, Threshold
from fairpost.noise.base import LAPLACE
from fairpost.rules import PosThreshold, SimplexThreshold

FEW = 5
"""Up to so many entities with Laplace noise sets of dropped ones are listed before lines are tried."""


def simplex_threshold(
    x: Floats, times: Counted, noise: Law, total: float, rule: Threshold, rtol: float = 1e-6
) -> Moments:
    """Moments of `simplex-threshold` for the distinct counts x, each `times` often, in counts."""
    if total == 0 or int(np.sum(times)) == 1:
        sure = certain(x, times, total)
        return Moments(sure.bias, sure.error, sure.mse, sure.zero)
    if rule.level == 0:
        return simplex(x, times, noise, total, rtol)
    found = cut_one(x, times, noise, total, rule, rtol)
    if found is not None:
        return found
    if noise.discrete:
        return lattice.release(x, times, noise, total, rule, rtol)
    try:
        return jump.release(x, times, noise, total, rule.level, rtol)
    except ToleranceError as error:
        if int(np.sum(times)) == 2 or total <= rule.level:
            raise
        ways = (erlang, few) if noise.code == LAPLACE else (counted, few)
        return otherwise(error, *(partial(way.release, x, times, noise, total, rule.level, rtol) for way in ways))


def covered(name: str, law: Law, rule: Threshold) -> None:
    """Refuse what has no integral: a jump under whole-number noise, a ramp under continuous noise or of another width."""
    if rule.level == 0:
        return
    if law.discrete and not rule.for_whole_numbers:
        raise UnsupportedError(
            f"{name}: under {law.name} noise the exact engine covers a ramp of width 1 only, got the threshold "
            f"{rule.level:g} with steepness {rule.steepness:g}"
        )
    if not law.discrete and rule.steepness != np.inf:
        raise UnsupportedError(
            f"{name}: under {law.name} noise the exact engine covers a jump only, got the steepness {rule.steepness:g}"
        )


@EXACT.register(SimplexThreshold)
def _simplex_threshold(pi: SimplexThreshold, asked: Asked) -> Work:
    d, law, rule = asked.distinct(), asked.law(), pi.rule
    covered(pi.name, law, rule)
    if law.discrete:
        whole(pi.name, law, d.x)
    return d.entities(lambda: simplex_threshold(d.x, d.times, law, pi.C, rule, asked.rtol))


def pos_threshold(
    x: Floats, a: Floats, times: Counted, truth: Floats, noise: Law, rule: Threshold, rtol: float = 1e-6
) -> Moments:
    """Moments of `pos-threshold` for the distinct pairs (x, a), each `times` often, in shares of 1."""
    if rule.level == 0 or int(np.sum(times)) == 1:
        return pos(x, a, times, truth, noise, rtol)
    problem = Problem.build(x, a, times, truth, noise)
    found = uncut(problem, rule.level + rule.width, rtol) or one(problem, rule, rtol)
    if found is not None:
        return found
    covered("pos-threshold", continuous("pos-threshold", noise), rule)
    if int(np.sum(times)) == 2:
        return two.shares(problem, rule.level, rtol)
    try:
        return symmetric(shares(x, a, times, truth, noise, rule.level, rtol))
    except ToleranceError as error:
        ways = [product, lines, sets] if problem.alike else [product, sets]
        if (
            problem.alike and problem.n <= FEW and not problem.gaussian
        ):  # corners of a low order: lines would have to go far up
            ways = [product, sets, lines]
        if problem.gaussian:
            ways.append(turned)
        return otherwise(error, *(partial(way.shares, problem, rule.level, rtol) for way in ways))


@EXACT.register(PosThreshold)
def _pos_threshold(pi: PosThreshold, asked: Asked) -> Work:
    d, law, rule = asked.distinct(pi.problem.a(asked.x.size)), asked.law(), pi.rule
    if law.discrete and asked.x.size > 1:
        return whole_shares(pi, asked, d, rule, smooth=False)
    return d.entities(lambda: pos_threshold(d.x, d.a, d.times, d.truth, law, rule, asked.rtol))
