"""PoS."""

from __future__ import annotations

from fairpost.engines.exact.pos_problem import Problem
from fairpost.engines.exact.pos_separated import separated


def pos(x, a, times, mechanism, rtol=1e-6):
    p=Problem.build(x, a, times, mechanism)
    m=separated(p, rtol)
    return m
