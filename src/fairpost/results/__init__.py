"""Frozen answers: what the verbs return, as frames, JSON and plots."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairpost.lazy import lazily

if TYPE_CHECKING:
    from fairpost.results.allocation import Allocation
    from fairpost.results.audit import Audit
    from fairpost.results.base import CONFIDENTIAL
    from fairpost.results.check import Check
    from fairpost.results.comparison import Comparison
    from fairpost.results.cost import CostOfPrivacy
    from fairpost.results.curves import Basis, Curve
    from fairpost.results.frontier import Frontier, Tradeoff
    from fairpost.results.groups import GroupOutcome
    from fairpost.results.plans import Plan, Plans
    from fairpost.results.points import Point, Refused
    from fairpost.results.projection import Projection
    from fairpost.results.schema import schema
    from fairpost.results.targets import Targets, Verdict

__all__ = [
    "CONFIDENTIAL",
    "Allocation",
    "Audit",
    "Basis",
    "Check",
    "Comparison",
    "CostOfPrivacy",
    "Curve",
    "Frontier",
    "GroupOutcome",
    "Plan",
    "Plans",
    "Point",
    "Projection",
    "Refused",
    "Targets",
    "Tradeoff",
    "Verdict",
    "schema",
]

lazily(
    __name__,
    {
        "allocation": ("Allocation",),
        "audit": ("Audit",),
        "base": ("CONFIDENTIAL",),
        "check": ("Check",),
        "comparison": ("Comparison",),
        "cost": ("CostOfPrivacy",),
        "curves": ("Basis", "Curve"),
        "frontier": ("Frontier", "Tradeoff"),
        "groups": ("GroupOutcome",),
        "plans": ("Plan", "Plans"),
        "points": ("Point", "Refused"),
        "projection": ("Projection",),
        "schema": ("schema",),
        "targets": ("Targets", "Verdict"),
    },
)
