"""Every lemma, proposition, theorem and corollary of the paper with a computed demonstration."""

from __future__ import annotations

from collections.abc import Callable

from fairpost.paper.demonstration import Demonstration
from fairpost.paper.theorems_allocation import ALLOCATION
from fairpost.paper.theorems_appendix import APPENDIX
from fairpost.paper.theorems_release import RELEASE

STATEMENTS = (*RELEASE, *ALLOCATION, *APPENDIX)


def theorems(tick: Callable[[float], None]) -> tuple[Demonstration, ...]:
    """All of them, in the order of the paper."""
    found = []
    for k, make in enumerate(STATEMENTS, 1):
        found.append(make())
        tick(k / len(STATEMENTS))
    return tuple(found)
