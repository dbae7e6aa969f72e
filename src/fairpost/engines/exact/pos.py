"""PoS."""

from __future__ import annotations

from fairpost.engines.exact.pos_plan import Problem
from fairpost.engines.exact.pos_separated import separated
from fairpost.engines.exact.pos_general import general


def pos(x, a, times, mechanism, rtol=1e-6):
    p = Problem.build(x, a, times, mechanism)
    m = separated(p, rtol)
    return m if m is not None else general(p, rtol)
