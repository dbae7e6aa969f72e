"""Frozen answers: what the verbs return, as frames, JSON and plots."""

from fairpost.results.audit import CONFIDENTIAL, Audit, CostOfPrivacy
from fairpost.results.curves import Curve, Plan, Point, Refused

__all__ = ["CONFIDENTIAL", "Audit", "CostOfPrivacy", "Curve", "Plan", "Point", "Refused"]
