"""prototype"""

from __future__ import annotations

import math

import numpy as np

from fairpost.engines.exact.simplex_law import Population
from fairpost.engines.exact.simplex_rule import Level, below, integrate, window

LEVELS = (
    Level(10, 0.3, 26.0, 28),
    Level(14, 0.2, 31.0, 20),
    Level(20, 0.13, 36.0, 24),
    Level(28, 0.09, 40.0, 28),
    Level(40, 0.06, 43.0, 32),
)


def deficits(population, level):
    win = window(population, 1, level)
    law = win.law
    m, w, out, _, count = integrate(win, 1, level)
    c = m[:, None] - law.x
    unit = population.unit
    base = lambda x: -unit.lower(win.centre - x, 0.0, 1)
    cdf = lambda x: unit.cdf(win.centre - x)
    low, _, _, more = below(win, 1, level)
    D = base(law.x) + w @ (unit.cdf(c) * out) + low
    zero = cdf(law.x) + w @ (unit.density(c) * out) + low
    D = law.at_members(D / base(law.x)) * base(law.members)
    zero = law.at_members(zero / cdf(law.x)) * cdf(law.members)
    return D, zero, count + more, win, m.size


def spreads(population, level):
    win = window(population, 0, level)
    law = win.law
    m, w, out, common, count = integrate(win, 0, level)
    unit = population.unit
    c0 = win.centre - law.x
    u0, u1, u2 = (unit.upper(c0, 0.0, k) for k in range(3))
    base = law.x**2 * unit.cdf(c0) + u2 - 2 * law.x * u1 + law.x**2 * u0
    _, low, extra, more = below(win, 0, level)
    mse = base - 2 * (w @ out + low)
    giant = unit.variance + win.centre**2 - 2 * (w @ common[:, 1] + extra[1])
    mean = win.centre + w @ common[:, 0] + extra[0]
    return law.at_members(mse), giant, mean, count + more, win
