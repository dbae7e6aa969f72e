"""Frozen answers: what the verbs return, as frames, files, JSON and plots.

`base` is what every result can do, `documents` the types of their JSON; the rest is one module per verb. Here nothing is computed
but what follows from an answer by arithmetic, no file is read, and only `to_csv`, `to_html` and `to_excel` write one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairpost.lazy import lazily

if TYPE_CHECKING:
    from fairpost.results.allocation import Allocation
    from fairpost.results.audit import Applied, Audit, Found, GroupOutcome, Moments, Overall, Relative
    from fairpost.results.base import CONFIDENTIAL
    from fairpost.results.check import Check
    from fairpost.results.comparison import Comparison
    from fairpost.results.curves import Basis, Curve, Frontier
    from fairpost.results.documents import Point, Refused, Tradeoff, schema
    from fairpost.results.plans import Plan, Plans
    from fairpost.results.points import CostOfPrivacy, Extreme
    from fairpost.results.projection import Projection
    from fairpost.results.targets import Targets, Verdict

__all__ = [
    "CONFIDENTIAL",
    "Allocation",
    "Applied",
    "Audit",
    "Basis",
    "Check",
    "Comparison",
    "CostOfPrivacy",
    "Curve",
    "Extreme",
    "Found",
    "Frontier",
    "GroupOutcome",
    "Moments",
    "Overall",
    "Plan",
    "Plans",
    "Point",
    "Projection",
    "Refused",
    "Relative",
    "Targets",
    "Tradeoff",
    "Verdict",
    "schema",
]

lazily(
    __name__,
    {
        "allocation": ("Allocation",),
        "audit": ("Applied", "Audit", "Found", "GroupOutcome", "Moments", "Overall", "Relative"),
        "base": ("CONFIDENTIAL",),
        "check": ("Check",),
        "comparison": ("Comparison",),
        "curves": ("Basis", "Curve", "Frontier"),
        "documents": ("Point", "Refused", "Tradeoff", "schema"),
        "plans": ("Plan", "Plans"),
        "points": ("CostOfPrivacy", "Extreme"),
        "projection": ("Projection",),
        "targets": ("Targets", "Verdict"),
    },
)
