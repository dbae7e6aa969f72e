"""Frozen answers: what the verbs return, as frames, JSON and plots."""

from fairpost.results.allocation import Allocation
from fairpost.results.audit import Audit
from fairpost.results.base import CONFIDENTIAL
from fairpost.results.check import Check
from fairpost.results.comparison import Comparison
from fairpost.results.cost import CostOfPrivacy
from fairpost.results.curves import Curve, Plan, Point, Refused
from fairpost.results.projection import Projection
from fairpost.results.schema import schema

__all__ = [
    "CONFIDENTIAL",
    "Allocation",
    "Audit",
    "Check",
    "Comparison",
    "CostOfPrivacy",
    "Curve",
    "Plan",
    "Point",
    "Projection",
    "Refused",
    "schema",
]
