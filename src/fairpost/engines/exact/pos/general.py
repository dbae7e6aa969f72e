"""PoS with nothing assumed about S: three or more entities, S of either sign.

For S < 0 the values -z have the sum -S > 0 and the same projection, so one problem (`pos_side`) serves both signs.
Each side is refined by itself. The sum of its shares must be P(S > 0) or P(S < 0), which a contour integral of one
dimension knows. The work is limited: a rule beyond it is refused before it is computed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from fairpost import cancel
from fairpost.engines.closed.shares import LOOSE, range_error, reached, refusal
from fairpost.engines.exact.pos import opposite, turned
from fairpost.engines.exact.pos.problem import Problem, chance_negative
from fairpost.engines.exact.pos.side import Refined, Side
from fairpost.engines.moments import Floats, Moments
from fairpost.errors import ToleranceError

ROUNDING = 1e-13
WORK = 2e8
"""The most steps (one entity at one node, about 30 ns) that one evaluation may take: some seconds."""
BEGUN = 2.5
"""By how much more where the first of them have been taken: an answer that is late is better than a refusal that is late."""
FIRST = 2000.0
"""Refinement does not begin where the first two stages differ by so many times the tolerance (a usual one: COMMON): the next three gain less,
and are dear ..."""
CHEAP = 4e6
"""... where the first ones took so many steps: all five then take a second."""
ROUGH, LESS = 1e-5, 0.4
"""A tolerance that two or three stages of the five reach, and what part of the work of all they are."""
COMMON = 1e-6
OUTLOOK = 10.0
"""Refinement ends where the finest stage would miss the tolerance by this factor."""


class _TooMuch(ToleranceError):
    """The budget has no room for the next rule."""


class _Budget:
    """Counts what has been spent."""

    def __init__(self, rtol: float) -> None:
        self.spent, self.part = 0.0, LESS if rtol >= ROUGH else 1.0

    def __call__(self, cost: float, ahead: float) -> None:
        """Spend `cost`, or refuse before anything is computed; `ahead` is what will be needed in the end, by all stages."""
        ahead = max(cost, self.part * ahead)
        if self.spent + ahead > (WORK if self.spent == 0 else BEGUN * WORK):
            raise _TooMuch(
                f"pos: a sum of noisy counts that may be negative needs about {self.spent + ahead:.1g} steps here, "
                f"above the {WORK:.0g} that are allowed"
            )
        self.spent += cost


def general(problem: Problem, rtol: float) -> Moments:
    """Moments of PoS; ToleranceError where the stages or the budget end before the tolerance is met."""
    order = np.argsort(problem.times, kind="stable")  # as the kernels want it
    back = np.argsort(order)
    problem = problem.part(order)
    try:
        return _refined(problem, rtol).at(back)
    except ToleranceError as refused:
        if refused.reached is not None:
            refused.reached = tuple(values[back] for values in refused.reached)
        raise


def _refined(problem: Problem, rtol: float) -> Moments:
    """Both sides, refined until the tolerance is met; in the order of the problem."""
    negative = chance_negative(problem)
    budget = _Budget(rtol)
    sides: list[Refined | opposite.Opposite] = [Side(problem, 1 - negative, budget)]
    while True:
        cancel.check()
        bias, error = _joined(sides, problem.shares, negative if len(sides) == 1 else 0.0)
        if reached(bias, error, problem.shares, rtol):
            return _moments(sides, problem.shares, bias, error, negative)
        try:
            _improve(sides, problem, negative, budget, bias, error, rtol)
        except _TooMuch:
            raise refusal("pos", bias, error, rtol, "a finer rule would take too long") from None


def _joined(sides: list[Refined | opposite.Opposite], p: Floats, omitted: float) -> tuple[Floats, Floats]:
    """The biases and their errors; `omitted` bounds what a side that was not looked at could add."""
    first = np.sum([side.sums.first for side in sides], axis=0)
    bias = first - p * sum(side.mass for side in sides)
    return bias, np.sum([side.error for side in sides], axis=0) + omitted + ROUNDING * (p + np.abs(bias))


def _improve(
    sides: list[Refined | opposite.Opposite],
    problem: Problem,
    negative: float,
    budget: _Budget,
    bias: Floats,
    error: Floats,
    rtol: float,
) -> None:
    """Look at the other side where it may matter; else refine the worse one, or say that there is no point."""
    alpha, slack = range_error(bias, error)
    if not np.isfinite(slack):
        raise refusal("pos", bias, error, rtol)
    if len(sides) == 1 and negative > 0.01 * rtol * alpha:
        sides.append(_below(problem, negative, budget))
        return
    worse = max(sides, key=lambda side: float(np.max(side.error)))
    early = worse.stage == 1 and bias.size > 1 and budget.spent > CHEAP
    if early and slack > FIRST * max(rtol, COMMON) * alpha:
        raise refusal("pos", bias, error, rtol, "finer rules would not get there")
    if not worse.improve(OUTLOOK * rtol * alpha if bias.size > 1 else LOOSE * float(problem.shares[0])):
        raise refusal("pos", bias, error, rtol)


def _below(problem: Problem, negative: float, budget: _Budget) -> Refined | opposite.Opposite:
    """The side S < 0: Laplace values have ways of their own there."""
    if opposite.served(problem):
        return opposite.opposite(problem, negative)
    if turned.served(problem):
        return turned.Turned(problem, negative, budget)
    return Side(replace(problem, c=-problem.c), negative, budget)


def _moments(
    sides: list[Refined | opposite.Opposite], p: Floats, bias: Floats, error: Floats, negative: float
) -> Moments:
    """Both sides together."""
    total = sum((side.sums for side in sides[1:]), sides[0].sums)
    mse = np.maximum(total.second - 2 * p * total.first + p * p, 0.0)
    zero = np.clip(total.zero, 0.0, 1.0)
    omitted = negative if len(sides) == 1 else 0.0
    chance = np.sum([side.zero_error for side in sides], axis=0) + omitted + ROUNDING
    spread = np.sum([side.second_error + 2 * p * side.error for side in sides], axis=0) + omitted + 4 * ROUNDING
    stated: dict[str, Any] = {"mse_error": spread, "zero_error": np.minimum(chance, 1.0)}
    return Moments(bias, error, mse, zero, degenerate=negative, nodes=total.nodes, **stated)
