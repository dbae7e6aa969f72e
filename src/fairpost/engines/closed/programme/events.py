"""Where a law changes its form as the base population y moves: the ends of panels for integrals over a noisy base.

Given y a law is kinked in the count z. Its kinks lie on lines z = c + p y (conditions, bounds of brackets) and where two
alternatives of the entitlement cross. Between events everything is analytic in y. Events are the y

* where two of these lines meet,
* where two alternatives (floor and cap among them) cross on one of these lines, so that a crossing appears or goes,
* where a line or a crossing passes the true count x, on which a density with a cusp (Laplace) stands,
* and y = 0, below which a noisy base counts as 0.

On a line every alternative is linear in y between the points where the line meets a bound, so a crossing is the root of a
linear function between two of them.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from fairpost.engines.moments import Floats
from fairpost.problems.programme import Amount, Brackets, Condition, Nest, Programme

Line = tuple[float, float]
"""(c, p): the count c + p y."""


def conditions(nest: Nest) -> list[Condition]:
    """All conditions of a nest."""
    return [c for p in nest.parts for c in (conditions(p) if isinstance(p, Nest) else [p])]


def _line(amount: Amount) -> Line:
    return (0.0, amount.number / 100) if amount.percent else (amount.number, 0.0)


def _bounds(law: Programme) -> list[Line]:
    """The bounds of all brackets."""
    if law.entitlement is None:
        return []
    return [_line(bound) for option in law.entitlement.larger_of for bound, _ in option.rows]


def steepest(law: Programme) -> float:
    """The largest p: how fast a kink moves with the base."""
    lines = [_line(c.amount) for c in conditions(law.eligible)] + _bounds(law)
    return max((p for _, p in lines), default=0.0)


def events(law: Programme, x: Floats, most: float) -> Floats:
    """The events of each entity up to the base `most`: those of the law (the same for all), then those of its count."""
    lines = list(dict.fromkeys([_line(c.amount) for c in conditions(law.eligible)] + _bounds(law)))
    shared = [0.0]
    for one, two in combinations(lines, 2):
        if one[1] != two[1]:
            shared.append((two[0] - one[0]) / (one[1] - two[1]))
    for c, p in lines:
        shared += _crossings(law, np.array([c]), p, most).ravel().tolist()
    common = np.unique(np.array(shared)[np.isfinite(shared)])
    own = [np.broadcast_to(common, (x.size, common.size))]
    own += [(x / p)[:, None] for _, p in lines if p > 0]
    own.append(_crossings(law, x, 0.0, most))
    return np.concatenate(own, axis=1)


def _crossings(law: Programme, c: Floats, p: float, most: float) -> Floats:
    """The y in (0, most) at which two alternatives cross on the line z = c + p y; NaN where there is none."""
    e = law.entitlement
    none = np.full((c.size, 1), np.nan)
    if e is None:
        return none
    stops = [np.zeros(c.size), np.full(c.size, most)]
    for at, rate in _bounds(law):
        if rate != p:
            stops.append(np.clip((at - c) / (p - rate), 0.0, most))
    y = np.sort(np.stack(stops, axis=1), axis=1)
    z = c[:, None] + p * y
    options: list[Brackets | Amount] = [*e.larger_of, *(end for end in (e.floor, e.cap) if end is not None)]
    found = [none]
    for one, two in combinations([_worth(option, z, y) for option in options], 2):
        gap = one - two
        a, b = gap[:, :-1], gap[:, 1:]
        crosses = (a < 0) & (b > 0) | (a > 0) & (b < 0)
        part = a / np.where(crosses, a - b, 1.0)
        found.append(np.where(crosses, y[:, :-1] + part * np.diff(y, axis=1), np.nan))
    return np.concatenate(found, axis=1)


def _worth(option: Brackets | Amount, z: Floats, y: Floats) -> Floats:
    flat = y.ravel()
    worth = option.of(flat) if isinstance(option, Amount) else option.worth(z.ravel(), flat)
    return worth.reshape(y.shape)
